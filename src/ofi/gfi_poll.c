/* Poll sets: a list of queues and counters, polled on request. */
#include "core/gfi.h"

#include <stdlib.h>

static struct gfi_poll *gfi_poll_of(struct fid_poll *fid)
{
    return gfi_of(fid, struct gfi_poll, fid);
}

static bool gfi_poll_is_ready(struct fid *fid)
{
    const struct gfi_cntr *cntr;

    if (fid->fclass == FI_CLASS_CQ) {
        return !gfi_cq_is_empty(gfi_of(fid, struct gfi_cq, fid.fid));
    }
    cntr = gfi_of(fid, struct gfi_cntr, fid.fid);
    return cntr->value != cntr->polled || cntr->errors != cntr->polled_errors;
}

static int gfi_poll_poll(struct fid_poll *fid, void **contexts, int count)
{
    struct gfi_poll *poll = gfi_poll_of(fid);
    struct gfi_cntr *cntr;
    int found = 0;
    size_t i;

    gfi_lock(poll->domain);
    gfi_progress(poll->domain);
    for (i = 0; i < poll->count && found < count; i++) {
        if (gfi_poll_is_ready(poll->fids[i])) {
            contexts[found++] = poll->fids[i]->context;
            if (poll->fids[i]->fclass == FI_CLASS_CNTR) {
                cntr = gfi_of(poll->fids[i], struct gfi_cntr, fid.fid);
                cntr->polled = cntr->value;
                cntr->polled_errors = cntr->errors;
            }
        }
    }
    gfi_unlock(poll->domain);
    return found;
}

static int gfi_poll_add(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
    struct gfi_poll *poll = gfi_poll_of(fid);
    struct fid **fids;
    int ret = -FI_ENOMEM;

    (void)flags;
    if (event_fid->fclass != FI_CLASS_CQ && event_fid->fclass != FI_CLASS_CNTR) {
        return -FI_EINVAL;
    }
    gfi_lock(poll->domain);
    fids = realloc(poll->fids, (poll->count + 1) * sizeof(*fids));
    if (fids != NULL) {
        poll->fids = fids;
        poll->fids[poll->count++] = event_fid;
        ret = 0;
    }
    gfi_unlock(poll->domain);
    return ret;
}

static int gfi_poll_del(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
    struct gfi_poll *poll = gfi_poll_of(fid);
    int ret = -FI_EINVAL;
    size_t i;

    (void)flags;
    gfi_lock(poll->domain);
    for (i = 0; i < poll->count; i++) {
        if (poll->fids[i] == event_fid) {
            poll->fids[i] = poll->fids[--poll->count];
            ret = 0;
            break;
        }
    }
    gfi_unlock(poll->domain);
    return ret;
}

static int gfi_poll_close(struct fid *fid)
{
    struct gfi_poll *poll = gfi_of(fid, struct gfi_poll, fid.fid);

    gfi_lock(poll->domain);
    poll->domain->refs--;
    gfi_unlock(poll->domain);
    free(poll->fids);
    free(poll);
    return 0;
}

static struct fi_ops gfi_poll_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_poll_close,
    .bind = gfi_no_bind,
    .control = gfi_no_control,
    .ops_open = gfi_no_ops_open,
};

static struct fi_ops_poll gfi_poll_ops = {
    .size = sizeof(struct fi_ops_poll),
    .poll = gfi_poll_poll,
    .poll_add = gfi_poll_add,
    .poll_del = gfi_poll_del,
};

int gfi_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **poll_p)
{
    struct gfi_poll *poll;

    if (attr != NULL && attr->flags != 0) {
        return -FI_EINVAL;
    }
    poll = calloc(1, sizeof(*poll));
    if (poll == NULL) {
        return -FI_ENOMEM;
    }
    poll->fid.fid.fclass = FI_CLASS_POLL;
    poll->fid.fid.ops = &gfi_poll_fi_ops;
    poll->fid.ops = &gfi_poll_ops;
    poll->domain = gfi_domain_of(fid);
    gfi_lock(poll->domain);
    poll->domain->refs++;
    gfi_unlock(poll->domain);
    *poll_p = &poll->fid;
    return 0;
}
