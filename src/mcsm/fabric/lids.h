/*
 * The LIDs of end ports (paper 001, "Assignment of local identifiers").
 *
 * A GUID keeps its LID over sweeps and restarts. The manager writes the table to
 * STATE-DIR/NAME.lids in the format of a GUID-to-LID database, so a neighbour can use the file.
 */
#ifndef MCSM_LIDS_H
#define MCSM_LIDS_H

#include "fabric.h"

typedef struct mcsm_lids mcsm_lids_t;

/* Reads what was persisted; entries that the configuration contradicts are dropped with a warning.
 */
mcsm_lids_t *mcsm_lids_new(const mcsm_config_t *config);
void mcsm_lids_free(mcsm_lids_t *lids);

/* Give every end port of the fabric its base LID, and fill fabric->by_lid. An end port that can
 * have none (range exhausted, GUID not in the database) is named in the log, has lid 0 and is left
 * as it is. Returns the number of those. */
int mcsm_lids_assign(mcsm_lids_t *lids, mcsm_fabric_t *fabric);

/* The LID that a GUID has or had; 0 if none. */
uint16_t mcsm_lids_find(const mcsm_lids_t *lids, uint64_t guid);

/* Write the table if it changed. 0 or -errno, logged. */
int mcsm_lids_save(mcsm_lids_t *lids);

#endif
