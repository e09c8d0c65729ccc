/*
 * Receives: posted receives, unexpected messages, and announced messages, whose data follows later.
 */
#include "gfi_expected.h"

#include <stdlib.h>
#include <string.h>

#define GFI_RECV_MODES (FI_PEEK | FI_CLAIM | FI_DISCARD)

/* ---- completions ---- */

static void gfi_recv_report_error(struct gfi_ep *ep, void *context, bool tagged,
                                  const struct gfi_envelope *envelope, size_t len, uint64_t flags,
                                  int error)
{
    struct fi_cq_err_entry entry = {
        .op_context = context, .len = len, .err = error, .prov_errno = error};

    entry.flags = gfi_recv_cq_flags(tagged, envelope->flags) | flags;
    entry.tag = envelope->tag;
    entry.data = envelope->data;
    entry.olen = envelope->len > len ? envelope->len - len : 0;
    gfi_cntr_count(ep->cntrs[GFI_CNTR_RECV], true);
    if (ep->rx_cq != NULL) {
        gfi_cq_add_error(ep->rx_cq, &entry);
    }
}

void gfi_recv_report_stranger(struct gfi_ep *ep, const struct gfi_cqe *done, uint64_t source)
{
    struct fi_cq_err_entry entry = {.op_context = done->context,
                                    .flags = done->flags,
                                    .len = done->len,
                                    .buf = done->buf,
                                    .data = done->data,
                                    .tag = done->tag,
                                    .err = FI_EADDRNOTAVAIL};
    uint8_t bytes[GFI_ADDR_TEXT];
    struct gfi_addr addr;

    if (ep->rx_cq != NULL) {
        gfi_source_addr(ep->domain, source, &addr);
        entry.err_data = bytes;
        entry.err_data_size =
            gfi_addr_write(ep->domain->has_text_addrs, &addr, bytes, sizeof(bytes));
        gfi_cq_add_error(ep->rx_cq, &entry);
    }
}

void gfi_recv_report_cqe(struct gfi_ep *ep, struct gfi_cqe *done, uint64_t source)
{
    struct gfi_cqe *cqe;

    if (gfi_source_is_error(ep, source)) {
        gfi_recv_report_stranger(ep, done, source);
    } else if (ep->rx_cq != NULL && (cqe = gfi_cq_add(ep->rx_cq)) != NULL) {
        done->source = gfi_recv_number(ep, source);
        *cqe = *done;
    }
}

/* A buffer for several messages is given back with the last one that is written to it: the caller
 * frees the receive then. @return FI_MULTI_RECV, or 0 */
static uint64_t gfi_recv_multi_done(struct gfi_recv *recv)
{
    if (!(recv->flags & FI_MULTI_RECV)) {
        return 0;
    }
    recv->filling--;
    if (recv->posted || recv->filling > 0) {
        return 0;
    }
    return FI_MULTI_RECV;
}

/* gfi_recv_post() has given all waiting messages to the buffer */
static void gfi_recv_release_multi(struct gfi_ep *ep, struct gfi_recv *recv)
{
    struct gfi_cqe *cqe;

    if (gfi_recv_multi_done(recv) == 0) {
        return;
    }
    if (ep->rx_cq != NULL && (cqe = gfi_cq_add(ep->rx_cq)) != NULL) {
        *cqe = (struct gfi_cqe){.context = recv->context,
                                .source = FI_ADDR_NOTAVAIL,
                                .flags =
                                    FI_RECV | FI_MULTI_RECV | (recv->tagged ? FI_TAGGED : FI_MSG)};
    }
    gfi_recv_free(ep, recv);
}

/* ---- into the buffer ---- */

/* The place of the next message: the whole buffer, or the next part of a buffer for several
 * messages. A buffer with too little room left is no longer posted. */
static void gfi_recv_take_place(struct gfi_ep *ep, struct gfi_recv *recv, size_t len,
                                struct gfi_place *place)
{
    size_t used = gfi_min(len, recv->len), i;

    place->iov_count = recv->iov_count;
    place->len = recv->len;
    for (i = 0; i < recv->iov_count; i++) {
        place->iov[i] = recv->iov[i];
    }
    if (!(recv->flags & FI_MULTI_RECV)) {
        return;
    }
    recv->filling++;
    recv->iov[0].iov_base = (uint8_t *)recv->iov[0].iov_base + used;
    recv->iov[0].iov_len -= used;
    recv->len -= used;
    if (recv->posted && (recv->len == 0 || recv->len < ep->min_multi_recv)) {
        gfi_recv_unpost(ep, gfi_recv_match(ep, recv->tagged), recv);
    }
}

static void gfi_recv_finish_message(struct gfi_ep *ep, struct gfi_recv *recv,
                                    const struct gfi_envelope *envelope,
                                    const struct gfi_place *place, int error)
{
    size_t len = gfi_min(envelope->len, place->len);
    bool multi = (recv->flags & FI_MULTI_RECV) != 0, tagged = recv->tagged;
    void *context = recv->context;
    uint64_t released = gfi_recv_multi_done(recv);

    if (error == 0 && envelope->len > place->len) {
        error = FI_ETRUNC;
    }
    if (error == 0) {
        gfi_recv_report(ep, recv, gfi_recv_cq_flags(tagged, envelope->flags) | released,
                        envelope->source, envelope->tag, envelope->data,
                        multi ? place->iov[0].iov_base : NULL, len);
    } else {
        gfi_recv_report_error(ep, context, tagged, envelope, error == FI_ETRUNC ? len : 0, released,
                              error);
    }
    if (!multi || released != 0) {
        gfi_recv_free(ep, recv);
    }
}

/* All of the message is here */
static void gfi_recv_eager(struct gfi_ep *ep, struct gfi_recv *recv,
                           const struct gfi_envelope *envelope, const void *bytes)
{
    struct gfi_place place;
    size_t len;

    gfi_recv_take_place(ep, recv, envelope->len, &place);
    len = gfi_min(envelope->len, place.len);
    gfi_place_write(&place, 0, bytes, len);
    gfi_recv_finish_message(ep, recv, envelope, &place, 0);
    if (gfi_unlikely(envelope->flags & GFI_HDR_ACK)) {
        gfi_peer_send_fin(envelope->peer, envelope->op, 0);
    }
}

/* ---- announced messages ---- */

static void gfi_recv_ask_for_stream(struct gfi_op *op)
{
    struct gfi_cts cts = {.header = op->peer->header,
                          .op = op->remote_op,
                          .recv = gfi_op_number(op),
                          .length = op->len};

    op->streaming = true;
    gfi_peer_send(op->peer, GFI_AM_CTS, &cts, sizeof(cts));
}

static int gfi_recv_register(struct gfi_op *op)
{
    struct gfi_domain *domain = op->ep->domain;

    if (!(domain->uct.md_attr.cap.flags & UCT_MD_FLAG_NEED_MEMH) ||
        op->memh != UCT_MEM_HANDLE_NULL || op->place.iov_count != 1) {
        return 0;
    }
    return uct_md_mem_reg(domain->uct.md, op->place.iov[0].iov_base, op->place.iov[0].iov_len,
                          UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS,
                          &op->memh) == UCS_OK ?
               0 :
               -FI_ENOMEM;
}

/* @return UCS_OK, UCS_INPROGRESS, or UCS_ERR_NO_RESOURCE: try again */
static ucs_status_t gfi_recv_get(struct gfi_op *op)
{
    size_t max = op->ep->domain->uct.attr.cap.get.max_zcopy;
    ucs_status_t status;
    struct iovec piece;
    uct_iov_t iov;

    while (op->done < op->len) {
        piece = gfi_place_piece(&op->place, op->done);
        iov.buffer = piece.iov_base;
        iov.length = gfi_min(gfi_min(piece.iov_len, op->len - op->done), max);
        iov.memh = op->memh;
        iov.stride = 0;
        iov.count = 1;
        status = uct_ep_get_zcopy(op->peer->uct_ep, &iov, 1, op->envelope.addr + op->done,
                                  op->bundle.rkey, &op->comp);
        if (status == UCS_INPROGRESS) {
            op->comp.count++;
        } else if (status != UCS_OK) {
            return status;
        }
        op->done += iov.length;
    }
    return UCS_OK;
}

static void gfi_recv_fetch(struct gfi_op *op)
{
    ucs_status_t status;

    gfi_op_begin(op);
    status = gfi_recv_get(op);
    if (status != UCS_OK && status != UCS_ERR_NO_RESOURCE && op->error == 0) {
        op->error = gfi_uct_errno(status);
    }
    if (!gfi_op_end(op)) {
        return; /* UCT's completion goes on */
    }
    if (op->error == 0 && op->done < op->len) {
        gfi_op_set_due(op); /* the NIC has no room */
    } else {
        gfi_recv_finish(op, op->error);
    }
}

void gfi_recv_progress(struct gfi_op *op)
{
    if (op->error != 0 || op->done == op->len) {
        gfi_recv_finish(op, op->error);
    } else if (!op->streaming) {
        gfi_recv_fetch(op);
    }
}

/* Ends a receive of an announced message: sends FIN to the sender and writes the completion.
 * `error` 0: the message is in the buffer. */
void gfi_recv_finish(struct gfi_op *op, int error)
{
    struct gfi_envelope envelope = op->envelope;
    struct gfi_place place = op->place;
    struct gfi_recv *recv = op->recv;
    struct gfi_ep *ep = op->ep;

    gfi_peer_send_fin(op->peer, op->remote_op, error);
    gfi_op_free(op);
    gfi_recv_finish_message(ep, recv, &envelope, &place, error);
}

static void gfi_recv_announced(struct gfi_ep *ep, struct gfi_recv *recv,
                               const struct gfi_envelope *envelope)
{
    struct gfi_domain *domain = ep->domain;
    struct gfi_op *op = gfi_op_new(ep, envelope->peer, GFI_OP_RECV);
    struct gfi_place place;

    if (op == NULL) {
        gfi_recv_take_place(ep, recv, 0, &place);
        gfi_peer_send_fin(envelope->peer, envelope->op, FI_ENOMEM);
        gfi_recv_finish_message(ep, recv, envelope, &place, FI_ENOMEM);
        return;
    }
    gfi_recv_take_place(ep, recv, envelope->len, &op->place);
    op->finish = gfi_recv_finish;
    op->recv = recv;
    op->envelope = *envelope;
    op->remote_op = envelope->op;
    op->len = gfi_min(envelope->len, op->place.len);
    if (envelope->peer->error != 0 || op->len == 0) {
        gfi_recv_finish(op, envelope->peer->error);
        return;
    }
    if (envelope->rkey_len > 0 && (domain->uct.attr.cap.flags & UCT_IFACE_FLAG_GET_ZCOPY) &&
        gfi_recv_register(op) == 0) {
        op->has_bundle =
            uct_rkey_unpack(domain->uct.component, envelope->rkey, &op->bundle) == UCS_OK;
    }
    op->envelope.rkey = NULL; /* another operation owns the key */
    if (op->has_bundle) {
        gfi_recv_fetch(op);
    } else {
        gfi_recv_ask_for_stream(op);
    }
}

void gfi_recv_on_data(struct gfi_domain *domain, struct gfi_peer *peer, const struct gfi_data *data,
                      size_t len)
{
    struct gfi_op *op = gfi_op_find(domain, peer, GFI_OP_RECV, data->recv);

    if (op == NULL || !op->streaming || op->in_flight) {
        return; /* the receive has ended with an error, or its endpoint was closed */
    }
    if (data->offset != op->done || len > op->len - op->done) {
        GFI_WARN(FI_LOG_EP_DATA, "peer %u sends what was not asked for\n", peer->id);
        gfi_recv_finish(op, FI_EIO);
        return;
    }
    gfi_place_write(&op->place, op->done, data->bytes, len);
    op->done += len;
    if (op->done == op->len) {
        gfi_recv_finish(op, 0);
    }
}

/* ---- unexpected messages ---- */

static void gfi_recv_press(struct gfi_peer *peer, bool on)
{
    struct gfi_pressure pressure = {.header = peer->header, .on = on};

    peer->told = on;
    gfi_peer_send(peer, GFI_AM_PRESSURE, &pressure, sizeof(pressure));
}

/* Memory for unexpected messages is bounded. When the bound is exceeded, each sender is told to
 * keep its messages and to announce them, until half of the memory is free again */
static void gfi_recv_count(struct gfi_domain *domain, struct gfi_peer *peer, size_t size)
{
    domain->unexpected += size;
    if (gfi_unlikely(domain->unexpected > gfi_params.unexpected_size) && !peer->told) {
        GFI_INFO(FI_LOG_EP_DATA, "%zu bytes of unexpected messages: peer %u is to keep its own\n",
                 domain->unexpected, peer->id);
        domain->pressed = true;
        gfi_recv_press(peer, true);
    }
}

static void gfi_recv_uncount(struct gfi_domain *domain, size_t size)
{
    uint32_t i;

    domain->unexpected -= size;
    if (gfi_likely(!domain->pressed) || domain->unexpected > gfi_params.unexpected_size / 2) {
        return;
    }
    domain->pressed = false;
    for (i = 0; i < domain->num_peers; i++) {
        if (domain->peers[i] != NULL && domain->peers[i]->told) {
            gfi_recv_press(domain->peers[i], false);
        }
    }
}

static void gfi_recv_keep(struct gfi_ep *ep, bool tagged, const struct gfi_envelope *envelope,
                          const void *bytes)
{
    size_t len = envelope->announced ? envelope->rkey_len : envelope->len;
    struct gfi_unexpected *msg = malloc(sizeof(*msg) + len);

    if (msg == NULL) {
        GFI_WARN(FI_LOG_EP_DATA, "no memory for an unexpected message of %zu bytes\n", len);
        gfi_peer_fail(envelope->peer, FI_ENOMEM);
        envelope->peer->is_cut = true; /* later messages of the peer must not overtake this one */
        gfi_recv_fail_peer(envelope->peer);
        return;
    }
    msg->envelope = *envelope;
    msg->size = sizeof(*msg) + len;
    if (len > 0) {
        memcpy(msg->bytes, envelope->announced ? envelope->rkey : bytes, len);
    }
    msg->envelope.rkey = msg->bytes;
    msg->match.source = envelope->source;
    msg->match.tag = envelope->tag;
    gfi_match_add_msg(gfi_recv_match(ep, tagged), &msg->match);
    envelope->peer->kept++;
    gfi_recv_count(ep->domain, envelope->peer, msg->size);
}

static void gfi_recv_free_msg(struct gfi_domain *domain, struct gfi_unexpected *msg)
{
    gfi_recv_uncount(domain, msg->size);
    msg->envelope.peer->kept--;
    free(msg);
}

/* An unexpected message, already taken out, into a receive */
static void gfi_recv_consume(struct gfi_ep *ep, struct gfi_recv *recv, struct gfi_unexpected *msg)
{
    if (msg->envelope.announced) {
        gfi_recv_announced(ep, recv, &msg->envelope);
    } else {
        gfi_recv_eager(ep, recv, &msg->envelope, msg->bytes);
    }
    gfi_recv_free_msg(ep->domain, msg);
}

void gfi_recv_arrive(struct gfi_ep *ep, bool tagged, const struct gfi_envelope *envelope,
                     const void *bytes)
{
    struct gfi_match_recv *found =
        gfi_match_find_recv(gfi_recv_match(ep, tagged), envelope->source, envelope->tag);
    struct gfi_recv *recv = gfi_of(found, struct gfi_recv, match);

    if (found == NULL) {
        gfi_recv_keep(ep, tagged, envelope, bytes);
        return;
    }
    if (!(recv->flags & FI_MULTI_RECV)) {
        gfi_recv_unpost(ep, gfi_recv_match(ep, tagged), recv);
    }
    if (envelope->announced) {
        gfi_recv_announced(ep, recv, envelope);
    } else {
        gfi_recv_eager(ep, recv, envelope, bytes);
    }
}

/* ---- functions for programs ---- */

static struct gfi_unexpected *gfi_recv_find(struct gfi_ep *ep, bool tagged, uint64_t source,
                                            uint64_t tag, uint64_t ignore)
{
    struct gfi_match_msg *msg;

    msg = gfi_match_find_msg(gfi_recv_match(ep, tagged), source, tag, ignore);
    return msg == NULL ? NULL : gfi_of(msg, struct gfi_unexpected, match);
}

/* The context of a claimed message remembers it */
static void gfi_recv_claim(struct gfi_ep *ep, struct gfi_unexpected *msg,
                           struct fi_context *context)
{
    context->internal[0] = msg;
    gfi_list_add(&ep->claimed, &msg->match.all);
}

static struct gfi_unexpected *gfi_recv_claimed(struct gfi_ep *ep, const struct fi_context *context)
{
    struct gfi_unexpected *msg;
    struct gfi_list *item;

    gfi_list_for_each(item, &ep->claimed) {
        msg = gfi_of(item, struct gfi_unexpected, match.all);
        if (msg == context->internal[0]) {
            gfi_list_del(&msg->match.all);
            return msg;
        }
    }
    return NULL;
}

/* Tells the sender of a discarded message that the message is over */
static void gfi_recv_discard(struct gfi_ep *ep, struct gfi_unexpected *msg)
{
    if (msg->envelope.announced || (msg->envelope.flags & GFI_HDR_ACK)) {
        gfi_peer_send_fin(msg->envelope.peer, msg->envelope.op, 0);
    }
    gfi_recv_free_msg(ep->domain, msg);
}

static void gfi_recv_report_peek(struct gfi_ep *ep, bool tagged,
                                 const struct gfi_envelope *envelope, void *context)
{
    struct gfi_cqe done = {
        .context = context,
        .flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG) |
                 (envelope->flags & GFI_HDR_DATA ? FI_REMOTE_CQ_DATA : 0),
        .len = envelope->len,
        .data = envelope->data,
        .tag = envelope->tag,
    };

    gfi_recv_report_cqe(ep, &done, envelope->source);
}

static ssize_t gfi_recv_peek(struct gfi_ep *ep, bool tagged, uint64_t source, uint64_t tag,
                             uint64_t ignore, void *context, uint64_t flags)
{
    struct gfi_envelope nothing = {.tag = tag};
    struct gfi_unexpected *msg = gfi_recv_find(ep, tagged, source, tag, ignore);

    if (msg == NULL) {
        gfi_recv_report_error(ep, context, tagged, &nothing, 0, 0, FI_ENOMSG);
        return 0;
    }
    gfi_recv_report_peek(ep, tagged, &msg->envelope, context);
    if (flags & (FI_CLAIM | FI_DISCARD)) {
        gfi_match_remove_msg(gfi_recv_match(ep, tagged), &msg->match);
        if (flags & FI_CLAIM) {
            gfi_recv_claim(ep, msg, context);
        } else {
            gfi_recv_discard(ep, msg);
        }
    }
    return 0;
}

static void gfi_recv_fill(struct gfi_recv *recv, bool tagged, const struct iovec *iov,
                          size_t iov_count, void *context, uint64_t flags)
{
    size_t i;

    recv->tagged = tagged;
    recv->context = context;
    recv->flags = flags;
    recv->iov_count = iov_count;
    recv->len = 0;
    recv->filling = 0;
    recv->posted = false;
    recv->is_plain = iov_count == 1 && !(flags & FI_MULTI_RECV);
    for (i = 0; i < iov_count; i++) {
        recv->iov[i] = iov[i];
        recv->len += iov[i].iov_len;
    }
}

static ssize_t gfi_recv_take_claimed(struct gfi_ep *ep, bool tagged, const struct iovec *iov,
                                     size_t iov_count, struct fi_context *context, uint64_t flags)
{
    struct gfi_unexpected *msg = gfi_recv_claimed(ep, context);
    struct gfi_recv *recv;

    if (msg == NULL) {
        return -FI_EINVAL;
    }
    if (flags & FI_DISCARD) {
        gfi_recv_report_peek(ep, tagged, &msg->envelope, context);
        gfi_recv_discard(ep, msg);
        return 0;
    }
    recv = gfi_recv_new(ep);
    if (recv == NULL) {
        gfi_list_add(&ep->claimed, &msg->match.all);
        return -FI_EAGAIN;
    }
    gfi_recv_fill(recv, tagged, iov, iov_count, context, flags & ~FI_MULTI_RECV);
    gfi_recv_consume(ep, recv, msg);
    return 0;
}

/* A buffer for several messages takes all waiting messages */
static void gfi_recv_post(struct gfi_ep *ep, struct gfi_recv *recv, uint64_t source, uint64_t tag,
                          uint64_t ignore)
{
    bool multi = (recv->flags & FI_MULTI_RECV) != 0, tagged = recv->tagged;
    struct gfi_match *match = gfi_recv_match(ep, tagged);
    struct gfi_unexpected *msg;

    recv->match.source = source;
    recv->match.tag = tag;
    recv->match.ignore = ignore;
    if (gfi_unlikely(multi)) {
        gfi_recv_add(ep, match, recv);
        recv->filling = 1; /* keep it during this function */
        while (recv->posted && (msg = gfi_recv_find(ep, tagged, source, tag, ignore)) != NULL) {
            gfi_match_remove_msg(match, &msg->match);
            gfi_recv_consume(ep, recv, msg);
        }
        gfi_recv_release_multi(ep, recv);
        return;
    }
    msg = gfi_recv_find(ep, tagged, source, tag, ignore);
    if (msg != NULL) {
        gfi_match_remove_msg(match, &msg->match);
        gfi_recv_consume(ep, recv, msg);
    } else {
        gfi_recv_add(ep, match, recv);
    }
}

bool gfi_recv_is_unexpected(struct gfi_ep *ep, bool tagged, fi_addr_t addr, uint64_t tag,
                            uint64_t ignore)
{
    struct gfi_peer *peer;
    uint64_t source;

    return gfi_recv_source(ep, addr, &source, &peer) &&
           gfi_recv_find(ep, tagged, source, tag, ignore) != NULL;
}

ssize_t gfi_recv(struct gfi_ep *ep, bool tagged, const struct iovec *iov, size_t iov_count,
                 fi_addr_t addr, uint64_t tag, uint64_t ignore, void *context, uint64_t flags)
{
    struct gfi_recv *recv;
    struct gfi_peer *peer;
    uint64_t source;

    if (iov_count > GFI_IOV_LIMIT || ((flags & FI_MULTI_RECV) && (iov_count != 1 || tagged))) {
        return -FI_EINVAL;
    }
    if (!gfi_recv_source(ep, addr, &source, &peer)) {
        return -FI_EINVAL;
    }
    if (gfi_unlikely(flags & GFI_RECV_MODES)) {
        return flags & FI_PEEK ? gfi_recv_peek(ep, tagged, source, tag, ignore, context, flags) :
                                 gfi_recv_take_claimed(ep, tagged, iov, iov_count, context, flags);
    }
    if (gfi_unlikely(peer != NULL && gfi_peer_is_over(peer)) &&
        gfi_recv_find(ep, tagged, source, tag, ignore) == NULL) {
        return -peer->error;
    }
    recv = gfi_recv_new(ep);
    if (recv == NULL) {
        return -FI_EAGAIN;
    }
    gfi_recv_fill(recv, tagged, iov, iov_count, context, flags);
    gfi_recv_post(ep, recv, source, tag, ignore);
    return 0;
}

/* ---- ends ---- */

/* A receive that is not posted any more ends with an error */
static void gfi_recv_abort(struct gfi_ep *ep, struct gfi_recv *recv, int error)
{
    struct gfi_envelope nothing = {.tag = recv->match.tag};

    gfi_recv_unpost(ep, gfi_recv_match(ep, recv->tagged), recv);
    gfi_recv_report_error(ep, recv->context, recv->tagged, &nothing, 0,
                          recv->filling == 0 ? recv->flags & FI_MULTI_RECV : 0, error);
    if (recv->filling == 0) {
        gfi_recv_free(ep, recv);
    }
}

int gfi_recv_cancel(struct gfi_ep *ep, void *context)
{
    struct gfi_recv *recv = gfi_context_find(ep, context);

    if (recv == NULL) {
        return -FI_ENOENT;
    }
    gfi_recv_abort(ep, recv, FI_ECANCELED);
    return 0;
}

static void gfi_recv_fail_in(struct gfi_ep *ep, struct gfi_match *match, struct gfi_peer *peer)
{
    struct gfi_list *item, *next;
    struct gfi_recv *recv;

    gfi_list_for_each_safe(item, next, &match->all_recvs) {
        recv = gfi_of(item, struct gfi_recv, match.all);
        if (recv->match.source != GFI_ANY_SOURCE &&
            (recv->match.source & GFI_NO_PEER) == peer->id) {
            gfi_recv_abort(ep, recv, peer->error);
        }
    }
}

void gfi_recv_fail_peer(struct gfi_peer *peer)
{
    struct gfi_domain *domain = peer->domain;
    unsigned i;

    if (peer->is_draining) {
        gfi_list_del(&peer->draining);
        peer->is_draining = false;
    }
    for (i = 0; i < GFI_MAX_EPS; i++) {
        if (domain->eps[i] != NULL) {
            gfi_recv_fail_in(domain->eps[i], &domain->eps[i]->tagged, peer);
            gfi_recv_fail_in(domain->eps[i], &domain->eps[i]->msg, peer);
        }
    }
}

/* The messages keep their order. Messages of other peers may be overtaken, which have no order with them */
static void gfi_recv_move_kept_in(struct gfi_match *match, const struct gfi_peer *from,
                                  const struct gfi_peer *to)
{
    struct gfi_list *item, *next, *last = match->all_msgs.prev;
    struct gfi_unexpected *msg;
    bool is_last = gfi_list_is_empty(&match->all_msgs);

    for (item = match->all_msgs.next; !is_last; item = next) {
        next = item->next;
        is_last = item == last; /* moved messages are behind it */
        msg = gfi_of(item, struct gfi_unexpected, match.all);
        if ((msg->match.source & GFI_NO_PEER) == from->id) {
            gfi_match_remove_msg(match, &msg->match);
            msg->match.source += to->id - (uint64_t)from->id;
            msg->envelope.source = msg->match.source;
            gfi_match_add_msg(match, &msg->match);
        }
    }
}

void gfi_recv_move_kept(const struct gfi_peer *from, const struct gfi_peer *to)
{
    struct gfi_domain *domain = from->domain;
    unsigned i;

    for (i = 0; i < GFI_MAX_EPS; i++) {
        if (domain->eps[i] != NULL) {
            gfi_recv_move_kept_in(&domain->eps[i]->tagged, from, to);
            gfi_recv_move_kept_in(&domain->eps[i]->msg, from, to);
        }
    }
}

static void gfi_recv_cleanup_match(struct gfi_ep *ep, struct gfi_match *match)
{
    struct gfi_list *item, *next;
    struct gfi_unexpected *msg;

    gfi_list_for_each_safe(item, next, &match->all_recvs) {
        free(gfi_of(item, struct gfi_recv, match.all));
    }
    gfi_list_for_each_safe(item, next, &match->all_msgs) {
        msg = gfi_of(item, struct gfi_unexpected, match.all);
        if (msg->envelope.announced || (msg->envelope.flags & GFI_HDR_ACK)) {
            gfi_peer_send_fin(msg->envelope.peer, msg->envelope.op, FI_ECANCELED);
        }
        gfi_recv_free_msg(ep->domain, msg);
    }
    gfi_match_cleanup(match);
}

void gfi_recv_cleanup(struct gfi_ep *ep)
{
    struct gfi_list *item, *next;

    gfi_context_cleanup(ep);
    gfi_recv_cleanup_match(ep, &ep->tagged);
    gfi_recv_cleanup_match(ep, &ep->msg);
    gfi_list_for_each_safe(item, next, &ep->claimed) {
        gfi_recv_discard(ep, gfi_of(item, struct gfi_unexpected, match.all));
    }
    gfi_list_for_each_safe(item, next, &ep->free_recvs) {
        free(gfi_of(item, struct gfi_recv, link));
    }
}
