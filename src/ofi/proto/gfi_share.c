/*
 * Sender and receiver each copy a part of a long message, if the sender makes progress. One
 * processor copies no faster than its kernel pins pages. Two processors copy twice as fast.
 *
 * If no ACCEPT has arrived when the first piece is fetched, the receiver fetches the rest alone. So
 * the receiver never waits for a busy sender. If the NIC moves the data instead of the processor,
 * the first get returns UCS_INPROGRESS, and sharing brings nothing.
 *
 *   receiver                                  sender
 *   OFFER, fetches a first piece         -->
 *                                        <--  ACCEPT, if in progress and helping no peer
 *   GRANT: half of the rest              -->
 *   fetches the other half                    writes its half into the receiver's buffer
 *                                        <--  FIN of this half
 *   FIN of the message                   -->
 */
#include "gfi_op.h"

#include <stdlib.h>

#define GFI_SHARE_PIECES 16             /* the first piece is this part of a message */
#define GFI_SHARE_UNIT   ((size_t)4096) /* parts end at a multiple of it */

/* ---- receiver ---- */

void gfi_share_offer(struct gfi_op *op)
{
    struct gfi_offer offer = {
        .header = op->peer->header, .op = op->remote_op, .recv = gfi_op_number(op)};

    op->offered = true;
    gfi_op_set_due(op);
    gfi_peer_send(op->peer, GFI_AM_OFFER, &offer,
                  sizeof(offer)); /* may fail the peer, and end op */
}

bool gfi_share_is_useful(const struct gfi_op *op)
{
    return gfi_params.share_size > 0 && op->len >= gfi_params.share_size &&
           op->len >= GFI_SHARE_PIECES * GFI_SHARE_UNIT && op->place.iov_count == 1 &&
           op->memh == UCT_MEM_HANDLE_NULL;
}

size_t gfi_share_fetch_end(const struct gfi_op *op)
{
    return op->offered && op->done == 0 ? op->fetch_end / GFI_SHARE_PIECES : op->fetch_end;
}

/* The part of the buffer that the sender is to write: its key into `grant`. @return false: it
 * cannot */
static bool gfi_share_register(struct gfi_op *op, size_t length, struct gfi_grant *grant)
{
    struct gfi_uct *uct = &op->peer->domain->uct;
    uint8_t *addr = (uint8_t *)op->place.iov[0].iov_base + op->fetch_end - length;

    if (length == 0 ||
        uct_md_mem_reg(uct->md, addr, length, UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS,
                       &op->memh) != UCS_OK) {
        op->memh = UCT_MEM_HANDLE_NULL;
        return false;
    }
    if (uct_md_mkey_pack(uct->md, op->memh, grant->rkey) != UCS_OK) {
        return false;
    }
    grant->addr = (uintptr_t)addr;
    grant->rkey_len = (uint32_t)uct->md_attr.rkey_packed_size;
    return true;
}

void gfi_share_on_accept(struct gfi_domain *domain, struct gfi_peer *peer,
                         const struct gfi_accept *accept)
{
    struct gfi_op *op = gfi_op_find(domain, peer, GFI_OP_RECV, accept->recv);
    uint8_t bytes[sizeof(struct gfi_grant) + GFI_MAX_RKEY];
    struct gfi_grant *grant = (struct gfi_grant *)bytes;
    size_t length;

    if (op == NULL || !op->offered || op->in_flight || op->error != 0) {
        return; /* too late: it was fetched, or the NIC fetches it */
    }
    op->offered = false;
    length = (op->fetch_end - op->done) / 2 / GFI_SHARE_UNIT * GFI_SHARE_UNIT;
    if (!gfi_share_register(op, length, grant)) {
        return;
    }
    op->fetch_end -= length;
    op->shared = length;
    grant->header = peer->header;
    grant->op = op->remote_op;
    grant->recv = gfi_op_number(op);
    grant->offset = op->fetch_end;
    grant->length = length;
    grant->resv = 0;
    gfi_peer_send(peer, GFI_AM_GRANT, grant, sizeof(*grant) + grant->rkey_len);
}

bool gfi_share_on_fin(struct gfi_op *op, int error)
{
    if (op->shared == 0) {
        GFI_WARN(FI_LOG_EP_DATA, "peer %u ends what it was not asked for\n", op->peer->id);
        return false;
    }
    if (error != 0) {
        op->fetch_end += op->shared; /* the receiver fetches this part, too */
    }
    op->shared = 0;
    return !op->in_flight;
}

/* ---- sender ---- */

void gfi_share_on_offer(struct gfi_domain *domain, struct gfi_peer *peer,
                        const struct gfi_offer *offer)
{
    struct gfi_op *op = gfi_op_find(domain, peer, GFI_OP_SEND, offer->op);
    struct gfi_accept accept = {.header = peer->header, .recv = offer->recv};

    if (op == NULL || !op->awaits_fin || op->streaming || op->helps) {
        return;
    }
    if (domain->num_helps > 0 && domain->helped != peer) {
        return; /* receivers that wait for each other would be slower than single receivers */
    }
    domain->helped = peer;
    domain->num_helps++;
    op->helps = true;
    gfi_peer_send(peer, GFI_AM_ACCEPT, &accept, sizeof(accept));
}

static void gfi_share_finish(struct gfi_op *op, int error)
{
    struct gfi_peer *peer = op->peer;
    uint64_t recv = op->remote_op;

    gfi_op_free(op);
    gfi_peer_send_fin(peer, recv, error);
}

/* Makes the write of a part of a message. The key belongs to this operation: `revoked` frees both.
 * @return NULL: the part cannot be written */
static struct gfi_op *gfi_share_new_write(struct gfi_op *message, const struct gfi_grant *grant)
{
    struct gfi_rkey *rkey = calloc(1, sizeof(*rkey));
    struct gfi_op *op = NULL;

    if (rkey == NULL) {
        return NULL;
    }
    if (uct_rkey_unpack(message->peer->domain->uct.component, grant->rkey, &rkey->bundle) !=
        UCS_OK) {
        goto err_free;
    }
    op = gfi_op_new(message->ep, message->peer, GFI_OP_SHARE);
    if (op == NULL) {
        uct_rkey_release(message->peer->domain->uct.component, &rkey->bundle);
        goto err_free;
    }
    rkey->known = rkey->revoked = true;
    rkey->uses = 1;
    rkey->base = rkey->addr = grant->addr;
    rkey->length = grant->length;
    op->finish = gfi_share_finish;
    op->rkey = rkey;
    op->remote_op = grant->recv;
    op->remote_addr = grant->addr;
    op->flags = FI_DELIVERY_COMPLETE;
    op->len = op->place.len = grant->length;
    op->place.iov_count = 1;
    op->place.iov[0].iov_base = (uint8_t *)message->place.iov[0].iov_base + grant->offset;
    op->place.iov[0].iov_len = grant->length;
    return op;

err_free:
    free(rkey);
    return NULL;
}

void gfi_share_on_grant(struct gfi_domain *domain, struct gfi_peer *peer,
                        const struct gfi_grant *grant)
{
    struct gfi_op *message = gfi_op_find(domain, peer, GFI_OP_SEND, grant->op), *op = NULL;

    if (message != NULL && message->helps && message->place.iov_count == 1 &&
        grant->offset <= message->len && grant->length <= message->len - grant->offset) {
        op = gfi_share_new_write(message, grant);
    }
    if (op == NULL) { /* of an endpoint that was closed, or no memory */
        gfi_peer_send_fin(peer, grant->recv, FI_ECANCELED);
        return;
    }
    gfi_rma_run(op);
}
