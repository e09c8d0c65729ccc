/*
 * What the files of this folder share.
 */
#ifndef GLEX_NET_INTERNAL_H
#define GLEX_NET_INTERNAL_H

#include "coll/coll.h"
#include "core/shm.h"
#include "net/net.h"
#include "net/wire.h"

#include <pthread.h>
#include <sys/queue.h>

/* Requests to one peer that have not ended: a power of two. */
#define NET_WINDOW 256u
/* Replies that one source may wait for: a window of gets whose events find no room in our queue, and
 * a window of later requests. */
#define NET_REPLIES (2 * NET_WINDOW)
/* Limit for the bytes of frames that the peer has not acknowledged: the peer may have to keep these
 * frames. */
#define NET_WINDOW_BYTES (1u << 20)
/* The peer acknowledges at the latest after this number of requests or bytes. */
#define NET_ACK_REQUESTS (NET_WINDOW / 4)
#define NET_ACK_BYTES    (NET_WINDOW_BYTES / 4)
/* Limit for the frames of one connection that libfabric sends at a time, so a bulk transfer leaves
 * buffers to other connections. */
#define NET_IN_FLIGHT 8u
/* After a pause of this length, a post spends a system call to check whether the peer has
 * closed. */
#define NET_PAUSE_NS 1000000ull
/* Buckets of the table of epochs. A power of two. */
#define NET_EPOCH_BUCKETS 1024u
/* Size of glex_net.places, a hash table: twice the largest number of entries. A power of two. */
#define NET_PLACES (2 * GLEX_NET_ENTRIES)
/* A frame with less room than this is sent before a longer piece is appended. */
#define NET_PIECE_MIN 256u

struct net_side;

/* The functions that differ between peers and sources. */
struct net_kind {
    /** Sends what waits in the side. May free the side. */
    void (*go_on)(struct net_side *side);
    /** A frame has arrived. May free the side. */
    void (*receive)(struct net_side *side, const struct glex_net_frame *frame, size_t len);
    /** The connection ended. May free the side. */
    void (*end)(struct net_side *side, enum glex_net_end why);
    /** Returns the header of the next frame. */
    struct glex_net_frame (*header)(const struct net_side *side);
    /** A frame of `len` bytes was sent. */
    void (*sent)(struct net_side *side, const struct glex_net_frame *header, size_t len);
    /** Whether the side has unfinished work; `acks`: frames without acknowledgement count, too. */
    bool (*is_busy)(struct net_side *side, bool acks);
    /** No frame has arrived for some time: acknowledges the requests that were carried out. */
    void (*tell)(struct net_side *side);
};

/* One direction of a connection: the frames that we send. First member of peers and sources. */
struct net_side {
    const struct net_kind *kind;
    struct glex_endpoint *ep;
    struct glex_net_conn *conn;    /* NULL: it has ended */
    struct glex_net_entry *entry;  /* what glex_info shows */
    struct glex_net_buffer *frame; /* being filled, or NULL */
    TAILQ_ENTRY(net_side) work;    /* in the list `work`, if `listed` */
    LIST_ENTRY(net_side) open;     /* in the list `open`, if `opened` */
    bool listed, opened;
    bool was_up; /* of a peer: it is counted in net_peers */
    bool ask;    /* the next frame asks for an acknowledgement */
    bool asked;  /* a sent frame asked for an acknowledgement, which has not come yet */
    bool tell;   /* send the next frame soon, even without records: it carries an acknowledgement */
};

/* The local memory and the local event of an RDMA request. */
struct net_local {
    uint64_t mh;
    uint32_t offset;
    glex_event_t evt; /* valid if NET_FLAG_ASK is set */
};

/* A request that has not ended. */
struct net_request {
    struct net_record record; /* the record as sent. A put sends many records, one for each piece,
                               * with these common fields. If the put is collective, `op` is
                               * NET_OP_COLL after the last piece. */
    struct net_local local;
    uint32_t pos;   /* bytes of a put on the wire, of a get that came */
    int16_t status; /* GLEX_REQ_DONE, or an enum glex_err_req_status */
    bool done;      /* of a get: all its data came, or it was refused */
    uint8_t data[GLEX_MP_DATA_LEN];
};

/* The present epoch with an address, for both directions: see epoch.c. The struct stays while the
 * endpoint lives. */
struct net_epoch {
    LIST_ENTRY(net_epoch) entry;
    struct glex_endpoint *ep;
    uint64_t addr;
    uint64_t own, peer;      /* number of the epoch here (0: none); at the peer (0: not known) */
    uint64_t asked;          /* number that glex_net_epoch() returned last; 0: none */
    struct net_peer *to;     /* the peer, while its connection lasts; or NULL */
    struct net_source *from; /* the source, while its connection lasts; or NULL */
};

LIST_HEAD(net_epochs, net_epoch);

/* A peer that we send requests to. */
struct net_peer {
    struct glex_peer base; /* first; of it only what all links have in common */
    struct net_side side;
    struct net_epoch *epoch;
    struct net_request *requests; /* NET_WINDOW of them */
    uint32_t head, wire, tail;    /* oldest; next to go on the wire; next to post */
    uint32_t acked;               /* requests before it were carried out, or refused */
    uint64_t bytes_sent, bytes_acked;
    uint64_t posted_ns; /* time of the last post or refused post */
};

/* A reply that the source waits for. */
struct net_reply {
    uint8_t op;            /* NET_OP_DATA, NET_OP_REFUSED, or NET_REPLY_EVENT of target.c */
    uint16_t status;       /* of NET_OP_REFUSED */
    uint32_t request;      /* its number */
    uint32_t pos;          /* bytes of a get's data that are in frames */
    struct net_record get; /* record of the get request */
};

/* A frame, or the rest of one, that waits for room in one of our queues. */
struct net_held {
    STAILQ_ENTRY(net_held) entry;
    size_t len, pos, frame_len;
    char data[];
};

/* A peer that sends us requests. */
struct net_source {
    struct net_side side;        /* first */
    struct net_epoch *epoch;     /* of its address */
    uint64_t number;             /* number of the source's epoch */
    LIST_ENTRY(net_source) left; /* in net->left, if `is_left` */
    bool is_left;                /* the epoch is over, and requests of the source still wait */
    uint32_t requests;           /* carried out or refused */
    uint32_t told_requests;
    uint64_t bytes, told_bytes;   /* bytes of received frames; bytes that were acknowledged */
    int put_status;               /* result of the put whose pieces are arriving */
    uint64_t coll_step;           /* progress of the collective request that waits for room */
    STAILQ_HEAD(, net_held) held; /* in the order of arrival */
    struct net_reply *replies;    /* NET_REPLIES of them */
    uint32_t reply_head, reply_tail;
};

struct glex_net {
    pthread_mutex_t lock;       /* guards the members below, and sides: see flusher.c. Recursive. */
    LIST_ENTRY(glex_net) entry; /* flusher.c */
    bool waits;                 /* frames wait for the flusher */
    bool called;                /* the owner has called since the last turn of the flusher */
    const struct glex_net_module *module;
    struct glex_net_engine *engine;
    TAILQ_HEAD(, net_side) work; /* sides with something to do */
    LIST_HEAD(, net_side) open;  /* sides that may be busy: see net_is_busy() */
    struct net_epochs epochs[NET_EPOCH_BUCKETS];
    LIST_HEAD(, net_source) left;
    uint64_t num_epochs; /* begun so far */
    uint32_t pending;    /* requests of all peers that have not ended */
    uint32_t misses;     /* turns in a row that brought nothing */
    bool busy;           /* progress() runs: if an exit() in a signal handler has interrupted it,
                          * the exit leaves the network alone */
    bool wants_room;     /* at the last turn, a request waited for room in a queue of the
                          * endpoint */
    bool paused;
    bool armed;                          /* arm() has armed the network, and nothing has disarmed it
                                          * since */
    bool warned;                         /* logged: a host does not answer */
    bool warned_of_address;              /* logged: a host connects from an unexpected address */
    struct glex_net_entry *entries;      /* in the segment */
    uint32_t num_entries, entries_ready; /* used; with storage */
    uint16_t places[NET_PLACES];         /* 1 and more: an entry's index, and 1 */
    struct glex_net_entry nowhere;       /* counters of peers for which the segment has no room */
};

/** Which request of glex.h a record is, or is a reply to. */
static inline enum glex_coll_kind net_kind(const struct net_record *record)
{
    switch (record->op) {
    case NET_OP_MP:
        return GLEX_COLL_MP;
    case NET_OP_PUT:
        return GLEX_COLL_PUT;
    case NET_OP_GET:
        return GLEX_COLL_GET;
    case NET_OP_COLL:
        return (record->status & NET_COLL_PUT)     ? GLEX_COLL_PUT :
               (record->status & NET_COLL_IMM_PUT) ? GLEX_COLL_IMM_PUT :
                                                     GLEX_COLL_MP;
    default:
        return GLEX_COLL_IMM_PUT;
    }
}

static inline void net_unlock(struct glex_net **net)
{
    pthread_mutex_unlock(&(*net)->lock);
}

/** The owner's: the flusher does without. */
static inline struct glex_net *net_lock(struct glex_net *net)
{
    pthread_mutex_lock(&net->lock);
    net->called = true;
    return net;
}

/** Lock the network of an endpoint until the end of the block. */
#define NET_LOCKED(ep)                                                                             \
    struct glex_net *locked_net __attribute__((cleanup(net_unlock), unused)) = net_lock((ep)->net)

/* ---- flusher.c ------------------------------------------------------------------------------- */

/** Add a network to the flusher, or remove it. The caller does not hold the lock of the network. */
void net_flusher_add(struct glex_net *net);
void net_flusher_remove(struct glex_net *net);

/** With the network's lock: frames wait. The flusher sends them soon, even if the program makes no
 * call. */
void net_flusher_wake(struct glex_net *net);

/** In a child of fork(), which has neither the thread nor networks. */
void net_flusher_fork(void);

/* ---- turn.c ---------------------------------------------------------------------------------- */

/** Asks for the network's descriptor to become readable. False: do not sleep. */
bool net_arm(struct glex_net *net);

/* ---- side.c ---------------------------------------------------------------------------------- */

/** Returns the entry of a peer. An address keeps its entry until the endpoint closes. */
struct glex_net_entry *net_entry(struct glex_endpoint *ep, uint64_t addr);

/** Tools read the entries, so a store must not be torn. Only the owner writes its entries. */
#define NET_ENTRY_SET(entry, name, value)                                                          \
    __atomic_store_n(&(entry)->name, (value), __ATOMIC_RELAXED)
#define NET_ENTRY_ADD(entry, name, n) NET_ENTRY_SET(entry, name, (entry)->name + (n))

/** Returns whether the owner's next call would send a frame. */
static inline bool net_leaves_frames(const struct glex_net *net)
{
    const struct net_side *side;

    TAILQ_FOREACH(side, &net->work, work) {
        if (side->frame != NULL) {
            return true;
        }
    }
    return false;
}

/** Adds a side to net->open: the side has sent something that is not acknowledged, or received
 * something that it has not acknowledged. */
void net_side_open(struct net_side *side);

/** Takes the side out of net->open. */
void net_side_close(struct net_side *side);

/** Takes the side out of net->work. */
void net_side_unlist(struct net_side *side);

/** As net_side_open(), and the next progress() visits the side. */
void net_side_list(struct net_side *side);

/**
 * Returns room for `len` bytes in the frame that is being filled. If they do not fit, sends this
 * frame and begins another frame. NULL: not possible now, the side is listed.
 */
void *net_side_room(struct net_side *side, size_t len);

/** Send the frame that is being filled. False: not now. */
bool net_side_send(struct net_side *side);

/** Copies between memory of this process and memory that the program has registered, and may have
 *  unmapped since. Returns false if the memory is not there. */
bool net_copy(void *dst, const void *src, size_t len);

#define NET_NOT_NOW (-1)
#define NET_FAULT   (-2)

/** Appends a record's header and its data: all of it, with the flags `last`, or as much of `len`
 *  bytes as fit. @return How many bytes, or NET_NOT_NOW, or NET_FAULT: the memory is not there. */
ssize_t net_side_append_data(struct net_side *side, struct net_record *record, const char *data,
                             size_t len, uint8_t last);

void net_side_cleanup(struct net_side *side);

/* ---- epoch.c --------------------------------------------------------------------------------- */

/** Returns the epoch of an address, a new struct if necessary. NULL: no memory, which was
 * logged. */
struct net_epoch *net_epoch_get(struct glex_endpoint *ep, uint64_t addr);

/** Begins a new epoch if there is none. */
void net_epoch_begin(struct net_epoch *epoch);

/** Our connection, or the peer's, has ended, or is given up; `silent`: because the peer's host does
 *  not answer. */
void net_epoch_lost_to(struct net_epoch *epoch);
void net_epoch_lost_from(struct net_epoch *epoch, bool silent);

/** The meet() of engine.h. */
uint64_t net_epoch_meet(struct glex_endpoint *ep, uint64_t addr, uint64_t theirs, uint64_t ours);

/** Whether requests fail until the program asks for the next epoch. */
bool net_epoch_refuses(const struct net_epoch *epoch);

void net_epochs_cleanup(struct glex_net *net);

/* target.c */
struct net_source *net_source_new(struct glex_endpoint *ep, struct glex_net_conn *conn);
/** Ends the connection of a source, and drops requests that were not handed over. */
void net_source_drop(struct net_source *source);

#endif
