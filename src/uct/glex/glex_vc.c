#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_vc.h"
#include "glex_ctl.h"
#include "glex_ep.h"
#include "glex_er.h"
#include "glex_op.h"
#include "glex_rx.h"

#include <ucs/datastruct/queue.h>
#include <ucs/arch/cpu.h>
#include <ucs/debug/memtrack_int.h>

#define UCT_GLEX_VC_INDEX_MASK 0xffffU

uct_glex_vc_t uct_glex_no_vc = {.state = UCT_GLEX_VC_IDLE};

uct_glex_vc_t *uct_glex_vc_find(uct_glex_iface_t *iface, uint64_t peer)
{
    khiter_t iter = kh_get(uct_glex_vc, &iface->vc_hash, peer);

    return (iter == kh_end(&iface->vc_hash)) ? NULL : kh_value(&iface->vc_hash, iter);
}

static void uct_glex_vc_unhash(uct_glex_vc_t *vc)
{
    khiter_t iter = kh_get(uct_glex_vc, &vc->iface->vc_hash, vc->peer);

    if ((iter != kh_end(&vc->iface->vc_hash)) && (kh_value(&vc->iface->vc_hash, iter) == vc)) {
        kh_del(uct_glex_vc, &vc->iface->vc_hash, iter);
    }
}

/* A name for the VC: its index in iface->vcs[] and a generation, so that late messages for an
 * interface that had this endpoint before are not taken for ours */
static ucs_status_t uct_glex_vc_assign_id(uct_glex_iface_t *iface, uct_glex_vc_t *vc)
{
    uct_glex_vc_t **vcs;
    unsigned size;

    if (iface->num_vcs > UCT_GLEX_VC_INDEX_MASK) {
        ucs_error("glex: more than %u peers at one interface", UCT_GLEX_VC_INDEX_MASK + 1);
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    if (iface->num_vcs == iface->vcs_size) {
        size = ucs_max(16, iface->vcs_size * 2);
        vcs  = ucs_realloc(iface->vcs, size * sizeof(*vcs), "glex_vcs");
        if (vcs == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        iface->vcs      = vcs;
        iface->vcs_size = size;
    }
    vc->id = iface->num_vcs | ((uint32_t)iface->vc_gen++ << 16);
    iface->vcs[iface->num_vcs++] = vc;
    return UCS_OK;
}

static ucs_status_t uct_glex_vc_new(uct_glex_iface_t *iface, uint64_t peer, uint32_t uuid,
                                    uct_glex_vc_t **vc_p)
{
    ucs_status_t status;
    uct_glex_vc_t *vc;
    khiter_t iter;
    int ret;

    status = ucs_posix_memalign((void**)&vc, UCS_SYS_CACHE_LINE_SIZE, sizeof(*vc), "glex_vc") == 0 ?
             UCS_OK : UCS_ERR_NO_MEMORY;
    if (status != UCS_OK) {
        goto err;
    }
    memset(vc, 0, sizeof(*vc));
    vc->iface       = iface;
    vc->peer        = peer;
    vc->peer_uuid   = uuid;
    vc->state       = UCT_GLEX_VC_IDLE;
    vc->status      = UCS_OK;
    vc->sr_patience = UCT_GLEX_ER_PATIENCE_MIN;
    ucs_list_head_init(&vc->eps);
    ucs_list_head_init(&vc->rx);
    ucs_queue_head_init(&vc->tx_ops);

    iter = kh_put(uct_glex_vc, &iface->vc_hash, peer, &ret);
    if (ret == UCS_KH_PUT_FAILED) {
        status = UCS_ERR_NO_MEMORY;
        goto err_free;
    }
    status = uct_glex_vc_assign_id(iface, vc);
    if (status != UCS_OK) {
        kh_del(uct_glex_vc, &iface->vc_hash, iter);
        goto err_free;
    }
    kh_value(&iface->vc_hash, iter) = vc;
    ucs_trace("glex: vc 0x%x to endpoint 0x%" PRIx64, vc->id, peer);
    *vc_p = vc;
    return UCS_OK;

err_free:
    ucs_free(vc);
err:
    ucs_error("glex: cannot make a connection to endpoint 0x%" PRIx64 ": %s", peer,
              ucs_status_string(status));
    return status;
}

ucs_status_t uct_glex_vc_get(uct_glex_iface_t *iface, uint64_t peer, uint32_t uuid,
                             uct_glex_vc_t **vc_p)
{
    uct_glex_vc_t *vc = uct_glex_vc_find(iface, peer);

    if (vc != NULL) {
        if (vc->peer_uuid == uuid) {
            *vc_p = vc;
            return UCS_OK;
        }
        /* The endpoint number has a new owner: the peer we knew is gone */
        uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
        uct_glex_vc_unhash(vc);
    }
    return uct_glex_vc_new(iface, peer, uuid, vc_p);
}

void uct_glex_vc_destroy(uct_glex_vc_t *vc)
{
    if (vc->state != UCT_GLEX_VC_FAILED) {
        vc->status = UCS_ERR_CANCELED;
        vc->state  = UCT_GLEX_VC_FAILED;
        uct_glex_op_fail_all(vc, UCS_ERR_CANCELED);
        uct_glex_rx_purge(vc);
        uct_glex_er_cleanup(vc);
    }
    ucs_assert(ucs_list_is_empty(&vc->eps));
    ucs_free(vc);
}

/* ---- entries of our MPQ: promised to peers as windows ---- */

static void uct_glex_vc_wait_mpq(uct_glex_vc_t *vc, uint8_t state)
{
    vc->state = state;
    if (vc->mpq_held) {
        uct_glex_vc_schedule(vc);
        return;
    }
    if (!vc->mpq_wait) {
        vc->mpq_wait = 1;
        ucs_list_add_tail(&vc->iface->mpq.wait, &vc->wait);
    }
    uct_glex_vc_retry_waiting(vc->iface);
}

void uct_glex_vc_connect(uct_glex_vc_t *vc)
{
    uct_glex_vc_wait_mpq(vc, UCT_GLEX_VC_WAIT_MPQ);
}

void uct_glex_vc_accept(uct_glex_vc_t *vc)
{
    uct_glex_vc_wait_mpq(vc, UCT_GLEX_VC_ACCEPTING);
}

/* Ask one peer, other than `except`, that has more credits than a newcomer for the surplus */
static void uct_glex_vc_recall_one(uct_glex_iface_t *iface, uct_glex_vc_t *except)
{
    uct_glex_vc_t *vc, *best = NULL;
    unsigned i;

    for (i = 0; i < iface->num_vcs; ++i) {
        vc = iface->vcs[i];
        if (vc->recalling) {
            return; /* one at a time: its answer leads here again */
        }
        if ((vc != except) && (vc->state == UCT_GLEX_VC_OPEN) &&
            (vc->mp_rx.window > iface->mpq.start) &&
            ((best == NULL) || (vc->mp_rx.window > best->mp_rx.window))) {
            best = vc;
        }
    }
    if (best != NULL) {
        best->recalling    = 1;
        best->recall_limit = best->mp_rx.rcvd + iface->mpq.start;
        uct_glex_ctl_post(best, UCT_GLEX_CTL_RECALL);
    }
}

void uct_glex_vc_retry_waiting(uct_glex_iface_t *iface)
{
    uct_glex_vc_t *vc, *tmp;
    unsigned window;

    ucs_list_for_each_safe(vc, tmp, &iface->mpq.wait, wait) {
        if (iface->mpq.free < UCT_GLEX_VC_CTL_UNITS + 1) {
            uct_glex_vc_recall_one(iface, NULL);
            return;
        }
        window             = ucs_min(iface->mpq.start, iface->mpq.free - UCT_GLEX_VC_CTL_UNITS);
        iface->mpq.free   -= window + UCT_GLEX_VC_CTL_UNITS;
        vc->mp_rx.window   = window;
        vc->mpq_held       = 1;
        vc->mpq_wait       = 0;
        ucs_list_del(&vc->wait);
        uct_glex_vc_schedule(vc);
    }
}

void uct_glex_vc_grow(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    uint16_t growth;

    if (vc->recalling || !ucs_list_is_empty(&iface->mpq.wait)) {
        return; /* newcomers first */
    }
    growth = uct_glex_credit_growth(&vc->mp_rx, iface->mpq.inc, iface->mpq.max,
                                    ucs_min(iface->mpq.free, iface->mpq.pool - iface->mpq.grown));
    if (growth == 0) {
        if (vc->mp_rx.window < iface->mpq.max) {
            uct_glex_vc_recall_one(iface, vc);
        }
        return;
    }
    vc->mp_rx.window += growth;
    iface->mpq.free  -= growth;
    iface->mpq.grown += growth;
}

static void uct_glex_vc_return_mpq(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    unsigned surplus        = vc->mp_rx.window > iface->mpq.start ?
                              vc->mp_rx.window - iface->mpq.start : 0;

    if (vc->mpq_wait) {
        ucs_list_del(&vc->wait);
        vc->mpq_wait = 0;
    }
    if (vc->mpq_held) {
        /* What the dead peer sent before lies in the queue before what successors will send, and is
         * discarded first */
        iface->mpq.free  += vc->mp_rx.window + UCT_GLEX_VC_CTL_UNITS;
        iface->mpq.grown -= ucs_min(surplus, iface->mpq.grown);
        vc->mpq_held      = 0;
    }
    vc->recalling = 0;
}

/* ---- life of a VC ---- */

int uct_glex_vc_has_credits(const uct_glex_vc_t *vc)
{
    uint16_t offset, skip;
    unsigned units;

    if (vc->state != UCT_GLEX_VC_OPEN) {
        return 0;
    }
    if (vc->er_tx != NULL) {
        units = ucs_min(uct_glex_er_units(vc, vc->iface->config.max_bcopy),
                        uct_glex_fifo_max_message(vc->tx_fifo.units));
        return uct_glex_fifo_reserve(&vc->tx_fifo, units, &offset, &skip);
    }
    return uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR) &&
           (uct_glex_credit_avail(&vc->mp_tx) > 0);
}

void uct_glex_vc_resume(uct_glex_vc_t *vc)
{
    uct_glex_ep_t *ep;

    if (vc->num_blocked == 0) {
        return;
    }
    ucs_list_for_each(ep, &vc->eps, list) {
        ucs_arbiter_group_schedule(&vc->iface->arbiter, &ep->arb_group);
    }
    uct_glex_iface_recheck(vc->iface);
}

void uct_glex_vc_fail(uct_glex_vc_t *vc, ucs_status_t status)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_ep_t *ep, *tmp;

    if (vc->state == UCT_GLEX_VC_FAILED) {
        return;
    }
    ucs_debug("glex: vc 0x%x to endpoint 0x%" PRIx64 " failed: %s", vc->id, vc->peer,
              ucs_status_string(status));
    if (vc->state == UCT_GLEX_VC_CONNECTING) {
        --iface->num_waiting;
    }
    vc->state  = UCT_GLEX_VC_FAILED;
    vc->status = status;
    if (vc->scheduled) {
        ucs_list_del(&vc->active);
        vc->scheduled = 0;
    }
    uct_glex_rx_purge(vc);
    uct_glex_er_cleanup(vc);
    uct_glex_vc_return_mpq(vc);
    uct_glex_op_fail_all(vc, status);
    ucs_list_for_each_safe(ep, tmp, &vc->eps, list) {
        uct_glex_ep_failed(ep, status);
    }
    uct_glex_vc_retry_waiting(iface);
    uct_glex_iface_recheck(iface);
}
