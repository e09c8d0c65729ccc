/*
 * Operations that end with an event from the NIC. Each has an id that its event names; those of
 * one VC are also queued in the order of posting, which is what flush waits for.
 */
#ifndef UCT_GLEX_OP_H
#define UCT_GLEX_OP_H

#include "core/glex_vc.h"

enum uct_glex_op_type {
    /* Those of which each VC has a share */
    UCT_GLEX_OP_SR,  /* send unit that the peer fetches */
    UCT_GLEX_OP_ZC,  /* am_zcopy whose payload the peer fetches */
    UCT_GLEX_OP_RMA, /* put or get; with `unpack_cb`, a get_bcopy */
    /* Others */
    UCT_GLEX_OP_PROBE, /* no event: ends when it is known that the peer is there */
    UCT_GLEX_OP_FETCH, /* RDMA Get of a received message */
    UCT_GLEX_OP_FLUSH  /* no event: done, but for its completion, which follows all before it */
};

typedef struct uct_glex_op {
    ucs_queue_elem_t queue; /* in vc->tx_ops, not for FETCH */
    uct_glex_vc_t *vc;
    const uct_ep_t *ep;              /* whose destruction cancels the completion; or NULL */
    uct_completion_t *comp;          /* to be called; NULL: none, or it was called */
    uct_glex_buf_t *buf;             /* send unit, bounce buffer, or the word of a ZC; or NULL */
    uct_glex_memh_t *memh;           /* ZC: registered for it alone; a list, or NULL */
    void *arg;                       /* of unpack_cb; FETCH: the message */
    uct_unpack_callback_t unpack_cb; /* takes what was got, or NULL */
    size_t length;                   /* of what unpack_cb takes */
    uint32_t id;
    uint16_t events; /* still to come */
    uint8_t type;
    uint8_t done;
    uint8_t held;  /* its VC failed: its memory is kept until nobody uses it */
    int8_t status; /* a ucs_status_t: of the first event that was an error */
} uct_glex_op_t;

ucs_status_t uct_glex_op_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config);
void uct_glex_op_cleanup(uct_glex_iface_t *iface);

/** Make an operation with an id. It is not in any queue yet. NO_RESOURCE: the VC has its share of
 *  operations of this type. */
ucs_status_t uct_glex_op_new(uct_glex_vc_t *vc, enum uct_glex_op_type type, uct_completion_t *comp,
                             uct_glex_op_t **op_p);

/** Whether the VC may have one more operation of a type that is shared */
static inline int uct_glex_op_is_allowed(const uct_glex_vc_t *vc, enum uct_glex_op_type type)
{
    return uct_glex_share_allows(&vc->iface->ops.shares[type], vc->held[type]);
}

/** Where a Get of a message of the peer's finds data, and what tells the peer that it has ended */
typedef struct uct_glex_get {
    uint64_t mh;
    uint32_t offset;
    uint32_t length;
    uint32_t op_id; /* the peer's operation, for GLEX_FLAG_REMOTE_EVT */
} uct_glex_get_t;

/** Post a Get to `offset` of a buffer. `op` gets a local event; NULL: there is none, and no buffer.
 *  BUSY: progress will look again; other errors are logged. */
glex_ret_t uct_glex_op_get(uct_glex_vc_t *vc, const uct_glex_get_t *get, const uct_glex_buf_t *buf,
                           uint32_t offset, const uct_glex_op_t *op, int flags);

/** The request was posted: the operation is on its way, with so many events to come */
void uct_glex_op_posted(uct_glex_op_t *op, unsigned events);

/** `unposted` requests of it will not be posted: it ends with the others */
void uct_glex_op_give_up(uct_glex_op_t *op, unsigned unposted);

/** The request could not be posted: take everything back */
void uct_glex_op_cancel(uct_glex_op_t *op);

/** An event named this operation. Ids from peers are not trusted: unknown ones are ignored. */
void uct_glex_op_event(uct_glex_iface_t *iface, uint32_t id, ucs_status_t status);

/** The NIC says that a request of this operation failed, `is_of_memory`: because the peer's
 *  memory is not what the request took it for. Then its endpoint fails, else the VC, unless the
 *  message that is fetched was cancelled by its sender. */
void uct_glex_op_failed(uct_glex_iface_t *iface, uint32_t id, ucs_status_t status,
                        int is_of_memory);

/**
 * The endpoint is cancelled: call the completions of its operations, which themselves go on, with
 * `status`. The receiver of a zero-copy message finds that its payload is not valid, and skips it.
 * Zero-copy puts and gets complete when they end: until then the NIC uses the program's memory.
 * Returns whether there are such.
 */
int uct_glex_op_cancel_ep(uct_glex_vc_t *vc, const uct_ep_t *ep, ucs_status_t status);

/** The endpoint is destroyed: the same, with CANCELED, and for all its operations. A program that
 *  has zero-copy puts and gets on their way flushes before, at least with UCT_FLUSH_FLAG_CANCEL. */
void uct_glex_op_drop_ep(uct_glex_vc_t *vc, const uct_ep_t *ep);

/** End all operations of a VC with an error, but for Gets of received messages. What the peer may
 *  still read, or the NIC use, is held. Zero-copy puts and gets, and a flush that waits for such,
 *  end with the error when the NIC uses the program's memory no more. */
void uct_glex_op_fail_all(uct_glex_vc_t *vc, ucs_status_t status);

/** The peer reads nothing for this VC any more: free what is held for it */
void uct_glex_op_release_held(uct_glex_vc_t *vc);

/** A buffer that the peer may read for an operation of the VC. `*cursor`: 0 at first. NULL:
 *  there are no more. */
uct_glex_buf_t *uct_glex_op_next_read(uct_glex_vc_t *vc, unsigned *cursor);

/** The interface closes: end all operations that are still in flight */
void uct_glex_op_abandon(uct_glex_vc_t *vc);

/** Have a flush wait until it is known whether the peer is there: the VC opens or fails. Returns OK
 *  or NO_RESOURCE. */
ucs_status_t uct_glex_op_probe(uct_glex_vc_t *vc);

/** The peer is there: end the probe, if there is one */
void uct_glex_op_end_probe(uct_glex_vc_t *vc);

/** What the endpoint asked for is over: its completion is called with `status` behind those of all
 *  operations before it, or when the endpoint fails. Returns INPROGRESS or NO_MEMORY. */
ucs_status_t uct_glex_op_end_later(uct_glex_vc_t *vc, const uct_ep_t *ep, uct_completion_t *comp,
                                   ucs_status_t status);

/** Have `comp` called when everything posted on the VC so far is done */
ucs_status_t uct_glex_op_flush(uct_glex_vc_t *vc, const uct_ep_t *ep, uct_completion_t *comp);

#endif
