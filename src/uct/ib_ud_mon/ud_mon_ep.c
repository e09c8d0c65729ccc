/* Endpoints: to a peer by its address, or to the sender of a datagram. */
#include "ud_mon_iface.h"

typedef enum ud_mon_ep_kind { UD_MON_EP_PEER, UD_MON_EP_REPLY } ud_mon_ep_kind_t;

static ucs_status_t ud_mon_ep_to_peer(uct_ud_mon_iface_t *iface, uct_ud_mon_ep_t *ep,
                                      const uct_ep_params_t *params)
{
    const ud_mon_device_addr_t *dev_addr = (const void *)params->dev_addr;
    const ud_mon_iface_addr_t *iface_addr = (const void *)params->iface_addr;
    struct ibv_ah_attr attr;

    if (!uct_iface_is_reachable(&iface->super.super, params->dev_addr, params->iface_addr)) {
        return UCS_ERR_UNREACHABLE;
    }
    ep->qpn = le32toh(iface_addr->qpn);
    ep->qkey = le32toh(iface_addr->qkey);
    ud_mon_ah_attr_of_address(iface, dev_addr, &attr);
    return ud_mon_ah_get(iface, &attr, &ep->ah);
}

/* Makes an endpoint to the sender, from the completion of the current datagram. */
static ucs_status_t ud_mon_ep_to_sender(uct_ud_mon_iface_t *iface, uct_ud_mon_ep_t *ep)
{
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);
    struct ibv_wc wc = *iface->rx.current;
    struct ibv_grh *grh = &iface->rx.grhs[(uint32_t)wc.wr_id & (iface->rx.length - 1)];
    struct ibv_ah_attr attr;

    memset(&attr, 0, sizeof(attr));
    if (ibv_init_ah_from_wc(md->context, iface->port, &wc, grh, &attr) != 0) {
        ucs_diag("ib_ud_mon: %s:%d: the sender of a datagram cannot be answered: %m", md->name,
                 iface->port);
        return UCS_ERR_UNREACHABLE;
    }
    ep->qpn = wc.src_qp;
    ep->qkey = le32toh(iface->rx.current_header->qkey);
    return ud_mon_ah_get(iface, &attr, &ep->ah);
}

static UCS_CLASS_INIT_FUNC(uct_ud_mon_ep_t, ud_mon_ep_kind_t kind, const uct_ep_params_t *params)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(params->iface, uct_ud_mon_iface_t);

    UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t, &iface->super);
    self->ah = NULL;
    self->stream = iface->next_stream++;
    self->next_seq = 0;
    return (kind == UD_MON_EP_REPLY) ? ud_mon_ep_to_sender(iface, self) :
                                       ud_mon_ep_to_peer(iface, self, params);
}

static UCS_CLASS_CLEANUP_FUNC(uct_ud_mon_ep_t)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(self->super.super.iface, uct_ud_mon_iface_t);

    if (self->ah != NULL) {
        uct_ud_mon_tx_doorbell(iface); /* its datagrams, which use the address handle */
        ud_mon_ah_put(iface, self->ah);
    }
}

UCS_CLASS_DEFINE(uct_ud_mon_ep_t, uct_base_ep_t)
UCS_CLASS_DEFINE_DELETE_FUNC(uct_ud_mon_ep_t, uct_ep_t);

ucs_status_t uct_ud_mon_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p)
{
    UCT_EP_PARAMS_CHECK_DEV_IFACE_ADDRS(params);
    return UCS_CLASS_NEW(uct_ud_mon_ep_t, ep_p, UD_MON_EP_PEER, params);
}

ucs_status_t uct_ud_mon_reply_ep_create(uct_iface_h tl_iface, uct_ep_h *ep_p)
{
    uct_ud_mon_iface_t *iface = uct_ud_mon_iface_cast(tl_iface);
    uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE, .iface = tl_iface};

    if (iface == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (iface->rx.current == NULL) {
        return UCS_ERR_NO_ELEM;
    }
    return UCS_CLASS_NEW(uct_ud_mon_ep_t, ep_p, UD_MON_EP_REPLY, &params);
}

ucs_status_t uct_ud_mon_iface_rx_info(uct_iface_h tl_iface, uct_ud_mon_rx_info_t *info)
{
    uct_ud_mon_iface_t *iface = uct_ud_mon_iface_cast(tl_iface);

    if (iface == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (iface->rx.current == NULL) {
        return UCS_ERR_NO_ELEM;
    }
    *info = (uct_ud_mon_rx_info_t){
        .sender = le64toh(iface->rx.current_header->sender),
        .stream = le32toh(iface->rx.current_header->stream),
        .qpn = iface->rx.current->src_qp,
        .seq = le64toh(iface->rx.current_header->seq),
        .sent_ns = le64toh(iface->rx.current_header->sent_ns),
    };
    return UCS_OK;
}
