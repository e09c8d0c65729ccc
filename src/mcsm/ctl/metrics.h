/* Counters in the OpenMetrics format. */
#ifndef MCSM_METRICS_H
#define MCSM_METRICS_H

#include "ctl/daemon.h"

void mcsm_metrics(const mcsm_daemon_t *daemon, FILE *out);

/* Into metrics-file of the configuration, if there is one. */
void mcsm_metrics_write(const mcsm_daemon_t *daemon);

#endif
