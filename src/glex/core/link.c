#include "debug/capture.h"
#include "base/env.h"
#include "net/net.h"
#include "core/shm.h"

const struct glex_link *glex_link_find(struct glex_nic *dev, uint32_t nic_id)
{
    const struct glex_link *link = glex_env()->fault.on ? &glex_fault_link : &glex_shm_link;

    if (glex_env()->capture != NULL) {
        link = &glex_capture_link;
    }

    if (link->reaches(dev, nic_id)) {
        return link;
    }
    return glex_net_link.reaches(dev, nic_id) ? &glex_net_link : NULL;
}
