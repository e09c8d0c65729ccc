#include "api.h"
#include "history.h"
#include "../lib/net/loop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the overview shows of a node, as sums over series of these families. */
enum { SUM_IDLE, SUM_CPU, SUM_FREE, SUM_MEMORY, SUM_LOAD, SUM_IN, SUM_OUT, SUM_RDMA_IN,
       SUM_RDMA_OUT, SUMS };

static const struct {
    const char *family, *with, *without; /* parts of the labels that it has to have, or not */
    int sum;
} sums[] = {
    {"node_cpu_seconds", "mode=\"idle\"", NULL, SUM_IDLE},
    {"node_cpu_seconds", NULL, NULL, SUM_CPU},
    {"node_memory_available_bytes", NULL, NULL, SUM_FREE},
    {"node_memory_MemAvailable_bytes", NULL, NULL, SUM_FREE},
    {"node_memory_total_bytes", NULL, NULL, SUM_MEMORY},
    {"node_memory_MemTotal_bytes", NULL, NULL, SUM_MEMORY},
    {"node_load1", NULL, NULL, SUM_LOAD},
    {"node_network_receive_bytes", NULL, "device=\"lo\"", SUM_IN},
    {"node_network_transmit_bytes", NULL, "device=\"lo\"", SUM_OUT},
    {"node_infiniband_port_data_received_bytes", NULL, NULL, SUM_RDMA_IN},
    {"node_infiniband_port_data_transmitted_bytes", NULL, NULL, SUM_RDMA_OUT},
};

typedef struct overview {
    double value[SUMS];
    int seen[SUMS];
} overview_t;

static void overview_add(series_t *series, void *arg)
{
    size_t i, length = strcspn(series->name, "{");
    const char *labels = series->name + length;
    overview_t *overview = arg;

    if (strncmp(series->name, "node_", 5)) {
        return;
    }
    for (i = 0; i < (sizeof(sums) / sizeof(sums[0])); ++i) {
        if (!strncmp(series->name, sums[i].family, length) && (sums[i].family[length] == '\0') &&
            ((sums[i].with == NULL) || strstr(labels, sums[i].with)) &&
            ((sums[i].without == NULL) || !strstr(labels, sums[i].without))) {
            overview->value[sums[i].sum] += series->counter ? series->rate : series->value;
            overview->seen[sums[i].sum] = 1;
        }
    }
}

static void add_number(struct json_object *object, const char *name, double value)
{
    if (isfinite(value)) { /* JSON has no others */
        json_object_object_add(object, name, json_object_new_double(value));
    }
}

static struct json_object *overview_json(const overview_t *overview)
{
    static const struct {
        const char *name;
        int sum;
    } plain[] = {
        {"load", SUM_LOAD}, {"in", SUM_IN}, {"out", SUM_OUT}, {"rdma_in", SUM_RDMA_IN},
        {"rdma_out", SUM_RDMA_OUT}, {"memory_free", SUM_FREE},
    };
    struct json_object *values = json_object_new_object();
    const double *v = overview->value;
    size_t i;

    if (overview->seen[SUM_IDLE] && (v[SUM_CPU] > 0)) {
        add_number(values, "cpu", 1 - (v[SUM_IDLE] / v[SUM_CPU]));
    }
    if (overview->seen[SUM_FREE] && (v[SUM_MEMORY] > 0)) {
        add_number(values, "memory", 1 - (v[SUM_FREE] / v[SUM_MEMORY]));
    }
    for (i = 0; i < (sizeof(plain) / sizeof(plain[0])); ++i) {
        if (overview->seen[plain[i].sum]) {
            add_number(values, plain[i].name, v[plain[i].sum]);
        }
    }
    return values;
}

static struct json_object *node_json(const host_t *host)
{
    struct json_object *node = json_object_new_object();
    overview_t overview = {0};

    store_each(host, overview_add, &overview);
    json_object_object_add(node, "name", json_object_new_string(host->name));
    json_object_object_add(node, "up", json_object_new_boolean(host->connected > 0));
    json_object_object_add(node, "agents", json_object_new_int(host->connected));
    json_object_object_add(node, "transport", json_object_new_string(host->transport));
    json_object_object_add(node, "address", json_object_new_string(host->address));
    json_object_object_add(node, "received", json_object_new_uint64(host->received));
    json_object_object_add(node, "lost", json_object_new_uint64(host->lost));
    json_object_object_add(node, "series", json_object_new_uint64(host->series_count));
    json_object_object_add(node, "values", overview_json(&overview));
    return node;
}

static int64_t api_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ((int64_t)now.tv_sec * 1000) + (now.tv_nsec / 1000000);
}

struct json_object *api_nodes(store_t *store)
{
    struct json_object *answer = json_object_new_object(), *nodes = json_object_new_array();
    const host_t *host;

    json_object_object_add(answer, "now", json_object_new_int64(api_now_ms()));
    store_reader_begin(store);
    store_lock(store);
    host = LIST_FIRST(&store->hosts);
    store_unlock(store);
    while (host != NULL) { /* nobody is kept from receiving for longer than one node takes */
        store_lock(store);
        json_object_array_add(nodes, node_json(host));
        host = LIST_NEXT(host, list);
        store_unlock(store);
    }
    store_reader_end(store);
    json_object_object_add(answer, "nodes", nodes);
    return answer;
}

static void names_add(series_t *series, void *arg)
{
    json_object_array_add(arg, json_object_new_string(series->name));
}

struct json_object *api_names(store_t *store, const char *node)
{
    struct json_object *names = NULL;
    const host_t *host;

    store_lock(store);
    host = store_find_host(store, node);
    if (host != NULL) {
        names = json_object_new_array();
        store_each(host, names_add, names);
    }
    store_unlock(store);
    return names;
}

/* A line of a chart: the sum of series over time, by steps. */
typedef struct line {
    char *family, *label; /* what its series have in common */
    int series;
    double *sums;
    char *seen;
} line_t;

/* The points of a series: those that fall into one step become their mean. */
typedef struct points {
    struct json_object *array; /* where they go, or NULL: */
    line_t *line;              /* here they are added, from step `first` on */
    int64_t first, num;
    int counter;
    int64_t step_ms, step; /* the current one */
    double last;           /* of a counter */
    int64_t last_ms;       /* 0: none yet */
    double sum;
    int64_t sum_ms;
    int count;
} points_t;

static void points_flush(points_t *points)
{
    int64_t at = points->step - points->first;
    struct json_object *pair;

    if ((points->count > 0) && (points->array != NULL)) {
        pair = json_object_new_array_ext(2);
        json_object_array_add(pair, json_object_new_int64(points->sum_ms / points->count));
        json_object_array_add(pair, json_object_new_double(points->sum / points->count));
        json_object_array_add(points->array, pair);
    } else if ((points->count > 0) && (at >= 0) && (at < points->num)) {
        points->line->sums[at] += points->sum / points->count;
        points->line->seen[at] = 1;
    }
    points->count = 0;
    points->sum = 0;
    points->sum_ms = 0;
}

static void points_add(points_t *points, int64_t time_ms, double value)
{
    double shown = value;
    int known = 1;

    if (points->counter) {
        known = (points->last_ms != 0) && (time_ms > points->last_ms) && (value >= points->last);
        shown = known ? ((value - points->last) * 1000 / (time_ms - points->last_ms)) : 0;
        points->last = value;
        points->last_ms = time_ms;
    }
    if (!known || !isfinite(shown)) {
        return;
    }
    if ((time_ms / points->step_ms) != points->step) {
        points_flush(points);
        points->step = time_ms / points->step_ms;
    }
    points->sum += shown;
    points->sum_ms += time_ms;
    ++points->count;
}

/* The key of a series, or 0. */
static int64_t series_key(sqlite3 *db, const char *node, const char *name, int *counter_p)
{
    sqlite3_stmt *statement;
    int64_t key = 0;

    if (sqlite3_prepare_v2(db, "SELECT series.id, counter FROM series JOIN host"
                               " ON series.host = host.id WHERE host.name = ? AND series.name = ?",
                           -1, &statement, NULL) != SQLITE_OK) {
        return 0;
    }
    sqlite3_bind_text(statement, 1, node, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, name, -1, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        key = sqlite3_column_int64(statement, 0);
        *counter_p = sqlite3_column_int(statement, 1);
    }
    sqlite3_finalize(statement);
    return key;
}

/* Time of the first row of a series in a level; INT64_MAX if there is none. */
static int64_t level_begins(sqlite3 *db, int level, int64_t key)
{
    sqlite3_stmt *statement;
    int64_t time_ms = INT64_MAX;
    char text[160];

    snprintf(text, sizeof(text), "SELECT time_ms FROM %s WHERE series = ? ORDER BY time_ms LIMIT 1",
             history_levels[level].table);
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK) {
        return INT64_MAX;
    }
    sqlite3_bind_int64(statement, 1, key);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        time_ms = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return time_ms;
}

/* Add a level's points of [from, until); returns where the next level goes on. */
static int64_t level_add(sqlite3 *db, int level, int64_t key, int64_t from_ms, int64_t until_ms,
                         points_t *points)
{
    sqlite3_stmt *statement;
    char text[160];

    snprintf(text, sizeof(text), "SELECT time_ms, value FROM %s WHERE series = ? AND time_ms >= ?"
             " AND time_ms < ? ORDER BY time_ms", history_levels[level].table);
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK) {
        return from_ms;
    }
    sqlite3_bind_int64(statement, 1, key);
    sqlite3_bind_int64(statement, 2, from_ms);
    sqlite3_bind_int64(statement, 3, until_ms);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        from_ms = sqlite3_column_int64(statement, 0) + 1;
        points_add(points, from_ms - 1, sqlite3_column_double(statement, 1));
    }
    sqlite3_finalize(statement);
    return from_ms;
}

/*
 * The coarsest level that is fine enough for the points wanted; before it begins, what coarser ones
 * have; after its last step, which is not over yet, the finer ones.
 */
static void levels_add(sqlite3 *db, int64_t key, int64_t from_ms, points_t *points)
{
    int level, best = 0;

    for (level = 1; level < HISTORY_LEVELS; ++level) {
        best = (history_levels[level].step_ms <= points->step_ms) ? level : best;
    }
    for (level = HISTORY_LEVELS - 1; level > best; --level) {
        from_ms = level_add(db, level, key, from_ms, level_begins(db, level - 1, key), points);
    }
    for (; level >= 0; --level) {
        from_ms = level_add(db, level, key, from_ms, INT64_MAX, points);
    }
}

struct json_object *api_series(sqlite3 *db, const char *node, const char *name, long seconds,
                               long points_max)
{
    struct json_object *answer = json_object_new_object();
    points_t points = {.array = json_object_new_array(), .step = -1};
    int64_t span_ms = (int64_t)seconds * 1000, key;

    points.step_ms = (span_ms > points_max) ? (span_ms / points_max) : 1;
    key = series_key(db, node, name, &points.counter);
    if (key != 0) {
        levels_add(db, key, api_now_ms() - span_ms, &points);
        points_flush(&points);
    }
    json_object_object_add(answer, "counter", json_object_new_boolean(points.counter));
    json_object_object_add(answer, "points", points.array);
    return answer;
}

/* ---- lines of a chart ------------------------------------------------------------------------ */

typedef struct lines {
    const char *by;     /* label, or NULL */
    line_t *list;
    int num, left_out;  /* series for which there was no line any more */
    int no_memory;
    points_t points;    /* of the series at hand */
} lines_t;

/* The value of a label in {...}, as it is written there. */
static const char *label_value(const char *labels, const char *label, size_t *length)
{
    size_t size = strlen(label);
    const char *at, *end;

    for (at = strstr(labels, label); at != NULL; at = strstr(at + 1, label)) {
        if (((at[-1] == '{') || (at[-1] == ',')) && !strncmp(at + size, "=\"", 2)) {
            at += size + 2;
            for (end = at; (*end != '\0') && (*end != '"'); ++end) {
                end += (*end == '\\') && (end[1] != '\0');
            }
            *length = (size_t)(end - at);
            return at;
        }
    }
    *length = 0;
    return "";
}

static void lines_free(lines_t *lines)
{
    int i;

    for (i = 0; i < lines->num; ++i) {
        free(lines->list[i].family);
        free(lines->list[i].label);
        free(lines->list[i].sums);
        free(lines->list[i].seen);
    }
    free(lines->list);
}

/* The line that a series belongs to, which may be a new one. NULL: there are enough, or no memory. */
static line_t *lines_find(lines_t *lines, const char *name)
{
    size_t family = strcspn(name, "{"), length = 0;
    const char *label = (lines->by != NULL) && (name[family] == '{') ?
                            label_value(name + family + 1, lines->by, &length) : "";
    line_t *line;
    int i;

    for (i = 0; i < lines->num; ++i) {
        line = &lines->list[i];
        if ((strlen(line->family) == family) && !memcmp(line->family, name, family) &&
            (strlen(line->label) == length) && !memcmp(line->label, label, length)) {
            return line;
        }
    }
    if (lines->num == API_LINES_MAX) {
        ++lines->left_out;
        return NULL;
    }
    line = &lines->list[lines->num++];
    *line = (line_t) {
        .family = strndup(name, family), .label = strndup(label, length),
        .sums = calloc((size_t)lines->points.num, sizeof(*line->sums)),
        .seen = calloc((size_t)lines->points.num, 1)
    };
    lines->no_memory |= (line->family == NULL) || (line->label == NULL) || (line->sums == NULL) ||
                        (line->seen == NULL);
    return lines->no_memory ? NULL : line;
}

static void lines_add_series(lines_t *lines, sqlite3 *db, int64_t key, const char *name, int counter)
{
    points_t *points = &lines->points;

    points->line = lines_find(lines, name);
    if (points->line == NULL) {
        return;
    }
    ++points->line->series;
    points->counter = counter;
    points->step = -1;
    points->last_ms = 0;
    levels_add(db, key, points->first * points->step_ms, points);
    points_flush(points);
}

/* All series of a family. */
static void lines_add_family(lines_t *lines, sqlite3 *db, const char *node, const char *family,
                             size_t length)
{
    sqlite3_stmt *statement;

    /* '|' follows '{' */
    if (sqlite3_prepare_v2(db, "SELECT series.id, series.name, counter FROM series JOIN host"
                               " ON series.host = host.id WHERE host.name = ?1 AND (series.name = ?2"
                               " OR (series.name >= ?2 || '{' AND series.name < ?2 || '|'))"
                               " ORDER BY series.name", -1, &statement, NULL) != SQLITE_OK) {
        return;
    }
    sqlite3_bind_text(statement, 1, node, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, family, (int)length, SQLITE_STATIC);
    while (!lines->no_memory && (sqlite3_step(statement) == SQLITE_ROW)) {
        lines_add_series(lines, db, sqlite3_column_int64(statement, 0),
                         (const char *)sqlite3_column_text(statement, 1),
                         sqlite3_column_int(statement, 2));
    }
    sqlite3_finalize(statement);
}

static struct json_object *line_json(const lines_t *lines, const line_t *line)
{
    struct json_object *object = json_object_new_object(), *points = json_object_new_array(), *pair;
    const points_t *p = &lines->points;
    int64_t i;

    for (i = 0; i < p->num; ++i) {
        if (line->seen[i]) {
            pair = json_object_new_array_ext(2);
            json_object_array_add(pair, json_object_new_int64(((p->first + i) * p->step_ms) +
                                                              (p->step_ms / 2)));
            json_object_array_add(pair, json_object_new_double(line->sums[i]));
            json_object_array_add(points, pair);
        }
    }
    json_object_object_add(object, "family", json_object_new_string(line->family));
    json_object_object_add(object, "label", json_object_new_string(line->label));
    json_object_object_add(object, "series", json_object_new_int(line->series));
    json_object_object_add(object, "points", points);
    return object;
}

struct json_object *api_lines(sqlite3 *db, const char *node, const char *families, const char *by,
                              long seconds, long points_max)
{
    int64_t span_ms = (int64_t)seconds * 1000, now_ms = api_now_ms();
    lines_t lines = {.by = by, .list = calloc(API_LINES_MAX, sizeof(*lines.list))};
    struct json_object *answer = NULL, *array;
    size_t length;
    int i;

    lines.points.step_ms = (span_ms > points_max) ? (span_ms / points_max) : 1;
    lines.points.first = (now_ms - span_ms) / lines.points.step_ms;
    lines.points.num = (now_ms / lines.points.step_ms) - lines.points.first + 1;
    lines.no_memory = lines.list == NULL;
    for (; !lines.no_memory && (*families != '\0'); families += length + (families[length] != 0)) {
        length = strcspn(families, ",");
        lines_add_family(&lines, db, node, families, length);
    }
    if (!lines.no_memory) {
        answer = json_object_new_object();
        array = json_object_new_array();
        for (i = 0; i < lines.num; ++i) {
            json_object_array_add(array, line_json(&lines, &lines.list[i]));
        }
        json_object_object_add(answer, "lines", array);
        json_object_object_add(answer, "left_out", json_object_new_int(lines.left_out));
    }
    lines_free(&lines);
    return answer;
}
