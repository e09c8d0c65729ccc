#include "chan/glex_er.h"
#include "chan/glex_rx.h"

#include <ucs/sys/math.h>
#include <linux/membarrier.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Which FIFOs progress polls. A lender polls a FIFO from its first message on. When the FIFO was
 * silent for a while, the lender arms the FIFO and stops polling. Then the borrower rings, by an
 * event, with its next message. So silent FIFOs cost nothing, and a stream needs no event.
 *
 *     borrower                          lender
 *     1. store the slot's word          3. store 1 to `armed`
 *     2. load `armed`; not 0:           4. membarrier()
 *        store 0, post an event         5. load the slot's word; new: clear `armed`, poll on
 *
 * A message must not be published without an event while the lender stops polling. The store buffer
 * of the borrower's processor may exchange 1 and 2. membarrier() executes a full fence in every
 * running thread of registered processes. A thread that does not run passes a full fence when the
 * scheduler resumes the thread. If the fence comes after 1, load 5 finds the message. Otherwise
 * load 2 comes after the fence, thus after 3, and finds `armed`. test/model/fifo_arm.pml checks
 * this, and finds the lost message without step 4.
 *
 * `armed` has two writers. The borrower clears `armed` only between its load 2 and its event, and
 * the event makes the lender poll again. So if the borrower's store of 0 comes late, after the
 * lender has armed the FIFO again, an event follows, too.
 */

/* ---- messages ---- */

static void uct_glex_er_beyond(uct_glex_vc_t *vc, uint32_t length)
{
    ucs_error("glex: endpoint 0x%" PRIx64 " sent %u bytes beyond its FIFO", vc->peer, length);
    uct_glex_vc_report_failed(vc, UCS_ERR_CONNECTION_RESET);
}

/* Finds the message in the units of the lent FIFO. NULL: the message is beyond the end, or the
 * sender had no credits, and the VC has failed. */
static void *uct_glex_er_find(uct_glex_vc_t *vc, unsigned flags, uint32_t length, uint16_t *used_p)
{
    uct_glex_er_rx_t *er_rx = uct_glex_er_rx_of(vc);
    unsigned units = uct_glex_fifo_message_units(length, er_rx->layout);
    uint16_t offset;

    if (!uct_glex_fifo_arrive(&er_rx->fifo, units, flags & UCT_GLEX_FLAG_WRAP, &offset, used_p) ||
        ((uint16_t)(er_rx->fifo.next - vc->tx.credits.er.units) > er_rx->fifo.units)) {
        uct_glex_er_beyond(vc, length);
        return NULL;
    }
    return er_rx->base + ((size_t)offset << er_rx->layout.unit_shift);
}

/* Deliver a message of a FIFO if the message is the next message, else keep the message */
static UCS_F_ALWAYS_INLINE void uct_glex_er_recv_msg(uct_glex_vc_t *vc, uint16_t seq, uint8_t am_id,
                                                     unsigned flags, void *data, uint32_t length,
                                                     uint16_t used)
{
    if (ucs_unlikely((seq != vc->rx_seq) || (flags & UCT_GLEX_FLAG_ZC))) {
        uct_glex_rx_keep(vc, seq, am_id, data, length, 1, used, flags & UCT_GLEX_FLAG_ZC);
        return;
    }
    uct_glex_er_deliver(vc, am_id, data, length);
    uct_glex_er_consumed(vc, used);
    if (ucs_unlikely(!ucs_list_is_empty(&vc->rx))) {
        uct_glex_rx_advance(vc);
    }
}

void uct_glex_er_take_unusual(uct_glex_er_rx_t *er_rx, uct_glex_slot_t *slot, uint64_t word)
{
    uct_glex_vc_t *vc = er_rx->vc;
    unsigned flags = uct_glex_slot_flags(word);
    uint32_t length = uct_glex_slot_length(word);
    void *data = slot->data;
    uint16_t used = 0;

    ++er_rx->arrived;
    if (ucs_unlikely((uint16_t)(er_rx->arrived - vc->tx.credits.er.msgs) > UCT_GLEX_FIFO_SLOTS)) {
        uct_glex_er_beyond(vc, length); /* the sender had no credits */
        return;
    }
    if (flags & UCT_GLEX_FLAG_UNITS) {
        data = uct_glex_er_find(vc, flags, length, &used);
        if (ucs_unlikely(data == NULL)) {
            return;
        }
    } else if (ucs_unlikely(length > UCT_GLEX_SLOT_DATA)) {
        ucs_error("glex: endpoint 0x%" PRIx64 " sent %u bytes in a slot of its FIFO", vc->peer,
                  length);
        uct_glex_vc_report_failed(vc, UCS_ERR_CONNECTION_RESET);
        return;
    }
    uct_glex_er_recv_msg(vc, uct_glex_slot_seq(word), uct_glex_slot_am_id(word), flags, data,
                         length, used);
}

/* ---- messages by puts with events ---- */

/* The VC that an event names, or NULL if the VC has no lent FIFO. A peer that writes to the FIFO of
 * a VC that is over gets END. */
static uct_glex_vc_t *uct_glex_er_lent_vc(uct_glex_iface_t *iface, uint64_t word)
{
    uct_glex_vc_t *vc = uct_glex_vc_by_id(iface, uct_glex_hdr_vc_id(word));

    if (ucs_likely((vc != NULL) && uct_glex_er_is_lent(vc))) {
        return vc;
    }
    ucs_debug("glex: event for vc 0x%x that has no FIFO", uct_glex_hdr_vc_id(word));
    if (vc != NULL) {
        uct_glex_vc_report_unaware(vc);
    }
    return NULL;
}

/* Returns uct_glex_er_lent_vc(), and handles the acknowledgement in the event */
static uct_glex_vc_t *uct_glex_er_vc(uct_glex_iface_t *iface, uint64_t word)
{
    uct_glex_vc_t *vc = uct_glex_er_lent_vc(iface, word);

    if (ucs_unlikely(vc == NULL)) {
        return NULL;
    }
    if (ucs_unlikely(word & ((uint64_t)UCT_GLEX_FLAG_ACK << 8))) {
        uct_glex_ctl_acked(vc);
    }
    return vc;
}

void uct_glex_er_recv(uct_glex_iface_t *iface, uint64_t word, uct_glex_credits_t credits)
{
    uct_glex_vc_t *vc = uct_glex_er_vc(iface, word);
    uint32_t length = credits.word & UCT_GLEX_ER_MAX_LENGTH;
    uint16_t used;
    void *data;

    if (ucs_unlikely(vc == NULL)) {
        return;
    }
    data = uct_glex_er_find(vc, uct_glex_hdr_flags(word), length, &used);
    if (ucs_unlikely(data == NULL)) {
        return;
    }
    uct_glex_er_credits(vc, credits);
    uct_glex_er_recv_msg(vc, uct_glex_hdr_seq(word), uct_glex_hdr_am_id(word),
                         uct_glex_hdr_flags(word), data, length, used);
}

/* ---- polling ---- */

/* Most FIFOs that one progress call polls. The next call polls the next FIFOs. */
#define UCT_GLEX_ER_POLL_FIFOS 8

/* Most messages that one progress call takes from a FIFO */
#define UCT_GLEX_ER_POLL_MSGS UCT_GLEX_POLL_BATCH

/* A FIFO is silent if nothing arrives for this time, or for up to twice this time */
#define UCT_GLEX_ER_SILENT_US 500

/* Step 4 above. Returns 0 if membarrier() fails. Then polling must not stop. */
static int uct_glex_er_barrier(const uct_glex_iface_t *iface)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* for borrowers that use fences: ctrl->needs_fence */
    if (!iface->er.has_membarrier ||
        (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)) {
        return 1;
    }
    ucs_error("glex: membarrier() fails, which worked before: %s; progress polls all FIFOs from "
              "now on, and cannot sleep",
              strerror(errno));
    return 0;
}

/* The memory of lent FIFOs still accepts messages, but a ring to this endpoint fails. A message
 * that is stored at the same time, without a ring, counts as a message before closing. So no
 * barrier is needed. */
void uct_glex_er_close(uct_glex_iface_t *iface)
{
    unsigned i;

    if (getpid() != iface->pid) {
        return; /* a child of fork(): the parent still receives */
    }
    for (i = 0; i < iface->er.max; ++i) {
        if (iface->er_rx[i].ctrl != NULL) {
            uct_glex_er_set_armed(&iface->er_rx[i], 1);
        }
    }
}

/* Number of messages in a row after which the poll prefetches slots. Then the borrower is ahead,
 * and later slots are filled. To fetch a slot that the borrower is about to fill would cost both
 * sides time. */
#define UCT_GLEX_ER_PREFETCH_MSGS 4

unsigned uct_glex_er_poll_fifo(uct_glex_er_rx_t *er_rx)
{
    unsigned count = 0;

    while (er_rx->is_polled && (count < UCT_GLEX_ER_POLL_MSGS) && uct_glex_er_take(er_rx)) {
        if (++count >= UCT_GLEX_ER_PREFETCH_MSGS) {
            __builtin_prefetch(uct_glex_er_slot(er_rx, er_rx->arrived + UCT_GLEX_ER_POLL_MSGS));
        }
    }
    return count;
}

unsigned uct_glex_er_poll_some(uct_glex_iface_t *iface)
{
    unsigned left = ucs_min(iface->num_polled, UCT_GLEX_ER_POLL_FIFOS);
    unsigned count = 0;

    for (; (left > 0) && (iface->num_polled > 0); --left) {
        if (++iface->poll_hand >= iface->num_polled) {
            iface->poll_hand = 0;
        }
        count += uct_glex_er_poll_fifo(iface->er.polled[iface->poll_hand]);
    }
    return count;
}

unsigned uct_glex_er_recv_ring(uct_glex_iface_t *iface, uint64_t word)
{
    uct_glex_vc_t *vc = uct_glex_er_lent_vc(iface, word);

    if (vc == NULL) {
        return 0;
    }
    uct_glex_er_poll_begin(vc);
    return uct_glex_er_rx_of(vc)->is_polled ? uct_glex_er_poll_fifo(uct_glex_er_rx_of(vc)) : 0;
}

/* Stop polling the armed FIFOs among the polled FIFOs `first` to `end` - 1, but go on polling FIFOs
 * that have a message by now. Returns the number of armed FIFOs that are still polled. */
static unsigned uct_glex_er_forget_armed(uct_glex_iface_t *iface, unsigned first, unsigned end)
{
    int is_ordered = uct_glex_er_barrier(iface);
    unsigned i = end, count = 0;
    uct_glex_er_rx_t *er_rx;
    uint64_t word;

    while (i-- > first) { /* poll_end() moves the last polled FIFO here, which the loop has
                           * passed */
        er_rx = iface->er.polled[i];
        if (__atomic_load_n(&er_rx->ctrl->armed, __ATOMIC_RELAXED) == 0) {
            continue; /* not armed, or the borrower rings */
        }
        if (!is_ordered || (uct_glex_er_next_msg(er_rx, &word) != NULL)) {
            uct_glex_er_set_armed(er_rx, 0);
            ++count;
        } else {
            uct_glex_er_poll_end(iface, er_rx);
        }
    }
    return count;
}

/* Look at the polled FIFOs from the last to the first, UCT_GLEX_SLICE in one call. If a FIFO is
 * removed between two calls, the last FIFO takes its place, and may be looked at twice. A sweep
 * misses no FIFO that was polled at its beginning. */
void uct_glex_er_poll_sweep(uct_glex_iface_t *iface)
{
    ucs_time_t now = ucs_get_time();
    unsigned first, end, i;
    uct_glex_er_rx_t *er_rx;
    int some = 0;

    if (iface->er.sweep_left == 0) {
        if (now < iface->er.sweep_next) {
            return;
        }
        iface->er.sweep_next = now + ucs_time_from_usec(UCT_GLEX_ER_SILENT_US);
        iface->er.sweep_left = iface->num_polled;
    }
    end = ucs_min(iface->er.sweep_left, iface->num_polled);
    first = end - ucs_min(end, UCT_GLEX_SLICE);
    iface->er.sweep_left = first;
    for (i = first; i < end; ++i) {
        er_rx = iface->er.polled[i];
        if (er_rx->swept == er_rx->arrived) {
            uct_glex_er_set_armed(er_rx, 1);
            some = 1;
        }
        er_rx->swept = er_rx->arrived;
    }
    if (some) {
        uct_glex_er_forget_armed(iface, first, end);
    }
}

int uct_glex_er_sleep(uct_glex_iface_t *iface)
{
    unsigned i;

    if ((iface->num_polled == 0) && ucs_list_is_empty(&iface->er.starved)) {
        return 0;
    }
    for (i = 0; i < iface->num_polled; ++i) {
        uct_glex_er_set_armed(iface->er.polled[i], 1);
    }
    uct_glex_er_want_credits(iface);
    /* A FIFO is still polled if its borrower has cleared `armed` by now. The borrower's event is on
     * the way. */
    return uct_glex_er_forget_armed(iface, 0, iface->num_polled) +
               uct_glex_er_has_new_credits(iface) >
           0;
}
