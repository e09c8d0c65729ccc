/*
 * Multicast trees. One spanning tree of the cluster carries all groups. The table of a group is the
 * part of the tree between its members. A configured joint is a member of every group, so the trees
 * of all clusters form one tree. Managers of different clusters do not communicate. So the MLID of
 * a group is a hash of its MGID. All clusters compute the same hash.
 */
#ifndef MCSM_MCAST_H
#define MCSM_MCAST_H

#include "graph.h"

struct mcsm_tree {
    int count;
    int *order; /* switches that the root reaches, root first */
    int reached;
    int *parent;        /* of each switch; -1: root, or not reached */
    int *needed;        /* scratch of mcsm_tree_cut() */
    uint8_t *up, *down; /* the port towards the parent, and the parent's port towards it */
};

enum { MCSM_NO_PORT = 255 }; /* a leaf that sends, and receives nothing */

/* A port that a group's packets leave through: the port to a member, or a joint. */
struct mcsm_leaf {
    int sw;
    uint8_t port;
};

/** A spanning tree with short ways from a switch in the centre. With graph->grid: to the root in the
 * order of the dimensions, without the links that close the rings. Packets of groups and unicast
 * packets of lane 0 then form no circle. `ordered`: from the highest switch of Up/Down, by channels
 * that lead down as far as they reach; packets then go up and down as unicast packets do. NULL without
 * memory. */
struct mcsm_tree *mcsm_tree_new(const struct mcsm_graph *graph, bool ordered);
void mcsm_tree_free(struct mcsm_tree *tree);

/** Marks in used[switch] whether a group may use the link from the switch to its parent: whether a
 * switch at or below it is not bare. */
void mcsm_tree_used(const struct mcsm_graph *graph, const struct mcsm_tree *tree, bool *used);

/** The part of the tree that connects the leaves. ports[switch] gets a set of 256 bits: the ports
 * through which the switch forwards. `ports` has room for all switches. */
void mcsm_tree_cut(struct mcsm_tree *tree, const struct mcsm_leaf *leaves, size_t count,
                   uint64_t (*ports)[4]);

/** The MLID of a group; there are `mlids` of them. */
uint16_t mcsm_mlid_of(const uint8_t mgid[16], uint16_t mlids);

#endif
