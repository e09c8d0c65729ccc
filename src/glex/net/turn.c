/*
 * One turn of an endpoint's network: hands over frames that have come, and sends waiting frames.
 */
#include "net/internal.h"

/* Turns without an arrival, some milliseconds, before net_kind.tell() acknowledges. */
#define NET_IDLE_TURNS 512u
/* Turns without an arrival before the time between two turns doubles. */
#define NET_LEVEL_TURNS 8u
#define NET_MAX_LEVEL   12u /* 4096 polls */

/* Called after turns without an arrival. */
static void net_tell_sources(struct glex_net *net)
{
    struct net_side *side;

    LIST_FOREACH(side, &net->open, open) {
        side->kind->tell(side);
    }
}

static uint32_t net_num_work(const struct glex_net *net)
{
    const struct net_side *side;
    uint32_t num = 0;

    TAILQ_FOREACH(side, &net->work, work) {
        num++;
    }
    return num;
}

/*
 * Visits each listed side once. A side that still has something to do lists itself again. The first
 * side of a turn is the last side of the next turn: the first side may take all room of a queue, or
 * all free buffers.
 */
static void net_work(struct glex_net *net)
{
    uint32_t left = net_num_work(net);
    struct net_side *side;

    net->wants_room = false;
    for (; left != 0 && (side = TAILQ_FIRST(&net->work)) != NULL; left--) {
        net_side_unlist(side);
        side->kind->go_on(side);
    }
    side = TAILQ_FIRST(&net->work);
    if (side != NULL) {
        net_side_unlist(side);
        net_side_list(side);
    }
}

bool net_arm(struct glex_net *net)
{
    net->armed = true;
    return net->module->arm(net->engine);
}

/*
 * Disarms the network unless a thread waits for it. A thread inside a libglex call sets
 * `threads.sleeping`. A thread in the program's own epoll has armed both queues. If a queue is not
 * armed any more, an entry has arrived and made the descriptor readable, so that thread is awake.
 */
static void net_disarm(struct glex_endpoint *ep)
{
    if (!ep->threads.sleeping && !(ep->eq.armed && ep->mpq.armed)) {
        ep->net->module->disarm(ep->net->engine);
        ep->net->armed = false;
    }
}

void glex_net_progress(struct glex_endpoint *ep)
{
    struct glex_net *net = ep->net;

    if (net == NULL || net->busy) {
        return;
    }
    NET_LOCKED(ep);
    net->busy = true;
    if (net->armed) {
        net_disarm(ep);
    }
    if (net->module->progress(net->engine) != 0) {
        net->misses = 0;
    } else {
        net->misses++;
    }
    if (net->misses != 0 && net->misses % NET_IDLE_TURNS == 0) {
        net_tell_sources(net);
    }
    net_work(net);
    if (net_leaves_frames(net)) {
        net_flusher_wake(net);
    }
    net->busy = false;
}

uint32_t glex_net_patience(const struct glex_endpoint *ep)
{
    uint32_t level = ep->net->misses / NET_LEVEL_TURNS;

    return 1u << (level < NET_MAX_LEVEL ? level : NET_MAX_LEVEL);
}

bool glex_net_wants_room(const struct glex_endpoint *ep)
{
    return ep->net->wants_room;
}

int glex_net_fd(const struct glex_endpoint *ep)
{
    return ep->net == NULL ? -1 : ep->net->module->fd(ep->net->engine);
}

bool glex_net_arm(struct glex_endpoint *ep)
{
    if (ep->net == NULL) {
        return true;
    }
    NET_LOCKED(ep);
    return net_arm(ep->net);
}
