/*
 * Arithmetic of the exclusive remote FIFO (paper 003, section 4.3). Both ends count the used units
 * in total, modulo 2^16. The length is a power of two, so a position is the lower bits of the
 * count.
 *
 * A message takes consecutive units. A long message takes a multiple of the spacing. A message that
 * does not fit before the end begins at the first unit, and also uses the skipped units. Both ends
 * also count messages, because each message in flight takes a slot, or an entry of the event queue
 * if the FIFO is not mapped.
 *
 * A message has at most three eighths of the FIFO's length, so it uses less than three quarters
 * with the skipped units. The receiver returns units at the latest when a quarter is consumed.
 */
#ifndef UCT_GLEX_FIFO_H
#define UCT_GLEX_FIFO_H

#include <stddef.h>
#include <stdint.h>

#define UCT_GLEX_FIFO_MAX_UNITS 16384 /* differences of counters must fit into 15 bits */

/* Least length of a FIFO, in units and in spacings. The longest message, three eighths of the FIFO,
 * is then a multiple of the spacing. */
#define UCT_GLEX_FIFO_MIN_UNITS 16

/* Totals that a receiver has consumed. The totals return to the sender as credits. */
typedef struct uct_glex_fifo_count {
    uint16_t units;
    uint16_t msgs;
} uct_glex_fifo_count_t;

typedef struct uct_glex_fifo_tx {
    uint16_t head;               /* units used, in all */
    uint16_t msgs;               /* messages sent, in all */
    uct_glex_fifo_count_t acked; /* consumed by the receiver */
    uint16_t units;              /* length: a power of two; 0: no FIFO */
    uint16_t msgs_max;           /* most messages in flight */
} uct_glex_fifo_tx_t;

typedef struct uct_glex_fifo_rx {
    uint16_t next; /* units used by messages that arrived, in all */
    uint16_t units;
    uint16_t tell_units; /* return the credits explicitly when this number of units is owed */
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

/* Bytes. Longer messages take a multiple of the spacing, other messages a multiple of the unit. */
#define UCT_GLEX_FIFO_MAX_PACKED 512

/* How a FIFO is divided: the same at both ends */
typedef struct uct_glex_fifo_layout {
    uint8_t unit_shift;    /* log2 of the bytes of a unit */
    uint8_t spacing_shift; /* log2 of the spacing in bytes, at least unit_shift */
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

/* Whether a further message may be in flight. This is enough for a message without units. */
static inline int uct_glex_fifo_may_send(const uct_glex_fifo_tx_t *fifo)
{
    return (uint16_t)(fifo->msgs - fifo->acked.msgs) < fifo->msgs_max;
}

/*
 * Find room for a message of n units. Returns 0 without room. Otherwise returns 1, the offset in
 * units and the number of units to skip. uct_glex_fifo_commit() then uses the units.
 */
static inline int uct_glex_fifo_reserve(const uct_glex_fifo_tx_t *fifo, unsigned n,
                                        uint16_t *offset_p, uint16_t *skip_p)
{
    unsigned room = uct_glex_fifo_free(fifo);
    unsigned to_end = uct_glex_fifo_to_end(fifo->head, fifo->units);

    if (!uct_glex_fifo_may_send(fifo)) {
        return 0; /* also if msgs_max is 0: no FIFO */
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

/* A message takes the reserved units. The caller counts the message after posting. */
static inline void uct_glex_fifo_commit(uct_glex_fifo_tx_t *fifo, unsigned n, uint16_t skip)
{
    fifo->head += skip + n;
}

/* Counters arrived. Returns 1 if the FIFO has more room now. Both counters arrive together, and
 * each message adds to `msgs`, with or without units. So `msgs` alone tells which counters are
 * newer. */
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
 * A message of n units arrived: find its offset in units, and the number of used units with skipped
 * units. Returns 0 if a message of this length does not fit there.
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
 * Set the FIFO's length, and when credits are returned: after a quarter of the units or half of the
 * messages in flight. A sender of long messages must stop while the FIFO still has room for a
 * longest message, so units are returned earlier.
 *
 * Credits that are returned by a store alone (`is_published`) are returned twice as often, so that
 * a waiting sender goes on earlier. More often would cost time, because the cache line of the
 * credits moves to the sender and back each time.
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
