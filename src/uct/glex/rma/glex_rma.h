/*
 * Put and get, and their completion: flush and fence. A copy accesses memory that the NIC lets this
 * process map. The inline functions find the address in this process by the remote key.
 */
#ifndef UCT_GLEX_RMA_H
#define UCT_GLEX_RMA_H

#include "core/glex_ep.h"

ucs_status_t uct_glex_ep_put_short(uct_ep_h tl_ep, const void *buffer, unsigned length,
                                   uint64_t remote_addr, uct_rkey_t rkey);
ssize_t uct_glex_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb, void *arg,
                              uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t uct_glex_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iovcnt,
                                   uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t uct_glex_ep_get_short(uct_ep_h tl_ep, void *buffer, unsigned length,
                                   uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t uct_glex_ep_get_bcopy(uct_ep_h tl_ep, uct_unpack_callback_t unpack_cb, void *arg,
                                   size_t length, uint64_t remote_addr, uct_rkey_t rkey,
                                   uct_completion_t *comp);
ucs_status_t uct_glex_ep_get_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iovcnt,
                                   uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t *comp);

/** Post an operation of the VC that ends when all earlier puts without an operation have ended: an
 *  empty put to the own endpoint with FENCE. Does nothing if puts end when they are posted. Returns
 *  OK, NO_RESOURCE (not now), or an error. */
ucs_status_t uct_glex_rma_track_puts(uct_glex_vc_t *vc);

/* ---- completion: glex_flush.c ---- */

ucs_status_t uct_glex_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_glex_ep_fence(uct_ep_h tl_ep, unsigned flags);
ucs_status_t uct_glex_iface_flush(uct_iface_h tl_iface, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_glex_iface_fence(uct_iface_h tl_iface, unsigned flags);

/** The operation of uct_glex_rma_track_puts() and the puts before it have ended */
void uct_glex_flush_puts_ended(uct_glex_iface_t *iface, uint32_t op_id);

/* ---- mapped memory ---- */

/* The address of remote_addr in this process by a key that this interface keeps. NULL: ask the NIC.
 * The registration may have been removed or invalidated, and UCP relies on the check. acquire: data
 * is loaded after the check. */
static UCS_F_ALWAYS_INLINE void *uct_glex_rma_mapped(const uct_glex_rkey_t *rkey,
                                                     uint64_t remote_addr, size_t length)
{
    uint64_t offset = remote_addr - rkey->packed.address;

    if ((rkey->ptr == NULL) ||
        ucs_unlikely((offset > rkey->packed.length) || (length > rkey->packed.length - offset)) ||
        ucs_unlikely(__atomic_load_n(rkey->watch.word, __ATOMIC_ACQUIRE) != rkey->watch.state)) {
        return NULL;
    }
    return UCS_PTR_BYTE_OFFSET(rkey->ptr, offset);
}

/* Whether this interface keeps the address of the key's memory. relaxed: the address was written by
 * the thread of this interface. */
static UCS_F_ALWAYS_INLINE int uct_glex_rma_is_kept(const uct_glex_iface_t *iface,
                                                    const uct_glex_rkey_t *rkey)
{
    return __atomic_load_n(&rkey->ep, __ATOMIC_RELAXED) == iface->nic;
}

/* uct_glex_rma_mapped() for any key: new to this interface, or kept by another interface */
static UCS_F_ALWAYS_INLINE void *uct_glex_rma_ptr(uct_glex_iface_t *iface, uint64_t remote_addr,
                                                  size_t length, uct_rkey_t uct_rkey)
{
    uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;

    if (ucs_likely(uct_glex_rma_is_kept(iface, rkey)) || uct_glex_rkey_map(rkey, iface->nic)) {
        return uct_glex_rma_mapped(rkey, remote_addr, length);
    }
    return uct_glex_map(iface->nic, &rkey->packed, remote_addr, length, NULL);
}

/* The address of remote_addr if a copy is enough: the interface keeps the key, and the VC has not
 * failed. NULL: the slow path finds the reason. */
static UCS_F_ALWAYS_INLINE void *uct_glex_rma_only_copy(const uct_glex_ep_t *ep,
                                                        uint64_t remote_addr, size_t length,
                                                        uct_rkey_t uct_rkey)
{
    const uct_glex_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_glex_iface_t);
    const uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;

    if (ucs_unlikely(ep->is_cancelled || (ep->vc->status != UCS_OK) ||
                     !uct_glex_rma_is_kept(iface, rkey))) {
        return NULL;
    }
    return uct_glex_rma_mapped(rkey, remote_addr, length);
}

#endif
