/*
 * ER: the exclusive remote FIFO (paper 003, section 4.3, figure 3). The sender borrows a FIFO in
 * the receiver's memory, and writes its messages to the FIFO. If the sender maps the FIFO, a
 * message is a store into a ring of slots, and neither side calls the NIC. Otherwise each message
 * is a put with an event. docs/protocol.md, section 7.
 */
#ifndef UCT_GLEX_ER_H
#define UCT_GLEX_ER_H

#include "base/glex_copy.h"
#include "core/glex_vc.h"
#include "chan/glex_rx.h"

/* Messages through SR after a refusal, before the VC requests a FIFO again. Each consecutive
 * refusal doubles the number, up to 2^7 times. */
#define UCT_GLEX_ER_RETRY       256
#define UCT_GLEX_ER_MAX_BACKOFF 7

/* Smallest unit of a FIFO */
#define UCT_GLEX_ER_MIN_UNIT 64

/* Largest unit and spacing, log2 */
#define UCT_GLEX_ER_MAX_SHIFT 12

/* Unused bytes between the start of a FIFO's buffer, which is page-aligned, and its units: half of
 * the spacing. So long messages do not begin at a page. Most buffers of programs begin at a page,
 * and a copy between two page-aligned places is slow on some processors: docs/performance.md, "Zen
 * 4". */
static inline size_t uct_glex_er_pad(uct_glex_fifo_layout_t layout)
{
    return ucs_align_down_pow2(UCS_BIT(layout.spacing_shift) / 2, UCT_GLEX_ER_ALIGN);
}

/* The FIFO that a VC borrowed */
struct uct_glex_er_tx {
    uct_glex_slot_t *slots; /* the ring; NULL: the FIFO is not mapped */
    uint8_t *base;          /* where messages are packed: the units, or the mirror */
    uint16_t bcopy_units;   /* units of a message of max_bcopy; 0: too long for the FIFO */
    uct_glex_fifo_layout_t layout;
    uint8_t use_fence; /* the lender or this process cannot call membarrier() */
    uint8_t is_starved;
    uint8_t ring_due; /* the lender's event queue was full: progress rings again */
    uint8_t gen;
    uint16_t index;             /* the lender's name of the FIFO */
    uint16_t counted;           /* messages that the NIC's counters include, in total */
    uint32_t offset;            /* of the FIFO in its registration */
    uint64_t bytes;             /* of the messages that the NIC's counters do not include */
    uct_glex_fifo_ctrl_t *ctrl; /* if mapped */
    uct_glex_buf_t *mirror;     /* local image of the units, only if the FIFO is not mapped */
    ucs_list_link_t starved;    /* in iface->er.starved while is_starved */
    uct_glex_vc_t *vc;
    struct glex_ext_pin *pin; /* keeps the FIFO mapped; NULL: the FIFO is not mapped */
    glex_imm_rdma_req_t req;  /* constant fields filled in */
};

ucs_status_t uct_glex_er_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                              unsigned eq_entries);
/** The interface closes, and its endpoint has no receiver any more. A sender with a lent FIFO must
 *  ring from now on, and gets the error of the ring. */
void uct_glex_er_close(uct_glex_iface_t *iface);

void uct_glex_er_cleanup_iface(uct_glex_iface_t *iface);

/* ---- borrowing and sending: glex_er.c ---- */

/** Request a FIFO with the next control message, if ER is configured */
void uct_glex_er_request(uct_glex_vc_t *vc);

void uct_glex_er_granted(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);
void uct_glex_er_refused(uct_glex_vc_t *vc);

/** The lender wants its FIFO back */
void uct_glex_er_recv_revoke(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);

/** Whether the peer was asked for a FIFO, or will be asked when the VC connects */
static inline int uct_glex_er_is_requested(const uct_glex_vc_t *vc)
{
    return (vc->sr_count == 0) && (vc->er_tx == NULL) && !uct_glex_vc_is_over(vc);
}

/** A VC connects: request a FIFO at once, unless messages must go through SR before */
static inline void uct_glex_er_connect(uct_glex_vc_t *vc)
{
    if (vc->sr_count == 0) {
        uct_glex_er_request(vc);
    }
}

/** A message went through SR: after vc->sr_count messages, request a FIFO */
static inline void uct_glex_er_count_sr(uct_glex_vc_t *vc)
{
    if ((vc->sr_count > 0) && ucs_unlikely(--vc->sr_count == 0)) {
        uct_glex_er_request(vc);
    }
}

/** Whether the VC borrowed a FIFO and maps the FIFO, so the FIFO has slots and published credits */
static UCS_F_ALWAYS_INLINE int uct_glex_er_is_mapped(const uct_glex_vc_t *vc)
{
    return (vc->er_tx != NULL) && (vc->er_tx->slots != NULL);
}

/** Credits of a header arrived. The counters of a header are late for a mapped FIFO, whose lender
 *  publishes the credits. */
static UCS_F_ALWAYS_INLINE void uct_glex_er_credits(uct_glex_vc_t *vc, uct_glex_credits_t credits)
{
    int more = !uct_glex_er_is_mapped(vc) &&
               uct_glex_fifo_update(&vc->tx_fifo, credits.word >> 32, credits.word >> 48);

    if (ucs_unlikely((uint16_t)(credits.word >> 16) != vc->mp_tx.limit) &&
        uct_glex_credit_update(&vc->mp_tx, credits.word >> 16)) {
        vc->tx_peak = uct_glex_credit_avail(&vc->mp_tx);
        more = 1;
    }
    if (more && ucs_unlikely(vc->num_blocked > 0)) {
        uct_glex_vc_resume(vc);
    }
}

/** Units that a message of `length` bytes takes in the FIFO that the VC borrowed */
static inline unsigned uct_glex_er_units(const uct_glex_vc_t *vc, size_t length)
{
    return uct_glex_fifo_message_units(length, vc->er_tx->layout);
}

/** Longest message of the FIFO that the VC borrowed */
static inline size_t uct_glex_er_max_length(const uct_glex_vc_t *vc)
{
    size_t units = uct_glex_fifo_max_message(vc->tx_fifo.units);

    return ucs_min(units << vc->er_tx->layout.unit_shift, UCT_GLEX_ER_MAX_LENGTH);
}

/** Whether the FIFO takes messages of `length` bytes */
static inline int uct_glex_er_fits(const uct_glex_vc_t *vc, size_t length)
{
    return length <= uct_glex_er_max_length(vc);
}

/** Whether the credits, including published credits, allow the longest message now: max_bcopy, or
 *  the longest message of the FIFO */
int uct_glex_er_has_credits(uct_glex_vc_t *vc);

/** Read the published credits. Returns 1: credits are new. */
int uct_glex_er_read_credits(uct_glex_vc_t *vc);

/** Ring: the lender does not poll the FIFO, so an event tells the lender about the message. If the
 *  lender's event queue is full, progress tries again. */
void uct_glex_er_ring(uct_glex_vc_t *vc);

/** The word of the next slot. A new FIFO has words of 0, and a word is never 0. */
static inline uint64_t uct_glex_er_slot_word(const uct_glex_vc_t *vc, uint8_t am_id, unsigned flags,
                                             size_t length)
{
    return UCT_GLEX_SLOT_VALID | (uint16_t)(vc->tx_fifo.msgs + 1) | ((uint64_t)length << 16) |
           ((uint64_t)vc->tx.seq << 32) | ((uint64_t)am_id << 48) | ((uint64_t)flags << 56);
}

/** Where the next message goes */
static inline uct_glex_slot_t *uct_glex_er_next_slot(const uct_glex_vc_t *vc,
                                                     const uct_glex_er_tx_t *er)
{
    return &er->slots[vc->tx_fifo.msgs % UCT_GLEX_FIFO_SLOTS];
}

/** Publish the next slot, which has the message but not the word */
static UCS_F_ALWAYS_INLINE void uct_glex_er_publish(uct_glex_vc_t *vc, uct_glex_er_tx_t *er,
                                                    uct_glex_slot_t *slot, uint8_t am_id,
                                                    unsigned flags, size_t length)
{
    uint64_t word = uct_glex_er_slot_word(vc, am_id, flags, length);

    /* release: the data in the slot or the units is written before */
    __atomic_store_n(&slot->word, word, __ATOMIC_RELEASE);
    ++vc->tx_fifo.msgs;
    vc->tx.word += UCT_GLEX_HDR_ONE_SEQ;
    er->bytes += length;

    /* The store of the word must come before the load of `armed`. The lender executes a fence in
     * this thread: membarrier() between its store of `armed` and its last load of the slot. So here
     * only the compiler must keep the order. */
    if (ucs_unlikely(er->use_fence)) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* relaxed: no later load depends on `armed` */
    if (ucs_unlikely(__atomic_load_n(&er->ctrl->armed, __ATOMIC_RELAXED) != 0)) {
        uct_glex_er_ring(vc);
    }
}

/** Send `header` and `length` further bytes, UCT_GLEX_SLOT_DATA in total at most, in a slot of a
 *  mapped FIFO. NO_RESOURCE: no credits. */
static UCS_F_ALWAYS_INLINE ucs_status_t uct_glex_er_send_short(uct_glex_vc_t *vc, uint8_t am_id,
                                                               uint64_t header, const void *data,
                                                               unsigned length)
{
    uct_glex_er_tx_t *er = vc->er_tx;
    uct_glex_slot_t *slot;

    if (ucs_unlikely(!uct_glex_fifo_may_send(&vc->tx_fifo)) && !uct_glex_er_read_credits(vc)) {
        return UCS_ERR_NO_RESOURCE;
    }
    slot = uct_glex_er_next_slot(vc, er);
    slot->head = header;
    uct_glex_copy_small(slot->rest, data, length);
    uct_glex_er_publish(vc, er, slot, am_id, 0, sizeof(header) + length);
    return UCS_OK;
}

/** Send a message of known length through the FIFO. The message fits (uct_glex_er_fits()).
 *  NO_RESOURCE: no credits. */
ucs_status_t uct_glex_er_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                              unsigned flags);

/** Pack a message of up to max_bcopy bytes directly into the FIFO, which must have room for
 *  max_bcopy (er_tx->bcopy_units). Returns the length, or an error. */
ssize_t uct_glex_er_bcopy(uct_glex_vc_t *vc, uint8_t am_id, uct_pack_callback_t pack_cb, void *arg);

/** No credits are left: have progress read the published credits, and resume pending requests */
void uct_glex_er_starve(uct_glex_vc_t *vc);

/** Read the published credits of the next borrowed FIFOs without credits. At least one FIFO must be
 *  without credits. Returns the number of FIFOs with new credits. */
unsigned uct_glex_er_progress_starved(uct_glex_iface_t *iface);

/** Send wake-up requests: each lender of a FIFO without credits then sends a message with the
 *  credits */
void uct_glex_er_want_credits(uct_glex_iface_t *iface);

/** Call this after uct_glex_er_want_credits() and a barrier. Returns 1: credits have come. */
int uct_glex_er_has_new_credits(uct_glex_iface_t *iface);

/** The VC is over, or returns the FIFO: stop using the borrowed FIFO */
void uct_glex_er_drop_tx(uct_glex_vc_t *vc);

/* ---- lending: glex_er_lend.c ---- */

/** The FIFO that was lent last to the peer */
static UCS_F_ALWAYS_INLINE uct_glex_er_rx_t *uct_glex_er_rx_of(const uct_glex_vc_t *vc)
{
    return &vc->iface->er_rx[vc->rx_fifo_index];
}

/** Lend the peer a FIFO. Returns 1 if a FIFO was free. Otherwise an idle FIFO is revoked for the
 *  next request. */
int uct_glex_er_lend(uct_glex_vc_t *vc);

/** Fill the GRANT of the lent FIFO into a control message */
void uct_glex_er_fill_grant(uct_glex_vc_t *vc, uct_glex_ctl_t *ctl);

/** The peer returned its FIFO */
void uct_glex_er_released(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);

/** The lending ends: receives nothing more from the FIFO, and another peer may have its place.
 *  Returns the FIFO's memory. The caller puts the memory back when the peer writes nothing more. */
uct_glex_buf_t *uct_glex_er_lend_end(uct_glex_vc_t *vc);

/** Whether this interface receives messages from a FIFO of the peer */
static UCS_F_ALWAYS_INLINE int uct_glex_er_is_lent(const uct_glex_vc_t *vc)
{
    return vc->lent != UCT_GLEX_LENT_NONE;
}

/** Whether the peer can map the FIFO that it borrowed. The FIFO then has slots. */
static UCS_F_ALWAYS_INLINE int uct_glex_er_is_lent_mapped(const uct_glex_vc_t *vc)
{
    return uct_glex_er_is_lent(vc) && (uct_glex_er_rx_of(vc)->ctrl != NULL);
}

/** The credits that the peer has received: published credits, or credits in a header */
static UCS_F_ALWAYS_INLINE uct_glex_fifo_count_t uct_glex_er_told(const uct_glex_vc_t *vc,
                                                                  const uct_glex_er_rx_t *er_rx)
{
    return (er_rx->ctrl != NULL) ? er_rx->published : vc->advertised;
}

/** Whether FIFO credits should be returned without waiting for another message */
static inline int uct_glex_er_must_tell(const uct_glex_vc_t *vc)
{
    const uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);

    return (vc->lent == UCT_GLEX_LENT_FIFO) &&
           uct_glex_fifo_must_tell(&er_rx->fifo, vc->tx.credits.er, uct_glex_er_told(vc, er_rx));
}

/** Whether the sender needs a message with the credits. relaxed: uct_glex_er_publish_credits() has
 *  the fence. */
int uct_glex_er_is_wanted(const uct_glex_vc_t *vc);

/** relaxed: a barrier orders the store, or nothing depends on the store */
static inline void uct_glex_er_set_armed(uct_glex_er_rx_t *er_rx, uint32_t value)
{
    __atomic_store_n(&er_rx->ctrl->armed, value, __ATOMIC_RELAXED);
}

/** Poll the peer's FIFO from now on, because a message may be in the FIFO. Does nothing if the FIFO
 *  cannot be mapped. */
void uct_glex_er_poll_begin(uct_glex_vc_t *vc);

/** The FIFO is not lent any more */
void uct_glex_er_poll_end(uct_glex_iface_t *iface, uct_glex_er_rx_t *er_rx);

/** A message was consumed: return credits, or free the FIFO, if due */
void uct_glex_er_consumed_slow(uct_glex_vc_t *vc);

/** A message that took `used` units of the FIFO was delivered */
static UCS_F_ALWAYS_INLINE void uct_glex_er_consumed(uct_glex_vc_t *vc, uint16_t used)
{
    const uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);
    uint16_t units = (vc->tx.credits.word >> 32) + used;

    /* stored as one word, see uct_glex_hdr_t */
    vc->tx.credits.word =
        (vc->tx.credits.word & ~(UINT64_C(0xffff) << 32)) | ((uint64_t)units << 32);
    vc->tx.credits.word += UCT_GLEX_CREDITS_ONE_MSG;
    if (ucs_unlikely(uct_glex_fifo_must_tell(&er_rx->fifo, vc->tx.credits.er,
                                             uct_glex_er_told(vc, er_rx)))) {
        uct_glex_er_consumed_slow(vc);
    }
}

/* ---- receiving: glex_er_rx.c ---- */

/** The event of a message in a FIFO without a mapping arrived */
void uct_glex_er_recv(uct_glex_iface_t *iface, uint64_t word, uct_glex_credits_t credits);

/** The slot of message `num` of a mappable FIFO */
static UCS_F_ALWAYS_INLINE uct_glex_slot_t *uct_glex_er_slot(const uct_glex_er_rx_t *er_rx,
                                                             uint16_t num)
{
    return (uct_glex_slot_t *)(er_rx->ctrl + 1) + num % UCT_GLEX_FIFO_SLOTS;
}

/** The slot and the word of the next message of a mappable FIFO. NULL: no message yet. */
static UCS_F_ALWAYS_INLINE uct_glex_slot_t *uct_glex_er_next_msg(const uct_glex_er_rx_t *er_rx,
                                                                 uint64_t *word_p)
{
    uct_glex_slot_t *slot = uct_glex_er_slot(er_rx, er_rx->arrived);

    /* acquire: the message was written before its word */
    *word_p = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);
    return uct_glex_slot_is_new(*word_p, er_rx->arrived) ? slot : NULL;
}

/** Whether a polled FIFO of the peer has a message for the next progress calls */
static inline int uct_glex_er_has_msg(uct_glex_vc_t *vc)
{
    const uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);
    uint64_t word;

    return uct_glex_er_is_lent(vc) && er_rx->is_polled &&
           (uct_glex_er_next_msg(er_rx, &word) != NULL);
}

/** Deliver or keep a message that is not a usual message (uct_glex_slot_usual()) */
void uct_glex_er_take_unusual(uct_glex_er_rx_t *er_rx, uct_glex_slot_t *slot, uint64_t word);

static UCS_F_ALWAYS_INLINE void uct_glex_er_deliver(uct_glex_vc_t *vc, uint8_t am_id, void *data,
                                                    uint32_t length)
{
    uct_base_iface_t *iface = &vc->iface->super;

    ++vc->rx_seq;
    uct_iface_trace_am(iface, UCT_AM_TRACE_TYPE_RECV, am_id, data, length, "RX: ER");
    uct_iface_invoke_am(iface, am_id, data, length, 0);
}

/** Deliver the next message of a polled FIFO. Returns 0: no message yet. The handler may end the
 *  VC, and then the FIFO is not polled any more. */
static UCS_F_ALWAYS_INLINE unsigned uct_glex_er_take(uct_glex_er_rx_t *er_rx)
{
    uct_glex_vc_t *vc = er_rx->vc;
    uint16_t num = er_rx->arrived;
    uct_glex_slot_t *slot = uct_glex_er_slot(er_rx, num);
    /* acquire: the message was written before its word */
    uint64_t word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);
    uint64_t varies = word ^ uct_glex_slot_usual(num, vc->rx_seq);

    if (ucs_unlikely((varies & ~UCT_GLEX_SLOT_VARIES) ||
                     (uct_glex_slot_length(varies) > UCT_GLEX_SLOT_DATA))) {
        if (!uct_glex_slot_is_new(word, num)) {
            return 0;
        }
        uct_glex_er_take_unusual(er_rx, slot, word);
        return 1;
    }
    er_rx->arrived = num + 1;
    uct_glex_er_deliver(vc, varies >> 48, slot->data, uct_glex_slot_length(varies));
    vc->tx.credits.word += UCT_GLEX_CREDITS_ONE_MSG;
    if (ucs_unlikely((uint16_t)((vc->tx.credits.word >> 48) - er_rx->published.msgs) >=
                     er_rx->fifo.tell_msgs)) {
        uct_glex_er_consumed_slow(vc);
    }
    if (ucs_unlikely(!ucs_list_is_empty(&vc->rx))) {
        uct_glex_rx_advance(vc);
    }
    return 1;
}

/** Deliver the messages of a polled FIFO, a batch at most. Returns the number of messages. */
unsigned uct_glex_er_poll_fifo(uct_glex_er_rx_t *er_rx);

/** Deliver the messages of the next polled FIFOs, UCT_GLEX_ER_POLL_FIFOS at most. Returns the
 *  number of messages. */
unsigned uct_glex_er_poll_some(uct_glex_iface_t *iface);

/** The borrower of a FIFO rang, because the FIFO has a message and is not polled. Returns the
 *  number of delivered messages. */
unsigned uct_glex_er_recv_ring(uct_glex_iface_t *iface, uint64_t word);

/** Stop polling FIFOs that were silent for UCT_GLEX_ER_SILENT_US: their borrowers ring */
void uct_glex_er_poll_sweep(uct_glex_iface_t *iface);

/** This process will sleep: have borrowers ring, and lenders send credits, by events. Returns 1 if
 *  progress has work, so that the process must not sleep. */
int uct_glex_er_sleep(uct_glex_iface_t *iface);

#endif
