/*
 * What the page, udmon-top and scripts ask for, as JSON:
 *   /api/nodes                     {"now": ms, "nodes": [{"name", "up", "agents", "transport",
 *                                  "address", "received", "lost", "series", "values": {...}}]}
 *   /api/names?node=N              names of the series of a node
 *   /api/series?node=N&name=S      {"counter": bool, "points": [[ms, value], ...]}; of a counter
 *     [&seconds=T][&points=P]      its rate per second. The last T seconds (600), at most P points
 *                                  (1000), each the mean of those that fall together.
 */
#ifndef UDMON_COLLECTOR_API_H
#define UDMON_COLLECTOR_API_H

#include "store.h"

#include <json-c/json.h>
#include <sqlite3.h>

/* Each returns an object of the caller's, or NULL if there is no memory. */
struct json_object *api_nodes(store_t *store);
/* NULL also if there is no such node. */
struct json_object *api_names(store_t *store, const char *node);
/* `db` is a connection for reading. */
struct json_object *api_series(sqlite3 *db, const char *node, const char *name, long seconds,
                               long points);

#endif
