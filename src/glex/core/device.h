/*
 * A NIC of this node.
 */
#ifndef GLEX_DEVICE_H
#define GLEX_DEVICE_H

#include "core/link.h"
#include "shm/segment.h"

struct glex_net_module;

/* The network of a NIC, from GLEX_NET. */
struct glex_net_place {
    bool on;
    uint32_t ip;       /* of the interface, in host byte order */
    uint32_t prefix;   /* bits of it that all hosts of the network share */
    uint32_t nic_id;   /* of this host on the network */
    uint64_t identity; /* equal on all hosts of the network; 0: none */
    uint8_t key[64];
    uint32_t key_len;
    char interface[16];
    const struct glex_net_module *module;
};

struct glex_nic {
    glex_device_t device; /* known to programs; its mutex is for making and destroying endpoints */
    uint32_t nic_base;    /* id of device 0 */
    uint32_t nic_id;
    int dirfd; /* the fabric's directory */
    uint32_t num_eps;
    struct glex_ext_device_attr caps;
    struct glex_net_place net;          /* off: no network */
    const struct glex_link *links[2];   /* within the fabric, to other hosts: the first that reaches
                                         a NIC is used */
    const struct glex_link *neighbours; /* to other endpoints of this NIC, or NULL: as links say */
};

static inline struct glex_nic *glex_nic(glex_device_handle_t dev)
{
    return glex_container_of(dev, struct glex_nic, device);
}

/** Find the identity of a device on a fabric: its network, ids and capabilities. Errors: as of
 * glex_net_find_place(). */
glex_ret_t glex_device_identify(struct glex_nic *dev, int dirfd, uint32_t id);

/**
 * Make an endpoint's segment on the device's fabric. Errors: as of glex_segment_create() and
 * glex_fabric_open().
 */
glex_ret_t glex_device_create_segment(struct glex_nic *dev, const struct glex_segment_header *hdr,
                                      uint32_t num, struct glex_segment *seg);

/** Called after the end of an endpoint. */
void glex_device_put(struct glex_nic *dev);

#endif
