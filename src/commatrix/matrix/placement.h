/*
 * Placement: which rank runs on which host.
 *
 * The cost of a placement is the sum over all pairs of ranks: their traffic, times the distance of
 * their hosts.
 */
#ifndef CM_PLACEMENT_H
#define CM_PLACEMENT_H

#include "topology.h"

#include <stdbool.h>

/* The traffic between ranks: a graph, whose edges stand at both of their ends. */
struct cm_rank_graph {
    uint32_t ranks;
    uint32_t *first; /* ranks + 1: where the neighbors of a rank begin */
    uint32_t *other; /* the neighbor */
    double *weight;  /* traffic in both directions */
};

/* Traffic from one rank to another one. */
struct cm_rank_edge {
    uint32_t from, to;
    double value;
};

/** Sums up the edges, which the call sorts. */
struct cm_rank_graph cm_rank_graph_make(struct cm_rank_edge *edges, guint num, uint32_t ranks);
void cm_rank_graph_free(struct cm_rank_graph *graph);

/** The first ranks on the first host, and so on. False: there are fewer slots than ranks. */
bool cm_placement_in_order(const struct cm_topology *topology, uint32_t ranks, uint32_t *host);

double cm_placement_cost(const struct cm_rank_graph *graph, const struct cm_topology *topology,
                         const uint32_t *host);

/**
 * Finds a placement. SCOTCH maps the ranks onto the network, exchanges of pairs improve the result
 * and also the present placement, and the better one counts. The present placement stays if
 * nothing saves one per cent.
 */
void cm_placement_propose(const struct cm_rank_graph *graph, const struct cm_topology *topology,
                          const uint32_t *present, uint32_t *host);

#endif
