/*
 * An endpoint: what the files of libglex share about it.
 */
#ifndef GLEX_ENDPOINT_H
#define GLEX_ENDPOINT_H

#include "device.h"
#include "error.h"
#include "fault.h"
#include "mem.h"
#include "peer.h"
#include "ring.h"
#include "segment.h"

/* One writer, read by others from outside: a plain store that is never torn. */
#define GLEX_COUNT(ep, name, n) \
    __atomic_store_n(&(ep)->counters->name, (ep)->counters->name + (n), __ATOMIC_RELAXED)

/* COLL and all above, but for our own */
#define GLEX_COLL_FLAGS (~(GLEX_FLAG_COLL - 1) & ~GLEX_EXT_FLAG_NO_LOSS)

struct glex_fault;

/* State of glex_ext_poll(). */
struct glex_poll {
    uint32_t held;    /* entries taken and not given back */
    uint32_t idle;    /* empty polls until the next look for a stall */
    bool     mp_last; /* what came last was an MP */
};

/* First what the hot paths touch, in the order in which they do. */
struct glex_endpoint {
    struct glex_ep             base; /* known to programs */
    uint64_t                   addr;
    struct glex_ext_counters  *counters; /* in the segment */
    struct glex_poll           poll;
    struct glex_ring_rx        eq;
    struct glex_ring_rx        mpq;
    struct glex_mem            mem;
    struct glex_peer_table     peers;
    struct glex_device        *dev;
    struct glex_segment        segment;
    struct glex_ep_attr        attr;
    struct glex_error_queue    errors;
    struct glex_fault         *fault; /* NULL: none asked for */
    int                        wait_fd;  /* our socket, or -1 */
    int                        wake_fd;  /* to wake another with, or -1 */
    uint64_t                   wake_incarnation; /* whom; a number may have had other owners */
    bool                       forked;   /* inherited: belongs to the parent */
    uint64_t                   cookie;   /* what peers verify our pid by */
    uint64_t                   pid_space; /* that our pid belongs to */
    struct glex_endpoint      *next, **prev_next; /* of this process */
};

static inline struct glex_endpoint *glex_endpoint(glex_ep_handle_t ep)
{
    return glex_container_of(ep, struct glex_endpoint, base);
}

/* The posting functions. */
glex_ret_t glex_mp_post(glex_ep_handle_t ep, glex_imm_mp_req_t *req, glex_imm_mp_req_t **bad_req);
glex_ret_t glex_imm_rdma_post(glex_ep_handle_t ep, glex_imm_rdma_req_t *req,
                              glex_imm_rdma_req_t **bad_req);
glex_ret_t glex_rdma_post(glex_ep_handle_t ep, glex_rdma_req_t *req, glex_rdma_req_t **bad_req);

/** The peer with that address if it is among those used last, else NULL. */
static inline struct glex_peer *glex_endpoint_recent_peer(struct glex_endpoint *ep, uint64_t addr)
{
    uint32_t i = glex_peer_cache_index(addr);

    return glex_likely(ep->peers.cache[i].addr == addr) ? ep->peers.cache[i].peer : NULL;
}

/** The same of an address as the program gave it, which may bear a hint: then always. */
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

/** Put the data that came with an event where it belongs. */
void glex_event_place(struct glex_endpoint *ep, const struct glex_event_slot *slot, uint32_t len);

/**
 * Out of line, at an empty probe whose patience is over: look after what cannot be done on the hot
 * path (a stalled slot, delayed messages of GLEX_FAULT).
 * @return Whether to look again: a slot was passed over.
 */
bool glex_endpoint_idle(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos);

#endif
