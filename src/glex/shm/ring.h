/*
 * The ring of an MPQ or EQ: many producers, one consumer, slots of 128 bytes in the consumer's
 * segment. A producer may be killed between any two instructions.
 *
 * Post:  note ring and position as my intent; claim it by compare-and-swap of the tail; fill the
 *        slot; publish it by its control word. Room is checked before the claim: who holds a
 *        position never waits.
 * Take:  look at the control word of the next slot.
 * Storage: a large ring has storage for its first slots only, at first. Who finds that the next
 *        ones have none reserves it (glex_shm_claim()). The last slot that has storage is not
 *        claimed before those behind it have some, too: the consumer looks at the slot at the tail,
 *        and reading a hole of a file may fail as writing does.
 * Stall: a consumer that finds its next slot claimed but unpublished for long asks who intends to
 *        publish it. While a living producer shows that intent the consumer waits, else the slot
 *        is abandoned and passed over: see glex_ring_stalled().
 * Sleep: the consumer sets ARMED in the tail word, which every producer modifies. Either the
 *        producer's claim comes later and sees ARMED, or the consumer's sees the claim: no
 *        wake-up is lost and no fence is needed.
 */
#ifndef GLEX_RING_H
#define GLEX_RING_H

#include "shm/layout.h"

/*
 * Empty polls in a row before the consumer looks whether it is stalled: some microseconds. Looking
 * takes the tail's cache line from the producers, which costs them more than the post itself.
 */
#define GLEX_RING_PATIENCE 4096

/** A producer's view of a ring. */
struct glex_ring_tx {
    struct glex_ring_ctl *ctl; /* its slots follow */
    uint64_t              mask;  /* capacity - 1 */
    uint64_t              limit; /* positions below it have room, as last seen */
    uint64_t              id;    /* glex_ring_id() */
    struct glex_intent   *intent; /* the producer's, in its own segment */
};

/** The consumer's view. */
struct glex_ring_rx {
    char                 *slots;
    uint64_t              mask;
    uint64_t              head;   /* oldest not discarded */
    uint64_t              cursor; /* next to probe */
    uint64_t              seen;   /* next that was never probed */
    uint64_t              turn;   /* a discard up to here looks after the rest of the endpoint */
    uint32_t              polls_left; /* that may find nothing before the next look for a stall */
    bool                  armed;
    struct glex_ring_ctl *ctl;
    uint64_t              id; /* glex_ring_id() */
    uint64_t              stall_pos;   /* where it was at the last look */
    uint64_t              stall_check; /* when to look its producers up, ns; 0: it is empty */
};

struct glex_segment;

enum glex_ring_ret {
    GLEX_RING_OK,
    GLEX_RING_FULL,
    GLEX_RING_NO_STORAGE, /* not full, but the next slots have no storage: glex_shm_claim() */
    GLEX_RING_NO_RECEIVER,
    GLEX_RING_CLOSED
};

/** Set up a view of the ring at `ctl`, whose name is `id`. */
void glex_ring_tx_init(struct glex_ring_tx *tx, struct glex_ring_ctl *ctl, uint32_t capacity,
                       uint64_t id, struct glex_intent *intent);
void glex_ring_rx_init(struct glex_ring_rx *rx, struct glex_ring_ctl *ctl, uint32_t capacity,
                       uint64_t id);

/** Slow part of a claim: `tail` was seen full, or with one of the consumer's states. */
enum glex_ring_ret glex_ring_claim_slow(struct glex_ring_tx *tx, uint64_t tail);

/**
 * Claims the next position of the caller's own EQ, whether there is a receiver or not. The claim
 * needs no intent: the consumer is the calling thread, or waits for the lock that the calling thread
 * holds. So the caller may claim positions of other rings before it publishes this one.
 * @return OK, FULL or NO_STORAGE.
 */
enum glex_ring_ret glex_ring_claim_own(struct glex_ring_tx *tx, uint64_t *tail_p);

/** Claims the next position, with an intent, whether there is a receiver or not. Returns as
 *  glex_ring_claim_own(). */
enum glex_ring_ret glex_ring_claim_always(struct glex_ring_tx *tx, uint64_t *tail_p);

/**
 * Whether a claim would find room now. Claims nothing, and leaves the intent as it is, so a request
 * that is refused after this call has left no trace in the ring.
 */
enum glex_ring_ret glex_ring_look(struct glex_ring_tx *tx);

/**
 * Gives the owner of a ring the room of the entries that it is about to discard, before producers
 * see the room. `tx` is the owner's own view.
 */
void glex_ring_grant(struct glex_ring_tx *tx, const struct glex_ring_rx *rx);

/**
 * Give back a position that glex_ring_claim_own() claimed, if no other producer has claimed the
 * next one meanwhile.
 * @return Whether it was given back. Else the caller publishes it.
 */
bool glex_ring_unclaim_own(struct glex_ring_tx *tx, uint64_t pos);

#ifdef OPENGLEX_DEBUG
/** The control word of the position that this thread has claimed with an intent and not published
 *  yet; or NULL. */
extern __thread const uint64_t *glex_ring_unpublished;
#endif

static inline void *glex_ring_tx_slot(const struct glex_ring_tx *tx, uint64_t tail)
{
    return (char *)(tx->ctl + 1) + ((tail & tx->mask) << GLEX_SLOT_SHIFT);
}

/* An intent names one position only, so a producer publishes a claim before its next claim. */
static inline void glex_ring_check_claim(const struct glex_ring_tx *tx, uint64_t pos)
{
#ifdef OPENGLEX_DEBUG
    glex_assert(glex_ring_unpublished == NULL);
    glex_ring_unpublished = glex_ring_tx_slot(tx, pos);
#else
    (void)tx;
    (void)pos;
#endif
}

static inline void glex_ring_check_publish(const uint64_t *ctrl)
{
#ifdef OPENGLEX_DEBUG
    if (glex_ring_unpublished == ctrl) {
        glex_ring_unpublished = NULL;
    }
#else
    (void)ctrl;
#endif
}

/**
 * Say what is going to be published.
 * release, of both words: whoever sees one of them sees what I published before, so an intent that
 * has moved on proves the earlier slot published. Between the two stores the words name the new
 * ring and the old position, which nobody may be waiting for: a consumer that takes them for an
 * intent waits, and looks again.
 */
static inline void glex_ring_intend(struct glex_ring_tx *tx, uint64_t pos)
{
    struct glex_intent *intent = tx->intent;

    if (glex_unlikely(intent->ring != tx->id)) { /* mine: nobody else writes there */
        __atomic_store_n(&intent->ring, tx->id, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&intent->pos, pos, __ATOMIC_RELEASE);
}

/** Give up what was not claimed: it may be somebody else's by now, and would keep the consumer
 *  waiting for it. release: as above */
static inline void glex_ring_intend_nothing(struct glex_ring_tx *tx)
{
    __atomic_store_n(&tx->intent->pos, GLEX_INTENT_NONE, __ATOMIC_RELEASE);
}

/**
 * Try to claim the position `pos`, that of the tail word `*tail_p`; where somebody else was faster
 * that becomes the tail.
 */
static inline bool glex_ring_claim_at(struct glex_ring_tx *tx, uint64_t pos, uint64_t *tail_p)
{
    struct glex_ring_ctl *ctl = tx->ctl; /* once: for C the stores below might be to `tx` */

    glex_ring_intend(tx, pos);
    /* release: whoever sees the tail beyond this position sees the intent */
    if (glex_unlikely(!__atomic_compare_exchange_n(&ctl->tail, tail_p, *tail_p + 1, false,
                                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))) {
        return false;
    }
    glex_ring_check_claim(tx, pos);
    return true;
}

/**
 * Claim the next position.
 * @param [out] tail_p  Tail word at the claim: the position, and whether the consumer is ARMED.
 */
static inline enum glex_ring_ret glex_ring_claim(struct glex_ring_tx *tx, uint64_t *tail_p)
{
    enum glex_ring_ret ret;

    /* relaxed: a stale value only makes the compare-and-swap fail */
    *tail_p = __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED);
    do {
        /* also true where one of the high bits is set */
        if (glex_unlikely(*tail_p >= tx->limit)) {
            ret = glex_ring_claim_slow(tx, *tail_p);
            if (ret != GLEX_RING_OK) {
                return ret;
            }
        }
    } while (glex_unlikely(!glex_ring_claim_at(tx, *tail_p & GLEX_TAIL_POS, tail_p)));
    return GLEX_RING_OK;
}

/**
 * Claim the next position, and return its slot, if the ring, as last seen, has room and is neither
 * closed nor armed, and nobody else claims it at the same time. Where this fails (NULL) the intent
 * names nothing: it would keep the consumer waiting for a position that is somebody else's.
 *
 * The slot's line is asked for before: no store overtakes the compare-and-swap, and between far
 * cores the line takes longer than that.
 */
static inline void *glex_ring_try_claim(struct glex_ring_tx *tx, uint64_t *tail_p)
{
    void *slot;

    *tail_p = __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED); /* as glex_ring_claim() */
    if (glex_unlikely(*tail_p >= tx->limit)) {
        return NULL; /* the consumer may be reading that slot: its line stays there */
    }
    slot = glex_ring_tx_slot(tx, *tail_p);
    glex_prefetch_write(slot);
    if (glex_unlikely(!glex_ring_claim_at(tx, *tail_p, tail_p))) {
        glex_ring_intend_nothing(tx);
        return NULL;
    }
    return slot;
}

/** Publish a claimed and filled slot; release: the consumer that sees it sees the contents. */
static inline void glex_ring_publish(uint64_t *ctrl, uint64_t tail, uint32_t len)
{
    glex_ring_check_publish(ctrl);
    __atomic_store_n(ctrl, GLEX_CTRL(tail, len), __ATOMIC_RELEASE);
}

/**
 * The slot at a position, or NULL where it is not published yet.
 * acquire: pairs with glex_ring_publish().
 */
static inline void *glex_ring_rx_slot(const struct glex_ring_rx *rx, uint64_t pos,
                                      uint64_t *ctrl_p)
{
    uint64_t *ctrl = (uint64_t *)(rx->slots + ((pos & rx->mask) << GLEX_SLOT_SHIFT));

    *ctrl_p = __atomic_load_n(ctrl, __ATOMIC_ACQUIRE);
    return glex_likely(GLEX_CTRL_SEQ(*ctrl_p) == (uint32_t)(pos + 1)) ? ctrl : NULL;
}

/**
 * How many positions were claimed so far. Reads the producers' tail line.
 * acquire: whoever learns that a producer has ended, and then looks here, sees all that it claimed;
 * the kernel ended it between the two.
 */
static inline uint64_t glex_ring_arrived(const struct glex_ring_rx *rx)
{
    return __atomic_load_n(&rx->ctl->tail, __ATOMIC_ACQUIRE) & GLEX_TAIL_POS;
}

/** Update the high-water mark. Reads the producers' tail line, so not at every discard. */
void glex_ring_note_level(const struct glex_ring_rx *rx, uint64_t *high);

/**
 * Discard what was probed.
 * @param count  Counter of entries received.
 * @param high   Highest fill level, looked at every 256 entries.
 * release: a producer that sees the head moved may overwrite slots that were read before.
 */
static inline void glex_ring_discard(struct glex_ring_rx *rx, uint64_t *count, uint64_t *high)
{
    uint64_t num = rx->cursor - rx->head;

    if (glex_unlikely(num == 0)) {
        return;
    }
    if (glex_unlikely(((rx->head - 1) ^ (rx->cursor - 1)) & ~255ull)) {
        glex_ring_note_level(rx, high);
    }
    rx->head = rx->cursor;
    __atomic_store_n(&rx->ctl->head, rx->head, __ATOMIC_RELEASE);
    __atomic_store_n(count, *count + num, __ATOMIC_RELAXED);
}

/** Passes over entries to skip, up to `pos`, if all entries before them are discarded. */
static inline void glex_ring_pass_over(struct glex_ring_rx *rx, uint64_t pos)
{
    if (rx->cursor == rx->head && pos != rx->head && rx->seen <= rx->head) {
        rx->head = rx->cursor = pos;
        __atomic_store_n(&rx->ctl->head, pos, __ATOMIC_RELEASE); /* as glex_ring_discard() */
    }
}

/** Refuse posts from now on, or (present) take them again. What was claimed before is delivered. */
void glex_ring_set_receiver(struct glex_ring_rx *rx, bool present);

/**
 * Slots that have storage, counted from the first.
 * acquire: pairs with the release of who reserved the last of them.
 */
static inline uint32_t glex_ring_ready(const struct glex_ring_tx *tx)
{
    uint32_t lacking = __atomic_load_n(&tx->ctl->lacking, __ATOMIC_ACQUIRE);
    uint32_t capacity = (uint32_t)tx->mask + 1;
    uint32_t first = capacity < GLEX_QUEUE_STEP ? capacity : GLEX_QUEUE_STEP;

    /* anybody may write there: the first slots have storage whatever it says */
    return lacking <= capacity - first ? capacity - lacking : first;
}

/** Whether the owner of a ring is gone. relaxed: nothing is read on the strength of it */
static inline bool glex_ring_is_closed(const struct glex_ring_tx *tx)
{
    return __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED) & GLEX_TAIL_CLOSED;
}

/** Whether posts are refused: the owner is gone, or takes nothing. relaxed: as above */
static inline bool glex_ring_refuses(const struct glex_ring_tx *tx)
{
    return __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED) &
           (GLEX_TAIL_CLOSED | GLEX_TAIL_NO_RECEIVER);
}

/**
 * Ask to be woken by the post at a position.
 * @return false where something is there already (or will be in a moment): not armed then.
 */
bool glex_ring_arm(struct glex_ring_rx *rx, uint64_t pos);

void glex_ring_disarm(struct glex_ring_rx *rx);

/**
 * Out of line, after many empty polls of a position: pass over a slot whose producer was killed
 * before it published, by publishing it as one to skip. The first calls for a position only note
 * that it stands still, and since when.
 * @return Whether it did so.
 */
bool glex_ring_stalled(struct glex_ring_rx *rx, uint64_t pos, int dirfd,
                       struct glex_segment *seg);

#endif
