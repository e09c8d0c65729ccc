/*
 * Pools of registered buffers. A pool is a mpool of descriptors in private memory, and each
 * descriptor names a buffer in memory from the NIC. Descriptors are private because peers can write
 * to mapped memory.
 */
#ifndef UCT_GLEX_BUF_H
#define UCT_GLEX_BUF_H

#include "base/glex_md.h"
#include "base/glex_share.h"

#include <ucs/datastruct/mpool.h>
#include <ucs/datastruct/mpool.inl>
#include <ucs/debug/log.h>

typedef struct uct_glex_buf_region uct_glex_buf_region_t;

typedef struct uct_glex_buf {
    void *ptr;
    glex_mem_handle_t mh; /* at the pool's endpoint */
    uint32_t offset;      /* in the registration */
    int nic_memory;       /* peers can map it */
    uct_glex_buf_region_t *region;
} uct_glex_buf_t;

/* The memory of a chunk. The region lives until the pool is destroyed, and longer while it is
 * held. */
struct uct_glex_buf_region {
    uct_glex_buf_region_t *next;
    glex_ep_handle_t nic; /* lives as long as the domain */
    void *address;
    glex_mem_handle_t mh;
    int nic_memory; /* allocated from the NIC, else from the heap */
    unsigned held;  /* number of leases whose peers may still access the region */
    int is_orphan;  /* its pool is destroyed */
};

typedef struct uct_glex_buf_pool {
    ucs_mpool_t mp;
    uct_glex_md_t *md;
    glex_ep_handle_t nic;
    int mem_flags; /* GLEX_MEM_*, GLEX_EXT_MEM_* */
    size_t buf_size;
    unsigned grow;
    uint32_t next_offset; /* of the next descriptor to be initialised */
    uct_glex_share_t share;
    uct_glex_buf_region_t *regions;
} uct_glex_buf_pool_t;

/**
 * @param buf_size Bytes, rounded up to a multiple of 64: every buffer begins at a cache line.
 */
ucs_status_t uct_glex_buf_pool_init(uct_glex_buf_pool_t *pool, uct_glex_md_t *md,
                                    glex_ep_handle_t nic, int mem_flags, size_t buf_size,
                                    unsigned grow, unsigned max_bufs, const char *name);

/** Destroy a pool. A pool that was not initialized is all 0, and is ignored. */
void uct_glex_buf_pool_cleanup(uct_glex_buf_pool_t *pool);

/** The pool will be destroyed, and a peer may still access the buffer: keep the memory and
 *  registration of the buffer until uct_glex_buf_region_release() */
uct_glex_buf_region_t *uct_glex_buf_hold_region(uct_glex_buf_t *buf);

void uct_glex_buf_region_release(uct_glex_buf_region_t *region);

/**
 * Take a buffer for a VC that holds `held` buffers. NO_RESOURCE: the VC has its share, or memory is
 * short while other buffers are in use. NO_MEMORY (logged): memory is short, and no buffer is in
 * use.
 */
static inline ucs_status_t uct_glex_buf_get(uct_glex_buf_pool_t *pool, unsigned held,
                                            uct_glex_buf_t **buf_p)
{
    if (ucs_unlikely(!uct_glex_share_allows(&pool->share, held))) {
        return UCS_ERR_NO_RESOURCE;
    }
    *buf_p = (uct_glex_buf_t *)ucs_mpool_get_inline(&pool->mp);
    if (ucs_unlikely(*buf_p == NULL)) {
        return (pool->share.used > 0) ? UCS_ERR_NO_RESOURCE : UCS_ERR_NO_MEMORY;
    }
    ++pool->share.used;
    return UCS_OK;
}

static inline void uct_glex_buf_put(uct_glex_buf_t *buf)
{
    uct_glex_buf_pool_t *pool = ucs_container_of(ucs_mpool_obj_owner(buf), uct_glex_buf_pool_t, mp);

    --pool->share.used;
    ucs_mpool_put_inline(buf);
}

#endif
