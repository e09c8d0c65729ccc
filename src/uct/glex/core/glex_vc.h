/*
 * Virtual connection (VC): the protocol state between this interface and one peer, made at the
 * first communication in either direction and shared by all uct_ep's to that peer (paper 003,
 * section 5.1). It lives as long as the interface.
 */
#ifndef UCT_GLEX_VC_H
#define UCT_GLEX_VC_H

#include "base/glex_credit.h"
#include "base/glex_fifo.h"
#include "core/glex_iface.h"

#include <ucs/datastruct/queue_types.h>

typedef struct uct_glex_er_tx uct_glex_er_tx_t;

/* docs/protocol.md, section 4, has the diagram. The order matters: from ACCEPTING on the peer's
 * name of the VC is known, from PEER_CLOSED on the VC is over. */
enum uct_glex_vc_state {
    UCT_GLEX_VC_WAIT_MPQ,    /* new: waits for entries of our MPQ for the peer, then connects */
    UCT_GLEX_VC_CONNECTING,  /* CONNECT was sent */
    UCT_GLEX_VC_ACCEPTING,   /* CONNECT was received: waits for entries of our MPQ, then accepts */
    UCT_GLEX_VC_OPEN,
    UCT_GLEX_VC_PEER_CLOSED, /* the peer closed its interface: fails when it is used again */
    UCT_GLEX_VC_FAILED
};

enum uct_glex_er_state {
    UCT_GLEX_ER_NONE,
    UCT_GLEX_ER_REQUESTED, /* asked the peer for a FIFO */
    UCT_GLEX_ER_ACTIVE
};

/* Whether the peer borrowed a FIFO of ours */
enum uct_glex_lent {
    UCT_GLEX_LENT_NONE,
    UCT_GLEX_LENT_FIFO,
    UCT_GLEX_LENT_RELEASED, /* it sends no more through it, but not all has been delivered */
    UCT_GLEX_LENT_HELD      /* the VC failed, and the peer did not say that it stopped writing */
};

struct uct_glex_vc {
    /* All that a short message needs to be sent, and nearly all to be received, is in this line:
     * with very many peers each line is out of the cache */
    uct_glex_er_tx_t    *er_tx;   /* the FIFO we borrowed, NULL: none */
    uct_glex_fifo_tx_t   tx_fifo; /* counters persist from one FIFO to the next */
    uint16_t             rx_seq;
    uint8_t              state;   /* enum uct_glex_vc_state */
    uint8_t              lent     : 2; /* enum uct_glex_lent */
    uint8_t              er_tx_mapped : 1; /* we read our lender's credits where it publishes them,
                                            * not in headers, which come late */
    uint8_t              er_rx_mapped : 1; /* the credits of the FIFO that we lent are published */
    uint8_t              is_stale : 1; /* the peer left or is dead, and nothing has come from it
                                        * since the last look for dead peers */
    uct_glex_hdr_t       tx;      /* header of the next message, but for type, id and length: our
                                   * acknowledgement, the peer's name of the VC, the next sequence
                                   * number, and all that we consumed and grant */
    uint16_t             told_limit; /* mp_limit that the last header told */
    uint16_t             peer_hint; /* the NIC's, glex_ext_peer_hint() */
    uct_glex_fifo_count_t told;   /* what we last published, or else told by a header */
    uint64_t             peer;
    uct_glex_iface_t    *iface;

    uint32_t             id;      /* our name: index | generation << 16 */
    uint16_t             num_blocked; /* endpoints with pending requests */
    uint16_t             rx_fifo_index;
    ucs_list_link_t      rx;      /* messages that cannot be delivered yet, by sequence */
    uct_glex_fifo_rx_t   rx_fifo; /* of the FIFO we lent */
    uct_glex_credit_tx_t mp_tx;
    uct_glex_credit_rx_t mp_rx;
    uint16_t             tx_peak;      /* credits after the last update */
    uint16_t             sr_count;     /* messages through SR until ER is asked for again */
    uint16_t             rx_started; /* messages of `rx`, from its head, that are being fetched; of
                                      * a VC that is over: dropped ones that are */
    uint16_t             left_seq;     /* peer_left: sequence number after its last message */

    uint32_t             peer_uuid;
    uint32_t             peer_key;
    uint32_t             num_ops;      /* operations that exist */
    uint32_t             watch_mark;   /* counters at the last look for dead peers */
    ucs_list_link_t      eps;     /* uct_glex_ep_t.list */
    ucs_list_link_t      active;  /* in iface->active while scheduled */
    ucs_list_link_t      mpq_wait; /* in iface->mpq.wait while waiting */
    ucs_list_link_t      rx_wait; /* in iface->sr.rx_wait while a message needs a buffer */
    ucs_queue_head_t     tx_ops;  /* operations in the order of posting, for flush */
    struct uct_glex_op  *touch;        /* of an empty put, waits for the VC to open; or NULL */
    uint64_t             put_peer;     /* endpoint that the last put without completion went to */
    uint16_t             ctl;     /* control flags to be sent */
    uint16_t             released_index; /* name of the FIFO to be told in ER_RELEASED */
    uint16_t             recall_limit; /* to be told in RECALL */
    uint16_t             recalled_limit; /* to be told in RECALLED */
    uint16_t             recall_mark;  /* MPs received at the last look for an idle VC */
    uint8_t              released_gen;
    int8_t               status;       /* why it failed, a ucs_status_t */
    uint8_t              forget_looks; /* how often the NIC is still told to forget the peer */
    uint8_t              er_state      : 2; /* enum uct_glex_er_state, of the FIFO we borrow */
    uint8_t              er_backoff    : 3; /* refusals since we had one, at most
                                             * UCT_GLEX_ER_MAX_BACKOFF */
    uint8_t              ctl_inflight  : 1; /* a CTL or ACCEPT of ours is not acknowledged */
    uint8_t              scheduled     : 1;
    uint8_t              rx_waiting    : 1;
    uint8_t              recalling     : 1; /* asked for credits back, not answered */
    uint8_t              want_grant    : 1; /* the peer's request for a FIFO is to be answered */
    uint8_t              ring_due      : 1; /* the lender's event queue was full */
    uint8_t              mpq_waiting   : 1; /* is in iface->mpq.wait */
    uint8_t              mpq_held      : 1; /* has its entries of the MPQ */
    uint8_t              connect_again : 1; /* our CONNECT was lost, the peer's came */
    uint8_t              peer_dead     : 1; /* fails in progress, where handlers may be called */
    uint8_t              reset_due     : 1; /* over, the peer is to be told; scheduled till then */
    uint8_t              dirty         : 1; /* puts that leave no trace here, since a flush */
    uint8_t              peer_left     : 1; /* said so: the VC is gone when all it sent is here */
    uint8_t              peer_quiet    : 1; /* touches no memory of ours for this VC any more */
};

_Static_assert(offsetof(struct uct_glex_vc, iface) == 56, "what a short message needs is one line");
_Static_assert(sizeof(struct uct_glex_vc) <= 256, "there are as many as peers");

/* Stands for a VC in endpoints that did not communicate yet: has no credits */
extern uct_glex_vc_t uct_glex_no_vc;

/** The VC of a peer. If there is none, one is made that connects: what is to be sent waits until it
 *  is open. */
ucs_status_t uct_glex_vc_get(uct_glex_iface_t *iface, uint64_t peer, uint32_t uuid,
                             uct_glex_vc_t **vc_p);

/** The VC of a peer, or NULL */
uct_glex_vc_t *uct_glex_vc_find(uct_glex_iface_t *iface, uint64_t peer);

/** The VC of an id that a peer names, or NULL. Ids from peers are not trusted. */
static inline uct_glex_vc_t *uct_glex_vc_by_id(const uct_glex_iface_t *iface, uint32_t id)
{
    uint32_t index = id & 0xffff;

    return (ucs_likely(index < iface->num_vcs) && (iface->vcs[index]->id == id)) ?
           iface->vcs[index] : NULL;
}

/** Free a VC and all it holds; only when the interface goes */
void uct_glex_vc_destroy(uct_glex_vc_t *vc);

/** Free the VCs whose places were given to others; while no function of one is active */
void uct_glex_vc_free_unused(uct_glex_iface_t *iface);

/** The peer connected: accept as soon as it can have entries of our MPQ */
void uct_glex_vc_accept(uct_glex_vc_t *vc);

/** The peer closed its interface. That is no error until somebody wants to send to it. */
void uct_glex_vc_peer_closed(uct_glex_vc_t *vc);

/** Whether nothing goes this way any more: the last states */
static inline int uct_glex_vc_is_over(const uct_glex_vc_t *vc)
{
    return vc->state >= UCT_GLEX_VC_PEER_CLOSED;
}

/** Have progress send the VC's control messages */
static inline void uct_glex_vc_schedule(uct_glex_vc_t *vc)
{
    if (!vc->scheduled) {
        vc->scheduled  = 1;
        vc->iface->due = 1;
        ucs_list_add_tail(&vc->iface->active, &vc->active);
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
    uct_glex_vc_schedule(vc); /* what could not be told meanwhile */
}

/** Have progress tell the peer that this VC is over, once none of our Gets reads its memory. Nobody
 *  has to ask for it again: however many are over at once, each waits in its own VC until the
 *  peer's queue has room. */
static inline void uct_glex_vc_owe_reset(uct_glex_vc_t *vc)
{
    vc->reset_due = 1;
    uct_glex_vc_schedule(vc);
}

/** The peer is not there any more: have progress fail the VC, where error handlers may be called */
static inline void uct_glex_vc_dead(uct_glex_vc_t *vc)
{
    if (!vc->peer_dead && (vc->state != UCT_GLEX_VC_FAILED)) {
        vc->peer_dead = 1;
        ++vc->iface->num_dying;
        uct_glex_vc_schedule(vc);
    }
}

/** Whether memory of ours is kept for a VC that is over, because the peer may still use it */
int uct_glex_vc_holds(const uct_glex_vc_t *vc);

/** The peer uses no memory of ours for this VC any more, or is dead. What a VC held that is over
 *  can be used for others, a FIFO when all that was sent through it has arrived. */
void uct_glex_vc_quiet(uct_glex_vc_t *vc);

/** Look whether peers live on whose answer something waits for */
void uct_glex_vc_watch(uct_glex_iface_t *iface);

/** The peer is gone or broke the protocol: fail all that was posted and all endpoints */
void uct_glex_vc_fail(uct_glex_vc_t *vc, ucs_status_t status);

/** Requests of the VC's endpoints that are pending can be tried again */
void uct_glex_vc_resume(uct_glex_vc_t *vc);

/** Whether the peer's credits, also those only published, allow a message of any length up to
 *  max_bcopy now */
int uct_glex_vc_has_credits(uct_glex_vc_t *vc);

/** The peer's address for requests: with it the NIC finds the peer at once */
static UCS_F_ALWAYS_INLINE glex_ep_addr_t uct_glex_vc_dest(const uct_glex_vc_t *vc)
{
    return (glex_ep_addr_t){.v = vc->peer | ((uint64_t)vc->peer_hint << 16)};
}

/** The VC opens: the peer is there */
void uct_glex_vc_open(uct_glex_vc_t *vc);

/** A header with the VC's counters was sent: it took the acknowledgement along, too */
static inline void uct_glex_vc_told(uct_glex_vc_t *vc)
{
    vc->told_limit = vc->tx.credits.word >> 16;
    if (!vc->er_rx_mapped) {
        vc->told = vc->tx.credits.er;
    }
    if (ucs_unlikely(vc->tx.word & ((uint64_t)UCT_GLEX_FLAG_ACK << 8))) {
        vc->tx.flags &= ~UCT_GLEX_FLAG_ACK;
    }
}

/** The limit that the next header tells, as what was received is now */
static inline void uct_glex_vc_tell_limit(uct_glex_vc_t *vc)
{
    vc->tx.credits.mp_limit = uct_glex_credit_limit(&vc->mp_rx);
}

/** The same with its epoch, when the window is another */
static inline void uct_glex_vc_set_limit(uct_glex_vc_t *vc)
{
    uct_glex_vc_tell_limit(vc);
    vc->tx.flags = (vc->tx.flags & UCS_MASK(UCT_GLEX_EPOCH_SHIFT)) |
                   (vc->mp_rx.epoch << UCT_GLEX_EPOCH_SHIFT);
}

/** The header of the next message; `flags` beside the acknowledgement */
static inline uint64_t uct_glex_vc_hdr_word(const uct_glex_vc_t *vc, unsigned type, uint8_t am_id,
                                            unsigned flags)
{
    return vc->tx.word | uct_glex_hdr_type_am(type, am_id) | ((uint64_t)flags << 8);
}

/** Credits of a header arrived */
static UCS_F_ALWAYS_INLINE void uct_glex_vc_credits(uct_glex_vc_t *vc, uint64_t word,
                                                    uct_glex_credits_t credits)
{
    int more = !vc->er_tx_mapped &&
               uct_glex_fifo_update(&vc->tx_fifo, credits.word >> 32, credits.word >> 48);

    if (ucs_unlikely((uint16_t)(credits.word >> 16) != vc->mp_tx.limit) &&
        uct_glex_credit_update(&vc->mp_tx, credits.word >> 16, uct_glex_hdr_epoch(word))) {
        vc->tx_peak = uct_glex_credit_avail(&vc->mp_tx);
        more        = 1;
    }
    if (more && ucs_unlikely(vc->num_blocked > 0)) {
        uct_glex_vc_resume(vc);
    }
}

#endif
