#include "openmetrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One line to come. */
typedef struct line {
    const series_t *series;
    size_t family_length; /* of the name, without labels */
} line_t;

typedef struct lines {
    line_t *lines;
    size_t count, size;
    uint64_t oldest_ns;
} lines_t;

/* The host's name becomes label "node"; a series that has one of its own cannot be shown. */
static int has_node_label(const char *name)
{
    return (strstr(name, "{node=") != NULL) || (strstr(name, ",node=") != NULL);
}

static void lines_add(series_t *series, void *arg)
{
    lines_t *lines = arg;
    line_t *grown;
    size_t size;

    if ((series->time_ns < lines->oldest_ns) || has_node_label(series->name)) {
        return;
    }
    if (lines->count == lines->size) {
        size = (lines->size > 0) ? (2 * lines->size) : 1024;
        grown = realloc(lines->lines, size * sizeof(*grown));
        if (grown == NULL) {
            return;
        }
        lines->lines = grown;
        lines->size = size;
    }
    lines->lines[lines->count].series = series;
    lines->lines[lines->count++].family_length = strcspn(series->name, "{");
}

static int family_compare(const line_t *a, const line_t *b)
{
    size_t shorter = (a->family_length < b->family_length) ? a->family_length : b->family_length;
    int order = strncmp(a->series->name, b->series->name, shorter);

    return (order != 0) ? order : ((a->family_length > b->family_length) -
                                   (a->family_length < b->family_length));
}

/* The lines of a family have to stand together; counters first where hosts disagree. */
static int line_compare(const void *left, const void *right)
{
    const line_t *a = left, *b = right;
    int order = family_compare(a, b);

    order = (order != 0) ? order : (b->series->counter - a->series->counter);
    order = (order != 0) ? order : strcmp(a->series->host->name, b->series->host->name);
    return (order != 0) ? order : strcmp(a->series->name, b->series->name);
}

static void write_value(text_t *text, double value)
{
    if (isnan(value)) {
        text_add(text, "NaN");
    } else if (isinf(value)) {
        text_add(text, (value > 0) ? "+Inf" : "-Inf");
    } else {
        text_add(text, "%.17g", value);
    }
}

static void write_line(const line_t *line, text_t *text)
{
    const series_t *series = line->series;
    const char *labels = series->name + line->family_length;

    text_add(text, "%.*s%s{node=\"%s\"%s%s ", (int)line->family_length, series->name,
             series->counter ? "_total" : "", series->host->name, (*labels == '{') ? "," : "}",
             (*labels == '{') ? (labels + 1) : "");
    write_value(text, series->value);
    text_add(text, " %.3f\n", series->time_ns * 1e-9);
}

static void write_own(const store_t *store, text_t *text)
{
    const host_t *host;

    text_add(text, "# TYPE udmon_node_up gauge\n"
                   "# HELP udmon_node_up Whether an agent of this node is connected.\n");
    LIST_FOREACH(host, &store->hosts, list) {
        text_add(text, "udmon_node_up{node=\"%s\"} %d\n", host->name, host->connected > 0);
    }
    text_add(text, "# TYPE udmon_records_received counter\n"
                   "# HELP udmon_records_received Samples that came from a node.\n");
    LIST_FOREACH(host, &store->hosts, list) {
        text_add(text, "udmon_records_received_total{node=\"%s\"} %llu\n", host->name,
                 (unsigned long long)host->received);
    }
    text_add(text, "# TYPE udmon_records_lost counter\n"
                   "# HELP udmon_records_lost Samples of a node that did not come.\n");
    LIST_FOREACH(host, &store->hosts, list) {
        text_add(text, "udmon_records_lost_total{node=\"%s\"} %llu\n", host->name,
                 (unsigned long long)host->lost);
    }
}

void openmetrics_write(const store_t *store, uint64_t now_ns, uint64_t stale_ns, text_t *text)
{
    lines_t lines = {.oldest_ns = (now_ns > stale_ns) ? (now_ns - stale_ns) : 0};
    const line_t *family = NULL, *line;
    const host_t *host;
    size_t i;

    LIST_FOREACH(host, &store->hosts, list) {
        store_each(host, lines_add, &lines);
    }
    if (lines.count > 0) {
        qsort(lines.lines, lines.count, sizeof(lines.lines[0]), line_compare);
    }
    for (i = 0; i < lines.count; ++i) {
        line = &lines.lines[i];
        if (!strncmp(line->series->name, "udmon_", 6)) {
            continue; /* ours */
        }
        if ((family == NULL) || (family_compare(family, line) != 0)) {
            family = line;
            text_add(text, "# TYPE %.*s %s\n", (int)line->family_length, line->series->name,
                     line->series->counter ? "counter" : "gauge");
        }
        if (line->series->counter == family->series->counter) {
            write_line(line, text);
        }
    }
    free(lines.lines);
    write_own(store, text);
    text_add(text, "# EOF\n");
}
