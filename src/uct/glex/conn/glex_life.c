#include "conn/glex_life.h"
#include "chan/glex_er.h"
#include "chan/glex_op.h"
#include "chan/glex_rx.h"
#include "conn/glex_ctl.h"
#include "conn/glex_pending.h"
#include "vc/glex_mpq.h"
#include "conn/glex_table.h"
#include "vc/glex_lease.h"

#include <ucs/datastruct/queue.h>
#include <ucs/arch/cpu.h>
#include <ucs/debug/memtrack_int.h>
#include <unistd.h>

/* Messages through SR before the VC requests a FIFO. Without mapped memory the VC requests a FIFO
 * at once: the peer must fetch each SR message that is longer than an MP, and over a network
 * fetching takes three times as long as a FIFO (docs/performance.md, "Scale"). */
static uint16_t uct_glex_vc_sr_count(const uct_glex_vc_t *vc)
{
    return uct_glex_vc_is_mapped(vc) ? vc->iface->er.thresh : 0;
}

static ucs_status_t uct_glex_vc_new(uct_glex_iface_t *iface, uint64_t peer, uint32_t uuid,
                                    uct_glex_vc_t **vc_p)
{
    glex_ep_addr_t addr = {.v = peer};
    ucs_status_t status;
    uct_glex_vc_t *vc;

    status =
        ucs_posix_memalign((void **)&vc, UCS_SYS_CACHE_LINE_SIZE, sizeof(*vc), "glex_vc") == 0 ?
            UCS_OK :
            UCS_ERR_NO_MEMORY;
    if (status != UCS_OK) {
        goto err;
    }
    memset(vc, 0, sizeof(*vc));
    vc->iface = iface;
    vc->peer = peer;
    vc->peer_uuid = uuid;
    vc->state = UCT_GLEX_VC_WAIT_MPQ;
    vc->status = UCS_OK;
    if (glex_ext_is_remote(iface->nic, addr)) {
        /* The first call lets the NIC notice that the connection with an earlier peer at the
         * address has ended. If the second call fails, the peer is gone, or memory is missing. Then
         * the VC fails, because its epoch does not exist. */
        (void)uct_glex_iface_is_gone(iface, peer, uuid, 0);
        vc->epoch = UCT_GLEX_VC_NO_EPOCH;
        (void)glex_ext_peer_epoch(iface->nic, addr, &vc->epoch);
    }
    vc->sr_count = uct_glex_vc_sr_count(vc);
    ucs_list_head_init(&vc->eps);
    ucs_list_head_init(&vc->rx);
    ucs_list_head_init(&vc->wait);
    uct_glex_vc_schedule_end(vc);
    ucs_queue_head_init(&vc->tx_ops);

    status = uct_glex_table_add(vc);
    if (status != UCS_OK) {
        goto err_free;
    }
    ucs_trace("glex: vc 0x%x to endpoint 0x%" PRIx64, vc->id, peer);
    *vc_p = vc;
    return UCS_OK;

err_free:
    ucs_free(vc);
err:
    ucs_error("glex: cannot make a connection to endpoint 0x%" PRIx64 ": %s", peer,
              ucs_status_string(status));
    return status;
}

ucs_status_t uct_glex_vc_get(uct_glex_iface_t *iface, uint64_t peer, uint32_t uuid,
                             uct_glex_vc_t **vc_p)
{
    uct_glex_vc_t *vc = uct_glex_vc_find(iface, peer, uuid);
    uint32_t gone_id = (vc != NULL) ? vc->tx.vc_id : 0;
    ucs_status_t status;

    if ((vc != NULL) && (vc->state != UCT_GLEX_VC_FAILED)) {
        *vc_p = vc;
        return UCS_OK;
    }
    status = uct_glex_vc_new(iface, peer, uuid, vc_p);
    if (status == UCS_OK) {
        (*vc_p)->tx.vc_id = gone_id; /* until the peer's name of the new VC is known */
        uct_glex_mpq_enter(*vc_p);
    }
    return status;
}

/* ---- life of a VC ---- */

static void uct_glex_vc_begin_lease(uct_glex_vc_t *vc, unsigned end_flags)
{
    if ((vc->lease != NULL) || !uct_glex_lease_is_needed(vc)) {
        return;
    }
    if (!uct_glex_lease_begin(vc, end_flags)) {
        ucs_error("glex: no memory to end the connection to endpoint 0x%" PRIx64 ", tried again",
                  vc->peer);
    } else if (vc->is_claimed || uct_glex_vc_is_gone(vc)) {
        uct_glex_lease_claimed(vc);
    }
}

void uct_glex_vc_accept(uct_glex_vc_t *vc)
{
    vc->state = UCT_GLEX_VC_ACCEPTING;
    uct_glex_mpq_enter(vc);
}

/* A VC that is over waits for nothing of the peer, and sends nothing. A peer that left may be found
 * dead before the VC fails. */
static void uct_glex_vc_clear_flags(uct_glex_vc_t *vc)
{
    vc->is_stale = 0;
    vc->peer_left = 0;
    vc->peer_dead = vc->peer_dead && (vc->state != UCT_GLEX_VC_FAILED);
    vc->ctl_inflight = 0;
    vc->ctl = 0;
    vc->connect_again = 0;
    vc->check_pending = 0;
}

/* End the VC: free its resources, end its operations with `status`, and hand the memory that the
 * peer may still access to a lease. `end_flags`: flags of END. */
static void uct_glex_vc_teardown(uct_glex_vc_t *vc, uint8_t state, ucs_status_t status,
                                 unsigned end_flags)
{
    if (vc->state == UCT_GLEX_VC_FAILED) {
        return;
    }
    if (state == UCT_GLEX_VC_FAILED) {
        vc->iface->num_dying -= vc->peer_dead;
    }
    uct_glex_vc_wait_end(vc);
    if (!uct_glex_vc_is_over(vc)) {
        vc->rx_started = 0; /* counts dropped messages from now on */
        ucs_list_add_tail(&vc->iface->vc_table.over, &vc->wait);
    }
    vc->state = state;
    vc->status = status;
    uct_glex_vc_clear_flags(vc); /* before completions, which may call progress */
    uct_glex_rx_purge(vc);
    uct_glex_er_drop_tx(vc);
    uct_glex_vc_begin_lease(vc, end_flags);
    uct_glex_op_fail_all(vc, status);
    uct_glex_iface_recheck(vc->iface); /* other VCs may wait for the resources */
}

void uct_glex_vc_open(uct_glex_vc_t *vc)
{
    glex_ep_addr_t peer = {.v = vc->peer};

    peer = glex_ext_peer_hint(vc->iface->nic, peer);
    vc->peer_hint = peer.v >> 16;
    vc->state = UCT_GLEX_VC_OPEN;
}

int uct_glex_vc_has_credits(uct_glex_vc_t *vc)
{
    if (vc->state != UCT_GLEX_VC_OPEN) {
        return 0;
    }
    if (vc->er_tx != NULL) {
        return uct_glex_er_has_credits(vc);
    }
    return uct_glex_iface_has_channel(vc->iface, UCT_GLEX_CHANNEL_SR) &&
           (uct_glex_credit_avail(&vc->mp_tx) > 0);
}

/* The NIC endpoint lives on with the memory domain. Without an END the peer would send to the NIC
 * endpoint, and wait for ever. */
void uct_glex_vc_destroy(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;

    uct_glex_vc_teardown(vc, UCT_GLEX_VC_FAILED, UCS_ERR_CANCELED, UCT_GLEX_END_ORDERLY);
    while ((uct_glex_lease_say_goodbye(vc) == UCS_ERR_NO_RESOURCE) && (iface->goodbye_ms > 0)) {
        --iface->goodbye_ms;
        usleep(1000);
    }
    uct_glex_lease_detach(vc);
    uct_glex_op_abandon(vc);
    ucs_assert(ucs_list_is_empty(&vc->eps));
    ucs_queue_head_init(&iface->active); /* may contain the VC; progress is over */
    ucs_queue_head_init(&iface->blocked);
    ucs_list_del(&vc->wait);
    ucs_free(vc);
}

void uct_glex_vc_peer_leaves(uct_glex_vc_t *vc, uint16_t last_seq, int is_orderly)
{
    uct_glex_er_poll_begin(vc); /* the last messages in the FIFO may have no event */
    if (is_orderly && (vc->state == UCT_GLEX_VC_OPEN) && !vc->peer_dead &&
        !uct_glex_vc_is_remote(vc)) {
        uct_glex_op_end_probe(vc); /* a flush waits for the probe: its puts have arrived */
    }
    vc->peer_left = 1;
    vc->left_seq = last_seq;
    vc->left_tx_seq = vc->tx.seq;
    vc->is_stale = !is_orderly;
    uct_glex_vc_schedule(vc);
}

/* A peer may leave without an error if all our messages were delivered. Otherwise the next flush or
 * message returns the error. The VC fails if messages of the peer are missing. */
static void uct_glex_vc_peer_closed(uct_glex_vc_t *vc)
{
    if ((vc->state == UCT_GLEX_VC_OPEN) && (vc->rx_seq != vc->left_seq)) {
        uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
    } else if ((vc->num_blocked > 0) || (vc->state == UCT_GLEX_VC_CONNECTING) ||
               vc->check_pending || !ucs_queue_is_empty(&vc->tx_ops)) {
        uct_glex_vc_fail(vc, UCS_ERR_ENDPOINT_TIMEOUT);
    } else {
        if (vc->tx.seq != vc->left_tx_seq) {
            vc->status = UCS_ERR_CONNECTION_RESET; /* messages were accepted after END */
        }
        uct_glex_vc_teardown(vc, UCT_GLEX_VC_PEER_CLOSED,
                             (vc->status == UCS_OK) ? UCS_ERR_ENDPOINT_TIMEOUT : vc->status, 0);
    }
}

/* Messages and events are in different queues, so the peer's last messages, and the events of our
 * operations, may come after the END */
int uct_glex_vc_close_left(uct_glex_vc_t *vc)
{
    if (!vc->is_stale && ((vc->rx_seq != vc->left_seq) || !ucs_queue_is_empty(&vc->tx_ops))) {
        return 0;
    }
    uct_glex_vc_peer_closed(vc);
    return 1;
}

void uct_glex_vc_fail(uct_glex_vc_t *vc, ucs_status_t status)
{
    UCS_LIST_HEAD(told);
    uct_glex_reason_t reason;
    uct_glex_ep_t *ep;
    int is_first;

    if (vc->state == UCT_GLEX_VC_FAILED) {
        return;
    }
    uct_glex_reason_init(&reason, vc, status);
    ++vc->iface->done;
    ucs_debug("glex: vc 0x%x to endpoint 0x%" PRIx64 " failed: %s", vc->id, vc->peer,
              ucs_status_string(status));
    uct_glex_vc_teardown(vc, UCT_GLEX_VC_FAILED, status, 0);
    /* A handler may destroy any endpoint, and destruction removes the endpoint from the current
     * list */
    while (!ucs_list_is_empty(&vc->eps)) {
        ep = ucs_list_extract_head(&vc->eps, uct_glex_ep_t, list);
        is_first = ucs_list_is_empty(&told);
        ucs_list_add_tail(&told, &ep->list);
        uct_glex_ep_failed(ep, &reason, is_first);
    }
    ucs_list_splice_tail(&vc->eps, &told);
    uct_glex_vc_resume(vc); /* pending requests are tried again and return the error */
}

void uct_glex_vc_fail_refused(uct_glex_vc_t *vc)
{
    UCS_LIST_HEAD(seen);
    uct_glex_reason_t reason;
    uct_glex_ep_t *ep;

    if (!vc->has_refused) {
        return;
    }
    vc->has_refused = 0;
    uct_glex_reason_init(&reason, vc, UCS_ERR_ENDPOINT_TIMEOUT);
    reason.is_refused = 1;
    while (!ucs_list_is_empty(&vc->eps)) { /* a handler may destroy any endpoint, see
                                            * uct_glex_vc_fail() */
        ep = ucs_list_extract_head(&vc->eps, uct_glex_ep_t, list);
        ucs_list_add_tail(&seen, &ep->list);
        if (!ep->is_refused) {
            continue;
        }
        ep->is_cancelled = 1;
        ep->blocked = 1;
        uct_glex_op_cancel_ep(vc, &ep->super.super, reason.status);
        if (seen.prev == &ep->list) { /* no completion destroyed the endpoint */
            uct_glex_ep_failed(ep, &reason, 1);
        }
    }
    ucs_list_splice_tail(&vc->eps, &seen);
}

void uct_glex_vc_dead(uct_glex_vc_t *vc)
{
    if (vc->peer_dead || (vc->state == UCT_GLEX_VC_FAILED)) {
        return;
    }
    vc->peer_dead = 1;
    /* Earlier checks may have missed the peer's last messages, so two new checks decide. If the
     * peer had left before, is_stale stays. */
    vc->is_stale = vc->is_stale && vc->peer_left;
    --vc->watch_mark; /* so the next check finds a difference, and the comparison begins anew */
    ++vc->iface->num_dying;
    /* The NIC has counted all messages of the peer by now */
    uct_glex_snap_take(vc->iface, &vc->iface->watch);
    uct_glex_er_poll_begin(vc); /* a killed peer may not have rung for its last message */
    uct_glex_vc_schedule(vc);
}

/* A VC is drained when all arrivals of the time when the peer was found dead are taken from the
 * queues and the FIFO. In two cases the looks for dead peers decide by is_stale: while a message is
 * being fetched, because the Get may never end; and if the peer on another host has a successor at
 * its address, because the peer's last messages may still be in a socket. */
int uct_glex_vc_is_drained(uct_glex_vc_t *vc)
{
    return (vc->state != UCT_GLEX_VC_OPEN) || vc->is_stale ||
           ((!uct_glex_vc_is_remote(vc) || uct_glex_table_is_newest(vc)) &&
            uct_glex_snap_is_taken(vc->iface, &vc->iface->watch) && !uct_glex_er_has_msg(vc) &&
            (vc->rx_started == 0));
}

/* Whether uct_glex_vc_watch() must check the peer. An open VC without endpoints counts, too: if its
 * peer dies, the mappings of the peer's memory and the peer's entries of the MPQ must come back. */
static int uct_glex_vc_is_watched(const uct_glex_vc_t *vc)
{
    return vc->peer_left || vc->peer_dead || (vc->state == UCT_GLEX_VC_CONNECTING) ||
           (vc->state == UCT_GLEX_VC_OPEN);
}

/* New peers wait for the entries of dead peers. The CTL lets a NIC without knowledge of dead peers
 * find a dead peer. */
static void uct_glex_vc_ask_for_entries(uct_glex_vc_t *vc)
{
    if (uct_glex_mpq_is_short(vc->iface) && (vc->state == UCT_GLEX_VC_OPEN) && !vc->ctl_inflight) {
        uct_glex_ctl_post(vc, UCT_GLEX_CTL_CREDIT);
    }
}

/* Compare the VC's counters with the counters of the last look. If they are equal, and all arrivals
 * of the last look are taken from the queues, the VC has no unhandled messages of the peer. Then a
 * VC whose peer left or is dead becomes stale, and progress fails the VC. If only the NIC calls the
 * peer gone, the second look of this kind declares the peer dead. */
static void uct_glex_vc_look(uct_glex_vc_t *vc, int all_taken)
{
    uint16_t mark = vc->rx_seq + vc->tx_fifo.acked.msgs + vc->mp_tx.limit;

    if ((mark != vc->watch_mark) || !all_taken || uct_glex_er_has_msg(vc)) {
        vc->watch_mark = mark;
        vc->is_stale = 0;
        return;
    }
    if (vc->peer_left || vc->peer_dead) {
        vc->is_stale = 1;
        uct_glex_vc_schedule(vc);
    } else if (!uct_glex_vc_is_gone(vc)) {
        vc->is_stale = 0;
        uct_glex_vc_ask_for_entries(vc);
    } else if (vc->is_stale) {
        uct_glex_vc_dead(vc);
    } else {
        vc->is_stale = 1;
        uct_glex_er_poll_begin(vc); /* a killed peer may not have rung for its last message */
    }
}

void uct_glex_vc_watch(uct_glex_iface_t *iface, unsigned count)
{
    int all_taken = uct_glex_snap_is_taken(iface, &iface->watch);
    uct_glex_vc_t *vc;

    while (count-- > 0) {
        iface->watch_hand = (iface->watch_hand + 1) % iface->num_vcs;
        vc = iface->vcs[iface->watch_hand];
        if (uct_glex_vc_is_over(vc)) {
            uct_glex_vc_begin_lease(vc, 0); /* tried again: memory for the lease was missing */
        } else if (uct_glex_vc_is_watched(vc)) {
            uct_glex_vc_look(vc, all_taken);
        }
    }
    if (all_taken) {
        /* After the last messages of the peers that this look found dead */
        uct_glex_snap_take(iface, &iface->watch);
    }
}

const uct_glex_reports_t uct_glex_vc_reports = {
    .failed = uct_glex_vc_fail, .dead = uct_glex_vc_dead, .unaware = uct_glex_lease_tell};
