/* The flight recorder: a node that keeps the samples of the last minutes, and a socket to fetch them. */
#ifndef UDMON_AGENT_RECORDER_H
#define UDMON_AGENT_RECORDER_H

#include "samples.h"

/** Adds the recorder's own metrics to `samples`, if the node is a recorder. */
void recorder_tell(struct samples *samples, const struct udmon_node *node);

/**
 * Fetches the recording from the running agent with this configuration, and prints it to standard
 * output. Returns an exit status.
 */
int recorder_fetch(const char *config_file);

#endif
