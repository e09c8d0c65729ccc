#include "chan/glex_sr.h"
#include "chan/glex_op.h"

#include <string.h>

/* Units allocated at a time. An idle process has no units. */
#define UCT_GLEX_SR_GROW 8

ucs_status_t uct_glex_sr_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config)
{
    unsigned zc_max = ucs_max(config->zc_req_capacity, 2);
    ucs_status_t status;

    ucs_list_head_init(&iface->sr.rx_wait);
    ucs_list_head_init(&iface->sr.unreleased);
    status = uct_glex_buf_pool_init(&iface->sr.tx, iface->md, iface->nic, GLEX_MEM_READ,
                                    config->srq_unit_size, UCT_GLEX_SR_GROW, config->srq_capacity,
                                    "glex_sr_tx");
    if (status != UCS_OK) {
        return status;
    }
    status = uct_glex_buf_pool_init(&iface->sr.rx, iface->md, iface->nic, GLEX_MEM_WRITE,
                                    config->srq_unit_size, UCT_GLEX_SR_GROW, config->srq_capacity,
                                    "glex_sr_rx");
    if (status != UCS_OK) {
        return status;
    }
    return uct_glex_buf_pool_init(&iface->sr.zc_rx, iface->md, iface->nic, GLEX_MEM_WRITE,
                                  UCT_GLEX_ZC_RX_SIZE, 2, zc_max, "glex_zc_rx");
}

void uct_glex_sr_cleanup(uct_glex_iface_t *iface)
{
    uct_glex_buf_pool_cleanup(&iface->sr.zc_rx);
    uct_glex_buf_pool_cleanup(&iface->sr.rx);
    uct_glex_buf_pool_cleanup(&iface->sr.tx);
}

ucs_status_t uct_glex_mp_refused(const uct_glex_vc_t *vc, glex_ret_t ret)
{
    if (ret != GLEX_BUSY) {
        ucs_error("glex: cannot send a message to endpoint 0x%" PRIx64 ": %s", vc->peer,
                  glex_error_str(ret));
    }
    return uct_glex_status(ret);
}

ucs_status_t uct_glex_sr_send_mp(uct_glex_vc_t *vc, uint8_t type, uint8_t am_id,
                                 uct_glex_sr_msg_t *msg, unsigned length, unsigned flags)
{
    uint16_t avail = uct_glex_credit_avail(&vc->mp_tx);
    ucs_status_t status;

    if (ucs_unlikely(avail == 0)) {
        return UCS_ERR_NO_RESOURCE;
    }
    msg->hdr.word = uct_glex_vc_hdr_word(vc, type, am_id, uct_glex_sr_flags(vc, flags, avail));
    msg->hdr.credits = vc->tx.credits;
    status = uct_glex_mp_send(vc, msg, sizeof(msg->hdr) + length);
    if (ucs_likely(status == UCS_OK)) {
        uct_glex_sr_sent(vc);
    }
    return status;
}

/* Send the message in a send unit: in the MP if the message fits, else by announcing the unit */
static ucs_status_t uct_glex_sr_send_unit(uct_glex_vc_t *vc, uint8_t am_id, uct_glex_buf_t *unit,
                                          size_t length, unsigned flags)
{
    uct_glex_sr_msg_t msg;
    uct_glex_sr_t *sr = (uct_glex_sr_t *)msg.data;
    ucs_status_t status;
    uct_glex_op_t *op;

    if (length <= sizeof(msg.data)) {
        memcpy(msg.data, unit->ptr, length);
        status = uct_glex_sr_send_mp(vc, UCT_GLEX_MP_AM, am_id, &msg, length, flags);
        if (status == UCS_OK) {
            uct_glex_buf_put(unit);
        }
        return status;
    }

    status = uct_glex_op_new(vc, UCT_GLEX_OP_SR, NULL, &op);
    if (status != UCS_OK) {
        return status;
    }
    sr->mh = unit->mh.v;
    sr->offset = unit->offset;
    sr->length = length;
    sr->op_id = op->id;
    sr->resv = 0;
    status = uct_glex_sr_send_mp(vc, UCT_GLEX_MP_SR, am_id, &msg, sizeof(*sr), flags);
    if (status != UCS_OK) {
        uct_glex_op_cancel(op);
        return status;
    }
    glex_ext_count_messages(vc->iface->nic, GLEX_EXT_MESSAGE_BUFFERED, 1, length);
    op->buf = unit; /* back to the pool with the peer's remote event */
    uct_glex_op_posted(op, 1);
    return UCS_OK;
}

/* Get a send unit, if credits are left. Then only the NIC can refuse the message. The share of SR
 * operations limits the units of the VC, so the pool needs no limit for the VC. */
static ucs_status_t uct_glex_sr_get_unit(uct_glex_vc_t *vc, uct_glex_buf_t **unit_p)
{
    if ((uct_glex_credit_avail(&vc->mp_tx) == 0) || !uct_glex_op_is_allowed(vc, UCT_GLEX_OP_SR)) {
        return UCS_ERR_NO_RESOURCE;
    }
    return uct_glex_buf_get(&vc->iface->sr.tx, 0, unit_p);
}

ucs_status_t uct_glex_sr_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                              unsigned flags)
{
    uct_glex_buf_t *unit;
    ucs_status_t status;

    status = uct_glex_sr_get_unit(vc, &unit);
    if (status != UCS_OK) {
        return status;
    }
    memcpy(unit->ptr, data, length);
    status = uct_glex_sr_send_unit(vc, am_id, unit, length, flags);
    if (status != UCS_OK) {
        uct_glex_buf_put(unit);
    }
    return status;
}

ssize_t uct_glex_sr_bcopy(uct_glex_vc_t *vc, uint8_t am_id, uct_pack_callback_t pack_cb, void *arg)
{
    uct_glex_buf_t *unit;
    ucs_status_t status;
    size_t length;

    status = uct_glex_sr_get_unit(vc, &unit);
    if (status != UCS_OK) {
        return status;
    }
    length = pack_cb(unit->ptr, arg);
    ucs_assertv(length <= vc->iface->config.max_bcopy, "packed %zu bytes, at most %zu", length,
                vc->iface->config.max_bcopy);
    /* The packed message may fit into a FIFO that is too small for max_bcopy */
    if ((vc->er_tx != NULL) && uct_glex_er_fits(vc, length)) {
        status = uct_glex_er_send(vc, am_id, unit->ptr, length, 0);
        if (status == UCS_OK) {
            uct_glex_buf_put(unit);
            return length;
        }
    }
    status = uct_glex_sr_send_unit(vc, am_id, unit, length, 0);
    if (status != UCS_OK) {
        uct_glex_buf_put(unit);
        return status;
    }
    return length;
}
