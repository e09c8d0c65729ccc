#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_er.h"
#include "glex_op.h"
#include "glex_rx.h"

void uct_glex_er_revoke(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    if (vc->has_rx_fifo && !er_rx->revoked) {
        er_rx->revoked = 1;
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_ER_REVOKE);
    }
}

/* All FIFOs are lent: ask the borrower with the least traffic since the last look for its FIFO */
static void uct_glex_er_revoke_idle(uct_glex_iface_t *iface, uct_glex_vc_t *waiter)
{
    uct_glex_er_rx_t *er_rx, *coldest = NULL;
    uint16_t used, least = UCT_GLEX_ER_PATIENCE_MIN;

    if (iface->er.waiter != NULL) {
        return; /* one at a time */
    }
    for (er_rx = iface->er_rx; er_rx < iface->er_rx + iface->er_rx_count; ++er_rx) {
        if (er_rx->vc == NULL) {
            continue;
        }
        used             = er_rx->vc->rx_fifo.msgs - er_rx->msgs_mark;
        er_rx->msgs_mark = er_rx->vc->rx_fifo.msgs;
        /* Not busier than who asks, who sent that many messages since it was refused */
        if ((used < least) && (er_rx->vc->state == UCT_GLEX_VC_OPEN) && !er_rx->revoked) {
            least   = used;
            coldest = er_rx;
        }
    }
    if (coldest != NULL) {
        iface->er.waiter = waiter;
        uct_glex_er_revoke(coldest->vc);
    }
}

int uct_glex_er_lend(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_er_rx_t *er_rx;
    unsigned i;

    if (vc->has_rx_fifo || (iface->er.max == 0)) {
        return 0; /* asked twice, or not a channel of ours */
    }
    if (iface->er.lent >= iface->er.max) {
        uct_glex_er_revoke_idle(iface, vc);
        return 0;
    }
    for (i = 0; iface->er_rx[i].vc != NULL; ++i) {}
    er_rx      = &iface->er_rx[i];
    er_rx->buf = uct_glex_buf_get(&iface->er.pool);
    if (er_rx->buf == NULL) {
        return 0;
    }
    er_rx->base      = er_rx->buf->ptr;
    er_rx->vc        = vc;
    er_rx->gen       = iface->er.next_gen++;
    er_rx->msgs_mark = vc->rx_fifo.msgs;
    er_rx->revoked   = 0;
    er_rx->released  = 0;

    vc->has_rx_fifo   = 1;
    vc->rx_fifo_index = i;
    uct_glex_fifo_set_size(&vc->rx_fifo, iface->er.units, iface->er.msgs_max);
    ++iface->er.lent;
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

void uct_glex_er_drop_rx(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_er_rx_t *er_rx = &iface->er_rx[vc->rx_fifo_index];
    uct_glex_vc_t *waiter   = iface->er.waiter;

    if (!vc->has_rx_fifo) {
        return;
    }
    uct_glex_buf_put(er_rx->buf);
    er_rx->vc       = NULL;
    vc->has_rx_fifo = 0;
    --iface->er.lent;
    if (waiter != NULL) {
        iface->er.waiter = NULL;
        if (waiter->state == UCT_GLEX_VC_OPEN) { /* else it asks again when it connects */
            waiter->want_grant = 1;
            uct_glex_vc_schedule(waiter);
        }
    }
}

/* The FIFO is free when all that was sent through it has been delivered */
static void uct_glex_er_check_released(uct_glex_vc_t *vc)
{
    uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    if (er_rx->released && (er_rx->release_at == vc->rx_fifo.msgs)) {
        uct_glex_er_drop_rx(vc);
    }
}

void uct_glex_er_released(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    uct_glex_er_rx_t *er_rx = &vc->iface->er_rx[vc->rx_fifo_index];

    if (vc->has_rx_fifo && (ctl->released_index == vc->rx_fifo_index) &&
        (ctl->released_gen == er_rx->gen)) {
        er_rx->released   = 1;
        er_rx->release_at = ctl->er_sent;
        uct_glex_er_check_released(vc);
    }
}

/* ---- receiving ---- */

static UCS_F_ALWAYS_INLINE void uct_glex_er_consume(uct_glex_vc_t *vc, uint16_t used,
                                                    const uct_glex_er_rx_t *er_rx)
{
    uct_glex_fifo_consume(&vc->rx_fifo, used);
    if (ucs_unlikely(uct_glex_fifo_must_tell(&vc->rx_fifo))) {
        uct_glex_vc_schedule(vc);
    }
    if (ucs_unlikely(er_rx->released)) {
        uct_glex_er_check_released(vc);
    }
}

void uct_glex_er_consumed(uct_glex_vc_t *vc, uint16_t used)
{
    uct_glex_er_consume(vc, used, &vc->iface->er_rx[vc->rx_fifo_index]);
}

/* The NIC writes the next message, if it is short, from its event to where the FIFO goes on. An
 * answer that is sent meanwhile would wait for that line, which was not used for long: the claim of
 * a queue entry waits for all stores before it. */
static UCS_F_ALWAYS_INLINE void uct_glex_er_prefetch(const uct_glex_vc_t *vc,
                                                     const uct_glex_er_rx_t *er_rx)
{
    size_t offset = uct_glex_fifo_offset(vc->rx_fifo.next, vc->rx_fifo.units);

    __builtin_prefetch(er_rx->base + (offset << vc->iface->er_unit_shift), 1);
}

static UCS_F_ALWAYS_INLINE void uct_glex_er_recv(uct_glex_iface_t *iface, uint64_t cookie_0,
                                                 uint64_t cookie_1)
{
    uint32_t length   = cookie_0 & UCT_GLEX_ER_MAX_LENGTH;
    uint8_t flags     = cookie_0 >> 24;
    uint16_t index    = cookie_1 >> 8;
    uint8_t am_id     = (cookie_1 >> 3) & 0x1f;
    uint16_t seq      = cookie_1 >> 32;
    uct_glex_er_rx_t *er_rx;
    uint16_t offset, used;
    unsigned units;
    uct_glex_vc_t *vc;
    void *data;

    er_rx = &iface->er_rx[index];
    if (ucs_unlikely((index >= iface->er_rx_count) || (er_rx->vc == NULL) ||
                     (er_rx->gen != (uint8_t)(cookie_1 >> 24)))) {
        ucs_debug("glex: event for FIFO %u that is not lent", index);
        return;
    }
    vc    = er_rx->vc;
    units = (length <= UCT_GLEX_ER_MIN_UNIT) ? 1 : ((length - 1) >> iface->er_unit_shift) + 1;
    if (ucs_likely((units == 1) && !(flags & UCT_GLEX_ER_FLAG_WRAP))) {
        offset = uct_glex_fifo_arrive_unit(&vc->rx_fifo);
        used   = 1;
    } else if (ucs_unlikely(!uct_glex_fifo_arrive(&vc->rx_fifo, units,
                                                  flags & UCT_GLEX_ER_FLAG_WRAP, &offset, &used))) {
        ucs_error("glex: endpoint 0x%" PRIx64 " sent %u bytes beyond its FIFO", vc->peer, length);
        uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
        return;
    }
    data = er_rx->base + ((size_t)offset << iface->er_unit_shift);
    if (flags & UCT_GLEX_ER_FLAG_ACK) {
        uct_glex_ctl_acked(vc);
    }
    uct_glex_vc_credits(vc, cookie_0 >> 32, cookie_0 >> 48, cookie_1 >> 48,
                        flags >> UCT_GLEX_ER_EPOCH_SHIFT);

    if (ucs_likely((seq == vc->rx_seq) && !(flags & UCT_GLEX_ER_FLAG_ZC))) {
        ++vc->rx_seq;
        uct_iface_trace_am(&iface->super, UCT_AM_TRACE_TYPE_RECV, am_id, data, length, "RX: ER");
        uct_iface_invoke_am(&iface->super, am_id, data, length, 0);
        uct_glex_er_prefetch(vc, er_rx);
        uct_glex_er_consume(vc, used, er_rx);
        if (ucs_unlikely(!ucs_list_is_empty(&vc->rx))) {
            uct_glex_rx_advance(vc);
        }
    } else {
        uct_glex_rx_add_er(vc, seq, am_id, data, length, used, flags & UCT_GLEX_ER_FLAG_ZC);
    }
}

unsigned uct_glex_eq_handle(uct_glex_iface_t *iface, glex_event_t *event)
{
    unsigned count = 0;
    uint64_t cookie_0, cookie_1;

    do {
        cookie_0 = event->cookie_0;
        cookie_1 = event->cookie_1;
        switch (cookie_1 & UCT_GLEX_EVENT_TYPE_MASK) {
        case UCT_GLEX_EVENT_ER:
            uct_glex_er_recv(iface, cookie_0, cookie_1);
            break;
        case UCT_GLEX_EVENT_OP:
            uct_glex_op_event(iface, cookie_1 >> 32, UCS_OK);
            break;
        default:
            ucs_debug("glex: foreign event 0x%" PRIx64 " ignored", cookie_1);
            break;
        }
    } while ((++count < UCT_GLEX_POLL_BATCH) &&
             (glex_probe_next_event(iface->nic, &event) == GLEX_SUCCESS));
    glex_discard_probed_event(iface->nic);
    return count;
}
