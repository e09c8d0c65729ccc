/*
 * The path of short messages: from the call of libfabric to the NIC without a function call in
 * between.
 */
#ifndef GFI_FAST_H
#define GFI_FAST_H

#include "proto/gfi_expected.h"

#include <string.h>

#define GFI_FAST_MAX 96 /* longest message of the fast path: am_short carries no more */

/** Locked: gfi_send(). A program may only send, and try again, so a message that must wait polls. */
static inline ssize_t gfi_send_poll(const struct gfi_send *send)
{
    ssize_t ret = gfi_send(send);

    if (gfi_unlikely(ret == -FI_EAGAIN || ret == GFI_SEND_WAITS)) {
        gfi_progress(send->ep->domain);
        ret = gfi_min(ret, 0);
    }
    return ret;
}

static inline ssize_t gfi_send_locked(const struct gfi_send *send)
{
    ssize_t ret;

    gfi_lock(send->ep->domain);
    ret = gfi_send_poll(send);
    gfi_unlock(send->ep->domain);
    return ret;
}

static inline ssize_t gfi_recv_locked(struct gfi_ep *ep, bool tagged, const struct iovec *iov,
                                      size_t iov_count, fi_addr_t source, uint64_t tag,
                                      uint64_t ignore, void *context, uint64_t flags)
{
    ssize_t ret;

    gfi_lock(ep->domain);
    if (gfi_unlikely(flags & FI_PEEK) && !gfi_recv_is_unexpected(ep, tagged, source, tag, ignore)) {
        gfi_progress(ep->domain);
    }
    ret = gfi_recv(ep, tagged, iov, iov_count, source, tag, ignore, context, flags);
    gfi_unlock(ep->domain);
    return ret;
}

static inline ssize_t gfi_recv_buf_locked(struct gfi_ep *ep, bool tagged, void *buf, size_t len,
                                          fi_addr_t source, uint64_t tag, uint64_t ignore,
                                          void *context)
{
    ssize_t ret;

    gfi_lock(ep->domain);
    ret = gfi_recv_buf(ep, tagged, buf, len, source, tag, ignore, context, ep->rx_flags);
    gfi_unlock(ep->domain);
    return ret;
}

/** All sends that are not short or not simple */
static __attribute__((noinline, unused)) ssize_t
gfi_send_buf_slow(struct gfi_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                  bool tagged, uint64_t tag, uint64_t data, void *context, uint64_t flags)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct gfi_send send = {.ep = ep,
                            .iov = &iov,
                            .iov_count = 1,
                            .desc = &desc,
                            .dest = dest,
                            .tag = tag,
                            .data = data,
                            .tagged = tagged,
                            .context = context,
                            .flags = flags};

    return gfi_send_poll(&send);
}

/** Locked. @return 0, or -FI_EAGAIN: the fast path does not apply, use the slow path */
static inline ssize_t gfi_send_fast(struct gfi_ep *ep, const void *buf, size_t len, fi_addr_t dest,
                                    bool tagged, uint64_t tag, uint64_t data, void *context,
                                    uint64_t flags)
{
    const struct gfi_av_entry *entry = gfi_av_entry(ep->av, dest);
    bool has_data = (flags & FI_REMOTE_CQ_DATA) != 0;
    uint64_t bytes[GFI_FAST_MAX / sizeof(uint64_t)], header;
    size_t n = 0;
    struct gfi_cqe *cqe;
    struct gfi_cq *cq;

    if (gfi_unlikely(entry == NULL) ||
        gfi_unlikely((ssize_t)(len + has_data * sizeof(uint64_t)) > entry->peer->short_max) ||
        gfi_unlikely(!ep->tx_plain)) {
        return -FI_EAGAIN;
    }
    cq = ep->tx_cq;
    if (gfi_unlikely(cq != NULL && gfi_cq_is_full(cq))) {
        return -FI_EAGAIN;
    }
    header = entry->peer->header | entry->header | ep->header;
    if (tagged) {
        bytes[n++] = tag;
    }
    if (has_data) {
        bytes[n++] = data;
        header |= (uint64_t)GFI_HDR_DATA << GFI_FLAGS_SHIFT;
    }
    if (gfi_likely(len == sizeof(uint64_t))) {
        memcpy(bytes + n, buf, sizeof(uint64_t));
    } else if (len > 0) {
        memcpy(bytes + n, buf, len);
    }
    if (gfi_unlikely(uct_ep_am_short(entry->peer->uct_ep, tagged ? GFI_AM_TAGGED : GFI_AM_MSG,
                                     header, bytes,
                                     (unsigned)(n * sizeof(uint64_t) + len)) != UCS_OK)) {
        return -FI_EAGAIN;
    }
    if ((flags & FI_COMPLETION) && cq != NULL && (cqe = gfi_cq_add(cq)) != NULL) {
        cqe->context = context;
        cqe->flags = FI_SEND | (tagged ? FI_TAGGED : FI_MSG);
        cqe->len = 0;
        cqe->buf = NULL;
        cqe->data = cqe->tag = 0;
        cqe->source = FI_ADDR_NOTAVAIL;
        cqe->error = NULL;
    }
    if (gfi_unlikely(ep->cntrs[GFI_CNTR_SEND] != NULL)) {
        gfi_cntr_count(ep->cntrs[GFI_CNTR_SEND], false);
    }
    return 0;
}

static inline __attribute__((always_inline)) ssize_t
gfi_send_buf(struct gfi_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
             bool tagged, uint64_t tag, uint64_t data, void *context, uint64_t flags)
{
    ssize_t ret;

    gfi_lock(ep->domain);
    ret = gfi_send_fast(ep, buf, len, dest, tagged, tag, data, context, flags);
    if (gfi_unlikely(ret != 0)) {
        ret = gfi_send_buf_slow(ep, buf, len, desc, dest, tagged, tag, data, context, flags);
    }
    gfi_unlock(ep->domain);
    return ret;
}

#endif
