/*
 * Handlers of arriving messages. They check everything: lengths, numbers of peers and of endpoints.
 * A wrong message is dropped with one line in the log.
 */
#include "gfi_expected.h"

#include <string.h>

static ucs_status_t gfi_arrive_bad(const char *what)
{
    GFI_WARN(FI_LOG_EP_DATA, "a message is dropped: %s\n", what);
    return UCS_OK;
}

/* The sender of a message, by the number in the message. NULL: no peer has this number, or an earlier
 * message of the peer was lost here. A failed peer's messages arrive: they were sent before. */
static inline struct gfi_peer *gfi_arrive_peer(struct gfi_domain *domain, uint64_t header)
{
    uint32_t id = gfi_header_peer(header);
    struct gfi_peer *peer;

    if (gfi_unlikely(id >= domain->num_peers) || gfi_unlikely(domain->peers[id] == NULL)) {
        gfi_arrive_bad("of an unknown sender");
        return NULL;
    }
    peer = domain->peers[id];
    return gfi_likely(!peer->is_cut) ? peer : NULL;
}

/* A message for an endpoint that no longer exists: notify the sender if it waits */
static ucs_status_t gfi_arrive_no_ep(struct gfi_peer *peer, bool waits, uint64_t op)
{
    GFI_INFO(FI_LOG_EP_DATA, "a message of peer %u is dropped: its endpoint was closed\n",
             peer->id);
    if (waits) {
        gfi_peer_send_fin(peer, op, FI_ECONNREFUSED);
    }
    return UCS_OK;
}

/* A message for a closed endpoint, with an acknowledgement, unexpected, or too long for its
 * receive */
static __attribute__((noinline)) ucs_status_t gfi_arrive_eager_slow(struct gfi_peer *peer,
                                                                    struct gfi_ep *ep, bool tagged,
                                                                    const uint64_t *words,
                                                                    size_t length)
{
    struct gfi_envelope envelope = {.peer = peer,
                                    .source = gfi_peer_source(peer, words[0]),
                                    .flags = gfi_header_flags(words[0]),
                                    .op = GFI_NO_OP};
    size_t n = 1;

    if (length < sizeof(uint64_t) * (n + tagged + ((envelope.flags & GFI_HDR_DATA) != 0) +
                                     ((envelope.flags & GFI_HDR_ACK) != 0))) {
        return gfi_arrive_bad("too short");
    }
    envelope.tag = tagged ? words[n++] : 0;
    envelope.data = envelope.flags & GFI_HDR_DATA ? words[n++] : 0;
    envelope.op = envelope.flags & GFI_HDR_ACK ? words[n++] : GFI_NO_OP;
    envelope.len = length - n * sizeof(uint64_t);
    if (ep == NULL || !ep->enabled) {
        return gfi_arrive_no_ep(peer, envelope.flags & GFI_HDR_ACK, envelope.op);
    }
    gfi_recv_arrive(ep, tagged, &envelope, words + n);
    return UCS_OK;
}

/* A message that was sent at once. The words that the header's flags name follow the header */
static inline ucs_status_t gfi_arrive_eager(struct gfi_domain *domain, const uint64_t *words,
                                            size_t length, bool tagged)
{
    uint64_t flags, data;
    struct gfi_peer *peer;
    struct gfi_ep *ep;
    size_t n;

    if (gfi_unlikely(length < sizeof(uint64_t))) {
        return gfi_arrive_bad("too short");
    }
    peer = gfi_arrive_peer(domain, words[0]);
    if (gfi_unlikely(peer == NULL)) {
        return UCS_OK;
    }
    flags = gfi_header_flags(words[0]);
    ep = domain->eps[gfi_header_dst(words[0])];
    n = 1 + tagged + (flags & GFI_HDR_DATA);
    if (gfi_unlikely(ep == NULL) || gfi_unlikely(!ep->enabled) ||
        gfi_unlikely(flags & GFI_HDR_ACK) || gfi_unlikely(length < n * sizeof(uint64_t))) {
        return gfi_arrive_eager_slow(peer, ep, tagged, words, length);
    }
    data = flags & GFI_HDR_DATA ? words[n - 1] : 0;
    if (gfi_unlikely(!gfi_recv_expected(ep, tagged, flags, gfi_peer_source(peer, words[0]),
                                        tagged ? words[1] : 0, data, words + n,
                                        length - n * sizeof(uint64_t)))) {
        return gfi_arrive_eager_slow(peer, ep, tagged, words, length);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_tagged(void *arg, void *data, size_t length, unsigned flags)
{
    (void)flags;
    return gfi_arrive_eager(arg, data, length, true);
}

static ucs_status_t gfi_arrive_msg(void *arg, void *data, size_t length, unsigned flags)
{
    (void)flags;
    return gfi_arrive_eager(arg, data, length, false);
}

static ucs_status_t gfi_arrive_rts(void *arg, void *data, size_t length, unsigned flags)
{
    struct gfi_domain *domain = arg;
    const struct gfi_rts *rts = data;
    struct gfi_envelope envelope;
    struct gfi_ep *ep;

    (void)flags;
    if (length < sizeof(*rts) || rts->rkey_len > GFI_MAX_RKEY ||
        length != sizeof(*rts) + rts->rkey_len ||
        (rts->rkey_len != 0 && rts->rkey_len != domain->uct.md_attr.rkey_packed_size)) {
        return gfi_arrive_bad("an announcement of a wrong length");
    }
    envelope.peer = gfi_arrive_peer(domain, rts->header);
    if (envelope.peer == NULL) {
        return UCS_OK;
    }
    envelope.flags = gfi_header_flags(rts->header);
    envelope.source = gfi_peer_source(envelope.peer, rts->header);
    envelope.announced = true;
    envelope.tag = rts->tag;
    envelope.data = rts->data;
    envelope.len = rts->length;
    envelope.op = rts->op;
    envelope.addr = rts->addr;
    envelope.rkey_len = rts->rkey_len;
    envelope.rkey = rts->rkey;
    ep = domain->eps[gfi_header_dst(rts->header)];
    if (ep == NULL || !ep->enabled) {
        return gfi_arrive_no_ep(envelope.peer, true, envelope.op);
    }
    gfi_recv_arrive(ep, envelope.flags & GFI_HDR_TAGGED, &envelope, NULL);
    return UCS_OK;
}

static ucs_status_t gfi_arrive_cts(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_cts *cts = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length != sizeof(*cts)) {
        return gfi_arrive_bad("a CTS of a wrong length");
    }
    peer = gfi_arrive_peer(arg, cts->header);
    if (peer != NULL) {
        gfi_send_on_cts(arg, peer, cts);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_data(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_data *piece = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length < sizeof(*piece)) {
        return gfi_arrive_bad("a piece of a wrong length");
    }
    peer = gfi_arrive_peer(arg, piece->header);
    if (peer != NULL) {
        gfi_recv_on_data(arg, peer, piece, length - sizeof(*piece));
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_fin(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_fin *fin = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length != sizeof(*fin)) {
        return gfi_arrive_bad("a FIN of a wrong length");
    }
    peer = gfi_arrive_peer(arg, fin->header);
    if (peer != NULL) {
        gfi_send_on_fin(arg, peer, fin);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_hello(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_hello *hello = data;
    struct gfi_addr addr;
    struct gfi_peer *peer;

    (void)flags;
    if (length != sizeof(*hello) || hello->your_id >= GFI_NO_PEER) {
        return gfi_arrive_bad("a HELLO of a wrong form");
    }
    addr = hello->addr;
    if (gfi_peer_on_hello(arg, &addr, hello->your_id, &peer) != 0) {
        return UCS_OK; /* the HELLO is late, or its failure was logged */
    }
    peer->header = gfi_header(hello->your_id, 0, 0, 0);
    peer->ready = true;
    gfi_peer_connect(peer);
    gfi_rma_start_waiting(peer);
    gfi_peer_update(peer);
    if (!gfi_send_deferred(peer)) {
        gfi_peer_set_due(peer);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_bye(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_bye *bye = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length != sizeof(*bye)) {
        return gfi_arrive_bad("a BYE of a wrong length");
    }
    peer = gfi_arrive_peer(arg, bye->header);
    if (peer != NULL) {
        peer->left = true;
        gfi_peer_update(peer);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_pressure(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_pressure *pressure = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length != sizeof(*pressure)) {
        return gfi_arrive_bad("a PRESSURE of a wrong length");
    }
    peer = gfi_arrive_peer(arg, pressure->header);
    if (peer != NULL) {
        peer->pressed = pressure->on != 0;
        gfi_peer_update(peer);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_key_request(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_key_request *request = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length != sizeof(*request)) {
        return gfi_arrive_bad("a KEY_REQUEST of a wrong length");
    }
    peer = gfi_arrive_peer(arg, request->header);
    if (peer != NULL) {
        gfi_rma_on_request(peer, request);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_key_reply(void *arg, void *data, size_t length, unsigned flags)
{
    struct gfi_domain *domain = arg;
    const struct gfi_key_reply *reply = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length < sizeof(*reply) || length != sizeof(*reply) + reply->rkey_len ||
        (reply->rkey_len != 0 && reply->rkey_len != domain->uct.md_attr.rkey_packed_size)) {
        return gfi_arrive_bad("a KEY_REPLY of a wrong length");
    }
    peer = gfi_arrive_peer(domain, reply->header);
    if (peer != NULL) {
        gfi_rma_on_reply(peer, reply);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_key_revoke(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_key_revoke *revoke = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length != sizeof(*revoke)) {
        return gfi_arrive_bad("a KEY_REVOKE of a wrong length");
    }
    peer = gfi_arrive_peer(arg, revoke->header);
    if (peer != NULL) {
        gfi_rkey_forget(peer, revoke->key);
    }
    return UCS_OK;
}

static void gfi_arrive_report_data(struct gfi_ep *ep, const struct gfi_peer *peer,
                                   const struct gfi_rma_event *event)
{
    struct gfi_cqe done = {
        .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
        .len = event->length,
        .data = event->data,
    };

    gfi_recv_report_cqe(ep, &done, gfi_peer_source(peer, event->header));
}

static ucs_status_t gfi_arrive_rma_event(void *arg, void *data, size_t length, unsigned flags)
{
    struct gfi_domain *domain = arg;
    const struct gfi_rma_event *event = data;
    struct gfi_peer *peer;
    struct gfi_ep *ep;
    uint64_t access;

    (void)flags;
    if (length != sizeof(*event)) {
        return gfi_arrive_bad("an RMA_EVENT of a wrong length");
    }
    peer = gfi_arrive_peer(domain, event->header);
    if (peer == NULL) {
        return UCS_OK;
    }
    access = gfi_header_flags(event->header) & GFI_HDR_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
    gfi_mr_count(gfi_mr_find(domain, event->key), access);
    ep = domain->eps[gfi_header_dst(event->header)];
    if (ep == NULL || !ep->enabled) {
        return gfi_arrive_no_ep(peer, event->ack != GFI_NO_OP, event->ack);
    }
    gfi_ep_count_access(ep, access);
    if (gfi_header_flags(event->header) & GFI_HDR_DATA) {
        gfi_arrive_report_data(ep, peer, event);
    }
    if (event->ack != GFI_NO_OP) {
        gfi_peer_send_fin(peer, event->ack, 0);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_atomic(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_atomic_request *request = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length < sizeof(*request)) {
        return gfi_arrive_bad("an ATOMIC of a wrong length");
    }
    peer = gfi_arrive_peer(arg, request->header);
    if (peer != NULL) {
        gfi_atomic_on_request(peer, request, length - sizeof(*request));
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_atomic_reply(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_atomic_reply *reply = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length < sizeof(*reply)) {
        return gfi_arrive_bad("an ATOMIC_REPLY of a wrong length");
    }
    peer = gfi_arrive_peer(arg, reply->header);
    if (peer != NULL) {
        gfi_atomic_on_reply(peer, reply, length - sizeof(*reply));
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_rma_write(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_rma_write *write = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length <= sizeof(*write)) {
        return gfi_arrive_bad("an RMA_WRITE of a wrong length");
    }
    peer = gfi_arrive_peer(arg, write->header);
    if (peer != NULL) {
        gfi_rma_piece_on_write(peer, write, length - sizeof(*write));
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_rma_read(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_rma_read *read = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length != sizeof(*read) || read->length == 0) {
        return gfi_arrive_bad("an RMA_READ of a wrong length");
    }
    peer = gfi_arrive_peer(arg, read->header);
    if (peer != NULL) {
        gfi_rma_piece_on_read(peer, read);
    }
    return UCS_OK;
}

static ucs_status_t gfi_arrive_rma_reply(void *arg, void *data, size_t length, unsigned flags)
{
    const struct gfi_rma_reply *reply = data;
    struct gfi_peer *peer;

    (void)flags;
    if (length < sizeof(*reply)) {
        return gfi_arrive_bad("an RMA_REPLY of a wrong length");
    }
    peer = gfi_arrive_peer(arg, reply->header);
    if (peer != NULL) {
        gfi_rma_on_piece(peer, reply, length - sizeof(*reply));
    }
    return UCS_OK;
}

int gfi_arrive_init(struct gfi_domain *domain)
{
    static const uct_am_callback_t handlers[GFI_AM_LAST] = {
        [GFI_AM_TAGGED] = gfi_arrive_tagged,
        [GFI_AM_MSG] = gfi_arrive_msg,
        [GFI_AM_RTS] = gfi_arrive_rts,
        [GFI_AM_CTS] = gfi_arrive_cts,
        [GFI_AM_DATA] = gfi_arrive_data,
        [GFI_AM_FIN] = gfi_arrive_fin,
        [GFI_AM_HELLO] = gfi_arrive_hello,
        [GFI_AM_BYE] = gfi_arrive_bye,
        [GFI_AM_PRESSURE] = gfi_arrive_pressure,
        [GFI_AM_KEY_REQUEST] = gfi_arrive_key_request,
        [GFI_AM_KEY_REPLY] = gfi_arrive_key_reply,
        [GFI_AM_KEY_REVOKE] = gfi_arrive_key_revoke,
        [GFI_AM_RMA_EVENT] = gfi_arrive_rma_event,
        [GFI_AM_ATOMIC] = gfi_arrive_atomic,
        [GFI_AM_ATOMIC_REPLY] = gfi_arrive_atomic_reply,
        [GFI_AM_RMA_WRITE] = gfi_arrive_rma_write,
        [GFI_AM_RMA_READ] = gfi_arrive_rma_read,
        [GFI_AM_RMA_REPLY] = gfi_arrive_rma_reply,
    };
    uint8_t id;

    for (id = 1; id < GFI_AM_LAST; id++) {
        if (uct_iface_set_am_handler(domain->uct.iface, id, handlers[id], domain, 0) != UCS_OK) {
            GFI_WARN(FI_LOG_DOMAIN, "the transport takes no handler %u\n", id);
            return -FI_EOPNOTSUPP;
        }
    }
    return 0;
}
