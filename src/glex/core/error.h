/*
 * The error queue: requests that were taken and failed. Private memory of the initiator; the
 * oldest are kept when it overflows.
 */
#ifndef GLEX_ERROR_H
#define GLEX_ERROR_H

#include "base/common.h"

#define GLEX_ERROR_CAPACITY 1024u

struct glex_error_queue {
    struct glex_err_req *list;
    uint32_t head, tail; /* run freely; the capacity is a power of two */
};

struct glex_endpoint;

glex_ret_t glex_error_init(struct glex_endpoint *ep);
void glex_error_cleanup(struct glex_endpoint *ep);

void glex_error_mp(struct glex_endpoint *ep, int status, const glex_imm_mp_req_t *req);
void glex_error_imm_rdma(struct glex_endpoint *ep, int status, const glex_imm_rdma_req_t *req);
void glex_error_rdma(struct glex_endpoint *ep, int status, const glex_rdma_req_t *req);

#endif
