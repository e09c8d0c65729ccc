/*
 * Endpoints of type MANAGEMENT: requests to the chips of a network, over a separate link
 * (src/common/nmp_link.h) that GLEX_INM names.
 */
#ifndef GLEX_MGMT_H
#define GLEX_MGMT_H

#include "base/common.h"

struct glex_endpoint;

/** Whether GLEX_INM names a network to manage. */
bool glex_mgmt_offered(void);

/** Connect the endpoint if it is of type MANAGEMENT. Errors: SYS_ERR, NO_MEM_RESOURCE. */
glex_ret_t glex_mgmt_init(struct glex_endpoint *ep);

void glex_mgmt_cleanup(struct glex_endpoint *ep);

#endif
