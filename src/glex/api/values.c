/*
 * Functions that need neither device nor endpoint: addresses, and texts for people.
 */
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

static const char *text(const char *const *names, unsigned num, unsigned value)
{
    return value < num && names[value] != NULL ? names[value] : "unknown";
}

#define TEXT(names, value) text(names, sizeof(names) / sizeof((names)[0]), (unsigned)(value))

const char *glex_error_str(glex_ret_t ret)
{
    static const char *const names[] = {
        [GLEX_SUCCESS] = "successful",
        [GLEX_SYS_ERR] = "system error",
        [GLEX_INVALID_PARAM] = "invalid parameter",
        [GLEX_NO_EP_RESOURCE] = "no such endpoint is free",
        [GLEX_NO_MEM_RESOURCE] = "out of memory resources",
        [GLEX_BUSY] = "busy",
        [GLEX_NO_MP] = "no message",
        [GLEX_NO_EVENT] = "no event",
        [GLEX_INTR] = "interrupted",
        [GLEX_ACCESS_ERR] = "memory access error",
        [GLEX_NOT_IMPLEMENTED] = "not implemented",
    };

    return TEXT(names, ret);
}

const char *glex_error_req_status_str(enum glex_err_req_status status)
{
    static const char *const names[] = {
        [GLEX_ERR_STATUS_FORMAT] = "malformed request",
        [GLEX_ERR_STATUS_SRC_HOST_DEAD] = "source NIC dead",
        [GLEX_ERR_STATUS_DEST_HOST_DEAD] = "destination NIC dead",
        [GLEX_ERR_STATUS_PCIE_READ] = "host memory not accessible",
        [GLEX_ERR_STATUS_ATT] = "outside the registered memory",
        [GLEX_ERR_STATUS_MMT] = "memory not registered for this access",
        [GLEX_ERR_STATUS_SRC_VP_STOP] = "source endpoint stopped",
        [GLEX_ERR_STATUS_DEST_VP_STOP] = "destination endpoint stopped",
        [GLEX_ERR_STATUS_DEST_MPQ_FULL] = "destination message queue full",
        [GLEX_ERR_STATUS_DEST_EQ_FULL] = "destination event queue full",
        [GLEX_ERR_STATUS_CONNECTION_MAX_RETRY] = "connection retries exhausted",
        [GLEX_ERR_STATUS_CONNECTION_RDMA_GET] = "connection RDMA get failed",
        [GLEX_ERR_STATUS_CONNECTION_NACK] = "connection refused",
        [GLEX_ERR_STATUS_CONNECTION_ECC] = "connection ECC error",
    };

    return TEXT(names, status);
}

const char *glex_error_req_opcode_str(enum glex_err_req_op op)
{
    static const char *const names[] = {
        [GLEX_ERR_OP_IMM_MP] = "immediate message",
        [GLEX_ERR_OP_MP] = "message",
        [GLEX_ERR_OP_IMM_RDMA_PUT] = "immediate RDMA put",
        [GLEX_ERR_OP_RDMA_PUT] = "RDMA put",
        [GLEX_ERR_OP_RDMA_GET] = "RDMA get",
    };

    return TEXT(names, op);
}
