#include "chan/glex_rx.h"
#include "chan/glex_er.h"
#include "chan/glex_fetch.h"
#include "chan/glex_op.h"

#include <ucs/arch/cpu.h>

static ucs_mpool_ops_t uct_glex_rx_mpool_ops = {.chunk_alloc = ucs_mpool_chunk_malloc,
                                                .chunk_release = ucs_mpool_chunk_free,
                                                .obj_init = NULL,
                                                .obj_cleanup = NULL,
                                                .obj_str = NULL};

ucs_status_t uct_glex_rx_init(uct_glex_iface_t *iface)
{
    return uct_glex_mpool_init(&iface->rx_mp, sizeof(uct_glex_rx_t), UCS_SYS_CACHE_LINE_SIZE, 32,
                               UINT_MAX, &uct_glex_rx_mpool_ops, "glex_rx");
}

void uct_glex_rx_cleanup(uct_glex_iface_t *iface)
{
    uct_glex_mpool_cleanup(&iface->rx_mp);
}

/* Enter a new message in the order of sequence numbers. Most messages are new last messages, so
 * search from the end. Returns NULL if the message is refused. */
static uct_glex_rx_t *uct_glex_rx_new(uct_glex_vc_t *vc, uint16_t seq, uint8_t am_id, int zc)
{
    ucs_list_link_t *pos = vc->rx.prev;
    uct_glex_rx_t *rx;

    if ((int16_t)(seq - vc->rx_seq) < 0) {
        goto err_protocol;
    }
    while (pos != &vc->rx) {
        rx = ucs_container_of(pos, uct_glex_rx_t, list);
        if (rx->seq == seq) {
            goto err_protocol;
        }
        if ((int16_t)(rx->seq - seq) < 0) {
            break;
        }
        pos = pos->prev;
    }

    rx = ucs_mpool_get_inline(&vc->iface->rx_mp);
    if (rx == NULL) {
        ucs_error("glex: no memory to receive from endpoint 0x%" PRIx64, vc->peer);
        uct_glex_vc_report_failed(vc, UCS_ERR_NO_MEMORY);
        return NULL;
    }
    rx->vc = vc;
    rx->buf = NULL;
    rx->seq = seq;
    rx->fifo_used = 0;
    rx->er = 0;
    rx->am_id = am_id;
    rx->op = NULL;
    rx->zc = zc;
    rx->zc_posted = 0;
    rx->sr_zc = 0;
    rx->ready = 0;
    ucs_list_insert_after(pos, &rx->list);
    return rx;

err_protocol:
    ucs_error("glex: endpoint 0x%" PRIx64 " repeated message %u", vc->peer, seq);
    uct_glex_vc_report_failed(vc, UCS_ERR_CONNECTION_RESET);
    return NULL;
}

static void uct_glex_rx_free(uct_glex_rx_t *rx)
{
    if (rx->buf != NULL) {
        uct_glex_buf_put(rx->buf);
        if (!ucs_list_is_empty(&rx->vc->iface->sr.rx_wait)) {
            uct_glex_iface_recheck(rx->vc->iface);
        }
    }
    ucs_mpool_put_inline(rx);
}

static void uct_glex_rx_deliver(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_rx_t *rx;

    while ((vc->rx_started > 0) && !uct_glex_vc_is_over(vc)) {
        rx = ucs_list_head(&vc->rx, uct_glex_rx_t, list);
        if (!rx->ready) {
            break;
        }
        ucs_list_del(&rx->list);
        --vc->rx_started;
        ++vc->rx_seq;
        if (!uct_glex_zc_is_cancelled(rx)) {
            uct_iface_trace_am(&iface->super, UCT_AM_TRACE_TYPE_RECV, rx->am_id, rx->data,
                               rx->length, "RX: queued");
            uct_iface_invoke_am(&iface->super, rx->am_id, rx->data, rx->length, 0);
        }
        if (rx->er) {
            uct_glex_er_consumed(vc, rx->fifo_used);
        }
        uct_glex_rx_free(rx);
    }
}

/* Fetch a message's data unless the data is here. INPROGRESS: the descriptor, or the peer's key, is
 * on the way. */
static ucs_status_t uct_glex_rx_start(uct_glex_rx_t *rx)
{
    ucs_status_t status;

    if (rx->ready) {
        return UCS_OK;
    }
    if (rx->vc->state < UCT_GLEX_VC_OPEN) {
        return UCS_INPROGRESS; /* the key of the peer's memory is in the ACCEPT or CONNECT */
    }
    if (rx->zc) {
        return uct_glex_zc_fetch(rx);
    }
    if (rx->op != NULL) {
        return UCS_INPROGRESS;
    }
    status = uct_glex_sr_fetch(rx);
    return ((status == UCS_OK) && rx->sr_zc) ? UCS_INPROGRESS : status;
}

/* The first message whose fetching has not started, or NULL if this message has not arrived */
static uct_glex_rx_t *uct_glex_rx_next(uct_glex_vc_t *vc)
{
    uint16_t seq = vc->rx_seq + vc->rx_started;
    uct_glex_rx_t *rx;

    /* Most often the last message: search from the end */
    for (ucs_list_link_t *pos = vc->rx.prev; pos != &vc->rx; pos = pos->prev) {
        rx = ucs_container_of(pos, uct_glex_rx_t, list);
        if (rx->seq == seq) {
            return rx;
        }
        if ((int16_t)(rx->seq - seq) < 0) {
            break;
        }
    }
    return NULL;
}

/* Messages of a VC that are fetched at a time. A computing peer on another host answers no Get, and
 * other VCs need receive buffers meanwhile. */
#define UCT_GLEX_RX_STARTED 4

/* Start fetching the next messages, up to the limit. Returns the status of the first message that
 * could not start. */
static ucs_status_t uct_glex_rx_start_some(uct_glex_vc_t *vc)
{
    ucs_status_t status;
    uct_glex_rx_t *rx;

    while (vc->rx_started < UCT_GLEX_RX_STARTED) {
        rx = uct_glex_rx_next(vc);
        if (rx == NULL) {
            break;
        }
        status = uct_glex_rx_start(rx);
        if (status != UCS_OK) {
            return status;
        }
        ++vc->rx_started;
    }
    return UCS_OK;
}

void uct_glex_rx_advance(uct_glex_vc_t *vc)
{
    ucs_status_t status;
    uint16_t seq;

    do {
        seq = vc->rx_seq;
        status = uct_glex_rx_start_some(vc);
        if (status == UCS_ERR_NO_RESOURCE) {
            uct_glex_vc_wait(vc, &vc->iface->sr.rx_wait);
        } else if (UCS_STATUS_IS_ERR(status)) {
            uct_glex_vc_report_failed(vc, status);
            return;
        }
        uct_glex_rx_deliver(vc);
        /* Delivery made room for further messages */
    } while ((vc->rx_seq != seq) && (status == UCS_OK) && !uct_glex_vc_is_over(vc));
}

void uct_glex_rx_keep(uct_glex_vc_t *vc, uint16_t seq, uint8_t am_id, void *data, uint32_t length,
                      int er, uint16_t fifo_used, int zc)
{
    uct_glex_rx_t *rx = uct_glex_rx_new(vc, seq, am_id, zc);

    if (rx == NULL) {
        return;
    }
    if (zc || (fifo_used == 0)) {
        /* A descriptor is checked once, so the peer must not be able to write there afterwards */
        if (length > sizeof(rx->copy)) {
            uct_glex_vc_report_failed(vc, UCS_ERR_MESSAGE_TRUNCATED);
            return;
        }
        memcpy(rx->copy, data, length);
        data = rx->copy;
    }
    rx->data = data;
    rx->length = length;
    rx->fifo_used = fifo_used;
    rx->er = er;
    rx->ready = !zc;
    uct_glex_rx_advance(vc);
}

/* The sender's queue is full: have progress return the unit that was read in place */
static UCS_F_NOINLINE void uct_glex_rx_release_later(uct_glex_vc_t *vc, const uct_glex_sr_t *sr)
{
    uct_glex_rx_t *rx = ucs_mpool_get_inline(&vc->iface->rx_mp);

    if (rx == NULL) {
        ucs_error("glex: no memory to receive from endpoint 0x%" PRIx64, vc->peer);
        uct_glex_vc_report_failed(vc, UCS_ERR_NO_MEMORY);
        return;
    }
    rx->vc = vc;
    rx->buf = NULL;
    rx->sr = *sr;
    ucs_list_add_tail(&vc->iface->sr.unreleased, &rx->list);
}

/* The fast path: an announced message is the next message, and is delivered in the sender's unit.
 * Returns 0 if the message must be fetched. */
static int uct_glex_rx_take_sr(uct_glex_vc_t *vc, uint16_t seq, uint8_t am_id,
                               const uct_glex_sr_t *sr)
{
    uct_glex_iface_t *iface = vc->iface;
    struct glex_ext_pin *pin;
    void *data;

    if ((seq != vc->rx_seq) || !ucs_list_is_empty(&vc->rx) || (vc->state < UCT_GLEX_VC_OPEN)) {
        return 0;
    }
    data = uct_glex_sr_map(vc, sr, &pin);
    if (data == NULL) {
        return 0;
    }
    ++vc->rx_seq;
    uct_iface_trace_am(&iface->super, UCT_AM_TRACE_TYPE_RECV, am_id, data, sr->length, "RX: SR");
    uct_iface_invoke_am(&iface->super, am_id, data, sr->length, 0);
    glex_ext_unpin(pin);
    /* If the handler failed the VC, our claim returns the unit */
    if (ucs_unlikely(uct_glex_sr_release(vc, sr) == GLEX_BUSY) && !uct_glex_vc_is_over(vc)) {
        uct_glex_rx_release_later(vc, sr);
    }
    return 1;
}

void uct_glex_rx_add_sr(uct_glex_vc_t *vc, uint16_t seq, uint8_t am_id,
                        const uct_glex_sr_t *announced, int zc)
{
    uct_glex_sr_t sr = *announced; /* a copy, because the sender can change it after the check */
    uct_glex_rx_t *rx;

    if ((sr.length == 0) || (sr.length > vc->iface->sr.rx.buf_size)) {
        ucs_error("glex: endpoint 0x%" PRIx64 " announced %u bytes, our buffers hold %zu: set "
                  "UCX_GLEX_SRQ_UNIT_SIZE alike everywhere",
                  vc->peer, sr.length, vc->iface->sr.rx.buf_size);
        uct_glex_vc_report_failed(vc, UCS_ERR_MESSAGE_TRUNCATED);
        return;
    }
    if (!zc && uct_glex_rx_take_sr(vc, seq, am_id, &sr)) {
        return;
    }
    rx = uct_glex_rx_new(vc, seq, am_id, 0);
    if (rx == NULL) {
        return;
    }
    rx->sr = sr;
    rx->sr_zc = zc;
    rx->length = sr.length;
    uct_glex_rx_advance(vc);
}

/* A zero-copy descriptor came through SR. Keep the descriptor, because the payload must be fetched
 * next. */
static ucs_status_t uct_glex_rx_keep_descriptor(uct_glex_rx_t *rx)
{
    if (rx->length > sizeof(rx->copy)) {
        ucs_error("glex: zero-copy descriptor of %u bytes from endpoint 0x%" PRIx64, rx->length,
                  rx->vc->peer);
        return UCS_ERR_MESSAGE_TRUNCATED;
    }
    memcpy(rx->copy, rx->data, rx->length);
    uct_glex_buf_put(rx->buf);
    rx->buf = NULL;
    rx->data = rx->copy;
    rx->sr_zc = 0;
    rx->zc = 1;
    return UCS_OK;
}

void uct_glex_rx_fetched(uct_glex_rx_t *rx, ucs_status_t status)
{
    uct_glex_vc_t *vc = rx->vc;

    rx->op = NULL;
    if (uct_glex_vc_is_over(vc)) { /* dropped: see uct_glex_rx_purge() */
        --vc->rx_started;
        uct_glex_rx_free(rx);
        return;
    }
    if (uct_glex_zc_is_cancelled(rx)) {
        status = UCS_OK; /* the Gets may have failed because the payload was unmapped */
    }
    if ((status == UCS_OK) && rx->sr_zc) {
        status = uct_glex_rx_keep_descriptor(rx);
    } else {
        rx->ready = 1;
    }
    if (status != UCS_OK) {
        uct_glex_vc_report_failed(vc, status);
        return;
    }
    uct_glex_rx_advance(vc);
}

/* Return the next units again to senders whose queues were full */
static void uct_glex_rx_release_again(uct_glex_iface_t *iface)
{
    ucs_list_link_t *last = iface->sr.unreleased.prev;
    unsigned left = UCT_GLEX_SLICE;
    uct_glex_rx_t *rx;
    int is_last;

    while ((left-- > 0) && !ucs_list_is_empty(&iface->sr.unreleased)) {
        rx = ucs_list_extract_head(&iface->sr.unreleased, uct_glex_rx_t, list);
        is_last = (&rx->list == last);
        if (uct_glex_sr_release(rx->vc, &rx->sr) != GLEX_BUSY) {
            uct_glex_rx_free(rx);
            ++iface->done;
        } else {
            ucs_list_add_tail(&iface->sr.unreleased, &rx->list);
        }
        if (is_last) {
            return;
        }
    }
    if (!ucs_list_is_empty(&iface->sr.unreleased)) {
        uct_glex_iface_recheck(iface); /* the next progress call continues */
    }
}

void uct_glex_rx_retry_begin(uct_glex_iface_t *iface)
{
    iface->sr.retry_left = iface->num_waiting;
    uct_glex_rx_release_again(iface);
}

void uct_glex_rx_retry_waiting(uct_glex_iface_t *iface)
{
    unsigned left = ucs_min(iface->sr.retry_left, UCT_GLEX_SLICE);
    uct_glex_vc_t *vc;

    iface->sr.retry_left -= left;
    while ((left-- > 0) && !ucs_list_is_empty(&iface->sr.rx_wait)) {
        vc = ucs_list_head(&iface->sr.rx_wait, uct_glex_vc_t, wait);
        uct_glex_vc_wait_end(vc);
        uct_glex_rx_advance(vc);
    }
}

void uct_glex_rx_purge(uct_glex_vc_t *vc)
{
    uct_glex_rx_t *rx, *tmp;

    ucs_list_for_each_safe(rx, tmp, &vc->rx, list) {
        ucs_list_del(&rx->list);
        if ((rx->op != NULL) && !uct_glex_op_give_up(rx->op, uct_glex_zc_unposted(rx))) {
            ++vc->rx_started; /* freed when the Gets have ended: see uct_glex_rx_fetched() */
        } else {
            uct_glex_rx_free(rx);
        }
    }
    ucs_list_for_each_safe(rx, tmp, &vc->iface->sr.unreleased, list) {
        if (rx->vc == vc) { /* our claim returns the unit */
            ucs_list_del(&rx->list);
            uct_glex_rx_free(rx);
        }
    }
}
