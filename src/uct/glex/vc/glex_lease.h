/*
 * The end of a connection. A VC that is over leaves two objects behind.
 *
 * The *lease* is what the peer may still touch: the FIFO that it borrowed, send units and words
 * that were announced to it, its entries of our MPQ. The lease sends END, and again about once in a
 * second until it is released. It is released when the peer claims it, or when the NIC says that
 * the peer is gone. Then everything that had arrived by that time is taken from the NIC's queues.
 * Then the memory and the entries go back to their pools.
 *
 * The *debt* is the claim that this side owes to the peer's lease. It is paid when none of our Gets
 * reads the peer's memory for this VC any more: the lease's name is written to the claim word, 8
 * bytes in the peer's memory, by a store where that is mapped, else by an immediate put.
 *
 * A lease whose interface closes goes to the *quarantine* of the NIC endpoint, which the memory
 * domain keeps. The next interface at that endpoint goes on with it.
 */
#ifndef UCT_GLEX_LEASE_H
#define UCT_GLEX_LEASE_H

#include "core/glex_vc.h"

/** The quarantine of the interface's endpoint, with the leases that earlier interfaces left
 *  there */
ucs_status_t uct_glex_lease_init(uct_glex_iface_t *iface);

/** The interface closes, and its VCs are freed: leave its leases to the quarantine */
void uct_glex_lease_cleanup(uct_glex_iface_t *iface);

/** The VC is over, and uct_glex_lease_is_needed(): begin its lease. `flags`: of enum
 *  uct_glex_end_flag, for END. Returns 0 if there is no memory for the lease: to be tried again. */
int uct_glex_lease_begin(uct_glex_vc_t *vc, unsigned flags);

/** Returns whether the peer may still touch memory of ours, or entries of our MPQ, for a VC that is
 *  over */
static inline int uct_glex_lease_is_needed(const uct_glex_vc_t *vc)
{
    return (vc->lent != UCT_GLEX_LENT_NONE) || (vc->num_ops > vc->rx_started) ||
           (vc->mp_rx.window > 0);
}

/** The peer touches nothing for this VC any more: it said so, or it is gone */
void uct_glex_lease_claimed(uct_glex_vc_t *vc);

/** The peer does not know yet that the VC is over, or did not know when it was told: END is due */
void uct_glex_lease_tell(uct_glex_vc_t *vc);

/** An END could not be delivered because its peer, which calls the VC `peer_id`, is gone */
void uct_glex_lease_peer_gone(uct_glex_iface_t *iface, uint64_t peer, uint32_t peer_id);

/** The interface closes: send END if that is due. NO_RESOURCE: the peer's queue is full. */
ucs_status_t uct_glex_lease_say_goodbye(uct_glex_vc_t *vc);

/** The interface closes: detach the lease from the VC, and from the interface's pools, which are
 *  freed */
void uct_glex_lease_detach(uct_glex_vc_t *vc);

/** END of a peer names its claim word. `vc`: the VC that END ends here, NULL: there is none. */
void uct_glex_debt_add(uct_glex_iface_t *iface, uint64_t peer, const uct_glex_vc_t *vc,
                       const uct_glex_end_t *end);

/** Look at leases and debts, of very many the next in turn */
void uct_glex_lease_progress(uct_glex_iface_t *iface);

#endif
