/* Counters of InfiniBand and RoCE ports, the port's own and the driver's, from the kernel. */
#include "graph.h"
#include "samples.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static const char rdma_root[] = "/sys/class/infiniband";

static void rdma_counter(samples_t *samples, const char *dir, const char *file_name,
                         const char *device, const char *port, int is_hw)
{
    /* node_exporter's names for those that have others in the kernel */
    static const struct {
        const char *file, *name;
    } names[] = {
        {"port_rcv_data", "port_data_received_bytes"},
        {"port_xmit_data", "port_data_transmitted_bytes"},
        {"port_rcv_packets", "port_packets_received"},
        {"port_xmit_packets", "port_packets_transmitted"},
        {"port_rcv_errors", "port_errors_received"},
        {"port_xmit_discards", "port_discards_transmitted"},
        {"unicast_rcv_packets", "unicast_packets_received"},
        {"unicast_xmit_packets", "unicast_packets_transmitted"},
        {"multicast_rcv_packets", "multicast_packets_received"},
        {"multicast_xmit_packets", "multicast_packets_transmitted"},
    };
    unsigned long long value;
    char path[1024];
    FILE *file;
    int words;
    size_t i;

    snprintf(path, sizeof(path), "%s/%s", dir, file_name);
    file = fopen(path, "r");
    if (file == NULL) {
        return;
    }
    if (fscanf(file, "%llu", &value) == 1) { /* some are not supported and say so in words */
        /* data counters count words of four bytes; "lifespan" is a setting among the counters */
        words = !is_hw && (strstr(file_name, "_data") != NULL);
        for (i = 0; !is_hw && (i < (sizeof(names) / sizeof(names[0]))); ++i) {
            if (!strcmp(names[i].file, file_name)) {
                file_name = names[i].name;
            }
        }
        samples_add(samples, !!strcmp(file_name, "lifespan"), value * (words ? 4.0 : 1.0),
                    "node_infiniband_%s%.60s{device=\"%.40s\",port=\"%.4s\"}", is_hw ? "hw_" : "",
                    file_name, device, port);
    }
    fclose(file);
}

static void rdma_counters(samples_t *samples, const char *device, const char *port,
                          const char *kind)
{
    struct dirent *entry;
    char path[700];
    DIR *dir;

    snprintf(path, sizeof(path), "%s/%s/ports/%s/%s", rdma_root, device, port, kind);
    dir = opendir(path);
    if (dir == NULL) {
        return; /* not every driver has both kinds */
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            rdma_counter(samples, path, entry->d_name, device, port, !strcmp(kind, "hw_counters"));
        }
    }
    closedir(dir);
}

static void rdma_device(samples_t *samples, const char *device)
{
    struct dirent *entry;
    char path[400];
    DIR *dir;

    snprintf(path, sizeof(path), "%s/%s/ports", rdma_root, device);
    dir = opendir(path);
    if (dir == NULL) {
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            rdma_counters(samples, device, entry->d_name, "counters");
            rdma_counters(samples, device, entry->d_name, "hw_counters");
        }
    }
    closedir(dir);
}

static void rdma_tick(udmon_node_t *node, void *state)
{
    DIR *dir = opendir(rdma_root);
    struct dirent *entry;
    samples_t *samples;

    (void)state;
    if (dir == NULL) {
        return; /* no RDMA here, now: a driver may be loaded later */
    }
    samples = samples_begin(node);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            rdma_device(samples, entry->d_name);
        }
    }
    closedir(dir);
    samples_end(samples);
}

const udmon_node_type_t sensor_rdma = {.name = "rdma", .tick = rdma_tick, .has_output = 1};
