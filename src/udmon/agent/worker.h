/*
 * A thread for each sensor whose tick can block: on a file system, a device's driver, an HTTP
 * endpoint. The agent's loop starts a tick, takes the samples when the worker hands them over, and
 * never waits for the worker. A tick that exceeds its deadline is reported as stuck; the sensor's
 * next ticks are skipped until the stuck one returns.
 */
#ifndef UDMON_AGENT_WORKER_H
#define UDMON_AGENT_WORKER_H

#include "node.h"

struct worker;

/**
 * Start the thread of a node. The worker keeps a reference to the node, whose options its ticks
 * read, and owns `node->state` from here on.
 */
int worker_start(struct udmon_node *node, struct worker **worker_p);

/** Samples go to this node's outputs from now on: the node of a new configuration. */
void worker_take_over(struct worker *worker, struct udmon_node *node);

/** Begin a tick, unless the last one still runs. */
void worker_tick(struct worker *worker);

/**
 * End the thread and destroy the node's state. Waits WORKER_END_MS at most: the thread of a blocked
 * tick is abandoned and frees everything itself if the tick returns.
 */
void worker_stop(struct worker *worker);

/** The node that the ticks use. */
const struct udmon_node *worker_node(const struct worker *worker);

/** Whether the current tick has exceeded its deadline; how many ticks were skipped. */
int worker_stuck(const struct worker *worker);
uint64_t worker_skipped(const struct worker *worker);

/**
 * Whether threads that worker_stop() has abandoned may still run: then exit() must not free their
 * data.
 */
bool worker_any_abandoned(void);

/**
 * In a worker's thread: its set of samples. Else NULL. udmon_node_emit() hands the samples of a
 * worker's thread to the loop.
 */
struct samples *worker_samples(void);

#endif
