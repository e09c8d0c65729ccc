/*
 * Events: the event queue (EQ).
 */
#include "api/threads.h"
#include "core/shm.h"

/*
 * Put the data that came with an event where it belongs. Handle and range are checked against the
 * private table: whatever stands in the slot, only memory that is registered for it is written.
 * Data for a registration that is gone is dropped.
 */
static GLEX_ALWAYS_INLINE void event_place(struct glex_endpoint *ep,
                                           const struct glex_event_slot *slot, uint32_t len)
{
    uint64_t place = slot->place;
    char *dst = glex_mem_range(&ep->mem, place & GLEX_PLACE_MASK, GLEX_PLACE_MASK, place >> 32, len,
                               GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA);

    if (glex_likely(dst != NULL)) {
        glex_copy_small(dst, slot->data, len);
    }
}

void glex_event_place(struct glex_endpoint *ep, const struct glex_event_slot *slot, uint32_t len)
{
    event_place(ep, slot, len);
}

/*
 * The published slot at a position, which is moved over what is to be skipped: slots of killed
 * producers, and such as no producer of ours would have written.
 */
static inline struct glex_event_slot *event_slot(struct glex_endpoint *ep, uint64_t *pos,
                                                 uint32_t *len)
{
    struct glex_event_slot *slot;
    uint64_t ctrl;

    for (;;) {
        slot = glex_ring_rx_slot(&ep->eq, *pos, &ctrl);
        if (slot == NULL) {
            return NULL;
        }
        *len = GLEX_CTRL_LEN(ctrl);
        if (glex_likely(*len <= GLEX_EVENT_DATA_LEN)) {
            return slot;
        }
        if (*len - GLEX_CTRL_LEN_STAYS <= GLEX_EVENT_DATA_LEN) {
            *len = 0; /* data that only glex_ext_poll() hands out */
            return slot;
        }
        ++*pos;
    }
}

/* The slot at `pos` becomes the last probed one. */
static GLEX_ALWAYS_INLINE void event_take(struct glex_endpoint *ep,
                                          const struct glex_event_slot *slot, uint64_t pos,
                                          uint32_t len)
{
    struct glex_ring_rx *rx = &ep->eq;

    rx->cursor = pos + 1;
    /* Once only: the program may have changed the memory since. */
    if (glex_likely(pos >= rx->seen)) {
        rx->seen = pos + 1;
        if (len != 0) {
            event_place(ep, slot, len);
        }
        if (glex_unlikely(rx->armed)) {
            glex_ring_disarm(rx);
        }
    }
}

struct glex_event_slot *glex_event_find(struct glex_endpoint *ep, uint64_t *pos, uint32_t *len)
{
    return event_slot(ep, pos, len);
}

void glex_event_take(struct glex_endpoint *ep, struct glex_event_slot *slot, uint64_t pos,
                     uint32_t len)
{
    event_take(ep, slot, pos, len);
}

static GLEX_ALWAYS_INLINE glex_ret_t event_deliver(struct glex_endpoint *ep,
                                                   struct glex_event_slot *slot, uint64_t pos,
                                                   uint32_t len, glex_event_t **event)
{
    event_take(ep, slot, pos, len);
    *event = &slot->event;
    return GLEX_SUCCESS;
}

/* Nothing there at `pos`: wait, or at least look after a stalled queue. */
static glex_ret_t GLEX_NOINLINE event_wait(struct glex_endpoint *ep, uint64_t pos, int32_t timeout,
                                           glex_event_t **event)
{
    uint64_t deadline = glex_wait_deadline(timeout);
    struct glex_event_slot *slot;
    glex_ret_t ret;
    uint32_t len;

    if (ep->forked || timeout < -1) {
        ep->eq.idle = 1; /* refuse the next as well */
        return GLEX_INVALID_PARAM;
    }
    do {
        ret = glex_wait_for(ep, &ep->eq, pos, deadline, GLEX_NO_EVENT);
        slot = event_slot(ep, &pos, &len);
        if (slot != NULL) {
            return event_deliver(ep, slot, pos, len, event);
        }
    } while (ret == GLEX_SUCCESS); /* what came was to be skipped */
    return ret;
}

/* The hot path of every message, in two copies rather than with calls within a call. */
static GLEX_ALWAYS_INLINE glex_ret_t event_probe(struct glex_endpoint *ep, uint64_t pos,
                                                 int32_t timeout, glex_event_t **event)
{
    struct glex_event_slot *slot;
    uint32_t len;

    slot = event_slot(ep, &pos, &len);
    if (slot != NULL) {
        return event_deliver(ep, slot, pos, len, event);
    }
    if (glex_unlikely(timeout != 0 || --ep->eq.idle == 0)) {
        return event_wait(ep, pos, timeout, event);
    }
    return GLEX_NO_EVENT;
}

static glex_ret_t GLEX_NOINLINE event_probe_threads(struct glex_endpoint *ep, bool first,
                                                    int32_t timeout, glex_event_t **event)
{
    struct glex_entry entry;
    glex_ret_t ret = glex_threads_probe(ep, GLEX_RING_EQ, first, timeout, &entry);

    if (ret == GLEX_SUCCESS) {
        *event = &((struct glex_event_slot *)entry.slot)->event;
    }
    return ret;
}

glex_ret_t glex_probe_first_event(glex_ep_handle_t handle, int32_t timeout, glex_event_t **event)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    return ep->threads.on ? event_probe_threads(ep, true, timeout, event)
                          : event_probe(ep, ep->eq.head, timeout, event);
}

glex_ret_t glex_probe_next_event(glex_ep_handle_t handle, glex_event_t **event)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    return ep->threads.on ? event_probe_threads(ep, false, 0, event)
                          : event_probe(ep, ep->eq.cursor, 0, event);
}

glex_ret_t glex_discard_probed_event(glex_ep_handle_t handle)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (ep->threads.on) {
        return glex_threads_discard(ep, GLEX_RING_EQ);
    }
    return glex_ring_discard(&ep->eq, &ep->counters->event_rx, &ep->counters->eq_high);
}
