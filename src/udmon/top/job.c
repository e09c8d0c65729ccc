#include "job.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { BAR = 40, BARS = 24 /* the time of the job is shown in so many parts */ };

static const char *job_text(struct json_object *object, const char *name)
{
    struct json_object *text;

    return (json_object_object_get_ex(object, name, &text) &&
            json_object_is_type(text, json_type_string)) ?
               json_object_get_string(text) :
               "";
}

/* NAN: there is no number. */
static double job_number(struct json_object *object, const char *name)
{
    struct json_object *number;

    return (json_object_object_get_ex(object, name, &number) &&
            (json_object_is_type(number, json_type_double) ||
             json_object_is_type(number, json_type_int))) ?
               json_object_get_double(number) :
               NAN;
}

static struct json_object *job_array(struct json_object *object, const char *name)
{
    struct json_object *array;

    return (json_object_object_get_ex(object, name, &array) &&
            json_object_is_type(array, json_type_array)) ?
               array :
               NULL;
}

static void job_time(double ms, char text[32])
{
    time_t seconds = isnan(ms) ? 0 : (time_t)(ms / 1000);
    struct tm parts;

    localtime_r(&seconds, &parts);
    strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts);
}

/* A number in its column; "-" if it is not known. */
static void job_cell(FILE *out, int width, double value, const char *format)
{
    char cell[32] = "-";

    if (!isnan(value)) {
        snprintf(cell, sizeof(cell), format, value);
    }
    fprintf(out, " %*s", width, cell);
}

static void job_summary(struct json_object *job, double cpu, FILE *out)
{
    double from_ms = job_number(job, "from_ms"), until_ms = job_number(job, "until_ms");
    double cores = job_number(job, "cores"), imbalance = NAN;
    struct json_object *nodes = job_array(job, "nodes"), *of, *running;
    char from[32], until[32];

    if (json_object_object_get_ex(job, "imbalance", &of)) {
        imbalance = job_number(of, "cpu");
    }
    fprintf(out, "job %s", job_text(job, "job"));
    if (job_text(job, "user")[0] != '\0') {
        fprintf(out, " of %s", job_text(job, "user"));
    }
    if (job_text(job, "partition")[0] != '\0') {
        fprintf(out, " in %s", job_text(job, "partition"));
    }
    fprintf(out, ": %zu nodes, ", json_object_array_length(nodes));
    if (!isnan(from_ms) && !isnan(until_ms)) {
        job_time(from_ms, from);
        job_time(until_ms, until);
        fprintf(out, "%s to %s (%.0f s), ", from, until, (until_ms - from_ms) / 1000);
    }
    fprintf(
        out, "%s\n",
        (json_object_object_get_ex(job, "running", &running) && json_object_get_boolean(running)) ?
            "running" :
            "ended");
    fprintf(out, "processors: %.1f busy", cpu);
    if (!isnan(cores) && (cores > 0)) {
        fprintf(out, " of %.0f (%.0f %%), %.1f idle", cores, 100 * cpu / cores, cores - cpu);
    }
    if (!isnan(imbalance)) {
        fprintf(out, "; the busiest node has %.2f times the mean", imbalance);
    }
    fprintf(out, "\n\n");
}

/* The columns of a node behind its name */
static const struct {
    const char *title, *name;
    double scale;
    const char *format;
} columns[] = {
    {"cores", "cores", 1, "%.0f"},
    {"busy", "cpu", 1, "%.1f"},
    {"MiB", "memory", 1.0 / (1 << 20), "%.0f"},
    {"in kB/s", "network_in", 1e-3, "%.1f"},
    {"out kB/s", "network_out", 1e-3, "%.1f"},
    {"rdma in", "rdma_in", 1e-3, "%.1f"},
    {"rdma out", "rdma_out", 1e-3, "%.1f"},
    {"read", "read", 1e-3, "%.1f"},
    {"written", "written", 1e-3, "%.1f"},
};

static void job_nodes(struct json_object *nodes, FILE *out)
{
    const size_t count = sizeof(columns) / sizeof(columns[0]);
    struct json_object *node;
    size_t i, k;
    double others;

    fprintf(out, "%-20s", "node");
    for (k = 0; k < count; ++k) {
        fprintf(out, " %9s", columns[k].title);
    }
    fputc('\n', out);
    for (i = 0; i < json_object_array_length(nodes); ++i) {
        node = json_object_array_get_idx(nodes, i);
        others = job_number(node, "others");
        fprintf(out, "%-20s", job_text(node, "name"));
        for (k = 0; k < count; ++k) {
            job_cell(out, 9, job_number(node, columns[k].name) * columns[k].scale,
                     columns[k].format);
        }
        fprintf(out, "%s\n", (others > 0) ? "  (other jobs, too)" : "");
    }
}

/* The points of a line, or NULL. */
static struct json_object *job_line(struct json_object *job, const char *name)
{
    struct json_object *lines = job_array(job, "lines"), *line;
    size_t i;

    for (i = 0; (lines != NULL) && (i < json_object_array_length(lines)); ++i) {
        line = json_object_array_get_idx(lines, i);
        if (!strcmp(job_text(line, "name"), name)) {
            return job_array(line, "points");
        }
    }
    return NULL;
}

static double point_number(struct json_object *points, size_t point, size_t number)
{
    return json_object_get_double(
        json_object_array_get_idx(json_object_array_get_idx(points, point), number));
}

/* Busy processors over time: a bar for the mean of some points, and the extremes of a node. */
static void job_course(struct json_object *points, FILE *out)
{
    size_t count = json_object_array_length(points), each = (count + BARS - 1) / BARS, i, k;
    double most = 0, sum, least, greatest;
    char text[32];
    size_t used;
    int length;

    for (i = 0; i < count; ++i) {
        sum = point_number(points, i, 1);
        most = (sum > most) ? sum : most;
    }
    fprintf(out, "\n%-20s %9s %9s %9s\n", "time", "busy", "least", "greatest of a node");
    for (i = 0; i < count; i += each) {
        sum = greatest = 0;
        least = INFINITY;
        for (k = i, used = 0; (k < i + each) && (k < count); ++k, ++used) {
            sum += point_number(points, k, 1);
            least = fmin(least, point_number(points, k, 2));
            greatest = fmax(greatest, point_number(points, k, 3));
        }
        job_time(point_number(points, i, 0), text);
        length = (most > 0) ? (int)lrint(BAR * sum / (double)used / most) : 0;
        fprintf(out, "%-20s %9.1f %9.1f %9.1f %.*s\n", text, sum / (double)used, least, greatest,
                length, "########################################");
    }
}

bool job_print(struct json_object *job, FILE *out)
{
    struct json_object *nodes = job_array(job, "nodes"), *points = job_line(job, "cpu");
    double cpu = 0, value;
    size_t i;

    if (nodes == NULL) {
        return false;
    }
    for (i = 0; i < json_object_array_length(nodes); ++i) {
        value = job_number(json_object_array_get_idx(nodes, i), "cpu");
        cpu += isnan(value) ? 0 : value;
    }
    job_summary(job, cpu, out);
    job_nodes(nodes, out);
    if ((points != NULL) && (json_object_array_length(points) > 0)) {
        job_course(points, out);
    }
    return true;
}
