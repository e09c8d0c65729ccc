/* OpenMetrics of the server. */
#ifndef INM_METRICS_H
#define INM_METRICS_H

#include "inm/server/core/inmd.h"

/** @return The text, to be freed; NULL: no memory. */
char *metrics_text(struct inmd *d, size_t *len);

#endif
