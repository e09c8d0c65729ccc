/*
 * Epochs. An epoch is the life of the connection with a peer, for both directions. Requests to the
 * peer and requests of the peer travel over one connection of the engine, or over two if both sides
 * connected at the same time. The end of either is the end of the epoch. Each side numbers its
 * epochs, and the engine exchanges the numbers when it connects. A connection with an old
 * number is refused.
 *
 *     connections      | ours ended            | the peer's ended | another number came
 *     -----------------+-----------------------+------------------+--------------------
 *     both             | finish the peer's     | finish ours      | end both, new epoch
 *     ours alone       | epoch over            | -                | end it, new epoch
 *     the peer's alone | -                     | epoch over       | end it, new epoch
 *
 * If the peer's host is silent, ours is not finished and ends at once, with the same reason.
 *
 * A connection of the peer is read to its end. The requests that came in time are handed over, even
 * if a full queue delays them. Until then glex_ext_check_peer() does not report the end of the epoch.
 */
#include "base/log.h"
#include "net/internal.h"

#include <stdlib.h>

static struct net_epochs *epoch_bucket(struct glex_net *net, uint64_t addr)
{
    return &net->epochs[glex_peer_hash(addr) % NET_EPOCH_BUCKETS];
}

static struct net_epoch *epoch_find(struct glex_net *net, uint64_t addr)
{
    struct net_epoch *epoch;

    LIST_FOREACH(epoch, epoch_bucket(net, addr), entry) {
        if (epoch->addr == addr) {
            break;
        }
    }
    return epoch;
}

struct net_epoch *net_epoch_get(struct glex_endpoint *ep, uint64_t addr)
{
    struct net_epoch *epoch = epoch_find(ep->net, addr);

    if (epoch != NULL) {
        return epoch;
    }
    epoch = calloc(1, sizeof(*epoch));
    if (epoch == NULL) {
        glex_error("no memory for a peer");
        return NULL;
    }
    epoch->ep = ep;
    epoch->addr = addr;
    LIST_INSERT_HEAD(epoch_bucket(ep->net, addr), epoch, entry);
    return epoch;
}

/* Whether one of the two sides closes a connection. */
static bool epoch_is_down(const struct net_side *side)
{
    if (side->conn->up) {
        side->ep->net->module->look(side->conn);
    }
    return side->conn->down;
}

void net_epoch_begin(struct net_epoch *epoch)
{
    struct glex_net *net = epoch->ep->net;

    if (epoch->to == NULL && epoch->from != NULL && epoch_is_down(&epoch->from->side)) {
        net_epoch_lost_from(epoch, false); /* a peer that closes begins another epoch, if any */
    }
    if (epoch->own == 0) {
        /* odd, so never 0. The incarnation differs from the incarnation of an earlier endpoint. */
        epoch->own = (epoch->ep->segment.incarnation | 1) + 2 * ++net->num_epochs;
    }
}

static void epoch_over(struct net_epoch *epoch)
{
    epoch->own = epoch->peer = 0;
}

/* Takes the source out of the epoch. Its requests that have arrived are still carried out. */
static void epoch_leave_source(struct net_epoch *epoch)
{
    struct glex_net *net = epoch->ep->net;
    struct net_source *source = epoch->from;

    if (source != NULL) {
        epoch->from = NULL;
        LIST_INSERT_HEAD(&net->left, source, left);
        source->is_left = true;
        if (source->side.conn != NULL) {
            net->module->finish(source->side.conn);
        }
    }
}

void net_epoch_lost_to(struct net_epoch *epoch)
{
    epoch->to = NULL;
    epoch_leave_source(epoch);
    epoch_over(epoch);
}

/* Ends our connection at once. The end() of the side calls net_epoch_lost_to(). */
static void epoch_end_to(struct net_epoch *epoch, enum glex_net_end why)
{
    struct net_side *side = &epoch->to->side;

    epoch->ep->net->module->disconnect(side->conn);
    net_side_cleanup(side);
    side->kind->end(side, why);
}

void net_epoch_lost_from(struct net_epoch *epoch, bool silent)
{
    epoch_leave_source(epoch);
    if (epoch->to == NULL) {
        epoch_over(epoch);
    } else if (silent) {
        epoch_end_to(epoch, GLEX_NET_END_SILENT);
    } else {
        epoch->ep->net->module->finish(epoch->to->side.conn); /* the end of the connection then
                                                               * calls net_epoch_lost_to() */
    }
}

/* The peer has begun another epoch, so the present epoch is over. */
static void epoch_replace(struct net_epoch *epoch)
{
    if (epoch->to != NULL) {
        epoch_end_to(epoch, GLEX_NET_END_CLOSED);
    } else {
        net_epoch_lost_from(epoch, false);
    }
}

uint64_t net_epoch_meet(struct glex_endpoint *ep, uint64_t addr, uint64_t theirs, uint64_t ours)
{
    struct net_epoch *epoch = net_epoch_get(ep, addr);

    if (epoch == NULL || theirs == 0 || (ours != 0 && ours != epoch->own)) {
        return 0;
    }
    if (epoch->peer != 0 && epoch->peer != theirs) {
        epoch_replace(epoch);
        if (ours != 0) {
            return 0;
        }
    }
    net_epoch_begin(epoch);
    epoch->peer = theirs;
    return epoch->own;
}

bool net_epoch_refuses(const struct net_epoch *epoch)
{
    return epoch->asked != 0 && epoch->asked != epoch->own;
}

/* ---- for glex_ext.h -------------------------------------------------------------------------- */

/* Checks whether the peer has closed a connection, and reads what the peer sent before. */
static void epoch_look(struct net_epoch *epoch)
{
    bool to_is_down = epoch->to != NULL && epoch_is_down(&epoch->to->side);
    bool from_is_down = epoch->from != NULL && epoch_is_down(&epoch->from->side);

    if (to_is_down || from_is_down) {
        glex_net_progress(epoch->ep);
    }
}

static bool epoch_is_left(const struct glex_net *net, uint64_t number)
{
    const struct net_source *source;

    LIST_FOREACH(source, &net->left, left) {
        if (source->number == number) {
            return true;
        }
    }
    return false;
}

bool glex_net_epoch_is_over(struct glex_endpoint *ep, uint64_t addr, uint64_t number)
{
    struct net_epoch *epoch;

    if (ep->net == NULL) {
        return true;
    }
    NET_LOCKED(ep);
    epoch = epoch_find(ep->net, addr);
    if (epoch == NULL) {
        return true;
    }
    if (epoch->own == number) {
        epoch_look(epoch);
    } else if (epoch_is_left(ep->net, number)) {
        glex_net_progress(ep);
    }
    return epoch->own != number && !epoch_is_left(ep->net, number);
}

uint64_t glex_net_epoch(struct glex_endpoint *ep, uint64_t addr, int *status_p)
{
    struct net_epoch *epoch;
    struct glex_peer *peer;

    *status_p = GLEX_ERR_STATUS_DEST_HOST_DEAD;
    if (ep->net == NULL) {
        return 0;
    }
    NET_LOCKED(ep);
    epoch = net_epoch_get(ep, addr);
    if (epoch == NULL) {
        *status_p = GLEX_ERR_STATUS_CONNECTION_NACK;
        return 0;
    }
    epoch->asked = 0;
    peer = glex_endpoint_peer(ep, addr, status_p);
    if (peer != NULL && epoch->to == NULL) {
        glex_peer_drop(ep, peer); /* its connection has ended */
        peer = glex_endpoint_peer(ep, addr, status_p);
    }
    if (peer == NULL) {
        return 0;
    }
    epoch->asked = epoch->own;
    return epoch->own;
}

void net_epochs_cleanup(struct glex_net *net)
{
    struct net_epoch *epoch;
    uint32_t i;

    for (i = 0; i < NET_EPOCH_BUCKETS; i++) {
        while ((epoch = LIST_FIRST(&net->epochs[i])) != NULL) {
            LIST_REMOVE(epoch, entry);
            free(epoch);
        }
    }
}
