/*
 * Put and get, and their completion: flush and fence. What the NIC lets peers map is put to and got
 * from by a copy; the inline functions find where it lies in this process, by its remote key.
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

/** Have an operation of the VC end when all puts are in their memory that leave no trace here: an
 *  empty put to ourselves, which the NIC starts after all earlier requests. Nothing where puts are
 *  over when they are posted. Returns OK or NO_RESOURCE: not now. */
ucs_status_t uct_glex_rma_track_puts(uct_glex_vc_t *vc);

/* ---- completion: glex_flush.c ---- */

ucs_status_t uct_glex_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_glex_ep_fence(uct_ep_h tl_ep, unsigned flags);
ucs_status_t uct_glex_iface_flush(uct_iface_h tl_iface, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_glex_iface_fence(uct_iface_h tl_iface, unsigned flags);

/** The operation of uct_glex_rma_track_puts() has ended, and so have the puts before it */
void uct_glex_flush_puts_ended(uct_glex_iface_t *iface, uint32_t op_id);

/* ---- what is mapped ---- */

/* Where remote_addr lies in this process by a key that this interface keeps; NULL: ask the NIC. The
 * registration may have been removed or invalidated, and UCP relies on that. acquire: data is
 * loaded after the registration was found valid. */
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

/* Whether this interface keeps where the key's memory lies. relaxed: if so, its thread wrote it. */
static UCS_F_ALWAYS_INLINE int uct_glex_rma_is_kept(const uct_glex_iface_t *iface,
                                                    const uct_glex_rkey_t *rkey)
{
    return __atomic_load_n(&rkey->ep, __ATOMIC_RELAXED) == iface->nic;
}

/* As uct_glex_rma_mapped(), of a key that this interface may not have used yet, or that another one
 * keeps */
static UCS_F_ALWAYS_INLINE void *uct_glex_rma_ptr(uct_glex_iface_t *iface, uint64_t remote_addr,
                                                  size_t length, uct_rkey_t uct_rkey)
{
    uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;

    if (ucs_likely(uct_glex_rma_is_kept(iface, rkey)) || uct_glex_rkey_map(rkey, iface->nic)) {
        return uct_glex_rma_mapped(rkey, remote_addr, length);
    }
    return uct_glex_map(iface->nic, &rkey->packed, remote_addr, length, NULL);
}

/* Where remote_addr lies if a copy is all that is to be done: the key is mapped, and the VC has not
 * failed. Else NULL: the slow path finds out why. */
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
