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

/** Make the socket that this endpoint is woken by, if it is not there. */
glex_ret_t glex_wait_open(struct glex_endpoint *ep);

/** Make the socket that this endpoint wakes peers with, if it is not there. Logs a failure. */
glex_ret_t glex_wait_open_waker(struct glex_endpoint *ep);

/** Close what is open of the descriptor that programs sleep on. */
void glex_wait_close_event(struct glex_endpoint *ep);

/** Close all descriptors of this endpoint. */
void glex_wait_close(struct glex_endpoint *ep);

/** Wake the owner of an endpoint. Its incarnation tells it from who had that address before. */
void glex_wait_wake(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation);

/** Take all wake-ups off the socket. */
void glex_wait_drain(struct glex_endpoint *ep);

#endif
