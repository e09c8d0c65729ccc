/*
 * Address handles, one for each peer port, shared by all endpoints to the port. Creating a handle
 * is a system call; on RoCE the call also reads the neighbour table.
 */
#include "ud_mon_iface.h"

static void ud_mon_ah_destroy(ud_mon_ah_t *ah)
{
    if (ibv_destroy_ah(ah->ah) != 0) {
        ucs_warn("ib_ud_mon: cannot destroy an address handle: %m");
    }
    ucs_free(ah);
}

ucs_status_t ud_mon_ah_get(uct_ud_mon_iface_t *iface, const struct ibv_ah_attr *attr,
                           ud_mon_ah_t **ah_p)
{
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);
    char text[INET6_ADDRSTRLEN];
    ucs_status_t status;
    ud_mon_ah_t *ah;
    khiter_t iter;
    int ret;

    iter = kh_get(ud_mon_ahs, &iface->ahs, *attr);
    if (iter != kh_end(&iface->ahs)) {
        ah = kh_value(&iface->ahs, iter);
        ++ah->refs;
        *ah_p = ah;
        return UCS_OK;
    }
    ah = ucs_calloc(1, sizeof(*ah), "ud_mon ah");
    if (ah == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    ah->attr = *attr;
    ah->refs = 1;
    ah->ah = ibv_create_ah(md->pd, &ah->attr);
    if (ah->ah == NULL) {
        ucs_diag("ib_ud_mon: %s:%d: no way to LID %u GID %s: %m", md->name, iface->port, attr->dlid,
                 inet_ntop(AF_INET6, &attr->grh.dgid, text, sizeof(text)));
        status = UCS_ERR_UNREACHABLE;
        goto err_free;
    }
    iter = kh_put(ud_mon_ahs, &iface->ahs, *attr, &ret);
    if (ret < 0) {
        status = UCS_ERR_NO_MEMORY;
        goto err_destroy;
    }
    kh_value(&iface->ahs, iter) = ah;
    *ah_p = ah;
    return UCS_OK;

err_destroy:
    ibv_destroy_ah(ah->ah);
err_free:
    ucs_free(ah);
    return status;
}

void ud_mon_ah_put(uct_ud_mon_iface_t *iface, ud_mon_ah_t *ah)
{
    if (--ah->refs > 0) {
        return;
    }
    kh_del(ud_mon_ahs, &iface->ahs, kh_get(ud_mon_ahs, &iface->ahs, ah->attr));
    ah->last_use = iface->tx.head;
    ucs_list_add_tail(&iface->dead_ahs, &ah->dead);
    ud_mon_ah_reap(iface);
}

void ud_mon_ah_reap(uct_ud_mon_iface_t *iface)
{
    ud_mon_ah_t *ah;

    while (!ucs_list_is_empty(&iface->dead_ahs)) {
        ah = ucs_list_head(&iface->dead_ahs, ud_mon_ah_t, dead);
        if (!ud_mon_index_reached(ah->last_use, iface->tx.tail)) {
            return;
        }
        ucs_list_del(&ah->dead);
        ud_mon_ah_destroy(ah);
    }
}

/* At the end, when no queue pair is left that might use one. */
void ud_mon_ahs_cleanup(uct_ud_mon_iface_t *iface)
{
    ud_mon_ah_t *ah, *next;

    ucs_list_for_each_safe(ah, next, &iface->dead_ahs, dead) {
        ud_mon_ah_destroy(ah);
    }
    if (kh_size(&iface->ahs) > 0) {
        ucs_warn("ib_ud_mon: interface closed with endpoints to %u peers open",
                 kh_size(&iface->ahs));
    }
    kh_destroy_inplace(ud_mon_ahs, &iface->ahs);
}

void ud_mon_ah_attr_of_address(const uct_ud_mon_iface_t *iface, const ud_mon_device_addr_t *addr,
                               struct ibv_ah_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->port_num = iface->port;
    attr->sl = iface->config.sl;
    attr->dlid = le16toh(addr->lid);
    if (addr->flags & UD_MON_ADDR_ETH) {
        attr->is_global = 1;
        memcpy(attr->grh.dgid.raw, addr->gid, sizeof(addr->gid));
        attr->grh.sgid_index = iface->gid_index;
        attr->grh.hop_limit = iface->config.hop_limit;
        attr->grh.traffic_class = iface->config.traffic_class;
    }
}
