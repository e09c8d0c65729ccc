/*
 * The shared-memory link: requests are carried out by the initiator itself, on the target's
 * segment. Only what the fast paths of posting use is inline.
 */
#ifndef GLEX_SHM_H
#define GLEX_SHM_H

#include "core/endpoint.h"
#include "core/wait.h"

extern const struct glex_link glex_shm_link;

/** Its functions, for the links in front of it; see link.h. */
bool glex_shm_reaches(struct glex_nic *dev, uint32_t nic_id);
struct glex_peer *glex_shm_attach(struct glex_endpoint *ep, uint64_t addr, int *status_p);
void glex_shm_detach(struct glex_endpoint *ep, struct glex_peer *peer);
static inline bool glex_shm_is_living(struct glex_endpoint *ep, const struct glex_peer *peer)
{
    return peer->is_self || glex_segment_is_living(ep->dev->dirfd, peer->addr, peer->incarnation);
}

/**
 * A claim of a peer's or of our own MPQ or EQ returned NO_STORAGE: reserve some, and claim again.
 * @return What claim() returned then; FULL where there is no storage to be had, which was logged.
 */
enum glex_ring_ret glex_shm_claim_grown(struct glex_endpoint *ep, struct glex_peer *peer,
                                        struct glex_ring_tx *ring, uint64_t *tail_p,
                                        enum glex_ring_ret (*claim)(struct glex_ring_tx *,
                                                                    uint64_t *));

/** glex_ring_claim() of a peer's MPQ or EQ, whose storage grows as it is used. */
static inline enum glex_ring_ret glex_shm_claim(struct glex_endpoint *ep, struct glex_peer *peer,
                                                struct glex_ring_tx *ring, uint64_t *tail_p)
{
    enum glex_ring_ret ret = glex_ring_claim(ring, tail_p);

    return glex_likely(ret != GLEX_RING_NO_STORAGE) ?
               ret :
               glex_shm_claim_grown(ep, peer, ring, tail_p, glex_ring_claim);
}

/** glex_ring_claim_own() of an endpoint's own EQ, likewise. */
static inline enum glex_ring_ret glex_shm_claim_own(struct glex_endpoint *ep,
                                                    struct glex_peer *self, uint64_t *tail_p)
{
    enum glex_ring_ret ret = glex_ring_claim_own(&self->eq, tail_p);

    return glex_likely(ret != GLEX_RING_NO_STORAGE) ?
               ret :
               glex_shm_claim_grown(ep, self, &self->eq, tail_p, glex_ring_claim_own);
}

/** glex_ring_claim_always() of a peer's or an endpoint's own EQ, likewise. */
static inline enum glex_ring_ret glex_shm_claim_always(struct glex_endpoint *ep,
                                                       struct glex_peer *peer,
                                                       struct glex_ring_tx *ring, uint64_t *tail_p)
{
    enum glex_ring_ret ret = glex_ring_claim_always(ring, tail_p);

    return glex_likely(ret != GLEX_RING_NO_STORAGE) ?
               ret :
               glex_shm_claim_grown(ep, peer, ring, tail_p, glex_ring_claim_always);
}

/** A claim that failed: the queue is full, or its owner is gone. `flag` is the request's. */
int glex_shm_refused(struct glex_endpoint *ep, struct glex_peer *peer, enum glex_ring_ret ret,
                     int32_t flag, enum glex_err_req_status full);

/**
 * Finds a peer's registration in the cache, or reads it from the peer's table, and checks a request
 * against the registration.
 * @return GLEX_REQ_DONE and the entry, or why the request fails.
 */
int glex_shm_rmem_find(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t mh, uint32_t key,
                       uint64_t offset, uint64_t len, uint32_t need, struct glex_rmem **rmem_p);

/**
 * Map a registration of NIC memory that was found and is not mapped here.
 * @return GLEX_REQ_DONE: the memory is mapped, or private. GLEX_ERR_STATUS_CONNECTION_NACK: this
 *         process lacks memory, mappings or descriptors, which was logged. Other statuses: the
 *         peer has no such memory.
 */
int glex_shm_rmem_map(struct glex_endpoint *ep, struct glex_peer *peer, struct glex_rmem *rmem);

/** Whether the kernel lets this process copy from and to private memory of a peer. */
bool glex_cma_allowed(const struct glex_endpoint *ep, const struct glex_peer *peer);

/** Copy between memory of this process and private memory of a peer. */
int glex_cma_copy(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t addr, char *local,
                  uint64_t len, enum glex_rdma_type type);

/** Enter in a header what peers recognize this process by. The caller holds the
 *  lock that fork() takes, too: api/endpoint.c. Errors: SYS_ERR, logged. */
glex_ret_t glex_cma_identity(struct glex_segment_header *hdr);

/** In a child of fork(): it is another process, and did not inherit the page with the cookie. */
void glex_cma_fork(void);

/** The link's requests, for the links in front of it, and for the network at the target's host. */
int glex_shm_send_mp(struct glex_endpoint *ep, struct glex_peer *peer,
                     const glex_imm_mp_req_t *req);
int glex_shm_imm_put(struct glex_endpoint *ep, struct glex_peer *peer,
                     const glex_imm_rdma_req_t *req);
int glex_shm_post_event(struct glex_endpoint *ep, struct glex_peer *peer,
                        const glex_imm_rdma_req_t *req);
int glex_shm_rdma(struct glex_endpoint *ep, struct glex_peer *peer, const glex_rdma_req_t *req,
                  char *local);

/** Post an MP as if it were of the endpoint `src`. */
int glex_shm_mp(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t src, const void *data,
                uint32_t len, int32_t flag);

/** Post an event, with data for its slot or none. */
int glex_shm_event(struct glex_endpoint *ep, struct glex_peer *peer, const glex_event_t *event,
                   int32_t flag, const void *data, uint32_t len, uint64_t place);

static inline void glex_shm_fill_mp(struct glex_mp_slot *slot, uint64_t tail, uint64_t src,
                                    const void *data, uint32_t len)
{
    slot->src = src;
    glex_copy_small(slot->data, data, len);
    glex_ring_publish(&slot->ctrl, tail, len);
}

/** Post an MP to a peer that is awake and has room, if nobody else posts just now. */
static inline bool glex_shm_try_mp(struct glex_endpoint *ep, struct glex_peer *peer,
                                   const void *data, uint32_t len)
{
    uint64_t tail;
    struct glex_mp_slot *slot = glex_ring_try_claim(&peer->mpq, &tail);

    if (glex_unlikely(slot == NULL)) {
        return false;
    }
    glex_shm_fill_mp(slot, tail, ep->addr, data, len);
    return true;
}

static inline void glex_shm_fill_event(struct glex_event_slot *slot, uint64_t tail,
                                       const glex_event_t *event, const void *data, uint32_t len,
                                       uint64_t place)
{
    slot->event.cookie_0 = event->cookie_0;
    slot->event.cookie_1 = event->cookie_1;
    slot->place = place;
    glex_copy_small(slot->data, data, len);
    glex_ring_publish(&slot->ctrl, tail, len);
}

/** Post an event to a peer that is awake and has room, if nobody else posts just now. */
static inline bool glex_shm_try_event(struct glex_peer *peer, const glex_event_t *event,
                                      const void *data, uint32_t len, uint64_t place)
{
    uint64_t tail;
    struct glex_event_slot *slot = glex_ring_try_claim(&peer->eq, &tail);

    if (glex_unlikely(slot == NULL)) {
        return false;
    }
    glex_shm_fill_event(slot, tail, event, data, len, place);
    return true;
}

/** Publishes the event of a slot of our own EQ, which glex_shm_claim_own() claimed. If `done` is
 *  false, the consumer skips the slot. Wakes a thread that has armed the queue. */
static inline void glex_shm_publish_own(struct glex_endpoint *ep, struct glex_event_slot *slot,
                                        uint64_t tail, const glex_event_t *event, bool done)
{
    slot->event.cookie_0 = event->cookie_0;
    slot->event.cookie_1 = event->cookie_1;
    glex_ring_publish(&slot->ctrl, tail, done ? 0 : GLEX_CTRL_LEN_SKIP);
    if (glex_unlikely(tail & GLEX_TAIL_ARMED)) {
        glex_wait_wake(ep, ep->addr, ep->segment.incarnation);
    }
}

/**
 * Returns whether a registration that was read before matches a request and is still valid. The
 * table's state word is read every time. A state value never recurs, because generations only grow.
 * So an unchanged state word means an unchanged entry. acquire: the memory is read after the state.
 */
static inline bool glex_shm_rmem_allows(const struct glex_peer *peer, const struct glex_rmem *rmem,
                                        uint64_t mh, uint32_t key, uint64_t offset, uint64_t len,
                                        uint32_t need)
{
    return rmem->mh == mh && peer->key == key && offset + len <= rmem->len &&
           (rmem->state & need) == need &&
           __atomic_load_n(rmem->word, __ATOMIC_ACQUIRE) == rmem->state;
}

/** Check a request at the target's table: handle, key, range, direction. */
static inline int glex_shm_rmem(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t mh,
                                uint32_t key, uint64_t offset, uint64_t len, uint32_t need,
                                struct glex_rmem **rmem_p)
{
    if (glex_likely(glex_shm_rmem_allows(peer, peer->recent, mh, key, offset, len, need))) {
        *rmem_p = peer->recent;
        return GLEX_REQ_DONE;
    }
    return glex_shm_rmem_find(ep, peer, mh, key, offset, len, need, rmem_p);
}

/** Where the data of an immediate put belongs, as an event's slot says it. */
static inline uint64_t glex_shm_place(const glex_imm_rdma_req_t *req)
{
    return (uint64_t)req->rmt_offset << 32 | (req->rmt_mh.v & GLEX_PLACE_MASK);
}

#endif
