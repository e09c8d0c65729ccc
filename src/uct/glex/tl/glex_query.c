/*
 * Attributes and addresses of the interface, and the check whether a peer is reachable.
 */
#include "core/glex_iface.h"
#include "rma/glex_atomic.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>

/*
 * UCP ranks transports by their stated performance. UCX's transports for one host (posix, sysv,
 * xpmem) state the same constants on every machine, and measured times would not be comparable. So
 * the numbers of glex are UCX's constants times the ratios that contrib/bench measures against
 * posix: am_short latency, am_short rate, and bandwidth of 1 MB.
 */
#define UCT_GLEX_MM_LATENCY   80e-9
#define UCT_GLEX_MM_OVERHEAD  10e-9
#define UCT_GLEX_MM_BANDWIDTH (12179.0 * UCS_MBYTE)
#define UCT_GLEX_LATENCY      (UCT_GLEX_MM_LATENCY * 0.56)
#define UCT_GLEX_OVERHEAD     (UCT_GLEX_MM_OVERHEAD / 6)
#define UCT_GLEX_BANDWIDTH    (UCT_GLEX_MM_BANDWIDTH * 1.5)

static void uct_glex_iface_query_am(const uct_glex_iface_t *iface, uct_iface_attr_t *attr)
{
    attr->cap.flags |= UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY;
    attr->cap.am.max_short = UCT_GLEX_MP_DATA_LEN;
    attr->cap.am.max_bcopy = iface->config.max_bcopy;
    attr->cap.am.opt_zcopy_align = 1;
    attr->cap.am.align_mtu = 1;
    attr->cap.am.max_iov = 1;
    if (uct_glex_md_has_private_rdma(iface->md)) {
        attr->cap.flags |= UCT_IFACE_FLAG_AM_ZCOPY;
        attr->cap.am.max_zcopy = iface->config.max_zcopy;
        attr->cap.am.max_hdr = UCT_GLEX_ZC_MAX_HDR;
        attr->cap.am.max_iov = UCT_GLEX_ZC_MAX_IOV;
    }
}

size_t uct_glex_iface_max_rdma(const uct_glex_iface_t *iface)
{
    return ucs_min((size_t)iface->md->dev_attr.max_rdma_data_len, UCT_GLEX_MAX_RDMA);
}

static void uct_glex_iface_query_rma(const uct_glex_iface_t *iface, uct_iface_attr_t *attr)
{
    size_t max_zcopy = uct_glex_iface_max_rdma(iface);

    attr->cap.flags |=
        UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY | UCT_IFACE_FLAG_GET_BCOPY;
    attr->cap.put.max_short = iface->config.max_rma_short;
    attr->cap.put.max_bcopy = iface->config.rma_buf_size;
    attr->cap.put.opt_zcopy_align = 1;
    attr->cap.put.align_mtu = 1;
    attr->cap.put.max_iov = 1;
    attr->cap.get.max_bcopy = iface->config.rma_buf_size;
    attr->cap.get.opt_zcopy_align = 1;
    attr->cap.get.align_mtu = 1;
    attr->cap.get.max_iov = 1;
    if (uct_glex_md_rdma_now(iface->md)) {
        attr->cap.flags |= UCT_IFACE_FLAG_GET_SHORT;
        attr->cap.get.max_short = iface->config.max_rma_short;
    }
    if (uct_glex_md_has_private_rdma(iface->md)) {
        attr->cap.flags |= UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY;
        attr->cap.put.max_zcopy = max_zcopy;
        attr->cap.get.max_zcopy = max_zcopy;
    }
}

static void uct_glex_iface_query_atomic(const uct_glex_iface_t *iface, uct_iface_attr_t *attr)
{
    if (!uct_glex_md_has_atomics(iface->md)) {
        return;
    }
    attr->cap.flags |= UCT_IFACE_FLAG_ATOMIC_CPU;
    attr->cap.atomic32.op_flags = UCT_GLEX_ATOMIC_POST_OPS;
    attr->cap.atomic64.op_flags = UCT_GLEX_ATOMIC_POST_OPS;
    attr->cap.atomic32.fop_flags = UCT_GLEX_ATOMIC_FETCH_OPS;
    attr->cap.atomic64.fop_flags = UCT_GLEX_ATOMIC_FETCH_OPS;
}

ucs_status_t uct_glex_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);

    uct_base_iface_query(&iface->super, attr);
    attr->device_addr_len = sizeof(uct_glex_device_addr_t);
    attr->iface_addr_len = sizeof(uct_glex_iface_addr_t);
    attr->ep_addr_len = 0;
    attr->max_conn_priv = 0;
    attr->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PENDING |
                      UCT_IFACE_FLAG_CB_SYNC | UCT_IFACE_FLAG_EP_CHECK |
                      UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE;
    uct_glex_iface_query_am(iface, attr);
    uct_glex_iface_query_rma(iface, attr);
    uct_glex_iface_query_atomic(iface, attr);
    if (iface->event_fd >= 0) {
        attr->cap.event_flags =
            UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;
    }
    attr->latency = ucs_linear_func_make(UCT_GLEX_LATENCY, 0);
    attr->overhead = UCT_GLEX_OVERHEAD;
    attr->bandwidth.dedicated = UCT_GLEX_BANDWIDTH;
    attr->bandwidth.shared = 0;
    attr->priority = 0;
    return UCS_OK;
}

ucs_status_t uct_glex_iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t *addr)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    uct_glex_iface_addr_t *out = (uct_glex_iface_addr_t *)addr;

    out->ep_addr = iface->ep_addr;
    out->uuid = iface->uuid;
    return UCS_OK;
}

ucs_status_t uct_glex_iface_get_device_address(uct_iface_h tl_iface, uct_device_addr_t *addr)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    uct_glex_device_addr_t *out = (uct_glex_device_addr_t *)addr;

    out->nic_id = iface->md->dev_attr.nic_id;
    out->version = UCT_GLEX_WIRE_VERSION;
    out->resv = 0;
    out->fabric = iface->md->ext_attr.fabric;
    out->network = iface->md->ext_attr.network;
    out->space = iface->md->ext_attr.space;
    return UCS_OK;
}

/* UCP uses zero-copy with all peers or with none */
static void uct_glex_iface_warn_space(const uct_glex_iface_t *iface,
                                      const uct_glex_device_addr_t *addr)
{
    static int warned;

    if (!warned) {
        warned = 1;
        ucs_warn("glex: not usable with a process on NIC 0x%x %s: no zero-copy between the two. "
                 "GLEX_PRIVATE_RDMA=n in all processes does without",
                 addr->nic_id,
                 (addr->space == 0) || (iface->md->ext_attr.space == 0) ?
                     "because one of the two may not be read by others (ptrace, seccomp)" :
                     "in another pid or user namespace");
    }
}

/* NICs of two hosts may have the same id. The identities of fabric and network distinguish the
 * hosts. A NIC of the own host is reachable only by shared memory. */
static int uct_glex_iface_shares_link(const uct_glex_iface_t *iface,
                                      const uct_glex_device_addr_t *addr)
{
    return (addr->fabric == iface->md->ext_attr.fabric) ||
           ((addr->network != 0) && (addr->network == iface->md->ext_attr.network) &&
            (addr->nic_id != iface->md->dev_attr.nic_id));
}

int uct_glex_iface_is_reachable(const uct_iface_h tl_iface, const uct_device_addr_t *dev_addr,
                                const uct_iface_addr_t *iface_addr)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    const uct_glex_device_addr_t *addr = (const uct_glex_device_addr_t *)dev_addr;

    if ((addr->version != UCT_GLEX_WIRE_VERSION) || !uct_glex_iface_shares_link(iface, addr) ||
        (glex_ext_is_reachable(iface->md->dev, addr->nic_id) != GLEX_SUCCESS)) {
        return 0;
    }
    if ((addr->fabric == iface->md->ext_attr.fabric) &&
        (addr->space != iface->md->ext_attr.space)) {
        uct_glex_iface_warn_space(iface, addr);
        return 0;
    }
    return 1;
}
