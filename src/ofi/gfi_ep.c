#include "proto/gfi_op.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static int gfi_ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct gfi_ep *ep = gfi_of(fid, struct gfi_ep, fid.fid);
    struct gfi_addr full = ep->domain->addr;
    size_t room = *addrlen;

    full.ep = (uint16_t)ep->index;
    *addrlen = gfi_addr_write(ep->domain->has_text_addrs, &full, addr, room);
    return room < *addrlen ? -FI_ETOOSMALL : 0;
}

static int gfi_no_setname(fid_t fid, void *addr, size_t addrlen)
{
    (void)fid, (void)addr, (void)addrlen;
    return -FI_ENOSYS; /* the NIC gives names */
}

static int gfi_no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    (void)ep, (void)addr, (void)addrlen;
    return -FI_ENOSYS;
}

static int gfi_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    (void)ep, (void)addr, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int gfi_no_listen(struct fid_pep *pep)
{
    (void)pep;
    return -FI_ENOSYS;
}

static int gfi_no_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    (void)ep, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int gfi_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    (void)pep, (void)handle, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int gfi_no_shutdown(struct fid_ep *ep, uint64_t flags)
{
    (void)ep, (void)flags;
    return -FI_ENOSYS;
}

static int gfi_no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                       void *context)
{
    (void)ep, (void)addr, (void)flags, (void)mc, (void)context;
    return -FI_ENOSYS;
}

static struct fi_ops_cm gfi_ep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = gfi_no_setname,
    .getname = gfi_ep_getname,
    .getpeer = gfi_no_getpeer,
    .connect = gfi_no_connect,
    .listen = gfi_no_listen,
    .accept = gfi_no_accept,
    .reject = gfi_no_reject,
    .shutdown = gfi_no_shutdown,
    .join = gfi_no_join,
};

/* ---- options ---- */

static ssize_t gfi_ep_cancel(fid_t fid, void *context)
{
    struct gfi_ep *ep = gfi_of(fid, struct gfi_ep, fid.fid);
    int ret;

    gfi_lock(ep->domain);
    ret = gfi_recv_cancel(ep, context);
    gfi_unlock(ep->domain);
    return ret;
}

static int gfi_ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct gfi_ep *ep = gfi_of(fid, struct gfi_ep, fid.fid);
    size_t value = optname == FI_OPT_MIN_MULTI_RECV ? ep->min_multi_recv : 0;

    if (level != FI_OPT_ENDPOINT ||
        (optname != FI_OPT_MIN_MULTI_RECV && optname != FI_OPT_CM_DATA_SIZE)) {
        return -FI_ENOPROTOOPT;
    }
    if (*optlen < sizeof(value)) {
        return -FI_ETOOSMALL;
    }
    memcpy(optval, &value, sizeof(value));
    *optlen = sizeof(value);
    return 0;
}

static int gfi_ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct gfi_ep *ep = gfi_of(fid, struct gfi_ep, fid.fid);

    if (level != FI_OPT_ENDPOINT || optname != FI_OPT_MIN_MULTI_RECV) {
        return -FI_ENOPROTOOPT;
    }
    if (optlen < sizeof(size_t)) {
        return -FI_ETOOSMALL;
    }
    memcpy(&ep->min_multi_recv, optval, sizeof(size_t));
    return 0;
}

static int gfi_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
                         struct fid_ep **tx_ep, void *context)
{
    (void)sep, (void)index, (void)attr, (void)tx_ep, (void)context;
    return -FI_ENOSYS;
}

static int gfi_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
                         struct fid_ep **rx_ep, void *context)
{
    (void)sep, (void)index, (void)attr, (void)rx_ep, (void)context;
    return -FI_ENOSYS;
}

static ssize_t gfi_no_size_left(struct fid_ep *ep)
{
    (void)ep;
    return -FI_ENOSYS;
}

static struct fi_ops_ep gfi_ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = gfi_ep_cancel,
    .getopt = gfi_ep_getopt,
    .setopt = gfi_ep_setopt,
    .tx_ctx = gfi_no_tx_ctx,
    .rx_ctx = gfi_no_rx_ctx,
    .rx_size_left = gfi_no_size_left,
    .tx_size_left = gfi_no_size_left,
};

/* ---- binding ---- */

static int gfi_ep_bind_cq(struct gfi_ep *ep, struct gfi_cq *cq, uint64_t flags)
{
    bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;

    if ((flags & ~(uint64_t)(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0 ||
        !(flags & (FI_TRANSMIT | FI_RECV))) {
        return -FI_EINVAL;
    }
    if (((flags & FI_TRANSMIT) && ep->tx_cq != NULL) || ((flags & FI_RECV) && ep->rx_cq != NULL)) {
        return -FI_EINVAL;
    }
    if (flags & FI_TRANSMIT) {
        ep->tx_cq = cq;
        ep->tx_selective = selective;
        cq->refs++;
    }
    if (flags & FI_RECV) {
        ep->rx_cq = cq;
        ep->rx_selective = selective;
        cq->refs++;
    }
    return 0;
}

static int gfi_ep_bind_cntr(struct gfi_ep *ep, struct gfi_cntr *cntr, uint64_t flags)
{
    static const uint64_t kinds[GFI_CNTR_LAST] = {
        [GFI_CNTR_SEND] = FI_SEND,
        [GFI_CNTR_RECV] = FI_RECV,
        [GFI_CNTR_READ] = FI_READ,
        [GFI_CNTR_WRITE] = FI_WRITE,
        [GFI_CNTR_REMOTE_READ] = FI_REMOTE_READ,
        [GFI_CNTR_REMOTE_WRITE] = FI_REMOTE_WRITE,
    };
    unsigned i;

    for (i = 0; i < GFI_CNTR_LAST; i++) {
        if ((flags & kinds[i]) && ep->cntrs[i] != NULL) {
            return -FI_EINVAL;
        }
    }
    for (i = 0; i < GFI_CNTR_LAST; i++) {
        if (flags & kinds[i]) {
            ep->cntrs[i] = cntr;
            cntr->refs++;
        }
    }
    return 0;
}

static int gfi_ep_bind_locked(struct gfi_ep *ep, struct fid *bfid, uint64_t flags)
{
    switch (bfid->fclass) {
    case FI_CLASS_AV:
        if (ep->av != NULL || gfi_of(bfid, struct gfi_av, fid.fid)->domain != ep->domain) {
            return -FI_EINVAL;
        }
        ep->av = gfi_of(bfid, struct gfi_av, fid.fid);
        ep->av->refs++;
        return 0;
    case FI_CLASS_CQ:
        if (gfi_of(bfid, struct gfi_cq, fid.fid)->domain != ep->domain) {
            return -FI_EINVAL;
        }
        return gfi_ep_bind_cq(ep, gfi_of(bfid, struct gfi_cq, fid.fid), flags);
    case FI_CLASS_CNTR:
        if (gfi_of(bfid, struct gfi_cntr, fid.fid)->domain != ep->domain) {
            return -FI_EINVAL;
        }
        return gfi_ep_bind_cntr(ep, gfi_of(bfid, struct gfi_cntr, fid.fid), flags);
    case FI_CLASS_EQ:
        if (ep->eq != NULL) {
            return -FI_EINVAL;
        }
        ep->eq = gfi_of(bfid, struct gfi_eq, fid.fid);
        gfi_ref_get(&ep->eq->refs);
        return 0;
    default:
        return -FI_EINVAL;
    }
}

static int gfi_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct gfi_ep *ep = gfi_of(fid, struct gfi_ep, fid.fid);
    int ret;

    gfi_lock(ep->domain);
    ret = gfi_ep_bind_locked(ep, bfid, flags);
    gfi_unlock(ep->domain);
    return ret;
}

/* The counters of remote accesses that are bound */
static uint64_t gfi_ep_events(const struct gfi_ep *ep)
{
    return (ep->cntrs[GFI_CNTR_REMOTE_READ] != NULL ? FI_REMOTE_READ : 0) |
           (ep->cntrs[GFI_CNTR_REMOTE_WRITE] != NULL ? FI_REMOTE_WRITE : 0);
}

static int gfi_ep_publish(struct gfi_ep *ep)
{
    struct gfi_addr addr = ep->domain->addr;

    if (ep->name[0] == '\0' || ep->name_fd >= 0) {
        return 0;
    }
    addr.ep = (uint16_t)ep->index;
    return gfi_name_publish(ep->name, &addr, &ep->name_fd);
}

static int gfi_ep_enable(struct gfi_ep *ep)
{
    bool sends = (ep->caps & (FI_SEND | FI_READ | FI_WRITE)) != 0;
    int ret;

    if (ep->av == NULL) {
        return -FI_ENOAV;
    }
    if (sends && ep->tx_cq == NULL && ep->cntrs[GFI_CNTR_SEND] == NULL &&
        ep->cntrs[GFI_CNTR_READ] == NULL && ep->cntrs[GFI_CNTR_WRITE] == NULL) {
        return -FI_ENOCQ;
    }
    if ((ep->caps & FI_RECV) && ep->rx_cq == NULL && ep->cntrs[GFI_CNTR_RECV] == NULL) {
        return -FI_ENOCQ;
    }
    ret = gfi_ep_publish(ep);
    if (ret != 0) {
        return ret;
    }
    ep->tx_flags |= ep->tx_selective ? 0 : FI_COMPLETION;
    ep->rx_flags |= ep->rx_selective ? 0 : FI_COMPLETION;
    ep->tx_plain = (ep->tx_flags & ~(uint64_t)(FI_COMPLETION | FI_INJECT_COMPLETE)) == 0;
    ep->enabled = true;
    if (ep->caps & FI_RMA_EVENT) {
        gfi_mr_want_events(ep->domain, gfi_ep_events(ep));
    }
    return 0;
}

static int gfi_ep_opsflag(struct gfi_ep *ep, int command, uint64_t *flags)
{
    bool tx = (*flags & FI_TRANSMIT) != 0, rx = (*flags & FI_RECV) != 0;

    if (tx == rx) {
        return -FI_EINVAL;
    }
    if (command == FI_GETOPSFLAG) {
        *flags = (tx ? ep->tx_flags : ep->rx_flags);
        return 0;
    }
    *(tx ? &ep->tx_flags : &ep->rx_flags) = *flags & ~(uint64_t)(FI_TRANSMIT | FI_RECV);
    ep->tx_plain = (ep->tx_flags & ~(uint64_t)(FI_COMPLETION | FI_INJECT_COMPLETE)) == 0;
    return 0;
}

static int gfi_ep_control(struct fid *fid, int command, void *arg)
{
    struct gfi_ep *ep = gfi_of(fid, struct gfi_ep, fid.fid);
    int ret = -FI_ENOSYS;

    gfi_lock(ep->domain);
    if (command == FI_ENABLE) {
        ret = gfi_ep_enable(ep);
    } else if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG) {
        ret = gfi_ep_opsflag(ep, command, arg);
    }
    gfi_unlock(ep->domain);
    return ret;
}

/* ---- life ---- */

static void gfi_ep_unbind(struct gfi_ep *ep)
{
    unsigned i;

    for (i = 0; i < GFI_CNTR_LAST; i++) {
        if (ep->cntrs[i] != NULL) {
            ep->cntrs[i]->refs--;
        }
    }
    if (ep->tx_cq != NULL) {
        ep->tx_cq->refs--;
    }
    if (ep->rx_cq != NULL) {
        ep->rx_cq->refs--;
    }
    if (ep->av != NULL) {
        ep->av->refs--;
    }
    if (ep->eq != NULL) {
        gfi_ref_put(&ep->eq->refs);
    }
}

/* fi_close() waits for three kinds of operations: injected messages, messages that wait for the peer's
 * HELLO, and UCT operations, which use the program's buffers. */
static bool gfi_ep_is_busy(const struct gfi_ep *ep)
{
    const struct gfi_op *op;
    uint32_t i;

    for (i = 0; i < ep->domain->num_ops; i++) {
        op = ep->domain->ops[i];
        if (op->in_use && op->ep == ep &&
            (op->in_flight || ((op->flags & FI_INJECT) && op->type != GFI_OP_RECV) ||
             (op->type == GFI_OP_SEND && !op->awaits_fin))) {
            return true;
        }
    }
    return false;
}

static void gfi_ep_goodbye(struct gfi_ep *ep)
{
    uint64_t until = gfi_now_ms() + GFI_GOODBYE_MS;

    while (gfi_ep_is_busy(ep) && gfi_now_ms() < until) {
        gfi_progress(ep->domain);
    }
}

/* Ends the operations of a closed endpoint. Operations of the program are reported as canceled.
 * Operations that UCT still works on are freed later. */
static void gfi_ep_drop_ops(struct gfi_ep *ep)
{
    struct gfi_domain *domain = ep->domain;
    struct gfi_op *op;
    uint32_t i;

    for (i = 0; i < domain->num_ops; i++) {
        op = domain->ops[i];
        if (!op->in_use || op->ep != ep) {
            continue;
        }
        if (op->type == GFI_OP_RECV) {
            gfi_peer_send_fin(op->peer, op->remote_op, FI_ECANCELED);
            free(op->recv);
            op->recv = NULL;
        }
        if (op->type != GFI_OP_RECV && !op->in_flight) {
            gfi_op_complete(op, FI_ECANCELED);
            continue;
        }
        op->ep = NULL;
        if (!op->in_flight) {
            gfi_op_free(op);
        }
    }
    ep->num_tx = 0;
}

static int gfi_ep_close(struct fid *fid)
{
    struct gfi_ep *ep = gfi_of(fid, struct gfi_ep, fid.fid);
    struct gfi_domain *domain = ep->domain;

    gfi_lock(domain);
    domain->eps[ep->index] = NULL; /* nothing more arrives */
    if (ep->name_fd >= 0) {
        gfi_name_remove(ep->name, ep->name_fd);
    }
    gfi_ep_goodbye(ep);
    gfi_ep_drop_ops(ep);
    gfi_recv_cleanup(ep);
    gfi_ep_unbind(ep);
    domain->refs--;
    gfi_unlock(domain);
    free(ep);
    return 0;
}

static struct fi_ops gfi_ep_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_ep_close,
    .bind = gfi_ep_bind,
    .control = gfi_ep_control,
    .ops_open = gfi_no_ops_open,
};

/* Locked. Numbers are assigned in turn, so a late message for a closed endpoint does not reach a
 * new endpoint. */
static int gfi_ep_set_index(struct gfi_ep *ep)
{
    struct gfi_domain *domain = ep->domain;
    unsigned i, index;

    for (i = 0; i < GFI_MAX_EPS; i++) {
        index = (domain->next_ep + i) % GFI_MAX_EPS;
        if (domain->eps[index] == NULL) {
            domain->eps[index] = ep;
            domain->next_ep = index + 1;
            ep->index = index;
            ep->header = gfi_header(0, index, 0, 0);
            return 0;
        }
    }
    return -FI_EMFILE;
}

/* The name in the source address of fi_info */
static void gfi_ep_set_name(struct gfi_ep *ep, const struct fi_info *info)
{
    const char *text = info->src_addr;
    struct gfi_addr addr;

    if (info->src_addr == NULL) {
        return;
    }
    if (info->addr_format == FI_ADDR_STR) {
        text += strncmp(text, GFI_ADDR_PREFIX, sizeof(GFI_ADDR_PREFIX) - 1) == 0 ?
                    sizeof(GFI_ADDR_PREFIX) - 1 :
                    0;
    } else {
        memcpy(&addr, info->src_addr, gfi_min(sizeof(addr), info->src_addrlen));
        text = info->src_addrlen == sizeof(addr) && gfi_addr_is_name(&addr) ?
                   (const char *)addr.bytes :
                   "";
    }
    if (strnlen(text, GFI_NAME_SIZE) < GFI_NAME_SIZE && gfi_name_is_valid(text)) {
        strcpy(ep->name, text);
    }
}

static void gfi_ep_init(struct gfi_ep *ep, const struct fi_info *info, void *context)
{
    ep->name_fd = -1;
    gfi_ep_set_name(ep, info);
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &gfi_ep_fi_ops;
    ep->fid.ops = &gfi_ep_ops;
    ep->fid.cm = &gfi_ep_cm_ops;
    ep->fid.msg = &gfi_msg_ops;
    ep->fid.tagged = &gfi_tagged_ops;
    ep->fid.rma = &gfi_rma_ops;
    ep->fid.atomic = &gfi_atomic_ops;
    ep->caps = info->caps;
    ep->tx_flags = info->tx_attr != NULL ? info->tx_attr->op_flags : 0;
    ep->rx_flags = info->rx_attr != NULL ? info->rx_attr->op_flags : 0;
    ep->is_ordered = info->tx_attr != NULL && (info->tx_attr->msg_order & GFI_RMA_ORDERS) != 0;
    ep->tx_size = gfi_params.tx_size;
    ep->inject_size = GFI_INJECT_SIZE;
    ep->min_multi_recv = 64;
    gfi_list_init(&ep->free_recvs);
    gfi_list_init(&ep->claimed);
}

int gfi_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep_p, void *context)
{
    struct gfi_domain *domain = gfi_domain_of(fid);
    struct gfi_ep *ep;
    int ret;

    if (info == NULL || info->ep_attr == NULL || info->ep_attr->type != FI_EP_RDM) {
        return -FI_EINVAL;
    }
    ep = calloc(1, sizeof(*ep));
    if (ep == NULL) {
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    gfi_ep_init(ep, info, context);
    ret = gfi_match_init(&ep->tagged);
    if (ret != 0) {
        goto err_free;
    }
    ret = gfi_match_init(&ep->msg);
    if (ret != 0) {
        goto err_tagged;
    }
    gfi_lock(domain);
    ret = gfi_ep_set_index(ep);
    domain->refs += ret == 0;
    gfi_unlock(domain);
    if (ret != 0) {
        goto err_msg;
    }
    *ep_p = &ep->fid;
    return 0;

err_msg:
    gfi_match_cleanup(&ep->msg);
err_tagged:
    gfi_match_cleanup(&ep->tagged);
err_free:
    free(ep);
    return ret;
}
