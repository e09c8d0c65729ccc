/* Which nodes packets can reach, without a link or again with a link. */
#ifndef MCSM_REACH_H
#define MCSM_REACH_H

#include "fabric/fabric.h"

/** Counts the nodes that the manager's port reaches now and does not reach without the link of
 * `port`. -ENOMEM. */
int mcsm_reach_lost(const struct mcsm_fabric *fabric, const struct mcsm_port *port);

/** Returns whether the manager's port does not reach both ends of the link of `port`. So the link
 * is needed if it can carry packets. */
bool mcsm_reach_needs(const struct mcsm_fabric *fabric, const struct mcsm_port *port);

#endif
