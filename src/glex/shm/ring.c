#include "shm/ring.h"
#include "shm/segment.h"

/*
 * The search for a stalled slot's producer uses the file system, which takes microseconds. After
 * every claim the tail is ahead of an unpublished slot for a moment. So the search begins only
 * after RING_STALL_NS, and runs at most once in RING_CHECK_NS.
 */
#define RING_STALL_NS    50000ull
#define RING_CHECK_NS    1000000ull
#define RING_CHECK_SHARE 16

#ifdef OPENGLEX_DEBUG
__thread const uint64_t *glex_ring_unpublished;
#endif

void glex_ring_tx_init(struct glex_ring_tx *tx, struct glex_ring_ctl *ctl, uint32_t capacity,
                       uint64_t id, struct glex_intent *intent)
{
    tx->ctl = ctl;
    tx->mask = capacity - 1;
    tx->limit = 0; /* the first claim reads the head */
    tx->id = id;
    tx->intent = intent;
}

void glex_ring_rx_init(struct glex_ring_rx *rx, struct glex_ring_ctl *ctl, uint32_t capacity,
                       uint64_t id)
{
    memset(rx, 0, sizeof(*rx));
    rx->ctl = ctl;
    rx->slots = (char *)(ctl + 1);
    rx->mask = capacity - 1;
    rx->polls_left = GLEX_RING_PATIENCE;
    rx->id = id;
    rx->stall_pos = GLEX_INTENT_NONE; /* no position */
}

void GLEX_NOINLINE glex_ring_note_level(const struct glex_ring_rx *rx, uint64_t *high)
{
    uint64_t level = (__atomic_load_n(&rx->ctl->tail, __ATOMIC_RELAXED) & GLEX_TAIL_POS) - rx->head;

    if (level > *high && level <= rx->mask + 1) {
        __atomic_store_n(high, level, __ATOMIC_RELAXED);
    }
}

/* Sets the limit for a head of the ring. Returns why the limit is not higher. */
static enum glex_ring_ret ring_set_limit(struct glex_ring_tx *tx, uint64_t head)
{
    uint64_t room = head + tx->mask + 1, ready = glex_ring_ready(tx);
    /* The consumer reads the slot behind the last entry, so this slot needs storage, too. */
    uint64_t storage = ready <= tx->mask ? ready - 1 : GLEX_TAIL_POS;

    /* A limit beyond the bits of a position would hide the consumer's states. */
    tx->limit = room < storage ? room : storage;
    return room < storage || storage == GLEX_TAIL_POS ? GLEX_RING_FULL : GLEX_RING_NO_STORAGE;
}

/* Reads the head again, and returns whether there is room for a position. */
static enum glex_ring_ret ring_look(struct glex_ring_tx *tx, uint64_t pos)
{
    /* acquire: the consumer has read the slots before this head, they may be overwritten */
    uint64_t head = __atomic_load_n(&tx->ctl->head, __ATOMIC_ACQUIRE);
    enum glex_ring_ret full = ring_set_limit(tx, head);

    return pos < tx->limit ? GLEX_RING_OK : full;
}

void glex_ring_grant(struct glex_ring_tx *tx, const struct glex_ring_rx *rx)
{
    (void)ring_set_limit(tx, rx->cursor);
}

/* The consumer's states come before room: a closed ring is closed though it is full, too. */
static enum glex_ring_ret ring_look_tail(struct glex_ring_tx *tx, uint64_t tail)
{
    if (tail & GLEX_TAIL_CLOSED) {
        return GLEX_RING_CLOSED;
    }
    if (tail & GLEX_TAIL_NO_RECEIVER) {
        return GLEX_RING_NO_RECEIVER;
    }
    /* If the tail is old by now, the claim fails and is tried with the new one. */
    return ring_look(tx, tail & GLEX_TAIL_POS);
}

enum glex_ring_ret glex_ring_look(struct glex_ring_tx *tx)
{
    return ring_look_tail(tx, __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED));
}

enum glex_ring_ret GLEX_NOINLINE glex_ring_claim_slow(struct glex_ring_tx *tx, uint64_t tail)
{
    enum glex_ring_ret ret = ring_look_tail(tx, tail);

    if (ret != GLEX_RING_OK) {
        glex_ring_intend_nothing(tx);
    }
    return ret;
}

enum glex_ring_ret glex_ring_claim_own(struct glex_ring_tx *tx, uint64_t *tail_p)
{
    struct glex_ring_ctl *ctl = tx->ctl;
    enum glex_ring_ret ret = GLEX_RING_OK;
    uint64_t pos;

    /* Only the owner itself may claim without an intent. */
    glex_assert((tx->id ^ GLEX_RING_EQ) ==
                glex_container_of(tx->intent, struct glex_segment_header, intent)->incarnation);
    *tail_p = __atomic_load_n(&ctl->tail, __ATOMIC_RELAXED); /* as glex_ring_claim() */
    do {
        pos = *tail_p & GLEX_TAIL_POS;
        if (pos >= tx->limit) {
            ret = ring_look(tx, pos);
        }
        if (ret != GLEX_RING_OK) {
            return ret;
        }
    } while (!__atomic_compare_exchange_n(&ctl->tail, tail_p, *tail_p + 1, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    return GLEX_RING_OK;
}

bool glex_ring_unclaim_own(struct glex_ring_tx *tx, uint64_t pos)
{
    uint64_t tail = __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED);

    /* The states of the consumer stay. acq_rel: as a claim, whose place in the order it takes. */
    while ((tail & GLEX_TAIL_POS) == pos + 1) {
        if (__atomic_compare_exchange_n(&tx->ctl->tail, &tail, tail - 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return false;
}

enum glex_ring_ret glex_ring_claim_always(struct glex_ring_tx *tx, uint64_t *tail_p)
{
    enum glex_ring_ret ret;

    *tail_p = __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED); /* as glex_ring_claim() */
    do {
        ret = ring_look(tx, *tail_p & GLEX_TAIL_POS);
        if (ret != GLEX_RING_OK) {
            glex_ring_intend_nothing(tx);
            return ret;
        }
    } while (!glex_ring_claim_at(tx, *tail_p & GLEX_TAIL_POS, tail_p));
    return GLEX_RING_OK;
}

/* release: a reader of the state sees the owner's earlier stores */
void glex_ring_set_receiver(struct glex_ring_rx *rx, bool present)
{
    if (present) {
        __atomic_fetch_and(&rx->ctl->tail, ~GLEX_TAIL_NO_RECEIVER, __ATOMIC_RELEASE);
    } else {
        __atomic_fetch_or(&rx->ctl->tail, GLEX_TAIL_NO_RECEIVER, __ATOMIC_RELEASE);
    }
}

bool glex_ring_arm(struct glex_ring_rx *rx, uint64_t pos)
{
    /*
     * A read-modify-write, like every claim, so all are in one order. acq_rel: earlier and later
     * accesses stay in place.
     */
    uint64_t tail = __atomic_fetch_or(&rx->ctl->tail, GLEX_TAIL_ARMED, __ATOMIC_ACQ_REL);

    rx->armed = true;
    if ((tail & GLEX_TAIL_POS) != pos) {
        glex_ring_disarm(rx);
        return false;
    }
    return true;
}

void GLEX_NOINLINE glex_ring_disarm(struct glex_ring_rx *rx)
{
    __atomic_fetch_and(&rx->ctl->tail, ~GLEX_TAIL_ARMED, __ATOMIC_RELAXED);
    rx->armed = false;
}

/*
 * Why skipping is right. The tail, read with acquire, is beyond the position, so the position was
 * claimed, and the claimer's intent, stored before the claim, is visible. The two words of the
 * intent name this ring and position until the claimer publishes. The claimer's next store to
 * either word is a release after the publication. Assume that no living endpoint's intent names the
 * position. Then either the claimer has published, and the second read of the slot sees the
 * publication because the intents were read with acquire; or the claimer is dead and will never
 * publish.
 */
bool GLEX_NOINLINE glex_ring_stalled(struct glex_ring_rx *rx, uint64_t pos, int dirfd,
                                     struct glex_segment *seg)
{
    uint64_t tail, now, ctrl, *slot;
    bool intended;

    if (rx->stall_pos != pos) {
        rx->stall_pos = pos; /* the consumer has advanced, so the tail is not read: its cache line
                              * stays with the producers */
        rx->stall_check = 0;
        return false;
    }
    tail = __atomic_load_n(&rx->ctl->tail, __ATOMIC_ACQUIRE) & GLEX_TAIL_POS;
    if (tail - pos - 1 > rx->mask) {
        return false; /* no producer has claimed the slot (or the tail is invalid) */
    }
    now = glex_now_ns();
    if (rx->stall_check == 0) {
        rx->stall_check = now + RING_STALL_NS;
    }
    if (now < rx->stall_check) {
        return false;
    }
    intended = glex_segment_is_intended(dirfd, seg, rx->id, pos);
    /* With very many endpoints looking takes long: no more than a small part of the time. */
    rx->stall_check = now + RING_CHECK_NS + RING_CHECK_SHARE * (glex_now_ns() - now);
    if (intended || glex_ring_rx_slot(rx, pos, &ctrl) != NULL) {
        return false;
    }

    slot = (uint64_t *)(rx->slots + ((pos & rx->mask) << GLEX_SLOT_SHIFT));
    /* relaxed: read by the owner's threads only, which take nothing else on the strength of it */
    __atomic_store_n(slot, GLEX_CTRL(pos, GLEX_CTRL_LEN_SKIP), __ATOMIC_RELAXED);
    seg->hdr->counters.abandoned++;
    return true;
}
