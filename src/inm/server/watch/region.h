/* Several servers, each for a range of cabinets. */
#ifndef INM_REGION_H
#define INM_REGION_H

#include "inm/server/core/inmd.h"

/** Asks the other servers for a sign of life; takes regions over and gives them back. */
void regions_watch(struct inmd *d);

#endif
