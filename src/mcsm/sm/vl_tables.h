/*
 * SL2VLMappingTable and VLArbitrationTable of the ports.
 *
 * The manager writes the tables of each port that comes up. A new master writes the tables of all
 * ports. The answer to each Set has the table that the port now uses, and is
 * compared. Light sweeps read the tables of all ports in turn. A port with a difference is logged
 * once, counted by `vl_tables_differ` of the status, and written again by each sweep until a light
 * sweep reads the right tables.
 */
#ifndef MCSM_VL_TABLES_H
#define MCSM_VL_TABLES_H

#include "sm.h"

/** Returns the code of OperationalVLs for the port's link: the lanes that the configuration and both
 * ends allow. 0 if the ends do not say how many lanes they have. */
uint8_t mcsm_vl_code(const struct mcsm_config *config, const struct mcsm_port *port);

/** Gets the SL2VL table that the port shall have, the same for all inputs. False if the manager
 * leaves the table as it is. */
bool mcsm_vl_sl2vl(const struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t table[8]);

/** Gets a block of VLArb: 1 and 2 have low priority, 3 and 4 high priority. Returns the number of
 * entries that the port has in the block; 0 if the manager leaves the block as it is. */
int mcsm_vl_arb(const struct mcsm_sm *sm, const struct mcsm_port *port, int block,
                uint8_t table[64]);

/** Whether a heavy sweep writes the tables of the port. */
bool mcsm_vl_is_due(const struct mcsm_sm *sm, const struct mcsm_port *port);

/** Write tables of a port. */
void mcsm_vl_write_sl2vl(struct mcsm_sm *sm, struct mcsm_port *port);
void mcsm_vl_write_arb(struct mcsm_sm *sm, struct mcsm_port *port);

/** A light sweep: writes the tables of ports with a difference, and reads those of the next ports. */
void mcsm_vl_check(struct mcsm_sm *sm);

/** Returns the number of ports whose tables differ. */
unsigned mcsm_vl_differing(const struct mcsm_fabric *fabric);

#endif
