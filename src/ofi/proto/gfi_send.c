/*
 * Sending of messages: at once up to eager_size, else announced (RTS), to be fetched by the
 * receiver or, where that cannot be, streamed when it asks (CTS).
 */
#include "gfi_op.h"

#include <stdlib.h>
#include <string.h>

#define GFI_SEND_LEVELS (FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE)

struct gfi_eager {
    uint64_t prefix[GFI_MAX_PREFIX / sizeof(uint64_t)];
    size_t prefix_len;
    const struct gfi_place *place;
    size_t offset, len;
};

static uint64_t gfi_send_cq_flags(const struct gfi_send *send)
{
    return FI_SEND | (send->tagged ? FI_TAGGED : FI_MSG);
}

static void gfi_send_place(const struct gfi_send *send, struct gfi_place *place)
{
    size_t i;

    place->iov_count = send->iov_count;
    place->len = 0;
    for (i = 0; i < send->iov_count; i++) {
        place->iov[i] = send->iov[i];
        place->len += send->iov[i].iov_len;
    }
}

static uint64_t gfi_send_hdr_flags(const struct gfi_send *send)
{
    return (send->flags & FI_REMOTE_CQ_DATA ? GFI_HDR_DATA : 0) |
           (send->tagged ? GFI_HDR_TAGGED : 0);
}

static struct gfi_op *gfi_send_new_op(const struct gfi_send *send, struct gfi_peer *peer,
                                      const struct gfi_place *place)
{
    struct gfi_op *op = gfi_op_new(send->ep, peer, GFI_OP_SEND);

    if (op != NULL) {
        op->context = send->context;
        op->flags = send->flags;
        op->cq_flags = gfi_send_cq_flags(send);
        op->tag = send->tag;
        op->data = send->data;
        op->place = *place;
        op->len = place->len;
        op->seq = send->deferred != NULL ? send->deferred->seq : op->seq;
    }
    return op;
}

/* The message is in flight, and nothing more follows */
static void gfi_send_done(const struct gfi_send *send)
{
    struct gfi_ep *ep = send->ep;
    struct gfi_cqe *cqe;

    if (ep->cntrs[GFI_CNTR_SEND] != NULL) {
        gfi_cntr_count(ep->cntrs[GFI_CNTR_SEND], false);
    }
    if ((send->flags & FI_COMPLETION) && ep->tx_cq != NULL &&
        (cqe = gfi_cq_add(ep->tx_cq)) != NULL) {
        *cqe = (struct gfi_cqe){
            .context = send->context, .flags = gfi_send_cq_flags(send), .source = FI_ADDR_NOTAVAIL};
    }
}

/* ---- at once ---- */

static size_t gfi_eager_pack(void *to, void *arg)
{
    const struct gfi_eager *eager = arg;

    memcpy(to, eager->prefix, eager->prefix_len);
    return eager->prefix_len + gfi_place_read(eager->place, eager->offset,
                                              (uint8_t *)to + eager->prefix_len, eager->len);
}

static ucs_status_t gfi_eager_post(struct gfi_peer *peer, uint8_t am_id, struct gfi_eager *eager)
{
    uint64_t bytes[16];
    ssize_t ret;

    if (eager->prefix_len + eager->len <= peer->domain->short_size + sizeof(uint64_t) &&
        eager->prefix_len + eager->len <= sizeof(bytes)) {
        gfi_eager_pack(bytes, eager);
        return uct_ep_am_short(peer->uct_ep, am_id, bytes[0], bytes + 1,
                               (unsigned)(eager->prefix_len + eager->len - sizeof(uint64_t)));
    }
    ret = uct_ep_am_bcopy(peer->uct_ep, am_id, gfi_eager_pack, eager, 0);
    return ret >= 0 ? UCS_OK : (ucs_status_t)ret;
}

static void gfi_eager_prefix(struct gfi_eager *eager, const struct gfi_send *send, uint64_t header,
                             const struct gfi_op *ack)
{
    size_t n = 0;

    eager->prefix[n++] = header;
    if (send->tagged) {
        eager->prefix[n++] = send->tag;
    }
    if (send->flags & FI_REMOTE_CQ_DATA) {
        eager->prefix[n++] = send->data;
    }
    if (ack != NULL) {
        eager->prefix[n++] = gfi_op_number(ack);
    }
    eager->prefix_len = n * sizeof(uint64_t);
}

static ssize_t gfi_send_error(struct gfi_peer *peer, ucs_status_t status)
{
    if (status == UCS_ERR_NO_RESOURCE) {
        return -FI_EAGAIN;
    }
    gfi_peer_fail(peer, gfi_uct_errno(status));
    return -peer->error;
}

static ssize_t gfi_send_eager(const struct gfi_send *send, struct gfi_peer *peer, uint64_t dst_ep,
                              const struct gfi_place *place)
{
    uint64_t flags = gfi_send_hdr_flags(send) & ~(uint64_t)GFI_HDR_TAGGED, header;
    struct gfi_eager eager = {.place = place, .len = place->len};
    struct gfi_op *op = NULL;
    ucs_status_t status;

    if (send->flags & GFI_SEND_LEVELS) {
        op = gfi_send_new_op(send, peer, place);
        if (op == NULL) {
            return -FI_EAGAIN;
        }
        op->awaits_fin = (send->flags & FI_DELIVERY_COMPLETE) != 0;
        flags |= op->awaits_fin ? GFI_HDR_ACK : 0;
    }
    header = peer->header | dst_ep | send->ep->header | flags << GFI_FLAGS_SHIFT;
    gfi_eager_prefix(&eager, send, header, op != NULL && op->awaits_fin ? op : NULL);
    status = gfi_eager_post(peer, send->tagged ? GFI_AM_TAGGED : GFI_AM_MSG, &eager);
    if (gfi_unlikely(status != UCS_OK)) {
        if (op != NULL) {
            gfi_op_free(op);
        }
        return gfi_send_error(peer, status);
    }
    if (op == NULL) {
        gfi_send_done(send);
    } else if (!op->awaits_fin) {
        gfi_send_progress(op);
    }
    return 0;
}

/* ---- announced ---- */

/* The part of the program's registration that has all of the message, or NULL */
static const struct gfi_mr_part *gfi_send_find_part(const struct gfi_domain *domain,
                                                    const struct gfi_mr *mr,
                                                    const struct iovec *iov)
{
    const struct gfi_mr_part *part;
    uintptr_t at;
    size_t i;

    for (i = 0; mr != NULL && mr->domain == domain && i < mr->num_parts; i++) {
        part = &mr->parts[i];
        at = (uintptr_t)iov->iov_base - (uintptr_t)part->addr; /* huge if before the part */
        if (part->rkey_len > 0 && iov->iov_len <= part->length &&
            at <= part->length - iov->iov_len) {
            return part;
        }
    }
    return NULL;
}

/* The key by which the receiver may fetch the message; 0: it cannot, the message is streamed */
static uint32_t gfi_send_register(const struct gfi_send *send, struct gfi_op *op, uint8_t *rkey)
{
    struct gfi_domain *domain = send->ep->domain;
    const struct gfi_mr *mr =
        send->desc != NULL && !(send->flags & FI_INJECT) ? send->desc[0] : NULL;
    const struct iovec *iov = &op->place.iov[0];
    const struct gfi_mr_part *part;

    if (!gfi_params.rendezvous_get || op->place.iov_count != 1 || op->len <= domain->eager_size ||
        !(domain->uct.md_attr.cap.flags & UCT_MD_FLAG_REG)) {
        return 0;
    }
    part = gfi_send_find_part(domain, mr, iov);
    if (part != NULL) {
        memcpy(rkey, part->rkey, part->rkey_len);
        return (uint32_t)part->rkey_len;
    }
    if (uct_md_mem_reg(domain->uct.md, iov->iov_base, iov->iov_len,
                       UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS, &op->memh) != UCS_OK) {
        op->memh = UCT_MEM_HANDLE_NULL;
        return 0;
    }
    if (uct_md_mkey_pack(domain->uct.md, op->memh, rkey) != UCS_OK) {
        return 0;
    }
    return (uint32_t)domain->uct.md_attr.rkey_packed_size;
}

/* The buffer is the program's again when fi_inject() returns */
static int gfi_send_copy(struct gfi_op *op)
{
    if (op->len == 0) {
        return 0;
    }
    op->copy = malloc(op->len);
    if (op->copy == NULL) {
        return -FI_EAGAIN;
    }
    gfi_place_read(&op->place, 0, op->copy, op->len);
    op->place.iov_count = 1;
    op->place.iov[0] = (struct iovec){.iov_base = op->copy, .iov_len = op->len};
    return 0;
}

static ssize_t gfi_send_announced(const struct gfi_send *send, struct gfi_peer *peer,
                                  uint64_t dst_ep, const struct gfi_place *place)
{
    uint8_t bytes[sizeof(struct gfi_rts) + GFI_MAX_RKEY];
    struct gfi_rts *rts = (struct gfi_rts *)bytes;
    struct gfi_eager eager = {.place = NULL};
    struct gfi_place message;
    ucs_status_t status;
    struct gfi_op *op;
    ssize_t ret;

    if (send->ep->num_tx >= send->ep->tx_size) {
        return -FI_EAGAIN;
    }
    op = gfi_send_new_op(send, peer, place);
    if (op == NULL) {
        return -FI_EAGAIN;
    }
    op->awaits_fin = true;
    if ((send->flags & FI_INJECT) && gfi_send_copy(op) != 0) {
        gfi_op_free(op);
        return -FI_EAGAIN;
    }
    rts->header =
        peer->header | dst_ep | send->ep->header | gfi_send_hdr_flags(send) << GFI_FLAGS_SHIFT;
    rts->tag = send->tag;
    rts->data = send->data;
    rts->length = op->len;
    rts->op = gfi_op_number(op);
    rts->addr = (uintptr_t)op->place.iov[0].iov_base;
    rts->resv = 0;
    rts->rkey_len = gfi_send_register(send, op, rts->rkey);
    message.iov_count = 1;
    message.iov[0] = (struct iovec){.iov_base = bytes, .iov_len = sizeof(*rts) + rts->rkey_len};
    message.len = message.iov[0].iov_len;
    eager.place = &message;
    eager.len = message.len;
    ret = uct_ep_am_bcopy(peer->uct_ep, GFI_AM_RTS, gfi_eager_pack, &eager, 0);
    if (ret < 0) {
        status = (ucs_status_t)ret;
        gfi_op_free(op);
        return gfi_send_error(peer, status);
    }
    return 0;
}

/* @return 0, -FI_EAGAIN, or an error */
static int gfi_send_now(const struct gfi_send *send, struct gfi_peer *peer, uint64_t dst_ep,
                        const struct gfi_place *place)
{
    if (gfi_unlikely(peer->first_ctl != NULL)) {
        return -FI_EAGAIN; /* a message does not overtake the provider's own: KEY_REVOKE */
    }
    if (gfi_likely(place->len <= send->ep->domain->eager_size && !peer->pressed)) {
        return (int)gfi_send_eager(send, peer, dst_ep, place);
    }
    return (int)gfi_send_announced(send, peer, dst_ep, place);
}

/* ---- to a peer that has not said HELLO ---- */

/* Keep the message until the peer has answered: programs need not try again.
 * @return GFI_SEND_WAITS or -FI_EAGAIN */
static int gfi_send_defer(const struct gfi_send *send, struct gfi_peer *peer, uint64_t dst_ep,
                          const struct gfi_place *place)
{
    struct gfi_op *op;

    if (send->ep->num_tx >= send->ep->tx_size) {
        return -FI_EAGAIN;
    }
    op = gfi_send_new_op(send, peer, place);
    if (op == NULL) {
        return -FI_EAGAIN;
    }
    if ((send->flags & FI_INJECT) && gfi_send_copy(op) != 0) {
        gfi_op_free(op);
        return -FI_EAGAIN;
    }
    op->dst_ep = dst_ep;
    if (send->flags & FI_FENCE) {
        gfi_op_hold(op);
    }
    gfi_list_del(&op->link);
    gfi_list_add(&peer->deferred, &op->link);
    gfi_peer_update(peer);
    return GFI_SEND_WAITS;
}

/* @return false: the NIC has no room */
static bool gfi_send_deferred_one(struct gfi_op *op)
{
    struct gfi_send send = {.ep = op->ep,
                            .iov = op->place.iov,
                            .iov_count = op->place.iov_count,
                            .tag = op->tag,
                            .data = op->data,
                            .tagged = (op->cq_flags & FI_TAGGED) != 0,
                            .context = op->context,
                            .flags = op->flags,
                            .deferred = op};
    int ret;

    op->ep->num_tx--; /* gfi_send_now() counts the operation again */
    ret = gfi_send_now(&send, op->peer, op->dst_ep, &op->place);
    op->ep->num_tx++;
    if (ret == -FI_EAGAIN) {
        return false;
    }
    if (ret == 0) { /* else the failure of the peer has ended this operation */
        gfi_op_free(op);
    }
    return true;
}

bool gfi_send_deferred(struct gfi_peer *peer)
{
    struct gfi_op *op;

    while (peer->ready && peer->error == 0 && !gfi_list_is_empty(&peer->deferred)) {
        op = gfi_list_entry(peer->deferred.next, struct gfi_op, link);
        if (!gfi_op_may_start(op)) {
            break; /* the end of an earlier operation goes on */
        }
        if (!gfi_send_deferred_one(op)) {
            return false;
        }
    }
    gfi_peer_update(peer);
    return true;
}

/* ---- both ---- */

/* A message that may have to wait for earlier operations. @return as gfi_send() */
static int gfi_send_in_order(const struct gfi_send *send, struct gfi_peer *peer, uint64_t dst_ep,
                             const struct gfi_place *place)
{
    int ret = gfi_send_defer(send, peer, dst_ep, place);

    if (ret == GFI_SEND_WAITS && !gfi_send_deferred(peer)) {
        gfi_peer_set_due(peer);
    }
    return ret;
}

ssize_t gfi_send(const struct gfi_send *send)
{
    const struct gfi_av_entry *entry = gfi_av_entry(send->ep->av, send->dest);
    struct gfi_place place;
    struct gfi_peer *peer;
    int ret;

    if (entry == NULL || send->iov_count > GFI_IOV_LIMIT) {
        return -FI_EINVAL;
    }
    gfi_send_place(send, &place);
    if ((send->flags & FI_INJECT) && place.len > send->ep->inject_size) {
        return -FI_EMSGSIZE;
    }
    peer = entry->peer;
    ret = gfi_peer_check(peer);
    if ((ret == 0 || ret == -FI_EAGAIN) && send->ep->tx_cq != NULL &&
        gfi_cq_is_full(send->ep->tx_cq)) {
        ret = -FI_EAGAIN;
    } else if (ret == -FI_EAGAIN || (ret == 0 && !gfi_list_is_empty(&peer->deferred))) {
        ret = gfi_send_defer(send, peer, entry->header, &place);
    } else if (ret == 0 && gfi_unlikely(peer->holds > 0 || (send->flags & FI_FENCE))) {
        ret = gfi_send_in_order(send, peer, entry->header, &place);
    } else if (ret == 0) {
        ret = gfi_send_now(send, peer, entry->header, &place);
    }
    return ret;
}

/* ---- going on ---- */

/* @return false: the NIC has no room now */
static bool gfi_send_stream(struct gfi_op *op)
{
    struct gfi_eager eager = {.place = &op->place, .prefix_len = sizeof(struct gfi_data)};
    struct gfi_domain *domain = op->peer->domain;
    ssize_t ret;

    while (op->done < op->len) {
        eager.prefix[0] = op->peer->header;
        eager.prefix[1] = op->remote_op;
        eager.prefix[2] = op->done;
        eager.offset = op->done;
        eager.len = gfi_min(op->len - op->done,
                            domain->uct.attr.cap.am.max_bcopy - sizeof(struct gfi_data));
        ret = uct_ep_am_bcopy(op->peer->uct_ep, GFI_AM_DATA, gfi_eager_pack, &eager, 0);
        if (ret == UCS_ERR_NO_RESOURCE) {
            return false;
        }
        if (ret < 0) {
            gfi_peer_fail(op->peer, gfi_uct_errno((ucs_status_t)ret)); /* ends this one too */
            return true;
        }
        op->done += eager.len;
    }
    op->streaming = false;
    return true;
}

/* FI_TRANSMIT_COMPLETE of a message that was sent at once: the NIC has brought it to the peer */
static void gfi_send_flush(struct gfi_op *op)
{
    ucs_status_t status;

    if (op->flushed) {
        gfi_op_complete(op, op->error);
        return;
    }
    gfi_op_begin(op);
    status = uct_ep_flush(op->peer->uct_ep, UCT_FLUSH_FLAG_LOCAL, &op->comp);
    if (status == UCS_INPROGRESS) {
        op->comp.count++;
    }
    op->flushed = (status != UCS_ERR_NO_RESOURCE);
    if (!gfi_op_end(op)) {
        return;
    }
    if (!op->flushed) {
        gfi_op_set_due(op);
    } else {
        gfi_op_complete(op, status == UCS_OK ? op->error : gfi_uct_errno(status));
    }
}

void gfi_send_progress(struct gfi_op *op)
{
    if (op->error != 0) {
        gfi_op_complete(op, op->error);
    } else if (!op->awaits_fin) {
        gfi_send_flush(op);
    } else if (op->streaming && !gfi_send_stream(op)) {
        gfi_op_set_due(op);
    }
}

void gfi_send_on_cts(struct gfi_domain *domain, struct gfi_peer *peer, const struct gfi_cts *cts)
{
    struct gfi_op *op = gfi_op_find(domain, peer, GFI_OP_SEND, cts->op);

    if (op == NULL || op->streaming || op->done > 0 || cts->length > op->len) {
        GFI_WARN(FI_LOG_EP_DATA, "peer %u asks for a message that was not announced\n", peer->id);
        return;
    }
    op->remote_op = cts->recv;
    op->len = cts->length;
    op->streaming = true;
    gfi_send_progress(op);
}

void gfi_send_on_fin(struct gfi_domain *domain, struct gfi_peer *peer, const struct gfi_fin *fin)
{
    struct gfi_op *op = gfi_op_find(domain, peer, GFI_OP_SEND, fin->op);

    if (op == NULL) {
        op = gfi_op_find(domain, peer, GFI_OP_WRITE, fin->op);
    }
    if (op != NULL && op->awaits_fin && !op->in_flight) { /* else the endpoint of the operation was
                                                           * closed */
        gfi_op_complete(op, (int)fin->error);
    }
}
