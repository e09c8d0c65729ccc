#include "vc/glex_lease.h"
#include "chan/glex_er.h"
#include "chan/glex_op.h"
#include "vc/glex_mpq.h"

#include <ucs/debug/memtrack_int.h>
#include <string.h>
#include <unistd.h>

/* Time between two ENDs of a lease, and between two checks whether its peer is gone */
#define UCT_GLEX_LEASE_SEC 1

/* Claim words allocated at a time */
#define UCT_GLEX_LEASE_WORDS 64

/* Sent claims that are kept in addition to one for each VC. Peers of earlier interfaces ask for claims
 * before this interface has a VC. */
#define UCT_GLEX_LEASE_CLAIMS 256

struct uct_glex_lease {
    ucs_list_link_t list; /* in iface->leases.list, or in the quarantine */
    uct_glex_vc_t *vc;    /* NULL: its interface is closed */
    uint64_t peer;
    uint64_t epoch; /* the lease ends with this connection, see uct_glex_vc_t */
    uct_glex_end_msg_t msg;
    uct_glex_buf_t *word; /* the claim word, NULL: no memory yet */
    uct_glex_buf_t *fifo; /* NULL: none, or the interface is closed */
    ucs_time_t next;      /* when the next END is due; 0: at once, because the peer has sent a
                             * message and does not know the end */
    uct_glex_snap_t snap; /* is_over: the arrivals at that time */
    uint8_t is_over;      /* claimed, or the peer is gone */
    unsigned num_regions;
    uct_glex_buf_region_t **regions; /* the interface is closed: memory that the peer may access */
};

/* The claim that this side owes to a lease of the peer */
typedef struct uct_glex_debt {
    ucs_list_link_t list; /* in iface->leases.debts, or paid by a put: in iface->leases.claims */
    uint64_t peer;
    uint64_t word_mh;
    uint32_t word_offset;
    uint32_t key;
    uint32_t lease_id;
    uint32_t vc_id; /* our VC, whose Gets must have ended; 0: none */
    uint8_t is_put; /* paid by an immediate put */
} uct_glex_debt_t;

/* What an endpoint of the NIC keeps from one interface to the next: the leases, and the generations
 * of ids. Messages for an earlier interface may arrive late, so the ids of the next interface must
 * be others. */
struct uct_glex_quarantine {
    uct_glex_md_kept_t super;
    unsigned next_vc_gen;
    uint16_t next_op_gen;
    uint8_t next_er_gen;
    ucs_list_link_t list; /* leases of closed interfaces */
    uct_glex_buf_pool_t words;
};

/* ---- leases ---- */

static void uct_glex_lease_fill(uct_glex_lease_t *lease, const uct_glex_vc_t *vc, unsigned flags)
{
    uct_glex_end_msg_t *msg = &lease->msg;

    msg->hdr.type_am = uct_glex_hdr_type_am(UCT_GLEX_MP_END, 0);
    msg->hdr.vc_id = (vc->peer_key != 0) ? vc->tx.vc_id : 0; /* 0: tx.vc_id may be the name of an
                                                              * earlier VC */
    msg->end.version = UCT_GLEX_WIRE_VERSION;
    msg->end.flags = flags;
    msg->end.vc_id = vc->id;
    msg->end.uuid = vc->peer_uuid;
    msg->end.src_uuid = vc->iface->uuid;
    msg->end.key = vc->iface->md->key;
    msg->end.last_seq = vc->tx.seq;
    msg->end.rx_seq = vc->rx_seq;
}

int uct_glex_lease_begin(uct_glex_vc_t *vc, unsigned flags)
{
    uct_glex_iface_t *iface = vc->iface;
    uct_glex_lease_t *lease;

    lease = ucs_calloc(1, sizeof(*lease), "glex_lease");
    if (lease == NULL) {
        return 0;
    }
    lease->vc = vc;
    lease->peer = vc->peer;
    lease->epoch = vc->epoch;
    lease->next = ucs_get_time();
    uct_glex_lease_fill(lease, vc, flags);
    if (vc->lent != UCT_GLEX_LENT_NONE) {
        lease->fifo = uct_glex_er_lend_end(vc);
    }
    vc->lease = lease;
    ucs_list_add_tail(&iface->leases.list, &lease->list);
    uct_glex_iface_retry(iface);
    return 1;
}

static void uct_glex_lease_over(uct_glex_iface_t *iface, uct_glex_lease_t *lease)
{
    if (!lease->is_over) {
        lease->is_over = 1;
        uct_glex_snap_take(iface, &lease->snap);
    }
}

void uct_glex_lease_claimed(uct_glex_vc_t *vc)
{
    if (vc->lease != NULL) {
        uct_glex_lease_over(vc->iface, vc->lease);
    }
}

void uct_glex_lease_peer_gone(uct_glex_iface_t *iface, uint64_t peer, uint32_t peer_id)
{
    uct_glex_lease_t *lease;

    ucs_list_for_each(lease, &iface->leases.list, list) {
        if ((lease->peer == peer) && (lease->msg.hdr.vc_id == peer_id)) {
            uct_glex_lease_over(iface, lease);
        }
    }
}

void uct_glex_lease_tell(uct_glex_vc_t *vc)
{
    if (vc->lease != NULL) {
        vc->lease->next = 0;
        uct_glex_iface_retry(vc->iface);
    }
}

static void uct_glex_lease_release_regions(uct_glex_lease_t *lease)
{
    while (lease->num_regions > 0) {
        uct_glex_buf_region_release(lease->regions[--lease->num_regions]);
    }
    ucs_free(lease->regions);
}

static void uct_glex_lease_put_word(uct_glex_lease_t *lease)
{
    if (lease->word != NULL) {
        uct_glex_buf_put(lease->word);
    }
}

/* The peer accesses nothing any more: return the memory and the entries */
static void uct_glex_lease_free(uct_glex_iface_t *iface, uct_glex_lease_t *lease)
{
    uct_glex_vc_t *vc = lease->vc;

    ucs_list_del(&lease->list);
    if (lease->fifo != NULL) {
        uct_glex_buf_put(lease->fifo);
    }
    if (vc != NULL) {
        vc->lease = NULL;
        uct_glex_op_release_held(vc);
        uct_glex_mpq_return(vc);
    }
    uct_glex_lease_release_regions(lease);
    uct_glex_lease_put_word(lease);
    ucs_free(lease);
    uct_glex_iface_recheck(iface); /* other VCs may wait for the resources */
}

/* The claim word. The peer writes the name of the lease to the claim word. The cache line has no
 * other data. */
static uint64_t *uct_glex_lease_word(const uct_glex_lease_t *lease)
{
    return lease->word->ptr;
}

/* Without memory the END has no claim word, and the next END tries again */
static void uct_glex_lease_get_word(uct_glex_iface_t *iface, uct_glex_lease_t *lease)
{
    uct_glex_end_t *end = &lease->msg.end;

    if (lease->word != NULL) {
        return;
    }
    if (uct_glex_buf_get(&iface->leases.quarantine->words, 0, &lease->word) != UCS_OK) {
        lease->word = NULL;
    } else {
        __atomic_store_n(uct_glex_lease_word(lease), 0, __ATOMIC_RELAXED); /* END publishes the
                                                                            * word */
        end->word_mh = lease->word->mh.v;
        end->word_offset = lease->word->offset;
        end->flags |= UCT_GLEX_END_WORD;
    }
}

/* Returns whether the peer has written its claim: the peer accesses nothing of the lease any more.
 * acquire: all other stores of the peer come before the claim. */
static int uct_glex_lease_is_claimed(const uct_glex_lease_t *lease)
{
    return (lease->word != NULL) &&
           (__atomic_load_n(uct_glex_lease_word(lease), __ATOMIC_ACQUIRE) == lease->msg.end.vc_id);
}

static ucs_status_t uct_glex_lease_post(uct_glex_iface_t *iface, const uct_glex_lease_t *lease)
{
    glex_imm_mp_req_t req;

    req.rmt_ep_addr.v = lease->peer;
    req.data = (void *)&lease->msg;
    req.len = sizeof(lease->msg);
    req.flag = GLEX_EXT_FLAG_NO_LOSS;
    req.next = NULL;
    return uct_glex_status(glex_send_imm_mp(iface->nic, &req, NULL));
}

static ucs_status_t uct_glex_lease_send(uct_glex_iface_t *iface, uct_glex_lease_t *lease)
{
    uct_glex_lease_get_word(iface, lease);
    return uct_glex_lease_post(iface, lease);
}

static int uct_glex_lease_is_gone(uct_glex_iface_t *iface, const uct_glex_lease_t *lease)
{
    return uct_glex_iface_is_gone(iface, lease->peer, lease->msg.end.uuid, lease->epoch);
}

/* Returns whether a lease that is over owes no END. A message after the claim belongs to another VC
 * of the peer than the VC that claimed, and this other VC must learn the end, too
 * (test/model/conn.pml). The END has no claim word, because the next lease may use the word. */
static int uct_glex_lease_has_told(uct_glex_iface_t *iface, uct_glex_lease_t *lease)
{
    if ((lease->next != 0) || uct_glex_lease_is_gone(iface, lease)) {
        return 1;
    }
    lease->msg.end.flags &= ~UCT_GLEX_END_WORD;
    return uct_glex_lease_post(iface, lease) != UCS_ERR_NO_RESOURCE;
}

/* Sets UCT_GLEX_END_CLAIMS if none of our Gets is in progress and the NIC keeps the order, so that
 * puts to the borrowed FIFO arrive before END. On a NIC that loses messages, uct_glex_debt_put()
 * sends the claims. */
static void uct_glex_lease_check_gets(uct_glex_lease_t *lease)
{
    if (UCT_GLEX_NIC_LOSSLESS && ((lease->vc == NULL) || (lease->vc->rx_started == 0))) {
        lease->msg.end.flags |= UCT_GLEX_END_CLAIMS;
    }
}

/* Progress of a lease. Returns whether the lease has ended. */
static int uct_glex_lease_look(uct_glex_iface_t *iface, uct_glex_lease_t *lease, ucs_time_t now)
{
    if (!lease->is_over && uct_glex_lease_is_claimed(lease)) {
        uct_glex_lease_over(iface, lease);
    }
    if (lease->is_over) {
        if (uct_glex_snap_is_taken(iface, &lease->snap) && uct_glex_lease_has_told(iface, lease)) {
            return 1;
        }
        uct_glex_iface_retry(iface);
        return 0;
    }
    if (now < lease->next) {
        return 0;
    }
    if (uct_glex_lease_is_gone(iface, lease)) {
        uct_glex_lease_over(iface, lease);
        return 0;
    }
    uct_glex_lease_check_gets(lease);
    if (uct_glex_lease_send(iface, lease) == UCS_OK) {
        lease->next = now + ucs_time_from_sec(UCT_GLEX_LEASE_SEC);
    } else {
        uct_glex_iface_retry(iface);
    }
    return 0;
}

/* ---- debts ---- */

static int uct_glex_debt_is_payable(uct_glex_iface_t *iface, const uct_glex_debt_t *debt)
{
    const uct_glex_vc_t *vc = uct_glex_vc_by_id(iface, debt->vc_id);

    return (vc == NULL) || (uct_glex_vc_is_over(vc) && (vc->rx_started == 0));
}

/* Claim by an immediate put on the same path as the puts to the FIFO. On a NIC without order the
 * put has the flag FENCE. */
static ucs_status_t uct_glex_debt_put(uct_glex_iface_t *iface, uct_glex_debt_t *debt)
{
    uint64_t value = debt->lease_id;
    glex_imm_rdma_req_t req;

    memset(&req, 0, sizeof(req));
    req.rmt_ep_addr.v = debt->peer;
    req.data = &value;
    req.len = sizeof(value);
    req.rmt_mh.v = debt->word_mh;
    req.rmt_offset = debt->word_offset;
    req.rmt_key = debt->key;
    req.flag = UCT_GLEX_NIC_LOSSLESS ? GLEX_EXT_FLAG_NO_LOSS : GLEX_FLAG_FENCE;
    debt->is_put = 1;
    return uct_glex_status(glex_imm_rdma(iface->nic, &req, NULL));
}

/* Write the claim. The release store follows all stores of this process to the FIFO. If the claim
 * word of a peer on this host cannot be found, the peer is gone and needs no claim. */
static ucs_status_t uct_glex_debt_pay(uct_glex_iface_t *iface, uct_glex_debt_t *debt)
{
    glex_mem_handle_t mh = {.v = debt->word_mh};
    glex_ep_addr_t peer = {.v = debt->peer};
    glex_ret_t ret;
    void *ptr;

    if (getpid() != iface->pid) {
        return UCS_OK; /* a child of fork(): the parent may still write */
    }
    ret = glex_ext_peer_ptr(iface->nic, peer, mh, debt->key, debt->word_offset, sizeof(uint64_t),
                            &ptr, NULL);
    if (ret == GLEX_SUCCESS) {
        __atomic_store_n((uint64_t *)ptr, debt->lease_id, __ATOMIC_RELEASE);
        return UCS_OK;
    }
    return ((ret == GLEX_NOT_IMPLEMENTED) || (ret == GLEX_NO_MEM_RESOURCE)) ?
               uct_glex_debt_put(iface, debt) :
               UCS_OK;
}

static void uct_glex_debt_free_claim(uct_glex_iface_t *iface, uct_glex_debt_t *claim)
{
    --iface->leases.num_claims;
    ucs_list_del(&claim->list);
    ucs_free(claim);
}

/* The NIC may still report that the put has failed. A failed put that is no claim fails endpoints. So
 * the newest claims are kept. */
static void uct_glex_debt_keep_claim(uct_glex_iface_t *iface, uct_glex_debt_t *claim)
{
    ucs_list_add_tail(&iface->leases.claims, &claim->list);
    if (++iface->leases.num_claims > iface->num_vcs + UCT_GLEX_LEASE_CLAIMS) {
        uct_glex_debt_free_claim(iface,
                                 ucs_list_head(&iface->leases.claims, uct_glex_debt_t, list));
    }
}

int uct_glex_debt_is_claim(uct_glex_iface_t *iface, uint64_t peer, const struct glex_err_req *err)
{
    uct_glex_debt_t *claim;

    ucs_list_for_each(claim, &iface->leases.claims, list) {
        if ((claim->peer == peer) && (claim->word_mh == err->data0) &&
            (claim->word_offset == (err->data1 >> 32))) {
            uct_glex_debt_free_claim(iface, claim);
            return 1;
        }
    }
    return 0;
}

static void uct_glex_debt_progress(uct_glex_iface_t *iface, uct_glex_debt_t *debt)
{
    if (!uct_glex_debt_is_payable(iface, debt) ||
        (uct_glex_debt_pay(iface, debt) == UCS_ERR_NO_RESOURCE)) {
        return;
    }
    ucs_list_del(&debt->list);
    if (debt->is_put) {
        uct_glex_debt_keep_claim(iface, debt);
    } else {
        ucs_free(debt);
    }
}

/* Whether the debt exists already: the peer repeats END until the claim */
static int uct_glex_debt_is_known(uct_glex_iface_t *iface, uint64_t peer, const uct_glex_end_t *end)
{
    uct_glex_debt_t *debt;

    ucs_list_for_each(debt, &iface->leases.debts, list) {
        if ((debt->peer == peer) && (debt->lease_id == end->vc_id)) {
            return 1;
        }
    }
    return 0;
}

void uct_glex_debt_add(uct_glex_iface_t *iface, uint64_t peer, const uct_glex_vc_t *vc,
                       const uct_glex_end_t *end)
{
    uct_glex_debt_t *debt;

    if (!(end->flags & UCT_GLEX_END_WORD) || uct_glex_debt_is_known(iface, peer, end)) {
        return;
    }
    debt = ucs_malloc(sizeof(*debt), "glex_debt");
    if (debt == NULL) {
        ucs_debug("glex: no memory for a claim to endpoint 0x%" PRIx64 ": its next END asks again",
                  peer);
        return;
    }
    debt->peer = peer;
    debt->word_mh = end->word_mh;
    debt->word_offset = end->word_offset;
    debt->key = end->key;
    debt->lease_id = end->vc_id;
    debt->vc_id = (vc != NULL) ? vc->id : 0;
    debt->is_put = 0;
    ucs_list_add_tail(&iface->leases.debts, &debt->list);
    uct_glex_iface_retry(iface);
}

/* ---- progress ---- */

/* Moves the first element of a list to its end. Returns the element. */
static ucs_list_link_t *uct_glex_lease_rotate(ucs_list_link_t *list)
{
    ucs_list_link_t *first = list->next;

    ucs_list_del(first);
    ucs_list_add_tail(list, first);
    return first;
}

void uct_glex_lease_progress(uct_glex_iface_t *iface)
{
    ucs_time_t now = ucs_get_time();
    ucs_list_link_t *end, *link;
    uct_glex_lease_t *lease;
    unsigned left;

    end = iface->leases.debts.prev;
    for (left = UCT_GLEX_SLICE; (left > 0) && !ucs_list_is_empty(&iface->leases.debts);) {
        link = uct_glex_lease_rotate(&iface->leases.debts);
        left = (link == end) ? 0 : left - 1;
        uct_glex_debt_progress(iface, ucs_container_of(link, uct_glex_debt_t, list));
    }
    end = iface->leases.list.prev;
    for (left = UCT_GLEX_SLICE; (left > 0) && !ucs_list_is_empty(&iface->leases.list);) {
        link = uct_glex_lease_rotate(&iface->leases.list);
        left = (link == end) ? 0 : left - 1;
        lease = ucs_container_of(link, uct_glex_lease_t, list);
        if (uct_glex_lease_look(iface, lease, now)) {
            uct_glex_lease_free(iface, lease);
        }
    }
}

/* ---- quarantine ---- */

static void uct_glex_quarantine_destroy(uct_glex_md_kept_t *kept)
{
    uct_glex_quarantine_t *quarantine = ucs_derived_of(kept, uct_glex_quarantine_t);
    uct_glex_lease_t *lease, *tmp;

    ucs_list_for_each_safe(lease, tmp, &quarantine->list, list) {
        ucs_list_del(&lease->list);
        uct_glex_lease_release_regions(lease);
        uct_glex_lease_put_word(lease);
        ucs_free(lease);
    }
    uct_glex_buf_pool_cleanup(&quarantine->words);
    ucs_free(quarantine);
}

/* The endpoint is new, but an earlier process may have had its address: begin anywhere */
static void uct_glex_quarantine_init_gens(uct_glex_quarantine_t *quarantine, uint32_t uuid)
{
    quarantine->next_vc_gen = 1 + (uuid >> 16) % UCT_GLEX_VC_GENS;
    quarantine->next_op_gen = uuid;
    quarantine->next_er_gen = uuid;
}

static void uct_glex_quarantine_take_gens(uct_glex_iface_t *iface)
{
    const uct_glex_quarantine_t *quarantine = iface->leases.quarantine;

    iface->vc_table.first_gen = quarantine->next_vc_gen;
    iface->ops.next_gen = quarantine->next_op_gen;
    iface->er.next_gen = quarantine->next_er_gen;
}

static void uct_glex_quarantine_keep_gens(const uct_glex_iface_t *iface)
{
    uct_glex_quarantine_t *quarantine = iface->leases.quarantine;
    unsigned next_gen = iface->vc_table.first_gen + iface->vc_table.num_gens;

    quarantine->next_vc_gen = 1 + (next_gen - 1) % UCT_GLEX_VC_GENS;
    quarantine->next_op_gen = iface->ops.next_gen;
    quarantine->next_er_gen = iface->er.next_gen;
}

static ucs_status_t uct_glex_quarantine_new(uct_glex_iface_t *iface,
                                            uct_glex_quarantine_t **quarantine_p)
{
    uct_glex_quarantine_t *quarantine = ucs_calloc(1, sizeof(*quarantine), "glex_quarantine");
    ucs_status_t status;

    if (quarantine == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    ucs_list_head_init(&quarantine->list);
    uct_glex_quarantine_init_gens(quarantine, iface->uuid);
    status = uct_glex_buf_pool_init(&quarantine->words, iface->md, iface->nic, GLEX_MEM_WRITE,
                                    UCS_SYS_CACHE_LINE_SIZE, UCT_GLEX_LEASE_WORDS, UINT_MAX,
                                    "glex_claim_word");
    if (status != UCS_OK) {
        ucs_free(quarantine);
        return status;
    }
    quarantine->super.ep_index = iface->ep_index;
    quarantine->super.destroy = uct_glex_quarantine_destroy;
    uct_glex_md_keep(iface->md, &quarantine->super);
    *quarantine_p = quarantine;
    return UCS_OK;
}

ucs_status_t uct_glex_lease_init(uct_glex_iface_t *iface)
{
    uct_glex_md_kept_t *kept = uct_glex_md_find_kept(iface->md, iface->ep_index);
    ucs_status_t status = UCS_OK;
    uct_glex_lease_t *lease;

    iface->pid = getpid();
    ucs_list_head_init(&iface->leases.list);
    ucs_list_head_init(&iface->leases.debts);
    ucs_list_head_init(&iface->leases.claims);
    iface->leases.num_claims = 0;
    if (kept != NULL) {
        iface->leases.quarantine = ucs_derived_of(kept, uct_glex_quarantine_t);
    } else {
        status = uct_glex_quarantine_new(iface, &iface->leases.quarantine);
    }
    if (status != UCS_OK) {
        return status;
    }
    uct_glex_quarantine_take_gens(iface);
    ucs_list_splice_tail(&iface->leases.list, &iface->leases.quarantine->list);
    ucs_list_head_init(&iface->leases.quarantine->list);
    ucs_list_for_each(lease, &iface->leases.list, list) {
        if (lease->is_over) {
            uct_glex_snap_take(iface, &lease->snap); /* the snapshot of the earlier interface is
                                                      * lost */
        }
        lease->next = ucs_get_time();
        uct_glex_iface_retry(iface);
    }
    return UCS_OK;
}

/* ---- the interface closes ---- */

ucs_status_t uct_glex_lease_say_goodbye(uct_glex_vc_t *vc)
{
    uct_glex_lease_t *lease = vc->lease;
    ucs_status_t status;

    if ((lease == NULL) || lease->is_over || (lease->next > ucs_get_time())) {
        return UCS_OK;
    }
    vc->rx_started = 0; /* the data of our Gets is discarded, so END need not wait for them */
    uct_glex_lease_check_gets(lease);
    status = uct_glex_lease_send(vc->iface, lease);
    if (status != UCS_ERR_NO_RESOURCE) {
        lease->next = ucs_get_time() + ucs_time_from_sec(UCT_GLEX_LEASE_SEC);
    }
    return status;
}

/* Keep memory that the peer may access when the interface's pools are freed. If the list cannot be
 * allocated, nothing releases the region later. */
static void uct_glex_lease_hold(uct_glex_lease_t *lease, uct_glex_buf_t *buf)
{
    uct_glex_buf_region_t *region = uct_glex_buf_hold_region(buf);

    if (lease->regions != NULL) {
        lease->regions[lease->num_regions++] = region;
    } else {
        ucs_error("glex: no memory to wait for endpoint 0x%" PRIx64 ": %s is kept", lease->peer,
                  "memory that it may use");
    }
}

void uct_glex_lease_detach(uct_glex_vc_t *vc)
{
    uct_glex_lease_t *lease = vc->lease;
    uct_glex_buf_t *buf;
    unsigned cursor = 0;

    if (lease == NULL) {
        return;
    }
    lease->regions = ucs_malloc((vc->num_ops + 1) * sizeof(*lease->regions), "glex_lease_regions");
    while ((buf = uct_glex_op_next_read(vc, &cursor)) != NULL) {
        uct_glex_lease_hold(lease, buf);
    }
    if (lease->fifo != NULL) {
        uct_glex_lease_hold(lease, lease->fifo);
        uct_glex_buf_put(lease->fifo);
        lease->fifo = NULL;
    }
    lease->vc = NULL;
    vc->lease = NULL;
    if (lease->num_regions == 0) { /* only entries of a queue without a reader are left */
        ucs_list_del(&lease->list);
        uct_glex_lease_release_regions(lease);
        uct_glex_lease_put_word(lease);
        ucs_free(lease);
    }
}

void uct_glex_lease_cleanup(uct_glex_iface_t *iface)
{
    uct_glex_debt_t *debt, *tmp;

    ucs_list_for_each_safe(debt, tmp, &iface->leases.debts, list) {
        (void)uct_glex_debt_pay(iface, debt); /* if this fails, the peer's END asks the next
                                               * interface */
        ucs_list_del(&debt->list);
        ucs_free(debt);
    }
    ucs_list_for_each_safe(debt, tmp, &iface->leases.claims, list) {
        uct_glex_debt_free_claim(iface, debt);
    }
    if (iface->leases.quarantine != NULL) {
        ucs_list_splice_tail(&iface->leases.quarantine->list, &iface->leases.list);
        uct_glex_quarantine_keep_gens(iface);
    }
}
