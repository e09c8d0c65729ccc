/* Partitions of ports, and the way between two ports. */
#ifndef MCSM_PATH_H
#define MCSM_PATH_H

#include "sm/sm.h"

/** Returns the partition key that two ports share, with the membership bit; 0 if the ports share no
 * key, or if both memberships are limited. */
uint16_t mcsm_common_pkey(const struct mcsm_port *a, const struct mcsm_port *b);
bool mcsm_has_pkey(const struct mcsm_port *port, uint16_t pkey);

/** Ports of the way from one end port to a LID, inside of the cluster. Calls `hop` with each port
 * that a packet leaves through. Returns the number of hops, or -1 if there is no way: then *reason
 * says why. *left_p: the border port through which it leaves the cluster, or NULL. */
int mcsm_sa_walk(const struct mcsm_sm *sm, const struct mcsm_port *from, uint16_t lid,
                 void (*hop)(void *arg, const struct mcsm_port *port), void *arg,
                 const struct mcsm_port **left_p, const char **reason);

#endif
