/*
 * The routes of a graph by the engine of the configuration, with the lanes that they need to be free
 * of deadlock.
 *
 * lash and torus need lanes. If the links have too few lanes for lash, the manager tries torus. All
 * packets between two switches then use one way, and torus needs fewer lanes. If the links have too
 * few lanes for torus, the manager uses Up/Down. Up/Down needs one lane.
 */
#ifndef MCSM_PLAN_H
#define MCSM_PLAN_H

#include "mcast.h"

struct mcsm_plan {
    struct mcsm_tree *tree;  /* of the groups; the caller frees it */
    enum mcsm_engine engine; /* that made the routes */
    int lanes_needed;        /* by the first routes; one more than the links have: too many */
};

/** Fills the tables of all switches, and graph->lane. Links have `there` lanes. Returns 0 or -ENOMEM. */
int mcsm_plan_routes(struct mcsm_graph *graph, const struct mcsm_config *config,
                     enum mcsm_engine engine, int there, struct mcsm_plan *plan);

/** Searches for a circle of channels, lane by lane, with the packets of groups on lane 0 (`tree` may
 * be NULL). Returns its length, and its first `room` channels in circle[]. 0: none. -ENOMEM. */
int mcsm_plan_find_loop(const struct mcsm_graph *graph, const struct mcsm_tree *tree, int *circle,
                        int room);

#endif
