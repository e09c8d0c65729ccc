#include "proto/gfi_op.h"

#include <stdlib.h>

/* Waits until pending control messages, and requests in the NIC, have left */
static void gfi_domain_goodbye(struct gfi_domain *domain)
{
    uint64_t until = gfi_now_ms() + GFI_GOODBYE_MS;

    while (gfi_now_ms() < until) {
        gfi_progress(domain);
        if (!domain->due && uct_iface_flush(domain->uct.iface, 0, NULL) == UCS_OK) {
            break;
        }
    }
}

static int gfi_domain_close(struct fid *fid)
{
    struct gfi_domain *domain = gfi_of(fid, struct gfi_domain, fid.fid);

    if (domain->refs > 0) {
        return -FI_EBUSY;
    }
    gfi_thread_stop(domain);
    gfi_peers_say_bye(domain);
    gfi_domain_goodbye(domain);
    gfi_ops_cleanup(domain);
    gfi_peers_cleanup(domain);
    gfi_map_cleanup(&domain->mrs);
    gfi_uct_close(&domain->uct);
    if (domain->rouse_fd >= 0) {
        close(domain->rouse_fd);
    }
    pthread_mutex_destroy(&domain->lock);
    gfi_ref_put(&domain->fabric->refs);
    free(domain);
    return 0;
}

static struct fi_ops gfi_domain_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_domain_close,
    .bind = gfi_domain_bind,
    .control = gfi_no_control,
    .ops_open = gfi_no_ops_open,
};

int gfi_domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    (void)fid, (void)flags;
    /* nothing of a domain is reported: registration and the rest end when they are called */
    return bfid->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static int gfi_no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                              void *context)
{
    (void)domain, (void)info, (void)sep, (void)context;
    return -FI_ENOSYS;
}

static int gfi_no_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                      void *context)
{
    (void)domain, (void)attr, (void)stx, (void)context;
    return -FI_ENOSYS;
}

static int gfi_no_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                      void *context)
{
    (void)domain, (void)attr, (void)rx_ep, (void)context;
    return -FI_ENOSYS;
}

static struct fi_ops_domain gfi_domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = gfi_av_open,
    .cq_open = gfi_cq_open,
    .endpoint = gfi_ep_open,
    .scalable_ep = gfi_no_scalable_ep,
    .cntr_open = gfi_cntr_open,
    .poll_open = gfi_poll_open,
    .stx_ctx = gfi_no_stx,
    .srx_ctx = gfi_no_srx,
    .query_atomic = gfi_query_atomic,
};

static int gfi_domain_init_addr(struct gfi_domain *domain)
{
    struct gfi_addr *addr = &domain->addr;
    const uct_iface_attr_t *attr = &domain->uct.attr;

    if (attr->device_addr_len + attr->iface_addr_len > sizeof(addr->bytes)) {
        GFI_WARN(FI_LOG_DOMAIN, "the transport's addresses are longer than %zu bytes\n",
                 sizeof(addr->bytes));
        return -FI_EOPNOTSUPP;
    }
    addr->version = GFI_WIRE_VERSION;
    addr->device_len = (uint8_t)attr->device_addr_len;
    addr->iface_len = (uint8_t)attr->iface_addr_len;
    if (uct_iface_get_device_address(domain->uct.iface, (uct_device_addr_t *)addr->bytes) !=
            UCS_OK ||
        uct_iface_get_address(domain->uct.iface,
                              (uct_iface_addr_t *)(addr->bytes + addr->device_len)) != UCS_OK) {
        GFI_WARN(FI_LOG_DOMAIN, "the transport does not tell its address\n");
        return -FI_EOPNOTSUPP;
    }
    return 0;
}

static void gfi_domain_init_sizes(struct gfi_domain *domain)
{
    const uct_iface_attr_t *attr = &domain->uct.attr;

    domain->eager_size = gfi_min(gfi_params.eager_size, attr->cap.am.max_bcopy - GFI_MAX_PREFIX);
    if (domain->eager_size < gfi_params.eager_size && gfi_params.eager_size != GFI_EAGER_SIZE) {
        GFI_WARN(FI_LOG_DOMAIN,
                 "FI_GLEX_EAGER_SIZE=%zu is more than the transport sends at once: %zu is used; "
                 "UCX_GLEX_SRQ_UNIT_SIZE raises the limit\n",
                 gfi_params.eager_size, domain->eager_size);
    }
    /* without am_short all goes by am_bcopy */
    domain->short_size =
        attr->cap.flags & UCT_IFACE_FLAG_AM_SHORT ? attr->cap.am.max_short - sizeof(uint64_t) : 0;
    domain->atomic_size = gfi_min((size_t)GFI_ATOMIC_BYTES,
                                  (attr->cap.am.max_bcopy - sizeof(struct gfi_atomic_request)) / 2);
}

/* The thread of FI_PROGRESS_AUTO always needs the lock.
 * With FI_THREAD_DOMAIN the program calls from one thread at a time. Since libfabric 2 this promise
 * excludes the control interface, such as the insertion of addresses, unless the program also
 * promises FI_PROGRESS_CONTROL_UNIFIED. */
static bool gfi_domain_needs_lock(const struct fi_domain_attr *attr, uint32_t version)
{
    return attr->threading != FI_THREAD_DOMAIN || attr->data_progress == FI_PROGRESS_AUTO ||
           (FI_VERSION_GE(version, FI_VERSION(2, 0)) &&
            attr->control_progress != GFI_PROGRESS_CONTROL_UNIFIED);
}

static struct gfi_domain *gfi_domain_new(struct gfi_fabric *fabric, const struct fi_info *info,
                                         void *context)
{
    struct gfi_domain *domain = calloc(1, sizeof(*domain));

    if (domain == NULL) {
        return NULL;
    }
    domain->fabric = fabric;
    domain->fid.fid.fclass = FI_CLASS_DOMAIN;
    domain->fid.fid.context = context;
    domain->fid.fid.ops = &gfi_domain_fi_ops;
    domain->fid.ops = &gfi_domain_ops;
    domain->fid.mr = &gfi_mr_ops;
    domain->threads = gfi_domain_needs_lock(info->domain_attr, fabric->fid.api_version);
    domain->mr_mode = info->domain_attr->mr_mode;
    domain->has_text_addrs = info->addr_format == FI_ADDR_STR;
    domain->next_key = 1;
    domain->rouse_fd = -1;
    pthread_mutex_init(&domain->lock, NULL);
    gfi_progress_init(domain);
    gfi_list_init(&domain->free_ops);
    gfi_list_init(&domain->avs);
    return domain;
}

int gfi_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain_p,
                    void *context)
{
    struct gfi_domain *domain = gfi_domain_new(gfi_of(fid, struct gfi_fabric, fid), info, context);
    int ret;

    if (domain == NULL) {
        return -FI_ENOMEM;
    }
    ret = gfi_uct_open(&domain->uct, gfi_peer_on_error, domain);
    if (ret != 0) {
        goto err_free;
    }
    ret = gfi_domain_init_addr(domain);
    if (ret != 0) {
        goto err_uct;
    }
    gfi_domain_init_sizes(domain);
    ret = gfi_arrive_init(domain);
    if (ret != 0) {
        goto err_uct;
    }
    if (info->domain_attr->data_progress == FI_PROGRESS_AUTO) {
        ret = gfi_thread_start(domain);
        if (ret != 0) {
            goto err_rouse;
        }
    }
    gfi_ref_get(&domain->fabric->refs);
    *domain_p = &domain->fid;
    return 0;

err_rouse:
    if (domain->rouse_fd >= 0) {
        close(domain->rouse_fd);
    }
err_uct:
    gfi_uct_close(&domain->uct);
err_free:
    pthread_mutex_destroy(&domain->lock);
    free(domain);
    return ret;
}
