/*
 * Data of one node, as JSON. overview.h has the data of all nodes.
 *   /api/names?node=N              names of its series
 *   /api/series?node=N&name=S      {"counter": bool, "points": [[ms, value], ...]}; of a counter
 *     [&seconds=T][&points=P]      its rate per second. The last T seconds (600), or the range
 *     [&from=MS&until=MS]          from..until in ms since 1970. At most P points (1000), each
 *     [&extremes=1]                the mean of adjacent samples. With extremes=1 a point is
 *                                  [ms, value, least, greatest].
 *   /api/lines?node=N&family=F,... {"lines": [{"family", "label", "series": count, "points"}],
 *     [&by=LABEL] and as above     "left_out": series}: lines of a chart. A line is the sum of all
 *                                  series of a family with equal values of the label; without a
 *                                  label: the sum of the family; label *: a line for each series.
 *                                  At most API_LINES_MAX lines.
 *
 * With an engine for older values (older.h), answers with values of the engine's time have "older":
 * {"until_ms", "failed": bool}. The engine was asked for the time before until_ms.
 */
#ifndef UDMON_COLLECTOR_API_H
#define UDMON_COLLECTOR_API_H

#include "older.h"
#include "pool.h"
#include "store.h"

#include <json-c/json.h>
#include <sqlite3.h>

#include <stdbool.h>
#include <stdint.h>

#define API_LINES_MAX 128

/* A part of the history, in ms since 1970, and how many points are wanted of it. */
struct api_range {
    int64_t from_ms, until_ms;
    long points;
    int extremes; /* of api_series: points are [ms, value, least, greatest] */
};

/* Where the history is read from */
struct api_reader {
    sqlite3 *db;           /* a connection for reading */
    struct store *store;   /* has the samples that are not in the database yet; or NULL */
    struct budget *budget; /* or NULL: no limit */
    struct older *older;   /* or NULL: no engine has older values */
};

/* Values by steps of time, to which series are added. */
struct api_steps {
    int64_t step_ms, first, num; /* step i begins at (first + i) * step_ms */
    double *sums;                /* num of them */
    char *seen;                  /* whether a step has a value */
};

/** Adds a series, of a counter its rate per second. `key` is that of the table `series`. */
void api_add_series(const struct api_reader *reader, const char *node, const char *name,
                    int counter, int64_t key, const struct api_steps *steps);
/** The times of the first and the last sample of a series. False: it has none. */
bool api_span(const struct api_reader *reader, const char *node, const char *name, int counter,
              int64_t key, int64_t *first_ms_p, int64_t *last_ms_p);
/** Says in the answer which part of it comes from the engine with older values, if any. */
void api_add_older(struct json_object *answer, const struct api_reader *reader);
/** The time span of a point. */
int64_t api_step_ms(const struct api_range *range);

/* Each returns an object of the caller's, or NULL if there is no memory. */

/** NULL also if there is no such node. */
struct json_object *api_names(struct store *store, const char *node);
struct json_object *api_series(const struct api_reader *reader, const char *node, const char *name,
                               const struct api_range *range);
/** `families` with commas between them; `by` may be NULL. */
struct json_object *api_lines(const struct api_reader *reader, const char *node,
                              const char *families, const char *by, const struct api_range *range);

#endif
