/*
 * Meshes, tori and hypercubes, recognised from the links alone.
 *
 * Two links of different dimensions at a switch have exactly one square: four switches in a circle.
 * Opposite sides of a square cross the same gap, the links between two adjacent layers of a
 * dimension. Two gaps that meet at a switch and never form a square belong to one dimension. The gaps
 * of a dimension form a line or a ring. A switch thereby has coordinates. Each link is then compared
 * with the coordinates, so a wrong guess is no grid. A grid may lack links and switches. A ring of
 * four switches is a square, and counts as two dimensions of two.
 *
 * Routes correct the coordinates in the order of the dimensions. A packet takes the shorter way
 * around a ring. Both directions of a pair of switches use the same part of each ring. Each ring has
 * two lanes (Dally and Seitz, "Deadlock-free message routing in multiprocessor interconnection
 * networks", 1987). Packets that cross the link between the last position and position 0 use lane 1
 * in the ring. Other packets use lane 0. No packet of lane 0 uses the link, and no packet of lane 1
 * leads farther than half of the ring from the link. So neither lane has a circle. Bit n of the
 * service level of a pair selects the lane in ring n. SL2VL tables of the output ports apply the bit.
 */
#ifndef MCSM_GRID_H
#define MCSM_GRID_H

#include <stdbool.h>
#include <stdint.h>

struct mcsm_graph;

enum { MCSM_GRID_DIMENSIONS = 8, MCSM_GRID_RINGS = 3 };

struct mcsm_grid {
    int dimensions;
    int size[MCSM_GRID_DIMENSIONS];
    int ring[MCSM_GRID_DIMENSIONS]; /* number of the ring; -1: the dimension is a line */
    int rings;
    bool whole;      /* no link is missing */
    int16_t *at;     /* of each switch: its coordinates */
    int *neighbours; /* for each switch and dimension: the switches before and after it, or -1 */
};

/** Recognises a grid. *grid_p is NULL if the graph is none, or has more rings than MCSM_GRID_RINGS.
 * -ENOMEM. */
int mcsm_grid_find(const struct mcsm_graph *graph, struct mcsm_grid **grid_p);
void mcsm_grid_free(struct mcsm_grid *grid);

static inline int mcsm_grid_at(const struct mcsm_grid *grid, int sw, int dimension)
{
    return grid->at[sw * grid->dimensions + dimension];
}

static inline int mcsm_grid_next(const struct mcsm_grid *grid, int sw, int dimension, bool after)
{
    return grid->neighbours[(sw * grid->dimensions + dimension) * 2 + after];
}

/** Returns the next switch on the route to `target`; -1 if links are missing there. */
int mcsm_grid_step(const struct mcsm_grid *grid, int at, int target);

/** Returns the next switch on the route to the root of a tree, without the link that closes a ring;
 * -1. */
int mcsm_grid_parent(const struct mcsm_grid *grid, int at, int root);

/** The service level of the packets between two switches, in both directions. */
int mcsm_grid_level(const struct mcsm_grid *grid, int a, int b);

/** The dimension of the link between two adjacent switches. */
int mcsm_grid_dimension(const struct mcsm_grid *grid, int a, int b);

#endif
