/*
 * Credits for MPs (paper 003, section 4.1), as arithmetic on totals modulo 2^16.
 *
 * The receiver advertises a limit, the total number of MPs that the sender may send. The sender has
 * limit - sent credits. A limit only grows, so a header may be repeated or overtaken.
 *
 * A peer fills at most window + UCT_GLEX_VC_CTL_UNITS entries of the MPQ. On a NIC whose full queue
 * loses messages, the entries of all peers, the pool, the free entries and the reserve add up to
 * the capacity (glex_mpq.c). On a NIC without loss, the sum may exceed the capacity.
 */
#ifndef UCT_GLEX_CREDIT_H
#define UCT_GLEX_CREDIT_H

#include <stdint.h>

/* Largest window: differences of counters must fit into 15 bits */
#define UCT_GLEX_CREDIT_MAX 16384

/* Smallest window */
#define UCT_GLEX_CREDIT_LEAST 1

/* MPQ entries per VC beside the window: one control message and one acknowledgement */
#define UCT_GLEX_VC_CTL_UNITS 2

typedef struct uct_glex_credit_tx {
    uint16_t sent;  /* MPs sent, in all */
    uint16_t limit; /* MPs that may be sent, in all */
} uct_glex_credit_tx_t;

typedef struct uct_glex_credit_rx {
    uint16_t rcvd;   /* MPs received, in all */
    uint16_t window; /* MPs that the sender may have in flight */
} uct_glex_credit_rx_t;

static inline uint16_t uct_glex_credit_avail(const uct_glex_credit_tx_t *tx)
{
    return tx->limit - tx->sent;
}

/* A limit arrived. Returns 1 if the sender has more credits now. */
static inline int uct_glex_credit_update(uct_glex_credit_tx_t *tx, uint16_t limit)
{
    if ((int16_t)(limit - tx->limit) <= 0) {
        return 0;
    }
    tx->limit = limit;
    return 1;
}

/* The limit to advertise now */
static inline uint16_t uct_glex_credit_limit(const uct_glex_credit_rx_t *rx)
{
    return rx->rcvd + rx->window;
}

/* Credits of received MPs that were not returned; `told`: the limit that was advertised last */
static inline uint16_t uct_glex_credit_owed(const uct_glex_credit_rx_t *rx, uint16_t told)
{
    return uct_glex_credit_limit(rx) - told;
}

/* Whether to send a CTL: half of the window is owed, because no message returned the credits */
static inline int uct_glex_credit_must_tell(const uct_glex_credit_rx_t *rx, uint16_t told)
{
    uint16_t owed = uct_glex_credit_owed(rx, told);

    return (owed > 0) && (owed >= (rx->window + 1) / 2);
}

/* Growth of a window: `inc` or doubling, whichever is more, within `max` */
static inline uint16_t uct_glex_credit_growth(const uct_glex_credit_rx_t *rx, unsigned inc,
                                              unsigned max)
{
    unsigned grow = (rx->window > inc) ? rx->window : inc;
    unsigned room = (rx->window < max) ? max - rx->window : 0;

    return (grow > room) ? room : grow;
}

#endif
