#include "plan.h"

#include "deps.h"
#include "lanes.h"

#include <errno.h>
#include <stdlib.h>

struct grown {
    const struct mcsm_graph *graph;
    const struct mcsm_tree *tree;
};

static int note_tree(struct mcsm_deps *deps, const void *arg)
{
    const struct grown *grown = arg;

    return mcsm_lanes_note_tree(deps, grown->graph, grown->tree);
}

int mcsm_plan_find_loop(const struct mcsm_graph *graph, const struct mcsm_tree *tree, int *circle,
                        int room)
{
    const struct grown grown = {graph, tree};

    return mcsm_deps_search(graph, tree ? note_tree : NULL, &grown, false, circle, room);
}

/* The groups that share a lane with other packets. */
static const struct mcsm_tree *shared_tree(const struct mcsm_config *config,
                                           const struct mcsm_plan *plan)
{
    return config->multicast_sl == 0 ? plan->tree : NULL;
}

static int route_and_grow(struct mcsm_graph *graph, const struct mcsm_config *config,
                          enum mcsm_engine engine, struct mcsm_plan *plan)
{
    int status = mcsm_route_by(graph, config, engine);

    plan->engine = engine;
    mcsm_tree_free(plan->tree);
    plan->tree = status == 0 ? mcsm_tree_new(graph, engine == MCSM_ENGINE_UPDN) : NULL;
    return plan->tree ? 0 : -ENOMEM;
}

/* Gives the routes lanes. Returns the number of lanes, there + 1 if the links have too few lanes, or
 * -ENOMEM. */
static int find_lanes(struct mcsm_graph *graph, const struct mcsm_config *config, int there,
                      const struct mcsm_plan *plan)
{
    const struct mcsm_tree *tree = shared_tree(config, plan);
    int loop = mcsm_plan_find_loop(graph, tree, NULL, 0);

    return loop < 0 ? loop : loop == 0 ? 1 : mcsm_lanes_assign(graph, tree, there);
}

static void one_lane(struct mcsm_graph *graph)
{
    graph->lanes = 1;
    free(graph->lane);
    graph->lane = NULL;
    free(graph->ring);
    graph->ring = NULL;
}

/* Lanes for the routes and the groups: those below the lane of groups, which has no other packets. */
static int lanes_below_groups(const struct mcsm_config *config, int there)
{
    there = there < MCSM_MAX_LANES ? there : MCSM_MAX_LANES;
    return config->multicast_sl > 0 && there > config->multicast_sl ? config->multicast_sl : there;
}

static int route_with_lanes(struct mcsm_graph *graph, const struct mcsm_config *config,
                            enum mcsm_engine engine, int there, struct mcsm_plan *plan)
{
    const char *name = mcsm_engine_name(engine);
    int needed, status;

    for (;;) {
        status = route_and_grow(graph, config, engine, plan);
        needed = status == 0 ? find_lanes(graph, config, there, plan) : status;
        if (plan->lanes_needed == 0) {
            plan->lanes_needed = needed;
        }
        if (needed <= there) {
            return needed < 0 ? needed : 0;
        }
        one_lane(graph);
        if (engine == MCSM_ENGINE_TORUS) {
            break;
        }
        mcsm_info("%s routing needs more than %d virtual lanes to be free of deadlock: the routes "
                  "of torus are tried",
                  name, there);
        engine = MCSM_ENGINE_TORUS;
    }
    mcsm_warn("%s routing needs more than %d virtual lanes to be free of deadlock, and the links "
              "have no more: up/down is used",
              name, there);
    return route_and_grow(graph, config, MCSM_ENGINE_UPDN, plan);
}

/* With rings, lane 2 + n is the lane of service level MCSM_RING_LEVELS + n. Service level 15 is the
 * spare one of the pairs that cannot have the level of groups. */
static int lanes_of_levels(const struct mcsm_config *config, int there)
{
    int top = config->multicast_sl >= MCSM_RING_LEVELS ? config->multicast_sl : MCSM_MAX_LANES;
    int most = 2 + top - MCSM_RING_LEVELS;

    return there < most ? there : most;
}

/* Routes along a recognised grid. 1: done, 0: lanes or service levels do not suffice, or -ENOMEM. */
static int route_on_grid(struct mcsm_graph *graph, const struct mcsm_config *config, int there,
                         struct mcsm_plan *plan)
{
    int status = mcsm_lanes_of_rings(graph), found;

    there = graph->ring != NULL ? lanes_of_levels(config, there) : there;
    if (status < 0 || graph->lanes > there) {
        return status;
    }
    status = route_and_grow(graph, config, MCSM_ENGINE_TORUS, plan);
    if (status < 0) {
        return status;
    }
    found = mcsm_plan_find_loop(graph, shared_tree(config, plan), NULL, 0);
    if (found > 0) {
        found = mcsm_lanes_assign(graph, shared_tree(config, plan), there);
    }
    return found < 0 ? found : found <= there;
}

/* Whether the search for circles has port numbers for two lanes of each link. */
static bool is_searchable(const struct mcsm_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        if (graph->sw[i].nports > MCSM_WIDE_PORTS) {
            return false;
        }
    }
    return true;
}

/* Packets to other clusters have level 0, whatever the grid gives. */
static bool has_foreign(const struct mcsm_graph *graph)
{
    for (size_t i = 0; i < graph->target_count; i++) {
        if (graph->targets[i].foreign) {
            return true;
        }
    }
    return false;
}

/* 1: the grid has routes; 0: there is no grid that can be routed, or it needs more lanes; -ENOMEM. */
static int try_grid(struct mcsm_graph *graph, const struct mcsm_config *config, int there,
                    struct mcsm_plan *plan)
{
    int status = has_foreign(graph) ? 0 : mcsm_grid_find(graph, &graph->grid);

    if (graph->grid == NULL) {
        return status;
    }
    if (graph->grid->rings > 0 ? is_searchable(graph) : graph->grid->dimensions > 1) {
        status = route_on_grid(graph, config, there, plan);
        if (status != 0) {
            return status;
        }
    }
    mcsm_grid_free(graph->grid);
    graph->grid = NULL;
    one_lane(graph);
    return 0;
}

/* Whether shortest routes on one lane have no circle. 1, 0 or -ENOMEM. */
static int try_one_lane(struct mcsm_graph *graph, const struct mcsm_config *config,
                        struct mcsm_plan *plan)
{
    int status = route_and_grow(graph, config, MCSM_ENGINE_LASH, plan);
    int loop =
        status == 0 ? mcsm_plan_find_loop(graph, shared_tree(config, plan), NULL, 0) : status;

    return loop < 0 ? loop : loop == 0;
}

static bool has_bare(const struct mcsm_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        if (graph->sw[i].hosts == 0) {
            return true;
        }
    }
    return false;
}

int mcsm_plan_routes(struct mcsm_graph *graph, const struct mcsm_config *config,
                     enum mcsm_engine engine, int there, struct mcsm_plan *plan)
{
    int done = 0;

    plan->tree = NULL;
    plan->lanes_needed = 0;
    mcsm_grid_free(graph->grid);
    graph->grid = NULL;
    one_lane(graph);
    there = lanes_below_groups(config, there);
    if (engine == MCSM_ENGINE_AUTO && has_bare(graph)) {
        done =
            try_one_lane(graph, config, plan); /* such as a small fat tree, which is a grid too */
    }
    if (done == 0 && (engine == MCSM_ENGINE_AUTO || engine == MCSM_ENGINE_TORUS)) {
        done = try_grid(graph, config, there, plan);
    }
    if (done != 0) {
        plan->lanes_needed = graph->lanes;
        return done < 0 ? done : 0;
    }
    if (engine == MCSM_ENGINE_AUTO) {
        engine = MCSM_ENGINE_LASH;
    }
    if (engine == MCSM_ENGINE_LASH || engine == MCSM_ENGINE_TORUS) {
        return route_with_lanes(graph, config, engine, there, plan);
    }
    plan->lanes_needed = 1;
    return route_and_grow(graph, config, engine, plan);
}
