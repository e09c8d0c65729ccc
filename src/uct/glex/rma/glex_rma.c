/*
 * Put and get. A copy accesses memory that this process can map. The NIC accesses other memory by
 * RDMA between registrations (paper 003, section 4.4), and takes small data by immediate put.
 */
#include "rma/glex_rma.h"
#include "base/glex_copy.h"
#include "chan/glex_op.h"
#include "conn/glex_life.h"

#include <uct/base/uct_iov.inl>

/* Empty transfers need no key */
static int uct_glex_rkey_is_valid(uct_rkey_t uct_rkey)
{
    return (uct_rkey != UCT_INVALID_RKEY) && (uct_rkey != 0);
}

/* The VC keeps the order of operations. RMA needs no connection, but a closing peer sends END only
 * to connected peers. */
static ucs_status_t uct_glex_rma_vc(uct_glex_ep_t *ep, uct_glex_vc_t **vc_p)
{
    ucs_status_t status = uct_glex_ep_make_vc(ep);

    if (status == UCS_OK) {
        *vc_p = ep->vc;
        if (ucs_unlikely((ep->vc->status != UCS_OK) || ep->is_cancelled)) {
            status = uct_glex_ep_not_ready(ep); /* the VC has failed, or the peer has left */
        }
    }
    return status;
}

/* The endpoint that requests for memory of `rkey` go to. On this host the domain's endpoint holds
 * the registration. On another host requests go to the peer's endpoint, which serves the domain's
 * memory: the peer polls this endpoint, and requests keep the order with messages. The domain's
 * endpoint has another connection, and perhaps nobody polls it. */
static uint64_t uct_glex_rma_dest(const uct_glex_vc_t *vc, const uct_glex_rkey_t *rkey)
{
    return uct_glex_vc_is_remote(vc) ? vc->peer : rkey->packed.ep_addr;
}

static int uct_glex_rma_flags(const uct_glex_vc_t *vc, const uct_glex_rkey_t *rkey)
{
    int is_domain = uct_glex_vc_is_remote(vc) && (vc->peer != rkey->packed.ep_addr);

    return (vc->iface->fence ? GLEX_FLAG_FENCE : 0) | (is_domain ? GLEX_EXT_FLAG_DOMAIN : 0);
}

/* Finds the registration handle and offset of a request. The handles of the key's windows must be
 * here. */
static uct_glex_place_t uct_glex_rma_place(const uct_glex_rkey_t *rkey, uint64_t remote_addr)
{
    uint64_t offset = remote_addr - rkey->packed.address;
    uct_glex_place_t place = {.mh.v = rkey->packed.mh, .offset = offset};
    unsigned window;

    if (ucs_unlikely(rkey->windows != NULL)) {
        window = uct_glex_window_of(rkey->windows->num, offset);
        place.mh = rkey->windows->mh[window];
        place.offset = offset - uct_glex_window_begin(window);
    }
    return place;
}

static void uct_glex_rma_fill(const uct_glex_vc_t *vc, glex_rdma_req_t *req, int type,
                              uint64_t remote_addr, const uct_glex_rkey_t *rkey)
{
    uct_glex_place_t place = uct_glex_rma_place(rkey, remote_addr);

    req->rmt_ep_addr.v = uct_glex_rma_dest(vc, rkey);
    req->rmt_mh = place.mh;
    req->rmt_offset = place.offset;
    req->rmt_key = rkey->packed.key;
    req->type = (enum glex_rdma_type)type;
    req->flag = uct_glex_rma_flags(vc, rkey);
    req->next = NULL;
}

static ucs_status_t uct_glex_rma_check_range(const uct_glex_rkey_t *rkey, uint64_t remote_addr,
                                             size_t length)
{
    uint64_t offset = remote_addr - rkey->packed.address;

    if ((offset > rkey->packed.length) || (length > rkey->packed.length - offset)) {
        ucs_error("glex: remote access to 0x%" PRIx64 " length %zu is outside of the registration "
                  "0x%" PRIx64 " length %" PRIu64,
                  remote_addr, length, rkey->packed.address, rkey->packed.length);
        return UCS_ERR_INVALID_ADDR;
    }
    return UCS_OK;
}

/* Post the request of an operation. The event of the operation has the type `event`. If the NIC
 * refuses the request, the operation is cancelled. */
static ucs_status_t uct_glex_rma_post(glex_rdma_req_t *req, uct_glex_op_t *op,
                                      enum uct_glex_event_type event)
{
    uct_glex_iface_t *iface = op->vc->iface;
    glex_ret_t ret;

    req->flag |= GLEX_FLAG_LOCAL_EVT;
    req->local_evt.cookie_0 = 0;
    req->local_evt.cookie_1 = uct_glex_op_cookie_1(event, op->id);
    ret = glex_rdma(iface->nic, req, NULL);
    if (ret != GLEX_SUCCESS) {
        uct_glex_op_cancel(op);
        return uct_glex_status(ret);
    }
    iface->fence = 0;
    uct_glex_op_posted(op, 1);
    return UCS_OK;
}

/* Make an operation with a bounce buffer. `ep` may be NULL. */
static ucs_status_t uct_glex_rma_op_new(uct_glex_vc_t *vc, const uct_ep_t *ep,
                                        uct_completion_t *comp, uct_glex_op_t **op_p)
{
    ucs_status_t status = uct_glex_op_new(vc, UCT_GLEX_OP_RMA, comp, op_p);

    if (status == UCS_OK) {
        (*op_p)->ep = ep;
        status = uct_glex_buf_get(&vc->iface->ops.bounce, 0, &(*op_p)->buf);
        if (status != UCS_OK) {
            uct_glex_op_cancel(*op_p);
        }
    }
    return status;
}

/* Post a request between the operation's bounce buffer and remote memory */
static ucs_status_t uct_glex_rma_post_bounce(uct_glex_op_t *op, int type, size_t length,
                                             uint64_t remote_addr, const uct_glex_rkey_t *rkey)
{
    glex_rdma_req_t req;

    uct_glex_rma_fill(op->vc, &req, type, remote_addr, rkey);
    req.local_mh = op->buf->mh;
    req.local_offset = op->buf->offset;
    req.len = length;
    return uct_glex_rma_post(&req, op, UCT_GLEX_EVENT_OP);
}

/* RDMA that ends before the call returns. If the peer is gone, progress fails the VC: until then the
 * request waits, because the program must not see an error before the reason is logged. If the peer
 * refuses access to its memory, progress fails the endpoint. */
static ucs_status_t uct_glex_rma_now(uct_glex_ep_t *ep, int type, void *buffer, size_t length,
                                     uint64_t remote_addr, const uct_glex_rkey_t *rkey)
{
    uct_glex_vc_t *vc = ep->vc;
    uct_glex_iface_t *iface = vc->iface;
    glex_rdma_req_t req;
    glex_ret_t ret;

    uct_glex_rma_fill(vc, &req, type, remote_addr, rkey);
    req.len = length;
    ret = glex_ext_rdma_now(iface->nic, &req, buffer);
    if (ret == GLEX_SUCCESS) {
        vc->dirty |= (type == GLEX_RDMA_TYPE_PUT);
        iface->fence = 0;
        return UCS_OK;
    }
    if (ret == GLEX_BUSY) {
        return UCS_ERR_NO_RESOURCE;
    }
    if (ret == GLEX_NO_MEM_RESOURCE) { /* the peer, the key and the memory may be valid */
        ucs_error(
            "glex: %zu bytes at 0x%" PRIx64 " of endpoint 0x%" PRIx64 " cannot be reached: this "
            "process has no memory, descriptors (ulimit -n) or mappings (vm.max_map_count) left",
            length, remote_addr, rkey->packed.ep_addr);
        return UCS_ERR_NO_MEMORY;
    }
    if (ret == GLEX_NO_EP_RESOURCE) {
        uct_glex_vc_dead(vc);
        return UCS_ERR_NO_RESOURCE;
    }
    ucs_error("glex: %s of %zu bytes at 0x%" PRIx64 " of endpoint 0x%" PRIx64 " refused: %s",
              (type == GLEX_RDMA_TYPE_PUT) ? "put" : "get", length, remote_addr,
              rkey->packed.ep_addr, glex_error_str(ret));
    uct_glex_ep_refused(ep);
    return UCS_ERR_ENDPOINT_TIMEOUT;
}

static void uct_glex_windows_unpack(void *arg, const void *data, size_t length)
{
    memcpy(((uct_glex_windows_t *)arg)->mh, data, length);
}

static void uct_glex_windows_done(uct_completion_t *comp)
{
    uct_glex_windows_t *windows = ucs_container_of(comp, uct_glex_windows_t, comp);

    /* release: pairs with the acquire of uct_glex_rma_check() */
    __atomic_store_n(&windows->state,
                     (comp->status == UCS_OK) ? UCT_GLEX_WINDOWS_READY : UCT_GLEX_WINDOWS_NONE,
                     __ATOMIC_RELEASE);
    uct_glex_windows_put(windows);
}

/* Post an operation that gets the handles. The operation ends by uct_glex_windows_done(). */
static ucs_status_t uct_glex_windows_post(uct_glex_ep_t *ep, uct_glex_windows_t *windows,
                                          const uct_glex_rkey_t *table)
{
    ucs_status_t status;
    uct_glex_op_t *op;

    if (table->packed.length > ep->vc->iface->config.rma_buf_size) {
        ucs_error(
            "glex: the key of a registration of %u windows needs UCX_GLEX_RMA_BUF_SIZE=%" PRIu64
            " or more",
            windows->num, table->packed.length);
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    status = uct_glex_rma_op_new(ep->vc, &ep->super.super, &windows->comp, &op);
    if (status != UCS_OK) {
        return status;
    }
    windows->comp.func = uct_glex_windows_done;
    windows->comp.count = 1;
    windows->comp.status = UCS_OK;
    op->unpack_cb = uct_glex_windows_unpack;
    op->arg = windows;
    op->length = table->packed.length;
    status = uct_glex_rma_post_bounce(op, GLEX_RDMA_TYPE_GET, op->length, 0, table);
    if (status == UCS_OK) {
        __atomic_add_fetch(&windows->refs, 1, __ATOMIC_RELAXED);
    }
    return status;
}

/* Get the handles of a key's windows, once. NO_RESOURCE: the Get of the handles has not ended. */
static UCS_F_NOINLINE ucs_status_t uct_glex_rma_get_windows(uct_glex_ep_t *ep,
                                                            uct_glex_rkey_t *rkey)
{
    uct_glex_windows_t *windows = rkey->windows;
    uct_glex_rkey_t table = {.packed = rkey->packed};
    int state = UCT_GLEX_WINDOWS_NONE;
    ucs_status_t status;

    table.packed.address = 0;
    table.packed.length = windows->num * sizeof(windows->mh[0]);
    /* acquire: pairs with the release of the interface that got the handles */
    if (!__atomic_compare_exchange_n(&windows->state, &state, UCT_GLEX_WINDOWS_FETCHING, 0,
                                     __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        if (state == UCT_GLEX_WINDOWS_READY) {
            return UCS_OK;
        }
        uct_glex_iface_recheck(ep->vc->iface); /* another interface may be getting the handles */
        return UCS_ERR_NO_RESOURCE;
    }
    if (uct_glex_md_rdma_now(ep->vc->iface->md)) {
        status =
            uct_glex_rma_now(ep, GLEX_RDMA_TYPE_GET, windows->mh, table.packed.length, 0, &table);
        state = (status == UCS_OK) ? UCT_GLEX_WINDOWS_READY : UCT_GLEX_WINDOWS_NONE;
    } else {
        status = uct_glex_windows_post(ep, windows, &table);
        if (status == UCS_OK) {
            return UCS_ERR_NO_RESOURCE; /* until the operation has ended */
        }
        state = UCT_GLEX_WINDOWS_NONE;
    }
    __atomic_store_n(&windows->state, state, __ATOMIC_RELEASE);
    return status;
}

/* Check the range of a request by a key, and get the handles of the key's windows */
static ucs_status_t uct_glex_rma_check(uct_glex_ep_t *ep, uct_glex_rkey_t *rkey,
                                       uint64_t remote_addr, size_t length)
{
    ucs_status_t status = uct_glex_rma_check_range(rkey, remote_addr, length);

    if ((status != UCS_OK) || ucs_likely(rkey->windows == NULL) ||
        /* acquire: pairs with the release of the interface that got the handles */
        (__atomic_load_n(&rkey->windows->state, __ATOMIC_ACQUIRE) == UCT_GLEX_WINDOWS_READY)) {
        return status;
    }
    return uct_glex_rma_get_windows(ep, rkey);
}

/* The completion reports a refusal when progress fails the endpoint, as for requests that end
 * later: UCP expects both at the same time */
static ucs_status_t uct_glex_rma_refused(uct_glex_ep_t *ep, ucs_status_t status,
                                         uct_completion_t *comp)
{
    return (ep->is_refused && (status == UCS_ERR_ENDPOINT_TIMEOUT) && (comp != NULL)) ?
               uct_glex_op_end_later(ep->vc, &ep->super.super, comp, status) :
               status;
}

/* A put or get that ends before the function returns: a copy if the memory is mapped, else
 * uct_glex_rma_now() */
static ucs_status_t uct_glex_rma_move_now(uct_glex_ep_t *ep, int type, void *buffer, size_t length,
                                          uint64_t remote_addr, uct_glex_rkey_t *rkey)
{
    void *ptr = uct_glex_rma_ptr(ep->vc->iface, remote_addr, length, (uct_rkey_t)rkey);

    if (ptr == NULL) {
        return uct_glex_rma_now(ep, type, buffer, length, remote_addr, rkey);
    }
    if (type == GLEX_RDMA_TYPE_PUT) {
        ep->vc->dirty = 1;
        uct_glex_copy(ptr, buffer, length);
    } else {
        uct_glex_copy(buffer, ptr, length);
    }
    return UCS_OK;
}

ucs_status_t uct_glex_rma_track_puts(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    glex_rdma_req_t req = {.type = GLEX_RDMA_TYPE_PUT, .flag = GLEX_FLAG_FENCE};
    ucs_status_t status;
    uct_glex_op_t *op;

    if (uct_glex_md_rdma_now(iface->md)) {
        return UCS_OK;
    }
    status = uct_glex_rma_op_new(vc, NULL, NULL, &op);
    if (status != UCS_OK) {
        return status;
    }
    req.rmt_ep_addr.v = iface->ep_addr;
    req.rmt_mh = op->buf->mh;
    req.rmt_offset = op->buf->offset;
    req.rmt_key = iface->md->key;
    return uct_glex_rma_post(&req, op, UCT_GLEX_EVENT_PUTS);
}

/* No immediate put of the VC is in flight: forget the endpoints that posted immediate puts */
static void uct_glex_rma_forget_puts(uct_glex_vc_t *vc)
{
    uct_glex_ep_t *ep;

    ucs_list_for_each(ep, &vc->eps, list) {
        ep->has_put = 0;
    }
}

/* A late refusal names only the VC's peer: uct_glex_error_put_refused() */
static ucs_status_t uct_glex_rma_imm_put(uct_glex_ep_t *ep, const void *buffer, unsigned length,
                                         uint64_t remote_addr, const uct_glex_rkey_t *rkey)
{
    uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    uct_glex_place_t place = uct_glex_rma_place(rkey, remote_addr);
    glex_imm_rdma_req_t req;
    glex_ret_t ret;

    req.rmt_ep_addr.v = uct_glex_rma_dest(ep->vc, rkey);
    req.data = (void *)buffer;
    req.len = length;
    req.rmt_mh = place.mh;
    req.rmt_offset = place.offset;
    req.rmt_key = rkey->packed.key;
    req.flag = uct_glex_rma_flags(ep->vc, rkey);
    req.next = NULL;
    if (!ep->vc->dirty && ucs_queue_is_empty(&ep->vc->tx_ops)) {
        uct_glex_rma_forget_puts(ep->vc);
    }
    ep->has_put = 1;
    ep->vc->dirty = 1;
    ret = glex_imm_rdma(iface->nic, &req, NULL);
    if (ret != GLEX_SUCCESS) {
        return uct_glex_status(ret);
    }
    iface->fence = 0;
    return UCS_OK;
}

static UCS_F_NOINLINE ucs_status_t uct_glex_ep_put_short_any(uct_glex_ep_t *ep, const void *buffer,
                                                             unsigned length, uint64_t remote_addr,
                                                             uct_rkey_t uct_rkey)
{
    uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;
    ucs_status_t status;
    uct_glex_vc_t *vc;
    uct_glex_op_t *op;
    void *ptr;

    UCT_CHECK_LENGTH(length, 0, iface->config.max_rma_short, "put_short");
    status = uct_glex_rma_vc(ep, &vc);
    if (status != UCS_OK) {
        return status;
    }
    if (length == 0) {
        return uct_glex_ep_probe(ep); /* the key need not be valid */
    }
    ptr = uct_glex_rma_ptr(iface, remote_addr, length, uct_rkey);
    if (ucs_likely(ptr != NULL)) {
        uct_glex_copy(ptr, buffer, length);
        vc->dirty = 1;
        return UCS_OK;
    }
    status = uct_glex_rma_check(ep, rkey, remote_addr, length);
    if (status != UCS_OK) {
        return status;
    }
    if (uct_glex_md_rdma_now(iface->md)) {
        return uct_glex_rma_now(ep, GLEX_RDMA_TYPE_PUT, (void *)buffer, length, remote_addr, rkey);
    }
    if (uct_glex_rma_dest(vc, rkey) == vc->peer) {
        return uct_glex_rma_imm_put(ep, buffer, length, remote_addr, rkey);
    }
    status = uct_glex_rma_op_new(vc, &ep->super.super, NULL, &op);
    if (status != UCS_OK) {
        return status;
    }
    memcpy(op->buf->ptr, buffer, length);
    return uct_glex_rma_post_bounce(op, GLEX_RDMA_TYPE_PUT, length, remote_addr, rkey);
}

ucs_status_t uct_glex_ep_put_short(uct_ep_h tl_ep, const void *buffer, unsigned length,
                                   uint64_t remote_addr, uct_rkey_t uct_rkey)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    ucs_status_t status;
    void *ptr;

    /* The fast path for flags and counters: one store */
    if (length == sizeof(uint64_t)) {
        ptr = uct_glex_rma_only_copy(ep, remote_addr, sizeof(uint64_t), uct_rkey);
        if (ucs_likely(ptr != NULL)) {
            memcpy(ptr, buffer, sizeof(uint64_t));
            ep->vc->dirty = 1;
            UCT_TL_EP_STAT_OP(&ep->super, PUT, SHORT, length);
            return UCS_OK;
        }
    }
    status = uct_glex_ep_put_short_any(ep, buffer, length, remote_addr, uct_rkey);
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super, PUT, SHORT, length);
    return status;
}

ucs_status_t uct_glex_ep_get_short(uct_ep_h tl_ep, void *buffer, unsigned length,
                                   uint64_t remote_addr, uct_rkey_t uct_rkey)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;
    ucs_status_t status;
    uct_glex_vc_t *vc;

    UCT_CHECK_LENGTH(length, 0,
                     ucs_derived_of(tl_ep->iface, uct_glex_iface_t)->config.max_rma_short,
                     "get_short");
    status = uct_glex_rma_vc(ep, &vc);
    if ((status == UCS_OK) && (length > 0)) { /* without data, the key need not be valid */
        status = uct_glex_rma_check(ep, rkey, remote_addr, length);
        if (status == UCS_OK) {
            status =
                uct_glex_rma_move_now(ep, GLEX_RDMA_TYPE_GET, buffer, length, remote_addr, rkey);
        }
    }
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super, GET, SHORT, length);
    return status;
}

/* Pack into a bounce buffer, and put the buffer. Returns the length, or an error. */
static ssize_t uct_glex_rma_put_packed(uct_glex_ep_t *ep, uct_pack_callback_t pack_cb, void *arg,
                                       uint64_t remote_addr, uct_glex_rkey_t *rkey)
{
    ucs_status_t status;
    uct_glex_op_t *op;
    size_t length;

    status = uct_glex_rma_op_new(ep->vc, &ep->super.super, NULL, &op);
    if (status != UCS_OK) {
        return status;
    }
    length = pack_cb(op->buf->ptr, arg);
    if (length > 0) { /* without data, the key need not be valid */
        status = uct_glex_rma_check(ep, rkey, remote_addr, length);
    }
    if ((status == UCS_OK) && (length > 0)) {
        status = uct_glex_rma_post_bounce(op, GLEX_RDMA_TYPE_PUT, length, remote_addr, rkey);
    } else {
        uct_glex_op_cancel(op); /* the operation was not posted */
    }
    return (status == UCS_OK) ? (ssize_t)length : (ssize_t)status;
}

/* uct_glex_rma_put_packed() for a NIC that executes a put at once. The put needs no operation. */
static ssize_t uct_glex_rma_put_packed_now(uct_glex_ep_t *ep, uct_pack_callback_t pack_cb,
                                           void *arg, uint64_t remote_addr, uct_glex_rkey_t *rkey)
{
    uct_glex_buf_t *buf;
    ucs_status_t status;
    size_t length;

    status = uct_glex_buf_get(&ep->vc->iface->ops.bounce, 0, &buf);
    if (status != UCS_OK) {
        return status;
    }
    length = pack_cb(buf->ptr, arg);
    if (length > 0) { /* without data, the key need not be valid */
        status = uct_glex_rma_check(ep, rkey, remote_addr, length);
    }
    if ((status == UCS_OK) && (length > 0)) {
        status = uct_glex_rma_move_now(ep, GLEX_RDMA_TYPE_PUT, buf->ptr, length, remote_addr, rkey);
    }
    uct_glex_buf_put(buf);
    return (status == UCS_OK) ? (ssize_t)length : (ssize_t)status;
}

/* The slow path of uct_glex_ep_put_bcopy(): the first put to the peer or with the key, or a put
 * that cannot be packed in place */
static UCS_F_NOINLINE ssize_t uct_glex_rma_put_bcopy(uct_glex_ep_t *ep, uct_pack_callback_t pack_cb,
                                                     void *arg, uint64_t remote_addr,
                                                     uct_rkey_t uct_rkey)
{
    uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;
    ucs_status_t status;
    void *ptr = NULL;
    uct_glex_vc_t *vc;

    status = uct_glex_rma_vc(ep, &vc);
    if (status != UCS_OK) {
        return status;
    }
    if (uct_glex_rkey_is_valid(uct_rkey)) {
        ptr = uct_glex_rma_ptr(iface, remote_addr, iface->config.rma_buf_size, uct_rkey);
    }
    if (ptr != NULL) {
        vc->dirty = 1;
        return pack_cb(ptr, arg);
    }
    return uct_glex_md_rdma_now(iface->md) ?
               uct_glex_rma_put_packed_now(ep, pack_cb, arg, remote_addr, rkey) :
               uct_glex_rma_put_packed(ep, pack_cb, arg, remote_addr, rkey);
}

ssize_t uct_glex_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb, void *arg,
                              uint64_t remote_addr, uct_rkey_t uct_rkey)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    uct_glex_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_glex_iface_t);
    void *ptr = NULL;
    ssize_t ret;

    /* The length is known only after pack_cb. So pack in place if the maximum fits */
    if (ucs_likely(uct_glex_rkey_is_valid(uct_rkey))) {
        ptr = uct_glex_rma_only_copy(ep, remote_addr, iface->config.rma_buf_size, uct_rkey);
    }
    if (ucs_likely(ptr != NULL)) {
        ep->vc->dirty = 1;
        ret = pack_cb(ptr, arg);
    } else {
        ret = uct_glex_rma_put_bcopy(ep, pack_cb, arg, remote_addr, uct_rkey);
    }
    UCT_TL_EP_STAT_OP_IF_SUCCESS(ret, &ep->super, PUT, BCOPY, ret);
    return ret;
}

static ucs_status_t uct_glex_rma_get_bcopy(uct_glex_ep_t *ep, uct_unpack_callback_t unpack_cb,
                                           void *arg, size_t length, uint64_t remote_addr,
                                           uct_rkey_t uct_rkey, uct_completion_t *comp)
{
    uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;
    ucs_status_t status;
    uct_glex_vc_t *vc;
    uct_glex_op_t *op;
    void *ptr;

    UCT_CHECK_LENGTH(length, 0, iface->config.rma_buf_size, "get_bcopy");
    ptr = ucs_likely(length > 0) ? uct_glex_rma_only_copy(ep, remote_addr, length, uct_rkey) : NULL;
    if (ucs_likely(ptr != NULL)) {
        unpack_cb(arg, ptr, length);
        return UCS_OK;
    }
    status = uct_glex_rma_vc(ep, &vc);
    if (status != UCS_OK) {
        return status;
    }
    if (length == 0) {
        unpack_cb(arg, NULL, 0);
        return UCS_OK;
    }
    ptr = uct_glex_rma_ptr(iface, remote_addr, length, uct_rkey);
    if (ptr != NULL) {
        unpack_cb(arg, ptr, length);
        return UCS_OK;
    }
    status = uct_glex_rma_check(ep, rkey, remote_addr, length);
    if (status != UCS_OK) {
        return status;
    }
    status = uct_glex_rma_op_new(vc, &ep->super.super, comp, &op);
    if (status != UCS_OK) {
        return status;
    }
    if (uct_glex_md_rdma_now(iface->md)) {
        status = uct_glex_rma_now(ep, GLEX_RDMA_TYPE_GET, op->buf->ptr, length, remote_addr, rkey);
        if (status == UCS_OK) {
            unpack_cb(arg, op->buf->ptr, length);
        }
        uct_glex_op_cancel(op);
        return uct_glex_rma_refused(ep, status, comp);
    }
    op->unpack_cb = unpack_cb;
    op->arg = arg;
    op->length = length;
    status = uct_glex_rma_post_bounce(op, GLEX_RDMA_TYPE_GET, length, remote_addr, rkey);
    return (status == UCS_OK) ? UCS_INPROGRESS : status;
}

ucs_status_t uct_glex_ep_get_bcopy(uct_ep_h tl_ep, uct_unpack_callback_t unpack_cb, void *arg,
                                   size_t length, uint64_t remote_addr, uct_rkey_t rkey,
                                   uct_completion_t *comp)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    ucs_status_t status =
        uct_glex_rma_get_bcopy(ep, unpack_cb, arg, length, remote_addr, rkey, comp);

    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super, GET, BCOPY, length);
    return status;
}

static ucs_status_t uct_glex_rma_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iovcnt,
                                       uint64_t remote_addr, uct_glex_rkey_t *rkey,
                                       uct_completion_t *comp, int type)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    uct_glex_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_glex_iface_t);
    size_t length = uct_iov_total_length(iov, iovcnt);
    uct_glex_place_t local;
    glex_rdma_req_t req;
    ucs_status_t status;
    uct_glex_vc_t *vc;
    uct_glex_op_t *op;

    /* One piece only: if the NIC refused a second piece, the first piece could not be withdrawn */
    UCT_CHECK_IOV_SIZE(iovcnt, 1UL, "uct_glex_rma_zcopy");
    status = uct_glex_rma_vc(ep, &vc);
    if ((status != UCS_OK) || (length == 0)) {
        return status;
    }
    status = uct_glex_rma_check(ep, rkey, remote_addr, length);
    if (status != UCS_OK) {
        return status;
    }
    if (uct_glex_md_rdma_now(iface->md)) {
        status = uct_glex_rma_move_now(ep, type, iov->buffer, length, remote_addr, rkey);
        return uct_glex_rma_refused(ep, status, comp);
    }
    status = uct_glex_op_new(vc, UCT_GLEX_OP_RMA, comp, &op);
    if (status != UCS_OK) {
        return status;
    }
    op->ep = tl_ep;
    status = uct_glex_memh_place(iface->md, iov->memh, iface->ep_index, iov->buffer, &local);
    if (status != UCS_OK) {
        uct_glex_op_cancel(op);
        return status;
    }
    uct_glex_rma_fill(vc, &req, type, remote_addr, rkey);
    req.local_mh = local.mh;
    req.local_offset = local.offset;
    req.len = length;
    status = uct_glex_rma_post(&req, op, UCT_GLEX_EVENT_OP);
    return (status == UCS_OK) ? UCS_INPROGRESS : status;
}

ucs_status_t uct_glex_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iovcnt,
                                   uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t *comp)
{
    ucs_status_t status = uct_glex_rma_zcopy(tl_ep, iov, iovcnt, remote_addr,
                                             (uct_glex_rkey_t *)rkey, comp, GLEX_RDMA_TYPE_PUT);

    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, ucs_derived_of(tl_ep, uct_base_ep_t), PUT, ZCOPY,
                                 uct_iov_total_length(iov, iovcnt));
    return status;
}

ucs_status_t uct_glex_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iovcnt,
                                   uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t *comp)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    ucs_status_t status;
    size_t length;
    void *ptr;

    /* UCP uses get_zcopy for gets of any length */
    if (ucs_likely(iovcnt == 1)) {
        length = uct_iov_total_length(iov, 1);
        ptr = ucs_likely(length > 0) ? uct_glex_rma_only_copy(ep, remote_addr, length, rkey) : NULL;
        if (ucs_likely(ptr != NULL)) {
            uct_glex_copy(iov->buffer, ptr, length);
            UCT_TL_EP_STAT_OP(&ep->super, GET, ZCOPY, length);
            return UCS_OK;
        }
    }
    status = uct_glex_rma_zcopy(tl_ep, iov, iovcnt, remote_addr, (uct_glex_rkey_t *)rkey, comp,
                                GLEX_RDMA_TYPE_GET);
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super, GET, ZCOPY, uct_iov_total_length(iov, iovcnt));
    return status;
}
