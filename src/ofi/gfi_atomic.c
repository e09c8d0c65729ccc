/*
 * fi_atomic(), fi_fetch_atomic(), fi_compare_atomic() and their variants. Each call becomes one
 * request to the target (proto/gfi_atomic_op.c). The request has a copy of the program's data.
 */
#include "proto/gfi_op.h"

#include <stdlib.h>
#include <string.h>

#define GFI_ATOMIC_FLAGS                                                                           \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                       \
     FI_DELIVERY_COMPLETE | FI_MORE | FI_FENCE)

struct gfi_elements {
    const struct fi_ioc *ioc;
    size_t count; /* of pieces */
};

struct gfi_atomic {
    struct gfi_ep *ep;
    enum gfi_atomic_kind kind;
    enum fi_datatype datatype;
    enum fi_op op;
    struct gfi_elements operands, compares, results;
    fi_addr_t target;
    uint64_t addr, key;
    void *context;
    uint64_t flags;
};

static size_t gfi_elements_count(const struct gfi_elements *elements)
{
    size_t count = 0, i;

    for (i = 0; i < elements->count; i++) {
        count += elements->ioc[i].count;
    }
    return count;
}

/* @return where the copy ends */
static uint8_t *gfi_elements_copy(uint8_t *to, const struct gfi_elements *elements, size_t size)
{
    size_t i;

    for (i = 0; i < elements->count; i++) {
        memcpy(to, elements->ioc[i].addr, elements->ioc[i].count * size);
        to += elements->ioc[i].count * size;
    }
    return to;
}

static void gfi_elements_place(const struct gfi_elements *elements, size_t size,
                               struct gfi_place *place)
{
    size_t i;

    place->iov_count = elements->count;
    place->len = gfi_elements_count(elements) * size;
    for (i = 0; i < elements->count; i++) {
        place->iov[i].iov_base = elements->ioc[i].addr;
        place->iov[i].iov_len = elements->ioc[i].count * size;
    }
}

static struct gfi_atomic_request *gfi_atomic_request_new(const struct gfi_atomic *atomic,
                                                         size_t size, size_t count, size_t *len)
{
    struct gfi_atomic_request *request = malloc(sizeof(*request) + 2 * count * size);
    uint8_t *end;

    if (request != NULL) {
        *request = (struct gfi_atomic_request){
            .addr = atomic->addr,
            .key = atomic->key,
            .count = (uint32_t)count,
            .datatype = (uint8_t)atomic->datatype,
            .op = (uint8_t)atomic->op,
            .kind = (uint8_t)atomic->kind,
        };
        end = gfi_elements_copy(request->bytes, &atomic->operands, size);
        end = gfi_elements_copy(end, &atomic->compares, size);
        *len = (size_t)(end - (uint8_t *)request);
    }
    return request;
}

/* @return 0 or -FI_EAGAIN */
static int gfi_atomic_queue(const struct gfi_atomic *atomic, const struct gfi_av_entry *entry,
                            size_t size, size_t count)
{
    struct gfi_op *op = gfi_op_new(atomic->ep, entry->peer, GFI_OP_ATOMIC);

    if (op == NULL) {
        return -FI_EAGAIN;
    }
    op->copy = gfi_atomic_request_new(atomic, size, count, &op->len);
    if (op->copy == NULL) {
        gfi_op_free(op);
        return -FI_EAGAIN;
    }
    op->context = atomic->context;
    op->flags = atomic->flags;
    op->cq_flags = FI_ATOMIC | (atomic->kind == GFI_ATOMIC_BASE ? FI_WRITE : FI_READ);
    op->dst_ep = entry->header;
    gfi_elements_place(&atomic->results, size, &op->place);
    gfi_rma_submit(op);
    return 0;
}

static ssize_t gfi_atomic_locked(const struct gfi_atomic *atomic, size_t size, size_t count)
{
    const struct gfi_av_entry *entry = gfi_av_entry(atomic->ep->av, atomic->target);
    struct gfi_ep *ep = atomic->ep;
    int ret;

    if (entry == NULL) {
        return -FI_EINVAL;
    }
    ret = gfi_peer_check(entry->peer); /* -FI_EAGAIN: the operation waits for HELLO */
    if (ret != 0 && ret != -FI_EAGAIN) {
        return ret;
    }
    if ((ep->tx_cq != NULL && gfi_cq_is_full(ep->tx_cq)) || ep->num_tx >= ep->tx_size ||
        gfi_atomic_queue(atomic, entry, size, count) != 0) {
        gfi_progress(ep->domain);
        return -FI_EAGAIN;
    }
    return 0;
}

/*
 * The number of elements, equal in all lists. @return 0, or -FI_EINVAL for different numbers or 0
 */
static int gfi_atomic_count(const struct gfi_atomic *atomic, size_t *count)
{
    bool reads = atomic->op == FI_ATOMIC_READ;
    size_t n = gfi_elements_count(reads ? &atomic->results : &atomic->operands);

    *count = n;
    return n > 0 && atomic->operands.count <= GFI_IOV_LIMIT &&
                   atomic->compares.count <= GFI_IOV_LIMIT &&
                   atomic->results.count <= GFI_IOV_LIMIT &&
                   (atomic->kind == GFI_ATOMIC_BASE || gfi_elements_count(&atomic->results) == n) &&
                   (atomic->kind != GFI_ATOMIC_COMPARE ||
                    gfi_elements_count(&atomic->compares) == n) ?
               0 :
               -FI_EINVAL;
}

static ssize_t gfi_atomic(struct gfi_atomic *atomic)
{
    size_t size = gfi_atomic_size(atomic->datatype, atomic->op, atomic->kind), count;
    struct gfi_domain *domain = atomic->ep->domain;
    ssize_t ret;

    if (!(atomic->ep->caps & FI_ATOMIC) || size == 0) {
        return -FI_EOPNOTSUPP;
    }
    if (gfi_atomic_count(atomic, &count) != 0) {
        return -FI_EINVAL;
    }
    if (count > domain->atomic_size / size ||
        ((atomic->flags & FI_INJECT) && count * size > atomic->ep->inject_size)) {
        return -FI_EMSGSIZE;
    }
    if (atomic->op == FI_ATOMIC_READ) {
        atomic->operands.count = 0;
    }
    gfi_lock(domain);
    ret = gfi_atomic_locked(atomic, size, count);
    gfi_unlock(domain);
    return ret;
}

/* ---- pieces ---- */

static ssize_t gfi_compare_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
                                   size_t count, const struct fi_ioc *comparev, void **compare_desc,
                                   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                                   size_t result_count, fi_addr_t target, uint64_t addr,
                                   uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                   void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_atomic atomic = {.ep = ep,
                                .kind = GFI_ATOMIC_COMPARE,
                                .datatype = datatype,
                                .op = op,
                                .operands = {iov, count},
                                .compares = {comparev, compare_count},
                                .results = {resultv, result_count},
                                .target = target,
                                .addr = addr,
                                .key = key,
                                .context = context,
                                .flags = ep->tx_flags};

    (void)desc, (void)compare_desc, (void)result_desc;
    return gfi_atomic(&atomic);
}

static ssize_t gfi_fetch_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
                                 size_t count, struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t target, uint64_t addr, uint64_t key,
                                 enum fi_datatype datatype, enum fi_op op, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_atomic atomic = {.ep = ep,
                                .kind = GFI_ATOMIC_FETCH,
                                .datatype = datatype,
                                .op = op,
                                .operands = {iov, count},
                                .results = {resultv, result_count},
                                .target = target,
                                .addr = addr,
                                .key = key,
                                .context = context,
                                .flags = ep->tx_flags};

    (void)desc, (void)result_desc;
    return gfi_atomic(&atomic);
}

static ssize_t gfi_base_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
                                size_t count, fi_addr_t target, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op op, void *context)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_atomic atomic = {.ep = ep,
                                .kind = GFI_ATOMIC_BASE,
                                .datatype = datatype,
                                .op = op,
                                .operands = {iov, count},
                                .target = target,
                                .addr = addr,
                                .key = key,
                                .context = context,
                                .flags = ep->tx_flags};

    (void)desc;
    return gfi_atomic(&atomic);
}

/* ---- one piece ---- */

static ssize_t gfi_compare_atomic(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                                  const void *compare, void *compare_desc, void *result,
                                  void *result_desc, fi_addr_t target, uint64_t addr, uint64_t key,
                                  enum fi_datatype datatype, enum fi_op op, void *context)
{
    struct fi_ioc ioc = {.addr = (void *)buf, .count = count};
    struct fi_ioc compare_ioc = {.addr = (void *)compare, .count = count};
    struct fi_ioc result_ioc = {.addr = result, .count = count};

    (void)desc, (void)compare_desc, (void)result_desc;
    return gfi_compare_atomicv(fid, &ioc, NULL, 1, &compare_ioc, NULL, 1, &result_ioc, NULL, 1,
                               target, addr, key, datatype, op, context);
}

static ssize_t gfi_fetch_atomic(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t target, uint64_t addr,
                                uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                void *context)
{
    struct fi_ioc ioc = {.addr = (void *)buf, .count = count};
    struct fi_ioc result_ioc = {.addr = result, .count = count};

    (void)desc, (void)result_desc;
    return gfi_fetch_atomicv(fid, &ioc, NULL, 1, &result_ioc, NULL, 1, target, addr, key, datatype,
                             op, context);
}

static ssize_t gfi_base_atomic(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                               fi_addr_t target, uint64_t addr, uint64_t key,
                               enum fi_datatype datatype, enum fi_op op, void *context)
{
    struct fi_ioc ioc = {.addr = (void *)buf, .count = count};

    (void)desc;
    return gfi_base_atomicv(fid, &ioc, NULL, 1, target, addr, key, datatype, op, context);
}

static ssize_t gfi_inject_atomic(struct fid_ep *fid, const void *buf, size_t count,
                                 fi_addr_t target, uint64_t addr, uint64_t key,
                                 enum fi_datatype datatype, enum fi_op op)
{
    struct fi_ioc ioc = {.addr = (void *)buf, .count = count};
    struct gfi_atomic atomic = {.ep = gfi_ep_of(fid),
                                .kind = GFI_ATOMIC_BASE,
                                .datatype = datatype,
                                .op = op,
                                .operands = {&ioc, 1},
                                .target = target,
                                .addr = addr,
                                .key = key,
                                .flags = FI_INJECT};

    return gfi_atomic(&atomic);
}

/* ---- messages ---- */

static ssize_t gfi_atomic_msg(struct fid_ep *fid, enum gfi_atomic_kind kind,
                              const struct fi_msg_atomic *msg, struct gfi_elements compares,
                              struct gfi_elements results, uint64_t flags)
{
    struct gfi_ep *ep = gfi_ep_of(fid);
    struct gfi_atomic atomic = {.ep = ep,
                                .kind = kind,
                                .datatype = msg->datatype,
                                .op = msg->op,
                                .operands = {msg->msg_iov, msg->iov_count},
                                .compares = compares,
                                .results = results,
                                .target = msg->addr,
                                .context = msg->context,
                                .flags = flags | (ep->tx_selective ? 0 : FI_COMPLETION)};
    size_t count;

    if (flags & ~(uint64_t)GFI_ATOMIC_FLAGS) {
        return -FI_EBADFLAGS;
    }
    if (msg->rma_iov_count != 1 || gfi_atomic_count(&atomic, &count) != 0 ||
        msg->rma_iov[0].count != count) {
        return -FI_EINVAL;
    }
    atomic.addr = msg->rma_iov[0].addr;
    atomic.key = msg->rma_iov[0].key;
    return gfi_atomic(&atomic);
}

static ssize_t gfi_base_atomicmsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
                                  uint64_t flags)
{
    return gfi_atomic_msg(fid, GFI_ATOMIC_BASE, msg, (struct gfi_elements){NULL, 0},
                          (struct gfi_elements){NULL, 0}, flags);
}

static ssize_t gfi_fetch_atomicmsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *resultv, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
    (void)result_desc;
    return gfi_atomic_msg(fid, GFI_ATOMIC_FETCH, msg, (struct gfi_elements){NULL, 0},
                          (struct gfi_elements){resultv, result_count}, flags);
}

static ssize_t gfi_compare_atomicmsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
                                     const struct fi_ioc *comparev, void **compare_desc,
                                     size_t compare_count, struct fi_ioc *resultv,
                                     void **result_desc, size_t result_count, uint64_t flags)
{
    (void)compare_desc, (void)result_desc;
    return gfi_atomic_msg(fid, GFI_ATOMIC_COMPARE, msg,
                          (struct gfi_elements){comparev, compare_count},
                          (struct gfi_elements){resultv, result_count}, flags);
}

/* ---- supported operations ---- */

static int gfi_atomic_valid(const struct gfi_domain *domain, enum gfi_atomic_kind kind,
                            enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    size_t size = gfi_atomic_size(datatype, op, kind);

    if (size == 0) {
        return -FI_EOPNOTSUPP;
    }
    *count = domain->atomic_size / size;
    return 0;
}

static int gfi_base_atomicvalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
                                size_t *count)
{
    return gfi_atomic_valid(gfi_ep_of(fid)->domain, GFI_ATOMIC_BASE, datatype, op, count);
}

static int gfi_fetch_atomicvalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
                                 size_t *count)
{
    return gfi_atomic_valid(gfi_ep_of(fid)->domain, GFI_ATOMIC_FETCH, datatype, op, count);
}

static int gfi_compare_atomicvalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
                                   size_t *count)
{
    return gfi_atomic_valid(gfi_ep_of(fid)->domain, GFI_ATOMIC_COMPARE, datatype, op, count);
}

int gfi_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags)
{
    enum gfi_atomic_kind kind = flags & FI_COMPARE_ATOMIC ? GFI_ATOMIC_COMPARE :
                                flags & FI_FETCH_ATOMIC   ? GFI_ATOMIC_FETCH :
                                                            GFI_ATOMIC_BASE;

    if ((flags & ~(uint64_t)(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) ||
        flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) {
        return flags & FI_TAGGED ? -FI_EOPNOTSUPP : -FI_EINVAL;
    }
    attr->size = gfi_atomic_size(datatype, op, kind);
    return gfi_atomic_valid(gfi_domain_of(fid), kind, datatype, op, &attr->count);
}

struct fi_ops_atomic gfi_atomic_ops = {
    .size = sizeof(struct fi_ops_atomic),
    .write = gfi_base_atomic,
    .writev = gfi_base_atomicv,
    .writemsg = gfi_base_atomicmsg,
    .inject = gfi_inject_atomic,
    .readwrite = gfi_fetch_atomic,
    .readwritev = gfi_fetch_atomicv,
    .readwritemsg = gfi_fetch_atomicmsg,
    .compwrite = gfi_compare_atomic,
    .compwritev = gfi_compare_atomicv,
    .compwritemsg = gfi_compare_atomicmsg,
    .writevalid = gfi_base_atomicvalid,
    .readwritevalid = gfi_fetch_atomicvalid,
    .compwritevalid = gfi_compare_atomicvalid,
};
