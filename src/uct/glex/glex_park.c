#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_park.h"
#include "glex_ctl.h"
#include "glex_er.h"

/* All that goes through a VC, as one number that changes with every message */
static uint16_t uct_glex_park_traffic(const uct_glex_vc_t *vc)
{
    return vc->tx_seq + vc->rx_seq;
}

/* Nothing is being said about it that parking would cut off */
static int uct_glex_park_is_possible(const uct_glex_vc_t *vc)
{
    return (vc->state == UCT_GLEX_VC_OPEN) && (vc->ctl == 0) && !vc->ctl_inflight &&
           !vc->want_grant && !vc->recalling && (vc->er_state != UCT_GLEX_ER_REQUESTED);
}

/* The VC after the last one parked, preferably without traffic since the last look: so that all take
 * turns even if none is ever idle */
static uct_glex_vc_t *uct_glex_park_choose(uct_glex_iface_t *iface)
{
    uct_glex_vc_t *vc, *busy = NULL;
    unsigned i, traffic;

    for (i = 0; i < iface->num_vcs; ++i) {
        vc = iface->vcs[(iface->mpq.park_hand + 1 + i) % iface->num_vcs];
        if (!uct_glex_park_is_possible(vc)) {
            continue;
        }
        traffic = uct_glex_park_traffic(vc);
        if (traffic == vc->park_mark) {
            return vc;
        }
        vc->park_mark = traffic;
        if (busy == NULL) {
            busy = vc;
        }
    }
    return busy;
}

void uct_glex_park_one(uct_glex_iface_t *iface)
{
    uct_glex_vc_t *vc = iface->mpq.parking;

    if (vc == NULL) {
        vc = iface->mpq.parking = uct_glex_park_choose(iface);
    }
    if ((vc == NULL) || !uct_glex_park_is_possible(vc)) {
        return; /* tried again with every message that may have changed that */
    }
    iface->mpq.park_hand = vc->id & 0xffff;
    if ((vc->er_tx == NULL) && !vc->has_rx_fifo) {
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_PARK);
        return;
    }
    /* FIFOs need control messages: they go first */
    if (vc->er_tx != NULL) {
        uct_glex_er_release(vc);
    }
    uct_glex_er_revoke(vc);
}

/* Closed in both directions. Credits are void: those told before belong to an earlier epoch. */
static void uct_glex_park_finish(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;

    vc->state        = UCT_GLEX_VC_IDLE;
    vc->parked       = 0;
    vc->ctl          = 0;
    vc->ctl_inflight = 0;
    vc->ack_due      = 0;
    vc->want_grant   = 0;
    vc->er_state     = UCT_GLEX_ER_NONE;
    vc->mp_tx.limit  = vc->mp_tx.sent;
    vc->mp_tx.epoch  = (vc->mp_tx.epoch + 1) & UCT_GLEX_EPOCH_MASK;
    vc->mp_rx.epoch  = (vc->mp_rx.epoch + 1) & UCT_GLEX_EPOCH_MASK;
    uct_glex_vc_return_mpq(vc);
    vc->mp_rx.window = 0;
    ucs_debug("glex: vc 0x%x to endpoint 0x%" PRIx64 " is parked", vc->id, vc->peer);

    uct_glex_vc_retry_waiting(iface);
    uct_glex_ctl_take_kept_connect(vc);
    if ((vc->num_blocked > 0) && (vc->state == UCT_GLEX_VC_IDLE)) {
        uct_glex_vc_connect(vc); /* behind those that waited for its entries */
    }
}

void uct_glex_park_check(uct_glex_vc_t *vc)
{
    if (vc->parked && (vc->mp_rx.rcvd == vc->park_sent)) {
        uct_glex_park_finish(vc);
    }
}

void uct_glex_park_recv_answer(uct_glex_vc_t *vc, uint16_t mp_sent)
{
    if (vc->state != UCT_GLEX_VC_PARKING) {
        ucs_debug("glex: endpoint 0x%" PRIx64 " answered a PARK that was not sent", vc->peer);
        return;
    }
    vc->parked    = 1;
    vc->park_sent = mp_sent;
    uct_glex_park_check(vc);
}

void uct_glex_park_recv(uct_glex_vc_t *vc, uint16_t mp_sent)
{
    if (vc->state == UCT_GLEX_VC_PARKING) {
        uct_glex_park_recv_answer(vc, mp_sent);
        return;
    }
    if (vc->state == UCT_GLEX_VC_OPEN) {
        vc->state     = UCT_GLEX_VC_CLOSING;
        vc->park_sent = mp_sent;
        uct_glex_vc_schedule(vc);
    }
}

void uct_glex_park_answered(uct_glex_vc_t *vc)
{
    uct_glex_park_finish(vc);
}
