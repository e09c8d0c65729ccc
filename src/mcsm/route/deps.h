/*
 * The channel dependency graph of one lane. A channel is a port of a switch that leads to another
 * switch, named by its number among all ports of the graph. A dependency a -> b means that a packet
 * which holds channel a may wait for channel b. Packets of a lane can deadlock only if the
 * dependencies form a circle.
 *
 * mcsm_deps_add() keeps a topological order of the channels (Pearce and Kelly, "A dynamic
 * topological sort algorithm for directed acyclic graphs", 2006) and refuses a dependency that
 * closes a circle. mcsm_deps_note() only records dependencies of existing tables;
 * mcsm_deps_circle() then searches for a circle.
 */
#ifndef MCSM_DEPS_H
#define MCSM_DEPS_H

#include "graph.h"

struct mcsm_deps;

/** NULL without memory. The graph must outlive it. */
struct mcsm_deps *mcsm_deps_new(const struct mcsm_graph *graph);
void mcsm_deps_free(struct mcsm_deps *deps);

void mcsm_deps_note(struct mcsm_deps *deps, int from, int to);

/** Notes the dependencies of all packets of a lane in the tables of the graph. -ENOMEM. */
int mcsm_deps_note_unicast(struct mcsm_deps *deps, int lane);

/** Notes the dependencies of groups at a switch: packets from each port in `ports` go to all other
 * ports in `ports`. */
void mcsm_deps_note_multicast(struct mcsm_deps *deps, int sw, const uint64_t ports[4]);

/** Returns the length of a circle, and its first `room` channels; 0: no circle. -ENOMEM. */
int mcsm_deps_circle(const struct mcsm_deps *deps, int *circle, int room);

/** Marks in reached[channel] all channels that the marked channels reach. */
void mcsm_deps_reach(const struct mcsm_deps *deps, bool *reached);

/** Adds a dependency. False: it would close a circle, and is not there. Not after a note. */
bool mcsm_deps_add(struct mcsm_deps *deps, int from, int to);

/** Takes back all dependencies that were added since mcsm_deps_mark() returned `mark`. */
size_t mcsm_deps_mark(const struct mcsm_deps *deps);
void mcsm_deps_undo(struct mcsm_deps *deps, size_t mark);

/** Whether memory was short: then mcsm_deps_add() refuses everything. */
bool mcsm_deps_failed(const struct mcsm_deps *deps);

#endif
