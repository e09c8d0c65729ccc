/*
 * Peers of other hosts: requests are kept until they have ended.
 */
#include "base/log.h"
#include "net/internal.h"

#include <arpa/inet.h>
#include <stdlib.h>

static struct net_peer *net_peer(struct glex_peer *peer)
{
    return (struct net_peer *)peer;
}

static struct net_peer *net_peer_of(struct net_side *side)
{
    return glex_container_of(side, struct net_peer, side);
}

static struct net_request *net_request(const struct net_peer *peer, uint32_t number)
{
    return &peer->requests[number % NET_WINDOW];
}

/* ---- the end of requests --------------------------------------------------------------------- */

/* Writes a local event into our own EQ. False: the EQ has no room now. */
static bool net_local_event(struct glex_endpoint *ep, const glex_event_t *event)
{
    struct glex_peer *self;
    uint64_t tail;
    int status;

    self = glex_endpoint_peer(ep, ep->addr, &status);
    if (self == NULL || glex_shm_claim_own(ep, self, &tail) != GLEX_RING_OK) {
        return false;
    }
    glex_shm_publish_own(ep, glex_ring_tx_slot(&self->eq, tail), tail, event, true);
    return true;
}

static bool net_is_rdma(const struct net_request *request)
{
    return net_kind(&request->record) >= GLEX_COLL_PUT;
}

static void net_request_failed(const struct net_peer *peer, const struct net_request *request)
{
    const struct net_record *record = &request->record;
    struct glex_coll_desc desc = {
        .dst = peer->base.addr,
        .flag = ((record->flags & NET_FLAG_ASK) ? GLEX_FLAG_LOCAL_EVT : 0) |
                ((record->flags & NET_FLAG_REMOTE_EVT) ? GLEX_FLAG_REMOTE_EVT : 0),
        .kind = net_kind(record),
        .len = net_is_rdma(request) ? record->total : record->len,
        .rmt_mh = record->mh,
        .rmt_offset = record->offset,
        .rmt_evt = {.cookie_0 = record->cookie[0], .cookie_1 = record->cookie[1]},
        .local_evt = request->local.evt,
    };

    memcpy(desc.data, request->data, sizeof(desc.data));
    glex_coll_error(peer->side.ep, &desc, request->status);
}

/* Ends one request. False: the EQ has no room for its event now. */
static bool net_request_end(const struct net_peer *peer, const struct net_request *request)
{
    if (request->status != GLEX_REQ_DONE) {
        net_request_failed(peer, request);
        return true;
    }
    return !net_is_rdma(request) || !(request->record.flags & NET_FLAG_ASK) ||
           net_local_event(peer->side.ep, &request->local.evt);
}

/* Ends the requests that the peer has carried out, in the order of posting. */
static void net_peer_finish(struct net_peer *peer)
{
    const struct net_request *request;
    struct glex_net_entry *entry = peer->side.entry;

    while (peer->head != peer->acked) {
        request = net_request(peer, peer->head);
        if (request->record.op == NET_OP_GET && !request->done) {
            return;
        }
        if (!net_request_end(peer, request)) {
            peer->side.ep->net->wants_room = true;
            net_side_list(&peer->side);
            return;
        }
        NET_ENTRY_ADD(entry, ended, 1);
        NET_ENTRY_ADD(entry, failed, request->status != GLEX_REQ_DONE);
        peer->head++;
        peer->side.ep->net->pending--;
    }
}

static int net_end_status(enum glex_net_end why)
{
    switch (why) {
    case GLEX_NET_END_UNREACHABLE:
        return GLEX_ERR_STATUS_DEST_HOST_DEAD;
    case GLEX_NET_END_DENIED:
        return GLEX_ERR_STATUS_CONNECTION_NACK;
    case GLEX_NET_END_SILENT:
        return GLEX_ERR_STATUS_CONNECTION_MAX_RETRY;
    default:
        return GLEX_ERR_STATUS_DEST_VP_STOP;
    }
}

/* Warns once that a host is silent, since jobs fail because of this and nothing else says why. Later
 * lines have the level INFO: many endpoints of many hosts may be cut off at once. */
static void net_say_silent(const struct net_peer *peer, enum glex_net_end why)
{
    struct glex_net *net = peer->side.ep->net;
    glex_ep_addr_t addr = {.v = peer->base.addr};
    uint32_t ip = htonl(glex_net_ip(&peer->side.ep->dev->net, addr.nic_id));
    char host[INET_ADDRSTRLEN];

    glex_log(net->warned ? GLEX_LOG_INFO : GLEX_LOG_WARN,
             "host %s %s: %u requests to endpoint %llx fail%s",
             inet_ntop(AF_INET, &ip, host, sizeof(host)),
             why == GLEX_NET_END_SILENT ? "has not answered for GLEX_NET_TIMEOUT" :
                                          "cannot be reached",
             peer->tail - peer->acked, (unsigned long long)peer->base.addr,
             net->warned ? "" : "; GLEX_LOG=info shows all such");
    net->warned = true;
}

/* Fails all requests that the peer has not acknowledged. The peer may have carried out some of
 * them, and no request is ever sent twice. */
static void net_peer_end(struct net_side *side, enum glex_net_end why)
{
    struct net_peer *peer = net_peer_of(side);
    struct net_request *request;
    uint32_t i;

    if (peer->side.was_up) {
        GLEX_COUNT(peer->side.ep, net_peers, -1ull);
        GLEX_COUNT(peer->side.ep, net_ended, why != GLEX_NET_END_DENIED);
    }
    if (why == GLEX_NET_END_SILENT || why == GLEX_NET_END_UNREACHABLE) {
        net_say_silent(peer, why);
    }
    NET_ENTRY_SET(peer->side.entry, to, GLEX_NET_CLOSED + (uint32_t)why);
    peer->side.conn = NULL;
    net_epoch_lost_to(peer->epoch);
    for (i = peer->head; i != peer->tail; i++) {
        request = net_request(peer, i);
        if ((int32_t)(i - peer->acked) >= 0 ||
            (request->record.op == NET_OP_GET && !request->done)) {
            request->status = (int16_t)net_end_status(why);
            request->done = true;
        }
    }
    peer->wire = peer->acked = peer->tail;
    net_peer_finish(peer);
}

/* ---- requests onto the wire ------------------------------------------------------------------ */

static bool net_has_window(const struct net_peer *peer)
{
    const struct glex_net_buffer *frame = peer->side.frame;
    uint64_t bytes = peer->bytes_sent - peer->bytes_acked;

    return bytes + (frame != NULL ? frame->len : 0) < NET_WINDOW_BYTES;
}

/* Puts a request and its data into one record of a frame. False: no room now. */
static bool net_put_record(struct net_peer *peer, const struct net_request *request)
{
    const struct net_record *record = &request->record;
    size_t header = net_header_size(record->op);
    char *at = net_side_room(&peer->side, header + net_padded(record->len));

    if (at == NULL) {
        return false;
    }
    memcpy(at, record, header);
    glex_copy_small(at + header, request->data, record->len);
    peer->wire++;
    return true;
}

/*
 * Puts another piece of a put into a frame. If the rest fits, this piece is the last one. A collective
 * put ends with NET_OP_COLL. If the program has deregistered or unmapped the memory, the last piece
 * is empty and names a registration that does not exist. So the target refuses the put, and its event.
 */
static bool net_put_piece(struct net_peer *peer, struct net_request *request)
{
    const struct net_local *local = &request->local;
    bool coll = (request->record.status & NET_COLL_PUT) != 0;
    struct net_record piece = request->record;
    uint32_t left = piece.total - request->pos;
    const char *from = left == 0 ? "" :
                                   glex_mem_range(&peer->side.ep->mem, local->mh, UINT64_MAX,
                                                  (uint64_t)local->offset + request->pos, left, 0);
    const uint8_t last = coll ? 0 : NET_FLAG_LAST;
    ssize_t len = NET_FAULT;

    piece.status = 0;
    piece.pos = request->pos;
    if (from != NULL) {
        len = net_side_append_data(&peer->side, &piece, from, left, last);
    }
    if (len == NET_FAULT) {
        request->status = from == NULL ? GLEX_ERR_STATUS_FORMAT : GLEX_ERR_STATUS_PCIE_READ;
        piece.mh = UINT64_MAX;
        len = net_side_append_data(&peer->side, &piece, "", 0, last);
    }
    if (len < 0) {
        return false;
    }
    request->pos += piece.mh == UINT64_MAX ? left : (uint32_t)len;
    if (request->pos == piece.total) {
        if (coll) {
            request->record.op = NET_OP_COLL; /* net_put_record() ends it */
        } else {
            peer->wire++;
        }
    }
    return true;
}

/* Puts the next request, or a piece of it, into a frame. False: no room now. */
static bool net_put_next(struct net_peer *peer)
{
    struct net_request *request = net_request(peer, peer->wire);

    return request->record.op == NET_OP_PUT ? net_put_piece(peer, request) :
                                              net_put_record(peer, request);
}

/*
 * Sends a frame at once if no other frame is on its way. Else the frame waits for the next turn and
 * collects more requests: one system call for many. If the program makes no call, the flusher sends
 * the frame.
 */
static void net_peer_go_on(struct net_side *side)
{
    struct net_peer *peer = net_peer_of(side);

    net_peer_finish(peer);
    if (side->conn == NULL || !side->conn->up) {
        return; /* the call up() lists this side when the connection is ready */
    }
    while (peer->wire != peer->tail && net_has_window(peer) && net_put_next(peer)) {
    }
    if (side->ask && side->frame == NULL && peer->acked != peer->tail) {
        (void)net_side_room(side, 0);
    }
    if (side->frame != NULL && (side->conn->in_flight == 0 || !net_has_window(peer))) {
        (void)net_side_send(side);
    }
    if (side->frame != NULL) {
        net_side_list(side);
    }
}

/* ---- replies --------------------------------------------------------------------------------- */

/* If the program has deregistered the memory, the memory may have another use. Then the request ends
 * with an error, and so it does if the memory is not there. */
static bool net_on_data(struct net_peer *peer, struct net_request *request,
                        const struct net_record *record, const char *data)
{
    const uint32_t total = request->record.total;
    char *to;

    if (request->record.op != NET_OP_GET || request->done || record->pos > total ||
        record->len > total - record->pos) {
        return false;
    }
    if (record->len != 0) {
        to = glex_mem_range(&peer->side.ep->mem, request->local.mh, UINT64_MAX,
                            (uint64_t)request->local.offset + record->pos, record->len, 0);
        if (to == NULL) {
            request->status = GLEX_ERR_STATUS_FORMAT;
        } else if (!net_copy(to, data, record->len)) {
            request->status = GLEX_ERR_STATUS_PCIE_READ;
        }
    }
    request->pos += record->len;
    request->done = request->pos == total;
    return true;
}

static bool net_on_reply(struct net_peer *peer, const struct net_record *record, const char *data)
{
    uint32_t number = (uint32_t)record->cookie[0];
    struct net_request *request = net_request(peer, number);

    if (number - peer->head >= peer->wire - peer->head) {
        return false;
    }
    if (record->op == NET_OP_DATA) {
        return net_on_data(peer, request, record, data);
    }
    if (record->op != NET_OP_REFUSED || record->status > GLEX_ERR_STATUS_CONNECTION_ECC) {
        return false;
    }
    if (request->status == GLEX_REQ_DONE) { /* a failure that this side found itself has priority */
        request->status = (int16_t)record->status;
    }
    request->done = true;
    return true;
}

static bool net_on_replies(struct net_peer *peer, const char *frame, size_t len)
{
    size_t pos = sizeof(struct glex_net_frame);
    struct net_record record;

    while (pos < len) {
        if (len - pos < sizeof(record)) {
            return false;
        }
        memcpy(&record, frame + pos, sizeof(record));
        pos += sizeof(record);
        if (record.len > len - pos || !net_on_reply(peer, &record, frame + pos)) {
            return false;
        }
        pos += net_padded(record.len);
    }
    return true;
}

static void net_peer_receive(struct net_side *side, const struct glex_net_frame *frame, size_t len)
{
    struct net_peer *peer = net_peer_of(side);
    struct glex_net *net = peer->side.ep->net;

    /* Handles replies before acknowledgements: the reply that refuses a request comes with the
     * acknowledgement of the request, or before it. */
    if (!net_on_replies(peer, (const char *)frame, len) ||
        frame->requests - peer->acked > peer->wire - peer->acked ||
        frame->bytes - peer->bytes_acked > peer->bytes_sent - peer->bytes_acked) {
        glex_error("endpoint %llx answers what makes no sense: the connection is closed; are both "
                   "sides of the same version of libglex?",
                   (unsigned long long)peer->base.addr);
        net->module->disconnect(peer->side.conn);
        net_side_cleanup(&peer->side);
        net_peer_end(side, GLEX_NET_END_DENIED);
        return;
    }
    peer->acked = frame->requests;
    peer->bytes_acked = frame->bytes;
    peer->side.asked = false;
    net_peer_finish(peer);
    net_side_list(&peer->side);
}

/* ---- a peer's side --------------------------------------------------------------------------- */

static struct glex_net_frame net_peer_header(const struct net_side *side)
{
    return (struct glex_net_frame){.flags = side->ask ? NET_FRAME_ASK : 0};
}

static void net_peer_sent(struct net_side *side, const struct glex_net_frame *header, size_t len)
{
    (void)header;
    net_peer_of(side)->bytes_sent += len;
    side->asked |= side->ask;
    side->ask = false;
}

/* Asks for one acknowledgement at a time. A waiting program calls this function again and again,
 * and a peer that seldom polls would receive many equal questions. */
static bool net_peer_is_busy(struct net_side *side, bool acks)
{
    const struct net_peer *peer = net_peer_of(side);

    if (side->conn == NULL ||
        (peer->wire == peer->tail && side->frame == NULL &&
         !(side->conn->up && side->conn->in_flight != 0) && !(acks && peer->acked != peer->tail))) {
        return false;
    }
    side->ask |= peer->acked != peer->tail && !side->asked;
    net_side_list(side);
    return true;
}

static void net_peer_tell(struct net_side *side)
{
    (void)side; /* a peer carries out nothing of ours that it would have to hear of */
}

static const struct net_kind net_peer_kind = {
    .go_on = net_peer_go_on,
    .receive = net_peer_receive,
    .end = net_peer_end,
    .header = net_peer_header,
    .sent = net_peer_sent,
    .is_busy = net_peer_is_busy,
    .tell = net_peer_tell,
};

/* ---- posting --------------------------------------------------------------------------------- */

/*
 * Checks after a pause whether the peer has closed the connection. At the address of the peer, a
 * new endpoint or a new receiver may exist. A request over the old connection would fail.
 */
static void net_look_after_pause(struct net_peer *peer)
{
    const struct net_side *side = &peer->side;
    uint64_t now = glex_now_ns();

    if (side->conn != NULL && side->conn->up && now - peer->posted_ns >= NET_PAUSE_NS) {
        side->ep->net->module->look(side->conn);
    }
    peer->posted_ns = now;
}

/* Returns whether no request can be taken now: the window is full, or the connection closes. */
static bool net_is_full(const struct net_peer *peer)
{
    return peer->tail - peer->head == NET_WINDOW || (peer->side.was_up && !peer->side.conn->up);
}

/* Returns GLEX_REQ_DONE if the peer has a place for another request, else the reason. */
static int net_find_place(struct glex_endpoint *ep, struct net_peer *peer)
{
    net_look_after_pause(peer);
    if (peer->side.conn != NULL && net_is_full(peer)) {
        glex_net_progress(ep);
    }
    if (peer->side.conn == NULL) {
        return net_epoch_refuses(peer->epoch) ? GLEX_ERR_STATUS_DEST_VP_STOP : GLEX_REQ_PEER_GONE;
    }
    return net_is_full(peer) ? GLEX_REQ_BUSY : GLEX_REQ_DONE;
}

/* Posts a request with its data. `local`: of an RDMA request, else NULL. */
static int net_post(struct glex_endpoint *ep, struct glex_peer *base,
                    const struct net_record *record, const void *data,
                    const struct net_local *local)
{
    struct net_peer *peer = net_peer(base);
    struct net_request *request;
    NET_LOCKED(ep);
    int status = net_find_place(ep, peer);

    if (status != GLEX_REQ_DONE) {
        return status;
    }
    request = net_request(peer, peer->tail++);
    request->record = *record;
    if (local != NULL) {
        request->local = *local;
    }
    request->pos = 0;
    request->status = GLEX_REQ_DONE;
    request->done = false;
    glex_copy_small(request->data, data, record->len);
    ep->net->pending++;
    net_side_open(&peer->side);
    GLEX_COUNT(ep, net_tx, 1);
    NET_ENTRY_ADD(peer->side.entry, posted, 1);
    /* A reply may come soon, so the next polls make progress. Without a reply, the pauses grow. */
    ep->net->misses = 0;
    if (!ep->threads.on) { /* with threads, the poll of another thread makes progress soon */
        ep->eq.polls_left = ep->mpq.polls_left = ep->poll.polls_left = 1;
        ep->poll.polls_rest = 0;
    }
    net_peer_go_on(&peer->side);
    if (peer->wire == peer->tail - 1 && local == NULL) {
        glex_net_progress(ep); /* libfabric has all frames, and progress completes some of them */
    }
    if (peer->side.frame != NULL) {
        net_flusher_wake(ep->net);
    }
    return GLEX_REQ_DONE;
}

static uint8_t net_flags(int32_t flag)
{
    return (uint8_t)(((flag & GLEX_FLAG_REMOTE_EVT) ? NET_FLAG_REMOTE_EVT : 0) |
                     ((flag & GLEX_EXT_FLAG_NO_LOSS) ? NET_FLAG_NO_LOSS : 0) |
                     ((flag & GLEX_EXT_FLAG_DOMAIN) ? NET_FLAG_DOMAIN : 0) |
                     ((flag & GLEX_FLAG_LOCAL_EVT) ? NET_FLAG_ASK : 0));
}

static int net_send_mp(struct glex_endpoint *ep, struct glex_peer *base,
                       const glex_imm_mp_req_t *req)
{
    const struct net_record record = {
        .op = NET_OP_MP, .flags = net_flags(req->flag), .len = req->len};

    return net_post(ep, base, &record, req->data, NULL);
}

static int net_post_imm(struct glex_endpoint *ep, struct glex_peer *base, uint8_t op,
                        const glex_imm_rdma_req_t *req)
{
    const struct net_record record = {
        .op = op,
        .flags = net_flags(req->flag),
        .len = req->len,
        .key = req->rmt_key,
        .offset = req->rmt_offset,
        .mh = req->rmt_mh.v,
        .total = req->len,
        .cookie = {req->rmt_evt.cookie_0, req->rmt_evt.cookie_1},
    };

    return net_post(ep, base, &record, req->data, NULL);
}

static int net_imm_put(struct glex_endpoint *ep, struct glex_peer *base,
                       const glex_imm_rdma_req_t *req)
{
    return net_post_imm(ep, base, NET_OP_IMM_PUT, req);
}

static int net_event(struct glex_endpoint *ep, struct glex_peer *base,
                     const glex_imm_rdma_req_t *req)
{
    return net_post_imm(ep, base, NET_OP_EVENT, req);
}

/* `memory` is looked up again for each piece. */
static int net_rdma(struct glex_endpoint *ep, struct glex_peer *base, const glex_rdma_req_t *req,
                    char *memory)
{
    const struct net_local local = {req->local_mh.v, req->local_offset, req->local_evt};
    const struct net_record record = {
        .op = req->type == GLEX_RDMA_TYPE_PUT ? NET_OP_PUT : NET_OP_GET,
        .flags = net_flags(req->flag),
        .key = req->rmt_key,
        .offset = req->rmt_offset,
        .mh = req->rmt_mh.v,
        .total = req->len,
        .cookie = {req->rmt_evt.cookie_0, req->rmt_evt.cookie_1},
    };

    (void)memory;
    return net_post(ep, base, &record, NULL, &local);
}

static int net_coll(struct glex_endpoint *ep, struct glex_peer *base,
                    const struct glex_coll_desc *desc)
{
    const struct net_local local = {desc->local_mh, desc->local_offset, desc->local_evt};
    const bool put = desc->kind == GLEX_COLL_PUT;
    const struct net_record record = {
        .op = put ? NET_OP_PUT : NET_OP_COLL,
        .flags = net_flags(desc->flag),
        .status = (uint16_t)((uint32_t)(desc->flag & GLEX_COLL_AT_TARGET) >> NET_COLL_SHIFT |
                             (put                             ? NET_COLL_PUT :
                              desc->kind == GLEX_COLL_IMM_PUT ? NET_COLL_IMM_PUT :
                                                                0)),
        .len = put && !(desc->flag & GLEX_COLL_WITH_DATA) ? 0 : desc->len,
        .key = desc->rmt_key,
        .offset = desc->rmt_offset,
        .mh = desc->rmt_mh,
        .total = desc->len,
        .cookie = {desc->rmt_evt.cookie_0, desc->rmt_evt.cookie_1},
    };

    return net_post(ep, base, &record, desc->data, put ? &local : NULL);
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* Connects a new peer in the present epoch, or in a new epoch if there is none. False: not
 * possible, which was logged. */
static bool net_peer_connect(struct net_peer *peer, uint32_t ip)
{
    struct net_epoch *epoch = peer->epoch;
    const glex_ep_addr_t addr = {.v = epoch->addr};
    struct glex_net *net = epoch->ep->net;

    net_epoch_begin(epoch);
    peer->side.conn =
        net->module->connect(net->engine, ip, glex_net_port(addr.ep_num), addr.v,
                             epoch->from != NULL ? epoch->from->side.conn : NULL, &peer->side);
    if (peer->side.conn == NULL) {
        return false;
    }
    peer->side.conn->epoch = epoch->own;
    epoch->to = peer;
    return true;
}

static struct glex_peer *net_peer_attach(struct glex_endpoint *ep, uint64_t addr, int *status_p)
{
    const glex_ep_addr_t ep_addr = {.v = addr};
    uint32_t ip = glex_net_ip(&ep->dev->net, ep_addr.nic_id);
    struct glex_net *net = ep->net;
    struct net_peer *peer;

    if (net == NULL || ip == 0 || ep_addr.ep_num > glex_net_max_num()) {
        *status_p =
            net == NULL || ip == 0 ? GLEX_ERR_STATUS_DEST_HOST_DEAD : GLEX_ERR_STATUS_DEST_VP_STOP;
        return NULL;
    }
    *status_p = GLEX_ERR_STATUS_CONNECTION_NACK;
    peer = aligned_alloc(_Alignof(struct net_peer), sizeof(*peer));
    if (peer == NULL) {
        glex_error("no memory for a peer");
        return NULL;
    }
    memset(peer, 0, sizeof(*peer));
    peer->base.addr = addr;
    peer->side.kind = &net_peer_kind;
    peer->side.ep = ep;
    peer->requests = calloc(NET_WINDOW, sizeof(*peer->requests));
    NET_LOCKED(ep);
    peer->epoch = net_epoch_get(ep, addr);
    if (peer->epoch != NULL && net_epoch_refuses(peer->epoch)) {
        *status_p = GLEX_ERR_STATUS_DEST_VP_STOP;
    } else if (peer->epoch != NULL && peer->requests != NULL) {
        (void)net_peer_connect(peer, ip);
    }
    if (peer->side.conn == NULL) {
        free(peer->requests);
        free(peer);
        return NULL;
    }
    peer->side.entry = net_entry(ep, addr);
    NET_ENTRY_SET(peer->side.entry, to, GLEX_NET_CONNECTING);
    return &peer->base;
}

static void net_detach(struct glex_endpoint *ep, struct glex_peer *base)
{
    struct net_peer *peer = net_peer(base);

    NET_LOCKED(ep);
    ep->net->pending -= peer->tail - peer->head;
    if (peer->side.conn != NULL) { /* the endpoint closes, so open requests end without a report */
        ep->net->module->disconnect(peer->side.conn);
        net_epoch_lost_to(peer->epoch);
        GLEX_COUNT(ep, net_peers, peer->side.was_up ? -1ull : 0);
        peer->head = peer->tail;
    }
    /* The peer carried these requests out before its connection ended, but the EQ had no room for
     * their events. */
    while (peer->head != peer->tail) {
        net_request(peer, peer->head)->status = GLEX_ERR_STATUS_DEST_EQ_FULL;
        NET_ENTRY_ADD(peer->side.entry, ended, 1);
        NET_ENTRY_ADD(peer->side.entry, failed, 1);
        net_request_failed(peer, net_request(peer, peer->head++));
    }
    net_side_cleanup(&peer->side);
    free(peer->requests);
    free(peer);
}

/*
 * Returns whether the connection with a peer lasts. Reads the last messages of a peer that has
 * closed. A program that makes no other call learns of the end by this function.
 */
static bool net_is_living(struct glex_endpoint *ep, const struct glex_peer *base)
{
    const struct net_side *side = &((const struct net_peer *)base)->side;
    NET_LOCKED(ep);

    if (side->conn != NULL && side->conn->up) {
        ep->net->module->look(side->conn);
    }
    if (side->conn != NULL && side->was_up && !side->conn->up) {
        glex_net_progress(ep);
    }
    return side->conn != NULL;
}

static bool net_reaches(struct glex_nic *dev, uint32_t nic_id)
{
    return dev->net.on && nic_id != dev->nic_id && glex_net_ip(&dev->net, nic_id) != 0;
}

const struct glex_link glex_net_link = {
    .name = "net",
    .is_remote = true,
    .reaches = net_reaches,
    .attach = net_peer_attach,
    .detach = net_detach,
    .is_living = net_is_living,
    .send_mp = net_send_mp,
    .imm_put = net_imm_put,
    .event = net_event,
    .rdma = net_rdma,
    .coll = net_coll,
};
