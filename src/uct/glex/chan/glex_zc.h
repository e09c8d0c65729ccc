/*
 * ZC: zero-copy active messages (paper 003, section 4.4). A descriptor of the registered pieces
 * goes by SR or ER, in order with all other messages; the receiver Gets the payload, then a word
 * that says whether it was still valid; the sender's completion follows the remote event of that
 * Get.
 */
#ifndef UCT_GLEX_ZC_H
#define UCT_GLEX_ZC_H

#include "core/glex_ep.h"
#include "core/glex_vc.h"
#include "chan/glex_rx.h"

/** Send header and pieces. INPROGRESS: `comp` is called when the peer has fetched them. */
ucs_status_t uct_glex_zc_send(uct_glex_ep_t *ep, uint8_t am_id, const void *header,
                              unsigned header_length, const uct_iov_t *iov, size_t iovcnt,
                              uct_completion_t *comp);

/** Fetch the payload that a received descriptor describes. NO_RESOURCE: no buffer now. */
ucs_status_t uct_glex_zc_fetch(uct_glex_rx_t *rx);

/** Whether it is a zero-copy message that its sender cancelled before the payload had been fetched:
 *  no handler gets it */
int uct_glex_zc_is_cancelled(const uct_glex_rx_t *rx);

/** Requests for a received descriptor that are not posted yet */
unsigned uct_glex_zc_unposted(const uct_glex_rx_t *rx);

#endif
