#include "ud_mon_iface.h"

#include <ucs/sys/string.h>
#include <ucs/sys/uid.h>

#include <stdlib.h>

static ucs_config_field_t uct_ud_mon_iface_config_table[] = {
    {"", "", NULL, ucs_offsetof(uct_ud_mon_iface_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"SEG_SIZE", "auto",
     "Size of the datagrams sent, with the transport's header of 40 bytes. At most the MTU of the\n"
     "port, which is the default.",
     ucs_offsetof(uct_ud_mon_iface_config_t, seg_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"QKEY", "auto",
     "Queue key, 1 to 0x7fffffff: what a datagram must bear to be received. \"auto\" is a random\n"
     "one, which peers learn from the address.",
     ucs_offsetof(uct_ud_mon_iface_config_t, qkey), UCS_CONFIG_TYPE_STRING},

    {"GID_INDEX", "-1",
     "Which address of the port to use. -1 is the first on InfiniBand, and the best on RoCE:\n"
     "version 2, IPv4 before IPv6 before link-local.",
     ucs_offsetof(uct_ud_mon_iface_config_t, gid_index), UCS_CONFIG_TYPE_INT},

    {"PKEY_INDEX", "0",
     "Which partition of the port to use, as index in its table of partition keys.",
     ucs_offsetof(uct_ud_mon_iface_config_t, pkey_index), UCS_CONFIG_TYPE_UINT},

    {"SL", "0", "InfiniBand service level (0 to 15), or RoCE priority (0 to 7).",
     ucs_offsetof(uct_ud_mon_iface_config_t, sl), UCS_CONFIG_TYPE_UINT},

    {"TRAFFIC_CLASS", "0", "RoCE traffic class (0 to 255), with the DSCP in its upper six bits.",
     ucs_offsetof(uct_ud_mon_iface_config_t, traffic_class), UCS_CONFIG_TYPE_UINT},

    {"HOP_LIMIT", "64", "How many routers a RoCE datagram may pass (1 to 255).",
     ucs_offsetof(uct_ud_mon_iface_config_t, hop_limit), UCS_CONFIG_TYPE_UINT},

    {"TX_QUEUE_LEN", "512", "Datagrams that may be under way; rounded up to a power of two.",
     ucs_offsetof(uct_ud_mon_iface_config_t, tx_queue_len), UCS_CONFIG_TYPE_UINT},

    {"TX_BATCH", "256",
     "Datagrams handed to the device at once. Fewer wait for the next progress, flush or event\n"
     "arming; 1 sends each immediately.",
     ucs_offsetof(uct_ud_mon_iface_config_t, tx_batch), UCS_CONFIG_TYPE_UINT},

    {"TX_INLINE", "128",
     "Datagrams up to this size, with the header, are copied into the work request, if the device\n"
     "can do that.",
     ucs_offsetof(uct_ud_mon_iface_config_t, tx_inline), UCS_CONFIG_TYPE_UINT},

    {"RX_QUEUE_LEN", "1024",
     "Receives kept posted; rounded up to a power of two. What arrives while none is free is lost.",
     ucs_offsetof(uct_ud_mon_iface_config_t, rx_queue_len), UCS_CONFIG_TYPE_UINT},

    {"RX_BATCH", "32", "Receives posted at once; rounded up to a power of two.",
     ucs_offsetof(uct_ud_mon_iface_config_t, rx_batch), UCS_CONFIG_TYPE_UINT},

    {"MAX_SENDERS", "65536",
     "Streams of senders whose losses are counted. When more send, those silent longest are\n"
     "forgotten.",
     ucs_offsetof(uct_ud_mon_iface_config_t, max_senders), UCS_CONFIG_TYPE_UINT},

    {"CB_SYNC", "n",
     "Declare that handlers are called from progress only, which is true. By default it is not,\n"
     "because UCP takes every transport that does for its active messages, and these must not be\n"
     "lost. ucx_perftest asks for it.",
     ucs_offsetof(uct_ud_mon_iface_config_t, cb_sync), UCS_CONFIG_TYPE_BOOL},

    {NULL}};

static ucs_status_t uct_ud_mon_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_iface, uct_ud_mon_iface_t);
    size_t payload = ud_mon_max_payload(iface);

    uct_base_iface_query(&iface->super, attr);
    /* UCP must not choose a transport that may lose messages. Without PENDING, UCP does not use it
     * for wireup and memory access. Without CB_SYNC, UCP does not use it for active messages. */
    attr->cap.flags = UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY |
                      UCT_IFACE_FLAG_CONNECT_TO_IFACE;
    if (iface->config.cb_sync) {
        attr->cap.flags |= UCT_IFACE_FLAG_CB_SYNC;
    }
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV |
                            UCT_IFACE_FLAG_EVENT_RECV_SIG | UCT_IFACE_FLAG_EVENT_FD;
    attr->cap.am.max_short = payload;
    attr->cap.am.max_bcopy = payload;
    attr->cap.am.max_zcopy = payload;
    attr->cap.am.max_hdr = payload;
    attr->cap.am.max_iov = UD_MON_MAX_SGE - 1;
    attr->cap.am.opt_zcopy_align = 1;
    attr->cap.am.align_mtu = 1;
    attr->device_addr_len = sizeof(ud_mon_device_addr_t);
    attr->iface_addr_len = sizeof(ud_mon_iface_addr_t);
    attr->overhead = 0.2e-6;
    attr->latency = ucs_linear_func_make(2e-6, 0);
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared = 1e9;
    return UCS_OK;
}

/* Where the port is now: a subnet manager may give it another LID, an administrator another IP. */
static ucs_status_t ud_mon_port_place(uct_ud_mon_iface_t *self, const struct ibv_port_attr *attr)
{
    self->lid = attr->lid;
    return ud_mon_gid_choose(uct_ud_mon_iface_md(self), self->port, self->is_eth,
                             self->config.gid_index, &self->gid_index, &self->gid);
}

static ucs_status_t uct_ud_mon_iface_get_device_address(uct_iface_h tl_iface,
                                                        uct_device_addr_t *tl_addr)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_iface, uct_ud_mon_iface_t);
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);
    ud_mon_device_addr_t *addr = (void *)tl_addr;
    struct ibv_port_attr attr;
    ucs_status_t status;

    if (ibv_query_port(md->context, iface->port, &attr) != 0) {
        ucs_error("ib_ud_mon: cannot query port %s:%d: %m", md->name, iface->port);
        return UCS_ERR_IO_ERROR;
    }
    status = ud_mon_port_place(iface, &attr);
    if (status != UCS_OK) {
        return status;
    }
    addr->version = UD_MON_ADDR_VERSION;
    addr->flags = iface->is_eth ? UD_MON_ADDR_ETH : 0;
    addr->lid = htole16(iface->lid);
    memcpy(addr->gid, iface->gid.raw, sizeof(addr->gid));
    return UCS_OK;
}

static ucs_status_t uct_ud_mon_iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t *tl_addr)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_iface, uct_ud_mon_iface_t);
    ud_mon_iface_addr_t *addr = (void *)tl_addr;

    addr->qpn = htole32(iface->qp->qp_num);
    addr->qkey = htole32(iface->qkey);
    return UCS_OK;
}

/* RoCE: a packet has one IP version. InfiniBand: the other must be in our subnet. */
static int uct_ud_mon_iface_is_reachable(const uct_iface_h tl_iface,
                                         const uct_device_addr_t *dev_addr,
                                         const uct_iface_addr_t *iface_addr)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_iface, uct_ud_mon_iface_t);
    const ud_mon_device_addr_t *addr = (const void *)dev_addr;
    struct in6_addr theirs, ours;

    (void)iface_addr;
    if ((addr->version != UD_MON_ADDR_VERSION) ||
        (!!(addr->flags & UD_MON_ADDR_ETH) != !!iface->is_eth)) {
        return 0;
    }
    if (!iface->is_eth) {
        return !memcmp(addr->gid, iface->gid.raw, 8);
    }
    memcpy(&theirs, addr->gid, sizeof(theirs));
    memcpy(&ours, iface->gid.raw, sizeof(ours));
    return !!IN6_IS_ADDR_V4MAPPED(&theirs) == !!IN6_IS_ADDR_V4MAPPED(&ours);
}

static unsigned uct_ud_mon_iface_progress(uct_iface_h tl_iface)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_iface, uct_ud_mon_iface_t);
    unsigned count;

    uct_ud_mon_tx_doorbell(iface);
    count = uct_ud_mon_rx_poll(iface);
    count += uct_ud_mon_tx_poll(iface);
    if (ucs_unlikely(iface->failed)) {
        uct_ud_mon_qp_recover(iface);
    }
    return count;
}

static ucs_status_t uct_ud_mon_ep_check(uct_ep_h ep, unsigned flags, uct_completion_t *comp)
{
    (void)ep;
    UCT_COMPAT_EP_CHECK_PARAM(flags, comp);
    return UCS_OK; /* a datagram service knows nothing of its peers */
}

static UCS_CLASS_DECLARE_DELETE_FUNC(uct_ud_mon_iface_t, uct_iface_t);

static uct_iface_ops_t uct_ud_mon_iface_ops = {
    .ep_am_short = uct_ud_mon_ep_am_short,
    .ep_am_short_iov = uct_base_ep_am_short_iov,
    .ep_am_bcopy = uct_ud_mon_ep_am_bcopy,
    .ep_am_zcopy = uct_ud_mon_ep_am_zcopy,
    .ep_pending_add = (uct_ep_pending_add_func_t)ucs_empty_function_return_unsupported,
    .ep_pending_purge = (uct_ep_pending_purge_func_t)ucs_empty_function,
    .ep_flush = uct_ud_mon_ep_flush,
    .ep_fence = uct_base_ep_fence,
    .ep_check = uct_ud_mon_ep_check,
    .ep_create = uct_ud_mon_ep_create,
    .ep_destroy = UCS_CLASS_DELETE_FUNC_NAME(uct_ud_mon_ep_t),
    .iface_flush = uct_ud_mon_iface_flush,
    .iface_fence = uct_base_iface_fence,
    .iface_progress_enable = uct_base_iface_progress_enable,
    .iface_progress_disable = uct_base_iface_progress_disable,
    .iface_progress = uct_ud_mon_iface_progress,
    .iface_event_fd_get = uct_ud_mon_iface_event_fd_get,
    .iface_event_arm = uct_ud_mon_iface_event_arm,
    .iface_close = UCS_CLASS_DELETE_FUNC_NAME(uct_ud_mon_iface_t),
    .iface_query = uct_ud_mon_iface_query,
    .iface_get_device_address = uct_ud_mon_iface_get_device_address,
    .iface_get_address = uct_ud_mon_iface_get_address,
    .iface_is_reachable = uct_ud_mon_iface_is_reachable,
};

UCT_COMPAT_DEFINE_IS_REACHABLE(uct_ud_mon_iface_is_reachable_v2, uct_ud_mon_iface_is_reachable)

static uct_iface_internal_ops_t uct_ud_mon_iface_internal_ops = {
    .iface_estimate_perf = uct_base_iface_estimate_perf,
    .iface_vfs_refresh = (uct_iface_vfs_refresh_func_t)ucs_empty_function,
    .ep_query = (uct_ep_query_func_t)ucs_empty_function_return_unsupported,
    .ep_invalidate = (uct_ep_invalidate_func_t)ucs_empty_function_return_unsupported,
    UCT_COMPAT_IFACE_IS_REACHABLE(uct_ud_mon_iface_is_reachable_v2)
        UCT_COMPAT_EP_IS_CONNECTED UCT_COMPAT_IFACE_INTERNAL_OPS};

static ucs_status_t ud_mon_config_check(const uct_ud_mon_iface_config_t *config,
                                        const uct_ud_mon_md_t *md)
{
    const struct {
        const char *name;
        uint64_t value, min, max;
    } limits[] = {
        {"SL", config->sl, 0, 15},
        {"TRAFFIC_CLASS", config->traffic_class, 0, 255},
        {"HOP_LIMIT", config->hop_limit, 1, 255},
        {"TX_QUEUE_LEN", config->tx_queue_len, 1, md->attr.max_qp_wr},
        {"TX_BATCH", config->tx_batch, 1, UINT32_MAX},
        {"RX_QUEUE_LEN", config->rx_queue_len, 1, md->attr.max_qp_wr},
        {"RX_BATCH", config->rx_batch, 1, 1u << 16},
        {"MAX_SENDERS", config->max_senders, 1, UINT32_MAX},
    };
    size_t i;

    for (i = 0; i < ucs_static_array_size(limits); ++i) {
        if ((limits[i].value < limits[i].min) || (limits[i].value > limits[i].max)) {
            ucs_error("ib_ud_mon: UCX_IB_UD_MON_%s=%lu is not in %lu..%lu", limits[i].name,
                      limits[i].value, limits[i].min, limits[i].max);
            return UCS_ERR_INVALID_PARAM;
        }
    }
    return UCS_OK;
}

/* Only privileged senders may use a key with the highest bit set, so this bit is never set here. */
static ucs_status_t ud_mon_qkey_choose(uct_ud_mon_iface_t *self)
{
    const char *text = self->config.qkey;
    unsigned long value;
    char *end;

    if (!strcmp(text, "auto")) {
        self->qkey = (ucs_generate_uuid((uintptr_t)self) & 0x7fffffff) | 1;
        return UCS_OK;
    }
    value = strtoul(text, &end, 0);
    if ((end == text) || (*end != '\0') || (value < 1) || (value > 0x7fffffff)) {
        ucs_error("ib_ud_mon: UCX_IB_UD_MON_QKEY=%s is neither \"auto\" nor in 1..0x7fffffff",
                  text);
        return UCS_ERR_INVALID_PARAM;
    }
    self->qkey = value;
    return UCS_OK;
}

static ucs_status_t ud_mon_port_open(uct_ud_mon_iface_t *self, uct_ud_mon_md_t *md)
{
    struct ibv_port_attr attr;

    if (ibv_query_port(md->context, self->port, &attr) != 0) {
        ucs_error("ib_ud_mon: cannot query port %s:%d: %m", md->name, self->port);
        return UCS_ERR_IO_ERROR;
    }
    self->is_eth = (attr.link_layer == IBV_LINK_LAYER_ETHERNET);
    self->mtu = self->port_mtu = 128u << attr.active_mtu;
    if (self->config.seg_size != UCS_MEMUNITS_AUTO) {
        if ((self->config.seg_size > self->mtu) ||
            (self->config.seg_size < (sizeof(ud_mon_header_t) + 64))) {
            ucs_error("ib_ud_mon: UCX_IB_UD_MON_SEG_SIZE=%zu is not in %zu..%u, the MTU of %s:%d",
                      self->config.seg_size, sizeof(ud_mon_header_t) + 64, self->mtu, md->name,
                      self->port);
            return UCS_ERR_INVALID_PARAM;
        }
        self->mtu = self->config.seg_size;
    }
    return ud_mon_port_place(self, &attr);
}

/* The next power of two: rings find a slot by a mask. */
static uint32_t ud_mon_ring_length(uint32_t wanted)
{
    uint32_t length = 1;

    while (length < wanted) {
        length *= 2;
    }
    return length;
}

static void ud_mon_iface_fields(uct_ud_mon_iface_t *self)
{
    const uct_ud_mon_iface_config_t *config = &self->config;

    do {
        self->id = ucs_generate_uuid((uintptr_t)self);
    } while (self->id == 0); /* 0 marks a malformed datagram */
    self->next_stream = 0;
    self->generation = 1;
    self->failed = 0;
    self->stub_handler = self->super.am[0].cb;
    memset(&self->stats, 0, sizeof(self->stats));
    memset(&self->tx, 0, sizeof(self->tx));
    memset(&self->rx, 0, sizeof(self->rx));
    self->tx.length = ud_mon_ring_length(config->tx_queue_len);
    self->tx.batch = ucs_min(config->tx_batch, self->tx.length);
    self->rx.length = ud_mon_ring_length(config->rx_queue_len);
    self->rx.batch = ucs_min(ud_mon_ring_length(config->rx_batch), self->rx.length);
    ucs_queue_head_init(&self->tx.flushes);
    ucs_list_head_init(&self->dead_ahs);
    kh_init_inplace(ud_mon_ahs, &self->ahs);
    ud_mon_senders_init(self);
}

static UCS_CLASS_INIT_FUNC(uct_ud_mon_iface_t, uct_md_h tl_md, uct_worker_h worker,
                           const uct_iface_params_t *params, const uct_iface_config_t *tl_config)
{
    uct_ud_mon_md_t *md = ucs_derived_of(tl_md, uct_ud_mon_md_t);
    ucs_status_t status;

    UCT_CHECK_PARAM((params->field_mask & UCT_IFACE_PARAM_FIELD_OPEN_MODE) &&
                        (params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE),
                    "ib_ud_mon: an interface is opened on a device only");
    UCS_CLASS_CALL_SUPER_INIT(
        uct_base_iface_t, &uct_ud_mon_iface_ops, &uct_ud_mon_iface_internal_ops, tl_md, worker,
        params,
        tl_config UCS_STATS_ARG(
            (params->field_mask & UCT_IFACE_PARAM_FIELD_STATS_ROOT) ? params->stats_root : NULL)
            UCS_STATS_ARG("ud_mon"));
    self->config = *ucs_derived_of(tl_config, uct_ud_mon_iface_config_t);
    status = ud_mon_config_check(&self->config, md);
    if (status != UCS_OK) {
        return status;
    }
    status = ud_mon_qkey_choose(self);
    if (status != UCS_OK) {
        return status;
    }
    self->port = uct_ud_mon_md_port(md, params->mode.device.dev_name);
    if (self->port == 0) {
        ucs_error("ib_ud_mon: %s has no port %s", md->name, params->mode.device.dev_name);
        return UCS_ERR_NO_DEVICE;
    }
    status = ud_mon_port_open(self, md);
    if (status != UCS_OK) {
        return status;
    }
    ud_mon_iface_fields(self);
    ud_mon_stats_open(self);
    status = ud_mon_event_open(self);
    if (status != UCS_OK) {
        goto err_senders;
    }
    status = uct_ud_mon_qp_open(self);
    if (status != UCS_OK) {
        goto err_event;
    }
    ucs_debug("ib_ud_mon: %s:%d QPN 0x%x GID index %d MTU %u", md->name, self->port,
              self->qp->qp_num, self->gid_index, self->mtu);
    return UCS_OK;

err_event:
    ud_mon_event_close(self);
err_senders:
    ud_mon_senders_cleanup(self);
    kh_destroy_inplace(ud_mon_ahs, &self->ahs);
    return status;
}

static UCS_CLASS_CLEANUP_FUNC(uct_ud_mon_iface_t)
{
    uct_base_iface_progress_disable(&self->super.super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    uct_ud_mon_qp_close(self);
    ud_mon_ahs_cleanup(self);
    ud_mon_event_close(self);
    ud_mon_senders_cleanup(self);
}

UCS_CLASS_DEFINE(uct_ud_mon_iface_t, uct_base_iface_t);
static UCS_CLASS_DEFINE_NEW_FUNC(uct_ud_mon_iface_t, uct_iface_t, uct_md_h, uct_worker_h,
                                 const uct_iface_params_t *, const uct_iface_config_t *);
static UCS_CLASS_DEFINE_DELETE_FUNC(uct_ud_mon_iface_t, uct_iface_t);

UCT_TL_DEFINE_ENTRY(&uct_ib_ud_mon_component, ud_mon, uct_ud_mon_query_devices, uct_ud_mon_iface_t,
                    "IB_UD_MON_", uct_ud_mon_iface_config_table, uct_ud_mon_iface_config_t);

UCT_SINGLE_TL_INIT(&uct_ib_ud_mon_component, ud_mon, ctor, , )
