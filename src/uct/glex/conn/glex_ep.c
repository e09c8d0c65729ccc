#include "core/glex_ep.h"
#include "conn/glex_life.h"
#include "conn/glex_pending.h"
#include "chan/glex_er.h"
#include "chan/glex_op.h"
#include "chan/glex_sr.h"
#include "chan/glex_zc.h"

#include <uct/base/uct_iov.inl>
#include <ucs/arch/cpu.h>
#include <string.h>

static UCS_CLASS_INIT_FUNC(uct_glex_ep_t, const uct_ep_params_t *params)
{
    uct_glex_iface_t *iface = ucs_derived_of(params->iface, uct_glex_iface_t);
    const uct_glex_iface_addr_t *addr;

    UCT_EP_PARAMS_CHECK_DEV_IFACE_ADDRS(params);
    UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t, &iface->super);

    addr = (const uct_glex_iface_addr_t *)params->iface_addr;
    self->vc = &uct_glex_no_vc;
    self->peer = addr->ep_addr;
    self->peer_uuid = addr->uuid;
    self->blocked = 0;
    self->has_put = 0;
    self->needs_peer = 0;
    self->is_cancelled = 0;
    self->is_failed = 0;
    self->is_refused = 0;
    self->num_pending = 0;
    ucs_arbiter_group_init(&self->arb_group);
    return UCS_OK;
}

int uct_glex_ep_is_to(uct_ep_h tl_ep, const uct_iface_addr_t *iface_addr)
{
    const uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    const uct_glex_iface_addr_t *addr = (const uct_glex_iface_addr_t *)iface_addr;

    return (ep->peer == addr->ep_addr) && (ep->peer_uuid == addr->uuid);
}

static UCS_CLASS_CLEANUP_FUNC(uct_glex_ep_t)
{
    uct_glex_iface_t *iface = ucs_derived_of(self->super.super.iface, uct_glex_iface_t);

    uct_glex_ep_pending_purge(&self->super.super, (uct_pending_purge_callback_t)ucs_empty_function,
                              NULL);
    ucs_arbiter_group_desched(&iface->arbiter, &self->arb_group);
    ucs_arbiter_group_cleanup(&self->arb_group);
    if (self->vc != &uct_glex_no_vc) {
        uct_glex_op_drop_ep(self->vc, &self->super.super);
        ucs_list_del(&self->list);
    }
}

UCS_CLASS_DEFINE(uct_glex_ep_t, uct_base_ep_t);
UCS_CLASS_DEFINE_NEW_FUNC(uct_glex_ep_t, uct_ep_t, const uct_ep_params_t *);
UCS_CLASS_DEFINE_DELETE_FUNC(uct_glex_ep_t, uct_ep_t);

ucs_status_t uct_glex_ep_make_vc(uct_glex_ep_t *ep)
{
    uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    ucs_status_t status;
    uct_glex_vc_t *vc;

    if (ucs_likely(ep->vc != &uct_glex_no_vc)) {
        return UCS_OK;
    }
    status = uct_glex_vc_get(iface, ep->peer, ep->peer_uuid, &vc);
    if (status != UCS_OK) {
        return status;
    }
    ep->vc = vc;
    ucs_list_add_tail(&vc->eps, &ep->list);
    return UCS_OK;
}

ucs_status_t uct_glex_ep_not_ready(uct_glex_ep_t *ep)
{
    ucs_status_t status = uct_glex_ep_make_vc(ep);

    if (status != UCS_OK) {
        return status;
    }
    if (ep->is_cancelled) {
        return UCS_ERR_CANCELED;
    }
    ep->needs_peer = 1;
    switch (ep->vc->state) {
    case UCT_GLEX_VC_FAILED:
        return ep->vc->status;
    case UCT_GLEX_VC_PEER_CLOSED:
        uct_glex_vc_dead(ep->vc); /* the first request since the peer left */
        break;
    case UCT_GLEX_VC_OPEN:
        if (uct_glex_vc_has_credits(ep->vc)) {
            ep->needs_peer = 0; /* the NIC was busy, or buffers are in use */
        } else {
            uct_glex_er_starve(ep->vc); /* the caller may sleep instead of calling progress */
        }
        break;
    default:
        break;
    }
    UCS_STATS_UPDATE_COUNTER(ep->super.stats, UCT_EP_STAT_NO_RES, 1);
    return UCS_ERR_NO_RESOURCE;
}

static int uct_glex_ep_can_use_sr(const uct_glex_ep_t *ep)
{
    const uct_glex_vc_t *vc = ep->vc;

    return (vc->state == UCT_GLEX_VC_OPEN) && !ep->blocked &&
           uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR);
}

/* ---- active messages ---- */

/* Send the message in msg->data. If the FIFO is full, the message waits for the FIFO, because
 * changing to SR is slower. */
static ucs_status_t uct_glex_ep_short(uct_glex_ep_t *ep, uint8_t id, uct_glex_sr_msg_t *msg,
                                      unsigned length)
{
    ucs_status_t status = uct_glex_ep_make_vc(ep);
    uct_glex_vc_t *vc = ep->vc;

    if (status != UCS_OK) {
        return status;
    }
    if ((vc->er_tx != NULL) && !ep->blocked) {
        status = uct_glex_er_send(vc, id, msg->data, length, 0);
    } else if ((vc->er_tx == NULL) && uct_glex_ep_can_use_sr(ep)) {
        status = uct_glex_sr_send_mp(vc, UCT_GLEX_MP_AM, id, msg, length, 0);
    } else {
        status = UCS_ERR_NO_RESOURCE;
    }
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super, AM, SHORT, length);
    return (status != UCS_ERR_NO_RESOURCE) ? status : uct_glex_ep_not_ready(ep);
}

/* The slow path of uct_glex_ep_am_short(): no VC, a VC that is not open, pending requests, a FIFO
 * that is not mapped, data too long for a slot, or a NIC without glex_ext_post_mp() */
static UCS_F_NOINLINE ucs_status_t uct_glex_ep_am_short_slow(uct_ep_h tl_ep, uint8_t id,
                                                             uint64_t header, const void *payload,
                                                             unsigned length)
{
    uct_glex_sr_msg_t msg;

    memcpy(msg.data, &header, sizeof(header));
    if (length > 0) {
        memcpy(msg.data + sizeof(header), payload, length);
    }
    return uct_glex_ep_short(ucs_derived_of(tl_ep, uct_glex_ep_t), id, &msg,
                             sizeof(header) + length);
}

/* Most messages take the fast path here. The fast path calls only the NIC, at its end. */
ucs_status_t uct_glex_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t header, const void *payload,
                                  unsigned length)
{
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(sizeof(header) + length, 0, UCT_GLEX_MP_DATA_LEN, "am_short");
    uct_iface_trace_am(ucs_derived_of(tl_ep->iface, uct_base_iface_t), UCT_AM_TRACE_TYPE_SEND, id,
                       payload, length, "TX: AM_SHORT header %" PRIx64, header);

#if UCT_GLEX_NIC_MESSAGES
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    uct_glex_vc_t *vc = ep->vc;
    ucs_status_t status;

    if (ucs_likely(uct_glex_er_is_mapped(vc)) && ucs_likely(!ep->blocked) &&
        ucs_likely(length <= sizeof(((uct_glex_slot_t *)0)->rest))) {
        status = uct_glex_er_send_short(vc, id, header, payload, length);
    } else if (ucs_likely((vc->er_tx == NULL) && uct_glex_ep_can_use_sr(ep))) {
        status = uct_glex_sr_send_short(vc, id, header, payload, length);
    } else {
        return uct_glex_ep_am_short_slow(tl_ep, id, header, payload, length);
    }
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super, AM, SHORT, sizeof(header) + length);
    /* If the FIFO is full, the message waits for the FIFO, because changing to SR is slower */
    return ucs_likely(status != UCS_ERR_NO_RESOURCE) ? status : uct_glex_ep_not_ready(ep);
#else
    return uct_glex_ep_am_short_slow(tl_ep, id, header, payload, length);
#endif
}

ucs_status_t uct_glex_ep_am_short_iov(uct_ep_h tl_ep, uint8_t id, const uct_iov_t *iov,
                                      size_t iovcnt)
{
    ucs_iov_iter_t iov_iter;
    uct_glex_sr_msg_t msg;
    size_t length;

    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(uct_iov_total_length(iov, iovcnt), 0, sizeof(msg.data), "am_short_iov");

    ucs_iov_iter_init(&iov_iter);
    length = uct_iov_to_buffer(iov, iovcnt, &iov_iter, msg.data, sizeof(msg.data));
    return uct_glex_ep_short(ucs_derived_of(tl_ep, uct_glex_ep_t), id, &msg, length);
}

static UCS_F_ALWAYS_INLINE int uct_glex_ep_can_bcopy_er(const uct_glex_ep_t *ep)
{
    const uct_glex_er_tx_t *er = ep->vc->er_tx;

    return ucs_likely((er != NULL) && !ep->blocked) && ucs_likely(er->bcopy_units > 0);
}

/* Whether the VC is connecting to a peer on another host. The NIC's knowledge may then be about an
 * earlier peer at the address. If this peer is gone, CONNECT fails. */
static int uct_glex_ep_connects_far(const uct_glex_vc_t *vc)
{
    return uct_glex_vc_is_remote(vc) && (vc->state < UCT_GLEX_VC_OPEN);
}

/* UCT_SEND_FLAG_PEER_CHECK: a message that begins an exchange must not go to a peer that is gone.
 * Asks the NIC whether the peer is gone, and has progress fail the VC. */
static void uct_glex_ep_check_receiver(uct_glex_vc_t *vc)
{
    if ((vc->state != UCT_GLEX_VC_PEER_CLOSED) && !uct_glex_ep_connects_far(vc) &&
        uct_glex_vc_is_gone(vc)) {
        uct_glex_vc_dead(vc);
    }
}

/* The slow path of uct_glex_ep_am_bcopy(): both channels are unusable now (no VC, not open, pending
 * requests, or SR is not configured), or the peer must be checked first */
static UCS_F_NOINLINE ssize_t uct_glex_ep_am_bcopy_slow(uct_glex_ep_t *ep, uint8_t id,
                                                        uct_pack_callback_t pack_cb, void *arg,
                                                        unsigned flags)
{
    ucs_status_t status = uct_glex_ep_make_vc(ep);

    if (status != UCS_OK) {
        return status;
    }
    if (flags & UCT_SEND_FLAG_PEER_CHECK) {
        uct_glex_ep_check_receiver(ep->vc);
    }
    if (uct_glex_ep_can_bcopy_er(ep)) {
        return uct_glex_er_bcopy(ep->vc, id, pack_cb, arg);
    }
    if (uct_glex_ep_can_use_sr(ep)) {
        return uct_glex_sr_bcopy(ep->vc, id, pack_cb, arg);
    }
    return UCS_ERR_NO_RESOURCE;
}

ssize_t uct_glex_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id, uct_pack_callback_t pack_cb, void *arg,
                             unsigned flags)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    ssize_t ret;

    UCT_CHECK_AM_ID(id);

    if (uct_glex_ep_can_bcopy_er(ep) && ucs_likely(!(flags & UCT_SEND_FLAG_PEER_CHECK))) {
        ret = uct_glex_er_bcopy(ep->vc, id, pack_cb, arg);
    } else if (uct_glex_ep_can_use_sr(ep) && ucs_likely(!(flags & UCT_SEND_FLAG_PEER_CHECK))) {
        ret = uct_glex_sr_bcopy(ep->vc, id, pack_cb, arg);
    } else {
        ret = uct_glex_ep_am_bcopy_slow(ep, id, pack_cb, arg, flags);
    }
    UCT_TL_EP_STAT_OP_IF_SUCCESS(ret, &ep->super, AM, BCOPY, ret);
    return ucs_likely(ret != UCS_ERR_NO_RESOURCE) ? ret : (ssize_t)uct_glex_ep_not_ready(ep);
}

ucs_status_t uct_glex_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id, const void *header,
                                  unsigned header_length, const uct_iov_t *iov, size_t iovcnt,
                                  unsigned flags, uct_completion_t *comp)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    ucs_status_t status;

    UCT_CHECK_AM_ID(id);
    UCT_CHECK_IOV_SIZE(iovcnt, (unsigned long)UCT_GLEX_ZC_MAX_IOV, "am_zcopy");
    UCT_CHECK_LENGTH(header_length, 0, UCT_GLEX_ZC_MAX_HDR, "am_zcopy header");
    UCT_CHECK_LENGTH(header_length + uct_iov_total_length(iov, iovcnt), 0,
                     ucs_derived_of(tl_ep->iface, uct_glex_iface_t)->config.max_zcopy, "am_zcopy");

    status = uct_glex_ep_make_vc(ep);
    if (status != UCS_OK) {
        return status;
    }
    if (ucs_unlikely(flags & UCT_SEND_FLAG_PEER_CHECK)) {
        uct_glex_ep_check_receiver(ep->vc);
    }
    if (!ep->blocked && (ep->vc->state == UCT_GLEX_VC_OPEN)) {
        status = uct_glex_zc_send(ep, id, header, header_length, iov, iovcnt, comp);
        if (status != UCS_ERR_NO_RESOURCE) {
            UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super, AM, ZCOPY,
                                         header_length + uct_iov_total_length(iov, iovcnt));
            return status;
        }
    }
    return uct_glex_ep_not_ready(ep);
}

/* ---- pending ---- */

ucs_status_t uct_glex_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req, unsigned flags)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    ucs_status_t status = uct_glex_ep_make_vc(ep);

    if (status != UCS_OK) {
        return status;
    }
    if (ep->vc->state == UCT_GLEX_VC_FAILED) {
        return UCS_ERR_BUSY; /* the caller tries the operation again, and the operation returns the
                              * error */
    }
    /* Otherwise never BUSY. Resources change only in progress, so the operation would be refused
     * again. UCP would repeat the operation for ever without calling progress. */
    uct_glex_pending_push(ep, req);
    return UCS_OK;
}

/* The NIC may not know yet that a peer on another host is gone. So the probe waits until the peer
 * has acknowledged a CTL. */
ucs_status_t uct_glex_ep_probe(uct_glex_ep_t *ep)
{
    uct_glex_vc_t *vc = ep->vc;
    int is_there = (vc->state == UCT_GLEX_VC_OPEN) && !uct_glex_vc_is_gone(vc);
    ucs_status_t status;

    if (is_there && !uct_glex_vc_is_remote(vc)) {
        return UCS_OK;
    }
    status = uct_glex_op_probe(vc);
    if (status != UCS_OK) {
        return status;
    }
    if (is_there) {
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_CREDIT);
    } else if (vc->state >= UCT_GLEX_VC_OPEN) {
        uct_glex_vc_dead(vc); /* does nothing if the VC has failed */
    }
    return UCS_OK;
}

/* The NIC may not know yet that a peer on another host is gone. So the peer must acknowledge a CTL.
 * No flush waits for the acknowledgement. If the peer leaves before, the VC fails when its
 * operations have ended. */
static void uct_glex_ep_check_remote(uct_glex_vc_t *vc)
{
    if (uct_glex_vc_is_remote(vc) && (vc->state == UCT_GLEX_VC_OPEN) && !vc->check_pending) {
        vc->check_pending = 1;
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_CREDIT);
    }
}

/* Does not connect to a peer on another host, and sends no CTL before the VC is open. Some programs
 * check every possible peer, and would connect to every peer. */
ucs_status_t uct_glex_ep_check(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    uct_glex_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_glex_iface_t);
    glex_ep_addr_t peer = {.v = ep->peer};
    ucs_status_t status;

    UCT_COMPAT_EP_CHECK_PARAM(flags, comp);
    if (ep->vc->state == UCT_GLEX_VC_PEER_CLOSED) {
        return uct_glex_ep_not_ready(ep) == UCS_ERR_NO_RESOURCE ? UCS_OK : ep->vc->status;
    }
    if (uct_glex_ep_connects_far(ep->vc) ||
        ((ep->vc == &uct_glex_no_vc) && glex_ext_is_remote(iface->nic, peer))) {
        return UCS_OK;
    }
    if (!uct_glex_iface_is_gone(iface, ep->peer, ep->peer_uuid, ep->vc->epoch)) {
        uct_glex_ep_check_remote(ep->vc);
        return UCS_OK;
    }
    status = uct_glex_ep_make_vc(ep); /* only a VC can fail: progress calls its error handlers */
    if (status == UCS_OK) {
        uct_glex_vc_dead(ep->vc); /* does nothing if the VC has failed */
    }
    return status;
}
