/*
 * The routers as a graph for routing: links with an upper and a lower end.
 *
 * On a fat tree the end nearer to the roots is upper; without levels, the end nearer to the server.
 * A packet first goes up and then down, and never turns from down to up. Up/down routing has no
 * deadlock, because no circle of links can wait for each other. On a tree, the paths are the
 * shortest paths over the links that are up.
 */
#ifndef INM_GRAPH_H
#define INM_GRAPH_H

#include "inm/topo/topo.h"

#include <stdbool.h>
#include <stdint.h>

#define GRAPH_FAR 255

/* The links of a router. Upward links come first. */
struct graph_node {
    uint32_t other[INM_NRC_PORTS];
    uint8_t port[INM_NRC_PORTS];
    uint8_t num_up, num;
    uint16_t hosts; /* NICs at this router */
};

struct graph {
    const struct inm_topo *topo;
    uint32_t *peer;           /* by port; INM_NONE where there is no link or it is not to be used */
    uint32_t *rank;           /* by NRC: greater is upper; each differs */
    uint32_t *order;          /* NRCs, the uppermost first */
    struct graph_node *nodes; /* by NRC */
    uint8_t *down;            /* by NRC: hops to the destination by going down only */
    uint8_t *dist;            /* by NRC: hops to the destination */
    uint32_t *queue;
};

/**
 * Makes a graph of the links `peer`, which is copied. `hop` is by NRC: the distance from the server.
 * `gone` is by chip: routers and NICs that are not to be used; NULL: none.
 * @return false: no memory.
 */
bool graph_init(struct graph *g, const struct inm_topo *topo, const uint32_t *peer,
                const uint8_t *hop, const uint8_t *gone);
void graph_free(struct graph *g);

/** Computes the distances of all NRCs to one of them. */
void graph_measure(struct graph *g, uint32_t to);

/** The output ports of an NRC on the ways to the destination of graph_measure(), one bit each. */
uint32_t graph_ways(const struct graph *g, uint32_t chip);

/** The NRC of a NIC and the NIC's port there; INM_NONE: the NIC has no link. */
uint32_t graph_home(const struct graph *g, uint32_t nic, uint32_t *index);

/**
 * Which NRCs stay connected to most others whichever single other NRC or single link fails.
 * `redundant` and `connected` are by NRC: connected to the largest part of the network.
 * @return false: no memory.
 */
bool graph_redundancy(const struct graph *g, uint8_t *connected, uint8_t *redundant);

/** A number that differs, in all likelihood, between two graphs with different links. */
uint64_t graph_print(const struct graph *g);

#endif
