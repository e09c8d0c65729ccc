#include "ud_mon_md.h"

#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/string.h>

#include <errno.h>
#include <stdlib.h>

static ucs_status_t uct_ud_mon_query_md_resources(uct_component_t *component,
                                                  uct_md_resource_desc_t **resources_p,
                                                  unsigned *num_resources_p)
{
    struct ibv_device **devices;
    uct_md_resource_desc_t *resources;
    int i, count;

    (void)component;
    devices = ibv_get_device_list(&count);
    if (devices == NULL) {
        ucs_debug("ib_ud_mon: not usable: the kernel has no RDMA devices (%m)");
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }
    if (count == 0) {
        ucs_debug("ib_ud_mon: not usable: this host has no RDMA device");
        ibv_free_device_list(devices);
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }
    resources = ucs_calloc(count, sizeof(*resources), "ud_mon md resources");
    if (resources == NULL) {
        ibv_free_device_list(devices);
        return UCS_ERR_NO_MEMORY;
    }
    for (i = 0; i < count; ++i) {
        ucs_snprintf_zero(resources[i].md_name, UCT_MD_NAME_MAX, "%s",
                          ibv_get_device_name(devices[i]));
    }
    ibv_free_device_list(devices);
    *resources_p = resources;
    *num_resources_p = count;
    return UCS_OK;
}

static struct ibv_context *uct_ud_mon_open_device(const char *name)
{
    struct ibv_context *context = NULL;
    struct ibv_device **devices;
    int i, count;

    devices = ibv_get_device_list(&count);
    if (devices == NULL) {
        ucs_error("ib_ud_mon: cannot list RDMA devices: %m");
        return NULL;
    }
    for (i = 0; i < count; ++i) {
        if (!strcmp(ibv_get_device_name(devices[i]), name)) {
            context = ibv_open_device(devices[i]);
            break;
        }
    }
    if (context == NULL) {
        ucs_error("ib_ud_mon: cannot open RDMA device %s: %s", name,
                  (i == count) ? "no such device" :
                                 "check the permissions of /dev/infiniband/uverbs*");
    }
    ibv_free_device_list(devices);
    return context;
}

static void uct_ud_mon_md_close(uct_md_h tl_md)
{
    uct_ud_mon_md_t *md = ucs_derived_of(tl_md, uct_ud_mon_md_t);

    if (ibv_dealloc_pd(md->pd) != 0) {
        ucs_warn("ib_ud_mon: %s: the protection domain is still in use: %m", md->name);
    }
    ibv_close_device(md->context);
    ucs_free(md);
}

static ucs_status_t uct_ud_mon_md_query(uct_md_h tl_md, uct_compat_md_attr_t *attr)
{
    uct_ud_mon_md_t *md = ucs_derived_of(tl_md, uct_ud_mon_md_t);
    __auto_type cap = UCT_COMPAT_MD_ATTR(attr);

    uct_compat_md_attr_init(attr);
    cap->max_reg = md->attr.max_mr_size;
    cap->flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH;
    cap->reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    cap->access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->reg_cost = ucs_linear_func_make(10e-6, 80e-12);
    ucs_strncpy_zero(attr->component_name, uct_ib_ud_mon_component.name, UCT_COMPONENT_NAME_MAX);
    return UCS_OK;
}

/* The memory is registered for sending only. No peer can access it. */
static ucs_status_t uct_ud_mon_mem_reg(uct_md_h tl_md, void *address, size_t length,
                                       uct_compat_mem_reg_arg_t arg, uct_mem_h *memh_p)
{
    uct_ud_mon_md_t *md = ucs_derived_of(tl_md, uct_ud_mon_md_t);
    struct ibv_mr *mr;

    mr = ibv_reg_mr(md->pd, address, length, 0); /* local reads need no permission */
    if (mr == NULL) {
        uct_md_log_mem_reg_error(uct_compat_mem_reg_flags(arg),
                                 "ib_ud_mon: cannot register %zu bytes at %p on %s: %m%s", length,
                                 address, md->name, (errno == ENOMEM) ? " (see ulimit -l)" : "");
        return UCS_ERR_IO_ERROR;
    }
    *memh_p = mr;
    return UCS_OK;
}

static ucs_status_t uct_ud_mon_mem_dereg(uct_md_h tl_md, const uct_md_mem_dereg_params_t *params)
{
    (void)tl_md;
    UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 0);
    if (ibv_dereg_mr(params->memh) != 0) {
        ucs_error("ib_ud_mon: cannot deregister memory: %m");
        return UCS_ERR_IO_ERROR;
    }
    return UCS_OK;
}

/* There is no remote access, so a packed key is empty. */
static ucs_status_t
uct_ud_mon_mkey_pack(uct_md_h md, uct_mem_h memh,
                     UCT_COMPAT_MKEY_PACK_RANGE const uct_md_mkey_pack_params_t *params,
                     void *buffer)
{
    (void)md;
    (void)memh;
    (void)params;
    (void)buffer;
    return UCS_OK;
}

static ucs_status_t uct_ud_mon_rkey_release(uct_component_t *component, uct_rkey_t rkey,
                                            void *handle)
{
    (void)component;
    (void)rkey;
    (void)handle;
    return UCS_OK;
}

static uct_md_ops_t uct_ud_mon_md_ops = {
    .close = uct_ud_mon_md_close,
    .query = uct_ud_mon_md_query,
    .mem_alloc = (uct_md_mem_alloc_func_t)ucs_empty_function_return_unsupported,
    .mem_free = (uct_md_mem_free_func_t)ucs_empty_function_return_unsupported,
    .mem_advise = (uct_md_mem_advise_func_t)ucs_empty_function_return_unsupported,
    .mem_reg = uct_ud_mon_mem_reg,
    .mem_dereg = uct_ud_mon_mem_dereg,
    .mem_query = (uct_md_mem_query_func_t)ucs_empty_function_return_unsupported,
    .mkey_pack = uct_ud_mon_mkey_pack,
    .detect_memory_type = (uct_md_detect_memory_type_func_t)ucs_empty_function_return_unsupported,
    UCT_COMPAT_MD_OPS};

static ucs_status_t uct_ud_mon_md_open(uct_component_t *component, const char *md_name,
                                       const uct_md_config_t *config, uct_md_h *md_p)
{
    ucs_status_t status = UCS_ERR_IO_ERROR;
    uct_ud_mon_md_t *md;

    (void)config;
    md = ucs_calloc(1, sizeof(*md), "ud_mon md");
    if (md == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    md->super.ops = &uct_ud_mon_md_ops;
    md->super.component = component;
    ucs_snprintf_zero(md->name, sizeof(md->name), "%s", md_name);
    md->context = uct_ud_mon_open_device(md_name);
    if (md->context == NULL) {
        status = UCS_ERR_NO_DEVICE;
        goto err_free;
    }
    if (ibv_query_device(md->context, &md->attr) != 0) {
        ucs_error("ib_ud_mon: cannot query RDMA device %s: %m", md_name);
        goto err_close;
    }
    md->pd = ibv_alloc_pd(md->context);
    if (md->pd == NULL) {
        ucs_error("ib_ud_mon: no protection domain on %s: %m", md_name);
        goto err_close;
    }
    /* Reading a port's news must never block progress. */
    status = ucs_sys_fcntl_modfl(md->context->async_fd, O_NONBLOCK, 0);
    if (status != UCS_OK) {
        goto err_pd;
    }
    *md_p = &md->super;
    return UCS_OK;

err_pd:
    ibv_dealloc_pd(md->pd);
err_close:
    ibv_close_device(md->context);
err_free:
    ucs_free(md);
    return status;
}

uint8_t uct_ud_mon_md_port(const uct_ud_mon_md_t *md, const char *dev_name)
{
    size_t length = strlen(md->name);
    unsigned long port;
    char *end;

    if (strncmp(dev_name, md->name, length) || (dev_name[length] != ':')) {
        return 0;
    }
    port = strtoul(dev_name + length + 1, &end, 10);
    return ((*end == '\0') && (port <= md->attr.phys_port_cnt)) ? port : 0;
}

ucs_status_t uct_ud_mon_query_devices(uct_md_h tl_md, uct_tl_device_resource_t **devices_p,
                                      unsigned *num_devices_p)
{
    uct_ud_mon_md_t *md = ucs_derived_of(tl_md, uct_ud_mon_md_t);
    uct_tl_device_resource_t *devices;
    struct ibv_port_attr port;
    unsigned count = 0;
    int i;

    devices = ucs_calloc(md->attr.phys_port_cnt, sizeof(*devices), "ud_mon devices");
    if (devices == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    for (i = 1; i <= md->attr.phys_port_cnt; ++i) {
        if ((ibv_query_port(md->context, i, &port) != 0) || (port.state != IBV_PORT_ACTIVE)) {
            ucs_debug("ib_ud_mon: port %s:%d is not usable: it has no active link", md->name, i);
            continue;
        }
        ucs_snprintf_zero(devices[count].name, sizeof(devices[count].name), "%s:%d", md->name, i);
        devices[count].type = UCT_DEVICE_TYPE_NET;
        devices[count].sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
        ++count;
    }
    *devices_p = devices;
    *num_devices_p = count;
    return UCS_OK;
}

uct_component_t uct_ib_ud_mon_component = {
    .query_md_resources = uct_ud_mon_query_md_resources,
    .md_open = uct_ud_mon_md_open,
    .cm_open = (uct_component_cm_open_func_t)ucs_empty_function_return_unsupported,
    .rkey_unpack = uct_md_stub_rkey_unpack,
    .rkey_ptr = (uct_component_rkey_ptr_func_t)ucs_empty_function_return_unsupported,
    .rkey_release = uct_ud_mon_rkey_release,
    .name = "ib_ud_mon",
    .md_config = UCT_MD_DEFAULT_CONFIG_INITIALIZER,
    .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list = UCT_COMPONENT_TL_LIST_INITIALIZER(&uct_ib_ud_mon_component),
    .flags = 0,
    .md_vfs_init = (uct_component_md_vfs_init_func_t)ucs_empty_function,
    UCT_COMPAT_RKEY_COMPARE};
