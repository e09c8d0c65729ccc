/*
 * Entries of our message queue (MPQ), promised to peers as windows of credits (paper 003, section
 * 4.1): the least window of each peer, and a pool that start credits and growth of busy peers come
 * from. Who has asked first keeps what it has until it leaves; SR_CREDIT_MAX bounds that.
 *
 * On a NIC that loses what a full queue cannot take, all of these add up to less than the capacity,
 * and a new peer waits if none are left. A lossless one (UCT_GLEX_NIC_LOSSLESS) makes senders wait
 * whose messages find no room: there windows only keep a sender from filling the queue alone.
 */
#ifndef UCT_GLEX_MPQ_H
#define UCT_GLEX_MPQ_H

#include "core/glex_vc.h"

/** Share out `capacity` entries. INVALID_PARAM, logged: too few to work with. */
ucs_status_t uct_glex_mpq_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                               unsigned capacity);

/** Have the VC get its first window, and be scheduled when it has it */
void uct_glex_mpq_enter(uct_glex_vc_t *vc);

/** Whether VCs wait for entries. Never on a lossless NIC. */
static inline int uct_glex_mpq_is_short(uct_glex_iface_t *iface)
{
    return !ucs_list_is_empty(&iface->mpq.wait);
}

/** Give the VCs that wait their first window, as far as there are entries now */
void uct_glex_mpq_retry(uct_glex_iface_t *iface);

/** The peer wants more credits: let its window grow as far as the pool allows */
void uct_glex_mpq_grow(uct_glex_vc_t *vc);

/** The peer sends nothing more: its entries are free */
void uct_glex_mpq_return(uct_glex_vc_t *vc);

#endif
