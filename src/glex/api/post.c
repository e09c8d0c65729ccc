/*
 * Posting: messages (MP), immediate puts, and puts and gets between registrations.
 */
#include "api/api.h"
#include "coll/coll.h"
#include "core/shm.h"
#include "debug/fault.h"
#include "net/net.h"

/* The return value for a request that was executed, left an error request, or is BUSY. */
static glex_ret_t post_ret(int status)
{
    return status == GLEX_REQ_BUSY ? GLEX_BUSY : GLEX_SUCCESS;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Why a request cannot be taken, or SUCCESS. */
static inline glex_ret_t mp_check(const glex_imm_mp_req_t *req)
{
    if (glex_unlikely(req->len > GLEX_MP_DATA_LEN || (req->data == NULL && req->len != 0))) {
        return GLEX_INVALID_PARAM;
    }
    return GLEX_SUCCESS;
}

/* Whether a request with GLEX_FLAG_FENCE must wait for earlier requests. Sends messages that
 * GLEX_FAULT delays now, because the caller holds no peer yet. */
static bool fence_waits(struct glex_endpoint *ep)
{
    glex_fault_flush(ep);
    return glex_net_holds(ep);
}

static int mp_at(struct glex_endpoint *ep, struct glex_peer *peer, const void *req)
{
    return peer->link->send_mp(ep, peer, req);
}

static inline glex_ret_t mp_post_one(struct glex_endpoint *ep, const glex_imm_mp_req_t *req)
{
    glex_ret_t ret;
    int status;

    if (glex_unlikely(ep->forked)) {
        return GLEX_INVALID_PARAM;
    }
    if (glex_unlikely((req->flag & GLEX_FLAG_FENCE) && fence_waits(ep))) {
        return GLEX_BUSY;
    }
    if (glex_unlikely(req->flag & (GLEX_COLL_FLAGS | GLEX_EXT_FLAG_DOMAIN))) {
        return glex_coll_post_mp(ep, req);
    }
    ret = mp_check(req);
    if (glex_unlikely(ret != GLEX_SUCCESS)) {
        return ret;
    }
    status = glex_endpoint_post(ep, req->rmt_ep_addr, mp_at, req);
    if (status == GLEX_REQ_DONE) {
        glex_count_mp(ep, req->len);
    } else if (status != GLEX_REQ_BUSY) {
        glex_error_mp(ep, status, req);
    }
    return post_ret(status);
}

static __attribute__((noinline)) glex_ret_t mp_post_chain(struct glex_endpoint *ep,
                                                          glex_imm_mp_req_t *req,
                                                          glex_imm_mp_req_t **bad_req)
{
    glex_ret_t ret;

    while ((ret = mp_post_one(ep, req)) == GLEX_SUCCESS && (req = req->next) != NULL) {
    }
    if (ret != GLEX_SUCCESS && bad_req != NULL) {
        *bad_req = req;
    }
    return ret;
}

/* The fast path: one request that meets no obstacle; as imm_rdma_post_message(). */
static inline bool mp_post_message(struct glex_endpoint *ep, const glex_imm_mp_req_t *req)
{
    struct glex_peer *peer = glex_endpoint_hinted_peer(ep, req->rmt_ep_addr);

    if (glex_unlikely((req->flag & ~GLEX_EXT_FLAG_NO_LOSS) != 0 || req->next != NULL ||
                      req->len > GLEX_MP_DATA_LEN || (req->data == NULL && req->len != 0) ||
                      peer == NULL || peer->link != &glex_shm_link ||
                      !glex_shm_try_mp(ep, peer, req->data, req->len))) {
        return false;
    }
    glex_count_mp(ep, req->len);
    return true;
}

glex_ret_t glex_mp_post(glex_ep_handle_t handle, glex_imm_mp_req_t *req,
                        glex_imm_mp_req_t **bad_req)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    return glex_likely(mp_post_message(ep, req)) ? GLEX_SUCCESS : mp_post_chain(ep, req, bad_req);
}

/* ---- immediate puts -------------------------------------------------------------------------- */

/* Why a request cannot be taken, or SUCCESS. */
static inline glex_ret_t imm_rdma_check(const glex_imm_rdma_req_t *req)
{
    if (glex_unlikely(req->len > GLEX_EVENT_DATA_LEN || (req->data == NULL && req->len != 0) ||
                      (req->flag & GLEX_FLAG_LOCAL_EVT) ||
                      ((req->flag & GLEX_FLAG_REMOTE_EVT) && req->rmt_evt.cookie_1 == 0))) {
        return GLEX_INVALID_PARAM;
    }
    return GLEX_SUCCESS;
}

static inline void imm_rdma_count(struct glex_endpoint *ep, const glex_imm_rdma_req_t *req)
{
    GLEX_COUNT(ep, imm_put_tx, 1);
    GLEX_COUNT(ep, imm_put_bytes, req->len);
}

static int event_at(struct glex_endpoint *ep, struct glex_peer *peer, const void *req)
{
    return peer->link->event(ep, peer, req);
}

glex_ret_t glex_event_post(struct glex_endpoint *ep, const glex_imm_rdma_req_t *req)
{
    int status = glex_endpoint_post(ep, req->rmt_ep_addr, event_at, req);

    if (status == GLEX_REQ_DONE) {
        GLEX_COUNT(ep, event_tx, 1);
    } else if (status != GLEX_REQ_BUSY) {
        glex_error_imm_rdma(ep, status, req);
    }
    return post_ret(status);
}

static int imm_rdma_at(struct glex_endpoint *ep, struct glex_peer *peer, const void *req)
{
    return peer->link->imm_put(ep, peer, req);
}

static inline glex_ret_t imm_rdma_post_one(struct glex_endpoint *ep, const glex_imm_rdma_req_t *req)
{
    glex_ret_t ret;
    int status;

    if (glex_unlikely(ep->forked)) {
        return GLEX_INVALID_PARAM;
    }
    if (glex_unlikely((req->flag & GLEX_FLAG_FENCE) && fence_waits(ep))) {
        return GLEX_BUSY;
    }
    if (glex_unlikely(req->flag & GLEX_COLL_FLAGS)) {
        return glex_coll_post_imm_rdma(ep, req);
    }
    ret = imm_rdma_check(req);
    if (glex_unlikely(ret != GLEX_SUCCESS)) {
        return ret;
    }
    status = glex_endpoint_post(ep, req->rmt_ep_addr, imm_rdma_at, req);
    if (status == GLEX_REQ_DONE) {
        imm_rdma_count(ep, req);
    } else if (status != GLEX_REQ_BUSY) {
        glex_error_imm_rdma(ep, status, req);
    }
    return post_ret(status);
}

static __attribute__((noinline)) glex_ret_t imm_rdma_post_chain(struct glex_endpoint *ep,
                                                                glex_imm_rdma_req_t *req,
                                                                glex_imm_rdma_req_t **bad_req)
{
    glex_ret_t ret;

    while ((ret = imm_rdma_post_one(ep, req)) == GLEX_SUCCESS && (req = req->next) != NULL) {
    }
    if (ret != GLEX_SUCCESS && bad_req != NULL) {
        *bad_req = req;
    }
    return ret;
}

/*
 * The fast path: one request, like the request that a transport posts for each short message.
 * Returns false without effect if the request is of another kind or meets an obstacle. The fast path
 * calls no function, so all values stay in registers. Ten instructions cost about 1 % of the latency
 * of 80 ns.
 */
static inline bool imm_rdma_post_message(struct glex_endpoint *ep, const glex_imm_rdma_req_t *req)
{
    struct glex_peer *peer = glex_endpoint_hinted_peer(ep, req->rmt_ep_addr);

    if (glex_unlikely(
            (req->flag & ~GLEX_EXT_FLAG_NO_LOSS) != GLEX_FLAG_REMOTE_EVT || req->next != NULL ||
            req->rmt_evt.cookie_1 == 0 || req->len > GLEX_EVENT_DATA_LEN ||
            (req->data == NULL && req->len != 0) || peer == NULL || peer->link != &glex_shm_link ||
            !glex_shm_rmem_allows(peer, peer->recent, req->rmt_mh.v, req->rmt_key, req->rmt_offset,
                                  req->len, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA) ||
            !glex_shm_try_event(peer, &req->rmt_evt, req->data, req->len, glex_shm_place(req)))) {
        return false;
    }
    imm_rdma_count(ep, req);
    return true;
}

glex_ret_t glex_imm_rdma_post(glex_ep_handle_t handle, glex_imm_rdma_req_t *req,
                              glex_imm_rdma_req_t **bad_req)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    return glex_likely(imm_rdma_post_message(ep, req)) ? GLEX_SUCCESS :
                                                         imm_rdma_post_chain(ep, req, bad_req);
}

/* ---- between registrations ------------------------------------------------------------------- */

static glex_ret_t rdma_check(const glex_rdma_req_t *req)
{
    if (req->flag & GLEX_COLL_FLAGS) {
        return GLEX_NOT_IMPLEMENTED;
    }
    if (req->len > GLEX_MAX_RDMA_LEN ||
        (req->type != GLEX_RDMA_TYPE_PUT && req->type != GLEX_RDMA_TYPE_GET) ||
        ((req->flag & GLEX_FLAG_LOCAL_EVT) && req->local_evt.cookie_1 == 0) ||
        ((req->flag & GLEX_FLAG_REMOTE_EVT) && req->rmt_evt.cookie_1 == 0)) {
        return GLEX_INVALID_PARAM;
    }
    return GLEX_SUCCESS;
}

/* Whether a request goes to another host: it is over when the network says so, and leaves its local
 * event then. */
static bool rdma_ends_later(struct glex_endpoint *ep, const glex_rdma_req_t *req)
{
    struct glex_peer *peer;
    int status;

    if (glex_likely(ep->net == NULL)) {
        return false;
    }
    peer = glex_endpoint_peer(ep, glex_peer_addr(req->rmt_ep_addr), &status);
    return peer != NULL && peer->link->is_remote;
}

struct rdma_here {
    const glex_rdma_req_t *req;
    char *local; /* where its memory of this process is */
};

static int rdma_at(struct glex_endpoint *ep, struct glex_peer *peer, const void *arg)
{
    const struct rdma_here *here = arg;

    return peer->link->rdma(ep, peer, here->req, here->local);
}

static int rdma_execute(struct glex_endpoint *ep, const glex_rdma_req_t *req, char *local)
{
    const struct rdma_here here = {req, local};

    if (glex_unlikely(local == NULL)) {
        return GLEX_ERR_STATUS_FORMAT;
    }
    return glex_endpoint_post(ep, req->rmt_ep_addr, rdma_at, &here);
}

static void rdma_count(struct glex_endpoint *ep, const glex_rdma_req_t *req)
{
    if (req->type == GLEX_RDMA_TYPE_PUT) {
        GLEX_COUNT(ep, put_tx, 1);
        GLEX_COUNT(ep, put_bytes, req->len);
    } else {
        GLEX_COUNT(ep, get_tx, 1);
        GLEX_COUNT(ep, get_bytes, req->len);
    }
}

/*
 * Claims the slot of a local event in our own EQ before the request is executed, so that an executed
 * request always leaves its event. The claim needs no intent: see glex_ring_claim_own().
 */
static glex_ret_t rdma_claim_local_event(struct glex_endpoint *ep, struct glex_event_slot **slot,
                                         uint64_t *tail)
{
    struct glex_peer *self;
    int status;

    self = glex_endpoint_peer(ep, ep->addr, &status);
    if (self == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    if (glex_shm_claim_own(ep, self, tail) != GLEX_RING_OK) {
        return GLEX_BUSY;
    }
    *slot = glex_ring_tx_slot(&self->eq, *tail);
    return GLEX_SUCCESS;
}

/* Publishes the local event of an executed request. A failed request leaves nothing in our EQ, or, if
 * another producer has claimed the next position meanwhile, an entry to skip. */
static void rdma_end_local_event(struct glex_endpoint *ep, struct glex_event_slot *slot,
                                 uint64_t tail, const glex_event_t *event, int status)
{
    struct glex_peer *self;
    int lookup;

    if (status == GLEX_REQ_DONE || (self = glex_endpoint_peer(ep, ep->addr, &lookup)) == NULL ||
        !glex_ring_unclaim_own(&self->eq, tail & GLEX_TAIL_POS)) {
        glex_shm_publish_own(ep, slot, tail, event, status == GLEX_REQ_DONE);
    }
}

/* The memory of this process that a request names, or NULL. An empty request needs none. */
static char *rdma_local(const struct glex_endpoint *ep, const glex_rdma_req_t *req)
{
    static char nothing;

    return req->len == 0 ? &nothing :
                           glex_mem_range(&ep->mem, req->local_mh.v, UINT64_MAX, req->local_offset,
                                          req->len, 0);
}

static glex_ret_t rdma_post_one(struct glex_endpoint *ep, const glex_rdma_req_t *req)
{
    struct glex_event_slot *slot = NULL;
    uint64_t tail = 0;
    glex_ret_t ret;
    int status;

    if (glex_unlikely(ep->forked)) {
        return GLEX_INVALID_PARAM;
    }
    if (glex_unlikely(req->flag & GLEX_COLL_FLAGS)) {
        return glex_coll_post_rdma(ep, req);
    }
    ret = rdma_check(req);
    if (ret == GLEX_SUCCESS && (req->flag & GLEX_FLAG_FENCE) && fence_waits(ep)) {
        ret = GLEX_BUSY;
    }
    if (ret == GLEX_SUCCESS && (req->flag & GLEX_FLAG_LOCAL_EVT) && !rdma_ends_later(ep, req)) {
        ret = rdma_claim_local_event(ep, &slot, &tail);
    }
    if (ret != GLEX_SUCCESS) {
        return ret;
    }

    status = rdma_execute(ep, req, rdma_local(ep, req));
    if (slot != NULL) {
        rdma_end_local_event(ep, slot, tail, &req->local_evt, status);
    }
    if (status == GLEX_REQ_DONE) {
        rdma_count(ep, req);
    } else if (status != GLEX_REQ_BUSY) {
        glex_error_rdma(ep, status, req);
    }
    return post_ret(status);
}

glex_ret_t glex_rdma_post(glex_ep_handle_t handle, glex_rdma_req_t *req, glex_rdma_req_t **bad_req)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    glex_ret_t ret;

    while ((ret = rdma_post_one(ep, req)) == GLEX_SUCCESS && (req = req->next) != NULL) {
    }
    if (ret != GLEX_SUCCESS && bad_req != NULL) {
        *bad_req = req;
    }
    return ret;
}

glex_ret_t glex_ext_rdma_now(glex_ep_handle_t handle, const glex_rdma_req_t *req, void *local)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    glex_ret_t ret;
    int status;

    if (handle == NULL || req == NULL || local == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    ret = rdma_check(req);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    if (req->flag & (GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT)) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    if (rdma_ends_later(ep, req)) {
        return GLEX_NOT_IMPLEMENTED;
    }
    status = rdma_execute(ep, req, local);
    switch (status) {
    case GLEX_REQ_DONE:
        rdma_count(ep, req);
        return GLEX_SUCCESS;
    case GLEX_REQ_BUSY:
        return GLEX_BUSY;
    case GLEX_REQ_PEER_GONE:
    case GLEX_ERR_STATUS_DEST_VP_STOP:
        return GLEX_NO_EP_RESOURCE;
    case GLEX_ERR_STATUS_CONNECTION_NACK:
        return GLEX_NO_MEM_RESOURCE;
    default:
        return GLEX_ACCESS_ERR;
    }
}
