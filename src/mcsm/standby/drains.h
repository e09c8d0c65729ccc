/*
 * Drains on standby managers: orders of the administrator, which no manager could learn otherwise.
 * health sends its holds itself.
 */
#ifndef MCSM_STANDBY_DRAINS_H
#define MCSM_STANDBY_DRAINS_H

#include "standby.h"

/** Offers the drains of `sm` to the standbys. */
void mcsm_drains_offer(struct mcsm_standbys *standbys, struct mcsm_sm *sm);

/** The administrator gave or ended an order: sends it to the standbys. */
void mcsm_drains_send(struct mcsm_standbys *standbys, uint64_t guid, uint8_t port, bool on);

#endif
