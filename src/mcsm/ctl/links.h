/* The commands of mcsm-ctl for the health of links. */
#ifndef MCSM_LINKS_H
#define MCSM_LINKS_H

#include "ctl/daemon.h"

/** All links. */
void mcsm_links_all(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

/** The worst links by errors and flaps; the argument is their number, 10 by default. */
void mcsm_links_worst(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

/** All counters of both ends of the link at "GUID/PORT". */
void mcsm_links_counters(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

/** Ends the hold of the link at "GUID/PORT". */
void mcsm_links_release(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out);

#endif
