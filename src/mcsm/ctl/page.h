/*
 * The page of a cluster: one HTML file that a browser shows without a server. The file has the
 * cluster as JSON. The scripts of the page draw links with their load and errors, borders, and the
 * route of a pair. The scripts also follow the tables and sort the channels of each lane. A lane has
 * no credit loop if all its channels can be sorted.
 */
#ifndef MCSM_PAGE_H
#define MCSM_PAGE_H

#include "health/health.h"
#include "sm/sm.h"

void mcsm_page(const struct mcsm_sm *sm, const struct mcsm_health *health, FILE *out);

#endif
