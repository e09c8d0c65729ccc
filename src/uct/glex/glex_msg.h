/*
 * A message whose bytes are all there, through whichever channel there is. And the first message
 * of a VC: it is taken while the VC connects, so that a program that sends once need not ask
 * twice; all others wait until it is on its way.
 */
#ifndef UCT_GLEX_MSG_H
#define UCT_GLEX_MSG_H

#include "glex_ep.h"

/** Send `length` bytes: a message, or (zc) its zero-copy descriptor. NO_RESOURCE: not now. */
ucs_status_t uct_glex_msg_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                               int zc);

/** Whether the next message of this endpoint can be kept until its VC is open */
int uct_glex_msg_can_keep(uct_glex_ep_t *ep);

/** Memory for a message of up to `length` bytes to be kept. NULL: there is none. */
void *uct_glex_msg_alloc(size_t length);
void uct_glex_msg_free(void *data);

/** Keep a message, in memory of uct_glex_msg_alloc(), until the VC is open; it belongs to the VC then.
 *  Else NO_RESOURCE. */
ucs_status_t uct_glex_msg_keep(uct_glex_ep_t *ep, uint8_t am_id, void *data, unsigned length,
                               int zc);

/** The same with a copy of it */
ucs_status_t uct_glex_msg_keep_copy(uct_glex_ep_t *ep, uint8_t am_id, const void *data,
                                    unsigned length, int zc);

/** Send the message that was kept, if it can be now. NO_RESOURCE: not yet. */
ucs_status_t uct_glex_msg_progress(uct_glex_vc_t *vc);

/** The VC failed: forget the message that was kept */
void uct_glex_msg_purge(uct_glex_vc_t *vc);

#endif
