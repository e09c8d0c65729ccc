/*
 * The buffer of a posted receive: the place of each message, completions, and errors.
 */
#include "gfi_recv.h"

void gfi_recv_report_error(struct gfi_ep *ep, void *context, bool tagged,
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

void gfi_recv_release_multi(struct gfi_ep *ep, struct gfi_recv *recv)
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

void gfi_recv_take_place(struct gfi_ep *ep, struct gfi_recv *recv, size_t len,
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

void gfi_recv_finish_message(struct gfi_ep *ep, struct gfi_recv *recv,
                             const struct gfi_envelope *envelope, const struct gfi_place *place,
                             int error)
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

void gfi_recv_eager(struct gfi_ep *ep, struct gfi_recv *recv, const struct gfi_envelope *envelope,
                    const void *bytes)
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

void gfi_recv_abort(struct gfi_ep *ep, struct gfi_recv *recv, int error)
{
    struct gfi_envelope nothing = {.tag = recv->match.tag};

    gfi_recv_unpost(ep, gfi_recv_match(ep, recv->tagged), recv);
    gfi_recv_report_error(ep, recv->context, recv->tagged, &nothing, 0,
                          recv->filling == 0 ? recv->flags & FI_MULTI_RECV : 0, error);
    if (recv->filling == 0) {
        gfi_recv_free(ep, recv);
    }
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
