#include "core/glex_ep.h"
#include "core/glex_iface.h"
#include "chan/glex_er.h"
#include "chan/glex_op.h"
#include "chan/glex_rx.h"
#include "chan/glex_sr.h"
#include "conn/glex_ctl.h"
#include "conn/glex_life.h"
#include "conn/glex_pending.h"
#include "conn/glex_rules.h"
#include "vc/glex_mpq.h"
#include "conn/glex_table.h"
#include "rma/glex_atomic.h"
#include "rma/glex_rma.h"
#include "vc/glex_lease.h"

#include <ucs/arch/cpu.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/string.h>

/* Progress polls the NIC's error queue after at least this number of calls, and this number of
 * microseconds. A poll takes as long as ten idle progress calls, and delays the next message. */
#define UCT_GLEX_ERRORS_CALLS 256
#define UCT_GLEX_ERRORS_US    16

/* Number of progress calls between two polls if progress is behind: further peers are due to be
 * checked, or the last poll was late by this number of microseconds, because the program's handlers
 * take long */
#define UCT_GLEX_BEHIND_CALLS   16
#define UCT_GLEX_ERRORS_LATE_US 1000

/* While FIFOs have messages, progress polls the NIC's queues once in this number of calls */
#define UCT_GLEX_QUEUES_CALLS 8

/* Most pending requests that one progress call tries */
#define UCT_GLEX_PENDING_TRIES 256

/* Longest time that closing waits for room in peers' queues to send ENDs */
#define UCT_GLEX_GOODBYE_MS 1000

/* UCX_GLEX_MIN_RNDV=auto over the software NIC */
#define UCT_GLEX_MIN_RNDV 16385

/* ---- progress ---- */

/* Whether progress has work now. Requests that wait for a peer are no work. */
static int uct_glex_iface_is_due(uct_glex_iface_t *iface)
{
    return !ucs_queue_is_empty(&iface->active) || !ucs_arbiter_is_empty(&iface->arbiter) ||
           iface->recheck || (iface->sr.retry_left > 0) || iface->has_error;
}

/* Resources came free, or a peer's queue was full */
static UCS_F_NOINLINE void uct_glex_iface_progress_recheck(uct_glex_iface_t *iface)
{
    iface->recheck = 0;
    iface->retry = 0;
    uct_glex_vc_free_unused(iface);
    uct_glex_ctl_progress_refusals(iface);
    uct_glex_lease_progress(iface);
    uct_glex_rx_retry_begin(iface);
    uct_glex_mpq_retry(iface);
}

/* All progress except the arrival of messages. Returns the amount of work. If the amount is not 0,
 * the caller calls again. Requests that wait for a full queue or a buffer are not counted, because
 * the caller should leave the processor to other processes. */
static UCS_F_NOINLINE unsigned uct_glex_iface_progress_due(uct_glex_iface_t *iface)
{
    unsigned done = iface->done, tries = UCT_GLEX_PENDING_TRIES, count;

    if (ucs_unlikely(iface->has_error)) {
        uct_glex_error_progress(iface);
    }
    if (iface->recheck || iface->retry) {
        uct_glex_iface_progress_recheck(iface);
    }
    if (iface->sr.retry_left > 0) {
        uct_glex_rx_retry_waiting(iface);
    }
    count = ucs_list_is_empty(&iface->er.starved) ? 0 : uct_glex_er_progress_starved(iface);
    if (!ucs_queue_is_empty(&iface->blocked)) {
        uct_glex_ctl_retry_blocked(iface);
    }
    ucs_arbiter_dispatch(&iface->arbiter, 1, uct_glex_ep_process_pending, &tries);
    /* After the pending requests, because their headers return credits and acknowledgements */
    if (!ucs_queue_is_empty(&iface->active)) {
        count += uct_glex_ctl_progress(iface);
    }
    iface->due = uct_glex_iface_is_due(iface) || iface->retry ||
                 !ucs_queue_is_empty(&iface->blocked) || !ucs_list_is_empty(&iface->er.starved);
    return count + (iface->done - done);
}

static UCS_F_NOINLINE unsigned uct_glex_iface_progress_errors(uct_glex_iface_t *iface)
{
    unsigned done = iface->done;
    ucs_time_t now = ucs_get_time();
    int is_behind;

    if (now < iface->errors_next) {
        iface->until_errors = iface->errors_calls;
        return 0;
    }
    is_behind = (now - iface->errors_next) > ucs_time_from_usec(UCT_GLEX_ERRORS_LATE_US);
    iface->errors_next = now + ucs_time_from_usec(UCT_GLEX_ERRORS_US);
    uct_glex_er_poll_sweep(iface);
    is_behind |= uct_glex_error_progress(iface);
    iface->errors_calls = is_behind ? UCT_GLEX_BEHIND_CALLS : UCT_GLEX_ERRORS_CALLS;
    iface->until_errors = iface->errors_calls;
    return iface->done - done;
}

static UCS_F_ALWAYS_INLINE unsigned uct_glex_iface_progress_rest(uct_glex_iface_t *iface)
{
    unsigned count = 0;

    if (ucs_unlikely(iface->due)) {
        count += uct_glex_iface_progress_due(iface);
    }
    if (ucs_unlikely(--iface->until_errors == 0)) {
        count += uct_glex_iface_progress_errors(iface);
    }
    return count;
}

static void uct_glex_iface_take_event(uct_glex_iface_t *iface, uint64_t word,
                                      uct_glex_credits_t credits)
{
    switch (uct_glex_hdr_type(word)) {
    case UCT_GLEX_EVENT_ER:
        uct_glex_er_recv(iface, word, credits);
        break;
    case UCT_GLEX_EVENT_OP:
        uct_glex_op_event(iface, word >> 32, UCS_OK);
        break;
    case UCT_GLEX_EVENT_PUTS:
        uct_glex_flush_puts_ended(iface, word >> 32);
        break;
    case UCT_GLEX_EVENT_RING:
        uct_glex_er_recv_ring(iface, word);
        break;
    default:
        ucs_debug("glex: foreign event 0x%" PRIx64 " ignored", word);
        break;
    }
}

static UCS_F_ALWAYS_INLINE void uct_glex_iface_take(uct_glex_iface_t *iface)
{
    const struct glex_ext_arrival *arrival = &iface->arrival;
    uct_glex_credits_t credits;
    uint64_t word;

    if (ucs_unlikely(arrival->event == NULL)) {
        uct_glex_mp_recv(iface, arrival->src.v, arrival->data, arrival->len);
        return;
    }
    word = arrival->event->cookie_1; /* a single load: the sender can still write to the event */
    credits.word = arrival->event->cookie_0;
    uct_glex_iface_take_event(iface, word, credits);
}

/* Take further arrivals, up to the window. After a single message, progress returns at once and
 * lets the caller answer. In a stream, polling again is better. So the window grows while it is
 * filled. Returns the number of arrivals that were taken here. */
static UCS_F_NOINLINE unsigned uct_glex_iface_take_more(uct_glex_iface_t *iface)
{
    unsigned count = 1;

    while (glex_ext_poll(iface->nic, &iface->arrival) == GLEX_SUCCESS) {
        uct_glex_iface_take(iface);
        if (++count >= iface->poll_window) {
            iface->poll_window = ucs_min(iface->poll_window + 1, UCT_GLEX_POLL_BATCH);
            break;
        }
    }
    return count - 1;
}

static UCS_F_NOINLINE unsigned uct_glex_iface_progress_arrived(uct_glex_iface_t *iface)
{
    unsigned count = 1;

    uct_glex_iface_take(iface);
    if (iface->poll_window == 1) {
        iface->poll_window = 2;
    } else {
        count += uct_glex_iface_take_more(iface);
    }
    return count + uct_glex_iface_progress_rest(iface);
}

/* FIFOs had messages. Poll the NIC's queues, too, so that busy FIFOs do not delay the queues. */
static UCS_F_NOINLINE unsigned uct_glex_iface_progress_queues(uct_glex_iface_t *iface)
{
    ++iface->until_errors; /* this call is counted by progress_rest(), too */
    return (glex_ext_poll(iface->nic, &iface->arrival) == GLEX_SUCCESS) ?
               uct_glex_iface_progress_arrived(iface) :
               uct_glex_iface_progress_rest(iface);
}

static UCS_F_ALWAYS_INLINE unsigned uct_glex_iface_progress_fifos(uct_glex_iface_t *iface)
{
    if (ucs_unlikely((--iface->until_errors % UCT_GLEX_QUEUES_CALLS) == 0)) {
        return uct_glex_iface_progress_queues(iface);
    }
    return ucs_unlikely(iface->due) ? uct_glex_iface_progress_due(iface) : 0;
}

/* No FIFO had a message */
static UCS_F_NOINLINE unsigned uct_glex_iface_progress_nic(uct_glex_iface_t *iface)
{
    if (glex_ext_poll(iface->nic, &iface->arrival) == GLEX_SUCCESS) {
        return uct_glex_iface_progress_arrived(iface);
    }
    iface->poll_window = 1;
    if (!UCT_GLEX_NIC_QUEUES) {
        ++iface->num_empty;
    }
    return uct_glex_iface_progress_rest(iface);
}

static UCS_F_NOINLINE unsigned uct_glex_iface_progress_polled(uct_glex_iface_t *iface)
{
    unsigned count;

    count = (iface->num_polled == 1) ? uct_glex_er_take(iface->er.polled[0]) :
                                       uct_glex_er_poll_some(iface);
    if (count == 0) {
        return uct_glex_iface_progress_nic(iface);
    }
    /* As in uct_glex_iface_take_more(): return at once after a single message. While FIFOs and
     * queues are busy, the window stays large, because the queues are polled seldom. */
    if (iface->poll_window == 1) {
        iface->poll_window = 2;
    } else if (iface->num_polled == 1) {
        count += uct_glex_er_poll_fifo(iface->er.polled[0]);
    }
    return count + uct_glex_iface_progress_fifos(iface);
}

static unsigned uct_glex_iface_progress(uct_iface_h tl_iface)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    unsigned count;

    count = (iface->num_polled > 0) ? uct_glex_iface_progress_polled(iface) :
                                      uct_glex_iface_progress_nic(iface);
#ifdef OPENGLEX_DEBUG
    uct_glex_rules_check(iface);
#endif
    return count;
}

/* ---- sleep ---- */

static ucs_status_t uct_glex_iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);

    if (iface->event_fd < 0) {
        return UCS_ERR_UNSUPPORTED;
    }
    *fd_p = iface->event_fd;
    return UCS_OK;
}

static ucs_status_t uct_glex_iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    uct_glex_iface_t *iface = ucs_derived_of(tl_iface, uct_glex_iface_t);
    glex_ret_t ret;

    /* Work for progress causes no event. Messages in polled FIFOs and published credits cause an
     * event only if the peer knows that this process sleeps. */
    if (uct_glex_error_look(iface) || uct_glex_iface_is_due(iface) || uct_glex_er_sleep(iface)) {
        return UCS_ERR_BUSY;
    }
    ret = glex_ext_arm(iface->nic);
    if (ret == GLEX_BUSY) {
        return UCS_ERR_BUSY;
    }
    return uct_glex_status(ret);
}

/* ---- life ---- */

/*
 * Whether am_zcopy is offered, and from where on UCP may use a rendezvous. Over the software NIC a
 * copy of private memory is a system call. UCP does not know what this call costs before the first
 * byte, and begins the rendezvous at one fragment. 16 KB take 2 us in fragments and 7 us by the kernel
 * on near processors, 5 to 7 us and 7 us on far processors (docs/performance.md). UCP takes the larger
 * of its estimate and cap.am.min_zcopy, also from an interface without am_zcopy.
 */
static void uct_glex_iface_init_zcopy(uct_glex_iface_t *iface,
                                      const uct_glex_iface_config_t *config)
{
    int is_syscall = uct_glex_md_rdma_now(iface->md);

    if (config->zc_max_size != UCS_MEMUNITS_AUTO) {
        iface->config.max_zcopy = config->zc_max_size;
    } else {
        iface->config.max_zcopy =
            is_syscall ? 0 : ucs_min(config->srq_unit_size, UCT_GLEX_ZC_MAX_LEN);
    }
    if (config->min_rndv != UCS_MEMUNITS_AUTO) {
        iface->config.min_rndv = config->min_rndv;
    } else {
        iface->config.min_rndv =
            (is_syscall && (iface->config.max_zcopy == 0)) ? UCT_GLEX_MIN_RNDV : 0;
    }
    if (iface->config.max_zcopy > 0) {
        iface->config.min_rndv = ucs_min(iface->config.min_rndv, iface->config.max_zcopy);
    }
}

static void uct_glex_iface_init_config(uct_glex_iface_t *iface,
                                       const uct_glex_iface_config_t *config)
{
    unsigned units = uct_glex_config_fifo_size(config) / config->erq_unit_size;
    size_t er_max =
        ucs_min(UCT_GLEX_ER_MAX_LENGTH, config->erq_unit_size * uct_glex_fifo_max_message(units));

    iface->channels = config->channels;
    iface->config.rma_buf_size = config->rma_buf_size;
    iface->config.max_bcopy = config->srq_unit_size;
    iface->config.max_rma_short = uct_glex_md_rdma_now(iface->md) ?
                                      uct_glex_iface_max_rdma(iface) :
                                      ucs_min(config->rma_buf_size, UCT_GLEX_IMM_PUT_LEN);
    if (!uct_glex_iface_has_channel(iface, UCT_GLEX_CHANNEL_SR)) {
        iface->config.max_bcopy = ucs_min(iface->config.max_bcopy, er_max);
    }
    uct_glex_iface_init_zcopy(iface, config);
}

/* Most events in flight without ER: fetched units, RMA that ends later, zero copy, Gets of this
 * side */
static unsigned uct_glex_iface_op_events(const uct_glex_md_t *md,
                                         const uct_glex_iface_config_t *config)
{
    unsigned rma = uct_glex_md_rdma_now(md) ? 0 : config->rma_req_capacity;

    return 2 * config->srq_capacity + rma + (2 + UCT_GLEX_ZC_MAX_IOV) * config->zc_req_capacity +
           UCT_GLEX_POLL_BATCH;
}

static ucs_status_t uct_glex_iface_init_nic(uct_glex_iface_t *iface)
{
    glex_ep_addr_t addr;
    ucs_status_t status;

    status = uct_glex_md_ep_get(iface->md, iface->uuid, &iface->nic, &iface->ep_index);
    if (status != UCS_OK) {
        return status;
    }
    glex_get_ep_addr(iface->nic, &addr);
    iface->ep_addr = addr.v;
    if (glex_ext_event_fd(iface->nic, &iface->event_fd) != GLEX_SUCCESS) {
        iface->event_fd = -1;
    }
    return UCS_OK;
}

static void uct_glex_iface_cleanup_channels(uct_glex_iface_t *iface)
{
    uct_glex_rx_cleanup(iface);
    uct_glex_op_cleanup(iface);
    uct_glex_er_cleanup_iface(iface);
    uct_glex_sr_cleanup(iface);
}

static ucs_status_t uct_glex_iface_init_channels(uct_glex_iface_t *iface,
                                                 const uct_glex_iface_config_t *config)
{
    unsigned events = uct_glex_iface_op_events(iface->md, config);
    struct glex_ep_attr attr;
    ucs_status_t status;

    glex_query_ep(iface->nic, &attr);
    status = uct_glex_mpq_init(iface, config, attr.mpq_capacity);
    if (status != UCS_OK) {
        return status;
    }
    if (attr.eq_capacity <= events) {
        ucs_error("glex: an event queue of %u entries is too small for what may be on its way, "
                  "%u: raise UCX_GLEX_EP_EQ_CAPACITY, or lower SRQ_CAPACITY or ZC_REQ_CAPACITY",
                  attr.eq_capacity, events);
        return UCS_ERR_INVALID_PARAM;
    }
    status = uct_glex_sr_init(iface, config);
    if (status == UCS_OK) {
        status = uct_glex_er_init(iface, config, attr.eq_capacity - events);
    }
    if (status == UCS_OK) {
        status = uct_glex_op_init(iface, config);
    }
    if (status == UCS_OK) {
        status = uct_glex_rx_init(iface);
    }
    if (status == UCS_OK) {
        status = uct_glex_lease_init(iface);
    }
    if (status != UCS_OK) {
        uct_glex_iface_cleanup_channels(iface); /* parts that were not initialized are 0 */
    }
    return status;
}

/* The alignment of data that a handler may keep. No handler may keep data (UCT_CB_PARAM_FLAG_DESC),
 * so only impossible values are refused. */
static ucs_status_t uct_glex_iface_check_alignment(const uct_iface_params_t *params)
{
    size_t alignment = UCT_IFACE_PARAM_VALUE(params, am_alignment, AM_ALIGNMENT, 1);
    size_t offset = UCT_IFACE_PARAM_VALUE(params, am_align_offset, AM_ALIGN_OFFSET, 0);

    if ((alignment == 0) || !ucs_is_pow2(alignment)) {
        ucs_error("glex: active message alignment %zu is not a power of two", alignment);
        return UCS_ERR_INVALID_PARAM;
    }
    if ((offset != 0) && !(params->field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT)) {
        ucs_error("glex: active message offset %zu without an alignment", offset);
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

static uct_iface_ops_t uct_glex_iface_ops;
static uct_iface_internal_ops_t uct_glex_iface_internal_ops;

static UCS_CLASS_INIT_FUNC(uct_glex_iface_t, uct_md_h md, uct_worker_h worker,
                           const uct_iface_params_t *params, const uct_iface_config_t *tl_config)
{
    const uct_glex_iface_config_t *config = ucs_derived_of(tl_config, uct_glex_iface_config_t);
    ucs_status_t status;

    UCT_CHECK_PARAM(params->field_mask & UCT_IFACE_PARAM_FIELD_OPEN_MODE,
                    "UCT_IFACE_PARAM_FIELD_OPEN_MODE is not defined");
    UCT_CHECK_PARAM(params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE,
                    "glex can only be opened as a device");
    status = uct_glex_iface_config_check(config);
    if (status != UCS_OK) {
        return status;
    }
    status = uct_glex_iface_check_alignment(params);
    if (status != UCS_OK) {
        return status;
    }

    UCS_CLASS_CALL_SUPER_INIT(
        uct_base_iface_t, &uct_glex_iface_ops, &uct_glex_iface_internal_ops, md, worker, params,
        tl_config UCS_STATS_ARG(
            (params->field_mask & UCT_IFACE_PARAM_FIELD_STATS_ROOT) ? params->stats_root : NULL)
            UCS_STATS_ARG(UCT_GLEX_NAME));

    memset(&self->super + 1, 0, sizeof(*self) - sizeof(self->super));
    self->md = ucs_derived_of(md, uct_glex_md_t);
    self->uuid = (uint32_t)ucs_generate_uuid((uintptr_t)self) | 1; /* 0: no interface */
    self->poll_window = 1;
    self->until_errors = UCT_GLEX_ERRORS_CALLS;
    self->errors_calls = UCT_GLEX_ERRORS_CALLS;
    self->goodbye_ms = UCT_GLEX_GOODBYE_MS;
    self->reports = &uct_glex_vc_reports;
    ucs_queue_head_init(&self->active);
    ucs_queue_head_init(&self->blocked);
    ucs_arbiter_init(&self->arbiter);

    status = uct_glex_table_init(self);
    if (status != UCS_OK) {
        return status;
    }
    uct_glex_iface_init_config(self, config);
    status = uct_glex_iface_init_nic(self);
    if (status != UCS_OK) {
        goto err_table;
    }
    status = uct_glex_iface_init_channels(self, config);
    if (status != UCS_OK) {
        goto err_nic;
    }
    return UCS_OK;

err_nic:
    uct_glex_md_ep_put(self->md, self->ep_index);
err_table:
    uct_glex_table_cleanup(self);
    return status;
}

static UCS_CLASS_CLEANUP_FUNC(uct_glex_iface_t)
{
    unsigned i;

    uct_base_iface_progress_disable(&self->super.super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    for (i = 0; i < self->num_vcs; ++i) {
        uct_glex_vc_destroy(self->vcs[i]);
    }
    uct_glex_lease_cleanup(self);
    glex_ext_set_receiver(self->nic, 0); /* after the ENDs: a peer handles the END first */
    uct_glex_er_close(self);
    uct_glex_vc_free_unused(self);
    uct_glex_iface_cleanup_channels(self);
    uct_glex_table_cleanup(self);
    ucs_arbiter_cleanup(&self->arbiter);
    uct_glex_md_ep_put(self->md, self->ep_index);
}

UCS_CLASS_DEFINE(uct_glex_iface_t, uct_base_iface_t);
static UCS_CLASS_DEFINE_NEW_FUNC(uct_glex_iface_t, uct_iface_t, uct_md_h, uct_worker_h,
                                 const uct_iface_params_t *, const uct_iface_config_t *);
static UCS_CLASS_DEFINE_DELETE_FUNC(uct_glex_iface_t, uct_iface_t);

static uct_iface_ops_t uct_glex_iface_ops = {
    .ep_put_short = uct_glex_ep_put_short,
    .ep_put_bcopy = uct_glex_ep_put_bcopy,
    .ep_put_zcopy = uct_glex_ep_put_zcopy,
    .ep_get_short = uct_glex_ep_get_short,
    .ep_get_bcopy = uct_glex_ep_get_bcopy,
    .ep_get_zcopy = uct_glex_ep_get_zcopy,
    .ep_atomic_cswap64 = uct_glex_ep_atomic_cswap64,
    .ep_atomic64_post = uct_glex_ep_atomic64_post,
    .ep_atomic64_fetch = uct_glex_ep_atomic64_fetch,
    .ep_atomic_cswap32 = uct_glex_ep_atomic_cswap32,
    .ep_atomic32_post = uct_glex_ep_atomic32_post,
    .ep_atomic32_fetch = uct_glex_ep_atomic32_fetch,
    .ep_am_short = uct_glex_ep_am_short,
    .ep_am_short_iov = uct_glex_ep_am_short_iov,
    .ep_am_bcopy = uct_glex_ep_am_bcopy,
    .ep_am_zcopy = uct_glex_ep_am_zcopy,
    .ep_pending_add = uct_glex_ep_pending_add,
    .ep_pending_purge = uct_glex_ep_pending_purge,
    .ep_flush = uct_glex_ep_flush,
    .ep_fence = uct_glex_ep_fence,
    .ep_check = uct_glex_ep_check,
    .ep_create = UCS_CLASS_NEW_FUNC_NAME(uct_glex_ep_t),
    .ep_destroy = UCS_CLASS_DELETE_FUNC_NAME(uct_glex_ep_t),
    .iface_flush = uct_glex_iface_flush,
    .iface_fence = uct_glex_iface_fence,
    .iface_progress_enable = uct_base_iface_progress_enable,
    .iface_progress_disable = uct_base_iface_progress_disable,
    .iface_progress = uct_glex_iface_progress,
    .iface_event_fd_get = uct_glex_iface_event_fd_get,
    .iface_event_arm = uct_glex_iface_event_arm,
    .iface_close = UCS_CLASS_DELETE_FUNC_NAME(uct_glex_iface_t),
    .iface_query = uct_glex_iface_query,
    .iface_get_address = uct_glex_iface_get_address,
    .iface_get_device_address = uct_glex_iface_get_device_address,
    .iface_is_reachable = uct_glex_iface_is_reachable};

static uct_iface_internal_ops_t uct_glex_iface_internal_ops = {
    UCT_GLEX_IFACE_INTERNAL_OPS.iface_estimate_perf = uct_glex_iface_estimate_perf,
    .iface_vfs_refresh = (uct_iface_vfs_refresh_func_t)ucs_empty_function,
    .ep_query = (uct_ep_query_func_t)ucs_empty_function_return_unsupported,
    .ep_invalidate = (uct_ep_invalidate_func_t)ucs_empty_function_return_unsupported};

static ucs_status_t uct_glex_query_devices(uct_md_h md, uct_tl_device_resource_t **devices_p,
                                           unsigned *num_devices_p)
{
    char name[UCT_DEVICE_NAME_MAX];

    ucs_snprintf_zero(name, sizeof(name), UCT_GLEX_DEVICE_NAME,
                      ucs_derived_of(md, uct_glex_md_t)->nic);
    return uct_single_device_resource(md, name, UCT_DEVICE_TYPE_NET, UCS_SYS_DEVICE_ID_UNKNOWN,
                                      devices_p, num_devices_p);
}

UCT_TL_DEFINE_ENTRY(&uct_glex_component, glex, uct_glex_query_devices, uct_glex_iface_t, "GLEX_",
                    uct_glex_iface_config_table, uct_glex_iface_config_t)

UCT_SINGLE_TL_INIT(&uct_glex_component, glex, , , )
