/*
 * SM_Key and M_Key of the cluster. The configuration has the keys if several managers serve the
 * cluster. Otherwise the first start makes the keys, and keeps them in STATE-DIR/NAME.keys, which
 * only its owner may read.
 */
#ifndef MCSM_KEYS_H
#define MCSM_KEYS_H

#include "config/config.h"

/**
 * Completes the keys of a configuration. The M_Key from before a change is also kept, because ports
 * have the old M_Key until they are configured again. Returns 0, or -errno with a message in the
 * log. If the keys cannot be stored, a configuration without an M_Key gets none. Otherwise ports
 * would be locked by a key that no manager knows after a restart.
 */
int mcsm_keys_complete(struct mcsm_config *config);

#endif
