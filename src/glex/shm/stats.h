/*
 * Keeps an endpoint's counters after its end: with GLEX_STATS=FILE each endpoint appends a line of
 * JSON to the file, so that a test or a user can read the counters of a run.
 */
#ifndef GLEX_STATS_H
#define GLEX_STATS_H

#include "base/common.h"

/** A counter by name. */
struct glex_counter_field {
    const char *name;
    size_t offset; /* in struct glex_ext_counters */
};

#define GLEX_NUM_COUNTERS (sizeof(struct glex_ext_counters) / sizeof(uint64_t))

/** All of them, in the order of the structure. */
extern const struct glex_counter_field glex_counter_fields[GLEX_NUM_COUNTERS];

static inline uint64_t glex_counter_value(const struct glex_ext_counters *counters, size_t i)
{
    return *(const uint64_t *)((const char *)counters + glex_counter_fields[i].offset);
}

struct glex_segment_header;

/** At the end of an endpoint: append its line to the file that GLEX_STATS names, if it does. */
void glex_stats_write(const struct glex_segment_header *hdr);

#endif
