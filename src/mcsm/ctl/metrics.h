/* Counters in the OpenMetrics format. */
#ifndef MCSM_METRICS_H
#define MCSM_METRICS_H

#include "ctl/daemon.h"

void mcsm_metrics(const struct mcsm_daemon *daemon, FILE *out);

/** Into metrics-file of the configuration, if there is one. */
void mcsm_metrics_write(const struct mcsm_daemon *daemon);

#endif
