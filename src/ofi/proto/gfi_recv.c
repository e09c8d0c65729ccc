/*
 * Receives: posts, peeks and cancels of programs, and arriving messages.
 */
#include "gfi_recv.h"

#include <stdlib.h>

#define GFI_RECV_MODES (FI_PEEK | FI_CLAIM | FI_DISCARD)

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

int gfi_recv_cancel(struct gfi_ep *ep, void *context)
{
    struct gfi_recv *recv = gfi_context_find(ep, context);

    if (recv == NULL) {
        return -FI_ENOENT;
    }
    gfi_recv_abort(ep, recv, FI_ECANCELED);
    return 0;
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
