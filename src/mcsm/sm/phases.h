/* The steps of a sweep, which sm.c calls. */
#ifndef MCSM_PHASES_H
#define MCSM_PHASES_H

#include "sm.h"

void mcsm_sm_discover(struct mcsm_sm *sm);
void mcsm_sm_discovered(struct mcsm_sm *sm); /* checks and counts after the last answer */
void mcsm_sm_ports(struct mcsm_sm *sm);
void mcsm_sm_read_pkeys(struct mcsm_sm *sm, struct mcsm_port *port); /* of a host */
void mcsm_sm_plan_pkeys(struct mcsm_sm *sm,
                        struct mcsm_port *port); /* and of the switch port to it */
void mcsm_sm_set_link_state(struct mcsm_sm *sm, uint8_t state);
int mcsm_sm_route(struct mcsm_sm *sm);
void mcsm_sm_set_lanes(struct mcsm_sm *sm);
void mcsm_sm_multicast_tables(struct mcsm_sm *sm);
void mcsm_sm_write_tables(struct mcsm_sm *sm);
void mcsm_sm_write_mft(struct mcsm_sm *sm, struct mcsm_node *node);
void mcsm_sm_light(struct mcsm_sm *sm);
void mcsm_sm_trap(struct mcsm_sm *sm, const struct mcsm_addr *from, const uint8_t *mad);

/** The answer to a Set whose loss makes the sweep incomplete; `arg` is the manager, `arg2` the port
 * or NULL. */
void mcsm_sm_set_done(void *arg, void *arg2, const uint8_t *mad, unsigned status);

#endif
