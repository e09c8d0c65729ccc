/*
 * Questions in PromQL to an engine with the HTTP API of Prometheus (/api/v1/query_range). The answer
 * is a table: a row for each series, a column for each step of time.
 *
 * A question costs at most the rest of its budget, QUERY_BYTES_MAX and QUERY_CELLS_MAX. After an
 * engine has not answered, nobody asks it for QUERY_PAUSE_MS: its failure delays few requests.
 */
#ifndef UDMON_COLLECTOR_QUERY_H
#define UDMON_COLLECTOR_QUERY_H

#include "access.h"
#include "pool.h"

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>

enum {
    QUERY_BYTES_MAX = 4 << 20, /* of an answer */
    QUERY_CELLS_MAX = 1 << 20, /* of its table */
    QUERY_PAUSE_MS = 10000
};

struct query_options {
    const char *url;   /* HTTP or HTTPS, without /api/v1; NULL: no engine */
    const char *match; /* label matchers that select the collector's samples, or NULL */
    struct access_options access;
};

struct query {
    struct query_options options;
    /* Atomic: */
    uint64_t silent_until_ns; /* by udmon_now_ns */
    uint64_t asked, failed;
};

/* The times of the columns: column i is the step from (first + i) * step_ms on. */
struct query_steps {
    int64_t step_ms, first, num;
};

struct query_row {
    struct json_object *labels; /* names and strings */
    double *values;             /* of the columns; NAN: the series has no value */
};

struct query_table {
    struct query_row *rows;
    size_t count;
};

/** -EINVAL, with a message: the URL cannot be used. The strings of `options` must stay valid. */
int query_open(struct query *query, const struct query_options *options);

/**
 * Evaluates an expression at the last millisecond of each step. The caller frees the table with
 * query_free. -EIO: no complete answer; the log has the reason.
 */
int query_ask(struct query *query, struct budget *budget, const char *expression,
              const struct query_steps *steps, struct query_table *table_p);
void query_free(struct query_table *table);

#endif
