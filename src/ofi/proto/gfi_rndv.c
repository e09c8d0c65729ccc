/*
 * Announced messages: the receiver fetches the data from the sender's memory, or asks for a stream of pieces.
 */
#include "gfi_recv.h"

static void gfi_recv_ask_for_stream(struct gfi_op *op)
{
    struct gfi_cts cts = {.header = op->peer->header,
                          .op = op->remote_op,
                          .recv = gfi_op_number(op),
                          .length = op->len};

    op->streaming = true;
    gfi_peer_send(op->peer, GFI_AM_CTS, &cts, sizeof(cts));
}

static int gfi_recv_register(struct gfi_op *op)
{
    struct gfi_domain *domain = op->ep->domain;

    if (!(domain->uct.md_attr.cap.flags & UCT_MD_FLAG_NEED_MEMH) ||
        op->memh != UCT_MEM_HANDLE_NULL || op->place.iov_count != 1) {
        return 0;
    }
    return uct_md_mem_reg(domain->uct.md, op->place.iov[0].iov_base, op->place.iov[0].iov_len,
                          UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS,
                          &op->memh) == UCS_OK ?
               0 :
               -FI_ENOMEM;
}

/* @return UCS_OK, UCS_INPROGRESS, or UCS_ERR_NO_RESOURCE: try again */
static ucs_status_t gfi_recv_get(struct gfi_op *op)
{
    size_t max = op->ep->domain->uct.attr.cap.get.max_zcopy;
    ucs_status_t status;
    struct iovec piece;
    uct_iov_t iov;

    while (op->done < op->len) {
        piece = gfi_place_piece(&op->place, op->done);
        iov.buffer = piece.iov_base;
        iov.length = gfi_min(gfi_min(piece.iov_len, op->len - op->done), max);
        iov.memh = op->memh;
        iov.stride = 0;
        iov.count = 1;
        status = uct_ep_get_zcopy(op->peer->uct_ep, &iov, 1, op->envelope.addr + op->done,
                                  op->bundle.rkey, &op->comp);
        if (status == UCS_INPROGRESS) {
            op->comp.count++;
        } else if (status != UCS_OK) {
            return status;
        }
        op->done += iov.length;
    }
    return UCS_OK;
}

/* Ends a receive of an announced message: sends FIN to the sender and writes the completion.
 * `error` 0: the message is in the buffer. */
void gfi_recv_finish(struct gfi_op *op, int error)
{
    struct gfi_envelope envelope = op->envelope;
    struct gfi_place place = op->place;
    struct gfi_recv *recv = op->recv;
    struct gfi_ep *ep = op->ep;

    gfi_peer_send_fin(op->peer, op->remote_op, error);
    gfi_op_free(op);
    gfi_recv_finish_message(ep, recv, &envelope, &place, error);
}

static void gfi_recv_fetch(struct gfi_op *op)
{
    ucs_status_t status;

    gfi_op_begin(op);
    status = gfi_recv_get(op);
    if (status != UCS_OK && status != UCS_ERR_NO_RESOURCE && op->error == 0) {
        op->error = gfi_uct_errno(status);
    }
    if (!gfi_op_end(op)) {
        return; /* UCT's completion goes on */
    }
    if (op->error == 0 && op->done < op->len) {
        gfi_op_set_due(op); /* the NIC has no room */
    } else {
        gfi_recv_finish(op, op->error);
    }
}

void gfi_recv_progress(struct gfi_op *op)
{
    if (op->error != 0 || op->done == op->len) {
        gfi_recv_finish(op, op->error);
    } else if (!op->streaming) {
        gfi_recv_fetch(op);
    }
}

void gfi_recv_announced(struct gfi_ep *ep, struct gfi_recv *recv,
                        const struct gfi_envelope *envelope)
{
    struct gfi_domain *domain = ep->domain;
    struct gfi_op *op = gfi_op_new(ep, envelope->peer, GFI_OP_RECV);
    struct gfi_place place;

    if (op == NULL) {
        gfi_recv_take_place(ep, recv, 0, &place);
        gfi_peer_send_fin(envelope->peer, envelope->op, FI_ENOMEM);
        gfi_recv_finish_message(ep, recv, envelope, &place, FI_ENOMEM);
        return;
    }
    gfi_recv_take_place(ep, recv, envelope->len, &op->place);
    op->finish = gfi_recv_finish;
    op->recv = recv;
    op->envelope = *envelope;
    op->remote_op = envelope->op;
    op->len = gfi_min(envelope->len, op->place.len);
    if (envelope->peer->error != 0 || op->len == 0) {
        gfi_recv_finish(op, envelope->peer->error);
        return;
    }
    if (envelope->rkey_len > 0 && (domain->uct.attr.cap.flags & UCT_IFACE_FLAG_GET_ZCOPY) &&
        gfi_recv_register(op) == 0) {
        op->has_bundle =
            uct_rkey_unpack(domain->uct.component, envelope->rkey, &op->bundle) == UCS_OK;
    }
    op->envelope.rkey = NULL; /* another operation owns the key */
    if (op->has_bundle) {
        gfi_recv_fetch(op);
    } else {
        gfi_recv_ask_for_stream(op);
    }
}

void gfi_recv_on_data(struct gfi_domain *domain, struct gfi_peer *peer, const struct gfi_data *data,
                      size_t len)
{
    struct gfi_op *op = gfi_op_find(domain, peer, GFI_OP_RECV, data->recv);

    if (op == NULL || !op->streaming || op->in_flight) {
        return; /* the receive has ended with an error, or its endpoint was closed */
    }
    if (data->offset != op->done || len > op->len - op->done) {
        GFI_WARN(FI_LOG_EP_DATA, "peer %u sends what was not asked for\n", peer->id);
        gfi_recv_finish(op, FI_EIO);
        return;
    }
    gfi_place_write(&op->place, op->done, data->bytes, len);
    op->done += len;
    if (op->done == op->len) {
        gfi_recv_finish(op, 0);
    }
}
