/*
 * Sleeping and waking. An endpoint that sleeps has a datagram socket beside its segment; who posts
 * to an ARMED ring sends there. Made when it is first needed.
 */
#ifndef GLEX_WAIT_H
#define GLEX_WAIT_H

#include "common.h"

struct glex_endpoint;
struct glex_ring_rx;

/** Make the socket if it is not there. */
glex_ret_t glex_wait_open(struct glex_endpoint *ep);

void glex_wait_close(struct glex_endpoint *ep);

/** Wake the owner of an endpoint. Its incarnation tells it from who had that address before. */
void glex_wait_wake(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation);

/** Take all wake-ups off the socket. */
void glex_wait_drain(struct glex_endpoint *ep);

/** When a timeout ends: CLOCK_MONOTONIC, ns; 0: at once; UINT64_MAX: never. */
uint64_t glex_wait_deadline(int32_t timeout);

/**
 * Wait until there is something to look at, at position `pos` of a ring.
 * @param none  What to return when nothing came.
 */
glex_ret_t glex_wait_for(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos,
                         uint64_t deadline, glex_ret_t none);

#endif
