#include "pattern.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

/* A pair takes part if it has this share of the mean of the pattern's pairs. */
#define USED_SHARE 0.05

/* Scores nearer than this are equal: the pattern with fewer pairs counts. */
#define EQUAL_SCORES 0.02

struct search {
    const double *traffic;
    guint n;
    double total;
    guint8 *in;  /* whether a pair is in the pattern, by its place in `traffic` */
    GArray *set; /* the pairs of the pattern, as places */
    GArray *found;
};

static void add_pair(struct search *search, guint from, guint to)
{
    gsize at = (gsize)from * search->n + to;

    if (from != to && from < search->n && to < search->n && !search->in[at]) {
        search->in[at] = 1;
        g_array_append_val(search->set, at);
    }
}

static void add_both(struct search *search, guint a, guint b)
{
    add_pair(search, a, b);
    add_pair(search, b, a);
}

/* Scores the pattern that was put together, and begins a new one. */
static void score(struct search *search, const char *format, ...)
{
    struct cm_pattern pattern = {.pairs = search->set->len};
    double sum = 0, least;
    va_list args;
    guint i;

    for (i = 0; i < search->set->len; i++) {
        sum += search->traffic[g_array_index(search->set, gsize, i)];
    }
    least = pattern.pairs > 0 ? sum / pattern.pairs * USED_SHARE : 0;
    for (i = 0; i < search->set->len; i++) {
        gsize at = g_array_index(search->set, gsize, i);

        pattern.used += search->traffic[at] > 0 && search->traffic[at] >= least;
        search->in[at] = 0;
    }
    g_array_set_size(search->set, 0);
    if (pattern.pairs == 0 || search->total <= 0 ||
        (pattern.pairs == search->n * (search->n - 1) && strcmp(format, "all-to-all") != 0)) {
        return; /* of few ranks, a pattern may be all pairs */
    }
    pattern.share = sum / search->total;
    pattern.score = pattern.share * pattern.used / pattern.pairs;
    va_start(args, format);
    pattern.name = g_strdup_vprintf(format, args);
    va_end(args);
    g_array_append_val(search->found, pattern);
}

/* ---- rings and grids ------------------------------------------------------------------------- */

static void try_lines(struct search *search)
{
    guint n = search->n, i;

    for (i = 0; i < n; i++) {
        add_pair(search, i, (i + 1) % n);
    }
    score(search, "ring: each rank sends to the next one");
    for (i = 0; i + 1 < n; i++) {
        add_both(search, i, i + 1);
    }
    score(search, "nearest neighbors in a line (1-D)");
    for (i = 0; i < n; i++) {
        add_both(search, i, (i + 1) % n);
    }
    score(search, "nearest neighbors in a ring (1-D, periodic)");
}

/* A grid of three dimensions, of which the last ones may be 1. Rank (x, y, z) = (x b + y) c + z. */
struct grid {
    guint size[3];
    bool periodic;
};

/* The neighbor of a rank at an offset; the rank itself if there is none. */
static guint neighbor(const struct grid *grid, guint rank, const int offset[3])
{
    guint at[3] = {rank / grid->size[2] / grid->size[1], rank / grid->size[2] % grid->size[1],
                   rank % grid->size[2]};
    int d;

    for (d = 0; d < 3; d++) {
        int size = (int)grid->size[d], place = (int)at[d] + offset[d];

        if (!grid->periodic && (place < 0 || place >= size)) {
            return rank;
        }
        at[d] = (guint)((place % size + size) % size);
    }
    return (at[0] * grid->size[1] + at[1]) * grid->size[2] + at[2];
}

static void add_faces(struct search *search, const struct grid *grid, int step)
{
    guint rank;
    int d;

    for (rank = 0; rank < search->n; rank++) {
        for (d = 0; d < 3; d++) {
            int offset[3] = {0, 0, 0};

            offset[d] = step;
            add_both(search, rank, neighbor(grid, rank, offset));
        }
    }
}

static void add_diagonals(struct search *search, const struct grid *grid, bool both)
{
    static const int offsets[2][3] = {{1, -1, 0}, {1, 1, 0}};
    guint rank;

    for (rank = 0; rank < search->n; rank++) {
        add_both(search, rank, neighbor(grid, rank, offsets[0]));
        if (both) {
            add_both(search, rank, neighbor(grid, rank, offsets[1]));
        }
    }
}

static const char *wrap(const struct grid *grid)
{
    return grid->periodic ? ", periodic" : "";
}

static void try_grid_2(struct search *search, const struct grid *grid)
{
    guint a = grid->size[0], b = grid->size[1];

    add_faces(search, grid, 1);
    score(search, "nearest neighbors on a 2-D grid of %u x %u%s", a, b, wrap(grid));
    add_faces(search, grid, 1);
    add_diagonals(search, grid, true);
    score(search, "nearest neighbors with diagonals on a 2-D grid of %u x %u%s", a, b, wrap(grid));
    if (grid->periodic && a == b) {
        add_faces(search, grid, 1);
        add_diagonals(search, grid, false);
        score(search, "multi-partition on a square of %u x %u, as BT and SP of NPB", a, b);
    }
}

static void try_grid_3(struct search *search, const struct grid *grid)
{
    guint *size = (guint *)grid->size, step, most = MAX(MAX(size[0], size[1]), size[2]);

    add_faces(search, grid, 1);
    score(search, "nearest neighbors on a 3-D grid of %u x %u x %u%s", size[0], size[1], size[2],
          wrap(grid));
    if (grid->periodic && most > 2) {
        for (step = 1; step < most; step *= 2) {
            add_faces(search, grid, (int)step);
        }
        score(search, "multigrid on a 3-D grid of %u x %u x %u, as MG of NPB", size[0], size[1],
              size[2]);
    }
}

static void try_grids(struct search *search)
{
    guint n = search->n, a, b;
    int periodic;

    for (a = 2; a <= n / 2; a++) {
        if (n % a != 0) {
            continue;
        }
        for (periodic = 0; periodic < 2; periodic++) {
            struct grid grid = {{a, n / a, 1}, periodic};

            try_grid_2(search, &grid);
            for (b = 2; b <= n / a / 2; b++) {
                if (n / a % b == 0) {
                    struct grid cube = {{a, b, n / a / b}, periodic};

                    try_grid_3(search, &cube);
                }
            }
        }
    }
}

/* ---- collective patterns --------------------------------------------------------------------- */

static void add_row(struct search *search, guint first, guint step, guint count)
{
    guint i, k;

    for (i = 0; i < count; i++) {
        for (k = 0; k < count; k++) {
            add_pair(search, first + i * step, first + k * step);
        }
    }
}

/* All to all within rows and columns, as an FFT of pencils. */
static void try_pencils(struct search *search)
{
    guint n = search->n, a, b, i;

    for (a = 2; a <= n / 2; a++) {
        if (n % a != 0 || n / a < 2) {
            continue;
        }
        b = n / a;
        for (i = 0; i < a; i++) {
            add_row(search, i * b, 1, b);
        }
        score(search, "all-to-all within %u groups of %u consecutive ranks", a, b);
        for (i = 0; i < b; i++) {
            add_row(search, i, b, a);
        }
        score(search, "all-to-all within %u groups of %u ranks, each %u apart", b, a, b);
        for (i = 0; i < a; i++) {
            add_row(search, i * b, 1, b);
        }
        for (i = 0; i < b; i++) {
            add_row(search, i, b, a);
        }
        score(search, "FFT transposes of pencils: all-to-all in rows and columns of %u x %u", a, b);
    }
}

/* A hub and all others. The hub is the rank with the most traffic. */
static void try_hub(struct search *search)
{
    guint n = search->n, hub = 0, i, k;
    double best = -1;

    for (i = 0; i < n; i++) {
        double sum = 0;

        for (k = 0; k < n; k++) {
            sum += search->traffic[(gsize)i * n + k] + search->traffic[(gsize)k * n + i];
        }
        if (sum > best) {
            best = sum;
            hub = i;
        }
    }
    for (i = 0; i < n; i++) {
        add_both(search, hub, i);
    }
    score(search, "master and workers: rank %u with each other one", hub);
    for (i = 0; i < n; i++) {
        add_pair(search, hub, i);
    }
    score(search, "scatter: rank %u sends to each other one", hub);
    for (i = 0; i < n; i++) {
        add_pair(search, i, hub);
    }
    score(search, "gather: each rank sends to rank %u", hub);
}

static void try_trees(struct search *search)
{
    guint n = search->n, step, i;

    for (step = 1; step < n; step *= 2) {
        for (i = 0; i < n; i++) {
            add_both(search, i, i ^ step);
        }
    }
    score(search, "recursive doubling (a hypercube): partners differ in one bit");
    for (step = 1; step < n; step *= 2) {
        for (i = 0; i + step < n; i += 2 * step) {
            add_both(search, i, i + step);
        }
    }
    score(search, "binomial tree from rank 0");
}

/* CG of NPB: sums within the rows of a grid by recursive doubling, and an exchange with the
 * transposed rank. The grid is square, or twice as wide as high. */
static void try_transposes(struct search *search)
{
    guint n = search->n, rows = 1, columns, step, i;

    while (4 * rows * rows <= n) {
        rows *= 2;
    }
    columns = rows == 0 ? 0 : n / rows;
    if (rows * columns == n && (columns == rows || columns == 2 * rows)) {
        for (i = 0; i < n; i++) {
            guint row = i / columns, column = i % columns;

            for (step = 1; step < columns; step *= 2) {
                add_both(search, i, row * columns + (column ^ step));
            }
            if (columns == rows) {
                add_both(search, i, column * columns + row);
            } else {
                add_both(search, i, 2 * (column / 2 * rows + row) + i % 2);
            }
        }
        score(search, "sums in rows and a transposition on %u x %u, as CG of NPB", rows, columns);
    }
    for (rows = 2; rows * rows < n; rows++) {
    }
    if (rows * rows == n) {
        for (i = 0; i < n; i++) {
            add_both(search, i, i % rows * rows + i / rows);
        }
        score(search, "transposition of a square of %u x %u", rows, rows);
    }
}

static gint compare_patterns(gconstpointer a, gconstpointer b)
{
    const struct cm_pattern *x = a, *y = b;

    return x->score == y->score ? (x->pairs < y->pairs ? -1 : x->pairs > y->pairs) :
                                  (x->score > y->score ? -1 : 1);
}

/* Of patterns that are equally good, the one with fewer pairs says more. */
static void prefer_fewer_pairs(GArray *found)
{
    struct cm_pattern *first = &g_array_index(found, struct cm_pattern, 0), best = *first;
    guint chosen = 0, i;

    for (i = 1; i < found->len; i++) {
        const struct cm_pattern *other = &g_array_index(found, struct cm_pattern, i);

        if (other->score < first->score - EQUAL_SCORES) {
            break;
        }
        if (other->pairs < best.pairs) {
            best = *other;
            chosen = i;
        }
    }
    for (i = chosen; i > 0; i--) {
        first[i] = first[i - 1];
    }
    first[0] = best;
}

GArray *cm_patterns_find(const double *traffic, guint n)
{
    struct search search = {.traffic = traffic, .n = n};
    gsize i;

    search.found = g_array_new(FALSE, FALSE, sizeof(struct cm_pattern));
    if (n < 3 || n > CM_PATTERN_RANKS) {
        return search.found;
    }
    search.in = g_new0(guint8, (gsize)n * n);
    search.set = g_array_new(FALSE, FALSE, sizeof(gsize));
    for (i = 0; i < (gsize)n * n; i++) {
        search.total += i / n != i % n ? traffic[i] : 0;
    }
    try_lines(&search);
    try_grids(&search);
    try_pencils(&search);
    try_hub(&search);
    try_trees(&search);
    try_transposes(&search);
    add_row(&search, 0, 1, n);
    score(&search, "all-to-all");
    g_array_sort(search.found, compare_patterns);
    if (search.found->len > 0) {
        prefer_fewer_pairs(search.found);
    }
    g_array_free(search.set, TRUE);
    g_free(search.in);
    return search.found;
}

void cm_patterns_free(GArray *patterns)
{
    guint i;

    for (i = 0; i < patterns->len; i++) {
        g_free(g_array_index(patterns, struct cm_pattern, i).name);
    }
    g_array_free(patterns, TRUE);
}
