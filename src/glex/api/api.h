/* Common declarations of the functions of the public headers. */
#ifndef GLEX_API_H
#define GLEX_API_H

#include "core/endpoint.h"
#include "core/wait.h"

/** The posting functions, of an endpoint that one thread uses; threads.c has them with the lock. */
glex_ret_t glex_mp_post(glex_ep_handle_t ep, glex_imm_mp_req_t *req, glex_imm_mp_req_t **bad_req);
glex_ret_t glex_imm_rdma_post(glex_ep_handle_t ep, glex_imm_rdma_req_t *req,
                              glex_imm_rdma_req_t **bad_req);
glex_ret_t glex_rdma_post(glex_ep_handle_t ep, glex_rdma_req_t *req, glex_rdma_req_t **bad_req);

/** Post an event by the link's own way: glex_ext_post_event() where it meets an obstacle. */
glex_ret_t glex_event_post(struct glex_endpoint *ep, const glex_imm_rdma_req_t *req);

/* ---- the queues: `which` is GLEX_RING_MPQ or GLEX_RING_EQ ------------------------------------ */

/**
 * A probed entry: the slot in its ring, or a copy of it; `ret` is the reason if no entry was found.
 */
struct glex_entry {
    void *slot;
    uint32_t len;
    glex_ret_t ret;
};

static GLEX_ALWAYS_INLINE struct glex_ring_rx *glex_queue(struct glex_endpoint *ep, int which)
{
    return which == GLEX_RING_EQ ? &ep->eq : &ep->mpq;
}

/** The return value of a probe without an entry. */
static GLEX_ALWAYS_INLINE glex_ret_t glex_queue_none(int which)
{
    return which == GLEX_RING_EQ ? GLEX_NO_EVENT : GLEX_NO_MP;
}

/** Whether a slot holds an entry. Slots of killed producers, and slots with an impossible length,
 * hold no entry. */
static GLEX_ALWAYS_INLINE bool glex_queue_holds(int which, uint32_t len)
{
    return glex_likely(len <= (which == GLEX_RING_MPQ ? GLEX_MP_DATA_LEN : GLEX_EVENT_DATA_LEN));
}

/** The published entry at `*pos_p`, which is moved over slots that hold none; NULL: none. */
static GLEX_ALWAYS_INLINE void *glex_queue_find(struct glex_endpoint *ep, int which,
                                                uint64_t *pos_p, uint32_t *len_p)
{
    uint64_t ctrl;
    void *slot;

    for (;;) {
        slot = glex_ring_rx_slot(glex_queue(ep, which), *pos_p, &ctrl);
        if (slot == NULL) {
            return NULL;
        }
        *len_p = GLEX_CTRL_LEN(ctrl);
        if (glex_likely(glex_queue_holds(which, *len_p))) {
            return slot;
        }
        ++*pos_p;
    }
}

/**
 * Copies the data of an event to its place. Handle and range are checked against the private table,
 * so only memory that is registered for event data is written, whatever the slot contains. Data for
 * a deregistered place is dropped.
 */
static GLEX_ALWAYS_INLINE void glex_event_place(struct glex_endpoint *ep,
                                                const struct glex_event_slot *slot, uint32_t len)
{
    uint64_t place = slot->place;
    char *dst = glex_mem_range(&ep->mem, place & GLEX_PLACE_MASK, GLEX_PLACE_MASK, place >> 32, len,
                               GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA);

    if (glex_likely(dst != NULL)) {
        glex_copy_small(dst, slot->data, len);
    }
}

/** The entry at `pos` becomes the last probed one; the data that came with an event is placed. */
static GLEX_ALWAYS_INLINE void glex_queue_take(struct glex_endpoint *ep, int which,
                                               const void *slot, uint64_t pos, uint32_t len)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);

    rx->cursor = pos + 1;
    /* Once only: the program may have changed the memory since. */
    if (glex_likely(pos >= rx->seen)) {
        rx->seen = pos + 1;
        if (which == GLEX_RING_EQ && len != 0) {
            glex_event_place(ep, slot, len);
        }
        if (glex_unlikely(rx->armed)) {
            glex_ring_disarm(rx);
        }
    }
}

/** Out of line, from a discard in turn: does the work beside the queues. */
void glex_queue_turn(struct glex_endpoint *ep, int which);

/** Likewise for both queues, of which glex_ext_poll() is about to discard entries. */
void glex_endpoint_turn(struct glex_endpoint *ep);

/** Discards the probed entries. */
static GLEX_ALWAYS_INLINE void glex_queue_discard(struct glex_endpoint *ep, int which)
{
    if (which == GLEX_RING_EQ) {
        glex_ring_discard(&ep->eq, &ep->counters->event_rx, &ep->counters->eq_high);
    } else {
        glex_ring_discard(&ep->mpq, &ep->counters->mp_rx, &ep->counters->mpq_high);
    }
}

/** Discards the probed entries. A queue that is never empty keeps nothing else waiting. */
static GLEX_ALWAYS_INLINE void glex_queue_discard_in_turn(struct glex_endpoint *ep, int which)
{
    const struct glex_ring_rx *rx = glex_queue(ep, which);

    if (glex_unlikely(rx->cursor > rx->turn)) {
        glex_queue_turn(ep, which);
    }
    glex_queue_discard(ep, which);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* progress.c */

/** Returns how many polls may find nothing before glex_endpoint_idle(). */
uint32_t glex_endpoint_patience(const struct glex_endpoint *ep);

/** glex_ext_poll() does the work that it leaves out after that many empty polls. */
void glex_poll_divide(struct glex_endpoint *ep, uint32_t polls);

/** Does the work that the hot paths leave out: the network, collectives, delayed messages of
 *  GLEX_FAULT. */
void glex_endpoint_progress(struct glex_endpoint *ep);

/** Checks a slot that is claimed and not published. @return Whether a slot was skipped. */
bool glex_endpoint_stalled(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos);

/**
 * Out of line, at an empty probe whose patience is over: both of the above.
 * @return Whether to look again: a slot was passed over.
 */
bool glex_endpoint_idle(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos);

/** Waits until the peers on other hosts have all posted requests. The wait ends early if the peers
 * are gone, and lasts at most `ms`. */
void glex_endpoint_flush(struct glex_endpoint *ep, uint32_t ms);

/* sleep.c */

/** When a timeout ends: CLOCK_MONOTONIC, ns; 0: at once; UINT64_MAX: never. */
uint64_t glex_wait_deadline(int32_t timeout);

/**
 * Waits for an entry at position `pos` of a queue. If several threads use the endpoint, the wait
 * releases the lock; after SUCCESS the caller must read everything again.
 */
glex_ret_t glex_wait_for(struct glex_endpoint *ep, int which, uint64_t pos, uint64_t deadline);

#endif
