/*
 * fi_getinfo(): one fi_info, compared with the hints. The provider refuses hints that request a
 * missing feature, and logs the feature at level info.
 */
#include "core/gfi.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GFI_RMA_DIRECTIONS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define GFI_RMA_CAPS       (FI_RMA | FI_ATOMIC | FI_RMA_EVENT | GFI_RMA_DIRECTIONS)
#define GFI_MSG_CAPS       (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_DIRECTED_RECV)
#define GFI_DOMAIN_CAPS    (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define GFI_CAPS           (GFI_MSG_CAPS | GFI_RMA_CAPS | FI_SOURCE | GFI_DOMAIN_CAPS)
#define GFI_TX_CAPS        (FI_MSG | FI_TAGGED | FI_SEND | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE)
#define GFI_RX_CAPS                                                                                \
    (FI_MSG | FI_TAGGED | FI_RECV | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE |        \
     FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT)
#define GFI_DIRECTIONS (FI_SEND | FI_RECV | GFI_RMA_DIRECTIONS)
#define GFI_TX_OP_FLAGS                                                                            \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define GFI_RX_OP_FLAGS (FI_COMPLETION | FI_MULTI_RECV)
#define GFI_MSG_ORDER   FI_ORDER_SAS
#define GFI_MR_MODES    (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define GFI_MAX_OBJECTS 65536

/* Log why, and be the error */
static __attribute__((format(printf, 1, 2))) int gfi_refuse(const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    GFI_INFO(FI_LOG_CORE, "%s", text);
    return -FI_ENODATA;
}

/* ---- addresses as strings ---- */

#define GFI_ADDR_PREFIX "fi_glex://"

size_t gfi_addr_print(const struct gfi_addr *addr, char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)addr;
    char full[sizeof(GFI_ADDR_PREFIX) + 2 * sizeof(*addr)];
    size_t i, at = sizeof(GFI_ADDR_PREFIX) - 1;

    memcpy(full, GFI_ADDR_PREFIX, at);
    for (i = 0; i < sizeof(*addr); i++) {
        at += (size_t)snprintf(full + at, 3, "%02x", bytes[i]);
    }
    if (size > 0) {
        snprintf(text, size, "%s", full);
    }
    return at + 1;
}

static int gfi_hex_digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int gfi_addr_parse(const char *text, struct gfi_addr *addr)
{
    uint8_t *bytes = (uint8_t *)addr;
    int high, low;
    size_t i;

    if (strncmp(text, GFI_ADDR_PREFIX, sizeof(GFI_ADDR_PREFIX) - 1) != 0) {
        return -FI_EINVAL;
    }
    text += sizeof(GFI_ADDR_PREFIX) - 1;
    if (strlen(text) != 2 * sizeof(*addr)) {
        return -FI_EINVAL;
    }
    for (i = 0; i < sizeof(*addr); i++) {
        high = gfi_hex_digit(text[2 * i]);
        low = gfi_hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return -FI_EINVAL;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

/* ---- the hints ---- */

static int gfi_check_caps(const struct fi_info *hints, uint64_t caps)
{
    if (hints->caps & ~caps) {
        return gfi_refuse("capabilities that are not offered: 0x%llx\n",
                          (unsigned long long)(hints->caps & ~caps));
    }
    return 0;
}

static int gfi_check_fabric(const struct fi_fabric_attr *attr)
{
    if (attr == NULL) {
        return 0;
    }
    if (attr->name != NULL && strcasecmp(attr->name, GFI_NAME) != 0) {
        return gfi_refuse("the fabric is called " GFI_NAME ", not %s\n", attr->name);
    }
    if (attr->prov_version > FI_VERSION(0, 1) && attr->prov_name != NULL) {
        return gfi_refuse("the provider is older than asked for\n");
    }
    return 0;
}

/* The mode bits of programs before version 1.5, or of newer programs */
static int gfi_check_mr_mode(uint32_t version, int mode)
{
    if (FI_VERSION_LT(version, FI_VERSION(1, 5)) || (mode & (GFI_MR_BASIC | GFI_MR_SCALABLE))) {
        if (mode != 0 && mode != GFI_MR_BASIC && mode != GFI_MR_SCALABLE) {
            return gfi_refuse("mr_mode 0x%x mixes old and new bits\n", mode);
        }
    }
    return 0;
}

static int gfi_check_domain(uint32_t version, const struct fi_domain_attr *attr)
{
    if (attr == NULL) {
        return 0;
    }
    if (attr->name != NULL && strcasecmp(attr->name, GFI_DOMAIN_NAME) != 0) {
        return gfi_refuse("the domain is called " GFI_DOMAIN_NAME ", not %s\n", attr->name);
    }
    if (attr->control_progress == FI_PROGRESS_AUTO || attr->data_progress == FI_PROGRESS_AUTO) {
        return gfi_refuse("progress is manual\n");
    }
    if (attr->cq_data_size > sizeof(uint64_t) || attr->mr_key_size > sizeof(uint64_t)) {
        return gfi_refuse("CQ data and keys have 8 bytes\n");
    }
    if (attr->caps & ~(uint64_t)GFI_DOMAIN_CAPS) {
        return gfi_refuse("domain capabilities 0x%llx are not offered\n",
                          (unsigned long long)attr->caps);
    }
    if (attr->max_ep_stx_ctx > 0 || attr->max_ep_srx_ctx > 0 || attr->auth_key_size > 0) {
        return gfi_refuse("shared contexts and authorization keys are not offered\n");
    }
    if (attr->ep_cnt > GFI_MAX_EPS || attr->mr_iov_limit > 1 || attr->max_err_data > 0) {
        return gfi_refuse(
            "more endpoints, pieces of a registration or error data than there are\n");
    }
    return gfi_check_mr_mode(version, attr->mr_mode);
}

static int gfi_check_ep(const struct fi_ep_attr *attr)
{
    if (attr == NULL) {
        return 0;
    }
    if (attr->type != FI_EP_UNSPEC && attr->type != FI_EP_RDM) {
        return gfi_refuse("endpoints are of type FI_EP_RDM\n");
    }
    if (attr->protocol != FI_PROTO_UNSPEC && attr->protocol != GFI_PROTOCOL) {
        return gfi_refuse("another protocol is asked for\n");
    }
    if ((attr->tx_ctx_cnt > 1 && attr->tx_ctx_cnt != FI_SHARED_CONTEXT) ||
        (attr->rx_ctx_cnt > 1 && attr->rx_ctx_cnt != FI_SHARED_CONTEXT) ||
        attr->tx_ctx_cnt == FI_SHARED_CONTEXT || attr->rx_ctx_cnt == FI_SHARED_CONTEXT) {
        return gfi_refuse("scalable endpoints and shared contexts are not offered\n");
    }
    if (attr->msg_prefix_size > 0 || attr->auth_key_size > 0 || attr->max_order_raw_size > 0 ||
        attr->max_order_war_size > 0 || attr->max_order_waw_size > 0) {
        return gfi_refuse("message prefixes, authorization keys and ordered RMA are not offered\n");
    }
    return 0;
}

static int gfi_check_tx(const struct fi_info *hints, const struct fi_info *ours)
{
    const struct fi_tx_attr *attr = hints->tx_attr;

    if (attr == NULL) {
        return 0;
    }
    if ((attr->caps & ~(ours->tx_attr->caps | GFI_DOMAIN_CAPS | FI_DIRECTED_RECV)) ||
        (attr->op_flags & ~(uint64_t)GFI_TX_OP_FLAGS)) {
        return gfi_refuse("transmit capabilities or flags that are not offered\n");
    }
    if ((attr->msg_order & ~(uint64_t)GFI_MSG_ORDER) || attr->comp_order != 0) {
        return gfi_refuse("sends stay in order behind sends, and nothing else\n");
    }
    if (attr->inject_size > ours->tx_attr->inject_size || attr->size > ours->tx_attr->size ||
        attr->iov_limit > GFI_IOV_LIMIT || attr->rma_iov_limit > 1) {
        return gfi_refuse(
            "inject_size %zu, size %zu, iov_limit %d and rma_iov_limit 1 are the most\n",
            ours->tx_attr->inject_size, ours->tx_attr->size, GFI_IOV_LIMIT);
    }
    return 0;
}

static int gfi_check_rx(const struct fi_info *hints, const struct fi_info *ours)
{
    const struct fi_rx_attr *attr = hints->rx_attr;

    if (attr == NULL) {
        return 0;
    }
    if ((attr->caps & ~(ours->rx_attr->caps | GFI_DOMAIN_CAPS)) ||
        (attr->op_flags & ~(uint64_t)GFI_RX_OP_FLAGS)) {
        return gfi_refuse("receive capabilities or flags that are not offered\n");
    }
    if ((attr->msg_order & ~(uint64_t)GFI_MSG_ORDER) || attr->comp_order != 0) {
        return gfi_refuse("sends stay in order behind sends, and nothing else\n");
    }
    if (attr->size > ours->rx_attr->size || attr->iov_limit > GFI_IOV_LIMIT ||
        attr->total_buffered_recv > 0) {
        return gfi_refuse("receive size %zu and iov_limit %d are the most\n", ours->rx_attr->size,
                          GFI_IOV_LIMIT);
    }
    return 0;
}

static int gfi_check_hints(uint32_t version, const struct fi_info *hints,
                           const struct fi_info *ours)
{
    int ret;

    if (hints->addr_format != FI_FORMAT_UNSPEC) {
        return gfi_refuse("addresses have a format of their own\n");
    }
    ret = gfi_check_caps(hints, ours->caps);
    if (ret == 0) {
        ret = gfi_check_fabric(hints->fabric_attr);
    }
    if (ret == 0) {
        ret = gfi_check_domain(version, hints->domain_attr);
    }
    if (ret == 0) {
        ret = gfi_check_ep(hints->ep_attr);
    }
    if (ret == 0) {
        ret = gfi_check_tx(hints, ours);
    }
    return ret != 0 ? ret : gfi_check_rx(hints, ours);
}

/* ---- the abilities ---- */

static void gfi_fill_ep(struct fi_info *info)
{
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = GFI_PROTOCOL;
    info->ep_attr->protocol_version = GFI_WIRE_VERSION;
    info->ep_attr->max_msg_size = SIZE_MAX;
    info->ep_attr->mem_tag_format = 0xaaaaaaaaaaaaaaaaull; /* all bits, as one field */
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = 1;
}

static void gfi_fill_domain(struct fi_info *info)
{
    struct fi_domain_attr *attr = info->domain_attr;

    attr->threading = FI_THREAD_SAFE;
    attr->control_progress = FI_PROGRESS_MANUAL;
    attr->data_progress = FI_PROGRESS_MANUAL;
    attr->resource_mgmt = FI_RM_ENABLED;
    attr->av_type = FI_AV_UNSPEC;
    attr->mr_mode = GFI_MR_MODES;
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_data_size = sizeof(uint64_t);
    attr->cq_cnt = GFI_MAX_OBJECTS;
    attr->cntr_cnt = GFI_MAX_OBJECTS;
    attr->mr_cnt = GFI_MAX_OBJECTS;
    attr->ep_cnt = attr->tx_ctx_cnt = attr->rx_ctx_cnt = GFI_MAX_EPS;
    attr->max_ep_tx_ctx = 1;
    attr->max_ep_rx_ctx = 1;
    attr->mr_iov_limit = 1;
    attr->caps = GFI_DOMAIN_CAPS;
}

/* An endpoint gets its address when it is opened. Until then the address belongs to no endpoint. */
static int gfi_fill_src_addr(struct fi_info *info)
{
    struct gfi_addr addr = {.version = GFI_WIRE_VERSION};

    info->src_addr = malloc(sizeof(addr));
    if (info->src_addr == NULL) {
        return -FI_ENOMEM;
    }
    memcpy(info->src_addr, &addr, sizeof(addr));
    info->src_addrlen = sizeof(addr);
    return 0;
}

static struct fi_info *gfi_info_new(bool can_rma)
{
    struct fi_info *info = fi_allocinfo();
    uint64_t without = can_rma ? 0 : GFI_RMA_CAPS;

    if (info == NULL) {
        return NULL;
    }
    info->caps = GFI_CAPS & ~without;
    info->addr_format = FI_FORMAT_UNSPEC;
    info->tx_attr->caps = GFI_TX_CAPS & ~without;
    info->tx_attr->msg_order = GFI_MSG_ORDER;
    info->tx_attr->inject_size = GFI_INJECT_SIZE;
    info->tx_attr->size = gfi_params.tx_size;
    info->tx_attr->iov_limit = GFI_IOV_LIMIT;
    info->tx_attr->rma_iov_limit = can_rma;
    info->rx_attr->caps = GFI_RX_CAPS & ~without;
    info->rx_attr->msg_order = GFI_MSG_ORDER;
    info->rx_attr->size = gfi_params.rx_size;
    info->rx_attr->iov_limit = GFI_IOV_LIMIT;
    gfi_fill_ep(info);
    gfi_fill_domain(info);
    info->fabric_attr->prov_version = gfi_provider.version;
    info->domain_attr->name = strdup(GFI_DOMAIN_NAME);
    info->fabric_attr->name = strdup(GFI_NAME);
    if (info->domain_attr->name == NULL || info->fabric_attr->name == NULL ||
        gfi_fill_src_addr(info) != 0) {
        fi_freeinfo(info);
        return NULL;
    }
    return info;
}

/* A program that names FI_MSG, but no direction, wants both */
static uint64_t gfi_wanted_caps(uint64_t hints, uint64_t ours)
{
    uint64_t caps = hints | GFI_DOMAIN_CAPS;

    if ((hints & (FI_MSG | FI_TAGGED)) && !(hints & (FI_SEND | FI_RECV))) {
        caps |= FI_SEND | FI_RECV;
    }
    if ((hints & (FI_RMA | FI_ATOMIC)) && !(hints & GFI_RMA_DIRECTIONS)) {
        caps |= GFI_RMA_DIRECTIONS;
    }
    if ((hints & ~(uint64_t)(GFI_DIRECTIONS | GFI_DOMAIN_CAPS)) == 0) {
        caps = ours; /* nothing, or directions only */
    }
    return caps & ours;
}

/*
 * The mr_mode for the program: the supported bits of its mode, or its own mode before version 1.5
 * or if it uses basic or scalable registration. Fewer bits than GFI_MR_MODES cost nothing
 */
static int gfi_wanted_mr_mode(uint32_t version, int mode)
{
    if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
        return mode == 0 ? GFI_MR_BASIC : mode;
    }
    return mode & (GFI_MR_BASIC | GFI_MR_SCALABLE) ? mode : mode & GFI_MR_MODES;
}

static void gfi_apply_hints(uint32_t version, const struct fi_info *hints, struct fi_info *info)
{
    const struct fi_domain_attr *domain = hints->domain_attr;

    info->caps = gfi_wanted_caps(hints->caps, info->caps);
    info->tx_attr->caps &= info->caps;
    info->rx_attr->caps &= info->caps;
    info->handle = hints->handle;
    if (domain != NULL) {
        info->domain_attr->threading =
            domain->threading != FI_THREAD_UNSPEC ? domain->threading : FI_THREAD_SAFE;
        info->domain_attr->av_type = domain->av_type;
        info->domain_attr->mr_mode = gfi_wanted_mr_mode(version, domain->mr_mode);
        if (domain->control_progress == GFI_PROGRESS_CONTROL_UNIFIED) {
            info->domain_attr->control_progress = GFI_PROGRESS_CONTROL_UNIFIED;
        }
        if (domain->resource_mgmt == FI_RM_DISABLED) {
            info->domain_attr->resource_mgmt = FI_RM_DISABLED;
        }
    }
    if (hints->tx_attr != NULL) {
        info->tx_attr->op_flags = hints->tx_attr->op_flags;
    }
    if (hints->rx_attr != NULL) {
        info->rx_attr->op_flags = hints->rx_attr->op_flags;
    }
}

/* `node` is a glex address as a string. For a source, `node` may be any string, for example the
 * name of an interface: the single NIC gives the address. The service is ignored. */
static int gfi_resolve(const char *node, uint64_t flags, const struct fi_info *hints,
                       struct fi_info *info)
{
    struct gfi_addr addr;

    if (node != NULL && !(flags & FI_SOURCE)) {
        if (gfi_addr_parse(node, &addr) != 0) {
            return gfi_refuse("%s is not an address of this provider, %s...\n", node,
                              GFI_ADDR_PREFIX);
        }
    } else if (hints != NULL && hints->dest_addr != NULL && hints->dest_addrlen == sizeof(addr)) {
        memcpy(&addr, hints->dest_addr, sizeof(addr));
    } else {
        return 0;
    }
    info->dest_addr = malloc(sizeof(addr));
    if (info->dest_addr == NULL) {
        return -FI_ENOMEM;
    }
    memcpy(info->dest_addr, &addr, sizeof(addr));
    info->dest_addrlen = sizeof(addr);
    return 0;
}

int gfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info_p)
{
    struct fi_info *info;
    bool can_rma;
    int ret;

    (void)service;
    if (gfi_uct_probe(&can_rma) != 0) {
        return -FI_ENODATA;
    }
    info = gfi_info_new(can_rma);
    if (info == NULL) {
        return -FI_ENOMEM;
    }
    if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
        info->domain_attr->mr_mode = GFI_MR_BASIC;
    }
    info->fabric_attr->api_version = version;
    ret = hints != NULL && !(flags & FI_PROV_ATTR_ONLY) ? gfi_check_hints(version, hints, info) : 0;
    if (ret == 0 && hints != NULL && !(flags & FI_PROV_ATTR_ONLY)) {
        gfi_apply_hints(version, hints, info);
    }
    if (ret == 0) {
        ret = gfi_resolve(node, flags, hints, info);
    }
    if (ret != 0) {
        fi_freeinfo(info);
        return ret;
    }
    *info_p = info;
    return 0;
}
