/* Which service level a path has, and which virtual lane a service level has at a port. */
#include "route/lanes.h"
#include "sm.h"

enum {
    LEVELS = 16,   /* service levels */
    SPARE_SL = 15, /* for the pairs whose level is the service level of groups */
    DROP = 15      /* the virtual lane of packets that are dropped */
};

/* A service level stands for a level of the configuration and a level of the routes. */
struct meaning {
    int class; /* index into config->classes; -1: no path has the service level */
    int level; /* of the routes, counted without gaps */
};

bool mcsm_sm_shares(const struct mcsm_sm *sm)
{
    return sm->config->shares_lanes && sm->graph != NULL && sm->graph->lanes > 1;
}

/* Level 0 of the routes keeps the number in the configuration, so groups and managers do not need to
 * know of the lanes. The further levels of the routes get the numbers that are left. */
static void explain(const struct mcsm_sm *sm, struct meaning meanings[LEVELS])
{
    const struct mcsm_config *config = sm->config;
    int levels = mcsm_levels(sm->graph), next = 0;

    for (int sl = 0; sl < LEVELS; sl++) {
        meanings[sl] = (struct meaning){-1, 0};
    }
    for (int c = 0; c < config->class_count; c++) {
        meanings[config->classes[c]].class = c;
    }
    for (int c = 0; c < config->class_count; c++) {
        for (int level = 1; level < levels && next < LEVELS; level++) {
            while (next < LEVELS && meanings[next].class >= 0) {
                next++;
            }
            if (next < LEVELS) {
                meanings[next] = (struct meaning){c, level};
            }
        }
    }
}

static int switch_of(const struct mcsm_port *port)
{
    const struct mcsm_node *node = port->node->sw ? port->node :
                                   port->peer     ? port->peer->node :
                                                    NULL;

    return node != NULL && node->sw ? node->index : -1;
}

static bool is_for_groups(const struct mcsm_sm *sm, int level)
{
    return sm->config->multicast_sl != 0 && level == sm->config->multicast_sl;
}

/* The level of the routes between two ports; `b` may be NULL. */
static int level_between(const struct mcsm_sm *sm, const struct mcsm_port *a,
                         const struct mcsm_port *b)
{
    int from = switch_of(a), to = b ? switch_of(b) : -1;

    if (sm->graph == NULL || from < 0 || to < 0 || from >= sm->graph->count ||
        to >= sm->graph->count) {
        return 0;
    }
    return mcsm_lane(sm->graph, from, to);
}

/* Whether a service level stands for the level of the routes between two ports. */
static bool fits(const struct mcsm_sm *sm, struct meaning meaning, const struct mcsm_port *a,
                 const struct mcsm_port *b)
{
    return meaning.class >= 0 && mcsm_level_at(sm->graph, meaning.level) == level_between(sm, a, b);
}

uint8_t mcsm_sm_level(const struct mcsm_sm *sm, uint8_t wish, const struct mcsm_port *a,
                      const struct mcsm_port *b)
{
    struct meaning meanings[LEVELS];

    explain(sm, meanings);
    for (int sl = 0; sl < LEVELS; sl++) {
        if (meanings[sl].class >= 0 && sm->config->classes[meanings[sl].class] == wish &&
            fits(sm, meanings[sl], a, b)) {
            return sl;
        }
    }
    return wish;
}

bool mcsm_sm_level_fits(const struct mcsm_sm *sm, uint8_t sl, const struct mcsm_port *a,
                        const struct mcsm_port *b)
{
    struct meaning meanings[LEVELS];

    explain(sm, meanings);
    return fits(sm, meanings[sl], a, b);
}

uint8_t mcsm_sm_lane(const struct mcsm_sm *sm, const struct mcsm_port *a, const struct mcsm_port *b)
{
    int level = level_between(sm, a, b);

    if (mcsm_sm_shares(sm)) {
        return mcsm_sm_level(sm, 0, a, b);
    }
    return is_for_groups(sm, level) ? SPARE_SL : level;
}

int mcsm_sm_lanes(const struct mcsm_sm *sm)
{
    int lanes = sm->graph ? sm->graph->lanes : 1;

    if (mcsm_sm_shares(sm)) {
        return lanes * sm->config->class_count;
    }
    return sm->config->multicast_sl >= lanes ? sm->config->multicast_sl + 1 : lanes;
}

/* The lane of a level of the routes. A host has one port, so any lane of a ring will do: lane 0. */
static int lane_at(const struct mcsm_graph *graph, const struct mcsm_port *port, int level)
{
    if (port->node->sw && port->node->index < graph->count) {
        return mcsm_vl(graph, graph->sw[port->node->index].first_link + port->num, level);
    }
    return graph->ring == NULL      ? level :
           level < MCSM_RING_LEVELS ? 0 :
                                      2 + level - MCSM_RING_LEVELS;
}

static uint8_t shared_vl(const struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t sl)
{
    struct meaning meanings[LEVELS];

    explain(sm, meanings);
    if (meanings[sl].class < 0) {
        return DROP;
    }
    return meanings[sl].class * sm->graph->lanes +
           lane_at(sm->graph, port, mcsm_level_at(sm->graph, meanings[sl].level));
}

uint8_t mcsm_sm_vl(const struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t sl)
{
    const struct mcsm_graph *graph = sm->graph;
    int level = sl, lane;

    if (mcsm_sm_shares(sm)) {
        return shared_vl(sm, port, sl);
    }
    if (is_for_groups(sm, sl)) {
        return sl;
    }
    if (sl == SPARE_SL) {
        level = sm->config->multicast_sl;
    }
    if (graph == NULL || (sl == SPARE_SL && (graph->ring == NULL || level == 0))) {
        return graph == NULL && sl == 0 ? 0 : DROP;
    }
    if (graph->ring != NULL && level < MCSM_RING_LEVELS && level >> graph->grid->rings != 0) {
        return DROP;
    }
    lane = lane_at(graph, port, level);
    return lane < graph->lanes ? lane : DROP;
}

uint64_t mcsm_sm_lane_map(const struct mcsm_sm *sm)
{
    const struct mcsm_graph *graph = sm->graph;
    uint64_t map = mcsm_sm_lanes(sm) - 1;

    for (int i = 0; graph != NULL && graph->ring != NULL && i < graph->count; i++) {
        for (int p = 0; p <= graph->sw[i].nports; p++) {
            map = (map ^ graph->ring[graph->sw[i].first_link + p]) * 0x100000001b3ULL;
        }
        map ^= graph->sw[i].guid;
    }
    return map;
}
