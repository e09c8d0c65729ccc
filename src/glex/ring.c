#include "ring.h"
#include "producer.h"
#include "segment.h"

/*
 * A stalled slot's producers are looked up on the file system, which takes microseconds: only when
 * it has been seen unpublished for so long, because a tail that is ahead of the slot is what every
 * post looks like for a moment; and not more often than the other.
 */
#define RING_STALL_NS 50000ull
#define RING_CHECK_NS 1000000ull

void glex_ring_tx_init(struct glex_ring_tx *tx, struct glex_ring_ctl *ctl, uint32_t capacity,
                       uint64_t *intent)
{
    tx->ctl = ctl;
    tx->slots = (char *)(ctl + 1);
    tx->mask = capacity - 1;
    tx->limit = 0; /* the first claim looks */
    tx->intent = intent;
}

void glex_ring_rx_init(struct glex_ring_rx *rx, struct glex_ring_ctl *ctl, uint32_t capacity,
                       int which)
{
    memset(rx, 0, sizeof(*rx));
    rx->ctl = ctl;
    rx->slots = (char *)(ctl + 1);
    rx->mask = capacity - 1;
    rx->idle = GLEX_RING_PATIENCE;
    rx->which = which;
    rx->stall_pos = GLEX_INTENT_NONE; /* no position */
}

struct glex_ring_ctl glex_ring_forked_ctl;

void glex_ring_rx_fork(struct glex_ring_rx *rx)
{
    static uint64_t slot[(1 << GLEX_SLOT_SHIFT) / sizeof(uint64_t)]; /* never published */

    memset(rx, 0, sizeof(*rx));
    rx->ctl = &glex_ring_forked_ctl;
    rx->slots = (char *)slot;
    rx->idle = 1; /* the slow path at every probe: it refuses */
}

void GLEX_NOINLINE glex_ring_note_level(const struct glex_ring_rx *rx, uint64_t *high)
{
    uint64_t level = (__atomic_load_n(&rx->ctl->tail, __ATOMIC_RELAXED) & GLEX_TAIL_POS) - rx->head;

    if (level > *high && level <= rx->mask + 1) {
        __atomic_store_n(high, level, __ATOMIC_RELAXED);
    }
}

/* Look again up to where there is room, and whether it reaches a position. */
static enum glex_ring_ret ring_look(struct glex_ring_tx *tx, uint64_t pos)
{
    /* acquire: the consumer has read the slots before this head, they may be overwritten */
    uint64_t room = __atomic_load_n(&tx->ctl->head, __ATOMIC_ACQUIRE) + tx->mask + 1;
    uint64_t ready = glex_ring_ready(tx);
    /* The last one that has storage is what the consumer looks at, when the others are taken. */
    uint64_t storage = ready <= tx->mask ? ready - 1 : GLEX_TAIL_POS;

    /* A limit beyond the bits of a position would hide the consumer's states. */
    tx->limit = room < storage ? room : storage;
    if (pos < tx->limit) {
        return GLEX_RING_OK;
    }
    return room < storage || storage == GLEX_TAIL_POS ? GLEX_RING_FULL : GLEX_RING_NO_STORAGE;
}

/*
 * Giving up takes the intent back: it may name a position that somebody else has claimed since,
 * and would keep the consumer waiting for it.
 */
enum glex_ring_ret GLEX_NOINLINE glex_ring_claim_slow(struct glex_ring_tx *tx, uint64_t tail)
{
    enum glex_ring_ret ret;

    if (tail & GLEX_TAIL_CLOSED) {
        ret = GLEX_RING_CLOSED;
    } else if (tail & GLEX_TAIL_NO_RECEIVER) {
        ret = GLEX_RING_NO_RECEIVER;
    } else {
        /* Where the tail is old by now the claim will fail, and be tried with the new one. */
        ret = ring_look(tx, tail & GLEX_TAIL_POS);
    }
    if (ret != GLEX_RING_OK) {
        __atomic_store_n(tx->intent, GLEX_INTENT_NONE, __ATOMIC_RELEASE);
    }
    return ret;
}

enum glex_ring_ret glex_ring_claim_own(struct glex_ring_tx *tx, uint64_t *tail_p)
{
    enum glex_ring_ret ret;

    *tail_p = __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED); /* as glex_ring_claim() */
    do {
        ret = ring_look(tx, *tail_p & GLEX_TAIL_POS);
        if (ret != GLEX_RING_OK) {
            __atomic_store_n(tx->intent, GLEX_INTENT_NONE, __ATOMIC_RELEASE);
            return ret;
        }
    } while (!glex_ring_claim_at(tx, *tail_p & GLEX_TAIL_POS, tail_p));
    return GLEX_RING_OK;
}

/* release: who sees the state sees what the owner did before */
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
     * A read-modify-write, as every claim is: all of them are in one order. acq_rel: not moved
     * around by what is before and after it.
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

/* Whether a living producer says that it is about to publish the position. */
static bool ring_is_intended(const struct glex_ring_rx *rx, uint64_t pos, int dirfd,
                             const struct glex_segment *seg)
{
    struct glex_producer *producer = glex_producers(seg->hdr, seg->mpq_capacity, seg->eq_capacity);
    uint32_t i, ready = glex_producers_ready(seg->hdr);
    uint64_t owner, addr;

    for (i = 0; i < ready; i++, producer++) {
        /* acquire: an intent that moved on brings what was published before it */
        if (__atomic_load_n(&producer->intent[rx->which], __ATOMIC_ACQUIRE) != pos) {
            continue;
        }
        owner = __atomic_load_n(&producer->owner, __ATOMIC_ACQUIRE);
        addr = __atomic_load_n(&producer->addr, __ATOMIC_RELAXED);
        if (owner == 0) {
            continue; /* never used, or given back */
        }
        if (owner == seg->incarnation || glex_segment_is_living(dirfd, addr, owner) ||
            glex_segment_is_living_anywhere(dirfd, owner)) {
            return true;
        }
    }
    return false;
}

/*
 * Why it is right to pass over. The position was claimed (the tail, read with acquire, is beyond
 * it), so its claimer's intent store, which comes before the claim, is visible. From then on the
 * claimer's intent word holds the position until it publishes; its next store to that word is a
 * release after the publication. Hence, if no living producer's word holds the position, either
 * the claimer published, and the acquire loads of the intents make the second look at the slot see
 * it, or the claimer is dead and never will.
 */
bool GLEX_NOINLINE glex_ring_stalled(struct glex_ring_rx *rx, uint64_t pos, int dirfd,
                                     struct glex_segment *seg)
{
    uint64_t tail, now, ctrl, *slot;

    if (rx->stall_pos != pos) {
        rx->stall_pos = pos; /* it goes on: the producers can keep the tail's line */
        rx->stall_check = 0;
        return false;
    }
    tail = __atomic_load_n(&rx->ctl->tail, __ATOMIC_ACQUIRE) & GLEX_TAIL_POS;
    if (tail - pos - 1 > rx->mask) {
        return false; /* nobody claimed it (or the tail is nonsense) */
    }
    now = glex_now_ns();
    if (rx->stall_check == 0) {
        rx->stall_check = now + RING_STALL_NS;
    }
    if (now < rx->stall_check) {
        return false;
    }
    rx->stall_check = now + RING_CHECK_NS;
    if (ring_is_intended(rx, pos, dirfd, seg) || glex_ring_rx_slot(rx, pos, &ctrl) != NULL) {
        return false;
    }

    slot = (uint64_t *)(rx->slots + ((pos & rx->mask) << GLEX_SLOT_SHIFT));
    /* relaxed: read by the owner's threads only, which take nothing else on the strength of it */
    __atomic_store_n(slot, GLEX_CTRL(pos, GLEX_CTRL_LEN_SKIP), __ATOMIC_RELAXED);
    seg->hdr->counters.abandoned++;
    return true;
}
