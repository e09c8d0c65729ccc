/*
 * Sending. A datagram is written into the next slot of the ring and waits until the batch is full,
 * or until progress, flush or arming: then one doorbell posts the whole batch. Only the last
 * datagram of a batch requests a completion. Completions come in order, so this completion frees
 * the whole batch. The last datagram is also solicited: it wakes a receiver that waits for batches
 * (UCT_EVENT_RECV_SIG).
 */
#include "ud_mon_iface.h"

#include <uct/base/uct_iov.inl>
#include <ucs/sys/iovec.inl>

#include <errno.h>
#include <time.h>

typedef struct ud_mon_flush {
    ucs_queue_elem_t queue;
    uint32_t index; /* done when the tail is here */
    uct_completion_t *comp;
} ud_mon_flush_t;

static uint64_t ud_mon_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000000u) + now.tv_nsec;
}

/* The header of a slot, followed by the copied payload. Payload of zcopy is in further pieces. */
static ud_mon_header_t *ud_mon_tx_header(const ud_mon_tx_t *tx, uint32_t index)
{
    return (ud_mon_header_t *)(uintptr_t)tx->slots[index & (tx->length - 1)].sge[0].addr;
}

/* Returns a free slot, or NULL if the queue is full even after polling for completions. */
static ud_mon_header_t *ud_mon_tx_slot(uct_ud_mon_ep_t *ep)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_ud_mon_iface_t);
    ud_mon_tx_t *tx = &iface->tx;

    if (ucs_unlikely((tx->head - tx->tail) == tx->length)) {
        uct_ud_mon_tx_doorbell(iface);
        uct_ud_mon_tx_poll(iface);
        if ((tx->head - tx->tail) == tx->length) {
            ++iface->stats.tx_no_room;
            return NULL;
        }
    }
    return ud_mon_tx_header(tx, tx->head);
}

/* Completes the slot at head, with `copied` bytes of payload behind the header, and advances
 * head. */
static void ud_mon_tx_push(uct_ud_mon_ep_t *ep, ud_mon_header_t *header, uint8_t id, size_t copied,
                           size_t length, unsigned num_sge, uct_completion_t *comp)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(ep->super.super.iface, uct_ud_mon_iface_t);
    ud_mon_tx_t *tx = &iface->tx;
    uint32_t index = tx->head & (tx->length - 1);
    struct ibv_send_wr *wr = &tx->wr[index];

    *header = (ud_mon_header_t){
        .magic = htole32(UD_MON_MAGIC),
        .am_id = id,
        .length = htole16(length),
        .qkey = htole32(iface->qkey),
        .stream = htole32(ep->stream),
        .sender = htole64(iface->id),
        .seq = htole64(ep->next_seq++), /* and the time of sending at the doorbell */
    };
    tx->slots[index].sge[0].length = sizeof(*header) + copied;
    tx->slots[index].comp = comp;
    wr->num_sge = num_sge;
    wr->wr.ud.ah = ep->ah->ah;
    wr->wr.ud.remote_qpn = ep->qpn;
    wr->wr.ud.remote_qkey = ep->qkey;
    wr->send_flags =
        ((num_sge == 1) && ((sizeof(*header) + copied) <= tx->max_inline)) ? IBV_SEND_INLINE : 0;
    ++tx->head;
    ++iface->stats.tx_datagrams;
    iface->stats.tx_bytes += length;
    if ((tx->head - tx->posted) >= tx->batch) {
        uct_ud_mon_tx_doorbell(iface);
    }
}

ucs_status_t uct_ud_mon_ep_am_short(uct_ep_h tl_ep, uint8_t id, uint64_t am_header,
                                    const void *payload, unsigned length)
{
    uct_ud_mon_ep_t *ep = ucs_derived_of(tl_ep, uct_ud_mon_ep_t);
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_ud_mon_iface_t);
    ud_mon_header_t *header;

    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(sizeof(am_header) + length, 0, ud_mon_max_payload(iface), "am_short");
    header = ud_mon_tx_slot(ep);
    if (header == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }
    uct_compat_am_short_fill_data(header + 1, am_header, payload, length);
    uct_iface_trace_am(&iface->super, UCT_AM_TRACE_TYPE_SEND, id, header + 1,
                       sizeof(am_header) + length, "TX: AM_SHORT");
    ud_mon_tx_push(ep, header, id, sizeof(am_header) + length, sizeof(am_header) + length, 1, NULL);
    UCT_TL_EP_STAT_OP(&ep->super, AM, SHORT, sizeof(am_header) + length);
    return UCS_OK;
}

ssize_t uct_ud_mon_ep_am_bcopy(uct_ep_h tl_ep, uint8_t id, uct_pack_callback_t pack_cb, void *arg,
                               unsigned flags)
{
    uct_ud_mon_ep_t *ep = ucs_derived_of(tl_ep, uct_ud_mon_ep_t);
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_ud_mon_iface_t);
    ud_mon_header_t *header;
    size_t length;

    (void)flags;
    UCT_CHECK_AM_ID(id);
    header = ud_mon_tx_slot(ep);
    if (header == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }
    length = pack_cb(header + 1, arg);
    ucs_assertv(length <= ud_mon_max_payload(iface), "packed %zu bytes, max_bcopy is %u", length,
                ud_mon_max_payload(iface));
    uct_iface_trace_am(&iface->super, UCT_AM_TRACE_TYPE_SEND, id, header + 1, length,
                       "TX: AM_BCOPY");
    ud_mon_tx_push(ep, header, id, length, length, 1, NULL);
    UCT_TL_EP_STAT_OP(&ep->super, AM, BCOPY, length);
    return length;
}

ucs_status_t uct_ud_mon_ep_am_zcopy(uct_ep_h tl_ep, uint8_t id, const void *am_header,
                                    unsigned header_length, const uct_iov_t *iov, size_t iovcnt,
                                    unsigned flags, uct_completion_t *comp)
{
    uct_ud_mon_ep_t *ep = ucs_derived_of(tl_ep, uct_ud_mon_ep_t);
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_ud_mon_iface_t);
    ud_mon_tx_t *tx = &iface->tx;
    size_t i, length = header_length + uct_iov_total_length(iov, iovcnt);
    ud_mon_header_t *header;
    struct ibv_sge *sge;
    unsigned num_sge = 1;

    (void)flags;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_IOV_SIZE(iovcnt, (size_t)(UD_MON_MAX_SGE - 1), "am_zcopy");
    UCT_CHECK_LENGTH(length, 0, ud_mon_max_payload(iface), "am_zcopy");
    header = ud_mon_tx_slot(ep);
    if (header == NULL) {
        return UCS_ERR_NO_RESOURCE;
    }
    memcpy(header + 1, am_header, header_length);
    sge = tx->slots[tx->head & (tx->length - 1)].sge;
    for (i = 0; i < iovcnt; ++i) {
        if (uct_iov_get_length(&iov[i]) > 0) {
            sge[num_sge].addr = (uintptr_t)iov[i].buffer;
            sge[num_sge].length = uct_iov_get_length(&iov[i]);
            sge[num_sge++].lkey = ((struct ibv_mr *)iov[i].memh)->lkey;
        }
    }
    ud_mon_tx_push(ep, header, id, header_length, length, num_sge, comp);
    UCT_TL_EP_STAT_OP(&ep->super, AM, ZCOPY, length);
    return UCS_INPROGRESS;
}

/* Reads the clock once for a batch, because all its datagrams leave together. */
static void ud_mon_tx_stamp(ud_mon_tx_t *tx)
{
    uint64_t now = htole64(ud_mon_now_ns());
    uint32_t i;

    for (i = tx->posted; i != tx->head; ++i) {
        ud_mon_tx_header(tx, i)->sent_ns = now;
    }
}

void uct_ud_mon_tx_doorbell(uct_ud_mon_iface_t *iface)
{
    ud_mon_tx_t *tx = &iface->tx;
    uint32_t mask = tx->length - 1;
    struct ibv_send_wr *first, *last, *bad = NULL, *after;
    int ret;

    if ((tx->posted == tx->head) || iface->failed) {
        return;
    }
    ud_mon_tx_stamp(tx);
    first = &tx->wr[tx->posted & mask];
    last = &tx->wr[(tx->head - 1) & mask];
    after = last->next;
    last->next = NULL;
    last->send_flags |= IBV_SEND_SIGNALED | IBV_SEND_SOLICITED; /* done here, complete there */
    last->wr_id = ((uint64_t)iface->generation << 32) | tx->head;
    ret = ibv_post_send(iface->qp, first, &bad);
    last->next = after;
    ++iface->stats.tx_doorbells;
    if (ret == 0) {
        tx->posted = tx->head;
        return;
    }
    /* The ring is as long as the send queue, so the queue has room. The work requests posted before
     * the failed one have no signaled completion, so the queue pair starts over. */
    ucs_diag("ib_ud_mon: %s:%d: posting a send failed: %s", uct_ud_mon_iface_md(iface)->name,
             iface->port, strerror(ret));
    iface->failed = 1;
}

void uct_ud_mon_tx_done(uct_ud_mon_iface_t *iface, uint32_t tail, ucs_status_t status)
{
    ud_mon_tx_t *tx = &iface->tx;
    uct_completion_t *comp;
    ud_mon_flush_t *flush;

    while (tx->tail != tail) {
        comp = tx->slots[tx->tail & (tx->length - 1)].comp;
        ++tx->tail; /* first, since the callback may send */
        if (comp != NULL) {
            uct_invoke_completion(comp, status);
        }
    }
    while (!ucs_queue_is_empty(&tx->flushes)) {
        flush = ucs_queue_head_elem_non_empty(&tx->flushes, ud_mon_flush_t, queue);
        if (!ud_mon_index_reached(flush->index, tx->tail)) {
            break;
        }
        ucs_queue_pull_non_empty(&tx->flushes);
        uct_invoke_completion(flush->comp, status);
        ucs_free(flush);
    }
    ud_mon_ah_reap(iface);
}

unsigned uct_ud_mon_tx_poll(uct_ud_mon_iface_t *iface)
{
    struct ibv_wc wc[16];
    uint32_t tail;
    int i, count;

    if (iface->tx.tail == iface->tx.posted) {
        return 0;
    }
    count = ibv_poll_cq(iface->tx.cq, ucs_static_array_size(wc), wc);
    if (ucs_unlikely(count < 0)) {
        ucs_diag("ib_ud_mon: polling the send completion queue failed: %m");
        iface->failed = 1;
        return 0;
    }
    for (i = 0; i < count; ++i) {
        tail = (uint32_t)wc[i].wr_id;
        if ((wc[i].wr_id >> 32) != iface->generation) {
            continue;
        }
        if (ucs_unlikely(wc[i].status != IBV_WC_SUCCESS)) {
            /* Of an unsignaled one wr_id says nothing. The queue pair is in error anyway. */
            ucs_diag("ib_ud_mon: %s:%d: a send failed: %s", uct_ud_mon_iface_md(iface)->name,
                     iface->port, ibv_wc_status_str(wc[i].status));
            iface->failed = 1;
            return i;
        }
        uct_ud_mon_tx_done(iface, tail, UCS_OK);
    }
    return count;
}

ucs_status_t uct_ud_mon_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_ud_mon_iface_t);
    ud_mon_flush_t *flush;

    (void)flags;
    uct_ud_mon_tx_doorbell(iface);
    uct_ud_mon_tx_poll(iface);
    if (iface->tx.tail == iface->tx.head) {
        return UCS_OK;
    }
    if (comp != NULL) {
        flush = ucs_malloc(sizeof(*flush), "ud_mon flush");
        if (flush == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        flush->index = iface->tx.head;
        flush->comp = comp;
        ucs_queue_push(&iface->tx.flushes, &flush->queue);
    }
    return UCS_INPROGRESS;
}

ucs_status_t uct_ud_mon_iface_flush(uct_iface_h tl_iface, unsigned flags, uct_completion_t *comp)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_iface, uct_ud_mon_iface_t);

    (void)flags;
    if (comp != NULL) {
        return UCS_ERR_UNSUPPORTED;
    }
    uct_ud_mon_tx_doorbell(iface);
    uct_ud_mon_tx_poll(iface);
    return (iface->tx.tail == iface->tx.head) ? UCS_OK : UCS_INPROGRESS;
}
