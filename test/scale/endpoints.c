/* Endpoints that are never used: memory and time of an endpoint, and their cost for progress. */
#include "node.h"
#include "scale.h"
#include "base/glex_wire.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_CALLS 200000
#define REPEATS    7

static double idle_progress(struct node *node)
{
    double times[REPEATS], begin;
    int i, call;

    for (i = 0; i < REPEATS; i++) {
        begin = now();
        for (call = 0; call < IDLE_CALLS; call++) {
            uct_iface_progress(node->iface);
        }
        times[i] = (now() - begin) / IDLE_CALLS;
    }
    return sort_median(times, REPEATS);
}

/* An address as another node's process would have it. */
static void make_up(const struct node *node, unsigned index, struct node_address *address)
{
    uct_glex_device_addr_t *device = (uct_glex_device_addr_t *)address->device;
    uct_glex_iface_addr_t *iface = (uct_glex_iface_addr_t *)address->iface;

    *address = node->address;
    device->nic_id += 1 + index / 24; /* 24 processes on a node */
    iface->ep_addr = ((uint64_t)device->nic_id << 32) | (index % 24);
    iface->uuid = index;
}

void scale_endpoints(unsigned count)
{
    uct_ep_h *eps = calloc(count, sizeof(*eps));
    struct node_address address;
    struct node node;
    size_t heap;
    double begin;
    unsigned i;

    if (eps == NULL) {
        fail("no memory for %u endpoints", count);
    }
    pin(0);
    node_open(&node);
    make_up(&node, 0, &address);
    eps[0] = node_connect(&node, &address);
    figure("idle_progress_1", idle_progress(&node));

    heap = heap_used();
    begin = now();
    for (i = 1; i < count; i++) {
        make_up(&node, i, &address);
        eps[i] = node_connect(&node, &address);
    }
    figure("create", (now() - begin) / (count - 1));
    figure("heap_per_endpoint", (double)(heap_used() - heap) / (count - 1));
    figure("idle_progress", idle_progress(&node));

    begin = now();
    for (i = 0; i < count; i++) {
        uct_ep_destroy(eps[i]);
    }
    figure("destroy", (now() - begin) / count);
    node_close(&node);
    free(eps);
}
