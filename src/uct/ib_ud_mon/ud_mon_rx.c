/*
 * Receiving. Receives are posted in batches; a completion is checked, its datagram handed to the
 * active message handler in place, and the slot returned. Nothing in a datagram is trusted: any
 * host that guesses the queue key can send one.
 */
#include "ud_mon_iface.h"

#include <string.h>

void uct_ud_mon_rx_refill(uct_ud_mon_iface_t *iface)
{
    ud_mon_rx_t *rx = &iface->rx;
    uint32_t mask = rx->length - 1;
    struct ibv_recv_wr *first, *last, *bad = NULL;
    uint32_t i, count;
    int ret;

    while ((count = ucs_min(rx->done + rx->length - rx->posted, rx->batch)) == rx->batch) {
        for (i = 0; i < count; ++i) {
            rx->wr[(rx->posted + i) & mask].wr_id =
                ((uint64_t)iface->generation << 32) | (uint32_t)(rx->posted + i);
        }
        first = &rx->wr[rx->posted & mask];
        last = &rx->wr[(rx->posted + count - 1) & mask];
        last->next = NULL;
        ret = ibv_post_recv(iface->qp, first, &bad);
        last->next = &rx->wr[(rx->posted + count) & mask];
        if (ucs_unlikely(ret != 0)) {
            /* Receives before `bad` are posted. The next refill tries the rest again. */
            rx->posted += (uint32_t)((bad - first) & mask);
            ucs_diag("ib_ud_mon: %s:%d: posting receives failed: %s",
                     uct_ud_mon_iface_md(iface)->name, iface->port, strerror(ret));
            return;
        }
        rx->posted += count;
    }
}

static ud_mon_header_t *ud_mon_rx_header(const uct_ud_mon_iface_t *iface, uint32_t index)
{
    return UCS_PTR_BYTE_OFFSET(iface->rx.memory,
                               (index & (iface->rx.length - 1)) * iface->rx.slot_size);
}

static int ud_mon_rx_check(uct_ud_mon_iface_t *iface, const ud_mon_header_t *header,
                           uint32_t byte_len)
{
    if ((byte_len < (UD_MON_GRH_LENGTH + sizeof(*header))) ||
        (le32toh(header->magic) != UD_MON_MAGIC)) {
        ++iface->stats.foreign;
        return 0;
    }
    if ((le16toh(header->length) != (byte_len - UD_MON_GRH_LENGTH - sizeof(*header))) ||
        (header->am_id >= UCT_AM_ID_MAX) || (header->zero != 0) || (header->sender == 0)) {
        ++iface->stats.malformed;
        return 0;
    }
    if (iface->super.am[header->am_id].cb == iface->stub_handler) {
        ++iface->stats.no_handler;
        return 0;
    }
    return 1;
}

static void ud_mon_rx_deliver(uct_ud_mon_iface_t *iface, const struct ibv_wc *wc)
{
    ud_mon_header_t *header = ud_mon_rx_header(iface, (uint32_t)wc->wr_id);
    unsigned length;

    if (!ud_mon_rx_check(iface, header, wc->byte_len) || !ud_mon_senders_arrive(iface, header)) {
        return;
    }
    length = wc->byte_len - UD_MON_GRH_LENGTH - sizeof(*header);
    ++iface->stats.rx_datagrams;
    iface->stats.rx_bytes += length;
    uct_iface_trace_am(&iface->super, UCT_AM_TRACE_TYPE_RECV, header->am_id, header + 1, length,
                       "RX: AM");
    iface->rx.current = wc;
    iface->rx.current_header = header;
    /* Never with UCT_CB_PARAM_FLAG_DESC: the slot goes back to the ring at once. */
    uct_iface_invoke_am(&iface->super, header->am_id, header + 1, length, 0);
    iface->rx.current = NULL;
}

static void ud_mon_rx_handle(uct_ud_mon_iface_t *iface, const struct ibv_wc *wc)
{
    if ((wc->wr_id >> 32) != iface->generation) {
        return;
    }
    if (ucs_unlikely(wc->status != IBV_WC_SUCCESS)) {
        ucs_diag("ib_ud_mon: %s:%d: a receive failed: %s", uct_ud_mon_iface_md(iface)->name,
                 iface->port, ibv_wc_status_str(wc->status));
        iface->failed = 1;
        return;
    }
    /* Receives complete in the order they were posted in; the ring relies on it. */
    ucs_assert_always((uint32_t)wc->wr_id == iface->rx.done);
    ud_mon_rx_deliver(iface, wc);
    ++iface->rx.done;
}

unsigned uct_ud_mon_rx_poll(uct_ud_mon_iface_t *iface)
{
    struct ibv_wc wc[UD_MON_POLL_MAX];
    int i, count;

    if (iface->rx.stashed > 0) {
        count = iface->rx.stashed;
        memcpy(wc, iface->rx.stash, count * sizeof(wc[0]));
        iface->rx.stashed = 0;
    } else {
        count = ibv_poll_cq(iface->rx.cq, UD_MON_POLL_MAX, wc);
    }
    if (ucs_unlikely(count < 0)) {
        ucs_diag("ib_ud_mon: polling the receive completion queue failed: %m");
        iface->failed = 1;
        return 0;
    }
    for (i = 0; i < count; ++i) {
        ud_mon_rx_handle(iface, &wc[i]);
    }
    if (!iface->failed) {
        uct_ud_mon_rx_refill(iface);
    }
    return count;
}
