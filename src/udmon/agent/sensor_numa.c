/*
 * Memory of each NUMA node, and where it was taken from. Names are node_exporter's, but for those
 * that it takes from the kernel as they are (node_memory_numa_MemFree): see sensor memory.
 */
#include "graph.h"
#include "samples.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct numa {
    int kernel_names;
} numa_t;

static const char *const numa_options[] = {"root", "names", NULL};

/* Lines "Node 0 MemTotal:  1024 kB". */
static void numa_memory(samples_t *samples, const char *dir, unsigned number, int kernel_names)
{
    static const struct {
        const char *field, *name;
    } fields[] = {
        {"MemTotal", "total"},       {"MemFree", "free"}, {"MemUsed", "used"},
        {"FilePages", "file_pages"}, {"Dirty", "dirty"},  {"AnonPages", "anonymous"},
    };
    char path[PATH_MAX], line[256], field[64];
    unsigned long long kilobytes;
    FILE *file;
    size_t i;

    snprintf(path, sizeof(path), "%s/meminfo", dir);
    file = fopen(path, "r");
    while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
        if (sscanf(line, "Node %*u %63[^:]: %llu kB", field, &kilobytes) != 2) {
            continue;
        }
        for (i = 0; i < (sizeof(fields) / sizeof(fields[0])); ++i) {
            if (!strcmp(field, fields[i].field)) {
                samples_add(samples, 0, kilobytes * 1024.0, "node_memory_numa_%s%s{node=\"%u\"}",
                            kernel_names ? field : fields[i].name, kernel_names ? "" : "_bytes",
                            number);
            }
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* Lines "numa_hit 123", counters of pages. */
static void numa_pages(samples_t *samples, const char *dir, unsigned number)
{
    char path[PATH_MAX], name[64];
    unsigned long long pages;
    FILE *file;

    snprintf(path, sizeof(path), "%s/numastat", dir);
    file = fopen(path, "r");
    while ((file != NULL) && (fscanf(file, "%63s %llu", name, &pages) == 2)) {
        samples_add(samples, 1, pages, "node_memory_numa_%s{node=\"%u\"}", name, number);
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void numa_tick(udmon_node_t *node, void *state)
{
    const char *root = udmon_node_option(node, "root");
    samples_t *samples = samples_begin(node);
    const numa_t *numa = state;
    char pattern[PATH_MAX];
    unsigned number;
    glob_t found;
    size_t i;

    snprintf(pattern, sizeof(pattern), "%s/node[0-9]*",
             (root != NULL) ? root : "/sys/devices/system/node");
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0) {
        for (i = 0; i < found.gl_pathc; ++i) {
            number = strtoul(strrchr(found.gl_pathv[i], '/') + strlen("/node"), NULL, 10);
            numa_memory(samples, found.gl_pathv[i], number, numa->kernel_names);
            numa_pages(samples, found.gl_pathv[i], number);
        }
        globfree(&found);
    }
    samples_end(samples);
}

static int numa_create(udmon_node_t *node, void **state_p)
{
    numa_t *numa = calloc(1, sizeof(*numa));
    int ret = (numa != NULL) ? sensor_names(node, &numa->kernel_names) : -ENOMEM;

    if (ret < 0) {
        free(numa);
        return ret;
    }
    *state_p = numa;
    return 0;
}

const udmon_node_type_t sensor_numa = {
    .name = "numa",
    .options = numa_options,
    .create = numa_create,
    .destroy = free,
    .tick = numa_tick,
    .has_output = 1,
};
