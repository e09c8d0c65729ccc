/*
 * Carries out one collective request for its owner. The stages for each destination are memory,
 * event, message and control packet. The local event is the last stage. A stage that leaves an entry
 * in a ring notes the position of the entry before it publishes the entry. If the agent is killed,
 * the next agent reads that position and looks into the ring. The dead agent cannot publish any more,
 * so the next agent repeats the stage exactly if the entry is not published.
 */
#include "coll/coll.h"
#include "core/shm.h"

#define SEND_STAGE_LOCAL 0x80u
#define SEND_STAGES      4u /* of each destination */
enum { SEND_MEMORY, SEND_EVENT, SEND_MP, SEND_CP };

/* Size of the buffer through which private memory of another process is copied. */
#define SEND_BOUNCE_LEN 16384u

static void send_note(struct glex_coll_send *send, uint64_t step)
{
    send->step = step;
    /* release: an agent that sees the step sees all earlier stores */
    __atomic_store_n(send->step_p, step, __ATOMIC_RELEASE);
}

static void send_note_stage(struct glex_coll_send *send, uint32_t stage)
{
    send_note(send, GLEX_COLL_STEP(send->step >> 16, stage));
}

static bool send_is_before(const struct glex_coll_send *send, uint32_t stage)
{
    return GLEX_COLL_STEP_STAGE(send->step) <= stage;
}

/* Returns whether the entry that a killed agent noted was published. If the slot holds an entry of a
 * later lap, the noted entry was published or passed over, and the stage is not repeated. */
static bool send_was_published(const struct glex_ring_tx *ring, uint32_t seq)
{
    const uint64_t *slot = glex_ring_tx_slot(ring, seq - 1u);
    uint64_t ctrl;

    if (((seq - 1u) & ring->mask) >= glex_ring_ready(ring)) {
        return false; /* the note is noise: a claimed slot has storage */
    }
    ctrl = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (GLEX_CTRL_SEQ(ctrl) == seq) {
        return GLEX_CTRL_LEN(ctrl) != GLEX_CTRL_LEN_SKIP;
    }
    return (int32_t)(GLEX_CTRL_SEQ(ctrl) - seq) > 0;
}

/* Returns whether a stage with a ring is still to be done. */
static bool send_is_due(struct glex_coll_send *send, uint32_t stage,
                        const struct glex_ring_tx *ring)
{
    if (!send_is_before(send, stage)) {
        return false;
    }
    if (GLEX_COLL_STEP_STAGE(send->step) == stage && GLEX_COLL_STEP_HAS_SEQ(send->step) &&
        send_was_published(ring, GLEX_COLL_STEP_SEQ(send->step))) {
        send_note_stage(send, stage + 1);
        return false;
    }
    return true;
}

static void send_wake(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t tail)
{
    if (tail & GLEX_TAIL_ARMED) {
        glex_wait_wake(ep, peer->addr, peer->incarnation);
    }
}

static void send_note_publish(struct glex_coll_send *send, uint32_t stage, uint64_t tail)
{
    uint64_t pos = tail & GLEX_TAIL_POS;

    send_note(send, GLEX_COLL_STEP_PUBLISH(GLEX_COLL_STEP(send->step >> 16, stage), pos));
}

/* ---- source ---------------------------------------------------------------------------------- */

/* Finds the source memory of a put. *ptr_p is its address here, or NULL for private memory of another
 * process; *addr_p is its address there. */
static int send_source(struct glex_coll_send *send, uint64_t offset, uint64_t len, char **ptr_p,
                       uint64_t *addr_p)
{
    const struct glex_coll_desc *desc = send->desc;
    struct glex_rmem *rmem;
    int status;

    offset += desc->local_offset;
    if (send->owner->is_self) {
        *ptr_p = glex_mem_range(&send->ep->mem, desc->local_mh, UINT64_MAX, offset, len, 0);
        return *ptr_p != NULL ? GLEX_REQ_DONE : GLEX_ERR_STATUS_FORMAT;
    }
    status = glex_shm_rmem(send->ep, send->owner, desc->local_mh, send->owner->key, offset, len, 0,
                           &rmem);
    if (status != GLEX_REQ_DONE) {
        return GLEX_ERR_STATUS_FORMAT;
    }
    *ptr_p = rmem->ptr != NULL ? rmem->ptr + offset : NULL;
    *addr_p = rmem->addr + offset;
    return GLEX_REQ_DONE;
}

static int send_read(struct glex_coll_send *send, uint64_t offset, char *data, uint64_t len)
{
    uint64_t addr = 0;
    char *ptr = NULL;
    int status = len == 0 ? GLEX_REQ_DONE : send_source(send, offset, len, &ptr, &addr);

    if (status != GLEX_REQ_DONE || len == 0) {
        return status;
    }
    if (ptr != NULL) {
        memcpy(data, ptr, len);
        return GLEX_REQ_DONE;
    }
    status = glex_cma_copy(send->ep, send->owner, addr, data, len, GLEX_RDMA_TYPE_GET);
    return status == GLEX_REQ_DONE ? status : GLEX_COLL_OWNER;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static glex_rdma_req_t send_put_req(const struct glex_coll_desc *desc, uint64_t done, uint32_t len)
{
    glex_rdma_req_t req = {
        .rmt_mh.v = desc->rmt_mh,
        .rmt_offset = (uint32_t)(desc->rmt_offset + done),
        .rmt_key = desc->rmt_key,
        .len = len,
        .type = GLEX_RDMA_TYPE_PUT,
    };

    return req;
}

/* An agent may lack the right to read the source; the owner has the right. */
static int send_or_owner(const struct glex_coll_send *send, int status)
{
    return status == GLEX_ERR_STATUS_PCIE_READ && !send->owner->is_self ? GLEX_COLL_OWNER : status;
}

/*
 * Puts in pieces. If source and destination belong to one peer, a look-up of the source may unmap the
 * destination. So each piece looks up both.
 */
static int send_put_pieces(struct glex_coll_send *send, struct glex_peer *dst)
{
    const struct glex_coll_desc *desc = send->desc;
    char bounce[SEND_BOUNCE_LEN];
    glex_rdma_req_t req;
    uint64_t done;
    uint32_t len;
    int status;

    if ((uint64_t)desc->rmt_offset + desc->len > UINT32_MAX) {
        return GLEX_COLL_OWNER; /* the offsets of later pieces do not fit 32 bits */
    }
    for (done = 0; done < desc->len; done += len) {
        len = desc->len - done < sizeof(bounce) ? (uint32_t)(desc->len - done) : sizeof(bounce);
        req = send_put_req(desc, done, len);
        status = send_read(send, done, bounce, len);
        if (status == GLEX_REQ_DONE) {
            status = glex_shm_rdma(send->ep, dst, &req, bounce);
        }
        if (status != GLEX_REQ_DONE) {
            return status;
        }
    }
    return GLEX_REQ_DONE;
}

static int send_put(struct glex_coll_send *send, struct glex_peer *dst)
{
    glex_rdma_req_t req = send_put_req(send->desc, 0, send->desc->len);
    char nothing, *ptr = &nothing;
    uint64_t addr;
    int status;

    if (req.len != 0) {
        status = send_source(send, 0, req.len, &ptr, &addr);
        if (status != GLEX_REQ_DONE) {
            return status;
        }
        if (!send->owner->is_self && (ptr == NULL || dst == send->owner)) {
            return send_put_pieces(send, dst);
        }
    }
    return glex_shm_rdma(send->ep, dst, &req, ptr);
}

static int send_memory(struct glex_coll_send *send, struct glex_peer *dst, bool *with_event)
{
    struct glex_coll_desc *desc = send->desc;
    struct glex_rmem *rmem;
    int status;

    if (desc->kind == GLEX_COLL_PUT) {
        return send_put(send, dst);
    }
    status = glex_shm_rmem(send->ep, dst, desc->rmt_mh, desc->rmt_key, desc->rmt_offset, desc->len,
                           GLEX_MEM_WRITE, &rmem);
    if (status != GLEX_REQ_DONE) {
        return status;
    }
    *with_event = (desc->flag & GLEX_FLAG_REMOTE_EVT) && (rmem->state & GLEX_EXT_MEM_EVENT_DATA);
    if (*with_event || desc->len == 0) {
        return GLEX_REQ_DONE;
    }
    if (rmem->ptr != NULL) {
        glex_copy_small(rmem->ptr + desc->rmt_offset, desc->data, desc->len);
        return GLEX_REQ_DONE;
    }
    return glex_cma_copy(send->ep, dst, rmem->addr + desc->rmt_offset, (char *)desc->data,
                         desc->len, GLEX_RDMA_TYPE_PUT);
}

static int send_event(struct glex_coll_send *send, struct glex_peer *dst, uint32_t stage,
                      bool with_data)
{
    struct glex_coll_desc *desc = send->desc;
    uint64_t place = (uint64_t)desc->rmt_offset << 32 | (desc->rmt_mh & GLEX_PLACE_MASK), tail;
    enum glex_ring_ret ret;

    if (!(desc->flag & GLEX_FLAG_REMOTE_EVT) || !send_is_due(send, stage, &dst->eq)) {
        return GLEX_REQ_DONE;
    }
    ret = glex_shm_claim(send->ep, dst, &dst->eq, &tail);
    if (ret != GLEX_RING_OK) {
        return glex_shm_refused(send->ep, dst, ret, desc->flag, GLEX_ERR_STATUS_DEST_EQ_FULL);
    }
    send_note_publish(send, stage, tail);
    glex_shm_fill_event(glex_ring_tx_slot(&dst->eq, tail), tail, &desc->rmt_evt, desc->data,
                        with_data ? desc->len : 0, place);
    send_wake(send->ep, dst, tail);
    send_note_stage(send, stage + 1);
    return GLEX_REQ_DONE;
}

static int send_mp(struct glex_coll_send *send, struct glex_peer *dst, uint32_t stage,
                   const void *data)
{
    struct glex_coll_desc *desc = send->desc;
    enum glex_ring_ret ret;
    uint64_t tail;

    if (!send_is_due(send, stage, &dst->mpq)) {
        return GLEX_REQ_DONE;
    }
    ret = glex_shm_claim(send->ep, dst, &dst->mpq, &tail);
    if (ret != GLEX_RING_OK) {
        return glex_shm_refused(send->ep, dst, ret, desc->flag, GLEX_ERR_STATUS_DEST_MPQ_FULL);
    }
    send_note_publish(send, stage, tail);
    glex_shm_fill_mp(glex_ring_tx_slot(&dst->mpq, tail), tail, send->src, data, desc->len);
    send_wake(send->ep, dst, tail);
    send_note_stage(send, stage + 1);
    return GLEX_REQ_DONE;
}

static bool send_has_cp(const struct glex_coll_desc *desc)
{
    return (desc->flag & (GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_COLL_CP_SWAP_DATA |
                          GLEX_FLAG_COLL_CP_SWAP_ADDR)) != 0;
}

static bool send_has_mp(const struct glex_coll_desc *desc)
{
    return (desc->flag & GLEX_FLAG_COLL_CP_DATA) != 0 ||
           (desc->kind == GLEX_COLL_MP && !send_has_cp(desc));
}

static uint32_t send_cp_len(const struct glex_coll_desc *desc)
{
    uint32_t len = 0;

    if (desc->flag & GLEX_FLAG_COLL_COUNTER) {
        len |= GLEX_COLL_CP_COUNT;
    }
    if (desc->flag & GLEX_FLAG_COLL_CP_SWAP_DATA) {
        len |= GLEX_COLL_CP_DATA | desc->len;
    }
    if (desc->flag & GLEX_FLAG_COLL_CP_SWAP_ADDR) {
        len |= GLEX_COLL_CP_ADDR | desc->len;
    }
    return len;
}

static int send_refused_cp(struct glex_coll_send *send, struct glex_peer *dst,
                           enum glex_ring_ret ret)
{
    return glex_shm_refused(send->ep, dst, ret, GLEX_EXT_FLAG_NO_LOSS,
                            GLEX_ERR_STATUS_DEST_MPQ_FULL);
}

static int send_cp(struct glex_coll_send *send, struct glex_peer *dst, uint32_t stage,
                   const void *data)
{
    uint32_t len = send_cp_len(send->desc);
    struct glex_mp_slot *slot;
    enum glex_ring_ret ret;
    uint64_t tail;

    if (!send_is_due(send, stage, &dst->coll.cpq)) {
        return GLEX_REQ_DONE;
    }
    ret = glex_ring_claim(&dst->coll.cpq, &tail);
    if (ret != GLEX_RING_OK) {
        return send_refused_cp(send, dst, ret);
    }
    slot = glex_ring_tx_slot(&dst->coll.cpq, tail);
    slot->src = send->src;
    glex_copy_small(slot->data, data, len & GLEX_COLL_CP_LEN);
    send_note_publish(send, stage, tail);
    glex_ring_publish(&slot->ctrl, tail, len);
    return GLEX_REQ_DONE;
}

/* Whether the request has left no entry at this destination yet. */
static bool send_is_fresh(const struct glex_coll_send *send, uint32_t base)
{
    uint32_t stage = GLEX_COLL_STEP_STAGE(send->step);

    return stage < base + SEND_EVENT ||
           (stage == base + SEND_EVENT && !GLEX_COLL_STEP_HAS_SEQ(send->step));
}

/* A ring without storage has room: the claim reserves storage. */
static bool send_lacks_room(struct glex_ring_tx *ring, enum glex_ring_ret *ret)
{
    *ret = glex_ring_look(ring);
    return *ret != GLEX_RING_OK && *ret != GLEX_RING_NO_STORAGE;
}

/* Checks the room of all queues before the first entry, so a request that is refused has left
 * nothing in any queue. */
static int send_check_room(struct glex_coll_send *send, struct glex_peer *dst)
{
    const struct glex_coll_desc *desc = send->desc;
    enum glex_ring_ret ret;

    if (desc->kind != GLEX_COLL_MP && (desc->flag & GLEX_FLAG_REMOTE_EVT) &&
        send_lacks_room(&dst->eq, &ret)) {
        return glex_shm_refused(send->ep, dst, ret, desc->flag, GLEX_ERR_STATUS_DEST_EQ_FULL);
    }
    if (send_has_mp(desc) && send_lacks_room(&dst->mpq, &ret)) {
        return glex_shm_refused(send->ep, dst, ret, desc->flag, GLEX_ERR_STATUS_DEST_MPQ_FULL);
    }
    if (send_has_cp(desc) && send_lacks_room(&dst->coll.cpq, &ret)) {
        return send_refused_cp(send, dst, ret);
    }
    return GLEX_REQ_DONE;
}

/* Leaves the entries, the CP last. Each entry is published before the next one is claimed. */
static int send_visible(struct glex_coll_send *send, struct glex_peer *dst, uint32_t base,
                        bool with_event, const void *data)
{
    int status = GLEX_REQ_DONE;

    if (send->desc->kind != GLEX_COLL_MP) {
        status = send_event(send, dst, base + SEND_EVENT, with_event);
    }
    if (status == GLEX_REQ_DONE && send_has_mp(send->desc)) {
        status = send_mp(send, dst, base + SEND_MP, data);
    }
    if (status == GLEX_REQ_DONE && send_has_cp(send->desc)) {
        status = send_cp(send, dst, base + SEND_CP, data);
    }
    return status;
}

static int send_to_peer(struct glex_coll_send *send, struct glex_peer *dst, uint32_t base)
{
    struct glex_coll_desc *desc = send->desc;
    char payload[GLEX_MP_DATA_LEN];
    const void *data = desc->data;
    bool with_event = false;
    int status = GLEX_REQ_DONE;

    if (glex_ring_refuses(&dst->mpq)) {
        return glex_ring_is_closed(&dst->mpq) ? GLEX_REQ_PEER_GONE : GLEX_ERR_STATUS_DEST_VP_STOP;
    }
    if (send_has_cp(desc)) {
        status = glex_coll_enable(send->ep, dst);
    }
    if (status == GLEX_REQ_DONE && send_is_fresh(send, base)) {
        status = send_check_room(send, dst);
    }
    if (status == GLEX_REQ_DONE && desc->kind == GLEX_COLL_PUT &&
        (desc->flag & GLEX_COLL_WITH_DATA)) {
        status = send_read(send, 0, payload, desc->len);
        data = payload;
    }
    /* If the event was published, the memory must not be written again. */
    if (desc->flag & GLEX_FLAG_REMOTE_EVT) {
        (void)send_is_due(send, base + SEND_EVENT, &dst->eq);
    }
    if (status == GLEX_REQ_DONE && desc->kind != GLEX_COLL_MP &&
        send_is_before(send, base + SEND_EVENT)) {
        status = send_or_owner(send, send_memory(send, dst, &with_event));
    }
    if (status == GLEX_REQ_DONE) {
        status = send_visible(send, dst, base, with_event, data);
    }
    if (status == GLEX_REQ_DONE && send_has_cp(desc)) {
        glex_coll_notify(send->work, dst);
    }
    return status;
}

static bool send_is_remote(const struct glex_coll_send *send, uint64_t addr)
{
    const struct glex_link *link = glex_endpoint_link(send->ep, addr);

    return link != NULL && link->is_remote;
}

/* Sends a request to another host. The request travels with the flags that the target executes. */
static int send_to_host(struct glex_coll_send *send, struct glex_peer *dst)
{
    struct glex_coll_desc desc = *send->desc;
    char *local = NULL;
    int status;

    desc.dst = dst->addr;
    if (desc.kind == GLEX_COLL_PUT && desc.len != 0) {
        status = send_source(send, 0, desc.len, &local, NULL);
        if (status != GLEX_REQ_DONE) {
            return status;
        }
        if (desc.flag & GLEX_COLL_WITH_DATA) {
            memcpy(desc.data, local, desc.len);
        }
    }
    send->remote = true;
    return dst->link->coll(send->ep, dst, &desc);
}

/* Sends to one destination. If the peer is gone, another endpoint may have its address, so the
 * address is looked up once more. A peer in the list of work is kept. */
static int send_to(struct glex_coll_send *send, uint64_t addr, uint32_t base)
{
    struct glex_peer *dst;
    int status, tries;

    if (!send->owner->is_self && send_is_remote(send, addr)) {
        return GLEX_COLL_OWNER; /* the owner has the connections, and learns how the request ends */
    }
    for (tries = 0; tries < 2; tries++) {
        dst = glex_endpoint_peer(send->ep, addr & 0xffffffff0000ffffull, &status);
        if (dst == NULL) {
            return status;
        }
        status = dst->link->is_remote ? send_to_host(send, dst) : send_to_peer(send, dst, base);
        if (status != GLEX_REQ_PEER_GONE || dst->is_self || dst->coll.busy) {
            break;
        }
        glex_peer_drop(send->ep, dst);
    }
    return status == GLEX_REQ_PEER_GONE ? (int)GLEX_ERR_STATUS_DEST_VP_STOP : status;
}

/* The event at the request's owner. The owner may be another process than the agent, so the claim
 * needs an intent. */
static int send_local_event(struct glex_coll_send *send)
{
    struct glex_peer *owner = send->owner;
    enum glex_ring_ret ret;
    uint64_t tail;

    if (send->remote || !(send->desc->flag & GLEX_FLAG_LOCAL_EVT) ||
        !send_is_due(send, SEND_STAGE_LOCAL, &owner->eq)) {
        return GLEX_REQ_DONE;
    }
    ret = glex_shm_claim_always(send->ep, owner, &owner->eq, &tail);
    if (ret != GLEX_RING_OK) {
        return GLEX_REQ_BUSY;
    }
    send_note_publish(send, SEND_STAGE_LOCAL, tail);
    glex_shm_fill_event(glex_ring_tx_slot(&owner->eq, tail), tail, &send->desc->local_evt, NULL, 0,
                        0);
    send_wake(send->ep, owner, tail);
    return GLEX_REQ_DONE;
}

void glex_coll_take_set(struct glex_coll_send *send)
{
    struct glex_coll_desc *desc = send->desc;

    send->num_set = desc->len / (uint32_t)sizeof(send->set[0]);
    memcpy(send->set, desc->data, send->num_set * sizeof(send->set[0]));
    desc->len = 0;
}

int glex_coll_send(struct glex_coll_send *send)
{
    uint32_t i, num = send->num_set != 0 ? send->num_set : 1, base = GLEX_COLL_STAGE_SEND;
    int status, first = GLEX_REQ_DONE;

    for (i = 0; i < num; i++, base += SEND_STAGES) {
        if (!send_is_before(send, base + SEND_CP)) {
            continue;
        }
        status = send_to(send, send->num_set != 0 ? send->set[i] : send->desc->dst, base);
        if (status == GLEX_REQ_BUSY || status == GLEX_COLL_OWNER) {
            return status;
        }
        if (status != GLEX_REQ_DONE && first == GLEX_REQ_DONE) {
            first = status; /* the other destinations of the set still get the request */
        }
        send_note_stage(send, base + SEND_STAGES);
    }
    return first == GLEX_REQ_DONE ? send_local_event(send) : first;
}

int glex_coll_receive(struct glex_endpoint *ep, uint64_t src, struct glex_coll_desc *desc,
                      uint64_t *step_p)
{
    int status = GLEX_REQ_DONE;
    struct glex_coll_send send = {
        .ep = ep,
        .owner = glex_endpoint_peer(ep, ep->addr, &status),
        .src = src,
        .desc = desc,
        .step_p = step_p,
        .step = *step_p,
    };

    if (send.owner == NULL) {
        return status;
    }
    desc->dst = ep->addr;
    if (desc->kind == GLEX_COLL_PUT) {
        desc->kind = GLEX_COLL_IMM_PUT; /* the source is on the other host */
        if (*step_p == 0) {
            send.step = GLEX_COLL_STEP(0, GLEX_COLL_STAGE_SEND + SEND_EVENT);
        }
    }
    return glex_coll_send(&send);
}
