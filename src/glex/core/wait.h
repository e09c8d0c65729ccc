/*
 * Sleeping and waking. An endpoint that sleeps has a datagram socket beside its segment, made when
 * it first sleeps; a producer that posts to an ARMED ring sends a datagram there. The producer's
 * socket is made with its first peer, so that waking needs no descriptor that may not be there.
 *
 * A producer may be killed before it sends, and the kernel may have no memory for a datagram. So
 * every sleep is bounded: a call that waits looks again by itself, and the descriptor that programs
 * sleep on (an epoll of the socket and a timer) becomes readable by itself.
 */
#ifndef GLEX_WAIT_H
#define GLEX_WAIT_H

#include "base/common.h"

struct glex_endpoint;
struct glex_ring_rx;

/** Make the socket that this endpoint is woken by, if it is not there. */
glex_ret_t glex_wait_open(struct glex_endpoint *ep);

/** Make the descriptor that programs sleep on, ep->event_fd, if it is not there. */
glex_ret_t glex_wait_open_event(struct glex_endpoint *ep);

/** A program is about to sleep on ep->event_fd: let it become readable after a while. */
glex_ret_t glex_wait_start_timer(struct glex_endpoint *ep);

/** Make the socket that this endpoint wakes peers with, if it is not there. Logs a failure. */
glex_ret_t glex_wait_open_waker(struct glex_endpoint *ep);

/** Close all descriptors of this endpoint. */
void glex_wait_close(struct glex_endpoint *ep);

/** Wake the owner of an endpoint. Its incarnation tells it from who had that address before. */
void glex_wait_wake(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation);

/** Take all wake-ups off the socket. */
void glex_wait_drain(struct glex_endpoint *ep);

/** When a timeout ends: CLOCK_MONOTONIC, ns; 0: at once; UINT64_MAX: never. */
uint64_t glex_wait_deadline(int32_t timeout);

/**
 * Wait until there is something to look at, at position `pos` of a ring. Of an endpoint that
 * several threads use the lock is given back meanwhile, and SUCCESS means to look at everything anew.
 * @param none  What to return when nothing came.
 */
glex_ret_t glex_wait_for(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos,
                         uint64_t deadline, glex_ret_t none);

#endif
