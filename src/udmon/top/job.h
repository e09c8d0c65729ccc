/* A job as text, from the collector's answer to /api/job. */
#ifndef UDMON_TOP_JOB_H
#define UDMON_TOP_JOB_H

#include <json-c/json.h>

#include <stdbool.h>
#include <stdio.h>

/**
 * Writes a summary, a line for each node, and the use of processors over time. False: the answer has
 * no nodes, so it is not of a collector.
 */
bool job_print(struct json_object *job, FILE *out);

#endif
