/*
 * Virtual connection (VC): the protocol state between this interface and one peer. The first
 * communication in either direction makes the VC, and all UCT endpoints to the peer share the VC
 * (paper 003, section 5.1). A VC is freed when the interface closes. A VC that is over and unused
 * is freed earlier, when a new VC takes its place in the table (glex_table.c).
 */
#ifndef UCT_GLEX_VC_H
#define UCT_GLEX_VC_H

#include "base/glex_credit.h"
#include "base/glex_fifo.h"
#include "core/glex_iface.h"

#include <ucs/datastruct/queue.h>

typedef struct uct_glex_er_tx uct_glex_er_tx_t;

/* docs/protocol.md, section 4, has the diagram. The order matters: from ACCEPTING on, the peer's
 * name of the VC is known. From PEER_CLOSED on, the VC is over. */
enum uct_glex_vc_state {
    UCT_GLEX_VC_WAIT_MPQ,   /* new: waits for entries of our MPQ for the peer, then connects */
    UCT_GLEX_VC_CONNECTING, /* CONNECT was sent */
    UCT_GLEX_VC_ACCEPTING,  /* CONNECT was received: waits for entries of our MPQ, then accepts */
    UCT_GLEX_VC_OPEN,
    UCT_GLEX_VC_PEER_CLOSED, /* the peer left: fails at the next send */
    UCT_GLEX_VC_FAILED
};

/* Most VCs of an interface. An id has a generation above the index. The generation tells late
 * messages for an earlier VC at the index, or for an earlier interface at this endpoint, from
 * messages for this VC. */
#define UCT_GLEX_VC_INDEX_BITS 20
#define UCT_GLEX_VC_MAX        (1U << UCT_GLEX_VC_INDEX_BITS)
#define UCT_GLEX_VC_INDEX_MASK (UCT_GLEX_VC_MAX - 1)
#define UCT_GLEX_VC_GENS       (UINT32_MAX / UCT_GLEX_VC_MAX) /* generations: from 1, as no id is 0 */

/* Whether the peer borrowed a FIFO of ours */
enum uct_glex_lent {
    UCT_GLEX_LENT_NONE,
    UCT_GLEX_LENT_FIFO,
    UCT_GLEX_LENT_RELEASED /* the peer sends nothing more through the FIFO, but messages in the FIFO
                            * are not delivered yet */
};

/* An epoch that no connection has */
#define UCT_GLEX_VC_NO_EPOCH UINT64_MAX

struct uct_glex_vc {
    /* All fields for sending a short message, and most fields for receiving, are in this cache
     * line. With very many peers, each further line is a cache miss. */
    uct_glex_er_tx_t *er_tx;    /* the FIFO that we borrowed, NULL: none */
    uct_glex_fifo_tx_t tx_fifo; /* counters persist from one FIFO to the next */
    uint16_t rx_seq;
    uint8_t state;             /* enum uct_glex_vc_state */
    uint8_t lent : 2;          /* enum uct_glex_lent */
    uct_glex_hdr_t tx;         /* header of the next message, without type, id and length: our
                                * acknowledgement, the peer's name of the VC, the next sequence
                                * number, and the totals that we consumed and grant */
    uint16_t advertised_limit; /* mp_limit of the last header */
    uint16_t peer_hint;        /* from glex_ext_peer_hint() */
    uct_glex_fifo_count_t advertised; /* ER credits in the last header */
    uint64_t peer;
    uct_glex_iface_t *iface;

    uint32_t id;             /* our name: index | generation << UCT_GLEX_VC_INDEX_BITS. Not 0: the
                              * VC is in the table. */
    uint16_t num_blocked;    /* endpoints with pending requests */
    uint16_t rx_fifo_index;  /* index in iface->er_rx[] of the FIFO that we lent */
    ucs_list_link_t rx;      /* messages that cannot be delivered yet, by sequence */
    uct_glex_lease_t *lease; /* VC over: the memory that the peer may still access, or NULL */
    uct_glex_credit_tx_t mp_tx;
    uct_glex_credit_rx_t mp_rx; /* credits for the peer; window 0: no entries of our MPQ are
                                 * reserved for the peer */
    uint16_t tx_peak;           /* credits after the last update */
    uint16_t sr_count;          /* messages through SR until a FIFO is requested; 0: the request was
                                 * sent, or goes with CONNECT or ACCEPT */
    uint16_t rx_started;        /* messages at the head of `rx` whose data is here or is being
                                 * fetched. VC over: dropped messages whose Gets have not ended */
    uint16_t left_seq;          /* peer_left: sequence number after its last message */
    uint32_t peer_uuid;
    uint32_t peer_key;
    uint64_t epoch;      /* of the NIC's connection (glex_ext_peer_epoch()), which the VC does not
                          * outlive. 0: the peer is on this host */
    uint32_t num_ops;    /* operations that exist */
    uint16_t watch_mark; /* sum of counters at the last look for dead peers */
    uint16_t held[UCT_GLEX_SHARES]; /* operations by enum uct_glex_op_type, without held operations
                                     * (uct_glex_op_t.held) */
    uint16_t left_tx_seq;           /* peer_left: tx.seq at that time. The peer delivers no later
                                     * message. */
    uint16_t ctl;                   /* control flags to be sent */
    uint16_t released_index;        /* index and generation of the FIFO in the next ER_RELEASED */
    uint8_t released_gen;
    int8_t status; /* a ucs_status_t: why the VC is over. Peer left: CONNECTION_RESET if it has not
                    * delivered all our messages. Else UCS_OK. */

    /* Flags, each with the files or functions that write the flag */
    uint8_t er_backoff : 3;    /* er: refusals since the last FIFO, UCT_GLEX_ER_MAX_BACKOFF at
                                * most */
    uint8_t ctl_inflight : 1;  /* ctl: a CTL or ACCEPT of ours is not acknowledged */
    uint8_t connect_again : 1; /* ctl, error: our CONNECT was lost, the peer's came */
    uint8_t peer_left : 1;     /* vc: the peer's END arrived. The VC closes when the peer's messages
                                * are here. */
    uint8_t peer_dead : 1;     /* vc: to be failed by progress */
    uint8_t is_claimed : 1;    /* ctl: the peer does not access our memory for this VC any more */
    uint8_t is_stale : 1;      /* vc: do not wait for the peer's messages any longer. Set by a look
                                * for dead peers that finds the peer gone, dead or left and nothing
                                * new from the peer. Also set by an END without ORDERLY. */
    uint8_t has_refused : 1;   /* ep, vc: the peer refused an endpoint of `eps` access to memory */
    uint8_t dirty : 1;         /* rma: puts without an operation were posted since the last flush */
    uint8_t check_pending : 1; /* ep, ctl: an ep_check's CTL is not acknowledged */
    uint8_t resume_due : 1;    /* ep, ctl: the NIC refused pending requests */

    ucs_list_link_t eps;     /* uct_glex_ep_t.list */
    ucs_list_link_t wait;    /* empty, or in iface->mpq.wait (for MPQ entries) or, if the VC is
                              * open, in iface->sr.rx_wait (for a receive buffer). VC over: in
                              * iface->vc_table.over, or .unused once another VC has the place */
    ucs_queue_head_t tx_ops; /* operations in the order of posting, for flush */
    ucs_queue_elem_t active; /* in iface->active or iface->blocked, or next is `active` itself */
};

_Static_assert(offsetof(struct uct_glex_vc, iface) == 56, "what a short message needs is one line");
_Static_assert(sizeof(struct uct_glex_vc) <= 208, "there are as many as peers");

/* The VC of endpoints that have not communicated yet. It has no credits. */
extern uct_glex_vc_t uct_glex_no_vc;

/** The mark in the sequence number of a CONNECT. An error report contains the mark and so names the
 *  VC. Two VCs of one peer have the same mark with a probability of 1 in 65,536. */
static inline uint16_t uct_glex_vc_mark(const uct_glex_vc_t *vc)
{
    return vc->id ^ (vc->id >> 16);
}

/** The VC of an id that a peer names, or NULL. Ids from peers are not trusted. */
static inline uct_glex_vc_t *uct_glex_vc_by_id(const uct_glex_iface_t *iface, uint32_t id)
{
    uint32_t index = id & UCT_GLEX_VC_INDEX_MASK;

    return (ucs_likely(index < iface->num_vcs) && (iface->vcs[index]->id == id)) ?
               iface->vcs[index] :
               NULL;
}

/** Whether the VC is over: the last two states */
static inline int uct_glex_vc_is_over(const uct_glex_vc_t *vc)
{
    return vc->state >= UCT_GLEX_VC_PEER_CLOSED;
}

/** Whether the peer is on another host */
static inline int uct_glex_vc_is_remote(const uct_glex_vc_t *vc)
{
    return vc->epoch != 0;
}

/** Whether both sides can map memory of the NIC. If not, all data goes by requests. */
static inline int uct_glex_vc_is_mapped(const uct_glex_vc_t *vc)
{
    return !uct_glex_vc_is_remote(vc) && (vc->iface->md->ext_attr.caps & GLEX_EXT_CAP_MAP);
}

/** Returns whether the NIC knows that the VC's peer, or the connection with it, is gone */
static inline int uct_glex_vc_is_gone(const uct_glex_vc_t *vc)
{
    return uct_glex_iface_is_gone(vc->iface, vc->peer, vc->peer_uuid, vc->epoch);
}

/** Whether progress will look at the VC: it is in iface->active or iface->blocked */
static inline int uct_glex_vc_is_scheduled(const uct_glex_vc_t *vc)
{
    return vc->active.next != &vc->active;
}

/** The VC is in neither list */
static inline void uct_glex_vc_schedule_end(uct_glex_vc_t *vc)
{
    vc->active.next = &vc->active;
}

static inline void uct_glex_vc_schedule_in(uct_glex_vc_t *vc, ucs_queue_head_t *list)
{
    if (!uct_glex_vc_is_scheduled(vc)) {
        vc->active.next = NULL;
        vc->iface->due = 1;
        ucs_queue_push(list, &vc->active);
    }
}

/** Have progress send the VC's control messages */
static inline void uct_glex_vc_schedule(uct_glex_vc_t *vc)
{
    uct_glex_vc_schedule_in(vc, &vc->iface->active);
}

/** Whether the VC waits in a list */
static inline int uct_glex_vc_is_waiting(const uct_glex_vc_t *vc)
{
    return !uct_glex_vc_is_over(vc) && (vc->wait.next != &vc->wait);
}

/** Have the VC wait in a list, until uct_glex_vc_wait_end() */
static inline void uct_glex_vc_wait(uct_glex_vc_t *vc, ucs_list_link_t *list)
{
    if (!uct_glex_vc_is_waiting(vc)) {
        ++vc->iface->num_waiting;
        ucs_list_add_tail(list, &vc->wait);
    }
}

/** The VC's peer has no room, or does not answer: have the next progress call try again. After this
 *  call, unlike after uct_glex_vc_schedule(), the program may sleep. */
static inline void uct_glex_vc_block(uct_glex_vc_t *vc)
{
    uct_glex_vc_schedule_in(vc, &vc->iface->blocked);
}

static inline void uct_glex_vc_wait_end(uct_glex_vc_t *vc)
{
    if (uct_glex_vc_is_waiting(vc)) {
        --vc->iface->num_waiting;
        ucs_list_del(&vc->wait);
        ucs_list_head_init(&vc->wait);
    }
}

/** Tell the peer something; sent by progress */
static inline void uct_glex_ctl_post(uct_glex_vc_t *vc, unsigned flags)
{
    vc->ctl |= flags;
    uct_glex_vc_schedule(vc);
}

/** The peer acknowledged our control message */
static inline void uct_glex_ctl_acked(uct_glex_vc_t *vc)
{
    vc->ctl_inflight = 0;
    vc->check_pending = vc->check_pending && (vc->ctl != 0); /* flags are left, so the CTL of the
                                                              * check was not sent yet */
    uct_glex_vc_schedule(vc);                                /* send the flags that waited */
}

/** For the folders below conn/: the VC cannot go on, because the peer broke the protocol or memory
 *  is missing. Fails the VC at once. */
static inline void uct_glex_vc_report_failed(uct_glex_vc_t *vc, ucs_status_t status)
{
    vc->iface->reports->failed(vc, status);
}

/** For the folders below conn/: the NIC says that the peer is gone. Progress fails the VC after the
 *  peer's messages. */
static inline void uct_glex_vc_report_dead(uct_glex_vc_t *vc)
{
    vc->iface->reports->dead(vc);
}

/** For the folders below vc/: the peer does not know that the VC is over */
static inline void uct_glex_vc_report_unaware(uct_glex_vc_t *vc)
{
    vc->iface->reports->unaware(vc);
}

/** Have progress try the pending requests of the VC's endpoints again */
void uct_glex_vc_resume(uct_glex_vc_t *vc);

/** Have the arbiter try the VC's pending requests */
void uct_glex_vc_schedule_pending(uct_glex_vc_t *vc);

/** The peer's address for requests. The hint in the address saves the NIC a search. */
static UCS_F_ALWAYS_INLINE glex_ep_addr_t uct_glex_vc_dest(const uct_glex_vc_t *vc)
{
    return (glex_ep_addr_t){.v = vc->peer | ((uint64_t)vc->peer_hint << 16)};
}

/** A header with the VC's counters and the acknowledgement was sent */
static inline void uct_glex_vc_advertised(uct_glex_vc_t *vc)
{
    vc->advertised_limit = vc->tx.credits.word >> 16;
    vc->advertised = vc->tx.credits.er;
    if (ucs_unlikely(vc->tx.word & ((uint64_t)UCT_GLEX_FLAG_ACK << 8))) {
        vc->tx.flags &= ~UCT_GLEX_FLAG_ACK;
    }
}

/** Update the limit in the next header */
static inline void uct_glex_vc_tell_limit(uct_glex_vc_t *vc)
{
    vc->tx.credits.mp_limit = uct_glex_credit_limit(&vc->mp_rx);
}

/** The first word of the next message's header. `flags`: flags beside ACK */
static inline uint64_t uct_glex_vc_hdr_word(const uct_glex_vc_t *vc, unsigned type, uint8_t am_id,
                                            unsigned flags)
{
    return vc->tx.word | uct_glex_hdr_type_am(type, am_id) | ((uint64_t)flags << 8);
}

#endif
