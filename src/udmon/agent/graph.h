/*
 * The agent's graph: nodes made from the sections of a configuration file, connected by their
 * options "to". A new configuration keeps unchanged nodes with their state.
 */
#ifndef UDMON_AGENT_GRAPH_H
#define UDMON_AGENT_GRAPH_H

#include "samples.h"
#include "../lib/net/loop.h"
#include "../include/udmon_module.h"

#include <stdbool.h>
#include <sys/queue.h>

enum { GRAPH_NAME_MAX = 50, GRAPH_OUTPUTS_MAX = 32 };

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
    struct udmon_timer timer;
    struct udmon_node *outputs[GRAPH_OUTPUTS_MAX];
    unsigned output_count;
    int visited;                       /* while looking for circles */
    uint64_t refused[REFUSED_REASONS]; /* atomic: samples that cannot be sent */
};

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

/** A node outlives its graph while a blocked sensor uses it. */
struct udmon_node *node_get(struct udmon_node *node);
void node_put(struct udmon_node *node);

/** The node of a name, or NULL. */
struct udmon_node *graph_find(const struct graph *graph, const char *name);

/* The loop that timers and network nodes run on, and the graph as of the last configuration. */
extern struct udmon_loop agent_loop;
extern struct graph *agent_graph;

/** watchdog.c: begins to notify systemd's watchdog, if systemd requests it. */
void watchdog_start(void);

/* modules.c */
const struct udmon_node_type *module_type(const char *name);
/** Loads a shared library; loading it again is no error. Reports errors. */
int module_load(const char *file, const char *config_file, int line);

/* The types of the agent itself: sensors.c, sensor_*.c, process.c, send.c */
extern const struct udmon_node_type sensor_cpu, sensor_memory, sensor_load, sensor_network,
    sensor_disk, sensor_rdma, sensor_hwmon, sensor_filesystem, sensor_slurm, sensor_glex,
    sensor_textfile, sensor_prometheus, sensor_numa, sensor_collectd;
extern const struct udmon_node_type process_rate, process_window, process_threshold, process_filter,
    process_aggregate, process_label;
extern const struct udmon_node_type node_send, node_print, sensor_agent;

/**
 * Option "names" of sensors with names from the kernel: whether to keep the names; and the check of
 * the option.
 */
bool sensor_kernel_names(const struct udmon_node *node);
int sensor_check_names(struct udmon_node *node, void **state_p);

#endif
