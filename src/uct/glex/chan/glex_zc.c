#include "chan/glex_zc.h"
#include "chan/glex_er.h"
#include "chan/glex_op.h"
#include "chan/glex_sr.h"

#include <uct/base/uct_iov.inl>
#include <string.h>

static ucs_status_t uct_glex_zc_send_descriptor(uct_glex_vc_t *vc, uint8_t am_id, const void *desc,
                                                unsigned length)
{
    uct_glex_sr_msg_t msg;

    if ((vc->er_tx != NULL) && uct_glex_er_fits(vc, length)) {
        return uct_glex_er_send(vc, am_id, desc, length, UCT_GLEX_FLAG_ZC);
    }
    if (!uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR)) {
        return UCS_ERR_NO_RESOURCE;
    }
    if (length <= sizeof(msg.data)) {
        memcpy(msg.data, desc, length);
        return uct_glex_sr_send_mp(vc, UCT_GLEX_MP_AM, am_id, &msg, length, UCT_GLEX_FLAG_ZC);
    }
    return uct_glex_sr_send(vc, am_id, desc, length, UCT_GLEX_FLAG_ZC);
}

/* The handle of a piece. If the domain needs no handles for puts and gets, the piece may have no
 * handle. Then the piece is registered for the time of the operation. */
static ucs_status_t uct_glex_zc_memh(uct_glex_op_t *op, const uct_iov_t *iov, size_t length,
                                     uct_glex_memh_t **memh_p)
{
    ucs_status_t status;

    if (!uct_glex_md_needs_memh(op->vc->iface->md) && (iov->memh == UCT_MEM_HANDLE_NULL)) {
        status = uct_glex_memh_new(op->vc->iface->md, iov->buffer, length, 0, memh_p);
        if (status != UCS_OK) {
            return status;
        }
        (*memh_p)->next = op->memh;
        op->memh = *memh_p;
    } else {
        *memh_p = iov->memh;
    }
    return UCS_OK;
}

/* Fill the descriptor. Empty pieces are left out. */
static ucs_status_t uct_glex_zc_fill(uct_glex_op_t *op, uct_glex_zc_t *zc, const uct_iov_t *iov,
                                     size_t iovcnt)
{
    uct_glex_iface_t *iface = op->vc->iface;
    uct_glex_place_t place;
    uct_glex_memh_t *memh;
    ucs_status_t status;
    size_t i, length;

    zc->iovcnt = 0;
    zc->length = 0;
    for (i = 0; i < iovcnt; ++i) {
        length = uct_iov_get_length(&iov[i]);
        if (length == 0) {
            continue;
        }
        status = uct_glex_zc_memh(op, &iov[i], length, &memh);
        if (status == UCS_OK) {
            status = uct_glex_memh_place(iface->md, memh, iface->ep_index, iov[i].buffer, &place);
        }
        if (status != UCS_OK) {
            return status;
        }
        zc->iov[zc->iovcnt].mh = place.mh.v;
        zc->iov[zc->iovcnt].offset = place.offset;
        zc->iov[zc->iovcnt].length = length;
        zc->length += length;
        ++zc->iovcnt;
    }
    return UCS_OK;
}

ucs_status_t uct_glex_zc_send(uct_glex_ep_t *ep, uint8_t am_id, const void *header,
                              unsigned header_length, const uct_iov_t *iov, size_t iovcnt,
                              uct_completion_t *comp)
{
    uint8_t desc[UCT_GLEX_ZC_MAX_DESC] UCS_V_ALIGNED(8);
    uct_glex_zc_t *zc = (uct_glex_zc_t *)desc;
    uct_glex_vc_t *vc = ep->vc;
    ucs_status_t status;
    uct_glex_op_t *op;
    size_t length;

    status = uct_glex_op_new(vc, UCT_GLEX_OP_ZC, comp, &op);
    if (status != UCS_OK) {
        return status;
    }
    op->ep = &ep->super.super;
    status = uct_glex_buf_get(&vc->iface->ops.words, 0, &op->buf);
    if (status != UCS_OK) {
        goto err_cancel;
    }
    status = uct_glex_zc_fill(op, zc, iov, iovcnt);
    if (status != UCS_OK) {
        goto err_cancel;
    }
    *(uint64_t *)op->buf->ptr = op->id;
    zc->op_id = op->id;
    zc->header_length = header_length;
    zc->word_mh = op->buf->mh.v;
    zc->word_offset = op->buf->offset;
    length = sizeof(*zc) + zc->iovcnt * sizeof(zc->iov[0]);
    if (header_length > 0) {
        memcpy(desc + length, header, header_length); /* an empty header may be NULL */
    }
    status = uct_glex_zc_send_descriptor(vc, am_id, desc, length + header_length);
    if (status != UCS_OK) {
        goto err_cancel;
    }
    if (zc->iovcnt == 0) {
        uct_glex_op_cancel(op); /* without payload there is no event */
        return UCS_OK;
    }
    glex_ext_count_messages(vc->iface->nic, GLEX_EXT_MESSAGE_ZCOPY, 1, zc->length);
    uct_glex_op_posted(op, 1);
    return UCS_INPROGRESS;

err_cancel:
    uct_glex_op_cancel(op);
    return status;
}
