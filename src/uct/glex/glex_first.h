/*
 * The first message of a VC: it travels with the CONNECT, or, where the peer was first, with the
 * ACCEPT, so that a program that sends once is not sent away first, and the message arrives without
 * any more help of the sender.
 */
#ifndef UCT_GLEX_FIRST_H
#define UCT_GLEX_FIRST_H

#include "glex_ep.h"

/** Whether the next message of this endpoint is the first of its VC */
int uct_glex_first_is_next(uct_glex_ep_t *ep);

/** Send `length` bytes as the first message: a message, or (zc) a zero-copy descriptor.
 *  NO_RESOURCE: not now. */
ucs_status_t uct_glex_first_send(uct_glex_ep_t *ep, uint8_t am_id, const void *data,
                                 unsigned length, int zc);

/** Pack and send the first message. Returns its length or an error. */
ssize_t uct_glex_first_bcopy(uct_glex_ep_t *ep, uint8_t am_id, uct_pack_callback_t pack_cb,
                             void *arg);

/** Put the first message, if there is one, behind a CONNECT or ACCEPT. Returns the bytes that it
 *  takes there. */
unsigned uct_glex_first_append(const uct_glex_vc_t *vc, uct_glex_hdr_t *hdr, void *data);

/** A CONNECT or ACCEPT with a first message, of `length` bytes, has been taken: now that */
void uct_glex_first_recv(uct_glex_vc_t *vc, const uct_glex_hdr_t *hdr, void *data,
                         unsigned length);

/** The VC is open: the first message has arrived */
void uct_glex_first_arrived(uct_glex_vc_t *vc);

/** The VC failed: forget the first message */
void uct_glex_first_purge(uct_glex_vc_t *vc);

#endif
