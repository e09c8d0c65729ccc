/*
 * Control messages: connect and accept, explicit return of credits, and the lending of FIFOs. In
 * each direction, a VC has at most one CTL or ACCEPT and one ACK in flight. So two entries of the
 * peer's MPQ beside the window are enough (UCT_GLEX_VC_CTL_UNITS). Flags accumulate in vc->ctl
 * meanwhile. CONNECT and END take entries of the reserve, and are sent again when lost.
 */
#ifndef UCT_GLEX_CTL_H
#define UCT_GLEX_CTL_H

#include "core/glex_vc.h"

/** Send the due messages of the scheduled VCs: CONNECT, ACCEPT, CTL, ACK. At least one VC must be
 *  scheduled. One call serves UCT_GLEX_SLICE VCs at most, and the next call continues. A VC is
 *  blocked if the NIC was busy. Returns the number of VCs that were served and not blocked. */
unsigned uct_glex_ctl_progress(uct_glex_iface_t *iface);

/** Have uct_glex_ctl_progress() try the next UCT_GLEX_SLICE blocked VCs again, and the arbiter
 *  their pending requests */
void uct_glex_ctl_retry_blocked(uct_glex_iface_t *iface);

/** Have progress send END for a VC that does not exist here. Messages that arrive before the END is
 *  sent get no END of their own. */
void uct_glex_ctl_refuse(uct_glex_iface_t *iface, const uct_glex_refusal_t *refusal);

/** Send the refusals that are due */
void uct_glex_ctl_progress_refusals(uct_glex_iface_t *iface);

/** A CONNECT arrived from `src` */
void uct_glex_ctl_recv_connect(uct_glex_iface_t *iface, uint64_t src, const uct_glex_hdr_t *hdr,
                               unsigned length);

/** ACCEPT, CTL or ACK arrived; the header's counters have been taken */
void uct_glex_ctl_recv(uct_glex_vc_t *vc, const uct_glex_hdr_t *hdr, unsigned length);

/** An END arrived from `src` */
void uct_glex_ctl_recv_end(uct_glex_iface_t *iface, uint64_t src, const uct_glex_hdr_t *hdr,
                           unsigned length);

/* ---- from the NIC: messages (glex_mp.c) and failed requests (glex_error.c) ---- */

/** An MP arrived. Its content is not trusted. The NIC guarantees `src`. */
void uct_glex_mp_recv(uct_glex_iface_t *iface, uint64_t src, void *data, unsigned length);

/** Handle the NIC's error queue, continue leases, and check some peers. Returns 1 if further peers
 *  are due to be checked. */
int uct_glex_error_progress(uct_glex_iface_t *iface);

/** Handle the errors in the NIC's error queue */
void uct_glex_error_handle_all(uct_glex_iface_t *iface);

/** uct_glex_error_progress() for callers that must not call handlers. Errors are not handled.
 *  Returns whether progress must handle an error. */
int uct_glex_error_look(uct_glex_iface_t *iface);

#endif
