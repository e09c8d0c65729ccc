/*
 * The ring of an MPQ or EQ: many producers, one consumer, slots of 128 bytes in the consumer's
 * segment. A producer may be killed between any two instructions.
 *
 * - Post: store ring and position as the intent; claim the position by compare-and-swap of the
 *   tail; fill the slot; publish it by its control word. The check for room comes before the claim,
 *   so a producer with a claimed position never waits.
 * - Take: read the control word of the next slot.
 * - Storage: at first, a large ring has storage for its first slots only. A producer that finds the
 *   next slots without storage reserves it (glex_shm_claim()). The last slot with storage is not
 *   claimed before the following slots have storage: the consumer reads the slot at the tail, and
 *   reading a hole of a file may fail like writing.
 * - Stall: a consumer that finds its next slot claimed and unpublished for long reads the intents
 *   of all producers. While the intent of a living producer names the slot, the consumer waits.
 *   Otherwise the slot is abandoned and skipped: see glex_ring_stalled().
 * - Sleep: the consumer sets ARMED in the tail word, which every producer modifies. A later claim
 *   sees ARMED, and the consumer sees an earlier claim. So no wake-up is lost, and no fence is
 *   needed.
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
    struct glex_ring_ctl *ctl;  /* its slots follow */
    uint64_t mask;              /* capacity - 1 */
    uint64_t limit;             /* positions below it have room, as last seen */
    uint64_t id;                /* glex_ring_id() */
    struct glex_intent *intent; /* the producer's, in its own segment */
};

/** The consumer's view. */
struct glex_ring_rx {
    char *slots;
    uint64_t mask;
    uint64_t head;       /* oldest not discarded */
    uint64_t cursor;     /* next to probe */
    uint64_t seen;       /* next that was never probed */
    uint64_t turn;       /* a discard up to this position also does the endpoint's other
                          * work */
    uint32_t polls_left; /* empty polls before the next check for a stall */
    bool armed;
    struct glex_ring_ctl *ctl;
    uint64_t id;          /* glex_ring_id() */
    uint64_t stall_pos;   /* where it was at the last check */
    uint64_t stall_check; /* when the next check of the producers is due, ns; 0: none */
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
 * Claims the next position of the caller's own EQ, with or without a receiver. The claim needs no
 * intent, because the consumer is the calling thread or waits for the calling thread's lock. So the
 * caller may claim positions of other rings before publishing this position.
 * @return OK, FULL or NO_STORAGE.
 */
enum glex_ring_ret glex_ring_claim_own(struct glex_ring_tx *tx, uint64_t *tail_p);

/** Claims the next position, with an intent, whether there is a receiver or not. Returns as
 *  glex_ring_claim_own(). */
enum glex_ring_ret glex_ring_claim_always(struct glex_ring_tx *tx, uint64_t *tail_p);

/**
 * Whether a claim would find room now. Claims nothing, and does not change the intent, so a request
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

/** An intent names one position only, so a producer publishes a claim before its next claim. */
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
 * Stores the intent to publish a position. The two stores are releases: a process that reads a new
 * word also sees all earlier publications. So an intent with a new position proves that the earlier
 * slot is published. Between the two stores the words name the new ring and the old position.
 * Usually no consumer waits for this position; a consumer that takes the words for an intent waits,
 * and reads again.
 */
static inline void glex_ring_intend(struct glex_ring_tx *tx, uint64_t pos)
{
    struct glex_intent *intent = tx->intent;

    if (glex_unlikely(intent->ring != tx->id)) { /* own intent: this thread is the only writer */
        __atomic_store_n(&intent->ring, tx->id, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&intent->pos, pos, __ATOMIC_RELEASE);
}

/** Gives up an unclaimed position. Another producer may own it by now, and this intent would make
 * the consumer wait. release: as above */
static inline void glex_ring_intend_nothing(struct glex_ring_tx *tx)
{
    __atomic_store_n(&tx->intent->pos, GLEX_INTENT_NONE, __ATOMIC_RELEASE);
}

/**
 * Tries to claim the position `pos` of the tail word `*tail_p`. If another producer was faster,
 * *tail_p gets the new tail.
 */
static inline bool glex_ring_claim_at(struct glex_ring_tx *tx, uint64_t pos, uint64_t *tail_p)
{
    struct glex_ring_ctl *ctl = tx->ctl; /* once: for C the stores below might be to `tx` */

    glex_ring_intend(tx, pos);
    /* release: a reader that sees the tail beyond this position also sees the intent */
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
 * Claims the next position, and returns its slot, if the ring, as last seen, has room, is neither
 * closed nor armed, and no other producer claims at the same time. On failure (NULL) the intent
 * names nothing, because the position belongs to another producer and its consumer must not wait
 * for this one.
 *
 * The slot's cache line is prefetched before the compare-and-swap: no store overtakes the
 * compare-and-swap, and between far cores the line takes longer than the compare-and-swap.
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
static inline void *glex_ring_rx_slot(const struct glex_ring_rx *rx, uint64_t pos, uint64_t *ctrl_p)
{
    uint64_t *ctrl = (uint64_t *)(rx->slots + ((pos & rx->mask) << GLEX_SLOT_SHIFT));

    *ctrl_p = __atomic_load_n(ctrl, __ATOMIC_ACQUIRE);
    return glex_likely(GLEX_CTRL_SEQ(*ctrl_p) == (uint32_t)(pos + 1)) ? ctrl : NULL;
}

/**
 * Returns how many positions were claimed so far. Reads the producers' tail line. Acquire: a
 * process that learns of the end of a producer, and then reads the tail, sees all claims of the
 * producer, because the kernel ended the producer in between.
 */
static inline uint64_t glex_ring_arrived(const struct glex_ring_rx *rx)
{
    return __atomic_load_n(&rx->ctl->tail, __ATOMIC_ACQUIRE) & GLEX_TAIL_POS;
}

/** Update the high-water mark. Reads the producers' tail line, so not at every discard. */
void glex_ring_note_level(const struct glex_ring_rx *rx, uint64_t *high);

/**
 * Discards the probed entries.
 * @param count  Counter of received entries.
 * @param high   Highest fill level, updated every 256 entries. release: a producer that sees the
 *        new head may overwrite slots that were read before.
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

/**
 * Refuses posts from now on, or (present) accepts them again. Claimed positions are still
 * delivered.
 */
void glex_ring_set_receiver(struct glex_ring_rx *rx, bool present);

/**
 * Slots with storage, counted from the first. acquire: pairs with the release of the process that
 * reserved the last of them.
 */
static inline uint32_t glex_ring_ready(const struct glex_ring_tx *tx)
{
    uint32_t lacking = __atomic_load_n(&tx->ctl->lacking, __ATOMIC_ACQUIRE);
    uint32_t capacity = (uint32_t)tx->mask + 1;
    uint32_t first = capacity < GLEX_QUEUE_STEP ? capacity : GLEX_QUEUE_STEP;

    /* any process may write there: the first slots always have storage */
    return lacking <= capacity - first ? capacity - lacking : first;
}

/** Returns whether the owner of a ring is gone. relaxed: no read depends on it */
static inline bool glex_ring_is_closed(const struct glex_ring_tx *tx)
{
    return __atomic_load_n(&tx->ctl->tail, __ATOMIC_RELAXED) & GLEX_TAIL_CLOSED;
}

/** Whether posts are refused: the owner is gone, or accepts nothing. relaxed: as above */
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
 * Out of line, after many empty polls of a position: skips a slot whose producer was killed before
 * publishing, by publishing the slot as empty. The first calls for a position only record the time
 * since when the position has not moved.
 * @return Whether the slot was skipped.
 */
bool glex_ring_stalled(struct glex_ring_rx *rx, uint64_t pos, int dirfd, struct glex_segment *seg);

#endif
