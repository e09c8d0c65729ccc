#include "gfi_fast.h"

#define GFI_MSG_SEND_FLAGS                                                                         \
    (FI_REMOTE_CQ_DATA | FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |   \
     FI_DELIVERY_COMPLETE | FI_MORE | FI_FENCE)

static ssize_t gfi_msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                            fi_addr_t dest, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);

    return gfi_send_buf(ep, buf, len, desc, dest, false, 0, 0, context, ep->tx_flags);
}

static ssize_t gfi_msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    return gfi_send_buf(gfi_ep_of(fid), buf, len, NULL, dest, false, 0, 0, NULL, FI_INJECT);
}

static ssize_t gfi_msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                                uint64_t data, fi_addr_t dest, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);

    return gfi_send_buf(ep, buf, len, desc, dest, false, 0, data, context,
                        ep->tx_flags | FI_REMOTE_CQ_DATA);
}

static ssize_t gfi_msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                  fi_addr_t dest)
{
    return gfi_send_buf(gfi_ep_of(fid), buf, len, NULL, dest, false, 0, data, NULL,
                        FI_INJECT | FI_REMOTE_CQ_DATA);
}

static ssize_t gfi_msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                             fi_addr_t dest, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_send send = {.ep = ep,
                            .iov = iov,
                            .iov_count = count,
                            .desc = desc,
                            .dest = dest,
                            .context = context,
                            .flags = ep->tx_flags};

    return gfi_send_locked(&send);
}

static ssize_t gfi_msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_send send = {.ep = ep,
                            .iov = msg->msg_iov,
                            .iov_count = msg->iov_count,
                            .desc = msg->desc,
                            .dest = msg->addr,
                            .data = msg->data,
                            .context = msg->context,
                            .flags = flags | (ep->tx_selective ? 0 : FI_COMPLETION)};

    if (flags & ~(uint64_t)GFI_MSG_SEND_FLAGS) {
        return -FI_EBADFLAGS;
    }
    return gfi_send_locked(&send);
}

/* Every message matches: there is no tag */
static ssize_t gfi_msg_receive(struct gfi_ep *ep, const struct iovec *iov, size_t count,
                               fi_addr_t source, void *context, uint64_t flags)
{
    return gfi_recv_locked(ep, false, iov, count, source, 0, 0, context, flags);
}

static ssize_t gfi_msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source,
                            void *context)
{
    (void)desc;
    return gfi_recv_buf_locked(gfi_ep_of(fid), false, buf, len, source, 0, 0, context);
}

static ssize_t gfi_msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                             fi_addr_t source, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);

    (void)desc;
    return gfi_msg_receive(ep, iov, count, source, context, ep->rx_flags);
}

static ssize_t gfi_msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct gfi_ep *ep = gfi_ep_of(fid);

    if (flags &
        ~(uint64_t)(FI_COMPLETION | FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD | FI_MORE)) {
        return -FI_EBADFLAGS;
    }
    return gfi_msg_receive(ep, msg->msg_iov, msg->iov_count, msg->addr, msg->context,
                           flags | (ep->rx_selective ? 0 : FI_COMPLETION));
}

struct fi_ops_msg gfi_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = gfi_msg_recv,
    .recvv = gfi_msg_recvv,
    .recvmsg = gfi_msg_recvmsg,
    .send = gfi_msg_send,
    .sendv = gfi_msg_sendv,
    .sendmsg = gfi_msg_sendmsg,
    .inject = gfi_msg_inject,
    .senddata = gfi_msg_senddata,
    .injectdata = gfi_msg_injectdata,
};
