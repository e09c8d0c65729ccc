/*
 * ZC: zero-copy active messages (paper 003, section 4.4). The sender sends a descriptor of the
 * registered pieces by SR or ER, in order with all other messages. The receiver Gets the payload,
 * then the word that tells whether the payload was valid. The remote event of the last Get calls
 * the sender's completion.
 */
#ifndef UCT_GLEX_ZC_H
#define UCT_GLEX_ZC_H

#include "core/glex_ep.h"
#include "core/glex_vc.h"

/** Send header and pieces. INPROGRESS: `comp` is called when the peer has fetched the pieces. */
ucs_status_t uct_glex_zc_send(uct_glex_ep_t *ep, uint8_t am_id, const void *header,
                              unsigned header_length, const uct_iov_t *iov, size_t iovcnt,
                              uct_completion_t *comp);

#endif
