/* The path between two hosts; see trace.h. */
#include "trace.h"
#include "access.h"

#include <stdio.h>

/* The entry of a port's table. */
static int read_entry(struct inmd *d, uint32_t chip, uint32_t in, uint32_t nic, uint64_t *ports)
{
    int outcome = chip_write(d, chip, REG_PORT(in) + PORT_ROUTE_ADDR, nic);

    return outcome == NET_OK ? chip_read(d, chip, REG_PORT(in) + PORT_ROUTE_DATA, ports) : outcome;
}

static void look_at_link(struct inmd *d, struct trace_hop *hop)
{
    uint32_t index = inm_topo_port_index(d->topo, hop->out);
    uint64_t status = 0;

    hop->up = chip_read(d, hop->chip, REG_PORT(index) + PORT_STATUS, &status) == NET_OK &&
              (status & PORT_STATUS_UP) != 0;
    hop->lanes = PORT_STATUS_LANES(status);
    chip_read(d, hop->chip, REG_PORT(index) + PORT_RETRIES, &hop->retries);
}

static uint32_t peer_of(struct inmd *d, uint32_t port)
{
    uint32_t peer;

    pthread_mutex_lock(&d->lock);
    peer = d->found.peer[port];
    pthread_mutex_unlock(&d->lock);
    return peer;
}

/* A chip without any entry has no table. */
static void no_entry(struct inmd *d, uint32_t chip, uint32_t to, char *error, size_t size)
{
    char name[INM_NAME_MAX], dest[INM_NAME_MAX];
    uint64_t runs = 0;

    inm_chip_name(d->topo, chip, name);
    if (chip_read(d, chip, REG_ROUTE_RUNS, &runs) == NET_OK && runs == 0) {
        snprintf(error, size,
                 "no tables are loaded into %s: run \"inm route generate\" and \"inm "
                 "route load\"",
                 name);
    } else {
        snprintf(error, size, "the table of %s has no route to %s", name,
                 inm_chip_name(d->topo, to, dest));
    }
}

uint32_t trace(struct inmd *d, uint32_t from, uint32_t to, struct trace_hop *hops, char *error,
               size_t size)
{
    uint32_t chip = from, in = INM_NONE, n = 0;
    char name[INM_NAME_MAX];
    uint64_t ports;
    int outcome;

    while (n < TRACE_MAX) {
        struct trace_hop *hop = &hops[n++];

        *hop = (struct trace_hop){.chip = chip, .in = in, .out = INM_NONE, .up = true};
        if (chip == to) {
            return n;
        }
        if (chip < d->topo->num_nrc) {
            outcome = read_entry(d, chip, inm_topo_port_index(d->topo, in),
                                 inm_chip_id(d->topo, to), &ports);
            if (outcome != NET_OK) {
                snprintf(error, size, "%s: %s", inm_chip_name(d->topo, chip, name),
                         outcome_text(outcome));
                return 0;
            }
            if (ports == 0) {
                no_entry(d, chip, to, error, size);
                return 0;
            }
            hop->choices = (uint32_t)ports;
            hop->out =
                inm_topo_port(d->topo, chip, (uint32_t)__builtin_ctzll(ports) % INM_NRC_PORTS);
        } else if (chip == from) {
            hop->out = inm_topo_port(d->topo, chip, 0);
            hop->choices = 1;
        } else {
            snprintf(error, size, "the route ends at %s", inm_chip_name(d->topo, chip, name));
            return 0;
        }
        look_at_link(d, hop);
        in = peer_of(d, hop->out);
        if (in == INM_NONE) {
            snprintf(error, size, "the route leads over %s, which has no link",
                     inm_port_name(d->topo, hop->out, name));
            return 0;
        }
        chip = inm_topo_port_chip(d->topo, in);
    }
    snprintf(error, size, "more than %d hops: the route goes in a circle", TRACE_MAX);
    return 0;
}
