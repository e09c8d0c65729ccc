/*
 * fi_getinfo(): one fi_info, compared with the hints. The provider refuses hints that request a
 * missing feature, and logs the feature at level info.
 */
#include "core/gfi.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GFI_RMA_DIRECTIONS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define GFI_RMA_CAPS       (FI_RMA | FI_ATOMIC | FI_RMA_EVENT | GFI_RMA_DIRECTIONS)
#define GFI_MSG_CAPS                                                                               \
    (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_FENCE)
#define GFI_DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define GFI_SOURCE_CAPS (FI_SOURCE | FI_SOURCE_ERR | FI_AV_USER_ID)
#define GFI_CAPS        (GFI_MSG_CAPS | GFI_RMA_CAPS | GFI_SOURCE_CAPS | GFI_DOMAIN_CAPS)
#define GFI_TX_CAPS                                                                                \
    (FI_MSG | FI_TAGGED | FI_SEND | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_FENCE)
#define GFI_RX_CAPS                                                                                \
    (FI_MSG | FI_TAGGED | FI_RECV | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE |        \
     FI_MULTI_RECV | FI_DIRECTED_RECV | GFI_SOURCE_CAPS | FI_RMA_EVENT)
#define GFI_DIRECTIONS (FI_SEND | FI_RECV | GFI_RMA_DIRECTIONS)
#define GFI_TX_OP_FLAGS                                                                            \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define GFI_RX_OP_FLAGS (FI_COMPLETION | FI_MULTI_RECV)
#define GFI_MSG_ORDER   FI_ORDER_SAS
#define GFI_MR_MODES    (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define GFI_MAX_OBJECTS 65536

/* Logs the reason. @return the error */
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

/* ---- the hints ---- */

enum gfi_hint_kind {
    GFI_HINT_MOST,  /* a number: at most ours */
    GFI_HINT_BITS,  /* flags: a part of ours */
    GFI_HINT_VALUE, /* unset, ours, or `also` */
    GFI_HINT_NAME,  /* unset, or our string */
};

/* A field of the hints. "Ours" is the same field of the provider's fi_info. `also` has flags that are
 * allowed besides ours, a number if it is larger than ours, or another value. */
struct gfi_hint {
    const char *field;
    size_t part; /* place of the pointer to the structure in fi_info; 0: the field is in fi_info */
    size_t place, size;
    enum gfi_hint_kind kind;
    uint64_t also;
    const char *text;
};

#define GFI_HINT(part, type, field, kind, also, text)                                              \
    {#part "->" #field,                                                                            \
     offsetof(struct fi_info, part),                                                               \
     offsetof(struct type, field),                                                                 \
     sizeof(((struct type *)NULL)->field),                                                         \
     GFI_HINT_##kind,                                                                              \
     also,                                                                                         \
     text}
#define GFI_HINT_TOP(field, kind, also, text)                                                      \
    {#field,                                                                                       \
     0,                                                                                            \
     offsetof(struct fi_info, field),                                                              \
     sizeof(((struct fi_info *)NULL)->field),                                                      \
     GFI_HINT_##kind,                                                                              \
     also,                                                                                         \
     text}
#define GFI_HINT_FABRIC(field, kind, text)                                                         \
    GFI_HINT(fabric_attr, fi_fabric_attr, field, kind, 0, text)
#define GFI_HINT_DOMAIN(field, kind, also, text)                                                   \
    GFI_HINT(domain_attr, fi_domain_attr, field, kind, also, text)
#define GFI_HINT_EP(field, kind, text)       GFI_HINT(ep_attr, fi_ep_attr, field, kind, 0, text)
#define GFI_HINT_TX(field, kind, also, text) GFI_HINT(tx_attr, fi_tx_attr, field, kind, also, text)
#define GFI_HINT_RX(field, kind, also, text) GFI_HINT(rx_attr, fi_rx_attr, field, kind, also, text)

/* docs/ofi.md has the same table for readers. mr_mode has its own function. */
static const struct gfi_hint gfi_hints[] = {
    GFI_HINT_TOP(caps, BITS, 0, "capabilities"),
    GFI_HINT_TOP(addr_format, VALUE, FI_ADDR_STR,
                 "addresses are bytes of the provider, or strings"),
    GFI_HINT_FABRIC(name, NAME, "name of the fabric"),
    GFI_HINT_FABRIC(prov_version, MOST, "version of the provider"),
    GFI_HINT_DOMAIN(name, NAME, 0, "name of the domain"),
    GFI_HINT_DOMAIN(control_progress, MOST, GFI_PROGRESS_CONTROL_UNIFIED, "model of progress"),
    GFI_HINT_DOMAIN(data_progress, MOST, GFI_PROGRESS_CONTROL_UNIFIED, "model of progress"),
    GFI_HINT_DOMAIN(caps, BITS, 0, "capabilities of a domain"),
    GFI_HINT_DOMAIN(cq_data_size, MOST, 0, "bytes of CQ data"),
    GFI_HINT_DOMAIN(mr_key_size, MOST, 0, "bytes of a key"),
    GFI_HINT_DOMAIN(mr_iov_limit, MOST, 0, "pieces of a registration"),
    GFI_HINT_DOMAIN(ep_cnt, MOST, 0, "endpoints of a domain"),
    GFI_HINT_DOMAIN(max_ep_stx_ctx, MOST, 0, "no shared contexts"),
    GFI_HINT_DOMAIN(max_ep_srx_ctx, MOST, 0, "no shared contexts"),
    GFI_HINT_DOMAIN(max_err_data, MOST, 0, "bytes of error data: an address"),
    GFI_HINT_DOMAIN(auth_key_size, MOST, 0, "no authorization keys"),
    GFI_HINT_EP(type, VALUE, "endpoints are FI_EP_RDM"),
    GFI_HINT_EP(protocol, VALUE, "protocol of the provider"),
    GFI_HINT_EP(tx_ctx_cnt, MOST, "no scalable endpoints, no shared contexts"),
    GFI_HINT_EP(rx_ctx_cnt, MOST, "no scalable endpoints, no shared contexts"),
    GFI_HINT_EP(msg_prefix_size, MOST, "no message prefixes"),
    GFI_HINT_EP(auth_key_size, MOST, "no authorization keys"),
    GFI_HINT_EP(max_order_raw_size, MOST, "order needs a msg_order of RMA"),
    GFI_HINT_EP(max_order_war_size, MOST, "order needs a msg_order of RMA"),
    GFI_HINT_EP(max_order_waw_size, MOST, "order needs a msg_order of RMA"),
    GFI_HINT_TX(caps, BITS, GFI_DOMAIN_CAPS | FI_DIRECTED_RECV, "capabilities of a sender"),
    GFI_HINT_TX(op_flags, BITS, GFI_TX_OP_FLAGS, "flags of sends"),
    GFI_HINT_TX(msg_order, BITS, GFI_RMA_ORDERS, "RMA has no order behind sends"),
    GFI_HINT_TX(comp_order, BITS, 0, "completions have no order"),
    GFI_HINT_TX(inject_size, MOST, 0, "bytes of an injected message"),
    GFI_HINT_TX(size, MOST, 0, "outstanding operations: FI_GLEX_TX_SIZE"),
    GFI_HINT_TX(iov_limit, MOST, 0, "pieces of local memory"),
    GFI_HINT_TX(rma_iov_limit, MOST, 0, "pieces of remote memory"),
    GFI_HINT_RX(caps, BITS, GFI_DOMAIN_CAPS, "capabilities of a receiver"),
    GFI_HINT_RX(op_flags, BITS, GFI_RX_OP_FLAGS, "flags of receives"),
    GFI_HINT_RX(msg_order, BITS, GFI_RMA_ORDERS, "RMA has no order behind sends"),
    GFI_HINT_RX(comp_order, BITS, 0, "completions have no order"),
    GFI_HINT_RX(size, MOST, 0, "receives: FI_GLEX_RX_SIZE"),
    GFI_HINT_RX(iov_limit, MOST, 0, "pieces of local memory"),
    GFI_HINT_RX(total_buffered_recv, MOST, 0, "no promise: FI_GLEX_UNEXPECTED_SIZE"),
};

/* The field of a hint in `info`. NULL: `info` does not have the structure */
static const void *gfi_hint_field(const struct gfi_hint *hint, const struct fi_info *info)
{
    const uint8_t *from = (const uint8_t *)info, *base = from;

    if (hint->part != 0) {
        memcpy(&base, from + hint->part, sizeof(base));
    }
    return base != NULL ? base + hint->place : NULL;
}

static uint64_t gfi_hint_number(const struct gfi_hint *hint, const void *field)
{
    uint32_t narrow;
    uint64_t wide;

    if (hint->size == sizeof(narrow)) {
        memcpy(&narrow, field, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, field, sizeof(wide));
    return wide;
}

static int gfi_check_name(const struct gfi_hint *hint, const void *theirs, const void *ours)
{
    const char *name, *our_name;

    memcpy(&name, theirs, sizeof(name));
    memcpy(&our_name, ours, sizeof(our_name));
    if (name == NULL || strcasecmp(name, our_name) == 0) {
        return 0;
    }
    return gfi_refuse("hint %s=%s is refused, ours is %s: %s\n", hint->field, name, our_name,
                      hint->text);
}

/* Logs which hint is refused, and the value that the provider accepts */
static int gfi_check_hint(const struct gfi_hint *hint, const void *theirs, const void *ours)
{
    uint64_t value, our_value;

    if (hint->kind == GFI_HINT_NAME) {
        return gfi_check_name(hint, theirs, ours);
    }
    value = gfi_hint_number(hint, theirs);
    our_value = gfi_hint_number(hint, ours);
    switch (hint->kind) {
    case GFI_HINT_MOST:
        our_value = our_value > hint->also ? our_value : hint->also;
        if (value > our_value) {
            return gfi_refuse("hint %s=%llu is refused, %llu at most: %s\n", hint->field,
                              (unsigned long long)value, (unsigned long long)our_value, hint->text);
        }
        break;
    case GFI_HINT_BITS:
        value &= ~(our_value | hint->also);
        if (value != 0) {
            return gfi_refuse("hint %s: bits 0x%llx are refused: %s\n", hint->field,
                              (unsigned long long)value, hint->text);
        }
        break;
    case GFI_HINT_VALUE:
        if (value != 0 && value != our_value && value != hint->also) {
            return gfi_refuse("hint %s=%llu is refused, ours is %llu: %s\n", hint->field,
                              (unsigned long long)value, (unsigned long long)our_value, hint->text);
        }
        break;
    case GFI_HINT_NAME:
        break;
    }
    return 0;
}

/* The mode bits of programs before version 1.5, or of newer programs */
static int gfi_check_mr_mode(uint32_t version, int mode)
{
    if (FI_VERSION_LT(version, FI_VERSION(1, 5)) || (mode & (GFI_MR_BASIC | GFI_MR_SCALABLE))) {
        if (mode != 0 && mode != GFI_MR_BASIC && mode != GFI_MR_SCALABLE) {
            return gfi_refuse("hint domain_attr->mr_mode=0x%x mixes old and new bits\n", mode);
        }
    }
    return 0;
}

static int gfi_check_hints(uint32_t version, const struct fi_info *hints,
                           const struct fi_info *ours)
{
    const void *field;
    size_t i;
    int ret;

    for (i = 0; i < sizeof(gfi_hints) / sizeof(gfi_hints[0]); i++) {
        field = gfi_hint_field(&gfi_hints[i], hints);
        if (field == NULL) {
            continue;
        }
        ret = gfi_check_hint(&gfi_hints[i], field, gfi_hint_field(&gfi_hints[i], ours));
        if (ret != 0) {
            return ret;
        }
    }
    return hints->domain_attr != NULL ? gfi_check_mr_mode(version, hints->domain_attr->mr_mode) : 0;
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
    attr->mr_iov_limit = GFI_IOV_LIMIT;
    attr->max_err_data = GFI_ADDR_TEXT;
    attr->caps = GFI_DOMAIN_CAPS;
}

/* Replaces an address of `info` by a copy in the format of `info` */
static int gfi_set_addr(const struct fi_info *info, const struct gfi_addr *addr, void **to_p,
                        size_t *len_p)
{
    bool is_text = info->addr_format == FI_ADDR_STR;
    size_t len = gfi_addr_write(is_text, addr, NULL, 0);
    void *to = malloc(len);

    if (to == NULL) {
        return -FI_ENOMEM;
    }
    gfi_addr_write(is_text, addr, to, len);
    free(*to_p);
    *to_p = to;
    *len_p = len;
    return 0;
}

/* An endpoint gets its address when it is opened. Until then the address belongs to no endpoint. */
static int gfi_fill_src_addr(struct fi_info *info)
{
    struct gfi_addr addr = {.version = GFI_WIRE_VERSION};

    return gfi_set_addr(info, &addr, &info->src_addr, &info->src_addrlen);
}

static struct fi_info *gfi_info_new(void)
{
    struct fi_info *info = fi_allocinfo();

    if (info == NULL) {
        return NULL;
    }
    info->caps = GFI_CAPS;
    info->addr_format = FI_FORMAT_UNSPEC;
    info->tx_attr->caps = GFI_TX_CAPS;
    info->tx_attr->msg_order = GFI_MSG_ORDER;
    info->tx_attr->inject_size = GFI_INJECT_SIZE;
    info->tx_attr->size = gfi_params.tx_size;
    info->tx_attr->iov_limit = GFI_IOV_LIMIT;
    info->tx_attr->rma_iov_limit = 1;
    info->rx_attr->caps = GFI_RX_CAPS;
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
    if (hints & FI_SOURCE_ERR) {
        caps |= FI_SOURCE;
    }
    if ((hints & (FI_RMA | FI_ATOMIC)) && !(hints & GFI_RMA_DIRECTIONS)) {
        caps |= GFI_RMA_DIRECTIONS;
    }
    if ((hints & ~(uint64_t)(GFI_DIRECTIONS | GFI_DOMAIN_CAPS)) == 0) {
        caps = ours & ~FI_SOURCE_ERR; /* nothing, or directions only */
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

/* Automatic control progress has no cost: insertions of addresses, registrations and the rest end when
 * they are called */
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
        if (domain->control_progress != FI_PROGRESS_UNSPEC) {
            info->domain_attr->control_progress = domain->control_progress;
        }
        if (domain->data_progress == FI_PROGRESS_AUTO) {
            info->domain_attr->data_progress = FI_PROGRESS_AUTO;
        }
        if (domain->resource_mgmt == FI_RM_DISABLED) {
            info->domain_attr->resource_mgmt = FI_RM_DISABLED;
        }
    }
    if (hints->tx_attr != NULL) {
        info->tx_attr->op_flags = hints->tx_attr->op_flags;
        info->tx_attr->msg_order |= hints->tx_attr->msg_order;
    }
    if (hints->rx_attr != NULL) {
        info->rx_attr->op_flags = hints->rx_attr->op_flags;
        info->rx_attr->msg_order |= hints->rx_attr->msg_order;
    }
}

/* The source is a name that the endpoint gets: fi_glex://NAME, or the service. Any other node, for example
 * the name of an interface, means the single NIC. */
static int gfi_resolve_source(const char *node, const char *service, struct fi_info *info)
{
    struct gfi_addr addr = {.version = GFI_WIRE_VERSION};
    const char *name = service;

    if (node != NULL && strncmp(node, GFI_ADDR_PREFIX, sizeof(GFI_ADDR_PREFIX) - 1) == 0) {
        name = node + sizeof(GFI_ADDR_PREFIX) - 1;
    }
    if (name == NULL || strlen(name) == 2 * sizeof(addr)) {
        return 0; /* an address names no endpoint that can be opened */
    }
    if (!gfi_name_is_valid(name)) {
        return gfi_refuse("%s is not a name: 1 to %d letters, digits, '.', '_' or '-'\n", name,
                          GFI_NAME_SIZE - 1);
    }
    strcpy((char *)addr.bytes, name);
    return gfi_set_addr(info, &addr, &info->src_addr, &info->src_addrlen);
}

/* The destination is an address or a name, fi_glex://..., or a node of any name and the name as service */
static int gfi_resolve_dest(const char *node, const char *service, struct fi_info *info)
{
    struct gfi_addr addr;

    if (gfi_addr_parse(node, &addr) != 0 &&
        (service == NULL || !gfi_name_is_valid(service) || gfi_name_find(service, &addr) != 0)) {
        return gfi_refuse(
            "%s (service %s) is not an address of this provider, %s..., and no endpoint "
            "of this host has the name\n",
            node, service != NULL ? service : "none", GFI_ADDR_PREFIX);
    }
    return gfi_set_addr(info, &addr, &info->dest_addr, &info->dest_addrlen);
}

static int gfi_resolve(const char *node, const char *service, uint64_t flags,
                       const struct fi_info *hints, struct fi_info *info)
{
    bool is_text = hints != NULL && hints->addr_format == FI_ADDR_STR;

    if (flags & FI_SOURCE) {
        return gfi_resolve_source(node, service, info);
    }
    if (is_text && hints->src_addr != NULL &&
        gfi_resolve_source(hints->src_addr, NULL, info) != 0) {
        return -FI_ENODATA;
    }
    if (node == NULL && is_text) {
        node = hints->dest_addr;
    }
    if (node != NULL) {
        return gfi_resolve_dest(node, service, info);
    }
    if (hints != NULL && hints->dest_addr != NULL && !is_text &&
        hints->dest_addrlen == sizeof(struct gfi_addr)) {
        return gfi_set_addr(info, hints->dest_addr, &info->dest_addr, &info->dest_addrlen);
    }
    return 0;
}

/* An endpoint that keeps orders of RMA keeps them for accesses of any length */
static void gfi_allow_order(const struct fi_info *hints, struct fi_info *info)
{
    if (hints->tx_attr != NULL && (hints->tx_attr->msg_order & GFI_RMA_ORDERS)) {
        info->ep_attr->max_order_raw_size = SIZE_MAX;
        info->ep_attr->max_order_war_size = SIZE_MAX;
        info->ep_attr->max_order_waw_size = SIZE_MAX;
    }
}

/* Applies the hints and the addresses. @return 0, or a negative FI_ error with a line in the log */
static int gfi_adapt(uint32_t version, const char *node, const char *service, uint64_t flags,
                     const struct fi_info *hints, struct fi_info *info)
{
    int ret;

    if (hints == NULL || (flags & FI_PROV_ATTR_ONLY)) {
        info->caps &= ~FI_SOURCE_ERR; /* programs must be ready for such errors */
        info->rx_attr->caps &= ~FI_SOURCE_ERR;
    } else {
        gfi_allow_order(hints, info);
        ret = gfi_check_hints(version, hints, info);
        if (ret != 0) {
            return ret;
        }
        gfi_apply_hints(version, hints, info);
    }
    if (hints != NULL && hints->addr_format == FI_ADDR_STR) {
        info->addr_format = FI_ADDR_STR;
        if (gfi_fill_src_addr(info) != 0) {
            return -FI_ENOMEM;
        }
    }
    return gfi_resolve(node, service, flags, hints, info);
}

int gfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info_p)
{
    struct fi_info *info;
    int ret;

    if (gfi_uct_probe() != 0) {
        return -FI_ENODATA;
    }
    info = gfi_info_new();
    if (info == NULL) {
        return -FI_ENOMEM;
    }
    if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
        info->domain_attr->mr_mode = GFI_MR_BASIC;
    }
    info->fabric_attr->api_version = version;
    ret = gfi_adapt(version, node, service, flags, hints, info);
    if (ret != 0) {
        fi_freeinfo(info);
        return ret;
    }
    *info_p = info;
    return 0;
}
