/* Processing: rate of counters, statistics over a window, threshold; with a state per name. */
#include "node.h"
#include "samples.h"
#include "types.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES_MAX = 100000 }; /* of a node: names come from outside */

struct series {
    char *name;
    uint64_t clock_ns; /* of the last sample, or when the window began; see process_clock */
    double value;      /* the last one */
    double min, max, sum;
    uint64_t count;
};

struct process {
    void *tree; /* of series, by name */
    size_t series_count;
    uint64_t window_ns;
    double above, below;
};

static int series_compare(const void *a, const void *b)
{
    return strcmp(((const struct series *)a)->name, ((const struct series *)b)->name);
}

static void series_free(void *item)
{
    struct series *series = item;

    free(series->name);
    free(series);
}

/*
 * Finds or makes the series of a name; *new_p: the series is new. NULL: no memory, or too many
 * series.
 */
static struct series *process_series(struct process *process, const char *name, int *new_p)
{
    struct series key = {.name = (char *)name}, *series, **found;

    *new_p = 0;
    found = tfind(&key, &process->tree, series_compare);
    if (found != NULL) {
        return *found;
    }
    if (process->series_count >= SERIES_MAX) {
        return NULL;
    }
    series = calloc(1, sizeof(*series));
    if (series == NULL) {
        return NULL;
    }
    series->name = strdup(name);
    if ((series->name == NULL) || (tsearch(series, &process->tree, series_compare) == NULL)) {
        series_free(series);
        return NULL;
    }
    ++process->series_count;
    *new_p = 1;
    return series;
}

/* The clock that differences are taken by. */
static uint64_t process_clock(const struct udmon_metric *metric)
{
    return (metric->clock_ns != 0) ? metric->clock_ns : metric->time_ns;
}

/* Samples that are made from now on have the times of this sample. */
static void process_times(struct samples *samples, const struct udmon_metric *metric)
{
    samples->time_ns = metric->time_ns;
    samples->clock_ns = metric->clock_ns;
}

/* "name{labels}" with a suffix to the name. */
static void process_add(struct samples *samples, const char *name, const char *suffix, double value)
{
    int length = strcspn(name, "{");

    samples_add(samples, 0, value, "%.*s%s%s", length, name, suffix, name + length);
}

static int process_create(struct udmon_node *node, void **state_p)
{
    struct process *process = calloc(1, sizeof(*process));
    double window;

    if (process == NULL) {
        return -ENOMEM;
    }
    if ((udmon_node_number(node, "window", 60, 0.001, 1e6, &window) < 0) ||
        (udmon_node_number(node, "above", INFINITY, -INFINITY, INFINITY, &process->above) < 0) ||
        (udmon_node_number(node, "below", -INFINITY, -INFINITY, INFINITY, &process->below) < 0)) {
        free(process);
        return -EINVAL;
    }
    process->window_ns = window * 1e9;
    *state_p = process;
    return 0;
}

static void process_destroy(void *state)
{
    struct process *process = state;

    tdestroy(process->tree, series_free);
    free(process);
}

/* The growth of a counter per second. After a restart of the counter, one sample is left out. */
static void rate_receive(struct udmon_node *node, void *state, const struct udmon_metric *metrics,
                         size_t count)
{
    struct samples *samples = calloc(1, sizeof(*samples));
    uint64_t clock_ns;
    struct series *series;
    size_t i;
    int is_new;

    if (samples == NULL) {
        return;
    }
    samples->node = node;
    for (i = 0; i < count; ++i) {
        series = metrics[i].counter ? process_series(state, metrics[i].name, &is_new) : NULL;
        if (series == NULL) {
            continue;
        }
        clock_ns = process_clock(&metrics[i]);
        if (!is_new && (clock_ns > series->clock_ns) && (metrics[i].value >= series->value)) {
            process_times(samples, &metrics[i]);
            process_add(samples, metrics[i].name, "_rate",
                        (metrics[i].value - series->value) /
                            ((clock_ns - series->clock_ns) * 1e-9));
        }
        series->clock_ns = clock_ns;
        series->value = metrics[i].value;
    }
    samples_end(samples);
    free(samples);
}

const struct udmon_node_type process_rate = {
    .name = "rate",
    .create = process_create,
    .destroy = process_destroy,
    .receive = rate_receive,
    .has_output = 1,
};

static void window_add(struct series *series, double value)
{
    series->min = ((series->count == 0) || (value < series->min)) ? value : series->min;
    series->max = ((series->count == 0) || (value > series->max)) ? value : series->max;
    series->sum = (series->count == 0) ? value : (series->sum + value);
    ++series->count;
}

/* Minimum, maximum and mean of each window. The first sample of the next window emits them. */
static void window_receive(struct udmon_node *node, void *state, const struct udmon_metric *metrics,
                           size_t count)
{
    struct samples *samples = calloc(1, sizeof(*samples));
    struct process *process = state;
    uint64_t clock_ns;
    struct series *series;
    size_t i;
    int is_new;

    if (samples == NULL) {
        return;
    }
    samples->node = node;
    for (i = 0; i < count; ++i) {
        series = process_series(process, metrics[i].name, &is_new);
        if (series == NULL) {
            continue;
        }
        clock_ns = process_clock(&metrics[i]);
        if (is_new) {
            series->clock_ns = clock_ns;
        } else if ((clock_ns - series->clock_ns) >= process->window_ns) {
            process_times(samples, &metrics[i]);
            process_add(samples, series->name, "_min", series->min);
            process_add(samples, series->name, "_max", series->max);
            process_add(samples, series->name, "_mean", series->sum / series->count);
            series->count = 0;
            series->clock_ns = clock_ns;
        }
        window_add(series, metrics[i].value);
    }
    samples_end(samples);
    free(samples);
}

static const char *const window_options[] = {"window", NULL};

const struct udmon_node_type process_window = {
    .name = "window",
    .options = window_options,
    .create = process_create,
    .destroy = process_destroy,
    .receive = window_receive,
    .has_output = 1,
};

static int threshold_create(struct udmon_node *node, void **state_p)
{
    if ((udmon_node_option(node, "above") == NULL) && (udmon_node_option(node, "below") == NULL)) {
        udmon_node_error(node, NULL, "needs an option \"above\" or \"below\"");
        return -EINVAL;
    }
    return process_create(node, state_p);
}

/* Passes samples above the upper limit or below the lower limit. */
static void threshold_receive(struct udmon_node *node, void *state,
                              const struct udmon_metric *metrics, size_t count)
{
    const struct process *process = state;
    size_t i;

    for (i = 0; i < count; ++i) {
        if ((metrics[i].value > process->above) || (metrics[i].value < process->below)) {
            udmon_node_emit(node, &metrics[i], 1);
        }
    }
}

static const char *const threshold_options[] = {"above", "below", NULL};

const struct udmon_node_type process_threshold = {
    .name = "threshold",
    .options = threshold_options,
    .create = threshold_create,
    .destroy = process_destroy,
    .receive = threshold_receive,
    .has_output = 1,
};
