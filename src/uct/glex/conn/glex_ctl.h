/*
 * Control messages: connect and accept, explicit return of credits, and the lending of FIFOs. At
 * most one of a VC is on its way in each direction, plus one acknowledgement, so two entries of the
 * peer's MPQ beside the window are enough (UCT_GLEX_VC_CTL_UNITS); what has to be said meanwhile
 * adds up in vc->ctl. CONNECT and END take entries of the reserve, and are sent again when lost.
 */
#ifndef UCT_GLEX_CTL_H
#define UCT_GLEX_CTL_H

#include "core/glex_vc.h"

/** Send what is due of the VCs that are scheduled, of which there is one at least, of very many the
 *  next in turn: connect, accept, control message, acknowledgement. A VC for which the NIC was busy
 *  is blocked. Returns how many others there were. */
unsigned uct_glex_ctl_progress(uct_glex_iface_t *iface);

/** Have uct_glex_ctl_progress() try VCs that are blocked, and the arbiter their pending requests,
 *  of very many VCs the next in turn */
void uct_glex_ctl_retry_blocked(uct_glex_iface_t *iface);

/** Have progress send END for a VC that does not exist here. One answers all messages that arrive
 *  before it is sent. */
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

/* ---- what the NIC says: messages, glex_mp.c, and requests that failed, glex_error.c ---- */

/** An MP arrived. Nothing in it is trusted but where it came from, which the NIC says. */
void uct_glex_mp_recv(uct_glex_iface_t *iface, uint64_t src, void *data, unsigned length);

/** Handle what is in the NIC's error queue, and look now and then whether peers live. Returns 1 if
 *  more peers are due to be checked than one call checks. */
int uct_glex_error_progress(uct_glex_iface_t *iface);

/** Handle all errors that the NIC has reported so far */
void uct_glex_error_handle_all(uct_glex_iface_t *iface);

/** The same as progress where no handler may be called. Returns whether progress has an error to
 *  handle. */
int uct_glex_error_look(uct_glex_iface_t *iface);

#endif
