/*
 * The end of a connection. A VC that is over leaves two objects behind.
 *
 * The *lease* owns the memory and entries that the peer may still access: the borrowed FIFO,
 * announced send units and words, and the peer's entries of our MPQ. The lease sends END, and
 * repeats END about once a second until it is released. The peer's claim releases the lease. If the
 * NIC reports that the peer is gone, the report releases the lease. Then all arrivals until the
 * release are taken from the NIC's queues, and the memory and the entries go back to their pools.
 *
 * The *debt* is the claim that this side owes to the peer's lease. The debt is paid when no Get of
 * this side reads the peer's memory for the VC. To pay the debt, this side writes the lease's name
 * to the claim word, 8 bytes in the peer's memory: by a store if the memory is mapped, else by an
 * immediate put.
 *
 * If its interface closes, a lease goes to the *quarantine* of the NIC endpoint. The memory domain
 * keeps the quarantine, and the next interface at the endpoint continues its leases.
 */
#ifndef UCT_GLEX_LEASE_H
#define UCT_GLEX_LEASE_H

#include "core/glex_vc.h"

/** Find or make the quarantine of the interface's endpoint, and continue the leases of earlier
 *  interfaces */
ucs_status_t uct_glex_lease_init(uct_glex_iface_t *iface);

/** The interface closes, and its VCs are freed: leave the leases to the quarantine */
void uct_glex_lease_cleanup(uct_glex_iface_t *iface);

/** The VC is over, and uct_glex_lease_is_needed(): begin its lease. `flags`: of enum
 *  uct_glex_end_flag, for END. Returns 0 if memory for the lease is missing: the caller tries
 *  again. */
int uct_glex_lease_begin(uct_glex_vc_t *vc, unsigned flags);

/** Returns whether the peer may still access memory of this side, or entries of our MPQ, for a VC
 *  that is over */
static inline int uct_glex_lease_is_needed(const uct_glex_vc_t *vc)
{
    return (vc->lent != UCT_GLEX_LENT_NONE) || (vc->num_ops > vc->rx_started) ||
           (vc->mp_rx.window > 0);
}

/** The peer accesses nothing for this VC any more: the peer has claimed, or is gone */
void uct_glex_lease_claimed(uct_glex_vc_t *vc);

/** The peer does not know that the VC is over: END is due */
void uct_glex_lease_tell(uct_glex_vc_t *vc);

/** An END failed because the peer is gone. `peer_id`: the peer's name of the VC */
void uct_glex_lease_peer_gone(uct_glex_iface_t *iface, uint64_t peer, uint32_t peer_id);

/** The interface closes: send END if due. NO_RESOURCE: the peer's queue is full. */
ucs_status_t uct_glex_lease_say_goodbye(uct_glex_vc_t *vc);

/** The interface closes: detach the lease from the VC, and from the interface's pools */
void uct_glex_lease_detach(uct_glex_vc_t *vc);

/** A peer's END names the claim word of a lease: add the debt. `vc`: the VC that the END is for, or
 *  NULL */
void uct_glex_debt_add(uct_glex_iface_t *iface, uint64_t peer, const uct_glex_vc_t *vc,
                       const uct_glex_end_t *end);

/** Whether a failed immediate put was a claim of this side. The failure has no effect: a peer that is
 *  gone needs no claim, and a living peer repeats its END. Forgets the claim. */
int uct_glex_debt_is_claim(uct_glex_iface_t *iface, uint64_t peer, const struct glex_err_req *err);

/** Progress of the next leases and debts, UCT_GLEX_SLICE of each at most */
void uct_glex_lease_progress(uct_glex_iface_t *iface);

#endif
