#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_msg.h"
#include "glex_er.h"
#include "glex_op.h"
#include "glex_sr.h"

#include <ucs/debug/memtrack_int.h>
#include <string.h>

_Static_assert((int)UCT_GLEX_ER_FLAG_ZC == (int)UCT_GLEX_MP_FLAG_ZC, "one flag for both channels");

ucs_status_t uct_glex_msg_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                               int zc)
{
    unsigned flags = zc ? UCT_GLEX_MP_FLAG_ZC : 0;
    uct_glex_sr_msg_t msg;

    if ((vc->er_state == UCT_GLEX_ER_ACTIVE) && uct_glex_er_fits(vc, length)) {
        return uct_glex_er_send(vc, am_id, data, length, flags);
    }
    if (!uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR)) {
        return UCS_ERR_NO_RESOURCE;
    }
    if (length <= sizeof(msg.data)) {
        memcpy(msg.data, data, length);
        return uct_glex_sr_send_mp(vc, am_id, &msg, length, flags);
    }
    return uct_glex_sr_send(vc, am_id, data, length, flags);
}

int uct_glex_msg_can_keep(uct_glex_ep_t *ep)
{
    if (uct_glex_ep_make_vc(ep) != UCS_OK) {
        return 0; /* what is tried next says why */
    }
    switch (ep->vc->state) {
    case UCT_GLEX_VC_IDLE:
    case UCT_GLEX_VC_WAIT_MPQ:
    case UCT_GLEX_VC_CONNECTING:
    case UCT_GLEX_VC_ACCEPTING:
        return (ep->vc->first == NULL) && (ep->vc->num_blocked == 0);
    default:
        return 0;
    }
}

void *uct_glex_msg_alloc(size_t length)
{
    uct_glex_msg_t *msg = ucs_malloc(sizeof(*msg) + length, "glex_first_msg");

    return (msg == NULL) ? NULL : msg->data;
}

void uct_glex_msg_free(void *data)
{
    ucs_free(ucs_container_of(data, uct_glex_msg_t, data));
}

ucs_status_t uct_glex_msg_keep(uct_glex_ep_t *ep, uint8_t am_id, void *data, unsigned length,
                               int zc)
{
    uct_glex_msg_t *msg = ucs_container_of(data, uct_glex_msg_t, data);
    uct_glex_vc_t *vc   = ep->vc;
    uct_glex_ep_t *other;

    msg->op = uct_glex_op_new(vc, UCT_GLEX_OP_FIRST, NULL);
    if (msg->op == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }
    msg->am_id  = am_id;
    msg->length = length;
    msg->zc     = zc;
    vc->first   = msg;
    ++vc->num_blocked;
    ucs_list_for_each(other, &vc->eps, list) {
        other->blocked = 1;
    }
    uct_glex_op_posted(msg->op, 1);
    if (vc->state == UCT_GLEX_VC_IDLE) {
        uct_glex_vc_connect(vc);
    }
    return UCS_OK;
}

ucs_status_t uct_glex_msg_keep_copy(uct_glex_ep_t *ep, uint8_t am_id, const void *data,
                                    unsigned length, int zc)
{
    void *copy = uct_glex_msg_alloc(length);
    ucs_status_t status;

    if (copy == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }
    memcpy(copy, data, length);
    status = uct_glex_msg_keep(ep, am_id, copy, length, zc);
    if (status != UCS_OK) {
        uct_glex_msg_free(copy);
    }
    return status;
}

/* Others of the VC need not wait for it any more */
static void uct_glex_msg_forget(uct_glex_vc_t *vc)
{
    uct_glex_ep_t *ep;

    ucs_free(vc->first);
    vc->first = NULL;
    --vc->num_blocked;
    ucs_list_for_each(ep, &vc->eps, list) {
        ep->blocked = (ep->num_pending > 0);
    }
}

ucs_status_t uct_glex_msg_progress(uct_glex_vc_t *vc)
{
    uct_glex_msg_t *msg = vc->first;
    ucs_status_t status = uct_glex_msg_send(vc, msg->am_id, msg->data, msg->length, msg->zc);
    uint32_t id         = msg->op->id;

    if (status == UCS_ERR_NO_RESOURCE) {
        return status;
    }
    uct_glex_msg_forget(vc);
    uct_glex_op_event(vc->iface, id, status);
    return status;
}

void uct_glex_msg_purge(uct_glex_vc_t *vc)
{
    if (vc->first != NULL) {
        uct_glex_msg_forget(vc); /* its operation ends with all others of the VC */
    }
}
