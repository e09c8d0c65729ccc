/*
 * RMA: keys of peers, and operations that read and write their memory. libfabric's keys have 64
 * bits, UCT's keys are longer. So the initiator asks the target once for the registration behind a
 * key, and the target reports when the registration is closed. The data then moves without the
 * target's help.
 */
#include "gfi_op.h"

#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

/* Ask for a key, unless that was done. @return 0, or an error */
static int gfi_rkey_request(struct gfi_peer *peer, uint64_t key)
{
    struct gfi_key_request request = {.header = peer->header, .key = key};
    struct gfi_rkey *rkey;

    if (gfi_rkey_find(peer, key) != NULL) {
        return 0;
    }
    rkey = calloc(1, sizeof(*rkey));
    if (rkey == NULL) {
        return FI_ENOMEM;
    }
    rkey->bundle.rkey = UCT_INVALID_RKEY;
    if (gfi_map_set(&peer->rkeys, key, (uintptr_t)rkey) != 0) {
        free(rkey);
        return FI_ENOMEM;
    }
    gfi_peer_send(peer, GFI_AM_KEY_REQUEST, &request, sizeof(request));
    return 0;
}

void gfi_rma_on_request(struct gfi_peer *peer, const struct gfi_key_request *request)
{
    uint8_t bytes[sizeof(struct gfi_key_reply) + GFI_MAX_RKEY];
    struct gfi_key_reply *reply = (struct gfi_key_reply *)bytes;
    struct gfi_mr *mr = gfi_mr_find(peer->domain, request->key);

    memset(reply, 0, sizeof(*reply));
    reply->header = peer->header;
    reply->key = request->key;
    if (mr != NULL && gfi_mr_add_holder(mr, peer->id) == 0) {
        reply->base = mr->base;
        reply->addr = (uintptr_t)mr->addr;
        reply->length = mr->length;
        reply->access = (uint32_t)(mr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE));
        reply->events = (uint32_t)gfi_mr_events(mr);
        reply->rkey_len = (uint32_t)mr->rkey_len;
        memcpy(reply->rkey, mr->rkey, mr->rkey_len);
    }
    gfi_peer_send(peer, GFI_AM_KEY_REPLY, reply, sizeof(*reply) + reply->rkey_len);
}

void gfi_rma_on_reply(struct gfi_peer *peer, const struct gfi_key_reply *reply)
{
    struct gfi_rkey *rkey = gfi_rkey_find(peer, reply->key);

    if (rkey == NULL || rkey->known) {
        GFI_WARN(FI_LOG_EP_DATA, "peer %u answers what was not asked\n", peer->id);
        return;
    }
    rkey->known = true;
    rkey->base = reply->base;
    rkey->addr = reply->addr;
    rkey->length = reply->length;
    rkey->access = reply->access;
    rkey->events = reply->events;
    if (reply->rkey_len == 0 ||
        uct_rkey_unpack(peer->domain->uct.component, reply->rkey, &rkey->bundle) != UCS_OK) {
        rkey->bundle.rkey = UCT_INVALID_RKEY;
    }
    gfi_rma_start_waiting(peer);
    if (rkey->bundle.rkey == UCT_INVALID_RKEY && reply->access == 0) {
        gfi_rkey_forget(peer, reply->key); /* there may be such a key later */
    }
}

/* ---- operations ---- */

static ucs_status_t gfi_rma_post_piece(struct gfi_op *op, const struct iovec *piece,
                                       uint64_t remote)
{
    const uct_iface_attr_t *attr = &op->ep->domain->uct.attr;
    uct_iov_t iov = {
        .buffer = piece->iov_base, .length = piece->iov_len, .memh = op->memh, .count = 1};

    if (op->type != GFI_OP_READ) {
        if (piece->iov_len <= attr->cap.put.max_short) {
            return uct_ep_put_short(op->peer->uct_ep, piece->iov_base, (unsigned)piece->iov_len,
                                    remote, op->rkey->bundle.rkey);
        }
        return uct_ep_put_zcopy(op->peer->uct_ep, &iov, 1, remote, op->rkey->bundle.rkey,
                                &op->comp);
    }
    if ((attr->cap.flags & UCT_IFACE_FLAG_GET_SHORT) && piece->iov_len <= attr->cap.get.max_short) {
        return uct_ep_get_short(op->peer->uct_ep, piece->iov_base, (unsigned)piece->iov_len, remote,
                                op->rkey->bundle.rkey);
    }
    return uct_ep_get_zcopy(op->peer->uct_ep, &iov, 1, remote, op->rkey->bundle.rkey, &op->comp);
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

/*
 * Moves one piece of local memory after the other. With registrations, one piece is in flight at a
 * time
 */
static ucs_status_t gfi_rma_move(struct gfi_op *op)
{
    const uct_iface_attr_t *attr = &op->ep->domain->uct.attr;
    size_t max = op->type == GFI_OP_READ ? attr->cap.get.max_zcopy : attr->cap.put.max_zcopy;
    struct iovec piece;
    ucs_status_t status;

    while (op->done < op->len) {
        piece = gfi_place_piece(&op->place, op->done);
        piece.iov_len = gfi_min(piece.iov_len, max);
        status = gfi_rma_register(op, &piece);
        if (status == UCS_OK) {
            status = gfi_rma_post_piece(
                op, &piece, op->rkey->addr + (op->remote_addr - op->rkey->base) + op->done);
        }
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
    return UCS_OK;
}

/* A write must have arrived before the target is told about it */
static ucs_status_t gfi_rma_flush(struct gfi_op *op)
{
    ucs_status_t status = UCS_OK;

    if (op->type != GFI_OP_READ && !op->flushed &&
        (gfi_rkey_is_counted(op->rkey, true) ||
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
    } else if (status != UCS_OK) {
        gfi_op_set_due(op);
    } else {
        gfi_rma_notify(op);
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

/* @return false: the key is not known yet */
static bool gfi_rma_start(struct gfi_op *op)
{
    struct gfi_peer *peer = op->peer;
    struct gfi_rkey *rkey = gfi_rkey_find(peer, op->key);
    int error;

    if (op->type == GFI_OP_ATOMIC) { /* the target checks the key */
        gfi_list_del(&op->link);
        gfi_list_add(&peer->ops, &op->link);
        gfi_atomic_start(op);
        return true;
    }
    if (rkey == NULL || !rkey->known) {
        error = gfi_rkey_request(peer, op->key);
        if (error == 0 && peer->error == 0) {
            return false;
        }
    } else {
        error = gfi_rkey_check(rkey, op->type == GFI_OP_WRITE, op->remote_addr, op->len);
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
    while (peer->error == 0 && peer->ready && !gfi_list_is_empty(&peer->rma) &&
           gfi_rma_start(gfi_list_entry(peer->rma.next, struct gfi_op, link))) {
    }
}

void gfi_rma_submit(struct gfi_op *op)
{
    struct gfi_peer *peer = op->peer;

    gfi_list_del(&op->link);
    gfi_list_add(&peer->rma, &op->link);
    gfi_rma_start_waiting(peer);
}
