#include "chan/glex_er.h"

#include <ucs/arch/cpu.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/sys/string.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Least number of messages in flight with a FIFO */
#define UCT_GLEX_ER_MIN_MSGS 4

/* Number of large FIFOs, and the size of a large FIFO; docs/variables.md */
#define UCT_GLEX_ER_LARGE      4u
#define UCT_GLEX_ER_LARGE_SIZE (256ul << 10)

/* UCX_GLEX_ERQ_SPACING=auto in large FIFOs on processors of AMD */
#define UCT_GLEX_ER_SPACING 2048ul

/* On a NIC whose full event queue loses nothing: most shares of the event queue */
#define UCT_GLEX_ER_LOSSLESS_SHARES 8u

/* Number of shares of the event queue. Each message in flight takes an entry. If a full queue loses
 * nothing, few borrowers get larger shares, so credits return less often. */
static unsigned uct_glex_er_event_shares(const uct_glex_iface_t *iface)
{
    return UCT_GLEX_NIC_LOSSLESS ? ucs_min(iface->er.max, UCT_GLEX_ER_LOSSLESS_SHARES) :
                                   iface->er.max;
}

static ucs_status_t uct_glex_er_init_pools(uct_glex_iface_t *iface)
{
    ucs_status_t status = UCS_OK;
    size_t size;
    int i;

    for (i = 0; (i < 2) && (status == UCS_OK); ++i) {
        size = (size_t)iface->er.units[i] << iface->er.layout[i].unit_shift;
        status = uct_glex_buf_pool_init(&iface->er.pool[i], iface->md, iface->nic, GLEX_MEM_WRITE,
                                        uct_glex_er_pad(iface->er.layout[i]) + size +
                                            UCT_GLEX_FIFO_RING_SIZE,
                                        1, ucs_max(iface->er.max, 1), "glex_er_fifo");
        if (status == UCS_OK) {
            status = uct_glex_buf_pool_init(&iface->er.mirror[i], iface->md, iface->nic,
                                            GLEX_MEM_READ, size, 1, UINT_MAX, "glex_er_mirror");
        }
    }
    return status;
}

/*
 * The spacing of long messages. While the lender reads a message, the prefetcher of an AMD
 * processor also fetches the next message, which the borrower is writing. A spacing prevents this
 * (docs/performance.md, "Zen 4"). Small FIFOs have no spacing, because they would hold few
 * messages. Short messages have no spacing: they gain nothing, and each short message would touch
 * another page.
 */
static size_t uct_glex_er_spacing(const uct_glex_iface_config_t *config, size_t size)
{
    if (config->erq_spacing != UCS_MEMUNITS_AUTO) {
        return ucs_min(config->erq_spacing, size / UCT_GLEX_FIFO_MIN_UNITS);
    }
    return ((size >= UCT_GLEX_ER_LARGE_SIZE) && (ucs_arch_get_cpu_vendor() == UCS_CPU_VENDOR_AMD)) ?
               UCT_GLEX_ER_SPACING :
               0;
}

static uct_glex_fifo_layout_t uct_glex_er_layout(const uct_glex_iface_config_t *config, size_t size)
{
    size_t spacing = ucs_max(uct_glex_er_spacing(config, size), config->erq_unit_size);

    return (uct_glex_fifo_layout_t){.unit_shift = ucs_ilog2(config->erq_unit_size),
                                    .spacing_shift = ucs_ilog2(spacing)};
}

/*
 * A stream of 1 to 8 KB through a FIFO that fits into the processor's first caches is two to four
 * times slower than through a large FIFO. The reason is the prefetcher of the borrower's processor:
 * the lines of a small FIFO are still in the caches of both processors, and the prefetcher does not
 * fetch such lines for writing. But every FIFO takes memory, also without a stream. So only the
 * first FIFOs are large, if the user chose no size. They take half of ER_MAX_MEM at most. Between
 * hosts, large FIFOs allow more data in flight.
 */
static void uct_glex_er_init_sizes(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config)
{
    size_t size = uct_glex_config_fifo_size(config);
    size_t large = ucs_max(size, UCT_GLEX_ER_LARGE_SIZE);
    size_t max;

    if ((config->erq_size != UCS_MEMUNITS_AUTO) || !UCT_GLEX_NIC_LOSSLESS) {
        large = size;
    }
    iface->er.units[0] = size / config->erq_unit_size;
    iface->er.units[1] = large / config->erq_unit_size;
    iface->er.layout[0] = uct_glex_er_layout(config, size);
    iface->er.layout[1] = uct_glex_er_layout(config, large);
    iface->er.large_left =
        (large > size) ? ucs_min(UCT_GLEX_ER_LARGE, config->er_max_mem / 2 / large) : 0;
    max = (config->er_max_mem - iface->er.large_left * large) / size + iface->er.large_left;
    iface->er.max = ucs_min(config->er_max_channels, ucs_min(max, 32768));
    /* A stopped peer keeps its FIFO in a lease. A NIC that loses events has no room in its event
     * queue for more FIFOs. */
    iface->er.max_bufs = UCT_GLEX_NIC_LOSSLESS ? 2 * iface->er.max : iface->er.max;
}

/* Most messages in flight of a borrower that does not map its FIFO */
static ucs_status_t uct_glex_er_init_msgs(uct_glex_iface_t *iface, unsigned eq_entries)
{
    iface->er.msgs_max = ucs_min(iface->er.units[0], eq_entries / uct_glex_er_event_shares(iface));
    if (iface->er.msgs_max >= UCT_GLEX_ER_MIN_MSGS) {
        return UCS_OK;
    }
    ucs_error("glex: an event queue with %u entries left is too small for %u ER channels, which "
              "need %u: raise UCX_GLEX_EP_EQ_CAPACITY, or lower UCX_GLEX_ER_MAX_CHANNELS, "
              "SRQ_CAPACITY or ZC_REQ_CAPACITY",
              eq_entries, iface->er.max, UCT_GLEX_ER_MIN_MSGS * uct_glex_er_event_shares(iface));
    return UCS_ERR_INVALID_PARAM;
}

/* Register this process for membarrier() calls of other processes. Returns whether this process can
 * call membarrier(). */
static int uct_glex_er_init_membarrier(void)
{
    return (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0) &&
           (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0);
}

ucs_status_t uct_glex_er_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                              unsigned eq_entries)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    ucs_list_head_init(&iface->er.starved);
    uct_glex_er_init_sizes(iface, config);
    iface->er.thresh =
        uct_glex_iface_has_channel(iface, UCT_GLEX_CHANNEL_SR) ? config->er_thresh : 0;
    iface->er.has_membarrier = uct_glex_er_init_membarrier();
    if (uct_glex_iface_has_channel(iface, UCT_GLEX_CHANNEL_ER)) {
        status = uct_glex_er_init_msgs(iface, eq_entries);
    } else {
        iface->er.max = 0;
    }
    if (status != UCS_OK) {
        return status;
    }

    iface->er_rx = ucs_calloc(ucs_max(iface->er.max, 1), sizeof(*iface->er_rx), "glex_er_rx");
    iface->er.polled =
        ucs_calloc(ucs_max(iface->er.max, 1), sizeof(*iface->er.polled), "glex_er_polled");
    if ((iface->er_rx == NULL) || (iface->er.polled == NULL)) {
        return UCS_ERR_NO_MEMORY;
    }
    for (i = 0; i < iface->er.max; ++i) {
        iface->er_rx[i].next_free = i + 1;
    }
    return uct_glex_er_init_pools(iface);
}

void uct_glex_er_cleanup_iface(uct_glex_iface_t *iface)
{
    int i;

    for (i = 0; i < 2; ++i) {
        uct_glex_buf_pool_cleanup(&iface->er.mirror[i]);
        uct_glex_buf_pool_cleanup(&iface->er.pool[i]);
    }
    ucs_free(iface->er.polled);
    ucs_free(iface->er_rx);
}

/* ---- published credits, the borrower's side ---- */

/*
 * The credits of a FIFO that its borrower maps. The lender publishes the totals of consumed units
 * and messages beside the slots. A borrower with credits does not read them, so the cache line
 * stays with the lender. A borrower without credits reads the line before a send is refused, and at
 * every progress. A sleeping borrower makes a wake-up request beside the credits, and gets a
 * message. A borrower that cannot map the FIFO cannot withdraw the initial request, and always gets
 * messages.
 *
 * A borrower that reads credits ignores the credits in headers. The borrower may send for long
 * without progress while a header waits. When the counters have gone half way round, the credits of
 * such a header would look new.
 */

/* Add the stored messages to the NIC's counters, before 65,536 messages are stored */
static void uct_glex_er_count(uct_glex_vc_t *vc)
{
    uct_glex_er_tx_t *er = vc->er_tx;

    glex_ext_count_messages(vc->iface->nic, GLEX_EXT_MESSAGE_MAPPED,
                            (uint16_t)(vc->tx_fifo.msgs - er->counted), er->bytes);
    er->counted = vc->tx_fifo.msgs;
    er->bytes = 0;
}

int uct_glex_er_read_credits(uct_glex_vc_t *vc)
{
    const uct_glex_er_tx_t *er = vc->er_tx;
    uint32_t credits;

    if (!uct_glex_er_is_mapped(vc)) {
        return 0;
    }
    /* acquire: the lender has read the counted units before, so they may be overwritten */
    credits = __atomic_load_n(&er->ctrl->credits, __ATOMIC_ACQUIRE);
    uct_glex_er_count(vc);
    return uct_glex_fifo_update(&vc->tx_fifo, credits, credits >> 16);
}

/* The generation tells this request from the request of an earlier borrower, which may withdraw its
 * own request late */
static uint32_t uct_glex_er_wakeup_request(const uct_glex_er_tx_t *er)
{
    return ((uint32_t)er->gen << 8) | 1;
}

/* The process is awake and has credits: withdraw the wake-up request, if any. relaxed, both: an
 * unnecessary message does no harm. */
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

    if (uct_glex_er_is_mapped(vc) && !er->is_starved) {
        er->is_starved = 1;
        ucs_list_add_tail(&vc->iface->er.starved, &er->starved);
        vc->iface->due = 1;
    }
}

static void uct_glex_er_starve_end(uct_glex_er_tx_t *er)
{
    if (er->is_starved) {
        er->is_starved = 0;
        ucs_list_del(&er->starved);
    }
}

unsigned uct_glex_er_progress_starved(uct_glex_iface_t *iface)
{
    ucs_list_link_t *end = iface->er.starved.prev;
    unsigned count = 0, left = UCT_GLEX_SLICE;
    uct_glex_er_tx_t *er;
    int more;

    do {
        er = ucs_list_head(&iface->er.starved, uct_glex_er_tx_t, starved);
        left = (&er->starved == end) ? 0 : left - 1;
        more = uct_glex_er_read_credits(er->vc);
        count += more;
        ucs_list_del(&er->starved);
        ucs_list_add_tail(&iface->er.starved, &er->starved);
        /* A refused send may have read the credits before */
        if (more || uct_glex_er_has_credits(er->vc)) {
            uct_glex_er_starve_end(er);
            uct_glex_er_withdraw_request(er);
            uct_glex_vc_resume(er->vc);
        }
    } while (left > 0);
    return count;
}

void uct_glex_er_want_credits(uct_glex_iface_t *iface)
{
    uct_glex_er_tx_t *er;

    ucs_list_for_each(er, &iface->er.starved, starved) {
        /* relaxed: the caller has a sequentially consistent barrier, and so has the lender between
         * its store of the credits and its load of `wanted`. So the lender sees the request, or
         * this process sees the credits. */
        __atomic_store_n(&er->ctrl->wanted, uct_glex_er_wakeup_request(er), __ATOMIC_RELAXED);
    }
}

int uct_glex_er_has_new_credits(uct_glex_iface_t *iface)
{
    uct_glex_er_tx_t *er;
    int some = 0;

    ucs_list_for_each(er, &iface->er.starved, starved) {
        /* New credits, or credits that a refused send has read */
        if (uct_glex_er_read_credits(er->vc) || uct_glex_er_has_credits(er->vc)) {
            uct_glex_vc_resume(er->vc);
            some = 1;
        }
    }
    return some;
}

/* ---- borrowing ---- */

void uct_glex_er_request(uct_glex_vc_t *vc)
{
    if (uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_ER) && (vc->er_tx == NULL) &&
        !(vc->ctl & UCT_GLEX_CTL_ER_REQUEST)) {
        vc->sr_count = 0;
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_ER_REQUEST);
    }
}

void uct_glex_er_refused(uct_glex_vc_t *vc)
{
    if (!uct_glex_er_is_requested(vc)) {
        return;
    }
    vc->sr_count = UCT_GLEX_ER_RETRY << vc->er_backoff;
    if (vc->er_backoff < UCT_GLEX_ER_MAX_BACKOFF) {
        ++vc->er_backoff;
    }
    if (!uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR)) {
        ucs_error("glex: endpoint 0x%" PRIx64 " has no ER channel left for this process and "
                  "UCX_GLEX_CHANNELS allows no other: raise UCX_GLEX_ER_MAX_CHANNELS and "
                  "UCX_GLEX_ER_MAX_MEM there, or use er,sr",
                  vc->peer);
        uct_glex_vc_report_failed(vc, UCS_ERR_EXCEEDS_LIMIT);
    }
}

static ucs_status_t uct_glex_er_map(uct_glex_vc_t *vc, uct_glex_er_tx_t *er,
                                    const uct_glex_ctl_t *ctl)
{
    glex_ep_addr_t peer = {.v = vc->peer};
    glex_mem_handle_t mh = {.v = ctl->fifo_mh};
    size_t size = (size_t)ctl->fifo_units << ctl->unit_shift;
    uct_glex_buf_pool_t *mirror;
    void *ptr;

    if (glex_ext_peer_ptr(vc->iface->nic, peer, mh, ctl->key, ctl->fifo_offset,
                          size + UCT_GLEX_FIFO_RING_SIZE, &ptr, &er->pin) == GLEX_SUCCESS) {
        if (((uintptr_t)ptr % UCT_GLEX_ER_ALIGN) != 0) {
            ucs_error("glex: the FIFO lent by endpoint 0x%" PRIx64 " is not aligned to %d bytes",
                      vc->peer, UCT_GLEX_ER_ALIGN);
            glex_ext_unpin(er->pin);
            return UCS_ERR_INVALID_PARAM;
        }
        er->base = ptr;
        er->ctrl = UCS_PTR_BYTE_OFFSET(ptr, size);
        er->slots = (uct_glex_slot_t *)(er->ctrl + 1);
        er->use_fence = er->ctrl->needs_fence || !vc->iface->er.has_membarrier;
        /* This process reads the credits. relaxed: as in uct_glex_er_withdraw_request() */
        __atomic_store_n(&er->ctrl->wanted, 0, __ATOMIC_RELAXED);
        return UCS_OK;
    }
    mirror = &vc->iface->er.mirror[size > vc->iface->er.mirror[0].buf_size];
    if (size > mirror->buf_size) {
        ucs_error("glex: the FIFO lent by endpoint 0x%" PRIx64 " has %zu bytes, ours %zu: set "
                  "UCX_GLEX_ERQ_SIZE alike everywhere",
                  vc->peer, size, mirror->buf_size);
        return UCS_ERR_INVALID_PARAM;
    }
    if (uct_glex_buf_get(mirror, 0, &er->mirror) != UCS_OK) {
        return UCS_ERR_NO_MEMORY;
    }
    er->base = er->mirror->ptr;
    return UCS_OK;
}

static int uct_glex_er_grant_valid(const uct_glex_ctl_t *ctl)
{
    return (ctl->fifo_units <= UCT_GLEX_FIFO_MAX_UNITS) && ucs_is_pow2(ctl->fifo_units) &&
           (ctl->fifo_msgs > 0) && (ctl->spacing_shift <= UCT_GLEX_ER_MAX_SHIFT) &&
           (ctl->unit_shift <= ctl->spacing_shift) &&
           (UCS_BIT(ctl->unit_shift) >= UCT_GLEX_ER_MIN_UNIT) &&
           (((size_t)ctl->fifo_units << ctl->unit_shift) >=
            ((size_t)UCT_GLEX_FIFO_MIN_UNITS << ctl->spacing_shift)) &&
           ((ctl->fifo_offset % UCT_GLEX_ER_ALIGN) == 0);
}

/* A message that is too long for the FIFO would wait for ever without SR */
static void uct_glex_er_check_fits(uct_glex_vc_t *vc)
{
    size_t max = vc->iface->config.max_bcopy;

    if (uct_glex_er_fits(vc, max)) {
        vc->er_tx->bcopy_units = uct_glex_er_units(vc, max);
    } else if (!uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR)) {
        ucs_error("glex: the FIFO lent by endpoint 0x%" PRIx64 " takes messages of %zu bytes, ours "
                  "have up to %zu and UCX_GLEX_CHANNELS allows no other channel: set "
                  "UCX_GLEX_ERQ_SIZE and UCX_GLEX_SRQ_UNIT_SIZE alike everywhere, or use er,sr",
                  vc->peer, uct_glex_er_max_length(vc), max);
        uct_glex_vc_report_failed(vc, UCS_ERR_INVALID_PARAM);
    }
}

static void uct_glex_er_post_released(uct_glex_vc_t *vc, uint16_t index, uint8_t gen)
{
    vc->released_index = index;
    vc->released_gen = gen;
    uct_glex_ctl_post(vc, UCT_GLEX_CTL_ER_RELEASED);
}

void uct_glex_er_granted(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    uct_glex_er_tx_t *er;

    /* A GRANT without a request is valid, too */
    if ((vc->er_tx != NULL) || !uct_glex_er_grant_valid(ctl)) {
        ucs_error("glex: endpoint 0x%" PRIx64 " granted an impossible FIFO", vc->peer);
        uct_glex_vc_report_failed(vc, UCS_ERR_CONNECTION_RESET);
        return;
    }
    er = ucs_calloc(1, sizeof(*er), "glex_er_tx");
    if ((er == NULL) || (uct_glex_er_map(vc, er, ctl) != UCS_OK)) {
        ucs_free(er);
        uct_glex_er_post_released(vc, ctl->fifo_index, ctl->fifo_gen);
        vc->sr_count = 0;
        uct_glex_er_refused(vc);
        return;
    }

    er->vc = vc;
    er->index = ctl->fifo_index;
    er->gen = ctl->fifo_gen;
    er->offset = ctl->fifo_offset;
    er->layout.unit_shift = ctl->unit_shift;
    er->layout.spacing_shift = ctl->spacing_shift;
    er->counted = vc->tx_fifo.msgs;
    er->req.rmt_ep_addr = uct_glex_vc_dest(vc);
    er->req.rmt_mh.v = ctl->fifo_mh;
    er->req.rmt_key = ctl->key;
    er->req.flag = GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS;

    /* The lender consumes all messages of an earlier FIFO before it lends another FIFO */
    vc->tx_fifo.acked.units = vc->tx_fifo.head;
    vc->tx_fifo.acked.msgs = vc->tx_fifo.msgs;
    vc->tx_fifo.units = ctl->fifo_units;
    vc->tx_fifo.msgs_max = (er->slots != NULL) ? UCT_GLEX_FIFO_SLOTS : ctl->fifo_msgs;
    vc->tx.vc_id = ctl->vc_id; /* the grant may have overtaken the ACCEPT */
    vc->er_tx = er;
    vc->er_backoff = 0;
    ucs_debug("glex: vc 0x%x: ER to endpoint 0x%" PRIx64 ", %u units of %u bytes, %u messages%s",
              vc->id, vc->peer, ctl->fifo_units, 1U << ctl->unit_shift, ctl->fifo_msgs,
              (er->slots != NULL) ? "" : ", not mapped");
    uct_glex_er_check_fits(vc);
}

void uct_glex_er_drop_tx(uct_glex_vc_t *vc)
{
    if (vc->er_tx != NULL) {
        if (uct_glex_er_is_mapped(vc)) {
            uct_glex_er_count(vc);
        } else {
            uct_glex_buf_put(vc->er_tx->mirror);
        }
        uct_glex_er_starve_end(vc->er_tx);
        glex_ext_unpin(vc->er_tx->pin);
        ucs_free(vc->er_tx);
        vc->er_tx = NULL;
    }
    vc->tx_fifo.units = 0;
    vc->tx_fifo.msgs_max = 0;
}

/* Return the FIFO to the lender */
static void uct_glex_er_release(uct_glex_vc_t *vc)
{
    uct_glex_er_post_released(vc, vc->er_tx->index, vc->er_tx->gen);
    uct_glex_er_drop_tx(vc);
    vc->sr_count = UCT_GLEX_ER_RETRY;
    if (!uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR)) {
        uct_glex_er_request(vc); /* ER is the only channel */
    }
}

void uct_glex_er_recv_revoke(uct_glex_vc_t *vc, const uct_glex_ctl_t *ctl)
{
    if ((vc->er_tx != NULL) && (vc->er_tx->index == ctl->revoked_index) &&
        (vc->er_tx->gen == ctl->revoked_gen)) {
        uct_glex_er_release(vc);
    } else if (!(vc->ctl & UCT_GLEX_CTL_ER_RELEASED)) {
        /* Released before, or never mapped. The lender ignores a second RELEASED. */
        uct_glex_er_post_released(vc, ctl->revoked_index, ctl->revoked_gen);
    }
}

/* ---- sending ---- */

/* The place of the next message in the units of the FIFO */
typedef struct uct_glex_er_place {
    uint16_t offset; /* in units */
    uint16_t skip;   /* units up to the end that are skipped */
    uint16_t units;
} uct_glex_er_place_t;

static UCS_F_ALWAYS_INLINE unsigned uct_glex_er_wrap_flag(const uct_glex_er_place_t *place)
{
    return (place->skip != 0) ? UCT_GLEX_FLAG_WRAP : 0;
}

/* Find room for a message of place->units at most. Returns 0 if there is no room. */
static UCS_F_ALWAYS_INLINE int uct_glex_er_reserve(uct_glex_vc_t *vc, uct_glex_er_place_t *place)
{
    /* No loop: a lender that always publishes new credits must not keep this process here */
    return ucs_likely(
               uct_glex_fifo_reserve(&vc->tx_fifo, place->units, &place->offset, &place->skip)) ||
           (uct_glex_er_read_credits(vc) &&
            uct_glex_fifo_reserve(&vc->tx_fifo, place->units, &place->offset, &place->skip));
}

int uct_glex_er_has_credits(uct_glex_vc_t *vc)
{
    size_t length = ucs_min(vc->iface->config.max_bcopy, uct_glex_er_max_length(vc));
    uct_glex_er_place_t place = {.units = uct_glex_er_units(vc, length)};

    return uct_glex_er_reserve(vc, &place);
}

static UCS_F_ALWAYS_INLINE void *uct_glex_er_pack_ptr(const uct_glex_vc_t *vc,
                                                      const uct_glex_er_place_t *place)
{
    return vc->er_tx->base + ((size_t)place->offset << vc->er_tx->layout.unit_shift);
}

/* ---- through slots: the FIFO is mapped ---- */

UCS_F_NOINLINE void uct_glex_er_ring(uct_glex_vc_t *vc)
{
    glex_ret_t ret;

    /* relaxed: the event follows, and the lender waits for the event */
    __atomic_store_n(&vc->er_tx->ctrl->armed, 0, __ATOMIC_RELAXED);
    ret = glex_ext_post_event(vc->iface->nic, uct_glex_vc_dest(vc), 0,
                              uct_glex_hdr_type_am(UCT_GLEX_EVENT_RING, 0) |
                                  ((uint64_t)vc->tx.vc_id << 16));
    vc->er_tx->ring_due = (ret == GLEX_BUSY);
    if (ret == GLEX_BUSY) {
        uct_glex_vc_schedule(vc);
    } else if (ret != GLEX_SUCCESS) {
        ucs_error("glex: cannot post an event to endpoint 0x%" PRIx64 ": %s", vc->peer,
                  glex_error_str(ret));
        uct_glex_vc_report_dead(vc);
    }
}

/* Most bytes of the next message's units to prefetch */
#define UCT_GLEX_ER_PREFETCH_BYTES 2048u

/*
 * Prefetch the units of the next message for writing, while the program prepares the message. The
 * next message is packed behind this message, and may be as long. The units are probably in the
 * caches of both processors, so no hardware prefetcher fetches them.
 */
static UCS_F_ALWAYS_INLINE void uct_glex_er_prefetch_next(const uct_glex_vc_t *vc, unsigned units,
                                                          size_t length)
{
    const uct_glex_er_tx_t *er = vc->er_tx;
    unsigned needed = ucs_max(units, er->bcopy_units);
    int wraps = needed > uct_glex_fifo_to_end(vc->tx_fifo.head, vc->tx_fifo.units);
    uint16_t first = wraps ? 0 : uct_glex_fifo_offset(vc->tx_fifo.head, vc->tx_fifo.units);
    const uint8_t *ptr = er->base + ((size_t)first << er->layout.unit_shift);
    size_t end = ucs_min(length, UCT_GLEX_ER_PREFETCH_BYTES);
    size_t i;

    for (i = 0; i < end; i += UCT_GLEX_ER_ALIGN) {
        uct_glex_prefetch_write(ptr + i);
    }
}

/* Publish a message of `length` bytes that is packed at its place in the units */
static UCS_F_ALWAYS_INLINE void uct_glex_er_publish_units(uct_glex_vc_t *vc, uint8_t am_id,
                                                          size_t length, unsigned flags,
                                                          const uct_glex_er_place_t *place)
{
    uct_glex_er_tx_t *er = vc->er_tx;

    uct_glex_fifo_commit(&vc->tx_fifo, place->units, place->skip);
    uct_glex_er_publish(vc, er, uct_glex_er_next_slot(vc, er), am_id,
                        flags | UCT_GLEX_FLAG_UNITS | uct_glex_er_wrap_flag(place), length);
    uct_glex_er_prefetch_next(vc, place->units, length);
}

static ucs_status_t uct_glex_er_send_slot(uct_glex_vc_t *vc, uint8_t am_id, const void *data,
                                          unsigned length, unsigned flags)
{
    uct_glex_er_tx_t *er = vc->er_tx;
    uct_glex_slot_t *slot;

    if (!uct_glex_fifo_may_send(&vc->tx_fifo) && !uct_glex_er_read_credits(vc)) {
        return UCS_ERR_NO_RESOURCE;
    }
    slot = uct_glex_er_next_slot(vc, er);
    if (length > 0) {
        memcpy(slot->data, data, length);
    }
    uct_glex_er_publish(vc, er, slot, am_id, flags, length);
    return UCS_OK;
}

/* Publish a message that is packed at its place in the units. A short message is copied to its
 * slot, and uses no units. So the lender's processor fetches one cache line less. */
static UCS_F_ALWAYS_INLINE void uct_glex_er_publish_packed(uct_glex_vc_t *vc, uint8_t am_id,
                                                           size_t length,
                                                           uct_glex_er_place_t *place)
{
    uct_glex_er_tx_t *er = vc->er_tx;
    uct_glex_slot_t *slot;

    if (length <= UCT_GLEX_SLOT_DATA) {
        slot = uct_glex_er_next_slot(vc, er);
        memcpy(slot->data, uct_glex_er_pack_ptr(vc, place), UCT_GLEX_SLOT_DATA);
        uct_glex_er_publish(vc, er, slot, am_id, 0, length);
        return;
    }
    place->units = uct_glex_er_units(vc, length);
    uct_glex_er_publish_units(vc, am_id, length, 0, place);
}

/* ---- by puts with events: the FIFO is not mapped ---- */

/* The header of the next message as an event */
static glex_event_t uct_glex_er_event(const uct_glex_vc_t *vc, uint8_t am_id, unsigned flags,
                                      const uct_glex_er_place_t *place, size_t length)
{
    glex_event_t event;

    event.cookie_0 = vc->tx.credits.word | length;
    event.cookie_1 =
        uct_glex_vc_hdr_word(vc, UCT_GLEX_EVENT_ER, am_id, flags | uct_glex_er_wrap_flag(place));
    return event;
}

static glex_ret_t uct_glex_er_imm_put(uct_glex_vc_t *vc, uint8_t am_id, unsigned flags,
                                      const uct_glex_er_place_t *place, void *data, size_t length)
{
    uct_glex_er_tx_t *er = vc->er_tx;
    glex_imm_rdma_req_t *req = &er->req;

    req->data = data;
    req->len = length;
    req->rmt_offset = er->offset + ((uint32_t)place->offset << er->layout.unit_shift);
    req->rmt_evt = uct_glex_er_event(vc, am_id, flags, place, length);
    return glex_imm_rdma(vc->iface->nic, req, NULL);
}

/* Put the message in the mirror to the same place in the FIFO. The event follows the data. */
static glex_ret_t uct_glex_er_put(uct_glex_vc_t *vc, uint8_t am_id, unsigned flags,
                                  const uct_glex_er_place_t *place, size_t length)
{
    uct_glex_er_tx_t *er = vc->er_tx;
    uint32_t start = (uint32_t)place->offset << er->layout.unit_shift;
    glex_rdma_req_t req;

    req.rmt_ep_addr = er->req.rmt_ep_addr;
    req.local_mh = er->mirror->mh;
    req.local_offset = er->mirror->offset + start;
    req.len = length;
    req.rmt_mh = er->req.rmt_mh;
    req.rmt_offset = er->offset + start;
    req.type = GLEX_RDMA_TYPE_PUT;
    req.rmt_key = er->req.rmt_key;
    req.flag = GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS;
    req.next = NULL;
    req.rmt_evt = uct_glex_er_event(vc, am_id, flags, place, length);
    return glex_rdma(vc->iface->nic, &req, NULL);
}

/* Send a message of `length` bytes that is packed at its place in the mirror */
static ucs_status_t uct_glex_er_send_mirror(uct_glex_vc_t *vc, uint8_t am_id, size_t length,
                                            unsigned flags, uct_glex_er_place_t *place)
{
    glex_ret_t ret;

    place->units = uct_glex_er_units(vc, length);
    ret =
        (length <= UCT_GLEX_IMM_PUT_LEN) ?
            uct_glex_er_imm_put(vc, am_id, flags, place, uct_glex_er_pack_ptr(vc, place), length) :
            uct_glex_er_put(vc, am_id, flags, place, length);
    if (ret != GLEX_SUCCESS) {
        return uct_glex_status(ret);
    }
    uct_glex_fifo_commit(&vc->tx_fifo, place->units, place->skip);
    ++vc->tx_fifo.msgs;
    uct_glex_vc_advertised(vc);
    vc->tx.word += UCT_GLEX_HDR_ONE_SEQ;
    return UCS_OK;
}

/* ---- both ---- */

ucs_status_t uct_glex_er_send(uct_glex_vc_t *vc, uint8_t am_id, const void *data, unsigned length,
                              unsigned flags)
{
    uct_glex_er_place_t place = {.units = uct_glex_er_units(vc, length)};

    if (uct_glex_er_is_mapped(vc) && (length <= UCT_GLEX_SLOT_DATA)) {
        return uct_glex_er_send_slot(vc, am_id, data, length, flags);
    }
    if (!uct_glex_er_reserve(vc, &place)) {
        return UCS_ERR_NO_RESOURCE;
    }
    memcpy(uct_glex_er_pack_ptr(vc, &place), data, length);
    if (uct_glex_er_is_mapped(vc)) {
        uct_glex_er_publish_units(vc, am_id, length, flags, &place);
        return UCS_OK;
    }
    return uct_glex_er_send_mirror(vc, am_id, length, flags, &place);
}

/* The length is known only after pack_cb, so there must be room for max_bcopy. If max_bcopy does
 * not fit before the end of the FIFO, the end is skipped, even if the message would fit. So a lap
 * wastes max_bcopy at most, but the message is not copied twice. */
ssize_t uct_glex_er_bcopy(uct_glex_vc_t *vc, uint8_t am_id, uct_pack_callback_t pack_cb, void *arg)
{
    uct_glex_er_place_t place = {.units = vc->er_tx->bcopy_units};
    ucs_status_t status;
    size_t length;

    if (ucs_unlikely(!uct_glex_er_reserve(vc, &place))) {
        return UCS_ERR_NO_RESOURCE;
    }
    length = pack_cb(uct_glex_er_pack_ptr(vc, &place), arg);
    ucs_assertv(length <= vc->iface->config.max_bcopy, "packed %zu bytes, at most %zu", length,
                vc->iface->config.max_bcopy);
    if (ucs_likely(uct_glex_er_is_mapped(vc))) {
        uct_glex_er_publish_packed(vc, am_id, length, &place);
        return length;
    }
    status = uct_glex_er_send_mirror(vc, am_id, length, 0, &place);
    return (status == UCS_OK) ? (ssize_t)length : (ssize_t)status;
}
