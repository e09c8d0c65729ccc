/*
 * Atomic operations, for the interface's table. UCT's interface describes each operation.
 */
#ifndef UCT_GLEX_ATOMIC_H
#define UCT_GLEX_ATOMIC_H

#include "base/glex_md.h"

/** For uct_iface_attr_t: operations without a result, and operations that return the old value */
#define UCT_GLEX_ATOMIC_POST_OPS                                                                   \
    (UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_AND) | UCS_BIT(UCT_ATOMIC_OP_OR) |         \
     UCS_BIT(UCT_ATOMIC_OP_XOR))
#define UCT_GLEX_ATOMIC_FETCH_OPS                                                                  \
    (UCT_GLEX_ATOMIC_POST_OPS | UCS_BIT(UCT_ATOMIC_OP_SWAP) | UCS_BIT(UCT_ATOMIC_OP_CSWAP))

ucs_status_t uct_glex_ep_atomic32_post(uct_ep_h ep, uct_atomic_op_t op, uint32_t value,
                                       uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t uct_glex_ep_atomic64_post(uct_ep_h ep, uct_atomic_op_t op, uint64_t value,
                                       uint64_t remote_addr, uct_rkey_t rkey);

/* The operations end before the functions return: `comp` is never called */
ucs_status_t uct_glex_ep_atomic32_fetch(uct_ep_h ep, uct_atomic_op_t op, uint32_t value,
                                        uint32_t *result, uint64_t remote_addr, uct_rkey_t rkey,
                                        uct_completion_t *comp);
ucs_status_t uct_glex_ep_atomic64_fetch(uct_ep_h ep, uct_atomic_op_t op, uint64_t value,
                                        uint64_t *result, uint64_t remote_addr, uct_rkey_t rkey,
                                        uct_completion_t *comp);
ucs_status_t uct_glex_ep_atomic_cswap32(uct_ep_h ep, uint32_t compare, uint32_t swap,
                                        uint64_t remote_addr, uct_rkey_t rkey, uint32_t *result,
                                        uct_completion_t *comp);
ucs_status_t uct_glex_ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap,
                                        uint64_t remote_addr, uct_rkey_t rkey, uint64_t *result,
                                        uct_completion_t *comp);

#endif
