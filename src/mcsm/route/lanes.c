#include "lanes.h"

#include "deps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lanes {
    struct mcsm_graph *graph;
    struct mcsm_deps *deps[MCSM_MAX_LANES];
    int limit;
    int count;
    int *first; /* of each switch: its first target */
};

/* The ports of a switch that belong to the tree. */
static bool tree_ports(const struct mcsm_graph *graph, const struct mcsm_tree *tree,
                       uint64_t (*ports)[4])
{
    bool *used = calloc(graph->count + 1, sizeof(*used));

    if (used == NULL) {
        return false;
    }
    mcsm_tree_used(graph, tree, used);
    memset(ports, 0, tree->count * sizeof(*ports));
    for (int i = 1; i < tree->reached; i++) {
        int at = tree->order[i], parent = tree->parent[at];

        if (!used[at]) {
            continue;
        }
        ports[at][tree->up[at] / 64] |= 1ULL << tree->up[at] % 64;
        ports[parent][tree->down[at] / 64] |= 1ULL << tree->down[at] % 64;
    }
    free(used);
    return true;
}

int mcsm_lanes_note_tree(struct mcsm_deps *deps, const struct mcsm_graph *graph,
                         const struct mcsm_tree *tree)
{
    uint64_t(*ports)[4] = calloc(graph->count + 1, sizeof(*ports));

    if (ports == NULL || !tree_ports(graph, tree, ports)) {
        free(ports);
        return -ENOMEM;
    }
    for (int i = 0; i < graph->count; i++) {
        mcsm_deps_note_multicast(deps, i, ports[i]);
    }
    free(ports);
    return 0;
}

/* The same by mcsm_deps_add(): a tree alone has no circle. */
static bool add_tree(const struct lanes *lanes, const struct mcsm_tree *tree)
{
    const struct mcsm_graph *graph = lanes->graph;
    uint64_t(*ports)[4] = calloc(graph->count + 1, sizeof(*ports));
    bool good = ports != NULL;

    good = good && tree_ports(graph, tree, ports);
    for (int i = 0; i < graph->count && good; i++) {
        const struct mcsm_gswitch *sw = &graph->sw[i];

        for (int in = 1; in <= sw->nports; in++) {
            for (int out = 1; out <= sw->nports && good; out++) {
                if (in != out && (ports[i][in / 64] >> in % 64 & 1) &&
                    (ports[i][out / 64] >> out % 64 & 1)) {
                    good = mcsm_deps_add(lanes->deps[0],
                                         graph->sw[sw->ports[in].peer].first_link +
                                             sw->ports[in].peer_port,
                                         sw->first_link + out);
                }
            }
        }
    }
    free(ports);
    return good;
}

/* Adds the dependencies of packets from a switch to a LID. */
static bool add_way(const struct mcsm_graph *graph, struct mcsm_deps *deps, int from, unsigned lid)
{
    int at = from, channel = -1;

    for (int steps = 0; steps <= graph->count; steps++) {
        uint8_t port = graph->sw[at].lft[lid];
        int out = graph->sw[at].first_link + port;

        if (port == 0 || port > graph->sw[at].nports || graph->sw[at].ports[port].peer < 0) {
            return true;
        }
        if (channel >= 0 && !mcsm_deps_add(deps, channel, out)) {
            return false;
        }
        channel = out;
        at = graph->sw[at].ports[port].peer;
    }
    return true;
}

static bool add_ways(const struct lanes *lanes, struct mcsm_deps *deps, int from, int to)
{
    const struct mcsm_graph *graph = lanes->graph;

    for (int i = lanes->first[to]; i < lanes->first[to + 1]; i++) {
        if (!add_way(graph, deps, from, graph->targets[i].lid)) {
            return false;
        }
    }
    return true;
}

/* Assigns the packets between two switches to the first lane in which they close no circle. */
static int place_pair(struct lanes *lanes, int a, int b)
{
    for (int lane = 0; lane < lanes->limit; lane++) {
        struct mcsm_deps *deps = lanes->deps[lane];
        size_t mark;

        if (deps == NULL) {
            deps = lanes->deps[lane] = mcsm_deps_new(lanes->graph);
            if (deps == NULL) {
                return -ENOMEM;
            }
        }
        mark = mcsm_deps_mark(deps);
        if (add_ways(lanes, deps, a, b) && add_ways(lanes, deps, b, a)) {
            lanes->count = lane >= lanes->count ? lane + 1 : lanes->count;
            return lane;
        }
        if (mcsm_deps_failed(deps)) {
            return -ENOMEM;
        }
        mcsm_deps_undo(deps, mark);
    }
    return lanes->limit;
}

static int by_switch(const void *a, const void *b)
{
    const struct mcsm_target *x = a, *y = b;

    return x->sw != y->sw ? x->sw - y->sw : x->lid - y->lid;
}

static int place_all(struct lanes *lanes, uint8_t *lane)
{
    int count = lanes->graph->count;

    for (int a = 0; a < count; a++) {
        for (int b = a + 1; b < count; b++) {
            int found = place_pair(lanes, a, b);

            if (found < 0 || found == lanes->limit) {
                return found < 0 ? found : lanes->limit + 1;
            }
            lane[(size_t)a * count + b] = lane[(size_t)b * count + a] = found;
        }
    }
    return lanes->count;
}

int mcsm_lanes_assign(struct mcsm_graph *graph, const struct mcsm_tree *tree, int limit)
{
    struct lanes lanes = {.graph = graph, .count = 1, .limit = limit};
    uint8_t *lane = calloc((size_t)graph->count + 1, graph->count + 1);
    int result = -ENOMEM;

    lanes.first = calloc(graph->count + 2, sizeof(*lanes.first));
    lanes.deps[0] = mcsm_deps_new(graph);
    if (lane != NULL && lanes.first != NULL && lanes.deps[0] != NULL &&
        (tree == NULL || add_tree(&lanes, tree))) {
        qsort(graph->targets, graph->target_count, sizeof(*graph->targets), by_switch);
        for (size_t i = 0; i < graph->target_count; i++) {
            lanes.first[graph->targets[i].sw + 1]++;
        }
        for (int i = 0; i < graph->count; i++) {
            lanes.first[i + 1] += lanes.first[i];
        }
        result = place_all(&lanes, lane);
    }
    for (int i = 0; i < MCSM_MAX_LANES; i++) {
        mcsm_deps_free(lanes.deps[i]);
    }
    free(lanes.first);
    if (result > 0 && result <= limit) {
        free(graph->lane);
        graph->lane = lane;
        graph->lanes = result;
    } else {
        free(lane);
    }
    return result;
}
