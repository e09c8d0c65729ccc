/*
 * The producer table of a segment: an entry for each endpoint that posts there. It has storage for
 * some entries at first; who finds none free adds the next ones.
 */
#ifndef GLEX_PRODUCER_H
#define GLEX_PRODUCER_H

#include "layout.h"

struct glex_endpoint;

/**
 * Entries of a segment's table that have storage.
 * acquire: pairs with the release of who added the last ones.
 */
static inline uint32_t glex_producers_ready(const struct glex_segment_header *base)
{
    uint32_t ready = __atomic_load_n(&base->producers_ready, __ATOMIC_ACQUIRE);

    return ready < GLEX_MAX_PRODUCERS ? ready : GLEX_MAX_PRODUCERS; /* anybody may write there */
}

static inline struct glex_producer *glex_producers(struct glex_segment_header *base,
                                                   uint32_t mpq_capacity, uint32_t eq_capacity)
{
    return (struct glex_producer *)((char *)base + glex_producers_off(mpq_capacity, eq_capacity));
}

/**
 * Take an entry of a peer's table.
 * @param base  The peer's segment, mapped.
 * @param hdr   Its header as it was checked.
 * @param fd    Its file.
 * @return NULL where there is no room; that was logged.
 */
struct glex_producer *glex_producer_claim(struct glex_endpoint *ep,
                                          struct glex_segment_header *base,
                                          const struct glex_segment_header *hdr, int fd);

#endif
