/*
 * Delivery in order. The handlers get a VC's messages in the order of sending, over all channels.
 * Early messages, and messages whose data is being fetched, wait in vc->rx. Data is also fetched in
 * the order of sending. If a later message took the last receive buffer, an earlier message would
 * never be delivered.
 */
#ifndef UCT_GLEX_RX_H
#define UCT_GLEX_RX_H

#include "core/glex_vc.h"

/* Largest zero-copy descriptor */
#define UCT_GLEX_ZC_MAX_DESC                                                                       \
    (sizeof(uct_glex_zc_t) + UCT_GLEX_ZC_MAX_IOV * sizeof(uct_glex_zc_iov_t) + UCT_GLEX_ZC_MAX_HDR)

/* Offset of the word that tells whether the payload is valid. The word follows the payload. */
#define UCT_GLEX_ZC_WORD_OFFSET (UCT_GLEX_ZC_MAX_HDR + UCT_GLEX_ZC_MAX_LEN)
#define UCT_GLEX_ZC_RX_SIZE     (UCT_GLEX_ZC_WORD_OFFSET + UCS_SYS_CACHE_LINE_SIZE)

typedef struct uct_glex_rx {
    ucs_list_link_t list; /* in vc->rx, by sequence number */
    uct_glex_vc_t *vc;
    uct_glex_buf_t *buf;    /* receive buffer, or NULL */
    struct uct_glex_op *op; /* the Gets in flight, or NULL */
    void *data;
    uint32_t length;
    uint16_t seq;
    uint16_t fifo_used; /* ER: units to return on delivery; 0: the data is a copy */
    uint8_t am_id;
    uint8_t er;        /* came through ER: consumed on delivery */
    uint8_t ready;     /* data is complete */
    uint8_t zc;        /* the data is a zero-copy descriptor whose payload must be fetched */
    uint8_t zc_posted; /* posted Gets of pieces and of the word */
    uint8_t sr_zc;     /* the data being fetched through SR is a descriptor */
    uct_glex_sr_t sr;  /* where an announced message is */
    uint8_t copy[UCT_GLEX_ZC_MAX_DESC] UCS_V_ALIGNED(8); /* copy of data that could not stay in its
                                                          * place */
} uct_glex_rx_t;

ucs_status_t uct_glex_rx_init(uct_glex_iface_t *iface);
void uct_glex_rx_cleanup(uct_glex_iface_t *iface);

/** A message that cannot be delivered at once: early, or zero-copy. An early message in `fifo_used`
 *  units of a FIFO (`er`) stays in the units. Other messages are copied. */
void uct_glex_rx_keep(uct_glex_vc_t *vc, uint16_t seq, uint8_t am_id, void *data, uint32_t length,
                      int er, uint16_t fifo_used, int zc);

/** An announced message, to be fetched */
void uct_glex_rx_add_sr(uct_glex_vc_t *vc, uint16_t seq, uint8_t am_id,
                        const uct_glex_sr_t *announced, int zc);

/** The operation UCT_GLEX_OP_FETCH of a message has ended */
void uct_glex_rx_fetched(uct_glex_rx_t *rx, ucs_status_t status);

/** Resources came free. Returns units to the next senders whose queues were full, and has
 *  uct_glex_rx_retry_waiting() try all waiting VCs again. */
void uct_glex_rx_retry_begin(uct_glex_iface_t *iface);

/** Try again the next VCs that wait for a buffer or the NIC: iface->sr.retry_left */
void uct_glex_rx_retry_waiting(uct_glex_iface_t *iface);

/** Fetch and deliver the next messages in order */
void uct_glex_rx_advance(uct_glex_vc_t *vc);

/** Drop all messages of a VC that is over */
void uct_glex_rx_purge(uct_glex_vc_t *vc);

/** A message that arrived in an MP */
static UCS_F_ALWAYS_INLINE void uct_glex_rx_add_mp(uct_glex_vc_t *vc, uint16_t seq, uint8_t am_id,
                                                   void *data, uint32_t length, int zc)
{
    if (ucs_unlikely((seq != vc->rx_seq) || zc)) {
        uct_glex_rx_keep(vc, seq, am_id, data, length, 0, 0, zc);
        return;
    }
    ++vc->rx_seq;
    uct_iface_trace_am(&vc->iface->super, UCT_AM_TRACE_TYPE_RECV, am_id, data, length, "RX: MP");
    uct_iface_invoke_am(&vc->iface->super, am_id, data, length, 0);
    if (ucs_unlikely(!ucs_list_is_empty(&vc->rx))) {
        uct_glex_rx_advance(vc);
    }
}

#endif
