/*
 * Parking: with more peers than the MPQ has entries for, VCs take turns. One that has been idle is
 * closed in both directions, which frees its entries at both ends, and connects again with its
 * next message. Its counters and sequence numbers go on from where they were.
 *
 *   PARKING side: PARK(mp_sent) ->            CLOSING side: stops sending;
 *   sends nothing more                        <- PARKED(mp_sent), is idle
 *   has received all MPs: is idle
 *
 * If both ask at once, each takes the other's PARK for the answer.
 */
#ifndef UCT_GLEX_PARK_H
#define UCT_GLEX_PARK_H

#include "glex_vc.h"

/** MPQ entries are wanted: have the VC that is idle longest give its back */
void uct_glex_park_one(uct_glex_iface_t *iface);

/** The peer wants to close the VC, having sent so many MPs */
void uct_glex_park_recv(uct_glex_vc_t *vc, uint16_t mp_sent);

/** The peer has closed the VC, having sent so many MPs */
void uct_glex_park_recv_answer(uct_glex_vc_t *vc, uint16_t mp_sent);

/** CLOSING: the answer was sent */
void uct_glex_park_answered(uct_glex_vc_t *vc);

/** An MP arrived on a VC that waits for the last ones */
void uct_glex_park_check(uct_glex_vc_t *vc);

#endif
