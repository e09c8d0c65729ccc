#include "conn/glex_mpq.h"
#include "chan/glex_er.h"
#include "conn/glex_ctl.h"

#include <ucs/sys/math.h>

/* Recalls without an answer at once. More than one, because a peer may not call progress. */
#define UCT_GLEX_MPQ_RECALLS 4

/* Fewest entries of a VC */
#define UCT_GLEX_MPQ_LEAST (UCT_GLEX_VC_CTL_UNITS + UCT_GLEX_CREDIT_LEAST)

/* A VC is observed for this time before it counts as idle: long enough for all processes that share
 * a processor to run */
#define UCT_GLEX_MPQ_IDLE_MS 16

/* A VC is idle if it uses fewer credits than the one that asks for more, by this factor */
#define UCT_GLEX_MPQ_IDLE_PART 8u

/* Entries for windows beyond their first size. A peer that computes does not answer recalls: where
 * new peers must wait for entries, growth leaves most of them free. */
static int uct_glex_mpq_default_pool(int free)
{
    return UCT_GLEX_NIC_LOSSLESS ? free / 4 * 3 : free / 4;
}

ucs_status_t uct_glex_mpq_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                               unsigned capacity)
{
    /* For CONNECTs, and for entries that were handled but not discarded yet */
    unsigned reserve = ucs_max(4, capacity / 4) + UCT_GLEX_POLL_BATCH;

    if (capacity < reserve + UCT_GLEX_MPQ_LEAST) {
        ucs_error("glex: a message queue of %u entries is too small: raise "
                  "UCX_GLEX_EP_MPQ_CAPACITY to 64 or more", capacity);
        return UCS_ERR_INVALID_PARAM;
    }
    iface->mpq.free  = capacity - reserve;
    iface->mpq.pool  = (config->ep_mpq_pool_units == 0) ?
                       uct_glex_mpq_default_pool(iface->mpq.free) :
                       ucs_min((int)config->ep_mpq_pool_units, iface->mpq.free);
    iface->mpq.start = config->sr_credit_start;
    iface->mpq.inc   = config->sr_credit_inc;
    iface->mpq.max   = config->sr_credit_max;
    ucs_list_head_init(&iface->mpq.wait);
    return UCS_OK;
}

/* Entries of the window beyond the start credit */
static unsigned uct_glex_mpq_extra(const uct_glex_vc_t *vc)
{
    unsigned start = vc->iface->mpq.start;

    return (vc->mp_rx.window > start) ? (vc->mp_rx.window - start) : 0;
}

static void uct_glex_mpq_account(uct_glex_vc_t *vc, unsigned extra_before, unsigned extra)
{
    vc->iface->mpq.grown   += (int)extra - (int)extra_before;
    vc->iface->mpq.growers += (extra > 0) - (extra_before > 0);
}

/* Entries that each growing VC may have beyond the start credit: an equal share of the pool, one at
 * least. Their number is rounded up to a power of two. Else the share would change, and windows be
 * recalled, with each VC that begins to grow. */
static unsigned uct_glex_mpq_share(const uct_glex_iface_t *iface, const uct_glex_vc_t *vc)
{
    unsigned growers = iface->mpq.growers + (uct_glex_mpq_extra(vc) == 0);

    return ucs_max(iface->mpq.pool / ucs_roundup_pow2(growers), 1);
}

static int uct_glex_mpq_may_recall(const uct_glex_vc_t *vc, unsigned least)
{
    return (vc->state == UCT_GLEX_VC_OPEN) && !vc->recalling && (vc->mp_rx.window > least);
}

/* Ask a peer to return its credits beyond `least` */
static void uct_glex_mpq_recall(uct_glex_vc_t *vc, unsigned least)
{
    vc->recalling    = 1;
    vc->recall_limit = vc->mp_rx.rcvd + least;
    ++vc->iface->mpq.recalls;
    uct_glex_ctl_post(vc, UCT_GLEX_CTL_RECALL);
}

/* VCs that one search looks at: each of the messages that one progress call takes may cause one */
static unsigned uct_glex_mpq_looks(const uct_glex_iface_t *iface)
{
    return (iface->num_vcs <= UCT_GLEX_SLICE) ? iface->num_vcs :
                                                UCT_GLEX_SLICE / UCT_GLEX_POLL_BATCH;
}

/* The next VC in turn */
static uct_glex_vc_t *uct_glex_mpq_next(const uct_glex_iface_t *iface, unsigned *hand)
{
    *hand = (*hand + 1 < iface->num_vcs) ? *hand + 1 : 0;
    return iface->vcs[*hand];
}

/* Of the next VCs in turn that which used the fewest credits since its last look, and how many; of
 * several such VCs that with the largest window. Only VCs with more than `least` count. The numbers
 * are modulo 2^16, so a busy VC may seem idle for a while. */
static uct_glex_vc_t *uct_glex_mpq_coldest(uct_glex_iface_t *iface, const uct_glex_vc_t *except,
                                           unsigned least, unsigned *used_p)
{
    unsigned left = uct_glex_mpq_looks(iface);
    uct_glex_vc_t *vc, *best = NULL;
    uint16_t used;

    *used_p           = UINT_MAX;
    iface->mpq.looked = ucs_get_time();
    for (; left > 0; --left) {
        vc              = uct_glex_mpq_next(iface, &iface->mpq.cold_hand);
        used            = vc->mp_rx.rcvd - vc->recall_mark;
        vc->recall_mark = vc->mp_rx.rcvd;
        if ((vc == except) || !uct_glex_mpq_may_recall(vc, least)) {
            continue;
        }
        if ((used < *used_p) ||
            ((used == *used_p) && (vc->mp_rx.window > best->mp_rx.window))) {
            best    = vc;
            *used_p = used;
        }
    }
    return best;
}

/* Of the next VCs in turn that with the most entries beyond the start credit, more than `most`; or
 * NULL */
static uct_glex_vc_t *uct_glex_mpq_richest(uct_glex_iface_t *iface, unsigned most)
{
    unsigned left = uct_glex_mpq_looks(iface);
    uct_glex_vc_t *vc, *best = NULL;

    for (; left > 0; --left) {
        vc = uct_glex_mpq_next(iface, &iface->mpq.rich_hand);
        if ((uct_glex_mpq_extra(vc) > most) && uct_glex_mpq_may_recall(vc, iface->mpq.start)) {
            best = vc;
            most = uct_glex_mpq_extra(vc);
        }
    }
    return best;
}

/* Whether the last look for an idle VC is so long ago that each VC is observed for
 * UCT_GLEX_MPQ_IDLE_MS */
static int uct_glex_mpq_may_look(const uct_glex_iface_t *iface)
{
    ucs_time_t time = ucs_time_from_msec(UCT_GLEX_MPQ_IDLE_MS) * uct_glex_mpq_looks(iface) /
                      iface->num_vcs;

    return (ucs_get_time() - iface->mpq.looked) >= time;
}

/* The VC wants to grow, and no entries are free. Recall those that a VC has beyond its share, or
 * else those of an idle VC. */
static void uct_glex_mpq_reclaim(uct_glex_vc_t *vc, unsigned share)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_vc_t *other;
    unsigned used, least_used;

    other = uct_glex_mpq_richest(iface, ucs_max(share, uct_glex_mpq_extra(vc)));
    if (other != NULL) {
        uct_glex_mpq_recall(other, iface->mpq.start + share);
        return;
    }
    if (!uct_glex_mpq_may_look(iface)) {
        return;
    }
    used  = (uint16_t)(vc->mp_rx.rcvd - vc->recall_mark);
    other = uct_glex_mpq_coldest(iface, vc, iface->mpq.start, &least_used);
    if ((other != NULL) && (least_used * UCT_GLEX_MPQ_IDLE_PART <= used)) {
        uct_glex_mpq_recall(other, iface->mpq.start);
    }
}

/* Look among the next VCs in turn for one that can return entries for a new peer, and recall those.
 * Returns 0 if all VCs were looked at, and none has any to return. */
static int uct_glex_mpq_search(uct_glex_iface_t *iface)
{
    unsigned least = UCT_GLEX_NIC_LOSSLESS ? iface->mpq.start : UCT_GLEX_CREDIT_LEAST;
    unsigned used;
    uct_glex_vc_t *vc;

    if (iface->mpq.search_left == 0) {
        iface->mpq.search_left = iface->num_vcs;
    }
    vc = uct_glex_mpq_coldest(iface, NULL, least, &used);
    iface->mpq.search_left -= ucs_min(iface->mpq.search_left, uct_glex_mpq_looks(iface));
    if (vc != NULL) {
        iface->mpq.search_left = 0;
        uct_glex_mpq_recall(vc, least);
        return 1;
    }
    if ((iface->mpq.search_left > 0) && !UCT_GLEX_NIC_LOSSLESS) {
        uct_glex_iface_recheck(iface); /* the next progress call goes on, for those who wait */
    }
    return iface->mpq.search_left > 0;
}

/* No entries are free for a new peer. Returns 1 if it has to wait for some. */
static int uct_glex_mpq_exhausted(uct_glex_iface_t *iface)
{
    if ((iface->mpq.recalls < UCT_GLEX_MPQ_RECALLS) && !uct_glex_mpq_search(iface) &&
        (iface->mpq.recalls == 0) && !UCT_GLEX_NIC_LOSSLESS && !iface->mpq.told_full) {
        iface->mpq.told_full = 1;
        ucs_error("glex: %u peers use up the message queue, and others wait to connect: raise "
                  "UCX_GLEX_EP_MPQ_CAPACITY to %u entries for each peer, and a third more",
                  iface->num_vcs, UCT_GLEX_MPQ_LEAST);
    }
    return !UCT_GLEX_NIC_LOSSLESS;
}

void uct_glex_mpq_retry(uct_glex_iface_t *iface)
{
    unsigned left = UCT_GLEX_SLICE;
    uct_glex_vc_t *vc, *tmp;
    unsigned window;

    ucs_list_for_each_safe(vc, tmp, &iface->mpq.wait, wait) {
        if (left-- == 0) {
            uct_glex_iface_recheck(iface);
            return;
        }
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
        uct_glex_vc_wait_end(vc);
        uct_glex_vc_schedule(vc);
    }
}

void uct_glex_mpq_enter(uct_glex_vc_t *vc)
{
    if (vc->mp_rx.window > 0) {
        uct_glex_vc_schedule(vc);
        return;
    }
    uct_glex_vc_wait(vc, &vc->iface->mpq.wait);
    uct_glex_mpq_retry(vc->iface);
}

/* Entries that the VC may grow by now */
static unsigned uct_glex_mpq_room(const uct_glex_vc_t *vc, unsigned share)
{
    const uct_glex_iface_t *iface = vc->iface;
    int extra                     = uct_glex_mpq_extra(vc);
    int below                     = (extra == 0) ? (int)(iface->mpq.start - vc->mp_rx.window) : 0;
    int room                      = ucs_min(iface->mpq.pool - iface->mpq.grown, (int)share - extra);

    return ucs_max(ucs_min(iface->mpq.free, below + ucs_max(room, 0)), 0);
}

void uct_glex_mpq_grow(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    unsigned extra, share;
    uint16_t growth;

    if (vc->recalling || !ucs_list_is_empty(&iface->mpq.wait)) {
        return; /* new peers come first */
    }
    share  = uct_glex_mpq_share(iface, vc);
    growth = uct_glex_credit_growth(&vc->mp_rx, iface->mpq.inc, iface->mpq.max,
                                    uct_glex_mpq_room(vc, share));
    if (growth > 0) {
        extra = uct_glex_mpq_extra(vc);
        vc->mp_rx.window += growth;
        uct_glex_vc_set_limit(vc);
        iface->mpq.free  -= growth;
        uct_glex_mpq_account(vc, extra, uct_glex_mpq_extra(vc));
        return;
    }
    /* To find a VC with too many entries many are looked at: not at every message */
    if ((vc->mp_rx.window < iface->mpq.max) && (iface->mpq.recalls == 0) &&
        (++iface->mpq.asked > uct_glex_mpq_looks(iface))) {
        iface->mpq.asked = 0;
        uct_glex_mpq_reclaim(vc, share);
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
    unsigned extra          = uct_glex_mpq_extra(vc);

    if (!vc->recalling) {
        return;
    }
    uct_glex_mpq_recall_done(vc);
    iface->mpq.free += uct_glex_credit_recalled(&vc->mp_rx, &vc->advertised_limit, limit,
                                                UCT_GLEX_CREDIT_LEAST);
    uct_glex_vc_set_limit(vc);
    uct_glex_mpq_account(vc, extra, uct_glex_mpq_extra(vc));
    uct_glex_vc_schedule(vc); /* it may have to be told its new limit */
    uct_glex_mpq_retry(iface);
}

void uct_glex_mpq_return(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;

    if (vc->mp_rx.window > 0) {
        /* The last messages of this peer are in the queue before those of the next ones, and are
         * discarded first */
        iface->mpq.free += vc->mp_rx.window + UCT_GLEX_VC_CTL_UNITS;
        uct_glex_mpq_account(vc, uct_glex_mpq_extra(vc), 0);
        vc->mp_rx.window = 0;
    }
    uct_glex_mpq_recall_done(vc);
}
