/* From the fabric to the graph that is routed, and from its routes to the tables of the switches.
 */
#include "route/contract.h"
#include "route/lanes.h"
#include "phases.h"
#include "route/plan.h"

#include <errno.h>
#include <stdlib.h>

/* Returns the number of sources behind a transit port: the LIDs of the neighbours behind the port,
 * divided by the number of ports to these neighbours. The LIDs count as at most `own`, the sources
 * of this cluster, because a range may be much larger than a cluster. */
static int foreign_sources(const struct mcsm_config *config, uint8_t neighbour, int own)
{
    int lids = 0, ports = 0;

    for (size_t i = 0; i < config->neighbour_count; i++) {
        const struct mcsm_neighbour *other = &config->neighbours[i];

        if (other->via == neighbour) {
            lids += other->db.count ? (int)other->db.count : other->lids.to - other->lids.from + 1;
        }
    }
    for (size_t i = 0; i < config->border_count; i++) {
        ports += config->borders[i].neighbour == neighbour && config->borders[i].transit;
    }
    if (lids > own) {
        lids = own;
    }
    return ports > 0 ? (lids + ports - 1) / ports : 0;
}

static struct mcsm_port *border_port(const struct mcsm_fabric *fabric,
                                     const struct mcsm_border *border)
{
    struct mcsm_node *node = mcsm_fabric_find(fabric, border->guid);

    if (node == NULL || !node->sw || border->port > node->nports) {
        return NULL;
    }
    return &node->ports[border->port];
}

static bool is_open(const struct mcsm_port *port)
{
    return port != NULL && port->known && port->state >= MCSM_STATE_INIT && !port->drained;
}

/* Where LIDs of neighbour `index` leave: the transit ports to the cluster they go through. */
static int list_exits(const struct mcsm_sm *sm, size_t index, struct mcsm_port **exits, bool *alive)
{
    const struct mcsm_config *config = sm->config;
    int count = 0;

    for (size_t i = 0; i < config->border_count; i++) {
        const struct mcsm_border *border = &config->borders[i];

        if (!border->transit || border->neighbour != config->neighbours[index].via) {
            continue;
        }
        exits[count] = border_port(sm->next, border);
        alive[count] = is_open(exits[count]);
        count++;
    }
    return count;
}

static int add_foreign(struct mcsm_sm *sm, struct mcsm_graph *graph, size_t index,
                       struct mcsm_port **exits, bool *alive)
{
    const struct mcsm_neighbour *neighbour = &sm->config->neighbours[index];
    int count = list_exits(sm, index, exits, alive), status = 0;
    size_t lids = neighbour->db.count ? neighbour->db.count :
                                        (size_t)neighbour->lids.to - neighbour->lids.from + 1;

    for (size_t n = 0; n < lids && status == 0; n++) {
        uint16_t lid =
            neighbour->db.count ? neighbour->db.entries[n].lid : neighbour->lids.from + n;
        int choice = mcsm_transit_choice(lid, alive, count);

        if (choice >= 0) {
            status =
                mcsm_graph_target(graph, exits[choice]->node->index, exits[choice]->num, lid, true);
        }
    }
    return status;
}

static int add_targets(struct mcsm_sm *sm, struct mcsm_graph *graph)
{
    size_t room = sm->config->border_count + 1;
    struct mcsm_port **exits = calloc(room, sizeof(*exits));
    bool *alive = calloc(room, sizeof(*alive));
    int status = exits && alive ? 0 : -ENOMEM;

    for (unsigned lid = 1; lid <= sm->next->lid_top && status == 0; lid++) {
        const struct mcsm_port *port = sm->next->by_lid[lid];

        if (port == NULL) {
            continue;
        }
        if (port->node->sw) {
            status = mcsm_graph_target(graph, port->node->index, 0, lid, false);
        } else if (mcsm_port_usable(port) && port->peer->node->sw) {
            status = mcsm_graph_target(graph, port->peer->node->index, port->peer->num, lid, false);
        }
    }
    for (size_t i = 0; i < sm->config->neighbour_count && status == 0; i++) {
        status = add_foreign(sm, graph, i, exits, alive);
    }
    free(exits);
    free(alive);
    return status;
}

static void connect_switch(struct mcsm_graph *graph, const struct mcsm_node *node)
{
    struct mcsm_gswitch *sw = &graph->sw[node->index];

    sw->guid = node->guid;
    for (int p = 1; p <= node->nports; p++) {
        const struct mcsm_port *port = &node->ports[p];

        if (port->peer == NULL || !mcsm_port_usable(port) || port->peer->node == node) {
            continue;
        }
        if (port->peer->node->sw) {
            if (node->index < port->peer->node->index) {
                mcsm_graph_link(graph, node->index, p, port->peer->node->index, port->peer->num);
            }
        } else {
            sw->hosts++;
        }
    }
}

static struct mcsm_graph *make_graph(const struct mcsm_sm *sm)
{
    const struct mcsm_fabric *fabric = sm->next;
    uint8_t *nports = calloc(fabric->switch_count + 1, 1);
    struct mcsm_graph *graph = NULL;

    for (int i = 0; nports != NULL && i < fabric->switch_count; i++) {
        nports[i] = fabric->switches[i]->nports;
    }
    if (nports != NULL) {
        graph = mcsm_graph_new(fabric->switch_count, nports);
    }
    free(nports);
    for (int i = 0; graph != NULL && i < fabric->switch_count; i++) {
        connect_switch(graph, fabric->switches[i]);
    }
    for (int i = 0; graph != NULL && i < graph->count; i++) {
        graph->sw[i].bare = graph->sw[i].hosts == 0;
    }
    for (size_t i = 0; graph != NULL && i < sm->config->border_count; i++) {
        const struct mcsm_border *border = &sm->config->borders[i];
        const struct mcsm_port *port = border_port(fabric, border);

        if (border->joint && is_open(port)) {
            graph->sw[port->node->index].bare = false;
        }
        if (border->transit && is_open(port)) {
            struct mcsm_gswitch *sw = &graph->sw[port->node->index];
            int entering = foreign_sources(sm->config, border->neighbour, fabric->ca_count);

            sw->border = true;
            sw->strict |= !mcsm_config_allows(sm->config, border, border);
            sw->hosts += entering;
            sw->entering += entering;
        }
    }
    return graph;
}

/* ---- lanes and the contract of the borders ---- */

/* Returns the number of lanes that every link of the cluster has. */
static int lanes_there(const struct mcsm_sm *sm)
{
    int least = MCSM_MAX_LANES;
    struct mcsm_node *node, *next;

    HASH_ITER(hh, sm->next->nodes, node, next) {
        for (int p = 1; p <= node->nports; p++) {
            uint8_t code = mcsm_hi(node->ports[p].info, MCSM_PI_OPER_VLS_HI);
            int lanes = code == 0 || code >= 5 ? MCSM_MAX_LANES : 1 << (code - 1);

            if (mcsm_port_usable(&node->ports[p]) && lanes < least) {
                least = lanes;
            }
        }
    }
    return least;
}

static void report_loop(struct mcsm_sm *sm, const struct mcsm_graph *graph, const int *circle,
                        int length)
{
    if (length > 0 && sm->stats.credit_loop == 0) {
        mcsm_report(&sm->events, "credit-loop", MCSM_LOG_WARN, 0, 0,
                    "%s routing has a credit loop over %d links: while they are full, their "
                    "packets block each other. Engine auto has none. Its links:",
                    mcsm_engine_name(sm->stats.engine), length);
        for (int i = 0; i < length && i < 8; i++) {
            int owner = mcsm_graph_owner(graph, circle[i]);

            mcsm_warn("    0x%016lx port %d", graph->sw[owner].guid,
                      circle[i] - graph->sw[owner].first_link);
        }
    }
    sm->stats.credit_loop = length > 0 ? length : 0;
}

struct borders {
    struct mcsm_contract contract;
    struct mcsm_gate *gates;
    const struct mcsm_border **lines; /* of each gate */
    int *via, *cluster;
    bool *allowed, *enters, *closed;
};

static void borders_free(struct borders *borders)
{
    free(borders->gates);
    free(borders->lines);
    free(borders->via);
    free(borders->cluster);
    free(borders->allowed);
    free(borders->enters);
    free(borders->closed);
}

static void list_gates(const struct mcsm_sm *sm, struct borders *borders)
{
    const struct mcsm_config *config = sm->config;

    for (size_t i = 0; i < config->border_count; i++) {
        const struct mcsm_border *border = &config->borders[i];
        const struct mcsm_port *port = border_port(sm->next, border);

        if (!is_open(port)) {
            continue;
        }
        borders->lines[borders->contract.count] = border;
        borders->gates[borders->contract.count++] = (struct mcsm_gate){
            port->node->index, port->num,
            border->neighbour, border->transit,
            border->joint,     config->neighbours[border->neighbour].via_name[0] == '\0'};
    }
}

static int borders_new(const struct mcsm_sm *sm, const struct mcsm_graph *graph,
                       struct borders *borders)
{
    const struct mcsm_config *config = sm->config;
    size_t n = config->border_count, clusters = config->neighbour_count;

    memset(borders, 0, sizeof(*borders));
    borders->gates = calloc(n + 1, sizeof(*borders->gates));
    borders->lines = calloc(n + 1, sizeof(*borders->lines));
    borders->via = malloc((graph->lid_top + 1) * sizeof(int));
    borders->cluster = malloc((graph->lid_top + 1) * sizeof(int));
    borders->allowed = calloc(n * n + 1, sizeof(bool));
    borders->enters = calloc(clusters * clusters + 1, sizeof(bool));
    borders->closed = calloc(n + 1, sizeof(bool));
    if (!borders->gates || !borders->lines || !borders->via || !borders->cluster ||
        !borders->allowed || !borders->enters || !borders->closed) {
        borders_free(borders);
        return -ENOMEM;
    }
    list_gates(sm, borders);
    for (unsigned lid = 0; lid <= graph->lid_top; lid++) {
        borders->via[lid] = borders->cluster[lid] = -1;
        for (size_t i = 0; i < clusters; i++) {
            if (!mcsm_range_has(config->neighbours[i].lids, lid)) {
                continue;
            }
            borders->cluster[lid] = i;
            borders->via[lid] = config->neighbours[i].via;
        }
    }
    for (size_t e = 0; e < borders->contract.count; e++) {
        for (size_t f = 0; f < borders->contract.count; f++) {
            borders->allowed[e * borders->contract.count + f] =
                mcsm_config_allows(config, borders->lines[e], borders->lines[f]);
        }
    }
    for (size_t i = 0; i < clusters; i++) {
        for (size_t k = 0; k < clusters; k++) {
            borders->enters[i * clusters + k] = config->neighbours[i].passes[k];
        }
    }
    borders->contract.gates = borders->gates;
    borders->contract.via = borders->via;
    borders->contract.cluster = borders->cluster;
    borders->contract.allowed = borders->allowed;
    borders->contract.enters = borders->enters;
    borders->contract.clusters = clusters;
    borders->contract.closed = borders->closed;
    return 0;
}

/* contract = report: the routes stay, and the log says that they exceed the contract. */
static int name_excess(struct mcsm_sm *sm, const struct mcsm_contract *contract,
                       const struct mcsm_graph *graph)
{
    size_t n = contract->count, excess = 0;
    bool *matrix = calloc(n * n + 1, sizeof(bool));
    int status = matrix ? mcsm_contract_matrix(graph, contract, matrix) : -ENOMEM;

    for (size_t i = 0; i < n * n && status == 0; i++) {
        excess += matrix[i] && !contract->allowed[i];
    }
    free(matrix);
    if (excess > 0 && sm->stats.excess == 0) {
        mcsm_report(&sm->events, "contract-exceeded", MCSM_LOG_WARN, 0, 0,
                    "chains lead between %zu pairs of border ports that the contract does not "
                    "allow: several clusters together may have a credit loop",
                    excess);
    }
    sm->stats.excess = excess;
    return status;
}

static void name_left_out(struct mcsm_sm *sm, const struct mcsm_graph *graph,
                          const struct mcsm_contract_result *result)
{
    if (result->left_out != sm->stats.left_out && result->left_out > 0) {
        mcsm_report(&sm->events, "left-out", MCSM_LOG_WARN, graph->sw[result->example_sw].guid, 0,
                    "%u routes from switches to LIDs of other clusters are left out, since they "
                    "would exceed the contract of the border ports; one is from 0x%016lx to LID "
                    "%u. Connect the switch upwards to a border switch, lay the border links to "
                    "this cluster on one switch, allow more by passes-to, or accept a possible "
                    "credit loop by contract = report",
                    result->left_out, graph->sw[result->example_sw].guid, result->example_lid);
    }
    if (result->hidden != sm->stats.hidden && result->hidden > 0) {
        mcsm_info(
            "border switches have no route to %u LIDs of other switches, since packets of other "
            "clusters must not go up again: hosts of other clusters may not reach these LIDs",
            result->hidden);
    }
    sm->stats.left_out = result->left_out;
    sm->stats.hidden = result->hidden;
}

/* Packets of groups do not leave by the joints that the contract closes. */
static void close_joints(struct mcsm_sm *sm, const struct borders *borders, unsigned closed)
{
    for (size_t g = 0; g < borders->contract.count; g++) {
        sm->closed[borders->lines[g] - sm->config->borders] = borders->closed[g];
    }
    for (size_t g = 0; g < borders->contract.count && closed != sm->stats.closed_joints; g++) {
        if (borders->closed[g]) {
            mcsm_report(&sm->events, "joint-closed", MCSM_LOG_WARN, borders->lines[g]->guid,
                        borders->lines[g]->port,
                        "packets of groups do not leave by the joint 0x%016lx/%u, since on lane 0 "
                        "they would exceed the contract of the border ports. Give groups a lane "
                        "of their own in all clusters (sl of [multicast]), or accept a possible "
                        "credit loop by contract = report",
                        borders->lines[g]->guid, borders->lines[g]->port);
        }
    }
    sm->stats.closed_joints = closed;
}

static int keep_contract(struct mcsm_sm *sm, struct mcsm_graph *graph, const struct mcsm_tree *tree)
{
    struct mcsm_contract_result result;
    struct borders borders;
    int status = borders_new(sm, graph, &borders);

    if (status < 0) {
        return status;
    }
    free(sm->closed);
    sm->closed = calloc(sm->config->border_count + 1, sizeof(bool));
    if (sm->closed == NULL) {
        borders_free(&borders);
        return -ENOMEM;
    }
    borders.contract.tree = sm->config->multicast_sl == 0 ? tree : NULL;
    result = (struct mcsm_contract_result){.broken = false};
    if (!sm->config->contract_only_named && sm->stats.engine == MCSM_ENGINE_UPDN) {
        status = mcsm_contract_keep(graph, &borders.contract, &result);
    } else {
        status = name_excess(sm, &borders.contract, graph);
    }
    if (status == 0) {
        name_left_out(sm, graph, &result);
        close_joints(sm, &borders, result.closed);
    }
    borders_free(&borders);
    return status;
}

/* The lanes for the routes: a share of the lanes for each service level of the configuration. */
static int lanes_of_routes(const struct mcsm_sm *sm)
{
    const struct mcsm_config *config = sm->config;
    int there = lanes_there(sm);

    if (!config->own_levels) {
        return there;
    }
    if (!config->shares_lanes || there < 2 * config->class_count) {
        mcsm_info(
            "%u service levels of the configuration and %d virtual lanes leave one lane for the "
            "routes",
            config->class_count, there);
        return 1;
    }
    return there / config->class_count;
}

/* Computes routes with lanes for each service level of the configuration. If 16 service levels do not
 * suffice, the routes use one lane. */
static int plan_routes(struct mcsm_sm *sm, struct mcsm_graph *graph, enum mcsm_engine engine,
                       struct mcsm_plan *plan)
{
    const struct mcsm_config *config = sm->config;
    int status = mcsm_plan_routes(graph, config, engine, lanes_of_routes(sm), plan);
    int levels = mcsm_levels(graph) * config->class_count;

    if (status < 0 || graph->lanes == 1 || !config->shares_lanes || levels <= 16) {
        return status;
    }
    mcsm_warn(
        "%u service levels of the configuration with %d levels of %s routing would be %d of 16 "
        "service levels: the routes use one lane",
        config->class_count, mcsm_levels(graph), mcsm_engine_name(plan->engine), levels);
    mcsm_tree_free(plan->tree);
    return mcsm_plan_routes(graph, config, engine, 1, plan);
}

/* Says once what the configured engine does not promise. */
static void name_loose_engine(const struct mcsm_sm *sm, enum mcsm_engine engine)
{
    if ((engine == MCSM_ENGINE_MINHOP || engine == MCSM_ENGINE_DOR) &&
        (sm->graph == NULL || sm->stats.engine != engine)) {
        mcsm_warn(
            "engine = %s reports credit loops%s and does not prevent them; auto prevents them",
            mcsm_engine_name(engine),
            mcsm_config_has_transit(sm->config) ? ", also over several clusters," : "");
    }
}

static int compute(struct mcsm_sm *sm, struct mcsm_graph *graph, struct mcsm_tree **tree_p)
{
    enum mcsm_engine engine = sm->config->engine;
    bool shared = sm->config->multicast_sl == 0;
    struct mcsm_plan plan;
    int status, circle[8];

    if (engine == MCSM_ENGINE_AUTO) {
        engine = mcsm_config_has_transit(sm->config) ? MCSM_ENGINE_UPDN : MCSM_ENGINE_AUTO;
    }
    name_loose_engine(sm, engine);
    status = plan_routes(sm, graph, engine, &plan);
    *tree_p = plan.tree;
    sm->stats.engine = plan.engine;
    sm->stats.lanes_needed = plan.lanes_needed;
    if (status == 0 && mcsm_config_has_transit(sm->config)) {
        status = keep_contract(sm, graph, *tree_p);
    }
    if (status == 0) {
        int length = mcsm_plan_find_loop(graph, shared ? *tree_p : NULL, circle, 8);

        report_loop(sm, graph, circle, length);
    }
    return status;
}

int mcsm_sm_route(struct mcsm_sm *sm)
{
    uint64_t start = mcsm_now();
    struct mcsm_graph *graph = make_graph(sm);
    struct mcsm_tree *tree = NULL;
    int status = graph ? add_targets(sm, graph) : -ENOMEM;

    for (int i = 0; i < sm->next->switch_count && status == 0; i++) {
        struct mcsm_node *node = sm->next->switches[i];

        status = mcsm_fabric_tables(node, graph->lid_top, sm->config->mlids);
        if (status == 0) {
            memset(node->lft, MCSM_DROP, node->lft_size);
        }
        graph->sw[i].lft = node->lft;
    }
    if (status == 0) {
        status = compute(sm, graph, &tree);
    }
    if (status < 0) {
        mcsm_error("out of memory: routes stay as they are");
        mcsm_graph_free(graph);
        mcsm_tree_free(tree);
        return status;
    }
    mcsm_graph_free(sm->graph);
    mcsm_tree_free(sm->tree);
    sm->graph = graph;
    sm->tree = tree;
    sm->stats.route_ms = mcsm_now() - start;
    return 0;
}

/* ---- multicast ---- */

struct leaves {
    const struct mcsm_fabric *fabric;
    const struct mcsm_graph *graph;
    struct mcsm_leaf *list;
    size_t count, room;
};

static void add_leaf(struct leaves *leaves, int sw, uint8_t port)
{
    if (leaves->count == leaves->room) {
        size_t room = leaves->room ? leaves->room * 2 : 64;
        struct mcsm_leaf *more = realloc(leaves->list, room * sizeof(*more));

        if (more == NULL) {
            return;
        }
        leaves->list = more;
        leaves->room = room;
    }
    leaves->list[leaves->count++] = (struct mcsm_leaf){sw, port};
}

/* A member that only sends needs its switch in the tree, but receives nothing. */
static void add_member(void *arg, uint64_t port_guid, bool receives)
{
    struct leaves *leaves = arg;
    const struct mcsm_port *port = mcsm_fabric_find_port(leaves->fabric, port_guid);

    if (port == NULL) {
        return;
    }
    if (port->node->sw && !leaves->graph->sw[port->node->index].bare) {
        add_leaf(leaves, port->node->index, receives ? 0 : MCSM_NO_PORT);
    } else if (port->node->sw) {
        mcsm_debug("%s (0x%016lx) is a member of a group, and has no hosts: it receives nothing",
                   port->node->desc, port->node->guid);
    } else if (mcsm_port_usable(port) && port->peer->node->sw) {
        add_leaf(leaves, port->peer->node->index, receives ? port->peer->num : MCSM_NO_PORT);
    }
}

static void add_joints(const struct mcsm_sm *sm, struct leaves *leaves)
{
    for (size_t i = 0; i < sm->config->border_count; i++) {
        const struct mcsm_border *border = &sm->config->borders[i];
        const struct mcsm_port *port = border_port(leaves->fabric, border);

        if (border->joint && is_open(port)) {
            add_leaf(leaves, port->node->index,
                     sm->closed && sm->closed[i] ? MCSM_NO_PORT : border->port);
        }
    }
}

static void store(const struct mcsm_fabric *fabric, unsigned mlids, unsigned index,
                  uint64_t (*ports)[4])
{
    for (int i = 0; i < fabric->switch_count; i++) {
        struct mcsm_node *node = fabric->switches[i];

        /* After a sweep that gave no LIDs there are no tables. */
        for (int position = 0; node->mft != NULL && position < mcsm_mft_positions(node);
             position++) {
            node->mft[position * mlids + index] = ports[i][position / 4] >> position % 4 * 16;
        }
    }
}

void mcsm_sm_multicast_tables(struct mcsm_sm *sm)
{
    const struct mcsm_fabric *fabric = sm->next ? sm->next : sm->fabric;
    uint64_t(*ports)[4] = calloc(fabric->switch_count + 1, sizeof(*ports));
    struct leaves leaves = {.fabric = fabric, .graph = sm->graph};
    size_t joints;

    if (ports == NULL || sm->tree == NULL || sm->tree->count != fabric->switch_count) {
        free(ports);
        return;
    }
    add_joints(sm, &leaves);
    joints = leaves.count;
    mcsm_tree_cut(sm->tree, leaves.list, joints, ports);
    for (unsigned i = 0; i < sm->config->mlids; i++) {
        store(fabric, sm->config->mlids, i, ports);
    }
    for (unsigned i = 0; i < sm->config->mlids; i++) {
        leaves.count = joints;
        if (sm->events.members != NULL) {
            sm->events.members(sm->events.arg, MCSM_MLID_MIN + i, add_member, &leaves);
        }
        if (leaves.count == joints) {
            continue;
        }
        mcsm_tree_cut(sm->tree, leaves.list, leaves.count, ports);
        store(fabric, sm->config->mlids, i, ports);
    }
    free(leaves.list);
    free(ports);
}
