/*
 * Carrying out one collective request, for its owner, in stages: memory, event, message, control
 * packet, for each destination; then the local event. A stage that leaves an entry in a ring notes
 * the entry's position before it publishes it. If the agent is killed, the next one finds that
 * stage and looks into the ring: the dead agent cannot publish any more, so what is not there is
 * done again, and what is there is not.
 */
#include "coll/coll.h"
#include "core/shm.h"

#define SEND_STAGE_LOCAL 0x80u
#define SEND_STAGES      4u   /* of each destination */
enum { SEND_MEMORY, SEND_EVENT, SEND_MP, SEND_CP };

/* What private memory of another process goes through, at a time. */
#define SEND_BOUNCE_LEN 16384u

static void send_note(struct glex_coll_send *send, uint64_t step)
{
    send->step = step;
    /* release: who sees the step sees what was stored before it */
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

/* Whether the entry that a killed agent noted was published. A slot of a later lap: it was, or was
 * passed over; it is not done twice. */
static bool send_was_published(const struct glex_ring_tx *ring, uint32_t seq)
{
    const uint64_t *slot = glex_ring_tx_slot(ring, seq - 1u);
    uint64_t ctrl;

    if (((seq - 1u) & ring->mask) >= glex_ring_ready(ring)) {
        return false; /* the note is noise: nobody claims a slot that has no storage */
    }
    ctrl = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (GLEX_CTRL_SEQ(ctrl) == seq) {
        return GLEX_CTRL_LEN(ctrl) != GLEX_CTRL_LEN_SKIP;
    }
    return (int32_t)(GLEX_CTRL_SEQ(ctrl) - seq) > 0;
}

/* A stage with a ring: whether it is still to be done. */
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

/* Where the source memory of a put can be read here: *ptr_p, or NULL: private memory of another
 * process, at *addr_p there. */
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

/* What the agent may not do, the owner may be able to. */
static int send_or_owner(const struct glex_coll_send *send, int status)
{
    return status == GLEX_ERR_STATUS_PCIE_READ && !send->owner->is_self ? GLEX_COLL_OWNER : status;
}

/*
 * In pieces: each looks up both registrations again, because looking up one may take the other's
 * mapping away where both are of the same peer.
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
        return GLEX_COLL_OWNER; /* the offsets of later pieces are not to be said */
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

/* Where the event is there already and the request cannot be continued, the message can be lost. */
static int send_mp(struct glex_coll_send *send, struct glex_peer *dst, uint32_t stage,
                   const void *data)
{
    struct glex_coll_desc *desc = send->desc;
    int32_t flag = desc->flag;
    enum glex_ring_ret ret;
    uint64_t tail;

    if (!send_is_due(send, stage, &dst->mpq)) {
        return GLEX_REQ_DONE;
    }
    if (!send->queued && desc->kind != GLEX_COLL_MP) {
        flag &= ~GLEX_EXT_FLAG_NO_LOSS;
    }
    ret = glex_shm_claim(send->ep, dst, &dst->mpq, &tail);
    if (ret != GLEX_RING_OK) {
        return glex_shm_refused(send->ep, dst, ret, flag, GLEX_ERR_STATUS_DEST_MPQ_FULL);
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

/* The CP's slot is claimed before anything is visible: a request that finds no room is not begun.
 * It is published last, after what the CP announces, or, after a failure, as one to skip. */
static int send_visible(struct glex_coll_send *send, struct glex_peer *dst, uint32_t base,
                        bool with_event, const void *data)
{
    bool has_cp = send_has_cp(send->desc) && send_is_due(send, base + SEND_CP, &dst->coll.cpq);
    struct glex_mp_slot *slot = NULL;
    enum glex_ring_ret ret;
    uint64_t tail = 0;
    int status;

    if (has_cp) {
        ret = glex_ring_claim(&dst->coll.cpq, &tail);
        if (ret != GLEX_RING_OK) {
            return glex_shm_refused(send->ep, dst, ret, GLEX_EXT_FLAG_NO_LOSS,
                                    GLEX_ERR_STATUS_DEST_MPQ_FULL);
        }
        slot = glex_ring_tx_slot(&dst->coll.cpq, tail);
    }
    status = send->desc->kind == GLEX_COLL_MP ? GLEX_REQ_DONE
                                              : send_event(send, dst, base + SEND_EVENT,
                                                           with_event);
    if (status == GLEX_REQ_DONE && send_has_mp(send->desc)) {
        status = send_mp(send, dst, base + SEND_MP, data);
    }
    if (!has_cp) {
        return status;
    }
    if (status != GLEX_REQ_DONE) {
        glex_ring_publish(&slot->ctrl, tail, GLEX_CTRL_LEN_SKIP);
        return status;
    }
    slot->src = send->src;
    glex_copy_small(slot->data, data, send_cp_len(send->desc) & GLEX_COLL_CP_LEN);
    send_note_publish(send, base + SEND_CP, tail);
    glex_ring_publish(&slot->ctrl, tail, send_cp_len(send->desc));
    return GLEX_REQ_DONE;
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
    if (status == GLEX_REQ_DONE && desc->kind == GLEX_COLL_PUT &&
        (desc->flag & GLEX_COLL_WITH_DATA)) {
        status = send_read(send, 0, payload, desc->len);
        data = payload;
    }
    /* Once the event is there, the memory is its owner's again. */
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

/* To another host: what the target has to do travels as one request, and ends as all such do. */
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

/* A peer that is gone may have been replaced: look once more. One that is in the list of work, or
 * whose work this is, is needed there. */
static int send_to(struct glex_coll_send *send, uint64_t addr, uint32_t base)
{
    struct glex_peer *dst;
    int status, tries;

    if (!send->owner->is_self && send_is_remote(send, addr)) {
        return GLEX_COLL_OWNER; /* it has the connections, and hears how the request ends */
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

/* The initiator's own event, of a request that waited: the others' is claimed by coll.c before. */
static int send_local_event(struct glex_coll_send *send)
{
    struct glex_peer *owner = send->owner;
    enum glex_ring_ret ret;
    uint64_t tail;

    if (!send->queued || send->remote || !(send->desc->flag & GLEX_FLAG_LOCAL_EVT) ||
        !send_is_due(send, SEND_STAGE_LOCAL, &owner->eq)) {
        return GLEX_REQ_DONE;
    }
    ret = glex_shm_claim_own(send->ep, owner, &tail);
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
            first = status; /* of a set, the others get theirs */
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
        .queued = true,
    };

    if (send.owner == NULL) {
        return status;
    }
    desc->dst = ep->addr;
    if (desc->kind == GLEX_COLL_PUT) {
        desc->kind = GLEX_COLL_IMM_PUT; /* its source is not here */
        if (*step_p == 0) {
            send.step = GLEX_COLL_STEP(0, GLEX_COLL_STAGE_SEND + SEND_EVENT);
        }
    }
    return glex_coll_send(&send);
}
