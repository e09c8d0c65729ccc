/*
 * RMA: keys of peers, and operations that read and write their memory. libfabric's keys have 64
 * bits, UCT's keys are longer. So the initiator asks the target once for the registration behind a
 * key, and the target reports when the registration is closed. The data then moves without the
 * target's help. If the NIC does not reach the memory, the target executes the operation by pieces
 * (gfi_rma_piece.c).
 */
#include "gfi_op.h"

#include <stdlib.h>
#include <string.h>

/* Messages of one operation that wait for the target's answer, at most: enough for two processes that
 * progress in turn. They bound the memory of the target's answers. */
#define GFI_RMA_PIECES 8

/* ---- keys ---- */

/* The entry of a key, made if there is none. NULL: no memory */
static struct gfi_rkey *gfi_rkey_get(struct gfi_peer *peer, uint64_t key)
{
    struct gfi_rkey *rkey = gfi_rkey_find(peer, key);

    if (rkey != NULL) {
        return rkey;
    }
    rkey = calloc(1, sizeof(*rkey));
    if (rkey != NULL && gfi_map_set(&peer->rkeys, key, (uintptr_t)rkey) != 0) {
        free(rkey);
        rkey = NULL;
    }
    return rkey;
}

/* Asks for the part with an address, unless that was done */
static void gfi_rkey_ask(struct gfi_peer *peer, struct gfi_rkey *rkey, uint64_t key, uint64_t at)
{
    struct gfi_key_request request = {.header = peer->header, .key = key, .at = at};

    if (!rkey->is_asked) {
        rkey->is_asked = true;
        rkey->asked_at = at;
        rkey->has_hole = false;
        gfi_peer_send(peer, GFI_AM_KEY_REQUEST, &request, sizeof(request));
    }
}

static void gfi_rma_fill_part(struct gfi_key_reply *reply, const struct gfi_mr_part *part)
{
    reply->part_access = (uint32_t)part->access;
    reply->part_base = part->base;
    reply->part_addr = (uintptr_t)part->addr;
    reply->part_length = part->length;
    reply->rkey_len = (uint32_t)part->rkey_len;
    memcpy(reply->rkey, part->rkey, part->rkey_len);
}

void gfi_rma_on_request(struct gfi_peer *peer, const struct gfi_key_request *request)
{
    uint8_t bytes[sizeof(struct gfi_key_reply) + GFI_MAX_RKEY];
    struct gfi_key_reply *reply = (struct gfi_key_reply *)bytes;
    struct gfi_mr *mr = gfi_mr_find(peer->domain, request->key);
    const struct gfi_mr_part *part;

    memset(reply, 0, sizeof(*reply));
    reply->header = peer->header;
    reply->key = request->key;
    reply->at = request->at;
    if (mr == NULL || gfi_mr_add_holder(mr, peer->id) != 0) {
        reply->error = FI_EKEYREJECTED;
    } else {
        reply->base = mr->base;
        reply->length = mr->length;
        reply->access = (uint32_t)(mr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE));
        reply->events = (uint32_t)gfi_mr_events(mr);
        part = gfi_mr_find_part(mr, request->at);
        if (part != NULL) {
            gfi_rma_fill_part(reply, part);
        }
    }
    gfi_peer_send(peer, GFI_AM_KEY_REPLY, reply, sizeof(*reply) + reply->rkey_len);
}

/* Whether the NIC reaches the memory of a key. Without RDMA to private memory it reaches memory that this
 * process can map */
static bool gfi_rma_is_reached(const struct gfi_domain *domain, const uct_rkey_bundle_t *bundle,
                               uint64_t addr)
{
    const struct gfi_uct *uct = &domain->uct;
    void *ptr;

    return (uct->md_attr.cap.flags & UCT_MD_FLAG_REG) ||
           ((uct->attr.cap.flags & UCT_IFACE_FLAG_GET_SHORT) &&
            uct_rkey_ptr(uct->component, (uct_rkey_bundle_t *)bundle, addr, &ptr) == UCS_OK);
}

/* Unpacks the key of a part. The key stays invalid if the NIC does not reach the memory */
static void gfi_rma_unpack(const struct gfi_domain *domain, const struct gfi_key_reply *reply,
                           struct gfi_rkey_part *part)
{
    uct_component_h component = domain->uct.component;

    if (reply->rkey_len == 0 || uct_rkey_unpack(component, reply->rkey, &part->bundle) != UCS_OK) {
        part->bundle.rkey = UCT_INVALID_RKEY;
    } else if (!gfi_rma_is_reached(domain, &part->bundle, part->addr)) {
        uct_rkey_release(component, &part->bundle);
        part->bundle.rkey = UCT_INVALID_RKEY;
    }
}

/* The part of an answer. Without memory for the part, the operation that waits fails as for a hole */
static void gfi_rma_take_part(struct gfi_peer *peer, struct gfi_rkey *rkey,
                              const struct gfi_key_reply *reply)
{
    uct_component_h component = peer->domain->uct.component;
    struct gfi_rkey_part part = {.base = reply->part_base,
                                 .addr = reply->part_addr,
                                 .length = reply->part_length,
                                 .access = reply->part_access};

    if (reply->at < part.base || reply->at - part.base >= part.length ||
        gfi_rkey_find_part(rkey, reply->at) != NULL) {
        rkey->has_hole = true;
        return;
    }
    gfi_rma_unpack(peer->domain, reply, &part);
    if (gfi_rkey_add_part(rkey, &part) != 0) {
        rkey->has_hole = true;
        if (part.bundle.rkey != UCT_INVALID_RKEY) {
            uct_rkey_release(component, &part.bundle);
        }
    }
}

void gfi_rma_on_reply(struct gfi_peer *peer, const struct gfi_key_reply *reply)
{
    struct gfi_rkey *rkey = gfi_rkey_find(peer, reply->key);

    if (rkey == NULL || !rkey->is_asked || rkey->asked_at != reply->at) {
        gfi_rma_start_waiting(peer); /* the key was revoked meanwhile: ask again */
        return;
    }
    rkey->is_asked = false;
    rkey->known = true;
    rkey->error = (int)reply->error;
    rkey->base = reply->base;
    rkey->length = reply->length;
    rkey->access = reply->access;
    rkey->events = reply->events;
    gfi_rma_take_part(peer, rkey, reply);
    gfi_rma_start_waiting(peer);
    if (reply->error != 0) {
        gfi_rkey_forget(peer, reply->key); /* the peer may register a key of this number later */
    }
}

/* ---- operations ---- */

static ucs_status_t gfi_rma_post_piece(struct gfi_op *op, const struct iovec *piece,
                                       uint64_t remote, uct_rkey_t rkey)
{
    const uct_iface_attr_t *attr = &op->ep->domain->uct.attr;
    uct_iov_t iov = {
        .buffer = piece->iov_base, .length = piece->iov_len, .memh = op->memh, .count = 1};

    if (op->type != GFI_OP_READ) {
        if (piece->iov_len <= attr->cap.put.max_short) {
            return uct_ep_put_short(op->peer->uct_ep, piece->iov_base, (unsigned)piece->iov_len,
                                    remote, rkey);
        }
        return uct_ep_put_zcopy(op->peer->uct_ep, &iov, 1, remote, rkey, &op->comp);
    }
    if ((attr->cap.flags & UCT_IFACE_FLAG_GET_SHORT) && piece->iov_len <= attr->cap.get.max_short) {
        return uct_ep_get_short(op->peer->uct_ep, piece->iov_base, (unsigned)piece->iov_len, remote,
                                rkey);
    }
    return uct_ep_get_zcopy(op->peer->uct_ep, &iov, 1, remote, rkey, &op->comp);
}

/* Registration of local memory, where the transport asks for one. @return UCS_OK or an error */
static ucs_status_t gfi_rma_register(struct gfi_op *op, const struct iovec *piece)
{
    struct gfi_domain *domain = op->ep->domain;

    if (!(domain->uct.md_attr.cap.flags & UCT_MD_FLAG_NEED_MEMH)) {
        return UCS_OK;
    }
    if (op->memh != UCT_MEM_HANDLE_NULL) {
        uct_md_mem_dereg(domain->uct.md, op->memh);
        op->memh = UCT_MEM_HANDLE_NULL;
    }
    return uct_md_mem_reg(domain->uct.md, piece->iov_base, piece->iov_len,
                          UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS, &op->memh);
}

/* Returns the largest number of bytes in one message or in one call of UCT. Without RDMA to private memory
 * UCT has the short calls only */
static size_t gfi_rma_max(const struct gfi_op *op, const struct gfi_rkey_part *part)
{
    const uct_iface_attr_t *attr = &op->ep->domain->uct.attr;
    bool is_read = op->type == GFI_OP_READ;
    size_t max = is_read ? attr->cap.get.max_zcopy : attr->cap.put.max_zcopy;

    if (part->bundle.rkey == UCT_INVALID_RKEY) {
        return gfi_rma_piece_max(op->ep->domain);
    }
    return max > 0 ? max : is_read ? attr->cap.get.max_short : attr->cap.put.max_short;
}

/* The next piece of local memory, within one part of the remote memory. gfi_rma_start() has found all
 * parts. */
static struct iovec gfi_rma_piece(const struct gfi_op *op, size_t done,
                                  const struct gfi_rkey_part **part_p)
{
    uint64_t at = op->remote_addr + done;
    const struct gfi_rkey_part *part = gfi_rkey_find_part(op->rkey, at);
    struct iovec piece = gfi_place_piece(&op->place, done);

    piece.iov_len =
        gfi_min(gfi_min(piece.iov_len, gfi_rma_max(op, part)), gfi_rkey_part_left(part, at));
    *part_p = part;
    return piece;
}

/* Moves a piece by the NIC. @return as the functions of UCT */
static ucs_status_t gfi_rma_move_piece(struct gfi_op *op, const struct iovec *piece,
                                       const struct gfi_rkey_part *part)
{
    uint64_t at = op->remote_addr + op->done;
    ucs_status_t status = gfi_rma_register(op, piece);

    return status == UCS_OK ?
               gfi_rma_post_piece(op, piece, part->addr + (at - part->base), part->bundle.rkey) :
               status;
}

/* Moves one piece after the other. With registrations, one piece of the NIC is in flight at a time.
 * @return UCS_INPROGRESS: UCT's completion, or an answer of the target, goes on */
static ucs_status_t gfi_rma_move(struct gfi_op *op)
{
    const struct gfi_rkey_part *part;
    struct iovec piece;
    ucs_status_t status;

    while (op->done < op->len) {
        piece = gfi_rma_piece(op, op->done, &part);
        if (part->bundle.rkey == UCT_INVALID_RKEY) {
            if (op->pieces >= GFI_RMA_PIECES) {
                return UCS_INPROGRESS;
            }
            status = gfi_rma_piece_send(op, &piece);
            op->done += status == UCS_OK ? piece.iov_len : 0;
            if (status != UCS_OK) {
                return status;
            }
            continue;
        }
        status = gfi_rma_move_piece(op, &piece, part);
        if (status == UCS_INPROGRESS) {
            op->comp.count++;
            op->done += piece.iov_len;
            if (op->memh != UCT_MEM_HANDLE_NULL) {
                return UCS_INPROGRESS;
            }
        } else if (status != UCS_OK) {
            return status;
        } else {
            op->done += piece.iov_len;
        }
    }
    return op->pieces > 0 ? UCS_INPROGRESS : UCS_OK;
}

/* A write must have arrived before the target is told about it */
static ucs_status_t gfi_rma_flush(struct gfi_op *op)
{
    ucs_status_t status = UCS_OK;

    if (op->type != GFI_OP_READ && !op->flushed &&
        (gfi_rkey_is_counted(op->rkey, true) || op->ep->is_ordered ||
         (op->flags & (FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE)))) {
        status = uct_ep_flush(op->peer->uct_ep, UCT_FLUSH_FLAG_LOCAL, &op->comp);
        if (status == UCS_INPROGRESS) {
            op->comp.count++;
        }
        op->flushed = (status != UCS_ERR_NO_RESOURCE);
    }
    return status;
}

/* Tells the target about the access, if it has CQ data or if the target counts accesses */
static void gfi_rma_notify(struct gfi_op *op)
{
    bool has_data = (op->flags & FI_REMOTE_CQ_DATA) != 0;
    uint64_t flags = (has_data ? GFI_HDR_DATA : 0) | (op->type == GFI_OP_READ ? GFI_HDR_READ : 0);
    struct gfi_rma_event event = {
        .header = op->peer->header | op->ep->header | op->dst_ep | flags << GFI_FLAGS_SHIFT,
        .key = op->key,
        .data = op->data,
        .length = op->place.len,
        .ack = GFI_NO_OP,
    };

    if (!has_data && !gfi_rkey_is_counted(op->rkey, op->type == GFI_OP_WRITE)) {
        gfi_op_complete(op, 0);
        return;
    }
    op->awaits_fin = has_data && (op->flags & FI_DELIVERY_COMPLETE);
    if (op->awaits_fin) {
        event.ack = gfi_op_number(op);
        gfi_peer_send(op->peer, GFI_AM_RMA_EVENT, &event, sizeof(event));
        return; /* FIN ends it; or the peer's failure has already */
    }
    gfi_peer_send(op->peer, GFI_AM_RMA_EVENT, &event, sizeof(event));
    gfi_op_complete(op, 0);
}

void gfi_rma_run(struct gfi_op *op)
{
    ucs_status_t status;

    gfi_op_begin(op);
    status = gfi_rma_move(op);
    if (status == UCS_OK) {
        status = gfi_rma_flush(op);
    }
    if (status != UCS_OK && status != UCS_INPROGRESS && status != UCS_ERR_NO_RESOURCE &&
        op->error == 0) {
        op->error = gfi_uct_errno(status);
    }
    if (!gfi_op_end(op)) {
        return; /* UCT's completion goes on */
    }
    if (op->error != 0) {
        gfi_op_complete(op, op->error);
    } else if (status == UCS_OK) {
        gfi_rma_notify(op);
    } else if (status != UCS_INPROGRESS || op->pieces == 0) {
        gfi_op_set_due(op);
    }
}

/* After UCT's completions, or because the NIC had no room */
void gfi_rma_progress(struct gfi_op *op)
{
    if (op->error != 0) {
        gfi_op_complete(op, op->error);
    } else if (op->rkey != NULL && !op->awaits_fin) {
        gfi_rma_run(op);
    }
}

void gfi_rma_on_piece(struct gfi_peer *peer, const struct gfi_rma_reply *reply, size_t len)
{
    struct gfi_op *op = gfi_op_find(peer->domain, peer, GFI_OP_READ, reply->id);
    const struct gfi_rkey_part *part;
    int error = (int)reply->error;

    if (op == NULL) {
        op = gfi_op_find(peer->domain, peer, GFI_OP_WRITE, reply->id);
    }
    if (op == NULL || op->ep == NULL || op->pieces == 0) {
        return; /* of an endpoint that was closed, or of an operation that has failed */
    }
    if (error == 0 &&
        (reply->offset >= op->done ||
         len != (op->type == GFI_OP_READ ? gfi_rma_piece(op, reply->offset, &part).iov_len : 0))) {
        GFI_WARN(FI_LOG_EP_DATA, "peer %u replies with %zu bytes, which do not fit\n", peer->id,
                 len);
        error = FI_EIO;
    }
    op->pieces--;
    op->error = op->error == 0 ? error : op->error;
    if (error == 0) {
        gfi_place_write(&op->place, reply->offset, reply->bytes, len);
    }
    if (!op->in_flight) {
        gfi_rma_progress(op);
    }
}

/* Checks an access, and asks for the first part that is not known. @return 0, a positive FI_ error, or
 * -FI_EAGAIN: the peer was asked */
static int gfi_rma_check(const struct gfi_op *op, struct gfi_rkey *rkey)
{
    bool is_write = op->type == GFI_OP_WRITE;
    int error = gfi_rkey_check(rkey, is_write, op->remote_addr, op->len);
    const struct gfi_rkey_part *part;
    size_t done = 0;
    uint64_t at;

    while (error == 0 && done < op->len) {
        at = op->remote_addr + done;
        part = gfi_rkey_find_part(rkey, at);
        if (part != NULL) {
            error = gfi_rkey_part_check(part, is_write);
            done += gfi_min(gfi_rkey_part_left(part, at), op->len - done);
        } else if (rkey->has_hole && rkey->asked_at == at) {
            error = FI_EINVAL;
        } else {
            gfi_rkey_ask(op->peer, rkey, op->key, at);
            error = -FI_EAGAIN;
        }
    }
    return error;
}

/* @return false: the key, or a part of its memory, is not known yet */
static bool gfi_rma_start(struct gfi_op *op)
{
    struct gfi_peer *peer = op->peer;
    struct gfi_rkey *rkey;
    int error;

    if (op->type == GFI_OP_ATOMIC) { /* the target checks the key */
        gfi_list_del(&op->link);
        gfi_list_add(&peer->ops, &op->link);
        gfi_atomic_start(op);
        return true;
    }
    rkey = gfi_rkey_get(peer, op->key);
    if (rkey == NULL) {
        error = FI_ENOMEM;
    } else if (rkey->known) {
        error = gfi_rma_check(op, rkey);
    } else {
        gfi_rkey_ask(peer, rkey, op->key, op->remote_addr);
        error = -FI_EAGAIN;
    }
    if (error == -FI_EAGAIN) {
        return false; /* or the peer has failed, and has failed this operation */
    }
    if (rkey != NULL) {
        rkey->has_hole = false; /* the next operation asks again */
    }
    gfi_list_del(&op->link);
    gfi_list_add(&peer->ops, &op->link);
    if (error != 0) {
        gfi_op_complete(op, error);
        return true;
    }
    op->rkey = rkey;
    rkey->uses++;
    gfi_rma_run(op);
    return true;
}

void gfi_rma_start_waiting(struct gfi_peer *peer)
{
    struct gfi_op *op;

    while (peer->error == 0 && peer->ready && !gfi_list_is_empty(&peer->rma)) {
        op = gfi_list_entry(peer->rma.next, struct gfi_op, link);
        if (!gfi_op_may_start(op) || !gfi_rma_start(op)) {
            break;
        }
        if (gfi_unlikely(peer->holds > 0) && !gfi_list_is_empty(&peer->deferred)) {
            gfi_peer_set_due(peer); /* sends that waited for an operation with FI_FENCE */
        }
    }
}

void gfi_rma_submit(struct gfi_op *op)
{
    struct gfi_peer *peer = op->peer;

    if (gfi_unlikely(op->ep->is_ordered) || gfi_unlikely(op->flags & FI_FENCE)) {
        gfi_op_hold(op);
    }
    gfi_list_del(&op->link);
    gfi_list_add(&peer->rma, &op->link);
    gfi_rma_start_waiting(peer);
}
