#include "base/caps.h"
#include "base/env.h"
#include "base/fabric.h"
#include "base/log.h"
#include "core/device.h"
#include "core/peer.h"
#include "core/shm.h"
#include "debug/capture.h"
#include "debug/fault.h"
#include "net/net.h"
#include "shm/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

glex_ret_t glex_num_of_device(uint32_t *num)
{
    if (num == NULL || !glex_env()->valid) {
        return GLEX_INVALID_PARAM;
    }
    *num = glex_env()->num_nics;
    return GLEX_SUCCESS;
}

/*
 * While a device has no endpoint, other processes may remove its directory and make it again. The
 * descriptor then refers to a deleted directory.
 */
static glex_ret_t device_renew_fabric(struct glex_nic *dev)
{
    glex_ret_t ret;
    int dirfd;

    if (!glex_fabric_is_stale(dev->dirfd)) {
        return GLEX_SUCCESS;
    }
    ret = glex_fabric_open(&dirfd);
    if (ret == GLEX_SUCCESS) {
        close(dev->dirfd);
        dev->dirfd = dirfd;
    }
    return ret;
}

/* Remove segments of crashed programs, once in each process. */
static void device_reap_once(int dirfd)
{
    static bool reaped;

    if (!__atomic_exchange_n(&reaped, true, __ATOMIC_RELAXED)) {
        glex_segment_reap_all(dirfd);
    }
}

/* Fault injection and capture are links before the link through shared memory. */
static const struct glex_link *device_fabric_link(void)
{
    if (glex_env()->capture != NULL) {
        return &glex_capture_link;
    }
    return glex_env()->fault.on ? &glex_fault_link : &glex_shm_link;
}

glex_ret_t glex_device_identify(struct glex_nic *dev, int dirfd, uint32_t id)
{
    uint64_t identity = glex_fabric_identity(dirfd);
    glex_ret_t ret = glex_net_find_place(&dev->net);

    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    dev->links[0] = device_fabric_link();
    dev->links[1] = &glex_net_link;
    dev->neighbours = glex_fault_is_far() ? &glex_net_link : NULL;
    dev->nic_base = dev->net.on ? dev->net.nic_id : glex_fabric_nic_base(identity);
    dev->nic_id = dev->nic_base + id;
    glex_caps_probe(identity, &dev->caps);
    dev->caps.network = dev->net.identity;
    glex_net_describe(&dev->net, dev->caps.network_text, sizeof(dev->caps.network_text));
    return GLEX_SUCCESS;
}

glex_ret_t glex_open_device(uint32_t id, glex_device_handle_t *dev_p)
{
    struct glex_nic *dev;
    glex_ret_t ret;

    if (dev_p == NULL || !glex_env()->valid || id >= glex_env()->num_nics) {
        return GLEX_INVALID_PARAM;
    }
    dev = calloc(1, sizeof(*dev));
    if (dev == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    ret = glex_fabric_open(&dev->dirfd);
    if (ret != GLEX_SUCCESS) {
        free(dev);
        return ret;
    }
    device_reap_once(dev->dirfd);
    ret = glex_device_identify(dev, dev->dirfd, id);
    if (ret != GLEX_SUCCESS) {
        glex_fabric_close(dev->dirfd);
        free(dev);
        return ret;
    }
    pthread_mutex_init(&dev->device.mutex, NULL);
    *dev_p = &dev->device;
    return GLEX_SUCCESS;
}

glex_ret_t glex_close_device(glex_device_handle_t handle)
{
    struct glex_nic *dev = glex_nic(handle);

    if (handle == NULL) {
        return GLEX_INVALID_PARAM;
    }
    if (__atomic_load_n(&dev->num_eps, __ATOMIC_RELAXED) != 0) {
        return GLEX_BUSY;
    }
    glex_fabric_close(dev->dirfd);
    pthread_mutex_destroy(&dev->device.mutex);
    free(dev);
    return GLEX_SUCCESS;
}

glex_ret_t glex_device_create_segment(struct glex_nic *dev, const struct glex_segment_header *hdr,
                                      uint32_t num, struct glex_segment *seg)
{
    glex_ret_t ret;

    pthread_mutex_lock(&dev->device.mutex);
    do {
        ret = device_renew_fabric(dev);
        if (ret == GLEX_SUCCESS) {
            ret = glex_segment_create(dev->dirfd, hdr, num, seg);
            dev->num_eps += ret == GLEX_SUCCESS;
        }
        /* The directory may also be removed after we opened it and before we make the file. */
    } while (ret == GLEX_SYS_ERR && errno == ENOENT && glex_fabric_is_stale(dev->dirfd));
    pthread_mutex_unlock(&dev->device.mutex);
    return ret;
}

void glex_device_put(struct glex_nic *dev)
{
    pthread_mutex_lock(&dev->device.mutex);
    if (--dev->num_eps == 0) {
        glex_fabric_remove();
    }
    pthread_mutex_unlock(&dev->device.mutex);
}

glex_ret_t glex_query_device(glex_device_handle_t handle, struct glex_device_attr *attr)
{
    const struct glex_nic *dev = glex_nic(handle);

    if (handle == NULL || attr == NULL) {
        return GLEX_INVALID_PARAM;
    }
    memset(attr, 0, sizeof(*attr));
    attr->nic_id = dev->nic_id;
    attr->max_fast_ep_num = UINT16_MAX + 1;
    attr->max_ep_num = dev->net.on ? glex_net_max_num() + 1 : UINT16_MAX + 1;
    attr->max_emulate_ep_num = UINT16_MAX + 1;
    attr->mmt_units = GLEX_MMT_CAPACITY;
    attr->att_units = GLEX_MMT_CAPACITY;
    attr->max_imm_mp_data_len = GLEX_MP_DATA_LEN;
    attr->max_mp_data_len = GLEX_MP_DATA_LEN;
    attr->max_imm_rdma_data_len = GLEX_EVENT_DATA_LEN;
    attr->max_rdma_data_len = GLEX_MAX_RDMA_LEN;
    attr->def_ep_dq_capacity = GLEX_DEFAULT_QUEUE_CAPACITY;
    attr->def_ep_eq_capacity = GLEX_DEFAULT_QUEUE_CAPACITY;
    attr->def_ep_mpq_capacity = GLEX_DEFAULT_QUEUE_CAPACITY;
    attr->max_ep_dq_capacity = GLEX_MAX_QUEUE_CAPACITY;
    attr->max_ep_eq_capacity = GLEX_MAX_QUEUE_CAPACITY;
    attr->max_ep_mpq_capacity = GLEX_MAX_QUEUE_CAPACITY;
    attr->max_ep_hc_eq_capacity = GLEX_MAX_QUEUE_CAPACITY;
    attr->max_ep_hc_mpq_capacity = GLEX_MAX_QUEUE_CAPACITY;
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_query_device(glex_device_handle_t dev, struct glex_ext_device_attr *attr)
{
    if (dev == NULL || attr == NULL) {
        return GLEX_INVALID_PARAM;
    }
    *attr = glex_nic(dev)->caps;
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_is_reachable(glex_device_handle_t handle, uint32_t nic_id)
{
    struct glex_nic *dev = glex_nic(handle);
    glex_ret_t ret;

    if (handle == NULL) {
        return GLEX_INVALID_PARAM;
    }
    pthread_mutex_lock(&dev->device.mutex);
    ret = device_renew_fabric(dev);
    if (ret == GLEX_SUCCESS && glex_peer_link(dev, nic_id) == NULL) {
        ret = GLEX_INVALID_PARAM;
    }
    pthread_mutex_unlock(&dev->device.mutex);
    return ret;
}
