/*
 * Sensors of the operating system, read from /proc. A file is opened again for each tick. This
 * costs microseconds, and a sensor needs no state.
 */
#include "node.h"
#include "samples.h"
#include "types.h"
#include "../lib/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The samples of a file, line by line. */
static void sensor_read(struct udmon_node *node, const char *path,
                        void (*each)(struct samples *samples, const char *line, void *arg))
{
    static struct udmon_log_limit limit; /* a tick must not write a line each time */
    struct samples *samples = samples_begin(node);

    if (!samples_read_lines(samples, path, each, node)) {
        udmon_warn_limited(&limit, "node %s: cannot read %s: %s", node->name, path,
                           strerror(errno));
    }
    samples_end(samples);
}

/* "cpu" without a number is the sum of all; %u would take its user time for one. */
static void cpu_line(struct samples *samples, const char *line, void *node)
{
    static const char *const modes[] = {"user",   "nice", "system",  "idle",
                                        "iowait", "irq",  "softirq", "steal"};
    double hertz = sysconf(_SC_CLK_TCK);
    unsigned long long ticks[8];
    unsigned cpu;
    int i;

    (void)node;
    if (isdigit((unsigned char)line[3]) &&
        (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &ticks[0], &ticks[1],
                &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) == 9)) {
        for (i = 0; i < 8; ++i) {
            samples_add(samples, 1, ticks[i] / hertz, "node_cpu_seconds{cpu=\"%u\",mode=\"%s\"}",
                        cpu, modes[i]);
        }
    }
}

static void cpu_tick(struct udmon_node *node, void *state)
{
    (void)state;
    sensor_read(node, "/proc/stat", cpu_line);
}

const struct udmon_node_type sensor_cpu = {.name = "cpu", .tick = cpu_tick, .has_output = 1};

/*
 * node_exporter copies the kernel's names (node_memory_MemFree_bytes), and promtool complains about
 * them. "names = node_exporter" chooses these names for dashboards that use them.
 */
bool sensor_kernel_names(const struct udmon_node *node)
{
    const char *names = udmon_node_option(node, "names");

    return (names != NULL) && !strcmp(names, "node_exporter");
}

int sensor_check_names(struct udmon_node *node, void **state_p)
{
    const char *names = udmon_node_option(node, "names");

    (void)state_p;
    if ((names != NULL) && !sensor_kernel_names(node) && strcmp(names, "prometheus")) {
        udmon_node_error(node, "names", "'%s' is neither prometheus nor node_exporter", names);
        return -EINVAL;
    }
    return 0;
}

static void memory_line(struct samples *samples, const char *line, void *node)
{
    static const struct {
        const char *field, *name;
    } fields[] = {
        {"MemTotal", "total"},       {"MemFree", "free"},       {"MemAvailable", "available"},
        {"Buffers", "buffers"},      {"Cached", "cached"},      {"Dirty", "dirty"},
        {"SwapTotal", "swap_total"}, {"SwapFree", "swap_free"},
    };
    unsigned long long kilobytes;
    char field[64];
    size_t i;

    if (sscanf(line, "%63[^:]: %llu kB", field, &kilobytes) != 2) {
        return;
    }
    for (i = 0; i < (sizeof(fields) / sizeof(fields[0])); ++i) {
        if (!strcmp(field, fields[i].field)) {
            samples_add(samples, 0, kilobytes * 1024.0, "node_memory_%s_bytes",
                        sensor_kernel_names(node) ? fields[i].field : fields[i].name);
        }
    }
}

static void memory_tick(struct udmon_node *node, void *state)
{
    (void)state;
    sensor_read(node, "/proc/meminfo", memory_line);
}

static const char *const memory_options[] = {"names", NULL};

const struct udmon_node_type sensor_memory = {
    .name = "memory",
    .options = memory_options,
    .create = sensor_check_names,
    .tick = memory_tick,
    .has_output = 1,
};

static void load_line(struct samples *samples, const char *line, void *node)
{
    double one, five, fifteen;
    unsigned running, total;

    (void)node;
    if (sscanf(line, "%lf %lf %lf %u/%u", &one, &five, &fifteen, &running, &total) == 5) {
        samples_add(samples, 0, one, "node_load1");
        samples_add(samples, 0, five, "node_load5");
        samples_add(samples, 0, fifteen, "node_load15");
        samples_add(samples, 0, running, "node_procs_running");
        samples_add(samples, 0, total, "node_threads");
    }
}

static void load_tick(struct udmon_node *node, void *state)
{
    (void)state;
    sensor_read(node, "/proc/loadavg", load_line);
}

const struct udmon_node_type sensor_load = {.name = "load", .tick = load_tick, .has_output = 1};

static void network_line(struct samples *samples, const char *line, void *node)
{
    static const char *const names[2][4] = {
        {"node_network_receive_bytes", "node_network_receive_packets", "node_network_receive_errs",
         "node_network_receive_drop"},
        {"node_network_transmit_bytes", "node_network_transmit_packets",
         "node_network_transmit_errs", "node_network_transmit_drop"},
    };
    unsigned long long v[12];
    char device[64];
    int i;

    (void)node;
    if (sscanf(line, " %63[^:]: %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu",
               device, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10],
               &v[11]) != 13) {
        return; /* the two lines of headings */
    }
    for (i = 0; i < 4; ++i) {
        samples_add(samples, 1, v[i], "%s{device=\"%s\"}", names[0][i], device);
        samples_add(samples, 1, v[8 + i], "%s{device=\"%s\"}", names[1][i], device);
    }
}

static void network_tick(struct udmon_node *node, void *state)
{
    (void)state;
    sensor_read(node, "/proc/net/dev", network_line);
}

const struct udmon_node_type sensor_network = {
    .name = "network", .tick = network_tick, .has_output = 1};

static void disk_line(struct samples *samples, const char *line, void *node)
{
    unsigned long long reads, read_sectors, writes, written_sectors, busy_ms;
    char device[64];

    (void)node;
    if ((sscanf(line, "%*u %*u %63s %llu %*u %llu %*u %llu %*u %llu %*u %*u %llu", device, &reads,
                &read_sectors, &writes, &written_sectors, &busy_ms) != 6) ||
        ((reads + writes) == 0)) {
        return; /* never used: of the many that a kernel makes room for */
    }
    samples_add(samples, 1, reads, "node_disk_reads_completed{device=\"%s\"}", device);
    samples_add(samples, 1, writes, "node_disk_writes_completed{device=\"%s\"}", device);
    /* the kernel's sectors have 512 bytes on every disk */
    samples_add(samples, 1, read_sectors * 512.0, "node_disk_read_bytes{device=\"%s\"}", device);
    samples_add(samples, 1, written_sectors * 512.0, "node_disk_written_bytes{device=\"%s\"}",
                device);
    samples_add(samples, 1, busy_ms / 1000.0, "node_disk_io_time_seconds{device=\"%s\"}", device);
}

static void disk_tick(struct udmon_node *node, void *state)
{
    (void)state;
    sensor_read(node, "/proc/diskstats", disk_line);
}

const struct udmon_node_type sensor_disk = {.name = "disk", .tick = disk_tick, .has_output = 1};
