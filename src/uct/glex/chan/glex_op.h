/*
 * Operations that end with an event from the NIC. The event names the operation by its id. A VC
 * queues its operations in the order of posting, and a flush waits for the queue.
 */
#ifndef UCT_GLEX_OP_H
#define UCT_GLEX_OP_H

#include "core/glex_vc.h"

/* Lower bits of an id: index in the table. Upper bits: generation, so that a late event of a failed
 * operation does not end the successor. */
#define UCT_GLEX_OP_INDEX_BITS 20
#define UCT_GLEX_OP_INDEX_MASK UCS_MASK(UCT_GLEX_OP_INDEX_BITS)

enum uct_glex_op_type {
    /* Types with a share for each VC */
    UCT_GLEX_OP_SR,    /* send unit that the peer fetches */
    UCT_GLEX_OP_ZC,    /* am_zcopy whose payload the peer fetches */
    UCT_GLEX_OP_RMA,   /* put or get; with `unpack_cb`, a get_bcopy */
    UCT_GLEX_OP_PROBE, /* no event: ends when the peer is known to be alive. One for each VC. */
    /* Types without a share */
    UCT_GLEX_OP_FETCH, /* RDMA Get of a received message */
    UCT_GLEX_OP_FLUSH  /* no event: only a completion, which is called after all earlier operations
                        * of the VC */
};

typedef struct uct_glex_op {
    ucs_queue_elem_t queue; /* in vc->tx_ops, not for FETCH */
    uct_glex_vc_t *vc;
    const uct_ep_t *ep;              /* destruction of this endpoint cancels the completion; or
                                      * NULL */
    uct_completion_t *comp;          /* to be called; NULL: none, or it was called */
    uct_glex_buf_t *buf;             /* send unit, bounce buffer, or the word of a ZC; or NULL */
    uct_glex_memh_t *memh;           /* ZC: handles registered for this operation; a list, or
                                      * NULL */
    void *arg;                       /* of unpack_cb; FETCH: the message */
    uct_unpack_callback_t unpack_cb; /* takes the data of a get_bcopy, or NULL */
    size_t length;                   /* of what unpack_cb takes */
    uint32_t id;
    uint16_t events; /* still to come */
    uint8_t type;
    uint8_t done;
    uint8_t held;  /* the VC is over: the memory is kept until the peer and the NIC do not use it
                    * any more */
    int8_t status; /* a ucs_status_t: of the first event with an error */
} uct_glex_op_t;

ucs_status_t uct_glex_op_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config);
void uct_glex_op_cleanup(uct_glex_iface_t *iface);

/** Make an operation with an id, in no queue yet. NO_RESOURCE: the VC has its share of operations
 *  of this type. */
ucs_status_t uct_glex_op_new(uct_glex_vc_t *vc, enum uct_glex_op_type type, uct_completion_t *comp,
                             uct_glex_op_t **op_p);

/** Whether the VC may have a further operation of a type with shares */
static inline int uct_glex_op_is_allowed(const uct_glex_vc_t *vc, enum uct_glex_op_type type)
{
    return uct_glex_share_allows(&vc->iface->ops.shares[type], vc->held[type]);
}

/** The source of a Get for a message of the peer, and the operation that the remote event names */
typedef struct uct_glex_get {
    uint64_t mh;
    uint32_t offset;
    uint32_t length;
    uint32_t op_id; /* the peer's operation, for GLEX_FLAG_REMOTE_EVT */
} uct_glex_get_t;

/** Post a Get to `offset` of a buffer. The local event names `op`. Without `op` the Get has no
 *  local event and no buffer. BUSY: progress tries again; other errors are logged. */
glex_ret_t uct_glex_op_get(uct_glex_vc_t *vc, const uct_glex_get_t *get, const uct_glex_buf_t *buf,
                           uint32_t offset, const uct_glex_op_t *op, int flags);

/** The request was posted: the operation is in flight, and `events` events will come */
void uct_glex_op_posted(uct_glex_op_t *op, unsigned events);

/** The last `unposted` requests of the operation will not be posted. Returns 1 if no posted request
 *  is left: then the operation is freed. */
int uct_glex_op_give_up(uct_glex_op_t *op, unsigned unposted);

/** The request could not be posted: free the operation and its resources */
void uct_glex_op_cancel(uct_glex_op_t *op);

/** The next buffer that the peer may read for an operation of the VC. `*cursor` is 0 at first.
 *  NULL: no further buffers. */
uct_glex_buf_t *uct_glex_op_next_read(uct_glex_vc_t *vc, unsigned *cursor);

/** Whether the type has a share for each VC */
static inline int uct_glex_op_is_shared(unsigned type)
{
    return type < UCT_GLEX_SHARES;
}

/** Return the operation to its pool */
static inline void uct_glex_op_free(uct_glex_op_t *op)
{
    --op->vc->num_ops;
    op->held = 0;
    ucs_mpool_put_inline(op);
}

/** Remove the operation from its VC's share */
static inline void uct_glex_op_unshare(uct_glex_op_t *op)
{
    if (uct_glex_op_is_shared(op->type)) {
        --op->vc->iface->ops.shares[op->type].used;
        --op->vc->held[op->type];
    }
}

/** Return the resources of the operation */
static inline void uct_glex_op_forget(uct_glex_op_t *op)
{
    uct_glex_iface_t *iface = op->vc->iface;

    if (!op->held) {
        uct_glex_op_unshare(op);
    }
    if (op->buf != NULL) {
        uct_glex_buf_put(op->buf);
        op->buf = NULL;
    }
    if (op->memh != NULL) {
        uct_glex_memh_free_all(iface->md, op->memh);
        op->memh = NULL;
    }
}

/* ---- the end of operations: glex_op_end.c ---- */

/** An event with an operation's id arrived. Ids from peers are not trusted: unknown ids are
 *  ignored. */
void uct_glex_op_event(uct_glex_iface_t *iface, uint32_t id, ucs_status_t status);

/** The operation of an id, or NULL for late events of operations that have failed */
uct_glex_op_t *uct_glex_op_find(uct_glex_iface_t *iface, uint32_t id);

/**
 * The endpoint is cancelled: call the completions of its operations with `status`. The operations
 * go on. The receiver of a zero-copy message finds the payload invalid, and skips the message.
 * Zero-copy puts and gets complete when they end, because the NIC uses the program's memory.
 * Returns whether the endpoint has such puts and gets.
 */
int uct_glex_op_cancel_ep(uct_glex_vc_t *vc, const uct_ep_t *ep, ucs_status_t status);

/** The endpoint is destroyed: call the completions of all its operations with CANCELED. A program
 *  with zero-copy puts and gets in flight must flush before, at least with
 *  UCT_FLUSH_FLAG_CANCEL. */
void uct_glex_op_drop_ep(uct_glex_vc_t *vc, const uct_ep_t *ep);

/** End the operations of a VC with an error, without Gets of received messages. Memory that the
 *  peer or the NIC may still use is held. Zero-copy puts and gets, and flushes behind them, end
 *  with the error when the NIC does not use the program's memory any more. */
void uct_glex_op_fail_all(uct_glex_vc_t *vc, ucs_status_t status);

/** The peer reads nothing more for this VC: free the held memory */
void uct_glex_op_release_held(uct_glex_vc_t *vc);

/** The interface closes: end the operations in flight */
void uct_glex_op_abandon(uct_glex_vc_t *vc);

/** Have the next flush wait until the peer is known to be alive, or the VC fails. Returns OK,
 *  NO_RESOURCE or NO_MEMORY. */
ucs_status_t uct_glex_op_probe(uct_glex_vc_t *vc);

/** The peer is alive: end the probe, if any */
void uct_glex_op_end_probe(uct_glex_vc_t *vc);

/** A request of the endpoint has ended with `status`. The completion is called after the
 *  completions of all earlier operations, or when the endpoint fails. Returns INPROGRESS,
 *  NO_RESOURCE or NO_MEMORY. */
ucs_status_t uct_glex_op_end_later(uct_glex_vc_t *vc, const uct_ep_t *ep, uct_completion_t *comp,
                                   ucs_status_t status);

/** Have `comp` called when all operations of the VC until now have ended */
ucs_status_t uct_glex_op_flush(uct_glex_vc_t *vc, const uct_ep_t *ep, uct_completion_t *comp);

#endif
