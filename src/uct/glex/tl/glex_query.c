/*
 * Attributes and addresses of the interface, and the check whether a peer is reachable.
 */
#include "core/glex_iface.h"
#include "rma/glex_atomic.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>
#include <ucs/sys/uid.h>
#include <stdlib.h>
#include <string.h>

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
    attr->cap.am.min_zcopy = iface->config.min_rndv;
    if (uct_glex_md_has_private_rdma(iface->md) && (iface->config.max_zcopy > 0)) {
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

/*
 * UCP of UCX 1.16 and later computes thresholds from estimates of operations. A get or put of private
 * memory over the software NIC is a system call, as over UCX's cma. UCX states 2 us for cma; the
 * cookie of a put takes 0.5 us more. Without this addition UCP sends 3 KB by rendezvous.
 */
#define UCT_GLEX_SYSCALL_OVERHEAD 2.5e-6

ucs_status_t uct_glex_iface_estimate_perf(uct_iface_h tl_iface, uct_perf_attr_t *attr)
{
    const uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    uint64_t fields = UCT_PERF_ATTR_FIELD_OPERATION | UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD;
    ucs_status_t status = uct_base_iface_estimate_perf(tl_iface, attr);

    if ((status == UCS_OK) && ((attr->field_mask & fields) == fields) &&
        ((attr->operation == UCT_EP_OP_GET_ZCOPY) || (attr->operation == UCT_EP_OP_PUT_ZCOPY)) &&
        uct_glex_md_rdma_now(iface->md)) {
        attr->send_pre_overhead += UCT_GLEX_SYSCALL_OVERHEAD;
    }
    return status;
}

ucs_status_t uct_glex_iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t *addr)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    uct_glex_iface_addr_t *out = (uct_glex_iface_addr_t *)addr;

    out->ep_addr = iface->ep_addr;
    out->uuid = iface->uuid;
    return UCS_OK;
}

/* 0: not known */
static uint16_t uct_glex_query_host(void)
{
    uint64_t id = ucs_get_system_id();

    return id ^ (id >> 16) ^ (id >> 32) ^ (id >> 48);
}

ucs_status_t uct_glex_iface_get_device_address(uct_iface_h tl_iface, uct_device_addr_t *addr)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    uct_glex_device_addr_t *out = (uct_glex_device_addr_t *)addr;

    out->nic_id = iface->md->dev_attr.nic_id;
    out->version = UCT_GLEX_WIRE_VERSION;
    out->host = uct_glex_query_host();
    out->fabric = iface->md->ext_attr.fabric;
    out->network = iface->md->ext_attr.network;
    out->space = iface->md->ext_attr.space;
    return UCS_OK;
}

/* Whether the user lets UCX use no transport but glex (and self). Then an unreachable peer ends the
 * job. The shim of glexrun takes GLEX_UCX_TLS in place of UCX_TLS. */
static int uct_glex_query_is_alone(void)
{
    const char *tls = (getenv("UCX_TLS") != NULL) ? getenv("UCX_TLS") : getenv("GLEX_UCX_TLS");
    size_t length;

    for (; (tls != NULL) && (*tls != '\0'); tls += length + (tls[length] == ',')) {
        length = strcspn(tls, ",");
        if ((length != 4) || ((strncmp(tls, "glex", 4) != 0) && (strncmp(tls, "self", 4) != 0))) {
            return 0;
        }
    }
    return tls != NULL;
}

static int uct_glex_query_same_host(const uct_glex_device_addr_t *addr)
{
    return (addr->host != 0) && (addr->host == uct_glex_query_host());
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

/* Why processes of one host, or of two hosts, have no link */
static const char *uct_glex_query_no_link(const uct_glex_iface_t *iface,
                                          const uct_glex_device_addr_t *addr)
{
    if (uct_glex_query_same_host(addr)) {
        return "of this host, because the two do not share a fabric: they have different /dev/shm "
               "(containers: --ipc=host, or -v /dev/shm:/dev/shm), users, GLEX_FABRIC or "
               "GLEX_SHM_DIR";
    }
    if ((addr->network == 0) && (iface->md->ext_attr.network == 0)) {
        return "of another host, because GLEX_NET is not set; "
               "GLEX_NET=tcp in all processes connects hosts";
    }
    if ((addr->network == 0) || (iface->md->ext_attr.network == 0)) {
        return "of another host, because only one of the two has GLEX_NET; set GLEX_NET in all "
               "processes";
    }
    if (addr->network != iface->md->ext_attr.network) {
        return "of another host, because the two have different networks: set GLEX_NET, "
               "GLEX_NET_PORT and the key alike in all processes";
    }
    return "of another host, because both hosts have the same NIC id, which comes from the "
           "address: name an interface with different addresses (GLEX_NET=tcp/INTERFACE)";
}

/* Why the peer is not reachable, or NULL */
static const char *uct_glex_query_obstacle(const uct_glex_iface_t *iface,
                                           const uct_glex_device_addr_t *addr)
{
    if (addr->version != UCT_GLEX_WIRE_VERSION) {
        return "of another version of openglex: install the same version for all processes";
    }
    if (!uct_glex_iface_shares_link(iface, addr)) {
        return uct_glex_query_no_link(iface, addr);
    }
    if (glex_ext_is_reachable(iface->md->dev, addr->nic_id) != GLEX_SUCCESS) {
        return "because no link leads to the NIC: the process has ended, or the hosts' netmasks "
               "differ; glex_info shows the NICs that this process reaches";
    }
    if ((addr->fabric != iface->md->ext_attr.fabric) ||
        (addr->space == iface->md->ext_attr.space)) {
        return NULL;
    }
    /* UCP uses zero-copy with all peers or with none */
    return ((addr->space == 0) || (iface->md->ext_attr.space == 0)) ?
               "because one of the two may not be read by others (ptrace, seccomp): no zero-copy "
               "between the two. GLEX_PRIVATE_RDMA=n in all processes does without" :
               "in another pid or user namespace: no zero-copy between the two. "
               "GLEX_PRIVATE_RDMA=n in all processes does without";
}

/* One line for each process. Peers on other hosts are normal if another transport may carry their
 * messages, so their line has the level diag. */
static void uct_glex_query_log(const uct_glex_device_addr_t *addr, const char *why)
{
    static int logged;
    int is_failure = uct_glex_query_same_host(addr) || uct_glex_query_is_alone();

    ucs_log((is_failure && !logged) ? UCS_LOG_LEVEL_WARN : UCS_LOG_LEVEL_DIAG,
            "glex: not usable with a process on NIC 0x%x %s", addr->nic_id, why);
    logged |= is_failure;
}

int uct_glex_iface_is_reachable_why(const uct_iface_h tl_iface, const uct_device_addr_t *dev_addr,
                                    const char **why_p)
{
    const uct_glex_device_addr_t *addr = (const uct_glex_device_addr_t *)dev_addr;

    *why_p = uct_glex_query_obstacle(ucs_derived_of(tl_iface, uct_glex_iface_t), addr);
    if (*why_p != NULL) {
        uct_glex_query_log(addr, *why_p);
    }
    return *why_p == NULL;
}

int uct_glex_iface_is_reachable(const uct_iface_h tl_iface, const uct_device_addr_t *dev_addr,
                                const uct_iface_addr_t *iface_addr)
{
    const char *why;

    return uct_glex_iface_is_reachable_why(tl_iface, dev_addr, &why);
}
