/*
 * SM_Key and M_Key of the cluster. The configuration gives them if several managers serve the
 * cluster. Otherwise the first start makes them, and they are kept in STATE-DIR/NAME.keys, which
 * only its owner may read.
 */
#ifndef MCSM_KEYS_H
#define MCSM_KEYS_H

#include "config/config.h"

/* Completes the keys of a configuration. The M_Key that was in use before a change is kept too,
 * because ports have it until they are set anew. Returns 0, or -errno with a message in the log. If
 * keys cannot be kept, a configuration without an M_Key gets none: ports that are locked by a key
 * that nobody knows any more could not be managed. */
int mcsm_keys_complete(mcsm_config_t *config);

#endif
