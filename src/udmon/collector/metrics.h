/* The latest samples of all nodes, and the collector's own counters, as Prometheus reads them. */
#ifndef UDMON_COLLECTOR_METRICS_H
#define UDMON_COLLECTOR_METRICS_H

#include "relay.h"
#include "remote.h"
#include "store.h"
#include "writer.h"

#include <stdio.h>

enum { METRICS_TEXT, METRICS_OPENMETRICS }; /* Prometheus' text format 0.0.4; OpenMetrics 1.0 */

/*
 * A node without a connected agent has only the sample udmon_node_up. A series of a connected node
 * is left out if its last sample is older than METRICS_STALE_NS.
 */
#define METRICS_STALE_NS UINT64_C(300000000000)

/** Takes the store's lock for short steps. `writer`, `remote` and `relay` may be NULL. */
void metrics_write(struct store *store, const struct writer *writer, const struct remote *remote,
                   const struct relay *relay, int format, FILE *out);

#endif
