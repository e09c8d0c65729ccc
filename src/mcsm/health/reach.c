#include "reach.h"

#include <errno.h>
#include <stdlib.h>

/* Switches by their index. Hosts have no number: a host is reached if its switch is. */
struct reach {
    const struct mcsm_fabric *fabric;
    const struct mcsm_port *without; /* NULL: all links */
    bool *reached;
    int *queue, tail;
};

static const struct mcsm_node *switch_of(const struct mcsm_port *port)
{
    return port->node->sw ? port->node : port->peer ? port->peer->node : NULL;
}

static void enter(struct reach *reach, const struct mcsm_node *node)
{
    if (node != NULL && node->sw && node->index >= 0 && !reach->reached[node->index]) {
        reach->reached[node->index] = true;
        reach->queue[reach->tail++] = node->index;
    }
}

/* Breadth first from the switch of the manager. */
static void search(struct reach *reach)
{
    if (reach->fabric->own_port != NULL) {
        enter(reach, switch_of(reach->fabric->own_port));
    }
    for (int head = 0; head < reach->tail; head++) {
        const struct mcsm_node *node = reach->fabric->switches[reach->queue[head]];

        for (int p = 1; p <= node->nports; p++) {
            const struct mcsm_port *port = &node->ports[p];

            if (mcsm_port_usable(port) && port != reach->without && port->peer != reach->without) {
                enter(reach, port->peer->node);
            }
        }
    }
}

static int start(struct reach *reach, const struct mcsm_fabric *fabric,
                 const struct mcsm_port *without)
{
    *reach = (struct reach){.fabric = fabric, .without = without};
    reach->reached = calloc(fabric->switch_count + 1, sizeof(*reach->reached));
    reach->queue = calloc(fabric->switch_count + 1, sizeof(*reach->queue));
    if (reach->reached == NULL || reach->queue == NULL) {
        free(reach->reached);
        free(reach->queue);
        return -ENOMEM;
    }
    search(reach);
    return 0;
}

static void end(struct reach *reach)
{
    free(reach->reached);
    free(reach->queue);
}

static int hosts_of(const struct mcsm_node *node)
{
    int hosts = 0;

    for (int p = 1; p <= node->nports; p++) {
        hosts += mcsm_port_usable(&node->ports[p]) && !node->ports[p].peer->node->sw;
    }
    return hosts;
}

int mcsm_reach_lost(const struct mcsm_fabric *fabric, const struct mcsm_port *port)
{
    struct reach now, then;
    int lost = 0;

    if (port->peer == NULL || !port->node->sw || !port->peer->node->sw) {
        return 1; /* the only link of a host, as far as its port is concerned */
    }
    if (start(&now, fabric, NULL) < 0) {
        return -ENOMEM;
    }
    if (start(&then, fabric, port) < 0) {
        end(&now);
        return -ENOMEM;
    }
    for (int i = 0; i < fabric->switch_count; i++) {
        if (now.reached[i] && !then.reached[i]) {
            lost += 1 + hosts_of(fabric->switches[i]);
        }
    }
    end(&now);
    end(&then);
    return lost;
}

bool mcsm_reach_needs(const struct mcsm_fabric *fabric, const struct mcsm_port *port)
{
    struct reach reach;
    bool both;

    if (port->peer == NULL || !port->node->sw || !port->peer->node->sw ||
        start(&reach, fabric, NULL) < 0) {
        return true;
    }
    both = reach.reached[port->node->index] && reach.reached[port->peer->node->index];
    end(&reach);
    return !both;
}
