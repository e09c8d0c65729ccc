/*
 * Sleeping and waking. An endpoint makes a datagram socket beside its segment when it first sleeps.
 * A producer that posts to an ARMED ring sends a datagram to this socket. The producer makes its
 * own socket with its first peer, so a later wake-up needs no descriptor.
 *
 * A producer may be killed before it sends, and the kernel may have no memory for a datagram. So
 * every sleep is bounded: a waiting call checks its queue after a time, and the descriptor that
 * programs sleep on (an epoll of the socket and a timer) becomes readable after a time.
 */
#ifndef GLEX_WAIT_H
#define GLEX_WAIT_H

#include "base/common.h"

struct glex_endpoint;

/** Make the socket for wake-ups of this endpoint, if missing. */
glex_ret_t glex_wait_open(struct glex_endpoint *ep);

/** Make the socket for wake-ups of peers, if missing. Logs a failure. */
glex_ret_t glex_wait_open_waker(struct glex_endpoint *ep);

/** Close the descriptor that programs sleep on, if open. */
void glex_wait_close_event(struct glex_endpoint *ep);

/** Close all descriptors of this endpoint. */
void glex_wait_close(struct glex_endpoint *ep);

/**
 * Wake the owner of an endpoint. The incarnation identifies the owner among successive owners of
 * the address.
 */
void glex_wait_wake(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation);

/** Take all wake-ups off the socket. */
void glex_wait_drain(struct glex_endpoint *ep);

#endif
