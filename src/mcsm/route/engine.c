/*
 * MinHop, Up/Down and DOR.
 *
 * For each switch that has targets, an engine lists the candidate ports of every other switch.
 * `order` holds the switches; a candidate always leads to a switch that is earlier in `order`.
 *
 * The choice is the same for all engines. For each target, each switch selects the candidate with
 * the least traffic so far. Ties go to the candidate whose whole path has the least traffic. Then
 * the traffic of all sources is added to the links of the path. So the balance counts packets, not
 * table entries.
 *
 * The first targets are routed before the traffic of the other targets is known. If the traffic
 * between the hosts of the cluster then loads the links unevenly, all targets are routed again, by
 * the least traffic of the whole path. The traffic of a target is removed before. The first choice
 * alone loads a whole fat tree evenly. A fat tree with faults needs both choices.
 *
 * Up/Down: ranks direct the links. A packet goes up zero or more times, then down zero or more
 * times. A table knows only the destination. So a switch with a path of down links always selects a
 * path of down links, and a packet that came down never goes up. All up channels, ordered towards
 * the roots, come before all down channels, ordered away from the roots. No circle is possible.
 *
 * DOR: of the shortest paths, the path that continues in the lowest dimension. On a mesh or
 * hypercube the order of the dimensions orders the channels, so no circle is possible. Each ring of
 * a torus may be a circle. Where the graph is a recognised grid (route/grid.h), its coordinates take
 * the place of the configured ports.
 */
#include "graph.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLED = 64, /* targets that judge a root */
    KEEPS = 4,    /* border switches that are tried as a root */
    TREES = 128   /* different ways to a transit switch, which LIDs of other clusters share */
};

struct engine {
    struct mcsm_graph *graph;
    const struct mcsm_config *config;
    enum mcsm_engine kind;
    int *distance;
    int *order;
    int order_count;
    int *first;          /* of each place in the order: its first candidate */
    uint8_t *candidates; /* ports */
    uint64_t *cost;      /* for each switch: the traffic on its path to the target */
    uint64_t *flow;
    const struct mcsm_target *siblings; /* the LIDs of one port, also the present one */
    size_t sibling_count;               /* 0: the port has one LID */
    uint16_t lid;                       /* the present one */
    bool passes;  /* packets pass from one cluster to another through this cluster */
    int *by_rank; /* Up/Down: all switches, highest first. Grids: the step of each switch */
    int *down;    /* Up/Down: steps of a way that leads down only. Grids: the next switch */
};

bool mcsm_is_up(const struct mcsm_graph *graph, int from, int to)
{
    const struct mcsm_gswitch *a = &graph->sw[from], *b = &graph->sw[to];

    return b->rank != a->rank ? b->rank < a->rank : b->guid < a->guid;
}

/* ---- candidates: MinHop ---- */

static void minhop(struct engine *engine, int target)
{
    const struct mcsm_graph *graph = engine->graph;
    int n = 0;

    engine->order_count = mcsm_distances(graph, target, engine->distance, engine->order);
    for (int i = 0; i < engine->order_count; i++) {
        int at = engine->order[i];

        engine->first[i] = n;
        for (int p = 1; p <= graph->sw[at].nports && i > 0; p++) {
            int peer = graph->sw[at].ports[p].peer;

            if (peer >= 0 && engine->distance[peer] == engine->distance[at] - 1) {
                engine->candidates[n++] = p;
            }
        }
    }
    engine->first[engine->order_count] = n;
}

/* ---- candidates: DOR ---- */

static int dimension_of(const struct mcsm_config *config, uint8_t port)
{
    for (size_t i = 0; i < config->dimension_count; i++) {
        if (memchr(config->dimensions[i].ports, port, config->dimensions[i].count) != NULL) {
            return i;
        }
    }
    return MCSM_MAX_DIMENSIONS + port;
}

/* Keeps the candidates of the lowest dimension that lead to one switch. Parallel cables stay. */
static void dor(struct engine *engine, int target)
{
    int n = 0;

    minhop(engine, target);
    for (int i = 0, start = 0; i < engine->order_count; i++) {
        const struct mcsm_gswitch *sw = &engine->graph->sw[engine->order[i]];
        int end = engine->first[i + 1], best = -1, kept = n;

        for (int k = start; k < end; k++) {
            if (best < 0 || dimension_of(engine->config, engine->candidates[k]) <
                                dimension_of(engine->config, engine->candidates[best])) {
                best = k;
            }
        }
        int peer = best < 0 ? -1 : sw->ports[engine->candidates[best]].peer;
        for (int k = start; k < end; k++) {
            if (sw->ports[engine->candidates[k]].peer == peer) {
                engine->candidates[n++] = engine->candidates[k];
            }
        }
        start = end;
        engine->first[i] = kept;
    }
    engine->first[engine->order_count] = n;
}

/* ---- candidates: grids ---- */

/* Adds all switches to the order whose step leads to a switch in it. Where links are missing, further
 * switches go to any switch that has a way. */
static void order_grid(struct engine *engine, const int *step, bool any)
{
    const struct mcsm_graph *graph = engine->graph;

    for (int i = 0; i < engine->order_count; i++) {
        int at = engine->order[i];

        for (int p = 1; p <= graph->sw[at].nports; p++) {
            int peer = graph->sw[at].ports[p].peer;

            if (peer >= 0 && engine->distance[peer] < 0 && (any || step[peer] == at)) {
                engine->distance[peer] = engine->distance[at] + 1;
                engine->down[peer] = at;
                engine->order[engine->order_count++] = peer;
            }
        }
    }
}

static void grid(struct engine *engine, int target)
{
    const struct mcsm_graph *graph = engine->graph;
    int *step = engine->by_rank, n = 0;

    for (int i = 0; i < graph->count; i++) {
        step[i] = mcsm_grid_step(graph->grid, i, target);
        engine->distance[i] = MCSM_UNREACHED;
    }
    engine->distance[target] = 0;
    engine->order[0] = target;
    engine->order_count = 1;
    order_grid(engine, step, false);
    if (engine->order_count < graph->count) {
        order_grid(engine, step, true);
    }
    for (int i = 0; i < engine->order_count; i++) {
        int at = engine->order[i];

        engine->first[i] = n;
        for (int p = 1; p <= graph->sw[at].nports && i > 0; p++) {
            if (graph->sw[at].ports[p].peer == engine->down[at]) {
                engine->candidates[n++] = p;
            }
        }
    }
    engine->first[engine->order_count] = n;
}

/* ---- candidates: Up/Down ---- */

/* Computes the distance to the target for switches above it, by paths of down links. Returns the
 * number of these switches; `order` has the switches. */
static int find_down(struct engine *engine, int target)
{
    const struct mcsm_graph *graph = engine->graph;
    int head = 0, tail = 0;

    for (int i = 0; i < graph->count; i++) {
        engine->down[i] = engine->distance[i] = MCSM_UNREACHED;
    }
    engine->down[target] = engine->distance[target] = 0;
    engine->order[tail++] = target;
    while (head < tail) {
        int at = engine->order[head++];

        for (int p = 1; p <= graph->sw[at].nports; p++) {
            int peer = graph->sw[at].ports[p].peer;

            if (peer < 0 || engine->down[peer] != MCSM_UNREACHED || !mcsm_is_up(graph, at, peer)) {
                continue;
            }
            engine->down[peer] = engine->distance[peer] = engine->down[at] + 1;
            engine->order[tail++] = peer;
        }
    }
    return tail;
}

static bool updn_candidate(const struct engine *engine, int at, int peer)
{
    if (engine->down[at] != MCSM_UNREACHED) {
        return engine->down[peer] == engine->down[at] - 1 && engine->down[peer] >= 0 &&
               !mcsm_is_up(engine->graph, at, peer);
    }
    return mcsm_is_up(engine->graph, at, peer) && engine->distance[peer] != MCSM_UNREACHED &&
           engine->distance[peer] == engine->distance[at] - 1;
}

static void updn(struct engine *engine, int target)
{
    const struct mcsm_graph *graph = engine->graph;
    int n = 0;

    engine->order_count = find_down(engine, target);
    for (int i = 0; i < graph->count; i++) {
        int at = engine->by_rank[i], best = MCSM_UNREACHED;

        if (engine->down[at] != MCSM_UNREACHED) {
            continue;
        }
        for (int p = 1; p <= graph->sw[at].nports; p++) {
            int peer = graph->sw[at].ports[p].peer;

            if (peer >= 0 && mcsm_is_up(graph, at, peer) &&
                engine->distance[peer] != MCSM_UNREACHED &&
                (best == MCSM_UNREACHED || engine->distance[peer] + 1 < best)) {
                best = engine->distance[peer] + 1;
            }
        }
        engine->distance[at] = best;
        if (best != MCSM_UNREACHED) {
            engine->order[engine->order_count++] = at;
        }
    }
    for (int i = 0; i < engine->order_count; i++) {
        int at = engine->order[i];

        engine->first[i] = n;
        for (int p = 1; p <= graph->sw[at].nports && i > 0; p++) {
            int peer = graph->sw[at].ports[p].peer;

            if (peer >= 0 && updn_candidate(engine, at, peer)) {
                engine->candidates[n++] = p;
            }
        }
    }
    engine->first[engine->order_count] = n;
}

/* ---- ranks ---- */

/* The switch whose farthest switch is nearest; of several the one with most links to switches. */
static int find_centre(struct mcsm_graph *graph, int *distance, int *queue)
{
    int best = 0, best_far = -1, best_links = 0;

    for (int i = 0; i < graph->count; i++) {
        int reached = mcsm_distances(graph, i, distance, queue), links = 0;
        int far = distance[queue[reached - 1]] + (graph->count - reached) * graph->count;

        for (int p = 1; p <= graph->sw[i].nports; p++) {
            links += graph->sw[i].ports[p].peer >= 0;
        }
        if (best_far < 0 || far < best_far || (far == best_far && links > best_links)) {
            best = i;
            best_far = far;
            best_links = links;
        }
    }
    return best;
}

/* Without configured roots, the roots are the tops of a fat tree: switches without end ports that
 * are farthest from switches with end ports. In a fabric without tops, the root is the centre of
 * the fabric. */
static int automatic_roots(struct mcsm_graph *graph, int *queue, int *scratch)
{
    int head = 0, tail = 0, top = 0, count = 0;

    for (int i = 0; i < graph->count; i++) {
        graph->sw[i].rank = graph->sw[i].hosts > 0 ? 0 : MCSM_UNREACHED;
        if (graph->sw[i].rank == 0) {
            queue[tail++] = i;
        }
    }
    while (head < tail) {
        int at = queue[head++];

        top = graph->sw[at].rank;
        for (int p = 1; p <= graph->sw[at].nports; p++) {
            int peer = graph->sw[at].ports[p].peer;

            if (peer >= 0 && graph->sw[peer].rank == MCSM_UNREACHED) {
                graph->sw[peer].rank = graph->sw[at].rank + 1;
                queue[tail++] = peer;
            }
        }
    }
    for (int i = 0; i < graph->count && top > 0; i++) {
        if (graph->sw[i].rank == top) {
            queue[count++] = i;
        }
    }
    for (int i = 0; i < graph->count; i++) {
        if (graph->sw[i].border && (top == 0 || graph->sw[i].rank != top)) {
            queue[count++] = i;
        }
    }
    if (count == 0) {
        int centre = find_centre(graph, scratch, queue);

        queue[count++] = centre;
    }
    return count;
}

int mcsm_rank(struct mcsm_graph *graph, const uint64_t *roots, size_t root_count)
{
    int *queue = calloc(graph->count + 1, sizeof(*queue));
    int *scratch = calloc(graph->count + 1, sizeof(*scratch));
    int tail = 0;

    if (queue == NULL || scratch == NULL) {
        free(queue);
        free(scratch);
        return -ENOMEM;
    }
    for (size_t r = 0; r < root_count; r++) {
        for (int i = 0; i < graph->count; i++) {
            if (graph->sw[i].guid == roots[r]) {
                queue[tail++] = i;
            }
        }
    }
    if (root_count > (size_t)tail) {
        mcsm_warn("[routing] roots: %zu of %zu switches are not in the fabric", root_count - tail,
                  root_count);
    }
    if (tail == 0 && graph->count > 0) {
        tail = automatic_roots(graph, queue, scratch);
    }
    for (int i = 0; i < graph->count; i++) {
        graph->sw[i].rank = graph->count;
    }
    for (int i = 0; i < tail; i++) {
        graph->sw[queue[i]].rank = 0;
    }
    for (int head = 0; head < tail; head++) {
        int at = queue[head];

        for (int p = 1; p <= graph->sw[at].nports; p++) {
            int peer = graph->sw[at].ports[p].peer;

            if (peer >= 0 && graph->sw[peer].rank == graph->count) {
                graph->sw[peer].rank = graph->sw[at].rank + 1;
                queue[tail++] = peer;
            }
        }
    }
    free(queue);
    free(scratch);
    return 0;
}

static const struct mcsm_graph *sorted_graph;

static int highest_first(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    if (x == y) {
        return 0;
    }
    return mcsm_is_up(sorted_graph, y, x) ? -1 : 1;
}

/* ---- the choice ---- */

/* Adds the traffic to a target to the links of its routes, or takes the traffic away. */
static void carry(struct engine *engine, const struct mcsm_target *target, uint64_t weight,
                  bool add)
{
    struct mcsm_graph *graph = engine->graph;

    for (int i = 0; i < engine->order_count; i++) {
        const struct mcsm_gswitch *sw = &graph->sw[engine->order[i]];
        int sources = target->foreign && !engine->passes ? sw->hosts - sw->entering : sw->hosts;

        engine->flow[engine->order[i]] = i > 0 ? sources * weight : 0;
    }
    for (int i = engine->order_count - 1; i > 0; i--) {
        const struct mcsm_gswitch *sw = &graph->sw[engine->order[i]];
        uint8_t port = sw->lft[target->lid];
        uint64_t flow;

        if (port == MCSM_DROP) {
            continue;
        }
        flow = engine->flow[engine->order[i]];
        graph->load[sw->first_link + port] += add ? flow : -flow;
        engine->flow[sw->ports[port].peer] += flow;
    }
}

/* Counts the other LIDs of the target's port that leave a switch through a port. Only LIDs with a
 * route count: in the first choice those before the target. */
static unsigned siblings_through(const struct engine *engine, const struct mcsm_gswitch *sw,
                                 uint8_t port)
{
    unsigned count = 0;

    for (size_t i = 0; i < engine->sibling_count; i++) {
        uint16_t lid = engine->siblings[i].lid;

        count += lid != engine->lid && sw->lft[lid] == port;
    }
    return count;
}

/* `weight`: how many LIDs will go this way. The LIDs of one port (LMC) use different ports of each
 * switch, as far as the switch has candidates. */
static void choose(struct engine *engine, const struct mcsm_target *target, uint64_t weight,
                   bool again)
{
    struct mcsm_graph *graph = engine->graph;

    engine->cost[target->sw] = 0;
    graph->sw[target->sw].lft[target->lid] = target->port;
    for (int i = 1; i < engine->order_count; i++) {
        int at = engine->order[i];
        const struct mcsm_gswitch *sw = &graph->sw[at];
        uint64_t least = UINT64_MAX, best = UINT64_MAX;
        unsigned fewest = UINT_MAX;
        uint8_t port = MCSM_DROP;

        for (int k = engine->first[i]; k < engine->first[i + 1]; k++) {
            uint8_t p = engine->candidates[k];
            uint64_t load = graph->load[sw->first_link + p];
            uint64_t cost = engine->cost[sw->ports[p].peer] + load;

            unsigned same = siblings_through(engine, sw, p);
            bool better = again ? cost < best || (cost == best && load < least) :
                                  load < least || (load == least && cost < best);

            if (same < fewest || (same == fewest && better)) {
                fewest = same;
                least = load;
                best = cost;
                port = p;
            }
        }
        engine->cost[at] = best;
        sw->lft[target->lid] = port;
    }
    carry(engine, target, weight, true);
}

static int by_switch(const void *a, const void *b)
{
    const struct mcsm_target *x = a, *y = b;

    /* A switch's own LID carries little traffic. The LID comes last, and so disturbs no balance. */
    if ((x->port == 0) != (y->port == 0)) {
        return x->port == 0 ? 1 : -1;
    }
    if (x->foreign != y->foreign) {
        return x->foreign - y->foreign;
    }
    if (x->sw != y->sw) {
        return x->sw < y->sw ? -1 : 1;
    }
    return x->lid < y->lid ? -1 : x->lid > y->lid;
}

/* Whether borders have to be roots, so that packets of other clusters do not go back. */
static bool is_strict(const struct engine *engine)
{
    for (int i = 0; i < engine->graph->count; i++) {
        if (engine->graph->sw[i].strict && !engine->config->contract_only_named) {
            return true;
        }
    }
    return false;
}

static void sort_by_rank(struct engine *engine)
{
    for (int i = 0; i < engine->graph->count; i++) {
        engine->by_rank[i] = i;
    }
    sorted_graph = engine->graph;
    qsort(engine->by_rank, engine->graph->count, sizeof(int), highest_first);
}

/* ---- targets without a legal way, and the placing of switches below all others ---- */

enum target_kind { TO_HOST, TO_SWITCH, TO_CLUSTER, TARGET_KINDS };

enum reached {
    ALL_REACHED,
    SOME_PLACED, /* switches are below all others now: judge again */
    NOT_REACHED
};

static enum target_kind kind_of(const struct mcsm_target *target)
{
    return target->foreign ? TO_CLUSTER : target->port == 0 ? TO_SWITCH : TO_HOST;
}

/* Whether packets from the switch have to reach the target. All switches answer hosts and send traps to
 * them. Only hosts send to switches. With contract = keep, hosts behind borders need not reach switches,
 * since that would need one root. If borders have to be roots, the contract finds the routes to other
 * clusters later. */
static bool has_to_reach(const struct engine *engine, int from, enum target_kind kind, bool strict)
{
    const struct mcsm_gswitch *sw = &engine->graph->sw[from];
    int own = sw->hosts - sw->entering;

    switch (kind) {
    case TO_HOST:
        return true;
    case TO_SWITCH:
        return (engine->config->contract_only_named ? sw->hosts : own) > 0;
    default:
        return !strict && (engine->passes ? sw->hosts : own) > 0;
    }
}

/* Lists switches that are connected with the target, have to reach it, and have no legal way. With
 * several roots there may be some: two switches need not be connected by a way that goes up once and
 * down once. Returns how many. */
static int list_cut_off(struct engine *engine, const struct mcsm_target *target, bool strict,
                        int *list)
{
    int connected = mcsm_distances(engine->graph, target->sw, list, engine->order), count = 0;

    updn(engine, target->sw);
    if (engine->order_count == connected) {
        return 0;
    }
    for (int i = 0; i < engine->graph->count; i++) { /* count <= i: list[i] is still a distance */
        if (list[i] != MCSM_UNREACHED && engine->distance[i] == MCSM_UNREACHED &&
            has_to_reach(engine, i, kind_of(target), strict)) {
            list[count++] = i;
        }
    }
    return count;
}

/* Places a switch below all others. The switch reaches the others by ways up, and packets between other
 * switches do not pass it. The order of the placed switches is reversed. Returns false if the switch has hosts,
 * is placed already, or is a border switch whose packets must not go up. Packets that go up would close the
 * other borders. */
static bool place_below(struct engine *engine, int at, int keep)
{
    struct mcsm_graph *graph = engine->graph;
    struct mcsm_gswitch *sw = &graph->sw[at];

    if (at == keep || sw->strict || sw->hosts > sw->entering || sw->rank >= graph->count) {
        return false;
    }
    sw->rank = 2 * graph->count - sw->rank;
    sort_by_rank(engine);
    return true;
}

/* Places the target's switch below all others. If this switch has to stay, places the switches that are
 * cut off. */
static bool place_some(struct engine *engine, int target, const int *cut_off, int count, int keep)
{
    bool placed = place_below(engine, target, keep);

    for (int i = 0; i < count && !placed; i++) {
        placed = place_below(engine, cut_off[i], keep);
    }
    return placed;
}

/* Judges all targets. keep >= 0: places switches without hosts below all others, but not `keep`. */
static enum reached judge_reach(struct engine *engine, int keep, int *list, bool *judged)
{
    const struct mcsm_graph *graph = engine->graph;
    enum reached reached = ALL_REACHED;
    bool strict = is_strict(engine);

    memset(judged, 0, graph->count * TARGET_KINDS * sizeof(*judged));
    for (size_t i = 0; i < graph->target_count; i++) {
        const struct mcsm_target *target = &graph->targets[i];
        bool *done = &judged[target->sw * TARGET_KINDS + kind_of(target)];
        int count;

        if (*done) {
            continue;
        }
        *done = true;
        count = list_cut_off(engine, target, strict, list);
        if (count > 0 && (keep < 0 || !place_some(engine, target->sw, list, count, keep))) {
            return NOT_REACHED;
        }
        reached = count > 0 ? SOME_PLACED : reached;
    }
    return reached;
}

/* 1: all targets are reached, 0: they are not, or -ENOMEM. */
static int reaches_all(struct engine *engine, int keep)
{
    size_t n = engine->graph->count + 1;
    int *list = malloc(n * sizeof(*list));
    bool *judged = malloc(n * TARGET_KINDS * sizeof(*judged));
    enum reached reached = list && judged ? SOME_PLACED : NOT_REACHED;
    int status = list && judged ? 0 : -ENOMEM;

    while (reached == SOME_PLACED) {
        reached = judge_reach(engine, keep, list, judged);
    }
    free(list);
    free(judged);
    return status < 0 ? status : reached == ALL_REACHED;
}

static int links_of(const struct mcsm_gswitch *sw)
{
    int links = 0;

    for (int p = 1; p <= sw->nports; p++) {
        links += sw->ports[p].peer >= 0;
    }
    return links;
}

/* The border switch, or the switch with hosts, that has most links. A border switch where the contract
 * forbids the way back comes before others. -1: none. */
static int find_linked(const struct mcsm_graph *graph, bool border)
{
    int best = -1;

    for (int i = 0; i < graph->count; i++) {
        const struct mcsm_gswitch *sw = &graph->sw[i];

        if ((border ? sw->border : sw->hosts > 0 && !sw->border) &&
            (best < 0 || sw->strict > graph->sw[best].strict ||
             (sw->strict == graph->sw[best].strict && links_of(sw) > links_of(&graph->sw[best])))) {
            best = i;
        }
    }
    return best;
}

static int rank_from(struct engine *engine, int root)
{
    if (mcsm_rank(engine->graph, &engine->graph->sw[root].guid, 1) < 0) {
        return -ENOMEM;
    }
    sort_by_rank(engine);
    return 0;
}

/* Counts the steps of the routes of a sample of targets, and the ports that they may choose from. */
static void judge_ranks(struct engine *engine, uint64_t *steps_p, uint64_t *choices_p)
{
    const struct mcsm_graph *graph = engine->graph;
    int stride = graph->count / SAMPLED + 1;

    *steps_p = *choices_p = 0;
    for (int target = 0; target < graph->count; target += stride) {
        updn(engine, target);
        for (int i = 1; i < engine->order_count; i++) {
            const struct mcsm_gswitch *sw = &graph->sw[engine->order[i]];

            if (sw->hosts > 0) {
                *steps_p += engine->distance[engine->order[i]];
                *choices_p += engine->first[i + 1] - engine->first[i];
            }
        }
    }
}

/* Computes ranks from one root. The first candidate is a border switch, whose packets then only go
 * down, or else the centre. The second candidate is a switch with hosts. The candidate with shorter
 * routes is the root, or the candidate with more choices. Below a leaf of a fat tree all tops are
 * equal. Below a top, all routes lead through this top. */
static int rank_from_one(struct engine *engine, int *root_p)
{
    const struct mcsm_config *config = engine->config;
    const struct mcsm_graph *graph = engine->graph;
    int first = find_linked(graph, true), other = find_linked(graph, false);
    uint64_t steps, choices, other_steps, other_choices;

    if (first < 0) {
        first = find_centre(engine->graph, engine->distance, engine->order);
    }
    *root_p = first;
    if (rank_from(engine, first) < 0) {
        return -ENOMEM;
    }
    /* Only a border switch as root helps to keep the contract. */
    if (other < 0 || (graph->sw[first].border && !config->contract_only_named)) {
        return 0;
    }
    judge_ranks(engine, &steps, &choices);
    if (rank_from(engine, other) < 0) {
        return -ENOMEM;
    }
    judge_ranks(engine, &other_steps, &other_choices);
    if (other_steps < steps || (other_steps == steps && other_choices > choices)) {
        *root_p = other;
        return 0;
    }
    return rank_from(engine, first);
}

/* Returns the switch that always stays a root: the first configured root, or else the border switch that
 * rank_from_one() would select. Returns -1 if rank_from_one() may select a root below which all tops are
 * equal. */
static int find_keep(const struct engine *engine)
{
    const struct mcsm_config *config = engine->config;

    for (int i = 0; i < engine->graph->count && config->root_count > 0; i++) {
        if (engine->graph->sw[i].guid == config->roots[0]) {
            return i;
        }
    }
    return config->contract_only_named ? -1 : find_linked(engine->graph, true);
}

static void name_placed(const struct engine *engine)
{
    const struct mcsm_graph *graph = engine->graph;
    int count = 0, example = 0;

    for (int i = 0; i < graph->count; i++) {
        if (graph->sw[i].rank > graph->count) {
            count++;
            example = i;
        }
    }
    if (count > 0) {
        mcsm_info(
            "with several roots up/down does not reach all: no packets between other switches "
            "pass %d of the switches, such as 0x%016lx",
            count, graph->sw[example].guid);
    }
}

/* Ranks from several roots. 1: all targets are reached, 0: they are not, or -ENOMEM. */
static int rank_from_several(struct engine *engine, int keep)
{
    const struct mcsm_config *config = engine->config;

    if (mcsm_rank(engine->graph, config->roots, config->root_count) < 0) {
        return -ENOMEM;
    }
    sort_by_rank(engine);
    return reaches_all(engine, keep);
}

/* Tries rank_from_several() with other border switches that stay roots: `keep` itself may be cut off. */
static int try_other_borders(struct engine *engine, int keep)
{
    int status = 0, tries = 0;

    for (int i = 0; i < engine->graph->count && status == 0 && tries < KEEPS; i++) {
        if (engine->graph->sw[i].border && i != keep) {
            status = rank_from_several(engine, i);
            tries++;
        }
    }
    return status;
}

/* Computes ranks. If the ranks from several roots do not reach all switches, switches without hosts are
 * placed below all others. If that does not suffice, one root is used: a path up to the root and down
 * from the root always exists. */
static int rank_for_updn(struct engine *engine)
{
    const struct mcsm_config *config = engine->config;
    int root = find_keep(engine), status = rank_from_several(engine, root);

    if (status == 0 && root >= 0 && config->root_count == 0) {
        status = try_other_borders(engine, root);
    }
    if (status != 0) {
        name_placed(engine);
        return status < 0 ? status : 0;
    }
    status = config->root_count > 0 && root >= 0 ? rank_from(engine, root) :
                                                   rank_from_one(engine, &root);
    mcsm_log(config->root_count ? MCSM_LOG_WARN : MCSM_LOG_INFO,
             "with several roots up/down does not reach all: 0x%016lx is the only root",
             engine->graph->sw[root].guid);
    return status;
}

static int engine_open(struct engine *engine)
{
    size_t n = engine->graph->count + 1, links = engine->graph->links + 1;

    engine->distance = malloc(n * sizeof(int));
    engine->order = malloc(n * sizeof(int));
    engine->first = malloc((n + 1) * sizeof(int));
    engine->candidates = malloc(links);
    engine->cost = calloc(n, sizeof(uint64_t));
    engine->flow = calloc(n, sizeof(uint64_t));
    engine->by_rank = malloc(n * sizeof(int));
    engine->down = malloc(n * sizeof(int));
    if (!engine->distance || !engine->order || !engine->first || !engine->candidates ||
        !engine->cost || !engine->flow || !engine->by_rank || !engine->down) {
        return -ENOMEM;
    }
    if (engine->kind != MCSM_ENGINE_UPDN) {
        return 0;
    }
    return rank_for_updn(engine);
}

static void engine_close(struct engine *engine)
{
    free(engine->distance);
    free(engine->order);
    free(engine->first);
    free(engine->candidates);
    free(engine->cost);
    free(engine->flow);
    free(engine->by_rank);
    free(engine->down);
}

/* The LIDs of the port of targets[at], which are adjacent. LIDs of other clusters have none. */
static void find_siblings(struct engine *engine, const struct mcsm_target *targets, size_t count,
                          size_t at)
{
    size_t from = at, to = at + 1;

    while (from > 0 && targets[from - 1].port == targets[at].port) {
        from--;
    }
    while (to < count && targets[to].port == targets[at].port) {
        to++;
    }
    engine->lid = targets[at].lid;
    engine->siblings = targets + from;
    engine->sibling_count =
        targets->foreign || targets->port == 0 || to - from == 1 ? 0 : to - from;
}

/* Routes all targets of one switch. A transit switch may have tens of thousands of foreign LIDs
 * behind it. Only the first TREES of these LIDs get separate routes. Further LIDs use these routes
 * in turn. */
static void route_group(struct engine *engine, const struct mcsm_target *targets, size_t count,
                        bool again)
{
    size_t chosen = targets->foreign && count > TREES ? TREES : count;
    struct mcsm_graph *graph = engine->graph;

    for (size_t i = 0; i < chosen; i++) {
        uint64_t weight = (count - i + chosen - 1) / chosen;

        if (again) {
            carry(engine, &targets[i], weight, false);
        }
        find_siblings(engine, targets, count, i);
        choose(engine, &targets[i], weight, again);
    }
    for (int k = 0; k < graph->count && chosen < count; k++) {
        uint8_t *lft = graph->sw[k].lft;

        for (size_t i = chosen; i < count; i++) {
            lft[targets[i].lid] =
                k == targets[i].sw ? targets[i].port : lft[targets[i % chosen].lid];
        }
    }
}

int mcsm_route(struct mcsm_graph *graph, const struct mcsm_config *config)
{
    return mcsm_route_by(graph, config, config->engine);
}

/* Routes targets[from] to targets[to - 1], the targets of a switch together. */
static void route_targets(struct engine *engine, size_t from, size_t to, bool again)
{
    static void (*const list[])(struct engine *, int) = {
        [MCSM_ENGINE_MINHOP] = minhop, [MCSM_ENGINE_UPDN] = updn, [MCSM_ENGINE_DOR] = dor,
        [MCSM_ENGINE_LASH] = minhop,   [MCSM_ENGINE_TORUS] = dor, [MCSM_ENGINE_AUTO] = minhop};
    const struct mcsm_target *targets = engine->graph->targets;

    for (size_t i = from, end; i < to; i = end) {
        const struct mcsm_target *first = &targets[i];

        for (end = i;
             end < to && targets[end].sw == first->sw && targets[end].foreign == first->foreign &&
             (targets[end].port == 0) == (first->port == 0);
             end++) {
            continue;
        }
        (engine->graph->grid ? grid : list[engine->kind])(engine, first->sw);
        route_group(engine, first, end - i, again);
    }
}

/* Whether the most loaded link has more than a tenth more than the mean of all loaded links. */
static bool is_uneven(const struct mcsm_graph *graph)
{
    uint64_t most = 0, sum = 0, count = 0;

    for (int i = 0; i < graph->links; i++) {
        most = graph->load[i] > most ? graph->load[i] : most;
        sum += graph->load[i];
        count += graph->load[i] > 0;
    }
    return most * count * 10 > sum * 11;
}

/* The LIDs of hosts of the cluster come first. Links to border switches, and to switches themselves,
 * carry more traffic than other links, whatever the engine chooses: a second choice gains nothing
 * there. */
static void route_all(struct engine *engine)
{
    const struct mcsm_graph *graph = engine->graph;
    size_t own = 0;
    bool uneven;

    while (own < graph->target_count && !graph->targets[own].foreign &&
           graph->targets[own].port != 0) {
        own++;
    }
    route_targets(engine, 0, own, false);
    uneven = is_uneven(graph);
    route_targets(engine, own, graph->target_count, false);
    if (uneven) {
        route_targets(engine, 0, graph->target_count, true);
    }
}

int mcsm_route_by(struct mcsm_graph *graph, const struct mcsm_config *config, enum mcsm_engine kind)
{
    struct engine engine = {.graph = graph, .config = config, .kind = kind};
    int status = engine_open(&engine);

    for (size_t i = 0; i < config->neighbour_count; i++) {
        engine.passes |= config->neighbours[i].passes_names[0] != '\0';
    }
    for (int i = 0; i < graph->count; i++) {
        memset(graph->sw[i].lft, MCSM_DROP, graph->lid_top + 1);
    }
    memset(graph->load, 0, graph->links * sizeof(*graph->load));
    if (graph->target_count > 0) {
        qsort(graph->targets, graph->target_count, sizeof(*graph->targets), by_switch);
    }
    if (status == 0) {
        route_all(&engine);
    }
    engine_close(&engine);
    return status;
}
