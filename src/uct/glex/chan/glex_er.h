/*
 * ER: the exclusive remote FIFO (paper 003, section 4.3, figure 3). The sender borrows a FIFO in
 * the receiver's memory and writes its messages there. Where the sender maps the FIFO, a message
 * is a store into its ring of slots, and neither side calls the NIC; where it cannot, each
 * message is a put with an event. docs/protocol.md, section 7.
 */
#ifndef UCT_GLEX_ER_H
#define UCT_GLEX_ER_H

#include "base/glex_copy.h"
#include "core/glex_vc.h"
#include "chan/glex_rx.h"

/* Messages through SR after which a VC that was refused a FIFO asks again; after each refusal in a
 * row twice as many, up to 2^7 times */
#define UCT_GLEX_ER_RETRY       256
#define UCT_GLEX_ER_MAX_BACKOFF 7

/* Smallest unit of a FIFO */
#define UCT_GLEX_ER_MIN_UNIT 64

/* Largest unit and spacing, log2 */
#define UCT_GLEX_ER_MAX_SHIFT 12

/* Unused bytes between the start of a FIFO's buffer, where a page begins, and its units: half of
 * the spacing. Long messages then do not begin at a page. Most buffers of programs do, and a copy
 * between two such places is slow on some processors: docs/performance.md, "Zen 4". */
static inline size_t uct_glex_er_pad(uct_glex_fifo_layout_t layout)
{
    return ucs_align_down_pow2(UCS_BIT(layout.spacing_shift) / 2, UCT_GLEX_ER_ALIGN);
}

/* The FIFO that a VC borrowed */
struct uct_glex_er_tx {
    uct_glex_slot_t *slots; /* the ring; only if it is mapped: vc->er_tx_mapped */
    uint8_t *base;          /* where longer messages are packed: units, or their image */
    uint16_t bcopy_units;   /* for a message of max_bcopy; 0: too long for the FIFO */
    uct_glex_fifo_layout_t layout;
    uint8_t use_fence; /* the lender or this process cannot call membarrier() */
    uint8_t is_starved;
    uint8_t gen;
    uint16_t index;             /* the lender's name of the FIFO */
    uint16_t counted;           /* messages that the NIC's counters know of, in all */
    uint32_t offset;            /* of the FIFO in its registration */
    uct_glex_fifo_ctrl_t *ctrl; /* only if it is mapped, else NULL */
    uct_glex_buf_t *mirror;     /* its image; only if it is not mapped */
    ucs_list_link_t starved;    /* in iface->er.starved while is_starved */
    uct_glex_vc_t *vc;
    struct glex_ext_pin *pin; /* keeps the FIFO mapped; NULL: it is not */
    glex_imm_rdma_req_t req;  /* constant fields filled in */
};

ucs_status_t uct_glex_er_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                              unsigned eq_entries);
/** The interface closes, and its endpoint has no receiver any more: who sends through a FIFO that
 *  was lent rings from now on, and gets the error. */
void uct_glex_er_close(uct_glex_iface_t *iface);

void uct_glex_er_cleanup_iface(uct_glex_iface_t *iface);

/* ---- borrowing and sending: glex_er.c ---- */

/** Ask for a FIFO with the next control message, if the channel is configured */
void uct_glex_er_request(uct_glex_vc_t *vc);

void uct_glex_er_granted(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);
void uct_glex_er_refused(uct_glex_vc_t *vc);

/** The lender wants its FIFO back */
void uct_glex_er_recv_revoke(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);

/** A VC connects: ask for a FIFO at once, if no messages are to go through SR before */
static inline void uct_glex_er_connect(uct_glex_vc_t *vc)
{
    if (vc->sr_count == 0) {
        uct_glex_er_request(vc);
    }
}

/** A message went through SR: after many, ask for a FIFO */
static inline void uct_glex_er_count_sr(uct_glex_vc_t *vc)
{
    if (ucs_unlikely(--vc->sr_count == 0)) {
        uct_glex_er_request(vc);
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

/** Whether messages of up to `length` bytes can go through the FIFO at all */
static inline int uct_glex_er_fits(const uct_glex_vc_t *vc, size_t length)
{
    return length <= uct_glex_er_max_length(vc);
}

/** Whether the credits, also those only published, allow a message of any length up to max_bcopy
 *  that fits (uct_glex_er_fits()) now */
int uct_glex_er_has_credits(uct_glex_vc_t *vc);

/** Read the credits that the lender publishes. Returns 1: there are more now. */
int uct_glex_er_read_credits(uct_glex_vc_t *vc);

/** The lender does not poll the FIFO: send it an event, because there is a message. If its event
 *  queue is full progress tries again. */
void uct_glex_er_ring(uct_glex_vc_t *vc);

/** The word of the next slot. A word is never 0, which is what a new FIFO holds. */
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

/** The next slot is filled but for its word: publish it */
static UCS_F_ALWAYS_INLINE void uct_glex_er_publish(uct_glex_vc_t *vc, uct_glex_er_tx_t *er,
                                                    uct_glex_slot_t *slot, uint8_t am_id,
                                                    unsigned flags, size_t length)
{
    uint64_t word = uct_glex_er_slot_word(vc, am_id, flags, length);

    /* release: the data, here or in the units, is written before */
    __atomic_store_n(&slot->word, word, __ATOMIC_RELEASE);
    ++vc->tx_fifo.msgs;
    vc->tx.word += UCT_GLEX_HDR_ONE_SEQ;

    /* The store of the word must not pass the load of `armed`. The lender ensures that by
     * membarrier() between its store of `armed` and its last load of the slot: a fence in this
     * thread at a time of the lender's choice. Here only the compiler must not exchange the two. */
    if (ucs_unlikely(er->use_fence)) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* relaxed: nothing is read that depends on it */
    if (ucs_unlikely(__atomic_load_n(&er->ctrl->armed, __ATOMIC_RELAXED) != 0)) {
        uct_glex_er_ring(vc);
    }
}

/** Send 8 bytes and `length` more, UCT_GLEX_SLOT_DATA in all at most, in a slot of a FIFO that is
 *  mapped. NO_RESOURCE: no credits. */
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

/** Send a message of known length that fits (uct_glex_er_fits()), through the FIFO. NO_RESOURCE: no
 *  credits. */
ucs_status_t uct_glex_er_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                              unsigned flags);

/** Pack a message of up to max_bcopy bytes, that fits (er_tx->bcopy_units), straight into the FIFO.
 *  Returns its length or error. */
ssize_t uct_glex_er_bcopy(uct_glex_vc_t *vc, uint8_t am_id, uct_pack_callback_t pack_cb, void *arg);

/** No credits are left: have progress read them, and resume what is pending */
void uct_glex_er_starve(uct_glex_vc_t *vc);

/** Read the credits of those that starve, of which there is one at least; of very many some in
 *  turn. Returns how many have more now. */
unsigned uct_glex_er_progress_starved(uct_glex_iface_t *iface);

/** Ask the lenders of all that starve for a message with their credits: a wake-up request */
void uct_glex_er_want_credits(uct_glex_iface_t *iface);

/** After uct_glex_er_want_credits() and a barrier. Returns 1: there are credits by now. */
int uct_glex_er_has_new_credits(uct_glex_iface_t *iface);

/** The VC is over: stop using the FIFO that we borrowed */
void uct_glex_er_drop_tx(uct_glex_vc_t *vc);

/* ---- lending: glex_er_lend.c ---- */

/** The FIFO that was lent last to the peer */
static UCS_F_ALWAYS_INLINE uct_glex_er_rx_t *uct_glex_er_rx_of(const uct_glex_vc_t *vc)
{
    return &vc->iface->er_rx[vc->rx_fifo_index];
}

/** Lend the peer a FIFO. Returns 1 if one was free; else an idle FIFO is revoked, for the peer that
 *  asks next. */
int uct_glex_er_lend(uct_glex_vc_t *vc);

/** Describe the FIFO lent, in a control message */
void uct_glex_er_fill_grant(uct_glex_vc_t *vc, uct_glex_ctl_t *ctl);

/** The peer returned its FIFO */
void uct_glex_er_released(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);

/** The VC is over, and the peer may still write to the FIFO that it borrowed: receive nothing from
 *  the FIFO, and lend it to nobody before uct_glex_er_lease_end(). Returns the FIFO. */
uct_glex_er_rx_t *uct_glex_er_lease_rx(uct_glex_vc_t *vc);

/** The peer has stopped writing to the FIFO, and all that it wrote has arrived: the FIFO can be
 *  lent again */
void uct_glex_er_lease_end(uct_glex_iface_t *iface, uct_glex_er_rx_t *er_rx);

/** Whether the peer borrowed a FIFO from which messages are received */
static UCS_F_ALWAYS_INLINE int uct_glex_er_is_lent(const uct_glex_vc_t *vc)
{
    return vc->lent != UCT_GLEX_LENT_NONE;
}

/** The FIFO is free when all that was sent through it has been delivered */
void uct_glex_er_check_released(uct_glex_vc_t *vc);

/** Whether FIFO credits should be returned explicitly */
static inline int uct_glex_er_must_tell(const uct_glex_vc_t *vc)
{
    return (vc->lent == UCT_GLEX_LENT_FIFO) &&
           uct_glex_fifo_must_tell(&uct_glex_er_rx_of(vc)->fifo, vc->tx.credits.er, vc->advertised);
}

/** Publish the credits now. Returns 0 where the sender needs a message, too: it cannot read them,
 *  or sleeps. */
int uct_glex_er_publish_credits(uct_glex_vc_t *vc);

/** Whether the sender wants a message with the credits. relaxed: what it does about that while we
 *  look is ordered by uct_glex_er_publish_credits(). */
int uct_glex_er_is_wanted(const uct_glex_vc_t *vc);

/* ---- receiving: glex_er_rx.c ---- */

/** A message that took `used` units of the FIFO was delivered */
void uct_glex_er_consumed(uct_glex_vc_t *vc, uint16_t used);

/** The event of a message in a FIFO that its borrower does not map arrived */
void uct_glex_er_recv(uct_glex_iface_t *iface, uint64_t word, uct_glex_credits_t credits);

/** Register this process for membarrier() calls of others. Returns whether it can call it
 *  itself. */
int uct_glex_er_init_membarrier(void);

/** Poll the peer's FIFO from now on: a message may lie there. Nothing where it cannot be mapped. */
void uct_glex_er_poll_begin(uct_glex_vc_t *vc);

/** The FIFO is not lent any more */
void uct_glex_er_poll_end(uct_glex_iface_t *iface, uct_glex_er_rx_t *er_rx);

/** Where message `num` of a FIFO that can be mapped lies */
static UCS_F_ALWAYS_INLINE uct_glex_slot_t *uct_glex_er_slot(const uct_glex_er_rx_t *er_rx,
                                                             uint16_t num)
{
    return &er_rx->slots[num % UCT_GLEX_FIFO_SLOTS];
}

/** The next message of a FIFO that can be mapped, and its word; NULL: there is none yet */
static UCS_F_ALWAYS_INLINE uct_glex_slot_t *uct_glex_er_next_msg(const uct_glex_er_rx_t *er_rx,
                                                                 uint64_t *word_p)
{
    uct_glex_slot_t *slot = uct_glex_er_slot(er_rx, er_rx->arrived);

    /* acquire: what the message consists of was written before */
    *word_p = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);
    return uct_glex_slot_is_new(*word_p, er_rx->arrived) ? slot : NULL;
}

/** Whether the peer left a message in a FIFO that is polled, which the next progress calls take */
static inline int uct_glex_er_has_msg(uct_glex_vc_t *vc)
{
    const uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);
    uint64_t word;

    return uct_glex_er_is_lent(vc) && er_rx->is_polled &&
           (uct_glex_er_next_msg(er_rx, &word) != NULL);
}

/** Credits are to be published, or the FIFO may be free */
void uct_glex_er_consumed_slow(uct_glex_vc_t *vc);

/** Deliver, or keep, any message in a slot but the usual one */
void uct_glex_er_take_unusual(uct_glex_er_rx_t *er_rx, uct_glex_slot_t *slot, uint64_t word);

static UCS_F_ALWAYS_INLINE void uct_glex_er_deliver(uct_glex_vc_t *vc, uint8_t am_id, void *data,
                                                    uint32_t length)
{
    uct_base_iface_t *iface = &vc->iface->super;

    ++vc->rx_seq;
    uct_iface_trace_am(iface, UCT_AM_TRACE_TYPE_RECV, am_id, data, length, "RX: ER");
    uct_iface_invoke_am(iface, am_id, data, length, 0);
}

/** Deliver the next message of a FIFO that is polled. Returns 0: there is none yet. A handler may
 *  end the VC, and the FIFO is not polled any more then. */
static UCS_F_ALWAYS_INLINE unsigned uct_glex_er_take(uct_glex_er_rx_t *er_rx)
{
    uct_glex_vc_t *vc = er_rx->vc;
    uint16_t num = er_rx->arrived;
    uct_glex_slot_t *slot = uct_glex_er_slot(er_rx, num);
    /* acquire: what the message consists of was written before */
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
    if (ucs_unlikely((uint16_t)((vc->tx.credits.word >> 48) - vc->advertised.msgs) >=
                     er_rx->fifo.tell_msgs)) {
        uct_glex_er_consumed_slow(vc);
    }
    if (ucs_unlikely(!ucs_list_is_empty(&vc->rx))) {
        uct_glex_rx_advance(vc);
    }
    return 1;
}

/** Deliver what lies in a FIFO that is polled, a batch at most. Returns how many messages. */
unsigned uct_glex_er_poll_fifo(uct_glex_er_rx_t *er_rx);

/** The same for all FIFOs that are polled, of very many some in turn */
unsigned uct_glex_er_poll_some(uct_glex_iface_t *iface);

/** The borrower of a FIFO that is not polled rang: there is a message. Returns how many were
 *  delivered. */
unsigned uct_glex_er_recv_ring(uct_glex_iface_t *iface, uint64_t word);

/** Stop polling FIFOs that were silent for a while: their borrowers ring */
void uct_glex_er_poll_sweep(uct_glex_iface_t *iface);

/** This process will sleep: have borrowers ring, and lenders send credits, by events. Returns 1
 *  if there is something to do, so that it must not sleep. */
int uct_glex_er_sleep(uct_glex_iface_t *iface);

#endif
