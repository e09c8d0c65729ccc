/* The commands of OpenSM's console that mcsm-ctl has, too. */
#ifndef MCSM_CONSOLE_H
#define MCSM_CONSOLE_H

#include "ctl/daemon.h"

/* What the manager knows of the owner of a LID. */
void mcsm_console_querylid(mcsm_daemon_t *daemon, const char *word, FILE *out);

/* Counts ports by state, width and speed, and lists ports below their width or speed. `type` is ca,
 * switch, router, or empty for all. */
void mcsm_console_portstatus(mcsm_daemon_t *daemon, const char *type, FILE *out);

/* How evenly the LIDs are distributed over the ports of each switch, or of the switch `guid`. */
void mcsm_console_switchbalance(mcsm_daemon_t *daemon, const char *guid, FILE *out);

/* "heavy" or empty, or "light". */
void mcsm_console_resweep(mcsm_daemon_t *daemon, const char *kind, FILE *out);

/* Shows or sets the level of the log. */
void mcsm_console_loglevel(mcsm_daemon_t *daemon, const char *level, FILE *out);

/* Port GUIDs of the nodes whose description matches a regular expression. */
void mcsm_console_portguids(mcsm_daemon_t *daemon, const char *pattern, FILE *out);

#endif
