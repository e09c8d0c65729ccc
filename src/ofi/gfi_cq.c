#include "core/gfi.h"

#include <stdlib.h>
#include <string.h>

#define GFI_CQ_SIZE 1024

static struct gfi_cq *gfi_cq_of(struct fid_cq *fid)
{
    return gfi_of(fid, struct gfi_cq, fid);
}

/* ---- reading ---- */

/* The formats are prefixes of one another, and of struct gfi_cqe */
_Static_assert(offsetof(struct gfi_cqe, tag) == offsetof(struct fi_cq_tagged_entry, tag) &&
                   offsetof(struct gfi_cqe, data) == offsetof(struct fi_cq_tagged_entry, data) &&
                   offsetof(struct gfi_cqe, buf) == offsetof(struct fi_cq_tagged_entry, buf) &&
                   offsetof(struct gfi_cqe, len) == offsetof(struct fi_cq_tagged_entry, len),
               "completions are copied as they lie");

/* By constant sizes, which the compiler turns into moves. @return where the next one goes */
static inline uint8_t *gfi_cq_copy(uint8_t *to, const struct gfi_cqe *cqe, enum fi_cq_format format)
{
    if (gfi_likely(format == FI_CQ_FORMAT_TAGGED)) {
        memcpy(to, cqe, sizeof(struct fi_cq_tagged_entry));
        return to + sizeof(struct fi_cq_tagged_entry);
    }
    if (format == FI_CQ_FORMAT_DATA) {
        memcpy(to, cqe, sizeof(struct fi_cq_data_entry));
        return to + sizeof(struct fi_cq_data_entry);
    }
    if (format == FI_CQ_FORMAT_MSG) {
        memcpy(to, cqe, sizeof(struct fi_cq_msg_entry));
        return to + sizeof(struct fi_cq_msg_entry);
    }
    memcpy(to, cqe, sizeof(struct fi_cq_entry));
    return to + sizeof(struct fi_cq_entry);
}

/* Locked: takes up to `count` entries of a queue that is not empty, up to the first error. An
 * emptied queue starts again at its first entry, so the next entry is in the cache. */
static inline ssize_t gfi_cq_take(struct gfi_cq *cq, void *buf, size_t count, fi_addr_t *sources)
{
    uint32_t head = cq->head, tail = cq->tail;
    const struct gfi_cqe *cqe;
    uint8_t *to = buf;
    size_t done = 0;

    do {
        cqe = &cq->ring[head & cq->mask];
        if (gfi_unlikely(cqe->error != NULL)) {
            cq->head = head;
            return done > 0 ? (ssize_t)done : -FI_EAVAIL;
        }
        to = gfi_cq_copy(to, cqe, cq->format);
        if (sources != NULL) {
            sources[done] = cqe->source;
        }
        head++;
        done++;
    } while (head != tail && done < count);
    if (head == tail) {
        head = cq->tail = 0;
    }
    cq->head = head;
    return (ssize_t)done;
}

static inline __attribute__((always_inline)) ssize_t gfi_cq_read_locked(struct gfi_cq *cq,
                                                                        void *buf, size_t count,
                                                                        fi_addr_t *sources)
{
    if (gfi_cq_is_empty(cq) || gfi_unlikely(count == 0)) {
        gfi_progress(cq->domain);
        if (gfi_cq_is_empty(cq)) {
            return -FI_EAGAIN;
        }
    }
    return gfi_unlikely(count == 0) ? 0 : gfi_cq_take(cq, buf, count, sources);
}

static ssize_t gfi_cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *sources)
{
    struct gfi_cq *cq = gfi_cq_of(fid);
    ssize_t ret;

    gfi_lock(cq->domain);
    ret = gfi_cq_read_locked(cq, buf, count, sources);
    gfi_unlock(cq->domain);
    return ret;
}

/* As the above, without sources: a copy for the compiler, as this is the call that programs poll */
static ssize_t gfi_cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct gfi_cq *cq = gfi_cq_of(fid);
    ssize_t ret;

    gfi_lock(cq->domain);
    ret = gfi_cq_read_locked(cq, buf, count, NULL);
    gfi_unlock(cq->domain);
    return ret;
}

/* The err_data of an error: a copy in the program's buffer, or the provider's own bytes, which stay valid
 * until the next error is read. Before version 1.5 the program had no buffer. */
static void gfi_cq_copy_err_data(struct gfi_cq *cq, struct fi_cq_err_entry *to,
                                 struct fi_cq_err_entry *from, void *buffer, size_t size)
{
    if (size > 0) {
        size = gfi_min(size, from->err_data_size);
        if (size > 0) {
            memcpy(buffer, from->err_data, size);
        }
        to->err_data = buffer;
        to->err_data_size = size;
        return;
    }
    free(cq->err_data);
    cq->err_data = from->err_data;
    from->err_data = NULL;
    to->err_data = cq->err_data;
}

/* The size of struct fi_cq_err_entry depends on the version that the program requests. Before 1.5
 * the struct ended before err_data_size. Later versions may add fields at the end. */
static void gfi_cq_copy_error(struct gfi_cq *cq, struct fi_cq_err_entry *to,
                              struct fi_cq_err_entry *from)
{
    bool is_old = FI_VERSION_LT(cq->domain->fabric->fid.api_version, FI_VERSION(1, 5));
    size_t size = is_old ? 0 : to->err_data_size;
    void *buffer = to->err_data;

    memcpy(to, from, offsetof(struct fi_cq_err_entry, err_data));
    if (!is_old) {
        to->err_data_size = from->err_data_size;
    }
    gfi_cq_copy_err_data(cq, to, from, buffer, size);
}

static ssize_t gfi_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct gfi_cq *cq = gfi_cq_of(fid);
    struct gfi_cqe *cqe;
    ssize_t ret = -FI_EAGAIN;

    (void)flags;
    gfi_lock(cq->domain);
    if (gfi_cq_is_empty(cq)) {
        gfi_progress(cq->domain);
    }
    if (!gfi_cq_is_empty(cq)) {
        cqe = &cq->ring[cq->head & cq->mask];
        if (cqe->error != NULL) {
            gfi_cq_copy_error(cq, entry, cqe->error);
            gfi_cq_free_error(cqe->error);
            cq->head++;
            ret = 1;
        }
    }
    gfi_unlock(cq->domain);
    return ret;
}

int gfi_cq_trywait(struct gfi_cq *cq)
{
    int ret = -FI_EAGAIN;

    if (cq->wait_fd < 0) {
        return -FI_EINVAL;
    }
    gfi_lock(cq->domain);
    gfi_wait_clear(cq->signal_fd);
    cq->sleeping = true;
    if (gfi_cq_is_empty(cq) && gfi_may_sleep(cq->domain) && gfi_cq_is_empty(cq)) {
        ret = 0;
    }
    gfi_unlock(cq->domain);
    return ret;
}

static ssize_t gfi_cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *sources,
                                const void *cond, int timeout)
{
    struct gfi_cq *cq = gfi_cq_of(fid);
    int64_t until = timeout < 0 ? -1 : (int64_t)gfi_now_ms() + timeout;
    ssize_t ret;

    (void)cond; /* a hint: at least so many entries; fewer may be returned */
    if (cq->wait_obj == FI_WAIT_NONE) {
        return -FI_EINVAL;
    }
    for (;;) {
        ret = gfi_cq_readfrom(fid, buf, count, sources);
        if (ret != -FI_EAGAIN) {
            return ret;
        }
        if (__atomic_exchange_n(&cq->signaled, false, __ATOMIC_ACQ_REL)) {
            return -FI_EAGAIN; /* fi_cq_signal() */
        }
        if (cq->wait_obj == FI_WAIT_YIELD) {
            if (!gfi_wait_yield(until)) {
                return -FI_EAGAIN;
            }
        } else if (gfi_cq_trywait(cq) == 0) {
            if (!gfi_wait_sleep(cq->wait_fd, until)) {
                return -FI_EAGAIN;
            }
        } else if (until >= 0 && (int64_t)gfi_now_ms() >= until) {
            return -FI_EAGAIN;
        }
    }
}

static ssize_t gfi_cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
                            int timeout)
{
    return gfi_cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int gfi_cq_signal(struct fid_cq *fid)
{
    struct gfi_cq *cq = gfi_cq_of(fid);

    if (cq->wait_obj == FI_WAIT_NONE) {
        return -FI_EINVAL;
    }
    __atomic_store_n(&cq->signaled, true, __ATOMIC_RELEASE);
    if (cq->signal_fd >= 0) {
        gfi_wait_signal(cq->signal_fd);
    }
    return 0;
}

static const char *gfi_cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data,
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

static int gfi_cq_close(struct fid *fid)
{
    struct gfi_cq *cq = gfi_of(fid, struct gfi_cq, fid.fid);

    gfi_lock(cq->domain);
    if (cq->refs > 0) {
        gfi_unlock(cq->domain);
        return -FI_EBUSY;
    }
    cq->domain->refs--;
    gfi_unlock(cq->domain);
    for (; !gfi_cq_is_empty(cq); cq->head++) {
        gfi_cq_free_error(cq->ring[cq->head & cq->mask].error);
    }
    gfi_wait_close(cq->wait_fd, cq->signal_fd);
    free(cq->err_data);
    free(cq->ring);
    free(cq);
    return 0;
}

static int gfi_cq_control(struct fid *fid, int command, void *arg)
{
    struct gfi_cq *cq = gfi_of(fid, struct gfi_cq, fid.fid);

    return gfi_wait_control(command, arg, cq->wait_fd, cq->wait_obj);
}

static struct fi_ops gfi_cq_fi_ops = {
    .size = sizeof(struct fi_ops),
    .close = gfi_cq_close,
    .bind = gfi_no_bind,
    .control = gfi_cq_control,
    .ops_open = gfi_no_ops_open,
};

static struct fi_ops_cq gfi_cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = gfi_cq_read,
    .readfrom = gfi_cq_readfrom,
    .readerr = gfi_cq_readerr,
    .sread = gfi_cq_sread,
    .sreadfrom = gfi_cq_sreadfrom,
    .signal = gfi_cq_signal,
    .strerror = gfi_cq_strerror,
};

static int gfi_cq_check(const struct fi_cq_attr *attr)
{
    if (attr->format > FI_CQ_FORMAT_TAGGED || (attr->flags & ~(uint64_t)FI_AFFINITY) != 0) {
        return -FI_EINVAL;
    }
    return gfi_wait_is_offered(attr->wait_obj) ? 0 : -FI_ENOSYS;
}

static struct gfi_cq *gfi_cq_new(struct gfi_domain *domain, const struct fi_cq_attr *attr,
                                 void *context)
{
    struct gfi_cq *cq = calloc(1, sizeof(*cq));
    uint32_t size = 16;

    if (cq == NULL) {
        return NULL;
    }
    cq->limit = attr->size == 0 ? GFI_CQ_SIZE : (uint32_t)gfi_min(attr->size, (size_t)1 << 24);
    while (size < cq->limit) {
        size *= 2;
    }
    cq->ring = malloc(size * sizeof(*cq->ring));
    if (cq->ring == NULL) {
        free(cq);
        return NULL;
    }
    cq->mask = size - 1;
    cq->fid.fid.fclass = FI_CLASS_CQ;
    cq->fid.fid.context = context;
    cq->fid.fid.ops = &gfi_cq_fi_ops;
    cq->fid.ops = &gfi_cq_ops;
    cq->domain = domain;
    cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
    cq->wait_fd = cq->signal_fd = -1;
    cq->wait_obj = attr->wait_obj;
    return cq;
}

int gfi_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq_p,
                void *context)
{
    struct gfi_domain *domain = gfi_domain_of(fid);
    struct gfi_cq *cq;
    int ret;

    ret = gfi_cq_check(attr);
    if (ret != 0) {
        return ret;
    }
    cq = gfi_cq_new(domain, attr, context);
    if (cq == NULL) {
        return -FI_ENOMEM;
    }
    if (gfi_wait_needs_fd(cq->wait_obj)) {
        ret = gfi_wait_open(domain, &cq->wait_fd, &cq->signal_fd);
        if (ret != 0) {
            free(cq->ring);
            free(cq);
            return ret;
        }
    }
    gfi_lock(domain);
    domain->refs++;
    gfi_unlock(domain);
    *cq_p = &cq->fid;
    return 0;
}
