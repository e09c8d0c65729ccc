/*
 * Short messages and events (glex_ext.h), and one poll point for both queues. A transport calls
 * these functions for each short message.
 */
#include "api/api.h"
#include "core/help.h"
#include "core/shm.h"

/* After a peer has asked for help, this number of empty polls check for the next request for
 * help. */
#define POLL_LOOKS 16384u

/* Most taken entries that the endpoint keeps before it returns them to the producers. */
#define POLL_HELD_MAX 16

/* ---- posting --------------------------------------------------------------------------------- */

/* The slow path uses the link's function for all cases that the fast path does not handle. */
static glex_ret_t GLEX_NOINLINE event_post_slow(glex_ep_handle_t handle, glex_ep_addr_t peer_addr,
                                                uint64_t cookie_0, uint64_t cookie_1)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    const glex_imm_rdma_req_t req = {
        .rmt_ep_addr = peer_addr,
        .rmt_evt = {.cookie_0 = cookie_0, .cookie_1 = cookie_1},
        .flag = GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS,
    };

    if (ep->forked || cookie_1 == 0) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    return glex_event_post(ep, &req);
}

glex_ret_t glex_ext_post_event(glex_ep_handle_t handle, glex_ep_addr_t peer_addr, uint64_t cookie_0,
                               uint64_t cookie_1)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer = glex_endpoint_hinted_peer(ep, peer_addr);
    struct glex_event_slot *slot;
    uint64_t tail;

    if (glex_unlikely(peer == NULL || peer->link != &glex_shm_link || cookie_1 == 0 ||
                      (slot = glex_ring_try_claim(&peer->eq, &tail)) == NULL)) {
        return event_post_slow(handle, peer_addr, cookie_0, cookie_1);
    }
    slot->event.cookie_0 = cookie_0;
    slot->event.cookie_1 = cookie_1;
    glex_ring_publish(&slot->ctrl, tail, 0);
    GLEX_COUNT(ep, event_tx, 1);
    return GLEX_SUCCESS;
}

static GLEX_ALWAYS_INLINE void short_fill(uint8_t *dst, uint64_t head, const void *data,
                                          uint32_t len)
{
    __builtin_memcpy(dst, &head, sizeof(head));
    if (len != 0) {
        glex_copy_small(dst + sizeof(head), data, len);
    }
}

static glex_ret_t GLEX_NOINLINE mp_post_slow(glex_ep_handle_t handle, glex_ep_addr_t peer,
                                             uint64_t word_0, uint64_t word_1, uint64_t head,
                                             const void *payload, uint32_t len)
{
    const uint64_t words[2] = {word_0, word_1};
    uint8_t data[GLEX_MP_DATA_LEN];
    glex_imm_mp_req_t req = {
        .rmt_ep_addr = peer,
        .data = data,
        .flag = GLEX_EXT_FLAG_NO_LOSS,
    };

    if (len > sizeof(data) - sizeof(words) - sizeof(head) || (payload == NULL && len != 0)) {
        return GLEX_INVALID_PARAM;
    }
    memcpy(data, words, sizeof(words));
    short_fill(data + sizeof(words), head, payload, len);
    req.len = sizeof(words) + sizeof(head) + len;
    return glex_send_imm_mp(handle, &req, NULL);
}

glex_ret_t glex_ext_post_mp(glex_ep_handle_t handle, glex_ep_addr_t peer_addr, uint64_t word_0,
                            uint64_t word_1, uint64_t head, const void *data, uint32_t len)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer = glex_endpoint_hinted_peer(ep, peer_addr);
    const uint32_t words_len = sizeof(word_0) + sizeof(word_1);
    struct glex_mp_slot *slot;
    uint64_t tail;

    if (glex_unlikely(peer == NULL || peer->link != &glex_shm_link ||
                      len > GLEX_MP_DATA_LEN - words_len - sizeof(head) ||
                      (data == NULL && len != 0) ||
                      (slot = glex_ring_try_claim(&peer->mpq, &tail)) == NULL)) {
        return mp_post_slow(handle, peer_addr, word_0, word_1, head, data, len);
    }
    slot->src = ep->addr;
    __builtin_memcpy(slot->data, &word_0, sizeof(word_0));
    __builtin_memcpy(slot->data + sizeof(word_0), &word_1, sizeof(word_1));
    short_fill(slot->data + words_len, head, data, len);
    glex_ring_publish(&slot->ctrl, tail, words_len + sizeof(head) + len);
    glex_count_mp(ep, words_len + sizeof(head) + len);
    return GLEX_SUCCESS;
}

/* ---- polling --------------------------------------------------------------------------------- */

/* Many polls found nothing: check stalled queues and delayed posts. With the lock, because other
 * threads may be posting. */
static GLEX_NOINLINE glex_ret_t poll_idle(struct glex_endpoint *ep)
{
    if (ep->forked) {
        ep->poll.polls_left = 1; /* refuse the next as well */
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    glex_endpoint_turn(ep); /* once for both queues: a turn of the network is a system call */
    glex_poll_divide(ep, glex_endpoint_patience(ep));
    (void)glex_endpoint_stalled(ep, &ep->eq, ep->eq.cursor);
    (void)glex_endpoint_stalled(ep, &ep->mpq, ep->mpq.cursor);
    return GLEX_NO_EVENT;
}

/* `polls_left` is used up, and `more` polls have to be counted. */
static glex_ret_t poll_count(struct glex_endpoint *ep, uint32_t more)
{
    if (ep->poll.polls_rest <= more) {
        return poll_idle(ep);
    }
    glex_poll_divide(ep, ep->poll.polls_rest - more);
    return GLEX_NO_EVENT;
}

/* Some polls were empty, so a peer may ask for help. While a peer asks, and during the next
 * POLL_LOOKS empty polls, each poll checks. */
static GLEX_NOINLINE glex_ret_t poll_aside(struct glex_endpoint *ep)
{
    glex_ret_t ret = poll_count(ep, 0);

    if (ret == GLEX_NO_EVENT && glex_help_is_asked(ep)) {
        ep->poll.looks = POLL_LOOKS;
        glex_poll_divide(ep, ep->poll.polls_left + ep->poll.polls_rest);
        glex_help_poll_unlocked(ep);
    } else if (ep->poll.looks != 0) {
        ep->poll.looks--;
    }
    return ret;
}

/* Gives the taken entries back to their producers. Out of line, so the rest of a poll saves no
 * registers. The entries count as empty polls: a queue that is never empty must not delay the
 * recovery of the other queue, or the network. */
static __attribute__((noinline)) glex_ret_t poll_release(struct glex_endpoint *ep)
{
    uint32_t held = ep->poll.held;
    glex_ret_t ret = GLEX_NO_EVENT;

    ep->poll.held = 0;
    if (glex_likely(ep->poll.polls_left > held)) {
        ep->poll.polls_left -= held;
    } else {
        ret = poll_count(ep, held - ep->poll.polls_left);
    }
    glex_queue_discard(ep, GLEX_RING_EQ);
    glex_queue_discard(ep, GLEX_RING_MPQ);
    return ret;
}

static GLEX_NOINLINE void poll_take_slow(struct glex_endpoint *ep, struct glex_ring_rx *rx)
{
    if (ep->poll.held > POLL_HELD_MAX) {
        poll_release(ep);
        ep->poll.held = 1;
    }
    if (rx->armed) {
        glex_ring_disarm(rx);
    }
}

/* Take one more entry. The program does not use the previous one any more. */
static GLEX_ALWAYS_INLINE void poll_take(struct glex_endpoint *ep, struct glex_ring_rx *rx)
{
    if (glex_unlikely(++ep->poll.held > POLL_HELD_MAX || rx->armed)) {
        poll_take_slow(ep, rx);
    }
    rx->cursor++;
}

/* The taken slot has no entry. Skips a run of such slots, then polls again. A loop, because a
 * recursion over a long run would overflow the stack. */
static GLEX_NOINLINE glex_ret_t poll_skip(struct glex_endpoint *ep, int which,
                                          struct glex_ext_arrival *arrival)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);
    uint64_t ctrl;

    while (glex_ring_rx_slot(rx, rx->cursor, &ctrl) != NULL &&
           !glex_queue_holds(which, GLEX_CTRL_LEN(ctrl))) {
        poll_take(ep, rx);
    }
    return glex_ext_poll(&ep->base, arrival);
}

/* The slot holds an event with data, which belongs into memory, or no entry. */
static GLEX_NOINLINE glex_ret_t poll_event_data(struct glex_endpoint *ep,
                                                const struct glex_event_slot *slot, uint32_t len,
                                                struct glex_ext_arrival *arrival)
{
    if (!glex_queue_holds(GLEX_RING_EQ, len)) {
        return poll_skip(ep, GLEX_RING_EQ, arrival);
    }
    /* Once only: the program may have changed the memory since. */
    if (ep->eq.cursor > ep->eq.seen) {
        glex_event_place(ep, slot, len);
    }
    ep->eq.seen = ep->eq.cursor;
    return GLEX_SUCCESS;
}

/* The event queue's next slot is published. Separate functions handle entries, so the empty poll of
 * a waiting program stays short. */
static __attribute__((noinline)) glex_ret_t poll_event(struct glex_endpoint *ep,
                                                       struct glex_event_slot *slot, uint64_t ctrl,
                                                       struct glex_ext_arrival *arrival)
{
    poll_take(ep, &ep->eq);
    ep->poll.mp_last = false;
    arrival->event = &slot->event;
    if (glex_unlikely(GLEX_CTRL_LEN(ctrl) != 0)) {
        return poll_event_data(ep, slot, GLEX_CTRL_LEN(ctrl), arrival);
    }
    return GLEX_SUCCESS;
}

/* The message queue's next slot is published. */
static __attribute__((noinline)) glex_ret_t poll_mp(struct glex_endpoint *ep,
                                                    struct glex_mp_slot *slot, uint64_t ctrl,
                                                    struct glex_ext_arrival *arrival)
{
    poll_take(ep, &ep->mpq);
    ep->poll.mp_last = true;
    arrival->event = NULL;
    arrival->data = slot->data;
    arrival->len = GLEX_CTRL_LEN(ctrl);
    arrival->src.v = slot->src;
    if (glex_likely(arrival->len <= GLEX_MP_DATA_LEN)) {
        return GLEX_SUCCESS;
    }
    return poll_skip(ep, GLEX_RING_MPQ, arrival);
}

/* A queue's next slot, or NULL. */
static GLEX_ALWAYS_INLINE void *poll_look(const struct glex_ring_rx *rx, uint64_t *ctrl)
{
    return glex_ring_rx_slot(rx, rx->cursor, ctrl);
}

/*
 * The queue of the last arrival is polled last. A message is found a tenth earlier if no work
 * follows in the loop, and messages usually take the same queue. Neither queue delays the other
 * queue.
 */
glex_ret_t glex_ext_poll(glex_ep_handle_t handle, struct glex_ext_arrival *arrival)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    void *event, *mp;
    uint64_t ctrl;

    if (glex_likely(!ep->poll.mp_last)) {
        mp = poll_look(&ep->mpq, &ctrl);
        if (glex_unlikely(mp != NULL)) {
            return poll_mp(ep, mp, ctrl, arrival);
        }
        event = poll_look(&ep->eq, &ctrl);
        if (event != NULL) {
            return poll_event(ep, event, ctrl, arrival);
        }
    } else {
        event = poll_look(&ep->eq, &ctrl);
        if (glex_unlikely(event != NULL)) {
            return poll_event(ep, event, ctrl, arrival);
        }
        mp = poll_look(&ep->mpq, &ctrl);
        if (mp != NULL) {
            return poll_mp(ep, mp, ctrl, arrival);
        }
    }
    if (glex_unlikely(ep->poll.held != 0)) {
        return poll_release(ep);
    }
    return glex_likely(--ep->poll.polls_left != 0) ? GLEX_NO_EVENT : poll_aside(ep);
}
