/*
 * The outputs of a matrix: text, CSV, JSON, pictures, a page.
 *
 * Functions that write return false, with errno set, on error.
 */
#ifndef CM_SHOW_H
#define CM_SHOW_H

#include "flow/traffic.h"
#include "matrix/matrix.h"
#include "matrix/topology.h"
#include "read/capture.h"

#include <stdio.h>

struct cm_show {
    struct cm_traffic *traffic;
    struct cm_matrix *matrix;
    struct cm_capture *capture;
    enum cm_count count;
    bool log_scale;
    bool hide_diagonal;
    unsigned refresh_s;                 /* a browser loads the page again after so long; 0: never */
    uint32_t job;                       /* number of the job that the user chose; 0: none */
    const struct cm_topology *topology; /* of the report; NULL: not known */
    const char *title;                  /* of pictures and pages */
    uint64_t dropped;                   /* packets of a live capture that the kernel dropped */
};

/** Heat map, table, top pairs and senders, and the state of the capture. `color`: the terminal has
 * 256 colors. */
bool cm_show_table(const struct cm_show *show, FILE *out, int columns, bool color);

/** The report: the pattern in plain words. */
bool cm_show_explain(const struct cm_show *show, FILE *out);

bool cm_show_csv(const struct cm_show *show, FILE *out);
bool cm_show_json(const struct cm_show *show, FILE *out);
bool cm_show_html(const struct cm_show *show, FILE *out);

/** Pictures. */
bool cm_show_svg(const struct cm_show *show, const char *file);
bool cm_show_png(const struct cm_show *show, const char *file);

/** "1.5 MB" of bytes, "1.5 M" of anything else; to be freed by g_free(). */
char *cm_human(double value, enum cm_count count);

/** Whether the user asked for windows. */
bool cm_show_has_windows(const struct cm_show *show);

/** "1.5 ms"; to be freed by g_free(). */
char *cm_human_time(uint64_t ns);

/** A time with all digits, in the form of --from and --to: "1.500001ms"; to be freed by g_free(). */
char *cm_exact_time(uint64_t ns);

/** The time between the first and the last packet that count. */
uint64_t cm_show_duration(const struct cm_show *show);

/**
 * Why the matrix may be empty or wrong: one line for each reason that applies. The array is to be
 * freed by g_strfreev().
 */
char **cm_show_warnings(const struct cm_show *show);

/** The name of the values: "payload bytes". */
const char *cm_count_title(enum cm_count count);

/** The name of rows and columns: "MPI rank". */
const char *cm_by_title(enum cm_by by);

#endif
