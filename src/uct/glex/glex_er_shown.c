#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_er.h"

/*
 * Where the sender maps the FIFO that it borrowed, the lender returns credits by a store: it shows
 * its counters behind the FIFO's units. A sender that has credits left does not look, so the line
 * stays with the lender; one that has none looks before it gives up, and at every progress. One
 * that sleeps does not, and says so beside the counters: a message with the counters wakes it up. A
 * sender that cannot map the FIFO cannot take back what stands there at first, and is told always.
 *
 * The counters in headers are of no use to a sender that looks: it may send for long without
 * progress, and a header that waits meanwhile would be taken for a new one when the counters have
 * gone half way round.
 */

/* ---- the sender ---- */

int uct_glex_er_look(uct_glex_vc_t *vc)
{
    const uct_glex_er_tx_t *er = vc->er_tx;
    uint32_t shown;

    if (er->shown == NULL) {
        return 0;
    }
    /* acquire: the lender has read what lay in the units that it counts, they may be overwritten */
    shown = __atomic_load_n(&er->shown->counters, __ATOMIC_ACQUIRE);
    return uct_glex_fifo_update(&vc->tx_fifo, shown, shown >> 16);
}

/* What this borrower writes: not what one before it wrote, who may be late to take it back */
static uint32_t uct_glex_er_wish(const uct_glex_er_tx_t *er)
{
    return ((uint32_t)er->gen << 8) | 1;
}

void uct_glex_er_look_begin(uct_glex_er_tx_t *er)
{
    /* relaxed: a message too many does no harm */
    __atomic_store_n(&er->shown->wanted, 0, __ATOMIC_RELAXED);
}

/* Awake, and with credits: to be told is wanted no more, if it was. relaxed, both, as above. */
static void uct_glex_er_take_back_wish(uct_glex_er_tx_t *er)
{
    uint32_t wish = uct_glex_er_wish(er);

    if (__atomic_load_n(&er->shown->wanted, __ATOMIC_RELAXED) == wish) {
        __atomic_compare_exchange_n(&er->shown->wanted, &wish, 0, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    }
}

void uct_glex_er_starve(uct_glex_vc_t *vc)
{
    uct_glex_er_tx_t *er = vc->er_tx;

    if ((er != NULL) && (er->shown != NULL) && !er->is_starved) {
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
        more   = uct_glex_er_look(er->vc);
        count += more;
        /* Who tried to send may have seen the credits before */
        if (more || uct_glex_vc_has_credits(er->vc)) {
            uct_glex_er_starve_end(er);
            uct_glex_er_take_back_wish(er);
            uct_glex_vc_resume(er->vc);
        }
    }
    return count;
}

int uct_glex_er_sleep_starved(uct_glex_iface_t *iface)
{
    uct_glex_er_tx_t *er;
    int some = 0;

    if (ucs_list_is_empty(&iface->er.starved)) {
        return 0;
    }
    ucs_list_for_each(er, &iface->er.starved, starved) {
        __atomic_store_n(&er->shown->wanted, uct_glex_er_wish(er), __ATOMIC_RELAXED);
    }
    /* sequentially consistent, as the lender's between what it shows and its look at `wanted`: it
     * sees that we sleep, or we see what it showed */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    ucs_list_for_each(er, &iface->er.starved, starved) {
        /* As in progress: what is new, or was seen since by who tried to send */
        if (uct_glex_er_look(er->vc) || uct_glex_vc_has_credits(er->vc)) {
            uct_glex_vc_resume(er->vc);
            some = 1;
        }
    }
    return some;
}

/* ---- the lender ---- */

static uct_glex_er_rx_t *uct_glex_er_rx(const uct_glex_vc_t *vc)
{
    return &vc->iface->er_rx[vc->rx_fifo_index];
}

int uct_glex_er_is_wanted(const uct_glex_vc_t *vc)
{
    return __atomic_load_n(&uct_glex_er_rx(vc)->shown->wanted, __ATOMIC_RELAXED) != 0;
}

void uct_glex_er_show_begin(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx(vc);
    size_t size             = (size_t)vc->rx_fifo.units << vc->iface->er_unit_shift;

    er_rx->shown = er_rx->buf->nic_memory ? UCS_PTR_BYTE_OFFSET(er_rx->buf->ptr, size) : NULL;
    vc->er_shows = (er_rx->shown != NULL);
    if (vc->er_shows) {
        /* relaxed: before the GRANT, which publishes it. Not only the sender's own wish counts. */
        __atomic_store_n(&er_rx->shown->wanted, 1, __ATOMIC_RELAXED);
        uct_glex_fifo_tell_often(&vc->rx_fifo);
        uct_glex_er_show(vc); /* the last borrower's counters stood there */
    }
}

int uct_glex_er_show(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx(vc);

    if (er_rx->shown == NULL) {
        return 0;
    }
    /* release: the handlers have read what lay in the units that are counted */
    __atomic_store_n(&er_rx->shown->counters, (uint32_t)(vc->tx.credits.word >> 32),
                     __ATOMIC_RELEASE);
    vc->told = vc->tx.credits.er;
    /* sequentially consistent, as in uct_glex_er_sleep_starved(): we see that the sender sleeps, or
     * it sees the counters before it does */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return !uct_glex_er_is_wanted(vc);
}
