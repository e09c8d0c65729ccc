/*
 * A NIC of this node.
 */
#ifndef GLEX_DEVICE_H
#define GLEX_DEVICE_H

#include "net/net.h"
#include "shm/segment.h"

struct glex_nic {
    glex_device_t   device;   /* known to programs; its mutex is for making and destroying endpoints */
    uint32_t        nic_base; /* id of device 0 */
    uint32_t        nic_id;
    int             dirfd; /* the fabric's directory */
    uint32_t        num_eps;
    struct glex_ext_device_attr caps;
    struct glex_net_place net; /* not on: there is none */
};

static inline struct glex_nic *glex_nic(glex_device_handle_t dev)
{
    return glex_container_of(dev, struct glex_nic, device);
}

/** Find out what the device with that index is on a fabric: its network, ids and capabilities.
 *  Errors: those of glex_net_find_place(). */
glex_ret_t glex_device_identify(struct glex_nic *dev, int dirfd, uint32_t id);

/**
 * Make an endpoint's segment on the device's fabric.
 * Errors: those of glex_segment_create() and glex_fabric_open().
 */
glex_ret_t glex_device_create_segment(struct glex_nic *dev,
                                      const struct glex_segment_header *hdr, uint32_t num,
                                      struct glex_segment *seg);

/** After an endpoint is gone. */
void glex_device_put(struct glex_nic *dev);

#endif
