/*
 * Entries of our message queue (MPQ), promised to peers as windows of credits (paper 003, section
 * 4.1). Each peer has a least window. Start credits and larger windows come from a pool. A window
 * never shrinks before the VC is over; SR_CREDIT_MAX limits a window.
 *
 * On a NIC that loses messages when the queue is full, the sum of all windows is less than the
 * capacity, and a new peer waits for entries. On a lossless NIC (UCT_GLEX_NIC_LOSSLESS) a full
 * queue makes senders wait. There windows only keep a sender from filling the queue alone.
 */
#ifndef UCT_GLEX_MPQ_H
#define UCT_GLEX_MPQ_H

#include "core/glex_vc.h"

/** Divide `capacity` entries. INVALID_PARAM, logged: the capacity is too small. */
ucs_status_t uct_glex_mpq_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                               unsigned capacity);

/** Give the VC its first window, at once or when entries are free, and then schedule the VC */
void uct_glex_mpq_enter(uct_glex_vc_t *vc);

/** Whether VCs wait for entries. Never on a lossless NIC. */
static inline int uct_glex_mpq_is_short(uct_glex_iface_t *iface)
{
    return !ucs_list_is_empty(&iface->mpq.wait);
}

/** Give waiting VCs their first window, as far as entries are free */
void uct_glex_mpq_retry(uct_glex_iface_t *iface);

/** The peer wants more credits: let its window grow as far as the pool allows */
void uct_glex_mpq_grow(uct_glex_vc_t *vc);

/** The peer sends nothing more: its entries are free */
void uct_glex_mpq_return(uct_glex_vc_t *vc);

#endif
