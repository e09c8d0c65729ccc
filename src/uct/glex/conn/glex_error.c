/*
 * Requests that failed after posting, and the check for dead peers.
 */
#include "conn/glex_ctl.h"
#include "conn/glex_life.h"
#include "conn/glex_table.h"
#include "vc/glex_lease.h"
#include "core/glex_ep.h"
#include "core/glex_vc.h"
#include "chan/glex_op.h"

/* In this time an eighth of the peers is checked, but at least 16 peers. So a check of all peers
 * takes about a second. */
#define UCT_GLEX_WATCH_MS    100
#define UCT_GLEX_WATCH_BATCH 16u

/* Our CONNECT found the peer's MPQ full, because more peers connected at once than its reserve
 * holds. Only the CONNECT was lost, so send it again. The CONNECT may have contained our request
 * for a FIFO, so uct_glex_er_connect() requests a FIFO again. */
static void uct_glex_error_connect_lost(uct_glex_vc_t *vc)
{
    if (vc->state == UCT_GLEX_VC_CONNECTING) {
        vc->state = UCT_GLEX_VC_WAIT_MPQ;
    } else if (vc->state == UCT_GLEX_VC_OPEN) {
        vc->connect_again = 1; /* the peer's CONNECT arrived here, but the peer waits for our
                                * CONNECT */
    }
    uct_glex_vc_schedule(vc);
}

static int uct_glex_error_is_dead(const struct glex_err_req *err)
{
    return (err->status == GLEX_ERR_STATUS_DEST_VP_STOP) ||
           (err->status == GLEX_ERR_STATUS_DEST_HOST_DEAD) ||
           (err->status == GLEX_ERR_STATUS_CONNECTION_MAX_RETRY);
}

/* The peer's memory is not as the request expects: not registered any more, or registered and
 * unmapped by the peer's program */
static int uct_glex_error_is_of_memory(const struct glex_err_req *err)
{
    return (err->status == GLEX_ERR_STATUS_ATT) || (err->status == GLEX_ERR_STATUS_MMT) ||
           (err->status == GLEX_ERR_STATUS_PCIE_READ);
}

/* A CTL or ACK to a peer that left in good order is no failure. The peer may have left although its
 * END is not handled yet. If the NIC reports the peer gone, uct_glex_vc_watch() fails the VC. */
static int uct_glex_error_is_ctl_to_gone(const uct_glex_vc_t *vc, const struct glex_err_req *err,
                                         unsigned mp_type)
{
    return ((mp_type == UCT_GLEX_MP_CTL) || (mp_type == UCT_GLEX_MP_ACK)) &&
           uct_glex_error_is_dead(err) &&
           (vc->peer_left || (vc->state == UCT_GLEX_VC_PEER_CLOSED) || uct_glex_vc_is_gone(vc));
}

/* Whether an endpoint of the VC may have posted an immediate put. Such a put names no VC. */
static int uct_glex_error_may_have_put(const uct_glex_vc_t *vc)
{
    const uct_glex_ep_t *ep;

    ucs_list_for_each(ep, &vc->eps, list) {
        if (ep->has_put) {
            return 1;
        }
    }
    return 0;
}

/* The peer refused an immediate put. The put has no completion, so all endpoints with immediate
 * puts in flight fail. Without such an endpoint, the put was a claim of an earlier interface. */
static void uct_glex_error_put_refused(uct_glex_vc_t *vc, const struct glex_err_req *err)
{
    uct_glex_ep_t *ep;

    if (!uct_glex_error_may_have_put(vc)) {
        return;
    }
    ucs_error("glex: put to endpoint 0x%" PRIx64 " was refused: %s", vc->peer,
              glex_error_req_status_str(err->status));
    ucs_list_for_each(ep, &vc->eps, list) {
        if (ep->has_put) {
            uct_glex_ep_refused(ep);
        }
    }
    uct_glex_vc_fail_refused(vc);
}

/* Whether a VC sent the message, or event, of this header */
static int uct_glex_error_is_of(const uct_glex_vc_t *vc, uint64_t word, int is_connect)
{
    if (is_connect) {
        return uct_glex_hdr_seq(word) == uct_glex_vc_mark(vc);
    }
    /* Until the peer's name is known, tx.vc_id is the name of the peer's earlier VC (gone_id) and
     * must not match */
    return (vc->tx.vc_id == uct_glex_hdr_vc_id(word)) && (vc->state != UCT_GLEX_VC_WAIT_MPQ) &&
           (vc->state != UCT_GLEX_VC_CONNECTING);
}

/* The VC of a failed immediate put. The put names no VC, so a VC with immediate puts in flight is
 * chosen: the newest VC if a living peer refused the put, the oldest VC if the peer is dead,
 * because the oldest peer died first. */
static uct_glex_vc_t *uct_glex_error_put_vc(uct_glex_vc_t *vc, int is_dead)
{
    uct_glex_vc_t *found = NULL;

    for (; (vc != NULL) && (is_dead || (found == NULL)); vc = uct_glex_table_older(vc)) {
        found = uct_glex_error_may_have_put(vc) ? vc : found;
    }
    return found;
}

/* The VC of a failed request, or NULL. An address has several VCs if a peer left and the next peer
 * has its endpoint. A late error of a request to the earlier peer must not fail the VC of the next
 * peer. */
static uct_glex_vc_t *uct_glex_error_vc(uct_glex_iface_t *iface, uint64_t peer,
                                        const struct glex_err_req *err)
{
    int is_mp = (err->op == GLEX_ERR_OP_IMM_MP);
    uint64_t word = is_mp ? err->data0 : err->data2;
    int is_connect = is_mp && (uct_glex_hdr_type(word) == UCT_GLEX_MP_CONNECT);
    uct_glex_vc_t *vc = uct_glex_table_newest(iface, peer);

    if ((vc != NULL) && (word == 0) && (uct_glex_table_older(vc) == NULL)) {
        return vc; /* the only VC of the address */
    }
    if (word == 0) {
        return uct_glex_error_put_vc(vc, uct_glex_error_is_dead(err));
    }
    while ((vc != NULL) && !uct_glex_error_is_of(vc, word, is_connect)) {
        vc = uct_glex_table_older(vc);
    }
    return vc;
}

/* The status of a VC after a failed request. UCP reports UCS_ERR_ENDPOINT_TIMEOUT as the loss of
 * the peer, or of the memory that the peer lent. */
static ucs_status_t uct_glex_error_status(const struct glex_err_req *err)
{
    if ((err->status == GLEX_ERR_STATUS_DEST_MPQ_FULL) ||
        (err->status == GLEX_ERR_STATUS_DEST_EQ_FULL)) {
        ucs_error("glex: endpoint %u on NIC 0x%x lost a message: %s; raise "
                  "UCX_GLEX_EP_MPQ_CAPACITY and UCX_GLEX_EP_EQ_CAPACITY",
                  err->rmt_ep_num, err->rmt_nic_id, glex_error_req_status_str(err->status));
        return UCS_ERR_IO_ERROR;
    }
    return UCS_ERR_ENDPOINT_TIMEOUT;
}

/* Returns the endpoint of the operation, or NULL if the endpoint is destroyed */
static uct_glex_ep_t *uct_glex_error_ep(const uct_glex_op_t *op)
{
    uct_glex_ep_t *ep;

    ucs_list_for_each(ep, &op->vc->eps, list) {
        if (&ep->super.super == op->ep) {
            return ep;
        }
    }
    return NULL;
}

/* A request of an operation failed. `is_of_memory`: the peer's memory is not as the request expects.
 * A put or get with `is_of_memory` fails its endpoint. A Get of a message whose sender has cancelled
 * the message fails nothing. Other failures fail the VC. */
static void uct_glex_error_of_op(uct_glex_iface_t *iface, uint32_t id, ucs_status_t status,
                                 int is_of_memory)
{
    uct_glex_op_t *op = uct_glex_op_find(iface, id);
    uct_glex_ep_t *ep;
    int is_over, is_refused;
    uct_glex_vc_t *vc;

    if (op == NULL) {
        return;
    }
    vc = op->vc;
    is_refused = is_of_memory && (op->type == UCT_GLEX_OP_RMA);
    is_over = (vc->state == UCT_GLEX_VC_FAILED) ||
              (op->type == UCT_GLEX_OP_FETCH); /* uct_glex_rx_fetched() fails the VC if
                                                  * necessary */
    ep = is_refused ? uct_glex_error_ep(op) :
                      NULL; /* NULL: the endpoint is cancelled, or destroyed */
    if (!is_over && (ep != NULL)) {
        ucs_error("glex: a put to or get from endpoint 0x%" PRIx64 " was refused: the key is "
                  "wrong, or its memory is not registered any more",
                  vc->peer);
        uct_glex_ep_refused(ep);
        uct_glex_vc_fail_refused(vc); /* before the event: a flush after the put must not succeed */
    }
    uct_glex_op_event(iface, id, status);
    if (!is_over && !is_refused) {
        uct_glex_vc_fail(vc, status);
    }
}

static void uct_glex_error_handle(uct_glex_iface_t *iface, const struct glex_err_req *err)
{
    unsigned event = err->data2 & UCT_GLEX_TYPE_MASK;
    unsigned mp_type = uct_glex_hdr_type(err->data0);
    int is_mp = (err->op == GLEX_ERR_OP_IMM_MP);
    glex_ep_addr_t addr = {.v = 0};
    uct_glex_vc_t *vc;

    ucs_debug("glex: %s to endpoint %u on NIC 0x%x failed: %s", glex_error_req_opcode_str(err->op),
              err->rmt_ep_num, err->rmt_nic_id, glex_error_req_status_str(err->status));
    glex_compose_ep_addr(err->rmt_nic_id, err->rmt_ep_num, GLEX_EP_TYPE_FAST, &addr);
    if (is_mp && (mp_type == UCT_GLEX_MP_END)) {
        /* If the peer is dead, its lease is over: a dead peer accesses no memory. Otherwise the
         * lease repeats the lost END. */
        if (uct_glex_error_is_dead(err)) {
            uct_glex_lease_peer_gone(iface, addr.v, uct_glex_hdr_vc_id(err->data0));
        }
        return;
    }
    if ((err->op == GLEX_ERR_OP_RDMA_GET) && ((uint32_t)err->data1 == 0)) {
        return; /* an empty Get of uct_glex_sr_release(): data2 names an operation of the peer */
    }
    if ((event == UCT_GLEX_EVENT_OP) || (event == UCT_GLEX_EVENT_PUTS)) {
        uct_glex_error_of_op(iface, err->data2 >> 32, uct_glex_error_status(err),
                             uct_glex_error_is_of_memory(err));
        return;
    }
    if ((err->op == GLEX_ERR_OP_IMM_RDMA_PUT) && (event == 0) &&
        uct_glex_debt_is_claim(iface, addr.v, err)) {
        return;
    }
    vc = uct_glex_error_vc(iface, addr.v, err);
    if ((vc == NULL) || (is_mp && uct_glex_error_is_ctl_to_gone(vc, err, mp_type))) {
        return;
    }
    if (is_mp && (mp_type == UCT_GLEX_MP_CONNECT) &&
        (err->status == GLEX_ERR_STATUS_DEST_MPQ_FULL)) {
        uct_glex_error_connect_lost(vc);
        return;
    }
    if ((err->op == GLEX_ERR_OP_IMM_RDMA_PUT) && (event == 0) && uct_glex_error_is_of_memory(err)) {
        uct_glex_error_put_refused(vc, err);
        return;
    }
    if (uct_glex_error_is_dead(err)) {
        uct_glex_vc_dead(vc); /* progress fails the VC after the peer's last messages */
    } else {
        uct_glex_vc_fail(vc, uct_glex_error_status(err));
    }
}

/* Take the next error from the NIC, if any, into iface->error */
static int uct_glex_error_take(uct_glex_iface_t *iface)
{
    uint32_t num = 1;

    if (!iface->has_error) {
        iface->has_error =
            (glex_poll_error_req(iface->nic, &num, &iface->error) == GLEX_SUCCESS) && (num > 0);
    }
    return iface->has_error;
}

/* Check the number of peers that is due since the last check, at most `most`. Returns 1 if further
 * peers are due. */
static int uct_glex_error_watch(uct_glex_iface_t *iface, unsigned most)
{
    ucs_time_t now = ucs_get_time();
    ucs_time_t period = ucs_time_from_msec(UCT_GLEX_WATCH_MS);
    unsigned batch = ucs_max(iface->num_vcs / 8, UCT_GLEX_WATCH_BATCH);
    ucs_time_t passed = ucs_min(now - iface->watched, period);
    unsigned due = passed * batch / period;
    unsigned count = ucs_min(due, most);

    if (due < UCT_GLEX_WATCH_BATCH) {
        return 0;
    }
    iface->watched = now - (passed * (due - count) / due); /* peers that are not checked now stay
                                                            * due */
    uct_glex_vc_watch(iface, ucs_min(count, iface->num_vcs));
    return count < due;
}

void uct_glex_error_handle_all(uct_glex_iface_t *iface)
{
    struct glex_err_req err;

    while (uct_glex_error_take(iface)) {
        err = iface->error;
        iface->has_error = 0; /* before calling a handler, because the handler may arm */
        uct_glex_error_handle(iface, &err);
    }
}

int uct_glex_error_progress(uct_glex_iface_t *iface)
{
    uct_glex_error_handle_all(iface);
    uct_glex_lease_progress(iface);
    return uct_glex_error_watch(iface, UCT_GLEX_WATCH_BATCH);
}

int uct_glex_error_look(uct_glex_iface_t *iface)
{
    /* Check all due peers in one call, because a program that sleeps makes few calls */
    uct_glex_error_watch(iface, UINT_MAX);
    uct_glex_lease_progress(iface);
    if (uct_glex_error_take(iface)) {
        iface->due = 1;
        return 1;
    }
    return 0;
}
