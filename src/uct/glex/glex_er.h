/*
 * ER: the exclusive remote FIFO (paper 003, section 4.3, figure 3). The sender borrows a FIFO in
 * the receiver's memory and puts messages into it; an event tells the receiver, who hands the data
 * to the handler in place.
 */
#ifndef UCT_GLEX_ER_H
#define UCT_GLEX_ER_H

#include "glex_ctl.h"
#include "glex_vc.h"

#include <ucs/time/time.h>

/* Messages through SR after which a VC asks for a FIFO again, log2; with each refusal twice as
 * many, so 128 after the first */
#define UCT_GLEX_ER_PATIENCE_MIN 6
#define UCT_GLEX_ER_PATIENCE_MAX 14

/* So much faster than when it was refused, log2, it asks as if for the first time */
#define UCT_GLEX_ER_FASTER 4

/* Smallest unit of a FIFO */
#define UCT_GLEX_ER_MIN_UNIT 64

/* The FIFO that a VC borrowed */
struct uct_glex_er_tx {
    uint8_t             *base;       /* where messages are packed: the FIFO, or its image */
    uct_glex_buf_t      *mirror;     /* its image in this process, NULL: it is mapped itself */
    uct_glex_er_shown_t *shown;      /* mapped: where the lender shows its counters; or NULL */
    uint32_t             offset;     /* of the FIFO in its registration */
    uint16_t             bcopy_units; /* for a message of max_bcopy; 0: too long for the FIFO */
    uint8_t              unit_shift;
    uint8_t              is_starved;
    uint8_t              is_refused; /* the peer's event queue was full for the last message packed */
    uint16_t             index;      /* the lender's name of the FIFO */
    uint8_t              gen;
    ucs_list_link_t      starved;    /* in iface->er.starved while is_starved */
    uct_glex_vc_t       *vc;
    glex_imm_rdma_req_t  req;        /* constant fields filled in */
};

ucs_status_t uct_glex_er_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                              unsigned eq_entries);
void uct_glex_er_cleanup_iface(uct_glex_iface_t *iface);

/* ---- borrowing: this side sends ---- */

/** Ask for a FIFO with the next control message, if that channel is wanted */
void uct_glex_er_request(uct_glex_vc_t *vc);
void uct_glex_er_granted(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);
void uct_glex_er_refused(uct_glex_vc_t *vc);

/** Stop using the FIFO and say so */
void uct_glex_er_release(uct_glex_vc_t *vc);

/** The lender wants its FIFO back */
void uct_glex_er_recv_revoke(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);

/** 64 more messages went through SR: ask for a FIFO when the traffic is heavy */
void uct_glex_er_sr_traffic(uct_glex_vc_t *vc);

/** A message went through SR */
static inline void uct_glex_er_count_sr(uct_glex_vc_t *vc)
{
    if (ucs_unlikely((++vc->sr_count & UCS_MASK(UCT_GLEX_ER_PATIENCE_MIN)) == 0)) {
        uct_glex_er_sr_traffic(vc);
    }
}

/** Units that a message of `length` bytes takes in the FIFO that the VC borrowed */
static inline unsigned uct_glex_er_units(const uct_glex_vc_t *vc, size_t length)
{
    unsigned shift = vc->er_tx->unit_shift;

    return (length + (length == 0) + UCS_MASK(shift)) >> shift; /* one at least */
}

/** Longest message of the FIFO that the VC borrowed */
static inline size_t uct_glex_er_max_length(const uct_glex_vc_t *vc)
{
    size_t units = uct_glex_fifo_max_message(vc->tx_fifo.units);

    return ucs_min(units << vc->er_tx->unit_shift, UCT_GLEX_ER_MAX_LENGTH);
}

/** Whether messages of up to `length` bytes can go through the FIFO at all */
static inline int uct_glex_er_fits(const uct_glex_vc_t *vc, size_t length)
{
    return length <= uct_glex_er_max_length(vc);
}

/** The next message was posted */
static inline void uct_glex_er_sent(uct_glex_vc_t *vc)
{
    ++vc->tx_fifo.msgs;
    uct_glex_vc_told(vc);
    vc->tx.word += UCT_GLEX_HDR_ONE_SEQ;
}

/** Whether a message of up to `length` bytes, that fits (uct_glex_er_fits()), could be sent now */
int uct_glex_er_has_room(uct_glex_vc_t *vc, size_t length);

/** Look at the counters that the lender shows. Returns 1: there are more credits now. */
int uct_glex_er_look(uct_glex_vc_t *vc);

#if UCT_GLEX_NIC_MESSAGES
/** Send 8 bytes and `length` more, at most UCT_GLEX_IMM_PUT_LEN in all, in their event. They need
 *  no unit of the FIFO. NO_RESOURCE: no credits. */
static UCS_F_ALWAYS_INLINE ucs_status_t uct_glex_er_send_short(uct_glex_vc_t *vc, uint8_t am_id,
                                                               uint64_t header, const void *data,
                                                               unsigned length)
{
    glex_ep_addr_t peer = uct_glex_vc_dest(vc);
    glex_ret_t ret;

    if (ucs_unlikely(!uct_glex_fifo_may_send(&vc->tx_fifo)) && !uct_glex_er_look(vc)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret = glex_ext_post_event(vc->iface->nic, peer, vc->tx.credits.word,
                              uct_glex_vc_hdr_word(vc, UCT_GLEX_EVENT_ER_SHORT, am_id, 0),
                              header, data, length);
    if (ucs_unlikely(ret != GLEX_SUCCESS)) {
        return uct_glex_status(ret);
    }
    uct_glex_er_sent(vc);
    return UCS_OK;
}
#endif

/** Send a message of known length that fits (uct_glex_er_fits()), through the FIFO. NO_RESOURCE: no
 *  credits. */
ucs_status_t uct_glex_er_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                              unsigned flags);

/** Pack a message of up to max_bcopy bytes, that fits (er_tx->bcopy_units), straight into the FIFO.
 *  Returns its length or error. */
ssize_t uct_glex_er_bcopy(uct_glex_vc_t *vc, uint8_t am_id, uct_pack_callback_t pack_cb,
                          void *arg);

/* ---- lending: this side receives ---- */

/** Time in units of 16 us; wraps in a second, so that what happened long ago may seem recent */
static inline uint16_t uct_glex_er_clock(void)
{
    return (uint64_t)ucs_time_to_usec(ucs_get_time()) / 16;
}

/** Lend the peer a FIFO if the quota allows. Returns 1: it has one now. */
int uct_glex_er_lend(uct_glex_vc_t *vc);

/** Describe the FIFO lent, in a control message */
void uct_glex_er_fill_grant(uct_glex_vc_t *vc, uct_glex_ctl_t *ctl);

/** Ask for the FIFO back that the peer borrowed */
void uct_glex_er_revoke(uct_glex_vc_t *vc);

/** This one waits for no FIFO any more that comes back */
void uct_glex_er_wait_end(uct_glex_vc_t *vc);

/** The peer uses its FIFO no more */
void uct_glex_er_released(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);

/** Take the FIFO back that the peer borrowed, whatever is in it; another may borrow it at once. The
 *  peer writes to it no more. */
void uct_glex_er_drop_rx(uct_glex_vc_t *vc);

/** The VC failed, and the peer may still write to the FIFO that it borrowed: nothing is taken from it
 *  any more, nobody else gets it before uct_glex_er_drop_rx() */
void uct_glex_er_hold_rx(uct_glex_vc_t *vc);

/** The peer says that it will not write to the FIFO any more, of which it used so many units in all.
 *  What it wrote last may still be on its way. */
void uct_glex_er_last_head(uct_glex_vc_t *vc, uint16_t head);

/** Drop a FIFO that is held if all that was written to it has arrived */
void uct_glex_er_check_held(uct_glex_vc_t *vc);

/** Whether the peer borrowed a FIFO, and what it puts there is taken */
static UCS_F_ALWAYS_INLINE int uct_glex_er_is_lent(const uct_glex_vc_t *vc)
{
    return (vc->lent == UCT_GLEX_LENT_FIFO) || (vc->lent == UCT_GLEX_LENT_RELEASED);
}

/** A message that took `used` units of the FIFO was delivered */
void uct_glex_er_consumed(uct_glex_vc_t *vc, uint16_t used);

/** Whether FIFO credits should be returned explicitly */
static inline int uct_glex_er_must_tell(const uct_glex_vc_t *vc)
{
    return (vc->lent != UCT_GLEX_LENT_NONE) &&
           uct_glex_fifo_must_tell(&vc->rx_fifo, vc->tx.credits.er, vc->told);
}

/** The event of a message in a FIFO arrived */
void uct_glex_er_recv(uct_glex_iface_t *iface, uint64_t word, uct_glex_credits_t credits);

/** A message in its event arrived */
void uct_glex_er_recv_short(uct_glex_iface_t *iface, uint64_t word, uct_glex_credits_t credits,
                            void *data, uint32_t length);

/* ---- credits that are shown: glex_er_shown.c ---- */

/** Begin to look: the FIFO was mapped */
void uct_glex_er_look_begin(uct_glex_er_tx_t *er);

/** No credits are left: have progress look, and resume what is pending */
void uct_glex_er_starve(uct_glex_vc_t *vc);
void uct_glex_er_starve_end(uct_glex_er_tx_t *er);

/** Look for all that starve. Returns how many could be resumed. */
unsigned uct_glex_er_progress_starved(uct_glex_iface_t *iface);

/** This process will sleep: have the lenders of all that starve tell their counters. Returns
 *  whether there are credits, so that it should not. */
int uct_glex_er_sleep_starved(uct_glex_iface_t *iface);

/** Begin to show the counters of a FIFO that is lent */
void uct_glex_er_show_begin(uct_glex_vc_t *vc);

/** Show the counters now. Returns 0 where the sender must be told, too: it cannot look, or sleeps. */
int uct_glex_er_show(uct_glex_vc_t *vc);

/** Whether the sender wants to be told of what is shown (vc->er_shows). relaxed: what it does about
 *  that while we look is ordered by uct_glex_er_show(). */
int uct_glex_er_is_wanted(const uct_glex_vc_t *vc);

/* ---- both ---- */

/** The VC is over: stop using the FIFO that we borrowed, and wait for none */
void uct_glex_er_cleanup_tx(uct_glex_vc_t *vc);

#endif
