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
 */
#ifndef UDMON_COLLECTOR_API_H
#define UDMON_COLLECTOR_API_H

#include "pool.h"
#include "store.h"

#include <json-c/json.h>
#include <sqlite3.h>

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
};

/* Each returns an object of the caller's, or NULL if there is no memory. */

/** NULL also if there is no such node. */
struct json_object *api_names(struct store *store, const char *node);
struct json_object *api_series(const struct api_reader *reader, const char *node, const char *name,
                               const struct api_range *range);
/** `families` with commas between them; `by` may be NULL. */
struct json_object *api_lines(const struct api_reader *reader, const char *node,
                              const char *families, const char *by, const struct api_range *range);

#endif
