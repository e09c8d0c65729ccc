/*
 * A node of the agent's graph: its options, which every type of nodes reads, and its outputs.
 */
#ifndef UDMON_AGENT_NODE_H
#define UDMON_AGENT_NODE_H

#include "tick.h"
#include "../lib/net/loop.h"
#include "../include/udmon_module.h"

#include <stdbool.h>
#include <sys/queue.h>

enum { GRAPH_NAME_MAX = 50, GRAPH_OUTPUTS_MAX = 32 };

/* Why a sensor's sample is refused */
enum {
    REFUSED_NAME,      /* the name or a label is not one of the exposition format, or too long */
    REFUSED_DUPLICATE, /* a second value of one series in one tick */
    REFUSED_LINE,      /* the line is not a sample */
    REFUSED_SERIES,    /* the sensor has too many series */
    REFUSED_REASONS
};

struct graph_option {
    STAILQ_ENTRY(graph_option) list;
    char *name, *value;
    int line;
};

struct udmon_node {
    STAILQ_ENTRY(udmon_node) list;
    unsigned refs;       /* atomic: the graph has one reference, and so has the worker */
    struct graph *graph; /* not for a worker: the node may outlive it */
    char *file;          /* the configuration, for messages */
    char name[GRAPH_NAME_MAX];
    int line;
    STAILQ_HEAD(, graph_option) options;
    const struct udmon_node_type *type;
    void *state;
    int has_state;
    struct worker *worker; /* of a type that may block: runs the ticks and owns the state */
    uint64_t interval_ns;
    struct tick tick;
    struct udmon_timer timer;
    struct udmon_node *outputs[GRAPH_OUTPUTS_MAX];
    unsigned output_count;
    int visited;                       /* while looking for circles */
    uint64_t refused[REFUSED_REASONS]; /* atomic: samples that cannot be sent */
};

/* The loop that timers and network nodes run on. */
extern struct udmon_loop agent_loop;

/** A node outlives its graph while a blocked sensor uses it. */
struct udmon_node *node_get(struct udmon_node *node);
void node_put(struct udmon_node *node);

/** In the loop's thread: hands samples to all nodes that `node` is connected to. */
void node_deliver(struct udmon_node *node, const struct udmon_metric *metrics, size_t count);

/** Counts a refused sample, by a REFUSED_ reason. The log names the first one. */
void node_refuse(struct udmon_node *node, int reason, const char *what);

#endif
