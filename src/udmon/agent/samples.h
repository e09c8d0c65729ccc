/* Samples of one tick of a sensor, gathered and then emitted together. */
#ifndef UDMON_AGENT_SAMPLES_H
#define UDMON_AGENT_SAMPLES_H

#include "../include/udmon_module.h"
#include "../lib/metric.h"

#include <stdbool.h>
#include <stdio.h>

/* Larger sets are emitted in parts. Memory is touched only when needed. */
enum {
    SAMPLES_MAX = 16384,
    SAMPLES_SEEN_MIN = 256,
    SAMPLES_SEEN = 4 * SAMPLES_MAX,
    SAMPLES_FAMILIES = 2048
};

struct samples {
    struct udmon_node *node;
    uint64_t time_ns, clock_ns; /* since 1970; monotonic, as in struct udmon_metric */
    size_t count;
    size_t added;                /* since samples_begin */
    size_t seen_size;            /* of the part of `seen` that is used */
    uint32_t seen[SAMPLES_SEEN]; /* hashes of the names of this set, an open table; 0: free */
    struct udmon_metric metrics[SAMPLES_MAX];
    char names[SAMPLES_MAX][UDMON_METRIC_NAME_MAX + 1];
    const struct udmon_family *family; /* of the samples that are added from now on, or NULL */
    size_t family_count;
    struct udmon_family_text families[SAMPLES_FAMILIES]; /* described since samples_begin */
};

/** Begins the sample set of the calling thread. The loop and each worker have a set. */
struct samples *samples_begin(struct udmon_node *node);
/** `format` makes the name. A full set is emitted, and a new set begins. */
void samples_add(struct samples *samples, int counter, double value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/**
 * Describes the samples that are added from now on. NULL ends a description. An invalid name, or a
 * name after SAMPLES_FAMILIES others, stays without a description.
 */
void samples_describe(struct samples *samples, const struct udmon_family *family);
void samples_end(struct samples *samples);

/** Copies text to a label's value, with escapes; invalid characters become '_'. */
void samples_label(char *label, size_t size, const char *text);

/** Opens a regular file without waiting; NULL with errno (EINVAL: no regular file). */
FILE *samples_open(const char *path);
/** A file's text, of the caller's; NULL with errno: it cannot be read, or has more than 4 MiB. */
char *samples_load(const char *path);
/**
 * Call `each` for the lines of a file, with the newline; parts of a line that is longer than 511
 * bytes count as lines. False if it cannot be read.
 */
bool samples_read_lines(struct samples *samples, const char *path,
                        void (*each)(struct samples *samples, const char *line, void *arg),
                        void *arg);

/** Reads a file of the kernel that consists of a number; -ENOENT: the file is absent or not
 * readable. */
int samples_read_number(const char *path, double *value_p);

#endif
