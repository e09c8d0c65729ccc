/*
 * The agent's graph: nodes made from the sections of a configuration file, connected by their
 * options "to". A new configuration keeps unchanged nodes with their state.
 */
#ifndef UDMON_AGENT_GRAPH_H
#define UDMON_AGENT_GRAPH_H

#include "node.h"

struct graph {
    char *file;
    STAILQ_HEAD(, udmon_node) nodes;
};

/** Reads a configuration file; errors are reported with their place. Nodes have no state yet. */
int graph_read(const char *file, struct graph **graph_p);

/**
 * Starts the nodes. Unchanged nodes move from `old` (or NULL) to `graph`. On failure `old` is
 * unchanged. On success the caller frees `old`.
 */
int graph_start(struct graph *graph, struct graph *old);

void graph_free(struct graph *graph);

/** The node of a name, or NULL. */
struct udmon_node *graph_find(const struct graph *graph, const char *name);

#endif
