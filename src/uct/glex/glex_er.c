#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "glex_er.h"
#include "glex_op.h"
#include "glex_rx.h"

#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <string.h>

/* Fewest messages on their way per FIFO that make sense */
#define UCT_GLEX_ER_MIN_MSGS 4

/* Borrowers that may fill the event queue together */
#define UCT_GLEX_ER_LOSSLESS_SHARES 8u

/* Every message on its way takes an entry of the event queue. Where a full one loses nothing, few
 * senders at once may use it up: credits then come back less often. */
static unsigned uct_glex_er_event_shares(const uct_glex_iface_t *iface)
{
    return UCT_GLEX_NIC_LOSSLESS ? ucs_min(iface->er.max, UCT_GLEX_ER_LOSSLESS_SHARES) :
                                   iface->er.max;
}

ucs_status_t uct_glex_er_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                              unsigned eq_entries)
{
    unsigned max_mem = ucs_min(config->er_max_mem / config->erq_size, 32768);
    ucs_status_t status;

    iface->er_unit_shift = ucs_ilog2(config->erq_unit_size);
    iface->er.units      = config->erq_size / config->erq_unit_size;
    iface->er.max        = ucs_min(config->er_max_channels, max_mem);
    iface->er.next_gen   = iface->uuid;
    if (!uct_glex_iface_has_channel(iface, UCT_GLEX_CHANNEL_ER)) {
        iface->er.max = 0;
    } else {
        iface->er.msgs_max = ucs_min(iface->er.units,
                                     eq_entries / uct_glex_er_event_shares(iface));
        if (iface->er.msgs_max < UCT_GLEX_ER_MIN_MSGS) {
            ucs_error("glex: an event queue with %u entries left is too small for %u ER channels: "
                      "raise UCX_GLEX_EP_EQ_CAPACITY or lower UCX_GLEX_ER_MAX_CHANNELS",
                      eq_entries, iface->er.max);
            return UCS_ERR_INVALID_PARAM;
        }
    }

    iface->er_rx = ucs_calloc(ucs_max(iface->er.max, 1), sizeof(*iface->er_rx), "glex_er_rx");
    if (iface->er_rx == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    iface->er_rx_count = iface->er.max;

    status = uct_glex_buf_pool_init(&iface->er.pool, iface->md, iface->ep_index,
                                    GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA, config->erq_size, 1,
                                    ucs_max(iface->er.max, 1), "glex_er_fifo");
    if (status != UCS_OK) {
        goto err_free;
    }
    status = uct_glex_buf_pool_init(&iface->er.mirror, iface->md, iface->ep_index, GLEX_MEM_READ,
                                    config->erq_size, 1, UINT_MAX, "glex_er_mirror");
    if (status != UCS_OK) {
        goto err_pool;
    }
    return UCS_OK;

err_pool:
    uct_glex_buf_pool_cleanup(&iface->er.pool);
err_free:
    ucs_free(iface->er_rx);
    return status;
}

void uct_glex_er_cleanup_iface(uct_glex_iface_t *iface)
{
    uct_glex_buf_pool_cleanup(&iface->er.mirror);
    uct_glex_buf_pool_cleanup(&iface->er.pool);
    ucs_free(iface->er_rx);
}

/* ---- borrowing ---- */

void uct_glex_er_request(uct_glex_vc_t *vc)
{
    if (uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_ER) &&
        (vc->er_state == UCT_GLEX_ER_NONE)) {
        vc->er_state = UCT_GLEX_ER_REQUESTED;
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_ER_REQUEST);
    }
}

void uct_glex_er_refused(uct_glex_vc_t *vc)
{
    if (vc->er_state != UCT_GLEX_ER_REQUESTED) {
        return;
    }
    vc->er_state    = UCT_GLEX_ER_NONE;
    vc->sr_count    = 0;
    vc->sr_patience = ucs_min(vc->sr_patience * 2, UCT_GLEX_ER_PATIENCE_MAX);
    if (!uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR)) {
        ucs_error("glex: endpoint 0x%" PRIx64 " has no ER channel left for this process and "
                  "UCX_GLEX_CHANNELS allows no other: raise UCX_GLEX_ER_MAX_CHANNELS and "
                  "UCX_GLEX_ER_MAX_MEM there, or use er,sr", vc->peer);
        uct_glex_vc_fail(vc, UCS_ERR_EXCEEDS_LIMIT);
    }
}

static ucs_status_t uct_glex_er_map(uct_glex_vc_t *vc, uct_glex_er_tx_t *er,
                                    const uct_glex_ctl_t *ctl)
{
    glex_ep_addr_t peer  = {.v = vc->peer};
    glex_mem_handle_t mh = {.v = ctl->fifo_mh};
    size_t size          = (size_t)ctl->fifo_units << ctl->unit_shift;
    void *ptr;

    er->mirror = NULL;
    er->remote = NULL;
    if (glex_ext_peer_ptr(vc->iface->nic, peer, mh, ctl->key, ctl->fifo_offset, size, &ptr) ==
        GLEX_SUCCESS) {
        er->remote = ptr;
        return UCS_OK;
    }
    if (size > vc->iface->er.mirror.buf_size) {
        ucs_error("glex: the FIFO lent by endpoint 0x%" PRIx64 " has %zu bytes, ours %zu: set "
                  "UCX_GLEX_ERQ_SIZE alike everywhere",
                  vc->peer, size, vc->iface->er.mirror.buf_size);
        return UCS_ERR_INVALID_PARAM;
    }
    er->mirror = uct_glex_buf_get(&vc->iface->er.mirror);
    return (er->mirror == NULL) ? UCS_ERR_NO_MEMORY : UCS_OK;
}

static int uct_glex_er_grant_valid(const uct_glex_ctl_t *ctl)
{
    return (ctl->fifo_units >= 2) && (ctl->fifo_units <= UCT_GLEX_FIFO_MAX_UNITS) &&
           ucs_is_pow2(ctl->fifo_units) && (ctl->fifo_msgs > 0) && (ctl->unit_shift <= 12) &&
           (UCS_BIT(ctl->unit_shift) >= UCT_GLEX_ER_MIN_UNIT) &&
           (((size_t)ctl->fifo_units << ctl->unit_shift) >= 1024);
}

static void uct_glex_er_post_released(uct_glex_vc_t *vc, uint16_t index, uint8_t gen)
{
    vc->released_index = index;
    vc->released_gen   = gen;
    uct_glex_ctl_post(vc, UCT_GLEX_CTL_ER_RELEASED);
}

void uct_glex_er_granted(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    uct_glex_er_tx_t *er;

    /* It may also come unasked: another borrower's FIFO came free after we were refused */
    if ((vc->er_state == UCT_GLEX_ER_ACTIVE) || !uct_glex_er_grant_valid(ctl)) {
        ucs_error("glex: endpoint 0x%" PRIx64 " granted an impossible FIFO", vc->peer);
        uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
        return;
    }
    er = ucs_calloc(1, sizeof(*er), "glex_er_tx");
    if ((er == NULL) || (uct_glex_er_map(vc, er, ctl) != UCS_OK)) {
        ucs_free(er);
        uct_glex_er_post_released(vc, ctl->fifo_index, ctl->fifo_gen);
        vc->er_state = UCT_GLEX_ER_REQUESTED;
        uct_glex_er_refused(vc);
        return;
    }

    er->index             = ctl->fifo_index;
    er->gen               = ctl->fifo_gen;
    er->cookie_1          = uct_glex_er_cookie_1_base(ctl->fifo_index, ctl->fifo_gen);
    er->offset            = ctl->fifo_offset;
    er->unit_shift        = ctl->unit_shift;
    er->req.rmt_ep_addr.v = vc->peer;
    er->req.rmt_mh.v      = ctl->fifo_mh;
    er->req.rmt_key       = ctl->key;
    er->req.flag          = GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS;

    /* The lender had consumed all that went through an earlier FIFO before it gave this one */
    vc->tx_fifo.tail       = vc->tx_fifo.head;
    vc->tx_fifo.msgs_acked = vc->tx_fifo.msgs;
    vc->tx_fifo.units      = ctl->fifo_units;
    vc->tx_fifo.msgs_max   = ctl->fifo_msgs;
    vc->er_tx              = er;
    vc->er_state           = UCT_GLEX_ER_ACTIVE;
    vc->sr_patience        = UCT_GLEX_ER_PATIENCE_MIN;
    ucs_debug("glex: vc 0x%x: ER to endpoint 0x%" PRIx64 ", %u units of %u bytes, %u messages%s",
              vc->id, vc->peer, ctl->fifo_units, 1U << ctl->unit_shift, ctl->fifo_msgs,
              (er->remote == NULL) ? ", not mapped" : "");
}

static void uct_glex_er_drop_tx(uct_glex_vc_t *vc)
{
    if (vc->er_tx != NULL) {
        if (vc->er_tx->mirror != NULL) {
            uct_glex_buf_put(vc->er_tx->mirror);
        }
        ucs_free(vc->er_tx);
        vc->er_tx = NULL;
    }
    vc->tx_fifo.units    = 0;
    vc->tx_fifo.msgs_max = 0;
    vc->er_state         = UCT_GLEX_ER_NONE;
}

void uct_glex_er_release(uct_glex_vc_t *vc)
{
    if (vc->er_tx == NULL) {
        return;
    }
    uct_glex_er_post_released(vc, vc->er_tx->index, vc->er_tx->gen);
    uct_glex_er_drop_tx(vc);
    vc->sr_count    = 0;
    vc->sr_patience = UCT_GLEX_ER_PATIENCE_MIN * 4; /* others were busier: leave it to them */
    if (!uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR)) {
        uct_glex_er_request(vc); /* there is no other channel */
    }
}

void uct_glex_er_recv_revoke(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    if ((vc->er_tx != NULL) && (vc->er_tx->index == ctl->revoked_index) &&
        (vc->er_tx->gen == ctl->revoked_gen)) {
        uct_glex_er_release(vc);
    } else if (!(vc->ctl & UCT_GLEX_CTL_ER_RELEASED)) {
        /* Released before this came, or never taken: the lender ignores what it knows */
        uct_glex_er_post_released(vc, ctl->revoked_index, ctl->revoked_gen);
    }
}

/* Put what lies in the mirror to the same place in the FIFO; the event follows the data */
static ucs_status_t uct_glex_er_put(uct_glex_vc_t *vc, uint8_t am_id, unsigned flags,
                                    uint16_t offset, uint16_t skip, size_t length)
{
    uct_glex_er_tx_t *er = vc->er_tx;
    uint32_t start       = (uint32_t)offset << er->unit_shift;
    glex_rdma_req_t req;
    glex_ret_t ret;

    req.rmt_ep_addr  = er->req.rmt_ep_addr;
    req.local_mh     = er->mirror->mh;
    req.local_offset = er->mirror->offset + start;
    req.len          = length;
    req.rmt_mh       = er->req.rmt_mh;
    req.rmt_offset   = er->offset + start;
    req.type         = GLEX_RDMA_TYPE_PUT;
    req.rmt_key      = er->req.rmt_key;
    req.flag         = GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS;
    req.next         = NULL;
    uct_glex_er_fill_event(vc, &req.rmt_evt, am_id, flags, skip, length);
    ret = glex_rdma(vc->iface->nic, &req, NULL);
    if (ret != GLEX_SUCCESS) {
        return uct_glex_status(ret);
    }
    uct_glex_er_sent(vc, uct_glex_er_units(vc, length), skip);
    return UCS_OK;
}

/* Where a message is packed: the FIFO itself, or its image */
static void *uct_glex_er_pack_ptr(const uct_glex_vc_t *vc, uint16_t offset)
{
    const uct_glex_er_tx_t *er = vc->er_tx;
    uint8_t *base              = (er->remote != NULL) ? er->remote : er->mirror->ptr;

    return base + ((size_t)offset << er->unit_shift);
}

/* A message of `length` bytes has been packed at `offset` */
static ucs_status_t uct_glex_er_send_packed(uct_glex_vc_t *vc, uint8_t am_id, size_t length,
                                            unsigned flags, uint16_t offset, uint16_t skip)
{
    unsigned units = uct_glex_er_units(vc, length);

    if (vc->er_tx->remote == NULL) {
        if (length <= UCT_GLEX_IMM_PUT_LEN) {
            return uct_glex_er_post(vc, am_id, flags, units, offset, skip,
                                    uct_glex_er_pack_ptr(vc, offset), length, length);
        }
        return uct_glex_er_put(vc, am_id, flags, offset, skip, length);
    }
    return uct_glex_er_post(vc, am_id, flags, units, offset, skip, NULL, 0, length);
}

ucs_status_t uct_glex_er_send_imm_units(uct_glex_vc_t *vc, uint8_t am_id, void *data,
                                        unsigned length, unsigned flags)
{
    unsigned units = uct_glex_er_units(vc, length);
    uint16_t offset, skip;

    if (!uct_glex_fifo_reserve(&vc->tx_fifo, units, &offset, &skip)) {
        return UCS_ERR_NO_RESOURCE;
    }
    return uct_glex_er_post(vc, am_id, flags, units, offset, skip, data, length, length);
}

ucs_status_t uct_glex_er_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                              unsigned flags)
{
    uint16_t offset, skip;

    if (length <= UCT_GLEX_IMM_PUT_LEN) {
        return uct_glex_er_send_imm(vc, am_id, (void*)data, length, flags);
    }
    if (!uct_glex_fifo_reserve(&vc->tx_fifo, uct_glex_er_units(vc, length), &offset, &skip)) {
        return UCS_ERR_NO_RESOURCE;
    }
    memcpy(uct_glex_er_pack_ptr(vc, offset), data, length);
    return uct_glex_er_send_packed(vc, am_id, length, flags, offset, skip);
}

/* How much pack_cb will write is known only afterwards: there must be room for the most. Where it
 * does not fit before the end although the message might, the end is skipped: that costs at most
 * max_bcopy of a lap, and saves a second copy. */
ssize_t uct_glex_er_bcopy(uct_glex_vc_t *vc, uint8_t am_id, uct_pack_callback_t pack_cb, void *arg)
{
    size_t max_bcopy = vc->iface->config.max_bcopy;
    uint16_t offset, skip;
    ucs_status_t status;
    size_t length;

    if (!uct_glex_fifo_reserve(&vc->tx_fifo, uct_glex_er_units(vc, max_bcopy), &offset, &skip)) {
        return UCS_ERR_NO_RESOURCE;
    }
    length = pack_cb(uct_glex_er_pack_ptr(vc, offset), arg);
    ucs_assertv(length <= max_bcopy, "packed %zu bytes, at most %zu", length, max_bcopy);
    status = uct_glex_er_send_packed(vc, am_id, length, 0, offset, skip);
    return (status == UCS_OK) ? (ssize_t)length : (ssize_t)status;
}

/* ---- lending ---- */

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

static void uct_glex_er_drop_rx(uct_glex_vc_t *vc)
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

void uct_glex_er_cleanup(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;

    if (iface->er.waiter == vc) {
        iface->er.waiter = NULL;
    }
    uct_glex_er_drop_tx(vc);
    uct_glex_er_drop_rx(vc);
}
