/*
 * Arithmetic of the exclusive remote FIFO (paper 003, section 4.3): both ends count units used in
 * all, modulo 2^16; the length is a power of two, so that a position is the count's lower bits.
 * A message takes consecutive units; one that does not fit before the end begins at the start, and
 * the units skipped are used up with it. Messages on their way are counted too, because each
 * takes an event queue entry. A message may be at most a quarter as long as the FIFO: with
 * what is skipped it then needs less than half of it, and the receiver, who tells of units consumed
 * before they are half of the FIFO, may keep less than the other half to itself.
 */
#ifndef UCT_GLEX_FIFO_H
#define UCT_GLEX_FIFO_H

#include <stdint.h>

#define UCT_GLEX_FIFO_MAX_UNITS 16384 /* differences of counters must fit into 15 bits */

typedef struct uct_glex_fifo_tx {
    uint16_t head;       /* units used, in all */
    uint16_t tail;       /* units consumed by the receiver, in all */
    uint16_t msgs;       /* messages sent, in all */
    uint16_t msgs_acked; /* messages consumed by the receiver, in all */
    uint16_t units;      /* length: a power of two; 0: no FIFO */
    uint16_t msgs_max;   /* messages that may be on their way */
} uct_glex_fifo_tx_t;

typedef struct uct_glex_fifo_rx {
    uint16_t next;      /* units used by messages that arrived, in all */
    uint16_t units;
    uint16_t head;      /* units consumed, in all; with `msgs`, one load for the header */
    uint16_t msgs;      /* messages consumed, in all */
    uint16_t head_told; /* last count told to the sender */
    uint16_t msgs_told;
    uint16_t msgs_max;
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

/* Longest message, in units */
static inline unsigned uct_glex_fifo_max_message(uint16_t units)
{
    return units / 4;
}

static inline uint16_t uct_glex_fifo_free(const uct_glex_fifo_tx_t *fifo)
{
    return fifo->units - (uint16_t)(fifo->head - fifo->tail);
}

/*
 * Find room for a message of n units. Returns 0 if there is none, else 1 with the offset in units
 * and the units that must be skipped first. Nothing is used up until uct_glex_fifo_commit().
 */
static inline int uct_glex_fifo_reserve(const uct_glex_fifo_tx_t *fifo, unsigned n,
                                        uint16_t *offset_p, uint16_t *skip_p)
{
    unsigned room   = uct_glex_fifo_free(fifo);
    unsigned to_end = (fifo->units == 0) ? 0 : uct_glex_fifo_to_end(fifo->head, fifo->units);

    if ((uint16_t)(fifo->msgs - fifo->msgs_acked) >= fifo->msgs_max) {
        return 0;
    }
    if (n <= to_end) {
        *offset_p = uct_glex_fifo_offset(fifo->head, fifo->units);
        *skip_p   = 0;
        return n <= room;
    }
    *offset_p = 0;
    *skip_p   = to_end;
    return (to_end + n <= room);
}

/* The same for a message of one unit, which never wraps */
static inline int uct_glex_fifo_has_unit(const uct_glex_fifo_tx_t *fifo)
{
    return ((uint16_t)(fifo->msgs - fifo->msgs_acked) < fifo->msgs_max) &&
           ((uint16_t)(fifo->head - fifo->tail) < fifo->units);
}

static inline void uct_glex_fifo_commit(uct_glex_fifo_tx_t *fifo, unsigned n, uint16_t skip)
{
    fifo->head += skip + n;
    fifo->msgs += 1;
}

/* Counters arrived. Returns 1 if there is more room now. */
static inline int uct_glex_fifo_update(uct_glex_fifo_tx_t *fifo, uint16_t units, uint16_t msgs)
{
    int more = 0;

    if ((int16_t)(units - fifo->tail) > 0) {
        fifo->tail = units;
        more       = 1;
    }
    if ((int16_t)(msgs - fifo->msgs_acked) > 0) {
        fifo->msgs_acked = msgs;
        more             = 1;
    }
    return more;
}

/*
 * A message of n units arrived: find its offset in units, and the units it uses up with those
 * skipped before it. Returns 0 if a message of that length cannot lie there.
 */
static inline int uct_glex_fifo_arrive(uct_glex_fifo_rx_t *fifo, unsigned n, int wrap,
                                       uint16_t *offset_p, uint16_t *used_p)
{
    uint16_t offset = wrap ? 0 : uct_glex_fifo_offset(fifo->next, fifo->units);
    uint16_t skip   = wrap ? uct_glex_fifo_to_end(fifo->next, fifo->units) : 0;

    if (n > (unsigned)(fifo->units - offset)) {
        return 0;
    }
    *offset_p   = offset;
    *used_p     = skip + n;
    fifo->next += skip + n;
    return 1;
}

/* The same for one of one unit that does not wrap: it can always lie there. Returns its offset. */
static inline uint16_t uct_glex_fifo_arrive_unit(uct_glex_fifo_rx_t *fifo)
{
    return uct_glex_fifo_offset(fifo->next++, fifo->units);
}

/* A message was delivered; messages are delivered in the order of their arrival */
static inline void uct_glex_fifo_consume(uct_glex_fifo_rx_t *fifo, uint16_t used)
{
    fifo->head += used;
    fifo->msgs += 1;
}

/* The FIFO's length, and messages that may be on their way. The sender is told after a quarter of
 * the units, half of the messages. Units earlier: a sender of long messages stops when room for the
 * longest is left, another quarter. */
static inline void uct_glex_fifo_set_size(uct_glex_fifo_rx_t *fifo, uint16_t units,
                                          uint16_t msgs_max)
{
    fifo->units      = units;
    fifo->msgs_max   = msgs_max;
    fifo->tell_units = (units + 3) / 4;
    fifo->tell_msgs  = (msgs_max + 1) / 2;
}

static inline int uct_glex_fifo_must_tell(const uct_glex_fifo_rx_t *fifo)
{
    return ((uint16_t)(fifo->head - fifo->head_told) >= fifo->tell_units) ||
           ((uint16_t)(fifo->msgs - fifo->msgs_told) >= fifo->tell_msgs);
}

static inline void uct_glex_fifo_told(uct_glex_fifo_rx_t *fifo)
{
    fifo->head_told = fifo->head;
    fifo->msgs_told = fifo->msgs;
}

#endif
