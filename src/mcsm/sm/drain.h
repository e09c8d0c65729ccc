/*
 * Ports that no route leads through: by order of the administrator (a drain) or of health (a hold).
 * A port may have both orders. Discovery marks the ports of each new node.
 */
#ifndef MCSM_DRAIN_H
#define MCSM_DRAIN_H

#include "fabric/fabric.h"

struct mcsm_drain {
    struct mcsm_drain *next;
    uint64_t guid;
    uint8_t port;
    bool held; /* by health */
};

struct mcsm_drains {
    struct mcsm_drain *list;
};

/** Gives an order, or gives an order that is already there: 0. -ENOMEM. */
int mcsm_drains_add(struct mcsm_drains *drains, uint64_t guid, uint8_t port, bool held);

/** Ends an order. -ENOENT if there is none. */
int mcsm_drains_remove(struct mcsm_drains *drains, uint64_t guid, uint8_t port, bool held);

/** Marks the ports of a node. Ports whose orders have ended keep their mark until the next sweep. */
void mcsm_drains_mark(const struct mcsm_drains *drains, struct mcsm_node *node);

/** Moves all orders. `to` must have none. */
void mcsm_drains_move(struct mcsm_drains *from, struct mcsm_drains *to);
void mcsm_drains_free(struct mcsm_drains *drains);

#endif
