/*
 * Lanes: which packets may share a virtual lane without a deadlock.
 *
 * The engine lash (Skeie, Lysne, Theiss: "Layered shortest path (LASH) routing in irregular system
 * area networks", 2002) keeps the shortest routes and gives each pair of switches a lane. Both
 * directions of a pair get the same lane, because InfiniBand answers on the service level of the
 * request. DFSSSP assigns the two directions separately. So DFSSSP is free of deadlock only for
 * packets without an answer. Nue needs no second lane, but leaves the shortest routes.
 */
#ifndef MCSM_LANES_H
#define MCSM_LANES_H

#include "mcast.h"

enum { MCSM_MAX_LANES = 15 };

/** Gives all pairs of switches lanes: graph->lane and graph->lanes. `tree` may be NULL; its packets
 * use lane 0. Returns the number of lanes. `limit` + 1 means that `limit` lanes, at most
 * MCSM_MAX_LANES, do not suffice; the graph is then unchanged. -ENOMEM. */
int mcsm_lanes_assign(struct mcsm_graph *graph, const struct mcsm_tree *tree, int limit);

/** Gives the pairs and ports of graph->grid levels by ring. Lines need one lane, rings two. Missing
 * links may need more: then mcsm_lanes_assign() keeps the lanes of the rings, and adds lanes for the
 * pairs that close a circle. -ENOMEM. */
int mcsm_lanes_of_rings(struct mcsm_graph *graph);

/* Notes the dependencies of all groups of a tree. -ENOMEM. */
struct mcsm_deps;
int mcsm_lanes_note_tree(struct mcsm_deps *deps, const struct mcsm_graph *graph,
                         const struct mcsm_tree *tree);

#endif
