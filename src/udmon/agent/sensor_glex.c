/*
 * Counters of the endpoints on the GLEX fabric of this host, whosever they are: as glex_info shows
 * them. They are the NIC's in shared memory and cost their owners nothing to be read.
 */
#include "node.h"
#include "samples.h"
#include "types.h"

#include "glex/api/inspect.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most that a queue has held at once, which is no counter. */
static bool glex_is_gauge(const char *name)
{
    return strstr(name, "_high") != NULL;
}

static bool glex_endpoint(const struct glex_inspect_ep *ep, void *arg)
{
    struct samples *samples = arg;
    const char *name;
    uint64_t value;
    char labels[160], command[sizeof(ep->command)];
    uint32_t i;

    if (ep->state != GLEX_INSPECT_LIVING) {
        return true;
    }
    samples_label(command, sizeof(command), ep->command);
    snprintf(labels, sizeof(labels), "endpoint=\"%.23s\",pid=\"%u\",command=\"%s\"", ep->name,
             ep->pid, command);
    for (i = 0; (name = glex_inspect_counter(&ep->counters, i, &value)) != NULL; ++i) {
        samples_add(samples, !glex_is_gauge(name), value, "glex_%.40s{%s}", name, labels);
    }
    samples_add(samples, 0, ep->mpq.used, "glex_mpq_used{%s}", labels);
    samples_add(samples, 0, ep->eq.used, "glex_eq_used{%s}", labels);
    samples_add(samples, 0, ep->registered_bytes, "glex_registered_bytes{%s}", labels);
    samples_add(samples, 0, ep->bytes, "glex_memory_bytes{%s}", labels);
    return true;
}

/* The state: whether the last try failed. */
static int glex_create(struct udmon_node *node, void **state_p)
{
    (void)node;
    *state_p = calloc(1, sizeof(int));
    return (*state_p != NULL) ? 0 : -ENOMEM;
}

static void glex_tick(struct udmon_node *node, void *state)
{
    struct samples *samples = samples_begin(node);
    int *failed = state, fails = glex_inspect_endpoints(glex_endpoint, samples) != GLEX_SUCCESS;

    if (fails && !*failed) { /* not at every tick */
        udmon_node_error(node, NULL, "cannot read the GLEX fabric: %s (see glex_info)",
                         strerror(errno));
    }
    *failed = fails;
    samples_end(samples);
}

const struct udmon_node_type sensor_glex = {
    .name = "glex", .create = glex_create, .destroy = free, .tick = glex_tick, .has_output = 1};
