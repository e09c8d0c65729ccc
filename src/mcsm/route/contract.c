#include "contract.h"

#include "deps.h"
#include "lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct work {
    struct mcsm_graph *graph;
    const struct mcsm_contract *contract;
    struct mcsm_deps *deps;
    bool *reached;  /* [entry][channel] */
    bool *feeds;    /* [exit][channel]: a packet goes from the channel to the exit */
    bool *matrix;   /* [entry][exit] */
    int16_t *gates; /* of each port of the graph: its gate, or -1 */
};

static void close_work(struct work *work)
{
    mcsm_deps_free(work->deps);
    free(work->reached);
    free(work->feeds);
    free(work->matrix);
    free(work->gates);
}

static int open_work(struct work *work, const struct mcsm_graph *graph,
                     const struct mcsm_contract *contract)
{
    size_t n = contract->count, links = graph->links + 1;

    *work = (struct work){.graph = (struct mcsm_graph *)graph, .contract = contract};
    work->reached = calloc(n * links + 1, sizeof(bool));
    work->feeds = calloc(n * links + 1, sizeof(bool));
    work->matrix = calloc(n * n + 1, sizeof(bool));
    work->gates = malloc(links * sizeof(*work->gates));
    if (!work->reached || !work->feeds || !work->matrix || !work->gates) {
        close_work(work);
        return -ENOMEM;
    }
    memset(work->gates, -1, links * sizeof(*work->gates));
    for (size_t i = 0; i < n; i++) {
        work->gates[graph->sw[contract->gates[i].sw].first_link + contract->gates[i].port] = i;
    }
    return 0;
}

static bool may_enter(const struct mcsm_contract *contract, const struct mcsm_gate *gate,
                      unsigned lid)
{
    int cluster = contract->cluster[lid];

    return gate->entry &&
           (cluster < 0 || contract->enters[gate->neighbour * contract->clusters + cluster]);
}

/* Whether hosts at the switch, or packets that come in there, go to the LID of another cluster. */
static bool sends(const struct work *work, int sw, unsigned lid)
{
    const struct mcsm_contract *contract = work->contract;

    if (work->graph->sw[sw].hosts > work->graph->sw[sw].entering) {
        return true;
    }
    for (size_t g = 0; g < contract->count; g++) {
        if (contract->gates[g].sw == sw && may_enter(contract, &contract->gates[g], lid)) {
            return true;
        }
    }
    return false;
}

/* The direct successors of an entry: the channels and exits of the LIDs that may enter by it. */
static void enter(struct work *work, size_t e)
{
    const struct mcsm_graph *graph = work->graph;
    const struct mcsm_gate *gate = &work->contract->gates[e];
    const struct mcsm_gswitch *sw = &graph->sw[gate->sw];
    bool *reached = work->reached + e * graph->links;

    for (size_t i = 0; i < graph->target_count; i++) {
        unsigned lid = graph->targets[i].lid;
        uint8_t port = sw->lft[lid];

        if (port == 0 || port > sw->nports || !may_enter(work->contract, gate, lid)) {
            continue;
        }
        if (work->gates[sw->first_link + port] >= 0) {
            work->matrix[e * work->contract->count + work->gates[sw->first_link + port]] = true;
        } else if (sw->ports[port].peer >= 0) {
            reached[sw->first_link + port] = true;
        }
    }
}

/* The channels from which packets to other clusters leave by an exit. */
static void find_feeds(struct work *work, unsigned *stamp)
{
    const struct mcsm_graph *graph = work->graph;

    memset(stamp, 0, graph->count * sizeof(*stamp));
    for (size_t i = 0; i < graph->target_count; i++) {
        const struct mcsm_target *target = &graph->targets[i];

        for (int source = 0; source < graph->count && target->foreign; source++) {
            int at = source, channel = -1;

            for (bool seen = graph->sw[source].hosts == 0; !seen;) {
                uint8_t port = graph->sw[at].lft[target->lid];
                int out = graph->sw[at].first_link + port;

                if (port == 0 || port > graph->sw[at].nports) {
                    break;
                }
                if (work->gates[out] >= 0 && channel >= 0) {
                    work->feeds[work->gates[out] * (size_t)graph->links + channel] = true;
                }
                if (graph->sw[at].ports[port].peer < 0) {
                    break;
                }
                seen = stamp[at] == target->lid;
                stamp[at] = target->lid;
                channel = out;
                at = graph->sw[at].ports[port].peer;
            }
        }
    }
}

static bool hands_on(const struct mcsm_contract *contract, size_t g)
{
    return contract->gates[g].joint && (contract->closed == NULL || !contract->closed[g]);
}

/* Groups on lane 0: from a joint over the whole tree, and to all other joints. */
static int add_groups(struct work *work)
{
    const struct mcsm_contract *contract = work->contract;
    const struct mcsm_tree *tree = contract->tree;
    const struct mcsm_graph *graph = work->graph;
    bool *used = calloc(graph->count + 1, sizeof(*used));

    if (used == NULL) {
        return -ENOMEM;
    }
    mcsm_tree_used(graph, tree, used);
    for (int i = 1; i < tree->reached; i++) {
        int at = tree->order[i], parent = tree->parent[at];
        int up = graph->sw[at].first_link + tree->up[at];
        int down = graph->sw[parent].first_link + tree->down[at];

        for (size_t g = 0; g < contract->count; g++) {
            const struct mcsm_gate *gate = &contract->gates[g];

            if (!gate->joint || !used[at]) {
                continue;
            }
            if (gate->sw == at) {
                work->reached[g * graph->links + up] = true;
                work->feeds[g * graph->links + down] |= hands_on(contract, g);
            } else if (gate->sw == parent) {
                work->reached[g * graph->links + down] = true;
                work->feeds[g * graph->links + up] |= hands_on(contract, g);
            }
        }
    }
    for (size_t e = 0; e < contract->count; e++) {
        for (size_t f = 0; f < contract->count; f++) {
            if (e != f && contract->gates[e].joint && hands_on(contract, f)) {
                work->matrix[e * contract->count + f] = true;
            }
        }
    }
    free(used);
    return 0;
}

static int compute(struct work *work)
{
    const struct mcsm_contract *contract = work->contract;
    const struct mcsm_graph *graph = work->graph;
    size_t n = contract->count;
    unsigned *stamp = malloc((graph->count + 1) * sizeof(*stamp));
    int status;

    mcsm_deps_free(work->deps);
    work->deps = mcsm_deps_new(graph);
    if (stamp == NULL || work->deps == NULL) {
        free(stamp);
        return -ENOMEM;
    }
    memset(work->reached, 0, n * graph->links * sizeof(bool));
    memset(work->feeds, 0, n * graph->links * sizeof(bool));
    memset(work->matrix, 0, n * n * sizeof(bool));
    status = mcsm_deps_note_unicast(work->deps, 0);
    if (status == 0 && contract->tree != NULL) {
        status = mcsm_lanes_note_tree(work->deps, graph, contract->tree);
    }
    if (status == 0 && contract->tree != NULL) {
        status = add_groups(work);
    }
    find_feeds(work, stamp);
    for (size_t e = 0; e < n && status == 0; e++) {
        bool *reached = work->reached + e * graph->links;

        enter(work, e);
        mcsm_deps_reach(work->deps, reached);
        for (size_t f = 0; f < n; f++) {
            const bool *feeds = work->feeds + f * graph->links;

            for (int c = 0; c < graph->links && !work->matrix[e * n + f]; c++) {
                work->matrix[e * n + f] = reached[c] && feeds[c];
            }
        }
    }
    free(stamp);
    return status;
}

int mcsm_contract_matrix(const struct mcsm_graph *graph, const struct mcsm_contract *contract,
                         bool *matrix)
{
    struct work work;
    int status = open_work(&work, graph, contract);

    if (status < 0) {
        return status;
    }
    status = compute(&work);
    if (status == 0) {
        memcpy(matrix, work.matrix, contract->count * contract->count * sizeof(bool));
    }
    close_work(&work);
    return status;
}

static bool is_kept(const struct work *work)
{
    size_t n = work->contract->count;

    for (size_t i = 0; i < n * n; i++) {
        if (work->matrix[i] && !work->contract->allowed[i]) {
            return false;
        }
    }
    return true;
}

/* Whether a chain from an entry that may not lead to the exit goes over the channel. */
static bool is_tainted(const struct work *work, int channel, size_t f)
{
    size_t n = work->contract->count;

    for (size_t e = 0; e < n; e++) {
        if (work->reached[e * work->graph->links + channel] &&
            !work->contract->allowed[e * n + f]) {
            return true;
        }
    }
    return false;
}

static bool is_tainted_for(const struct work *work, int channel, int neighbour)
{
    for (size_t f = 0; f < work->contract->count; f++) {
        if (work->contract->gates[f].transit && work->contract->gates[f].neighbour == neighbour &&
            is_tainted(work, channel, f)) {
            return true;
        }
    }
    return false;
}

static void clear_foreign(struct mcsm_graph *graph, const struct mcsm_contract *contract,
                          int neighbour)
{
    for (size_t i = 0; i < graph->target_count; i++) {
        unsigned lid = graph->targets[i].lid;

        for (int k = 0; k < graph->count && contract->via[lid] == neighbour; k++) {
            graph->sw[k].lft[lid] = MCSM_DROP;
        }
    }
}

/* ---- new routes to the exits of a neighbour ---- */

struct grower {
    struct work *work;
    int neighbour;
    int *order, count; /* switches that have a route, nearest to an exit first */
    int *port;         /* of each switch: its port towards an exit; -1: none yet; 0: at an exit */
    bool *ahead;       /* for each channel: whether it follows the current channel */
};

static bool is_exit(const struct grower *grower, size_t f, int sw)
{
    const struct mcsm_gate *gate = &grower->work->contract->gates[f];

    return gate->transit && gate->neighbour == grower->neighbour && gate->sw == sw;
}

/* Whether packets that come in by the entry use the routes that grow now. */
static bool uses(const struct grower *grower, size_t e)
{
    const struct mcsm_contract *contract = grower->work->contract;
    const struct mcsm_target *targets = grower->work->graph->targets;

    for (size_t i = 0; i < grower->work->graph->target_count; i++) {
        if (contract->via[targets[i].lid] == grower->neighbour &&
            may_enter(contract, &contract->gates[e], targets[i].lid)) {
            return true;
        }
    }
    return false;
}

/* Marks in grower->ahead all channels that follow the channel into `at`. */
static void look_ahead(struct grower *grower, int at)
{
    const struct mcsm_graph *graph = grower->work->graph;

    memset(grower->ahead, 0, graph->links * sizeof(bool));
    if (grower->port[at] == 0) {
        return;
    }
    grower->ahead[graph->sw[at].first_link + grower->port[at]] = true;
    mcsm_deps_reach(grower->work->deps, grower->ahead);
}

/* Whether an exit can be reached from the channels ahead, or from the switch `at` itself. */
static bool leads_to(const struct grower *grower, size_t f, int at)
{
    const struct work *work = grower->work;
    const bool *feeds = work->feeds + f * work->graph->links;

    if (grower->port[at] == 0 && is_exit(grower, f, at)) {
        return true;
    }
    for (int c = 0; c < work->graph->links; c++) {
        if (grower->ahead[c] && feeds[c]) {
            return true;
        }
    }
    return false;
}

/* Returns whether the entry leads to the channel, now or because packets of the entry use it. */
static bool comes_from(const struct grower *grower, size_t e, int from, int channel)
{
    const struct work *work = grower->work;

    return work->reached[e * work->graph->links + channel] ||
           (work->contract->gates[e].sw == from && uses(grower, e));
}

/* Gives the switch `from` a route over its channel into `at`, if that closes no circle and no entry
 * comes to a forbidden exit. */
static bool extend(struct grower *grower, int from, uint8_t port, int at)
{
    struct work *work = grower->work;
    const struct mcsm_contract *contract = work->contract;
    int channel = work->graph->sw[from].first_link + port;
    size_t n = contract->count;

    look_ahead(grower, at);
    if (grower->ahead[channel]) {
        return false;
    }
    for (size_t f = 0; f < n; f++) {
        if (!leads_to(grower, f, at)) {
            continue;
        }
        for (size_t e = 0; e < n; e++) {
            if (!contract->allowed[e * n + f] && comes_from(grower, e, from, channel)) {
                return false;
            }
        }
    }
    for (size_t e = 0; e < n; e++) {
        bool *reached = work->reached + e * work->graph->links;

        if (!comes_from(grower, e, from, channel)) {
            continue;
        }
        reached[channel] = true;
        for (int c = 0; c < work->graph->links; c++) {
            reached[c] |= grower->ahead[c];
        }
    }
    if (grower->port[at] != 0) {
        mcsm_deps_note(work->deps, channel, work->graph->sw[at].first_link + grower->port[at]);
    }
    for (size_t f = 0; f < n; f++) {
        if (grower->port[at] == 0 && is_exit(grower, f, at)) {
            work->feeds[f * work->graph->links + channel] = true;
        }
    }
    grower->port[from] = port;
    grower->order[grower->count++] = from;
    return true;
}

static void grow(struct grower *grower)
{
    const struct mcsm_graph *graph = grower->work->graph;

    for (int i = 0; i < graph->count; i++) {
        grower->port[i] = -1;
    }
    for (size_t f = 0; f < grower->work->contract->count; f++) {
        int sw = grower->work->contract->gates[f].sw;

        if (is_exit(grower, f, sw) && grower->port[sw] < 0) {
            grower->port[sw] = 0;
            grower->order[grower->count++] = sw;
        }
    }
    for (int head = 0; head < grower->count; head++) {
        int at = grower->order[head];

        for (int p = 1; p <= graph->sw[at].nports; p++) {
            const struct mcsm_gport *link = &graph->sw[at].ports[p];

            if (link->peer >= 0 && grower->port[link->peer] < 0) {
                extend(grower, link->peer, link->peer_port, at);
            }
        }
    }
}

/* A gate of the switch to the neighbour, by turns for the LIDs. Only for a switch to which grow() gave
 * port 0: such a switch has a gate. */
static uint8_t gate_of(const struct mcsm_contract *contract, int sw, int neighbour, unsigned lid)
{
    uint8_t ports[256];
    unsigned n = 0;

    for (size_t f = 0; f < contract->count && n < 256; f++) {
        if (contract->gates[f].sw == sw && contract->gates[f].neighbour == neighbour &&
            contract->gates[f].transit) {
            ports[n++] = contract->gates[f].port;
        }
    }
    return ports[lid % n];
}

static int route_again(struct work *work, int neighbour)
{
    struct mcsm_graph *graph = work->graph;
    size_t n = graph->count + 1;
    struct grower grower = {.work = work,
                            .neighbour = neighbour,
                            .order = malloc(n * sizeof(int)),
                            .port = malloc(n * sizeof(int)),
                            .ahead = malloc(graph->links + 1)};
    int status = grower.order && grower.port && grower.ahead ? 0 : -ENOMEM;

    if (status == 0) {
        grow(&grower);
    }
    for (size_t i = 0; status == 0 && i < graph->target_count; i++) {
        unsigned lid = graph->targets[i].lid;

        if (work->contract->via[lid] != neighbour) {
            continue;
        }
        for (int k = 0; k < grower.count; k++) {
            int at = grower.order[k];

            graph->sw[at].lft[lid] = grower.port[at] == 0 ?
                                         gate_of(work->contract, at, neighbour, lid) :
                                         grower.port[at];
        }
    }
    free(grower.order);
    free(grower.port);
    free(grower.ahead);
    return status;
}

/* Removes routes over tainted channels. Returns how many it removed. */
static unsigned drop_tainted(struct work *work)
{
    struct mcsm_graph *graph = work->graph;
    unsigned dropped = 0;

    for (size_t i = 0; i < graph->target_count; i++) {
        const struct mcsm_target *target = &graph->targets[i];

        for (int k = 0; k < graph->count && target->foreign; k++) {
            struct mcsm_gswitch *sw = &graph->sw[k];
            uint8_t port = sw->lft[target->lid];

            if (port == MCSM_DROP || port == 0 || port > sw->nports || sw->ports[port].peer < 0) {
                continue;
            }
            if (is_tainted_for(work, sw->first_link + port, work->contract->via[target->lid])) {
                sw->lft[target->lid] = MCSM_DROP;
                dropped++;
            }
        }
    }
    return dropped;
}

/* Closes an exit if an entry of the same switch leads to the exit directly and the pair is
 * forbidden. Then the neighbour's configuration sends packets that this side forbids. */
static unsigned close_exits(struct work *work)
{
    struct mcsm_graph *graph = work->graph;
    const struct mcsm_contract *contract = work->contract;
    unsigned closed = 0;

    for (size_t i = 0; i < contract->count * contract->count; i++) {
        const struct mcsm_gate *gate = &contract->gates[i % contract->count];
        uint8_t *lft = graph->sw[gate->sw].lft;

        if (!work->matrix[i] || contract->allowed[i]) {
            continue;
        }
        for (size_t k = 0; k < graph->target_count; k++) {
            if (graph->targets[k].foreign && lft[graph->targets[k].lid] == gate->port) {
                lft[graph->targets[k].lid] = MCSM_DROP;
                closed++;
            }
        }
    }
    return closed;
}

static void count_left_out(const struct work *work, struct mcsm_contract_result *result)
{
    const struct mcsm_graph *graph = work->graph;

    for (size_t i = 0; i < graph->target_count; i++) {
        const struct mcsm_target *target = &graph->targets[i];

        for (int k = 0; k < graph->count && target->foreign; k++) {
            int at = k, steps = 0;

            if (!sends(work, k, target->lid)) {
                continue;
            }
            while (steps++ <= graph->count) {
                uint8_t port = graph->sw[at].lft[target->lid];

                if (port == MCSM_DROP) {
                    result->left_out++;
                    result->example_sw = k;
                    result->example_lid = target->lid;
                    break;
                }
                if (graph->sw[at].ports[port].peer < 0) {
                    break;
                }
                at = graph->sw[at].ports[port].peer;
            }
        }
    }
}

/* Whether a switch with sources has no route to another cluster, although an exit is open. */
static bool misses_routes(const struct work *work)
{
    const struct mcsm_graph *graph = work->graph;

    for (size_t i = 0; i < graph->target_count; i++) {
        unsigned lid = graph->targets[i].lid;

        for (int k = 0; k < graph->count && graph->targets[i].foreign; k++) {
            if (graph->sw[k].lft[lid] == MCSM_DROP && sends(work, k, lid)) {
                return true;
            }
        }
    }
    return false;
}

/* Counts the LIDs of switches that packets from a border switch do not reach. */
static unsigned count_hidden(const struct mcsm_graph *graph)
{
    unsigned hidden = 0;

    for (size_t i = 0; i < graph->target_count; i++) {
        for (int k = 0; k < graph->count && graph->targets[i].port == 0; k++) {
            hidden +=
                graph->sw[k].entering > 0 && graph->sw[k].lft[graph->targets[i].lid] == MCSM_DROP;
        }
    }
    return hidden;
}

static int route_all_again(struct work *work)
{
    const struct mcsm_contract *contract = work->contract;
    int status;

    for (size_t i = 0; i < contract->clusters; i++) {
        clear_foreign(work->graph, contract, i);
    }
    status = compute(work);
    for (size_t i = 0; i < contract->clusters && status == 0; i++) {
        status = route_again(work, i);
    }
    if (status == 0) {
        status = compute(work);
    }
    while (status == 0 && !is_kept(work)) {
        unsigned changed = drop_tainted(work);

        if (changed == 0 && close_exits(work) == 0) {
            break; /* not with closed joints: no packet leaves any more */
        }
        status = compute(work);
    }
    return status;
}

/* Opens each joint again that does not exceed the contract. */
static int open_joints(struct work *work, unsigned *closed_p)
{
    const struct mcsm_contract *contract = work->contract;
    int status = 0;

    for (size_t g = 0; g < contract->count && status == 0; g++) {
        if (!contract->closed[g]) {
            continue;
        }
        contract->closed[g] = false;
        status = compute(work);
        contract->closed[g] = !is_kept(work);
        *closed_p += contract->closed[g];
    }
    return status;
}

int mcsm_contract_keep(struct mcsm_graph *graph, const struct mcsm_contract *contract,
                       struct mcsm_contract_result *result)
{
    struct work work;
    int status = open_work(&work, graph, contract);

    memset(result, 0, sizeof(*result));
    if (status < 0) {
        return status;
    }
    result->hidden = count_hidden(graph);
    status = compute(&work);
    if (status < 0 || (is_kept(&work) && !misses_routes(&work))) {
        close_work(&work);
        return status;
    }
    result->broken = true;
    for (size_t g = 0; g < contract->count && contract->tree != NULL && contract->closed; g++) {
        contract->closed[g] = contract->gates[g].joint;
    }
    status = route_all_again(&work);
    if (status == 0 && contract->tree != NULL && contract->closed) {
        status = open_joints(&work, &result->closed);
    }
    if (status == 0) {
        count_left_out(&work, result);
    }
    close_work(&work);
    return status;
}
