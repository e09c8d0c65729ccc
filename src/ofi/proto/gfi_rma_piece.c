/*
 * Reads and writes by messages. The NIC does not reach private memory where process_vm_readv() and
 * process_vm_writev() are forbidden. Then the initiator cuts an operation into pieces of one message
 * each, and the target's progress copies and answers. A completion means that the target has executed
 * the operation.
 */
#include "gfi_op.h"

#include <string.h>

/* ---- initiator ---- */

size_t gfi_rma_piece_max(const struct gfi_domain *domain)
{
    return domain->uct.attr.cap.am.max_bcopy - sizeof(struct gfi_rma_write);
}

static ucs_status_t gfi_piece_write(struct gfi_op *op, const struct iovec *bytes)
{
    struct gfi_rma_write write = {.header = op->peer->header | op->ep->header | op->dst_ep,
                                  .id = gfi_op_number(op),
                                  .offset = op->done,
                                  .addr = op->remote_addr + op->done,
                                  .key = op->key};
    struct gfi_parcel parcel = {.message = &write,
                                .len = sizeof(write),
                                .bytes = bytes->iov_base,
                                .bytes_len = bytes->iov_len};

    return gfi_peer_post(op->peer, GFI_AM_RMA_WRITE, &parcel);
}

static ucs_status_t gfi_piece_read(struct gfi_op *op, const struct iovec *bytes)
{
    struct gfi_rma_read read = {.header = op->peer->header | op->ep->header | op->dst_ep,
                                .id = gfi_op_number(op),
                                .offset = op->done,
                                .addr = op->remote_addr + op->done,
                                .key = op->key,
                                .length = bytes->iov_len};
    struct gfi_parcel parcel = {.message = &read, .len = sizeof(read)};

    return gfi_peer_post(op->peer, GFI_AM_RMA_READ, &parcel);
}

ucs_status_t gfi_rma_piece_send(struct gfi_op *op, const struct iovec *bytes)
{
    ucs_status_t status = UCS_ERR_NO_RESOURCE;

    if (op->peer->first_ctl == NULL) { /* a piece does not overtake the provider's own messages */
        status = op->type == GFI_OP_WRITE ? gfi_piece_write(op, bytes) : gfi_piece_read(op, bytes);
    }
    op->pieces += status == UCS_OK;
    return status;
}

/* ---- target ---- */

/* @return 0 or a positive FI_ error */
static int gfi_piece_find(const struct gfi_peer *peer, uint64_t key, uint64_t access, uint64_t addr,
                          size_t len, uint8_t **memory_p)
{
    struct gfi_mr *mr = gfi_mr_find(peer->domain, key);

    return mr == NULL ? FI_EKEYREJECTED : gfi_mr_find_memory(mr, access, addr, len, memory_p);
}

void gfi_rma_piece_on_write(struct gfi_peer *peer, const struct gfi_rma_write *write, size_t len)
{
    struct gfi_rma_reply reply = {.header = peer->header, .id = write->id, .offset = write->offset};
    uint8_t *memory;

    reply.error =
        (uint32_t)gfi_piece_find(peer, write->key, FI_REMOTE_WRITE, write->addr, len, &memory);
    if (reply.error == 0) {
        memcpy(memory, write->bytes, len);
    }
    gfi_peer_send(peer, GFI_AM_RMA_REPLY, &reply, sizeof(reply));
}

void gfi_rma_piece_on_read(struct gfi_peer *peer, const struct gfi_rma_read *read)
{
    struct gfi_rma_reply reply = {.header = peer->header, .id = read->id, .offset = read->offset};
    struct gfi_parcel parcel = {.message = &reply, .len = sizeof(reply)};
    uint8_t *memory = NULL;
    int error = FI_EINVAL;

    if (read->length <= gfi_rma_piece_max(peer->domain)) {
        error = gfi_piece_find(peer, read->key, FI_REMOTE_READ, read->addr, read->length, &memory);
    }
    reply.error = (uint32_t)error;
    parcel.bytes = memory;
    parcel.bytes_len = error == 0 ? read->length : 0;
    gfi_peer_send_parcel(peer, GFI_AM_RMA_REPLY, &parcel);
}
