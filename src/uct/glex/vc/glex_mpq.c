#include "vc/glex_mpq.h"

#include <ucs/sys/math.h>
#include <limits.h>

/* Fewest entries of a VC */
#define UCT_GLEX_MPQ_LEAST (UCT_GLEX_VC_CTL_UNITS + UCT_GLEX_CREDIT_LEAST)

/* Windows up to this size do not depend on other peers. Larger windows divide half of the queue. */
#define UCT_GLEX_MPQ_SMALL 64

/* Advice for the size of the queue: a number of entries, and a number for each peer. By default,
 * nine sixteenths of the queue, less 12 entries, are for least windows. */
#define UCT_GLEX_MPQ_ADVISED          24
#define UCT_GLEX_MPQ_ADVISED_FOR_PEER 6

/* Divide the entries outside the reserve into entries for least windows and the pool. On a lossless
 * NIC neither is limited, but EP_MPQ_POOL_UNITS may limit the pool. */
static void uct_glex_mpq_divide(uct_glex_iface_t *iface, unsigned pool_units, unsigned entries)
{
    if (UCT_GLEX_NIC_LOSSLESS) {
        iface->mpq.free = INT_MAX;
        iface->mpq.pool = (pool_units > 0) ? pool_units : INT_MAX;
        iface->mpq.shared = entries / 2;
    } else {
        iface->mpq.pool =
            (pool_units > 0) ? ucs_min(pool_units, entries - UCT_GLEX_MPQ_LEAST) : entries / 4;
        iface->mpq.free = entries - iface->mpq.pool;
        iface->mpq.shared = iface->mpq.pool;
    }
}

ucs_status_t uct_glex_mpq_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                               unsigned capacity)
{
    /* For CONNECTs and ENDs, and for entries that are handled and not yet discarded */
    unsigned reserve = ucs_max(4, capacity / 4) + UCT_GLEX_POLL_BATCH;

    if (capacity < reserve + UCT_GLEX_MPQ_LEAST) {
        ucs_error("glex: a message queue of %u entries is too small: raise "
                  "UCX_GLEX_EP_MPQ_CAPACITY to 64 or more",
                  capacity);
        return UCS_ERR_INVALID_PARAM;
    }
    uct_glex_mpq_divide(iface, config->ep_mpq_pool_units, capacity - reserve);
    iface->mpq.start = config->sr_credit_start;
    iface->mpq.inc = config->sr_credit_inc;
    iface->mpq.max = config->sr_credit_max;
    iface->mpq.num_peers = 0;
    iface->mpq.promised = 0;
    ucs_list_head_init(&iface->mpq.wait);
    return UCS_OK;
}

/* Enlarge the VC's window by `wanted`, or by the rest of the pool */
static void uct_glex_mpq_take(uct_glex_vc_t *vc, unsigned wanted)
{
    unsigned taken = ucs_min(wanted, vc->iface->mpq.pool);

    vc->iface->mpq.pool -= taken;
    vc->iface->mpq.promised += taken;
    vc->mp_rx.window += taken;
    uct_glex_vc_tell_limit(vc);
}

static void uct_glex_mpq_tell_full(uct_glex_iface_t *iface)
{
    if (!iface->mpq.told_full) {
        iface->mpq.told_full = 1;
        ucs_error("glex: %u peers use up the message queue, and others wait to connect: raise "
                  "UCX_GLEX_EP_MPQ_CAPACITY to %u entries and %u more for each peer",
                  iface->mpq.num_peers, UCT_GLEX_MPQ_ADVISED, UCT_GLEX_MPQ_ADVISED_FOR_PEER);
    }
}

void uct_glex_mpq_retry(uct_glex_iface_t *iface)
{
    unsigned left = UCT_GLEX_SLICE;
    uct_glex_vc_t *vc, *tmp;

    ucs_list_for_each_safe(vc, tmp, &iface->mpq.wait, wait) {
        if (left-- == 0) {
            uct_glex_iface_recheck(iface);
            return;
        }
        if (iface->mpq.free < UCT_GLEX_MPQ_LEAST) {
            uct_glex_mpq_tell_full(iface);
            return;
        }
        iface->mpq.free -= UCT_GLEX_MPQ_LEAST;
        ++iface->mpq.num_peers;
        vc->mp_rx.window = UCT_GLEX_CREDIT_LEAST;
        uct_glex_mpq_take(vc, iface->mpq.start - UCT_GLEX_CREDIT_LEAST);
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

/* How large the VC's window may become. A window above UCT_GLEX_MPQ_SMALL is at most an equal share of
 * the shared entries, and leaves half of the entries that no window has to other peers. So the windows
 * of up to some forty peers do not exceed a queue of 4096 entries, and no sender fills the queue. */
static unsigned uct_glex_mpq_largest(const uct_glex_vc_t *vc)
{
    const uct_glex_iface_t *iface = vc->iface;
    int left = iface->mpq.shared - iface->mpq.promised;
    unsigned share = iface->mpq.shared / iface->mpq.num_peers;

    share = ucs_min(share, vc->mp_rx.window + ucs_max(left, 0) / 2);
    return ucs_min(iface->mpq.max, ucs_max(UCT_GLEX_MPQ_SMALL, share));
}

void uct_glex_mpq_grow(uct_glex_vc_t *vc)
{
    /* A peer may break the protocol and send before its VC has a first window */
    if (vc->mp_rx.window > 0) {
        uct_glex_mpq_take(
            vc, uct_glex_credit_growth(&vc->mp_rx, vc->iface->mpq.inc, uct_glex_mpq_largest(vc)));
    }
}

void uct_glex_mpq_return(uct_glex_vc_t *vc)
{
    if (vc->mp_rx.window > 0) {
        /* The last messages of this peer are in the queue before the messages of the next peers,
         * and are discarded first */
        vc->iface->mpq.free += UCT_GLEX_MPQ_LEAST;
        vc->iface->mpq.pool += vc->mp_rx.window - UCT_GLEX_CREDIT_LEAST;
        vc->iface->mpq.promised -= vc->mp_rx.window - UCT_GLEX_CREDIT_LEAST;
        --vc->iface->mpq.num_peers;
        vc->mp_rx.window = 0;
    }
}
