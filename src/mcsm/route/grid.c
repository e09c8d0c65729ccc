#include "grid.h"

#include "graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEGREE = 2 * MCSM_GRID_DIMENSIONS, /* adjacent switches of a switch */
    GAPS_MAX = 4096,
    NONE = -1
};

struct corner {
    int count;
    int peer[DEGREE], edge[DEGREE];
    uint32_t square[DEGREE]; /* a bit for each other adjacent switch: there is a square */
};

struct gap {
    int next[2]; /* the previous and the next gap of the dimension, or NONE */
    int dimension, index;
};

/* Two gaps that meet at `count` switches without a square. */
struct meeting {
    int a, b, count;
    bool crosses;
};

struct finder {
    const struct mcsm_graph *graph;
    struct corner *corners;
    int edges;
    int *parent; /* of each edge: union of the edges of a gap; then the number of the gap */
    struct gap *gaps;
    int gap_count;
    struct meeting *meetings;
    size_t meeting_count, meeting_room;
    struct mcsm_grid *grid;
    bool ring[MCSM_GRID_DIMENSIONS];
};

static int find_peer(const struct corner *corner, int peer)
{
    for (int i = 0; i < corner->count; i++) {
        if (corner->peer[i] == peer) {
            return i;
        }
    }
    return NONE;
}

/* Lists the adjacent switches of each switch. Parallel links count once. False: too many. */
static bool list_corners(struct finder *finder)
{
    const struct mcsm_graph *graph = finder->graph;

    for (int i = 0; i < graph->count; i++) {
        struct corner *corner = &finder->corners[i];

        for (int p = 1; p <= graph->sw[i].nports; p++) {
            int peer = graph->sw[i].ports[p].peer;

            if (peer < 0 || peer == i || find_peer(corner, peer) >= 0) {
                continue;
            }
            if (corner->count == DEGREE) {
                return false;
            }
            corner->peer[corner->count++] = peer;
        }
    }
    for (int i = 0; i < graph->count; i++) {
        for (int k = 0; k < finder->corners[i].count; k++) {
            struct corner *other = &finder->corners[finder->corners[i].peer[k]];

            if (finder->corners[i].peer[k] > i) {
                finder->corners[i].edge[k] = finder->edges;
                other->edge[find_peer(other, i)] = finder->edges++;
            }
        }
    }
    return true;
}

static int root_of(int *parent, int edge)
{
    while (parent[edge] != edge) {
        edge = parent[edge] = parent[parent[edge]];
    }
    return edge;
}

/* Returns the switch that closes a square over two adjacent switches of `at`, or NONE. *several_p is
 * set if several switches do. */
static int close_square(const struct finder *finder, int at, int a, int b, bool *several_p)
{
    const struct corner *one = &finder->corners[a], *other = &finder->corners[b];
    int found = NONE;

    for (int i = 0; i < one->count; i++) {
        if (one->peer[i] != at && find_peer(other, one->peer[i]) >= 0) {
            *several_p |= found != NONE;
            found = one->peer[i];
        }
    }
    return found;
}

static bool find_squares(struct finder *finder)
{
    bool several = false;

    for (int i = 0; i < finder->edges; i++) {
        finder->parent[i] = i;
    }
    for (int at = 0; at < finder->graph->count; at++) {
        struct corner *corner = &finder->corners[at];

        for (int k = 0; k < corner->count; k++) {
            for (int l = k + 1; l < corner->count; l++) {
                int a = corner->peer[k], b = corner->peer[l];
                int far = close_square(finder, at, a, b, &several);

                if (several) {
                    return false;
                }
                if (far == NONE) {
                    continue;
                }
                const struct corner *one = &finder->corners[a], *other = &finder->corners[b];
                corner->square[k] |= 1u << l;
                corner->square[l] |= 1u << k;
                finder->parent[root_of(finder->parent, corner->edge[k])] =
                    root_of(finder->parent, other->edge[find_peer(other, far)]);
                finder->parent[root_of(finder->parent, corner->edge[l])] =
                    root_of(finder->parent, one->edge[find_peer(one, far)]);
            }
        }
    }
    return true;
}

/* Numbers the gaps in the order of their edges. The edge then knows its gap. */
static bool number_gaps(struct finder *finder)
{
    int *number = malloc((finder->edges + 1) * sizeof(int));

    if (number == NULL) {
        return false;
    }
    memset(number, -1, (finder->edges + 1) * sizeof(int));
    for (int i = 0; i < finder->edges; i++) {
        int root = root_of(finder->parent, i);

        if (number[root] < 0) {
            number[root] = finder->gap_count++;
        }
    }
    for (int i = 0; i < finder->edges; i++) {
        root_of(finder->parent, i);
    }
    for (int i = 0; i < finder->edges; i++) {
        int root = i;

        while (finder->parent[root] != root) {
            root = finder->parent[root];
        }
        number[i] = number[root];
    }
    memcpy(finder->parent, number, finder->edges * sizeof(int));
    free(number);
    return true;
}

/* ---- gaps become dimensions ---- */

static bool add_meeting(struct finder *finder, int a, int b, bool crosses)
{
    if (finder->meeting_count == finder->meeting_room) {
        size_t room = finder->meeting_room ? finder->meeting_room * 2 : 1024;
        struct meeting *more = realloc(finder->meetings, room * sizeof(*more));

        if (more == NULL) {
            return false;
        }
        finder->meetings = more;
        finder->meeting_room = room;
    }
    finder->meetings[finder->meeting_count++] =
        (struct meeting){a < b ? a : b, a < b ? b : a, 1, crosses};
    return true;
}

static int by_gaps(const void *a, const void *b)
{
    const struct meeting *x = a, *y = b;

    return x->a != y->a ? x->a - y->a : x->b - y->b;
}

/* Most meetings first. */
static int by_count(const void *a, const void *b)
{
    const struct meeting *x = a, *y = b;

    return x->count != y->count ? y->count - x->count : by_gaps(a, b);
}

static bool list_meetings(struct finder *finder)
{
    size_t kept = 0;

    for (int at = 0; at < finder->graph->count; at++) {
        const struct corner *corner = &finder->corners[at];

        for (int k = 0; k < corner->count; k++) {
            for (int l = k + 1; l < corner->count; l++) {
                int a = finder->parent[corner->edge[k]], b = finder->parent[corner->edge[l]];

                if (a != b && !add_meeting(finder, a, b, corner->square[k] >> l & 1)) {
                    return false;
                }
            }
        }
    }
    if (finder->meeting_count == 0) {
        return true;
    }
    qsort(finder->meetings, finder->meeting_count, sizeof(struct meeting), by_gaps);
    for (size_t i = 1; i < finder->meeting_count; i++) {
        struct meeting *last = &finder->meetings[kept], *next = &finder->meetings[i];

        if (by_gaps(last, next) == 0) {
            last->count++;
            last->crosses |= next->crosses;
        } else {
            finder->meetings[++kept] = *next;
        }
    }
    finder->meeting_count = kept + 1;
    qsort(finder->meetings, finder->meeting_count, sizeof(struct meeting), by_count);
    return true;
}

static void join(struct gap *gap, int other)
{
    gap->next[gap->next[0] != NONE] = other;
}

/* Gaps that meet most often without a square are beside each other. With faults gaps of different
 * dimensions may meet a few times without a square. */
static void join_gaps(struct finder *finder)
{
    for (int i = 0; i < finder->gap_count; i++) {
        finder->gaps[i] = (struct gap){{NONE, NONE}, NONE, 0};
    }
    for (size_t i = 0; i < finder->meeting_count; i++) {
        const struct meeting *meeting = &finder->meetings[i];
        struct gap *a = &finder->gaps[meeting->a], *b = &finder->gaps[meeting->b];

        if (!meeting->crosses && a->next[1] == NONE && b->next[1] == NONE) {
            join(a, meeting->b);
            join(b, meeting->a);
        }
    }
}

/* Gives the gaps of a line or ring their places, from `start`. Returns their number. */
static int place_gaps(struct finder *finder, int start, int dimension)
{
    int before = NONE, at = start, count = 0;

    while (at != NONE && finder->gaps[at].dimension == NONE) {
        struct gap *gap = &finder->gaps[at];
        int next = gap->next[0] == before && before != NONE ? gap->next[1] : gap->next[0];

        gap->dimension = dimension;
        gap->index = count++;
        before = at;
        at = next;
    }
    return count;
}

/* Lines start at a gap with one gap beside it, rings at their first gap. A gap of one link whose
 * squares are all gone is in no dimension; its coordinates are compared later. */
static bool find_dimensions(struct finder *finder, const int *links)
{
    struct mcsm_grid *grid = finder->grid;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < finder->gap_count; i++) {
            const struct gap *gap = &finder->gaps[i];
            bool end = gap->next[1] == NONE;
            int count;

            if (gap->dimension != NONE || end != (pass == 0) ||
                (links[i] == 1 && gap->next[0] == NONE && finder->gap_count > 1)) {
                continue;
            }
            if (grid->dimensions == MCSM_GRID_DIMENSIONS) {
                return false;
            }
            count = place_gaps(finder, i, grid->dimensions);
            finder->ring[grid->dimensions] = pass == 1;
            grid->size[grid->dimensions++] = count + (pass == 0);
        }
    }
    return true;
}

static bool make_dimensions(struct finder *finder)
{
    int *links = calloc(finder->gap_count + 1, sizeof(int));
    bool good = links != NULL;

    for (int i = 0; good && i < finder->edges; i++) {
        links[finder->parent[i]]++;
    }
    good = good && find_dimensions(finder, links);
    free(links);
    return good;
}

/* ---- coordinates ---- */

/* The position behind a gap, seen from the position before it; NONE if the gap is not there. */
static int cross_gap(const struct finder *finder, const struct gap *gap, int position)
{
    int size = finder->grid->size[gap->dimension], after = gap->index + 1;

    after = finder->ring[gap->dimension] ? after % size : after;
    return position == gap->index ? after : position == after ? gap->index : NONE;
}

/* The position of a switch in a dimension by the gaps at it alone; NONE if they leave a choice. */
static int position_of(const struct finder *finder, int sw, int dimension)
{
    const struct corner *corner = &finder->corners[sw];
    int size = finder->grid->size[dimension], gaps[2] = {NONE, NONE}, count = 0;

    for (int k = 0; k < corner->count; k++) {
        const struct gap *gap = &finder->gaps[finder->parent[corner->edge[k]]];

        if (gap->dimension == dimension && count < 2) {
            gaps[count++] = gap->index;
        }
    }
    if (count == 2) {
        int low = gaps[0] < gaps[1] ? gaps[0] : gaps[1], high = gaps[0] + gaps[1] - low;

        return high == low + 1 ? high : finder->ring[dimension] && low == 0 ? 0 : NONE;
    }
    if (count == 0 || finder->ring[dimension]) {
        return NONE;
    }
    return gaps[0] == 0 ? 0 : gaps[0] == size - 2 ? size - 1 : NONE;
}

static bool has_coordinates(const struct finder *finder, int sw, int16_t *at)
{
    for (int d = 0; d < finder->grid->dimensions; d++) {
        int position = position_of(finder, sw, d);

        if (position == NONE) {
            return false;
        }
        at[d] = position;
    }
    return true;
}

/* Gives all switches coordinates, from the first switch whose gaps leave no choice. `queue` has room
 * for all switches. False: contradictions, or a switch that no gap leads to. */
static bool spread(struct finder *finder, int *queue)
{
    struct mcsm_grid *grid = finder->grid;
    int count = finder->graph->count, n = grid->dimensions, start = 0, tail = 0;

    memset(grid->at, -1, (size_t)count * n * sizeof(*grid->at));
    while (start < count && !has_coordinates(finder, start, grid->at + (size_t)start * n)) {
        memset(grid->at + (size_t)start * n, -1, n * sizeof(*grid->at));
        start++;
    }
    if (start == count) {
        return false;
    }
    queue[tail++] = start;
    for (int head = 0; head < tail; head++) {
        const int16_t *here = grid->at + (size_t)queue[head] * n;
        const struct corner *corner = &finder->corners[queue[head]];

        for (int k = 0; k < corner->count; k++) {
            const struct gap *gap = &finder->gaps[finder->parent[corner->edge[k]]];
            int16_t *there = grid->at + (size_t)corner->peer[k] * n;

            if (gap->dimension == NONE || there[0] >= 0) {
                continue;
            }
            memcpy(there, here, n * sizeof(*there));
            there[gap->dimension] = cross_gap(finder, gap, here[gap->dimension]);
            if (there[gap->dimension] == NONE) {
                return false;
            }
            queue[tail++] = corner->peer[k];
        }
    }
    return tail == count;
}

/* Whether the links agree with the coordinates, and no place has two switches. */
static bool is_right(struct finder *finder)
{
    struct mcsm_grid *grid = finder->grid;
    int count = finder->graph->count;
    uint64_t places = 1, missing = 0;
    uint8_t *taken;

    for (int d = 0; d < grid->dimensions; d++) {
        places *= grid->size[d];
        if (places > 4 * (uint64_t)count + 64) {
            return false;
        }
    }
    taken = calloc(places, 1);
    if (taken == NULL) {
        return false;
    }
    memset(grid->neighbours, -1, (size_t)count * grid->dimensions * 2 * sizeof(int));
    for (int i = 0; i < count; i++) {
        uint64_t place = 0;

        for (int d = 0; d < grid->dimensions; d++) {
            place = place * grid->size[d] + mcsm_grid_at(grid, i, d);
        }
        if (taken[place]++ != 0) {
            free(taken);
            return false;
        }
        for (int k = 0; k < finder->corners[i].count; k++) {
            int peer = finder->corners[i].peer[k], d = mcsm_grid_dimension(grid, i, peer);

            if (d < 0) {
                free(taken);
                return false;
            }
            int here = mcsm_grid_at(grid, i, d), there = mcsm_grid_at(grid, peer, d);
            bool after = there == here + 1 || (here == grid->size[d] - 1 && there == 0 && here > 1);
            grid->neighbours[(i * grid->dimensions + d) * 2 + after] = peer;
        }
        for (int d = 0; d < grid->dimensions; d++) {
            missing += (mcsm_grid_next(grid, i, d, false) < 0 &&
                        (finder->ring[d] || mcsm_grid_at(grid, i, d) > 0)) +
                       (mcsm_grid_next(grid, i, d, true) < 0 &&
                        (finder->ring[d] || mcsm_grid_at(grid, i, d) < grid->size[d] - 1));
        }
    }
    free(taken);
    grid->whole = missing == 0;
    return true;
}

static void number_rings(struct finder *finder)
{
    struct mcsm_grid *grid = finder->grid;

    for (int d = 0; d < grid->dimensions; d++) {
        grid->ring[d] = finder->ring[d] ? grid->rings++ : NONE;
    }
}

/* ---- all of it ---- */

void mcsm_grid_free(struct mcsm_grid *grid)
{
    if (grid != NULL) {
        free(grid->at);
        free(grid->neighbours);
        free(grid);
    }
}

/* 1: a grid, 0: none, or -ENOMEM. */
static int recognise(struct finder *finder)
{
    int count = finder->graph->count;
    struct mcsm_grid *grid;
    int *queue;
    bool good;

    if (!list_corners(finder) || finder->edges == 0) {
        return 0;
    }
    finder->parent = malloc((finder->edges + 1) * sizeof(int));
    finder->grid = grid = calloc(1, sizeof(*grid));
    if (finder->parent == NULL || grid == NULL) {
        return -ENOMEM;
    }
    if (!find_squares(finder)) {
        return 0;
    }
    if (!number_gaps(finder)) {
        return -ENOMEM;
    }
    if (finder->gap_count > GAPS_MAX) {
        return 0;
    }
    finder->gaps = calloc(finder->gap_count + 1, sizeof(*finder->gaps));
    if (finder->gaps == NULL || !list_meetings(finder)) {
        return -ENOMEM;
    }
    join_gaps(finder);
    if (!make_dimensions(finder) || grid->dimensions == 0) {
        return 0;
    }
    number_rings(finder);
    grid->at = malloc((size_t)count * grid->dimensions * sizeof(*grid->at));
    grid->neighbours = malloc((size_t)count * grid->dimensions * 2 * sizeof(int));
    queue = malloc((count + 1) * sizeof(int));
    good = grid->at != NULL && grid->neighbours != NULL && queue != NULL;
    if (!good) {
        free(queue);
        return -ENOMEM;
    }
    good = grid->rings <= MCSM_GRID_RINGS && spread(finder, queue) && is_right(finder);
    free(queue);
    return good;
}

int mcsm_grid_find(const struct mcsm_graph *graph, struct mcsm_grid **grid_p)
{
    struct finder finder = {.graph = graph};
    int status = -ENOMEM;

    *grid_p = NULL;
    finder.corners = calloc(graph->count + 1, sizeof(*finder.corners));
    if (finder.corners != NULL) {
        status = recognise(&finder);
    }
    if (status == 1) {
        *grid_p = finder.grid;
    } else {
        mcsm_grid_free(finder.grid);
    }
    free(finder.corners);
    free(finder.parent);
    free(finder.gaps);
    free(finder.meetings);
    return status < 0 ? status : 0;
}

/* ---- routes ---- */

int mcsm_grid_dimension(const struct mcsm_grid *grid, int a, int b)
{
    int found = NONE;

    for (int d = 0; d < grid->dimensions; d++) {
        int x = mcsm_grid_at(grid, a, d), y = mcsm_grid_at(grid, b, d),
            apart = x < y ? y - x : x - y;

        if (apart == 0) {
            continue;
        }
        if (found != NONE ||
            (apart != 1 && !(grid->ring[d] != NONE && apart == grid->size[d] - 1))) {
            return NONE;
        }
        found = d;
    }
    return found;
}

/* Whether packets between `a` and `b` go from the lower to the higher position in a dimension, not
 * over the link that closes the ring. Two switches that are opposite on a ring take one half or the
 * other. The choice counts the positions in the later dimensions, which have the same values on the
 * way from `a` to `b` and on the way back. So all links have the same load. */
static bool is_inside(const struct mcsm_grid *grid, int a, int b, int dimension)
{
    int x = mcsm_grid_at(grid, a, dimension), y = mcsm_grid_at(grid, b, dimension);
    int size = grid->size[dimension], low = x < y ? x : y, apart = (x < y ? y : x) - low;

    if (grid->ring[dimension] == NONE || 2 * apart < size) {
        return true;
    }
    if (2 * apart > size) {
        return false;
    }
    for (int d = dimension + 1; d < grid->dimensions; d++) {
        low += mcsm_grid_at(grid, a, d) + mcsm_grid_at(grid, b, d);
    }
    return low % 2 == 0;
}

/* Whether links lead from a switch to a position of its ring or line, in one direction. */
static bool is_open(const struct mcsm_grid *grid, int at, int dimension, int position, bool after)
{
    while (at >= 0 && mcsm_grid_at(grid, at, dimension) != position) {
        at = mcsm_grid_next(grid, at, dimension, after);
    }
    return at >= 0;
}

int mcsm_grid_step(const struct mcsm_grid *grid, int at, int target)
{
    int d = 0;

    while (d < grid->dimensions && mcsm_grid_at(grid, at, d) == mcsm_grid_at(grid, target, d)) {
        d++;
    }
    if (d == grid->dimensions) {
        return NONE;
    }
    int position = mcsm_grid_at(grid, target, d);
    bool after = is_inside(grid, at, target, d) == (mcsm_grid_at(grid, at, d) < position);
    if (!grid->whole && !is_open(grid, at, d, position, after)) {
        after = !after;
        if (!is_open(grid, at, d, position, after)) {
            return NONE;
        }
    }
    return mcsm_grid_next(grid, at, d, after);
}

int mcsm_grid_parent(const struct mcsm_grid *grid, int at, int root)
{
    for (int d = 0; d < grid->dimensions; d++) {
        int here = mcsm_grid_at(grid, at, d), there = mcsm_grid_at(grid, root, d);

        if (here != there) {
            return mcsm_grid_next(grid, at, d, here < there);
        }
    }
    return NONE;
}

int mcsm_grid_level(const struct mcsm_grid *grid, int a, int b)
{
    int level = 0;

    for (int d = 0; d < grid->dimensions; d++) {
        if (grid->ring[d] != NONE && !is_inside(grid, a, b, d)) {
            level |= 1 << grid->ring[d];
        }
    }
    return level;
}
