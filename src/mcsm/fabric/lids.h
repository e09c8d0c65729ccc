/*
 * The LIDs of end ports (paper 001, "Assignment of local identifiers").
 *
 * A GUID keeps its LID over sweeps and restarts. The manager writes the table to
 * STATE-DIR/NAME.lids in the format of a GUID-to-LID database, so a neighbour can use the file.
 */
#ifndef MCSM_LIDS_H
#define MCSM_LIDS_H

#include "fabric.h"

struct mcsm_lids;

/** Reads the stored table. Entries that contradict the configuration are dropped with a warning. */
struct mcsm_lids *mcsm_lids_new(const struct mcsm_config *config);
void mcsm_lids_free(struct mcsm_lids *lids);

/**
 * Gives every end port of the fabric its base LID, and fills fabric->by_lid. If an end port can get
 * no LID (range exhausted, GUID not in the database), the log names the port, its lid is 0, and the
 * port is not changed. Returns the number of these ports.
 */
int mcsm_lids_assign(struct mcsm_lids *lids, struct mcsm_fabric *fabric);

/** The LID that a GUID has or had; 0 if none. */
uint16_t mcsm_lids_find(const struct mcsm_lids *lids, uint64_t guid);

/** Write the table if it changed. 0 or -errno, logged. */
int mcsm_lids_save(struct mcsm_lids *lids);

#endif
