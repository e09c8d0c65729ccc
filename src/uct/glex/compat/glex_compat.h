/*
 * The differences between the supported versions of UCX, 1.13 to 1.22, that concern glex only.
 * compat/uct_compat.h has the differences that concern every transport.
 */
#ifndef UCT_GLEX_COMPAT_H
#define UCT_GLEX_COMPAT_H

#include "../../compat/uct_compat.h"

#include <ucs/datastruct/mpool.h>
#include <ucs/memory/rcache.h>
#include <ucs/sys/string.h>
#include <ucs/sys/sys.h>
#include <ucs/time/time.h>
#include <string.h>

/* Functions of the transport that this file calls: in glex_md.c, glex_query.c, glex_ep.c */
int uct_glex_rkey_cmp(uct_rkey_t a, uct_rkey_t b);
int uct_glex_iface_is_reachable(const uct_iface_h tl_iface, const uct_device_addr_t *dev_addr,
                                const uct_iface_addr_t *iface_addr);
int uct_glex_iface_is_reachable_why(const uct_iface_h tl_iface, const uct_device_addr_t *dev_addr,
                                    const char **why_p);
int uct_glex_ep_is_to(uct_ep_h tl_ep, const uct_iface_addr_t *iface_addr);

/* The device of an allocation. glex ignores the device, because glex allocates host memory. */
#if UCT_API >= UCT_VERSION(1, 19)
#define UCT_GLEX_MEM_ALLOC_SYS_DEV ucs_sys_device_t sys_dev,
#else
#define UCT_GLEX_MEM_ALLOC_SYS_DEV
#endif

#if UCT_API >= UCT_VERSION(1, 19)
#define UCT_GLEX_RKEY_UNPACK_PARAMS const uct_rkey_unpack_params_t *params,
#else
#define UCT_GLEX_RKEY_UNPACK_PARAMS
#endif

/* Attributes of the domain, pools */

#if UCT_API >= UCT_VERSION(1, 14)

/* UCP's protocols of version 1 expect that memory is registered for zero copy */
#define UCT_GLEX_NEED_MEMH 1

/* UCP has its own cache of registrations, and uses the cache only for cache_mem_types */
static inline void uct_glex_md_attr_set_reg_types(uct_compat_md_attr_t *attr, uint64_t mem_types)
{
    attr->reg_mem_types = mem_types;
    attr->cache_mem_types = mem_types;
}

static inline ucs_status_t uct_glex_mpool_init(ucs_mpool_t *mp, size_t elem_size, size_t alignment,
                                               unsigned elems_per_chunk, unsigned max_elems,
                                               ucs_mpool_ops_t *ops, const char *name)
{
    ucs_mpool_params_t params;

    ucs_mpool_params_reset(&params);
    params.elem_size = elem_size;
    params.alignment = alignment;
    params.elems_per_chunk = elems_per_chunk;
    params.max_elems = max_elems;
    params.ops = ops;
    params.name = name;
    return ucs_mpool_init(&params, mp);
}

#else

/* Put and get need no registration if they end at once. UCX 1.13 would register memory for each
 * request. */
#define UCT_GLEX_NEED_MEMH 0

static inline void uct_glex_md_attr_set_reg_types(uct_compat_md_attr_t *attr, uint64_t mem_types)
{
    attr->cap.reg_mem_types = mem_types;
}

static inline ucs_status_t uct_glex_mpool_init(ucs_mpool_t *mp, size_t elem_size, size_t alignment,
                                               unsigned elems_per_chunk, unsigned max_elems,
                                               ucs_mpool_ops_t *ops, const char *name)
{
    return ucs_mpool_init(mp, 0, elem_size, 0, alignment, elems_per_chunk, max_elems, ops, name);
}

#endif

/* A pool that was not initialized is all 0, and is ignored */
static inline void uct_glex_mpool_cleanup(ucs_mpool_t *mp)
{
    if (mp->data != NULL) {
        ucs_mpool_cleanup(mp, 1);
    }
}

/* Keys: flags for invalidation, range of packing, comparison */

#if UCT_API >= UCT_VERSION(1, 15)
#define UCT_GLEX_MD_FLAG_INVALIDATE                                                                \
    (UCT_MD_FLAG_INVALIDATE | UCT_MD_FLAG_INVALIDATE_RMA | UCT_MD_FLAG_INVALIDATE_AMO)
#define UCT_GLEX_PACK_INVALIDATE                                                                   \
    (UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA | UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO)
#else
#define UCT_GLEX_MD_FLAG_INVALIDATE UCT_MD_FLAG_INVALIDATE
#define UCT_GLEX_PACK_INVALIDATE    UCT_MD_MKEY_PACK_FLAG_INVALIDATE
#endif

/* A registration may be invalidated only if its key was packed with this flag. 1.13 has no flag for
 * packing. */
#if UCT_API >= UCT_VERSION(1, 14)
#define UCT_GLEX_MKEY_REVOCABLE(_params)                                                           \
    !!(UCS_PARAM_VALUE(UCT_MD_MKEY_PACK_FIELD, _params, flags, FLAGS, 0) & UCT_GLEX_PACK_INVALIDATE)
#define UCT_GLEX_MEMH_REVOCABLE 0
#else
#define UCT_GLEX_MKEY_REVOCABLE(_params) 1
#define UCT_GLEX_MEMH_REVOCABLE          1
#endif

#if UCT_API >= UCT_VERSION(1, 16)
#define UCT_GLEX_COMPONENT_OPS .rkey_compare = uct_glex_rkey_compare,

static inline ucs_status_t uct_glex_rkey_compare(uct_component_t *component UCS_V_UNUSED,
                                                 uct_rkey_t a, uct_rkey_t b,
                                                 const uct_rkey_compare_params_t *params,
                                                 int *result)
{
    if ((params->field_mask != 0) || (result == NULL)) {
        return UCS_ERR_INVALID_PARAM;
    }
    *result = uct_glex_rkey_cmp(a, b);
    return UCS_OK;
}
#else
#define UCT_GLEX_COMPONENT_OPS
#endif

/* The registration cache. From 1.14 on, UCP has its own cache, and turns its cache off if
 * registrations must not be kept. */
#if UCT_API >= UCT_VERSION(1, 14)
#define UCT_GLEX_RCACHE_DEFAULT "n"
#else
#define UCT_GLEX_RCACHE_DEFAULT "try"
#endif

#if UCT_API >= UCT_VERSION(1, 16)
#define UCT_GLEX_RCACHE_CONFIG_TABLE ucs_config_rcache_table
typedef ucs_rcache_config_t uct_glex_rcache_config_t;
#else
#define UCT_GLEX_RCACHE_CONFIG_TABLE uct_md_config_rcache_table
typedef uct_md_rcache_config_t uct_glex_rcache_config_t;
#endif

static inline void uct_glex_rcache_set_params(ucs_rcache_params_t *params,
                                              const uct_glex_rcache_config_t *config)
{
#if UCT_API >= UCT_VERSION(1, 16)
    ucs_rcache_set_params(params, config);
#else
    uct_md_set_rcache_params(params, config);
    params->max_alignment = ucs_get_page_size();
#endif
}

static inline double uct_glex_rcache_overhead(const uct_glex_rcache_config_t *config)
{
#if UCT_API >= UCT_VERSION(1, 17)
    return (config->overhead == UCS_TIME_AUTO) ? 180e-9 : ucs_time_to_sec(config->overhead);
#else
    return uct_md_rcache_overhead(config);
#endif
}

static inline ucs_status_t uct_glex_rcache_get(ucs_rcache_t *rcache, void *address, size_t length,
                                               int prot, void *arg, ucs_rcache_region_t **region_p)
{
#if UCT_API >= UCT_VERSION(1, 17)
    return ucs_rcache_get(rcache, address, length, UCS_PGT_ADDR_ALIGN, prot, arg, region_p);
#else
    return ucs_rcache_get(rcache, address, length, prot, arg, region_p);
#endif
}

#if UCT_API >= UCT_VERSION(1, 18)
#define UCT_GLEX_RCACHE_OPS                                                                        \
    .merge = (void (*)(void *, ucs_rcache_t *, void *, ucs_rcache_region_t *))ucs_empty_function,
#else
#define UCT_GLEX_RCACHE_OPS
#endif

/* Internal operations of an interface */

#if UCT_API >= UCT_VERSION(1, 15)
#define UCT_GLEX_IFACE_IS_REACHABLE .iface_is_reachable_v2 = uct_glex_iface_is_reachable_v2,

/* UCX also asks for the reason, and logs the reason */
static inline int uct_glex_iface_is_reachable_v2(const uct_iface_h tl_iface,
                                                 const uct_iface_is_reachable_params_t *params)
{
    const uint64_t reason =
        UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING | UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING_LENGTH;
    const char *why = "without an address";

    if (!(params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR) ||
        !uct_glex_iface_is_reachable_why(tl_iface, params->device_addr, &why)) {
        if ((params->field_mask & reason) == reason) {
            ucs_snprintf_safe(params->info_string, params->info_string_length,
                              "not usable with a process %s", why);
        }
        return 0;
    }
#if UCT_API >= UCT_VERSION(1, 16)
    return uct_iface_scope_is_reachable(tl_iface, params);
#else
    return 1;
#endif
}
#else
#define UCT_GLEX_IFACE_IS_REACHABLE
#endif

#if UCT_API >= UCT_VERSION(1, 16)
#define UCT_GLEX_EP_IS_CONNECTED .ep_is_connected = uct_glex_ep_is_connected,

static inline int uct_glex_ep_is_connected(uct_ep_h tl_ep,
                                           const uct_ep_is_connected_params_t *params)
{
    return (params->field_mask & UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR) &&
           uct_glex_ep_is_to(tl_ep, params->iface_addr);
}
#else
#define UCT_GLEX_EP_IS_CONNECTED
#endif

#define UCT_GLEX_IFACE_INTERNAL_OPS                                                                \
    UCT_COMPAT_IFACE_INTERNAL_OPS                                                                  \
    UCT_GLEX_IFACE_IS_REACHABLE                                                                    \
    UCT_GLEX_EP_IS_CONNECTED

#endif
