/*
 * Memory of each NUMA node, and the node that memory was allocated from. Names are node_exporter's,
 * except names copied from the kernel (node_memory_numa_MemFree): see sensor memory.
 */
#include "node.h"
#include "samples.h"
#include "types.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The NUMA node whose files are read. */
struct numa {
    unsigned number;
    int kernel_names;
};

static const char *const numa_options[] = {"root", "names", NULL};

/* "Node 0 MemTotal:  1024 kB" */
static void numa_memory(struct samples *samples, const char *line, void *arg)
{
    static const struct {
        const char *field, *name;
    } fields[] = {
        {"MemTotal", "total"},       {"MemFree", "free"}, {"MemUsed", "used"},
        {"FilePages", "file_pages"}, {"Dirty", "dirty"},  {"AnonPages", "anonymous"},
    };
    const struct numa *numa = arg;
    unsigned long long kilobytes;
    char field[64];
    size_t i;

    if (sscanf(line, "Node %*u %63[^:]: %llu kB", field, &kilobytes) != 2) {
        return;
    }
    for (i = 0; i < (sizeof(fields) / sizeof(fields[0])); ++i) {
        if (!strcmp(field, fields[i].field)) {
            samples_add(samples, 0, kilobytes * 1024.0, "node_memory_numa_%s%s{node=\"%u\"}",
                        numa->kernel_names ? field : fields[i].name,
                        numa->kernel_names ? "" : "_bytes", numa->number);
        }
    }
}

/* "numa_hit 123", a counter of pages */
static void numa_pages(struct samples *samples, const char *line, void *arg)
{
    unsigned long long pages;
    char name[64];

    if (sscanf(line, "%63s %llu", name, &pages) == 2) {
        samples_add(samples, 1, pages, "node_memory_numa_%s{node=\"%u\"}", name,
                    ((const struct numa *)arg)->number);
    }
}

static void numa_tick(struct udmon_node *node, void *state)
{
    const char *root = udmon_node_option(node, "root");
    struct samples *samples = samples_begin(node);
    struct numa numa = {.kernel_names = sensor_kernel_names(node)};
    char path[PATH_MAX];
    glob_t found;
    size_t i;

    (void)state;
    snprintf(path, sizeof(path), "%s/node[0-9]*",
             (root != NULL) ? root : "/sys/devices/system/node");
    if (glob(path, GLOB_ONLYDIR, NULL, &found) == 0) {
        for (i = 0; i < found.gl_pathc; ++i) {
            numa.number = strtoul(strrchr(found.gl_pathv[i], '/') + strlen("/node"), NULL, 10);
            snprintf(path, sizeof(path), "%s/meminfo", found.gl_pathv[i]);
            samples_read_lines(samples, path, numa_memory, &numa);
            snprintf(path, sizeof(path), "%s/numastat", found.gl_pathv[i]);
            samples_read_lines(samples, path, numa_pages, &numa);
        }
        globfree(&found);
    }
    samples_end(samples);
}

const struct udmon_node_type sensor_numa = {
    .name = "numa",
    .options = numa_options,
    .create = sensor_check_names,
    .tick = numa_tick,
    .has_output = 1,
};
