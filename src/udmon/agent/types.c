#include "types.h"

#include <stddef.h>

static const struct udmon_node_type *const own_types[] = {
    &sensor_cpu,
    &sensor_memory,
    &sensor_load,
    &sensor_network,
    &sensor_disk,
    &sensor_rdma,
    &sensor_numa,
    &sensor_hwmon,
    &sensor_filesystem,
    &sensor_slurm,
#ifdef HAVE_GLEX_INSPECT
    &sensor_glex,
#endif
    &sensor_textfile,
    &sensor_prometheus,
    &sensor_collectd,
    &sensor_agent,
    &process_rate,
    &process_window,
    &process_threshold,
    &process_filter,
    &process_aggregate,
    &process_label,
    &node_send,
    &node_print,
    &node_recorder, /* keeps samples */
    NULL,
};

const struct udmon_module agent_types = {UDMON_MODULE_VERSION, own_types};
