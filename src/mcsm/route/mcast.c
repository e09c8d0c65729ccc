#include "mcast.h"

#include <stdlib.h>
#include <string.h>

/* Finds the switch with the shortest maximum distance to other switches. */
static int find_root(const struct mcsm_graph *graph, int *distance, int *queue)
{
    int best = 0, best_far = -1;

    for (int i = 0; i < graph->count; i++) {
        int reached = mcsm_distances(graph, i, distance, queue);
        int far = distance[queue[reached - 1]] + (graph->count - reached) * graph->count;

        if (best_far < 0 || far < best_far) {
            best = i;
            best_far = far;
        }
    }
    return best;
}

/* Adds all switches to the tree that its switches can reach; if `ordered`, by down channels
 * only. */
static void grow(const struct mcsm_graph *graph, struct mcsm_tree *tree, bool *in, bool ordered)
{
    for (int i = 0; i < tree->reached; i++) {
        int at = tree->order[i];

        for (int p = 1; p <= graph->sw[at].nports; p++) {
            const struct mcsm_gport *port = &graph->sw[at].ports[p];

            if (port->peer < 0 || in[port->peer] ||
                (ordered && mcsm_is_up(graph, at, port->peer))) {
                continue;
            }
            in[port->peer] = true;
            tree->order[tree->reached++] = port->peer;
            tree->parent[port->peer] = at;
            tree->up[port->peer] = port->peer_port;
            tree->down[port->peer] = p;
        }
    }
}

static void attach(const struct mcsm_graph *graph, struct mcsm_tree *tree, int parent, int at)
{
    for (int p = 1; p <= graph->sw[parent].nports; p++) {
        if (graph->sw[parent].ports[p].peer == at) {
            tree->order[tree->reached++] = at;
            tree->parent[at] = parent;
            tree->up[at] = graph->sw[parent].ports[p].peer_port;
            tree->down[at] = p;
            return;
        }
    }
}

/* Adds the switches whose path along the grid to the root has all links to the tree. */
static void grow_grid(const struct mcsm_graph *graph, struct mcsm_tree *tree, bool *in)
{
    const struct mcsm_grid *grid = graph->grid;
    int root = tree->order[0];

    for (int i = 0; i < tree->reached; i++) {
        int at = tree->order[i];

        for (int k = 0; k < 2 * grid->dimensions; k++) {
            int peer = mcsm_grid_next(grid, at, k / 2, k % 2);

            if (peer >= 0 && !in[peer] && mcsm_grid_parent(grid, peer, root) == at) {
                in[peer] = true;
                attach(graph, tree, at, peer);
            }
        }
    }
}

/* The highest switch in the order of Up/Down; if there are several, a border switch. */
static int find_top(const struct mcsm_graph *graph)
{
    int top = 0;

    for (int i = 1; i < graph->count; i++) {
        const struct mcsm_gswitch *sw = &graph->sw[i], *best = &graph->sw[top];

        if (sw->rank != best->rank ? sw->rank < best->rank : sw->border && !best->border) {
            top = i;
        }
    }
    return top;
}

struct mcsm_tree *mcsm_tree_new(const struct mcsm_graph *graph, bool ordered)
{
    struct mcsm_tree *tree = calloc(1, sizeof(*tree));
    bool *in = calloc(graph->count + 1, sizeof(*in));
    int *distance = malloc((graph->count + 1) * sizeof(int));

    if (tree != NULL) {
        tree->count = graph->count;
        tree->order = malloc((graph->count + 1) * sizeof(int));
        tree->parent = malloc((graph->count + 1) * sizeof(int));
        tree->needed = malloc((graph->count + 1) * sizeof(int));
        tree->up = calloc(graph->count + 1, 1);
        tree->down = calloc(graph->count + 1, 1);
    }
    if (!tree || !in || !distance || !tree->order || !tree->parent || !tree->needed || !tree->up ||
        !tree->down) {
        mcsm_tree_free(tree);
        free(distance);
        free(in);
        return NULL;
    }
    for (int i = 0; i < graph->count; i++) {
        tree->parent[i] = -1;
    }
    if (graph->count > 0) {
        int root = ordered ? find_top(graph) : find_root(graph, distance, tree->order);

        tree->order[tree->reached++] = root;
        in[root] = true;
        if (ordered) {
            grow(graph, tree, in, true);
        } else if (graph->grid != NULL) {
            grow_grid(graph, tree, in);
        }
        grow(graph, tree, in, false); /* switches that no down path reaches */
    }
    free(distance);
    free(in);
    return tree;
}

void mcsm_tree_free(struct mcsm_tree *tree)
{
    if (tree == NULL) {
        return;
    }
    free(tree->order);
    free(tree->parent);
    free(tree->needed);
    free(tree->up);
    free(tree->down);
    free(tree);
}

void mcsm_tree_used(const struct mcsm_graph *graph, const struct mcsm_tree *tree, bool *used)
{
    for (int i = 0; i < graph->count; i++) {
        used[i] = !graph->sw[i].bare;
    }
    for (int i = tree->reached - 1; i > 0; i--) {
        if (used[tree->order[i]]) {
            used[tree->parent[tree->order[i]]] = true;
        }
    }
}

static void set_bit(uint64_t set[4], uint8_t bit)
{
    set[bit / 64] |= 1ULL << bit % 64;
}

/* tree->needed[switch] counts the leaves at and below the switch. A switch sends packets to its
 * parent if some leaves are below the switch and some are elsewhere. */
void mcsm_tree_cut(struct mcsm_tree *tree, const struct mcsm_leaf *leaves, size_t count,
                   uint64_t (*ports)[4])
{
    int *needed = tree->needed, total = 0;

    memset(ports, 0, tree->count * sizeof(*ports));
    memset(needed, 0, tree->count * sizeof(*needed));
    for (size_t i = 0; i < count; i++) {
        needed[leaves[i].sw]++;
        if (leaves[i].port != MCSM_NO_PORT) {
            set_bit(ports[leaves[i].sw], leaves[i].port);
        }
    }
    for (int i = tree->reached - 1; i > 0; i--) {
        needed[tree->parent[tree->order[i]]] += needed[tree->order[i]];
    }
    if (tree->reached > 0) {
        total = needed[tree->order[0]];
    }
    for (int i = 1; i < tree->reached; i++) {
        int at = tree->order[i];

        if (needed[at] == 0 || needed[at] == total) {
            continue;
        }
        set_bit(ports[at], tree->up[at]);
        set_bit(ports[tree->parent[at]], tree->down[at]);
    }
}

uint16_t mcsm_mlid_of(const uint8_t mgid[16], uint16_t mlids)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (int i = 0; i < 16; i++) {
        hash = (hash ^ mgid[i]) * 16777619u;
    }
    hash ^= hash >> 16;
    return MCSM_MLID_MIN + hash % mlids;
}
