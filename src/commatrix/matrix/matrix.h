/*
 * Matrices: the flows of a traffic summed up over what the user asks for.
 */
#ifndef CM_MATRIX_H
#define CM_MATRIX_H

#include "flow/rank.h"
#include "flow/traffic.h"
#include "map.h"

enum cm_by { CM_BY_LID, CM_BY_GID, CM_BY_IP, CM_BY_HOST, CM_BY_QP, CM_BY_RANK, CM_NUM_BY };
enum cm_count {
    CM_COUNT_WIRE,
    CM_COUNT_PAYLOAD,
    CM_COUNT_PACKETS,
    CM_COUNT_MESSAGES,
    CM_COUNT_MEAN,
    CM_COUNT_LARGEST,
    CM_NUM_COUNT
};

extern const char *const cm_by_names[CM_NUM_BY];
extern const char *const cm_count_names[CM_NUM_COUNT];

struct cm_cell {
    uint32_t from, to; /* of the matrix's names */
    struct cm_counts counts;
};

/* Cells of one window of time. */
struct cm_slice {
    uint64_t begin_ns, end_ns; /* since the first packet */
    GArray *cells;
};

struct cm_phase {
    uint64_t begin_ns, end_ns; /* since the first packet */
    uint64_t bytes, packets;
};

struct cm_matrix {
    enum cm_by by;
    GPtrArray *names; /* in the order of rows and columns */
    GArray
        *cells; /* of struct cm_cell, ordered by from and to; those without traffic are not there */
    struct cm_counts totals;
    GArray *slices;  /* of struct cm_slice */
    GArray *phases;  /* of struct cm_phase */
    const char *mpi; /* whose messages told the ranks; NULL: none */
    char *note;      /* why there are no ranks, or not of all; NULL */
};

/*
 * Sum up. `map` may be NULL. Where ranks are asked for and not to be had, the matrix is one of
 * hosts, and `note` says why.
 */
struct cm_matrix *cm_matrix_new(const struct cm_traffic *traffic, const struct cm_map *map,
                                enum cm_by by);

void cm_matrix_free(struct cm_matrix *matrix);

double cm_cell_value(const struct cm_counts *counts, enum cm_count count);

/* The phases of a capture: bursts with quiet between them. `offset_ns` is added to their times. */
GArray *cm_phases_find(const struct cm_activity *activity, uint64_t offset_ns);

#endif
