/*
 * The agent executes the requests of an endpoint's collective area. coll.h has the protocol.
 *
 * Nothing in an area is trusted. A descriptor is copied before it is checked, positions are masked,
 * and the work of one call is bounded.
 */
#include "coll/coll.h"
#include "core/shm.h"

/* A status beside GLEX_REQ_* and GLEX_COLL_OWNER: CPs are missing. */
#define CARRY_WAIT (-5)

/* Stages of a descriptor before GLEX_COLL_STAGE_SEND. */
enum { CARRY_START, CARRY_TAKE };

/* Most rounds of one call over one area. Then the call wakes the owner, which continues. */
#define CARRY_TRIES 1000

/* Flags of a descriptor that the agent reads. */
#define CARRY_FLAGS                                                                                \
    (((GLEX_FLAG_COLL_REDUCE_RESULT << 1) - GLEX_FLAG_COLL) | GLEX_FLAG_LOCAL_EVT |                \
     GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS)

/* ---- control packets ------------------------------------------------------------------------- */

/* Finds the slot at a position of the CPQ, with length 0 if the slot is to skip. Returns false if the
 * position is not published. */
static bool carry_cp(struct glex_coll *area, uint64_t pos, struct glex_mp_slot **slot_p,
                     uint32_t *len_p)
{
    struct glex_mp_slot *slots = (struct glex_mp_slot *)(glex_coll_cpq(area) + 1);
    uint64_t ctrl;

    *slot_p = &slots[pos % GLEX_COLL_CPQ_CAPACITY];
    ctrl = __atomic_load_n(&(*slot_p)->ctrl, __ATOMIC_ACQUIRE); /* as glex_ring_rx_slot() */
    *len_p = GLEX_CTRL_LEN(ctrl);
    if ((*len_p & ~GLEX_COLL_CP_VALID) != 0 || (*len_p & GLEX_COLL_CP_LEN) > GLEX_MP_DATA_LEN) {
        *len_p = 0;
    }
    return GLEX_CTRL_SEQ(ctrl) == (uint32_t)(pos + 1);
}

/*
 * Finds the end of the CPs that a sequence takes: behind `count` CPs that count. A CP that offers
 * data without counting belongs to the next CP that counts. Returns false if CPs are missing; *end_p
 * is then the first missing position.
 */
static bool carry_scan(struct glex_coll *area, uint32_t count, uint64_t *end_p)
{
    uint64_t pos = glex_coll_cpq(area)->head, limit = pos + GLEX_COLL_CPQ_CAPACITY;
    struct glex_mp_slot *slot;
    uint32_t len;

    while (count != 0 && pos != limit && carry_cp(area, pos, &slot, &len)) {
        count -= (len & GLEX_COLL_CP_COUNT) != 0;
        pos++;
    }
    *end_p = pos;
    return count == 0;
}

/* The offers of the CPs that the sequence has taken. */
struct carry_offer {
    uint8_t data[GLEX_MP_DATA_LEN];
    uint32_t len;
    bool has_data, has_addr;
    struct glex_coll_addr addr;
};

static void carry_take_offer(struct carry_offer *offer, const struct glex_mp_slot *slot,
                             uint32_t len)
{
    uint32_t data_len = len & GLEX_COLL_CP_LEN;

    if (len & GLEX_COLL_CP_DATA) {
        offer->has_data = true;
        offer->len = data_len;
        memcpy(offer->data, slot->data, data_len);
    }
    if ((len & GLEX_COLL_CP_ADDR) && data_len >= sizeof(offer->addr)) {
        offer->has_addr = true;
        memcpy(&offer->addr, slot->data, sizeof(offer->addr));
    }
}

/* Takes the last offer of each sort. With `reduce`, combines all data with the request's data. */
static bool carry_offers(struct glex_coll *area, struct glex_coll_desc *desc, bool reduce,
                         struct carry_offer *offer)
{
    uint64_t pos = glex_coll_cpq(area)->head, num = area->taken - pos;
    struct glex_mp_slot *slot;
    uint32_t len;

    offer->has_data = offer->has_addr = false;
    if (num > GLEX_COLL_CPQ_CAPACITY) {
        return false; /* another process wrote nonsense there */
    }
    for (; num != 0 && carry_cp(area, pos, &slot, &len); num--, pos++) {
        carry_take_offer(offer, slot, len);
        if (reduce && (len & GLEX_COLL_CP_DATA) &&
            !glex_coll_reduce_combine(desc->data, desc->len, offer->data, offer->len)) {
            return false;
        }
    }
    return true;
}

/* ---- a descriptor ---------------------------------------------------------------------------- */

bool glex_coll_is_valid(const struct glex_coll_desc *desc)
{
    uint32_t max = desc->kind == GLEX_COLL_IMM_PUT ? GLEX_EVENT_DATA_LEN :
                   desc->kind == GLEX_COLL_PUT && !(desc->flag & GLEX_COLL_WITH_DATA) ?
                                                     GLEX_MAX_RDMA_LEN :
                                                     GLEX_MP_DATA_LEN;

    return desc->kind < GLEX_COLL_KINDS && desc->len <= max &&
           !((desc->flag & GLEX_FLAG_REMOTE_EVT) && desc->rmt_evt.cookie_1 == 0) &&
           !((desc->flag & GLEX_FLAG_LOCAL_EVT) && desc->local_evt.cookie_1 == 0) &&
           !((desc->flag & GLEX_FLAG_COLL_REDUCE) &&
             (desc->kind == GLEX_COLL_PUT || !glex_coll_reduce_is_valid(desc->data, desc->len)));
}

static void carry_swap_addr(struct glex_coll_desc *desc, const struct glex_coll_addr *addr)
{
    if (desc->flag & GLEX_FLAG_COLL_SWAP_EP) {
        desc->dst = addr->ep_addr;
    }
    if (desc->kind != GLEX_COLL_MP) {
        desc->rmt_mh = addr->mh;
        desc->rmt_offset = addr->offset;
        desc->rmt_key = addr->key;
    }
}

/*
 * Puts the offers of the CPs into a request. The result depends on the descriptor and the CPs only,
 * so the agent after a killed agent computes it again. Returns false if the data does not fit
 * together.
 */
static bool carry_swap(struct glex_coll *area, struct glex_coll_send *send)
{
    const int32_t swaps = GLEX_FLAG_COLL_SWAP | GLEX_FLAG_COLL_SWAP_EP | GLEX_FLAG_COLL_SWAP_SET;
    struct glex_coll_desc *desc = send->desc;
    bool reduce = (desc->flag & GLEX_FLAG_COLL_REDUCE) != 0;
    struct carry_offer offer;

    send->num_set = 0;
    if (!reduce && !(desc->flag & swaps)) {
        return true;
    }
    if (!carry_offers(area, desc, reduce, &offer)) {
        return false;
    }
    if (desc->flag & GLEX_FLAG_COLL_SWAP_SET) {
        if (desc->kind != GLEX_COLL_MP) {
            return false;
        }
        glex_coll_take_set(send);
    }
    if (offer.has_data && !reduce && desc->kind != GLEX_COLL_PUT &&
        (desc->flag & (GLEX_FLAG_COLL_SWAP | GLEX_FLAG_COLL_SWAP_SET))) {
        desc->len = offer.len;
        memcpy(desc->data, offer.data, offer.len);
    }
    if (offer.has_addr && (desc->flag & (GLEX_FLAG_COLL_SWAP | GLEX_FLAG_COLL_SWAP_EP))) {
        carry_swap_addr(desc, &offer.addr);
    }
    return desc->kind != GLEX_COLL_IMM_PUT || desc->len <= GLEX_EVENT_DATA_LEN;
}

static void carry_step(struct glex_coll *area, uint64_t next, uint32_t stage)
{
    /* release: as send_note() */
    __atomic_store_n(&area->step, GLEX_COLL_STEP(next, stage), __ATOMIC_RELEASE);
}

/*
 * The first request of a sequence releases the CPs of the last sequence, waits for its own CPs and
 * takes them. The agent after a killed agent may repeat each stage: the step is stored before any
 * store that would change the result of the stage before.
 * @return Whether the CPs have come.
 */
static bool carry_start(struct glex_coll *area, uint64_t next, const struct glex_coll_desc *desc,
                        uint32_t stage)
{
    struct glex_ring_ctl *cpq = glex_coll_cpq(area);
    uint64_t end;

    if (stage == CARRY_START) {
        if (area->taken - cpq->head <= GLEX_COLL_CPQ_CAPACITY) {
            /* release: as glex_ring_discard() */
            __atomic_store_n(&cpq->head, area->taken, __ATOMIC_RELEASE);
        }
        carry_step(area, next, CARRY_TAKE);
    }
    if (!carry_scan(area, desc->counter, &end)) {
        return false;
    }
    area->taken = end;
    return true;
}

/* Executes one descriptor, from its step on. */
static int carry_desc(struct glex_coll_work *work, struct glex_peer *owner, uint64_t next,
                      struct glex_coll_desc *desc)
{
    struct glex_coll *area = owner->coll.area;
    uint64_t step = area->step;
    uint32_t stage = GLEX_COLL_STEP_IS_OF(step, next) ? GLEX_COLL_STEP_STAGE(step) : CARRY_START;
    struct glex_coll_send send = {
        .work = work,
        .ep = work->ep,
        .owner = owner,
        .src = owner->addr,
        .desc = desc,
        .step_p = &area->step,
    };

    if (stage < GLEX_COLL_STAGE_SEND) {
        if ((desc->flag & GLEX_FLAG_COLL_SEQ_START) && !carry_start(area, next, desc, stage)) {
            return CARRY_WAIT;
        }
        carry_step(area, next, GLEX_COLL_STAGE_SEND);
        step = area->step;
    }
    send.step = step;
    if (!glex_coll_is_valid(desc) || !carry_swap(area, &send)) {
        return GLEX_ERR_STATUS_FORMAT;
    }
    return glex_coll_send(&send);
}

static void carry_count(struct glex_endpoint *ep, const struct glex_peer *owner)
{
    if (owner->is_self) {
        GLEX_COUNT(ep, coll_tx, 1);
    } else {
        GLEX_COUNT(ep, coll_carried, 1);
    }
}

/* Executes the ready requests of an area whose agent is the caller. Returns false if a ready
 * request remains that this call cannot execute. */
static bool carry_all(struct glex_coll_work *work, struct glex_peer *owner)
{
    struct glex_coll *area = owner->coll.area;
    struct glex_coll_desc *shared, desc;
    uint64_t next;
    int status;

    for (;;) {
        next = area->next;
        shared = glex_coll_desc(area, next);
        /* acquire: pairs with the owner's release, so the rest of the descriptor is stored */
        if ((uint32_t)__atomic_load_n(&shared->ctrl, __ATOMIC_ACQUIRE) != (uint32_t)(next + 1)) {
            return true;
        }
        if (work->budget == 0) {
            return false;
        }
        desc = *shared;
        desc.flag &= CARRY_FLAGS;
        status = carry_desc(work, owner, next, &desc);
        if (status == GLEX_REQ_BUSY || status == GLEX_COLL_OWNER || status == CARRY_WAIT) {
            return status == CARRY_WAIT;
        }
        work->budget--;
        if (status == GLEX_REQ_DONE) {
            carry_count(work->ep, owner);
        }
        shared->status = status;
        /* release: an owner that sees the position sees the status, and may reuse the descriptor */
        __atomic_store_n(&area->next, next + 1, __ATOMIC_RELEASE);
    }
}

/* ---- being the agent ------------------------------------------------------------------------- */

/* seq_cst: in one order with the stores of `pending`, see coll.h. Also acquires the stores of the
 * agent before. */
static bool carry_claim(struct glex_coll *area, uint64_t me)
{
    uint64_t nobody = 0;

    return __atomic_compare_exchange_n(&area->agent, &nobody, me, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* Wakes the owner if it sleeps, because it must serve its area. The owner arms its queue and then
 * reads `pending`. The agent sets `pending` and then reads the tails. All four accesses are
 * seq_cst. */
static void carry_wake_owner(struct glex_endpoint *ep, struct glex_peer *owner)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!owner->is_self && ((__atomic_load_n(&owner->mpq.ctl->tail, __ATOMIC_RELAXED) |
                             __atomic_load_n(&owner->eq.ctl->tail, __ATOMIC_RELAXED)) &
                            GLEX_TAIL_ARMED)) {
        glex_wait_wake(ep, owner->addr, owner->incarnation);
    }
}

static void carry_peer(struct glex_coll_work *work, struct glex_peer *owner)
{
    struct glex_coll *area = owner->coll.area;
    int tries = 0;
    bool done;

    do {
        if (!carry_claim(area, work->ep->segment.incarnation)) {
            return; /* the agent sees `pending` */
        }
        __atomic_store_n(&area->pending, 0, __ATOMIC_SEQ_CST);
        done = carry_all(work, owner) && ++tries < CARRY_TRIES;
        if (!done) {
            __atomic_store_n(&area->pending, 1, __ATOMIC_SEQ_CST);
        }
        __atomic_store_n(&area->agent, 0, __ATOMIC_SEQ_CST);
    } while (done && __atomic_load_n(&area->pending, __ATOMIC_SEQ_CST) != 0);
    if (!done) {
        carry_wake_owner(work->ep, owner);
    }
}

void glex_coll_run(struct glex_coll_work *work)
{
    struct glex_peer *peer;

    while ((peer = STAILQ_FIRST(&work->peers)) != NULL) {
        STAILQ_REMOVE_HEAD(&work->peers, coll.entry);
        carry_peer(work, peer);
        peer->coll.busy = false;
    }
}

void glex_coll_pass_over(struct glex_endpoint *ep)
{
    struct glex_coll *area = ep->coll.area;
    uint64_t missing;

    if (!carry_claim(area, ep->segment.incarnation)) {
        return;
    }
    (void)carry_scan(area, UINT32_MAX, &missing);
    if (glex_ring_stalled(&ep->coll.cpq, missing, ep->dev->dirfd, &ep->segment)) {
        __atomic_store_n(&area->pending, 1, __ATOMIC_SEQ_CST);
    }
    __atomic_store_n(&area->agent, 0, __ATOMIC_SEQ_CST);
}
