/*
 * A matrix for a heat map: rows and columns joined until they fit, and the scale of the colors.
 */
#ifndef CM_GRID_H
#define CM_GRID_H

#include "show.h"

/* `join` names stand in one row. A joined cell has the largest of the values. */
struct cm_grid {
    guint size, join;
    double *values;
    bool log;
    double low, high; /* the ends of the scale */
};

/** At most `most` rows. To be freed by cm_grid_free(). */
struct cm_grid cm_grid_make(const struct cm_show *show, guint most);
void cm_grid_free(struct cm_grid *grid);

/** Where a value lies on the scale, from 0 to 1; negative: there is nothing. */
double cm_grid_shade(const struct cm_grid *grid, double value);

/** The value at a place of the scale, from 0 to 1. */
double cm_grid_value(const struct cm_grid *grid, double at);

/** "one cell = 6 x 6 hosts, the largest value"; NULL: no cells were joined. */
char *cm_grid_note(const struct cm_grid *grid, const struct cm_show *show);

#endif
