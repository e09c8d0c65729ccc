/* The commands of OpenSM's console that mcsm-ctl has, too. */
#ifndef MCSM_CONSOLE_H
#define MCSM_CONSOLE_H

#include "ctl/daemon.h"

/** What the manager knows of the owner of a LID. */
void mcsm_console_querylid(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

/** Counts ports by state, width and speed, and lists ports below their width or speed. The
 * argument is ca, switch, router, or empty for all. */
void mcsm_console_portstatus(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

/**
 * How evenly the LIDs are distributed over the ports of each switch, or of the switch with the GUID.
 */
void mcsm_console_switchbalance(struct mcsm_daemon *daemon, const char *const *arguments,
                                FILE *out);

/** Starts a sweep: "heavy" or empty, or "light". */
void mcsm_console_resweep(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

/** Shows or sets the level of the log. */
void mcsm_console_loglevel(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

/** Port GUIDs of the nodes whose description matches a regular expression. */
void mcsm_console_portguids(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

#endif
