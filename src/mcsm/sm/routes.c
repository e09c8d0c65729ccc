/* From the fabric to the graph that is routed, and from its routes to the tables of the switches.
 */
#include "sm.h"

#include <errno.h>
#include <stdlib.h>

/* How many sources come in by a transit port: what the neighbours behind it may have, shared by the
 * ports to them, but not more than our own, since a range may be much larger than a cluster. */
static int foreign_sources(const mcsm_config_t *config, uint8_t neighbour, int own)
{
    int lids = 0, ports = 0;

    for (size_t i = 0; i < config->neighbour_count; i++) {
        const mcsm_neighbour_t *other = &config->neighbours[i];

        if (other->via == neighbour)
            lids += other->db.count ? (int)other->db.count : other->lids.to - other->lids.from + 1;
    }
    for (size_t i = 0; i < config->border_count; i++)
        ports += config->borders[i].neighbour == neighbour && config->borders[i].transit;
    if (lids > own)
        lids = own;
    return ports > 0 ? (lids + ports - 1) / ports : 0;
}

static mcsm_port_t *border_port(const mcsm_fabric_t *fabric, const mcsm_border_t *border)
{
    mcsm_node_t *node = mcsm_fabric_find(fabric, border->guid);

    if (node == NULL || !node->sw || border->port > node->nports)
        return NULL;
    return &node->ports[border->port];
}

static bool is_open(const mcsm_port_t *port)
{
    return port != NULL && port->known && port->state >= MCSM_STATE_INIT && !port->drained;
}

/* Where LIDs of neighbour `index` leave: the transit ports to the cluster they go through. */
static int list_exits(const mcsm_sm_t *sm, size_t index, mcsm_port_t **exits, bool *alive)
{
    const mcsm_config_t *config = sm->config;
    int count = 0;

    for (size_t i = 0; i < config->border_count; i++) {
        const mcsm_border_t *border = &config->borders[i];

        if (!border->transit || border->neighbour != config->neighbours[index].via)
            continue;
        exits[count] = border_port(sm->next, border);
        alive[count] = is_open(exits[count]);
        count++;
    }
    return count;
}

static int add_foreign(mcsm_sm_t *sm, mcsm_graph_t *graph, size_t index, mcsm_port_t **exits,
                       bool *alive)
{
    const mcsm_neighbour_t *neighbour = &sm->config->neighbours[index];
    int count = list_exits(sm, index, exits, alive), status = 0;
    size_t lids = neighbour->db.count ? neighbour->db.count
                                      : (size_t)neighbour->lids.to - neighbour->lids.from + 1;

    for (size_t n = 0; n < lids && status == 0; n++) {
        uint16_t lid =
            neighbour->db.count ? neighbour->db.entries[n].lid : neighbour->lids.from + n;
        int choice = mcsm_transit_choice(lid, alive, count);

        if (choice >= 0)
            status =
                mcsm_graph_target(graph, exits[choice]->node->index, exits[choice]->num, lid, true);
    }
    return status;
}

static int add_targets(mcsm_sm_t *sm, mcsm_graph_t *graph)
{
    size_t room = sm->config->border_count + 1;
    mcsm_port_t **exits = calloc(room, sizeof(*exits));
    bool *alive = calloc(room, sizeof(*alive));
    int status = exits && alive ? 0 : -ENOMEM;

    for (unsigned lid = 1; lid <= sm->next->lid_top && status == 0; lid++) {
        const mcsm_port_t *port = sm->next->by_lid[lid];

        if (port == NULL)
            continue;
        if (port->node->sw)
            status = mcsm_graph_target(graph, port->node->index, 0, lid, false);
        else if (mcsm_port_usable(port) && port->peer->node->sw)
            status = mcsm_graph_target(graph, port->peer->node->index, port->peer->num, lid, false);
    }
    for (size_t i = 0; i < sm->config->neighbour_count && status == 0; i++)
        status = add_foreign(sm, graph, i, exits, alive);
    free(exits);
    free(alive);
    return status;
}

static void connect_switch(mcsm_graph_t *graph, const mcsm_node_t *node)
{
    mcsm_gswitch_t *sw = &graph->sw[node->index];

    sw->guid = node->guid;
    for (int p = 1; p <= node->nports; p++) {
        const mcsm_port_t *port = &node->ports[p];

        if (port->peer == NULL || !mcsm_port_usable(port) || port->peer->node == node)
            continue;
        if (port->peer->node->sw) {
            if (node->index < port->peer->node->index)
                mcsm_graph_link(graph, node->index, p, port->peer->node->index, port->peer->num);
        } else {
            sw->hosts++;
        }
    }
}

static mcsm_graph_t *make_graph(const mcsm_sm_t *sm)
{
    const mcsm_fabric_t *fabric = sm->next;
    uint8_t *nports = calloc(fabric->switch_count + 1, 1);
    mcsm_graph_t *graph = NULL;

    for (int i = 0; nports != NULL && i < fabric->switch_count; i++)
        nports[i] = fabric->switches[i]->nports;
    if (nports != NULL)
        graph = mcsm_graph_new(fabric->switch_count, nports);
    free(nports);
    for (int i = 0; graph != NULL && i < fabric->switch_count; i++)
        connect_switch(graph, fabric->switches[i]);
    for (size_t i = 0; graph != NULL && i < sm->config->border_count; i++) {
        const mcsm_border_t *border = &sm->config->borders[i];
        const mcsm_port_t *port = border_port(fabric, border);

        if (border->transit && is_open(port))
            graph->sw[port->node->index].hosts +=
                foreign_sources(sm->config, border->neighbour, fabric->ca_count);
    }
    return graph;
}

static void report_credit_loop(mcsm_sm_t *sm, const mcsm_graph_t *graph)
{
    int circle[8], length = mcsm_credit_loop(graph, circle, 8), owner;

    if (length > 0 && sm->stats.credit_loop == 0) {
        mcsm_warn("%s routing has a credit loop over %d links; full links may block each other for "
                  "ever. Up/Down has none. Its links:",
                  mcsm_engine_name(sm->config->engine), length);
        for (int i = 0; i < length && i < 8; i++) {
            owner = mcsm_graph_owner(graph, circle[i]);
            mcsm_warn("    0x%016lx port %d", graph->sw[owner].guid,
                      circle[i] - graph->sw[owner].first_link);
        }
    }
    sm->stats.credit_loop = length > 0 ? length : 0;
}

int mcsm_sm_route(mcsm_sm_t *sm)
{
    uint64_t start = mcsm_now();
    mcsm_graph_t *graph = make_graph(sm);
    int status = graph ? add_targets(sm, graph) : -ENOMEM;

    for (int i = 0; i < sm->next->switch_count && status == 0; i++) {
        mcsm_node_t *node = sm->next->switches[i];

        status = mcsm_fabric_tables(node, graph->lid_top, sm->config->mlids);
        if (status == 0)
            memset(node->lft, MCSM_DROP, node->lft_size);
        graph->sw[i].lft = node->lft;
    }
    if (status == 0)
        status = mcsm_route(graph, sm->config);
    if (status < 0) {
        mcsm_error("out of memory: routes stay as they are");
        mcsm_graph_free(graph);
        return status;
    }
    report_credit_loop(sm, graph);
    mcsm_graph_free(sm->graph);
    mcsm_tree_free(sm->tree);
    sm->graph = graph;
    sm->tree = mcsm_tree_new(graph);
    sm->stats.route_ms = mcsm_now() - start;
    return sm->tree ? 0 : -ENOMEM;
}

/* ---- multicast ---- */

typedef struct leaves {
    const mcsm_fabric_t *fabric;
    mcsm_leaf_t *list;
    size_t count, room;
} leaves_t;

static void add_leaf(leaves_t *leaves, int sw, uint8_t port)
{
    if (leaves->count == leaves->room) {
        size_t room = leaves->room ? leaves->room * 2 : 64;
        mcsm_leaf_t *more = realloc(leaves->list, room * sizeof(*more));

        if (more == NULL)
            return;
        leaves->list = more;
        leaves->room = room;
    }
    leaves->list[leaves->count++] = (mcsm_leaf_t){sw, port};
}

/* A member that only sends needs its switch in the tree, but receives nothing. */
static void add_member(void *arg, uint64_t port_guid, bool receives)
{
    leaves_t *leaves = arg;
    const mcsm_port_t *port = mcsm_fabric_find_port(leaves->fabric, port_guid);

    if (port == NULL)
        return;
    if (port->node->sw)
        add_leaf(leaves, port->node->index, receives ? 0 : MCSM_NO_PORT);
    else if (mcsm_port_usable(port) && port->peer->node->sw)
        add_leaf(leaves, port->peer->node->index, receives ? port->peer->num : MCSM_NO_PORT);
}

static void add_joints(const mcsm_sm_t *sm, leaves_t *leaves)
{
    for (size_t i = 0; i < sm->config->border_count; i++) {
        const mcsm_border_t *border = &sm->config->borders[i];
        const mcsm_port_t *port = border_port(leaves->fabric, border);

        if (border->joint && is_open(port))
            add_leaf(leaves, port->node->index, border->port);
    }
}

static void store(const mcsm_fabric_t *fabric, unsigned mlids, unsigned index, uint64_t (*ports)[4])
{
    for (int i = 0; i < fabric->switch_count; i++) {
        mcsm_node_t *node = fabric->switches[i];

        /* After a sweep that gave no LIDs there are no tables. */
        for (int position = 0; node->mft != NULL && position < mcsm_mft_positions(node); position++)
            node->mft[position * mlids + index] = ports[i][position / 4] >> position % 4 * 16;
    }
}

void mcsm_sm_multicast_tables(mcsm_sm_t *sm)
{
    const mcsm_fabric_t *fabric = sm->next ? sm->next : sm->fabric;
    uint64_t(*ports)[4] = calloc(fabric->switch_count + 1, sizeof(*ports));
    leaves_t leaves = {.fabric = fabric};
    size_t joints;

    if (ports == NULL || sm->tree == NULL || sm->tree->count != fabric->switch_count) {
        free(ports);
        return;
    }
    add_joints(sm, &leaves);
    joints = leaves.count;
    mcsm_tree_cut(sm->tree, leaves.list, joints, ports);
    for (unsigned i = 0; i < sm->config->mlids; i++)
        store(fabric, sm->config->mlids, i, ports);
    for (unsigned i = 0; i < sm->config->mlids; i++) {
        leaves.count = joints;
        if (sm->events.members != NULL)
            sm->events.members(sm->events.arg, MCSM_MLID_MIN + i, add_member, &leaves);
        if (leaves.count == joints)
            continue;
        mcsm_tree_cut(sm->tree, leaves.list, leaves.count, ports);
        store(fabric, sm->config->mlids, i, ports);
    }
    free(leaves.list);
    free(ports);
}
