/*
 * The network on which ranks run, from a file:
 *
 *     # comment
 *     switch NAME
 *     host NAME SWITCH [SLOTS [NUMA]]  room for SLOTS ranks, in NUMA equal NUMA nodes; 1 by default
 *     link SWITCH SWITCH [COST]        1 by default
 *
 * commatrix-collect writes one.
 */
#ifndef CM_TOPOLOGY_H
#define CM_TOPOLOGY_H

#include <glib.h>
#include <stdint.h>

struct cm_topology_host {
    char *name;
    uint32_t node; /* among the switches */
    uint32_t slots;
    uint32_t numa; /* nodes, among which the slots are split */
};

struct cm_topology_link {
    uint32_t a, b, cost;
};

struct cm_topology {
    GPtrArray *switches; /* names */
    GArray *hosts;       /* of struct cm_topology_host */
    GArray *links;       /* of struct cm_topology_link */
    uint32_t *distance;  /* square of hosts: cost of the cheapest path; 0 on one host */
};

/** Returns NULL, and *error_p the file, the line and the mistake, to be freed by g_free(). */
struct cm_topology *cm_topology_load(const char *file, char **error_p);

/** The number of a host, or -1. */
int cm_topology_host(const struct cm_topology *topology, const char *name);

static inline uint32_t cm_topology_distance(const struct cm_topology *topology, uint32_t a,
                                            uint32_t b)
{
    return topology->distance[a * topology->hosts->len + b];
}

void cm_topology_free(struct cm_topology *topology);

#endif
