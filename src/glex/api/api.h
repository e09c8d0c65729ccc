/*
 * What the functions of the public headers share.
 */
#ifndef GLEX_API_H
#define GLEX_API_H

#include "core/endpoint.h"

/* The posting functions, of an endpoint that one thread uses; threads.c has them with the lock. */
glex_ret_t glex_mp_post(glex_ep_handle_t ep, glex_imm_mp_req_t *req, glex_imm_mp_req_t **bad_req);
glex_ret_t glex_imm_rdma_post(glex_ep_handle_t ep, glex_imm_rdma_req_t *req,
                              glex_imm_rdma_req_t **bad_req);
glex_ret_t glex_rdma_post(glex_ep_handle_t ep, glex_rdma_req_t *req, glex_rdma_req_t **bad_req);

/** The published entry of a queue at a position, which is moved over what holds nothing; NULL:
 *  there is none. */
struct glex_event_slot *glex_event_find(struct glex_endpoint *ep, uint64_t *pos, uint32_t *len);
struct glex_mp_slot *glex_mp_find(struct glex_endpoint *ep, uint64_t *pos, uint32_t *len);

/** Such an entry becomes the last probed one; the data that came with an event is placed. */
void glex_event_take(struct glex_endpoint *ep, struct glex_event_slot *slot, uint64_t pos,
                     uint32_t len);
void glex_mp_take(struct glex_endpoint *ep, uint64_t pos);

/** Put the data that came with an event where it belongs. */
void glex_event_place(struct glex_endpoint *ep, const struct glex_event_slot *slot, uint32_t len);

/** How many polls may find nothing before glex_endpoint_idle(). */
uint32_t glex_endpoint_patience(const struct glex_endpoint *ep);

/**
 * Out of line, at an empty probe whose patience is over: look after what cannot be done on the hot
 * path (a stalled slot, the network, delayed messages of GLEX_FAULT).
 * @return Whether to look again: a slot was passed over.
 */
bool glex_endpoint_idle(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos);

/** When a timeout ends: CLOCK_MONOTONIC, ns; 0: at once; UINT64_MAX: never. */
uint64_t glex_wait_deadline(int32_t timeout);

/**
 * Wait until there is something to look at, at position `pos` of a ring. Of an endpoint that
 * several threads use the lock is given back meanwhile, and SUCCESS means to look at everything anew.
 * @param none  What to return when nothing came.
 */
glex_ret_t glex_wait_for(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos,
                         uint64_t deadline, glex_ret_t none);

#endif
