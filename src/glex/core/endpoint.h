/* An endpoint: declarations that the files of libglex share. */
#ifndef GLEX_ENDPOINT_H
#define GLEX_ENDPOINT_H

#include "core/device.h"
#include "core/error.h"
#include "core/mem.h"
#include "core/peer.h"

/* One writer, read by others from outside: a plain store that is never torn. */
#define GLEX_COUNT(ep, name, n)                                                                    \
    __atomic_store_n(&(ep)->counters->name, (ep)->counters->name + (n), __ATOMIC_RELAXED)

/* COLL and the flags above it, except libglex's own flags */
#define GLEX_COLL_FLAGS (~(GLEX_FLAG_COLL - 1) & ~(GLEX_EXT_FLAG_NO_LOSS | GLEX_EXT_FLAG_DOMAIN))

struct glex_capture;
struct glex_coll_rest;
struct glex_copy;
struct glex_fault;
struct glex_mgmt;
struct glex_net;
struct glex_prober;

/* State of an endpoint that several threads use: see api/threads.h. */
struct glex_threads {
    bool on;
    bool sleeping; /* a thread sleeps on the endpoint's socket */
    pthread_mutex_t lock;
    struct glex_prober *probers; /* threads that have copies of entries */
    struct glex_copy *unused;    /* memory of discarded copies */
};

/* State of glex_ext_poll(). */
struct glex_poll {
    uint32_t held;       /* entries taken and not given back */
    uint32_t polls_left; /* empty polls before the next check whether a peer asks for help */
    uint32_t polls_rest; /* then, empty polls before the next check for a stall */
    uint32_t looks;      /* empty polls that all check whether a peer asks for help */
    bool mp_last;        /* the last arrival was an MP */
};

/* The owner's view of its collective area. */
struct glex_endpoint_coll {
    struct glex_coll *area;      /* NULL: no COLL request was posted yet */
    struct glex_ring_rx cpq;     /* to pass over slots of killed producers */
    uint64_t tail;               /* position of the next descriptor to post */
    uint64_t reaped;             /* descriptors before it are done with */
    bool unfinished;             /* `rest` has left entries in queues, and is not done */
    struct glex_coll_rest *rest; /* the last request that belongs to no sequence: coll.c */
    bool open;                   /* the last sequence's TAIL was not posted yet */
    uint64_t agent, agent_ns;    /* the agent at the last check; when to check again whether it
                                  * lives */
};

/* The fields of the hot paths come first, in the order of their use. */
struct glex_endpoint {
    struct glex_ep base; /* known to programs */
    uint64_t addr;
    struct glex_ext_counters *counters; /* in the segment */
    struct glex_poll poll;
    struct glex_ring_rx eq;
    struct glex_ring_rx mpq;
    struct glex_mem mem;
    struct glex_peer_table peers;
    struct glex_nic *dev;
    struct glex_segment segment;
    struct glex_ep_attr attr;
    struct glex_error_queue errors;
    struct glex_fault *fault;           /* NULL: GLEX_FAULT is not set */
    struct glex_capture *capture;       /* NULL: GLEX_CAPTURE is not set */
    struct glex_net *net;               /* NULL: no network */
    const struct glex_endpoint *domain; /* glex_ext_set_domain(), or NULL */
    struct glex_mgmt *mgmt;             /* NULL: the type is not MANAGEMENT */
    int wait_fd;                        /* our socket, or -1 */
    int event_fd;                       /* for programs: wait_fd or timer_fd; or -1 */
    int timer_fd;                       /* bounds a program's sleep; or -1 */
    int wake_fd;                        /* to wake peers with, or -1 */
    uint64_t wake_incarnation;          /* the peer that wake_fd is connected to; 0:
                                         * none */
    bool forked;                        /* in a child of fork(): the endpoint belongs to the
                                         * parent */
    bool carries_others;                /* the endpoint progresses other endpoints of the process,
                                         * and sleeps are short */
    uint64_t pid_space;                 /* the pid namespace of this process */
    struct glex_endpoint_coll coll;
    struct glex_threads threads;
    struct glex_endpoint *next, **prev_next; /* of this process */
};

static inline struct glex_endpoint *glex_endpoint(glex_ep_handle_t ep)
{
    return glex_container_of(ep, struct glex_endpoint, base);
}

/** Counts a sent MP of `len` bytes. */
static inline void glex_count_mp(struct glex_endpoint *ep, uint32_t len)
{
    GLEX_COUNT(ep, mp_tx, 1);
    GLEX_COUNT(ep, mp_bytes, len);
}

static inline void glex_endpoint_lock(struct glex_endpoint *ep)
{
    if (ep->threads.on) {
        pthread_mutex_lock(&ep->threads.lock);
    }
}

static inline void glex_endpoint_unlock(struct glex_endpoint *ep)
{
    if (ep->threads.on) {
        pthread_mutex_unlock(&ep->threads.lock);
    }
}

static inline struct glex_endpoint *glex_endpoint_locked(struct glex_endpoint *ep)
{
    glex_endpoint_lock(ep);
    return ep;
}

static inline void glex_endpoint_leave(struct glex_endpoint **ep)
{
    glex_endpoint_unlock(*ep);
}

/** Lock the endpoint until the end of the block. */
#define GLEX_LOCKED(ep)                                                                            \
    struct glex_endpoint *locked_ep __attribute__((cleanup(glex_endpoint_leave), unused)) =        \
        glex_endpoint_locked(ep)

/** The peer with this address if it was used recently, else NULL. */
static inline struct glex_peer *glex_endpoint_recent_peer(struct glex_endpoint *ep, uint64_t addr)
{
    uint32_t i = glex_peer_cache_index(addr);

    return glex_likely(ep->peers.cache[i].addr == addr) ? ep->peers.cache[i].peer : NULL;
}

/** Finds the peer of a program's address by the hint in the address or, without a hint, among the
 * recently used peers. */
static inline struct glex_peer *glex_endpoint_hinted_peer(struct glex_endpoint *ep,
                                                          glex_ep_addr_t addr)
{
    const struct glex_peer_table *table = &ep->peers;
    uint32_t i = addr.resv;

    if (glex_likely(i < table->num_hinted) && glex_likely(table->hinted[i].addr == addr.v)) {
        return table->hinted[i].peer;
    }
    return glex_endpoint_recent_peer(ep, glex_peer_addr(addr));
}

/** Find a peer: the hot path. */
static inline struct glex_peer *glex_endpoint_peer(struct glex_endpoint *ep, uint64_t addr,
                                                   int *status_p)
{
    struct glex_peer *peer = glex_endpoint_recent_peer(ep, addr);

    return glex_likely(peer != NULL) ? peer : glex_peer_find(ep, addr, status_p);
}

/**
 * Post a request to an address, and once more if the peer is gone, because a new peer may have its
 * address.
 */
static GLEX_ALWAYS_INLINE int glex_endpoint_post(struct glex_endpoint *ep, glex_ep_addr_t addr,
                                                 glex_peer_post_fn post, const void *req)
{
    struct glex_peer *peer;
    int status;

    peer = glex_endpoint_peer(ep, glex_peer_addr(addr), &status);
    if (glex_likely(peer != NULL)) {
        status = post(ep, peer, req);
        if (glex_unlikely(status == GLEX_REQ_PEER_GONE)) {
            return glex_peer_post_again(ep, peer, post, req);
        }
    }
    return status;
}

#endif
