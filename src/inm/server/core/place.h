/* Names of places as filters. */
#ifndef INM_PLACE_H
#define INM_PLACE_H

#include <stdbool.h>

/**
 * Returns whether one of the places in `places`, separated by spaces, is `filter` or lies within it:
 * "r1" holds "r1f0n4:1", not "r10f0n4:1". An empty filter holds everything.
 */
bool place_matches(const char *places, const char *filter);

#endif
