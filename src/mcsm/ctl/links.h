/* The commands of mcsm-ctl for the health of links. */
#ifndef MCSM_LINKS_H
#define MCSM_LINKS_H

#include "ctl/daemon.h"

/* All links, or the `worst` of them by errors and flaps ("" for all). */
void mcsm_links_show(mcsm_daemon_t *daemon, const char *worst, FILE *out);

/* All counters of both ends of the link at "GUID/PORT". */
void mcsm_links_counters(mcsm_daemon_t *daemon, const char *word, FILE *out);

/* Ends the hold of the link at "GUID/PORT". */
void mcsm_links_release(mcsm_daemon_t *daemon, const char *word, FILE *out);

#endif
