/*
 * The rarer work of gfi_progress(): sends waiting messages, continues operations, checks peers, and
 * ends the receives of failed peers after their last messages.
 */
#include "gfi_op.h"

#define GFI_WATCH_CALLS 1024 /* progress calls between two readings of the clock */
#define GFI_WATCH_MS    100  /* between two checks of peers */
#define GFI_DRAIN_EMPTY 32   /* calls in which the NIC found nothing: its queues are empty */
/* Rounds after which the queues count as empty, even if other peers keep sending */
#define GFI_DRAIN_ROUNDS 4096

void gfi_progress_init(struct gfi_domain *domain)
{
    domain->until_watch = GFI_WATCH_CALLS;
    gfi_list_init(&domain->due_peers);
    gfi_list_init(&domain->due_ops);
    gfi_list_init(&domain->draining);
}

static void gfi_progress_watch(struct gfi_domain *domain)
{
    uint64_t now = gfi_now_ms();

    domain->until_watch = GFI_WATCH_CALLS;
    if (now >= domain->watch_next) {
        domain->watch_next = now + GFI_WATCH_MS;
        gfi_peers_watch(domain);
    }
}

static void gfi_progress_peers(struct gfi_domain *domain)
{
    struct gfi_list due = domain->due_peers;
    struct gfi_peer *peer;

    if (gfi_list_is_empty(&domain->due_peers)) {
        return;
    }
    due.next->prev = due.prev->next = &due; /* visit each once: new entries wait for the next
                                             * call */
    gfi_list_init(&domain->due_peers);
    while (!gfi_list_is_empty(&due)) {
        peer = gfi_list_entry(due.next, struct gfi_peer, due);
        gfi_list_del(&peer->due);
        peer->is_due = false;
        gfi_rma_start_waiting(peer);
        if (!gfi_peer_progress(peer) || !gfi_send_deferred(peer)) {
            gfi_peer_set_due(peer);
        }
    }
}

/* The operation may be over and freed when this returns */
static void gfi_progress_op(struct gfi_op *op)
{
    if (op->ep == NULL) {
        gfi_op_free(op); /* the endpoint is closed: nothing is reported */
        return;
    }
    switch (op->type) {
    case GFI_OP_SEND:
        gfi_send_progress(op);
        break;
    case GFI_OP_RECV:
        gfi_recv_progress(op);
        break;
    case GFI_OP_WRITE:
    case GFI_OP_READ:
        gfi_rma_progress(op);
        break;
    case GFI_OP_ATOMIC:
        break; /* its reply ends it, or the peer's failure */
    }
}

static void gfi_progress_ops(struct gfi_domain *domain)
{
    struct gfi_list due = domain->due_ops;
    struct gfi_op *op;

    if (gfi_list_is_empty(&domain->due_ops)) {
        return;
    }
    due.next->prev = due.prev->next = &due;
    gfi_list_init(&domain->due_ops);
    while (!gfi_list_is_empty(&due)) {
        op = gfi_list_entry(due.next, struct gfi_op, due);
        gfi_list_del(&op->due);
        op->is_due = false;
        gfi_progress_op(op);
    }
}

/* The queues count as empty when the NIC finds nothing in several consecutive calls. While other
 * peers keep sending, no call finds nothing. Then a fixed number of rounds suffices, because each
 * call polls all queues. */
static void gfi_progress_drain(struct gfi_domain *domain)
{
    unsigned i;

    for (i = 0; i < GFI_DRAIN_EMPTY && domain->drain_rounds < GFI_DRAIN_ROUNDS; i++) {
        if (uct_iface_progress(domain->uct.iface) != 0) {
            domain->drain_rounds++;
            return;
        }
    }
    while (!gfi_list_is_empty(&domain->draining)) {
        gfi_recv_fail_peer(gfi_list_entry(domain->draining.next, struct gfi_peer, draining));
    }
}

void gfi_progress_due(struct gfi_domain *domain)
{
    if (domain->until_watch == 0) {
        gfi_progress_watch(domain);
    }
    gfi_progress_peers(domain);
    gfi_progress_ops(domain);
    if (!gfi_list_is_empty(&domain->draining)) {
        gfi_progress_drain(domain);
    }
    domain->due = !gfi_list_is_empty(&domain->due_peers) || !gfi_list_is_empty(&domain->due_ops) ||
                  !gfi_list_is_empty(&domain->draining);
}

bool gfi_may_sleep(struct gfi_domain *domain)
{
    bool armed;

    gfi_progress_watch(domain);
    gfi_progress(domain);
    armed = !domain->due &&
            uct_iface_event_arm(domain->uct.iface, UCT_EVENT_SEND_COMP | UCT_EVENT_RECV) == UCS_OK;
    if (armed && domain->roused) {
        gfi_wait_clear(domain->rouse_fd);
    } else if (!armed && !domain->roused) {
        gfi_wait_signal(domain->rouse_fd);
    }
    domain->roused = !armed;
    return armed;
}
