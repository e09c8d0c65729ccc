/*
 * What a matrix looks like: in a terminal, to a program, as a picture, as a page.
 *
 * Every function returns false after an error of writing, with errno set.
 */
#ifndef CM_SHOW_H
#define CM_SHOW_H

#include "flow/traffic.h"
#include "matrix/matrix.h"

#include <stdio.h>

struct cm_show {
    const struct cm_traffic *traffic;
    const struct cm_matrix *matrix;
    enum cm_count count;
    bool log_scale;
    const char *title; /* of pictures and pages */
    bool damaged;      /* the capture could not be read to its end */
    uint64_t dropped;  /* by the kernel, of a live capture */
};

/* Table, heat map, top pairs and what the capture is like. `color`: the terminal knows 256. */
bool cm_show_table(const struct cm_show *show, FILE *out, int columns, bool color);

bool cm_show_csv(const struct cm_show *show, FILE *out);
bool cm_show_json(const struct cm_show *show, FILE *out);
bool cm_show_html(const struct cm_show *show, FILE *out);

/* Pictures. */
bool cm_show_svg(const struct cm_show *show, const char *file);
bool cm_show_png(const struct cm_show *show, const char *file);

/* "1.5 MB" of bytes, "1.5 M" of anything else; to be freed by g_free(). */
char *cm_human(double value, enum cm_count count);

/* Whether the user asked for windows. */
bool cm_show_has_windows(const struct cm_show *show);

/* "1.5 ms"; to be freed by g_free(). */
char *cm_human_time(uint64_t ns);

/* What the values of a matrix are: "payload bytes". */
const char *cm_count_title(enum cm_count count);

/* What rows and columns are: "MPI rank". */
const char *cm_by_title(enum cm_by by);

/* The largest value of all cells, and the smallest that is not 0. */
void cm_show_range(const struct cm_show *show, double *min_p, double *max_p);

/* Where a value lies between nothing (0) and the largest (1) on the scale; negative: it is 0. */
double cm_show_shade(const struct cm_show *show, double value, double min, double max);

#endif
