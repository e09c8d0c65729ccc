/*
 * Long copies by two processes. The initiator of a put or get of private memory asks the owner of the
 * memory for help. The owner copies single chunks while it polls its queues in vain. docs/nic.md,
 * "Copies by two processes", has the protocol.
 *
 *   initiator                                    helper, the owner of the memory
 *   job: closed, fields, open
 *   asker of the owner's segment = initiator
 *   claims chunks, copies them                   claims a chunk, copies it, reports it
 *   asker = 0
 *   waits until each claimed chunk is reported
 *
 * The word `claim` counts the claimed chunks, and has the number of the copy. Two processes never
 * claim the same chunk, and a late claim for an earlier copy fails. The helper reports a chunk before
 * the helper claims the next chunk. So at most one chunk is claimed and not reported: the helper's
 * last chunk.
 */
#ifndef GLEX_HELP_H
#define GLEX_HELP_H

#include "core/endpoint.h"

/** Copies between `local` and private memory of a peer, alone or with the peer's help. The caller has
 *  checked the request against the registration `rmem`. @return As glex_cma_copy(). */
int glex_help_copy(struct glex_endpoint *ep, struct glex_peer *peer, const struct glex_rmem *rmem,
                   const glex_rdma_req_t *req, char *local);

/** Whether a peer asks this endpoint for help. relaxed: glex_help_chunk() loads the word again. */
static GLEX_ALWAYS_INLINE bool glex_help_is_asked(const struct glex_endpoint *ep)
{
    return glex_unlikely(__atomic_load_n(&ep->segment.hdr->asker, __ATOMIC_RELAXED) != 0);
}

/** Copies at most one chunk for the peer that asks for help. Never waits. The caller uses the
 *  endpoint alone, or has its lock. */
void glex_help_chunk(struct glex_endpoint *ep);

/** The same for a caller without the lock. */
void glex_help_chunk_unlocked(struct glex_endpoint *ep);

/**
 * At exit, stops the help of all threads. Returns false if a thread may still be copying a chunk. The
 * process must then keep the names of its endpoints, because peers take a closed endpoint for the end
 * of all stores.
 */
bool glex_help_stop(void);

/** In a child of fork(). */
void glex_help_fork(void);

#endif
