/*
 * The line between NIC and protocol: glex.h, and glex_ext.h if the NIC has the extension. For a NIC
 * without the extension this file has wrappers. Most wrappers return GLEX_NOT_IMPLEMENTED, and the
 * transport takes another path. The other wrappers use the functions of glex.h.
 */
#ifndef UCT_GLEX_NIC_H
#define UCT_GLEX_NIC_H

#include <openglex.h>
#include <glex.h>
#include <ucs/type/status.h>

#if HAVE_GLEX_EXT_H
#include <glex_ext.h>
/* Whether RDMA can end before the posting call returns */
#define UCT_GLEX_NIC_RDMA_NOW 1
/* Whether the NIC has glex_ext_post_event() and glex_ext_post_mp() */
#define UCT_GLEX_NIC_MESSAGES 1
/* Whether the NIC has glex_ext_query_queues() */
#define UCT_GLEX_NIC_QUEUES 1
/* Whether a program may choose the number of an endpoint, and the lowest number to choose */
#define UCT_GLEX_NIC_RANDOM_NUM 1
#define UCT_GLEX_NIC_MIN_NUM    256
#else
#define UCT_GLEX_NIC_RDMA_NOW     0
#define UCT_GLEX_NIC_MESSAGES     0
#define UCT_GLEX_NIC_QUEUES       0
#define UCT_GLEX_NIC_RANDOM_NUM   0
#define UCT_GLEX_NIC_MIN_NUM      0
#define GLEX_EXT_FLAG_NO_LOSS     0
#define GLEX_EXT_FLAG_DOMAIN      0
#define GLEX_EXT_CAP_PRIVATE_RDMA 1
#define GLEX_EXT_CAP_MAP          2

struct glex_ext_device_attr {
    uint32_t caps;
    char missing[8];
    uint32_t space;
    uint64_t network;
    uint64_t fabric;
};

struct glex_ext_pin;

struct glex_ext_watch {
    const uint64_t *word;
    uint64_t state;
    struct glex_ext_pin *pin;
};

struct glex_ext_arrival {
    glex_event_t *event;
    void *data;
    uint32_t len;
    glex_ep_addr_t src;
    unsigned events, mps; /* probed and not discarded, 0 at first */
};

#define UCT_GLEX_NIC_LACKS(_function, ...)                                                         \
    static inline glex_ret_t _function(__VA_ARGS__)                                                \
    {                                                                                              \
        return GLEX_NOT_IMPLEMENTED;                                                               \
    }

struct glex_ext_queues {
    uint64_t events_arrived, events_taken;
    uint64_t mps_arrived, mps_taken;
};

enum glex_ext_process_state {
    GLEX_EXT_PROCESS_RUNS,
    GLEX_EXT_PROCESS_CLOSED,
    GLEX_EXT_PROCESS_EXITED,
    GLEX_EXT_PROCESS_KILLED
};

struct glex_ext_process {
    uint32_t pid;
    int32_t rank;
    enum glex_ext_process_state state;
};

enum glex_ext_message {
    GLEX_EXT_MESSAGE_MAPPED,
    GLEX_EXT_MESSAGE_BUFFERED,
    GLEX_EXT_MESSAGE_ZCOPY
};

UCT_GLEX_NIC_LACKS(glex_ext_peer_process, glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t uuid,
                   struct glex_ext_process *process)
UCT_GLEX_NIC_LACKS(glex_ext_query_queues, glex_ep_handle_t ep, struct glex_ext_queues *queues)
UCT_GLEX_NIC_LACKS(glex_ext_mem_alloc, glex_ep_handle_t ep, uint64_t len, void **addr_p)
UCT_GLEX_NIC_LACKS(glex_ext_mem_free, glex_ep_handle_t ep, void *addr)
UCT_GLEX_NIC_LACKS(glex_ext_peer_ptr, glex_ep_handle_t ep, glex_ep_addr_t peer,
                   glex_mem_handle_t mh, uint32_t key, uint64_t offset, uint64_t len, void **ptr_p,
                   struct glex_ext_pin **pin_p)
UCT_GLEX_NIC_LACKS(glex_ext_peer_watch, glex_ep_handle_t ep, glex_ep_addr_t peer,
                   glex_mem_handle_t mh, uint32_t key, struct glex_ext_watch *watch)
UCT_GLEX_NIC_LACKS(glex_ext_rdma_now, glex_ep_handle_t ep, const glex_rdma_req_t *req, void *local)
UCT_GLEX_NIC_LACKS(glex_ext_event_fd, glex_ep_handle_t ep, int *fd)
UCT_GLEX_NIC_LACKS(glex_ext_arm, glex_ep_handle_t ep)
UCT_GLEX_NIC_LACKS(glex_ext_set_single_threaded, glex_ep_handle_t ep)
UCT_GLEX_NIC_LACKS(glex_ext_set_receiver, glex_ep_handle_t ep, uint64_t uuid)
UCT_GLEX_NIC_LACKS(glex_ext_has_receiver, glex_ep_handle_t ep, glex_ep_addr_t peer)
UCT_GLEX_NIC_LACKS(glex_ext_count_messages, glex_ep_handle_t ep, enum glex_ext_message kind,
                   uint64_t messages, uint64_t bytes)
UCT_GLEX_NIC_LACKS(glex_ext_set_domain, glex_ep_handle_t ep, glex_ep_handle_t domain)
UCT_GLEX_NIC_LACKS(glex_ext_peer_epoch, glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t *epoch_p)
UCT_GLEX_NIC_LACKS(glex_ext_check_peer, glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t uuid,
                   uint64_t epoch)
UCT_GLEX_NIC_LACKS(glex_ext_post_event, glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t cookie_0,
                   uint64_t cookie_1)

/* The vendor's NIC reaches all registered memory */
static inline glex_ret_t glex_ext_query_device(glex_device_handle_t dev,
                                               struct glex_ext_device_attr *attr)
{
    attr->caps = GLEX_EXT_CAP_PRIVATE_RDMA;
    attr->missing[0] = '\0';
    attr->space = 1;
    attr->network = 0;
    attr->fabric = 0;
    return GLEX_SUCCESS;
}

/* The domain's endpoint is the target of RMA on any host */
static inline int glex_ext_is_remote(glex_ep_handle_t ep, glex_ep_addr_t peer)
{
    return 0;
}

/* The NICs of the machine are on a single fabric */
static inline glex_ret_t glex_ext_is_reachable(glex_device_handle_t dev, uint32_t nic_id)
{
    return GLEX_SUCCESS;
}

/* Nothing is mapped, so nothing is unmapped */
static inline void glex_ext_unpin(struct glex_ext_pin *pin)
{
}

static inline glex_ep_addr_t glex_ext_peer_hint(glex_ep_handle_t ep, glex_ep_addr_t peer)
{
    return peer;
}

/* Most entries that are probed before they are discarded */
#define UCT_GLEX_NIC_HELD_MAX 16

static inline glex_ret_t uct_glex_nic_poll_event(glex_ep_handle_t ep,
                                                 struct glex_ext_arrival *arrival)
{
    glex_ret_t ret;

    if (arrival->events == UCT_GLEX_NIC_HELD_MAX) {
        glex_discard_probed_event(ep);
        arrival->events = 0;
    }
    ret = (arrival->events == 0) ? glex_probe_first_event(ep, 0, &arrival->event) :
                                   glex_probe_next_event(ep, &arrival->event);
    if (ret == GLEX_SUCCESS) {
        ++arrival->events;
        arrival->len = 0;
    } else if (arrival->events > 0) {
        glex_discard_probed_event(ep);
        arrival->events = 0;
    }
    return ret;
}

static inline glex_ret_t uct_glex_nic_poll_mp(glex_ep_handle_t ep, struct glex_ext_arrival *arrival)
{
    glex_ret_t ret;

    arrival->event = NULL;
    if (arrival->mps == UCT_GLEX_NIC_HELD_MAX) {
        glex_discard_probed_mp(ep);
        arrival->mps = 0;
    }
    ret = (arrival->mps == 0) ?
              glex_probe_first_mp(ep, 0, &arrival->src, &arrival->data, &arrival->len) :
              glex_probe_next_mp(ep, &arrival->src, &arrival->data, &arrival->len);
    if (ret == GLEX_SUCCESS) {
        ++arrival->mps;
    } else if (arrival->mps > 0) {
        glex_discard_probed_mp(ep);
        arrival->mps = 0;
    }
    return ret;
}

/* Poll the two queues in turn. A busy queue does not delay the other queue. */
static inline glex_ret_t glex_ext_poll(glex_ep_handle_t ep, struct glex_ext_arrival *arrival)
{
    if ((arrival->event == NULL) && (uct_glex_nic_poll_event(ep, arrival) == GLEX_SUCCESS)) {
        return GLEX_SUCCESS;
    }
    if (uct_glex_nic_poll_mp(ep, arrival) == GLEX_SUCCESS) {
        return GLEX_SUCCESS;
    }
    return uct_glex_nic_poll_event(ep, arrival);
}
#endif

/* Whether a full queue refuses requests, instead of losing them. Then credits only ensure fairness,
 * and their sum may exceed the capacity. */
#define UCT_GLEX_NIC_LOSSLESS (GLEX_EXT_FLAG_NO_LOSS != 0)

/* Default number of entries of the event queue. The software NIC's queue is a ring in memory. The
 * owner and all senders access the whole ring, and the ring passes through their caches. A full
 * queue loses nothing there, so a short queue is enough. */
#define UCT_GLEX_NIC_EQ_CAPACITY (UCT_GLEX_NIC_LOSSLESS ? "2048" : "4096")

/** The ucs_status_t for a result of the NIC */
ucs_status_t uct_glex_status(glex_ret_t ret);

#endif
