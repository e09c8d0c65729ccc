/*
 * Shares of a pool among virtual connections (VCs). A VC may hold as many elements as are free, so
 * a peer that is slow, silent or stopped keeps at most half of the pool. The first element of a VC
 * is always granted, even if others hold the whole pool: then the pool grows, by one element for
 * each VC at most.
 */
#ifndef UCT_GLEX_SHARE_H
#define UCT_GLEX_SHARE_H

#include <stdint.h>

/* Kinds of elements that are shared. enum uct_glex_op_type begins with these. */
#define UCT_GLEX_SHARES 3

typedef struct uct_glex_share {
    unsigned max;  /* elements of the pool, but for the first ones of VCs */
    unsigned used; /* elements that VCs hold */
} uct_glex_share_t;

/** Whether a VC that holds `held` elements may have one more */
static inline int uct_glex_share_allows(const uct_glex_share_t *share, unsigned held)
{
    return (held == 0) || ((share->used < share->max) && (held < share->max - share->used));
}

#endif
