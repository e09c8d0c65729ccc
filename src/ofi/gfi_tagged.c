#include "gfi_fast.h"

#define GFI_TAGGED_SEND_FLAGS                                                                      \
    (FI_REMOTE_CQ_DATA | FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |   \
     FI_DELIVERY_COMPLETE | FI_MORE | FI_FENCE)

static ssize_t gfi_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                         fi_addr_t dest, uint64_t tag, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);

    return gfi_send_buf(ep, buf, len, desc, dest, true, tag, 0, context, ep->tx_flags);
}

static ssize_t gfi_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                           uint64_t tag)
{
    return gfi_send_buf(gfi_ep_of(fid), buf, len, NULL, dest, true, tag, 0, NULL, FI_INJECT);
}

static ssize_t gfi_tsenddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);

    return gfi_send_buf(ep, buf, len, desc, dest, true, tag, data, context,
                        ep->tx_flags | FI_REMOTE_CQ_DATA);
}

static ssize_t gfi_tinjectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                               fi_addr_t dest, uint64_t tag)
{
    return gfi_send_buf(gfi_ep_of(fid), buf, len, NULL, dest, true, tag, data, NULL,
                        FI_INJECT | FI_REMOTE_CQ_DATA);
}

static ssize_t gfi_tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest, uint64_t tag, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_send send = {.ep = ep,
                            .iov = iov,
                            .iov_count = count,
                            .desc = desc,
                            .dest = dest,
                            .tag = tag,
                            .tagged = true,
                            .context = context,
                            .flags = ep->tx_flags};

    return gfi_send_locked(&send);
}

static ssize_t gfi_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_send send = {.ep = ep,
                            .iov = msg->msg_iov,
                            .iov_count = msg->iov_count,
                            .desc = msg->desc,
                            .dest = msg->addr,
                            .tag = msg->tag,
                            .data = msg->data,
                            .tagged = true,
                            .context = msg->context,
                            .flags = flags | (ep->tx_selective ? 0 : FI_COMPLETION)};

    if (flags & ~(uint64_t)GFI_TAGGED_SEND_FLAGS) {
        return -FI_EBADFLAGS;
    }
    return gfi_send_locked(&send);
}

static ssize_t gfi_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source,
                         uint64_t tag, uint64_t ignore, void *context)
{
    (void)desc;
    return gfi_recv_buf_locked(gfi_ep_of(fid), true, buf, len, source, tag, ignore, context);
}

static ssize_t gfi_trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t source, uint64_t tag, uint64_t ignore, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);

    (void)desc;
    return gfi_recv_locked(ep, true, iov, count, source, tag, ignore, context, ep->rx_flags);
}

static ssize_t gfi_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct gfi_ep *ep = gfi_ep_of(fid);

    if (flags & ~(uint64_t)(FI_COMPLETION | FI_PEEK | FI_CLAIM | FI_DISCARD | FI_MORE)) {
        return -FI_EBADFLAGS;
    }
    return gfi_recv_locked(ep, true, msg->msg_iov, msg->iov_count, msg->addr, msg->tag, msg->ignore,
                           msg->context, flags | (ep->rx_selective ? 0 : FI_COMPLETION));
}

struct fi_ops_tagged gfi_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = gfi_trecv,
    .recvv = gfi_trecvv,
    .recvmsg = gfi_trecvmsg,
    .send = gfi_tsend,
    .sendv = gfi_tsendv,
    .sendmsg = gfi_tsendmsg,
    .inject = gfi_tinject,
    .senddata = gfi_tsenddata,
    .injectdata = gfi_tinjectdata,
};
