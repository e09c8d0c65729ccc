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

enum { MCSM_WIDE_PORTS = 127 }; /* most ports of a switch whose rings have two lanes */

/** NULL without memory. The graph must outlive it. */
struct mcsm_deps *mcsm_deps_new(const struct mcsm_graph *graph);
void mcsm_deps_free(struct mcsm_deps *deps);

void mcsm_deps_note(struct mcsm_deps *deps, int from, int to);

/** Notes the dependencies of all packets of a lane in the tables of the graph. -ENOMEM. */
int mcsm_deps_note_unicast(struct mcsm_deps *deps, int lane);

/**
 * A graph in which each link of `graph` is two links: port p for lane 0, port p + nports for lane 1.
 * It has no targets. A circle over both lanes is a circle of its channels. NULL without memory, or if
 * a switch has more than MCSM_WIDE_PORTS ports.
 */
struct mcsm_graph *mcsm_deps_wide(const struct mcsm_graph *graph);

/** Returns the channel of a port and a lane in a graph that mcsm_deps_wide() has made. */
static inline int mcsm_deps_wide_channel(const struct mcsm_graph *wide, int sw, int port, int lane)
{
    return wide->sw[sw].first_link + port + lane * (wide->sw[sw].nports / 2);
}

/** Notes the dependencies of packets that use lanes 0 and 1. `deps` belongs to the wide graph of
 * `graph`. -ENOMEM. */
int mcsm_deps_note_rings(struct mcsm_deps *deps, const struct mcsm_graph *graph);

/**
 * Searches all lanes for a circle. `groups` notes the dependencies of groups: called for lane 0, or,
 * if `separate`, for a lane without other packets; NULL: no groups. Returns the length of a circle,
 * and its first `room` channels; 0: none. -ENOMEM.
 */
int mcsm_deps_search(const struct mcsm_graph *graph,
                     int (*groups)(struct mcsm_deps *deps, const void *arg), const void *arg,
                     bool separate, int *circle, int room);

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
