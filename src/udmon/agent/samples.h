/* Samples of one tick of a sensor, gathered and then emitted together. */
#ifndef UDMON_AGENT_SAMPLES_H
#define UDMON_AGENT_SAMPLES_H

#include "../include/udmon_module.h"

#include <stdio.h>

/* More than this are handed on in parts. Memory is touched only as it is needed. */
enum { SAMPLES_MAX = 16384 };

typedef struct samples {
    udmon_node_t *node;
    uint64_t time_ns, clock_ns; /* since 1970; monotonic, as in udmon_metric_t */
    size_t count;
    size_t added; /* since samples_begin */
    udmon_metric_t metrics[SAMPLES_MAX];
    char names[SAMPLES_MAX][UDMON_METRIC_NAME_MAX + 1];
} samples_t;

/* The set of the calling thread: one set for the loop, one for each worker. */
samples_t *samples_begin(udmon_node_t *node);
/* The name is made by `format`; a full set is emitted and begun anew. */
void samples_add(samples_t *samples, int counter, double value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void samples_end(samples_t *samples);

/* Copies text to a label's value, without what may not stand there; cuts what does not fit. */
void samples_label(char *label, size_t size, const char *text);

/* Opens a regular file without waiting; NULL with errno (EINVAL: no regular file). */
FILE *samples_open(const char *path);
/* A file's text, of the caller's; NULL with errno: it cannot be read, or has more than 4 MiB. */
char *samples_load(const char *path);
/*
 * Call `each` for the lines of a file, with the newline; parts of a line that is longer than 511
 * bytes count as lines. False if it cannot be read.
 */
int samples_read_lines(samples_t *samples, const char *path,
                       void (*each)(samples_t *samples, const char *line, void *arg), void *arg);

/* The number that a file of the kernel consists of; -ENOENT: there is none, or it is not
 * readable. */
int samples_read_number(const char *path, double *value_p);

#endif
