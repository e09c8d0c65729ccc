#include "grid.h"

#include <math.h>

/* A logarithmic scale spans a decade at least: nearly equal values get nearly equal colors. */
enum { DECADE = 10 };

/* The lowest value of a logarithmic scale is not the color of nothing. */
#define LOWEST_SHADE 0.08

static void find_scale(struct cm_grid *grid)
{
    double min = 0, max = 0;
    guint i;

    for (i = 0; i < grid->size * grid->size; i++) {
        max = MAX(max, grid->values[i]);
        if (grid->values[i] > 0 && (min == 0 || grid->values[i] < min)) {
            min = grid->values[i];
        }
    }
    grid->high = max;
    grid->low = grid->log ? MIN(min, max / DECADE) : 0;
}

struct cm_grid cm_grid_make(const struct cm_show *show, guint most)
{
    guint n = show->matrix->names->len, i;
    struct cm_grid grid = {.join = MAX((n + most - 1) / MAX(most, 1), 1), .log = show->log_scale};

    grid.size = (n + grid.join - 1) / grid.join;
    grid.values = g_new0(double, (gsize)grid.size *grid.size + 1);
    for (i = 0; i < show->matrix->cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(show->matrix->cells, struct cm_cell, i);
        double *value = &grid.values[cell->from / grid.join * grid.size + cell->to / grid.join];

        if (!show->hide_diagonal || cell->from != cell->to) {
            *value = MAX(*value, cm_cell_value(&cell->counts, show->count));
        }
    }
    find_scale(&grid);
    return grid;
}

void cm_grid_free(struct cm_grid *grid)
{
    g_free(grid->values);
}

double cm_grid_shade(const struct cm_grid *grid, double value)
{
    if (value <= 0 || grid->high <= 0) {
        return -1;
    }
    if (!grid->log) {
        return value / grid->high;
    }
    return LOWEST_SHADE +
           (1 - LOWEST_SHADE) * (log(value) - log(grid->low)) / (log(grid->high) - log(grid->low));
}

double cm_grid_value(const struct cm_grid *grid, double at)
{
    if (!grid->log || grid->high <= 0 || at >= 1) {
        return MIN(at, 1) * grid->high;
    }
    return exp(log(grid->low) + at * (log(grid->high) - log(grid->low)));
}

char *cm_grid_note(const struct cm_grid *grid, const struct cm_show *show)
{
    return grid->join == 1 ? NULL :
                             g_strdup_printf("one cell = %u x %u %ss, the largest value",
                                             grid->join, grid->join, cm_by_title(show->matrix->by));
}
