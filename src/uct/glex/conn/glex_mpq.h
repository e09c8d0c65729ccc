/*
 * Entries of our message queue (MPQ), promised to peers as windows of credits (paper 003, section
 * 4.1): a newcomer's first window, growth for busy peers up to an equal share, recall from those
 * that have more and from idle ones.
 *
 * On a NIC that loses what a full queue cannot take, windows and control reserves add up to less
 * than the capacity, and a new peer waits if none are left. On a lossless one
 * (UCT_GLEX_NIC_LOSSLESS) they only provide fairness: a new peer gets the least window at once,
 * whatever is left.
 */
#ifndef UCT_GLEX_MPQ_H
#define UCT_GLEX_MPQ_H

#include "core/glex_vc.h"

/** Share out `capacity` entries. INVALID_PARAM, logged: too few to work with. */
ucs_status_t uct_glex_mpq_init(uct_glex_iface_t *iface, const uct_glex_iface_config_t *config,
                               unsigned capacity);

/** Have the VC get its first window, and be scheduled when it has it */
void uct_glex_mpq_enter(uct_glex_vc_t *vc);

/** Give the VCs that wait their first window, as far as there are entries now */
void uct_glex_mpq_retry(uct_glex_iface_t *iface);

/** The peer wants more credits: let its window grow as far as the pool allows */
void uct_glex_mpq_grow(uct_glex_vc_t *vc);

/** The peer lowered its limit to `limit`: others can have the entries that it returned */
void uct_glex_mpq_recalled(uct_glex_vc_t *vc, uint16_t limit);

/** The peer sends nothing more: its entries are free */
void uct_glex_mpq_return(uct_glex_vc_t *vc);

#endif
