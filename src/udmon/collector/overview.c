#include "overview.h"
#include "metrics.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OVERVIEW_NS UINT64_C(1000000000)
enum { OVERVIEW_REST = 9, /* times as long as making it took */ FAMILIES_MAX = 5000 };

/* The values of a node's row, for JSON and for sorting. */
static const char *const value_names[OVERVIEW_NUMBERS] = {
    [OVERVIEW_CPU] = "cpu",           [OVERVIEW_MEMORY] = "memory",
    [OVERVIEW_LOAD] = "load",         [OVERVIEW_IN] = "in",
    [OVERVIEW_OUT] = "out",           [OVERVIEW_RDMA_IN] = "rdma_in",
    [OVERVIEW_RDMA_OUT] = "rdma_out", [OVERVIEW_MEMORY_FREE] = "memory_free",
    [OVERVIEW_LOSS] = "loss",         [OVERVIEW_RECEIVED] = "received",
    [OVERVIEW_LOST] = "lost",         [OVERVIEW_SERIES] = "series",
    [OVERVIEW_STATE] = "state",
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* Sums over the series of these families. */
enum {
    SUM_IDLE,
    SUM_CPU,
    SUM_FREE,
    SUM_MEMORY,
    SUM_LOAD,
    SUM_IN,
    SUM_OUT,
    SUM_RDMA_IN,
    SUM_RDMA_OUT,
    SUMS
};

static const struct {
    const char *family, *with, *without; /* parts that the labels must have, or must not have */
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

struct row_sums {
    double value[SUMS]; /* NAN until there is a series */
    uint64_t oldest_ns;
};

/* Series that have been silent for long say nothing about now. */
static uint64_t overview_oldest(void)
{
    uint64_t now_ns = udmon_now_ns();

    return (now_ns > METRICS_STALE_NS) ? (now_ns - METRICS_STALE_NS) : 1;
}

static double series_now(const struct series *series)
{
    return series->counter ? series->rate : series->value;
}

static bool series_of(const struct series *series, const char *family, size_t length)
{
    return !strncmp(series->name, family, length) &&
           ((series->name[length] == '\0') || (series->name[length] == '{'));
}

static void row_add(struct series *series, void *arg)
{
    struct row_sums *row = arg;
    const char *labels;
    double *value;
    size_t i;

    if (strncmp(series->name, "node_", 5) || (series->arrived_ns < row->oldest_ns)) {
        return;
    }
    for (i = 0; i < (sizeof(sums) / sizeof(sums[0])); ++i) {
        if (!series_of(series, sums[i].family, strlen(sums[i].family))) {
            continue;
        }
        labels = series->name + strlen(sums[i].family);
        if (((sums[i].with == NULL) || strstr(labels, sums[i].with)) &&
            ((sums[i].without == NULL) || !strstr(labels, sums[i].without))) {
            value = &row->value[sums[i].sum];
            *value = series_now(series) + (isnan(*value) ? 0 : *value);
        }
    }
}

static void row_make(struct overview_row *row, const struct host *host)
{
    struct row_sums of = {.oldest_ns = overview_oldest()};
    const double *v = of.value;
    int i;

    for (i = 0; i < SUMS; ++i) {
        of.value[i] = NAN;
    }
    store_each(host, row_add, &of);
    snprintf(row->name, sizeof(row->name), "%s", host->name);
    snprintf(row->transport, sizeof(row->transport), "%s", host->transport);
    snprintf(row->address, sizeof(row->address), "%s", host->address);
    row->agents = host->connected;
    row->values[OVERVIEW_RECEIVED] = host->received;
    row->values[OVERVIEW_LOST] = host->lost;
    row->values[OVERVIEW_SERIES] = host->series_count;
    row->values[OVERVIEW_STATE] = host->connected > 0;
    row->values[OVERVIEW_CPU] = (v[SUM_CPU] > 0) ? (1 - (v[SUM_IDLE] / v[SUM_CPU])) : NAN;
    row->values[OVERVIEW_MEMORY] = (v[SUM_MEMORY] > 0) ? (1 - (v[SUM_FREE] / v[SUM_MEMORY])) : NAN;
    row->values[OVERVIEW_LOAD] = v[SUM_LOAD];
    row->values[OVERVIEW_IN] = v[SUM_IN];
    row->values[OVERVIEW_OUT] = v[SUM_OUT];
    row->values[OVERVIEW_RDMA_IN] = v[SUM_RDMA_IN];
    row->values[OVERVIEW_RDMA_OUT] = v[SUM_RDMA_OUT];
    row->values[OVERVIEW_MEMORY_FREE] = v[SUM_FREE];
    row->values[OVERVIEW_LOSS] = ((host->received + host->lost) > 0) ?
                                     ((double)host->lost / (host->received + host->lost)) :
                                     NAN;
}

static int row_compare(const void *left, const void *right)
{
    return strverscmp(((const struct overview_row *)left)->name,
                      ((const struct overview_row *)right)->name);
}

struct rows {
    struct overview_row *rows;
    size_t count, size, up;
};

static int rows_add(const struct host *host, void *arg)
{
    struct rows *rows = arg;
    struct overview_row *grown;

    if (rows->count == rows->size) {
        rows->size = (rows->size > 0) ? (2 * rows->size) : 64;
        grown = realloc(rows->rows, rows->size * sizeof(*grown));
        if (grown == NULL) {
            return 0;
        }
        rows->rows = grown;
    }
    row_make(&rows->rows[rows->count++], host);
    rows->up += (host->connected > 0);
    return 1;
}

static bool rows_same_names(const struct overview *overview, const struct rows *rows)
{
    size_t i;

    for (i = 0; (i < rows->count) && (rows->count == overview->count); ++i) {
        if (strcmp(rows->rows[i].name, overview->rows[i].name)) {
            return false;
        }
    }
    return rows->count == overview->count;
}

static bool overview_fresh(const struct overview *overview, uint64_t made_ns)
{
    uint64_t rest_ns = OVERVIEW_REST * overview->took_ns;

    return (made_ns != 0) &&
           ((udmon_now_ns() - made_ns) < ((rest_ns > OVERVIEW_NS) ? rest_ns : OVERVIEW_NS));
}

static void overview_refresh(struct overview *overview)
{
    uint64_t begun_ns = udmon_now_ns();
    struct rows rows = {0};

    if (overview_fresh(overview, overview->made_ns)) {
        return;
    }
    store_each_host(overview->store, rows_add, &rows);
    if (rows.count > 0) {
        qsort(rows.rows, rows.count, sizeof(rows.rows[0]), row_compare);
    }
    overview->generation += !rows_same_names(overview, &rows);
    free(overview->rows);
    overview->rows = rows.rows;
    overview->count = rows.count;
    overview->up = rows.up;
    overview->made_ns = udmon_now_ns();
    overview->took_ns = overview->made_ns - begun_ns;
}

void overview_init(struct overview *overview, struct store *store)
{
    memset(overview, 0, sizeof(*overview));
    overview->store = store;
    /*
     * A browser may have an answer of an earlier collector, so generations differ between
     * collectors.
     */
    overview->generation = (uint32_t)time(NULL);
}

void overview_free(struct overview *overview)
{
    int i;

    for (i = 0; i < OVERVIEW_MAPS; ++i) {
        free(overview->maps[i].values);
        free(overview->maps[i].changed);
    }
    free(overview->rows);
}

/* ---- /api/nodes ------------------------------------------------------------------------------ */

static struct json_object *row_json(const struct overview_row *row)
{
    struct json_object *node = json_object_new_object(), *values = json_object_new_object();
    int i;

    json_object_object_add(node, "name", json_object_new_string(row->name));
    json_object_object_add(node, "up", json_object_new_boolean(row->agents > 0));
    json_object_object_add(node, "agents", json_object_new_int(row->agents));
    json_object_object_add(node, "transport", json_object_new_string(row->transport));
    json_object_object_add(node, "address", json_object_new_string(row->address));
    for (i = OVERVIEW_RECEIVED; i <= OVERVIEW_SERIES; ++i) {
        json_object_object_add(node, value_names[i], json_object_new_uint64(row->values[i]));
    }
    for (i = 0; i < OVERVIEW_VALUES; ++i) {
        if (isfinite(row->values[i])) { /* JSON has no others */
            json_object_object_add(values, value_names[i], json_object_new_double(row->values[i]));
        }
    }
    json_object_object_add(node, "values", values);
    return node;
}

/* Columns that are no numbers. */
enum { SORT_NAME = -1, SORT_TRANSPORT = -2, SORT_ADDRESS = -3 };

static int sort_column(const char *name)
{
    int i;

    for (i = 0; (name != NULL) && (i < OVERVIEW_NUMBERS); ++i) {
        if (!strcmp(name, value_names[i])) {
            return i;
        }
    }
    return (name == NULL)             ? SORT_NAME :
           !strcmp(name, "transport") ? SORT_TRANSPORT :
           !strcmp(name, "address")   ? SORT_ADDRESS :
                                        SORT_NAME;
}

static double sort_number(const struct overview_row *row, int column)
{
    return ((column < 0) || isnan(row->values[column])) ? -INFINITY : row->values[column];
}

struct sort {
    int column, descending;
};

static int sort_compare(const void *left, const void *right, void *arg)
{
    const struct overview_row *a = *(const struct overview_row *const *)left;
    const struct overview_row *b = *(const struct overview_row *const *)right;
    const struct sort *sort = arg;
    double x = sort_number(a, sort->column), y = sort_number(b, sort->column);
    int order = (sort->column == SORT_TRANSPORT) ? strcmp(a->transport, b->transport) :
                (sort->column == SORT_ADDRESS)   ? strverscmp(a->address, b->address) :
                (sort->column == SORT_NAME)      ? row_compare(a, b) :
                                                   ((x > y) - (x < y));

    order = sort->descending ? -order : order;
    return (order != 0) ? order : row_compare(a, b);
}

/* The rows that match, in order, and how many of their nodes are up. NULL: no memory. */
static const struct overview_row **overview_select(struct overview *overview,
                                                   const struct overview_query *query,
                                                   size_t *count_p, size_t *up_p)
{
    struct sort sort = {.column = sort_column(query->sort), .descending = query->descending};
    const struct overview_row **rows;
    size_t i, count = 0, up = 0;

    overview_refresh(overview);
    rows = malloc((overview->count + 1) * sizeof(*rows));
    if (rows == NULL) {
        return NULL;
    }
    for (i = 0; i < overview->count; ++i) {
        if ((query->search == NULL) || strcasestr(overview->rows[i].name, query->search)) {
            rows[count++] = &overview->rows[i];
            up += (overview->rows[i].agents > 0);
        }
    }
    qsort_r(rows, count, sizeof(*rows), sort_compare, &sort);
    *count_p = count;
    *up_p = up;
    return rows;
}

int overview_get_names(struct overview *overview, const struct overview_query *query,
                       struct overview_names *names_p)
{
    struct overview_names names = {0};
    const struct overview_row **rows;
    size_t i, up;

    rows = overview_select(overview, query, &names.matching, &up);
    names.names = calloc(overview->count + 1, sizeof(*names.names));
    if ((rows == NULL) || (names.names == NULL)) {
        free(names.names);
        free(rows);
        return -ENOMEM;
    }
    for (i = query->offset; (i < names.matching) && (names.count < query->limit); ++i) {
        memcpy(names.names[names.count++], rows[i]->name, sizeof(*names.names));
    }
    free(rows);
    *names_p = names;
    return 0;
}

struct json_object *overview_get_nodes(struct overview *overview,
                                       const struct overview_query *query)
{
    struct json_object *answer, *nodes;
    const struct overview_row **rows;
    size_t i, count, up;

    rows = overview_select(overview, query, &count, &up);
    if (rows == NULL) {
        return NULL;
    }
    answer = json_object_new_object();
    nodes = json_object_new_array();
    for (i = query->offset; (i < count) && ((i - query->offset) < query->limit); ++i) {
        json_object_array_add(nodes, row_json(rows[i]));
    }
    free(rows);
    json_object_object_add(answer, "now", json_object_new_int64(udmon_time_ns() / 1000000));
    json_object_object_add(answer, "matching", json_object_new_uint64(count));
    json_object_object_add(answer, "up", json_object_new_uint64(up));
    json_object_object_add(answer, "nodes", nodes);
    return answer;
}

/* ---- /api/map -------------------------------------------------------------------------------- */

enum map_function { MAP_SUM, MAP_MAX, MAP_MEAN };

struct family {
    const char *name;
    size_t length;
    enum map_function function;
    uint64_t oldest_ns;
    double value;
    unsigned count;
};

static void family_add(struct series *series, void *arg)
{
    struct family *family = arg;
    double value = series_now(series);

    if (!series_of(series, family->name, family->length) ||
        (series->arrived_ns < family->oldest_ns) || !isfinite(value)) {
        return;
    }
    if (family->count++ == 0) {
        family->value = value;
    } else if (family->function == MAP_MAX) {
        family->value = (value > family->value) ? value : family->value;
    } else {
        family->value += value;
    }
}

static double family_value(const struct store *store, const char *host_name, struct family *family)
{
    const struct host *host = store_find_host((struct store *)store, host_name);

    family->count = 0;
    if (host != NULL) {
        store_each(host, family_add, family);
    }
    return (family->count == 0)           ? NAN :
           (family->function == MAP_MEAN) ? (family->value / family->count) :
                                            family->value;
}

/* Writes the value of a node. A node that is down has no value. */
static void map_write(char text[12], const struct overview_row *row, double value)
{
    snprintf(text, 12, "%s", (row->agents == 0) ? "false" : "null");
    if ((row->agents > 0) && isfinite(value)) {
        snprintf(text, 12, "%.2g", value);
    }
}

static void map_refresh(struct overview *overview, struct overview_map *map, const char *metric,
                        enum map_function function)
{
    struct family family = {.name = metric,
                            .length = strlen(metric),
                            .function = function,
                            .oldest_ns = overview_oldest()};
    int column = sort_column(metric);
    char text[12];
    double value;
    size_t i;

    ++overview->version;
    for (i = 0; i < overview->count; ++i) {
        if ((column >= 0) && (column < OVERVIEW_VALUES)) {
            value = overview->rows[i].values[column];
        } else {
            store_lock(overview->store);
            value = family_value(overview->store, overview->rows[i].name, &family);
            store_unlock(overview->store);
        }
        map_write(text, &overview->rows[i], value);
        if (strcmp(text, map->values[i])) {
            memcpy(map->values[i], text, sizeof(text));
            map->changed[i] = overview->version;
        }
    }
    map->made_ns = udmon_now_ns();
}

/* Finds the map of a metric, or reuses the oldest map. NULL: no memory. */
static struct overview_map *map_find(struct overview *overview, const char *what)
{
    struct overview_map *map = &overview->maps[0];
    int i;

    for (i = 0; i < OVERVIEW_MAPS; ++i) {
        if (!strcmp(overview->maps[i].what, what)) {
            map = &overview->maps[i];
            break;
        }
        map = (overview->maps[i].made_ns < map->made_ns) ? &overview->maps[i] : map;
    }
    if (!strcmp(map->what, what) && (map->generation == overview->generation)) {
        return map;
    }
    free(map->values);
    free(map->changed);
    map->values = calloc(overview->count + 1, sizeof(*map->values));
    map->changed = calloc(overview->count + 1, sizeof(*map->changed));
    map->made_ns = 0;
    map->generation = overview->generation;
    snprintf(map->what, sizeof(map->what), "%s", what);
    if ((map->values == NULL) || (map->changed == NULL)) {
        map->what[0] = '\0';
        return NULL;
    }
    return map;
}

static struct json_object *map_json(const struct overview *overview, const struct overview_map *map,
                                    int whole, uint32_t since)
{
    struct json_object *answer = json_object_new_object(), *names = json_object_new_array();
    struct json_object *at = json_object_new_array(), *values = json_object_new_array();
    size_t i;

    for (i = 0; i < overview->count; ++i) {
        if (whole) {
            json_object_array_add(names, json_object_new_string(overview->rows[i].name));
        } else if (map->changed[i] > since) {
            json_object_array_add(at, json_object_new_uint64(i));
        }
        if (whole || (map->changed[i] > since)) {
            /* the unchanged text: a number of two digits */
            json_object_array_add(values, json_object_new_double_s(0, map->values[i]));
        }
    }
    json_object_object_add(answer, "generation", json_object_new_uint64(overview->generation));
    json_object_object_add(answer, "version", json_object_new_uint64(overview->version));
    json_object_object_add(answer, "up", json_object_new_uint64(overview->up));
    json_object_object_add(answer, whole ? "names" : "at", whole ? names : at);
    json_object_put(whole ? at : names);
    json_object_object_add(answer, "values", values);
    return answer;
}

struct json_object *overview_get_map(struct overview *overview, const char *metric,
                                     const char *function, uint32_t generation, uint32_t version)
{
    static const char *const functions[] = {"sum", "max", "mean"};
    char what[sizeof(overview->maps[0].what)];
    struct overview_map *map;
    int f = 0;

    while ((function != NULL) && (f <= MAP_MEAN) && strcmp(function, functions[f])) {
        ++f;
    }
    if ((f > MAP_MEAN) || (strlen(metric) > UDMON_METRIC_NAME_MAX)) {
        return NULL;
    }
    overview_refresh(overview);
    snprintf(what, sizeof(what), "%s %s", functions[f], metric);
    map = map_find(overview, what);
    if (map == NULL) {
        return NULL;
    }
    if (!overview_fresh(overview, map->made_ns)) {
        map_refresh(overview, map, metric, f);
    }
    return map_json(overview, map, generation != overview->generation, version);
}

/* ---- /api/families --------------------------------------------------------------------------- */

struct families {
    void *tree; /* of names */
    size_t count;
    const char *last; /* series are sorted, so the series of a family are adjacent */
    size_t last_length;
};

static int name_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void families_add(struct series *series, void *arg)
{
    size_t length = strcspn(series->name, "{");
    struct families *families = arg;
    char name[UDMON_METRIC_NAME_MAX + 1], *copy;

    if ((families->last != NULL) && (length == families->last_length) &&
        !strncmp(series->name, families->last, length)) {
        return;
    }
    families->last = series->name;
    families->last_length = length;
    snprintf(name, sizeof(name), "%.*s", (int)length, series->name);
    if ((families->count == FAMILIES_MAX) || (tfind(name, &families->tree, name_compare) != NULL)) {
        return;
    }
    copy = strdup(name);
    if ((copy != NULL) && (tsearch(copy, &families->tree, name_compare) != NULL)) {
        ++families->count;
    } else {
        free(copy);
    }
}

static int families_host(const struct host *host, void *arg)
{
    ((struct families *)arg)->last = NULL;
    store_each(host, families_add, arg);
    return 1;
}

static void families_visit(const void *node, VISIT which, void *list)
{
    if ((which == postorder) || (which == leaf)) {
        json_object_array_add(list, json_object_new_string(*(const char *const *)node));
    }
}

struct json_object *overview_get_families(struct overview *overview)
{
    struct json_object *list = json_object_new_array();
    struct families families = {0};

    store_each_host(overview->store, families_host, &families);
    twalk_r(families.tree, families_visit, list);
    tdestroy(families.tree, free);
    return list;
}
