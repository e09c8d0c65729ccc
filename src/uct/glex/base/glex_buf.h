/*
 * Pools of registered buffers: a mpool of descriptors in private memory, each naming one buffer in
 * memory from the NIC. Descriptors stay private because peers can write to what they can map.
 */
#ifndef UCT_GLEX_BUF_H
#define UCT_GLEX_BUF_H

#include "base/glex_md.h"

#include <ucs/datastruct/mpool.h>
#include <ucs/datastruct/mpool.inl>
#include <ucs/debug/log.h>

typedef struct uct_glex_buf {
    void             *ptr;
    glex_mem_handle_t mh;     /* at the pool's endpoint */
    uint32_t          offset; /* in that registration */
    int               nic_memory; /* peers can map it */
} uct_glex_buf_t;

/* A chunk's memory, in a list until the pool is destroyed */
typedef struct uct_glex_buf_region {
    struct uct_glex_buf_region *next;
    void                       *address;
    glex_mem_handle_t           mh;
    int                         nic_memory; /* allocated from the NIC, else from the heap */
} uct_glex_buf_region_t;

typedef struct uct_glex_buf_pool {
    ucs_mpool_t            mp;
    uct_glex_md_t         *md;
    glex_ep_handle_t       nic;
    int                    mem_flags; /* GLEX_MEM_*, GLEX_EXT_MEM_* */
    size_t                 buf_size;
    unsigned               grow;
    uint32_t               next_offset; /* of the next descriptor to be initialised */
    uct_glex_buf_region_t *regions;
    int                    is_abandoned; /* peers may still read or write it: memory from the NIC
                                          * is not given back before the endpoint is destroyed */
} uct_glex_buf_pool_t;

/**
 * @param buf_size  Bytes, a multiple of 64: every buffer begins at a cache line.
 * @param grow      Buffers allocated at a time.
 * @param max_bufs  Most buffers in all.
 */
ucs_status_t uct_glex_buf_pool_init(uct_glex_buf_pool_t *pool, uct_glex_md_t *md,
                                    glex_ep_handle_t nic, int mem_flags, size_t buf_size,
                                    unsigned grow, unsigned max_bufs, const char *name);

/** Also of a pool that was not made: then all of it is 0 */
void uct_glex_buf_pool_cleanup(uct_glex_buf_pool_t *pool);

/** A buffer, or NULL: all are in use, or there is no memory for more (logged) */
static inline uct_glex_buf_t *uct_glex_buf_get(uct_glex_buf_pool_t *pool)
{
    return (uct_glex_buf_t*)ucs_mpool_get_inline(&pool->mp);
}

static inline void uct_glex_buf_put(uct_glex_buf_t *buf)
{
    ucs_mpool_put_inline(buf);
}

#endif
