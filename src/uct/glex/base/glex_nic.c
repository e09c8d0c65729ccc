#include "base/glex_nic.h"

ucs_status_t uct_glex_status(glex_ret_t ret)
{
    switch (ret) {
    case GLEX_SUCCESS:
        return UCS_OK;
    case GLEX_INVALID_PARAM:
        return UCS_ERR_INVALID_PARAM;
    case GLEX_NO_EP_RESOURCE:
    case GLEX_NO_MEM_RESOURCE:
        return UCS_ERR_NO_MEMORY;
    case GLEX_BUSY:
        return UCS_ERR_NO_RESOURCE;
    case GLEX_NOT_IMPLEMENTED:
        return UCS_ERR_UNSUPPORTED;
    case GLEX_ACCESS_ERR:
        return UCS_ERR_INVALID_ADDR;
    default:
        return UCS_ERR_IO_ERROR;
    }
}
