#include "core/endpoint.h"

#include <stdlib.h>

glex_ret_t glex_error_init(struct glex_endpoint *ep)
{
    ep->errors.list = calloc(GLEX_ERROR_CAPACITY, sizeof(*ep->errors.list));
    return ep->errors.list != NULL ? GLEX_SUCCESS : GLEX_NO_MEM_RESOURCE;
}

void glex_error_cleanup(struct glex_endpoint *ep)
{
    free(ep->errors.list);
}

/* A peer that was replaced twice during one request counts as gone. */
static enum glex_err_req_status error_status(int status)
{
    return status == GLEX_REQ_PEER_GONE ? GLEX_ERR_STATUS_DEST_VP_STOP :
                                          (enum glex_err_req_status)status;
}

static void error_push(struct glex_endpoint *ep, const struct glex_err_req *err)
{
    struct glex_error_queue *queue = &ep->errors;

    GLEX_COUNT(ep, error_req, 1);
    if (err->status == GLEX_ERR_STATUS_DEST_EQ_FULL) {
        GLEX_COUNT(ep, event_lost, 1);
    } else if (err->status == GLEX_ERR_STATUS_DEST_MPQ_FULL) {
        GLEX_COUNT(ep, mp_lost, 1);
    }
    /* A program that never polls loses the newest; the counter counts them, too. */
    if (queue->tail - queue->head < GLEX_ERROR_CAPACITY) {
        queue->list[queue->tail++ % GLEX_ERROR_CAPACITY] = *err;
    }
}

void GLEX_NOINLINE glex_error_mp(struct glex_endpoint *ep, int status, const glex_imm_mp_req_t *req)
{
    struct glex_err_req err = {
        .op = GLEX_ERR_OP_IMM_MP,
        .status = error_status(status),
        .rmt_nic_id = req->rmt_ep_addr.nic_id,
        .rmt_ep_num = req->rmt_ep_addr.ep_num,
        .data1 = req->len,
    };

    glex_copy_small(&err.data0, req->data, req->len < 8 ? req->len : 8);
    error_push(ep, &err);
}

void GLEX_NOINLINE glex_error_imm_rdma(struct glex_endpoint *ep, int status,
                                       const glex_imm_rdma_req_t *req)
{
    struct glex_err_req err = {
        .op = GLEX_ERR_OP_IMM_RDMA_PUT,
        .status = error_status(status),
        .rmt_nic_id = req->rmt_ep_addr.nic_id,
        .rmt_ep_num = req->rmt_ep_addr.ep_num,
        .data0 = req->rmt_mh.v,
        .data1 = (uint64_t)req->rmt_offset << 32 | req->len,
        .data2 = (req->flag & GLEX_FLAG_REMOTE_EVT) ? req->rmt_evt.cookie_1 : 0,
    };

    error_push(ep, &err);
}

void glex_error_rdma(struct glex_endpoint *ep, int status, const glex_rdma_req_t *req)
{
    struct glex_err_req err = {
        .op = req->type == GLEX_RDMA_TYPE_PUT ? GLEX_ERR_OP_RDMA_PUT : GLEX_ERR_OP_RDMA_GET,
        .status = error_status(status),
        .rmt_nic_id = req->rmt_ep_addr.nic_id,
        .rmt_ep_num = req->rmt_ep_addr.ep_num,
        .data0 = req->rmt_mh.v,
        .data1 = (uint64_t)req->rmt_offset << 32 | req->len,
    };

    /* The initiator knows its request by its own event. */
    if (req->flag & GLEX_FLAG_LOCAL_EVT) {
        err.data2 = req->local_evt.cookie_1;
    } else if (req->flag & GLEX_FLAG_REMOTE_EVT) {
        err.data2 = req->rmt_evt.cookie_1;
    }
    error_push(ep, &err);
}
