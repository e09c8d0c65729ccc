/*
 * A library that test/ofi/mpich preloads. MPICH polls its completion queue without a pause. If more ranks
 * than processors poll, each message waits for the time slices of all of them. So the library yields the
 * processor if no completion is there. The library replaces functions in the tables of a provider's
 * objects.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <sched.h>

/* A process of MPICH opens one fabric, one domain and completion queues of one kind */
static struct fi_ops_cq cq_ops;
static struct fi_ops_domain domain_ops;
static struct fi_ops_fabric fabric_ops;
static ssize_t (*real_read)(struct fid_cq *, void *, size_t);
static int (*real_cq_open)(struct fid_domain *, struct fi_cq_attr *, struct fid_cq **, void *);
static int (*real_domain)(struct fid_fabric *, struct fi_info *, struct fid_domain **, void *);

static ssize_t read_or_yield(struct fid_cq *cq, void *entries, size_t count)
{
    ssize_t done = real_read(cq, entries, count);

    if (done == -FI_EAGAIN) {
        sched_yield();
    }
    return done;
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    int ret = real_cq_open(domain, attr, cq, context);

    if (ret == 0) {
        real_read = (*cq)->ops->read;
        cq_ops = *(*cq)->ops;
        cq_ops.read = read_or_yield;
        (*cq)->ops = &cq_ops;
    }
    return ret;
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    int ret = real_domain(fabric, info, domain, context);

    if (ret == 0) {
        real_cq_open = (*domain)->ops->cq_open;
        domain_ops = *(*domain)->ops;
        domain_ops.cq_open = open_cq;
        (*domain)->ops = &domain_ops;
    }
    return ret;
}

/* Provider ofi_rxm calls fi_fabric() again for the provider below. The nested fabric is not changed. */
int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    int (*open_fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *) =
        dlsym(RTLD_NEXT, "fi_fabric");
    static int depth;
    int ret;

    depth++;
    ret = open_fabric(attr, fabric, context);
    depth--;
    if (ret == 0 && depth == 0) {
        real_domain = (*fabric)->ops->domain;
        fabric_ops = *(*fabric)->ops;
        fabric_ops.domain = open_domain;
        (*fabric)->ops = &fabric_ops;
    }
    return ret;
}
