#include "mcast.h"

#include <stdlib.h>
#include <string.h>

/* The switch from which all others are reached in the fewest steps. */
static int find_root(const mcsm_graph_t *graph, int *distance, int *queue)
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

static void grow(const mcsm_graph_t *graph, mcsm_tree_t *tree, int *distance)
{
    int root = find_root(graph, distance, tree->order);

    tree->reached = mcsm_distances(graph, root, distance, tree->order);
    for (int i = 0; i < tree->reached; i++) {
        int at = tree->order[i];

        for (int p = 1; p <= graph->sw[at].nports; p++) {
            const mcsm_gport_t *port = &graph->sw[at].ports[p];

            if (port->peer < 0 || port->peer == root || tree->parent[port->peer] >= 0 ||
                distance[port->peer] != distance[at] + 1)
                continue;
            tree->parent[port->peer] = at;
            tree->up[port->peer] = port->peer_port;
            tree->down[port->peer] = p;
        }
    }
}

mcsm_tree_t *mcsm_tree_new(const mcsm_graph_t *graph)
{
    mcsm_tree_t *tree = calloc(1, sizeof(*tree));
    int *distance = malloc((graph->count + 1) * sizeof(int));

    if (tree != NULL) {
        tree->count = graph->count;
        tree->order = malloc((graph->count + 1) * sizeof(int));
        tree->parent = malloc((graph->count + 1) * sizeof(int));
        tree->up = calloc(graph->count + 1, 1);
        tree->down = calloc(graph->count + 1, 1);
    }
    if (!tree || !distance || !tree->order || !tree->parent || !tree->up || !tree->down) {
        mcsm_tree_free(tree);
        free(distance);
        return NULL;
    }
    for (int i = 0; i < graph->count; i++)
        tree->parent[i] = -1;
    if (graph->count > 0)
        grow(graph, tree, distance);
    free(distance);
    return tree;
}

void mcsm_tree_free(mcsm_tree_t *tree)
{
    if (tree == NULL)
        return;
    free(tree->order);
    free(tree->parent);
    free(tree->up);
    free(tree->down);
    free(tree);
}

static bool is_empty(const uint64_t set[4])
{
    return !(set[0] | set[1] | set[2] | set[3]);
}

static void set_bit(uint64_t set[4], uint8_t bit)
{
    set[bit / 64] |= 1ULL << bit % 64;
}

/* From the root downwards: while a switch only hands on to one other, it is not needed. */
static void cut_root(const mcsm_tree_t *tree, uint64_t (*ports)[4])
{
    for (int i = 0; i < tree->reached; i++) {
        int at = tree->order[i], only = -1;

        if (is_empty(ports[at]))
            continue;
        for (int k = i + 1; k < tree->reached && only < 0; k++) {
            int child = tree->order[k];

            if (tree->parent[child] == at && !is_empty(ports[child]))
                only = child;
        }
        if (only < 0)
            return;
        int bits = 0;
        for (int word = 0; word < 4; word++)
            bits += __builtin_popcountll(ports[at][word]);
        if (bits != 1)
            return;
        memset(ports[at], 0, sizeof(ports[at]));
        ports[only][tree->up[only] / 64] &= ~(1ULL << tree->up[only] % 64);
    }
}

void mcsm_tree_cut(const mcsm_tree_t *tree, const mcsm_leaf_t *leaves, size_t count,
                   uint64_t (*ports)[4])
{
    memset(ports, 0, tree->count * sizeof(*ports));
    for (size_t i = 0; i < count; i++)
        set_bit(ports[leaves[i].sw], leaves[i].port);
    for (int i = tree->reached - 1; i > 0; i--) {
        int at = tree->order[i];

        if (is_empty(ports[at]))
            continue;
        set_bit(ports[at], tree->up[at]);
        set_bit(ports[tree->parent[at]], tree->down[at]);
    }
    if (tree->reached > 0)
        cut_root(tree, ports);
}

uint16_t mcsm_mlid_of(const uint8_t mgid[16], uint16_t mlids)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (int i = 0; i < 16; i++)
        hash = (hash ^ mgid[i]) * 16777619u;
    hash ^= hash >> 16;
    return MCSM_MLID_MIN + hash % mlids;
}
