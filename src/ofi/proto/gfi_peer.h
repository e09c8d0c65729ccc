/*
 * A peer: a connection with a remote domain, found by its address. The endpoints of this domain share
 * the peer and its UCT endpoint. Headers of messages contain the number of a peer. A number never gets a
 * second meaning.
 *
 *   NEW  -- something is to be sent, or HELLO arrives --> HELLO sent --- HELLO arrived ---> ready
 *   any state -- UCT says that the peer is gone --> failed (`error`), for good
 *
 * After an outage both domains may still exist. A new connection of the same address gets a new peer
 * with a new number (gfi_reconnect.c): when the program inserts the address of a failed peer again, or
 * when a HELLO arrives with a later number than the known one. The new peer replaces the old one.
 *
 * A peer fails in two steps, because a delivered message stays delivered. Sends fail at once.
 * Messages of the peer in the NIC's queues still arrive (`draining`). When the queues are empty,
 * receives that name the peer fail, unless an unexpected message of the peer matches them. A peer
 * that said BYE has left in good order: receives that name the peer stay posted.
 *
 * HELLO tells the peer which number to use for its messages. A domain can send to a peer after the
 * HELLO of the peer has arrived: after one round trip. Messages and RMA wait until then.
 */
#ifndef GFI_PEER_H
#define GFI_PEER_H

#include "../core/gfi.h"

/* A message to be sent when the NIC has room again */
struct gfi_ctl {
    struct gfi_ctl *next;
    uint8_t am_id;
    uint32_t len;
    uint8_t bytes[];
};

/* Contiguous memory behind a peer's key */
struct gfi_rkey_part {
    uint64_t base, addr, length, access;
    uct_rkey_bundle_t bundle; /* UCT_INVALID_RKEY: the NIC does not reach the memory */
};

/* The known properties of a peer's key */
struct gfi_rkey {
    bool known;        /* the peer has answered */
    bool revoked;      /* free it after its last use */
    bool is_asked;     /* a request is on its way, */
    uint64_t asked_at; /* for the part with this address */
    bool has_hole;     /* the peer's answer: no part has the address */
    unsigned uses;
    int error; /* 0, or FI_EKEYREJECTED: the peer has no such key */
    uint64_t base, length, access;
    uint64_t events;             /* FI_REMOTE_READ, FI_REMOTE_WRITE: accesses that the target wants
                      * reported */
    struct gfi_rkey_part *parts; /* by address; they do not overlap */
    size_t num_parts;
};

struct gfi_peer {
    uct_ep_h uct_ep;
    ssize_t short_max; /* longest data of a tagged message by am_short; -1: slow path */
    uint64_t header;   /* my number at the peer, in the header's place */
    uint32_t id;       /* the peer's number here */
    bool hello_sent, ready;
    bool pressed;     /* the peer wants announcements only */
    bool told;        /* PRESSURE was sent to the peer */
    bool is_due;      /* in domain->due_peers */
    bool left;        /* BYE arrived */
    bool is_draining; /* in domain->draining */
    bool is_known;    /* domain->peer_by_addr leads to the peer */
    bool is_cut;      /* a message of the peer was lost here: nothing after that message arrives */
    int error;        /* FI_ error, once the peer has failed */
    uint32_t source;  /* number that stands for the peer in matching: `id` of the peer, or of the
                      * peer that has replaced it */
    unsigned entries; /* of address vectors */
    size_t kept;      /* unexpected messages */
    unsigned holds;   /* operations for which later ones may have to wait: gfi_op_hold() */
    struct gfi_domain *domain;
    struct gfi_ctl *first_ctl, **last_ctl;
    struct gfi_list ops;      /* operations that wait for the peer */
    struct gfi_list deferred; /* messages that wait for the peer's HELLO, in order */
    struct gfi_list rma;      /* RMA operations not started yet, in order */
    struct gfi_map rkeys;     /* key -> gfi_rkey */
    struct gfi_list due, draining;
    uint32_t next_same;   /* next peer with the same hash of the address, or GFI_NO_PEER */
    struct gfi_addr addr; /* ep is 0 */
};

/**
 * Locked: find or make the peer of an address.
 *
 * @return 0; -FI_EINVAL: not an address of this provider and version; -FI_EHOSTUNREACH: no route to
 *        the peer; -FI_ENOMEM.
 */
int gfi_peer_get(struct gfi_domain *domain, const struct gfi_addr *addr, struct gfi_peer **peer);

/** Locked: a new peer with the address of a failed one. The address leads to the new peer. @return as
 *  gfi_peer_get() */
int gfi_peer_renew(struct gfi_peer *old, struct gfi_peer **peer);

/** Locked: free all peers, and their endpoints. */
void gfi_peers_cleanup(struct gfi_domain *domain);

/** Locked: say hello, if that was not done yet. */
void gfi_peer_connect(struct gfi_peer *peer);

/** Locked: whether sends must not be tried. @return 0, -FI_EAGAIN, or the error of a failed peer */
int gfi_peer_check(struct gfi_peer *peer);

/**
 * Locked: send one of the provider's own messages, at once or when there is room. It is lost only
 * if the peer has failed.
 */
void gfi_peer_send(struct gfi_peer *peer, uint8_t am_id, const void *message, size_t len);

/** A message of the provider. `bytes` follow the message. */
struct gfi_parcel {
    const void *message;
    size_t len;
    const void *bytes;
    size_t bytes_len;
};

/** Locked: gfi_peer_send() of a message and bytes. */
void gfi_peer_send_parcel(struct gfi_peer *peer, uint8_t am_id, const struct gfi_parcel *parcel);

/** Locked: send a message now. @return UCS_OK, UCS_ERR_NO_RESOURCE, or the error of a dead peer */
ucs_status_t gfi_peer_post(struct gfi_peer *peer, uint8_t am_id, const struct gfi_parcel *parcel);

/** Locked: notify the peer that its operation is over. */
void gfi_peer_send_fin(struct gfi_peer *peer, uint64_t op, int error);

/** Locked: send waiting messages. @return whether nothing is left */
bool gfi_peer_progress(struct gfi_peer *peer);

/** Locked: have gfi_progress() call gfi_peer_progress(), and start waiting operations. */
static inline void gfi_peer_set_due(struct gfi_peer *peer)
{
    if (!peer->is_due) {
        peer->is_due = true;
        gfi_list_add(&peer->domain->due_peers, &peer->due);
    }
    gfi_set_due(peer->domain);
}

/** Locked: update the derived state after a change of `pressed`, `ready`, `error`, `holds` or a
 *  queue. */
static inline void gfi_peer_update(struct gfi_peer *peer)
{
    bool simple = peer->ready && !peer->left && !peer->pressed && peer->error == 0 &&
                  peer->holds == 0 && peer->first_ctl == NULL && gfi_list_is_empty(&peer->deferred);

    peer->short_max = simple ? (ssize_t)(peer->domain->short_size - sizeof(uint64_t)) : -1;
}

/** Locked: the peer is dead. Operations on the peer end with an error. Receives that name the peer
 * end when the NIC's queues are empty. */
void gfi_peer_fail(struct gfi_peer *peer, int error);

/** Whether no message of the peer can arrive any more, so a receive that names the peer fails. */
static inline bool gfi_peer_is_over(const struct gfi_peer *peer)
{
    return peer->error != 0 && !peer->is_draining && (!peer->left || peer->is_cut);
}

/** Locked: tell all peers that this domain closes in good order. */
void gfi_peers_say_bye(struct gfi_domain *domain);

/** Called by UCT when an endpoint fails. */
ucs_status_t gfi_peer_on_error(void *domain, uct_ep_h ep, ucs_status_t status);

/** Locked: look whether some of the peers are still there. Frees peers that are gone and that nothing
 *  refers to. */
void gfi_peers_watch(struct gfi_domain *domain);

/* ---- keys (gfi_rkey.c) ---- */

/** Locked: the known properties of a key, or NULL. */
struct gfi_rkey *gfi_rkey_find(const struct gfi_peer *peer, uint64_t key);

/** Whether a known key allows an access. @return 0 or a positive FI_ error */
int gfi_rkey_check(const struct gfi_rkey *rkey, bool is_write, uint64_t addr, size_t len);

/** The known part with an address, or NULL. */
const struct gfi_rkey_part *gfi_rkey_find_part(const struct gfi_rkey *rkey, uint64_t addr);

/** Whether a known part allows an access. @return 0 or a positive FI_ error */
int gfi_rkey_part_check(const struct gfi_rkey_part *part, bool is_write);

/** Bytes from an address of the part to its end. */
static inline size_t gfi_rkey_part_left(const struct gfi_rkey_part *part, uint64_t addr)
{
    return part->length - (addr - part->base);
}

/**
 * Adds the part of a key that has the address rkey->asked_at. Known parts keep the memory that
 * overlaps with the new part.
 *
 * @return 0, or -FI_ENOMEM; then the caller must destroy the UCT key of the part.
 */
int gfi_rkey_add_part(struct gfi_rkey *rkey, const struct gfi_rkey_part *part);

/** Whether the target wants reports of this kind of access. */
static inline bool gfi_rkey_is_counted(const struct gfi_rkey *rkey, bool is_write)
{
    return (rkey->events & (is_write ? FI_REMOTE_WRITE : FI_REMOTE_READ)) != 0;
}

/** Locked: forget a key. @param rkey is freed when its last operation ends */
void gfi_rkey_forget(struct gfi_peer *peer, uint64_t key);
void gfi_rkey_put(struct gfi_peer *peer, struct gfi_rkey *rkey);
void gfi_rkeys_cleanup(struct gfi_peer *peer);

/** The peer of a source of messages. */
static inline struct gfi_peer *gfi_source_peer(const struct gfi_domain *domain, uint64_t source)
{
    return domain->peers[source & GFI_NO_PEER];
}

/** The source of a peer's message for matching. */
static inline uint64_t gfi_peer_source(const struct gfi_peer *peer, uint64_t header)
{
    return (header & GFI_SOURCE_MASK & ~(uint64_t)GFI_NO_PEER) | peer->source;
}

/** The address of a source of messages. */
static inline void gfi_source_addr(const struct gfi_domain *domain, uint64_t source,
                                   struct gfi_addr *addr)
{
    *addr = gfi_source_peer(domain, source)->addr;
    addr->ep = (uint16_t)(source >> GFI_SRC_SHIFT);
}

#endif
