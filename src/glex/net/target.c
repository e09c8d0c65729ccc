/*
 * Requests from other hosts. They are carried out on queues and memory of this endpoint, in the
 * order of arrival.
 */
#include "base/log.h"
#include "net/internal.h"

#include <stdlib.h>

/* Results in addition to GLEX_REQ_DONE. STALL: the record, and all later ones, wait for room. BAD:
 * the record is not valid. */
#define NET_STALL (-10)
#define NET_BAD   (-11)

_Static_assert(NET_COLL_FLAGS << NET_COLL_SHIFT == GLEX_COLL_AT_TARGET, "wire format");

/* A value of net_reply.op that is never sent: the get's data is in frames, and the target's event
 * is due. */
#define NET_REPLY_EVENT 0

static const struct net_kind net_source_kind;

static struct net_source *net_source_of(struct net_side *side)
{
    return glex_container_of(side, struct net_source, side);
}

struct net_source *net_source_new(struct glex_endpoint *ep, struct glex_net_conn *conn)
{
    struct net_epoch *epoch = net_epoch_get(ep, conn->addr);
    struct net_source *source;

    if (epoch == NULL || epoch->own != conn->epoch) {
        return NULL; /* no memory (logged), or the epoch ended while libfabric connected */
    }
    source = calloc(1, sizeof(*source));
    if (source != NULL) {
        source->replies = calloc(NET_REPLIES, sizeof(*source->replies));
    }
    if (source == NULL || source->replies == NULL) {
        glex_error("no memory for a peer");
        free(source);
        return NULL;
    }
    if (epoch->from != NULL) { /* the peer gave up its earlier connection before it was up */
        net_source_drop(epoch->from);
    }
    source->side.ep = ep;
    source->side.entry = net_entry(ep, conn->addr);
    NET_ENTRY_SET(source->side.entry, from, GLEX_NET_UP);
    source->side.conn = conn;
    source->side.kind = &net_source_kind;
    source->put_status = GLEX_REQ_DONE;
    source->epoch = epoch;
    source->number = epoch->own;
    epoch->from = source;
    STAILQ_INIT(&source->held);
    GLEX_COUNT(ep, net_peers, 1);
    return source;
}

static void net_source_free(struct net_source *source)
{
    struct net_held *held;

    while ((held = STAILQ_FIRST(&source->held)) != NULL) {
        STAILQ_REMOVE_HEAD(&source->held, entry);
        free(held);
    }
    if (source->is_left) {
        LIST_REMOVE(source, left);
    } else {
        source->epoch->from = NULL;
    }
    net_side_cleanup(&source->side);
    free(source->replies);
    free(source);
}

/* Nothing comes any more. */
static void net_source_lost(struct net_source *source, enum glex_net_end why)
{
    NET_ENTRY_SET(source->side.entry, from, GLEX_NET_CLOSED + (uint32_t)why);
    GLEX_COUNT(source->side.ep, net_peers, -1ull);
    net_side_cleanup(&source->side);
    source->side.conn = NULL;
    if (!source->is_left) {
        net_epoch_lost_from(source->epoch, why == GLEX_NET_END_SILENT);
    }
}

static void net_source_end(struct net_side *side, enum glex_net_end why)
{
    struct net_source *source = net_source_of(side);

    net_source_lost(source, why);
    if (STAILQ_EMPTY(&source->held)) {
        net_source_free(source);
    } else {
        net_side_list(&source->side);
    }
}

void net_source_drop(struct net_source *source)
{
    if (source->side.conn != NULL) {
        source->side.ep->net->module->disconnect(source->side.conn);
        NET_ENTRY_SET(source->side.entry, from, GLEX_NET_CLOSED);
        GLEX_COUNT(source->side.ep, net_peers, -1ull);
    }
    net_source_free(source);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The endpoint itself as a peer: its queues and registrations. */
static struct glex_peer *net_self(struct glex_endpoint *ep)
{
    int status;

    return glex_endpoint_peer(ep, ep->addr, &status);
}

static int32_t net_request_flags(const struct net_record *record)
{
    return ((record->flags & NET_FLAG_REMOTE_EVT) ? GLEX_FLAG_REMOTE_EVT : 0) |
           ((record->flags & NET_FLAG_NO_LOSS) ? GLEX_EXT_FLAG_NO_LOSS : 0);
}

static int net_on_mp(struct net_source *source, struct glex_peer *self,
                     const struct net_record *record, const char *data)
{
    if (record->len > GLEX_MP_DATA_LEN) {
        return NET_BAD;
    }
    return glex_shm_mp(source->side.ep, self, source->epoch->addr, data, record->len,
                       net_request_flags(record));
}

/* As net_memory(), in the domain. Any thread may read the domain's private copies of its table. */
static int net_domain_memory(const struct glex_endpoint *domain, const struct net_record *record,
                             uint32_t need, char **ptr_p)
{
    if (domain == NULL || domain->attr.key != record->key ||
        glex_mem_range(&domain->mem, record->mh, UINT64_MAX, 0, 0, need) == NULL) {
        return GLEX_ERR_STATUS_MMT;
    }
    *ptr_p =
        glex_mem_range(&domain->mem, record->mh, UINT64_MAX, record->offset, record->total, need);
    return *ptr_p != NULL ? GLEX_REQ_DONE : GLEX_ERR_STATUS_ATT;
}

/* Returns the address of the memory that a request names. The memory must be registered for the
 * request's direction. */
static int net_memory(struct net_source *source, struct glex_peer *self,
                      const struct net_record *record, uint32_t need, char **ptr_p)
{
    struct glex_rmem *rmem;
    int status;

    if (glex_ring_refuses(&self->eq)) {
        return GLEX_ERR_STATUS_DEST_VP_STOP;
    }
    if (record->flags & NET_FLAG_DOMAIN) {
        return net_domain_memory(source->side.ep->domain, record, need, ptr_p);
    }
    status = glex_shm_rmem(source->side.ep, self, record->mh, record->key, record->offset,
                           record->total, need, &rmem);
    if (status == GLEX_REQ_DONE) {
        *ptr_p = rmem->ptr + record->offset;
    }
    return status;
}

static int net_on_immediate(struct net_source *source, struct glex_peer *self,
                            const struct net_record *record, const char *data)
{
    glex_imm_rdma_req_t req = {
        .data = (void *)(uintptr_t)data,
        .len = record->len,
        .rmt_mh.v = record->mh,
        .rmt_offset = record->offset,
        .rmt_evt = {.cookie_0 = record->cookie[0], .cookie_1 = record->cookie[1]},
        .rmt_key = record->key,
        .flag = net_request_flags(record),
    };

    if (record->len > GLEX_EVENT_DATA_LEN) {
        return NET_BAD;
    }
    return record->op == NET_OP_EVENT ? glex_shm_post_event(source->side.ep, self, &req) :
                                        glex_shm_imm_put(source->side.ep, self, &req);
}

static int net_on_put(struct net_source *source, struct glex_peer *self,
                      const struct net_record *record, const char *data)
{
    glex_event_t event = {.cookie_0 = record->cookie[0], .cookie_1 = record->cookie[1]};
    int status;
    char *ptr;

    if (record->pos > record->total || record->len > record->total - record->pos) {
        return NET_BAD;
    }
    status = net_memory(source, self, record, GLEX_MEM_WRITE, &ptr);
    if (status == GLEX_REQ_DONE && !net_copy(ptr + record->pos, data, record->len)) {
        status = GLEX_ERR_STATUS_PCIE_READ;
    }
    if (source->put_status == GLEX_REQ_DONE) {
        source->put_status = status;
    }
    if (record->op == NET_OP_PUT && !(record->flags & NET_FLAG_LAST)) {
        return GLEX_REQ_DONE;
    }
    status = source->put_status;
    if (status == GLEX_REQ_DONE && (record->flags & NET_FLAG_REMOTE_EVT)) {
        status =
            glex_shm_event(source->side.ep, self, &event, net_request_flags(record), NULL, 0, 0);
    }
    if (status != GLEX_REQ_BUSY) {
        source->put_status = GLEX_REQ_DONE;
    }
    return status;
}

static struct net_reply *net_reply(struct net_source *source, uint8_t op)
{
    struct net_reply *reply = &source->replies[source->reply_tail % NET_REPLIES];

    if (source->reply_tail - source->reply_head == NET_REPLIES) {
        return NULL; /* more requests than the window allows */
    }
    source->reply_tail++;
    *reply = (struct net_reply){.op = op, .request = source->requests};
    return reply;
}

static int net_on_get(struct net_source *source, struct glex_peer *self,
                      const struct net_record *record)
{
    struct net_reply *reply;
    char *ptr;
    int status;

    if (record->len != 0) {
        return NET_BAD;
    }
    status = net_memory(source, self, record, GLEX_MEM_READ, &ptr);
    if (status != GLEX_REQ_DONE) {
        return status;
    }
    reply = net_reply(source, NET_OP_DATA);
    if (reply == NULL) {
        return NET_BAD;
    }
    reply->get = *record;
    return GLEX_REQ_DONE;
}

/* Handles a collective request. If it completes a wait of the area, the next idle poll carries the
 * waiting requests, because this function runs inside of a turn. */
static int net_on_coll(struct net_source *source, const struct net_record *record, const char *data)
{
    struct glex_coll_desc desc = {
        .flag = net_request_flags(record) | (record->status & NET_COLL_FLAGS) << NET_COLL_SHIFT,
        .kind = net_kind(record),
        .len = record->len,
        .rmt_mh = record->mh,
        .rmt_offset = record->offset,
        .rmt_key = record->key,
        .rmt_evt = {.cookie_0 = record->cookie[0], .cookie_1 = record->cookie[1]},
    };
    int status = desc.kind == GLEX_COLL_PUT ? source->put_status : GLEX_REQ_DONE;

    if (record->len > (desc.kind == GLEX_COLL_IMM_PUT ? GLEX_EVENT_DATA_LEN : GLEX_MP_DATA_LEN) ||
        ((desc.flag & GLEX_FLAG_REMOTE_EVT) && desc.rmt_evt.cookie_1 == 0)) {
        return NET_BAD;
    }
    glex_copy_small(desc.data, data, record->len);
    if (status == GLEX_REQ_DONE) {
        status = glex_coll_receive(source->side.ep, source->epoch->addr, &desc, &source->coll_step);
    }
    if (status != GLEX_REQ_BUSY) {
        source->put_status = GLEX_REQ_DONE;
        source->coll_step = 0;
    }
    return status;
}

static int net_carry_out(struct net_source *source, const struct net_record *record,
                         const char *data)
{
    struct glex_peer *self = net_self(source->side.ep);

    if (self == NULL) {
        return GLEX_ERR_STATUS_CONNECTION_NACK;
    }
    switch (record->op) {
    case NET_OP_MP:
        return net_on_mp(source, self, record, data);
    case NET_OP_IMM_PUT:
        if (record->flags & NET_FLAG_DOMAIN) {
            return net_on_put(source, self, record, data);
        }
        return net_on_immediate(source, self, record, data);
    case NET_OP_EVENT:
        return net_on_immediate(source, self, record, data);
    case NET_OP_PUT:
        return net_on_put(source, self, record, data);
    case NET_OP_GET:
        return net_on_get(source, self, record);
    case NET_OP_COLL:
        return net_on_coll(source, record, data);
    default:
        return NET_BAD;
    }
}

/* Returns GLEX_REQ_DONE, NET_STALL or NET_BAD. */
static int net_do_record(struct net_source *source, const struct net_record *record,
                         const char *data)
{
    int status = net_carry_out(source, record, data);
    struct net_reply *reply;

    if (status == GLEX_REQ_BUSY) {
        return NET_STALL;
    }
    if (status == NET_BAD) {
        return NET_BAD;
    }
    if (status != GLEX_REQ_DONE) {
        reply = net_reply(source, NET_OP_REFUSED);
        if (reply == NULL) {
            return NET_BAD;
        }
        reply->status =
            status == GLEX_REQ_PEER_GONE ? GLEX_ERR_STATUS_DEST_VP_STOP : (uint16_t)status;
    }
    if (record->op != NET_OP_PUT || (record->flags & NET_FLAG_LAST)) {
        source->requests++;
        GLEX_COUNT(source->side.ep, net_rx, 1);
        NET_ENTRY_ADD(source->side.entry, received, 1);
    }
    source->side.tell |= (record->flags & NET_FLAG_ASK) != 0;
    return GLEX_REQ_DONE;
}

/* The records from *pos on, which ends where it stalls. */
static int net_do_records(struct net_source *source, const char *frame, size_t len, size_t *pos)
{
    struct net_record record;
    size_t header;
    int ret;

    memset(&record, 0, sizeof(record)); /* a message's header is short */
    while (*pos < len) {
        header = net_header_size((uint8_t)frame[*pos]);
        if (len - *pos < header) {
            return NET_BAD;
        }
        memcpy(&record, frame + *pos, header);
        if (record.len > len - *pos - header) {
            return NET_BAD;
        }
        ret = net_do_record(source, &record, frame + *pos + header);
        if (ret != GLEX_REQ_DONE) {
            return ret;
        }
        *pos += header + net_padded(record.len);
    }
    return GLEX_REQ_DONE;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void net_source_bad(struct net_source *source)
{
    glex_error("endpoint %llx sends what makes no sense: the connection is closed; are both sides "
               "of the same version of libglex?",
               (unsigned long long)source->epoch->addr);
    if (source->side.conn != NULL) {
        source->side.ep->net->module->disconnect(source->side.conn);
        net_source_lost(source, GLEX_NET_END_DENIED);
    }
    net_source_free(source);
}

/* Keeps the rest of a frame that cannot be carried out now. The peer sends at most NET_WINDOW_BYTES
 * before an acknowledgement, which limits the memory. */
static bool net_hold(struct net_source *source, const char *frame, size_t len, size_t pos)
{
    struct net_held *held = malloc(sizeof(*held) + len - pos);

    if (held == NULL) {
        glex_error("no memory for %zu bytes that a full queue has no room for", len - pos);
        return false;
    }
    held->pos = 0;
    held->len = len - pos;
    held->frame_len = len;
    memcpy(held->data, frame + pos, len - pos);
    STAILQ_INSERT_TAIL(&source->held, held, entry);
    net_side_list(&source->side);
    return true;
}

static void net_source_receive(struct net_side *side, const struct glex_net_frame *frame,
                               size_t len)
{
    struct net_source *source = net_source_of(side);
    size_t pos = sizeof(*frame);
    int ret = NET_STALL;

    source->side.tell |= (frame->flags & NET_FRAME_ASK) != 0;
    if (STAILQ_EMPTY(&source->held)) {
        ret = net_do_records(source, (const char *)frame, len, &pos);
    }
    if (ret == NET_BAD || (ret == NET_STALL && !net_hold(source, (const char *)frame, len, pos))) {
        net_source_bad(source);
        return;
    }
    if (ret == GLEX_REQ_DONE) {
        source->bytes += len;
    }
    net_side_list(&source->side);
}

/* Carries out held records. False: the source was freed. */
static bool net_retry_held(struct net_source *source)
{
    struct net_held *held;
    int ret;

    while ((held = STAILQ_FIRST(&source->held)) != NULL) {
        ret = net_do_records(source, held->data, held->len, &held->pos);
        if (ret == NET_BAD) {
            net_source_bad(source);
            return false;
        }
        if (ret == NET_STALL) {
            source->side.ep->net->wants_room = true;
            net_side_list(&source->side);
            return true;
        }
        source->bytes += held->frame_len;
        STAILQ_REMOVE_HEAD(&source->held, entry);
        free(held);
    }
    return true;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Puts another piece of a get's data into a frame. The program may have deregistered or unmapped the
 * memory since: then the get is refused. False: not now. */
static bool net_send_piece(struct net_source *source, struct net_reply *reply)
{
    struct net_record record = {
        .op = NET_OP_DATA, .pos = reply->pos, .cookie = {reply->request, 0}};
    struct glex_peer *self = net_self(source->side.ep);
    char *ptr = NULL;
    int status = self == NULL ? GLEX_ERR_STATUS_CONNECTION_NACK :
                                net_memory(source, self, &reply->get, GLEX_MEM_READ, &ptr);
    ssize_t len = 0;

    if (status == GLEX_REQ_DONE) {
        len = net_side_append_data(&source->side, &record, ptr + reply->pos,
                                   reply->get.total - reply->pos, 0);
        status = len == NET_FAULT ? GLEX_ERR_STATUS_PCIE_READ : GLEX_REQ_DONE;
    }
    if (status != GLEX_REQ_DONE) {
        reply->op = NET_OP_REFUSED;
        reply->status = status < 0 ? GLEX_ERR_STATUS_DEST_VP_STOP : (uint16_t)status;
        return true;
    }
    if (len == NET_NOT_NOW) {
        return false;
    }
    reply->pos += (uint32_t)len;
    reply->op = reply->pos == reply->get.total ? NET_REPLY_EVENT : NET_OP_DATA;
    return true;
}

/* All data of a get is in frames. The target's event follows when the frames have been sent, because
 * the memory is free then, and when the event queue has room. False: not now. */
static bool net_reply_event(struct net_source *source, const struct net_reply *reply)
{
    const struct net_record *get = &reply->get;
    glex_event_t event = {.cookie_0 = get->cookie[0], .cookie_1 = get->cookie[1]};
    struct net_side *side = &source->side;
    struct glex_peer *self;

    if (get->flags & NET_FLAG_REMOTE_EVT) {
        self = net_self(side->ep);
        if (!net_side_send(side) || side->conn->in_flight != 0 || self == NULL ||
            glex_shm_event(side->ep, self, &event, GLEX_EXT_FLAG_NO_LOSS, NULL, 0, 0) ==
                GLEX_REQ_BUSY) {
            side->ep->net->wants_room = true;
            net_side_list(side);
            return false;
        }
    }
    source->reply_head++;
    return true;
}

static bool net_send_refusal(struct net_source *source, const struct net_reply *reply)
{
    struct net_record record = {
        .op = NET_OP_REFUSED, .status = reply->status, .cookie = {reply->request, 0}};
    char *at = net_side_room(&source->side, sizeof(record));

    if (at == NULL) {
        return false;
    }
    memcpy(at, &record, sizeof(record));
    source->reply_head++;
    return true;
}

/* Returns whether an acknowledgement is due. */
static bool net_is_to_tell(const struct net_source *source)
{
    return source->side.tell || source->requests - source->told_requests >= NET_ACK_REQUESTS ||
           source->bytes - source->told_bytes >= NET_ACK_BYTES;
}

static void net_source_go_on(struct net_side *side)
{
    struct net_source *source = net_source_of(side);
    struct net_reply *reply;
    bool sent = true;

    if (!net_retry_held(source)) {
        return;
    }
    if (side->conn == NULL) { /* the connection has ended, so drop the replies */
        source->reply_head = source->reply_tail;
        if (STAILQ_EMPTY(&source->held)) {
            net_source_free(source);
        }
        return;
    }
    while (sent && source->reply_head != source->reply_tail) {
        reply = &source->replies[source->reply_head % NET_REPLIES];
        sent = reply->op == NET_OP_DATA     ? net_send_piece(source, reply) :
               reply->op == NET_REPLY_EVENT ? net_reply_event(source, reply) :
                                              net_send_refusal(source, reply);
    }
    if (side->frame == NULL && net_is_to_tell(source)) {
        (void)net_side_room(side, 0);
    }
    (void)net_side_send(side);
}

/* ---- a source's side ------------------------------------------------------------------------- */

/* Returns how many requests are acknowledged: none behind a request whose refusal is not in a frame
 * yet. */
static uint32_t net_told_requests(const struct net_source *source)
{
    uint32_t i;

    for (i = source->reply_head; i != source->reply_tail; i++) {
        if (source->replies[i % NET_REPLIES].op == NET_OP_REFUSED) {
            return source->replies[i % NET_REPLIES].request;
        }
    }
    return source->requests;
}

static struct glex_net_frame net_source_header(const struct net_side *side)
{
    const struct net_source *source = (const struct net_source *)side;

    return (struct glex_net_frame){.requests = net_told_requests(source), .bytes = source->bytes};
}

static void net_source_sent(struct net_side *side, const struct glex_net_frame *header, size_t len)
{
    struct net_source *source = net_source_of(side);

    (void)len;
    source->told_requests = header->requests;
    source->told_bytes = header->bytes;
    side->tell = false;
}

static void net_source_tell(struct net_side *side)
{
    const struct net_source *source = net_source_of(side);

    if (source->bytes != source->told_bytes) {
        side->tell = true;
        net_side_list(side);
    }
}

/* Acknowledges what was carried out, before this endpoint ends. Without the acknowledgement the
 * source would report these requests as failed. */
static bool net_source_is_busy(struct net_side *side, bool acks)
{
    (void)acks;
    if (side->conn == NULL) {
        return false; /* held requests wait until the program takes entries from its queues */
    }
    net_source_tell(side);
    return side->tell || side->frame != NULL || side->conn->in_flight != 0;
}

static const struct net_kind net_source_kind = {
    .go_on = net_source_go_on,
    .receive = net_source_receive,
    .end = net_source_end,
    .header = net_source_header,
    .sent = net_source_sent,
    .is_busy = net_source_is_busy,
    .tell = net_source_tell,
};
