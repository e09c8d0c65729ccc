/* Reports, polls and discovery write down the condition of the network. */
#ifndef INM_STATUS_H
#define INM_STATUS_H

#include "inm/server/core/inmd.h"

bool status_init(struct inmd *d);
void status_free(struct inmd *d);

#define FLAP_DOWNS   3    /* a link flaps if it goes down so often ... */
#define FLAP_SECONDS 30.0 /* ... within this time */

/** With the lock held: records a report of a chip. */
void status_report(struct inmd *d, const struct net_report *report);

/** Discovers the network and replaces the known one. */
enum inm_network discover_all(struct inmd *d);

/** Returns the explanation of a state of the network. */
const char *network_text(enum inm_network network);

/** Polls all chips once: links, retries, temperature. @return Requests that failed. */
uint32_t poll_chips(struct inmd *d);

#endif
