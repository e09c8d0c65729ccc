/*
 * UCT endpoint: a remote address and its pending requests. From the first communication on, the
 * endpoint has a virtual connection, which all endpoints to the peer share.
 */
#ifndef UCT_GLEX_EP_H
#define UCT_GLEX_EP_H

#include "core/glex_vc.h"

#include <ucs/datastruct/arbiter.h>

typedef struct uct_glex_ep {
    uct_base_ep_t super;
    uct_glex_vc_t *vc; /* &uct_glex_no_vc before the first communication */
    uint64_t peer;
    uint32_t peer_uuid;
    uint8_t blocked;      /* requests are pending, or the endpoint is cancelled: refuses new
                           * requests */
    uint8_t is_cancelled; /* flushed with CANCEL, or failed without its VC: sends nothing more */
    uint8_t is_failed;    /* its error handler was called */
    uint8_t is_refused;   /* progress must fail the endpoint, see uct_glex_ep_refused() */
    uint8_t has_put;      /* immediate puts, which have no operation, may be in flight */
    uint8_t needs_peer;   /* the request refused last waits for the peer's credits, or for the
                           * connection */
    uint32_t num_pending;
    ucs_arbiter_group_t arb_group; /* pending requests */
    ucs_list_link_t list;          /* in vc->eps */
} uct_glex_ep_t;

UCS_CLASS_DECLARE_NEW_FUNC(uct_glex_ep_t, uct_ep_t, const uct_ep_params_t *);
UCS_CLASS_DECLARE_DELETE_FUNC(uct_glex_ep_t, uct_ep_t);

/** Make sure the endpoint has a VC */
ucs_status_t uct_glex_ep_make_vc(uct_glex_ep_t *ep);

/** A request cannot be posted now. Finds the reason and, if possible, has progress remove the
 *  reason. Returns NO_RESOURCE, or the error of the endpoint. */
ucs_status_t uct_glex_ep_not_ready(uct_glex_ep_t *ep);

/** A living peer refused the endpoint access to memory, because of a wrong or invalid key. Has
 *  progress fail the endpoint, because only progress may call error handlers. Other endpoints of
 *  the VC go on. */
static inline void uct_glex_ep_refused(uct_glex_ep_t *ep)
{
    ep->is_refused = !ep->is_cancelled;
    ep->vc->has_refused = 1;
    uct_glex_vc_schedule(ep->vc);
}

ucs_status_t uct_glex_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header, const void *payload,
                                  unsigned length);
ucs_status_t uct_glex_ep_am_short_iov(uct_ep_h tl_ep, uint8_t id, const uct_iov_t *iov,
                                      size_t iovcnt);
ssize_t uct_glex_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id, uct_pack_callback_t pack_cb, void *arg,
                             unsigned flags);
ucs_status_t uct_glex_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id, const void *header,
                                  unsigned header_length, const uct_iov_t *iov, size_t iovcnt,
                                  unsigned flags, uct_completion_t *comp);

/** For an empty put: the next flush then waits until the peer is known to live or to be gone */
ucs_status_t uct_glex_ep_probe(uct_glex_ep_t *ep);

ucs_status_t uct_glex_ep_check(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_glex_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req, unsigned flags);

#endif
