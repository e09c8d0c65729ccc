#include "chan/glex_op.h"
#include "chan/glex_rx.h"
#include "core/glex_ep.h"

#include <ucs/arch/cpu.h>
#include <ucs/datastruct/queue.h>

/* Lower bits of an id: index in the table. Upper bits: generation, so that a late event of a failed
 * operation does not end the successor. */
#define UCT_GLEX_OP_INDEX_BITS 20
#define UCT_GLEX_OP_INDEX_MASK UCS_MASK(UCT_GLEX_OP_INDEX_BITS)

/* An operation object keeps its index for life, even while it is free. `events` is not 0 only from
 * posting to completion. */
static void uct_glex_op_obj_init(ucs_mpool_t *mp, void *obj, void *chunk)
{
    uct_glex_iface_t *iface = ucs_container_of(mp, uct_glex_iface_t, ops.mp);
    uct_glex_op_t *op = obj;

    op->events = 0;
    op->held = 0;
    op->id = ucs_ptr_array_insert(&iface->ops.table, op);
    ucs_assert_always(op->id <= UCT_GLEX_OP_INDEX_MASK);
}

static void uct_glex_op_obj_cleanup(ucs_mpool_t *mp, void *obj)
{
    uct_glex_iface_t *iface = ucs_container_of(mp, uct_glex_iface_t, ops.mp);
    uct_glex_op_t *op = obj;

    ucs_ptr_array_remove(&iface->ops.table, op->id & UCT_GLEX_OP_INDEX_MASK);
}

static ucs_mpool_ops_t uct_glex_op_mpool_ops = {.chunk_alloc = ucs_mpool_chunk_malloc,
                                                .chunk_release = ucs_mpool_chunk_free,
                                                .obj_init = uct_glex_op_obj_init,
                                                .obj_cleanup = uct_glex_op_obj_cleanup,
                                                .obj_str = NULL};

ucs_status_t uct_glex_op_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config)
{
    ucs_status_t status;

    ucs_ptr_array_init(&iface->ops.table, "glex_ops");
    status = uct_glex_mpool_init(&iface->ops.mp, sizeof(uct_glex_op_t), sizeof(void *), 64,
                                 UCT_GLEX_OP_INDEX_MASK, &uct_glex_op_mpool_ops, "glex_op");
    if (status != UCS_OK) {
        return status;
    }
    status = uct_glex_buf_pool_init(&iface->ops.bounce, iface->md, iface->nic,
                                    GLEX_MEM_READ | GLEX_MEM_WRITE, config->rma_buf_size, 8,
                                    ucs_max(config->rma_req_capacity, 8), "glex_rma_bounce");
    if (status != UCS_OK) {
        return status;
    }
    iface->ops.shares[UCT_GLEX_OP_SR].max = config->srq_capacity;
    iface->ops.shares[UCT_GLEX_OP_ZC].max = config->zc_req_capacity;
    iface->ops.shares[UCT_GLEX_OP_RMA].max = config->rma_req_capacity;
    iface->ops.next_gen = iface->uuid;
    return uct_glex_buf_pool_init(&iface->ops.words, iface->md, iface->nic, GLEX_MEM_READ,
                                  UCS_SYS_CACHE_LINE_SIZE, 64, ucs_max(config->zc_req_capacity, 1),
                                  "glex_zc_word");
}

void uct_glex_op_cleanup(uct_glex_iface_t *iface)
{
    uct_glex_buf_pool_cleanup(&iface->ops.words);
    uct_glex_buf_pool_cleanup(&iface->ops.bounce);
    uct_glex_mpool_cleanup(&iface->ops.mp);
    ucs_ptr_array_cleanup(&iface->ops.table, 1);
}

static int uct_glex_op_is_shared(enum uct_glex_op_type type)
{
    return type < UCT_GLEX_SHARES;
}

ucs_status_t uct_glex_op_new(uct_glex_vc_t *vc, enum uct_glex_op_type type, uct_completion_t *comp,
                             uct_glex_op_t **op_p)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_op_t *op;

    if (uct_glex_op_is_shared(type) && !uct_glex_op_is_allowed(vc, type)) {
        return UCS_ERR_NO_RESOURCE;
    }
    op = ucs_mpool_get_inline(&iface->ops.mp);
    if (op == NULL) {
        return ucs_mpool_is_empty(&iface->ops.mp) ? UCS_ERR_NO_RESOURCE : UCS_ERR_NO_MEMORY;
    }
    if (uct_glex_op_is_shared(type)) {
        ++iface->ops.shares[type].used;
        ++vc->held[type];
    }
    ++vc->num_ops;
    op->vc = vc;
    op->ep = NULL;
    op->comp = comp;
    op->buf = NULL;
    op->memh = NULL;
    op->id = (op->id & UCT_GLEX_OP_INDEX_MASK) |
             ((uint32_t)iface->ops.next_gen++ << UCT_GLEX_OP_INDEX_BITS);
    op->unpack_cb = NULL;
    op->type = type;
    op->done = (type == UCT_GLEX_OP_FLUSH);
    op->status = UCS_OK;
    *op_p = op;
    return UCS_OK;
}

static void uct_glex_op_free(uct_glex_op_t *op)
{
    --op->vc->num_ops;
    op->held = 0;
    ucs_mpool_put_inline(op);
}

/* Remove the operation from its VC's share */
static void uct_glex_op_unshare(uct_glex_op_t *op)
{
    if (uct_glex_op_is_shared(op->type)) {
        --op->vc->iface->ops.shares[op->type].used;
        --op->vc->held[op->type];
    }
}

static void uct_glex_op_forget(uct_glex_op_t *op)
{
    uct_glex_iface_t *iface = op->vc->iface;

    if (!op->held) {
        uct_glex_op_unshare(op);
    }
    if (op->buf != NULL) {
        uct_glex_buf_put(op->buf);
        op->buf = NULL;
    }
    if (op->memh != NULL) {
        uct_glex_memh_free_all(iface->md, op->memh);
        op->memh = NULL;
    }
}

void uct_glex_op_cancel(uct_glex_op_t *op)
{
    uct_glex_op_forget(op);
    uct_glex_op_free(op);
}

glex_ret_t uct_glex_op_get(uct_glex_vc_t *vc, const uct_glex_get_t *get, const uct_glex_buf_t *buf,
                           uint32_t offset, const uct_glex_op_t *op, int flags)
{
    glex_rdma_req_t req = {
        .rmt_ep_addr = {.v = vc->peer},
        .len = get->length,
        .rmt_mh = {.v = get->mh},
        .rmt_offset = get->offset,
        .type = GLEX_RDMA_TYPE_GET,
        .rmt_evt = {.cookie_1 = uct_glex_op_cookie_1(UCT_GLEX_EVENT_OP, get->op_id)},
        .rmt_key = vc->peer_key,
        .flag = GLEX_EXT_FLAG_NO_LOSS | flags};
    glex_ret_t ret;

    if (op != NULL) {
        req.local_mh = buf->mh;
        req.local_offset = buf->offset + offset;
        req.local_evt.cookie_1 = uct_glex_op_cookie_1(UCT_GLEX_EVENT_OP, op->id);
        req.flag |= GLEX_FLAG_LOCAL_EVT;
    }
    ret = glex_rdma(vc->iface->nic, &req, NULL);
    if (ret == GLEX_BUSY) {
        uct_glex_iface_retry(vc->iface); /* no event reports that the NIC is ready */
    } else if (ret != GLEX_SUCCESS) {
        ucs_error("glex: cannot fetch %u bytes from endpoint 0x%" PRIx64 ": %s", get->length,
                  vc->peer, glex_error_str(ret));
    }
    return ret;
}

void uct_glex_op_posted(uct_glex_op_t *op, unsigned events)
{
    op->events = events;
    if (op->type != UCT_GLEX_OP_FETCH) {
        ++op->vc->iface->ops.outstanding;
        ucs_queue_push(&op->vc->tx_ops, &op->queue);
    }
}

/* Call the completion, unless it was called before */
static void uct_glex_op_invoke_comp(uct_glex_op_t *op, ucs_status_t status)
{
    uct_completion_t *comp = op->comp;

    op->comp = NULL;
    op->unpack_cb = NULL;
    if (comp != NULL) {
        uct_invoke_completion(comp, status);
    }
}

/* Operations may end in any order, but a flush waits for the oldest operation. So free operations
 * from the head of the queue. */
static void uct_glex_op_retire(uct_glex_vc_t *vc)
{
    uct_glex_op_t *op;

    while (!ucs_queue_is_empty(&vc->tx_ops)) {
        op = ucs_queue_head_elem_non_empty(&vc->tx_ops, uct_glex_op_t, queue);
        if (!op->done) {
            break;
        }
        ucs_queue_pull_non_empty(&vc->tx_ops);
        uct_glex_op_invoke_comp(op, op->status); /* the completion of a flush */
        uct_glex_op_free(op);
    }
}

static void uct_glex_op_complete(uct_glex_op_t *op)
{
    ucs_status_t status = op->status;
    uct_glex_vc_t *vc = op->vc;

    if (op->type == UCT_GLEX_OP_FETCH) {
        uct_glex_op_forget(op);
        uct_glex_rx_fetched(op->arg, status);
        uct_glex_op_free(op);
        return;
    }
    if (op->held) {
        uct_glex_op_cancel(op); /* the completion was called when the VC failed */
        return;
    }

    if ((op->unpack_cb != NULL) && (status == UCS_OK)) {
        op->unpack_cb(op->arg, op->buf->ptr, op->length);
    }
    uct_glex_op_forget(op);
    op->done = 1;
    --vc->iface->ops.outstanding;
    ++vc->iface->done;
    uct_glex_op_invoke_comp(op, status);
    uct_glex_op_retire(vc);
    uct_glex_iface_recheck(vc->iface);
}

/* Returns NULL for late events of operations that have failed */
static uct_glex_op_t *uct_glex_op_find(uct_glex_iface_t *iface, uint32_t id)
{
    void *item = NULL;
    uct_glex_op_t *op;

    if (!ucs_ptr_array_lookup(&iface->ops.table, id & UCT_GLEX_OP_INDEX_MASK, item)) {
        return NULL;
    }
    op = item;
    return ((op->id == id) && (op->events > 0)) ? op : NULL;
}

void uct_glex_op_event(uct_glex_iface_t *iface, uint32_t id, ucs_status_t status)
{
    uct_glex_op_t *op = uct_glex_op_find(iface, id);

    if (op == NULL) {
        ucs_debug("glex: event for unknown or finished operation 0x%x", id);
        return;
    }
    if ((status != UCS_OK) && (op->status == UCS_OK)) {
        op->status = status;
    }
    if (--op->events == 0) {
        uct_glex_op_complete(op);
    }
}

void uct_glex_op_give_up(uct_glex_op_t *op, unsigned unposted)
{
    op->events -= unposted;
    if (op->events == 0) {
        uct_glex_op_complete(op);
    }
}

/* Returns the endpoint of the operation, or NULL if the endpoint is destroyed */
static uct_glex_ep_t *uct_glex_op_ep(const uct_glex_op_t *op)
{
    uct_glex_ep_t *ep;

    ucs_list_for_each(ep, &op->vc->eps, list) {
        if (&ep->super.super == op->ep) {
            return ep;
        }
    }
    return NULL;
}

void uct_glex_op_failed(uct_glex_iface_t *iface, uint32_t id, ucs_status_t status, int is_of_memory)
{
    uct_glex_op_t *op = uct_glex_op_find(iface, id);
    uct_glex_ep_t *ep;
    int is_over, is_refused;
    uct_glex_vc_t *vc;

    if (op == NULL) {
        return;
    }
    vc = op->vc;
    is_refused = is_of_memory && (op->type == UCT_GLEX_OP_RMA);
    is_over = (vc->state == UCT_GLEX_VC_FAILED) ||
              (op->type == UCT_GLEX_OP_FETCH);   /* uct_glex_rx_fetched() fails the VC if
                                                  * necessary */
    ep = is_refused ? uct_glex_op_ep(op) : NULL; /* NULL: the endpoint is cancelled, or destroyed */
    if (!is_over && (ep != NULL)) {
        ucs_error("glex: a put to or get from endpoint 0x%" PRIx64 " was refused: the key is "
                  "wrong, or its memory is not registered any more",
                  vc->peer);
        uct_glex_ep_refused(ep);
        uct_glex_vc_fail_refused(vc); /* before the event: a flush after the put must not succeed */
    }
    uct_glex_op_event(iface, id, status);
    if (!is_over && !is_refused) {
        uct_glex_vc_fail(vc, status);
    }
}

/* The program is about to get the payload of a zero-copy message back, and the peer may be fetching
 * the payload. The word tells the peer that the payload is invalid: the peer reads the word after
 * the payload. The fence orders the word before the program's later writes to the payload. */
static void uct_glex_op_invalidate(uct_glex_op_t *op)
{
    if (op->type == UCT_GLEX_OP_ZC) {
        __atomic_store_n((uint64_t *)op->buf->ptr, UCT_GLEX_ZC_INVALID, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        uct_glex_memh_free_all(op->vc->iface->md, op->memh);
        op->memh = NULL;
    }
}

/* An operation in flight is held, except a probe: its memory is not reused before the operation is
 * complete, or uct_glex_op_release_held() is called */
static void uct_glex_op_fail(uct_glex_op_t *op, ucs_status_t status)
{
    uct_glex_iface_t *iface = op->vc->iface;

    if (!op->done) {
        --iface->ops.outstanding;
        ++iface->done;
        uct_glex_op_invalidate(op);
        op->held = (op->type != UCT_GLEX_OP_PROBE);
        if (op->held) {
            uct_glex_op_unshare(op); /* other VCs may have operations in place of the held
                                      * operation */
        }
    }
    uct_glex_op_invoke_comp(op, status);
    if (!op->held) {
        op->events = 0;
        uct_glex_op_free(op);
    }
}

/* Zero-copy RMA: the NIC reads or writes the program's memory until the operation ends */
static int uct_glex_op_uses_memory(const uct_glex_op_t *op)
{
    return (op->type == UCT_GLEX_OP_RMA) && (op->buf == NULL) && !op->done;
}

/* Zero-copy puts and gets, and the flushes behind them, go on */
void uct_glex_op_fail_all(uct_glex_vc_t *vc, ucs_status_t status)
{
    ucs_queue_head_t ends, stays;
    uct_glex_op_t *op;

    ucs_queue_head_init(&ends);
    ucs_queue_head_init(&stays);
    while (!ucs_queue_is_empty(&vc->tx_ops)) {
        op = ucs_queue_pull_elem_non_empty(&vc->tx_ops, uct_glex_op_t, queue);
        if (uct_glex_op_uses_memory(op) ||
            ((op->type == UCT_GLEX_OP_FLUSH) && !ucs_queue_is_empty(&stays))) {
            op->status = status;
            ucs_queue_push(&stays, &op->queue);
        } else {
            ucs_queue_push(&ends, &op->queue);
        }
    }
    ucs_queue_splice(&vc->tx_ops, &stays); /* before calling completions, because a completion may
                                            * flush */
    vc->probing = 0;
    while (!ucs_queue_is_empty(&ends)) {
        uct_glex_op_fail(ucs_queue_pull_elem_non_empty(&ends, uct_glex_op_t, queue), status);
    }
}

/* End operations of the VC in flight. `all`: all of them. Otherwise only operations that are held
 * until the peer stops reading. */
static void uct_glex_op_end(uct_glex_vc_t *vc, int all)
{
    uct_glex_op_t *op;
    unsigned index;
    void *item;

    if (vc->num_ops == 0) {
        return;
    }
    ucs_ptr_array_for_each(item, index, &vc->iface->ops.table) {
        op = item;
        if ((op->events > 0) && (op->vc == vc) &&
            (all || (op->held && (op->type != UCT_GLEX_OP_RMA)))) {
            op->events = 0;
            op->status = UCS_ERR_CANCELED;
            uct_glex_op_complete(op);
        }
    }
}

void uct_glex_op_release_held(uct_glex_vc_t *vc)
{
    uct_glex_op_end(vc, 0);
}

uct_glex_buf_t *uct_glex_op_next_read(uct_glex_vc_t *vc, unsigned *cursor)
{
    const ucs_ptr_array_t *table = &vc->iface->ops.table;
    const uct_glex_op_t *op;
    void *item;

    while (*cursor < table->size) {
        if (!ucs_ptr_array_lookup(table, (*cursor)++, item)) {
            continue;
        }
        op = item;
        if ((op->events > 0) && (op->vc == vc) && (op->buf != NULL) &&
            ((op->type == UCT_GLEX_OP_SR) || (op->type == UCT_GLEX_OP_ZC))) {
            return op->buf;
        }
    }
    return NULL;
}

void uct_glex_op_abandon(uct_glex_vc_t *vc)
{
    uct_glex_op_end(vc, 1);
}

/* Returns an operation of the endpoint, or NULL. `uses_memory`: a zero-copy put or get, or a flush
 * behind one. Otherwise another operation. */
static uct_glex_op_t *uct_glex_op_of_ep(uct_glex_vc_t *vc, const uct_ep_t *ep, int uses_memory)
{
    int before = 0; /* an operation uses memory */
    uct_glex_op_t *op;

    ucs_queue_for_each(op, &vc->tx_ops, queue) {
        before |= uct_glex_op_uses_memory(op);
        if ((op->ep == ep) && (uses_memory == (uct_glex_op_uses_memory(op) ||
                                               (before && (op->type == UCT_GLEX_OP_FLUSH))))) {
            return op;
        }
    }
    return NULL;
}

static void uct_glex_op_cancel_some(uct_glex_vc_t *vc, const uct_ep_t *ep, ucs_status_t status,
                                    int uses_memory)
{
    uct_glex_op_t *op;

    /* A completion may destroy an endpoint, and destruction frees operations. So search anew after
     * each completion. */
    while ((op = uct_glex_op_of_ep(vc, ep, uses_memory)) != NULL) {
        op->ep = NULL;
        if (!op->done) {
            uct_glex_op_invalidate(op);
        }
        uct_glex_op_invoke_comp(op, status);
    }
    uct_glex_op_retire(vc); /* operations of uct_glex_op_end_later() */
}

int uct_glex_op_cancel_ep(uct_glex_vc_t *vc, const uct_ep_t *ep, ucs_status_t status)
{
    uct_glex_op_cancel_some(vc, ep, status, 0);
    return uct_glex_op_of_ep(vc, ep, 1) != NULL;
}

void uct_glex_op_drop_ep(uct_glex_vc_t *vc, const uct_ep_t *ep)
{
    uct_glex_op_cancel_some(vc, ep, UCS_ERR_CANCELED, 0);
    uct_glex_op_cancel_some(vc, ep, UCS_ERR_CANCELED, 1);
}

ucs_status_t uct_glex_op_probe(uct_glex_vc_t *vc)
{
    ucs_status_t status;
    uct_glex_op_t *op;

    if (vc->probing) {
        return UCS_OK;
    }
    status = uct_glex_op_new(vc, UCT_GLEX_OP_PROBE, NULL, &op);
    if (status != UCS_OK) {
        return status;
    }
    uct_glex_op_posted(op, 1);
    vc->probing = 1;
    return UCS_OK;
}

void uct_glex_op_end_probe(uct_glex_vc_t *vc)
{
    uct_glex_op_t *op;

    if (!vc->probing) {
        return;
    }
    vc->probing = 0;
    ucs_queue_for_each(op, &vc->tx_ops, queue) {
        if ((op->type == UCT_GLEX_OP_PROBE) && !op->done) {
            uct_glex_op_event(vc->iface, op->id, UCS_OK);
            break;
        }
    }
}

ucs_status_t uct_glex_op_end_later(uct_glex_vc_t *vc, const uct_ep_t *ep, uct_completion_t *comp,
                                   ucs_status_t status)
{
    ucs_status_t new_status;
    uct_glex_op_t *op;

    new_status = uct_glex_op_new(vc, UCT_GLEX_OP_FLUSH, comp, &op);
    if (new_status != UCS_OK) {
        return new_status;
    }
    op->ep = ep;
    op->status = status;
    ucs_queue_push(&vc->tx_ops, &op->queue);
    return UCS_INPROGRESS;
}

ucs_status_t uct_glex_op_flush(uct_glex_vc_t *vc, const uct_ep_t *ep, uct_completion_t *comp)
{
    if (ucs_queue_is_empty(&vc->tx_ops)) {
        return UCS_OK;
    }
    return (comp == NULL) ? UCS_INPROGRESS : uct_glex_op_end_later(vc, ep, comp, UCS_OK);
}
