/*
 * Peers: the endpoints that this one posts to. Found by address at every request, attached at the
 * first.
 */
#ifndef GLEX_PEER_H
#define GLEX_PEER_H

#include "core/link.h"
#include "core/mapping.h"
#include "shm/coll_layout.h"
#include "shm/ring.h"

#define GLEX_PEER_CACHE 64
#define GLEX_RMEM_CHUNK 8u

/* A peer's registration as it was last read; valid while the table's state word is the same. */
struct glex_rmem {
    uint64_t mh;          /* its handle, as a number */
    uint64_t state;       /* state word at the last read; without VALID: never read */
    const uint64_t *word; /* the table's state word */
    uint64_t len;
    char *ptr;         /* address in this process, or NULL: not mapped */
    uint64_t addr;     /* address in the owner */
    uint64_t file_off; /* as in the peer's table; 0: private memory */
    uint32_t copies;   /* copies that the kernel has made */
    bool is_alias;     /* `map` is an alias: core/alias.h */
    struct glex_mapping *map;
    LIST_ENTRY(glex_rmem) alias; /* in the peer's list, if `is_alias` */
};

/* The collective area of a peer, and whether a call is about to carry its requests; see coll.h. */
struct glex_peer_coll {
    struct glex_coll *area; /* NULL: no storage was asked for yet */
    struct glex_ring_tx cpq;
    STAILQ_ENTRY(glex_peer) entry; /* in a call's list of work */
    bool busy;                     /* in the list of work, or a call carries its requests: the peer
                                    * must not be dropped */
};

struct glex_peer {
    /* With very many peers each is out of the cache: an immediate put needs this line only */
    const struct glex_link *link __attribute__((aligned(64)));
    struct glex_rmem *recent; /* the registration found last: nearly always the next */
    struct glex_ring_tx eq;
    uint32_t key;
    uint16_t hint; /* its place in the table's `hinted`, or 0 */
    bool is_self;
    bool private_failed; /* a failure of private RDMA was logged */
    bool storage_failed; /* a failure to reserve storage was logged */

    struct glex_ring_tx mpq;
    uint64_t addr;
    struct glex_mmt_entry *mmt;
    struct glex_peer *next; /* in its hash bucket */
    struct glex_segment_header *base;
    struct glex_mapping *map; /* of `base`: queues and tables; NULL: our own segment */
    struct glex_rmem **rmem;  /* registrations, in chunks; grows with the highest index */
    uint32_t rmem_chunks;
    struct glex_mappings maps; /* of its NIC memory */
    LIST_HEAD(, glex_rmem) aliases;
    uint32_t num_maps, max_maps; /* mappings, also ended ones; sweep above max_maps */
    uint64_t checked;            /* time of the last check whether the owner lives, ns */
    /* Of its segment's header, checked when it was attached */
    uint64_t incarnation;
    uint64_t base_size;
    uint64_t cookie_addr;
    uint64_t cookie;
    uint32_t pid;
    int32_t rank;
    uint64_t receiver; /* the peer's receiver when the peer was attached */
    uint32_t private_rdma;
    uint64_t pid_space;
    uint64_t robust_id;
    uint32_t robust_fd;
    bool robust_sought;     /* this process has tried to map `robust` */
    const uint32_t *robust; /* the word of core/robust.h; NULL: not mapped */
    /* Of long copies, which the peer may help with: core/help.c */
    uint32_t help_skip;   /* number of the next copies that this process does alone */
    uint32_t help_pause;  /* copies done alone after the last long wait for the peer's help */
    uint32_t help_absent; /* copies done alone after the last copy without the peer's help */
    int64_t help_debt_ns; /* time of all waits for the peer, less the time that its help saved */
    struct glex_peer_coll coll;
};

struct glex_peer_ref {
    uint64_t addr; /* UINT64_MAX: none; no address has all bits set */
    struct glex_peer *peer;
};

/* The peers of this host that this endpoint found dead or detached last. A message about the end of
 * a peer names its process. */
#define GLEX_PEER_PAST 64u

struct glex_peer_past {
    uint64_t addr;
    uint64_t receivers[2]; /* when the peer was attached, and when the peer was described */
    uint32_t pid;
    int32_t rank;
    uint32_t left; /* enum glex_left */
};

struct glex_peer_table {
    struct glex_peer_ref cache[GLEX_PEER_CACHE]; /* found last, by address */
    struct glex_peer_ref *hinted;                /* by the hint in an address; [0] is unused */
    uint32_t num_hinted;                         /* entries, used or not */
    uint32_t free_hint;                          /* none before it is free */
    struct glex_peer **buckets;
    uint32_t num_buckets; /* in use */
    uint32_t bucket_room; /* allocated */
    uint32_t num_peers;
    struct glex_peer_past past[GLEX_PEER_PAST];
    uint32_t num_past; /* ever */
};

glex_ret_t glex_peer_init(struct glex_endpoint *ep);
void glex_peer_cleanup(struct glex_endpoint *ep);

/** The peer with that address, if it is attached; else NULL. */
struct glex_peer *glex_peer_lookup(const struct glex_peer_table *table, uint64_t addr);

/** The link that leads to a NIC, or NULL. */
const struct glex_link *glex_peer_link(struct glex_nic *dev, uint32_t nic_id);

/** The link by which an endpoint reaches an address, or NULL. */
const struct glex_link *glex_endpoint_link(struct glex_endpoint *ep, uint64_t addr);

/** Find or attach. NULL, and an error request status, where it cannot be. */
struct glex_peer *glex_peer_find(struct glex_endpoint *ep, uint64_t addr, int *status_p);

/** The address of an attached peer with its hint in the reserved bits. */
uint64_t glex_peer_hinted_addr(const struct glex_peer *peer);

/** What is known of a peer's process. */
void glex_peer_describe(const struct glex_peer *peer, struct glex_peer_past *past);

/** Remember the process of a peer that is gone. */
void glex_peer_remember(struct glex_endpoint *ep, const struct glex_peer_past *past);

/** Detach from a dead peer. */
void glex_peer_drop(struct glex_endpoint *ep, struct glex_peer *peer);

/** Executes a request at a peer, by its link. Returns the result of the link's function. */
typedef int (*glex_peer_post_fn)(struct glex_endpoint *ep, struct glex_peer *peer, const void *req);

/** After GLEX_REQ_PEER_GONE: detach from the peer, and post to the present owner of its address. */
int glex_peer_post_again(struct glex_endpoint *ep, struct glex_peer *peer, glex_peer_post_fn post,
                         const void *req);

/** In a child of fork(): posts find no peer. */
void glex_peer_fork(struct glex_peer_table *table);

/** The address as the table knows it: the reserved bits may hold anything. */
static inline uint64_t glex_peer_addr(glex_ep_addr_t addr)
{
    return addr.v & 0xffffffff0000ffffull;
}

static inline uint32_t glex_peer_hash(uint64_t addr)
{
    return (uint32_t)((addr * 0x9e3779b97f4a7c15ull) >> 32);
}

static inline uint32_t glex_peer_cache_index(uint64_t addr)
{
    return (uint32_t)(addr ^ (addr >> 32)) % GLEX_PEER_CACHE;
}

#endif
