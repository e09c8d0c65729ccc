/*
 * The work that the hot paths leave out: the network, collectives, delayed messages of GLEX_FAULT and
 * slots that no producer publishes. Two rules bound how long this work waits:
 *
 * - A poll that finds nothing counts down `polls_left`, and looks after the work at 0.
 * - A poll that finds an entry ends in a discard. A discard looks after the work once in
 *   QUEUE_TURN entries; entries that glex_ext_poll() takes count as polls that found nothing.
 *
 * The work may need room in a queue that producers on this host keep full. So a discard in turn gives
 * the work the room of the discarded entries before the producers see the room.
 */
#include "api/progress.h"
#include "coll/coll.h"
#include "core/wait.h"
#include "debug/fault.h"
#include "net/net.h"

/* Discarded entries before the next turn of the network: usually, and while the network waits for
 * room in a queue. */
#define QUEUE_TURN      256u
#define QUEUE_TURN_HELD 16u
/* Entries that glex_ext_poll() takes before the network gets room again: more than poll_release()
 * gives back at once, so the room of every other release is for producers on this host. */
#define QUEUE_TURN_POLL 32u

struct glex_lock glex_endpoints_lock = GLEX_LOCK_INITIAL;
struct glex_endpoint *glex_endpoints;

/* release: a child of fork() that finds the endpoint finds the endpoint complete */
void glex_endpoints_add(struct glex_endpoint *ep)
{
    ep->next = glex_endpoints;
    ep->prev_next = &glex_endpoints;
    if (ep->next != NULL) {
        ep->next->prev_next = &ep->next;
    }
    __atomic_store_n(&glex_endpoints, ep, __ATOMIC_RELEASE);
}

void glex_endpoints_remove(struct glex_endpoint *ep)
{
    glex_lock_take(&glex_endpoints_lock);
    __atomic_store_n(ep->prev_next, ep->next, __ATOMIC_RELEASE);
    if (ep->next != NULL) {
        ep->next->prev_next = ep->prev_next;
    }
    glex_lock_give(&glex_endpoints_lock);
}

/* ---- other endpoints of the process ---------------------------------------------------------- */

/* Whether sequences of an endpoint wait for packets of the network. */
static bool progress_waits_for_net(const struct glex_endpoint *ep)
{
    return ep->net != NULL && ep->coll.area != NULL;
}

static bool progress_has_net(const struct glex_endpoint *ep)
{
    return ep->net != NULL;
}

/* Another thread may be using an endpoint without a lock. A process that emulates several hosts has
 * one thread, and its endpoints need no lock. */
static bool progress_trylock(struct glex_endpoint *ep)
{
    return ep->threads.on ? pthread_mutex_trylock(&ep->threads.lock) == 0 : glex_fault_is_far();
}

/*
 * Progresses the network of the process's other endpoints for which `wanted` returns true. A thread
 * that has the lock of an endpoint progresses this endpoint itself. Returns whether such endpoints
 * exist.
 */
static bool progress_carry(const struct glex_endpoint *but,
                           bool (*wanted)(const struct glex_endpoint *ep))
{
    struct glex_endpoint *ep;
    bool found = false;

    if (!glex_lock_try(&glex_endpoints_lock)) {
        return true;
    }
    for (ep = glex_endpoints; ep != NULL; ep = ep->next) {
        if (ep == but || !progress_trylock(ep)) {
            continue;
        }
        if (wanted(ep)) {
            found = true;
            glex_net_progress(ep);
            glex_coll_idle(ep);
        }
        glex_endpoint_unlock(ep);
    }
    glex_lock_give(&glex_endpoints_lock);
    return found;
}

/* A peer may be another endpoint of this process, and this thread may be its only thread. The flush
 * therefore progresses all endpoints of the process. */
void glex_endpoint_flush(struct glex_endpoint *ep, uint32_t ms)
{
    uint64_t begin_ns = glex_now_ns();

    while (glex_net_flush(ep, begin_ns, ms)) {
        (void)progress_carry(ep, progress_has_net);
    }
}

/* ---- one endpoint ---------------------------------------------------------------------------- */

uint32_t glex_endpoint_patience(const struct glex_endpoint *ep)
{
    uint32_t patience = glex_fault_patience(ep), other;

    if (ep->coll.area != NULL) {
        other = GLEX_COLL_PATIENCE;
        patience = other < patience ? other : patience;
    }
    if (ep->net != NULL) {
        other = glex_net_patience(ep);
        patience = other < patience ? other : patience;
        other = QUEUE_TURN_POLL;
        patience = glex_net_wants_room(ep) && other < patience ? other : patience;
    }
    return patience;
}

/* Empty polls before a check of `asker`. The number of empty polls is divided into two counts, so
 * the short path of an empty poll needs no instruction for this check. */
#define POLL_HELP 64u

void glex_poll_divide(struct glex_endpoint *ep, uint32_t polls)
{
    uint32_t most = ep->poll.looks == 0 ? POLL_HELP : 1;

    ep->poll.polls_left = polls < most ? polls : most;
    ep->poll.polls_rest = polls - ep->poll.polls_left;
}

void glex_endpoint_progress(struct glex_endpoint *ep)
{
    glex_net_progress(ep);
    glex_fault_idle(ep);
    glex_coll_idle(ep);
    /* Sequences may wait at other endpoints of this process, and a program may poll only the
     * endpoint at which the collective ends. */
    ep->carries_others =
        ep->net != NULL && glex_coll_is_used() && progress_carry(ep, progress_waits_for_net);
}

/* Gives the network the room of the entries before the cursor, which the caller is about to
 * discard. */
static void progress_grant(struct glex_endpoint *ep, int which)
{
    struct glex_peer *self;
    int status;

    if (ep->net == NULL) {
        return; /* without a network all producers are on this host, and equal */
    }
    self = glex_endpoint_peer(ep, ep->addr, &status);
    if (self != NULL) {
        glex_ring_grant(which == GLEX_RING_EQ ? &self->eq : &self->mpq, glex_queue(ep, which));
    }
}

void glex_queue_turn(struct glex_endpoint *ep, int which)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);
    uint32_t turn;

    progress_grant(ep, which);
    glex_endpoint_progress(ep);
    turn = ep->net != NULL && glex_net_wants_room(ep) ? QUEUE_TURN_HELD : QUEUE_TURN;
    rx->turn = rx->cursor + turn;
}

void glex_endpoint_turn(struct glex_endpoint *ep)
{
    int which;

    for (which = 0; which < 2; which++) {
        if (glex_queue(ep, which)->cursor > glex_queue(ep, which)->turn) {
            progress_grant(ep, which);
            glex_queue(ep, which)->turn = glex_queue(ep, which)->cursor + QUEUE_TURN_POLL;
        }
    }
    glex_endpoint_progress(ep);
}

bool glex_endpoint_stalled(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos)
{
    glex_ring_pass_over(rx, pos);
    return glex_ring_stalled(rx, pos, ep->dev->dirfd, &ep->segment);
}

bool glex_endpoint_idle(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos)
{
    rx->polls_left = glex_endpoint_patience(ep);
    glex_endpoint_progress(ep);
    return glex_endpoint_stalled(ep, rx, pos);
}
