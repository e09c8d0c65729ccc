#include "chan/glex_er.h"

/* ---- published credits, the lender's side: see glex_er.c ---- */

int uct_glex_er_is_wanted(const uct_glex_vc_t *vc)
{
    return __atomic_load_n(&uct_glex_er_rx_of(vc)->ctrl->wanted, __ATOMIC_RELAXED) != 0;
}

/* Publish the credits now. Returns 0 if the sender needs a message, too: the sender cannot read the
 * credits, or sleeps. */
static int uct_glex_er_publish_credits(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);

    if (er_rx->ctrl == NULL) {
        return 0;
    }
    /* release: the handlers have read the counted slots and units */
    __atomic_store_n(&er_rx->ctrl->credits, (uint32_t)(vc->tx.credits.word >> 32),
                     __ATOMIC_RELEASE);
    er_rx->published = vc->tx.credits.er;
    /* sequentially consistent: see uct_glex_er_want_credits() */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return !uct_glex_er_is_wanted(vc);
}

static void uct_glex_er_publish_begin(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);
    unsigned i;

    /* relaxed, all stores: the GRANT follows and publishes them */
    for (i = 0; i < UCT_GLEX_FIFO_SLOTS; ++i) {
        /* the word of the last borrower */
        __atomic_store_n(&uct_glex_er_slot(er_rx, i)->word, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&er_rx->ctrl->armed, 1, __ATOMIC_RELAXED);
    er_rx->ctrl->needs_fence = !vc->iface->er.has_membarrier;
    /* the borrower withdraws the request */
    __atomic_store_n(&er_rx->ctrl->wanted, 1, __ATOMIC_RELAXED);
    er_rx->arrived = vc->tx.credits.er.msgs;
    uct_glex_er_publish_credits(vc);
}

/* ---- which FIFOs are polled: see glex_er_rx.c ---- */

void uct_glex_er_poll_begin(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);
    uct_glex_iface_t *iface = vc->iface;

    if (!uct_glex_er_is_lent(vc) || (er_rx->ctrl == NULL) || er_rx->is_polled) {
        return;
    }
    uct_glex_er_set_armed(er_rx, 0);
    er_rx->is_polled = 1;
    er_rx->swept = er_rx->arrived - 1; /* not silent at the next sweep */
    er_rx->poll_index = iface->num_polled;
    iface->er.polled[iface->num_polled++] = er_rx;
}

void uct_glex_er_poll_end(uct_glex_iface_t *iface, uct_glex_er_rx_t *er_rx)
{
    uct_glex_er_rx_t *last;

    if (er_rx->is_polled) {
        last = iface->er.polled[--iface->num_polled];
        last->poll_index = er_rx->poll_index;
        iface->er.polled[last->poll_index] = last;
        er_rx->is_polled = 0;
    }
}

/* ---- lending ---- */

/* Time between two searches for an idle FIFO. This time is enough for every process of a shared
 * processor to run. */
#define UCT_GLEX_ER_IDLE_MS 16

/* All FIFOs are lent: revoke a FIFO that was not used since the last search. A search looks at
 * UCT_GLEX_SLICE FIFOs at most. With more FIFOs the searches come more often. So two looks at a
 * FIFO are UCT_GLEX_ER_IDLE_MS apart. */
static void uct_glex_er_revoke_idle(uct_glex_iface_t *iface)
{
    ucs_time_t now = ucs_get_time();
    unsigned left = ucs_min(iface->er.max, UCT_GLEX_SLICE);
    int is_asked = 0;
    uct_glex_er_rx_t *er_rx;
    uct_glex_vc_t *vc;

    if (now < iface->er.idle_next) {
        return;
    }
    iface->er.idle_next = now + ucs_time_from_msec(UCT_GLEX_ER_IDLE_MS) * left / iface->er.max;
    for (; left > 0; --left) {
        er_rx = &iface->er_rx[iface->er.idle_hand];
        iface->er.idle_hand = (iface->er.idle_hand + 1) % iface->er.max;
        vc = er_rx->vc;
        if (!is_asked && (vc != NULL) && (vc->state == UCT_GLEX_VC_OPEN) && !er_rx->revoked &&
            (er_rx->msgs_mark == vc->tx.credits.er.msgs)) {
            er_rx->revoked = 1;
            is_asked = 1;
            uct_glex_ctl_post(vc, UCT_GLEX_CTL_ER_REVOKE);
        }
        er_rx->msgs_mark = (vc != NULL) ? vc->tx.credits.er.msgs : 0;
    }
}

/* FIFOs in use: lent, or in leases */
static unsigned uct_glex_er_num_bufs(const uct_glex_iface_t *iface)
{
    return iface->er.pool[0].share.used + iface->er.pool[1].share.used;
}

/* Takes a large FIFO if the limit and the NIC's memory allow a large FIFO, else a small FIFO. A
 * small FIFO in the NIC's memory is faster than a large FIFO on the heap, which the borrower cannot
 * map. NULL: no memory now. */
static uct_glex_buf_t *uct_glex_er_rx_get_buf(uct_glex_iface_t *iface, uint8_t *is_large_p)
{
    uct_glex_buf_t *buf = NULL;

    if (iface->er.large_left > 0) {
        (void)uct_glex_buf_get(&iface->er.pool[1], 0, &buf);
        if ((buf != NULL) && buf->nic_memory) {
            --iface->er.large_left;
            *is_large_p = 1;
            return buf;
        }
        if (buf != NULL) {
            uct_glex_buf_put(buf);
        }
        iface->er.large_left = 0; /* no new try before a large FIFO comes back */
    }
    *is_large_p = 0;
    buf = NULL;
    (void)uct_glex_buf_get(&iface->er.pool[0], 0, &buf);
    return buf;
}

/* Get a buffer for the FIFO that `vc` borrows. Returns 0: no memory now. */
static int uct_glex_er_rx_alloc(const uct_glex_vc_t *vc, uct_glex_er_rx_t *er_rx)
{
    uct_glex_iface_t *iface = vc->iface;
    unsigned msgs_max = iface->er.msgs_max;
    uct_glex_fifo_ctrl_t *ctrl;
    uint16_t units;

    er_rx->buf = uct_glex_er_rx_get_buf(iface, &er_rx->is_large);
    if (er_rx->buf == NULL) {
        return 0;
    }
    units = iface->er.units[er_rx->is_large];
    er_rx->layout = iface->er.layout[er_rx->is_large];
    if (!uct_glex_vc_is_mapped(vc)) {
        /* the NIC writes, so spacing only costs room for messages */
        er_rx->layout.spacing_shift = er_rx->layout.unit_shift;
    }
    er_rx->base = UCS_PTR_BYTE_OFFSET(er_rx->buf->ptr, uct_glex_er_pad(er_rx->layout));
    ctrl = UCS_PTR_BYTE_OFFSET(er_rx->base, (size_t)units << er_rx->layout.unit_shift);
    er_rx->ctrl = er_rx->buf->nic_memory ? ctrl : NULL;
    if (er_rx->buf->nic_memory) {
        /* A borrower with a mapping may have UCT_GLEX_FIFO_SLOTS messages in flight, a borrower
         * without a mapping `msgs_max`. Return credits often enough for both. */
        msgs_max = ucs_min(msgs_max, UCT_GLEX_FIFO_SLOTS);
    }
    uct_glex_fifo_set_size(&er_rx->fifo, units, msgs_max, er_rx->buf->nic_memory);
    ++iface->er.lent;
    return 1;
}

int uct_glex_er_lend(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    uint16_t index = iface->er.free;
    uct_glex_er_rx_t *er_rx = &iface->er_rx[index];

    if ((vc->lent != UCT_GLEX_LENT_NONE) || (iface->er.max == 0)) {
        return 0; /* the VC has a FIFO already, or ER is not configured */
    }
    if ((iface->er.lent == iface->er.max) || (uct_glex_er_num_bufs(iface) >= iface->er.max_bufs)) {
        uct_glex_er_revoke_idle(iface);
        return 0;
    }
    if (!uct_glex_er_rx_alloc(vc, er_rx)) {
        return 0;
    }
    iface->er.free = er_rx->next_free;
    er_rx->vc = vc;
    er_rx->gen = iface->er.next_gen++;
    er_rx->msgs_mark = vc->tx.credits.er.msgs - 1; /* not idle at the next search */
    er_rx->is_polled = 0;
    er_rx->revoked = 0;
    vc->lent = UCT_GLEX_LENT_FIFO;
    vc->rx_fifo_index = index;
    er_rx->fifo.next = vc->tx.credits.er.units; /* an earlier FIFO is consumed */
    if (er_rx->ctrl != NULL) {
        uct_glex_er_publish_begin(vc);
    }
    return 1;
}

void uct_glex_er_fill_grant(uct_glex_vc_t *vc, uct_glex_ctl_t *ctl)
{
    const uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);

    ctl->fifo_mh = er_rx->buf->mh.v;
    ctl->fifo_offset = er_rx->buf->offset + uct_glex_er_pad(er_rx->layout);
    ctl->fifo_units = er_rx->fifo.units;
    ctl->fifo_msgs = vc->iface->er.msgs_max;
    ctl->fifo_index = vc->rx_fifo_index;
    ctl->fifo_gen = er_rx->gen;
    ctl->unit_shift = er_rx->layout.unit_shift;
    ctl->spacing_shift = er_rx->layout.spacing_shift;
}

uct_glex_buf_t *uct_glex_er_lend_end(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);
    uct_glex_iface_t *iface = vc->iface;

    uct_glex_er_poll_end(iface, er_rx);
    if (er_rx->ctrl != NULL) {
        uct_glex_er_set_armed(er_rx, 1); /* a peer that goes on rings, and so gets END */
    }
    er_rx->vc = NULL;
    vc->lent = UCT_GLEX_LENT_NONE;
    vc->ctl &= ~UCT_GLEX_CTL_ER_REVOKE; /* no REVOKE for a FIFO that is not lent any more */
    --iface->er.lent;
    iface->er.large_left += er_rx->is_large;
    er_rx->next_free = iface->er.free;
    iface->er.free = vc->rx_fifo_index;
    return er_rx->buf;
}

/* Free a released FIFO if all its messages are delivered */
static void uct_glex_er_check_released(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);

    if ((vc->lent == UCT_GLEX_LENT_RELEASED) && (er_rx->release_at == vc->tx.credits.er.msgs)) {
        uct_glex_buf_put(uct_glex_er_lend_end(vc));
        uct_glex_vc_schedule(vc); /* a further request may wait */
    }
}

void uct_glex_er_released(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);

    if ((vc->lent != UCT_GLEX_LENT_NONE) && (ctl->released_index == vc->rx_fifo_index) &&
        (ctl->released_gen == er_rx->gen)) {
        uct_glex_er_poll_begin(vc); /* an armed FIFO may have messages */
        vc->lent = UCT_GLEX_LENT_RELEASED;
        er_rx->fifo.tell_msgs = 0; /* check after each message whether the FIFO is free */
        er_rx->release_at = ctl->er_sent;
        uct_glex_er_check_released(vc);
    }
}

/* ---- consumption ---- */

void uct_glex_er_consumed_slow(uct_glex_vc_t *vc)
{
    uct_glex_er_check_released(vc);
    if (!uct_glex_er_must_tell(vc)) {
        return;
    }
    if (!uct_glex_er_is_lent_mapped(vc)) {
        uct_glex_vc_schedule(vc); /* the next message may return the credits */
    } else if (!uct_glex_er_publish_credits(vc)) {
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_CREDIT);
    }
}
