/*
 * Messages (MP): posting, and the message queue (MPQ).
 */
#include "api/threads.h"
#include "coll/coll.h"
#include "core/shm.h"
#include "net/net.h"

/* Why a request cannot be taken, or SUCCESS. */
static inline glex_ret_t mp_check(const glex_imm_mp_req_t *req)
{
    if (glex_unlikely(req->len > GLEX_MP_DATA_LEN || (req->data == NULL && req->len != 0))) {
        return GLEX_INVALID_PARAM;
    }
    return GLEX_SUCCESS;
}

/* A request that did not go through at the first try: the peer may have been replaced. */
static glex_ret_t GLEX_NOINLINE mp_failed(struct glex_endpoint *ep, struct glex_peer *peer,
                                          const glex_imm_mp_req_t *req, int status)
{
    if (status == GLEX_REQ_PEER_GONE) {
        glex_peer_drop(ep, peer);
        peer = glex_endpoint_peer(ep, glex_peer_addr(req->rmt_ep_addr), &status);
        if (peer != NULL) {
            status = glex_link_send_mp(ep, peer, req);
        }
    }
    if (status == GLEX_REQ_BUSY) {
        return GLEX_BUSY;
    }
    if (status == GLEX_REQ_DONE) {
        GLEX_COUNT(ep, mp_tx, 1);
    } else {
        glex_error_mp(ep, status, req);
    }
    return GLEX_SUCCESS;
}

static inline glex_ret_t mp_post_one(struct glex_endpoint *ep, const glex_imm_mp_req_t *req)
{
    glex_ret_t ret;
    struct glex_peer *peer;
    int status;

    if (glex_unlikely((req->flag & GLEX_FLAG_FENCE) && glex_net_holds(ep))) {
        return GLEX_BUSY;
    }
    if (glex_unlikely(req->flag & GLEX_COLL_FLAGS)) {
        return glex_coll_post_mp(ep, req);
    }
    ret = mp_check(req);
    if (glex_unlikely(ret != GLEX_SUCCESS)) {
        return ret;
    }
    peer = glex_endpoint_peer(ep, glex_peer_addr(req->rmt_ep_addr), &status);
    if (glex_likely(peer != NULL)) {
        status = glex_link_send_mp(ep, peer, req);
        if (glex_likely(status == GLEX_REQ_DONE)) {
            GLEX_COUNT(ep, mp_tx, 1);
            return GLEX_SUCCESS;
        }
    }
    return mp_failed(ep, peer, req, status);
}

static __attribute__((noinline)) glex_ret_t mp_post_chain(struct glex_endpoint *ep,
                                                          glex_imm_mp_req_t *req,
                                                          glex_imm_mp_req_t **bad_req)
{
    glex_ret_t ret;

    do {
        ret = mp_post_one(ep, req);
        if (glex_unlikely(ret != GLEX_SUCCESS)) {
            if (bad_req != NULL) {
                *bad_req = req;
            }
            return ret;
        }
        req = req->next;
    } while (req != NULL);
    return GLEX_SUCCESS;
}

/* The shortest way: one request that meets no obstacle; as imm_rdma_post_message(). */
static inline bool mp_post_message(struct glex_endpoint *ep, const glex_imm_mp_req_t *req)
{
    struct glex_peer *peer = glex_endpoint_hinted_peer(ep, req->rmt_ep_addr);

    if (glex_unlikely((req->flag & ~GLEX_EXT_FLAG_NO_LOSS) != 0 || req->next != NULL ||
                      req->len > GLEX_MP_DATA_LEN || (req->data == NULL && req->len != 0) ||
                      peer == NULL || peer->link != &glex_shm_link ||
                      !glex_shm_try_mp(ep, peer, req->data, req->len))) {
        return false;
    }
    GLEX_COUNT(ep, mp_tx, 1);
    return true;
}

glex_ret_t glex_mp_post(glex_ep_handle_t handle, glex_imm_mp_req_t *req,
                        glex_imm_mp_req_t **bad_req)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    return glex_likely(mp_post_message(ep, req)) ? GLEX_SUCCESS : mp_post_chain(ep, req, bad_req);
}

/*
 * The published slot at a position, which is moved over what is to be skipped: slots of killed
 * producers, and such as no producer of ours would have written.
 */
static inline struct glex_mp_slot *mp_slot(struct glex_endpoint *ep, uint64_t *pos, uint32_t *len)
{
    struct glex_mp_slot *slot;
    uint64_t ctrl;

    for (;;) {
        slot = glex_ring_rx_slot(&ep->mpq, *pos, &ctrl);
        if (slot == NULL) {
            return NULL;
        }
        *len = GLEX_CTRL_LEN(ctrl);
        if (glex_likely(*len <= GLEX_MP_DATA_LEN)) {
            return slot;
        }
        ++*pos;
    }
}

/* The slot at `pos` becomes the last probed one. */
static inline void mp_take(struct glex_endpoint *ep, uint64_t pos)
{
    struct glex_ring_rx *rx = &ep->mpq;

    rx->cursor = pos + 1;
    if (glex_unlikely(rx->armed)) {
        glex_ring_disarm(rx);
    }
}

struct glex_mp_slot *glex_mp_find(struct glex_endpoint *ep, uint64_t *pos, uint32_t *len)
{
    return mp_slot(ep, pos, len);
}

void glex_mp_take(struct glex_endpoint *ep, uint64_t pos)
{
    mp_take(ep, pos);
    if (pos >= ep->mpq.seen) {
        ep->mpq.seen = pos + 1;
    }
}

static inline glex_ret_t mp_deliver(struct glex_endpoint *ep, struct glex_mp_slot *slot,
                                    uint64_t pos, glex_ep_addr_t *src_addr, void **data)
{
    mp_take(ep, pos);
    src_addr->v = slot->src;
    *data = slot->data;
    return GLEX_SUCCESS;
}

/* Nothing there at `pos`: wait, or at least look after a stalled queue. */
static glex_ret_t GLEX_NOINLINE mp_wait(struct glex_endpoint *ep, uint64_t pos, int32_t timeout,
                                        glex_ep_addr_t *src_addr, void **data, uint32_t *len)
{
    uint64_t deadline = glex_wait_deadline(timeout);
    struct glex_mp_slot *slot;
    glex_ret_t ret;

    if (ep->forked || timeout < -1) {
        ep->mpq.idle = 1; /* refuse the next as well */
        return GLEX_INVALID_PARAM;
    }
    do {
        ret = glex_wait_for(ep, &ep->mpq, pos, deadline, GLEX_NO_MP);
        slot = mp_slot(ep, &pos, len);
        if (slot != NULL) {
            return mp_deliver(ep, slot, pos, src_addr, data);
        }
    } while (ret == GLEX_SUCCESS); /* what came was to be skipped */
    return ret;
}

static inline glex_ret_t mp_probe(struct glex_endpoint *ep, uint64_t pos, int32_t timeout,
                                  glex_ep_addr_t *src_addr, void **data, uint32_t *len)
{
    struct glex_mp_slot *slot = mp_slot(ep, &pos, len);

    if (slot != NULL) {
        return mp_deliver(ep, slot, pos, src_addr, data);
    }
    if (glex_unlikely(timeout != 0 || --ep->mpq.idle == 0)) {
        return mp_wait(ep, pos, timeout, src_addr, data, len);
    }
    return GLEX_NO_MP;
}

static glex_ret_t GLEX_NOINLINE mp_probe_threads(struct glex_endpoint *ep, bool first,
                                                 int32_t timeout, glex_ep_addr_t *src_addr,
                                                 void **data, uint32_t *len)
{
    struct glex_entry entry;
    glex_ret_t ret = glex_threads_probe(ep, GLEX_RING_MPQ, first, timeout, &entry);

    if (ret == GLEX_SUCCESS) {
        src_addr->v = ((struct glex_mp_slot *)entry.slot)->src;
        *data = ((struct glex_mp_slot *)entry.slot)->data;
        *len = entry.len;
    }
    return ret;
}

glex_ret_t glex_probe_first_mp(glex_ep_handle_t handle, int32_t timeout, glex_ep_addr_t *src_addr,
                               void **data, uint32_t *len)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    return ep->threads.on ? mp_probe_threads(ep, true, timeout, src_addr, data, len)
                          : mp_probe(ep, ep->mpq.head, timeout, src_addr, data, len);
}

glex_ret_t glex_probe_next_mp(glex_ep_handle_t handle, glex_ep_addr_t *src_addr, void **data,
                              uint32_t *len)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    return ep->threads.on ? mp_probe_threads(ep, false, 0, src_addr, data, len)
                          : mp_probe(ep, ep->mpq.cursor, 0, src_addr, data, len);
}

glex_ret_t glex_discard_probed_mp(glex_ep_handle_t handle)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (ep->threads.on) {
        return glex_threads_discard(ep, GLEX_RING_MPQ);
    }
    return glex_ring_discard(&ep->mpq, &ep->counters->mp_rx, &ep->counters->mpq_high);
}

glex_ret_t glex_receive_mp(glex_ep_handle_t handle, int32_t timeout, glex_ep_addr_t *src_addr,
                           void *data, uint32_t *len)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    uint64_t cursor;
    glex_ret_t ret;
    void *slot_data;

    if (ep->threads.on) {
        return glex_threads_receive(ep, timeout, src_addr, data, len);
    }
    cursor = ep->mpq.cursor;
    ret = mp_probe(ep, ep->mpq.head, timeout, src_addr, &slot_data, len);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    glex_copy_small(data, slot_data, *len);
    ret = glex_discard_probed_mp(handle);
    /* Others that were probed before stay so. */
    if (cursor > ep->mpq.cursor) {
        ep->mpq.cursor = cursor;
    }
    return ret;
}
