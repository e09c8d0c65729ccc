/*
 * Sensors of the operating system, read from /proc. A file is opened anew for each tick: it costs
 * microseconds, and a sensor then has no state that could be wrong.
 */
#include "graph.h"
#include "samples.h"
#include "../log.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *sensor_open(const udmon_node_t *node, const char *path)
{
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        udmon_node_error(node, NULL, "cannot read %s: %s", path, strerror(errno));
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
                samples_add(samples, 1, ticks[i] / hertz, "cpu_seconds{cpu=\"%u\",mode=\"%s\"}",
                            cpu, modes[i]);
            }
        }
    }
    fclose(file);
    samples_end(samples);
}

const udmon_node_type_t sensor_cpu = {.name = "cpu", .tick = cpu_tick, .has_output = 1};

static void memory_tick(udmon_node_t *node, void *state)
{
    static const struct {
        const char *field, *name;
    } fields[] = {
        {"MemTotal", "memory_total_bytes"},       {"MemFree", "memory_free_bytes"},
        {"MemAvailable", "memory_available_bytes"}, {"Buffers", "memory_buffers_bytes"},
        {"Cached", "memory_cached_bytes"},        {"Dirty", "memory_dirty_bytes"},
        {"SwapTotal", "swap_total_bytes"},        {"SwapFree", "swap_free_bytes"},
    };
    FILE *file = sensor_open(node, "/proc/meminfo");
    unsigned long long kilobytes;
    samples_t *samples;
    char line[256], field[64];
    size_t i;

    (void)state;
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
                samples_add(samples, 0, kilobytes * 1024.0, "%s", fields[i].name);
            }
        }
    }
    fclose(file);
    samples_end(samples);
}

const udmon_node_type_t sensor_memory = {.name = "memory", .tick = memory_tick, .has_output = 1};

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
        samples_add(samples, 0, one, "load1");
        samples_add(samples, 0, five, "load5");
        samples_add(samples, 0, fifteen, "load15");
        samples_add(samples, 0, running, "processes_running");
        samples_add(samples, 0, total, "processes");
        samples_end(samples);
    }
    fclose(file);
}

const udmon_node_type_t sensor_load = {.name = "load", .tick = load_tick, .has_output = 1};

static void network_line(samples_t *samples, const char *line)
{
    static const char *const names[2][4] = {
        {"network_receive_bytes", "network_receive_packets", "network_receive_errors",
         "network_receive_drops"},
        {"network_transmit_bytes", "network_transmit_packets", "network_transmit_errors",
         "network_transmit_drops"},
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
        samples_add(samples, 1, reads, "disk_reads{device=\"%s\"}", device);
        samples_add(samples, 1, writes, "disk_writes{device=\"%s\"}", device);
        /* a sector is 512 bytes here, whatever the disk's is */
        samples_add(samples, 1, read_sectors * 512.0, "disk_read_bytes{device=\"%s\"}", device);
        samples_add(samples, 1, written_sectors * 512.0, "disk_written_bytes{device=\"%s\"}",
                    device);
        samples_add(samples, 1, busy_ms / 1000.0, "disk_busy_seconds{device=\"%s\"}", device);
    }
    fclose(file);
    samples_end(samples);
}

const udmon_node_type_t sensor_disk = {.name = "disk", .tick = disk_tick, .has_output = 1};
