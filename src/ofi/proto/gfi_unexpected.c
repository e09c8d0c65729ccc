/*
 * Unexpected messages: memory and its bound, claims, and discards.
 */
#include "gfi_recv.h"

#include <stdlib.h>
#include <string.h>

static void gfi_recv_press(struct gfi_peer *peer, bool on)
{
    struct gfi_pressure pressure = {.header = peer->header, .on = on};

    peer->told = on;
    gfi_peer_send(peer, GFI_AM_PRESSURE, &pressure, sizeof(pressure));
}

/* Memory for unexpected messages is bounded. When the bound is exceeded, each sender is told to
 * keep its messages and to announce them, until half of the memory is free again */
static void gfi_recv_count(struct gfi_domain *domain, struct gfi_peer *peer, size_t size)
{
    domain->unexpected += size;
    if (gfi_unlikely(domain->unexpected > gfi_params.unexpected_size) && !peer->told) {
        GFI_INFO(FI_LOG_EP_DATA, "%zu bytes of unexpected messages: peer %u is to keep its own\n",
                 domain->unexpected, peer->id);
        domain->pressed = true;
        gfi_recv_press(peer, true);
    }
}

static void gfi_recv_uncount(struct gfi_domain *domain, size_t size)
{
    uint32_t i;

    domain->unexpected -= size;
    if (gfi_likely(!domain->pressed) || domain->unexpected > gfi_params.unexpected_size / 2) {
        return;
    }
    domain->pressed = false;
    for (i = 0; i < domain->num_peers; i++) {
        if (domain->peers[i] != NULL && domain->peers[i]->told) {
            gfi_recv_press(domain->peers[i], false);
        }
    }
}

void gfi_recv_keep(struct gfi_ep *ep, bool tagged, const struct gfi_envelope *envelope,
                   const void *bytes)
{
    size_t len = envelope->announced ? envelope->rkey_len : envelope->len;
    struct gfi_unexpected *msg = malloc(sizeof(*msg) + len);

    if (msg == NULL) {
        GFI_WARN(FI_LOG_EP_DATA, "no memory for an unexpected message of %zu bytes\n", len);
        gfi_peer_fail(envelope->peer, FI_ENOMEM);
        envelope->peer->is_cut = true; /* later messages of the peer must not overtake this one */
        gfi_recv_fail_peer(envelope->peer);
        return;
    }
    msg->envelope = *envelope;
    msg->size = sizeof(*msg) + len;
    if (len > 0) {
        memcpy(msg->bytes, envelope->announced ? envelope->rkey : bytes, len);
    }
    msg->envelope.rkey = msg->bytes;
    msg->match.source = envelope->source;
    msg->match.tag = envelope->tag;
    gfi_match_add_msg(gfi_recv_match(ep, tagged), &msg->match);
    envelope->peer->kept++;
    gfi_recv_count(ep->domain, envelope->peer, msg->size);
}

void gfi_recv_free_msg(struct gfi_domain *domain, struct gfi_unexpected *msg)
{
    gfi_recv_uncount(domain, msg->size);
    msg->envelope.peer->kept--;
    free(msg);
}

void gfi_recv_consume(struct gfi_ep *ep, struct gfi_recv *recv, struct gfi_unexpected *msg)
{
    if (msg->envelope.announced) {
        gfi_recv_announced(ep, recv, &msg->envelope);
    } else {
        gfi_recv_eager(ep, recv, &msg->envelope, msg->bytes);
    }
    gfi_recv_free_msg(ep->domain, msg);
}

void gfi_recv_claim(struct gfi_ep *ep, struct gfi_unexpected *msg, struct fi_context *context)
{
    context->internal[0] = msg;
    gfi_list_add(&ep->claimed, &msg->match.all);
}

struct gfi_unexpected *gfi_recv_claimed(struct gfi_ep *ep, const struct fi_context *context)
{
    struct gfi_unexpected *msg;
    struct gfi_list *item;

    gfi_list_for_each(item, &ep->claimed) {
        msg = gfi_of(item, struct gfi_unexpected, match.all);
        if (msg == context->internal[0]) {
            gfi_list_del(&msg->match.all);
            return msg;
        }
    }
    return NULL;
}

void gfi_recv_discard(struct gfi_ep *ep, struct gfi_unexpected *msg)
{
    if (msg->envelope.announced || (msg->envelope.flags & GFI_HDR_ACK)) {
        gfi_peer_send_fin(msg->envelope.peer, msg->envelope.op, 0);
    }
    gfi_recv_free_msg(ep->domain, msg);
}

/* The messages keep their order. Messages of other peers may be overtaken, which have no order with them */
static void gfi_recv_move_kept_in(struct gfi_match *match, const struct gfi_peer *from,
                                  const struct gfi_peer *to)
{
    struct gfi_list *item, *next, *last = match->all_msgs.prev;
    struct gfi_unexpected *msg;
    bool is_last = gfi_list_is_empty(&match->all_msgs);

    for (item = match->all_msgs.next; !is_last; item = next) {
        next = item->next;
        is_last = item == last; /* moved messages are behind it */
        msg = gfi_of(item, struct gfi_unexpected, match.all);
        if ((msg->match.source & GFI_NO_PEER) == from->id) {
            gfi_match_remove_msg(match, &msg->match);
            msg->match.source += to->id - (uint64_t)from->id;
            msg->envelope.source = msg->match.source;
            gfi_match_add_msg(match, &msg->match);
        }
    }
}

void gfi_recv_move_kept(const struct gfi_peer *from, const struct gfi_peer *to)
{
    struct gfi_domain *domain = from->domain;
    unsigned i;

    for (i = 0; i < GFI_MAX_EPS; i++) {
        if (domain->eps[i] != NULL) {
            gfi_recv_move_kept_in(&domain->eps[i]->tagged, from, to);
            gfi_recv_move_kept_in(&domain->eps[i]->msg, from, to);
        }
    }
}
