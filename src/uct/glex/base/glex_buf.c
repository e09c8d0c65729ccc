#include "base/glex_buf.h"

#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/sys.h>

/* Allocates memory from the NIC, which peers can map. Without such memory allocates from the
 * heap. */
static ucs_status_t uct_glex_buf_region_alloc(uct_glex_buf_pool_t *pool, size_t length,
                                              uct_glex_buf_region_t *region)
{
    glex_ep_handle_t ep = pool->nic;
    glex_ret_t ret;
    int rc;

    ret = glex_ext_mem_alloc(ep, length, &region->address);
    region->nic_memory = (ret == GLEX_SUCCESS);
    if (region->nic_memory) {
        return UCS_OK;
    }
    if (!uct_glex_md_has_private_rdma(pool->md)) {
        ucs_error("glex: no memory for %zu bytes of %s: %s", length, ucs_mpool_name(&pool->mp),
                  glex_error_str(ret));
        return UCS_ERR_NO_MEMORY;
    }
    rc = ucs_posix_memalign(&region->address, ucs_get_page_size(), length, "glex_buf_region");
    return (rc == 0) ? UCS_OK : UCS_ERR_NO_MEMORY;
}

static void uct_glex_buf_region_free(uct_glex_buf_region_t *region)
{
    if (!region->nic_memory) {
        ucs_free(region->address);
    } else {
        glex_ext_mem_free(region->nic, region->address);
    }
    ucs_free(region);
}

static void uct_glex_buf_region_destroy(uct_glex_buf_region_t *region)
{
    glex_deregister_mem(region->nic, region->mh);
    uct_glex_buf_region_free(region);
}

uct_glex_buf_region_t *uct_glex_buf_hold_region(uct_glex_buf_t *buf)
{
    ++buf->region->held;
    return buf->region;
}

void uct_glex_buf_region_release(uct_glex_buf_region_t *region)
{
    if ((--region->held == 0) && region->is_orphan) {
        uct_glex_buf_region_destroy(region);
    }
}

static ucs_status_t uct_glex_buf_chunk_alloc(ucs_mpool_t *mp, size_t *size_p, void **chunk_p)
{
    uct_glex_buf_pool_t *pool = ucs_container_of(mp, uct_glex_buf_pool_t, mp);
    size_t length = ucs_align_up(pool->grow * pool->buf_size, ucs_get_page_size());
    uct_glex_buf_region_t *region;
    ucs_status_t status;

    region = ucs_calloc(1, sizeof(*region), "glex_buf_region");
    if (region == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    region->nic = pool->nic;
    status = uct_glex_buf_region_alloc(pool, length, region);
    if (status != UCS_OK) {
        goto err_free;
    }
    status = uct_glex_status(
        glex_register_mem(pool->nic, region->address, length, pool->mem_flags, &region->mh));
    if (status != UCS_OK) {
        ucs_error("glex: cannot register %zu bytes of %s: %s", length, ucs_mpool_name(mp),
                  ucs_status_string(status));
        goto err_free_region;
    }
    status = ucs_mpool_chunk_malloc(mp, size_p, chunk_p);
    if (status != UCS_OK) {
        goto err_dereg;
    }
    region->next = pool->regions;
    pool->regions = region;
    pool->next_offset = 0;
    return UCS_OK;

err_dereg:
    glex_deregister_mem(pool->nic, region->mh);
err_free_region:
    uct_glex_buf_region_free(region);
    return status;
err_free:
    ucs_free(region);
    return status;
}

/* The mpool initialises the descriptors of a chunk in order, `grow` descriptors at most */
static void uct_glex_buf_obj_init(ucs_mpool_t *mp, void *obj, void *chunk)
{
    uct_glex_buf_pool_t *pool = ucs_container_of(mp, uct_glex_buf_pool_t, mp);
    uct_glex_buf_t *buf = obj;

    ucs_assert_always(pool->next_offset < pool->grow * pool->buf_size);
    buf->ptr = UCS_PTR_BYTE_OFFSET(pool->regions->address, pool->next_offset);
    buf->mh = pool->regions->mh;
    buf->offset = pool->next_offset;
    buf->nic_memory = pool->regions->nic_memory;
    buf->region = pool->regions;
    pool->next_offset += pool->buf_size;
}

static ucs_mpool_ops_t uct_glex_buf_mpool_ops = {.chunk_alloc = uct_glex_buf_chunk_alloc,
                                                 .chunk_release = ucs_mpool_chunk_free,
                                                 .obj_init = uct_glex_buf_obj_init,
                                                 .obj_cleanup = NULL,
                                                 .obj_str = NULL};

ucs_status_t uct_glex_buf_pool_init(uct_glex_buf_pool_t *pool, uct_glex_md_t *md,
                                    glex_ep_handle_t nic, int mem_flags, size_t buf_size,
                                    unsigned grow, unsigned max_bufs, const char *name)
{
    pool->md = md;
    pool->nic = nic;
    pool->mem_flags = mem_flags;
    pool->buf_size = ucs_align_up_pow2(buf_size, 64);
    pool->grow = ucs_min(grow, max_bufs);
    pool->next_offset = 0;
    pool->regions = NULL;
    pool->share.max = max_bufs;
    pool->share.used = 0;
    return uct_glex_mpool_init(&pool->mp, sizeof(uct_glex_buf_t), sizeof(void *), pool->grow,
                               UINT_MAX, &uct_glex_buf_mpool_ops, name);
}

void uct_glex_buf_pool_cleanup(uct_glex_buf_pool_t *pool)
{
    uct_glex_buf_region_t *region;

    uct_glex_mpool_cleanup(&pool->mp);
    while ((region = pool->regions) != NULL) {
        pool->regions = region->next;
        region->is_orphan = 1;
        if (region->held == 0) {
            uct_glex_buf_region_destroy(region);
        }
    }
}
