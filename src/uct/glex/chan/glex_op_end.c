#include "chan/glex_op.h"
#include "chan/glex_rx.h"

#include <ucs/datastruct/queue.h>

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

uct_glex_op_t *uct_glex_op_find(uct_glex_iface_t *iface, uint32_t id)
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
        uct_glex_op_unshare(op); /* other VCs may have operations in place of a held operation */
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

    if (!uct_glex_op_is_allowed(vc, UCT_GLEX_OP_PROBE)) {
        return UCS_OK; /* a probe waits for the peer */
    }
    status = uct_glex_op_new(vc, UCT_GLEX_OP_PROBE, NULL, &op);
    if (status != UCS_OK) {
        return status;
    }
    uct_glex_op_posted(op, 1);
    return UCS_OK;
}

void uct_glex_op_end_probe(uct_glex_vc_t *vc)
{
    uct_glex_op_t *op;

    if (vc->held[UCT_GLEX_OP_PROBE] == 0) {
        return;
    }
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
