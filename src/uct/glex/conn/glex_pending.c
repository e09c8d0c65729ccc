#include "conn/glex_pending.h"

/* Move the endpoint in the list of its VC. Endpoints with pending requests come first, so
 * uct_glex_vc_schedule_pending() stops at the first endpoint without requests. The moved endpoint
 * becomes the last endpoint with requests, so the VC serves the other endpoints first. */
static void uct_glex_ep_requeue(uct_glex_ep_t *ep)
{
    uct_glex_vc_t *vc = ep->vc;
    ucs_list_link_t *pos = &vc->eps;
    unsigned i;

    if (vc->state == UCT_GLEX_VC_FAILED) {
        return; /* the endpoint is in the list `told` of uct_glex_vc_fail() */
    }
    ucs_list_del(&ep->list);
    if (ep->num_pending == 0) {
        ucs_list_add_tail(&vc->eps, &ep->list);
        return;
    }
    for (i = 1; i < vc->num_blocked; ++i) {
        pos = pos->next;
    }
    ucs_list_insert_after(pos, &ep->list);
}

void uct_glex_pending_push(uct_glex_ep_t *ep, uct_pending_req_t *req)
{
    if (ep->num_pending++ == 0) {
        ++ep->vc->num_blocked;
        uct_glex_ep_requeue(ep);
    }
    ep->blocked = 1;
    uct_pending_req_arb_group_push(&ep->arb_group, req);
    ucs_arbiter_group_schedule(&ep->vc->iface->arbiter, &ep->arb_group);
    ep->vc->iface->due = 1;
    UCT_TL_EP_STAT_PEND(&ep->super);
}

/* A pending request of the endpoint was posted */
static void uct_glex_ep_pending_done(uct_glex_ep_t *ep)
{
    ++ep->vc->iface->done;
    if (--ep->num_pending == 0) {
        --ep->vc->num_blocked;
    }
    ep->blocked = (ep->num_pending > 0) || ep->is_cancelled;
    uct_glex_ep_requeue(ep);
}

ucs_arbiter_cb_result_t uct_glex_ep_process_pending(ucs_arbiter_t *arbiter,
                                                    ucs_arbiter_group_t *group,
                                                    ucs_arbiter_elem_t *elem, void *arg)
{
    uct_glex_ep_t *ep = ucs_container_of(group, uct_glex_ep_t, arb_group);
    uct_pending_req_t *req = ucs_container_of(elem, uct_pending_req_t, priv);
    uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    unsigned *left = arg;
    ucs_status_t status;

    if ((*left)-- == 0) {
        return UCS_ARBITER_CB_RESULT_STOP; /* the next progress call begins with this request */
    }
    ep->blocked = ep->is_cancelled; /* this request is the next in order */
    ep->needs_peer = 0;
    iface->dispatching = group;
    status = req->func(req);
    iface->dispatching = NULL;
    if (status == UCS_OK) {
        uct_glex_ep_pending_done(ep); /* does not read the request: it may have been freed */
        return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    }
    ep->blocked = 1;
    if (status == UCS_INPROGRESS) {
        return UCS_ARBITER_CB_RESULT_NEXT_GROUP;
    }
    if (!ep->needs_peer) {
        /* The peer's queue is full, or buffers are in use, perhaps until a peer has read them. The
         * program may sleep meanwhile. */
        ep->vc->resume_due = 1;
        uct_glex_vc_block(ep->vc);
    }
    return UCS_ARBITER_CB_RESULT_DESCHED_GROUP; /* uct_glex_vc_resume() schedules the group again */
}

static ucs_arbiter_cb_result_t uct_glex_ep_purge_cb(ucs_arbiter_t *arbiter,
                                                    ucs_arbiter_group_t *group,
                                                    ucs_arbiter_elem_t *elem, void *arg)
{
    uct_pending_req_t *req = ucs_container_of(elem, uct_pending_req_t, priv);
    uct_purge_cb_args_t *args = arg;

    args->cb(req, args->arg);
    return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
}

void uct_glex_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb, void *arg)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    uct_glex_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_glex_iface_t);
    uct_purge_cb_args_t args = {.cb = cb, .arg = arg};

    ucs_arbiter_group_purge(&iface->arbiter, &ep->arb_group, uct_glex_ep_purge_cb, &args);
    if (ep->num_pending > 0) {
        ep->num_pending = 0;
        ep->blocked = ep->is_cancelled;
        --ep->vc->num_blocked;
        uct_glex_ep_requeue(ep);
    }
}

static ucs_arbiter_cb_result_t uct_glex_ep_end_pending_cb(ucs_arbiter_t *arbiter,
                                                          ucs_arbiter_group_t *group,
                                                          ucs_arbiter_elem_t *elem, void *arg)
{
    uct_pending_req_t *req = ucs_container_of(elem, uct_pending_req_t, priv);
    uct_glex_ep_t *ep = arg;

    ep->blocked = ep->is_cancelled;
    if (req->func(req) == UCS_OK) {
        uct_glex_ep_pending_done(ep);
        return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    }
    ep->blocked = 1;
    return UCS_ARBITER_CB_RESULT_NEXT_GROUP; /* kept */
}

/* Try the pending requests again. The requests then end with the error. The error handler, which is
 * called next, purges pending requests, and UCP 1.13 aborts the program if a REPLY is purged. */
static void uct_glex_ep_end_pending(uct_glex_ep_t *ep)
{
    uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    ucs_arbiter_group_t *dispatching = iface->dispatching;

    if (dispatching != &ep->arb_group) {
        iface->dispatching = &ep->arb_group;
        ucs_arbiter_group_purge(&iface->arbiter, &ep->arb_group, uct_glex_ep_end_pending_cb, ep);
        iface->dispatching = dispatching;
    }
}

void uct_glex_ep_failed(uct_glex_ep_t *ep, const uct_glex_reason_t *reason, int is_first)
{
    ucs_status_t err_status;

    ep->is_refused = 0;
    if (ep->is_failed) {
        return; /* the endpoint failed before its VC */
    }
    ep->is_failed = 1;
    uct_glex_ep_end_pending(ep);
    err_status = uct_iface_handle_ep_err(ep->super.super.iface, &ep->super.super, reason->status);
    uct_glex_reason_log(reason, err_status, is_first); /* the handler may have destroyed the
                                                        * endpoint */
}
