/*
 * Shares of a pool among virtual connections (VCs). A VC may hold as many elements as are free. So
 * a slow, silent or stopped peer keeps at most half of the pool. The first element of a VC is
 * always granted, even if other VCs hold the whole pool. Then the pool grows, by one element for
 * each VC at most.
 */
#ifndef UCT_GLEX_SHARE_H
#define UCT_GLEX_SHARE_H

#include <stdint.h>

/* Number of pools that VCs share: one for each of the first kinds of enum uct_glex_op_type. */
#define UCT_GLEX_SHARES 4

typedef struct uct_glex_share {
    unsigned max;  /* elements of the pool, without the first elements of VCs */
    unsigned used; /* elements that VCs hold */
} uct_glex_share_t;

/** Whether a VC that holds `held` elements may have one more */
static inline int uct_glex_share_allows(const uct_glex_share_t *share, unsigned held)
{
    return (held == 0) || ((share->used < share->max) && (held < share->max - share->used));
}

#endif
