#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "chan/glex_er.h"

/*
 * The credits of a FIFO that its borrower maps. The lender publishes what it has consumed beside
 * the slots. A borrower that has credits left does not read them, so the line stays with the
 * lender; one that has none reads them before it gives up, and at every progress. One that sleeps
 * makes a wake-up request beside the credits, and gets a message. A borrower that cannot map the
 * FIFO cannot withdraw the request that stands there at first, and always gets messages.
 *
 * A borrower that reads credits ignores those in headers: it may send for long without progress,
 * and a header that waits meanwhile would be taken for a new one when the counters have gone half
 * way round.
 */

/* ---- the sender ---- */

void uct_glex_er_count(uct_glex_vc_t *vc)
{
    uct_glex_er_tx_t *er = vc->er_tx;

    glex_ext_count_mapped(vc->iface->nic, (uint16_t)(vc->tx_fifo.msgs - er->counted));
    er->counted = vc->tx_fifo.msgs;
}

int uct_glex_er_read_credits(uct_glex_vc_t *vc)
{
    const uct_glex_er_tx_t *er = vc->er_tx;
    uint32_t credits;

    if (er->ctrl == NULL) {
        return 0;
    }
    /* acquire: the lender has read what lay in the units that it counts, they may be overwritten */
    credits = __atomic_load_n(&er->ctrl->credits, __ATOMIC_ACQUIRE);
    uct_glex_er_count(vc);
    return uct_glex_fifo_update(&vc->tx_fifo, credits, credits >> 16);
}

/* What this borrower writes: not what one before it wrote, who may be late to take it back */
static uint32_t uct_glex_er_wakeup_request(const uct_glex_er_tx_t *er)
{
    return ((uint32_t)er->gen << 8) | 1;
}

void uct_glex_er_read_begin(uct_glex_er_tx_t *er)
{
    /* relaxed: a message too many does no harm */
    __atomic_store_n(&er->ctrl->wanted, 0, __ATOMIC_RELAXED);
}

/* Awake, and with credits: withdraw the wake-up request, if there is one. relaxed, both, as
 * above. */
static void uct_glex_er_withdraw_request(uct_glex_er_tx_t *er)
{
    uint32_t request = uct_glex_er_wakeup_request(er);

    if (__atomic_load_n(&er->ctrl->wanted, __ATOMIC_RELAXED) == request) {
        __atomic_compare_exchange_n(&er->ctrl->wanted, &request, 0, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    }
}

void uct_glex_er_starve(uct_glex_vc_t *vc)
{
    uct_glex_er_tx_t *er = vc->er_tx;

    if ((er != NULL) && (er->ctrl != NULL) && !er->is_starved) {
        er->is_starved = 1;
        ucs_list_add_tail(&vc->iface->er.starved, &er->starved);
        vc->iface->due = 1;
    }
}

void uct_glex_er_starve_end(uct_glex_er_tx_t *er)
{
    if (er->is_starved) {
        er->is_starved = 0;
        ucs_list_del(&er->starved);
    }
}

unsigned uct_glex_er_progress_starved(uct_glex_iface_t *iface)
{
    unsigned count = 0;
    uct_glex_er_tx_t *er, *tmp;
    int more;

    ucs_list_for_each_safe(er, tmp, &iface->er.starved, starved) {
        more   = uct_glex_er_read_credits(er->vc);
        count += more;
        /* Who tried to send may have seen the credits before */
        if (more || uct_glex_vc_has_credits(er->vc)) {
            uct_glex_er_starve_end(er);
            uct_glex_er_withdraw_request(er);
            uct_glex_vc_resume(er->vc);
        }
    }
    return count;
}

void uct_glex_er_want_credits(uct_glex_iface_t *iface)
{
    uct_glex_er_tx_t *er;

    ucs_list_for_each(er, &iface->er.starved, starved) {
        /* relaxed: the caller's barrier is sequentially consistent, as is the lender's between its
         * store of the credits and its load of `wanted`: the lender sees that we sleep, or we see
         * the credits */
        __atomic_store_n(&er->ctrl->wanted, uct_glex_er_wakeup_request(er), __ATOMIC_RELAXED);
    }
}

int uct_glex_er_has_new_credits(uct_glex_iface_t *iface)
{
    uct_glex_er_tx_t *er;
    int some = 0;

    ucs_list_for_each(er, &iface->er.starved, starved) {
        /* As in progress: what is new, or was seen since by who tried to send */
        if (uct_glex_er_read_credits(er->vc) || uct_glex_vc_has_credits(er->vc)) {
            uct_glex_vc_resume(er->vc);
            some = 1;
        }
    }
    return some;
}

/* ---- the lender ---- */

int uct_glex_er_is_wanted(const uct_glex_vc_t *vc)
{
    return __atomic_load_n(&uct_glex_er_rx_of(vc)->ctrl->wanted, __ATOMIC_RELAXED) != 0;
}

void uct_glex_er_publish_begin(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);
    unsigned i;

    /* relaxed, all: before the GRANT, which publishes them */
    for (i = 0; i < UCT_GLEX_FIFO_SLOTS; ++i) {
        __atomic_store_n(&er_rx->slots[i].word, 0, __ATOMIC_RELAXED); /* the last borrower's */
    }
    __atomic_store_n(&er_rx->ctrl->armed, 1, __ATOMIC_RELAXED);
    er_rx->ctrl->needs_fence = !vc->iface->er.has_membarrier;
    /* until the borrower withdraws it */
    __atomic_store_n(&er_rx->ctrl->wanted, 1, __ATOMIC_RELAXED);
    er_rx->arrived = vc->tx.credits.er.msgs;
    uct_glex_fifo_tell_often(&er_rx->fifo, UCT_GLEX_FIFO_SLOTS);
    uct_glex_er_publish_credits(vc);
}

int uct_glex_er_publish_credits(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);

    if (er_rx->ctrl == NULL) {
        return 0;
    }
    /* release: the handlers have read what lay in the slots and units that are counted */
    __atomic_store_n(&er_rx->ctrl->credits, (uint32_t)(vc->tx.credits.word >> 32),
                     __ATOMIC_RELEASE);
    vc->advertised = vc->tx.credits.er;
    /* sequentially consistent: see uct_glex_er_want_credits() */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return !uct_glex_er_is_wanted(vc);
}
