/*
 * Probing the message queue (MPQ) and the event queue (EQ).
 */
#include "api/threads.h"
#include "core/help.h"

/* No entry at `pos`: waits, or at least checks a stalled queue. */
static struct glex_entry GLEX_NOINLINE probe_wait(struct glex_endpoint *ep, int which, uint64_t pos,
                                                  int32_t timeout)
{
    uint64_t deadline = glex_wait_deadline(timeout);
    struct glex_entry entry = {.ret = GLEX_INVALID_PARAM};

    if (timeout < -1) {
        return entry;
    }
    do {
        entry.ret = glex_wait_for(ep, which, pos, deadline);
        entry.slot = glex_queue_find(ep, which, &pos, &entry.len);
        if (entry.slot != NULL) {
            glex_queue_take(ep, which, entry.slot, pos, entry.len);
            entry.ret = GLEX_SUCCESS;
            return entry;
        }
    } while (entry.ret == GLEX_SUCCESS); /* the slots that came hold no entry */
    return entry;
}

/* The hot path of a probing program: inlined for each queue, without a call. */
static GLEX_ALWAYS_INLINE struct glex_entry probe(struct glex_endpoint *ep, int which, bool first,
                                                  int32_t timeout)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);
    struct glex_entry entry;
    uint64_t pos;

    if (glex_unlikely(ep->threads.on)) {
        return glex_threads_probe(ep, which, first, timeout);
    }
    pos = first ? rx->head : rx->cursor;
    entry.slot = glex_queue_find(ep, which, &pos, &entry.len);
    if (entry.slot != NULL) {
        glex_queue_take(ep, which, entry.slot, pos, entry.len);
        entry.ret = GLEX_SUCCESS;
        return entry;
    }
    if (glex_unlikely(timeout != 0 || --rx->polls_left == 0)) {
        return probe_wait(ep, which, pos, timeout);
    }
    if (glex_help_is_asked(ep)) {
        glex_help_poll(ep);
    }
    entry.ret = glex_queue_none(which);
    return entry;
}

static GLEX_ALWAYS_INLINE glex_ret_t discard(struct glex_endpoint *ep, int which)
{
    if (glex_unlikely(ep->threads.on)) {
        return glex_threads_discard(ep, which);
    }
    glex_queue_discard_in_turn(ep, which);
    return GLEX_SUCCESS;
}

/* ---- events ---------------------------------------------------------------------------------- */

static GLEX_ALWAYS_INLINE glex_ret_t probe_event(struct glex_endpoint *ep, bool first,
                                                 int32_t timeout, glex_event_t **event)
{
    struct glex_entry entry = probe(ep, GLEX_RING_EQ, first, timeout);

    if (entry.slot != NULL) {
        *event = &((struct glex_event_slot *)entry.slot)->event;
    }
    return entry.ret;
}

glex_ret_t glex_probe_first_event(glex_ep_handle_t ep, int32_t timeout, glex_event_t **event)
{
    return probe_event(glex_endpoint(ep), true, timeout, event);
}

glex_ret_t glex_probe_next_event(glex_ep_handle_t ep, glex_event_t **event)
{
    return probe_event(glex_endpoint(ep), false, 0, event);
}

glex_ret_t glex_discard_probed_event(glex_ep_handle_t ep)
{
    return discard(glex_endpoint(ep), GLEX_RING_EQ);
}

/* ---- messages -------------------------------------------------------------------------------- */

static GLEX_ALWAYS_INLINE glex_ret_t probe_mp(struct glex_endpoint *ep, bool first, int32_t timeout,
                                              glex_ep_addr_t *src_addr, void **data, uint32_t *len)
{
    struct glex_entry entry = probe(ep, GLEX_RING_MPQ, first, timeout);
    struct glex_mp_slot *slot = entry.slot;

    if (slot != NULL) {
        src_addr->v = slot->src;
        *data = slot->data;
        *len = entry.len;
    }
    return entry.ret;
}

glex_ret_t glex_probe_first_mp(glex_ep_handle_t ep, int32_t timeout, glex_ep_addr_t *src_addr,
                               void **data, uint32_t *len)
{
    return probe_mp(glex_endpoint(ep), true, timeout, src_addr, data, len);
}

glex_ret_t glex_probe_next_mp(glex_ep_handle_t ep, glex_ep_addr_t *src_addr, void **data,
                              uint32_t *len)
{
    return probe_mp(glex_endpoint(ep), false, 0, src_addr, data, len);
}

glex_ret_t glex_discard_probed_mp(glex_ep_handle_t ep)
{
    return discard(glex_endpoint(ep), GLEX_RING_MPQ);
}

glex_ret_t glex_receive_mp(glex_ep_handle_t handle, int32_t timeout, glex_ep_addr_t *src_addr,
                           void *data, uint32_t *len)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    const struct glex_mp_slot *slot;
    struct glex_entry entry;
    uint64_t cursor;

    if (ep->threads.on) {
        return glex_threads_receive(ep, timeout, src_addr, data, len);
    }
    cursor = ep->mpq.cursor;
    entry = probe(ep, GLEX_RING_MPQ, true, timeout);
    slot = entry.slot;
    if (slot == NULL) {
        return entry.ret;
    }
    src_addr->v = slot->src;
    *len = entry.len;
    glex_copy_small(data, slot->data, entry.len);
    glex_queue_discard_in_turn(ep, GLEX_RING_MPQ);
    /* Later messages that were probed stay probed. */
    if (cursor > ep->mpq.cursor) {
        ep->mpq.cursor = cursor;
    }
    return GLEX_SUCCESS;
}
