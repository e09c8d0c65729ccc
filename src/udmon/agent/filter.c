/*
 * Processing that makes less of samples: by name (filter), or one of many (aggregate).
 */
#include "node.h"
#include "samples.h"
#include "types.h"
#include "../lib/metric.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERNS_MAX = 64 };

/* Patterns of the shell, parted by blanks; copied into `text`. */
struct patterns {
    char *text;
    const char *list[PATTERNS_MAX];
    unsigned count;
};

static int patterns_read(struct udmon_node *node, const char *option, struct patterns *patterns)
{
    const char *value = udmon_node_option(node, option);
    char *word, *rest = NULL;

    if (value == NULL) {
        return 0;
    }
    patterns->text = strdup(value);
    if (patterns->text == NULL) {
        return -ENOMEM;
    }
    for (word = strtok_r(patterns->text, " \t", &rest); word != NULL;
         word = strtok_r(NULL, " \t", &rest)) {
        if (patterns->count == PATTERNS_MAX) {
            udmon_node_error(node, option, "more than %d patterns", PATTERNS_MAX);
            return -EINVAL;
        }
        patterns->list[patterns->count++] = word;
    }
    return 0;
}

static bool patterns_match(const struct patterns *patterns, const char *name)
{
    unsigned i;

    for (i = 0; i < patterns->count; ++i) {
        if (fnmatch(patterns->list[i], name, 0) == 0) {
            return true;
        }
    }
    return false;
}

struct filter {
    struct patterns include, exclude;
};

static const char *const filter_options[] = {"include", "exclude", NULL};

static void filter_destroy(void *state)
{
    struct filter *filter = state;

    free(filter->include.text);
    free(filter->exclude.text);
    free(filter);
}

static int filter_create(struct udmon_node *node, void **state_p)
{
    struct filter *filter = calloc(1, sizeof(*filter));
    int ret;

    if (filter == NULL) {
        return -ENOMEM;
    }
    ret = patterns_read(node, "include", &filter->include);
    ret = (ret == 0) ? patterns_read(node, "exclude", &filter->exclude) : ret;
    if ((ret == 0) && ((filter->include.count + filter->exclude.count) == 0)) {
        udmon_node_error(node, NULL, "needs an option \"include\" or \"exclude\"");
        ret = -EINVAL;
    }
    if (ret < 0) {
        filter_destroy(filter);
        return ret;
    }
    *state_p = filter;
    return 0;
}

static void filter_receive(struct udmon_node *node, void *state, const struct udmon_metric *metrics,
                           size_t count)
{
    const struct filter *filter = state;
    size_t i, from = 0;

    /* Adjacent passing samples are emitted by one call. */
    for (i = 0; i <= count; ++i) {
        if ((i < count) &&
            ((filter->include.count == 0) || patterns_match(&filter->include, metrics[i].name)) &&
            !patterns_match(&filter->exclude, metrics[i].name)) {
            continue;
        }
        if (i > from) {
            udmon_node_emit(node, &metrics[from], i - from);
        }
        from = i + 1;
    }
}

const struct udmon_node_type process_filter = {
    .name = "filter",
    .options = filter_options,
    .create = filter_create,
    .destroy = filter_destroy,
    .receive = filter_receive,
    .has_output = 1,
};

/* Aggregation over a label: series that differ only in this label become one series. */

enum aggregate_what {
    AGGREGATE_SUM,
    AGGREGATE_MAX,
    AGGREGATE_MIN,
    AGGREGATE_MEAN,
    AGGREGATE_P50,
    AGGREGATE_P95
};

static const char *const aggregate_names[] = {"sum", "max", "min", "mean", "p50", "p95"};

struct aggregate {
    char label[64];
    enum aggregate_what what;
};

static const char *const aggregate_options[] = {"over", "function", NULL};

static int aggregate_create(struct udmon_node *node, void **state_p)
{
    const char *over = udmon_node_option(node, "over"), *what = udmon_node_option(node, "function");
    struct aggregate *aggregate;
    unsigned i;

    if ((over == NULL) || (strlen(over) >= sizeof(aggregate->label))) {
        udmon_node_error(node, NULL, "needs an option \"over\": a label, as cpu");
        return -EINVAL;
    }
    aggregate = calloc(1, sizeof(*aggregate));
    if (aggregate == NULL) {
        return -ENOMEM;
    }
    snprintf(aggregate->label, sizeof(aggregate->label), "%s", over);
    for (i = 0; (what != NULL) && (i <= AGGREGATE_P95) && strcmp(what, aggregate_names[i]); ++i) {
    }
    if (i > AGGREGATE_P95) {
        udmon_node_error(node, "function", "'%s' is none of sum, max, min, mean, p50, p95", what);
        free(aggregate);
        return -EINVAL;
    }
    aggregate->what = i;
    *state_p = aggregate;
    return 0;
}

/* The name without the label; false if it has none. */
static bool name_without(const char *name, const char *label, char *out, size_t size)
{
    const char *at = name + strcspn(name, "{"), *before = at;
    struct udmon_label each;
    int first;

    for (; udmon_label_next(&at, &each); before = at) {
        if (udmon_label_is(&each, label)) {
            first = (*before == '{'); /* the label is the first: remove the comma behind it, or both
                                       * braces */
            snprintf(out, size, "%.*s%s", (int)(before - name) + (first && (*at == ',')), name,
                     at + first);
            return true;
        }
    }
    return false;
}

struct member {
    char name[UDMON_METRIC_NAME_MAX + 1];
    const struct udmon_metric *metric;
};

static int member_compare(const void *left, const void *right)
{
    const struct member *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    return (order != 0) ?
               order :
               ((a->metric->value > b->metric->value) - (a->metric->value < b->metric->value));
}

/* Of values in ascending order. */
static double aggregate_value(enum aggregate_what what, const struct member *members, size_t count)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < count; ++i) {
        sum += members[i].metric->value;
    }
    switch (what) {
    case AGGREGATE_MAX:
        return members[count - 1].metric->value;
    case AGGREGATE_MIN:
        return members[0].metric->value;
    case AGGREGATE_MEAN:
        return sum / count;
    case AGGREGATE_P50:
        return members[(count - 1) / 2].metric->value;
    case AGGREGATE_P95:
        return members[(size_t)ceil(0.95 * count) - 1].metric->value;
    default:
        return sum;
    }
}

static void aggregate_emit(struct udmon_node *node, const struct aggregate *aggregate,
                           struct member *members, size_t count)
{
    char name[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_metric metric;
    size_t i, from;
    int length;

    qsort(members, count, sizeof(*members), member_compare);
    for (from = 0; from < count; from = i) {
        for (i = from + 1; (i < count) && !strcmp(members[i].name, members[from].name); ++i) {
        }
        metric = *members[from].metric;
        metric.value = aggregate_value(aggregate->what, &members[from], i - from);
        metric.name = members[from].name;
        if (aggregate->what != AGGREGATE_SUM) {
            length = strcspn(members[from].name, "{");
            if (snprintf(name, sizeof(name), "%.*s_%s%s", length, members[from].name,
                         aggregate_names[aggregate->what],
                         members[from].name + length) >= (int)sizeof(name)) {
                continue;
            }
            metric.name = name;
            metric.family = NULL;
            metric.counter = 0; /* the greatest of counters may become less */
        }
        udmon_node_emit(node, &metric, 1);
    }
}

static void aggregate_receive(struct udmon_node *node, void *state,
                              const struct udmon_metric *metrics, size_t count)
{
    struct member *members = malloc(count * sizeof(*members));
    const struct aggregate *aggregate = state;
    size_t i, used = 0;

    if (members == NULL) {
        return;
    }
    for (i = 0; i < count; ++i) {
        if (name_without(metrics[i].name, aggregate->label, members[used].name,
                         sizeof(members[used].name))) {
            members[used++].metric = &metrics[i];
        } else {
            udmon_node_emit(node, &metrics[i], 1);
        }
    }
    aggregate_emit(node, aggregate, members, used);
    free(members);
}

const struct udmon_node_type process_aggregate = {
    .name = "aggregate",
    .options = aggregate_options,
    .create = aggregate_create,
    .destroy = free,
    .receive = aggregate_receive,
    .has_output = 1,
};
