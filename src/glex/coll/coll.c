/*
 * Collective requests on the owner's side: checks, posting, error requests, and the continuation of
 * requests that an agent could not finish.
 */
#include "coll/coll.h"
#include "base/log.h"
#include "core/shm.h"
#include "debug/fault.h"

#include <stdlib.h>

/* After this time the owner checks whether an agent is alive. */
#define COLL_AGENT_NS 1000000ull

/* A request that belongs to no sequence, and how far it is. */
struct glex_coll_rest {
    struct glex_coll_desc desc;
    uint64_t step; /* GLEX_COLL_STEP(); 0: it has left nothing in any queue */
};

/* ---- checking -------------------------------------------------------------------------------- */

/* Checks a request with GLEX_FLAG_COLL, and copies its immediate data to the descriptor. */
static glex_ret_t coll_check(struct glex_coll_desc *desc, const void *data)
{
    const int32_t known = (GLEX_FLAG_COLL_REDUCE_RESULT << 1) - 1, flag = desc->flag;

    if (flag & ~(known | GLEX_EXT_FLAG_NO_LOSS)) {
        return GLEX_NOT_IMPLEMENTED;
    }
    if (desc->kind != GLEX_COLL_MP && (flag & GLEX_FLAG_COLL_SWAP_SET)) {
        return GLEX_NOT_IMPLEMENTED; /* the vendor's header does not define sets of RDMA requests */
    }
    if (desc->kind != GLEX_COLL_PUT) {
        if (desc->len > sizeof(desc->data) || (data == NULL && desc->len != 0)) {
            return GLEX_INVALID_PARAM;
        }
        glex_copy_small(desc->data, data, desc->len);
    }
    if (!(flag & GLEX_FLAG_COLL) ||
        ((flag & GLEX_FLAG_COLL_CP_SWAP_ADDR) && desc->len != sizeof(struct glex_coll_addr)) ||
        ((flag & GLEX_FLAG_COLL_SEQ_START) && desc->counter > GLEX_COLL_MAX_COUNT) ||
        ((flag & GLEX_FLAG_COLL_SWAP_SET) &&
         ((flag & GLEX_FLAG_COLL_REDUCE) || desc->len % sizeof(glex_ep_addr_t) != 0)) ||
        !glex_coll_is_valid(desc)) {
        return GLEX_INVALID_PARAM;
    }
    return GLEX_SUCCESS;
}

/* ---- error requests -------------------------------------------------------------------------- */

void glex_coll_error(struct glex_endpoint *ep, const struct glex_coll_desc *desc, int status)
{
    glex_ep_addr_t dst = {.v = desc->dst};

    if (desc->kind == GLEX_COLL_MP) {
        glex_imm_mp_req_t req = {
            .rmt_ep_addr = dst, .data = (void *)(uintptr_t)desc->data, .len = desc->len};

        glex_error_mp(ep, status, &req);
    } else if (desc->kind == GLEX_COLL_IMM_PUT) {
        glex_imm_rdma_req_t req = {
            .rmt_ep_addr = dst,
            .len = desc->len,
            .rmt_mh.v = desc->rmt_mh,
            .rmt_offset = desc->rmt_offset,
            .rmt_evt = desc->rmt_evt,
            .flag = desc->flag,
        };

        glex_error_imm_rdma(ep, status, &req);
    } else {
        glex_rdma_req_t req = {
            .rmt_ep_addr = dst,
            .len = desc->len,
            .rmt_mh.v = desc->rmt_mh,
            .rmt_offset = desc->rmt_offset,
            .local_evt = desc->local_evt,
            .rmt_evt = desc->rmt_evt,
            .type = desc->kind == GLEX_COLL_GET ? GLEX_RDMA_TYPE_GET : GLEX_RDMA_TYPE_PUT,
            .flag = desc->flag,
        };

        glex_error_rdma(ep, status, &req);
    }
}

/* Another process may have written anything there. An unknown status becomes DEST_VP_STOP. */
static void coll_reap_one(struct glex_endpoint *ep, const struct glex_coll_desc *shared)
{
    struct glex_coll_desc desc = *shared;
    int status = desc.status;

    if (status == GLEX_REQ_DONE) {
        return;
    }
    if (status < 0 || status > GLEX_ERR_STATUS_CONNECTION_ECC) {
        status = GLEX_ERR_STATUS_DEST_VP_STOP;
    }
    if (desc.len > GLEX_MP_DATA_LEN && desc.kind != GLEX_COLL_PUT) {
        desc.len = 0;
    }
    glex_coll_error(ep, &desc, status);
}

void glex_coll_reap(struct glex_endpoint *ep)
{
    struct glex_endpoint_coll *coll = &ep->coll;
    uint64_t next;

    if (coll->area == NULL) {
        return;
    }
    /* acquire: pairs with the agent's release, so the status of each descriptor is stored */
    next = __atomic_load_n(&coll->area->next, __ATOMIC_ACQUIRE);
    if (next - coll->reaped > coll->tail - coll->reaped) {
        return; /* another process wrote nonsense there */
    }
    for (; coll->reaped != next; coll->reaped++) {
        coll_reap_one(ep, glex_coll_desc(coll->area, coll->reaped));
    }
}

/* ---- posting --------------------------------------------------------------------------------- */

/* Returns the endpoint itself as a peer with an area, or NULL without memory. The peer is looked up
 * each time: an endpoint may close its own queues, and is then dropped as a peer. */
static struct glex_peer *coll_self(struct glex_endpoint *ep)
{
    struct glex_peer *self;
    int status;

    self = glex_endpoint_peer(ep, ep->addr, &status);
    return self != NULL && glex_coll_enable(ep, self) == GLEX_REQ_DONE ? self : NULL;
}

static bool coll_used; /* by an endpoint of this process, ever */

bool glex_coll_is_used(void)
{
    return __atomic_load_n(&coll_used, __ATOMIC_RELAXED);
}

static bool coll_open(struct glex_endpoint *ep)
{
    struct glex_peer *self;

    if (glex_likely(ep->coll.area != NULL)) {
        return true;
    }
    self = coll_self(ep);
    if (self != NULL && ep->coll.rest == NULL) {
        ep->coll.rest = aligned_alloc(_Alignof(struct glex_coll_rest), sizeof(*ep->coll.rest));
    }
    if (self == NULL || ep->coll.rest == NULL) {
        return false;
    }
    glex_ring_rx_init(&ep->coll.cpq, glex_coll_cpq(self->coll.area), GLEX_COLL_CPQ_CAPACITY,
                      glex_ring_id(ep->segment.incarnation, GLEX_RING_CPQ));
    ep->coll.tail = ep->coll.reaped = __atomic_load_n(&self->coll.area->next, __ATOMIC_ACQUIRE);
    ep->coll.area = self->coll.area;
    /* relaxed: other threads take the endpoint's lock before they read the area */
    __atomic_store_n(&coll_used, true, __ATOMIC_RELAXED);
    return true;
}

/* Serves the own area, and the areas that it delivers to. */
static void coll_run(struct glex_endpoint *ep)
{
    struct glex_coll_work work = {
        .ep = ep, .peers = STAILQ_HEAD_INITIALIZER(work.peers), .budget = GLEX_COLL_BUDGET};
    struct glex_peer *self = coll_self(ep);

    if (self != NULL) {
        glex_coll_notify(&work, self);
        glex_coll_run(&work);
    }
}

/* Executes the unfinished request from its step on. Returns as glex_coll_send(). */
static int coll_send_on(struct glex_endpoint *ep, struct glex_peer *self,
                        struct glex_coll_rest *rest)
{
    struct glex_coll_work work = {
        .ep = ep, .peers = STAILQ_HEAD_INITIALIZER(work.peers), .budget = GLEX_COLL_BUDGET};
    struct glex_coll_desc desc = rest->desc;
    struct glex_coll_send send = {
        .work = &work,
        .ep = ep,
        .owner = self,
        .src = ep->addr,
        .desc = &desc,
        .step_p = &rest->step,
        .step = rest->step,
    };
    int status;

    if (desc.flag & GLEX_FLAG_COLL_SWAP_SET) {
        glex_coll_take_set(&send); /* nothing else is sent: no CP offered anything */
    }
    status = glex_coll_send(&send);
    glex_coll_run(&work);
    if (status == GLEX_REQ_BUSY) {
        return status;
    }
    if (status == GLEX_REQ_DONE) {
        GLEX_COUNT(ep, coll_tx, 1);
    } else {
        glex_coll_error(ep, &rest->desc, status);
    }
    return status;
}

/* Goes on with the unfinished request. False: it is still unfinished. */
static bool coll_finish(struct glex_endpoint *ep)
{
    struct glex_coll_rest *rest = ep->coll.rest;
    struct glex_peer *self;

    if (glex_likely(!ep->coll.unfinished)) {
        return true;
    }
    self = coll_self(ep);
    ep->coll.unfinished = self == NULL || coll_send_on(ep, self, rest) == GLEX_REQ_BUSY;
    return !ep->coll.unfinished;
}

/* Whether there is room for a local event. A receiver is not needed. */
static bool coll_has_own_room(struct glex_peer *self)
{
    return glex_ring_look(&self->eq) != GLEX_RING_FULL;
}

/*
 * Executes a request that belongs to no sequence. If a queue is full, the request is refused before
 * it leaves an entry in any queue. If another producer takes the last room between this check and
 * the claim, the request is accepted and unfinished, and later calls continue it.
 */
static glex_ret_t coll_send_now(struct glex_endpoint *ep, struct glex_coll_desc *desc)
{
    struct glex_coll_rest *rest = ep->coll.rest;
    struct glex_peer *self = coll_self(ep);
    int status;

    if (self == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    if (!coll_finish(ep) || ((desc->flag & GLEX_FLAG_LOCAL_EVT) && !coll_has_own_room(self))) {
        return GLEX_BUSY;
    }
    rest->desc = *desc;
    rest->step = 0;
    status = coll_send_on(ep, self, rest);
    ep->coll.unfinished = status == GLEX_REQ_BUSY && rest->step != 0;
    return status == GLEX_REQ_BUSY && !ep->coll.unfinished ? GLEX_BUSY : GLEX_SUCCESS;
}

static void coll_enqueue(struct glex_endpoint *ep, const struct glex_coll_desc *desc)
{
    struct glex_coll_desc *shared = glex_coll_desc(ep->coll.area, ep->coll.tail);
    const size_t off = sizeof(shared->ctrl);

    memcpy((char *)shared + off, (const char *)desc + off, sizeof(*desc) - off);
    /* release: an agent that sees the position sees the descriptor */
    __atomic_store_n(&shared->ctrl, (uint32_t)(ep->coll.tail + 1), __ATOMIC_RELEASE);
    ep->coll.tail++;
    ep->coll.open = !(desc->flag & GLEX_FLAG_COLL_SEQ_TAIL);
}

static bool coll_has_room(struct glex_endpoint *ep)
{
    glex_coll_reap(ep);
    return ep->coll.tail - ep->coll.reaped < GLEX_COLL_DQ_CAPACITY;
}

/* Posts a request. With `last`, no other request of a chain follows, so the area is served now. */
static glex_ret_t coll_post(struct glex_endpoint *ep, struct glex_coll_desc *desc, const void *data,
                            bool last)
{
    glex_ret_t ret = coll_check(desc, data);
    bool busy;

    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    if (!coll_open(ep)) {
        return GLEX_NO_MEM_RESOURCE;
    }
    if (desc->flag & GLEX_FLAG_FENCE) {
        glex_fault_flush(ep);
    }
    busy = ep->fault != NULL && glex_fault_enter(ep) == GLEX_REQ_BUSY;
    if (!busy && !(desc->flag & GLEX_FLAG_COLL_SEQ_START) && !ep->coll.open) {
        return coll_send_now(ep, desc);
    }
    busy = busy || !coll_has_room(ep);
    if (!busy) {
        coll_enqueue(ep, desc);
    }
    if (busy || last || !ep->coll.open) {
        coll_run(ep);
    } else {
        __atomic_store_n(&ep->coll.area->pending, 1, __ATOMIC_RELEASE);
    }
    return busy ? GLEX_BUSY : GLEX_SUCCESS;
}

/* Fields of a request that no flag asks for may hold anything and are not read. */
static void coll_init(struct glex_coll_desc *desc, enum glex_coll_kind kind, glex_ep_addr_t dst,
                      int32_t flag, uint32_t len)
{
    memset(desc, 0, sizeof(*desc));
    desc->dst = glex_peer_addr(dst);
    desc->flag = flag;
    desc->kind = kind;
    desc->len = len;
}

glex_ret_t glex_coll_post_mp(struct glex_endpoint *ep, const glex_imm_mp_req_t *req)
{
    struct glex_coll_desc desc;

    coll_init(&desc, GLEX_COLL_MP, req->rmt_ep_addr, req->flag, req->len);
    desc.flag &= ~(GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT); /* an MP has no events */
    if (desc.flag & GLEX_FLAG_COLL_SEQ_START) {
        desc.counter = req->coll_counter;
    }
    return coll_post(ep, &desc, req->data, req->next == NULL);
}

glex_ret_t glex_coll_post_imm_rdma(struct glex_endpoint *ep, const glex_imm_rdma_req_t *req)
{
    struct glex_coll_desc desc;

    if (req->flag & GLEX_FLAG_LOCAL_EVT) {
        return GLEX_INVALID_PARAM;
    }
    coll_init(&desc, GLEX_COLL_IMM_PUT, req->rmt_ep_addr, req->flag, req->len);
    desc.rmt_mh = req->rmt_mh.v;
    desc.rmt_offset = req->rmt_offset;
    desc.rmt_key = req->rmt_key;
    if (desc.flag & GLEX_FLAG_REMOTE_EVT) {
        desc.rmt_evt = req->rmt_evt;
    }
    if (desc.flag & GLEX_FLAG_COLL_SEQ_START) {
        desc.counter = req->coll_counter;
    }
    return coll_post(ep, &desc, req->data, req->next == NULL);
}

glex_ret_t glex_coll_post_rdma(struct glex_endpoint *ep, const glex_rdma_req_t *req)
{
    struct glex_coll_desc desc;

    if (req->type != GLEX_RDMA_TYPE_PUT || (req->flag & GLEX_FLAG_COLL_REDUCE)) {
        return GLEX_INVALID_PARAM;
    }
    coll_init(&desc, GLEX_COLL_PUT, req->rmt_ep_addr, req->flag, req->len);
    desc.local_mh = req->local_mh.v;
    desc.local_offset = req->local_offset;
    desc.rmt_mh = req->rmt_mh.v;
    desc.rmt_offset = req->rmt_offset;
    desc.rmt_key = req->rmt_key;
    if (desc.flag & GLEX_FLAG_REMOTE_EVT) {
        desc.rmt_evt = req->rmt_evt;
    }
    if (desc.flag & GLEX_FLAG_LOCAL_EVT) {
        desc.local_evt = req->local_evt;
    }
    if (desc.flag & GLEX_FLAG_COLL_SEQ_START) {
        desc.counter = req->coll_counter;
    }
    return coll_post(ep, &desc, NULL, req->next == NULL);
}

/* ---- when nothing comes ---------------------------------------------------------------------- */

bool glex_coll_is_pending(const struct glex_endpoint *ep)
{
    const struct glex_coll *area;

    if (ep->coll.area == NULL) {
        return false;
    }
    if (ep->coll.unfinished) {
        return true;
    }
    area = ep->coll.area;
    /* The queue was armed before: see carry_wake_owner(). */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&area->pending, __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(&area->agent, __ATOMIC_RELAXED) != 0;
}

/*
 * A dead agent keeps the word `agent`. Only the owner resets it, and an incarnation is never used
 * twice, so the compare-and-swap cannot hit a living agent.
 */
static void coll_replace_agent(struct glex_endpoint *ep, uint64_t agent)
{
    struct glex_endpoint_coll *coll = &ep->coll;
    uint64_t now = glex_now_ns();

    if (agent != coll->agent) {
        coll->agent = agent;
        coll->agent_ns = now + COLL_AGENT_NS;
        return;
    }
    if (now < coll->agent_ns) {
        return;
    }
    coll->agent_ns = now + COLL_AGENT_NS;
    if (agent != ep->segment.incarnation &&
        glex_segment_is_living_anywhere(ep->dev->dirfd, agent)) {
        return;
    }
    /* acq_rel: the next agent sees all stores of the dead agent */
    if (__atomic_compare_exchange_n(&coll->area->agent, &agent, 0, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
        __atomic_store_n(&coll->area->pending, 1, __ATOMIC_SEQ_CST);
    }
}

void glex_coll_idle(struct glex_endpoint *ep)
{
    struct glex_coll *area;
    uint64_t agent;

    if (ep->coll.area == NULL) {
        return;
    }
    glex_coll_reap(ep);
    (void)coll_finish(ep);
    area = ep->coll.area;
    agent = __atomic_load_n(&area->agent, __ATOMIC_RELAXED);
    if (agent != 0) {
        coll_replace_agent(ep, agent);
    } else if (ep->coll.tail != ep->coll.reaped) {
        glex_coll_pass_over(ep);
    }
    if (__atomic_load_n(&area->pending, __ATOMIC_SEQ_CST) != 0) {
        coll_run(ep);
    }
}

void glex_coll_cleanup(struct glex_endpoint *ep)
{
    if (!coll_finish(ep)) {
        glex_warn("endpoint %llx is destroyed with an unfinished collective request to %llx, whose "
                  "queue is full",
                  (unsigned long long)ep->addr, (unsigned long long)ep->coll.rest->desc.dst);
    }
    free(ep->coll.rest);
}
