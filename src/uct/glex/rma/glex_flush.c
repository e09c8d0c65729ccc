/*
 * Completion: flush and fence. A flush waits for the operations that end with an event (glex_op.h).
 *
 * Immediate puts, and puts that copy to mapped memory, create no operation; vc->dirty records them.
 * Mapped memory accepts puts after the death of its owner. So a flush checks whether the peer is
 * alive. If the NIC ends requests after the call, the flush first posts an operation behind the
 * puts. Memory on another host is never mapped, and the NIC reports each put that did not arrive. A
 * peer that left in good order has the data of all puts to its registrations. So leaving causes no
 * error.
 */
#include "rma/glex_rma.h"
#include "chan/glex_op.h"
#include "conn/glex_ctl.h"
#include "conn/glex_life.h"

#include <ucs/arch/cpu.h>

/* Returns OK also if the function posted operations. The flush waits for them. */
static ucs_status_t uct_glex_flush_verify_puts(uct_glex_ep_t *ep)
{
    glex_ep_addr_t peer = {.v = ep->peer};
    uct_glex_vc_t *vc = ep->vc;
    ucs_status_t status = uct_glex_rma_track_puts(vc);

    if (status != UCS_OK) {
        return status;
    }
    if (!uct_glex_vc_is_remote(vc) && (vc->state != UCT_GLEX_VC_PEER_CLOSED) &&
        (glex_ext_has_receiver(vc->iface->nic, peer) == GLEX_NO_EP_RESOURCE)) {
        status = uct_glex_op_probe(vc); /* the peer's END ends the probe, or uct_glex_vc_watch()
                                         * fails the VC */
    }
    vc->dirty = (status != UCS_OK);
    return status;
}

/* A refused put is in the error queue before the event of the following operation arrives */
void uct_glex_flush_puts_ended(uct_glex_iface_t *iface, uint32_t op_id)
{
    uct_glex_error_handle_all(iface);
    uct_glex_op_event(iface, op_id, UCS_OK);
}

/* UCT_FLUSH_FLAG_CANCEL: the endpoint sends nothing more. The completions of its operations are
 * called at once, except zero-copy puts and gets: the flush waits for them, because the NIC uses
 * the program's memory. The flush does not wait for messages, because the peer may be stopped. */
static ucs_status_t uct_glex_flush_cancel(uct_glex_ep_t *ep, uct_completion_t *comp)
{
    ep->is_cancelled = 1;
    ep->blocked = 1; /* sends take the slow path and are refused */
    if ((ep->vc == &uct_glex_no_vc) ||
        !uct_glex_op_cancel_ep(ep->vc, &ep->super.super, UCS_ERR_CANCELED)) {
        return UCS_OK;
    }
    return uct_glex_op_flush(ep->vc, &ep->super.super, comp);
}

static ucs_status_t uct_glex_flush_ep(uct_glex_ep_t *ep, uct_completion_t *comp)
{
    ucs_status_t status;

    if (ep->vc == &uct_glex_no_vc) {
        return UCS_OK;
    }
    if (ep->is_cancelled) {
        return UCS_ERR_CANCELED;
    }
    if (ep->blocked || ep->is_refused) {
        /* Pending requests are not posted yet (`blocked` is 0 while this flush itself is tried), or
         * progress is about to fail the endpoint */
        return UCS_ERR_NO_RESOURCE;
    }
    if (ep->vc->state == UCT_GLEX_VC_FAILED) {
        return ep->vc->status;
    }
    if (ep->vc->status == UCS_ERR_CONNECTION_RESET) {
        /* The peer left without delivering all our messages. Progress reports the error. */
        uct_glex_vc_dead(ep->vc);
        return uct_glex_vc_is_over(ep->vc) ? UCS_ERR_CONNECTION_RESET : UCS_ERR_NO_RESOURCE;
    }
    if (ep->vc->peer_dead) {
        return UCS_ERR_NO_RESOURCE; /* progress is about to fail the VC */
    }
    if (ucs_unlikely(ep->vc->dirty)) {
        status = uct_glex_flush_verify_puts(ep);
        if (status != UCS_OK) {
            return status;
        }
    }
    return uct_glex_op_flush(ep->vc, &ep->super.super, comp);
}

ucs_status_t uct_glex_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    ucs_status_t status = (flags & UCT_FLUSH_FLAG_CANCEL) ? uct_glex_flush_cancel(ep, comp) :
                                                            uct_glex_flush_ep(ep, comp);

    if (status == UCS_INPROGRESS) {
        UCT_TL_EP_STAT_FLUSH_WAIT(&ep->super);
    } else if (status == UCS_OK) {
        UCT_TL_EP_STAT_FLUSH(&ep->super);
    }
    return status;
}

ucs_status_t uct_glex_ep_fence(uct_ep_h tl_ep, unsigned flags)
{
    ucs_derived_of(tl_ep->iface, uct_glex_iface_t)->fence = 1;
    ucs_memory_cpu_fence(); /* for copies to mapped memory */
    UCT_TL_EP_STAT_FENCE(ucs_derived_of(tl_ep, uct_base_ep_t));
    return UCS_OK;
}

/* Post an operation behind the puts of each VC with puts without an operation */
static ucs_status_t uct_glex_flush_track_puts(uct_glex_iface_t *iface)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    if (uct_glex_md_rdma_now(iface->md)) {
        return UCS_OK;
    }
    for (i = 0; (i < iface->num_vcs) && (status == UCS_OK); ++i) {
        if (iface->vcs[i]->dirty) {
            status = uct_glex_rma_track_puts(iface->vcs[i]);
            iface->vcs[i]->dirty = (status != UCS_OK);
        }
    }
    return status;
}

ucs_status_t uct_glex_iface_flush(uct_iface_h tl_iface, unsigned flags, uct_completion_t *comp)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    ucs_status_t status;

    if (comp != NULL) {
        return UCS_ERR_UNSUPPORTED;
    }
    status = uct_glex_flush_track_puts(iface);
    if (status != UCS_OK) {
        return (status == UCS_ERR_NO_RESOURCE) ? UCS_INPROGRESS : status;
    }
    /* Pending requests on a VC that is about to fail are not posted yet */
    if ((iface->ops.outstanding > 0) || (iface->num_dying > 0)) {
        UCT_TL_IFACE_STAT_FLUSH_WAIT(&iface->super);
        return UCS_INPROGRESS;
    }
    UCT_TL_IFACE_STAT_FLUSH(&iface->super);
    return UCS_OK;
}

ucs_status_t uct_glex_iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    ucs_derived_of(tl_iface, uct_glex_iface_t)->fence = 1;
    ucs_memory_cpu_fence(); /* for copies to mapped memory */
    UCT_TL_IFACE_STAT_FENCE(ucs_derived_of(tl_iface, uct_base_iface_t));
    return UCS_OK;
}
