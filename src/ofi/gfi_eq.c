/*
 * Event queues: a list and an eventfd. The eventfd counts the events, so it is readable while the
 * list has events.
 */
#include "core/gfi.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static struct gfi_eq *gfi_eq_of(struct fid_eq *fid)
{
    return gfi_of(fid, struct gfi_eq, fid);
}

/* ---- writing ---- */

static struct gfi_event *gfi_event_new(uint32_t event, const void *data, size_t len)
{
    struct gfi_event *item = calloc(1, sizeof(*item) + len);

    if (item == NULL) {
        GFI_WARN(FI_LOG_EQ, "no memory for an event\n");
        return NULL;
    }
    item->event = event;
    item->len = len;
    if (len > 0) {
        memcpy(item->data, data, len);
    }
    return item;
}

static void gfi_eq_append(struct gfi_eq *eq, struct gfi_event *item)
{
    pthread_mutex_lock(&eq->lock);
    *eq->last = item;
    eq->last = &item->next;
    eq->count++;
    gfi_wait_signal(eq->fd);
    pthread_mutex_unlock(&eq->lock);
}

int gfi_eq_add(struct gfi_eq *eq, uint32_t event, const void *data, size_t len)
{
    struct gfi_event *item = gfi_event_new(event, data, len);

    if (item == NULL) {
        return -FI_ENOMEM;
    }
    gfi_eq_append(eq, item);
    return 0;
}

int gfi_eq_add_error(struct gfi_eq *eq, uint32_t event, const struct fi_eq_err_entry *error)
{
    struct gfi_event *item = gfi_event_new(event, NULL, 0);

    if (item == NULL) {
        return -FI_ENOMEM;
    }
    item->is_error = true;
    item->error = *error;
    item->error.prov_errno = error->err;
    gfi_eq_append(eq, item);
    return 0;
}

static ssize_t gfi_eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
                            uint64_t flags)
{
    struct gfi_eq *eq = gfi_eq_of(fid);

    (void)flags;
    if (!eq->can_write) {
        return -FI_EINVAL;
    }
    return gfi_eq_add(eq, event, buf, len) == 0 ? (ssize_t)len : -FI_ENOMEM;
}

/* ---- reading ---- */

/* Locked */
static void gfi_eq_drop_first(struct gfi_eq *eq)
{
    struct gfi_event *item = eq->first;

    eq->first = item->next;
    if (eq->first == NULL) {
        eq->last = &eq->first;
    }
    eq->count--;
    gfi_wait_clear(eq->fd);
    free(item);
}

static ssize_t gfi_eq_read_locked(struct gfi_eq *eq, uint32_t *event, void *buf, size_t len,
                                  uint64_t flags)
{
    struct gfi_event *item = eq->first;
    ssize_t ret;

    if (item == NULL) {
        return -FI_EAGAIN;
    }
    if (item->is_error) {
        return -FI_EAVAIL;
    }
    if (len < item->len) {
        return -FI_ETOOSMALL;
    }
    *event = item->event;
    memcpy(buf, item->data, item->len);
    ret = (ssize_t)item->len;
    if (!(flags & FI_PEEK)) {
        gfi_eq_drop_first(eq);
    }
    return ret;
}

static ssize_t gfi_eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
                           uint64_t flags)
{
    struct gfi_eq *eq = gfi_eq_of(fid);
    ssize_t ret;

    pthread_mutex_lock(&eq->lock);
    ret = gfi_eq_read_locked(eq, event, buf, len, flags);
    pthread_mutex_unlock(&eq->lock);
    return ret;
}

static ssize_t gfi_eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
    struct gfi_eq *eq = gfi_eq_of(fid);
    void *err_data = entry->err_data;
    ssize_t ret = -FI_EAGAIN;

    pthread_mutex_lock(&eq->lock);
    if (eq->first != NULL && eq->first->is_error) {
        *entry = eq->first->error;
        entry->err_data = err_data;
        entry->err_data_size = 0;
        if (!(flags & FI_PEEK)) {
            gfi_eq_drop_first(eq);
        }
        ret = sizeof(*entry);
    }
    pthread_mutex_unlock(&eq->lock);
    return ret;
}

static ssize_t gfi_eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
                            uint64_t flags)
{
    struct gfi_eq *eq = gfi_eq_of(fid);
    int64_t until = timeout < 0 ? -1 : (int64_t)gfi_now_ms() + timeout;
    ssize_t ret;

    if (eq->wait_obj == FI_WAIT_NONE) {
        return -FI_EINVAL;
    }
    while ((ret = gfi_eq_read(fid, event, buf, len, flags)) == -FI_EAGAIN) {
        if (!gfi_wait_sleep(eq->fd, until)) {
            break;
        }
    }
    return ret;
}

static const char *gfi_eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data,
                                   char *buf, size_t len)
{
    const char *text = fi_strerror(prov_errno);

    (void)fid, (void)err_data;
    if (buf != NULL && len > 0) {
        snprintf(buf, len, "%s", text);
        return buf;
    }
    return text;
}

/* ---- life ---- */

static int gfi_eq_close(struct fid *fid)
{
    struct gfi_eq *eq = gfi_of(fid, struct gfi_eq, fid.fid);

    if (gfi_ref_is_held(&eq->refs)) {
        return -FI_EBUSY;
    }
    while (eq->first != NULL) {
        gfi_eq_drop_first(eq);
    }
    close(eq->fd);
    pthread_mutex_destroy(&eq->lock);
    gfi_ref_put(&eq->fabric->refs);
    free(eq);
    return 0;
}

static int gfi_eq_control(struct fid *fid, int command, void *arg)
{
    struct gfi_eq *eq = gfi_of(fid, struct gfi_eq, fid.fid);

    return gfi_wait_control(command, arg, eq->fd, eq->wait_obj);
}

static struct fi_ops gfi_eq_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_eq_close,
    .bind = gfi_no_bind,
    .control = gfi_eq_control,
    .ops_open = gfi_no_ops_open,
};

static struct fi_ops_eq gfi_eq_ops = {
    .size = sizeof(struct fi_ops_eq),
    .read = gfi_eq_read,
    .readerr = gfi_eq_readerr,
    .write = gfi_eq_write,
    .sread = gfi_eq_sread,
    .strerror = gfi_eq_strerror,
};

int gfi_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq_p,
                void *context)
{
    struct gfi_eq *eq;

    if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
        attr->wait_obj != FI_WAIT_FD) {
        return -FI_ENOSYS;
    }
    eq = calloc(1, sizeof(*eq));
    if (eq == NULL) {
        return -FI_ENOMEM;
    }
    eq->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
    if (eq->fd < 0) {
        GFI_WARN(FI_LOG_EQ, "no descriptor for an event queue: %s\n", strerror(errno));
        free(eq);
        return -FI_EMFILE;
    }
    pthread_mutex_init(&eq->lock, NULL);
    eq->last = &eq->first;
    eq->wait_obj = attr->wait_obj;
    eq->can_write = (attr->flags & FI_WRITE) != 0;
    eq->fid.fid.fclass = FI_CLASS_EQ;
    eq->fid.fid.context = context;
    eq->fid.fid.ops = &gfi_eq_fi_ops;
    eq->fid.ops = &gfi_eq_ops;
    eq->fabric = gfi_of(fid, struct gfi_fabric, fid);
    gfi_ref_get(&eq->fabric->refs);
    *eq_p = &eq->fid;
    return 0;
}
