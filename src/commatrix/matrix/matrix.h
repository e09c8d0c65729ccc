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
    uint64_t peak;          /* the most bytes on the wire in one window; 0 without windows */
    struct cm_signs *signs; /* NULL: none */
};

/* Cells of one window of time. */
struct cm_slice {
    uint64_t begin_ns, end_ns; /* since the zero of the capture */
    GArray *cells;
};

struct cm_phase {
    uint64_t begin_ns, end_ns; /* since the zero of the capture */
    uint64_t bytes, packets;
};

struct cm_matrix {
    enum cm_by by;
    GPtrArray *names; /* in the order of rows and columns */
    GPtrArray *hosts; /* the host of each name; the first host if a name has several */
    GArray *cells;    /* of struct cm_cell with traffic, ordered by from and to */
    struct cm_counts totals;
    struct cm_counts *sent, *received; /* of each name: sums of its row and of its column */
    GArray *slices;                    /* of struct cm_slice */
    GArray *phases;                    /* of struct cm_phase */
    const char *mpi;                   /* the library whose messages told the ranks, or NULL */
    uint32_t jobs;                     /* by rank: how many jobs there are */
    char *note;                        /* why ranks are missing, and how many jobs, or NULL */
};

enum cm_order { CM_ORDER_NAME, CM_ORDER_TRAFFIC, CM_ORDER_CLUSTER, CM_NUM_ORDER };
extern const char *const cm_order_names[CM_NUM_ORDER];

struct cm_matrix_options {
    enum cm_by by;
    enum cm_order order; /* of rows and columns */
    uint32_t job;        /* by rank: only this job; 0: all */
};

/**
 * Sums up. `map` may be NULL. If ranks are wanted and no message tells them, the matrix has hosts,
 * and `note` has the reason. Returns NULL if the options name a job that does not exist; *error_p
 * then says how many there are, to be freed by g_free().
 */
struct cm_matrix *cm_matrix_new(const struct cm_traffic *traffic, const struct cm_map *map,
                                const struct cm_matrix_options *options, char **error_p);

void cm_matrix_free(struct cm_matrix *matrix);

double cm_cell_value(const struct cm_counts *counts, enum cm_count count);

/** The phases of a capture: bursts with quiet between them. Times count from `zero_ns`. */
GArray *cm_phases_find(const struct cm_activity *activity, uint64_t zero_ns);

#endif
