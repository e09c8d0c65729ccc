#include "job.h"
#include "job_older.h"
#include "../lib/metric.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum metric {
    METRIC_CPU,
    METRIC_MEMORY,
    METRIC_NETWORK_IN,
    METRIC_NETWORK_OUT,
    METRIC_RDMA_IN,
    METRIC_RDMA_OUT,
    METRIC_READ,
    METRIC_WRITTEN,
    METRICS
};

static const struct {
    const char *name, *family;
    bool of_job; /* the family has label job; else it is of the whole node */
    bool counter;
} metrics[METRICS + 1] = {
    [METRIC_CPU] = {"cpu", "slurm_job_cpu_seconds", true, true},
    [METRIC_MEMORY] = {"memory", "slurm_job_memory_bytes", true, false},
    [METRIC_NETWORK_IN] = {"network_in", "node_network_receive_bytes", false, true},
    [METRIC_NETWORK_OUT] = {"network_out", "node_network_transmit_bytes", false, true},
    [METRIC_RDMA_IN] = {"rdma_in", "node_infiniband_port_data_received_bytes", false, true},
    [METRIC_RDMA_OUT] = {"rdma_out", "node_infiniband_port_data_transmitted_bytes", false, true},
    [METRIC_READ] = {"read", "slurm_job_io_read_bytes", true, true},
    [METRIC_WRITTEN] = {"written", "slurm_job_io_written_bytes", true, true},
    [METRICS] = {"cores", "slurm_job_cpus", true, false}, /* a value of nodes, without a line */
};

enum { OLDER_DAYS = 365 };

struct node {
    char *name;
    int64_t first_ms, last_ms; /* of the job here */
    double cores;              /* NAN: not known */
    bool local;                /* the collector's own history has the job here */
    int others;                /* if it is local */
    double means[METRICS];
};

/* The nodes' values in a step. */
struct total {
    double sum, least, most;
    int count; /* nodes with a value */
};

struct job {
    const struct api_reader *reader;
    const char *id;
    char user[UDMON_METRIC_NAME_MAX + 1], partition[UDMON_METRIC_NAME_MAX + 1];
    struct node *nodes;
    size_t count;
    int64_t first_ms, last_ms; /* of the job, or of the asked range */
    struct api_steps steps;    /* of one node and metric at a time */
    struct total *totals[METRICS];
    /* Of the engine with older values, for the first steps: */
    struct query_steps older_steps; /* `num` 0: none */
    struct query_table older[METRICS + 1];
    bool no_memory;
};

bool job_id_valid(const char *id)
{
    size_t length = strlen(id);

    return (length > 0) && (length <= JOB_ID_MAX) && (strspn(id, "0123456789_+") == length);
}

/* ---- series ---------------------------------------------------------------------------------- */

/* A series of the database. */
struct found {
    const char *node, *name;
    int64_t key;
    int counter;
};

typedef void (*found_fn)(struct job *job, const struct found *found, void *arg);

enum { ALL = -1 /* series */ };

static bool job_is_spent(const struct job *job)
{
    struct budget *budget = job->reader->budget;

    return (budget != NULL) && budget_spent(budget);
}

/*
 * Calls `each` for at most `most` series with names in [low, high), backwards: from the last one
 * on. `node`: of this node, or NULL. The names of a node are sorted in the database, so the query
 * reads only these.
 */
static void job_each_between(struct job *job, const char *node, const char *low, const char *high,
                             bool backwards, int most, found_fn each, void *arg)
{
    const struct api_reader *reader = job->reader;
    sqlite3_stmt *statement;
    struct found found;
    char query[400];

    snprintf(query, sizeof(query),
             "SELECT host.name, series.name, series.id, counter FROM host CROSS JOIN series"
             " ON series.host = host.id WHERE series.name >= ?1 AND series.name < ?2%s"
             " ORDER BY host.name, series.name %s LIMIT ?4",
             (node != NULL) ? " AND host.name = ?3" : "", backwards ? "DESC" : "ASC");
    if (sqlite3_prepare_v2(reader->db, query, -1, &statement, NULL) != SQLITE_OK) {
        return;
    }
    sqlite3_bind_text(statement, 1, low, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, high, -1, SQLITE_STATIC);
    if (node != NULL) {
        sqlite3_bind_text(statement, 3, node, -1, SQLITE_STATIC);
    }
    sqlite3_bind_int(statement, 4, most);
    while ((sqlite3_step(statement) == SQLITE_ROW) && !job_is_spent(job)) {
        found.node = (const char *)sqlite3_column_text(statement, 0);
        found.name = (const char *)sqlite3_column_text(statement, 1);
        found.key = sqlite3_column_int64(statement, 2);
        found.counter = sqlite3_column_int(statement, 3);
        each(job, &found, arg);
    }
    sqlite3_finalize(statement);
}

/* Calls `each` for the series with names that begin with `begin`. */
static void job_each(struct job *job, const char *node, const char *begin, found_fn each, void *arg)
{
    char end[120];

    snprintf(end, sizeof(end), "%s~", begin);
    job_each_between(job, node, begin, end, false, ALL, each, arg);
}

/* The beginning of the names of a family's series of this job. The sensor writes label job first.
 * */
static void job_begin(const struct job *job, const char *family, char text[100])
{
    snprintf(text, 100, "%s{job=\"%s\"", family, job->id);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void job_labels(struct job *job, const char *name)
{
    const char *at = name + strcspn(name, "{");
    struct udmon_label label;

    while (udmon_label_next(&at, &label)) {
        if (udmon_label_is(&label, "user")) {
            udmon_label_value(&label, job->user, sizeof(job->user));
        } else if (udmon_label_is(&label, "partition")) {
            udmon_label_value(&label, job->partition, sizeof(job->partition));
        }
    }
}

/* Finds or makes a node; the list is in no order. NULL: no memory. */
static struct node *job_get_node(struct job *job, const char *name)
{
    struct node *grown, *node;
    size_t i;

    for (i = job->count; i > 0; --i) {
        if (!strcmp(job->nodes[i - 1].name, name)) {
            return &job->nodes[i - 1];
        }
    }
    grown = realloc(job->nodes, (job->count + 1) * sizeof(*grown));
    job->no_memory |= grown == NULL;
    if (grown == NULL) {
        return NULL;
    }
    job->nodes = grown;
    node = &grown[job->count];
    *node = (struct node){.name = strdup(name), .first_ms = INT64_MAX, .cores = NAN};
    job->no_memory |= node->name == NULL;
    job->count += node->name != NULL;
    return (node->name != NULL) ? node : NULL;
}

static void job_add_time(struct job *job, struct node *node, int64_t first_ms, int64_t last_ms)
{
    node->first_ms = (first_ms < node->first_ms) ? first_ms : node->first_ms;
    node->last_ms = (last_ms > node->last_ms) ? last_ms : node->last_ms;
    job->first_ms = (first_ms < job->first_ms) ? first_ms : job->first_ms;
    job->last_ms = (last_ms > job->last_ms) ? last_ms : job->last_ms;
}

/* A series of memory: the node has the job. Labels may have changed, so there may be several. */
static void job_found_node(struct job *job, const struct found *found, void *arg)
{
    int64_t first_ms, last_ms;
    struct node *node;

    (void)arg;
    if (!api_span(job->reader, found->node, found->name, found->counter, found->key, &first_ms,
                  &last_ms)) {
        return;
    }
    node = job_get_node(job, found->node);
    if (node != NULL) {
        node->local = true;
        job_add_time(job, node, first_ms, last_ms);
        job_labels(job, found->name);
    }
}

/* Counts another job if the times of both jobs on the node overlap. */
static void job_found_other(struct job *job, const struct found *found, void *arg)
{
    int64_t first_ms, last_ms;
    struct node *node = arg;

    if (api_span(job->reader, found->node, found->name, found->counter, found->key, &first_ms,
                 &last_ms)) {
        node->others += (first_ms < node->last_ms) && (last_ms > node->first_ms);
    }
}

/*
 * Counts the other jobs of the node among the JOB_NEIGHBOURS series before and after the job's own
 * series. Jobs at the same time mostly have near numbers, and the query stays short for a long history.
 */
static void job_count_others(struct job *job, struct node *node)
{
    const char *family = metrics[METRIC_MEMORY].family;
    char low[100], own[100], after_own[102], high[102];

    snprintf(low, sizeof(low), "%s{job=\"", family);
    job_begin(job, family, own);
    snprintf(after_own, sizeof(after_own), "%s~", own);
    snprintf(high, sizeof(high), "%s~", low);
    job_each_between(job, node->name, low, own, true, JOB_NEIGHBOURS, job_found_other, node);
    job_each_between(job, node->name, after_own, high, false, JOB_NEIGHBOURS, job_found_other,
                     node);
}

/* ---- older values ---------------------------------------------------------------------------- */

static int node_compare(const void *left, const void *right)
{
    const struct node *a = left, *b = right;

    return strcmp(a->name, b->name);
}

/* The steps of a row with values: from the begin of the first to the end of the last. */
static void job_add_row(struct job *job, const struct query_steps *steps,
                        const struct query_row *row)
{
    const char *name = older_label(row, "node");
    int64_t i, first = -1, last = -1, last_ms;
    struct node *node;

    for (i = 0; i < steps->num; ++i) {
        if (!isnan(row->values[i])) {
            first = (first < 0) ? i : first;
            last = i;
        }
    }
    node = ((first >= 0) && (name[0] != '\0')) ? job_get_node(job, name) : NULL;
    if (node != NULL) {
        last_ms = (steps->first + last + 1) * steps->step_ms;
        /* The local history knows the end exactly. */
        job_add_time(job, node, (steps->first + first) * steps->step_ms,
                     node->local ? node->last_ms : last_ms);
        if (job->user[0] == '\0') {
            snprintf(job->user, sizeof(job->user), "%s", older_label(row, "user"));
            snprintf(job->partition, sizeof(job->partition), "%s", older_label(row, "partition"));
        }
    }
}

/* Finds what the engine knows of the job. Returns whether its values are needed. */
static bool job_find_older(struct job *job, const struct api_range *range, int64_t now_ms)
{
    struct older *older = job->reader->older;
    int64_t from_ms = now_ms - (INT64_C(86400000) * OLDER_DAYS);
    struct query_table table;
    struct query_steps steps;
    size_t i;

    from_ms = (range->from_ms > from_ms) ? range->from_ms : from_ms;
    if ((older == NULL) || (from_ms >= older->end_ms) ||
        ((job->count > 0) && (job->first_ms > older->end_ms)) ||
        !job_older_find(older, job->id, from_ms, older->end_ms, &steps, &table)) {
        return false;
    }
    for (i = 0; i < table.count; ++i) {
        job_add_row(job, &steps, &table.rows[i]);
    }
    query_free(&table);
    if (job->count > 0) {
        qsort(job->nodes, job->count, sizeof(*job->nodes), node_compare);
    }
    return true;
}

/* Asks for the values of all nodes in the steps that the engine has. */
static void job_ask_older(struct job *job)
{
    const char **nodes = calloc(job->count, sizeof(*nodes));
    struct job_older_family family;
    size_t i;

    job->older_steps =
        (struct query_steps){.step_ms = job->steps.step_ms, .first = job->steps.first};
    job->older_steps.num = (job->reader->older->end_ms / job->steps.step_ms) - job->steps.first + 1;
    if (job->older_steps.num > job->steps.num) {
        job->older_steps.num = job->steps.num;
    }
    job->no_memory |= nodes == NULL;
    for (i = 0; (nodes != NULL) && (i < job->count); ++i) {
        nodes[i] = job->nodes[i].name;
    }
    for (i = 0; (nodes != NULL) && (i <= METRICS) && (job->older_steps.num > 0); ++i) {
        family = (struct job_older_family){.name = metrics[i].family,
                                           .counter = metrics[i].counter,
                                           .job = metrics[i].of_job ? job->id : NULL};
        job_older_read(job->reader->older, &family, nodes, job->count, &job->older_steps,
                       &job->older[i]);
    }
    free(nodes);
}

/* The engine's values of a node replace those of the steps. */
static void node_add_older(const struct job *job, const struct node *node, int metric)
{
    const struct query_table *table = &job->older[metric];
    const struct query_row *row;
    int64_t step;
    size_t i;

    for (i = 0; i < table->count; ++i) {
        row = &table->rows[i];
        for (step = 0;
             (step < job->older_steps.num) && !strcmp(older_label(row, "node"), node->name);
             ++step) {
            if (isfinite(row->values[step])) {
                job->steps.sums[step] = row->values[step];
                job->steps.seen[step] = 1;
            }
        }
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Memory for one node and the sums of all: it does not grow with the number of nodes. */
static bool job_open_steps(struct job *job)
{
    struct api_steps *steps = &job->steps;
    bool open;
    int i;

    steps->sums = calloc((size_t)steps->num, sizeof(*steps->sums));
    steps->seen = calloc((size_t)steps->num, 1);
    open = (steps->sums != NULL) && (steps->seen != NULL);
    for (i = 0; i < METRICS; ++i) {
        job->totals[i] = open ? calloc((size_t)steps->num, sizeof(*job->totals[i])) : NULL;
        open = (job->totals[i] != NULL);
    }
    return open;
}

static void job_close_steps(struct job *job)
{
    int i;

    free(job->steps.sums);
    free(job->steps.seen);
    for (i = 0; i < METRICS; ++i) {
        free(job->totals[i]);
    }
}

static void job_found_values(struct job *job, const struct found *found, void *arg)
{
    if (strstr(found->name, "device=\"lo\"") == NULL) {
        api_add_series(job->reader, found->node, found->name, found->counter, found->key, arg);
    }
}

/* Mean of the steps with a value in the time of the job on the node; NAN if there is none. */
static double node_mean(const struct node *node, const struct api_steps *steps)
{
    int64_t i, at_ms, count = 0;
    double sum = 0;

    for (i = 0; i < steps->num; ++i) {
        at_ms = (steps->first + i) * steps->step_ms;
        if (steps->seen[i] && (at_ms + steps->step_ms > node->first_ms) &&
            (at_ms <= node->last_ms)) {
            sum += steps->sums[i];
            ++count;
        }
    }
    return (count > 0) ? (sum / (double)count) : NAN;
}

/* Reads the series whose names begin so into the steps, and returns the mean. */
static double node_read_family(struct job *job, const struct node *node, const char *begin,
                               int metric)
{
    const struct api_steps *steps = &job->steps;

    memset(steps->sums, 0, (size_t)steps->num * sizeof(*steps->sums));
    memset(steps->seen, 0, (size_t)steps->num);
    job_each(job, node->name, begin, job_found_values, &job->steps);
    node_add_older(job, node, metric);
    return node_mean(node, steps);
}

/* Adds the steps of a node to the steps of all nodes. */
static void totals_add(struct total *totals, const struct api_steps *steps)
{
    struct total *total;
    double value;
    int64_t i;

    for (i = 0; i < steps->num; ++i) {
        total = &totals[i];
        value = steps->sums[i];
        if (steps->seen[i]) {
            total->sum += value;
            total->least = ((total->count == 0) || (value < total->least)) ? value : total->least;
            total->most = ((total->count == 0) || (value > total->most)) ? value : total->most;
            ++total->count;
        }
    }
}

static void node_read(struct job *job, struct node *node)
{
    char begin[100];
    int i;

    for (i = 0; i < METRICS; ++i) {
        if (metrics[i].of_job) {
            job_begin(job, metrics[i].family, begin);
        } else {
            snprintf(begin, sizeof(begin), "%s{", metrics[i].family);
        }
        node->means[i] = node_read_family(job, node, begin, i);
        totals_add(job->totals[i], &job->steps);
    }
    job_begin(job, metrics[METRICS].family, begin);
    node->cores = node_read_family(job, node, begin, METRICS);
    if (node->local) {
        job_count_others(job, node);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* NAN becomes null. */
static void json_number(struct json_object *object, const char *name, double value)
{
    json_object_object_add(object, name, isnan(value) ? NULL : json_object_new_double(value));
}

static struct json_object *node_json(const struct node *node)
{
    struct json_object *object = json_object_new_object();
    int i;

    json_object_object_add(object, "name", json_object_new_string(node->name));
    json_object_object_add(object, "from_ms", json_object_new_int64(node->first_ms));
    json_object_object_add(object, "until_ms", json_object_new_int64(node->last_ms));
    json_number(object, "cores", node->cores);
    json_object_object_add(object, "others",
                           node->local ? json_object_new_int(node->others) : NULL);
    for (i = 0; i < METRICS; ++i) {
        json_number(object, metrics[i].name, node->means[i]);
    }
    return object;
}

/* Sum, least and greatest value, and number of the nodes in a step; NULL: no node has a value. */
static struct json_object *job_point(const struct job *job, int metric, int64_t step)
{
    const struct total *total = &job->totals[metric][step];
    struct json_object *point;

    if (total->count == 0) {
        return NULL;
    }
    point = json_object_new_array_ext(5);
    json_object_array_add(point,
                          json_object_new_int64(((job->steps.first + step) * job->steps.step_ms) +
                                                (job->steps.step_ms / 2)));
    json_object_array_add(point, json_object_new_double(total->sum));
    json_object_array_add(point, json_object_new_double(total->least));
    json_object_array_add(point, json_object_new_double(total->most));
    json_object_array_add(point, json_object_new_int(total->count));
    return point;
}

static struct json_object *job_lines(const struct job *job)
{
    struct json_object *lines = json_object_new_array(), *line, *points, *point;
    int64_t step;
    int i;

    for (i = 0; i < METRICS; ++i) {
        points = json_object_new_array();
        for (step = 0; step < job->steps.num; ++step) {
            point = job_point(job, i, step);
            if (point != NULL) {
                json_object_array_add(points, point);
            }
        }
        line = json_object_new_object();
        json_object_object_add(line, "name", json_object_new_string(metrics[i].name));
        json_object_object_add(line, "points", points);
        json_object_array_add(lines, line);
    }
    return lines;
}

/* The greatest value of a node divided by the mean of the nodes; NAN if nothing is known. */
static double job_imbalance(const struct job *job, int metric)
{
    double sum = 0, most = 0, value;
    size_t i, count = 0;

    for (i = 0; i < job->count; ++i) {
        value = job->nodes[i].means[metric];
        if (!isnan(value)) {
            sum += value;
            most = (value > most) ? value : most;
            ++count;
        }
    }
    return (sum > 0) ? (most * (double)count / sum) : NAN;
}

static struct json_object *job_answer(const struct job *job, bool running)
{
    struct json_object *answer = json_object_new_object(), *nodes = json_object_new_array();
    struct json_object *imbalance = json_object_new_object();
    double cores = 0;
    size_t i;

    for (i = 0; i < METRICS; ++i) {
        json_number(imbalance, metrics[i].name, job_imbalance(job, (int)i));
    }
    for (i = 0; i < job->count; ++i) {
        cores += job->nodes[i].cores; /* NAN if one is not known */
        json_object_array_add(nodes, node_json(&job->nodes[i]));
    }
    json_object_object_add(answer, "job", json_object_new_string(job->id));
    json_object_object_add(answer, "user", json_object_new_string(job->user));
    json_object_object_add(answer, "partition", json_object_new_string(job->partition));
    json_object_object_add(answer, "from_ms", json_object_new_int64(job->first_ms));
    json_object_object_add(answer, "until_ms", json_object_new_int64(job->last_ms));
    json_object_object_add(answer, "running", json_object_new_boolean(running));
    json_number(answer, "cores", cores);
    json_object_object_add(answer, "imbalance", imbalance);
    json_object_object_add(answer, "nodes", nodes);
    json_object_object_add(answer, "lines", job_lines(job));
    api_add_older(answer, job->reader);
    return answer;
}

/* The time that is asked for: the job's own, unless the range says another. */
static void job_range(struct job *job, const struct api_range *range)
{
    struct api_range own = *range;

    job->first_ms = (range->from_ms > 0) ? range->from_ms : job->first_ms;
    job->last_ms = (range->until_ms > 0) ? range->until_ms : job->last_ms;
    job->last_ms = (job->last_ms > job->first_ms) ? job->last_ms : (job->first_ms + 1);
    own.from_ms = job->first_ms;
    own.until_ms = job->last_ms;
    job->steps.step_ms = api_step_ms(&own);
    job->steps.first = job->first_ms / job->steps.step_ms;
    job->steps.num = (job->last_ms / job->steps.step_ms) - job->steps.first + 1;
}

int job_json(const struct api_reader *reader, const char *id, const struct api_range *range,
             int64_t now_ms, struct json_object **answer_p)
{
    struct job job = {.reader = reader, .id = id, .first_ms = INT64_MAX};
    char begin[100];
    bool running, older;
    size_t i;
    int ret = -ENOENT;

    job_begin(&job, metrics[METRIC_MEMORY].family, begin);
    job_each(&job, NULL, begin, job_found_node, NULL);
    older = job_find_older(&job, range, now_ms);
    if (job.count > 0) {
        running = (now_ms - job.last_ms) < JOB_RUNNING_MS;
        job_range(&job, range);
        job.no_memory |= !job_open_steps(&job);
        if (older && !job.no_memory) {
            job_ask_older(&job);
        }
        for (i = 0; (i < job.count) && !job.no_memory && !job_is_spent(&job); ++i) {
            node_read(&job, &job.nodes[i]);
        }
        if (!job.no_memory) {
            *answer_p = job_answer(&job, running);
            ret = 0;
        }
        job_close_steps(&job);
    }
    for (i = 0; i < job.count; ++i) {
        free(job.nodes[i].name);
    }
    free(job.nodes);
    for (i = 0; i <= METRICS; ++i) {
        query_free(&job.older[i]);
    }
    return job.no_memory ? -ENOMEM : ret;
}
