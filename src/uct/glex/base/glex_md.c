/*
 * The memory domain and its endpoints. Registrations: glex_mem.c.
 */
#include "base/glex_md.h"
#include "base/glex_config.h"

#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/string.h>
#include <ucs/sys/sys.h>
#include <string.h>

static const char *uct_glex_ep_types[] = {[GLEX_EP_TYPE_FAST] = "fast",
                                          [GLEX_EP_TYPE_NORMAL] = "normal",
                                          [GLEX_EP_TYPE_EMULATE] = "emulate",
                                          [GLEX_EP_TYPE_EMULATE + 1] = NULL};

static ucs_config_field_t uct_glex_md_config_table[] = {
    {"", "", NULL, ucs_offsetof(uct_glex_md_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    {"RCACHE", UCT_GLEX_RCACHE_DEFAULT, "Keep memory registered in a registration cache",
     ucs_offsetof(uct_glex_md_config_t, rcache_enable), UCS_CONFIG_TYPE_TERNARY},

    {"", "", NULL, ucs_offsetof(uct_glex_md_config_t, rcache),
     UCS_CONFIG_TYPE_TABLE(UCT_GLEX_RCACHE_CONFIG_TABLE)},

    {"EP_TYPE", "fast",
     "Type of the GLEX endpoint. Where the NIC has none left of this type, the next is tried.\n"
     " - fast    : descriptors by programmed I/O, lowest latency\n"
     " - normal  : descriptors by DMA\n"
     " - emulate : multiplexed by the driver",
     ucs_offsetof(uct_glex_md_config_t, ep_type), UCS_CONFIG_TYPE_ENUM(uct_glex_ep_types)},

    {"EP_HC_MPQ", "n", "Use a high-capacity message queue",
     ucs_offsetof(uct_glex_md_config_t, ep_hc_mpq), UCS_CONFIG_TYPE_BOOL},

    {"EP_HC_EQ", "n", "Use a high-capacity event queue",
     ucs_offsetof(uct_glex_md_config_t, ep_hc_eq), UCS_CONFIG_TYPE_BOOL},

    {"EP_DQ_CAPACITY", "0", "Entries of the descriptor queue, 0: the NIC's default",
     ucs_offsetof(uct_glex_md_config_t, ep_dq_capacity), UCS_CONFIG_TYPE_UINT},

    {"EP_MPQ_CAPACITY", "4096",
     "Entries of the message queue, 0: the NIC's default. Every connected peer needs at least 3.",
     ucs_offsetof(uct_glex_md_config_t, ep_mpq_capacity), UCS_CONFIG_TYPE_UINT},

    {"EP_EQ_CAPACITY", UCT_GLEX_NIC_EQ_CAPACITY,
     "Entries of the event queue, 0: the NIC's default. What other operations leave is for the ER\n"
     "channels.",
     ucs_offsetof(uct_glex_md_config_t, ep_eq_capacity), UCS_CONFIG_TYPE_UINT},

    {NULL}};

/* Entries of the queues of map_ep, which receives nothing */
#define UCT_GLEX_MD_MAP_EP_CAPACITY 16

/* The open domains of the process. rkey_ptr() is a function of the component, and needs a
 * domain. */
static pthread_mutex_t uct_glex_md_list_lock = PTHREAD_MUTEX_INITIALIZER;
static UCS_LIST_HEAD(uct_glex_md_list);

/* The software NIC chooses the lowest free number, perhaps the number of a just destroyed endpoint.
 * Requests in flight to the destroyed endpoint would arrive at the new endpoint. So choose a random
 * number. */
static glex_ret_t uct_glex_md_create_ep_random(uct_glex_md_t *md, glex_ep_handle_t *ep_p)
{
    uint32_t num = ucs_min(md->dev_attr.max_ep_num, UINT16_MAX);
    struct glex_ep_attr attr = md->ep_attr;

    if (!UCT_GLEX_NIC_RANDOM_NUM || (num <= UCT_GLEX_NIC_MIN_NUM)) {
        return GLEX_NO_EP_RESOURCE;
    }
    attr.num =
        UCT_GLEX_NIC_MIN_NUM + ucs_generate_uuid((uintptr_t)ep_p) % (num - UCT_GLEX_NIC_MIN_NUM);
    return glex_create_ep(md->dev, &attr, ep_p);
}

/* NICs have few fast endpoints: fall back to slower types */
static ucs_status_t uct_glex_md_create_ep(uct_glex_md_t *md, glex_ep_handle_t *ep_p)
{
    struct glex_ep_attr attr = md->ep_attr;
    glex_ret_t ret = uct_glex_md_create_ep_random(md, ep_p);

    while (ret == GLEX_NO_EP_RESOURCE) {
        ret = glex_create_ep(md->dev, &attr, ep_p);
        if ((ret != GLEX_NO_EP_RESOURCE) || (attr.type == GLEX_EP_TYPE_EMULATE)) {
            break;
        }
        attr.type = (enum glex_ep_type)(attr.type + 1);
    }
    if (ret != GLEX_SUCCESS) {
        ucs_error("glex: cannot create an endpoint on NIC 0x%x (mpq %u, eq %u entries): %s",
                  md->dev_attr.nic_id, attr.mpq_capacity, attr.eq_capacity, glex_error_str(ret));
        return uct_glex_status(ret);
    }
    glex_ext_set_single_threaded(*ep_p);
    return UCS_OK;
}

/* Discard messages, events and failed requests of the last interface at the endpoint */
static void uct_glex_md_drain_ep(glex_ep_handle_t ep)
{
    struct glex_err_req err;
    uint32_t num_errors = 1;
    glex_ep_addr_t src;
    glex_event_t *event;
    uint32_t length;
    void *data;

    while (glex_probe_next_mp(ep, &src, &data, &length) == GLEX_SUCCESS) {
        glex_discard_probed_mp(ep);
    }
    while (glex_probe_next_event(ep, &event) == GLEX_SUCCESS) {
        glex_discard_probed_event(ep);
    }
    while ((glex_poll_error_req(ep, &num_errors, &err) == GLEX_SUCCESS) && (num_errors > 0)) {
        num_errors = 1;
    }
}

/* Finds an unused endpoint, or makes a new endpoint. The caller holds the lock. */
static ucs_status_t uct_glex_md_ep_find(uct_glex_md_t *md, unsigned *index_p)
{
    uct_glex_md_ep_t *eps;
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < md->num_eps; ++i) {
        if (!md->eps[i].in_use) {
            *index_p = i;
            return UCS_OK;
        }
    }
    eps = ucs_realloc(md->eps, (md->num_eps + 1) * sizeof(*eps), "glex_md_eps");
    if (eps == NULL) {
        ucs_error("glex: no memory for an endpoint");
        return UCS_ERR_NO_MEMORY;
    }
    md->eps = eps;
    status = uct_glex_md_create_ep(md, &eps[i].nic);
    if (status == UCS_OK) {
        eps[i].in_use = 0;
        ++md->num_eps;
        glex_ext_set_domain(eps[i].nic, md->nic_home);
        *index_p = i;
    }
    return status;
}

ucs_status_t uct_glex_md_ep_get(uct_glex_md_t *md, uint32_t uuid, glex_ep_handle_t *ep_p,
                                unsigned *index_p)
{
    ucs_status_t status;

    pthread_mutex_lock(&md->lock);
    status = uct_glex_md_ep_find(md, index_p);
    if (status == UCS_OK) {
        *ep_p = md->eps[*index_p].nic;
        uct_glex_md_drain_ep(*ep_p);
        glex_ext_set_receiver(*ep_p, uuid); /* if the NIC cannot, peers notice only by END */
        md->eps[*index_p].in_use = 1;
    }
    pthread_mutex_unlock(&md->lock);
    return status;
}

/* The endpoint and its registrations are kept for the next interface. As long as the domain lives,
 * its own endpoint is the target of RMA from this host. */
void uct_glex_md_ep_put(uct_glex_md_t *md, unsigned index)
{
    pthread_mutex_lock(&md->lock);
    glex_ext_set_receiver(md->eps[index].nic, 0);
    md->eps[index].in_use = 0;
    pthread_mutex_unlock(&md->lock);
}

void uct_glex_md_keep(uct_glex_md_t *md, uct_glex_md_kept_t *kept)
{
    pthread_mutex_lock(&md->lock);
    ucs_list_add_tail(&md->kept, &kept->list);
    pthread_mutex_unlock(&md->lock);
}

uct_glex_md_kept_t *uct_glex_md_find_kept(uct_glex_md_t *md, unsigned ep_index)
{
    uct_glex_md_kept_t *kept, *found = NULL;

    pthread_mutex_lock(&md->lock);
    ucs_list_for_each(kept, &md->kept, list) {
        if (kept->ep_index == ep_index) {
            found = kept;
            break;
        }
    }
    pthread_mutex_unlock(&md->lock);
    return found;
}

static ucs_status_t uct_glex_md_open_device(uct_glex_md_t *md)
{
    glex_ret_t ret;

    ret = glex_open_device(md->nic, &md->dev);
    if (ret != GLEX_SUCCESS) {
        ucs_error("glex: cannot open NIC %u: %s; glex_info tells more", md->nic,
                  glex_error_str(ret));
        return uct_glex_status(ret);
    }

    ret = glex_query_device(md->dev, &md->dev_attr);
    if (ret == GLEX_SUCCESS) {
        ret = glex_ext_query_device(md->dev, &md->ext_attr);
    }
    if (ret != GLEX_SUCCESS) {
        ucs_error("glex: cannot query NIC %u: %s", md->nic, glex_error_str(ret));
        glex_close_device(md->dev);
        return uct_glex_status(ret);
    }
    if ((md->dev_attr.max_imm_mp_data_len < UCT_GLEX_MP_LEN) ||
        (md->dev_attr.max_imm_rdma_data_len < UCT_GLEX_IMM_PUT_LEN)) {
        ucs_error("glex: the NIC carries %u bytes in a message and %u in an immediate put, "
                  "at least %d and %d are needed",
                  md->dev_attr.max_imm_mp_data_len, md->dev_attr.max_imm_rdma_data_len,
                  UCT_GLEX_MP_LEN, UCT_GLEX_IMM_PUT_LEN);
        glex_close_device(md->dev);
        return UCS_ERR_UNSUPPORTED;
    }
    if (!uct_glex_md_has_private_rdma(md)) {
        ucs_diag("glex: no zero-copy: %s", md->ext_attr.missing);
    }
    return UCS_OK;
}

static void uct_glex_md_set_ep_attr(uct_glex_md_t *md, const uct_glex_md_config_t *config)
{
    memset(&md->ep_attr, 0, sizeof(md->ep_attr));
    md->ep_attr.type = (enum glex_ep_type)config->ep_type;
    md->ep_attr.mpq_type = config->ep_hc_mpq ? GLEX_MPQ_TYPE_HIGH_CAPACITY : GLEX_MPQ_TYPE_NORMAL;
    md->ep_attr.eq_type = config->ep_hc_eq ? GLEX_EQ_TYPE_HIGH_CAPACITY : GLEX_EQ_TYPE_NORMAL;
    md->ep_attr.num = GLEX_ANY_EP_NUM;
    md->ep_attr.key = md->key;
    md->ep_attr.dq_capacity = config->ep_dq_capacity;
    md->ep_attr.mpq_capacity = config->ep_mpq_capacity;
    md->ep_attr.eq_capacity = config->ep_eq_capacity;
}

static ucs_status_t uct_glex_md_check_config(uct_glex_md_t *md, const uct_glex_md_config_t *config)
{
    const struct glex_device_attr *dev = &md->dev_attr;
    uct_glex_config_range_t ranges[] = {
        {"EP_DQ_CAPACITY", config->ep_dq_capacity, 8, dev->max_ep_dq_capacity, 1},
        {"EP_MPQ_CAPACITY", config->ep_mpq_capacity, 16,
         config->ep_hc_mpq ? dev->max_ep_hc_mpq_capacity : dev->max_ep_mpq_capacity, 1},
        {"EP_EQ_CAPACITY", config->ep_eq_capacity, 64,
         config->ep_hc_eq ? dev->max_ep_hc_eq_capacity : dev->max_ep_eq_capacity, 1},
    };

    return uct_glex_config_check_ranges(ranges, ucs_static_array_size(ranges));
}

/* Returns 0 if `md_name` is not the name of a glex domain */
static int uct_glex_md_parse_name(const char *md_name, uint32_t *nic_p)
{
    char name[UCT_MD_NAME_MAX];

    if (sscanf(md_name, UCT_GLEX_MD_NAME, nic_p) != 1) {
        return 0;
    }
    ucs_snprintf_zero(name, sizeof(name), UCT_GLEX_MD_NAME, *nic_p);
    return strcmp(name, md_name) == 0;
}

static ucs_status_t uct_glex_md_query(uct_md_h uct_md, uct_compat_md_attr_t *attr)
{
    uct_glex_md_t *md = ucs_derived_of(uct_md, uct_glex_md_t);
    __auto_type cap = UCT_COMPAT_MD_ATTR(attr);

    uct_compat_md_attr_init(attr);
    cap->flags = UCT_MD_FLAG_NEED_RKEY;
    if (uct_glex_md_needs_memh(md)) {
        cap->flags |= UCT_MD_FLAG_NEED_MEMH;
    }
    cap->access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    if (uct_glex_md_has_private_rdma(md)) {
        cap->flags |= UCT_MD_FLAG_REG | UCT_GLEX_MD_FLAG_INVALIDATE;
        cap->max_reg = SIZE_MAX;
        uct_glex_md_attr_set_reg_types(attr, UCS_BIT(UCS_MEMORY_TYPE_HOST));
    } else if (md->ext_attr.caps & GLEX_EXT_CAP_MAP) {
        /* Together with REG, UCP would expect RKEY_PTR to work for all registered memory */
        cap->flags |= UCT_MD_FLAG_RKEY_PTR;
    }
    if (md->ext_attr.caps & GLEX_EXT_CAP_MAP) {
        cap->flags |= UCT_MD_FLAG_ALLOC;
        cap->alloc_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
        cap->max_alloc = UCT_GLEX_MAX_ALLOC;
    }
    attr->rkey_packed_size = sizeof(uct_glex_packed_rkey_t);
    attr->reg_cost = md->reg_cost;
    return UCS_OK;
}

static void uct_glex_md_close(uct_md_h uct_md)
{
    uct_glex_md_t *md = ucs_derived_of(uct_md, uct_glex_md_t);
    uct_glex_md_kept_t *kept;
    unsigned i;

    pthread_mutex_lock(&uct_glex_md_list_lock);
    ucs_list_del(&md->list);
    pthread_mutex_unlock(&uct_glex_md_list_lock);

    while (!ucs_list_is_empty(&md->kept)) {
        kept = ucs_list_extract_head(&md->kept, uct_glex_md_kept_t, list);
        kept->destroy(kept);
    }
    uct_glex_mem_cleanup(md);
    if (md->map_ep != NULL) {
        glex_destroy_ep(md->map_ep);
    }
    for (i = md->num_eps; i-- > 0;) { /* the domain's own endpoint last: other endpoints serve its
                                       * memory */
        glex_destroy_ep(md->eps[i].nic);
    }
    glex_close_device(md->dev);
    ucs_free(md->eps);
    pthread_mutex_destroy(&md->lock);
    ucs_free(md);
}

static uct_md_ops_t uct_glex_md_ops = {
    .close = uct_glex_md_close,
    .query = uct_glex_md_query,
    .mem_alloc = uct_glex_mem_alloc,
    .mem_free = uct_glex_mem_free,
    .mem_advise = (uct_md_mem_advise_func_t)ucs_empty_function_return_unsupported,
    .mem_reg = uct_glex_mem_reg,
    .mem_dereg = uct_glex_mem_dereg,
    .mem_query = (uct_md_mem_query_func_t)ucs_empty_function_return_unsupported,
    .mkey_pack = uct_glex_mkey_pack,
    .detect_memory_type = (uct_md_detect_memory_type_func_t)ucs_empty_function_return_unsupported,
    UCT_COMPAT_MD_OPS};

static ucs_status_t uct_glex_md_open(uct_component_t *component, const char *md_name,
                                     const uct_md_config_t *md_config, uct_md_h *md_p)
{
    const uct_glex_md_config_t *config = ucs_derived_of(md_config, uct_glex_md_config_t);
    ucs_status_t status;
    uct_glex_md_t *md;
    unsigned home;
    uint32_t nic;

    if (!uct_glex_md_parse_name(md_name, &nic)) {
        ucs_error("glex: no memory domain is called %s, they are called " UCT_GLEX_MD_NAME
                  " and so on",
                  md_name, 0);
        return UCS_ERR_NO_DEVICE;
    }

    md = ucs_calloc(1, sizeof(*md), "uct_glex_md");
    if (md == NULL) {
        ucs_error("glex: no memory for a memory domain");
        return UCS_ERR_NO_MEMORY;
    }
    md->super.component = component;
    md->nic = nic;
    md->key = (uint32_t)ucs_generate_uuid((uintptr_t)md);
    pthread_mutex_init(&md->lock, NULL);
    ucs_list_head_init(&md->kept);

    status = uct_glex_md_open_device(md);
    if (status != UCS_OK) {
        goto err_free;
    }
    status = uct_glex_md_check_config(md, config);
    if (status != UCS_OK) {
        goto err_close_device;
    }
    uct_glex_md_set_ep_attr(md, config);
    status = uct_glex_md_ep_find(md, &home);
    if (status != UCS_OK) {
        goto err_close_device;
    }
    md->nic_home = md->eps[home].nic;
    md->super.ops = &uct_glex_md_ops;
    status = uct_glex_mem_init(md, config);
    if (status != UCS_OK) {
        goto err_destroy_ep;
    }

    pthread_mutex_lock(&uct_glex_md_list_lock);
    ucs_list_add_tail(&uct_glex_md_list, &md->list);
    pthread_mutex_unlock(&uct_glex_md_list_lock);
    *md_p = &md->super;
    return UCS_OK;

err_destroy_ep:
    glex_destroy_ep(md->nic_home);
err_close_device:
    glex_close_device(md->dev);
err_free:
    ucs_free(md->eps);
    pthread_mutex_destroy(&md->lock);
    ucs_free(md);
    return status;
}

static ucs_status_t uct_glex_md_query_resources(uct_component_t *component,
                                                uct_md_resource_desc_t **resources_p,
                                                unsigned *num_resources_p)
{
    uct_md_resource_desc_t *resources;
    uint32_t num_devices = 0, i;
    glex_ret_t ret;

    ret = glex_num_of_device(&num_devices);
    if ((ret != GLEX_SUCCESS) || (num_devices == 0)) {
        ucs_diag("glex: not usable, no NIC: %s; glex_info tells more", glex_error_str(ret));
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }

    resources = ucs_calloc(num_devices, sizeof(*resources), "md resources");
    if (resources == NULL) {
        ucs_error("glex: no memory to list the NICs");
        return UCS_ERR_NO_MEMORY;
    }
    for (i = 0; i < num_devices; ++i) {
        ucs_snprintf_zero(resources[i].md_name, sizeof(resources[i].md_name), UCT_GLEX_MD_NAME, i);
    }
    *resources_p = resources;
    *num_resources_p = num_devices;
    return UCS_OK;
}

void *uct_glex_map(glex_ep_handle_t ep, const uct_glex_packed_rkey_t *packed, uint64_t address,
                   size_t length, struct glex_ext_pin **pin_p)
{
    glex_mem_handle_t mh = {.v = packed->mh};
    glex_ep_addr_t peer = {.v = packed->ep_addr};
    void *ptr;

    if (packed->windows > 0) {
        return NULL; /* private memory: an allocation of the NIC has a single handle */
    }
    return (glex_ext_peer_ptr(ep, peer, mh, packed->key, address - packed->address, length, &ptr,
                              pin_p) == GLEX_SUCCESS) ?
               ptr :
               NULL;
}

int uct_glex_rkey_map(uct_glex_rkey_t *rkey, glex_ep_handle_t ep)
{
    const uct_glex_packed_rkey_t *packed = &rkey->packed;
    glex_mem_handle_t mh = {.v = packed->mh};
    glex_ep_addr_t peer = {.v = packed->ep_addr};
    glex_ep_handle_t nobody = NULL;

    /* relaxed: only this thread reads the fields below */
    if (!__atomic_compare_exchange_n(&rkey->ep, &nobody, ep, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        return nobody == ep; /* `nobody` is now the owner */
    }
    rkey->ptr = uct_glex_map(ep, packed, packed->address, packed->length, &rkey->pin);
    if ((rkey->ptr != NULL) &&
        (glex_ext_peer_watch(ep, peer, mh, packed->key, &rkey->watch) != GLEX_SUCCESS)) {
        rkey->ptr = NULL;
        rkey->watch.pin = NULL;
    }
    return 1;
}

/* Any thread may call rkey_ptr(), but an endpoint is for a single thread. So the domain has an
 * extra endpoint for this purpose, used under the lock of the list. */
static void *uct_glex_md_map(uct_glex_md_t *md, const uct_glex_packed_rkey_t *packed,
                             struct glex_ext_pin **pin_p)
{
    struct glex_ep_attr attr = md->ep_attr;

    if (md->map_ep == NULL) {
        attr.mpq_capacity = UCT_GLEX_MD_MAP_EP_CAPACITY;
        attr.eq_capacity = UCT_GLEX_MD_MAP_EP_CAPACITY;
        if (glex_create_ep(md->dev, &attr, &md->map_ep) != GLEX_SUCCESS) {
            md->map_ep = NULL;
            return NULL;
        }
    }
    return uct_glex_map(md->map_ep, packed, packed->address, packed->length, pin_p);
}

static ucs_status_t uct_glex_windows_new(const uct_glex_packed_rkey_t *packed,
                                         uct_glex_windows_t **windows_p)
{
    unsigned num = uct_glex_num_windows(packed->length);
    uct_glex_windows_t *windows;

    if (packed->windows == 0) {
        *windows_p = NULL;
        return UCS_OK;
    }
    if ((packed->windows != num) || (packed->length > UCT_GLEX_MAX_REG)) {
        ucs_error("glex: a remote key of %" PRIu64 " bytes with %u windows instead of %u",
                  packed->length, packed->windows, num);
        return UCS_ERR_INVALID_PARAM;
    }
    windows = ucs_malloc(sizeof(*windows) + num * sizeof(windows->mh[0]), "uct_glex_windows");
    if (windows == NULL) {
        ucs_error("glex: no memory for a remote key");
        return UCS_ERR_NO_MEMORY;
    }
    windows->num = num;
    windows->state = UCT_GLEX_WINDOWS_NONE;
    windows->refs = 1;
    *windows_p = windows;
    return UCS_OK;
}

void uct_glex_windows_put(uct_glex_windows_t *windows)
{
    /* acq_rel: writes of both users come before the free */
    if ((windows != NULL) && (__atomic_sub_fetch(&windows->refs, 1, __ATOMIC_ACQ_REL) == 0)) {
        ucs_free(windows);
    }
}

static ucs_status_t uct_glex_rkey_unpack(uct_component_t *component, const void *rkey_buffer,
                                         UCT_GLEX_RKEY_UNPACK_PARAMS uct_rkey_t *rkey_p,
                                         void **handle_p)
{
    uct_glex_rkey_t *rkey = ucs_malloc(sizeof(*rkey), "uct_glex_rkey");
    ucs_status_t status;

    if (rkey == NULL) {
        ucs_error("glex: no memory for a remote key");
        return UCS_ERR_NO_MEMORY;
    }
    memset(rkey, 0, sizeof(*rkey));
    memcpy(&rkey->packed, rkey_buffer, sizeof(rkey->packed));
    status = uct_glex_windows_new(&rkey->packed, &rkey->windows);
    if (status != UCS_OK) {
        ucs_free(rkey);
        return status;
    }
    *rkey_p = (uintptr_t)rkey;
    *handle_p = NULL;
    return UCS_OK;
}

static ucs_status_t uct_glex_rkey_ptr(uct_component_t *component, uct_rkey_t uct_rkey, void *handle,
                                      uint64_t remote_addr, void **local_addr_p)
{
    uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;
    void *ptr;

    if ((remote_addr < rkey->packed.address) ||
        (remote_addr - rkey->packed.address >= rkey->packed.length)) {
        return UCS_ERR_INVALID_ADDR;
    }

    pthread_mutex_lock(&uct_glex_md_list_lock);
    if ((rkey->user_ptr == NULL) && !ucs_list_is_empty(&uct_glex_md_list)) {
        rkey->user_ptr = uct_glex_md_map(ucs_list_head(&uct_glex_md_list, uct_glex_md_t, list),
                                         &rkey->packed, &rkey->user_pin);
    }
    ptr = rkey->user_ptr;
    pthread_mutex_unlock(&uct_glex_md_list_lock);
    if (ptr == NULL) {
        return UCS_ERR_UNREACHABLE;
    }
    *local_addr_p = UCS_PTR_BYTE_OFFSET(ptr, remote_addr - rkey->packed.address);
    return UCS_OK;
}

static ucs_status_t uct_glex_rkey_release(uct_component_t *component, uct_rkey_t uct_rkey,
                                          void *handle)
{
    uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)uct_rkey;

    glex_ext_unpin(rkey->pin);
    glex_ext_unpin(rkey->watch.pin);
    glex_ext_unpin(rkey->user_pin);
    uct_glex_windows_put(rkey->windows);
    ucs_free(rkey);
    return UCS_OK;
}

/* Keys of a registration are equal, whichever endpoint unpacked them */
int uct_glex_rkey_cmp(uct_rkey_t a, uct_rkey_t b)
{
    return memcmp(&((uct_glex_rkey_t *)a)->packed, &((uct_glex_rkey_t *)b)->packed,
                  sizeof(uct_glex_packed_rkey_t));
}

uct_component_t uct_glex_component = {
    .query_md_resources = uct_glex_md_query_resources,
    .md_open = uct_glex_md_open,
    .cm_open = (uct_component_cm_open_func_t)ucs_empty_function_return_unsupported,
    .rkey_unpack = uct_glex_rkey_unpack,
    .rkey_ptr = uct_glex_rkey_ptr,
    .rkey_release = uct_glex_rkey_release,
    UCT_GLEX_COMPONENT_OPS.name = UCT_GLEX_NAME,
    .md_config =
        {
            .name = "GLEX memory domain",
            .prefix = "GLEX_",
            .table = uct_glex_md_config_table,
            .size = sizeof(uct_glex_md_config_t),
        },
    .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list = UCT_COMPONENT_TL_LIST_INITIALIZER(&uct_glex_component),
    .flags = 0,
    .md_vfs_init = (uct_component_md_vfs_init_func_t)ucs_empty_function};
