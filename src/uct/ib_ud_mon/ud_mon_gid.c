/* Selects one of a port's addresses. On RoCE the table has an entry for each IP address and
 * version. */
#include "ud_mon_iface.h"

enum { UD_MON_GID_TABLE_MAX = 256 };

static int ud_mon_gid_rank(const struct ibv_gid_entry *entry)
{
    const uint8_t *raw = entry->gid.raw;
    int is_v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)raw);
    int is_link_local = (raw[0] == 0xfe) && ((raw[1] & 0xc0) == 0x80);

    if (entry->gid_type != IBV_GID_TYPE_ROCE_V2) {
        return 0; /* RoCE v1 cannot be routed and rxe has none */
    }
    return is_v4 ? 3 : is_link_local ? 1 : 2;
}

/* The best of a RoCE port: version 2, IPv4 before IPv6 before link-local. */
static ucs_status_t ud_mon_gid_best(uct_ud_mon_md_t *md, uint8_t port, int *index_p)
{
    struct ibv_gid_entry *table;
    int rank, best_rank = 0;
    ssize_t i, count;

    table = ucs_calloc(UD_MON_GID_TABLE_MAX, sizeof(*table), "ud_mon gid table");
    if (table == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    count = ibv_query_gid_table(md->context, table, UD_MON_GID_TABLE_MAX, 0);
    for (i = 0; i < count; ++i) {
        if (table[i].port_num == port) {
            rank = ud_mon_gid_rank(&table[i]);
            if (rank > best_rank) {
                best_rank = rank;
                *index_p = table[i].gid_index;
            }
        }
    }
    ucs_free(table);
    if (best_rank == 0) {
        ucs_error("ib_ud_mon: %s:%d has no RoCE v2 address: give its network interface an IP "
                  "address, or choose one by UCX_IB_UD_MON_GID_INDEX",
                  md->name, port);
        return UCS_ERR_INVALID_ADDR;
    }
    return UCS_OK;
}

ucs_status_t ud_mon_gid_choose(uct_ud_mon_md_t *md, uint8_t port, int is_eth, int wanted,
                               int *index_p, union ibv_gid *gid_p)
{
    ucs_status_t status;
    int index = wanted;

    if (index < 0) {
        index = 0;
        status = is_eth ? ud_mon_gid_best(md, port, &index) : UCS_OK;
        if (status != UCS_OK) {
            return status;
        }
    }
    if (ibv_query_gid(md->context, port, index, gid_p) != 0) {
        ucs_error("ib_ud_mon: %s:%d has no address with GID index %d: %m", md->name, port, index);
        return UCS_ERR_INVALID_ADDR;
    }
    *index_p = index;
    return UCS_OK;
}
