#include "base/glex_md.h"

#include <uct/base/uct_iface.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/sys.h>
#include <ucm/api/ucm.h>
#include <sys/mman.h>

/* A region of the cache is a registration */
typedef struct uct_glex_rcache_region {
    ucs_rcache_region_t super;
    uct_glex_reg_t reg;
} uct_glex_rcache_region_t;

/* ---- registrations ---- */

static ucs_status_t uct_glex_reg_new(uct_glex_md_t *md, void *address, size_t length, int silent,
                                     uct_glex_reg_t **reg_p)
{
    uct_glex_reg_t *reg = ucs_malloc(sizeof(*reg), "uct_glex_reg");
    ucs_status_t status;

    if (reg == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = uct_glex_reg_init(reg, md->nic_home, address, length, silent);
    if (status != UCS_OK) {
        ucs_free(reg);
        return status;
    }
    *reg_p = reg;
    return UCS_OK;
}

/* Get a registration, from the cache if possible. The cache's callback reads `flags`. */
static ucs_status_t uct_glex_reg_get(uct_glex_md_t *md, void *address, size_t length,
                                     unsigned *flags, uct_glex_reg_t **reg_p)
{
    ucs_rcache_region_t *rregion;
    ucs_status_t status;

    if (md->rcache == NULL) {
        return uct_glex_reg_new(md, address, length, *flags & UCT_MD_MEM_FLAG_HIDE_ERRORS, reg_p);
    }
    status =
        uct_glex_rcache_get(md->rcache, address, length, PROT_READ | PROT_WRITE, flags, &rregion);
    if (status == UCS_OK) {
        *reg_p = &ucs_derived_of(rregion, uct_glex_rcache_region_t)->reg;
    }
    return status;
}

static void uct_glex_invalidated_cb(void *arg)
{
    uct_invoke_completion(arg, UCS_OK);
}

/* Return a registration. With `comp` the registration is invalidated, and `comp` is called when it
 * is not used any more. */
static void uct_glex_reg_put(uct_glex_md_t *md, uct_glex_reg_t *reg, uct_completion_t *comp)
{
    uct_glex_rcache_region_t *region;

    if (md->rcache == NULL) {
        uct_glex_reg_cleanup(reg);
        ucs_free(reg);
        if (comp != NULL) {
            uct_invoke_completion(comp, UCS_OK);
        }
        return;
    }
    region = ucs_container_of(reg, uct_glex_rcache_region_t, reg);
    if (comp != NULL) {
        ucs_rcache_region_invalidate(md->rcache, &region->super, uct_glex_invalidated_cb, comp);
    }
    ucs_rcache_region_put(md->rcache, &region->super);
}

ucs_status_t uct_glex_memh_register(uct_glex_md_t *md, uct_glex_memh_t *memh, unsigned ep_index)
{
    ucs_status_t status = UCS_OK;
    uct_glex_reg_t *reg;

    pthread_mutex_lock(&md->lock);
    if (memh->reg == NULL) {
        status = uct_glex_reg_get(md, memh->address, memh->length, &memh->flags, &reg);
        if (status != UCS_OK) {
            goto out;
        }
        /* release: a thread that sees the pointer sees the registration, see
         * uct_glex_memh_place() */
        __atomic_store_n(&memh->reg, reg, __ATOMIC_RELEASE);
    }
    if (uct_glex_reg_at(memh->reg, ep_index) == NULL) {
        status = uct_glex_reg_add(memh->reg, md->eps[ep_index].nic, ep_index);
    }
out:
    pthread_mutex_unlock(&md->lock);
    return status;
}

/* ---- operations of the domain ---- */

ucs_status_t uct_glex_mem_alloc(uct_md_h uct_md, size_t *length_p, void **address_p,
                                ucs_memory_type_t mem_type,
                                UCT_GLEX_MEM_ALLOC_SYS_DEV unsigned flags, const char *alloc_name,
                                uct_mem_h *memh_p)
{
    uct_glex_md_t *md = ucs_derived_of(uct_md, uct_glex_md_t);
    size_t length = ucs_align_up(*length_p, ucs_get_page_size());
    ucs_status_t status;
    uct_glex_memh_t *memh;
    glex_ret_t ret;
    void *address;

    if ((mem_type != UCS_MEMORY_TYPE_HOST) || (flags & UCT_MD_MEM_FLAG_FIXED)) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (length > UCT_GLEX_MAX_ALLOC) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }

    memh = ucs_malloc(sizeof(*memh), "uct_glex_memh");
    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    ret = glex_ext_mem_alloc(md->nic_home, length, &address);
    if (ret != GLEX_SUCCESS) {
        uct_md_log_mem_reg_error(flags, "glex: cannot allocate %zu bytes for %s: %s", length,
                                 alloc_name, glex_error_str(ret));
        status = uct_glex_status(ret);
        goto err_free;
    }
    status = uct_glex_reg_new(md, address, length, flags & UCT_MD_MEM_FLAG_HIDE_ERRORS, &memh->reg);
    if (status != UCS_OK) {
        goto err_free_mem;
    }
    memh->address = address;
    memh->length = length;
    memh->flags = flags;
    memh->revocable = UCT_GLEX_MEMH_REVOCABLE;
    *length_p = length;
    *address_p = address;
    *memh_p = memh;
    return UCS_OK;

err_free_mem:
    glex_ext_mem_free(md->nic_home, address);
err_free:
    ucs_free(memh);
    return status;
}

ucs_status_t uct_glex_mem_free(uct_md_h uct_md, uct_mem_h uct_memh)
{
    uct_glex_md_t *md = ucs_derived_of(uct_md, uct_glex_md_t);
    uct_glex_memh_t *memh = uct_memh;
    glex_ret_t ret;

    uct_glex_reg_cleanup(memh->reg);
    ucs_free(memh->reg);
    ret = glex_ext_mem_free(md->nic_home, memh->address);
    ucs_free(memh);
    return uct_glex_status(ret);
}

ucs_status_t uct_glex_memh_new(uct_glex_md_t *md, void *address, size_t length, unsigned flags,
                               uct_glex_memh_t **memh_p)
{
    uct_glex_memh_t *memh;
    ucs_status_t status;

    memh = ucs_malloc(sizeof(*memh), "uct_glex_memh");
    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memh->next = NULL;
    memh->address = address;
    memh->length = length;
    memh->reg = NULL;
    memh->flags = flags;
    memh->revocable = UCT_GLEX_MEMH_REVOCABLE;
    if (!uct_glex_md_rdma_now(md)) {
        status = uct_glex_memh_register(md, memh, 0);
        if (status != UCS_OK) {
            ucs_free(memh);
            return status;
        }
    }
    *memh_p = memh;
    return UCS_OK;
}

static void uct_glex_memh_free(uct_glex_md_t *md, uct_glex_memh_t *memh, uct_completion_t *comp)
{
    if (memh->reg != NULL) {
        uct_glex_reg_put(md, memh->reg, comp);
    } else if (comp != NULL) {
        uct_invoke_completion(comp, UCS_OK);
    }
    ucs_free(memh);
}

void uct_glex_memh_free_all(uct_glex_md_t *md, uct_glex_memh_t *first)
{
    uct_glex_memh_t *next;

    for (; first != NULL; first = next) {
        next = first->next;
        uct_glex_memh_free(md, first, NULL);
    }
}

ucs_status_t uct_glex_mem_reg(uct_md_h uct_md, void *address, size_t length,
                              uct_compat_mem_reg_arg_t arg, uct_mem_h *memh_p)
{
    return uct_glex_memh_new(ucs_derived_of(uct_md, uct_glex_md_t), address, length,
                             uct_compat_mem_reg_flags(arg), (uct_glex_memh_t **)memh_p);
}

ucs_status_t uct_glex_mem_dereg(uct_md_h uct_md, const uct_md_mem_dereg_params_t *params)
{
    uct_glex_md_t *md = ucs_derived_of(uct_md, uct_glex_md_t);
    uct_completion_t *comp = NULL;
    uct_glex_memh_t *memh;

    UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 1);
    memh = params->memh;
    if (UCT_MD_MEM_DEREG_FIELD_VALUE(params, flags, FIELD_FLAGS, 0) &
        UCT_MD_MEM_DEREG_FLAG_INVALIDATE) {
        if (!memh->revocable) {
            return UCS_ERR_INVALID_PARAM;
        }
        comp = params->comp;
    }
    if ((comp != NULL) && (memh->reg == NULL)) {
        /* Peers may access the memory by another handle. The other handle shares a region of the
         * cache, and the completion must wait until no handle uses the region. */
        (void)uct_glex_memh_register(md, memh, 0);
    }
    uct_glex_memh_free(md, memh, comp);
    return UCS_OK;
}

ucs_status_t uct_glex_mkey_pack(uct_md_h uct_md, uct_mem_h uct_memh,
                                UCT_COMPAT_MKEY_PACK_RANGE const uct_md_mkey_pack_params_t *params,
                                void *rkey_buffer)
{
    uct_glex_md_t *md = ucs_derived_of(uct_md, uct_glex_md_t);
    uct_glex_memh_t *memh = uct_memh;
    uct_glex_packed_rkey_t *packed = rkey_buffer;
    uct_glex_place_t place;
    ucs_status_t status;
    glex_ep_addr_t addr;
    glex_ret_t ret;

    status = uct_glex_memh_place(md, memh, 0, memh->address, &place);
    if (status != UCS_OK) {
        return status;
    }
    ret = glex_get_ep_addr(md->nic_home, &addr);
    if (ret != GLEX_SUCCESS) {
        ucs_error("glex: the endpoint has no address: %s", glex_error_str(ret));
        return uct_glex_status(ret);
    }
    memh->revocable |= UCT_GLEX_MKEY_REVOCABLE(params);
    packed->ep_addr = addr.v;
    packed->mh = place.mh.v;
    packed->address = (uintptr_t)memh->reg->address;
    packed->length = memh->reg->length;
    packed->key = md->key;
    packed->windows = 0;
    if (uct_glex_num_windows(packed->length) > 1) {
        packed->windows = uct_glex_num_windows(packed->length);
        packed->mh = memh->reg->windows_mh.v;
    }
    return UCS_OK;
}

/* ---- with a registration cache ---- */

static ucs_status_t uct_glex_rcache_mem_reg_cb(void *context, ucs_rcache_t *rcache, void *arg,
                                               ucs_rcache_region_t *rregion, uint16_t flags)
{
    uct_glex_rcache_region_t *region = ucs_derived_of(rregion, uct_glex_rcache_region_t);
    unsigned *md_flags = arg;
    uct_glex_md_t *md = context;

    return uct_glex_reg_init(&region->reg, md->nic_home, (void *)region->super.super.start,
                             region->super.super.end - region->super.super.start,
                             (flags & UCS_RCACHE_MEM_REG_HIDE_ERRORS) ||
                                 (*md_flags & UCT_MD_MEM_FLAG_HIDE_ERRORS));
}

static void uct_glex_rcache_mem_dereg_cb(void *context, ucs_rcache_t *rcache,
                                         ucs_rcache_region_t *rregion)
{
    uct_glex_reg_cleanup(&ucs_derived_of(rregion, uct_glex_rcache_region_t)->reg);
}

static void uct_glex_rcache_dump_region_cb(void *context, ucs_rcache_t *rcache,
                                           ucs_rcache_region_t *rregion, char *buf, size_t max)
{
    uct_glex_rcache_region_t *region = ucs_derived_of(rregion, uct_glex_rcache_region_t);

    snprintf(buf, max, "mh 0x%" PRIx64, region->reg.home.mh[0].v);
}

static ucs_rcache_ops_t uct_glex_rcache_ops = {.mem_reg = uct_glex_rcache_mem_reg_cb,
                                               .mem_dereg = uct_glex_rcache_mem_dereg_cb,
                                               UCT_GLEX_RCACHE_OPS.dump_region =
                                                   uct_glex_rcache_dump_region_cb};

/* The cost of zero copy beside a registration over the software NIC: process_vm_readv() takes 2.8 us
 * for 8 KB on a virtual machine with an AMD EPYC, where memcpy() takes 0.2 us. UCX has no figure for
 * this cost, but computes its thresholds from the cost of a registration. Without this addition UCP
 * sends messages of 2 KB by zero copy. A zero-copy message ends only when its receiver has run. An
 * all-to-all of 4 KB between 32 ranks on two processors then takes twice the time. */
#define UCT_GLEX_ZCOPY_COST (UCT_GLEX_NIC_RDMA_NOW ? 2300e-9 : 0)

static ucs_status_t uct_glex_rcache_init(uct_glex_md_t *md, const uct_glex_md_config_t *config)
{
    ucs_rcache_params_t params;
    ucs_status_t status;

    uct_glex_rcache_set_params(&params, &config->rcache);
    params.region_struct_size = sizeof(uct_glex_rcache_region_t);
    params.ucm_events = UCM_EVENT_VM_UNMAPPED;
    params.context = md;
    params.ops = &uct_glex_rcache_ops;
    status = ucs_rcache_create(&params, UCT_GLEX_NAME, ucs_stats_get_root(), &md->rcache);
    if (status != UCS_OK) {
        md->rcache = NULL;
        if (config->rcache_enable == UCS_YES) {
            ucs_error("glex: UCX_GLEX_RCACHE=y, but no registration cache can be made: %s",
                      ucs_status_string(status));
            return status;
        }
        ucs_debug("glex: no registration cache: %s", ucs_status_string(status));
        return UCS_OK;
    }
    md->reg_cost =
        ucs_linear_func_make(uct_glex_rcache_overhead(&config->rcache) + UCT_GLEX_ZCOPY_COST, 0);
    return UCS_OK;
}

ucs_status_t uct_glex_mem_init(uct_glex_md_t *md, const uct_glex_md_config_t *config)
{
    md->rcache = NULL;
    md->reg_cost = ucs_linear_func_make(200e-9 + UCT_GLEX_ZCOPY_COST, 0);
    return (config->rcache_enable == UCS_NO) ? UCS_OK : uct_glex_rcache_init(md, config);
}

void uct_glex_mem_cleanup(uct_glex_md_t *md)
{
    if (md->rcache != NULL) {
        ucs_rcache_destroy(md->rcache);
    }
}
