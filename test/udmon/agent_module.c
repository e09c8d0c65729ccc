/*
 * A module of udmon-agent for agent.sh: the sensor "ramp" tells at its n-th tick, from 0, that at n
 * seconds after the epoch the counter ramp_total was 5 n and the gauge ramp was n.
 */
#include "udmon/include/udmon_module.h"

#include <errno.h>
#include <stdlib.h>

static int ramp_create(udmon_node_t *node, void **state_p)
{
    double first;

    *state_p = calloc(1, sizeof(uint64_t));
    if (*state_p == NULL) {
        return -ENOMEM;
    }
    if (udmon_node_number(node, "first", 0, 0, 1000, &first) < 0) {
        free(*state_p);
        return -EINVAL;
    }
    *(uint64_t *)*state_p = first;
    return 0;
}

static void ramp_tick(udmon_node_t *node, void *state)
{
    uint64_t n = (*(uint64_t *)state)++;
    udmon_metric_t metrics[] = {
        {.name = "ramp_total{kind=\"test\"}", .value = 5.0 * n, .counter = 1},
        {.name = "ramp", .value = n},
    };

    metrics[0].time_ns = metrics[1].time_ns = n * 1000000000u;
    udmon_node_emit(node, metrics, 2);
}

static const char *const ramp_options[] = {"first", NULL};

static const udmon_node_type_t ramp = {
    .name = "ramp",
    .options = ramp_options,
    .create = ramp_create,
    .destroy = free,
    .tick = ramp_tick,
    .has_output = 1,
};

static const udmon_node_type_t *const types[] = {&ramp, NULL};

extern const udmon_module_t udmon_module;

__attribute__((visibility("default"))) const udmon_module_t udmon_module = {
    UDMON_MODULE_VERSION,
    types,
};
