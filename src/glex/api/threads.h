/*
 * Endpoints that several threads use. Each has one lock, taken where a call of the program begins;
 * a call that sleeps gives the lock back meanwhile and then looks at everything anew. An endpoint
 * that one thread uses takes no lock.
 *
 * What a transport calls for each message costs such an endpoint no instruction. The posting
 * functions are called through the endpoint: they are others. glex_ext_post_event() and
 * glex_ext_post_mp() find a peer at once only where it has a hint or is in the cache of recent
 * peers; an endpoint with a lock gives no hints and has an empty cache, and all else takes the
 * lock. glex_ext_poll() is for one thread, and takes the lock where it touches what posts use.
 *
 * Queues. What a thread has probed is its own until that thread discards it; no other thread gets
 * it. The first thread that probes a queue is its *holder*, and uses the entries where they lie, as
 * if it were alone, until it has discarded all that it ever probed. Other threads meanwhile get
 * copies of the entries behind those; the entry that was copied becomes one that holds nothing, and
 * is passed over. So the heads of the rings move as before, whoever discards first.
 */
#ifndef GLEX_THREADS_H
#define GLEX_THREADS_H

#include "api/api.h"

/** Let several threads use a new endpoint. */
glex_ret_t glex_threads_init(struct glex_endpoint *ep);

void glex_threads_cleanup(struct glex_endpoint *ep);

/** In a child of fork(): the parent's endpoint goes the way of those that several threads use, and
 *  the functions on that way refuse. */
void glex_threads_fork(struct glex_endpoint *ep);

/** The probing functions, for threads; `which`: GLEX_RING_MPQ or GLEX_RING_EQ. They take the
 *  lock. */
struct glex_entry glex_threads_probe(struct glex_endpoint *ep, int which, bool first,
                                     int32_t timeout);
glex_ret_t glex_threads_discard(struct glex_endpoint *ep, int which);
glex_ret_t glex_threads_receive(struct glex_endpoint *ep, int32_t timeout, glex_ep_addr_t *src,
                                void *data, uint32_t *len);

#endif
