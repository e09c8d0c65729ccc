/*
 * A module of udmon-agent for agent.sh: the sensor "ramp". Its n-th tick, from 0, reports for n
 * seconds after the epoch the counter ramp_total with value 5 n and the gauge ramp with value n.
 * With the option "jumps" the time of day runs backwards, while the monotonic clock advances a
 * second per tick. With "ago" the times are this many seconds before now.
 */
#include "udmon/include/udmon_module.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct ramp {
    uint64_t n;
    int jumps;
    double ago;
};

static int ramp_create(struct udmon_node *node, void **state_p)
{
    struct ramp *ramp = calloc(1, sizeof(*ramp));
    double first;

    if (ramp == NULL) {
        return -ENOMEM;
    }
    if ((udmon_node_number(node, "first", 0, 0, 1000, &first) < 0) ||
        (udmon_node_number(node, "ago", 0, 0, 1e6, &ramp->ago) < 0)) {
        free(ramp);
        return -EINVAL;
    }
    ramp->n = first;
    ramp->jumps = (udmon_node_option(node, "jumps") != NULL);
    *state_p = ramp;
    return 0;
}

static void ramp_tick(struct udmon_node *node, void *state)
{
    struct ramp *ramp = state;
    uint64_t n = ramp->n++, second = 1000000000u, when;
    struct udmon_metric metrics[] = {
        {.name = "ramp_total{kind=\"test\"}", .value = 5.0 * n, .counter = 1},
        {.name = "ramp", .value = n},
    };

    when = (ramp->ago > 0) ? ((uint64_t)time(NULL) - (uint64_t)ramp->ago) :
                             (ramp->jumps ? (1000 - n) : n);
    metrics[0].time_ns = metrics[1].time_ns = when * second;
    metrics[0].clock_ns = metrics[1].clock_ns = ramp->jumps ? ((n + 1) * second) : 0;
    udmon_node_emit(node, metrics, 2);
}

static const char *const ramp_options[] = {"first", "jumps", "ago", NULL};

static const struct udmon_node_type ramp_type = {
    .name = "ramp",
    .options = ramp_options,
    .create = ramp_create,
    .destroy = free,
    .tick = ramp_tick,
    .has_output = 1,
};

static const struct udmon_node_type *const types[] = {&ramp_type, NULL};

extern const struct udmon_module udmon_module;

__attribute__((visibility("default"))) const struct udmon_module udmon_module = {
    UDMON_MODULE_VERSION,
    types,
};
