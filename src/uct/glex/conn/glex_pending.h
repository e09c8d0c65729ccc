/*
 * Pending requests of endpoints: requests that were refused, and that progress tries again. The
 * failure of an endpoint ends its pending requests.
 */
#ifndef UCT_GLEX_PENDING_H
#define UCT_GLEX_PENDING_H

#include "conn/glex_reason.h"
#include "core/glex_ep.h"

/** Add a request to the endpoint, which has a VC that has not failed */
void uct_glex_pending_push(uct_glex_ep_t *ep, uct_pending_req_t *req);

/** Arbiter callback: try a pending request again. `arg`: an unsigned, the number of requests that
 *  may still be tried in this progress call */
ucs_arbiter_cb_result_t uct_glex_ep_process_pending(ucs_arbiter_t *arbiter,
                                                    ucs_arbiter_group_t *group,
                                                    ucs_arbiter_elem_t *elem, void *arg);

void uct_glex_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb, void *arg);

/** The endpoint failed with the status of `reason`: call the error handler, once. `is_first`: for
 *  uct_glex_reason_log() */
void uct_glex_ep_failed(uct_glex_ep_t *ep, const uct_glex_reason_t *reason, int is_first);

#endif
