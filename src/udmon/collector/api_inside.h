/* Common declarations of the files of the API to one node's data. */
#ifndef UDMON_COLLECTOR_API_INSIDE_H
#define UDMON_COLLECTOR_API_INSIDE_H

#include "api.h"

/* A line of a chart: the sum of series over time, by steps. */
struct line {
    char *family, *label; /* common family and label of its series */
    int counter;          /* and this: a counter x is not added to a gauge x */
    int series;
    double *sums;
    char *seen;
};

/* The points of a series. The points of one step become their mean. */
struct points {
    struct json_object *array; /* where they go, or NULL: */
    struct line *line;         /* here they are added, from step `first` on */
    int64_t first, num;
    int counter, extremes;
    int64_t step_ms, step; /* the current one */
    double last;           /* of a counter */
    int64_t last_ms;       /* 0: none yet */
    double sum, least, most;
    int64_t sum_ms;
    int count;
};

/* A series whose points are read */
struct subject {
    const struct api_reader *reader;
    const struct series *series; /* or NULL: only the database has it */
    int64_t key;
};

/** While a reader is active, the store frees no series. */
void api_reader_begin(const struct api_reader *reader);
void api_reader_end(const struct api_reader *reader);
/** The store's series, or NULL; valid until the reader ends. */
const struct series *api_subject_find(const struct api_reader *reader, const char *node,
                                      const char *name, int counter);

/** Calls `each` for all local series of a family of a node, in the order of their names. */
typedef void (*api_series_fn)(const char *name, int counter, int64_t key, void *arg);
void api_each_series(const struct api_reader *reader, const char *node, const char *family,
                     size_t length, api_series_fn each, void *arg);

/** Adds the local points of a series; api_points_flush ends the last step. */
void api_add_levels(const struct subject *subject, int64_t from_ms, int64_t until_ms,
                    struct points *points);
void api_points_flush(struct points *points);

#endif
