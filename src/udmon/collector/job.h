/*
 * A job of Slurm on all its nodes, as JSON, from what the agents' sensor slurm sends:
 *
 *   /api/job?job=ID[&points=P]     {"job", "user", "partition", "from_ms", "until_ms", "running",
 *     [&from=MS&until=MS]          "cores", "imbalance": {"cpu", ...}, "nodes": [{"name",
 *     "from_ms",
 *                                  "until_ms", "cores", "others", "cpu", "memory", ...}],
 *                                  "lines": [{"name", "points": [[ms, sum, least, most, nodes], ...]}]}
 *
 * The values of a node are means over the job's time there: "cpu" in cores, "memory" in bytes, and
 * per second "network_in", "network_out", "rdma_in", "rdma_out", "read", "written" in bytes.
 * Network and RDMA are those of the whole node. "others" is the number of other jobs on the node
 * during the job. The count includes at most JOB_NEIGHBOURS jobs before and after the job, in the order
 * of their numbers as text. Job 1000 is therefore far from job 999, and may be missing. A line has the sum over the nodes, the least and the greatest value of a node, and the number
 * of nodes with a value.
 * With an engine for older values (older.h) a job may be older than the local history. The error of
 * its begin and end is then a 5000th of its time, at least a second, and "others" is null.
 * "imbalance" is the greatest value of a node divided by the mean of the nodes. "cores" is null if
 * the agents do not send it.
 */
#ifndef UDMON_COLLECTOR_JOB_H
#define UDMON_COLLECTOR_JOB_H

#include "api.h"

#include <stdbool.h>
#include <stdint.h>

enum { JOB_ID_MAX = 31, JOB_POINTS = 100, JOB_NEIGHBOURS = 50 };
#define JOB_RUNNING_MS INT64_C(60000) /* the last sample of a running job is younger */

/** Whether it can be the number of a job. */
bool job_id_valid(const char *id);

/**
 * The job in a range; `from_ms` 0 means its begin, `until_ms` 0 its end. The caller frees the
 * answer. -ENOENT: no node knows the job; -ENOMEM.
 */
int job_json(const struct api_reader *reader, const char *id, const struct api_range *range,
             int64_t now_ms, struct json_object **answer_p);

#endif
