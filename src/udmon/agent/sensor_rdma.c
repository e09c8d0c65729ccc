/*
 * Counters of InfiniBand, RoCE and Omni-Path ports, and of the drivers (mlx5, hfi1, rxe, ...), from
 * the kernel. Names are node_exporter's where it has the same.
 */
#include "node.h"
#include "samples.h"
#include "types.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
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
        name[used++] =
            isalnum((unsigned char)file_name[i]) ? tolower((unsigned char)file_name[i]) : '_';
    }
    name[used] = '\0';
}

static void rdma_port_name(const char *file_name, char *name, size_t size)
{
    /* node_exporter's names that differ from the kernel's names */
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

static void rdma_hw_counter(struct samples *samples, const char *path, const char *labels)
{
    char name[64];
    double value;

    /* an unsupported counter contains words instead of a number */
    if (samples_read_number(path, &value) == 0) {
        rdma_name(strrchr(path, '/') + 1, name, sizeof(name));
        /* "lifespan" is a setting among the counters */
        samples_add(samples, !!strcmp(name, "lifespan"), value, "node_infiniband_hw_%s{%s}", name,
                    labels);
    }
}

static void rdma_port_counter(struct samples *samples, const char *path, const char *labels)
{
    char name[64];
    double value;

    if (samples_read_number(path, &value) == 0) {
        rdma_port_name(strrchr(path, '/') + 1, name, sizeof(name));
        /* data counters count words of four bytes */
        value *= (strstr(strrchr(path, '/'), "_data") != NULL) ? 4 : 1;
        samples_add(samples, 1, value, "node_infiniband_%s{%s}", name, labels);
    }
}

/* "4: ACTIVE", "100 Gb/sec (4X EDR)": the number counts. */
static void rdma_state(struct samples *samples, const char *path, const char *labels)
{
    static const struct {
        const char *file, *name;
        double unit;
    } states[] = {
        {"state", "state_id", 1},
        {"phys_state", "physical_state_id", 1},
        {"rate", "rate_bytes_per_second", 1e9 / 8},
    };
    double value;
    size_t i;

    for (i = 0; i < (sizeof(states) / sizeof(states[0])); ++i) {
        if (!strcmp(strrchr(path, '/') + 1, states[i].file) &&
            (samples_read_number(path, &value) == 0)) {
            samples_add(samples, 0, value * states[i].unit, "node_infiniband_%s{%s}",
                        states[i].name, labels);
        }
    }
}

/* Reads files below `root`, with the labels of their device and, if any, of their port. */
static void rdma_files(struct samples *samples, const char *root, const char *pattern,
                       void (*each)(struct samples *samples, const char *path, const char *labels))
{
    char path[PATH_MAX], device[64], port[8], labels[100];
    glob_t found;
    size_t i;
    int parts;

    snprintf(path, sizeof(path), "%s/%s", root, pattern);
    if (glob(path, GLOB_NOSORT, NULL, &found) != 0) {
        return; /* not every driver has each kind; and one may be loaded later */
    }
    for (i = 0; i < found.gl_pathc; ++i) {
        parts = sscanf(found.gl_pathv[i] + strlen(root), "/%63[^/]/ports/%7[^/]", device, port);
        snprintf(labels, sizeof(labels),
                 (parts == 2) ? "device=\"%s\",port=\"%s\"" : "device=\"%s\"", device, port);
        each(samples, found.gl_pathv[i], labels);
    }
    globfree(&found);
}

static void rdma_tick(struct udmon_node *node, void *state)
{
    const char *root = udmon_node_option(node, "root");
    struct samples *samples = samples_begin(node);

    (void)state;
    root = (root != NULL) ? root : "/sys/class/infiniband";
    rdma_files(samples, root, "*/hw_counters/*", rdma_hw_counter);
    rdma_files(samples, root, "*/ports/*/*", rdma_state);
    rdma_files(samples, root, "*/ports/*/counters/*", rdma_port_counter);
    rdma_files(samples, root, "*/ports/*/hw_counters/*", rdma_hw_counter);
    samples_end(samples);
}

const struct udmon_node_type sensor_rdma = {
    .name = "rdma",
    .options = rdma_options,
    .tick = rdma_tick,
    .has_output = 1,
    .blocking = 1,
};
