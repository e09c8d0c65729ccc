#include "heatmap.h"
#include "api_inside.h"
#include "../lib/net/loop.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum function { SUM, MAX, MEAN, FUNCTIONS };

/* Series of some families that are combined into one value of a node. */
struct part {
    const char *families[2];    /* two names of the same values, or one */
    const char *with, *without; /* parts that the labels must have, or must not have */
    enum function function;
};

/*
 * The values of a node's row in the overview. CPU is one series for each processor here, because
 * the other modes are many: a processor's modes add up to 1.
 */
static const struct metric {
    const char *name;
    struct part part, whole; /* `whole`: or none */
    bool rest;               /* 1 - part, or 1 - part / whole */
} metrics[] = {
    {.name = "cpu",
     .part = {.families = {"node_cpu_seconds"}, .with = "mode=\"idle\"", .function = MEAN},
     .rest = true},
    {.name = "memory",
     .part = {.families = {"node_memory_available_bytes", "node_memory_MemAvailable_bytes"}},
     .whole = {.families = {"node_memory_total_bytes", "node_memory_MemTotal_bytes"}},
     .rest = true},
    {.name = "memory_free",
     .part = {.families = {"node_memory_available_bytes", "node_memory_MemAvailable_bytes"}}},
    {.name = "load", .part = {.families = {"node_load1"}}},
    {.name = "in",
     .part = {.families = {"node_network_receive_bytes"}, .without = "device=\"lo\""}},
    {.name = "out",
     .part = {.families = {"node_network_transmit_bytes"}, .without = "device=\"lo\""}},
    {.name = "rdma_in", .part = {.families = {"node_infiniband_port_data_received_bytes"}}},
    {.name = "rdma_out", .part = {.families = {"node_infiniband_port_data_transmitted_bytes"}}},
};

/* A node's series, combined by steps. */
struct sum {
    double *values; /* NAN: none */
    unsigned *counts;
};

struct heatmap {
    const struct api_reader *reader;
    struct metric metric;
    struct api_steps steps; /* of the series at hand */
    struct sum part, whole;
    /* of the part at hand: */
    const char *node;
    const struct part *of;
    struct sum *to;
};

static void heatmap_add(const char *name, int counter, int64_t key, void *arg)
{
    struct heatmap *heatmap = arg;
    const struct api_reader *reader = heatmap->reader;
    const struct part *of = heatmap->of;
    const struct api_steps *steps = &heatmap->steps;
    struct sum *to = heatmap->to;
    int64_t i;

    if (((of->with != NULL) && !strstr(name, of->with)) ||
        ((of->without != NULL) && strstr(name, of->without)) ||
        ((reader->budget != NULL) && budget_spent(reader->budget))) {
        return;
    }
    memset(steps->sums, 0, (size_t)steps->num * sizeof(*steps->sums));
    memset(steps->seen, 0, (size_t)steps->num);
    api_add_series(reader, heatmap->node, name, counter, key, steps);
    for (i = 0; i < steps->num; ++i) {
        if (!steps->seen[i]) {
            continue;
        }
        if (to->counts[i]++ == 0) {
            to->values[i] = steps->sums[i];
        } else if (of->function == MAX) {
            to->values[i] = fmax(to->values[i], steps->sums[i]);
        } else {
            to->values[i] += steps->sums[i];
        }
    }
}

static void heatmap_sum(struct heatmap *heatmap, const struct part *of, struct sum *to)
{
    int64_t i;
    size_t f;

    for (i = 0; i < heatmap->steps.num; ++i) {
        to->values[i] = NAN;
        to->counts[i] = 0;
    }
    heatmap->of = of;
    heatmap->to = to;
    for (f = 0; (f < 2) && (of->families[f] != NULL); ++f) {
        api_each_series(heatmap->reader, heatmap->node, of->families[f], strlen(of->families[f]),
                        heatmap_add, heatmap);
    }
    for (i = 0; (i < heatmap->steps.num) && (of->function == MEAN); ++i) {
        to->values[i] /= to->counts[i];
    }
}

/* A number of three digits, or null. */
static struct json_object *value_json(double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.3g", value);
    return isfinite(value) ? json_object_new_double_s(value, text) : NULL;
}

static struct json_object *heatmap_row(struct heatmap *heatmap, const char *node)
{
    struct json_object *row = json_object_new_object(), *values = json_object_new_array();
    const struct metric *metric = &heatmap->metric;
    double value;
    int64_t i;

    heatmap->node = node;
    heatmap_sum(heatmap, &metric->part, &heatmap->part);
    if (metric->whole.families[0] != NULL) {
        heatmap_sum(heatmap, &metric->whole, &heatmap->whole);
    }
    for (i = 0; i < heatmap->steps.num; ++i) {
        value = heatmap->part.values[i];
        if (metric->whole.families[0] != NULL) {
            value /= heatmap->whole.values[i];
        }
        json_object_array_add(values, value_json(metric->rest ? (1 - value) : value));
    }
    json_object_object_add(row, "name", json_object_new_string(node));
    json_object_object_add(row, "values", values);
    return row;
}

/* Finds what a metric is: a value of the overview, or a family. False: no such function. */
static bool heatmap_find(struct metric *metric, const struct heatmap_query *query)
{
    static const char *const functions[FUNCTIONS] = {"sum", "max", "mean"};
    int function = SUM;
    size_t i;

    for (i = 0; i < (sizeof(metrics) / sizeof(metrics[0])); ++i) {
        if (!strcmp(query->metric, metrics[i].name)) {
            *metric = metrics[i];
            return true;
        }
    }
    while ((query->function != NULL) && (function < FUNCTIONS) &&
           strcmp(query->function, functions[function])) {
        ++function;
    }
    *metric = (struct metric){.part = {.families = {query->metric}, .function = function}};
    return function < FUNCTIONS;
}

static bool sum_init(struct sum *sum, size_t steps)
{
    sum->values = calloc(steps, sizeof(*sum->values));
    sum->counts = calloc(steps, sizeof(*sum->counts));
    return (sum->values != NULL) && (sum->counts != NULL);
}

static bool heatmap_init(struct heatmap *heatmap, const struct heatmap_query *query)
{
    struct api_steps *steps = &heatmap->steps;

    steps->step_ms = api_step_ms(&query->range);
    steps->first = query->range.from_ms / steps->step_ms;
    steps->num = (query->range.until_ms / steps->step_ms) - steps->first + 1;
    steps->sums = calloc((size_t)steps->num, sizeof(*steps->sums));
    steps->seen = calloc((size_t)steps->num, 1);
    return heatmap_find(&heatmap->metric, query) && (steps->sums != NULL) &&
           (steps->seen != NULL) && sum_init(&heatmap->part, (size_t)steps->num) &&
           sum_init(&heatmap->whole, (size_t)steps->num);
}

static void heatmap_free(struct heatmap *heatmap)
{
    free(heatmap->steps.sums);
    free(heatmap->steps.seen);
    free(heatmap->part.values);
    free(heatmap->part.counts);
    free(heatmap->whole.values);
    free(heatmap->whole.counts);
}

struct json_object *heatmap_json(const struct api_reader *reader, const struct heatmap_query *query,
                                 const struct overview_names *names)
{
    uint64_t until_ns = udmon_now_ns() + (HEATMAP_MS * UINT64_C(1000000));
    struct json_object *answer = NULL, *rows;
    struct heatmap heatmap = {.reader = reader};
    size_t i;

    if (heatmap_init(&heatmap, query)) {
        answer = json_object_new_object();
        rows = json_object_new_array();
        for (i = 0; (i < names->count) && ((i == 0) || (udmon_now_ns() < until_ns)); ++i) {
            json_object_array_add(rows, heatmap_row(&heatmap, names->names[i]));
        }
        json_object_object_add(answer, "from_ms",
                               json_object_new_int64(heatmap.steps.first * heatmap.steps.step_ms));
        json_object_object_add(answer, "step_ms", json_object_new_int64(heatmap.steps.step_ms));
        json_object_object_add(answer, "steps", json_object_new_int64(heatmap.steps.num));
        json_object_object_add(answer, "matching", json_object_new_uint64(names->matching));
        json_object_object_add(answer, "rows", rows);
        if (query->offset + i < names->matching) {
            json_object_object_add(answer, "next", json_object_new_uint64(query->offset + i));
        }
    }
    heatmap_free(&heatmap);
    return answer;
}
