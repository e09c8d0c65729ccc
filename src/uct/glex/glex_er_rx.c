#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_er.h"
#include "glex_op.h"
#include "glex_rx.h"

void uct_glex_er_revoke(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    if ((vc->lent != UCT_GLEX_LENT_NONE) && !er_rx->revoked) {
        er_rx->revoked = 1;
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_ER_REVOKE);
    }
}

/* ---- who lends to whom ---- */

/* Borrowers are compared by what they sent in so long at least, in ticks of uct_glex_er_clock() */
#define UCT_GLEX_ER_COMPARE_TIME 2

/* FIFOs asked back for one VC at once: who asks again may wait for a borrower that computes */
#define UCT_GLEX_ER_MAX_WAITS 3

/* A borrower that sent fewer messages in that time may lose its FIFO */
#define UCT_GLEX_ER_IDLE_MSGS UCS_BIT(UCT_GLEX_ER_PATIENCE_MIN)

static uct_glex_er_rx_t *uct_glex_er_rx_end(const uct_glex_iface_t *iface)
{
    return iface->er_rx + iface->er_rx_count;
}

static void uct_glex_er_compare(uct_glex_iface_t *iface)
{
    uint16_t now = uct_glex_er_clock();
    uct_glex_er_rx_t *er_rx;
    uint16_t msgs;

    if ((uint16_t)(now - iface->er.compared) < UCT_GLEX_ER_COMPARE_TIME) {
        return;
    }
    iface->er.compared = now;
    for (er_rx = iface->er_rx; er_rx < uct_glex_er_rx_end(iface); ++er_rx) {
        if (er_rx->vc == NULL) {
            continue;
        }
        msgs = er_rx->vc->tx.credits.er.msgs;
        if (!er_rx->is_new) { /* else not yet for the whole time */
            er_rx->used = msgs - er_rx->msgs_mark;
        }
        er_rx->msgs_mark = msgs;
        er_rx->is_new    = 0;
    }
}

static void uct_glex_er_promise_end(uct_glex_vc_t *vc)
{
    vc->iface->er.promised -= vc->er_promised;
    vc->er_promised         = 0;
}

/* FIFOs that were asked back for this one */
static unsigned uct_glex_er_waits(const uct_glex_iface_t *iface, const uct_glex_vc_t *vc)
{
    const uct_glex_er_rx_t *er_rx;
    unsigned count = 0;

    for (er_rx = iface->er_rx; er_rx < uct_glex_er_rx_end(iface); ++er_rx) {
        count += (er_rx->waiter == vc);
    }
    return count;
}

void uct_glex_er_wait_end(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx;

    uct_glex_er_promise_end(vc);
    for (er_rx = vc->iface->er_rx; er_rx < uct_glex_er_rx_end(vc->iface); ++er_rx) {
        if (er_rx->waiter == vc) {
            er_rx->waiter = NULL;
        }
    }
}

/* All FIFOs are lent: ask the borrower with the least traffic for its FIFO */
static void uct_glex_er_revoke_idle(uct_glex_iface_t *iface, uct_glex_vc_t *waiter)
{
    uct_glex_er_rx_t *er_rx, *coldest = NULL;
    unsigned used, least = UCT_GLEX_ER_IDLE_MSGS;

    uct_glex_er_compare(iface);
    if (uct_glex_er_waits(iface, waiter) >= UCT_GLEX_ER_MAX_WAITS) {
        return;
    }
    for (er_rx = iface->er_rx; er_rx < uct_glex_er_rx_end(iface); ++er_rx) {
        if ((er_rx->vc == NULL) || (er_rx->vc->state != UCT_GLEX_VC_OPEN)) {
            continue;
        }
        if (er_rx->revoked) {
            if (er_rx->waiter == NULL) { /* it comes back, and who it was for needs it no more */
                er_rx->waiter = waiter;
                return;
            }
            continue;
        }
        used = er_rx->used + (uint16_t)(er_rx->vc->tx.credits.er.msgs - er_rx->msgs_mark);
        if (used < least) {
            least   = used;
            coldest = er_rx;
        }
    }
    if (coldest != NULL) {
        coldest->waiter = waiter;
        uct_glex_er_revoke(coldest->vc);
    }
}

/* FIFOs of full length at once. Where more peers have one, few of them send a stream of long
 * messages at a time, and memory counts. */
#define UCT_GLEX_ER_FULL_FIFOS 16

static int uct_glex_er_rx_alloc(uct_glex_iface_t *iface, uct_glex_er_rx_t *er_rx)
{
    er_rx->is_half = (iface->er.units_half > 0) &&
                     ((iface->er.lent - iface->er.lent_half) >= UCT_GLEX_ER_FULL_FIFOS);
    er_rx->buf     = uct_glex_buf_get(er_rx->is_half ? &iface->er.pool_half : &iface->er.pool);
    if (er_rx->buf == NULL) {
        return 0;
    }
    er_rx->base = er_rx->buf->ptr;
    ++iface->er.lent;
    iface->er.lent_half += er_rx->is_half;
    return 1;
}

static void uct_glex_er_rx_free(uct_glex_iface_t *iface, uct_glex_er_rx_t *er_rx)
{
    uct_glex_buf_put(er_rx->buf);
    --iface->er.lent;
    iface->er.lent_half -= er_rx->is_half;
}

int uct_glex_er_lend(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_er_rx_t *er_rx;
    uint16_t units;
    unsigned i;

    if ((vc->lent != UCT_GLEX_LENT_NONE) || (iface->er.max == 0)) {
        return 0; /* asked twice, or not a channel of ours */
    }
    uct_glex_er_promise_end(vc); /* it is kept now, or cannot be */
    if ((iface->er.lent + iface->er.promised) >= iface->er.max) {
        if (vc->rx_seq >= UCT_GLEX_ER_IDLE_MSGS) { /* else it did not send much yet */
            uct_glex_er_revoke_idle(iface, vc);
        }
        return 0;
    }
    for (i = 0; iface->er_rx[i].vc != NULL; ++i) {}
    er_rx = &iface->er_rx[i];
    if (!uct_glex_er_rx_alloc(iface, er_rx)) {
        return 0;
    }
    er_rx->vc        = vc;
    er_rx->gen       = iface->er.next_gen++;
    er_rx->msgs_mark = vc->tx.credits.er.msgs;
    er_rx->used      = UCT_GLEX_ER_IDLE_MSGS;
    er_rx->is_new    = 1;
    er_rx->revoked   = 0;
    er_rx->is_known  = 0;

    vc->lent          = UCT_GLEX_LENT_FIFO;
    vc->rx_fifo_index = i;
    units = er_rx->is_half ? iface->er.units_half : iface->er.units;
    uct_glex_fifo_set_size(&vc->rx_fifo, units, ucs_min(iface->er.msgs_max, units));
    uct_glex_er_show_begin(vc);
    uct_glex_er_wait_end(vc);
    return 1;
}

void uct_glex_er_fill_grant(uct_glex_vc_t *vc, uct_glex_ctl_t *ctl)
{
    const uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    ctl->fifo_mh     = er_rx->buf->mh.v;
    ctl->fifo_offset = er_rx->buf->offset;
    ctl->fifo_units  = vc->rx_fifo.units;
    ctl->fifo_msgs   = vc->rx_fifo.msgs_max;
    ctl->fifo_index  = vc->rx_fifo_index;
    ctl->fifo_gen    = er_rx->gen;
    ctl->unit_shift  = vc->iface->er_unit_shift;
}

void uct_glex_er_hold_rx(uct_glex_vc_t *vc)
{
    if (vc->lent != UCT_GLEX_LENT_NONE) {
        vc->lent = UCT_GLEX_LENT_HELD;
    }
}

void uct_glex_er_last_head(uct_glex_vc_t *vc, uint16_t head)
{
    uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    if (vc->lent != UCT_GLEX_LENT_NONE) {
        er_rx->last_head = head;
        er_rx->is_known  = 1;
    }
}

void uct_glex_er_check_held(uct_glex_vc_t *vc)
{
    const uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    if ((vc->lent == UCT_GLEX_LENT_HELD) && er_rx->is_known &&
        (vc->rx_fifo.next == er_rx->last_head)) {
        uct_glex_er_drop_rx(vc);
    }
}

void uct_glex_er_drop_rx(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_er_rx_t *er_rx = &iface->er_rx[vc->rx_fifo_index];
    uct_glex_vc_t *waiter   = er_rx->waiter;

    if (vc->lent == UCT_GLEX_LENT_NONE) {
        return;
    }
    uct_glex_er_rx_free(iface, er_rx);
    er_rx->vc    = NULL;
    vc->lent     = UCT_GLEX_LENT_NONE;
    vc->er_shows = 0;
    er_rx->waiter = NULL;
    if ((waiter != NULL) && (waiter->state == UCT_GLEX_VC_OPEN) && !waiter->er_promised) {
        waiter->er_promised = 1;
        waiter->want_grant  = 1;
        ++iface->er.promised;
        uct_glex_vc_schedule(waiter);
    }
}

/* The FIFO is free when all that was sent through it has been delivered */
static void uct_glex_er_check_released(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    if ((vc->lent == UCT_GLEX_LENT_RELEASED) && (er_rx->release_at == vc->tx.credits.er.msgs)) {
        uct_glex_er_drop_rx(vc);
    }
}

void uct_glex_er_released(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    if ((vc->lent != UCT_GLEX_LENT_NONE) && (ctl->released_index == vc->rx_fifo_index) &&
        (ctl->released_gen == er_rx->gen)) {
        vc->lent          = UCT_GLEX_LENT_RELEASED;
        er_rx->release_at = ctl->er_sent;
        uct_glex_er_check_released(vc);
    }
}

/* ---- receiving ---- */

static UCS_F_NOINLINE void uct_glex_er_consumed_slow(uct_glex_vc_t *vc)
{
    uct_glex_er_check_released(vc);
    if (!uct_glex_er_must_tell(vc)) {
        return;
    }
    if (!vc->er_shows) {
        uct_glex_vc_schedule(vc); /* the next message may take the counters along */
    } else if (!uct_glex_er_show(vc)) {
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_CREDIT);
    }
}

/* A message without units was delivered */
static UCS_F_ALWAYS_INLINE void uct_glex_er_consume_short(uct_glex_vc_t *vc)
{
    vc->tx.credits.word += UCT_GLEX_CREDITS_ONE_MSG;
    if (ucs_unlikely(((uint16_t)((vc->tx.credits.word >> 48) - vc->told.msgs) >=
                      vc->rx_fifo.tell_msgs) || (vc->lent != UCT_GLEX_LENT_FIFO))) {
        uct_glex_er_consumed_slow(vc);
    }
}

void uct_glex_er_consumed(uct_glex_vc_t *vc, uint16_t used)
{
    uint16_t units = (vc->tx.credits.word >> 32) + used;

    /* as a whole: see uct_glex_hdr_t */
    vc->tx.credits.word = (vc->tx.credits.word & ~(UINT64_C(0xffff) << 32)) |
                          ((uint64_t)units << 32);
    vc->tx.credits.word += UCT_GLEX_CREDITS_ONE_MSG;
    if (ucs_unlikely(uct_glex_fifo_must_tell(&vc->rx_fifo, vc->tx.credits.er, vc->told) ||
                     (vc->lent != UCT_GLEX_LENT_FIFO))) {
        uct_glex_er_consumed_slow(vc);
    }
}

static unsigned uct_glex_er_rx_units(const uct_glex_iface_t *iface, uint32_t length)
{
    return (length == 0) ? 1 : ((length - 1) >> iface->er_unit_shift) + 1;
}

/* Where the message lies in the FIFO that was lent; NULL: beyond its end */
static void *uct_glex_er_find(uct_glex_vc_t *vc, unsigned flags, uint32_t length, uint16_t *used_p)
{
    uct_glex_iface_t *iface = vc->iface;
    unsigned units          = uct_glex_er_rx_units(iface, length);
    uint16_t offset;

    if (!uct_glex_fifo_arrive(&vc->rx_fifo, units, flags & UCT_GLEX_FLAG_WRAP, &offset, used_p)) {
        ucs_error("glex: endpoint 0x%" PRIx64 " sent %u bytes beyond its FIFO", vc->peer, length);
        uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
        return NULL;
    }
    return iface->er_rx[vc->rx_fifo_index].base + ((size_t)offset << iface->er_unit_shift);
}

/* Not the next one, or zero-copy */
static UCS_F_NOINLINE void uct_glex_er_keep(uct_glex_vc_t *vc, uint64_t word, void *data,
                                            uint32_t length, uint16_t used)
{
    uct_glex_rx_add_er(vc, uct_glex_hdr_seq(word), uct_glex_hdr_am_id(word), data, length, used,
                       uct_glex_hdr_flags(word) & UCT_GLEX_FLAG_ZC);
}

static UCS_F_ALWAYS_INLINE int uct_glex_er_is_next(const uct_glex_vc_t *vc, uint64_t word)
{
    return (uct_glex_hdr_seq(word) == vc->rx_seq) && !(word & ((uint64_t)UCT_GLEX_FLAG_ZC << 8));
}

static UCS_F_ALWAYS_INLINE void uct_glex_er_deliver(uct_glex_vc_t *vc, uint64_t word, void *data,
                                                    uint32_t length)
{
    uct_base_iface_t *iface = &vc->iface->super;

    ++vc->rx_seq;
    uct_iface_trace_am(iface, UCT_AM_TRACE_TYPE_RECV, uct_glex_hdr_am_id(word), data, length,
                       "RX: ER");
    uct_iface_invoke_am(iface, uct_glex_hdr_am_id(word), data, length, 0);
}

/* The VC that an event names, if its peer borrowed a FIFO; what it acknowledges is acknowledged */
static UCS_F_ALWAYS_INLINE uct_glex_vc_t *uct_glex_er_vc(uct_glex_iface_t *iface, uint64_t word)
{
    uct_glex_vc_t *vc = uct_glex_vc_by_id(iface, uct_glex_hdr_vc_id(word));

    if (ucs_unlikely((vc == NULL) || !uct_glex_er_is_lent(vc))) {
        ucs_debug("glex: event for vc 0x%x that has no FIFO", uct_glex_hdr_vc_id(word));
        return NULL;
    }
    if (ucs_unlikely(word & ((uint64_t)UCT_GLEX_FLAG_ACK << 8))) {
        uct_glex_ctl_acked(vc);
    }
    return vc;
}

/* A message for a VC that failed. The NIC may put its data into the FIFO only now that its event is
 * taken: nobody else gets the FIFO before. */
static UCS_F_NOINLINE void uct_glex_er_recv_late(uct_glex_iface_t *iface, uint64_t word,
                                                 uint32_t length)
{
    uct_glex_vc_t *vc = uct_glex_vc_by_id(iface, uct_glex_hdr_vc_id(word));
    uint16_t offset, used;

    if ((vc != NULL) && (vc->lent == UCT_GLEX_LENT_HELD)) {
        uct_glex_fifo_arrive(&vc->rx_fifo, uct_glex_er_rx_units(iface, length),
                             uct_glex_hdr_flags(word) & UCT_GLEX_FLAG_WRAP, &offset, &used);
        uct_glex_er_check_held(vc);
    }
}

void uct_glex_er_recv(uct_glex_iface_t *iface, uint64_t word, uct_glex_credits_t credits)
{
    uct_glex_vc_t *vc = uct_glex_er_vc(iface, word);
    uint32_t length   = credits.word & UCT_GLEX_ER_MAX_LENGTH;
    uint16_t used;
    void *data;

    if (ucs_unlikely(vc == NULL)) {
        uct_glex_er_recv_late(iface, word, length);
        return;
    }
    data = uct_glex_er_find(vc, uct_glex_hdr_flags(word), length, &used);
    if (ucs_unlikely(data == NULL)) {
        return;
    }
    uct_glex_vc_credits(vc, word, credits);
    if (ucs_unlikely(!uct_glex_er_is_next(vc, word))) {
        uct_glex_er_keep(vc, word, data, length, used);
        return;
    }
    uct_glex_er_deliver(vc, word, data, length);
    uct_glex_er_consumed(vc, used);
    if (ucs_unlikely(!ucs_list_is_empty(&vc->rx))) {
        uct_glex_rx_advance(vc);
    }
}

void uct_glex_er_recv_short(uct_glex_iface_t *iface, uint64_t word, uct_glex_credits_t credits,
                            void *data, uint32_t length)
{
    uct_glex_vc_t *vc = uct_glex_er_vc(iface, word);

    if (ucs_unlikely(vc == NULL)) {
        return;
    }
    uct_glex_vc_credits(vc, word, credits);
    if (ucs_unlikely(!uct_glex_er_is_next(vc, word))) {
        uct_glex_er_keep(vc, word, data, length, 0);
        return;
    }
    uct_glex_er_deliver(vc, word, data, length);
    uct_glex_er_consume_short(vc);
    if (ucs_unlikely(!ucs_list_is_empty(&vc->rx))) {
        uct_glex_rx_advance(vc);
    }
}
