#include "core/gfi.h"

#include <stdlib.h>
#include <string.h>

static int gfi_fabric_close(struct fid *fid)
{
    struct gfi_fabric *fabric = gfi_of(fid, struct gfi_fabric, fid.fid);

    if (gfi_ref_is_held(&fabric->refs)) {
        return -FI_EBUSY;
    }
    free(fabric);
    return 0;
}

static int gfi_no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                             void *context)
{
    (void)fabric, (void)info, (void)pep, (void)context;
    return -FI_ENOSYS;
}

static int gfi_no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                            struct fid_wait **waitset)
{
    (void)fabric, (void)attr, (void)waitset;
    return -FI_ENOSYS;
}

static int gfi_trywait_one(struct fid *fid)
{
    struct gfi_eq *eq;
    int ret;

    switch (fid->fclass) {
    case FI_CLASS_CQ:
        return gfi_cq_trywait(gfi_of(fid, struct gfi_cq, fid.fid));
    case FI_CLASS_CNTR:
        return gfi_cntr_trywait(gfi_of(fid, struct gfi_cntr, fid.fid));
    case FI_CLASS_EQ:
        eq = gfi_of(fid, struct gfi_eq, fid.fid);
        pthread_mutex_lock(&eq->lock);
        ret = eq->count == 0 ? 0 : -FI_EAGAIN;
        pthread_mutex_unlock(&eq->lock);
        return ret;
    default:
        return -FI_EINVAL;
    }
}

static int gfi_fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    int i, ret;

    (void)fabric;
    for (i = 0; i < count; i++) {
        ret = gfi_trywait_one(fids[i]);
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

static struct fi_ops gfi_fabric_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_fabric_close,
    .bind = gfi_no_bind,
    .control = gfi_no_control,
    .ops_open = gfi_no_ops_open,
};

static struct fi_ops_fabric gfi_fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = gfi_domain_open,
    .passive_ep = gfi_no_passive_ep,
    .eq_open = gfi_eq_open,
    .wait_open = gfi_no_wait_open,
    .trywait = gfi_fabric_trywait,
};

int gfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
    struct gfi_fabric *fabric;

    if (attr->name != NULL && strcmp(attr->name, GFI_NAME) != 0) {
        return -FI_ENODATA;
    }
    fabric = calloc(1, sizeof(*fabric));
    if (fabric == NULL) {
        return -FI_ENOMEM;
    }
    fabric->fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fid.fid.context = context;
    fabric->fid.fid.ops = &gfi_fabric_fi_ops;
    fabric->fid.ops = &gfi_fabric_ops;
    fabric->fid.api_version = attr->api_version;
    *fabric_p = &fabric->fid;
    return 0;
}
