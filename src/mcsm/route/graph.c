#include "graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mcsm_graph *mcsm_graph_new(int count, const uint8_t *nports)
{
    struct mcsm_graph *graph = calloc(1, sizeof(*graph));
    bool good = graph != NULL;

    if (good) {
        graph->lanes = 1;
    }

    if (good) {
        graph->sw = calloc(count + 1, sizeof(*graph->sw));
        good = graph->sw != NULL;
        graph->count = good ? count : 0;
    }
    for (int i = 0; good && i < count; i++) {
        struct mcsm_gswitch *sw = &graph->sw[i];

        sw->nports = nports[i];
        sw->first_link = graph->links;
        graph->links += nports[i] + 1;
        sw->ports = malloc((nports[i] + 1) * sizeof(*sw->ports));
        good = sw->ports != NULL;
        for (int p = 0; good && p <= nports[i]; p++) {
            sw->ports[p] = (struct mcsm_gport){-1, 0};
        }
    }
    if (good) {
        graph->load = calloc(graph->links + 1, sizeof(*graph->load));
        good = graph->load != NULL;
    }
    if (!good) {
        mcsm_graph_free(graph);
        return NULL;
    }
    return graph;
}

void mcsm_graph_free(struct mcsm_graph *graph)
{
    if (graph == NULL) {
        return;
    }
    for (int i = 0; i < graph->count; i++) {
        free(graph->sw[i].ports);
    }
    free(graph->sw);
    free(graph->targets);
    free(graph->load);
    free(graph->lane);
    free(graph->ring);
    mcsm_grid_free(graph->grid);
    free(graph);
}

void mcsm_graph_link(struct mcsm_graph *graph, int a, uint8_t a_port, int b, uint8_t b_port)
{
    graph->sw[a].ports[a_port] = (struct mcsm_gport){b, b_port};
    graph->sw[b].ports[b_port] = (struct mcsm_gport){a, a_port};
}

int mcsm_graph_target(struct mcsm_graph *graph, int sw, uint8_t port, uint16_t lid, bool foreign)
{
    if (graph->target_count == graph->target_room) {
        size_t room = graph->target_room ? graph->target_room * 2 : 1024;
        struct mcsm_target *more = realloc(graph->targets, room * sizeof(*more));

        if (more == NULL) {
            return -ENOMEM;
        }
        graph->targets = more;
        graph->target_room = room;
    }
    if (lid > graph->lid_top) {
        graph->lid_top = lid;
    }
    graph->targets[graph->target_count++] = (struct mcsm_target){sw, lid, port, foreign};
    return 0;
}

int mcsm_distances(const struct mcsm_graph *graph, int from, int *distance, int *queue)
{
    int head = 0, tail = 0;

    for (int i = 0; i < graph->count; i++) {
        distance[i] = MCSM_UNREACHED;
    }
    distance[from] = 0;
    queue[tail++] = from;
    while (head < tail) {
        int at = queue[head++];

        for (int p = 1; p <= graph->sw[at].nports; p++) {
            int peer = graph->sw[at].ports[p].peer;

            if (peer < 0 || distance[peer] != MCSM_UNREACHED) {
                continue;
            }
            distance[peer] = distance[at] + 1;
            queue[tail++] = peer;
        }
    }
    return tail;
}

void mcsm_columns(const struct mcsm_graph *graph, unsigned first, unsigned count, uint8_t *columns)
{
    enum { TILE = 64 }; /* switches whose part of the table is in the cache at once */
    static const uint8_t none[MCSM_COLUMNS] = {[0 ... MCSM_COLUMNS - 1] = MCSM_DROP};
    const uint8_t *rows[TILE];

    for (int tile = 0; tile < graph->count; tile += TILE) {
        int width = tile + TILE < graph->count ? TILE : graph->count - tile;

        for (int i = 0; i < width; i++) {
            rows[i] = graph->sw[tile + i].lft ? graph->sw[tile + i].lft + first : none;
        }
        for (unsigned k = 0; k < count; k++) {
            uint8_t *column = columns + (size_t)k * graph->count + tile;

            for (int i = 0; i < width; i++) {
                column[i] = rows[i][k];
            }
        }
    }
}

int *mcsm_peers(const struct mcsm_graph *graph)
{
    int *peers = malloc((graph->links + 1) * sizeof(*peers));

    for (int i = 0; peers != NULL && i < graph->count; i++) {
        for (int p = 0; p <= graph->sw[i].nports; p++) {
            peers[graph->sw[i].first_link + p] = graph->sw[i].ports[p].peer;
        }
    }
    return peers;
}

int mcsm_graph_owner(const struct mcsm_graph *graph, int link)
{
    int low = 0, high = graph->count - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;

        if (graph->sw[middle].first_link <= link) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

int mcsm_transit_choice(size_t n, const bool *alive, int count)
{
    int living = 0, wanted;

    if (count == 0) {
        return -1;
    }
    if (alive[n % count]) {
        return n % count;
    }
    for (int i = 0; i < count; i++) {
        living += alive[i];
    }
    if (living == 0) {
        return -1;
    }
    wanted = n / count % living;
    for (int i = 0; i < count; i++) {
        if (alive[i] && wanted-- == 0) {
            return i;
        }
    }
    return -1;
}
