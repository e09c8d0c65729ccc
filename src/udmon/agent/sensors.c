/*
 * Sensors of the operating system, read from /proc. A file is opened anew for each tick: it costs
 * microseconds, and a sensor then has no state that could be wrong.
 */
#include "graph.h"
#include "samples.h"
#include "../lib/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *sensor_open(const udmon_node_t *node, const char *path)
{
    static udmon_log_limit_t limit; /* a tick must not write a line each time */
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        udmon_warn_limited(&limit, "node %s: cannot read %s: %s", node->name, path,
                           strerror(errno));
    }
    return file;
}

static void cpu_tick(udmon_node_t *node, void *state)
{
    static const char *const modes[] = {"user", "nice",    "system",  "idle",
                                        "iowait", "irq", "softirq", "steal"};
    double hertz = sysconf(_SC_CLK_TCK);
    unsigned long long ticks[8];
    FILE *file = sensor_open(node, "/proc/stat");
    samples_t *samples;
    char line[512];
    unsigned cpu;
    int i;

    (void)state;
    if (file == NULL) {
        return;
    }
    samples = samples_begin(node);
    while (fgets(line, sizeof(line), file) != NULL) {
        /* "cpu" without a number is the sum of all; %u would take its user time for one */
        if (isdigit((unsigned char)line[3]) &&
            (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &ticks[0],
                    &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
                    &ticks[7]) == 9)) {
            for (i = 0; i < 8; ++i) {
                samples_add(samples, 1, ticks[i] / hertz,
                            "node_cpu_seconds{cpu=\"%u\",mode=\"%s\"}", cpu, modes[i]);
            }
        }
    }
    fclose(file);
    samples_end(samples);
}

const udmon_node_type_t sensor_cpu = {.name = "cpu", .tick = cpu_tick, .has_output = 1};

/*
 * node_exporter takes the kernel's names as they are (node_memory_MemFree_bytes), which promtool
 * complains of; "names = node_exporter" does the same, for dashboards that ask for them.
 */
typedef struct memory {
    int kernel_names;
} memory_t;

static const char *const memory_options[] = {"names", NULL};

int sensor_names(const udmon_node_t *node, int *kernel_names_p)
{
    const char *names = udmon_node_option(node, "names");

    if ((names != NULL) && strcmp(names, "node_exporter") && strcmp(names, "prometheus")) {
        udmon_node_error(node, "names", "'%s' is neither prometheus nor node_exporter", names);
        return -EINVAL;
    }
    *kernel_names_p = (names != NULL) && !strcmp(names, "node_exporter");
    return 0;
}

static int memory_create(udmon_node_t *node, void **state_p)
{
    memory_t *memory = calloc(1, sizeof(*memory));
    int ret = (memory != NULL) ? sensor_names(node, &memory->kernel_names) : -ENOMEM;

    if (ret < 0) {
        free(memory);
        return ret;
    }
    *state_p = memory;
    return 0;
}

static void memory_tick(udmon_node_t *node, void *state)
{
    static const struct {
        const char *field, *name;
    } fields[] = {
        {"MemTotal", "total"},   {"MemFree", "free"},     {"MemAvailable", "available"},
        {"Buffers", "buffers"},  {"Cached", "cached"},    {"Dirty", "dirty"},
        {"SwapTotal", "swap_total"}, {"SwapFree", "swap_free"},
    };
    const memory_t *memory = state;
    FILE *file = sensor_open(node, "/proc/meminfo");
    unsigned long long kilobytes;
    samples_t *samples;
    char line[256], field[64];
    size_t i;

    if (file == NULL) {
        return;
    }
    samples = samples_begin(node);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%63[^:]: %llu kB", field, &kilobytes) != 2) {
            continue;
        }
        for (i = 0; i < (sizeof(fields) / sizeof(fields[0])); ++i) {
            if (!strcmp(field, fields[i].field)) {
                samples_add(samples, 0, kilobytes * 1024.0, "node_memory_%s_bytes",
                            memory->kernel_names ? fields[i].field : fields[i].name);
            }
        }
    }
    fclose(file);
    samples_end(samples);
}

const udmon_node_type_t sensor_memory = {
    .name = "memory",
    .options = memory_options,
    .create = memory_create,
    .destroy = free,
    .tick = memory_tick,
    .has_output = 1,
};

static void load_tick(udmon_node_t *node, void *state)
{
    FILE *file = sensor_open(node, "/proc/loadavg");
    double one, five, fifteen;
    unsigned running, total;
    samples_t *samples;

    (void)state;
    if (file == NULL) {
        return;
    }
    if (fscanf(file, "%lf %lf %lf %u/%u", &one, &five, &fifteen, &running, &total) == 5) {
        samples = samples_begin(node);
        samples_add(samples, 0, one, "node_load1");
        samples_add(samples, 0, five, "node_load5");
        samples_add(samples, 0, fifteen, "node_load15");
        samples_add(samples, 0, running, "node_procs_running");
        samples_add(samples, 0, total, "node_threads");
        samples_end(samples);
    }
    fclose(file);
}

const udmon_node_type_t sensor_load = {.name = "load", .tick = load_tick, .has_output = 1};

static void network_line(samples_t *samples, const char *line)
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

static void network_tick(udmon_node_t *node, void *state)
{
    FILE *file = sensor_open(node, "/proc/net/dev");
    samples_t *samples;
    char line[512];

    (void)state;
    if (file == NULL) {
        return;
    }
    samples = samples_begin(node);
    while (fgets(line, sizeof(line), file) != NULL) {
        network_line(samples, line);
    }
    fclose(file);
    samples_end(samples);
}

const udmon_node_type_t sensor_network = {.name = "network", .tick = network_tick, .has_output = 1};

static void disk_tick(udmon_node_t *node, void *state)
{
    unsigned long long reads, read_sectors, writes, written_sectors, busy_ms;
    FILE *file = sensor_open(node, "/proc/diskstats");
    samples_t *samples;
    char line[512], device[64];

    (void)state;
    if (file == NULL) {
        return;
    }
    samples = samples_begin(node);
    while (fgets(line, sizeof(line), file) != NULL) {
        if ((sscanf(line, "%*u %*u %63s %llu %*u %llu %*u %llu %*u %llu %*u %*u %llu", device,
                    &reads, &read_sectors, &writes, &written_sectors, &busy_ms) != 6) ||
            ((reads + writes) == 0)) {
            continue; /* never used: of the many that a kernel makes room for */
        }
        samples_add(samples, 1, reads, "node_disk_reads_completed{device=\"%s\"}", device);
        samples_add(samples, 1, writes, "node_disk_writes_completed{device=\"%s\"}", device);
        /* a sector is 512 bytes here, whatever the disk's is */
        samples_add(samples, 1, read_sectors * 512.0, "node_disk_read_bytes{device=\"%s\"}",
                    device);
        samples_add(samples, 1, written_sectors * 512.0, "node_disk_written_bytes{device=\"%s\"}",
                    device);
        samples_add(samples, 1, busy_ms / 1000.0, "node_disk_io_time_seconds{device=\"%s\"}",
                    device);
    }
    fclose(file);
    samples_end(samples);
}

const udmon_node_type_t sensor_disk = {.name = "disk", .tick = disk_tick, .has_output = 1};
