/*
 * The differences between the supported versions of UCX, 1.13 to 1.22, for a transport.
 *
 * The transports are written for the newest versions. If an older version lacks a function or an
 * argument, this file has a name for the difference. The first version with the newer form is named
 * beside each difference.
 */
#ifndef UCT_COMPAT_H
#define UCT_COMPAT_H

#include <uct/api/version.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_md.h>
#include <ucs/sys/string.h>
#include <string.h>

#if UCT_API < UCT_VERSION(1, 13)
#error "the transports are made for UCX 1.13 and newer"
#endif

#if UCT_API >= UCT_VERSION(1, 14)
#include <uct/api/v2/uct_v2.h>
#endif
#if UCT_API >= UCT_VERSION(1, 17)
#include <ucs/sys/ptr_arith.h>
#endif

/* In 1.22 a check may complete later. The checks of our transports complete at once. */
#if UCT_API >= UCT_VERSION(1, 22)
#define UCT_COMPAT_EP_CHECK_PARAM(_flags, _comp) UCT_EP_KEEPALIVE_CHECK_PARAM(_flags)
#else
#define UCT_COMPAT_EP_CHECK_PARAM(_flags, _comp) UCT_EP_KEEPALIVE_CHECK_PARAM(_flags, _comp)
#endif

/* The copy of a short message. From 1.18 on, the copy may bypass the cache. */
static inline void uct_compat_am_short_fill_data(void *buffer, uint64_t header, const void *payload,
                                                 size_t length)
{
#if UCT_API >= UCT_VERSION(1, 18)
    uct_am_short_fill_data(buffer, header, payload, length, UCS_ARCH_MEMCPY_NT_NONE);
#else
    uct_am_short_fill_data(buffer, header, payload, length);
#endif
}

/* Attributes of a domain, arguments of a registration */

#if UCT_API >= UCT_VERSION(1, 14)

typedef uct_md_attr_v2_t uct_compat_md_attr_t;
typedef const uct_md_mem_reg_params_t *uct_compat_mem_reg_arg_t;

#define UCT_COMPAT_MD_ATTR(_attr) (_attr)

static inline unsigned uct_compat_mem_reg_flags(uct_compat_mem_reg_arg_t arg)
{
    return UCT_MD_MEM_REG_FIELD_VALUE(arg, flags, FIELD_FLAGS, 0);
}

#else

typedef uct_md_attr_t uct_compat_md_attr_t;
typedef unsigned uct_compat_mem_reg_arg_t;

#define UCT_COMPAT_MD_ATTR(_attr) (&(_attr)->cap)

static inline unsigned uct_compat_mem_reg_flags(uct_compat_mem_reg_arg_t arg)
{
    return arg;
}

#endif

static inline void uct_compat_md_attr_init(uct_compat_md_attr_t *attr)
{
#if UCT_API >= UCT_VERSION(1, 17)
    uct_md_base_md_query(attr);
#else
#if UCT_API >= UCT_VERSION(1, 14)
    uint64_t field_mask = attr->field_mask; /* set by UCT: the fields that UCT copies */
#endif

    memset(attr, 0, sizeof(*attr));
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
#if UCT_API >= UCT_VERSION(1, 14)
    attr->field_mask = field_mask;
#endif
#endif
}

/* The range of a packed key. The keys of our transports cover the whole registration. */
#if UCT_API >= UCT_VERSION(1, 16)
#define UCT_COMPAT_MKEY_PACK_RANGE void *address, size_t length,
#else
#define UCT_COMPAT_MKEY_PACK_RANGE
#endif

/* Operations of a domain that our transports do not support */
#if UCT_API >= UCT_VERSION(1, 14)
#define UCT_COMPAT_MD_ATTACH                                                                       \
    .mem_attach = (uct_md_mem_attach_func_t)ucs_empty_function_return_unsupported,
#else
#define UCT_COMPAT_MD_ATTACH
#endif
#if UCT_API >= UCT_VERSION(1, 16)
#define UCT_COMPAT_MD_OPS UCT_COMPAT_MD_ATTACH
#else
#define UCT_COMPAT_MD_OPS                                                                          \
    UCT_COMPAT_MD_ATTACH.is_sockaddr_accessible = ucs_empty_function_return_zero_int,
#endif

/* Internal operations of an interface that our transports do not have */

/* 1.20 and 1.22 have this function, 1.21 does not */
#if (UCT_API == UCT_VERSION(1, 20)) || (UCT_API >= UCT_VERSION(1, 22))
#define UCT_COMPAT_IFACE_QUERY_V2 .iface_query_v2 = uct_iface_base_query_v2,
#else
#define UCT_COMPAT_IFACE_QUERY_V2
#endif

#if UCT_API >= UCT_VERSION(1, 20)
#define UCT_COMPAT_EP_GET_DEVICE_EP                                                                \
    .ep_get_device_ep = (uct_ep_get_device_ep_func_t)ucs_empty_function_return_unsupported,
#else
#define UCT_COMPAT_EP_GET_DEVICE_EP
#endif

#if UCT_API >= UCT_VERSION(1, 14)
#define UCT_COMPAT_EP_CONNECT_TO_EP                                                                \
    .ep_connect_to_ep_v2 = (uct_ep_connect_to_ep_v2_func_t)ucs_empty_function_return_unsupported,
#else
#define UCT_COMPAT_EP_CONNECT_TO_EP
#endif

/* Makes iface_is_reachable_v2 of iface_is_reachable, which older versions call. `_name` is the new
 * function. */
#if UCT_API >= UCT_VERSION(1, 15)
#define UCT_COMPAT_DEFINE_IS_REACHABLE(_name, _is_reachable)                                       \
    static int _name(const uct_iface_h iface, const uct_iface_is_reachable_params_t *params)       \
    {                                                                                              \
        return (params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR) &&                  \
               _is_reachable(iface, params->device_addr, NULL) &&                                  \
               uct_compat_scope_is_reachable(iface, params);                                       \
    }
#define UCT_COMPAT_IFACE_IS_REACHABLE(_name) .iface_is_reachable_v2 = _name,

static inline int uct_compat_scope_is_reachable(const uct_iface_h iface,
                                                const uct_iface_is_reachable_params_t *params)
{
#if UCT_API >= UCT_VERSION(1, 16)
    return uct_iface_scope_is_reachable(iface, params);
#else
    return 1;
#endif
}
#else
#define UCT_COMPAT_DEFINE_IS_REACHABLE(_name, _is_reachable)
#define UCT_COMPAT_IFACE_IS_REACHABLE(_name)
#endif

/* For a transport without connections and without remote keys */
#if UCT_API >= UCT_VERSION(1, 16)
#define UCT_COMPAT_EP_IS_CONNECTED                                                                 \
    .ep_is_connected = (uct_ep_is_connected_func_t)ucs_empty_function_return_zero_int,
#define UCT_COMPAT_RKEY_COMPARE .rkey_compare = uct_base_rkey_compare,
#else
#define UCT_COMPAT_EP_IS_CONNECTED
#define UCT_COMPAT_RKEY_COMPARE
#endif

#define UCT_COMPAT_IFACE_INTERNAL_OPS                                                              \
    UCT_COMPAT_IFACE_QUERY_V2                                                                      \
    UCT_COMPAT_EP_GET_DEVICE_EP                                                                    \
    UCT_COMPAT_EP_CONNECT_TO_EP

#endif
