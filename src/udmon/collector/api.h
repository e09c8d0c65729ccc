/*
 * What the page, udmon-top and scripts ask for, as JSON:
 *   /api/nodes                     {"now": ms, "nodes": [{"name", "up", "agents", "transport",
 *                                  "address", "received", "lost", "series", "values": {...}}]}
 *   /api/names?node=N              names of the series of a node
 *   /api/series?node=N&name=S      {"counter": bool, "points": [[ms, value], ...]}; of a counter
 *     [&seconds=T][&points=P]      its rate per second. The last T seconds (600), at most P points
 *                                  (1000), each the mean of those that fall together.
 *   /api/lines?node=N&family=F,... {"lines": [{"family", "label", "series": how many, "points"}],
 *     [&by=LABEL][&seconds=T]      "left_out": series}: for a chart, the sum of all series of a
 *     [&points=P]                  family that have the same value of the label; no label: of all
 *                                  of the family. At most API_LINES_MAX lines.
 */
#ifndef UDMON_COLLECTOR_API_H
#define UDMON_COLLECTOR_API_H

#include "store.h"

#include <json-c/json.h>
#include <sqlite3.h>

#define API_LINES_MAX 128

/* Each returns an object of the caller's, or NULL if there is no memory. */
struct json_object *api_nodes(store_t *store);
/* NULL also if there is no such node. */
struct json_object *api_names(store_t *store, const char *node);
/* `db` is a connection for reading. */
struct json_object *api_series(sqlite3 *db, const char *node, const char *name, long seconds,
                               long points);
/* `families` with commas between them; `by` may be NULL. */
struct json_object *api_lines(sqlite3 *db, const char *node, const char *families, const char *by,
                              long seconds, long points);

#endif
