#include "conn/glex_ctl.h"
#include "conn/glex_life.h"
#include "chan/glex_er.h"
#include "chan/glex_op.h"
#include "chan/glex_rx.h"
#include "chan/glex_sr.h"
#include "vc/glex_mpq.h"
#include "conn/glex_table.h"
#include "vc/glex_lease.h"

#include <string.h>

/* CONNECT, ACCEPT, CTL: a header and a body */
typedef struct uct_glex_ctl_msg {
    uct_glex_hdr_t hdr;
    uct_glex_ctl_t ctl;
} uct_glex_ctl_msg_t;

/* The header returns all owed credits. After sending, the caller calls uct_glex_vc_advertised(). */
static void uct_glex_ctl_fill_hdr(const uct_glex_vc_t *vc, uct_glex_hdr_t *hdr, unsigned type)
{
    hdr->word = uct_glex_vc_hdr_word(vc, type, 0, 0);
    hdr->credits = vc->tx.credits;
}

static void uct_glex_ctl_fill(uct_glex_vc_t *vc, uct_glex_ctl_msg_t *msg, unsigned type,
                              unsigned flags)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_ctl_t *ctl = &msg->ctl;

    memset(ctl, 0, sizeof(*ctl));
    uct_glex_ctl_fill_hdr(vc, &msg->hdr, type);
    ctl->version = UCT_GLEX_WIRE_VERSION;
    ctl->flags = flags;
    ctl->vc_id = vc->id;
    ctl->uuid = vc->peer_uuid;
    ctl->src_uuid = iface->uuid;
    ctl->key = iface->md->key;
    ctl->er_sent = vc->tx_fifo.msgs;
    ctl->released_index = vc->released_index;
    ctl->released_gen = vc->released_gen;
    if (vc->lent != UCT_GLEX_LENT_NONE) {
        ctl->revoked_index = vc->rx_fifo_index;
        ctl->revoked_gen = iface->er_rx[vc->rx_fifo_index].gen;
    }
    if (flags & UCT_GLEX_CTL_ER_GRANT) {
        uct_glex_er_fill_grant(vc, ctl);
    }
}

/* The control flags to send now. GRANT without a lent FIFO is the answer that a request of the peer
 * waits for: lends a FIFO, or refuses the request. The answer waits until all messages of a returned
 * FIFO are delivered. */
static unsigned uct_glex_ctl_take_flags(uct_glex_vc_t *vc)
{
    if (vc->lent == UCT_GLEX_LENT_RELEASED) {
        return vc->ctl & ~UCT_GLEX_CTL_ER_GRANT;
    }
    if ((vc->ctl & UCT_GLEX_CTL_ER_GRANT) && (vc->lent == UCT_GLEX_LENT_NONE) &&
        !uct_glex_er_lend(vc)) {
        vc->ctl = (vc->ctl & ~UCT_GLEX_CTL_ER_GRANT) | UCT_GLEX_CTL_ER_NACK;
    }
    return vc->ctl;
}

/* Send CONNECT or ACCEPT, with our grant for the peer's messages */
static ucs_status_t uct_glex_ctl_send_open(uct_glex_vc_t *vc, unsigned type, unsigned flags)
{
    uct_glex_ctl_msg_t msg;
    ucs_status_t status;

    uct_glex_ctl_fill(vc, &msg, type, flags);
    if (type == UCT_GLEX_MP_CONNECT) {
        msg.hdr.seq = uct_glex_vc_mark(vc);
        if (vc->state != UCT_GLEX_VC_OPEN) {
            msg.ctl.gone_id = msg.hdr.vc_id; /* see uct_glex_vc_get() */
            msg.hdr.vc_id = 0;
        }
    }
    status = uct_glex_mp_send(vc, &msg, sizeof(msg));
    if (status == UCS_OK) {
        uct_glex_vc_advertised(vc);
    }
    return status;
}

/* A CONNECT may be lost. So only the request for a FIFO goes with the CONNECT, and other flags wait
 * for a CTL. */
static ucs_status_t uct_glex_ctl_connect(uct_glex_vc_t *vc)
{
    ucs_status_t status;
    unsigned flags;

    uct_glex_er_connect(vc);
    flags = vc->ctl & UCT_GLEX_CTL_ER_REQUEST;
    status = uct_glex_ctl_send_open(vc, UCT_GLEX_MP_CONNECT, flags);
    if (status == UCS_OK) {
        vc->ctl &= ~flags;
        vc->connect_again = 0;
        if (vc->state == UCT_GLEX_VC_WAIT_MPQ) {
            vc->state = UCT_GLEX_VC_CONNECTING;
        }
    }
    return status;
}

static ucs_status_t uct_glex_ctl_send(uct_glex_vc_t *vc, unsigned flags)
{
    uct_glex_ctl_msg_t msg;
    ucs_status_t status;

    uct_glex_ctl_fill(vc, &msg, UCT_GLEX_MP_CTL, flags);
    status = uct_glex_mp_send(vc, &msg, sizeof(msg));
    if (status == UCS_OK) {
        uct_glex_vc_advertised(vc);
        vc->ctl &= ~flags;
        vc->ctl_inflight = 1;
    }
    return status;
}

static ucs_status_t uct_glex_ctl_send_ack(uct_glex_vc_t *vc)
{
    uct_glex_hdr_t hdr;
    ucs_status_t status;

    uct_glex_ctl_fill_hdr(vc, &hdr, UCT_GLEX_MP_ACK);
    status = uct_glex_mp_send(vc, &hdr, sizeof(hdr));
    if (status == UCS_OK) {
        uct_glex_vc_advertised(vc);
    }
    return status;
}

/* Send a CTL if flags are due, else an ACK if no other message carried the acknowledgement */
static ucs_status_t uct_glex_ctl_send_due(uct_glex_vc_t *vc)
{
    unsigned flags;

    if ((vc->ctl & UCT_GLEX_CTL_CREDIT) && uct_glex_er_is_lent_mapped(vc) &&
        !uct_glex_er_is_wanted(vc)) {
        vc->ctl &= ~UCT_GLEX_CTL_CREDIT; /* the sender is awake, and reads the published credits */
    }
    if (uct_glex_credit_must_tell(&vc->mp_rx, vc->advertised_limit) || uct_glex_er_must_tell(vc)) {
        vc->ctl |= UCT_GLEX_CTL_CREDIT;
    }
    if ((vc->ctl != 0) && !vc->ctl_inflight) {
        flags = uct_glex_ctl_take_flags(vc);
        if (flags != 0) {
            return uct_glex_ctl_send(vc, flags);
        }
    }
    return (vc->tx.flags & UCT_GLEX_FLAG_ACK) ? uct_glex_ctl_send_ack(vc) : UCS_OK;
}

/* Returns NO_RESOURCE if the lender's event queue is still full */
static ucs_status_t uct_glex_ctl_ring(uct_glex_vc_t *vc)
{
    if ((vc->er_tx != NULL) && vc->er_tx->ring_due) {
        uct_glex_er_ring(vc);
    }
    return ((vc->er_tx != NULL) && vc->er_tx->ring_due) ? UCS_ERR_NO_RESOURCE : UCS_OK;
}

/* Whether a probe of an open VC may end. The peer on this host lives, because the NIC says so. A
 * peer on another host lives if it has answered all CTLs. */
static int uct_glex_ctl_is_answered(const uct_glex_vc_t *vc)
{
    return !uct_glex_vc_is_remote(vc) || ((vc->ctl == 0) && !vc->ctl_inflight);
}

static ucs_status_t uct_glex_ctl_progress_open(uct_glex_vc_t *vc)
{
    ucs_status_t status;

    if (vc->connect_again) {
        status = uct_glex_ctl_connect(vc);
        if (status != UCS_OK) {
            return status;
        }
    }
    status = uct_glex_ctl_send_due(vc);
    if (uct_glex_ctl_is_answered(vc)) {
        uct_glex_op_end_probe(vc);
    }
    return (status == UCS_OK) ? uct_glex_ctl_ring(vc) : status;
}

static ucs_status_t uct_glex_ctl_accept(uct_glex_vc_t *vc)
{
    ucs_status_t status;

    uct_glex_er_connect(vc);
    status = uct_glex_ctl_send_open(vc, UCT_GLEX_MP_ACCEPT, uct_glex_ctl_take_flags(vc));
    if (status == UCS_OK) {
        vc->ctl = 0;
        vc->ctl_inflight = 1;
        uct_glex_vc_open(vc);
        uct_glex_vc_schedule(vc);
        uct_glex_vc_resume(vc);
    }
    return status;
}

static ucs_status_t uct_glex_ctl_progress_state(uct_glex_vc_t *vc)
{
    if (vc->peer_left && !uct_glex_vc_close_left(vc)) {
        return UCS_ERR_NO_RESOURCE;
    }
    if (vc->peer_dead) {
        return uct_glex_vc_is_drained(vc) ? UCS_ERR_ENDPOINT_TIMEOUT : UCS_ERR_NO_RESOURCE;
    }
    switch (vc->state) {
    case UCT_GLEX_VC_OPEN:
        return uct_glex_ctl_progress_open(vc);
    case UCT_GLEX_VC_WAIT_MPQ:
        return (vc->mp_rx.window > 0) ? uct_glex_ctl_connect(vc) : UCS_OK;
    case UCT_GLEX_VC_ACCEPTING:
        return (vc->mp_rx.window > 0) ? uct_glex_ctl_accept(vc) : UCS_OK;
    default:
        return UCS_OK;
    }
}

void uct_glex_ctl_retry_blocked(uct_glex_iface_t *iface)
{
    const void *end = iface->blocked.ptail;
    unsigned left = UCT_GLEX_SLICE;
    uct_glex_vc_t *vc;

    while ((left > 0) && !ucs_queue_is_empty(&iface->blocked)) {
        vc = ucs_queue_pull_elem_non_empty(&iface->blocked, uct_glex_vc_t, active);
        left = (&vc->active.next == end) ? 0 : left - 1;
        ucs_queue_push(&iface->active, &vc->active);
        if (vc->resume_due) {
            vc->resume_due = 0;
            uct_glex_vc_schedule_pending(vc);
        }
    }
}

unsigned uct_glex_ctl_progress(uct_glex_iface_t *iface)
{
    const void *end = iface->active.ptail; /* the next call serves VCs scheduled meanwhile */
    unsigned count = 0, left = UCT_GLEX_SLICE;
    ucs_status_t status;
    uct_glex_vc_t *vc;

    do {
        vc = ucs_queue_pull_elem_non_empty(&iface->active, uct_glex_vc_t, active);
        left = (&vc->active.next == end) ? 0 : left - 1;
        uct_glex_vc_schedule_end(vc);
        uct_glex_vc_fail_refused(vc);
        status = uct_glex_ctl_progress_state(vc);
        if ((status != UCS_OK) && (status != UCS_ERR_NO_RESOURCE)) {
            uct_glex_vc_fail(vc, status);
        } else if ((status == UCS_ERR_NO_RESOURCE) || vc->resume_due) {
            uct_glex_vc_block(vc);
            continue;
        }
        ++count;
    } while ((left > 0) && !ucs_queue_is_empty(&iface->active));
    return count;
}

/* Handle the flags of CONNECT, ACCEPT and CTL */
static void uct_glex_ctl_process(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    if (ctl->flags & UCT_GLEX_CTL_ER_RELEASED) {
        uct_glex_er_released(vc, ctl);
    }
    if (ctl->flags & UCT_GLEX_CTL_ER_REQUEST) {
        /* The FIFO is lent when the answer is sent. A peer that has a FIFO gets no other FIFO. */
        uct_glex_ctl_post(vc, (vc->lent == UCT_GLEX_LENT_FIFO) ? UCT_GLEX_CTL_ER_NACK :
                                                                 UCT_GLEX_CTL_ER_GRANT);
    }
    /* A REVOKE beside a GRANT revokes the FIFO just granted */
    if (ctl->flags & UCT_GLEX_CTL_ER_GRANT) {
        uct_glex_er_granted(vc, ctl);
    }
    if (ctl->flags & UCT_GLEX_CTL_ER_REVOKE) {
        uct_glex_er_recv_revoke(vc, ctl);
    }
    if (ctl->flags & UCT_GLEX_CTL_ER_NACK) {
        uct_glex_er_refused(vc);
    }
}

/* Copy a control message, then check the copy: the sender can still change the message in the
 * queue. Returns 0 if the message is malformed or of another version. */
static int uct_glex_ctl_take(const uct_glex_hdr_t *hdr, unsigned length, uint64_t src, void *body,
                             size_t size)
{
    uint16_t version;

    if (length < sizeof(*hdr) + size) {
        ucs_debug("glex: control message of %u bytes from 0x%" PRIx64 " ignored", length, src);
        return 0;
    }
    memcpy(body, hdr + 1, size);
    memcpy(&version, body, sizeof(version));
    if (version != UCT_GLEX_WIRE_VERSION) {
        ucs_error("glex: endpoint 0x%" PRIx64 " speaks protocol version %u, this is version %d: "
                  "use the same libuct_glex everywhere",
                  src, version, UCT_GLEX_WIRE_VERSION);
        return 0;
    }
    return 1;
}

/* Take the peer's name, key and first credits from its CONNECT or ACCEPT */
static void uct_glex_ctl_open(uct_glex_vc_t *vc, const uct_glex_hdr_t *hdr,
                              const uct_glex_ctl_t *ctl)
{
    vc->tx.vc_id = ctl->vc_id;
    vc->peer_key = ctl->key;
    vc->peer_uuid = ctl->src_uuid;
    /* Update, not assign: a later message with a higher limit may have overtaken this message */
    uct_glex_credit_update(&vc->mp_tx, hdr->credits.mp_limit);
    vc->tx_peak = uct_glex_credit_avail(&vc->mp_tx);
    uct_glex_vc_schedule(vc); /* send the messages that waited for the VC to open */
}

/* ---- END ---- */

static ucs_status_t uct_glex_ctl_send_refusal(uct_glex_iface_t *iface,
                                              const uct_glex_refusal_t *refusal)
{
    uct_glex_end_msg_t msg;
    glex_imm_mp_req_t req;

    memset(&msg, 0, sizeof(msg));
    msg.hdr.type_am = uct_glex_hdr_type_am(UCT_GLEX_MP_END, 0);
    msg.hdr.vc_id = refusal->peer_id;
    msg.end.version = UCT_GLEX_WIRE_VERSION;
    msg.end.flags = UCT_GLEX_END_UNKNOWN | UCT_GLEX_END_CLAIMS;
    msg.end.vc_id = refusal->unknown_id;
    msg.end.uuid = refusal->uuid;
    msg.end.src_uuid = iface->uuid;
    req.rmt_ep_addr.v = refusal->dest;
    req.data = &msg;
    req.len = sizeof(msg);
    req.flag = GLEX_EXT_FLAG_NO_LOSS;
    req.next = NULL;
    return uct_glex_status(glex_send_imm_mp(iface->nic, &req, NULL));
}

void uct_glex_ctl_refuse(uct_glex_iface_t *iface, const uct_glex_refusal_t *refusal)
{
    const uct_glex_refusal_t *other;

    for (other = iface->refusals; other < iface->refusals + iface->num_refusals; ++other) {
        if ((other->dest == refusal->dest) && (other->unknown_id == refusal->unknown_id) &&
            (other->peer_id == refusal->peer_id) && (other->uuid == refusal->uuid)) {
            return;
        }
    }
    if (iface->num_refusals == UCT_GLEX_MAX_REFUSALS) {
        uct_glex_ctl_progress_refusals(iface); /* sends refusals whose target has room */
    }
    if (iface->num_refusals == UCT_GLEX_MAX_REFUSALS) {
        /* The queues of all targets are full: forget the oldest refusal. The next message of its
         * target causes a refusal again. */
        --iface->num_refusals;
        memmove(iface->refusals, iface->refusals + 1,
                iface->num_refusals * sizeof(iface->refusals[0]));
    }
    iface->refusals[iface->num_refusals++] = *refusal;
    uct_glex_iface_recheck(iface);
}

void uct_glex_ctl_progress_refusals(uct_glex_iface_t *iface)
{
    unsigned i, num = iface->num_refusals;
    uct_glex_refusal_t refusal;

    iface->num_refusals = 0;
    for (i = 0; i < num; ++i) {
        refusal = iface->refusals[i];
        if (uct_glex_ctl_send_refusal(iface, &refusal) == UCS_ERR_NO_RESOURCE) {
            iface->refusals[iface->num_refusals++] = refusal; /* at most `num` entries */
            uct_glex_iface_retry(iface);
        }
    }
}

/* Whether an END is for this VC. `id`, our name of the VC, decides if the peer knows our name. Then
 * the peer's name decides. An END without names refuses a CONNECT, and the interface decides. */
static int uct_glex_ctl_is_end_of(const uct_glex_vc_t *vc, uint32_t id, const uct_glex_end_t *end)
{
    if (id == vc->id) {
        return (vc->tx.vc_id == end->vc_id) || (vc->state == UCT_GLEX_VC_CONNECTING) ||
               (end->vc_id == 0);
    }
    if (end->vc_id != 0) {
        return (vc->tx.vc_id == end->vc_id) && (vc->state >= UCT_GLEX_VC_ACCEPTING);
    }
    return (id == 0) && (vc->state == UCT_GLEX_VC_CONNECTING) && (vc->peer_uuid == end->uuid) &&
           (vc->peer_uuid != end->src_uuid);
}

/* The VC that an END is for, or NULL */
static uct_glex_vc_t *uct_glex_ctl_end_vc(uct_glex_iface_t *iface, uint64_t src, uint32_t id,
                                          const uct_glex_end_t *end)
{
    uct_glex_vc_t *vc = uct_glex_table_newest(iface, src);

    while ((vc != NULL) && !uct_glex_ctl_is_end_of(vc, id, end)) {
        vc = uct_glex_table_older(vc);
    }
    return vc;
}

/* The VC is over at the peer. Its first END decides how the VC ends here. */
static void uct_glex_ctl_end(uct_glex_vc_t *vc, const uct_glex_end_t *end)
{
    int is_unknown = end->flags & UCT_GLEX_END_UNKNOWN;
    int is_orderly = end->flags & UCT_GLEX_END_ORDERLY;

    ucs_debug("glex: vc 0x%x is over at endpoint 0x%" PRIx64, vc->id, vc->peer);
    if (end->flags & UCT_GLEX_END_CLAIMS) {
        vc->is_claimed = 1;
        uct_glex_lease_claimed(vc);
    }
    if (uct_glex_vc_is_over(vc) || vc->peer_left) {
        return;
    }
    if ((vc->state == UCT_GLEX_VC_OPEN) && (is_unknown || (end->rx_seq != vc->tx.seq))) {
        vc->status = UCS_ERR_CONNECTION_RESET; /* accepted messages are lost */
    }
    if ((vc->state == UCT_GLEX_VC_OPEN) && !is_orderly) {
        uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
    } else {
        uct_glex_vc_peer_leaves(vc, end->last_seq, is_orderly);
    }
}

void uct_glex_ctl_recv_end(uct_glex_iface_t *iface, uint64_t src, const uct_glex_hdr_t *hdr,
                           unsigned length)
{
    uint32_t id = hdr->vc_id;
    uct_glex_end_t end;
    uct_glex_vc_t *vc;

    if (!uct_glex_ctl_take(hdr, length, src, &end, sizeof(end))) {
        return;
    }
    vc = uct_glex_ctl_end_vc(iface, src, id, &end);
    uct_glex_debt_add(iface, src, vc, &end);
    if (vc != NULL) {
        uct_glex_ctl_end(vc, &end);
    }
}

/* ---- CONNECT, ACCEPT, CTL ---- */

/* Take a CONNECT into its VC: a new VC, a VC that waits to connect, or a VC that has sent a
 * CONNECT. In other states the CONNECT is ignored. */
static void uct_glex_ctl_take_connect(uct_glex_vc_t *vc, const uct_glex_hdr_t *hdr,
                                      const uct_glex_ctl_t *ctl)
{
    switch (vc->state) {
    case UCT_GLEX_VC_CONNECTING:
        /* Both sides sent CONNECT: no ACCEPT is needed */
        uct_glex_ctl_open(vc, hdr, ctl);
        uct_glex_vc_open(vc);
        break;
    case UCT_GLEX_VC_WAIT_MPQ:
        uct_glex_ctl_open(vc, hdr, ctl);
        uct_glex_vc_accept(vc);
        break;
    default:
        ucs_debug("glex: unexpected connect from 0x%" PRIx64 " in state %d", vc->peer, vc->state);
        return;
    }
    uct_glex_ctl_process(vc, ctl);
    uct_glex_vc_resume(vc);
    uct_glex_rx_advance(vc); /* messages that overtook the CONNECT */
}

/* Whether a CONNECT shows that the peer gave up the VC: the CONNECT has a new name for the VC, or
 * names the VC as failed (gone_id). */
static int uct_glex_ctl_is_anew(const uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    switch (vc->state) {
    case UCT_GLEX_VC_ACCEPTING:
    case UCT_GLEX_VC_OPEN:
    case UCT_GLEX_VC_PEER_CLOSED:
        return vc->tx.vc_id != ctl->vc_id;
    case UCT_GLEX_VC_CONNECTING:
        return vc->id == ctl->gone_id;
    default:
        return 0;
    }
}

/* The sender of a CONNECT has the address now, so the earlier interfaces at the address are closed.
 * The address of a local UCT endpoint does not prove this, because it may be out of date. */
static void uct_glex_ctl_end_earlier(uct_glex_iface_t *iface, uint64_t src, uint32_t uuid)
{
    uct_glex_vc_t *vc = uct_glex_table_newest(iface, src);

    for (; vc != NULL; vc = uct_glex_table_older(vc)) {
        if ((vc->peer_uuid != uuid) && !uct_glex_vc_is_over(vc)) {
            uct_glex_vc_dead(vc);
        }
    }
}

void uct_glex_ctl_recv_connect(uct_glex_iface_t *iface, uint64_t src, const uct_glex_hdr_t *hdr,
                               unsigned length)
{
    uct_glex_ctl_t ctl;
    uct_glex_vc_t *vc;

    if (!uct_glex_ctl_take(hdr, length, src, &ctl, sizeof(ctl))) {
        return;
    }
    if (ctl.uuid != iface->uuid) {
        ucs_debug("glex: connect from 0x%" PRIx64 " was for an earlier owner of this endpoint",
                  src);
        uct_glex_ctl_refuse(iface, &(uct_glex_refusal_t){.dest = src, .uuid = ctl.uuid});
        return;
    }
    uct_glex_ctl_end_earlier(iface, src, ctl.src_uuid);
    vc = uct_glex_vc_find(iface, src, ctl.src_uuid);
    if ((vc != NULL) && uct_glex_ctl_is_anew(vc, &ctl)) {
        uct_glex_vc_fail(vc, UCS_ERR_ENDPOINT_TIMEOUT); /* the peer gave up the VC */
    }
    if (uct_glex_vc_get(iface, src, ctl.src_uuid, &vc) != UCS_OK) { /* logged */
        /* With the peer's name of the VC, or the peer's VC waits for ever */
        uct_glex_ctl_refuse(iface, &(uct_glex_refusal_t){.dest = src, .peer_id = ctl.vc_id});
        return;
    }
    uct_glex_ctl_take_connect(vc, hdr, &ctl);
}

/* Whether an ACCEPT comes from another VC than the peer's CONNECT, which had opened our VC. The peer
 * gave up the VC of its CONNECT, and made another VC for our CONNECT. */
static int uct_glex_ctl_is_of_other(const uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    return (vc->state == UCT_GLEX_VC_OPEN) && (vc->tx.vc_id != ctl->vc_id);
}

void uct_glex_ctl_recv(uct_glex_vc_t *vc, const uct_glex_hdr_t *hdr, unsigned length)
{
    uct_glex_ctl_t ctl;

    if (uct_glex_hdr_type(hdr->word) == UCT_GLEX_MP_ACK) {
        return; /* the caller has handled the header */
    }
    if (!uct_glex_ctl_take(hdr, length, vc->peer, &ctl, sizeof(ctl))) {
        return;
    }
    switch (uct_glex_hdr_type(hdr->word)) {
    case UCT_GLEX_MP_ACCEPT:
        if (uct_glex_ctl_is_of_other(vc, &ctl)) {
            vc->tx.vc_id = ctl.vc_id; /* END goes to the VC that sent ACCEPT */
            uct_glex_vc_fail(vc, UCS_ERR_ENDPOINT_TIMEOUT);
            return;
        }
        if (vc->state != UCT_GLEX_VC_CONNECTING) {
            ucs_debug("glex: unexpected accept from 0x%" PRIx64, vc->peer);
            return;
        }
        uct_glex_ctl_open(vc, hdr, &ctl);
        uct_glex_vc_open(vc);
        break;
    case UCT_GLEX_MP_CTL:
        break;
    default:
        ucs_debug("glex: message of unknown type %u from 0x%" PRIx64, hdr->type_am, vc->peer);
        return;
    }
    vc->tx.flags |= UCT_GLEX_FLAG_ACK;
    uct_glex_vc_schedule(vc);
    uct_glex_ctl_process(vc, &ctl);
    uct_glex_vc_resume(vc);
    uct_glex_rx_advance(vc); /* messages that overtook the ACCEPT */
}
