/*
 * Counters of InfiniBand, RoCE and Omni-Path ports, and of the drivers (mlx5, hfi1, rxe, ...), from
 * the kernel. Names are node_exporter's where it has the same.
 */
#include "graph.h"
#include "samples.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static const char *const rdma_options[] = {"root", NULL};

/* A counter's name as Prometheus wants it: hfi1 calls some "RxPktDrop". */
static void rdma_name(const char *file_name, char *name, size_t size)
{
    size_t i, used = 0;

    for (i = 0; (file_name[i] != '\0') && (used + 2 < size); ++i) {
        if (isupper((unsigned char)file_name[i]) && (i > 0) &&
            islower((unsigned char)file_name[i - 1])) {
            name[used++] = '_';
        }
        name[used++] = isalnum((unsigned char)file_name[i]) ?
                           tolower((unsigned char)file_name[i]) : '_';
    }
    name[used] = '\0';
}

static void rdma_port_name(const char *file_name, char *name, size_t size)
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
        {"port_rcv_constraint_errors", "port_constraint_errors_received"},
        {"port_xmit_constraint_errors", "port_constraint_errors_transmitted"},
        {"port_rcv_remote_physical_errors", "port_receive_remote_physical_errors"},
        {"port_rcv_switch_relay_errors", "port_receive_switch_relay_errors"},
        {"port_xmit_wait", "port_transmit_wait"},
        {"unicast_rcv_packets", "unicast_packets_received"},
        {"unicast_xmit_packets", "unicast_packets_transmitted"},
        {"multicast_rcv_packets", "multicast_packets_received"},
        {"multicast_xmit_packets", "multicast_packets_transmitted"},
    };
    size_t i;

    rdma_name(file_name, name, size);
    for (i = 0; i < (sizeof(names) / sizeof(names[0])); ++i) {
        if (!strcmp(names[i].file, file_name)) {
            snprintf(name, size, "%s", names[i].name);
        }
    }
}

/* All files of a directory of counters; `labels` are those of the device, or the port. */
static void rdma_counters(samples_t *samples, const char *dir, int is_hw, const char *labels)
{
    DIR *files = opendir(dir);
    struct dirent *entry;
    char path[1024], name[64];
    double value;
    int words;

    if (files == NULL) {
        return; /* not every driver has each kind */
    }
    while ((entry = readdir(files)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        /* some are not supported, and say so in words */
        if ((entry->d_name[0] == '.') || (samples_read_number(path, &value) < 0)) {
            continue;
        }
        if (is_hw) {
            rdma_name(entry->d_name, name, sizeof(name));
        } else {
            rdma_port_name(entry->d_name, name, sizeof(name));
        }
        /* data counters count words of four bytes; "lifespan" is a setting among the counters */
        words = !is_hw && (strstr(entry->d_name, "_data") != NULL);
        samples_add(samples, !!strcmp(name, "lifespan"), value * (words ? 4.0 : 1.0),
                    "node_infiniband_%s%s{%s}", is_hw ? "hw_" : "", name, labels);
    }
    closedir(files);
}

/* "4: ACTIVE", "100 Gb/sec (4X EDR)": the number counts. */
static void rdma_state(samples_t *samples, const char *dir, const char *labels)
{
    static const struct {
        const char *file, *name;
        double unit;
    } states[] = {
        {"state", "state_id", 1},
        {"phys_state", "physical_state_id", 1},
        {"rate", "rate_bytes_per_second", 1e9 / 8},
    };
    char path[1024];
    double value;
    size_t i;

    for (i = 0; i < (sizeof(states) / sizeof(states[0])); ++i) {
        snprintf(path, sizeof(path), "%s/%s", dir, states[i].file);
        if (samples_read_number(path, &value) == 0) {
            samples_add(samples, 0, value * states[i].unit, "node_infiniband_%s{%s}",
                        states[i].name, labels);
        }
    }
}

static void rdma_device(samples_t *samples, const char *root, const char *device)
{
    char path[700], dir[900], labels[80];
    struct dirent *entry;
    DIR *ports;

    snprintf(labels, sizeof(labels), "device=\"%.40s\"", device);
    snprintf(path, sizeof(path), "%s/%s/hw_counters", root, device);
    rdma_counters(samples, path, 1, labels);
    snprintf(path, sizeof(path), "%s/%s/ports", root, device);
    ports = opendir(path);
    if (ports == NULL) {
        return;
    }
    while ((entry = readdir(ports)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(labels, sizeof(labels), "device=\"%.40s\",port=\"%.4s\"", device, entry->d_name);
        snprintf(dir, sizeof(dir), "%s/%.100s", path, entry->d_name);
        rdma_state(samples, dir, labels);
        snprintf(dir, sizeof(dir), "%s/%.100s/counters", path, entry->d_name);
        rdma_counters(samples, dir, 0, labels);
        snprintf(dir, sizeof(dir), "%s/%.100s/hw_counters", path, entry->d_name);
        rdma_counters(samples, dir, 1, labels);
    }
    closedir(ports);
}

static void rdma_tick(udmon_node_t *node, void *state)
{
    const char *root = udmon_node_option(node, "root");
    struct dirent *entry;
    samples_t *samples;
    DIR *dir;

    (void)state;
    root = (root != NULL) ? root : "/sys/class/infiniband";
    dir = opendir(root);
    if (dir == NULL) {
        return; /* no RDMA here, now: a driver may be loaded later */
    }
    samples = samples_begin(node);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            rdma_device(samples, root, entry->d_name);
        }
    }
    closedir(dir);
    samples_end(samples);
}

const udmon_node_type_t sensor_rdma = {
    .name = "rdma",
    .options = rdma_options,
    .tick = rdma_tick,
    .has_output = 1,
};
