/*
 * SR: the shared channel (paper 003, section 4.2). A short message travels in an MP. A longer
 * message is packed into a send unit, and an MP announces the unit. The receiver fetches the
 * message when a receive unit is free, so many senders do not overload a receiver. If the receiver
 * can map the send unit, the handler reads the message in the send unit, and nothing is copied.
 */
#ifndef UCT_GLEX_SR_H
#define UCT_GLEX_SR_H

#include "core/glex_vc.h"
#include "chan/glex_er.h"
#include "chan/glex_op.h"

ucs_status_t uct_glex_sr_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config);
void uct_glex_sr_cleanup(uct_glex_iface_t *iface);

/* A message of SR in an MP */
typedef struct uct_glex_sr_msg {
    uct_glex_hdr_t hdr;
    uint8_t data[UCT_GLEX_MP_DATA_LEN];
} uct_glex_sr_msg_t;

_Static_assert(sizeof(uct_glex_sr_msg_t) == UCT_GLEX_MP_LEN, "no gaps");

/** The NIC did not take a message: log why, unless it is busy. Returns the status. */
ucs_status_t uct_glex_mp_refused(const uct_glex_vc_t *vc, glex_ret_t ret);

/** Send a message of `length` bytes, header first. NO_RESOURCE: the NIC is busy, try again. */
static inline ucs_status_t uct_glex_mp_send(uct_glex_vc_t *vc, void *data, unsigned length)
{
    glex_imm_mp_req_t req;
    glex_ret_t ret;

    req.rmt_ep_addr = uct_glex_vc_dest(vc);
    req.data = data;
    req.len = length;
    req.flag = GLEX_EXT_FLAG_NO_LOSS;
    req.next = NULL;
    ret = glex_send_imm_mp(vc->iface->nic, &req, NULL);
    return ucs_likely(ret == GLEX_SUCCESS) ? UCS_OK : uct_glex_mp_refused(vc, ret);
}

/** Send `length` bytes, already in msg->data, in one MP: UCT_GLEX_MP_AM or UCT_GLEX_MP_SR.
 *  NO_RESOURCE: no credits. */
ucs_status_t uct_glex_sr_send_mp(uct_glex_vc_t *vc, uint8_t type, uint8_t am_id,
                                 uct_glex_sr_msg_t *msg, unsigned length, unsigned flags);

/** Flags of the next message. Requests more credits early enough, so that the remaining credits
 *  last until the answer. */
static UCS_F_ALWAYS_INLINE unsigned uct_glex_sr_flags(const uct_glex_vc_t *vc, unsigned flags,
                                                      uint16_t avail)
{
    return flags | ((((avail - 1) * 4) <= vc->tx_peak) ? UCT_GLEX_FLAG_MORE : 0);
}

/** The next message was sent */
static UCS_F_ALWAYS_INLINE void uct_glex_sr_sent(uct_glex_vc_t *vc)
{
    uct_glex_vc_advertised(vc);
    vc->tx.word += UCT_GLEX_HDR_ONE_SEQ;
    ++vc->mp_tx.sent;
    uct_glex_er_count_sr(vc);
}

#if UCT_GLEX_NIC_MESSAGES
/** Send `header` and `length` further bytes, UCT_GLEX_MP_DATA_LEN in total at most. NO_RESOURCE: no
 *  credits. */
static UCS_F_ALWAYS_INLINE ucs_status_t uct_glex_sr_send_short(uct_glex_vc_t *vc, uint8_t am_id,
                                                               uint64_t header, const void *data,
                                                               unsigned length)
{
    uint16_t avail = uct_glex_credit_avail(&vc->mp_tx);
    glex_ep_addr_t peer = uct_glex_vc_dest(vc);
    glex_ret_t ret;

    if (ucs_unlikely(avail == 0)) {
        return UCS_ERR_NO_RESOURCE;
    }
    ret = glex_ext_post_mp(
        vc->iface->nic, peer,
        uct_glex_vc_hdr_word(vc, UCT_GLEX_MP_AM, am_id, uct_glex_sr_flags(vc, 0, avail)),
        vc->tx.credits.word, header, data, length);
    if (ucs_unlikely(ret != GLEX_SUCCESS)) {
        return uct_glex_mp_refused(vc, ret);
    }
    uct_glex_sr_sent(vc);
    return UCS_OK;
}
#endif

/** Send a message of known length up to max_bcopy */
ucs_status_t uct_glex_sr_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                              unsigned flags);

/** Pack and send a message of up to max_bcopy bytes. Returns its length or an error. */
ssize_t uct_glex_sr_bcopy(uct_glex_vc_t *vc, uint8_t am_id, uct_pack_callback_t pack_cb, void *arg);

#endif
