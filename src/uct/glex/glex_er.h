/*
 * ER: the exclusive remote FIFO (paper 003, section 4.3, figure 3). The sender borrows a FIFO in
 * the receiver's memory and puts messages into it; an event tells the receiver, who hands the data
 * to the handler in place.
 */
#ifndef UCT_GLEX_ER_H
#define UCT_GLEX_ER_H

#include "glex_ctl.h"
#include "glex_vc.h"

/* Messages through SR after which a refused VC asks for a FIFO again: doubles with each refusal */
#define UCT_GLEX_ER_PATIENCE_MIN 64
#define UCT_GLEX_ER_PATIENCE_MAX 16384

/* Smallest unit of a FIFO: what is not longer takes one unit of any */
#define UCT_GLEX_ER_MIN_UNIT 64

/* The FIFO that a VC borrowed */
struct uct_glex_er_tx {
    uint16_t             index;      /* the lender's name of the FIFO */
    uint8_t              gen;
    uint64_t             cookie_1;   /* constant part of the events */
    uint8_t             *remote;     /* the FIFO mapped into this process, NULL: not mappable */
    uct_glex_buf_t      *mirror;     /* where it is not mappable: its local image */
    uint32_t             offset;     /* of the FIFO in its registration */
    uint8_t              unit_shift;
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

/** A message went through SR: ask for a FIFO again when the traffic is heavy */
static inline void uct_glex_er_count_sr(uct_glex_vc_t *vc)
{
    if (ucs_unlikely(++vc->sr_count >= vc->sr_patience) && (vc->er_state == UCT_GLEX_ER_NONE)) {
        vc->sr_count = 0;
        uct_glex_er_request(vc);
    }
}

/** Units that a message of `length` bytes takes in the FIFO that the VC borrowed */
static inline unsigned uct_glex_er_units(const uct_glex_vc_t *vc, size_t length)
{
    unsigned shift = vc->er_tx->unit_shift;

    return (length <= UCS_BIT(shift)) ? 1 : ((length + UCS_BIT(shift) - 1) >> shift);
}

/** Whether messages of up to `length` bytes can go through the FIFO at all */
static inline int uct_glex_er_fits(const uct_glex_vc_t *vc, size_t length)
{
    return uct_glex_er_units(vc, length) <= uct_glex_fifo_max_message(vc->tx_fifo.units);
}

/** The header of the next message, as its event */
static inline void uct_glex_er_fill_event(const uct_glex_vc_t *vc, glex_event_t *event,
                                          uint8_t am_id, unsigned flags, uint16_t skip,
                                          size_t length)
{
    flags |= (skip ? UCT_GLEX_ER_FLAG_WRAP : 0) | (vc->ack_due ? UCT_GLEX_ER_FLAG_ACK : 0) |
             (vc->mp_rx.epoch << UCT_GLEX_ER_EPOCH_SHIFT);
    event->cookie_0 = uct_glex_er_cookie_0(length, flags, vc->rx_fifo.head, vc->rx_fifo.msgs);
    event->cookie_1 = uct_glex_er_cookie_1(vc->er_tx->cookie_1, am_id, vc->tx_seq,
                                           uct_glex_credit_limit(&vc->mp_rx));
}

/** The next message was posted */
static inline void uct_glex_er_sent(uct_glex_vc_t *vc, unsigned units, uint16_t skip)
{
    uct_glex_fifo_commit(&vc->tx_fifo, units, skip);
    uct_glex_vc_told(vc);
    ++vc->tx_seq;
}

/** Post the event of a message, with its data unless that is in the FIFO already (imm_length 0) */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_glex_er_post(uct_glex_vc_t *vc, uint8_t am_id, unsigned flags, unsigned units, uint16_t offset,
                 uint16_t skip, void *imm_data, unsigned imm_length, size_t length)
{
    uct_glex_er_tx_t *er     = vc->er_tx;
    glex_imm_rdma_req_t *req = &er->req;
    glex_ret_t ret;

    req->data       = imm_data;
    req->len        = imm_length;
    req->rmt_offset = er->offset + ((uint32_t)offset << er->unit_shift);
    uct_glex_er_fill_event(vc, &req->rmt_evt, am_id, flags, skip, length);
    ret = glex_imm_rdma(vc->iface->nic, req, NULL);
    if (ucs_unlikely(ret != GLEX_SUCCESS)) {
        return uct_glex_status(ret);
    }

    uct_glex_er_sent(vc, units, skip);
    return UCS_OK;
}

/** uct_glex_er_send_imm() of what may take more than one unit */
ucs_status_t uct_glex_er_send_imm_units(uct_glex_vc_t *vc, uint8_t am_id, void *data,
                                        unsigned length, unsigned flags);

/** Send up to UCT_GLEX_IMM_PUT_LEN bytes with one immediate put. NO_RESOURCE: no credits. */
static UCS_F_ALWAYS_INLINE ucs_status_t uct_glex_er_send_imm(uct_glex_vc_t *vc, uint8_t am_id,
                                                             void *data, unsigned length,
                                                             unsigned flags)
{
    if (ucs_unlikely(length > UCT_GLEX_ER_MIN_UNIT)) {
        return uct_glex_er_send_imm_units(vc, am_id, data, length, flags);
    }
    if (ucs_unlikely(!uct_glex_fifo_has_unit(&vc->tx_fifo))) {
        return UCS_ERR_NO_RESOURCE;
    }
    return uct_glex_er_post(vc, am_id, flags, 1,
                            uct_glex_fifo_offset(vc->tx_fifo.head, vc->tx_fifo.units), 0, data,
                            length, length);
}

/** Send a message of known length that fits (uct_glex_er_fits()). NO_RESOURCE: no credits. */
ucs_status_t uct_glex_er_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                              unsigned flags);

/** Pack a message of up to max_bcopy bytes straight into the FIFO. Returns its length or error. */
ssize_t uct_glex_er_bcopy(uct_glex_vc_t *vc, uint8_t am_id, uct_pack_callback_t pack_cb,
                          void *arg);

/* ---- lending: this side receives ---- */

/** Lend the peer a FIFO if the quota allows. Returns 1: it has one now. */
int uct_glex_er_lend(uct_glex_vc_t *vc);

/** Describe the FIFO lent, in a control message */
void uct_glex_er_fill_grant(uct_glex_vc_t *vc, uct_glex_ctl_t *ctl);

/** Ask for the FIFO back that the peer borrowed */
void uct_glex_er_revoke(uct_glex_vc_t *vc);

/** The peer uses its FIFO no more */
void uct_glex_er_released(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl);

/** Take the FIFO back that the peer borrowed, whatever is in it; another may borrow it at once */
void uct_glex_er_drop_rx(uct_glex_vc_t *vc);

/** A message from the FIFO was delivered */
void uct_glex_er_consumed(uct_glex_vc_t *vc, uint16_t used);

/** Whether FIFO credits should be returned explicitly */
static inline int uct_glex_er_must_tell(const uct_glex_vc_t *vc)
{
    return vc->has_rx_fifo && uct_glex_fifo_must_tell(&vc->rx_fifo);
}

/** Handle the event that was probed and those behind it, of ER and operations. Returns how many. */
unsigned uct_glex_eq_handle(uct_glex_iface_t *iface, glex_event_t *event);

/** Handle arrived events. Returns how many. Inline: nearly always there is none. */
static inline unsigned uct_glex_eq_progress(uct_glex_iface_t *iface)
{
    glex_event_t *event;

    return ucs_likely(glex_probe_first_event(iface->nic, 0, &event) != GLEX_SUCCESS) ?
           0 : uct_glex_eq_handle(iface, event);
}

/* ---- both ---- */

/** Give up both FIFOs of a VC that failed */
void uct_glex_er_cleanup(uct_glex_vc_t *vc);

#endif
