/*
 * The life of a VC: making, opening, watching, failure.
 */
#ifndef UCT_GLEX_LIFE_H
#define UCT_GLEX_LIFE_H

#include "core/glex_vc.h"

/** For iface->reports: uct_glex_vc_fail(), uct_glex_vc_dead() */
extern const uct_glex_reports_t uct_glex_vc_reports;

/** Finds the VC of the interface `uuid` at a peer's address. Without a VC, or if the VC has failed,
 *  makes a new VC, which connects. Messages wait until the VC is open. */
ucs_status_t uct_glex_vc_get(uct_glex_iface_t *iface, uint64_t peer, uint32_t uuid,
                             uct_glex_vc_t **vc_p);

/** Free a VC and all its resources; only when the interface closes */
void uct_glex_vc_destroy(uct_glex_vc_t *vc);

/** CONNECT was answered or was accepted: the VC is open */
void uct_glex_vc_open(uct_glex_vc_t *vc);

/** The peer connected: accept as soon as entries of our MPQ can be set aside for the peer */
void uct_glex_vc_accept(uct_glex_vc_t *vc);

/** The peer's END arrived. `is_orderly`: progress closes the VC after the peer's messages before
 *  `last_seq`. Otherwise progress does not wait for missing messages. No error until a program
 *  sends to the peer. */
void uct_glex_vc_peer_leaves(uct_glex_vc_t *vc, uint16_t last_seq, int is_orderly);

/** The peer left: close the VC if all its messages are here. Returns 0 if messages are missing. */
int uct_glex_vc_close_left(uct_glex_vc_t *vc);

/** The peer is gone: have progress fail the VC after handling the peer's messages. Only progress
 *  may call error handlers. */
void uct_glex_vc_dead(uct_glex_vc_t *vc);

/** Whether a VC whose peer is dead can fail now */
int uct_glex_vc_is_drained(uct_glex_vc_t *vc);

/** Check whether the peers of the next `count` VCs live. VCs that nothing waits for are skipped.
 *  Begins leases that could not begin before, because memory was short. */
void uct_glex_vc_watch(uct_glex_iface_t *iface, unsigned count);

/** The peer is gone or broke the protocol: fail all operations, pending requests and endpoints of
 *  the VC */
void uct_glex_vc_fail(uct_glex_vc_t *vc, ucs_status_t status);

/** Fail the endpoints whose access to memory the peer refused. The VC and other endpoints go on. */
void uct_glex_vc_fail_refused(uct_glex_vc_t *vc);

/** Whether the peer's credits, including published credits, allow a message of max_bcopy now */
int uct_glex_vc_has_credits(uct_glex_vc_t *vc);

#endif
