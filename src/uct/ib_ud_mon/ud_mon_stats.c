/* Counters of the interface, and the device's counters of datagrams that the interface never
 * saw. */
#include "ud_mon_iface.h"

#include <stdio.h>

static int ud_mon_hw_counter(const uct_ud_mon_iface_t *iface, const char *name, uint64_t *value_p)
{
    unsigned long long value;
    char path[256];
    FILE *file;
    int found;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/hw_counters/%s",
             ucs_derived_of(iface->super.md, uct_ud_mon_md_t)->name, iface->port, name);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0; /* every driver has its own set: absence is the normal case */
    }
    found = (fscanf(file, "%llu", &value) == 1);
    fclose(file);
    *value_p = value;
    return found;
}

/*
 * Datagrams that were dropped because no receive was posted. mlx5 counts dropped datagrams. rxe
 * counts datagrams that arrived for a queue pair, and datagrams that got a receive.
 */
static int ud_mon_no_receive(const uct_ud_mon_iface_t *iface, uint64_t *value_p)
{
    uint64_t arrived, received;

    if (ud_mon_hw_counter(iface, "out_of_buffer", value_p)) {
        return 1;
    }
    /* Read in this order, so that datagrams between the two readings cannot make the difference
     * negative */
    if (ud_mon_hw_counter(iface, "rcvd_pkts", &arrived) &&
        ud_mon_hw_counter(iface, "rdma_recvs", &received)) {
        *value_p = (arrived > received) ? (arrived - received) : 0;
        return 1;
    }
    return 0;
}

static uint64_t ud_mon_bad_qkey(const uct_ud_mon_iface_t *iface, int *active_p)
{
    struct ibv_port_attr attr;

    *active_p = 0;
    if (ibv_query_port(ucs_derived_of(iface->super.md, uct_ud_mon_md_t)->context, iface->port,
                       &attr) != 0) {
        return 0;
    }
    *active_p = (attr.state == IBV_PORT_ACTIVE);
    return attr.qkey_viol_cntr;
}

void ud_mon_stats_open(uct_ud_mon_iface_t *iface)
{
    iface->stats.no_receive_known = ud_mon_no_receive(iface, &iface->no_receive_base);
    iface->bad_qkey_base = ud_mon_bad_qkey(iface, &iface->stats.port_active);
}

ucs_status_t uct_ud_mon_iface_stats(uct_iface_h tl_iface, uct_ud_mon_stats_t *stats)
{
    uct_ud_mon_iface_t *iface = uct_ud_mon_iface_cast(tl_iface);
    uint64_t now;

    if (iface == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    *stats = iface->stats;
    stats->senders = kh_size(&iface->senders);
    now = ud_mon_bad_qkey(iface, &stats->port_active);
    stats->bad_qkey = (now > iface->bad_qkey_base) ? (now - iface->bad_qkey_base) : 0;
    if (stats->no_receive_known && ud_mon_no_receive(iface, &now)) {
        stats->no_receive = (now > iface->no_receive_base) ? (now - iface->no_receive_base) : 0;
    } else {
        stats->no_receive_known = 0;
    }
    stats->lost_on_way = (stats->lost > stats->no_receive) ? (stats->lost - stats->no_receive) : 0;
    return UCS_OK;
}
