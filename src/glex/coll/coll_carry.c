/*
 * The agent: carries out what waits in an endpoint's collective area. coll.h has the protocol.
 *
 * Nothing in an area is trusted. A descriptor is copied before it is checked; positions are masked;
 * the work of one call is bounded.
 */
#include "base/log.h"
#include "coll/coll.h"
#include "core/shm.h"

#include <unistd.h>

/* Beside GLEX_REQ_* and GLEX_COLL_OWNER: CPs are missing. */
#define CARRY_WAIT (-5)

/* Stages of a descriptor before GLEX_COLL_STAGE_SEND. */
enum { CARRY_START, CARRY_TAKE };

/* Times that one call looks again at an area to which others add: after them it is the owner's. */
#define CARRY_TRIES 1000

/* Flags of a descriptor that its carrier looks at: GLEX_FLAG_COLL and the COLL_ ones, and these. */
#define CARRY_FLAGS                                                                               \
    (((GLEX_FLAG_COLL_REDUCE_RESULT << 1) - GLEX_FLAG_COLL) | GLEX_FLAG_LOCAL_EVT |               \
     GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS)

/* ---- a peer's area --------------------------------------------------------------------------- */

/* Reserving what is reserved already changes nothing: what the area says of itself is not asked. */
static int carry_reserve(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t off)
{
    struct glex_segment_header hdr;
    int fd, err;

    if (glex_segment_open(ep->dev->dirfd, peer->addr, &hdr, &fd) != GLEX_SEGMENT_LIVING) {
        return GLEX_REQ_PEER_GONE;
    }
    err = hdr.incarnation == peer->incarnation && peer->base_size == off + GLEX_COLL_SIZE ?
              glex_segment_reserve(fd, 0, off, GLEX_COLL_SIZE) :
              -1;
    close(fd);
    if (err < 0) {
        return GLEX_REQ_PEER_GONE;
    }
    if (err > 0) {
        glex_error("cannot reserve %u KiB for the collectives of endpoint %llx: %s; %s",
                   GLEX_COLL_SIZE / 1024, (unsigned long long)peer->addr, strerror(err),
                   glex_segment_reserve_advice(err));
        return GLEX_ERR_STATUS_CONNECTION_NACK;
    }
    return GLEX_REQ_DONE;
}

int glex_coll_enable(struct glex_endpoint *ep, struct glex_peer *peer)
{
    uint64_t off;
    int status;

    if (glex_likely(peer->coll.area != NULL)) {
        return GLEX_REQ_DONE;
    }
    off = glex_coll_off((uint32_t)peer->mpq.mask + 1, (uint32_t)peer->eq.mask + 1);
    status = carry_reserve(ep, peer, off);
    if (status != GLEX_REQ_DONE) {
        return status;
    }
    peer->coll.area = (struct glex_coll *)((char *)peer->base + off);
    glex_ring_tx_init(&peer->coll.cpq, glex_coll_cpq(peer->coll.area), GLEX_COLL_CPQ_CAPACITY,
                      glex_ring_id(peer->incarnation, GLEX_RING_CPQ), &ep->segment.hdr->intent);
    return GLEX_REQ_DONE;
}

/* ---- the list of work ------------------------------------------------------------------------ */

void glex_coll_notify(struct glex_coll_work *work, struct glex_peer *peer)
{
    /* seq_cst, and so is the load of `agent` in carry_claim(): see coll.h */
    __atomic_store_n(&peer->coll.area->pending, 1, __ATOMIC_SEQ_CST);
    if (work == NULL || peer->coll.busy) {
        return; /* it will be looked at, or is, and again before it is left */
    }
    peer->coll.busy = true;
    STAILQ_INSERT_TAIL(&work->peers, peer, coll.entry);
}

/* ---- control packets ------------------------------------------------------------------------- */

/* The slot at a position of the CPQ; its length 0 where it holds nothing. False: not published. */
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
 * The end of the CPs that a sequence is to take: behind `count` that count. What offers data
 * without counting goes with the next that counts. False: they have not all come; then *end_p is
 * the first missing one.
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

/* What the CPs offer that the sequence has taken. */
struct carry_offer {
    uint8_t               data[GLEX_MP_DATA_LEN];
    uint32_t              len;
    bool                  has_data, has_addr;
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

/* The last offer of each sort. With `reduce`, all data is combined with that of the request. */
static bool carry_offers(struct glex_coll *area, struct glex_coll_desc *desc, bool reduce,
                         struct carry_offer *offer)
{
    uint64_t pos = glex_coll_cpq(area)->head, num = area->taken - pos;
    struct glex_mp_slot *slot;
    uint32_t len;

    offer->has_data = offer->has_addr = false;
    if (num > GLEX_COLL_CPQ_CAPACITY) {
        return false; /* somebody wrote nonsense there */
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
    uint32_t max = desc->kind == GLEX_COLL_IMM_PUT ? GLEX_EVENT_DATA_LEN
                   : desc->kind == GLEX_COLL_PUT && !(desc->flag & GLEX_COLL_WITH_DATA)
                       ? GLEX_MAX_RDMA_LEN
                       : GLEX_MP_DATA_LEN;

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
 * Put what the CPs offered into a request. A pure function of descriptor and CPs: after a killed
 * agent it is computed again. False: the data does not fit together.
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
 * A sequence's first request gives back the CPs of the last sequence, waits for its own and takes
 * them. Each stage can be done again after a killed agent: the step is stored before what would
 * make the stage before it come to something else.
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

/* One descriptor, from its step on. */
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
        .queued = true,
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

/* All that can be carried out of an area that is claimed. False: there is more to do, but not here
 * and now. Where CPs are missing there is not. */
static bool carry_all(struct glex_coll_work *work, struct glex_peer *owner)
{
    struct glex_coll *area = owner->coll.area;
    struct glex_coll_desc *shared, desc;
    uint64_t next;
    int status;

    for (;;) {
        next = area->next;
        shared = glex_coll_desc(area, next);
        /* acquire: pairs with the owner's release; the rest of the descriptor is there */
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
        /* release: who sees the position sees the status, and may use the descriptor again */
        __atomic_store_n(&area->next, next + 1, __ATOMIC_RELEASE);
    }
}

/* ---- being the agent ------------------------------------------------------------------------- */

/* seq_cst: in one order with the stores of `pending`, see coll.h. Also acquires what the agent
 * before left. */
static bool carry_claim(struct glex_coll *area, uint64_t me)
{
    uint64_t nobody = 0;

    return __atomic_compare_exchange_n(&area->agent, &nobody, me, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* Its owner is to look: it may sleep. The owner arms its queue and then looks at `pending`; here it
 * was set before the tails are read. All of this is seq_cst. */
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
