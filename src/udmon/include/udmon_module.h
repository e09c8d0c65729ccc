/**
 * Modules of udmon-agent: the interface of a shared library that adds types of nodes.
 *
 * An agent is a graph of nodes. A sensor has a timer and no inputs. A processing node has inputs
 * and outputs. A sending node has inputs only. The functions of a type determine its kind. The
 * agent calls all functions in one thread, and they must not block. A type with `blocking` set has
 * a thread for each node, which calls `tick` and `destroy`.
 *
 * A library exports a variable `udmon_module`. "module = FILE" in section [agent] loads the
 * library.
 */
#ifndef UDMON_MODULE_H
#define UDMON_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum {
    UDMON_MODULE_VERSION = 4,
    UDMON_METRIC_NAME_MAX = 1023, /**< bytes of a name with its labels */
    UDMON_FAMILY_NAME_MAX = 199,
    UDMON_UNIT_MAX = 31,
    UDMON_HELP_MAX = 511
};

/** Types of families. */
enum {
    UDMON_TYPE_UNKNOWN,
    UDMON_TYPE_GAUGE,
    UDMON_TYPE_COUNTER,
    /** A histogram x has samples x_bucket, x_sum and x_count; a summary x, x_sum and x_count. */
    UDMON_TYPE_HISTOGRAM,
    UDMON_TYPE_SUMMARY,
    UDMON_TYPES
};

/** The description of a family: TYPE, UNIT and HELP of Prometheus' formats. */
typedef struct udmon_family {
    const char *name; /**< of the samples, without labels and suffixes of a type */
    int counter;      /**< as in the samples */
    int type;         /**< a counter whose name lacks _total is a gauge with UDMON_TYPE_COUNTER */
    const char *unit; /**< the last word of the name, or "" */
    const char *help; /**< UTF-8 without control characters except tab and newline, or "" */
} udmon_family_t;

/** One sample. */
typedef struct udmon_metric {
    const char *name; /**< as Prometheus writes it: network_bytes{device="eth0"} */
    uint64_t time_ns; /**< since 1970 */
    double value;
    int counter; /**< the value only grows, except at restarts; otherwise the series is a
                  * gauge */
    /** By CLOCK_MONOTONIC, for differences: the time of day may jump. 0: time_ns serves for them. */
    uint64_t clock_ns;
    /** NULL: unknown. Like `name`, it belongs to the node that emits the sample. */
    const udmon_family_t *family;
} udmon_metric_t;

typedef struct udmon_node udmon_node_t;

/** A type of nodes. */
typedef struct udmon_node_type {
    const char *name;
    /** Names of its options, ended by NULL; beyond them a node has "type", "interval" and "to". */
    const char *const *options;
    /** Make a node's state, which stays when only "interval" and "to" change. On a bad option: call
     *  udmon_node_error and return a negative errno. */
    int (*create)(udmon_node_t *node, void **state_p);
    void (*destroy)(void *state);
    /** Called each "interval". NULL: not a sensor. */
    void (*tick)(udmon_node_t *node, void *state);
    /** Samples have come in. They belong to the sender. NULL: no inputs. */
    void (*receive)(udmon_node_t *node, void *state, const udmon_metric_t *metrics, size_t count);
    int has_output; /**< option "to" makes sense */
    /** `tick` may wait for a device or a file system: the agent calls it in the node's own thread,
     *  reports it as stuck after the option "deadline", and skips ticks until it returns. */
    int blocking;
} udmon_node_type_t;

typedef struct udmon_module {
    unsigned version;                      /**< UDMON_MODULE_VERSION */
    const udmon_node_type_t *const *types; /**< ended by NULL */
} udmon_module_t;

/* Functions of the agent. */

/** Text of an option, or NULL if it is not given. */
const char *udmon_node_option(const udmon_node_t *node, const char *option);

/** Number of an option, or `missing`. Complains and returns -EINVAL if it is not in min..max. */
int udmon_node_number(const udmon_node_t *node, const char *option, double missing, double min,
                      double max, double *value_p);

/** Report an error in an option (NULL: in the node), with file and line. */
void udmon_node_error(const udmon_node_t *node, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Hands samples to all nodes that `node` is connected to. */
void udmon_node_emit(udmon_node_t *node, const udmon_metric_t *metrics, size_t count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
