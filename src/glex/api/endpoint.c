#include "api/api.h"
#include "api/mgmt.h"
#include "api/progress.h"
#include "api/threads.h"
#include "base/caps.h"
#include "base/env.h"
#include "base/fabric.h"
#include "base/lock.h"
#include "base/log.h"
#include "coll/coll.h"
#include "core/heap.h"
#include "core/help.h"
#include "core/robust.h"
#include "core/shm.h"
#include "core/wait.h"
#include "debug/capture.h"
#include "debug/fault.h"
#include "net/net.h"
#include "shm/stats.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* How long the end of a process waits for the network. */
#define EXIT_FLUSH_MS 1000u

static pid_t endpoints_pid; /* the process that has made endpoints */

/* ---- fork and exit --------------------------------------------------------------------------- */

/* The functions of an endpoint that one thread uses. */
static void ep_set_functions(struct glex_endpoint *ep)
{
    ep->threads.on = false;
    ep->base = (struct glex_ep){glex_mp_post, glex_imm_rdma_post, glex_rdma_post};
}

static __thread bool endpoints_forking; /* fork() has the lock, and runs in this thread */

/*
 * Keeps other threads from creating an endpoint during fork(). A child would inherit the open file
 * of the segment that is being made, and with it the lock that says that the owner lives. The locks
 * of the endpoints are not taken: a signal handler may fork while the interrupted call has such a
 * lock, and the child reads nothing that another thread may be changing.
 */
static void endpoints_prefork(void)
{
    endpoints_forking = glex_lock_take_in_handler(&glex_endpoints_lock);
    glex_mapping_prefork();
}

static void endpoints_parent(void)
{
    glex_mapping_parent();
    if (endpoints_forking) {
        glex_lock_give(&glex_endpoints_lock);
    }
}

/*
 * In the child the parent's endpoints refuse every call. The child does not inherit segments, and
 * has zero pages in their place. Locks are initialized again, because the child lacks the threads
 * that may have held them.
 */
static void endpoints_child(void)
{
    struct glex_endpoint *ep;

    glex_mapping_child();
    for (ep = glex_endpoints; ep != NULL; ep = ep->next) {
        glex_threads_fork(ep);
        glex_segment_fork(&ep->segment);
        glex_peer_fork(&ep->peers);
        glex_net_fork(ep);
        ep->poll.polls_left = 1; /* the next glex_ext_poll() enters the slow path, which refuses */
        ep->poll.polls_rest = 0;
        ep->eq.head = ep->eq.cursor = 0; /* a position that zeros do not publish */
        ep->mpq.head = ep->mpq.cursor = 0;
        ep->dev->num_eps = 0;
        pthread_mutex_init(&ep->dev->device.mutex, NULL);
        pthread_mutex_init(&ep->mem.lock, NULL);
    }
    glex_endpoints = NULL;
    glex_cma_fork();
    glex_robust_fork();
    glex_help_fork();
    glex_capture_fork();
    glex_lock_reset(&glex_endpoints_lock);
}

static void endpoints_register_fork(void)
{
    pthread_atfork(endpoints_prefork, endpoints_parent, endpoints_child);
}

/* No child is forked until endpoints_allow_fork(): see endpoints_prefork(). */
static void endpoints_forbid_fork(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, endpoints_register_fork);
    glex_lock_take(&glex_endpoints_lock);
    /* relaxed: read without the lock at exit, to recognize this process */
    __atomic_store_n(&endpoints_pid, getpid(), __ATOMIC_RELAXED);
}

static void endpoints_allow_fork(void)
{
    glex_lock_give(&glex_endpoints_lock);
}

/* At exit, sends waiting frames, unless exit() was called in the middle of a post. */
static void ep_exit_net(struct glex_endpoint *ep)
{
    if (ep->net == NULL || (ep->threads.on && pthread_mutex_trylock(&ep->threads.lock) != 0)) {
        return;
    }
    glex_endpoint_flush(ep, EXIT_FLUSH_MS);
    glex_endpoint_unlock(ep);
}

/*
 * A program that ends without destroying its endpoints leaves no files. Other threads may still
 * run, and may be creating an endpoint, so nothing is unmapped. The pid reveals a child that was
 * made without the fork handlers (vfork, clone).
 */
static void __attribute__((destructor)) endpoints_exit(void)
{
    struct glex_endpoint *ep;
    bool some, idle;

    if (__atomic_load_n(&endpoints_pid, __ATOMIC_RELAXED) != getpid() ||
        !glex_lock_take_in_handler(&glex_endpoints_lock)) {
        return;
    }
    some = glex_endpoints != NULL;
    idle = !some || glex_help_stop();
    for (ep = glex_endpoints; ep != NULL; ep = ep->next) {
        ep_exit_net(ep);
        glex_stats_write(ep->segment.hdr);
        glex_capture_flush(ep);
        if (idle) { /* else the next process of the fabric removes the name of the dead endpoint */
            glex_segment_retire(ep->dev->dirfd, &ep->segment, GLEX_LEFT_EXIT);
        }
    }
    glex_lock_give(&glex_endpoints_lock);
    glex_net_exit();
    if (some) {
        glex_fabric_remove();
    }
}

/* ---- creating -------------------------------------------------------------------------------- */

/* A capacity that the ring can have: a power of two. 0: out of range. */
static uint32_t ep_capacity(uint32_t wanted)
{
    uint32_t capacity = 1;

    if (wanted == 0) {
        wanted = GLEX_DEFAULT_QUEUE_CAPACITY;
    }
    if (wanted > GLEX_MAX_QUEUE_CAPACITY) {
        return 0;
    }
    while (capacity < wanted) {
        capacity *= 2;
    }
    return capacity;
}

static glex_ret_t ep_check_attr(const struct glex_ep_attr *wanted, struct glex_ep_attr *attr)
{
    *attr = *wanted;
    if (wanted->type == GLEX_EP_TYPE_MANAGEMENT && !glex_mgmt_offered()) {
        return GLEX_NOT_IMPLEMENTED;
    }
    attr->mpq_capacity = ep_capacity(wanted->mpq_capacity);
    attr->eq_capacity = ep_capacity(wanted->eq_capacity);
    attr->dq_capacity = ep_capacity(wanted->dq_capacity);
    if ((unsigned)wanted->type > GLEX_EP_TYPE_MANAGEMENT ||
        (unsigned)wanted->mpq_type > GLEX_MPQ_TYPE_IOMMU ||
        (unsigned)wanted->eq_type > GLEX_EQ_TYPE_IOMMU || attr->mpq_capacity == 0 ||
        attr->eq_capacity == 0 || attr->dq_capacity == 0 ||
        (wanted->num > UINT16_MAX && wanted->num != GLEX_ANY_EP_NUM)) {
        return GLEX_INVALID_PARAM;
    }
    return GLEX_SUCCESS;
}

/* A number that no other endpoint of the fabric has, and, on a network, whose port is free. */
static glex_ret_t ep_place(struct glex_endpoint *ep, const struct glex_segment_header *hdr,
                           int *listen_fd)
{
    bool any = ep->attr.num == GLEX_ANY_EP_NUM;
    uint32_t num = any ? 0 : ep->attr.num, last = any ? glex_net_max_num() : num;
    glex_ret_t ret;

    if (!ep->dev->net.on) {
        return glex_device_create_segment(ep->dev, hdr, ep->attr.num, &ep->segment);
    }
    for (; num <= last && num <= glex_net_max_num(); num++) {
        *listen_fd = glex_net_listen(&ep->dev->net, num);
        if (*listen_fd >= 0) {
            ret = glex_device_create_segment(ep->dev, hdr, num, &ep->segment);
            if (ret == GLEX_SUCCESS) {
                return ret;
            }
            close(*listen_fd);
            *listen_fd = -1;
            if (ret != GLEX_NO_EP_RESOURCE) {
                return ret;
            }
        } else if (errno != EADDRINUSE) {
            glex_error("cannot listen at port %u of %s: %s%s", glex_net_port(num),
                       ep->dev->net.interface, strerror(errno),
                       errno == EADDRNOTAVAIL ?
                           "; the interface has another address since the device was opened" :
                           "");
            return GLEX_SYS_ERR;
        }
    }
    return GLEX_NO_EP_RESOURCE;
}

static glex_ret_t ep_create_segment(struct glex_endpoint *ep, int *listen_fd)
{
    struct glex_ep_attr *attr = &ep->attr;
    glex_ep_addr_t addr = {.nic_id = ep->dev->nic_id};
    struct glex_segment_header hdr = {
        .base_size = glex_base_size(attr->mpq_capacity, attr->eq_capacity),
        .addr = addr.v,
        .key = attr->key,
        .type = attr->type,
        .mpq_capacity = attr->mpq_capacity,
        .eq_capacity = attr->eq_capacity,
        .pid = (uint32_t)getpid(),
        .private_rdma = (ep->dev->caps.caps & GLEX_EXT_CAP_PRIVATE_RDMA) != 0,
        .pid_space = glex_caps_pid_space(),
        .rank = glex_env()->rank,
    };
    struct timespec now;
    glex_ret_t ret;

    ret = glex_cma_identity(&hdr);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    glex_robust_publish(&hdr);
    ep->pid_space = hdr.pid_space;
    clock_gettime(CLOCK_REALTIME, &now);
    hdr.start_time = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
    snprintf(hdr.command, sizeof(hdr.command), "%s", program_invocation_short_name);

    ret = ep_place(ep, &hdr, listen_fd);
    if (ret == GLEX_SUCCESS) {
        addr.v = ep->segment.addr;
        ep->addr = addr.v;
        attr->num = addr.ep_num;
    }
    return ret;
}

/* Initializes everything except the segment. After a failure, the rest is zero. */
static glex_ret_t ep_init(struct glex_endpoint *ep, int listen_fd)
{
    static glex_ret_t (*const inits[])(struct glex_endpoint *) = {
        glex_error_init, glex_peer_init,    glex_mem_init,
        glex_fault_init, glex_capture_init, glex_mgmt_init,
    };
    const struct glex_segment *seg = &ep->segment;
    glex_ret_t ret = GLEX_SUCCESS;
    size_t i;

    ep->counters = &seg->hdr->counters;
    glex_ring_rx_init(&ep->mpq, glex_segment_mpq(seg->hdr), seg->mpq_capacity,
                      glex_ring_id(seg->incarnation, GLEX_RING_MPQ));
    glex_ring_rx_init(&ep->eq, glex_segment_eq(seg->hdr, seg->mpq_capacity), seg->eq_capacity,
                      glex_ring_id(seg->incarnation, GLEX_RING_EQ));
    ep->wait_fd = ep->event_fd = ep->timer_fd = ep->wake_fd = -1;
    ep_set_functions(ep);
    if (listen_fd >= 0) {
        ret = glex_net_init(ep, listen_fd);
    }
    if (ret == GLEX_SUCCESS && !glex_env()->single_threaded) {
        ret = glex_threads_init(ep);
    }
    for (i = 0; ret == GLEX_SUCCESS && i < sizeof(inits) / sizeof(inits[0]); i++) {
        ret = inits[i](ep);
    }
    if (ret == GLEX_SUCCESS) {
        glex_poll_divide(ep, glex_endpoint_patience(ep));
    }
    return ret;
}

/* All but the segment, also of an endpoint that was not made completely. */
static void ep_cleanup(struct glex_endpoint *ep)
{
    glex_mgmt_cleanup(ep);
    glex_fault_cleanup(ep);
    glex_endpoint_flush(ep, glex_env()->net_timeout * 1000);
    glex_capture_cleanup(ep);
    glex_coll_cleanup(ep);
    glex_peer_cleanup(ep);
    glex_net_cleanup(ep);
    glex_mem_cleanup(ep);
    glex_error_cleanup(ep);
    glex_wait_close(ep);
    glex_threads_cleanup(ep);
}

glex_ret_t glex_create_ep(glex_device_handle_t dev, struct glex_ep_attr *ep_attr,
                          glex_ep_handle_t *ep_p)
{
    struct glex_endpoint *ep;
    struct glex_ep_attr attr;
    int listen_fd = -1;
    glex_ret_t ret;

    if (dev == NULL || ep_attr == NULL || ep_p == NULL) {
        return GLEX_INVALID_PARAM;
    }
    ret = ep_check_attr(ep_attr, &attr);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    glex_heap_check();
    ep = aligned_alloc(128, (sizeof(*ep) + 127) & ~127ul);
    if (ep == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    memset(ep, 0, sizeof(*ep));
    ep->dev = glex_nic(dev);
    ep->attr = attr;

    endpoints_forbid_fork();
    ret = ep_create_segment(ep, &listen_fd);
    if (ret != GLEX_SUCCESS) {
        goto err_free;
    }
    ret = ep_init(ep, listen_fd);
    if (ret != GLEX_SUCCESS) {
        goto err_segment;
    }
    glex_endpoints_add(ep);
    endpoints_allow_fork();
    *ep_p = &ep->base;
    return GLEX_SUCCESS;

err_segment:
    ep_cleanup(ep);
    glex_segment_destroy(ep->dev->dirfd, &ep->segment);
    glex_device_put(ep->dev);
err_free:
    endpoints_allow_fork();
    free(ep);
    return ret;
}

glex_ret_t glex_destroy_ep(glex_ep_handle_t handle)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_nic *dev;

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    dev = ep->dev;
    glex_endpoints_remove(ep);
    ep_cleanup(ep);
    glex_stats_write(ep->segment.hdr);
    glex_segment_destroy(dev->dirfd, &ep->segment);
    free(ep);
    glex_device_put(dev);
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_set_single_threaded(glex_ep_handle_t handle)
{
    struct glex_endpoint *ep = glex_endpoint(handle);

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    glex_threads_cleanup(ep);
    ep_set_functions(ep);
    return GLEX_SUCCESS;
}

glex_ret_t glex_query_ep(glex_ep_handle_t handle, struct glex_ep_attr *ep_attr)
{
    if (handle == NULL || ep_attr == NULL || glex_endpoint(handle)->forked) {
        return GLEX_INVALID_PARAM;
    }
    *ep_attr = glex_endpoint(handle)->attr;
    return GLEX_SUCCESS;
}

glex_ret_t glex_get_ep_addr(glex_ep_handle_t handle, glex_ep_addr_t *ep_addr)
{
    if (handle == NULL || ep_addr == NULL || glex_endpoint(handle)->forked) {
        return GLEX_INVALID_PARAM;
    }
    ep_addr->v = glex_endpoint(handle)->addr;
    return GLEX_SUCCESS;
}

glex_ret_t glex_poll_error_req(glex_ep_handle_t handle, uint32_t *num, struct glex_err_req *list)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_error_queue *queue;
    uint32_t i;

    if (handle == NULL || num == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    glex_coll_reap(ep);
    queue = &ep->errors;
    for (i = 0; i < *num && queue->head != queue->tail; i++) {
        list[i] = queue->list[queue->head++ % GLEX_ERROR_CAPACITY];
    }
    *num = i;
    return GLEX_SUCCESS;
}
