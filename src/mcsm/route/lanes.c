#include "lanes.h"

#include "deps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NO_LANE = -1 };

struct lanes {
    struct mcsm_graph *graph;
    struct mcsm_graph *wide; /* with rings: the graph of deps[0]. It has lanes 0 and 1 */
    struct mcsm_deps *deps[MCSM_MAX_LANES]; /* of each lane that packets do not leave */
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
    const struct mcsm_graph *graph = lanes->graph, *base = lanes->wide ? lanes->wide : graph;
    uint64_t(*ports)[4] = calloc(graph->count + 1, sizeof(*ports));
    bool good = ports != NULL;

    good = good && tree_ports(graph, tree, ports);
    for (int i = 0; i < graph->count && good; i++) {
        const struct mcsm_gswitch *sw = &graph->sw[i];

        for (int in = 1; in <= sw->nports; in++) {
            for (int out = 1; out <= sw->nports && good; out++) {
                if (in != out && (ports[i][in / 64] >> in % 64 & 1) &&
                    (ports[i][out / 64] >> out % 64 & 1)) {
                    int peer = sw->ports[in].peer, peer_port = sw->ports[in].peer_port;

                    good = mcsm_deps_add(lanes->deps[0], base->sw[peer].first_link + peer_port,
                                         base->sw[i].first_link + out);
                }
            }
        }
    }
    free(ports);
    return good;
}

/* The number of a port in the graph of a lane's dependencies. */
static int channel_of(const struct lanes *lanes, int index, int sw, int port, int level)
{
    int link = lanes->graph->sw[sw].first_link + port;

    return index > 0 || lanes->wide == NULL ?
               link :
               mcsm_deps_wide_channel(lanes->wide, sw, port, mcsm_vl(lanes->graph, link, level));
}

/* Adds the dependencies of packets from a switch to a LID. */
static bool add_way(const struct lanes *lanes, int index, int level, int from, unsigned lid)
{
    const struct mcsm_graph *graph = lanes->graph;
    int at = from, channel = -1;

    for (int steps = 0; steps <= graph->count; steps++) {
        uint8_t port = graph->sw[at].lft[lid];
        int out;

        if (port == 0 || port > graph->sw[at].nports || graph->sw[at].ports[port].peer < 0) {
            return true;
        }
        out = channel_of(lanes, index, at, port, level);
        if (channel >= 0 && !mcsm_deps_add(lanes->deps[index], channel, out)) {
            return false;
        }
        channel = out;
        at = graph->sw[at].ports[port].peer;
    }
    return true;
}

static bool add_ways(const struct lanes *lanes, int index, int level, int from, int to)
{
    for (int i = lanes->first[to]; i < lanes->first[to + 1]; i++) {
        if (!add_way(lanes, index, level, from, lanes->graph->targets[i].lid)) {
            return false;
        }
    }
    return true;
}

/* The level of a pair in the n-th lane. */
static int level_of(const struct lanes *lanes, int index, int a, int b)
{
    if (lanes->wide == NULL) {
        return index;
    }
    return index == 0 ? mcsm_grid_level(lanes->graph->grid, a, b) : MCSM_RING_LEVELS + index - 1;
}

/* Assigns the packets between two switches to the first lane in which they close no circle. Returns
 * their level, NO_LANE, or -ENOMEM. */
static int place_pair(struct lanes *lanes, int a, int b)
{
    for (int index = 0; index < lanes->limit; index++) {
        int level = level_of(lanes, index, a, b);
        struct mcsm_deps *deps = lanes->deps[index];
        size_t mark;

        if (deps == NULL) {
            deps = lanes->deps[index] = mcsm_deps_new(lanes->graph);
            if (deps == NULL) {
                return -ENOMEM;
            }
        }
        mark = mcsm_deps_mark(deps);
        if (add_ways(lanes, index, level, a, b) && add_ways(lanes, index, level, b, a)) {
            lanes->count = index >= lanes->count ? index + 1 : lanes->count;
            return level;
        }
        if (mcsm_deps_failed(deps)) {
            return -ENOMEM;
        }
        mcsm_deps_undo(deps, mark);
    }
    return NO_LANE;
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

            if (found < 0) {
                return found == NO_LANE ? lanes->limit + 1 : found;
            }
            lane[(size_t)a * count + b] = lane[(size_t)b * count + a] = found;
        }
    }
    return lanes->count;
}

int mcsm_lanes_assign(struct mcsm_graph *graph, const struct mcsm_tree *tree, int limit)
{
    int more = mcsm_changes_lanes(graph) ? 1 : 0; /* lanes 0 and 1 are one lane here */
    struct lanes lanes = {.graph = graph, .count = 1, .limit = limit - more};
    uint8_t *lane = calloc((size_t)graph->count + 1, graph->count + 1);
    int result = -ENOMEM;

    lanes.first = calloc(graph->count + 2, sizeof(*lanes.first));
    lanes.wide = more ? mcsm_deps_wide(graph) : NULL;
    lanes.deps[0] = more && !lanes.wide ? NULL : mcsm_deps_new(more ? lanes.wide : graph);
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
        result += result > 0 ? more : 0;
    }
    for (int i = 0; i < MCSM_MAX_LANES; i++) {
        mcsm_deps_free(lanes.deps[i]);
    }
    mcsm_graph_free(lanes.wide);
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

int mcsm_lanes_of_rings(struct mcsm_graph *graph)
{
    const struct mcsm_grid *grid = graph->grid;
    int n = graph->count;

    if (grid->rings == 0) {
        return 0;
    }
    graph->lane = calloc((size_t)n + 1, n + 1);
    graph->ring = malloc(graph->links + 1);
    if (graph->lane == NULL || graph->ring == NULL) {
        return -ENOMEM;
    }
    memset(graph->ring, MCSM_NO_RING, graph->links + 1);
    for (int i = 0; i < n; i++) {
        for (int p = 1; p <= graph->sw[i].nports; p++) {
            int peer = graph->sw[i].ports[p].peer;
            int ring = peer < 0 || peer == i ? -1 : grid->ring[mcsm_grid_dimension(grid, i, peer)];

            if (ring >= 0) {
                graph->ring[graph->sw[i].first_link + p] = 1 + ring;
            }
        }
        for (int k = 0; k < n; k++) {
            graph->lane[(size_t)i * n + k] = mcsm_grid_level(grid, i, k);
        }
    }
    graph->lanes = 2;
    return 0;
}
