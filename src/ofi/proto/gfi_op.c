#include "gfi_op.h"

#include <stdlib.h>
#include <string.h>

#define GFI_MAX_OPS (1u << 24)

static void gfi_op_on_comp(uct_completion_t *comp);

/* ---- memory in pieces ---- */

struct iovec gfi_place_piece(const struct gfi_place *place, size_t offset)
{
    struct iovec piece = {.iov_base = NULL, .iov_len = 0};
    size_t i;

    for (i = 0; i < place->iov_count; i++) {
        if (offset < place->iov[i].iov_len) {
            piece.iov_base = (uint8_t *)place->iov[i].iov_base + offset;
            piece.iov_len = place->iov[i].iov_len - offset;
            break;
        }
        offset -= place->iov[i].iov_len;
    }
    return piece;
}

size_t gfi_place_read(const struct gfi_place *place, size_t offset, void *to, size_t len)
{
    size_t done = 0, n;
    struct iovec piece;

    while (done < len && (piece = gfi_place_piece(place, offset + done)).iov_len > 0) {
        n = gfi_min(piece.iov_len, len - done);
        memcpy((uint8_t *)to + done, piece.iov_base, n);
        done += n;
    }
    return done;
}

size_t gfi_place_write(const struct gfi_place *place, size_t offset, const void *from, size_t len)
{
    size_t done = 0, n;
    struct iovec piece;

    while (done < len && (piece = gfi_place_piece(place, offset + done)).iov_len > 0) {
        n = gfi_min(piece.iov_len, len - done);
        memcpy(piece.iov_base, (const uint8_t *)from + done, n);
        done += n;
    }
    return done;
}

/* ---- making ---- */

static int gfi_ops_grow(struct gfi_domain *domain)
{
    uint32_t count = domain->num_ops == 0 ? 64 : 2 * domain->num_ops, i;
    struct gfi_op **ops;

    if (count > GFI_MAX_OPS) {
        return -FI_ENOMEM;
    }
    ops = realloc(domain->ops, count * sizeof(*ops));
    if (ops == NULL) {
        return -FI_ENOMEM;
    }
    domain->ops = ops;
    for (i = domain->num_ops; i < count; i++) {
        ops[i] = calloc(1, sizeof(**ops));
        if (ops[i] == NULL) {
            break;
        }
        ops[i]->index = i;
        gfi_list_add(&domain->free_ops, &ops[i]->link);
    }
    count = i - domain->num_ops;
    domain->num_ops = i;
    return count > 0 ? 0 : -FI_ENOMEM;
}

struct gfi_op *gfi_op_new(struct gfi_ep *ep, struct gfi_peer *peer, enum gfi_op_type type)
{
    struct gfi_domain *domain = ep->domain;
    uint32_t index, generation;
    struct gfi_op *op;

    if (gfi_list_is_empty(&domain->free_ops) && gfi_ops_grow(domain) != 0) {
        GFI_WARN(FI_LOG_EP_DATA, "no memory for an operation\n");
        return NULL;
    }
    op = gfi_list_entry(domain->free_ops.next, struct gfi_op, link);
    gfi_list_del(&op->link);
    index = op->index;
    generation = op->generation;
    memset(op, 0, sizeof(*op));
    op->index = index;
    op->generation = generation;
    op->in_use = true;
    op->type = type;
    op->ep = ep;
    op->peer = peer;
    op->seq = domain->next_seq++;
    op->memh = UCT_MEM_HANDLE_NULL;
    gfi_list_add(&peer->ops, &op->link);
    ep->num_tx += type != GFI_OP_RECV;
    return op;
}

/* The end of an operation may have waiting operations of the same peer start */
static void gfi_op_release(struct gfi_op *op)
{
    struct gfi_peer *peer = op->peer;

    peer->holds -= op->is_held;
    op->is_held = false;
    gfi_peer_update(peer);
    if (!gfi_list_is_empty(&peer->rma) || !gfi_list_is_empty(&peer->deferred)) {
        gfi_peer_set_due(peer);
    }
}

void gfi_op_free(struct gfi_op *op)
{
    struct gfi_domain *domain = op->peer->domain;

    if (op->memh != UCT_MEM_HANDLE_NULL) {
        uct_md_mem_dereg(domain->uct.md, op->memh);
    }
    if (op->has_bundle) {
        uct_rkey_release(domain->uct.component, &op->bundle);
    }
    if (op->rkey != NULL) {
        gfi_rkey_put(op->peer, op->rkey);
    }
    if (op->ep != NULL) {
        op->ep->num_tx -= op->type != GFI_OP_RECV;
    }
    if (op->is_due) {
        gfi_list_del(&op->due);
    }
    free(op->copy);
    op->in_use = op->is_due = false;
    op->generation++;
    gfi_list_del(&op->link);
    gfi_list_add(&domain->free_ops, &op->link);
    if (gfi_unlikely(op->peer->holds > 0)) {
        gfi_op_release(op);
    }
}

uint64_t gfi_op_number(const struct gfi_op *op)
{
    return op->index | (uint64_t)op->generation << 32;
}

struct gfi_op *gfi_op_find(struct gfi_domain *domain, const struct gfi_peer *peer,
                           enum gfi_op_type type, uint64_t number)
{
    uint32_t index = (uint32_t)number;
    struct gfi_op *op;

    if (index >= domain->num_ops) {
        return NULL;
    }
    op = domain->ops[index];
    return op->in_use && op->generation == number >> 32 && op->peer == peer && op->type == type ?
               op :
               NULL;
}

void gfi_ops_cleanup(struct gfi_domain *domain)
{
    uint32_t i;

    for (i = 0; i < domain->num_ops; i++) {
        if (domain->ops[i]->in_use) {
            gfi_op_free(domain->ops[i]);
        }
        free(domain->ops[i]);
    }
    free(domain->ops);
}

/* ---- order ---- */

/* Whether an endpoint's order has `op` wait for an earlier operation. Atomic operations are messages, so
 * they stay in order among themselves, and sends stay behind them */
static bool gfi_op_is_ordered_behind(const struct gfi_op *op, const struct gfi_op *other,
                                     bool is_waiting)
{
    if (!op->ep->is_ordered || other->type == GFI_OP_SEND) {
        return false;
    }
    return other->type != GFI_OP_ATOMIC || is_waiting || op->type == GFI_OP_WRITE ||
           op->type == GFI_OP_READ;
}

/* @param is_waiting  The operations of the list have not started. The list is in their order then.
 * @return whether `op` waits for one of the list */
static bool gfi_op_waits_for(const struct gfi_op *op, const struct gfi_list *list, bool is_waiting)
{
    const struct gfi_op *other;
    struct gfi_list *item;

    gfi_list_for_each(item, list) {
        other = gfi_list_entry(item, struct gfi_op, link);
        if (other->seq >= op->seq && is_waiting) {
            return false;
        }
        if (other->seq < op->seq && other->ep == op->ep && other->type != GFI_OP_RECV &&
            ((op->flags & FI_FENCE) || (is_waiting && (other->flags & FI_FENCE)) ||
             gfi_op_is_ordered_behind(op, other, is_waiting))) {
            return true;
        }
    }
    return false;
}

bool gfi_op_may_start(const struct gfi_op *op)
{
    struct gfi_peer *peer = op->peer;

    if (gfi_likely(peer->holds == 0)) {
        return true;
    }
    if (gfi_op_waits_for(op, &peer->ops, false) || gfi_op_waits_for(op, &peer->rma, true) ||
        gfi_op_waits_for(op, &peer->deferred, true)) {
        return false;
    }
    /* writes that went to the NIC at once have no operation */
    if ((op->flags & FI_FENCE) &&
        uct_ep_flush(peer->uct_ep, UCT_FLUSH_FLAG_LOCAL, NULL) != UCS_OK) {
        gfi_peer_set_due(peer);
        return false;
    }
    return true;
}

/* ---- going on ---- */

void gfi_op_set_due(struct gfi_op *op)
{
    struct gfi_domain *domain = op->peer->domain;

    if (!op->is_due) {
        op->is_due = true;
        gfi_list_add(&domain->due_ops, &op->due);
    }
    gfi_set_due(domain);
}

void gfi_op_begin(struct gfi_op *op)
{
    op->comp.func = gfi_op_on_comp;
    op->comp.count = 1;
    op->comp.status = UCS_OK;
    op->in_flight = true;
}

bool gfi_op_end(struct gfi_op *op)
{
    op->in_flight = --op->comp.count > 0;
    if (op->comp.status != UCS_OK && op->error == 0) {
        op->error = gfi_uct_errno(op->comp.status);
    }
    return !op->in_flight;
}

/* UCT's last completion, from within progress */
static void gfi_op_on_comp(uct_completion_t *comp)
{
    struct gfi_op *op = gfi_of(comp, struct gfi_op, comp);

    op->in_flight = false;
    if (comp->status != UCS_OK && op->error == 0) {
        op->error = gfi_uct_errno(comp->status);
    }
    gfi_op_set_due(op); /* later, because this callback may run inside a call of UCT */
}

/* ---- the end ---- */

static struct gfi_cntr *gfi_op_cntr(const struct gfi_op *op)
{
    return op->ep->cntrs[op->cq_flags & FI_SEND  ? GFI_CNTR_SEND :
                         op->cq_flags & FI_WRITE ? GFI_CNTR_WRITE :
                                                   GFI_CNTR_READ];
}

/* Errors are also reported for operations without a requested completion, but not for fi_inject()
 * and its variants, which have no context to report. */
static bool gfi_op_is_reported(const struct gfi_op *op, int error)
{
    return op->ep->tx_cq != NULL &&
           ((op->flags & FI_COMPLETION) || (error != 0 && !(op->flags & FI_INJECT)));
}

static void gfi_op_report_error(const struct gfi_op *op, int error)
{
    struct fi_cq_err_entry entry = {.op_context = op->context,
                                    .flags = op->cq_flags,
                                    .len = 0,
                                    .tag = op->tag,
                                    .err = error,
                                    .prov_errno = error};

    gfi_cq_add_error(op->ep->tx_cq, &entry);
}

void gfi_op_complete(struct gfi_op *op, int error)
{
    struct gfi_cqe *cqe;

    if (op->finish != NULL) {
        op->finish(op, error);
        return;
    }
    if (op->ep != NULL) {
        gfi_cntr_count(gfi_op_cntr(op), error != 0);
        if (!gfi_op_is_reported(op, error)) {
            /* nothing to say */
        } else if (error != 0) {
            gfi_op_report_error(op, error);
        } else {
            cqe = gfi_cq_add(op->ep->tx_cq);
            if (cqe != NULL) {
                *cqe = (struct gfi_cqe){
                    .context = op->context, .flags = op->cq_flags, .source = FI_ADDR_NOTAVAIL};
            }
        }
    }
    gfi_op_free(op);
}

void gfi_op_fail(struct gfi_op *op, int error)
{
    if (op->error == 0) {
        op->error = error;
    }
    if (op->in_flight) {
        return; /* UCT ends its part with an error too, and gfi_progress() ends the rest */
    }
    if (op->ep == NULL) {
        gfi_op_free(op);
    } else {
        gfi_op_complete(op, op->error);
    }
}
