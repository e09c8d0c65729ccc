/*
 * The page of a cluster: one HTML file that a browser shows without a server. It has the cluster as
 * JSON, and scripts that draw it: load and errors by link, borders, the route of a pair. The browser
 * follows the tables itself, and sorts the channels of each lane: an order of all channels proves that
 * the lane has no credit loop.
 */
#ifndef MCSM_PAGE_H
#define MCSM_PAGE_H

#include "health/health.h"
#include "sm/sm.h"

void mcsm_page(const struct mcsm_sm *sm, const struct mcsm_health *health, FILE *out);

#endif
