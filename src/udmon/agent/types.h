/* The types of nodes that the agent has without modules. */
#ifndef UDMON_AGENT_TYPES_H
#define UDMON_AGENT_TYPES_H

#include "../include/udmon_module.h"

#include <stdbool.h>

/* types.c: all of them */
extern const struct udmon_module agent_types;

/* sensors.c, sensor_*.c */
extern const struct udmon_node_type sensor_cpu, sensor_memory, sensor_load, sensor_network,
    sensor_disk, sensor_rdma, sensor_hwmon, sensor_filesystem, sensor_slurm, sensor_glex,
    sensor_textfile, sensor_prometheus, sensor_numa, sensor_collectd;
/* process.c, filter.c, label.c */
extern const struct udmon_node_type process_rate, process_window, process_threshold, process_filter,
    process_aggregate, process_label;
/* send.c, recorder.c */
extern const struct udmon_node_type node_send, node_print, sensor_agent, node_recorder;

/**
 * Option "names" of sensors with names from the kernel: whether to keep the names; and the check of
 * the option.
 */
bool sensor_kernel_names(const struct udmon_node *node);
int sensor_check_names(struct udmon_node *node, void **state_p);

#endif
