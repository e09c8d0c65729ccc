/* The event command of the configuration. */
#ifndef MCSM_HOOK_H
#define MCSM_HOOK_H

#include "sm/sm.h"

/** Starts the command with the event as a JSON object on its standard input, and does not wait for
 * it. At most 10 commands start in a second; the log names the events beyond that. */
void mcsm_hook_run(const struct mcsm_config *config, const struct mcsm_event *event);

#endif
