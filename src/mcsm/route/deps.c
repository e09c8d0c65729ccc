#include "deps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct edge {
    int from, to;
};

struct mcsm_deps {
    const struct mcsm_graph *graph;
    int *peers;
    int *owners;           /* of each channel: its switch */
    uint64_t (*next)[4];   /* for each channel: the ports of the next switch that follow */
    uint64_t (*before)[4]; /* for each channel: the input ports of its predecessors
                            * at its switch */
    int *place;            /* of each channel: its place in the topological order */
    int *found, *slots;    /* scratch of reorder() */
    uint8_t *mark;
    struct edge *log;
    size_t log_count, log_room;
    bool failed;
};

struct mcsm_deps *mcsm_deps_new(const struct mcsm_graph *graph)
{
    struct mcsm_deps *deps = calloc(1, sizeof(*deps));
    size_t n = graph->links + 1;

    if (deps == NULL) {
        return NULL;
    }
    deps->graph = graph;
    deps->peers = mcsm_peers(graph);
    deps->owners = malloc(n * sizeof(int));
    deps->next = calloc(n, sizeof(*deps->next));
    deps->before = calloc(n, sizeof(*deps->before));
    deps->place = malloc(n * sizeof(int));
    deps->found = malloc(2 * n * sizeof(int));
    deps->slots = malloc(2 * n * sizeof(int));
    deps->mark = calloc(n, 1);
    if (!deps->peers || !deps->owners || !deps->next || !deps->before || !deps->place ||
        !deps->found || !deps->slots || !deps->mark) {
        mcsm_deps_free(deps);
        return NULL;
    }
    for (int i = 0; i < graph->count; i++) {
        for (int p = 0; p <= graph->sw[i].nports; p++) {
            deps->owners[graph->sw[i].first_link + p] = i;
        }
    }
    for (int i = 0; i < graph->links; i++) {
        deps->place[i] = i;
    }
    return deps;
}

void mcsm_deps_free(struct mcsm_deps *deps)
{
    if (deps == NULL) {
        return;
    }
    free(deps->peers);
    free(deps->owners);
    free(deps->next);
    free(deps->before);
    free(deps->place);
    free(deps->found);
    free(deps->slots);
    free(deps->mark);
    free(deps->log);
    free(deps);
}

bool mcsm_deps_failed(const struct mcsm_deps *deps)
{
    return deps->failed;
}

static int port_of(const struct mcsm_deps *deps, int channel)
{
    return channel - deps->graph->sw[deps->owners[channel]].first_link;
}

static bool has(const struct mcsm_deps *deps, int from, int to)
{
    int port = port_of(deps, to);

    return deps->next[from][port / 64] >> port % 64 & 1;
}

/* The port through which packets of a channel come into the switch behind it. */
static int arrival(const struct mcsm_deps *deps, int channel)
{
    return deps->graph->sw[deps->owners[channel]].ports[port_of(deps, channel)].peer_port;
}

static void set_edge(struct mcsm_deps *deps, int from, int to, bool on)
{
    int out = port_of(deps, to), in = arrival(deps, from);

    if (on) {
        deps->next[from][out / 64] |= 1ULL << out % 64;
        deps->before[to][in / 64] |= 1ULL << in % 64;
    } else {
        deps->next[from][out / 64] &= ~(1ULL << out % 64);
        deps->before[to][in / 64] &= ~(1ULL << in % 64);
    }
}

void mcsm_deps_note(struct mcsm_deps *deps, int from, int to)
{
    set_edge(deps, from, to, true);
}

/* Returns the first bit at or after `bit`, or MCSM_DROP. */
static int next_bit(const uint64_t set[4], int bit)
{
    while (bit < MCSM_DROP) {
        uint64_t rest = set[bit / 64] >> bit % 64;

        if (rest != 0) {
            return bit + __builtin_ctzll(rest);
        }
        bit = (bit / 64 + 1) * 64;
    }
    return MCSM_DROP;
}

static int follower(const struct mcsm_deps *deps, int channel, int port)
{
    return deps->graph->sw[deps->peers[channel]].first_link + port;
}

static int predecessor(const struct mcsm_deps *deps, int channel, int port)
{
    const struct mcsm_gport *in = &deps->graph->sw[deps->owners[channel]].ports[port];

    return deps->graph->sw[in->peer].first_link + in->peer_port;
}

/* ---- adding without circles ---- */

static int by_place(const void *a, const void *b, void *arg)
{
    const int *place = arg;

    return place[*(const int *)a] - place[*(const int *)b];
}

/* Collects the channels that `start` reaches within the places low..high, forwards or backwards.
 * Returns their number, or -1 if the search meets `stop`. */
static int collect(struct mcsm_deps *deps, int start, int stop, int low, int high, bool forwards,
                   int *list)
{
    int head = 0, tail = 0;

    deps->mark[start] = 1;
    list[tail++] = start;
    while (head < tail) {
        int at = list[head++];
        const uint64_t *set = forwards ? deps->next[at] : deps->before[at];

        for (int bit = next_bit(set, 0); bit < MCSM_DROP; bit = next_bit(set, bit + 1)) {
            int other = forwards ? follower(deps, at, bit) : predecessor(deps, at, bit);

            if (other == stop) {
                tail = -tail;
            }
            if (tail < 0) {
                break;
            }
            if (deps->mark[other] || deps->place[other] < low || deps->place[other] > high) {
                continue;
            }
            deps->mark[other] = 1;
            list[tail++] = other;
        }
        if (tail < 0) {
            break;
        }
    }
    for (int i = 0; i < abs(tail); i++) {
        deps->mark[list[i]] = 0;
    }
    return tail < 0 ? -1 : tail;
}

/* Moves the predecessors of `from` before the successors of `to`. False if `to` leads to `from`. */
static bool reorder(struct mcsm_deps *deps, int from, int to)
{
    int low = deps->place[to], high = deps->place[from], after, ahead, count;
    int *list = deps->found;

    after = collect(deps, to, from, low, high, true, list);
    if (after < 0) {
        return false;
    }
    ahead = collect(deps, from, -1, low, high, false, list + after);
    count = after + ahead;
    qsort_r(list, after, sizeof(int), by_place, deps->place);
    qsort_r(list + after, ahead, sizeof(int), by_place, deps->place);
    /*
     * Merges the places of the two lists in order. The predecessors of `from` then get the first
     * places, the successors of `to` the rest.
     */
    for (int i = 0, a = 0, b = 0; i < count; i++) {
        if (b == ahead || (a < after && deps->place[list[a]] < deps->place[list[after + b]])) {
            deps->slots[i] = deps->place[list[a++]];
        } else {
            deps->slots[i] = deps->place[list[after + b++]];
        }
    }
    for (int i = 0; i < ahead; i++) {
        deps->place[list[after + i]] = deps->slots[i];
    }
    for (int i = 0; i < after; i++) {
        deps->place[list[i]] = deps->slots[ahead + i];
    }
    return true;
}

bool mcsm_deps_add(struct mcsm_deps *deps, int from, int to)
{
    if (has(deps, from, to)) {
        return true;
    }
    if (deps->log_count == deps->log_room) {
        size_t room = deps->log_room ? deps->log_room * 2 : 1024;
        struct edge *more = realloc(deps->log, room * sizeof(*more));

        if (more == NULL) {
            deps->failed = true;
            return false;
        }
        deps->log = more;
        deps->log_room = room;
    }
    if (from == to || (deps->place[to] < deps->place[from] && !reorder(deps, from, to))) {
        return false;
    }
    set_edge(deps, from, to, true);
    deps->log[deps->log_count++] = (struct edge){from, to};
    return true;
}

size_t mcsm_deps_mark(const struct mcsm_deps *deps)
{
    return deps->log_count;
}

void mcsm_deps_undo(struct mcsm_deps *deps, size_t mark)
{
    while (deps->log_count > mark) {
        struct edge edge = deps->log[--deps->log_count];

        set_edge(deps, edge.from, edge.to, false);
    }
}

/* ---- dependencies of tables ---- */

struct notes {
    struct mcsm_deps *deps;
    const struct mcsm_graph *graph;
    const struct mcsm_graph *wide; /* NULL: the channels are the ports of `graph` */
    int *peers;                    /* of `graph` */
    unsigned *stamp; /* of each switch and level: follow() met the switch with this LID last */
    uint8_t *columns;
    int *target; /* of each LID: its switch, or -1 */
    int lane;
    int levels; /* number of levels in `stamp` */
};

/* Whether packets of the level, which leave their first switch by `out`, belong to the lanes of the
 * search: one lane, or lanes 0 and 1. */
static bool is_searched(const struct notes *notes, int out, int level)
{
    int lane = mcsm_vl(notes->graph, out, level);

    return notes->wide ? lane <= 1 : lane == notes->lane;
}

/* Follows the packets of all sources to one LID. `column`: the LID's port in each switch. */
static void follow(struct notes *notes, unsigned lid, const uint8_t *column)
{
    const struct mcsm_graph *graph = notes->graph;

    for (int source = 0; source < graph->count; source++) {
        int level = mcsm_lane(graph, source, notes->target[lid]);
        int at = source, channel = -1;
        bool seen = graph->sw[source].hosts == 0;

        while (!seen) {
            uint8_t port = column[at];
            int out = graph->sw[at].first_link + port, next = out;
            unsigned *stamp = &notes->stamp[at * notes->levels + level % notes->levels];

            if (port == 0 || port > graph->sw[at].nports || notes->peers[out] < 0 ||
                (channel < 0 && !is_searched(notes, out, level))) {
                break;
            }
            if (notes->wide != NULL) {
                int lane = mcsm_vl(graph, out, level);

                if (lane > 1) {
                    break; /* the level selects lanes of rings at some switches only */
                }
                next = mcsm_deps_wide_channel(notes->wide, at, port, lane);
            }
            if (channel >= 0) {
                set_edge(notes->deps, channel, next, true);
            }
            seen = *stamp == lid;
            *stamp = lid;
            channel = next;
            at = notes->peers[out];
        }
    }
}

static int note_all(struct notes *notes)
{
    const struct mcsm_graph *graph = notes->graph;
    int status = -ENOMEM;

    notes->peers = mcsm_peers(graph);
    notes->stamp = calloc((size_t)graph->count * notes->levels + 1, sizeof(*notes->stamp));
    notes->columns = malloc((size_t)MCSM_COLUMNS * graph->count + 1);
    notes->target = malloc((graph->lid_top + 1) * sizeof(*notes->target));
    if (notes->peers && notes->stamp && notes->columns && notes->target) {
        status = 0;
        memset(notes->target, -1, (graph->lid_top + 1) * sizeof(*notes->target));
        for (size_t i = 0; i < graph->target_count; i++) {
            notes->target[graph->targets[i].lid] = graph->targets[i].sw;
        }
    }
    for (unsigned first = 0; status == 0 && first <= graph->lid_top; first += MCSM_COLUMNS) {
        unsigned rest = graph->lid_top + 1 - first;
        unsigned count = rest < MCSM_COLUMNS ? rest : MCSM_COLUMNS;

        mcsm_columns(graph, first, count, notes->columns);
        for (unsigned k = 0; k < count; k++) {
            if (notes->target[first + k] >= 0) {
                follow(notes, first + k, notes->columns + (size_t)k * graph->count);
            }
        }
    }
    free(notes->peers);
    free(notes->stamp);
    free(notes->columns);
    free(notes->target);
    return status;
}

int mcsm_deps_note_unicast(struct mcsm_deps *deps, int lane)
{
    struct notes notes = {.deps = deps, .graph = deps->graph, .lane = lane, .levels = 1};

    return note_all(&notes);
}

int mcsm_deps_note_rings(struct mcsm_deps *deps, const struct mcsm_graph *graph)
{
    struct notes notes = {
        .deps = deps, .graph = graph, .wide = deps->graph, .levels = MCSM_RING_LEVELS};

    return note_all(&notes);
}

struct mcsm_graph *mcsm_deps_wide(const struct mcsm_graph *graph)
{
    uint8_t *nports = malloc(graph->count + 1);
    struct mcsm_graph *wide = NULL;
    bool good = nports != NULL;

    for (int i = 0; i < graph->count && good; i++) {
        good = graph->sw[i].nports <= MCSM_WIDE_PORTS;
        nports[i] = 2 * graph->sw[i].nports;
    }
    if (good) {
        wide = mcsm_graph_new(graph->count, nports);
    }
    free(nports);
    for (int i = 0; wide != NULL && i < graph->count; i++) {
        int n = graph->sw[i].nports;

        for (int p = 1; p <= n; p++) {
            struct mcsm_gport port = graph->sw[i].ports[p];

            wide->sw[i].ports[p] = port;
            if (port.peer >= 0) {
                port.peer_port += graph->sw[port.peer].nports;
            }
            wide->sw[i].ports[p + n] = port;
        }
    }
    return wide;
}

void mcsm_deps_note_multicast(struct mcsm_deps *deps, int sw, const uint64_t ports[4])
{
    const struct mcsm_gswitch *here = &deps->graph->sw[sw];

    for (int in = next_bit(ports, 1); in <= here->nports; in = next_bit(ports, in + 1)) {
        if (here->ports[in].peer < 0) {
            continue;
        }
        for (int out = next_bit(ports, 1); out <= here->nports; out = next_bit(ports, out + 1)) {
            if (out != in && here->ports[out].peer >= 0) {
                set_edge(deps, predecessor(deps, here->first_link + out, in),
                         here->first_link + out, true);
            }
        }
    }
}

void mcsm_deps_reach(const struct mcsm_deps *deps, bool *reached)
{
    int *stack = deps->found, depth = 0;

    for (int i = 0; i < deps->graph->links; i++) {
        if (reached[i]) {
            stack[depth++] = i;
        }
    }
    while (depth > 0) {
        int at = stack[--depth];

        for (int bit = next_bit(deps->next[at], 0); bit < MCSM_DROP;
             bit = next_bit(deps->next[at], bit + 1)) {
            int other = follower(deps, at, bit);

            if (!reached[other]) {
                reached[other] = true;
                stack[depth++] = other;
            }
        }
    }
}

/* ---- circles ---- */

struct search {
    const struct mcsm_deps *deps;
    uint8_t *colour; /* 0 new, 1 on the way, 2 done */
    int *way;        /* channels from the start to here */
    uint8_t *port;   /* of each place on the path: the next port to try */
    int depth;
};

static void enter(struct search *search, int channel)
{
    search->colour[channel] = 1;
    search->way[search->depth] = channel;
    search->port[search->depth++] = 0;
}

/*
 * Depth-first search from one channel. Returns the place on the path where a circle begins, or -1.
 */
static int walk(struct search *search, int start)
{
    const struct mcsm_deps *deps = search->deps;

    search->depth = 0;
    enter(search, start);
    while (search->depth > 0) {
        int top = search->depth - 1, channel = search->way[top];
        int port = next_bit(deps->next[channel], search->port[top]), next;

        if (port == MCSM_DROP) {
            search->colour[channel] = 2;
            search->depth--;
            continue;
        }
        search->port[top] = port + 1;
        next = follower(deps, channel, port);
        if (search->colour[next] == 1) {
            while (search->way[top] != next) {
                top--;
            }
            return top;
        }
        if (search->colour[next] == 0) {
            enter(search, next);
        }
    }
    return -1;
}

int mcsm_deps_circle(const struct mcsm_deps *deps, int *circle, int room)
{
    int links = deps->graph->links, found = 0;
    struct search search = {.deps = deps};

    search.colour = calloc(links + 1, 1);
    search.way = malloc((links + 1) * sizeof(int));
    search.port = malloc(links + 1);
    if (search.colour == NULL || search.way == NULL || search.port == NULL) {
        found = -ENOMEM;
    }
    for (int start = 0; start < links && found == 0; start++) {
        const uint64_t *next = deps->next[start];
        int begin;

        if (search.colour[start] != 0 || !(next[0] | next[1] | next[2] | next[3])) {
            continue;
        }
        begin = walk(&search, start);
        if (begin < 0) {
            continue;
        }
        found = search.depth - begin;
        for (int i = 0; i < found && i < room; i++) {
            circle[i] = search.way[begin + i];
        }
    }
    free(search.colour);
    free(search.way);
    free(search.port);
    return found;
}

/* Translates the channels of a circle from the wide graph, mcsm_deps_wide(), to the ports of
 * `graph`. */
static void narrow_circle(const struct mcsm_graph *graph, const struct mcsm_graph *wide,
                          int *circle, int count)
{
    for (int i = 0; i < count; i++) {
        int sw = mcsm_graph_owner(wide, circle[i]), port = circle[i] - wide->sw[sw].first_link;
        int nports = graph->sw[sw].nports;

        circle[i] = graph->sw[sw].first_link + (port > nports ? port - nports : port);
    }
}

/* Lanes 0 and 1 together. */
static int search_rings(const struct mcsm_graph *graph,
                        int (*groups)(struct mcsm_deps *deps, const void *arg), const void *arg,
                        int *circle, int room)
{
    struct mcsm_graph *wide = mcsm_deps_wide(graph);
    struct mcsm_deps *deps = wide ? mcsm_deps_new(wide) : NULL;
    int found = deps ? mcsm_deps_note_rings(deps, graph) : -ENOMEM;

    if (found == 0 && groups != NULL) {
        found = groups(deps, arg); /* lane 0: the ports have the same numbers */
    }
    if (found == 0) {
        found = mcsm_deps_circle(deps, circle, room);
        narrow_circle(graph, wide, circle, found < room ? found : room);
    }
    mcsm_deps_free(deps);
    mcsm_graph_free(wide);
    return found;
}

int mcsm_deps_search(const struct mcsm_graph *graph,
                     int (*groups)(struct mcsm_deps *deps, const void *arg), const void *arg,
                     bool separate, int *circle, int room)
{
    int groups_lane = groups == NULL ? -1 : separate ? graph->lanes : 0, found = 0, lane = 0;

    if (mcsm_changes_lanes(graph)) {
        found = search_rings(graph, groups_lane == 0 ? groups : NULL, arg, circle, room);
        lane = 2;
    }
    for (; (lane < graph->lanes || lane == groups_lane) && found == 0; lane++) {
        struct mcsm_deps *deps = mcsm_deps_new(graph);

        found = deps ? 0 : -ENOMEM;
        if (found == 0 && lane < graph->lanes) {
            found = mcsm_deps_note_unicast(deps, lane);
        }
        if (found == 0 && lane == groups_lane) {
            found = groups(deps, arg);
        }
        if (found == 0) {
            found = mcsm_deps_circle(deps, circle, room);
        }
        mcsm_deps_free(deps);
    }
    return found;
}
