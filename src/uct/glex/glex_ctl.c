#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_ctl.h"
#include "glex_er.h"

#include <string.h>

/* What a peer must answer, and what therefore is acknowledged */
typedef struct uct_glex_ctl_msg {
    uct_glex_mp_hdr_t hdr;
    uct_glex_ctl_t    ctl;
} UCS_S_PACKED uct_glex_ctl_msg_t;

ucs_status_t uct_glex_mp_send(uct_glex_vc_t *vc, void *data, unsigned length)
{
    glex_imm_mp_req_t req;
    glex_ret_t ret;

    req.rmt_ep_addr.v = vc->peer;
    req.data          = data;
    req.len           = length;
    req.flag          = 0;
    req.next          = NULL;
    ret = glex_send_imm_mp(vc->iface->nic, &req, NULL);
    if (ucs_unlikely(ret != GLEX_SUCCESS) && (ret != GLEX_BUSY)) {
        ucs_error("glex: cannot send a message to endpoint 0x%" PRIx64 ": %s", vc->peer,
                  glex_error_str(ret));
    }
    return uct_glex_status(ret);
}

static void uct_glex_ctl_fill(uct_glex_vc_t *vc, uct_glex_ctl_msg_t *msg, unsigned type,
                              unsigned flags)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_ctl_t *ctl     = &msg->ctl;

    memset(ctl, 0, sizeof(*ctl));
    uct_glex_mp_hdr_fill(vc, &msg->hdr, type);
    ctl->version  = UCT_GLEX_WIRE_VERSION;
    ctl->flags    = flags;
    ctl->vc_id    = vc->id;
    ctl->uuid     = vc->peer_uuid;
    ctl->src_uuid = iface->uuid;
    ctl->key      = iface->key;
    if (flags & (UCT_GLEX_CTL_RECALL | UCT_GLEX_CTL_RECALLED)) {
        ctl->recall_limit = vc->recall_limit;
    }
    if (flags & UCT_GLEX_CTL_ER_RELEASED) {
        ctl->er_sent = vc->tx_fifo.msgs;
    }
    if (flags & UCT_GLEX_CTL_ER_GRANT) {
        uct_glex_er_fill_grant(vc, ctl);
    }
}

/* A request of the peer's for a FIFO is answered with what can be given now */
static unsigned uct_glex_ctl_take_flags(uct_glex_vc_t *vc)
{
    if (vc->want_grant) {
        vc->want_grant = 0;
        vc->ctl |= uct_glex_er_lend(vc) ? UCT_GLEX_CTL_ER_GRANT : UCT_GLEX_CTL_ER_NACK;
    }
    return vc->ctl;
}

/* Send CONNECT, with our grant for the peer's messages */
static ucs_status_t uct_glex_ctl_connect(uct_glex_vc_t *vc)
{
    uct_glex_ctl_msg_t msg;
    ucs_status_t status;

    uct_glex_er_request(vc);
    uct_glex_ctl_fill(vc, &msg, UCT_GLEX_MP_CONNECT, vc->ctl);
    msg.hdr.vc_id = 0;
    status        = uct_glex_mp_send(vc, &msg, sizeof(msg));
    if (status == UCS_OK) {
        vc->ctl   = 0;
        vc->state = UCT_GLEX_VC_CONNECTING;
        ++vc->iface->num_waiting;
    }
    return status;
}

static ucs_status_t uct_glex_ctl_send(uct_glex_vc_t *vc, unsigned type)
{
    unsigned flags = uct_glex_ctl_take_flags(vc);
    uint8_t ack    = vc->ack_due;
    uct_glex_ctl_msg_t msg;
    ucs_status_t status;

    uct_glex_ctl_fill(vc, &msg, type, flags);
    status = uct_glex_mp_send(vc, &msg, sizeof(msg));
    if (status == UCS_OK) {
        vc->ctl          = 0;
        vc->ctl_inflight = 1;
    } else {
        vc->ack_due = ack;
    }
    return status;
}

static ucs_status_t uct_glex_ctl_send_ack(uct_glex_vc_t *vc)
{
    uct_glex_mp_hdr_t hdr;
    ucs_status_t status;

    uct_glex_mp_hdr_fill(vc, &hdr, UCT_GLEX_MP_ACK);
    status = uct_glex_mp_send(vc, &hdr, sizeof(hdr));
    if (status != UCS_OK) {
        vc->ack_due = 1;
    }
    return status;
}

int uct_glex_ctl_progress(uct_glex_vc_t *vc)
{
    ucs_status_t status = UCS_OK;

    if (vc->state == UCT_GLEX_VC_OPEN) {
        if (uct_glex_credit_must_tell(&vc->mp_rx) || uct_glex_er_must_tell(vc)) {
            vc->ctl |= UCT_GLEX_CTL_CREDIT;
        }
        if (((vc->ctl != 0) || vc->want_grant) && !vc->ctl_inflight) {
            status = uct_glex_ctl_send(vc, UCT_GLEX_MP_CTL);
        } else if (vc->ack_due) {
            status = uct_glex_ctl_send_ack(vc);
        }
    } else if (vc->state == UCT_GLEX_VC_IDLE) {
        uct_glex_vc_connect(vc);
    } else if ((vc->state == UCT_GLEX_VC_WAIT_MPQ) && !vc->mpq_wait) {
        status = uct_glex_ctl_connect(vc);
    } else if ((vc->state == UCT_GLEX_VC_ACCEPTING) && !vc->mpq_wait) {
        uct_glex_er_request(vc);
        status = uct_glex_ctl_send(vc, UCT_GLEX_MP_ACCEPT);
        if (status == UCS_OK) {
            vc->state = UCT_GLEX_VC_OPEN;
            uct_glex_vc_resume(vc);
        }
    }
    return status != UCS_ERR_NO_RESOURCE;
}

void uct_glex_ctl_acked(uct_glex_vc_t *vc)
{
    vc->ctl_inflight = 0;
    uct_glex_vc_schedule(vc); /* what could not be told meanwhile */
}

/* The peer gave back credits: they serve whoever waits */
static void uct_glex_ctl_recalled(uct_glex_vc_t *vc, uint16_t limit)
{
    uct_glex_iface_t *iface = vc->iface;
    uint16_t freed;

    if (!vc->recalling) {
        return;
    }
    vc->recalling     = 0;
    freed             = uct_glex_credit_recalled(&vc->mp_rx, limit, iface->mpq.start,
                                                 UCT_GLEX_EPOCH_MASK);
    iface->mpq.free  += freed;
    iface->mpq.grown -= ucs_min(freed, iface->mpq.grown);
    uct_glex_vc_schedule(vc); /* it may be owed the least window */
    uct_glex_vc_retry_waiting(iface);
}

static void uct_glex_ctl_recall(uct_glex_vc_t *vc, uint16_t limit)
{
    vc->recall_limit = uct_glex_credit_recall(&vc->mp_tx, limit, UCT_GLEX_EPOCH_MASK);
    vc->tx_peak      = uct_glex_credit_avail(&vc->mp_tx);
    uct_glex_ctl_post(vc, UCT_GLEX_CTL_RECALLED);
}

/* What any control message may say */
static void uct_glex_ctl_process(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    if (ctl->flags & UCT_GLEX_CTL_ER_RELEASED) {
        uct_glex_er_released(vc, ctl->er_sent);
    }
    if (ctl->flags & UCT_GLEX_CTL_ER_REVOKE) {
        uct_glex_er_release(vc);
    }
    if (ctl->flags & UCT_GLEX_CTL_ER_REQUEST) {
        vc->want_grant = 1;
        uct_glex_vc_schedule(vc);
    }
    if (ctl->flags & UCT_GLEX_CTL_ER_GRANT) {
        uct_glex_er_granted(vc, ctl);
    }
    if (ctl->flags & UCT_GLEX_CTL_ER_NACK) {
        uct_glex_er_refused(vc);
    }
    if (ctl->flags & UCT_GLEX_CTL_RECALL) {
        uct_glex_ctl_recall(vc, ctl->recall_limit);
    }
    if (ctl->flags & UCT_GLEX_CTL_RECALLED) {
        uct_glex_ctl_recalled(vc, ctl->recall_limit);
    }
}

static const uct_glex_ctl_t *uct_glex_ctl_check(uct_glex_iface_t *iface, uint64_t src,
                                                const uct_glex_mp_hdr_t *hdr, unsigned length)
{
    const uct_glex_ctl_t *ctl = (const uct_glex_ctl_t*)(hdr + 1);

    if (length < sizeof(*hdr) + sizeof(*ctl)) {
        ucs_debug("glex: control message of %u bytes from 0x%" PRIx64 " ignored", length, src);
        return NULL;
    }
    if (ctl->version != UCT_GLEX_WIRE_VERSION) {
        ucs_error("glex: endpoint 0x%" PRIx64 " speaks protocol version %u, this is version %d: "
                  "use the same libuct_glex everywhere",
                  src, ctl->version, UCT_GLEX_WIRE_VERSION);
        return NULL;
    }
    return ctl;
}

/* Take the peer's name, key and first credits from its CONNECT or ACCEPT */
static void uct_glex_ctl_open(uct_glex_vc_t *vc, const uct_glex_mp_hdr_t *hdr,
                              const uct_glex_ctl_t *ctl)
{
    if (vc->state == UCT_GLEX_VC_CONNECTING) {
        --vc->iface->num_waiting;
    }
    vc->peer_id      = ctl->vc_id;
    vc->peer_key     = ctl->key;
    vc->peer_uuid    = ctl->src_uuid;
    /* by update, not by assignment: a later message may have overtaken this one */
    uct_glex_credit_update(&vc->mp_tx, hdr->mp_limit, vc->mp_tx.epoch);
    vc->tx_peak      = uct_glex_credit_avail(&vc->mp_tx);
}

void uct_glex_ctl_recv_connect(uct_glex_iface_t *iface, uint64_t src, const uct_glex_mp_hdr_t *hdr,
                               unsigned length)
{
    const uct_glex_ctl_t *ctl = uct_glex_ctl_check(iface, src, hdr, length);
    uct_glex_vc_t *vc;

    if (ctl == NULL) {
        return;
    }
    if (ctl->uuid != iface->uuid) {
        ucs_debug("glex: connect from 0x%" PRIx64 " was for an earlier owner of this endpoint", src);
        return;
    }
    if (uct_glex_vc_get(iface, src, ctl->src_uuid, &vc) != UCS_OK) {
        return; /* logged; the peer is left waiting and looks whether we are alive */
    }

    switch (vc->state) {
    case UCT_GLEX_VC_CONNECTING:
        /* Both sides connected at once, and both know all they need */
        uct_glex_ctl_open(vc, hdr, ctl);
        vc->state = UCT_GLEX_VC_OPEN;
        break;
    case UCT_GLEX_VC_IDLE:
    case UCT_GLEX_VC_WAIT_MPQ:
        uct_glex_ctl_open(vc, hdr, ctl);
        uct_glex_vc_accept(vc);
        break;
    default:
        ucs_debug("glex: unexpected connect from 0x%" PRIx64 " in state %d", src, vc->state);
        return;
    }
    uct_glex_ctl_process(vc, ctl);
    uct_glex_vc_resume(vc);
}

void uct_glex_ctl_recv(uct_glex_vc_t *vc, const uct_glex_mp_hdr_t *hdr, unsigned length)
{
    const uct_glex_ctl_t *ctl;

    if (hdr->type == UCT_GLEX_MP_ACK) {
        return; /* the header's flag says it all */
    }
    ctl = uct_glex_ctl_check(vc->iface, vc->peer, hdr, length);
    if (ctl == NULL) {
        return;
    }
    if (hdr->type == UCT_GLEX_MP_ACCEPT) {
        if (vc->state != UCT_GLEX_VC_CONNECTING) {
            ucs_debug("glex: unexpected accept from 0x%" PRIx64, vc->peer);
            return;
        }
        uct_glex_ctl_open(vc, hdr, ctl);
        vc->state = UCT_GLEX_VC_OPEN;
    }
    vc->ack_due = 1;
    uct_glex_vc_schedule(vc);
    uct_glex_ctl_process(vc, ctl);
    uct_glex_vc_resume(vc);
}
