/*
 * Operations that outlive their call: announced messages until the receiver has fetched them,
 * messages until their acknowledgement, fetches, and RMA. An answer of a peer names the operation
 * by number. The number contains a generation, so a late answer
 * finds no operation.
 */
#ifndef GFI_OP_H
#define GFI_OP_H

#include "gfi_peer.h"

enum gfi_op_type {
    GFI_OP_SEND, /* a message that was sent or announced */
    GFI_OP_RECV, /* a message that is fetched or streamed to us */
    GFI_OP_WRITE,
    GFI_OP_READ,
    GFI_OP_ATOMIC,
};

/* A posted receive */
struct gfi_recv {
    struct gfi_match_recv match;
    struct gfi_list link;         /* free_recvs of the endpoint */
    struct gfi_list same_context; /* if the endpoint has a table of contexts */
    void *context;
    uint64_t flags; /* FI_COMPLETION, FI_MULTI_RECV */
    size_t len;
    bool tagged;
    bool posted;
    bool is_plain;    /* one piece, for one message */
    unsigned filling; /* FI_MULTI_RECV: messages that are being written to the buffer */
    size_t iov_count;
    struct iovec iov[GFI_IOV_LIMIT];
};

/* The properties of a message; of an unexpected message also the message */
struct gfi_envelope {
    struct gfi_peer *peer;
    uint64_t source, tag, data;
    uint64_t flags; /* GFI_HDR_* */
    size_t len;
    uint64_t op; /* the sender's, if announced or GFI_HDR_ACK */
    bool announced;
    uint64_t addr; /* announced: where it lies */
    size_t rkey_len;
    const uint8_t *rkey;
};

struct gfi_unexpected {
    struct gfi_match_msg match;
    struct gfi_envelope envelope;
    size_t size;     /* of this object, counted in domain->unexpected */
    uint8_t bytes[]; /* the message, or the key */
};

/* A stretch of a receive's buffer, into which one message goes */
struct gfi_place {
    struct iovec iov[GFI_IOV_LIMIT];
    size_t iov_count, len;
};

struct gfi_op {
    struct gfi_list link; /* of the peer's operations, or free_ops */
    struct gfi_list due;  /* domain->due_ops */
    bool is_due, in_use;
    bool is_held; /* counted in peer->holds */
    enum gfi_op_type type;
    uint64_t seq; /* in the order of calls */
    uint32_t index, generation;
    /* RECV: ends the operation. NULL: gfi_op_complete() reports the operation */
    void (*finish)(struct gfi_op *op, int error);
    struct gfi_ep *ep;
    struct gfi_peer *peer;
    void *context;
    uint64_t cq_flags; /* of the completion */
    uint64_t flags;    /* FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_INJECT, ... */
    uint64_t tag, data;
    struct gfi_place place; /* local memory. ATOMIC: for the results */
    void *copy;             /* FI_INJECT: the data; ATOMIC: the request; freed with the operation */
    size_t len;             /* to be moved. ATOMIC: length of the request */
    size_t done;            /* bytes moved or in flight */
    int error;

    uct_completion_t comp; /* its count: UCT calls in flight, plus 1 */
    bool in_flight;        /* comp is in use: UCT's callback goes on */
    uct_mem_h memh;        /* registration of our own, or UCT_MEM_HANDLE_NULL */

    uint64_t remote_op;           /* RECV: the sender's operation. SEND: the receiver's */
    bool streaming;               /* SEND: CTS arrived. RECV: CTS was sent */
    struct gfi_recv *recv;        /* RECV */
    struct gfi_envelope envelope; /* RECV */
    uct_rkey_bundle_t bundle;     /* RECV: of the sender's memory */
    bool has_bundle;

    uint64_t remote_addr, key; /* READ, WRITE */
    struct gfi_rkey *rkey;
    size_t pieces; /* READ, WRITE: messages that the target has not answered */
    bool flushed, awaits_fin;
    uint64_t dst_ep; /* the target's endpoint, in the header's place */
};

/** Locked: a new operation on a peer, in its list. NULL: no memory. */
struct gfi_op *gfi_op_new(struct gfi_ep *ep, struct gfi_peer *peer, enum gfi_op_type type);

/** Locked: give it back, with its registration, key and copy. */
void gfi_op_free(struct gfi_op *op);

/** Locked: finds the operation with this number, peer and type; else NULL. */
struct gfi_op *gfi_op_find(struct gfi_domain *domain, const struct gfi_peer *peer,
                           enum gfi_op_type type, uint64_t number);
uint64_t gfi_op_number(const struct gfi_op *op);

/** Locked: later operations may have to wait for `op`, which has FI_FENCE or an endpoint with orders. */
static inline void gfi_op_hold(struct gfi_op *op)
{
    op->is_held = true;
    op->peer->holds++;
    gfi_peer_update(op->peer);
}

/**
 * Locked: whether an operation need not wait for earlier ones of its endpoint to the same peer.
 * Otherwise gfi_op_free() of an earlier one has gfi_progress() try again.
 */
bool gfi_op_may_start(const struct gfi_op *op);

/** Locked: have gfi_progress() go on with the operation. */
void gfi_op_set_due(struct gfi_op *op);

/** Locked: free all operations of a domain. */
void gfi_ops_cleanup(struct gfi_domain *domain);

/** Locked: the operation is over. Completion, or error completion, counter, free. */
void gfi_op_complete(struct gfi_op *op, int error);

/** Locked: end with an error, in any state. */
void gfi_op_fail(struct gfi_op *op, int error);

/** Prepare the count of UCT's completions. Each call that returns UCS_INPROGRESS adds 1. */
void gfi_op_begin(struct gfi_op *op);

/**
 * After the last call of UCT: returns whether all calls have completed. If not, the last completion
 * has gfi_progress() go on.
 */
bool gfi_op_end(struct gfi_op *op);

/** Copy from, or into, memory in pieces, beginning at `offset`. @return bytes copied, at most len */
size_t gfi_place_read(const struct gfi_place *place, size_t offset, void *to, size_t len);
size_t gfi_place_write(const struct gfi_place *place, size_t offset, const void *from, size_t len);

/** The piece that begins at `offset`. */
struct iovec gfi_place_piece(const struct gfi_place *place, size_t offset);

/* ---- sending (gfi_send.c) ---- */

/** The arguments of fi_send(), fi_tsend() and their variants. */
struct gfi_send {
    struct gfi_ep *ep;
    const struct iovec *iov;
    size_t iov_count;
    void **desc;
    fi_addr_t dest;
    uint64_t tag, data;
    bool tagged;
    void *context;
    uint64_t flags; /* FI_REMOTE_CQ_DATA, FI_COMPLETION, FI_INJECT, FI_FENCE, FI_*_COMPLETE */
    const struct gfi_op *deferred; /* the operation that has waited, or NULL */
};

#define GFI_SEND_WAITS 1

/**
 * Locked: send a message of any kind.
 *
 * @return 0, a negative FI_ error, or GFI_SEND_WAITS: the message leaves after the peer's HELLO
 */
ssize_t gfi_send(const struct gfi_send *send);

/**
 * Locked: send messages that waited for the peer's HELLO, in order. @return false: the NIC has no
 * room
 */
bool gfi_send_deferred(struct gfi_peer *peer);

void gfi_send_on_cts(struct gfi_domain *domain, struct gfi_peer *peer, const struct gfi_cts *cts);
void gfi_send_on_fin(struct gfi_domain *domain, struct gfi_peer *peer, const struct gfi_fin *fin);
void gfi_send_progress(struct gfi_op *op);

/* ---- receiving (gfi_recv.c, gfi_recv_buffer.c, gfi_rndv.c, gfi_unexpected.c) ---- */

/** Locked: receive, peek, claim or discard. @return 0 or a negative FI_ error */
ssize_t gfi_recv(struct gfi_ep *ep, bool tagged, const struct iovec *iov, size_t iov_count,
                 fi_addr_t source, uint64_t tag, uint64_t ignore, void *context, uint64_t flags);

/** Locked: whether an unexpected message matches. */
bool gfi_recv_is_unexpected(struct gfi_ep *ep, bool tagged, fi_addr_t source, uint64_t tag,
                            uint64_t ignore);

/** Locked: cancel a posted receive. @return 0, or -FI_ENOENT */
int gfi_recv_cancel(struct gfi_ep *ep, void *context);

/** Locked: no message of a failed peer arrives any more. Receives that name the peer end with an
 *  error. */
void gfi_recv_fail_peer(struct gfi_peer *peer);

/** Locked: a message, and its bytes unless it is announced. */
void gfi_recv_arrive(struct gfi_ep *ep, bool tagged, const struct gfi_envelope *envelope,
                     const void *bytes);

/** Locked: FI_SOURCE_ERR: report a completion whose source is in no entry of the address vector as an error
 * with the source's address. */
void gfi_recv_report_stranger(struct gfi_ep *ep, const struct gfi_cqe *done, uint64_t source);

/** Locked: report a completion of a message or an access of a peer. Sets done->source. */
void gfi_recv_report_cqe(struct gfi_ep *ep, struct gfi_cqe *done, uint64_t source);

void gfi_recv_on_data(struct gfi_domain *domain, struct gfi_peer *peer, const struct gfi_data *data,
                      size_t len);
void gfi_recv_progress(struct gfi_op *op);
void gfi_recv_finish(struct gfi_op *op, int error);

/** Locked: free an endpoint's posted receives and unexpected messages. */
void gfi_recv_cleanup(struct gfi_ep *ep);

/** Locked: receives that name `to` take the unexpected messages of `from`. */
void gfi_recv_move_kept(const struct gfi_peer *from, const struct gfi_peer *to);

/* ---- new connections of a known address (gfi_reconnect.c) ---- */

/** Locked: gfi_peer_get(), and a new peer if the known one has failed. */
int gfi_peer_get_current(struct gfi_domain *domain, const struct gfi_addr *addr,
                         struct gfi_peer **peer);

/**
 * Locked: the peer whose HELLO has arrived, with the number that the peer has given to this domain.
 *
 * @return as gfi_peer_get(), or -FI_EALREADY: the HELLO has nothing new
 */
int gfi_peer_on_hello(struct gfi_domain *domain, const struct gfi_addr *addr, uint32_t id,
                      struct gfi_peer **peer);

/* ---- contexts of posted receives (gfi_context.c) ---- */

/** Locked: a posted receive with this context, or NULL. The earliest one in most cases. */
struct gfi_recv *gfi_context_find(struct gfi_ep *ep, const void *context);

/** Locked: keep the table of contexts up to date. Only if the endpoint has a table. */
void gfi_context_add(struct gfi_ep *ep, struct gfi_recv *recv);
void gfi_context_remove(struct gfi_ep *ep, struct gfi_recv *recv);

/** Locked: free the table. */
void gfi_context_cleanup(struct gfi_ep *ep);

/* ---- RMA (gfi_rma_op.c) ---- */

/** Locked: begins a new READ, WRITE or ATOMIC, after earlier operations of the same peer that wait
 * for keys. */
void gfi_rma_submit(struct gfi_op *op);
void gfi_rma_progress(struct gfi_op *op);

/** Locked: begin an operation whose key is known. The operation may be over and freed on return. */
void gfi_rma_run(struct gfi_op *op);
void gfi_rma_start_waiting(struct gfi_peer *peer);
void gfi_rma_on_reply(struct gfi_peer *peer, const struct gfi_key_reply *reply);
void gfi_rma_on_request(struct gfi_peer *peer, const struct gfi_key_request *request);

void gfi_rma_on_piece(struct gfi_peer *peer, const struct gfi_rma_reply *reply, size_t len);

/* ---- RMA by messages (gfi_rma_piece.c) ---- */

/** The bytes that one message has, at most. */
size_t gfi_rma_piece_max(const struct gfi_domain *domain);

/**
 * Locked: send a piece of a READ or WRITE to the target. The piece begins op->done bytes behind the
 * operation's address.
 *
 * @return UCS_OK: the target will answer; UCS_ERR_NO_RESOURCE, or the error of a dead peer.
 */
ucs_status_t gfi_rma_piece_send(struct gfi_op *op, const struct iovec *piece);

/** Locked: execute a piece of a peer's operation, and answer. */
void gfi_rma_piece_on_write(struct gfi_peer *peer, const struct gfi_rma_write *write, size_t len);
void gfi_rma_piece_on_read(struct gfi_peer *peer, const struct gfi_rma_read *read);

/* ---- atomic operations (gfi_atomic_op.c) ---- */

/** Bytes of an element; 0: the operation is not offered for this datatype and kind. */
size_t gfi_atomic_size(unsigned datatype, unsigned op, unsigned kind);

/**
 * Change one element of the memory of this process, atomically.
 *
 * @param operand  May be NULL with FI_ATOMIC_READ. Needs no alignment, as `compare`.
 * @param compare  Required by operations that compare, otherwise may be NULL.
 * @param before   Set to the previous value.
 */
void gfi_atomic_apply(unsigned datatype, unsigned op, void *target, const void *operand,
                      const void *compare, void *before);

/** Locked: send the request of an operation. */
void gfi_atomic_start(struct gfi_op *op);
void gfi_atomic_on_request(struct gfi_peer *peer, const struct gfi_atomic_request *request,
                           size_t len);
void gfi_atomic_on_reply(struct gfi_peer *peer, const struct gfi_atomic_reply *reply, size_t len);

/* ---- arrival (gfi_arrive.c) ---- */

/** Have UCT call the handlers. @return 0 or a negative FI_ error */
int gfi_arrive_init(struct gfi_domain *domain);

#endif
