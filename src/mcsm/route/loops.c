/* Credit loops: circles in the channel dependency graph. */
#include "graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct cdg {
    const mcsm_graph_t *graph;
    int *peers;
    uint64_t (*next)[4]; /* of each channel: the ports of the next switch that follow it */
    unsigned *stamp;     /* of each switch: the last LID whose packets were followed through it */
    uint8_t *columns;
    bool *is_target; /* of each LID */
} cdg_t;

/* Follow the packets of all sources to one LID, and note which channel follows which. `column`:
 * what each switch does with the LID. */
static void follow(cdg_t *cdg, unsigned lid, const uint8_t *column)
{
    const mcsm_gswitch_t *sw = cdg->graph->sw;

    for (int source = 0; source < cdg->graph->count; source++) {
        int at = source, channel = -1;
        bool seen = sw[source].hosts == 0;

        while (!seen) {
            uint8_t port = column[at];
            int out = sw[at].first_link + port;

            if (port == 0 || port > sw[at].nports || cdg->peers[out] < 0)
                break;
            if (channel >= 0)
                cdg->next[channel][port / 64] |= 1ULL << port % 64;
            seen = cdg->stamp[at] == lid;
            cdg->stamp[at] = lid;
            channel = out;
            at = cdg->peers[out];
        }
    }
}

static void follow_all(cdg_t *cdg)
{
    const mcsm_graph_t *graph = cdg->graph;

    for (size_t i = 0; i < graph->target_count; i++)
        cdg->is_target[graph->targets[i].lid] = true;
    for (unsigned first = 0; first <= graph->lid_top; first += MCSM_COLUMNS) {
        unsigned rest = graph->lid_top + 1 - first;
        unsigned count = rest < MCSM_COLUMNS ? rest : MCSM_COLUMNS;

        mcsm_columns(graph, first, count, cdg->columns);
        for (unsigned k = 0; k < count; k++) {
            if (cdg->is_target[first + k])
                follow(cdg, first + k, cdg->columns + (size_t)k * graph->count);
        }
    }
}

/* ---- circles ---- */

typedef struct search {
    const cdg_t *cdg;
    uint8_t *colour; /* 0 new, 1 on the way, 2 done */
    int *way;        /* channels from the start to here */
    uint8_t *port;   /* of each place on the way: the next port to try */
    int depth;
} search_t;

/* The first port from `port` on that follows the channel; MCSM_DROP if there is none. */
static int next_port(const cdg_t *cdg, int channel, int port)
{
    while (port < MCSM_DROP) {
        uint64_t rest = cdg->next[channel][port / 64] >> port % 64;

        if (rest != 0)
            return port + __builtin_ctzll(rest);
        port = (port / 64 + 1) * 64;
    }
    return MCSM_DROP;
}

static void enter(search_t *search, int channel)
{
    search->colour[channel] = 1;
    search->way[search->depth] = channel;
    search->port[search->depth++] = 0;
}

/* Depth first from one channel. The place on the way where a circle begins; -1 if there is none. */
static int walk(search_t *search, int start)
{
    const cdg_t *cdg = search->cdg;

    search->depth = 0;
    enter(search, start);
    while (search->depth > 0) {
        int top = search->depth - 1, channel = search->way[top];
        int port = next_port(cdg, channel, search->port[top]), next;

        if (port == MCSM_DROP) {
            search->colour[channel] = 2;
            search->depth--;
            continue;
        }
        search->port[top] = port + 1;
        next = cdg->graph->sw[cdg->peers[channel]].first_link + port;
        if (search->colour[next] == 1) {
            while (search->way[top] != next)
                top--;
            return top;
        }
        if (search->colour[next] == 0)
            enter(search, next);
    }
    return -1;
}

static int find_circle(const cdg_t *cdg, int *circle, int room)
{
    int links = cdg->graph->links, found = 0;
    search_t search = {.cdg = cdg};

    search.colour = calloc(links + 1, 1);
    search.way = malloc((links + 1) * sizeof(int));
    search.port = malloc(links + 1);
    if (search.colour == NULL || search.way == NULL || search.port == NULL)
        found = -ENOMEM;
    for (int start = 0; start < links && found == 0; start++) {
        const uint64_t *next = cdg->next[start];
        int begin;

        if (search.colour[start] != 0 || !(next[0] | next[1] | next[2] | next[3]))
            continue;
        begin = walk(&search, start);
        if (begin < 0)
            continue;
        found = search.depth - begin;
        for (int i = 0; i < found && i < room; i++)
            circle[i] = search.way[begin + i];
    }
    free(search.colour);
    free(search.way);
    free(search.port);
    return found;
}

int mcsm_credit_loop(const mcsm_graph_t *graph, int *circle, int room)
{
    cdg_t cdg = {.graph = graph};
    int found = -ENOMEM;

    cdg.peers = mcsm_peers(graph);
    cdg.next = calloc(graph->links + 1, sizeof(*cdg.next));
    cdg.stamp = calloc(graph->count + 1, sizeof(*cdg.stamp));
    cdg.columns = malloc((size_t)MCSM_COLUMNS * graph->count + 1);
    cdg.is_target = calloc(graph->lid_top + 1, sizeof(*cdg.is_target));
    if (cdg.peers && cdg.next && cdg.stamp && cdg.columns && cdg.is_target) {
        follow_all(&cdg);
        found = find_circle(&cdg, circle, room);
    }
    free(cdg.peers);
    free(cdg.next);
    free(cdg.stamp);
    free(cdg.columns);
    free(cdg.is_target);
    return found;
}
