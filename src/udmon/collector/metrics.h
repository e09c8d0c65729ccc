/* The latest samples of all nodes, and the collector's own counters, as Prometheus reads them. */
#ifndef UDMON_COLLECTOR_METRICS_H
#define UDMON_COLLECTOR_METRICS_H

#include "query.h"
#include "relay.h"
#include "remote.h"
#include "store.h"
#include "writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { METRICS_TEXT, METRICS_OPENMETRICS }; /* Prometheus' text format 0.0.4; OpenMetrics 1.0 */

/*
 * A node without a connected agent has only the sample udmon_node_up. A series of a connected node
 * is left out if its last sample is older than METRICS_STALE_NS.
 */
#define METRICS_STALE_NS UINT64_C(300000000000)

/* Which families of nodes a reader needs. The name of a counter lacks _total. */
struct metrics_filter {
    bool (*wants)(const void *arg, const char *name, size_t length, int counter);
    const void *arg;
};

/**
 * Takes the store's lock for short steps. `writer`, `remote` and `relay` may be NULL. `filter`
 * leaves out families of nodes; NULL: all are written.
 */
void metrics_write(struct store *store, const struct writer *writer, const struct remote *remote,
                   const struct relay *relay, const struct metrics_filter *filter, int format,
                   FILE *out);
/** The counters of questions to the engine with older values. */
void metrics_write_query(const struct query *query, int format, FILE *out);

#endif
