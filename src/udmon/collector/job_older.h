/* What an engine with older values (older.h) knows about a job of Slurm. */
#ifndef UDMON_COLLECTOR_JOB_OLDER_H
#define UDMON_COLLECTOR_JOB_OLDER_H

#include "older.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Looks for a job in [from, until): first in coarse steps, then in finer steps of the time that was found. The rows of the
 * table have labels node, user and partition, and a value in each step with samples. False: nothing
 * was found, or older->failed. The caller frees the table with query_free.
 */
bool job_older_find(struct older *older, const char *id, int64_t from_ms, int64_t until_ms,
                    struct query_steps *steps_p, struct query_table *table_p);

struct job_older_family {
    const char *name;
    bool counter;
    const char *job; /* the family has this label job; NULL: it is of the whole node */
};

/** Sums of a family, a row for each node that has values. The rest as above. */
bool job_older_read(struct older *older, const struct job_older_family *family,
                    const char *const *nodes, size_t count, const struct query_steps *steps,
                    struct query_table *table_p);

#endif
