#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_first.h"
#include "glex_ctl.h"
#include "glex_op.h"
#include "glex_rx.h"
#include "glex_sr.h"

#include <ucs/debug/memtrack_int.h>
#include <string.h>

int uct_glex_first_is_next(uct_glex_ep_t *ep)
{
    return (uct_glex_ep_make_vc(ep) == UCS_OK) && (ep->vc->state == UCT_GLEX_VC_IDLE);
}

/* Connect, with this message. It is kept in case the CONNECT is lost. */
static ucs_status_t uct_glex_first_connect(uct_glex_vc_t *vc, uint8_t am_id, unsigned flags,
                                           const void *data, unsigned length)
{
    uct_glex_first_t *first = ucs_malloc(sizeof(*first), "glex_first");

    if (first == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    first->op = uct_glex_op_new(vc, UCT_GLEX_OP_FIRST, NULL);
    if (first->op == NULL) {
        ucs_free(first);
        return UCS_ERR_NO_RESOURCE;
    }
    first->am_id  = am_id;
    first->flags  = flags | UCT_GLEX_FLAG_FIRST;
    first->seq    = vc->tx.seq++;
    first->length = length;
    memcpy(first->data, data, length);
    vc->first     = first;
    uct_glex_op_posted(first->op, 1);

    uct_glex_vc_connect(vc);
    uct_glex_ctl_connect_now(vc); /* the program may not call progress soon */
    return UCS_OK;
}

/* A message that lies in a send unit */
static ucs_status_t uct_glex_first_send_unit(uct_glex_vc_t *vc, uint8_t am_id, uct_glex_buf_t *unit,
                                             unsigned length, unsigned flags)
{
    ucs_status_t status;
    uct_glex_op_t *op;
    uct_glex_sr_t sr;

    if (length <= UCT_GLEX_FIRST_LEN) {
        status = uct_glex_first_connect(vc, am_id, flags, unit->ptr, length);
        if (status == UCS_OK) {
            uct_glex_buf_put(unit);
        }
        return status;
    }
    op = uct_glex_sr_announce(vc, &sr, unit, length);
    if (op == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }
    status = uct_glex_first_connect(vc, am_id, flags | UCT_GLEX_FLAG_FIRST_SR, &sr, sizeof(sr));
    return uct_glex_sr_announced(op, unit, status);
}

ucs_status_t uct_glex_first_send(uct_glex_ep_t *ep, uint8_t am_id, const void *data,
                                 unsigned length, int zc)
{
    unsigned flags = zc ? UCT_GLEX_FLAG_ZC : 0;
    uct_glex_buf_t *unit;
    ucs_status_t status;

    if (length <= UCT_GLEX_FIRST_LEN) {
        return uct_glex_first_connect(ep->vc, am_id, flags, data, length);
    }
    unit = uct_glex_buf_get(&ep->vc->iface->sr.tx);
    if (unit == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }
    memcpy(unit->ptr, data, length);
    status = uct_glex_first_send_unit(ep->vc, am_id, unit, length, flags);
    if (status != UCS_OK) {
        uct_glex_buf_put(unit);
    }
    return status;
}

ssize_t uct_glex_first_bcopy(uct_glex_ep_t *ep, uint8_t am_id, uct_pack_callback_t pack_cb,
                             void *arg)
{
    uct_glex_buf_t *unit = uct_glex_buf_get(&ep->vc->iface->sr.tx);
    ucs_status_t status;
    size_t length;

    if (unit == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }
    length = pack_cb(unit->ptr, arg);
    status = uct_glex_first_send_unit(ep->vc, am_id, unit, length, 0);
    if (status != UCS_OK) {
        uct_glex_buf_put(unit);
        return status;
    }
    return length;
}

unsigned uct_glex_first_append(const uct_glex_vc_t *vc, uct_glex_hdr_t *hdr, void *data)
{
    const uct_glex_first_t *first = vc->first;

    if (first == NULL) {
        return 0;
    }
    hdr->type_am = uct_glex_hdr_type_am(uct_glex_hdr_type(hdr->word), first->am_id);
    hdr->seq     = first->seq;
    hdr->flags  |= first->flags;
    memcpy(data, first->data, first->length);
    return first->length;
}

void uct_glex_first_recv(uct_glex_vc_t *vc, const uct_glex_hdr_t *hdr, void *data,
                         unsigned length)
{
    uint8_t am_id = uct_glex_hdr_am_id(hdr->word);
    int zc        = !!(hdr->flags & UCT_GLEX_FLAG_ZC);

    if (!(hdr->flags & UCT_GLEX_FLAG_FIRST_SR)) {
        uct_glex_rx_add_mp(vc, hdr->seq, am_id, data, length, zc);
        return;
    }
    if (length >= sizeof(uct_glex_sr_t)) {
        uct_glex_rx_add_sr(vc, hdr->seq, am_id, data, zc);
        return;
    }
    ucs_error("glex: malformed first message from endpoint 0x%" PRIx64, vc->peer);
    uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
}

void uct_glex_first_arrived(uct_glex_vc_t *vc)
{
    uint32_t id = vc->first->op->id;

    uct_glex_first_purge(vc);
    uct_glex_op_event(vc->iface, id, UCS_OK);
}

/* Its operation ends with all others of the VC */
void uct_glex_first_purge(uct_glex_vc_t *vc)
{
    ucs_free(vc->first);
    vc->first = NULL;
}
