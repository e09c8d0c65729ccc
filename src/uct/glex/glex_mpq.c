#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_mpq.h"
#include "glex_ctl.h"

/* Recalls on their way at once: a peer that does not progress must not hold up all others */
#define UCT_GLEX_MPQ_RECALLS 4

/* Entries that a VC takes at least */
#define UCT_GLEX_MPQ_LEAST (UCT_GLEX_VC_CTL_UNITS + UCT_GLEX_CREDIT_LEAST)

ucs_status_t uct_glex_mpq_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                               unsigned capacity)
{
    /* For CONNECTs, and for what was handled but not discarded yet */
    unsigned reserve = ucs_max(4, capacity / 4) + UCT_GLEX_POLL_BATCH;

    if (capacity < reserve + UCT_GLEX_MPQ_LEAST) {
        ucs_error("glex: a message queue of %u entries is too small: raise "
                  "UCX_GLEX_EP_MPQ_CAPACITY to 64 or more", capacity);
        return UCS_ERR_INVALID_PARAM;
    }
    memset(&iface->mpq, 0, sizeof(iface->mpq));
    iface->mpq.free  = capacity - reserve;
    /* A peer that computes does not give credits back: growth must leave room for newcomers */
    iface->mpq.pool  = (config->ep_mpq_pool_units == 0) ? iface->mpq.free / 4 :
                       ucs_min((int)config->ep_mpq_pool_units, iface->mpq.free);
    iface->mpq.start = config->sr_credit_start;
    iface->mpq.inc   = config->sr_credit_inc;
    iface->mpq.max   = config->sr_credit_max;
    ucs_list_head_init(&iface->mpq.wait);
    return UCS_OK;
}

/* The VC with most credits among those that used fewest since the last look */
static uct_glex_vc_t *uct_glex_mpq_choose(uct_glex_iface_t *iface, uct_glex_vc_t *except,
                                          unsigned least)
{
    uct_glex_vc_t *vc, *best = NULL;
    uint16_t used, best_used = 0;
    unsigned i;

    for (i = 0; i < iface->num_vcs; ++i) {
        vc = iface->vcs[i];
        if ((vc == except) || (vc->state != UCT_GLEX_VC_OPEN) || vc->recalling ||
            (vc->mp_rx.window <= least)) {
            continue;
        }
        used            = vc->mp_rx.rcvd - vc->recall_mark;
        vc->recall_mark = vc->mp_rx.rcvd;
        if ((best == NULL) || (used < best_used) ||
            ((used == best_used) && (vc->mp_rx.window > best->mp_rx.window))) {
            best      = vc;
            best_used = used;
        }
    }
    return best;
}

/* Ask a peer, other than `except`, for what it has beyond `least`. Returns 0 if there is none. */
static int uct_glex_mpq_recall(uct_glex_iface_t *iface, uct_glex_vc_t *except, unsigned least)
{
    uct_glex_vc_t *vc = uct_glex_mpq_choose(iface, except, least);

    if (vc == NULL) {
        return 0;
    }
    vc->recalling    = 1;
    vc->recall_limit = vc->mp_rx.rcvd + least;
    ++iface->mpq.recalls;
    uct_glex_ctl_post(vc, UCT_GLEX_CTL_RECALL);
    return 1;
}

/* There is nothing for newcomers. Where they must not come in without, they wait. */
static int uct_glex_mpq_exhausted(uct_glex_iface_t *iface)
{
    unsigned least = UCT_GLEX_NIC_LOSSLESS ? iface->mpq.start : UCT_GLEX_CREDIT_LEAST;

    if ((iface->mpq.recalls < UCT_GLEX_MPQ_RECALLS) &&
        !uct_glex_mpq_recall(iface, NULL, least) && (iface->mpq.recalls == 0) &&
        !UCT_GLEX_NIC_LOSSLESS && !iface->mpq.told_full) {
        iface->mpq.told_full = 1;
        ucs_error("glex: %u peers use up the message queue, and others wait to connect: raise "
                  "UCX_GLEX_EP_MPQ_CAPACITY to %u entries for each peer, and a third more",
                  iface->num_vcs, UCT_GLEX_MPQ_LEAST);
    }
    return !UCT_GLEX_NIC_LOSSLESS;
}

void uct_glex_mpq_retry(uct_glex_iface_t *iface)
{
    uct_glex_vc_t *vc, *tmp;
    unsigned window;

    ucs_list_for_each_safe(vc, tmp, &iface->mpq.wait, mpq_wait) {
        if ((iface->mpq.free < UCT_GLEX_MPQ_LEAST) && uct_glex_mpq_exhausted(iface)) {
            return;
        }
        window = UCT_GLEX_CREDIT_LEAST;
        if (iface->mpq.free > UCT_GLEX_MPQ_LEAST) {
            window = ucs_min(iface->mpq.start, iface->mpq.free - UCT_GLEX_VC_CTL_UNITS);
        }
        iface->mpq.free -= window + UCT_GLEX_VC_CTL_UNITS;
        vc->mp_rx.window = window;
        uct_glex_vc_set_limit(vc);
        vc->mpq_base     = window;
        vc->mpq_held     = 1;
        vc->mpq_waiting  = 0;
        ucs_list_del(&vc->mpq_wait);
        uct_glex_vc_schedule(vc);
    }
}

void uct_glex_mpq_enter(uct_glex_vc_t *vc)
{
    if (vc->mpq_held) {
        uct_glex_vc_schedule(vc);
        return;
    }
    if (!vc->mpq_waiting) {
        vc->mpq_waiting = 1;
        ucs_list_add_tail(&vc->iface->mpq.wait, &vc->mpq_wait);
    }
    uct_glex_mpq_retry(vc->iface);
}

void uct_glex_mpq_grow(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    uint16_t growth;

    if (vc->recalling || !ucs_list_is_empty(&iface->mpq.wait)) {
        return; /* newcomers first */
    }
    growth = uct_glex_credit_growth(&vc->mp_rx, iface->mpq.inc, iface->mpq.max,
                                    ucs_max(ucs_min(iface->mpq.free,
                                                    iface->mpq.pool - iface->mpq.grown), 0));
    if (growth > 0) {
        vc->mp_rx.window += growth;
        uct_glex_vc_set_limit(vc);
        iface->mpq.free  -= growth;
        iface->mpq.grown += growth;
        return;
    }
    /* Looking for somebody who has too much means looking at all VCs: not at every message */
    if ((vc->mp_rx.window < iface->mpq.max) && (iface->mpq.recalls == 0) &&
        (++iface->mpq.asked > iface->num_vcs)) {
        iface->mpq.asked = 0;
        uct_glex_mpq_recall(iface, vc, iface->mpq.start);
    }
}

static void uct_glex_mpq_recall_done(uct_glex_vc_t *vc)
{
    if (vc->recalling) {
        vc->recalling = 0;
        --vc->iface->mpq.recalls;
    }
}

void uct_glex_mpq_recalled(uct_glex_vc_t *vc, uint16_t limit)
{
    uct_glex_iface_t *iface = vc->iface;
    uint16_t before         = vc->mp_rx.window;

    if (!vc->recalling) {
        return;
    }
    uct_glex_mpq_recall_done(vc);
    iface->mpq.free += uct_glex_credit_recalled(&vc->mp_rx, &vc->told_limit, limit,
                                                UCT_GLEX_CREDIT_LEAST, UCT_GLEX_EPOCH_MASK);
    uct_glex_vc_set_limit(vc);
    iface->mpq.grown -= before - ucs_max(vc->mp_rx.window, vc->mpq_base);
    vc->mpq_base      = ucs_min(vc->mpq_base, vc->mp_rx.window);
    uct_glex_vc_schedule(vc); /* it may be owed the least window */
    uct_glex_mpq_retry(iface);
}

void uct_glex_mpq_return(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;

    if (vc->mpq_waiting) {
        ucs_list_del(&vc->mpq_wait);
        vc->mpq_waiting = 0;
    }
    if (vc->mpq_held) {
        /* What the dead peer sent before lies in the queue before what successors will send, and is
         * discarded first */
        iface->mpq.free  += vc->mp_rx.window + UCT_GLEX_VC_CTL_UNITS;
        iface->mpq.grown -= vc->mp_rx.window - vc->mpq_base;
        vc->mpq_held      = 0;
    }
    uct_glex_mpq_recall_done(vc);
}
