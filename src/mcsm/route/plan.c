#include "plan.h"

#include "deps.h"
#include "lanes.h"

#include <errno.h>
#include <stdlib.h>

int mcsm_plan_find_loop(const struct mcsm_graph *graph, const struct mcsm_tree *tree, int *circle,
                        int room)
{
    int found = 0;

    for (int lane = 0; lane < graph->lanes && found == 0; lane++) {
        struct mcsm_deps *deps = mcsm_deps_new(graph);

        found = deps ? mcsm_deps_note_unicast(deps, lane) : -ENOMEM;
        if (found == 0 && lane == 0 && tree != NULL) {
            found = mcsm_lanes_note_tree(deps, graph, tree);
        }
        if (found == 0) {
            found = mcsm_deps_circle(deps, circle, room);
        }
        mcsm_deps_free(deps);
    }
    return found;
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
}

static int route_with_lanes(struct mcsm_graph *graph, const struct mcsm_config *config,
                            enum mcsm_engine engine, int there, struct mcsm_plan *plan)
{
    const char *name = mcsm_engine_name(engine);
    int needed, status;

    there = there < MCSM_MAX_LANES ? there : MCSM_MAX_LANES;
    if (config->multicast_sl > 0 && there > config->multicast_sl) {
        there = config->multicast_sl; /* the lane of groups has no other packets */
    }

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

int mcsm_plan_routes(struct mcsm_graph *graph, const struct mcsm_config *config,
                     enum mcsm_engine engine, int there, struct mcsm_plan *plan)
{
    plan->tree = NULL;
    plan->lanes_needed = 0;
    if (engine == MCSM_ENGINE_LASH || engine == MCSM_ENGINE_TORUS) {
        return route_with_lanes(graph, config, engine, there, plan);
    }
    plan->lanes_needed = 1;
    return route_and_grow(graph, config, engine, plan);
}
