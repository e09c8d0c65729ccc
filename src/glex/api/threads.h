/*
 * Endpoints that several threads use. Such an endpoint has one lock. A call takes the lock when it
 * begins. A call that sleeps releases the lock meanwhile, and then looks at everything again. An
 * endpoint of one thread takes no lock.
 *
 * The lock adds no instruction to the calls of an endpoint of one thread. The posting functions are
 * function pointers of the endpoint, and an endpoint with a lock has other ones.
 * glex_ext_post_event() and glex_ext_post_mp() use a peer at once only if the peer has a hint or is
 * in the cache of recent peers. An endpoint with a lock has no hints and an empty cache, so these
 * calls take the lock. glex_ext_poll() is for one thread, and takes the lock where it uses the state
 * of posts.
 *
 * Queues. A probe copies the oldest entry into memory of the calling thread, and discards the entry
 * from the ring at once. The head of a ring therefore depends on no thread's next call. A thread
 * probes its own copies again, and discards its own copies only. A thread has at most as many copies
 * of a queue as the queue has entries.
 */
#ifndef GLEX_THREADS_H
#define GLEX_THREADS_H

#include "api/api.h"

/** Lets several threads use a new endpoint. */
glex_ret_t glex_threads_init(struct glex_endpoint *ep);

void glex_threads_cleanup(struct glex_endpoint *ep);

/** In a child of fork(): makes the functions of the parent's endpoint refuse. */
void glex_threads_fork(struct glex_endpoint *ep);

/** The probing functions, for threads; `which`: GLEX_RING_MPQ or GLEX_RING_EQ. They take the
 *  lock. */
struct glex_entry glex_threads_probe(struct glex_endpoint *ep, int which, bool first,
                                     int32_t timeout);
glex_ret_t glex_threads_discard(struct glex_endpoint *ep, int which);
glex_ret_t glex_threads_receive(struct glex_endpoint *ep, int32_t timeout, glex_ep_addr_t *src,
                                void *data, uint32_t *len);

#endif
