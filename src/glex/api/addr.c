#include "base/common.h"

/* All types of endpoints share one space of numbers: the type does not go into the address. */
glex_ret_t glex_compose_ep_addr(uint32_t nic_id, uint32_t ep_num, enum glex_ep_type type,
                                glex_ep_addr_t *ep_addr)
{
    if (ep_addr == NULL || ep_num > UINT16_MAX || (unsigned)type > GLEX_EP_TYPE_MANAGEMENT) {
        return GLEX_INVALID_PARAM;
    }
    ep_addr->v = 0;
    ep_addr->nic_id = nic_id;
    ep_addr->ep_num = (uint16_t)ep_num;
    return GLEX_SUCCESS;
}

glex_ret_t glex_decompose_ep_addr(glex_ep_addr_t ep_addr, enum glex_ep_type type, uint32_t *nic_id,
                                  uint32_t *ep_num)
{
    if (nic_id == NULL || ep_num == NULL || (unsigned)type > GLEX_EP_TYPE_MANAGEMENT) {
        return GLEX_INVALID_PARAM;
    }
    *nic_id = ep_addr.nic_id;
    *ep_num = ep_addr.ep_num;
    return GLEX_SUCCESS;
}
