/*
 * The inlined path of an expected message that has completely arrived: a receive into one piece is
 * posted, and the handler copies the message and writes the completion. All other cases use
 * gfi_recv() and gfi_recv_arrive().
 */
#ifndef GFI_EXPECTED_H
#define GFI_EXPECTED_H

#include "gfi_op.h"

#include <stdlib.h>
#include <string.h>

static inline struct gfi_match *gfi_recv_match(struct gfi_ep *ep, bool tagged)
{
    return tagged ? &ep->tagged : &ep->msg;
}

static inline struct gfi_recv *gfi_recv_new(struct gfi_ep *ep)
{
    struct gfi_recv *recv;

    if (gfi_list_is_empty(&ep->free_recvs)) {
        return malloc(sizeof(*recv));
    }
    recv = gfi_list_entry(ep->free_recvs.next, struct gfi_recv, link);
    gfi_list_del(&recv->link);
    return recv;
}

static inline void gfi_recv_free(struct gfi_ep *ep, struct gfi_recv *recv)
{
    recv->link.prev = &ep->free_recvs; /* as a stack: the last used receive is in the cache */
    recv->link.next = ep->free_recvs.next;
    recv->link.next->prev = &recv->link;
    ep->free_recvs.next = &recv->link;
}

/** Locked: add a receive to the posted ones. */
static inline void gfi_recv_add(struct gfi_ep *ep, struct gfi_match *match, struct gfi_recv *recv)
{
    gfi_match_post(match, &recv->match);
    recv->posted = true;
    if (gfi_unlikely(ep->has_contexts)) {
        gfi_context_add(ep, recv);
    }
}

/** Locked: take a posted receive out. */
static inline void gfi_recv_unpost(struct gfi_ep *ep, struct gfi_match *match,
                                   struct gfi_recv *recv)
{
    gfi_match_unpost(match, &recv->match);
    recv->posted = false;
    if (gfi_unlikely(ep->has_contexts)) {
        gfi_context_remove(ep, recv);
    }
}

static inline fi_addr_t gfi_recv_number(const struct gfi_ep *ep, uint64_t source)
{
    return (ep->caps & FI_SOURCE) ? gfi_av_number(ep->av, source) : FI_ADDR_NOTAVAIL;
}

/** Whether FI_SOURCE_ERR wants the completion of a message of this source as an error. */
static inline bool gfi_source_is_error(const struct gfi_ep *ep, uint64_t source)
{
    return gfi_unlikely(ep->caps & FI_SOURCE_ERR) &&
           gfi_av_number(ep->av, source) == FI_ADDR_NOTAVAIL;
}

/** `flags`: of the completion. Counted, and reported if the receive wants it or is given back */
static inline __attribute__((always_inline)) void
gfi_recv_report(struct gfi_ep *ep, const struct gfi_recv *recv, uint64_t flags, uint64_t source,
                uint64_t tag, uint64_t data, void *buf, size_t len)
{
    struct gfi_cqe *cqe;

    if (gfi_unlikely(ep->cntrs[GFI_CNTR_RECV] != NULL)) {
        gfi_cntr_count(ep->cntrs[GFI_CNTR_RECV], false);
    }
    if (!(recv->flags & FI_COMPLETION) && !(flags & FI_MULTI_RECV)) {
        return;
    }
    if (gfi_source_is_error(ep, source)) {
        struct gfi_cqe done = {.context = recv->context,
                               .flags = flags,
                               .len = len,
                               .buf = buf,
                               .data = data,
                               .tag = tag};

        gfi_recv_report_stranger(ep, &done, source);
        return;
    }
    if (gfi_unlikely(ep->rx_cq == NULL) || gfi_unlikely((cqe = gfi_cq_add(ep->rx_cq)) == NULL)) {
        return;
    }
    cqe->context = recv->context;
    cqe->flags = flags;
    cqe->len = len;
    cqe->buf = buf;
    cqe->data = data;
    cqe->tag = tag;
    cqe->source = gfi_recv_number(ep, source);
    cqe->error = NULL;
}

static inline uint64_t gfi_recv_cq_flags(bool tagged, uint64_t header_flags)
{
    return FI_RECV | (tagged ? FI_TAGGED : FI_MSG) |
           (header_flags & GFI_HDR_DATA ? FI_REMOTE_CQ_DATA : 0);
}

/** The source that a receive names, and its peer or NULL. @return false: the address is unknown */
static inline bool gfi_recv_source(const struct gfi_ep *ep, fi_addr_t addr, uint64_t *source,
                                   struct gfi_peer **peer)
{
    const struct gfi_av_entry *entry;

    *source = GFI_ANY_SOURCE;
    *peer = NULL;
    if (addr == FI_ADDR_UNSPEC || !(ep->caps & FI_DIRECTED_RECV)) {
        return true;
    }
    entry = gfi_av_entry(ep->av, addr);
    if (entry == NULL) {
        return false;
    }
    *source = entry->source;
    *peer = entry->peer;
    return true;
}

/** Locked: gfi_recv() for a receive into one piece. */
static inline __attribute__((always_inline)) ssize_t gfi_recv_buf(struct gfi_ep *ep, bool tagged,
                                                                  void *buf, size_t len,
                                                                  fi_addr_t addr, uint64_t tag,
                                                                  uint64_t ignore, void *context,
                                                                  uint64_t flags)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct gfi_match *match = gfi_recv_match(ep, tagged);
    struct gfi_recv *recv;
    struct gfi_peer *peer;
    uint64_t source;

    if (gfi_unlikely(flags & ~(uint64_t)FI_COMPLETION) || gfi_unlikely(match->num_msgs > 0) ||
        gfi_unlikely(gfi_list_is_empty(&ep->free_recvs)) ||
        gfi_unlikely(!gfi_recv_source(ep, addr, &source, &peer)) ||
        gfi_unlikely(peer != NULL && peer->error != 0)) {
        return gfi_recv(ep, tagged, &iov, 1, addr, tag, ignore, context, flags);
    }
    recv = gfi_recv_new(ep);
    recv->tagged = tagged;
    recv->is_plain = true;
    recv->context = context;
    recv->flags = flags;
    recv->iov[0] = iov;
    recv->iov_count = 1;
    recv->len = len;
    recv->filling = 0;
    recv->match.source = source;
    recv->match.tag = tag;
    recv->match.ignore = ignore;
    gfi_recv_add(ep, match, recv);
    return 0;
}

/** Locked: a message that was sent at once. @return false: the fast path does not apply, nothing
 * was done */
static inline __attribute__((always_inline)) bool
gfi_recv_expected(struct gfi_ep *ep, bool tagged, uint64_t header_flags, uint64_t source,
                  uint64_t tag, uint64_t data, const void *bytes, size_t len)
{
    struct gfi_match *match = gfi_recv_match(ep, tagged);
    struct gfi_match_recv *found = gfi_match_find_recv(match, source, tag);
    struct gfi_recv *recv = gfi_of(found, struct gfi_recv, match);

    if (gfi_unlikely(found == NULL) || gfi_unlikely(!recv->is_plain) ||
        gfi_unlikely(len > recv->len)) {
        return false;
    }
    gfi_recv_unpost(ep, match, recv);
    if (gfi_likely(len == sizeof(uint64_t))) {
        memcpy(recv->iov[0].iov_base, bytes, sizeof(uint64_t));
    } else {
        memcpy(recv->iov[0].iov_base, bytes, len);
    }
    gfi_recv_report(ep, recv, gfi_recv_cq_flags(tagged, header_flags), source, tag, data, NULL,
                    len);
    gfi_recv_free(ep, recv);
    return true;
}

#endif
