/*
 * Long copies by two processes. The initiator of a put or get of private memory asks the owner of the
 * memory for help. If the owner polls empty queues, the poll copies a piece.
 *
 *   Initiator                                    Helper: the owner of the memory
 *   job: closed, fields, open
 *   asker of the owner's segment = initiator
 *   claims pieces, copies them                   claims a piece, copies it, reports it
 *   asker = 0
 *   waits until each claimed piece is reported
 *
 * A piece consists of granules. The word `claim` counts the claimed granules, and has the number of
 * the copy. Two processes never claim the same granule, and a late claim for an earlier copy fails.
 * The helper reports a piece before the helper claims the next piece. So only the helper's last piece
 * may be claimed and not reported. docs/nic.md describes the protocol in "Copies by two processes".
 */
#ifndef GLEX_HELP_H
#define GLEX_HELP_H

#include "core/endpoint.h"

/** Copies between `local` and private memory of a peer, alone or with the peer's help. The caller has
 *  checked the request against the registration `rmem`. @return As glex_cma_copy(). */
int glex_help_copy(struct glex_endpoint *ep, struct glex_peer *peer, const struct glex_rmem *rmem,
                   const glex_rdma_req_t *req, char *local);

/** Whether a peer asks this endpoint for help. relaxed: glex_help_poll() loads the word again. */
static GLEX_ALWAYS_INLINE bool glex_help_is_asked(const struct glex_endpoint *ep)
{
    return glex_unlikely(__atomic_load_n(&ep->segment.hdr->asker, __ATOMIC_RELAXED) != 0);
}

/** The helper's piece, in granules, that begins at a granule of a copy. */
uint32_t glex_help_piece(uint64_t len, uint32_t first);

/** Copies at most one piece for the peer that asks for help. Never waits. The caller uses the
 *  endpoint alone, or has its lock. */
void glex_help_poll(struct glex_endpoint *ep);

/** The same for a caller without the lock. */
void glex_help_poll_unlocked(struct glex_endpoint *ep);

/**
 * At exit, stops the help of all threads. Returns false if a thread may still be copying a piece. The
 * process must then keep the names of its endpoints, because peers take a closed endpoint for the end
 * of all stores.
 */
bool glex_help_stop(void);

/** In a child of fork(). */
void glex_help_fork(void);

#endif
