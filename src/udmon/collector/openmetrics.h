/* The latest samples of all hosts as OpenMetrics text, for Prometheus. */
#ifndef UDMON_COLLECTOR_OPENMETRICS_H
#define UDMON_COLLECTOR_OPENMETRICS_H

#include "store.h"
#include "text.h"

/* Samples older than `stale_ns` before `now_ns` (since 1970) are left out. */
void openmetrics_write(const store_t *store, uint64_t now_ns, uint64_t stale_ns, text_t *text);

#endif
