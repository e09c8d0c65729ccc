#include "core/gfi.h"

#include <stdlib.h>

static struct gfi_cntr *gfi_cntr_of(struct fid_cntr *fid)
{
    return gfi_of(fid, struct gfi_cntr, fid);
}

static uint64_t gfi_cntr_read(struct fid_cntr *fid)
{
    struct gfi_cntr *cntr = gfi_cntr_of(fid);
    uint64_t value;

    gfi_lock(cntr->domain);
    gfi_progress(cntr->domain);
    value = cntr->value;
    gfi_unlock(cntr->domain);
    return value;
}

static uint64_t gfi_cntr_readerr(struct fid_cntr *fid)
{
    struct gfi_cntr *cntr = gfi_cntr_of(fid);
    uint64_t errors;

    gfi_lock(cntr->domain);
    gfi_progress(cntr->domain);
    errors = cntr->errors;
    gfi_unlock(cntr->domain);
    return errors;
}

/* Add to, or set, one of the two numbers */
static int gfi_cntr_change(struct fid_cntr *fid, bool is_error, bool is_add, uint64_t value)
{
    struct gfi_cntr *cntr = gfi_cntr_of(fid);
    uint64_t *number = is_error ? &cntr->errors : &cntr->value;

    gfi_lock(cntr->domain);
    *number = is_add ? *number + value : value;
    gfi_cntr_wake(cntr);
    gfi_unlock(cntr->domain);
    return 0;
}

static int gfi_cntr_add(struct fid_cntr *fid, uint64_t value)
{
    return gfi_cntr_change(fid, false, true, value);
}

static int gfi_cntr_set(struct fid_cntr *fid, uint64_t value)
{
    return gfi_cntr_change(fid, false, false, value);
}

static int gfi_cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    return gfi_cntr_change(fid, true, true, value);
}

static int gfi_cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    return gfi_cntr_change(fid, true, false, value);
}

/* A program reads the counter, calls this function, and sleeps. If the counter has changed since
 * the read, or changes in this call, the function returns -FI_EAGAIN, so the program reads the
 * counter again. */
int gfi_cntr_trywait(struct gfi_cntr *cntr)
{
    int ret = -FI_EAGAIN;

    if (cntr->wait_fd < 0) {
        return -FI_EINVAL;
    }
    gfi_lock(cntr->domain);
    gfi_wait_clear(cntr->signal_fd);
    cntr->sleeping = true;
    if (gfi_may_sleep(cntr->domain) && !cntr->is_news) {
        ret = 0;
    }
    cntr->is_news = false;
    gfi_unlock(cntr->domain);
    return ret;
}

/* Locked. Whether the wait is over; else whether the caller may sleep. */
static bool gfi_cntr_look(struct gfi_cntr *cntr, uint64_t threshold, uint64_t errors, int *ret,
                          bool *may_sleep)
{
    gfi_progress(cntr->domain);
    *ret = cntr->errors != errors ? -FI_EAVAIL : 0;
    if (cntr->value >= threshold || cntr->errors != errors) {
        return true;
    }
    *may_sleep = false;
    if (cntr->wait_fd >= 0) {
        gfi_wait_clear(cntr->signal_fd);
        cntr->sleeping = true;
        *may_sleep =
            gfi_may_sleep(cntr->domain) && cntr->value < threshold && cntr->errors == errors;
    }
    return false;
}

static int gfi_cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    struct gfi_cntr *cntr = gfi_cntr_of(fid);
    int64_t until = timeout < 0 ? -1 : (int64_t)gfi_now_ms() + timeout;
    bool over, may_sleep;
    uint64_t errors;
    int ret;

    gfi_lock(cntr->domain);
    errors = cntr->errors;
    gfi_unlock(cntr->domain);
    for (;;) {
        gfi_lock(cntr->domain);
        over = gfi_cntr_look(cntr, threshold, errors, &ret, &may_sleep);
        gfi_unlock(cntr->domain);
        if (over) {
            return ret;
        }
        if (may_sleep ? !gfi_wait_sleep(cntr->wait_fd, until) : !gfi_wait_yield(until)) {
            return -FI_ETIMEDOUT;
        }
    }
}

static int gfi_cntr_close(struct fid *fid)
{
    struct gfi_cntr *cntr = gfi_of(fid, struct gfi_cntr, fid.fid);

    gfi_lock(cntr->domain);
    if (cntr->refs > 0) {
        gfi_unlock(cntr->domain);
        return -FI_EBUSY;
    }
    cntr->domain->refs--;
    gfi_unlock(cntr->domain);
    gfi_wait_close(cntr->wait_fd, cntr->signal_fd);
    free(cntr);
    return 0;
}

static int gfi_cntr_control(struct fid *fid, int command, void *arg)
{
    struct gfi_cntr *cntr = gfi_of(fid, struct gfi_cntr, fid.fid);

    return gfi_wait_control(command, arg, cntr->wait_fd, cntr->wait_obj);
}

static struct fi_ops gfi_cntr_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_cntr_close,
    .bind = gfi_no_bind,
    .control = gfi_cntr_control,
    .ops_open = gfi_no_ops_open,
};

static struct fi_ops_cntr gfi_cntr_ops = {
    .size = sizeof(struct fi_ops_cntr),
    .read = gfi_cntr_read,
    .readerr = gfi_cntr_readerr,
    .add = gfi_cntr_add,
    .set = gfi_cntr_set,
    .wait = gfi_cntr_wait,
    .adderr = gfi_cntr_adderr,
    .seterr = gfi_cntr_seterr,
};

int gfi_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr_p,
                  void *context)
{
    struct gfi_domain *domain = gfi_domain_of(fid);
    struct gfi_cntr *cntr;
    int ret;

    if (attr->events != FI_CNTR_EVENTS_COMP || attr->flags != 0) {
        return -FI_EINVAL;
    }
    if (!gfi_wait_is_offered(attr->wait_obj)) {
        return -FI_ENOSYS;
    }
    cntr = calloc(1, sizeof(*cntr));
    if (cntr == NULL) {
        return -FI_ENOMEM;
    }
    cntr->wait_fd = cntr->signal_fd = -1;
    cntr->wait_obj = attr->wait_obj;
    if (gfi_wait_needs_fd(cntr->wait_obj)) {
        ret = gfi_wait_open(domain, &cntr->wait_fd, &cntr->signal_fd);
        if (ret != 0) {
            free(cntr);
            return ret;
        }
    }
    cntr->fid.fid.fclass = FI_CLASS_CNTR;
    cntr->fid.fid.context = context;
    cntr->fid.fid.ops = &gfi_cntr_fi_ops;
    cntr->fid.ops = &gfi_cntr_ops;
    cntr->domain = domain;
    gfi_lock(domain);
    domain->refs++;
    gfi_unlock(domain);
    *cntr_p = &cntr->fid;
    return 0;
}
