/*
 * Follows the packets of all sources to every LID. A switch has one next hop for a LID, so the
 * switches form a forest. The walk visits each switch once, for any number of sources.
 */
#include "model.h"

#include "route/deps.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { UNKNOWN = -1, ON_THE_WAY = -2, CIRCLE = -3, LOST = -4 };

struct verifier {
    struct check_model *model;
    struct check_report *report;
    FILE *out;
    int *peers;
    int *sources; /* the switches with end nodes */
    int source_count;
    uint8_t *columns;
    int *hops; /* of each switch: steps to the LID, or one of the above */
    int *stack;
    int *order; /* switches with a route to the LID; the next hop of a switch precedes the switch */
    int order_count;
    uint64_t *flow;
    unsigned shown[8];
};

/* A LID, and the switch port behind which it is. */
struct place {
    unsigned lid;
    int sw;
    uint8_t port;
    const uint8_t *column; /* the LID's port in each switch's table */
};

static bool show(struct verifier *verifier, int kind)
{
    return verifier->out != NULL && verifier->shown[kind]++ < CHECK_SHOWN;
}

/* Returns the next switch on the route to a LID. UNKNOWN: the packet has arrived. LOST: the route
 * ends here. */
static int next_switch(const struct verifier *verifier, int at, const struct place *to)
{
    const struct mcsm_gswitch *sw = &verifier->model->graph->sw[at];
    uint8_t out = to->column[at];

    if (at == to->sw && out == to->port) {
        return UNKNOWN;
    }
    if (out == 0 || out > sw->nports || verifier->peers[sw->first_link + out] < 0) {
        return LOST;
    }
    return verifier->peers[sw->first_link + out];
}

static void walk(struct verifier *verifier, int from, const struct place *to)
{
    int *hops = verifier->hops, depth = 0, at = from, result;

    while (hops[at] == UNKNOWN) {
        int next = next_switch(verifier, at, to);

        if (next < 0) {
            hops[at] = next == LOST ? LOST : 0;
            break;
        }
        hops[at] = ON_THE_WAY;
        verifier->stack[depth++] = at;
        at = next;
    }
    result = hops[at] == ON_THE_WAY ? CIRCLE : hops[at];
    while (depth > 0) {
        at = verifier->stack[--depth];
        if (result >= 0) {
            result++;
            verifier->order[verifier->order_count++] = at;
        }
        hops[at] = result;
    }
}

static void show_fault(struct verifier *verifier, int from, unsigned lid)
{
    const struct check_model *model = verifier->model;
    bool circle = verifier->hops[from] == CIRCLE;
    const struct check_node *to = check_find(model, model->lid_owner[lid]);
    unsigned hop = 0;
    int at = from;

    if (!show(verifier, circle)) {
        return;
    }
    fprintf(verifier->out, "%s: from %s to LID %u (%s)", circle ? "loop" : "lost",
            model->switches[from]->desc, lid, to ? to->desc : "?");
    while (hop++ < 16) {
        const struct mcsm_gswitch *sw = &model->graph->sw[at];
        uint8_t out = sw->lft ? sw->lft[lid] : MCSM_DROP;

        if (out == MCSM_DROP) {
            fprintf(verifier->out, ": %s has no route", model->switches[at]->desc);
            break;
        }
        if (out > sw->nports || out == 0 || sw->ports[out].peer < 0) {
            fprintf(verifier->out, ": port %u of %s leads nowhere", out, model->switches[at]->desc);
            break;
        }
        fprintf(verifier->out, " > %s/%u", model->switches[at]->desc, out);
        at = sw->ports[out].peer;
    }
    fputc('\n', verifier->out);
}

/* Every switch forwards its load to the next switch, the farthest switch first. */
static void add_load(struct verifier *verifier, const struct place *to)
{
    const struct mcsm_graph *graph = verifier->model->graph;
    uint64_t *flow = verifier->flow;

    for (int i = 0; i < verifier->order_count; i++) {
        flow[verifier->order[i]] = graph->sw[verifier->order[i]].hosts;
    }
    for (int i = verifier->order_count - 1; i >= 0; i--) {
        int at = verifier->order[i], link = graph->sw[at].first_link + to->column[at];

        if (flow[at] == 0) {
            continue;
        }
        graph->load[link] += flow[at];
        flow[verifier->peers[link]] += flow[at];
    }
}

/* Whether the contract of the borders may be the reason of a loss: the packet of a host comes in at a border
 * switch of the target's cluster, the target is a switch, and the border switch has no entry for its LID. */
static bool is_hidden(struct verifier *verifier, int from, const struct place *to)
{
    const struct check_model *model = verifier->model;
    const struct check_node *target = check_find(model, model->lid_owner[to->lid]);
    bool comes_in = false;
    int at = from;

    for (int next = next_switch(verifier, at, to); next >= 0;
         next = next_switch(verifier, at, to)) {
        comes_in = model->switches[at]->cluster != model->switches[next]->cluster;
        at = next;
    }
    return target->sw && comes_in && model->switches[at]->cluster == target->cluster &&
           to->column[at] == MCSM_DROP;
}

static void count_pairs(struct verifier *verifier, int from, const struct place *to, uint64_t pairs)
{
    struct check_report *report = verifier->report;
    int hops = verifier->hops[from];
    unsigned passed = hops + 1; /* switches */

    if (hops == LOST && is_hidden(verifier, from, to)) {
        report->hidden += pairs;
        return;
    }
    report->pairs += pairs;
    if (hops < 0) {
        *(hops == CIRCLE ? &report->loops : &report->lost) += pairs;
        show_fault(verifier, from, to->lid);
        return;
    }
    report->reachable += pairs;
    report->hops_sum += pairs * passed;
    report->by_hops[passed < 255 ? passed : 255] += pairs;
    if (passed > report->hops_max) {
        report->hops_max = passed;
    }
}

/* All pairs with this LID as destination. The node of the LID is at a switch. */
static void verify_lid(struct verifier *verifier, const struct check_node *node,
                       const struct place *to)
{
    const struct check_model *model = verifier->model;

    for (int i = 0; i < model->switch_count; i++) {
        verifier->hops[i] = UNKNOWN;
    }
    verifier->order_count = 0;
    for (int i = 0; i < verifier->source_count; i++) {
        int from = verifier->sources[i];
        uint64_t pairs = model->switches[from]->hosts;

        walk(verifier, from, to);
        if (!node->sw && from == to->sw) {
            pairs--; /* the node itself is no source */
        }
        if (pairs > 0) {
            count_pairs(verifier, from, to, pairs);
        }
    }
    if (!node->sw) {
        add_load(verifier, to);
    }
}

static void sum_loads(struct verifier *verifier)
{
    const struct mcsm_graph *graph = verifier->model->graph;
    struct check_report *report = verifier->report;

    for (int i = 0; i < graph->links; i++) {
        report->loaded_links += graph->load[i] > 0;
        report->load_sum += graph->load[i];
        if (graph->load[i] > report->max_load) {
            report->max_load = graph->load[i];
            report->max_load_link = i;
        }
    }
}

/* ---- multicast: the ports of an MLID must form a forest ---- */

static int root_of(int *parent, int i)
{
    while (parent[i] != i) {
        i = parent[i] = parent[parent[i]];
    }
    return i;
}

static int by_mlid(const void *a, const void *b)
{
    const struct check_mft *x = a, *y = b;

    return x->mlid != y->mlid ? x->mlid - y->mlid : x->guid < y->guid ? -1 : x->guid > y->guid;
}

static const struct check_mft *find_mft(const struct check_mft *from, const struct check_mft *end,
                                        uint64_t guid)
{
    while (from < end && from->guid != guid) {
        from++;
    }
    return from < end ? from : NULL;
}

static bool has_port(const struct check_mft *mft, uint8_t port)
{
    return mft != NULL && (mft->ports[port / 64] >> port % 64 & 1);
}

/* The entries from..end are of one MLID. `parent` is of all switches. */
static void verify_group(struct verifier *verifier, const struct check_mft *from,
                         const struct check_mft *end, int *parent)
{
    const struct check_model *model = verifier->model;

    verifier->report->groups++;
    for (int i = 0; i < model->switch_count; i++) {
        parent[i] = i;
    }
    for (const struct check_mft *mft = from; mft < end; mft++) {
        const struct check_node *node = check_find(model, mft->guid);

        for (int p = 1; node != NULL && node->sw && p <= node->nports; p++) {
            int peer = model->graph->sw[node->index].ports[p].peer, a, b;
            uint8_t peer_port = model->graph->sw[node->index].ports[p].peer_port;

            if (!has_port(mft, p) || peer < 0 || peer < node->index) {
                continue;
            }
            if (!has_port(find_mft(from, end, model->switches[peer]->guid), peer_port)) {
                verifier->report->multicast_cut++;
                if (show(verifier, 2)) {
                    fprintf(verifier->out,
                            "multicast: group 0x%04x goes from %s to %s, but not back\n", mft->mlid,
                            node->desc, model->switches[peer]->desc);
                }
                continue;
            }
            a = root_of(parent, node->index);
            b = root_of(parent, peer);
            if (a == b) {
                verifier->report->multicast_loops++;
                if (show(verifier, 3)) {
                    fprintf(verifier->out,
                            "multicast: group 0x%04x goes in a circle over %s port %d\n", mft->mlid,
                            node->desc, p);
                }
            }
            parent[a] = b;
        }
    }
}

static int verify_multicast(struct verifier *verifier)
{
    struct check_model *model = verifier->model;
    int *parent = calloc(model->switch_count + 1, sizeof(*parent));

    if (parent == NULL) {
        return -ENOMEM;
    }
    if (model->mft_count > 0) {
        qsort(model->mfts, model->mft_count, sizeof(*model->mfts), by_mlid);
    }
    for (size_t from = 0, to; from < model->mft_count; from = to) {
        for (to = from; to < model->mft_count && model->mfts[to].mlid == model->mfts[from].mlid;
             to++) {
            continue;
        }
        verify_group(verifier, model->mfts + from, model->mfts + to, parent);
    }
    free(parent);
    return 0;
}

static void verify_borders(struct verifier *verifier)
{
    const struct check_model *model = verifier->model;

    for (size_t i = 0; i < model->border_count; i++) {
        const struct check_border *border = &model->borders[i];
        const struct check_node *node = check_find(model, border->guid);

        if (check_find(model, border->peer_guid) != NULL && node != NULL &&
            model->graph->sw[node->index].ports[border->port].peer >= 0) {
            continue;
        }
        verifier->report->one_sided_borders++;
        if (show(verifier, 4)) {
            fprintf(verifier->out, "border: port %u of 0x%016lx is known to cluster %s only\n",
                    border->port, border->guid, model->clusters[border->cluster]);
        }
    }
}

/* The dependencies that the groups of all clusters add. */
static int note_groups(struct mcsm_deps *deps, const void *arg)
{
    const struct check_model *model = arg;

    for (size_t i = 0; i < model->mft_count; i++) {
        const struct check_node *node = check_find(model, model->mfts[i].guid);

        if (node != NULL && node->sw) {
            mcsm_deps_note_multicast(deps, node->index, model->mfts[i].ports);
        }
    }
    return 0;
}

/*
 * Finds circles of links. Full links of a circle wait for each other until their packets are
 * dropped.
 */
static int verify_credits(struct verifier *verifier)
{
    const struct check_model *model = verifier->model;
    int circle[CHECK_SHOWN];
    int length = mcsm_deps_search(model->graph, note_groups, model, model->multicast_sl > 0, circle,
                                  CHECK_SHOWN);

    if (length < 0) {
        return length;
    }
    verifier->report->credit_loop = length;
    if (length == 0 || verifier->out == NULL) {
        return 0;
    }
    fprintf(verifier->out, "credit loop over %d links:", length);
    for (int i = 0; i < length && i < CHECK_SHOWN; i++) {
        int owner = mcsm_graph_owner(model->graph, circle[i]);

        fprintf(verifier->out, " > %s/%d", model->switches[owner]->desc,
                circle[i] - model->graph->sw[owner].first_link);
    }
    fputc('\n', verifier->out);
    return 0;
}

/* ---- all of it ---- */

/* Finds the node with this LID, and its place; NULL if no connected node has the LID. */
static const struct check_node *find_place(const struct check_model *model, unsigned lid,
                                           struct place *to)
{
    const struct check_node *node =
        model->lid_owner[lid] ? check_find(model, model->lid_owner[lid]) : NULL;

    if (node == NULL || (!node->sw && node->attached < 0)) {
        return NULL;
    }
    to->lid = lid;
    to->sw = node->sw ? node->index : node->attached;
    to->port = node->sw ? 0 : node->port;
    return node;
}

static int verify_unicast(struct verifier *verifier)
{
    struct check_model *model = verifier->model;
    struct place to;

    memset(model->graph->load, 0, model->graph->links * sizeof(uint64_t));
    for (unsigned first = 0; first < MCSM_LFT_SIZE; first += MCSM_COLUMNS) {
        mcsm_columns(model->graph, first, MCSM_COLUMNS, verifier->columns);
        for (unsigned k = 0; k < MCSM_COLUMNS; k++) {
            const struct check_node *node = find_place(model, first + k, &to);

            if (node == NULL) {
                continue;
            }
            to.column = verifier->columns + (size_t)k * model->switch_count;
            verify_lid(verifier, node, &to);
            if (!node->sw && mcsm_graph_target(model->graph, to.sw, to.port, to.lid, false) < 0) {
                return -ENOMEM;
            }
        }
    }
    sum_loads(verifier);
    return 0;
}

static int verify(struct verifier *verifier)
{
    struct check_model *model = verifier->model;
    int status;

    for (int i = 0; i < model->switch_count; i++) {
        if (model->switches[i]->hosts > 0) {
            verifier->sources[verifier->source_count++] = i;
        }
    }
    status = verify_unicast(verifier);
    status = status < 0 ? status : verify_credits(verifier);
    if (status < 0) {
        return status;
    }
    verify_borders(verifier);
    return verify_multicast(verifier);
}

int check_verify(struct check_model *model, struct check_report *report, FILE *out)
{
    size_t n = model->switch_count + 1;
    struct verifier verifier = {.model = model, .report = report, .out = out};
    struct timespec start, end;
    int status = -ENOMEM;

    memset(report, 0, sizeof(*report));
    report->lid_conflicts = model->lid_conflicts;
    clock_gettime(CLOCK_MONOTONIC, &start);
    verifier.peers = mcsm_peers(model->graph);
    verifier.sources = malloc(n * sizeof(int));
    verifier.columns = malloc(n * MCSM_COLUMNS);
    verifier.hops = malloc(n * sizeof(int));
    verifier.stack = malloc(n * sizeof(int));
    verifier.order = malloc(n * sizeof(int));
    verifier.flow = calloc(n, sizeof(uint64_t));
    if (verifier.peers && verifier.sources && verifier.columns && verifier.hops && verifier.stack &&
        verifier.order && verifier.flow) {
        status = verify(&verifier);
    }
    free(verifier.peers);
    free(verifier.sources);
    free(verifier.columns);
    free(verifier.hops);
    free(verifier.stack);
    free(verifier.order);
    free(verifier.flow);
    clock_gettime(CLOCK_MONOTONIC, &end);
    report->seconds = end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9;
    return status;
}

bool check_is_good(const struct check_report *report)
{
    return report->reachable == report->pairs && report->lid_conflicts == 0 &&
           report->one_sided_borders == 0 && report->multicast_loops == 0 &&
           report->multicast_cut == 0;
}
