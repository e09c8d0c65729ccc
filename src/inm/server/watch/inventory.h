/* Serial numbers and firmware versions of the chips. */
#ifndef INM_INVENTORY_H
#define INM_INVENTORY_H

#include "inm/server/core/inmd.h"

/** Reads all chips and records new parts. @return Requests that failed. */
uint32_t inventory_read(struct inmd *d);

#endif
