/*
 * Atomic operations on a peer's memory. The processor of this process executes them in mapped
 * memory. So the operations are atomic for the owner's processor and for every peer.
 * uct_glex_md_has_atomics() tells when the interface offers atomic operations.
 */
#include "rma/glex_atomic.h"
#include "rma/glex_rma.h"

/* The slow path: the key is new to this interface, or another interface keeps the key, or the
 * memory cannot be mapped or reached. A get of the same bytes maps the key, checks the key, and
 * fails the endpoint as a put or get would. */
static UCS_F_NOINLINE ucs_status_t uct_glex_atomic_map(uct_glex_ep_t *ep, uint64_t remote_addr,
                                                       unsigned size, uct_rkey_t uct_rkey,
                                                       void **ptr_p)
{
    uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    ucs_status_t status;
    uint64_t unused;

    if ((remote_addr % size) != 0) {
        ucs_error("glex: atomic operation on %u bytes at 0x%" PRIx64 ", which is not a multiple of "
                  "its size",
                  size, remote_addr);
        return UCS_ERR_INVALID_ADDR;
    }
    if (!uct_glex_md_rdma_now(iface->md)) {
        return UCS_ERR_UNSUPPORTED;
    }
    status = uct_glex_ep_get_short(&ep->super.super, &unused, size, remote_addr, uct_rkey);
    if (status != UCS_OK) {
        return status;
    }
    *ptr_p = uct_glex_rma_ptr(iface, remote_addr, size, uct_rkey);
    if (*ptr_p == NULL) {
        ucs_error("glex: atomic operation on 0x%" PRIx64 " of endpoint 0x%" PRIx64 ", which this "
                  "process cannot map: allocate it with uct_md_mem_alloc()",
                  remote_addr, ((uct_glex_rkey_t *)uct_rkey)->packed.ep_addr);
        return UCS_ERR_UNSUPPORTED;
    }
    return UCS_OK;
}

/* The address of the operation in this process. A later flush checks whether the peer is alive, as
 * after a put. */
static UCS_F_ALWAYS_INLINE ucs_status_t uct_glex_atomic_ptr(uct_ep_h tl_ep, uint64_t remote_addr,
                                                            unsigned size, uct_rkey_t uct_rkey,
                                                            void **ptr_p)
{
    uct_glex_ep_t *ep = ucs_derived_of(tl_ep, uct_glex_ep_t);
    ucs_status_t status;

    *ptr_p = ucs_likely((remote_addr % size) == 0) ?
                 uct_glex_rma_only_copy(ep, remote_addr, size, uct_rkey) :
                 NULL;
    if (ucs_unlikely(*ptr_p == NULL)) {
        status = uct_glex_atomic_map(ep, remote_addr, size, uct_rkey, ptr_p);
        if (status != UCS_OK) {
            return status;
        }
    }
    ep->vc->dirty = 1;
    UCT_TL_EP_STAT_ATOMIC(&ep->super);
    return UCS_OK;
}

/*
 * The functions for one width.
 *
 * Memory order of all operations:
 * - Release: a process that reads the new value also sees the earlier plain stores of this process.
 *   So a program can release a lock.
 * - Acquire: later plain loads of this process are not executed before the operation. So a program
 *   can take a lock.
 *
 * UCT promises no stronger order without a fence.
 */
#define UCT_GLEX_ATOMIC_DEFINE(_bits)                                                              \
    static UCS_F_ALWAYS_INLINE ucs_status_t uct_glex_atomic##_bits(                                \
        uct_ep_h ep, uct_atomic_op_t op, uint##_bits##_t value, uint##_bits##_t *old_p,            \
        uint64_t remote_addr, uct_rkey_t rkey)                                                     \
    {                                                                                              \
        ucs_status_t status;                                                                       \
        void *ptr;                                                                                 \
                                                                                                   \
        status = uct_glex_atomic_ptr(ep, remote_addr, sizeof(value), rkey, &ptr);                  \
        if (status != UCS_OK) {                                                                    \
            return status;                                                                         \
        }                                                                                          \
        switch (op) {                                                                              \
        case UCT_ATOMIC_OP_ADD:                                                                    \
            *old_p = __atomic_fetch_add((uint##_bits##_t *)ptr, value, __ATOMIC_ACQ_REL);          \
            return UCS_OK;                                                                         \
        case UCT_ATOMIC_OP_AND:                                                                    \
            *old_p = __atomic_fetch_and((uint##_bits##_t *)ptr, value, __ATOMIC_ACQ_REL);          \
            return UCS_OK;                                                                         \
        case UCT_ATOMIC_OP_OR:                                                                     \
            *old_p = __atomic_fetch_or((uint##_bits##_t *)ptr, value, __ATOMIC_ACQ_REL);           \
            return UCS_OK;                                                                         \
        case UCT_ATOMIC_OP_XOR:                                                                    \
            *old_p = __atomic_fetch_xor((uint##_bits##_t *)ptr, value, __ATOMIC_ACQ_REL);          \
            return UCS_OK;                                                                         \
        case UCT_ATOMIC_OP_SWAP:                                                                   \
            *old_p = __atomic_exchange_n((uint##_bits##_t *)ptr, value, __ATOMIC_ACQ_REL);         \
            return UCS_OK;                                                                         \
        default:                                                                                   \
            return UCS_ERR_UNSUPPORTED;                                                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    ucs_status_t uct_glex_ep_atomic##_bits##_post(uct_ep_h ep, uct_atomic_op_t op,                 \
                                                  uint##_bits##_t value, uint64_t remote_addr,     \
                                                  uct_rkey_t rkey)                                 \
    {                                                                                              \
        uint##_bits##_t unused;                                                                    \
                                                                                                   \
        return uct_glex_atomic##_bits(ep, op, value, &unused, remote_addr, rkey);                  \
    }                                                                                              \
                                                                                                   \
    ucs_status_t uct_glex_ep_atomic##_bits##_fetch(                                                \
        uct_ep_h ep, uct_atomic_op_t op, uint##_bits##_t value, uint##_bits##_t *result,           \
        uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t *comp)                             \
    {                                                                                              \
        return uct_glex_atomic##_bits(ep, op, value, result, remote_addr, rkey);                   \
    }                                                                                              \
                                                                                                   \
    ucs_status_t uct_glex_ep_atomic_cswap##_bits(                                                  \
        uct_ep_h ep, uint##_bits##_t compare, uint##_bits##_t swap, uint64_t remote_addr,          \
        uct_rkey_t rkey, uint##_bits##_t *result, uct_completion_t *comp)                          \
    {                                                                                              \
        ucs_status_t status;                                                                       \
        void *ptr;                                                                                 \
                                                                                                   \
        status = uct_glex_atomic_ptr(ep, remote_addr, sizeof(swap), rkey, &ptr);                   \
        if (status == UCS_OK) {                                                                    \
            /* acquire where nothing was stored: there is nothing to release */                    \
            __atomic_compare_exchange_n((uint##_bits##_t *)ptr, &compare, swap, 0,                 \
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);                       \
            *result = compare;                                                                     \
        }                                                                                          \
        return status;                                                                             \
    }

UCT_GLEX_ATOMIC_DEFINE(32)
UCT_GLEX_ATOMIC_DEFINE(64)
