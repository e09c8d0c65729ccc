/*
 * Multicast groups. The RDMA connection manager talks to the network (the subnet manager on
 * InfiniBand, IGMP on RoCE) and answers through its event channel; until it has, a group's
 * endpoints have no room. A group is named by an IP address; addresses travel as IPv6, with IPv4
 * mapped into it.
 */
#include "ud_mon_iface.h"

#include <ucs/sys/sock.h>

#include <errno.h>
#include <fcntl.h>

ucs_status_t ud_mon_group_addr(const uint8_t gid[16], struct sockaddr_storage *addr)
{
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
    struct sockaddr_in *in = (struct sockaddr_in *)addr;
    struct in6_addr ip;

    memset(addr, 0, sizeof(*addr));
    memcpy(&ip, gid, sizeof(ip));
    if (IN6_IS_ADDR_V4MAPPED(&ip)) {
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, gid + 12, 4);
        return IN_MULTICAST(ntohl(in->sin_addr.s_addr)) ? UCS_OK : UCS_ERR_INVALID_ADDR;
    }
    in6->sin6_family = AF_INET6;
    in6->sin6_addr = ip;
    return IN6_IS_ADDR_MULTICAST(&ip) ? UCS_OK : UCS_ERR_INVALID_ADDR;
}

static ucs_status_t ud_mon_group_gid(const struct sockaddr *addr, uint8_t gid[16])
{
    struct sockaddr_storage check;

    if (addr->sa_family == AF_INET) {
        memset(gid, 0, 10);
        memset(gid + 10, 0xff, 2);
        memcpy(gid + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
    } else if (addr->sa_family == AF_INET6) {
        memcpy(gid, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
    } else {
        return UCS_ERR_INVALID_ADDR;
    }
    return ud_mon_group_addr(gid, &check);
}

static int ud_mon_group_is(const ud_mon_group_t *group, const struct sockaddr *addr)
{
    uint8_t a[16], b[16];

    return (ud_mon_group_gid((const struct sockaddr *)&group->addr, a) == UCS_OK) &&
           (ud_mon_group_gid(addr, b) == UCS_OK) && !memcmp(a, b, sizeof(a));
}

static ud_mon_group_t *ud_mon_group_find(uct_ud_mon_iface_t *iface, const struct sockaddr *addr)
{
    ud_mon_group_t *group;

    ucs_list_for_each(group, &iface->groups, list) {
        if (ud_mon_group_is(group, addr)) {
            return group;
        }
    }
    return NULL;
}

static void ud_mon_group_fail(ud_mon_group_t *group, const char *what)
{
    char text[UCS_SOCKADDR_STRING_LEN];

    ucs_error("ib_ud_mon: multicast group %s: %s: %m",
              ucs_sockaddr_str((struct sockaddr *)&group->addr, text, sizeof(text)), what);
    group->state = UD_MON_GROUP_FAILED;
}

/* On RoCE our own address says which port the group is to be joined through. */
static int ud_mon_group_bind(uct_ud_mon_iface_t *iface, ud_mon_group_t *group)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (!iface->is_eth) {
        return rdma_resolve_addr(group->cm_id, NULL, (struct sockaddr *)&group->addr, 1000);
    }
    if (IN6_IS_ADDR_V4MAPPED((struct in6_addr *)iface->gid.raw)) {
        memcpy(&in.sin_addr, iface->gid.raw + 12, 4);
        return rdma_bind_addr(group->cm_id, (struct sockaddr *)&in);
    }
    memcpy(&in6.sin6_addr, iface->gid.raw, 16);
    return rdma_bind_addr(group->cm_id, (struct sockaddr *)&in6);
}

static void ud_mon_group_join(uct_ud_mon_iface_t *iface, ud_mon_group_t *group)
{
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);

    if ((group->cm_id->verbs == NULL) || (group->cm_id->port_num != iface->port) ||
        strcmp(ibv_get_device_name(group->cm_id->verbs->device), md->name)) {
        errno = ENETUNREACH;
        ud_mon_group_fail(group, "routing leads to another port than the interface's");
    } else if (rdma_join_multicast(group->cm_id, (struct sockaddr *)&group->addr, group) != 0) {
        ud_mon_group_fail(group, "cannot join");
    } else {
        group->state = UD_MON_GROUP_JOINING;
    }
}

static void ud_mon_group_attach(uct_ud_mon_iface_t *iface, ud_mon_group_t *group)
{
    if (ibv_attach_mcast(iface->qp, &group->mgid, group->mlid) != 0) {
        ud_mon_group_fail(group, "the device does not attach the queue pair");
    } else {
        group->attached = 1;
    }
}

static void ud_mon_group_joined(uct_ud_mon_iface_t *iface, ud_mon_group_t *group,
                                const struct ibv_ah_attr *event_attr)
{
    struct ibv_ah_attr attr;

    memset(&attr, 0, sizeof(attr)); /* holes too: it becomes a hash key */
    attr.grh.dgid = event_attr->grh.dgid;
    attr.grh.flow_label = event_attr->grh.flow_label;
    attr.grh.sgid_index = event_attr->grh.sgid_index;
    attr.grh.hop_limit = event_attr->grh.hop_limit;
    attr.grh.traffic_class = event_attr->grh.traffic_class;
    attr.dlid = event_attr->dlid;
    attr.sl = event_attr->sl;
    attr.static_rate = event_attr->static_rate;
    attr.is_global = 1;
    attr.port_num = iface->port;
    group->mgid = attr.grh.dgid;
    group->mlid = attr.dlid;
    if (ud_mon_ah_get(iface, &attr, &group->ah) != UCS_OK) {
        ud_mon_group_fail(group, "no address handle");
        return;
    }
    group->state = UD_MON_GROUP_JOINED;
    if (group->receives) {
        ud_mon_group_attach(iface, group);
    }
}

static void ud_mon_group_event(uct_ud_mon_iface_t *iface, struct rdma_cm_event *event)
{
    ud_mon_group_t *group = event->id->context;

    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        ud_mon_group_join(iface, group);
        break;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
        if (group->state == UD_MON_GROUP_JOINING) {
            ud_mon_group_joined(iface, group, &event->param.ud.ah_attr);
        }
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
        errno = (event->status < 0) ? -event->status : event->status;
        ud_mon_group_fail(group, "the network refuses");
        break;
    default:
        ucs_debug("ib_ud_mon: multicast event %s", rdma_event_str(event->event));
        break;
    }
}

void ud_mon_groups_progress(uct_ud_mon_iface_t *iface)
{
    struct rdma_cm_event *event;

    if (iface->cm_channel == NULL) {
        return;
    }
    while (rdma_get_cm_event(iface->cm_channel, &event) == 0) {
        ud_mon_group_event(iface, event);
        rdma_ack_cm_event(event);
    }
}

static ucs_status_t ud_mon_group_channel(uct_ud_mon_iface_t *iface)
{
    ucs_status_t status;

    if (iface->cm_channel != NULL) {
        return UCS_OK;
    }
    iface->cm_channel = rdma_create_event_channel();
    if (iface->cm_channel == NULL) {
        ucs_error("ib_ud_mon: no RDMA connection manager for multicast: %m (module rdma_ucm?)");
        return UCS_ERR_IO_ERROR;
    }
    status = ucs_sys_fcntl_modfl(iface->cm_channel->fd, O_NONBLOCK, 0);
    if (status == UCS_OK) {
        status = ud_mon_event_add(iface, iface->cm_channel->fd);
    }
    if (status != UCS_OK) {
        rdma_destroy_event_channel(iface->cm_channel);
        iface->cm_channel = NULL;
    }
    return status;
}

static ucs_status_t ud_mon_group_start(uct_ud_mon_iface_t *iface, ud_mon_group_t *group)
{
    char text[UCS_SOCKADDR_STRING_LEN];

    ucs_sockaddr_str((struct sockaddr *)&group->addr, text, sizeof(text));
    if (rdma_create_id(iface->cm_channel, &group->cm_id, group, RDMA_PS_UDP) != 0) {
        ucs_error("ib_ud_mon: multicast group %s: no connection manager id: %m", text);
        return UCS_ERR_IO_ERROR;
    }
    group->state = UD_MON_GROUP_RESOLVING;
    if (ud_mon_group_bind(iface, group) != 0) {
        ucs_error("ib_ud_mon: multicast group %s: cannot bind to the port's address: %m", text);
        rdma_destroy_id(group->cm_id);
        return UCS_ERR_IO_ERROR;
    }
    if (iface->is_eth) {
        ud_mon_group_join(iface, group);
    }
    return UCS_OK;
}

ucs_status_t ud_mon_group_get(uct_ud_mon_iface_t *iface, const struct sockaddr *addr, int receives,
                              ud_mon_group_t **group_p)
{
    ud_mon_group_t *group = ud_mon_group_find(iface, addr);
    ucs_status_t status;
    size_t length;

    if (!iface->qkey_given) {
        ucs_error("ib_ud_mon: multicast needs one queue key for all: set UCX_IB_UD_MON_QKEY to the "
                  "same number everywhere");
        return UCS_ERR_INVALID_PARAM;
    }
    if (group == NULL) {
        status = ud_mon_group_channel(iface);
        if (status != UCS_OK) {
            return status;
        }
        group = ucs_calloc(1, sizeof(*group), "ud_mon group");
        if (group == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        status = ucs_sockaddr_sizeof(addr, &length);
        if (status == UCS_OK) {
            memcpy(&group->addr, addr, length);
            status = ud_mon_group_start(iface, group);
        }
        if (status != UCS_OK) {
            ucs_free(group);
            return status;
        }
        ucs_list_add_tail(&iface->groups, &group->list);
    }
    ++group->refs;
    if (receives) {
        group->receives = 1;
        if (group->state == UD_MON_GROUP_JOINED) {
            ud_mon_group_attach(iface, group);
        }
    }
    *group_p = group;
    return UCS_OK;
}

void ud_mon_group_put(uct_ud_mon_iface_t *iface, ud_mon_group_t *group)
{
    if (--group->refs > 0) {
        return;
    }
    ucs_list_del(&group->list);
    if (group->attached && (ibv_detach_mcast(iface->qp, &group->mgid, group->mlid) != 0)) {
        ucs_warn("ib_ud_mon: cannot detach from a multicast group: %m");
    }
    if (group->ah != NULL) {
        ud_mon_ah_put(iface, group->ah);
    }
    /* Leaves the group too, and waits until no event of it is under way: all are acknowledged. */
    rdma_destroy_id(group->cm_id);
    ucs_free(group);
}

void ud_mon_groups_cleanup(uct_ud_mon_iface_t *iface)
{
    ud_mon_group_t *group, *next;

    ucs_list_for_each_safe(group, next, &iface->groups, list) {
        group->refs = 1;
        ud_mon_group_put(iface, group);
    }
    if (iface->cm_channel != NULL) {
        rdma_destroy_event_channel(iface->cm_channel);
    }
}

ucs_status_t uct_ud_mon_mcast_address(uct_iface_h tl_iface, const struct sockaddr *addr,
                                      uct_device_addr_t *tl_dev_addr,
                                      uct_iface_addr_t *tl_iface_addr)
{
    uct_ud_mon_iface_t *iface = uct_ud_mon_iface_cast(tl_iface);
    ud_mon_device_addr_t *dev_addr = (void *)tl_dev_addr;
    ud_mon_iface_addr_t *iface_addr = (void *)tl_iface_addr;

    if (iface == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    memset(dev_addr, 0, sizeof(*dev_addr));
    dev_addr->version = UD_MON_ADDR_VERSION;
    dev_addr->flags = UD_MON_ADDR_MCAST | (iface->is_eth ? UD_MON_ADDR_ETH : 0);
    iface_addr->qpn = htole32(UD_MON_QPN_MCAST);
    iface_addr->qkey = htole32(iface->qkey);
    return ud_mon_group_gid(addr, dev_addr->gid);
}

ucs_status_t uct_ud_mon_mcast_join(uct_iface_h tl_iface, const struct sockaddr *addr)
{
    uct_ud_mon_iface_t *iface = uct_ud_mon_iface_cast(tl_iface);
    ud_mon_group_t *group;
    uint8_t gid[16];

    if ((iface == NULL) || (ud_mon_group_gid(addr, gid) != UCS_OK)) {
        return UCS_ERR_INVALID_PARAM;
    }
    group = ud_mon_group_find(iface, addr);
    if ((group != NULL) && group->receives) {
        return UCS_ERR_ALREADY_EXISTS;
    }
    return ud_mon_group_get(iface, addr, 1, &group);
}

ucs_status_t uct_ud_mon_mcast_leave(uct_iface_h tl_iface, const struct sockaddr *addr)
{
    uct_ud_mon_iface_t *iface = uct_ud_mon_iface_cast(tl_iface);
    ud_mon_group_t *group;

    if (iface == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    group = ud_mon_group_find(iface, addr);
    if ((group == NULL) || !group->receives) {
        return UCS_ERR_NO_ELEM;
    }
    if (group->attached && (ibv_detach_mcast(iface->qp, &group->mgid, group->mlid) != 0)) {
        ucs_error("ib_ud_mon: cannot detach from a multicast group: %m");
        return UCS_ERR_IO_ERROR;
    }
    group->attached = 0;
    group->receives = 0;
    ud_mon_group_put(iface, group);
    return UCS_OK;
}

ucs_status_t uct_ud_mon_mcast_status(uct_iface_h tl_iface, const struct sockaddr *addr)
{
    uct_ud_mon_iface_t *iface = uct_ud_mon_iface_cast(tl_iface);
    ud_mon_group_t *group;

    if (iface == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    group = ud_mon_group_find(iface, addr);
    if ((group == NULL) || !group->receives) {
        return UCS_ERR_NO_ELEM;
    }
    return (group->state == UD_MON_GROUP_FAILED) ? UCS_ERR_UNREACHABLE :
           group->attached                       ? UCS_OK : UCS_INPROGRESS;
}
