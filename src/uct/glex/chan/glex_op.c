#include "chan/glex_op.h"

#include <ucs/arch/cpu.h>
#include <ucs/datastruct/queue.h>

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
    iface->ops.shares[UCT_GLEX_OP_PROBE].max = 0; /* none beside the first of each VC */
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

int uct_glex_op_give_up(uct_glex_op_t *op, unsigned unposted)
{
    op->events -= unposted;
    if (op->events > 0) {
        return 0;
    }
    uct_glex_op_cancel(op);
    return 1;
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
