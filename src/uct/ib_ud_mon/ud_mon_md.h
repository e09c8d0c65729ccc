/* Component ib_ud_mon and its memory domains: one for each RDMA device of the host. */
#ifndef UD_MON_MD_H
#define UD_MON_MD_H

#include "../compat/uct_compat.h"

#include <infiniband/verbs.h>

typedef struct uct_ud_mon_md {
    uct_md_t super;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr attr;
    char name[UCT_MD_NAME_MAX];
} uct_ud_mon_md_t;

extern uct_component_t uct_ib_ud_mon_component;

/* Port of a device by the name of its UCT resource, "mlx5_0:1"; 0 if it is not one of `md`. */
uint8_t uct_ud_mon_md_port(const uct_ud_mon_md_t *md, const char *dev_name);

/* UCT resources of a domain: the active ports. */
ucs_status_t uct_ud_mon_query_devices(uct_md_h md, uct_tl_device_resource_t **devices_p,
                                      unsigned *num_devices_p);

#endif
