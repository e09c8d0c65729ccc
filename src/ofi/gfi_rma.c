/*
 * fi_read(), fi_write() and their variants. An access with a known key and one short piece goes to
 * the NIC at once. Any other access becomes an operation (proto/gfi_rma_op.c).
 */
#include "proto/gfi_op.h"

#include <stdlib.h>
#include <string.h>

#define GFI_RMA_FLAGS                                                                              \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                       \
     FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA | FI_MORE | FI_FENCE)
#define GFI_RMA_SLOW_FLAGS                                                                         \
    (FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE | FI_FENCE)

struct gfi_rma {
    struct gfi_ep *ep;
    bool is_write;
    const struct iovec *iov;
    size_t iov_count;
    fi_addr_t target;
    uint64_t addr, key, data;
    void *context;
    uint64_t flags;
};

static uint64_t gfi_rma_cq_flags(const struct gfi_rma *rma)
{
    return FI_RMA | (rma->is_write ? FI_WRITE : FI_READ);
}

static size_t gfi_rma_length(const struct gfi_rma *rma)
{
    size_t length = 0, i;

    for (i = 0; i < rma->iov_count; i++) {
        length += rma->iov[i].iov_len;
    }
    return length;
}

static void gfi_rma_done(const struct gfi_rma *rma)
{
    struct gfi_ep *ep = rma->ep;
    struct gfi_cqe *cqe;

    gfi_cntr_count(ep->cntrs[rma->is_write ? GFI_CNTR_WRITE : GFI_CNTR_READ], false);
    if ((rma->flags & FI_COMPLETION) && ep->tx_cq != NULL &&
        (cqe = gfi_cq_add(ep->tx_cq)) != NULL) {
        *cqe = (struct gfi_cqe){
            .context = rma->context, .flags = gfi_rma_cq_flags(rma), .source = FI_ADDR_NOTAVAIL};
    }
}

/* @return 0: done; 1: it takes an operation; or -FI_EAGAIN */
static int gfi_rma_now(const struct gfi_rma *rma, struct gfi_peer *peer)
{
    const uct_iface_attr_t *attr = &rma->ep->domain->uct.attr;
    const struct iovec *iov = rma->iov;
    const struct gfi_rkey_part *part;
    const struct gfi_rkey *rkey;
    ucs_status_t status;
    uint64_t remote;

    if (rma->iov_count != 1 || (rma->flags & GFI_RMA_SLOW_FLAGS) ||
        !gfi_list_is_empty(&peer->rma) || peer->holds > 0 || rma->ep->is_ordered ||
        iov->iov_len == 0) {
        return 1;
    }
    rkey = gfi_rkey_find(peer, rma->key);
    if (rkey == NULL || !rkey->known || gfi_rkey_is_counted(rkey, rma->is_write) ||
        gfi_rkey_check(rkey, rma->is_write, rma->addr, iov->iov_len) != 0) {
        return 1;
    }
    part = gfi_rkey_find_part(rkey, rma->addr);
    if (part == NULL || gfi_rkey_part_left(part, rma->addr) < iov->iov_len ||
        part->bundle.rkey == UCT_INVALID_RKEY || gfi_rkey_part_check(part, rma->is_write) != 0) {
        return 1;
    }
    remote = part->addr + (rma->addr - part->base);
    if (rma->is_write && iov->iov_len <= attr->cap.put.max_short) {
        status = uct_ep_put_short(peer->uct_ep, iov->iov_base, (unsigned)iov->iov_len, remote,
                                  part->bundle.rkey);
    } else if (!rma->is_write && (attr->cap.flags & UCT_IFACE_FLAG_GET_SHORT) &&
               iov->iov_len <= attr->cap.get.max_short) {
        status = uct_ep_get_short(peer->uct_ep, iov->iov_base, (unsigned)iov->iov_len, remote,
                                  part->bundle.rkey);
    } else {
        return 1;
    }
    if (status == UCS_OK) {
        gfi_rma_done(rma);
        return 0;
    }
    return status == UCS_ERR_NO_RESOURCE ? -FI_EAGAIN : 1;
}

static int gfi_rma_copy(struct gfi_op *op)
{
    if (!(op->flags & FI_INJECT) || op->len == 0) {
        return 0;
    }
    op->copy = malloc(op->len);
    if (op->copy == NULL) {
        return -FI_EAGAIN;
    }
    gfi_place_read(&op->place, 0, op->copy, op->len);
    op->place.iov_count = 1;
    op->place.iov[0] = (struct iovec){.iov_base = op->copy, .iov_len = op->len};
    return 0;
}

static int gfi_rma_queue(const struct gfi_rma *rma, const struct gfi_av_entry *entry, size_t length)
{
    struct gfi_op *op;
    size_t i;

    if (rma->ep->num_tx >= rma->ep->tx_size) {
        return -FI_EAGAIN;
    }
    op = gfi_op_new(rma->ep, entry->peer, rma->is_write ? GFI_OP_WRITE : GFI_OP_READ);
    if (op == NULL) {
        return -FI_EAGAIN;
    }
    op->context = rma->context;
    op->flags = rma->flags;
    op->cq_flags = gfi_rma_cq_flags(rma);
    op->data = rma->data;
    op->dst_ep = entry->header;
    op->remote_addr = rma->addr;
    op->key = rma->key;
    op->len = op->place.len = length;
    op->place.iov_count = rma->iov_count;
    for (i = 0; i < rma->iov_count; i++) {
        op->place.iov[i] = rma->iov[i];
    }
    if (gfi_rma_copy(op) != 0) {
        gfi_op_free(op);
        return -FI_EAGAIN;
    }
    gfi_rma_submit(op);
    return 0;
}

static ssize_t gfi_rma_locked(const struct gfi_rma *rma)
{
    const struct gfi_av_entry *entry = gfi_av_entry(rma->ep->av, rma->target);
    size_t length = gfi_rma_length(rma);
    int ret;

    if (entry == NULL || rma->iov_count > GFI_IOV_LIMIT) {
        return -FI_EINVAL;
    }
    if ((rma->flags & FI_INJECT) && length > rma->ep->inject_size) {
        return -FI_EMSGSIZE;
    }
    ret = gfi_peer_check(entry->peer);
    if ((ret == 0 || ret == -FI_EAGAIN) && rma->ep->tx_cq != NULL &&
        gfi_cq_is_full(rma->ep->tx_cq)) {
        ret = -FI_EAGAIN;
    } else if (ret == 0) {
        ret = gfi_rma_now(rma, entry->peer);
    } else if (ret == -FI_EAGAIN) {
        ret = 1; /* the peer has not said HELLO: the operation waits for that too */
    }
    if (ret == 1) {
        ret = gfi_rma_queue(rma, entry, length);
    }
    if (ret == -FI_EAGAIN) {
        gfi_progress(rma->ep->domain);
    }
    return ret;
}

static ssize_t gfi_rma(const struct gfi_rma *rma)
{
    ssize_t ret;

    if (!(rma->ep->caps & FI_RMA)) {
        return -FI_EOPNOTSUPP;
    }
    gfi_lock(rma->ep->domain);
    ret = gfi_rma_locked(rma);
    gfi_unlock(rma->ep->domain);
    return ret;
}

static ssize_t gfi_rma_buf(struct fid_ep *fid, bool is_write, const void *buf, size_t len,
                           fi_addr_t target, uint64_t addr, uint64_t key, uint64_t data,
                           void *context, uint64_t flags)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct gfi_rma rma = {.ep = gfi_ep_of(fid),
                          .is_write = is_write,
                          .iov = &iov,
                          .iov_count = 1,
                          .target = target,
                          .addr = addr,
                          .key = key,
                          .data = data,
                          .context = context,
                          .flags = flags};

    return gfi_rma(&rma);
}

static ssize_t gfi_rma_vector(struct fid_ep *fid, bool is_write, const struct iovec *iov,
                              size_t count, fi_addr_t target, uint64_t addr, uint64_t key,
                              void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_rma rma = {.ep = ep,
                          .is_write = is_write,
                          .iov = iov,
                          .iov_count = count,
                          .target = target,
                          .addr = addr,
                          .key = key,
                          .context = context,
                          .flags = ep->tx_flags};

    return gfi_rma(&rma);
}

static ssize_t gfi_rma_msg(struct fid_ep *fid, bool is_write, const struct fi_msg_rma *msg,
                           uint64_t flags)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_rma rma = {.ep = ep,
                          .is_write = is_write,
                          .iov = msg->msg_iov,
                          .iov_count = msg->iov_count,
                          .target = msg->addr,
                          .data = msg->data,
                          .context = msg->context,
                          .flags = flags | (ep->tx_selective ? 0 : FI_COMPLETION)};

    if ((flags & ~(uint64_t)GFI_RMA_FLAGS) ||
        (!is_write && (flags & (FI_INJECT | FI_REMOTE_CQ_DATA)))) {
        return -FI_EBADFLAGS;
    }
    if (msg->rma_iov_count != 1 || msg->rma_iov[0].len != gfi_rma_length(&rma)) {
        return -FI_EINVAL;
    }
    rma.addr = msg->rma_iov[0].addr;
    rma.key = msg->rma_iov[0].key;
    return gfi_rma(&rma);
}

static ssize_t gfi_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t source,
                        uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return gfi_rma_buf(ep, false, buf, len, source, addr, key, 0, context, gfi_ep_of(ep)->tx_flags);
}

static ssize_t gfi_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t source, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return gfi_rma_vector(ep, false, iov, count, source, addr, key, context);
}

static ssize_t gfi_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return gfi_rma_msg(ep, false, msg, flags);
}

static ssize_t gfi_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                         fi_addr_t target, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return gfi_rma_buf(ep, true, buf, len, target, addr, key, 0, context, gfi_ep_of(ep)->tx_flags);
}

static ssize_t gfi_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t target, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return gfi_rma_vector(ep, true, iov, count, target, addr, key, context);
}

static ssize_t gfi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return gfi_rma_msg(ep, true, msg, flags);
}

static ssize_t gfi_inject_write(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t target,
                                uint64_t addr, uint64_t key)
{
    return gfi_rma_buf(ep, true, buf, len, target, addr, key, 0, NULL, FI_INJECT);
}

static ssize_t gfi_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t target, uint64_t addr, uint64_t key,
                             void *context)
{
    (void)desc;
    return gfi_rma_buf(ep, true, buf, len, target, addr, key, data, context,
                       gfi_ep_of(ep)->tx_flags | FI_REMOTE_CQ_DATA);
}

static ssize_t gfi_inject_writedata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                                    fi_addr_t target, uint64_t addr, uint64_t key)
{
    return gfi_rma_buf(ep, true, buf, len, target, addr, key, data, NULL,
                       FI_INJECT | FI_REMOTE_CQ_DATA);
}

struct fi_ops_rma gfi_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = gfi_read,
    .readv = gfi_readv,
    .readmsg = gfi_readmsg,
    .write = gfi_write,
    .writev = gfi_writev,
    .writemsg = gfi_writemsg,
    .inject = gfi_inject_write,
    .writedata = gfi_writedata,
    .injectdata = gfi_inject_writedata,
};
