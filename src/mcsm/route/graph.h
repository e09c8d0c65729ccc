/*
 * The graph that routing works on: switches, the links between them, and targets. The graph
 * contains no MADs, so the tests can route fabrics in memory.
 *
 * A target is a LID and the switch port behind which it is: an end port of the cluster, or, for a
 * LID of another cluster, a transit port. The second stage of the paper ("Computing forwarding
 * tables") thereby uses the same engines as the first one.
 */
#ifndef MCSM_GRAPH_H
#define MCSM_GRAPH_H

#include "config/config.h"
#include "grid.h"

enum {
    MCSM_UNREACHED = -1,
    MCSM_DROP = 255,                         /* the LFT entry of a LID that leads nowhere */
    MCSM_COLUMNS = 64,                       /* entries of a table that share a line of the cache */
    MCSM_RING_LEVELS = 1 << MCSM_GRID_RINGS, /* levels below it select lanes by ring */
    MCSM_NO_RING = MCSM_GRID_RINGS + 1       /* values of mcsm_graph.ring */
};

struct mcsm_gport {
    int peer; /* index of the switch behind; -1: none, or not a switch */
    uint8_t peer_port;
};

struct mcsm_gswitch {
    uint64_t guid;
    struct mcsm_gport *ports; /* 1..nports */
    uint8_t *lft;             /* lid_top + 1 entries; written by mcsm_route() */
    int hosts;                /* sources of packets: end ports, and sources behind transit ports */
    int entering;             /* how many of them are behind transit ports */
    int first_link;           /* number of its port 0 among all ports of the graph */
    int rank;                 /* Up/Down: steps from the nearest root */
    uint8_t nports;
    bool border; /* packets of other clusters come in here: a root of Up/Down */
    bool strict; /* the contract forbids that packets of a neighbour go back to it from here */
    bool bare;   /* the switch has neither hosts nor joints, so no multicast tree ends here */
};

struct mcsm_target {
    int sw;
    uint16_t lid;
    uint8_t port;
    bool foreign;
};

struct mcsm_graph {
    struct mcsm_gswitch *sw;
    int count;
    unsigned lid_top;
    int links; /* ports of all switches, with port 0 */
    struct mcsm_target *targets;
    size_t target_count, target_room;
    uint64_t *load; /* of each port: how many (source, LID) pairs leave through it */
    int lanes;      /* virtual lanes, at least 1 */
    uint8_t *lane;  /* of each pair of switches: its level; NULL: all have level 0 */
    /*
     * Of each port number: how a level selects a lane there. NULL, or 0: level n has lane n. n of 1
     * to MCSM_GRID_RINGS: bit n - 1 of the level is the lane. MCSM_NO_RING: lane 0. At ports of the
     * last two kinds, level MCSM_RING_LEVELS + n has lane 2 + n.
     */
    uint8_t *ring;
    struct mcsm_grid *grid; /* NULL: routes do not follow a grid */
};

/** `nports` of each switch; the caller owns the tables. NULL without memory. */
struct mcsm_graph *mcsm_graph_new(int count, const uint8_t *nports);
void mcsm_graph_free(struct mcsm_graph *graph);

void mcsm_graph_link(struct mcsm_graph *graph, int a, uint8_t a_port, int b, uint8_t b_port);
int mcsm_graph_target(struct mcsm_graph *graph, int sw, uint8_t port, uint16_t lid, bool foreign);

/** Fill the tables of all switches by the engine of the configuration; entries of LIDs that are no
 * target, or cannot be reached, are MCSM_DROP. -ENOMEM. */
int mcsm_route(struct mcsm_graph *graph, const struct mcsm_config *config);
int mcsm_route_by(struct mcsm_graph *graph, const struct mcsm_config *config,
                  enum mcsm_engine kind);

/** Ranks for Up/Down: from the configured roots, or else from the switches in the centre. */
int mcsm_rank(struct mcsm_graph *graph, const uint64_t *roots, size_t root_count);

/** Whether a link leads up: to a lower rank, among equals to a lower GUID. */
bool mcsm_is_up(const struct mcsm_graph *graph, int from, int to);

/** Steps from one switch to all others; MCSM_UNREACHED where there is no way. `queue` gets the
 * switches in the order of their distance; returns how many. */
int mcsm_distances(const struct mcsm_graph *graph, int from, int *distance, int *queue);

/**
 * Arranges the tables of a large fabric by LID: all switches' entries of a LID are adjacent. (Table
 * by table, each step would miss the cache.) columns[k * graph->count + i] is the entry of switch i
 * for LID first + k; a switch without a table drops. `columns` has room for `count` LIDs, at most
 * MCSM_COLUMNS, which are in all tables.
 */
void mcsm_columns(const struct mcsm_graph *graph, unsigned first, unsigned count, uint8_t *columns);

/** Returns the switch behind each port number of the graph, or -1. The caller frees the array. NULL
 * without memory. */
int *mcsm_peers(const struct mcsm_graph *graph);

/** The level of packets between two switches. */
static inline int mcsm_lane(const struct mcsm_graph *graph, int from, int to)
{
    return graph->lane ? graph->lane[(size_t)from * graph->count + to] : 0;
}

/** Returns the virtual lane that a level uses at a port number of the graph. */
static inline int mcsm_vl(const struct mcsm_graph *graph, int link, int level)
{
    int ring = graph->ring ? graph->ring[link] : 0;

    if (ring == 0) {
        return level;
    }
    if (level >= MCSM_RING_LEVELS) {
        return 2 + level - MCSM_RING_LEVELS;
    }
    return ring == MCSM_NO_RING ? 0 : level >> (ring - 1) & 1;
}

/** How many levels the pairs have, and the n-th of them: levels of rings come before levels of lanes. */
static inline int mcsm_levels(const struct mcsm_graph *graph)
{
    return graph->ring == NULL ? graph->lanes : (1 << graph->grid->rings) + graph->lanes - 2;
}

static inline int mcsm_level_at(const struct mcsm_graph *graph, int n)
{
    int rings = graph->ring == NULL ? MCSM_RING_LEVELS : 1 << graph->grid->rings;

    return n < rings || graph->ring == NULL ? n : MCSM_RING_LEVELS + n - rings;
}

/** Whether packets may use lane 0 on one link and lane 1 on another. */
static inline bool mcsm_changes_lanes(const struct mcsm_graph *graph)
{
    return graph->ring != NULL;
}

/** Which switch a port number of the graph belongs to. */
int mcsm_graph_owner(const struct mcsm_graph *graph, int link);

/** Spread LIDs over transit ports: the port (index into alive[]) that a neighbour's n-th LID leaves
 * through; -1 if none is alive. While its port lives, a LID keeps it. */
int mcsm_transit_choice(size_t n, const bool *alive, int count);

#endif
