/*
 * Arithmetic of the exclusive remote FIFO (paper 003, section 4.3): both ends count units used in
 * all, modulo 2^16; the length is a power of two, so that a position is the count's lower bits.
 * A message takes consecutive units, a long one as many as make a multiple of the spacing. One that
 * does not fit before the end begins at the start, and the units skipped are used up with it.
 * Messages on their way are counted too, because each takes an event queue entry. A message may be
 * at most three eighths as long as the FIFO: with what is skipped it then needs less than three
 * quarters of it, and the receiver returns units before it has consumed more than a quarter.
 */
#ifndef UCT_GLEX_FIFO_H
#define UCT_GLEX_FIFO_H

#include <stddef.h>
#include <stdint.h>

#define UCT_GLEX_FIFO_MAX_UNITS 16384 /* differences of counters must fit into 15 bits */

/* A FIFO has so many units at least, and is so many times as long as the spacing: the longest
 * message, three eighths, is then a multiple of the spacing */
#define UCT_GLEX_FIFO_MIN_UNITS 16

/* What a receiver consumed, in all: the credits that it returns */
typedef struct uct_glex_fifo_count {
    uint16_t units;
    uint16_t msgs;
} uct_glex_fifo_count_t;

typedef struct uct_glex_fifo_tx {
    uint16_t head;               /* units used, in all */
    uint16_t msgs;               /* messages sent, in all */
    uct_glex_fifo_count_t acked; /* consumed by the receiver */
    uint16_t units;              /* length: a power of two; 0: no FIFO */
    uint16_t msgs_max;           /* messages that may be on their way */
} uct_glex_fifo_tx_t;

typedef struct uct_glex_fifo_rx {
    uint16_t next; /* units used by messages that arrived, in all */
    uint16_t units;
    uint16_t tell_units; /* consumed without a chance to piggyback: time to tell explicitly */
    uint16_t tell_msgs;
} uct_glex_fifo_rx_t;

static inline uint16_t uct_glex_fifo_offset(uint16_t count, uint16_t units)
{
    return count & (units - 1);
}

/* Units from the head to the end */
static inline uint16_t uct_glex_fifo_to_end(uint16_t count, uint16_t units)
{
    return units - uct_glex_fifo_offset(count, units);
}

/* Bytes. Longer messages take a multiple of the spacing, others of the unit. */
#define UCT_GLEX_FIFO_MAX_PACKED 512

/* How a FIFO is divided: the same at both ends */
typedef struct uct_glex_fifo_layout {
    uint8_t unit_shift;    /* log2 of the bytes of a unit */
    uint8_t spacing_shift; /* log2 of the spacing in bytes: a unit at least */
} uct_glex_fifo_layout_t;

/* Units that a message takes: one at least */
static inline unsigned uct_glex_fifo_message_units(size_t length, uct_glex_fifo_layout_t layout)
{
    unsigned shift = (length > UCT_GLEX_FIFO_MAX_PACKED) ? layout.spacing_shift : layout.unit_shift;

    return ((length + (length == 0) + (1u << shift) - 1) >> shift) << (shift - layout.unit_shift);
}

/* Longest message, in units */
static inline unsigned uct_glex_fifo_max_message(uint16_t units)
{
    return units * 3u / 8;
}

static inline uint16_t uct_glex_fifo_free(const uct_glex_fifo_tx_t *fifo)
{
    return fifo->units - (uint16_t)(fifo->head - fifo->acked.units);
}

/* Whether one more message may be on its way. One that needs no units needs nothing else. */
static inline int uct_glex_fifo_may_send(const uct_glex_fifo_tx_t *fifo)
{
    return (uint16_t)(fifo->msgs - fifo->acked.msgs) < fifo->msgs_max;
}

/*
 * Find room for a message of n units. Returns 0 if there is none, else 1 with the offset in units
 * and the units that must be skipped first. Nothing is used up until uct_glex_fifo_commit().
 */
static inline int uct_glex_fifo_reserve(const uct_glex_fifo_tx_t *fifo, unsigned n,
                                        uint16_t *offset_p, uint16_t *skip_p)
{
    unsigned room = uct_glex_fifo_free(fifo);
    unsigned to_end = uct_glex_fifo_to_end(fifo->head, fifo->units);

    if (!uct_glex_fifo_may_send(fifo)) {
        return 0; /* also without a FIFO */
    }
    if (n <= to_end) {
        *offset_p = uct_glex_fifo_offset(fifo->head, fifo->units);
        *skip_p = 0;
        return n <= room;
    }
    *offset_p = 0;
    *skip_p = to_end;
    return (to_end + n <= room);
}

/* A message takes what was reserved. It is counted when it was posted. */
static inline void uct_glex_fifo_commit(uct_glex_fifo_tx_t *fifo, unsigned n, uint16_t skip)
{
    fifo->head += skip + n;
}

/* Counters arrived. Returns 1 if there is more room now. Both counters come together, and every
 * message counts, with units or without: the messages alone say which counters are newer. */
static inline int uct_glex_fifo_update(uct_glex_fifo_tx_t *fifo, uint16_t units, uint16_t msgs)
{
    if ((int16_t)(msgs - fifo->acked.msgs) <= 0) {
        return 0;
    }
    fifo->acked.units = units;
    fifo->acked.msgs = msgs;
    return 1;
}

/*
 * A message of n units arrived: find its offset in units, and the units it uses up with those
 * skipped before it. Returns 0 if a message of that length cannot lie there.
 */
static inline int uct_glex_fifo_arrive(uct_glex_fifo_rx_t *fifo, unsigned n, int wrap,
                                       uint16_t *offset_p, uint16_t *used_p)
{
    uint16_t offset = wrap ? 0 : uct_glex_fifo_offset(fifo->next, fifo->units);
    uint16_t skip = wrap ? uct_glex_fifo_to_end(fifo->next, fifo->units) : 0;

    if (n > (unsigned)(fifo->units - offset)) {
        return 0;
    }
    *offset_p = offset;
    *used_p = skip + n;
    fifo->next += skip + n;
    return 1;
}

/*
 * The FIFO's length, and messages that may be in flight. Credits are returned after a quarter of
 * the units or half of the messages. Units earlier, because a sender of long messages must stop
 * while there is still room for one of the longest.
 *
 * Where credits are returned by a store alone (`is_published`), that is done after half as much, so
 * that a sender that waits goes on earlier; not more often, because the credits' cache line moves
 * to the sender and back each time.
 */
static inline void uct_glex_fifo_set_size(uct_glex_fifo_rx_t *fifo, uint16_t units,
                                          unsigned msgs_max, int is_published)
{
    unsigned parts = is_published ? 4 : 2;

    fifo->units = units;
    fifo->tell_units = (units + 2 * parts - 1) / (2 * parts);
    fifo->tell_msgs = (msgs_max + parts - 1) / parts;
}

static inline int uct_glex_fifo_must_tell(const uct_glex_fifo_rx_t *fifo,
                                          uct_glex_fifo_count_t consumed,
                                          uct_glex_fifo_count_t told)
{
    return ((uint16_t)(consumed.units - told.units) >= fifo->tell_units) ||
           ((uint16_t)(consumed.msgs - told.msgs) >= fifo->tell_msgs);
}

#endif
