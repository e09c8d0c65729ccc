/*
 * The data of a received message, before its delivery (glex_rx.c). The data of an announced message
 * (SR) is read in the sender's unit, or fetched from the unit. The payload of a zero-copy message
 * (ZC) is always fetched.
 */
#ifndef UCT_GLEX_FETCH_H
#define UCT_GLEX_FETCH_H

#include "chan/glex_rx.h"

/* ---- announced messages ---- */

/** Fetch an announced message. NO_RESOURCE: no receive unit now. */
ucs_status_t uct_glex_sr_fetch(uct_glex_rx_t *rx);

/** The address of an announced message in this process. NULL: the message must be fetched. */
void *uct_glex_sr_map(uct_glex_vc_t *vc, const uct_glex_sr_t *sr, struct glex_ext_pin **pin_p);

/** Return a unit that was read in place to its sender. BUSY: the sender's queue is full. */
glex_ret_t uct_glex_sr_release(uct_glex_vc_t *vc, const uct_glex_sr_t *sr);

/* ---- zero-copy messages ---- */

/** Fetch the payload of a received descriptor. NO_RESOURCE: no buffer now. */
ucs_status_t uct_glex_zc_fetch(uct_glex_rx_t *rx);

/** Whether the sender cancelled the zero-copy message before the receiver fetched the payload. No
 *  handler gets such a message. */
int uct_glex_zc_is_cancelled(const uct_glex_rx_t *rx);

/** Number of Gets for a received descriptor that are not posted yet */
unsigned uct_glex_zc_unposted(const uct_glex_rx_t *rx);

#endif
