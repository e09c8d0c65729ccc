#include "placement.h"

#include <stdlib.h>
#include <string.h>
#include <scotch.h>

enum { MAX_PASSES = 20, MAX_WEIGHT = 1000000 };

/* A proposal has to save so much of the cost. */
#define WORTH_IT 0.01

struct place {
    const struct cm_topology *topology;
    const struct cm_rank_graph *graph;
};

/* ---- the graph ------------------------------------------------------------------------------- */

static int compare_edges(const void *a, const void *b)
{
    const struct cm_rank_edge *x = a, *y = b;

    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x->to == y->to ? 0 : x->to < y->to ? -1 : 1;
}

struct cm_rank_graph cm_rank_graph_make(struct cm_rank_edge *edges, guint num, uint32_t ranks)
{
    struct cm_rank_graph graph = {.ranks = ranks};
    struct cm_rank_edge *both = g_new(struct cm_rank_edge, 2 * (gsize)num + 1);
    uint32_t n = 0, rank = 0, kept = 0;
    guint i;

    for (i = 0; i < num; i++) {
        if (edges[i].from != edges[i].to && edges[i].value > 0) {
            both[n++] = edges[i];
            both[n++] = (struct cm_rank_edge){edges[i].to, edges[i].from, edges[i].value};
        }
    }
    qsort(both, n, sizeof(*both), compare_edges);
    graph.first = g_new0(uint32_t, ranks + 1);
    graph.other = g_new(uint32_t, n + 1);
    graph.weight = g_new(double, n + 1);
    for (i = 0; i < n; i++) {
        if (i > 0 && compare_edges(&both[i], &both[i - 1]) == 0) {
            graph.weight[kept - 1] += both[i].value;
            continue;
        }
        while (rank < both[i].from) {
            graph.first[++rank] = kept;
        }
        graph.other[kept] = both[i].to;
        graph.weight[kept++] = both[i].value;
    }
    while (rank < ranks) {
        graph.first[++rank] = kept;
    }
    g_free(both);
    return graph;
}

void cm_rank_graph_free(struct cm_rank_graph *graph)
{
    g_free(graph->first);
    g_free(graph->other);
    g_free(graph->weight);
}

/* ---- cost ------------------------------------------------------------------------------------ */

static double rank_cost(const struct place *place, const uint32_t *host, uint32_t rank, uint32_t at)
{
    double cost = 0;
    uint32_t i;

    for (i = place->graph->first[rank]; i < place->graph->first[rank + 1]; i++) {
        cost += place->graph->weight[i] *
                cm_topology_distance(place->topology, at, host[place->graph->other[i]]);
    }
    return cost;
}

static double total_cost(const struct place *place, const uint32_t *host)
{
    double cost = 0;
    uint32_t rank;

    for (rank = 0; rank < place->graph->ranks; rank++) {
        cost += rank_cost(place, host, rank, host[rank]);
    }
    return cost / 2; /* each pair stands at both of its ends */
}

static double weight_between(const struct place *place, uint32_t a, uint32_t b)
{
    uint32_t i;

    for (i = place->graph->first[a]; i < place->graph->first[a + 1]; i++) {
        if (place->graph->other[i] == b) {
            return place->graph->weight[i];
        }
    }
    return 0;
}

/* The cost that an exchange of the hosts of two ranks saves. */
static double exchange_gain(const struct place *place, const uint32_t *host, uint32_t a, uint32_t b)
{
    double distance = cm_topology_distance(place->topology, host[a], host[b]);
    double before = rank_cost(place, host, a, host[a]) + rank_cost(place, host, b, host[b]);
    double after = rank_cost(place, host, a, host[b]) + rank_cost(place, host, b, host[a]);

    return before - after - 2 * distance * weight_between(place, a, b);
}

/* Moves ranks to free slots, and exchanges pairs, as long as that saves anything. */
static void improve(const struct place *place, uint32_t *host)
{
    guint hosts = place->topology->hosts->len, h;
    uint32_t *used = g_new0(uint32_t, hosts), a, b, swap;
    bool better = true;
    int pass;

    for (a = 0; a < place->graph->ranks; a++) {
        used[host[a]]++;
    }
    for (pass = 0; pass < MAX_PASSES && better; pass++) {
        better = false;
        for (a = 0; a < place->graph->ranks; a++) {
            double cost = rank_cost(place, host, a, host[a]);

            for (h = 0; h < hosts; h++) {
                if (used[h] <
                        g_array_index(place->topology->hosts, struct cm_topology_host, h).slots &&
                    rank_cost(place, host, a, h) < cost * (1 - 1e-9)) {
                    used[host[a]]--;
                    used[h]++;
                    host[a] = h;
                    cost = rank_cost(place, host, a, h);
                    better = true;
                }
            }
            for (b = a + 1; b < place->graph->ranks; b++) {
                if (host[a] != host[b] && exchange_gain(place, host, a, b) > cost * 1e-9) {
                    swap = host[a];
                    host[a] = host[b];
                    host[b] = swap;
                    better = true;
                }
            }
        }
    }
    g_free(used);
}

/* ---- SCOTCH ---------------------------------------------------------------------------------- */

/* The network as a graph: hosts first, then switches. SCOTCH keeps the arrays while it works. */
struct network {
    SCOTCH_Num *first, *other, *cost, *load, *hosts;
};

/* The links of all hosts to their switches, and those between switches. */
static GArray *network_links(const struct cm_topology *topology)
{
    GArray *links = g_array_new(FALSE, FALSE, sizeof(struct cm_topology_link));
    guint hosts = topology->hosts->len, i;

    for (i = 0; i < hosts; i++) {
        struct cm_topology_link link = {
            i, hosts + g_array_index(topology->hosts, struct cm_topology_host, i).node, 1};

        g_array_append_val(links, link);
    }
    for (i = 0; i < topology->links->len; i++) {
        struct cm_topology_link link = g_array_index(topology->links, struct cm_topology_link, i);

        link.a += hosts;
        link.b += hosts;
        g_array_append_val(links, link);
    }
    return links;
}

static void network_connect(struct network *network, SCOTCH_Num *fill, uint32_t a, uint32_t b,
                            uint32_t cost)
{
    network->other[fill[a]] = (SCOTCH_Num)b;
    network->cost[fill[a]++] = (SCOTCH_Num)cost;
}

static void network_make(struct network *network, const struct cm_topology *topology)
{
    guint hosts = topology->hosts->len, nodes = hosts + topology->switches->len, i;
    GArray *links = network_links(topology);
    SCOTCH_Num *fill = g_new0(SCOTCH_Num, nodes + 1);

    network->first = g_new0(SCOTCH_Num, nodes + 1);
    network->other = g_new(SCOTCH_Num, 2 * links->len);
    network->cost = g_new(SCOTCH_Num, 2 * links->len);
    network->load = g_new(SCOTCH_Num, nodes);
    network->hosts = g_new(SCOTCH_Num, hosts);
    for (i = 0; i < links->len; i++) {
        network->first[g_array_index(links, struct cm_topology_link, i).a + 1]++;
        network->first[g_array_index(links, struct cm_topology_link, i).b + 1]++;
    }
    for (i = 0; i < nodes; i++) {
        network->first[i + 1] += network->first[i];
        fill[i] = network->first[i];
        network->load[i] =
            i < hosts ?
                (SCOTCH_Num)g_array_index(topology->hosts, struct cm_topology_host, i).slots :
                1;
    }
    for (i = 0; i < links->len; i++) {
        const struct cm_topology_link *link = &g_array_index(links, struct cm_topology_link, i);

        network_connect(network, fill, link->a, link->b, link->cost);
        network_connect(network, fill, link->b, link->a, link->cost);
    }
    for (i = 0; i < hosts; i++) {
        network->hosts[i] = (SCOTCH_Num)i;
    }
    g_free(fill);
    g_array_free(links, TRUE);
}

static void network_free(struct network *network)
{
    g_free(network->first);
    g_free(network->other);
    g_free(network->cost);
    g_free(network->load);
    g_free(network->hosts);
}

/* Map the ranks' graph onto an architecture. */
static bool map_ranks(const struct place *place, SCOTCH_Arch *arch, SCOTCH_Num *part)
{
    uint32_t edges = place->graph->first[place->graph->ranks], i;
    SCOTCH_Num *first = g_new(SCOTCH_Num, place->graph->ranks + 1),
               *other = g_new(SCOTCH_Num, edges + 1);
    SCOTCH_Num *weight = g_new(SCOTCH_Num, edges + 1);
    SCOTCH_Graph graph;
    SCOTCH_Strat strategy;
    double most = 1;
    bool ok;

    for (i = 0; i < edges; i++) {
        most = MAX(most, place->graph->weight[i]);
    }
    for (i = 0; i < edges; i++) {
        other[i] = (SCOTCH_Num)place->graph->other[i];
        weight[i] = 1 + (SCOTCH_Num)(place->graph->weight[i] / most * MAX_WEIGHT);
    }
    for (i = 0; i <= place->graph->ranks; i++) {
        first[i] = (SCOTCH_Num)place->graph->first[i];
    }
    SCOTCH_graphInit(&graph);
    SCOTCH_stratInit(&strategy);
    ok = SCOTCH_graphBuild(&graph, 0, (SCOTCH_Num)place->graph->ranks, first, first + 1, NULL, NULL,
                           (SCOTCH_Num)edges, other, weight) == 0 &&
         SCOTCH_graphMap(&graph, arch, &strategy, part) == 0;
    SCOTCH_stratExit(&strategy);
    SCOTCH_graphExit(&graph);
    g_free(first);
    g_free(other);
    g_free(weight);
    return ok;
}

static bool scotch(const struct place *place, SCOTCH_Num *part)
{
    guint hosts = place->topology->hosts->len, nodes = hosts + place->topology->switches->len;
    struct network network;
    SCOTCH_Graph graph;
    SCOTCH_Strat strategy;
    SCOTCH_Arch arch;
    bool ok;

    network_make(&network, place->topology);
    SCOTCH_randomReset(); /* one seed, so equal matrices get equal proposals */
    SCOTCH_graphInit(&graph);
    SCOTCH_stratInit(&strategy);
    SCOTCH_archInit(&arch);
    ok = SCOTCH_graphBuild(&graph, 0, (SCOTCH_Num)nodes, network.first, network.first + 1,
                           network.load, NULL, network.first[nodes], network.other,
                           network.cost) == 0 &&
         SCOTCH_archBuild(&arch, &graph, (SCOTCH_Num)hosts, network.hosts, &strategy) == 0 &&
         map_ranks(place, &arch, part);
    SCOTCH_archExit(&arch);
    SCOTCH_stratExit(&strategy);
    SCOTCH_graphExit(&graph);
    network_free(&network);
    return ok;
}

/* SCOTCH balances the load; slots are a limit. A rank too many goes to the nearest free slot. */
static void respect_slots(const struct place *place, const SCOTCH_Num *part, uint32_t *host)
{
    guint hosts = place->topology->hosts->len, h;
    uint32_t *free_slots = g_new(uint32_t, hosts), rank, wanted, best;
    bool *placed = g_new0(bool, place->graph->ranks + 1);

    for (h = 0; h < hosts; h++) {
        free_slots[h] = g_array_index(place->topology->hosts, struct cm_topology_host, h).slots;
    }
    for (rank = 0; rank < place->graph->ranks; rank++) {
        wanted = (uint32_t)part[rank];
        if (wanted < hosts && free_slots[wanted] > 0) {
            free_slots[wanted]--;
            host[rank] = wanted;
            placed[rank] = true;
        }
    }
    for (rank = 0; rank < place->graph->ranks; rank++) {
        if (placed[rank]) {
            continue;
        }
        wanted = (uint32_t)part[rank] < hosts ? (uint32_t)part[rank] : 0;
        best = UINT32_MAX;
        for (h = 0; h < hosts; h++) {
            if (free_slots[h] > 0 &&
                (best == UINT32_MAX || cm_topology_distance(place->topology, wanted, h) <
                                           cm_topology_distance(place->topology, wanted, best))) {
                best = h;
            }
        }
        host[rank] = best;
        free_slots[best]--;
    }
    g_free(free_slots);
    g_free(placed);
}

bool cm_placement_in_order(const struct cm_topology *topology, uint32_t ranks, uint32_t *host)
{
    uint32_t rank = 0, slot;
    guint h;

    for (h = 0; h < topology->hosts->len; h++) {
        const struct cm_topology_host *node =
            &g_array_index(topology->hosts, struct cm_topology_host, h);

        for (slot = 0; slot < node->slots && rank < ranks; slot++) {
            host[rank++] = h;
        }
    }
    return rank == ranks;
}

/* ---- the proposal ---------------------------------------------------------------------------- */

double cm_placement_cost(const struct cm_rank_graph *graph, const struct cm_topology *topology,
                         const uint32_t *host)
{
    struct place place = {topology, graph};

    return total_cost(&place, host);
}

/* Whether two hosts have equal distances to all hosts: a placement may exchange them. */
static bool are_equal(const struct cm_topology *topology, uint32_t a, uint32_t b)
{
    guint n = topology->hosts->len, i;

    if (g_array_index(topology->hosts, struct cm_topology_host, a).slots !=
        g_array_index(topology->hosts, struct cm_topology_host, b).slots) {
        return false;
    }
    for (i = 0; i < n; i++) {
        if (i != a && i != b &&
            cm_topology_distance(topology, a, i) != cm_topology_distance(topology, b, i)) {
            return false;
        }
    }
    return true;
}

/* How many ranks stay if host `from` of the proposal becomes host `to`, and the other way round. */
static int64_t stay_gain(const struct place *place, const uint32_t *present, const uint32_t *host,
                         uint32_t from, uint32_t to)
{
    int64_t gain = 0;
    uint32_t rank;

    for (rank = 0; rank < place->graph->ranks; rank++) {
        if (host[rank] == from || host[rank] == to) {
            gain +=
                (present[rank] == (host[rank] == from ? to : from)) - (present[rank] == host[rank]);
        }
    }
    return gain;
}

/* Gives equal hosts the names that let most ranks stay. */
static void keep_names(const struct place *place, const uint32_t *present, uint32_t *host)
{
    uint32_t rank, other;

    for (rank = 0; rank < place->graph->ranks; rank++) {
        uint32_t a = host[rank], b = present[rank];

        if (a == b || !are_equal(place->topology, a, b) ||
            stay_gain(place, present, host, a, b) <= 0) {
            continue;
        }
        for (other = 0; other < place->graph->ranks; other++) {
            host[other] = host[other] == a ? b : host[other] == b ? a : host[other];
        }
    }
}

void cm_placement_propose(const struct cm_rank_graph *graph, const struct cm_topology *topology,
                          const uint32_t *present, uint32_t *host)
{
    struct place place = {topology, graph};
    SCOTCH_Num *part = g_new0(SCOTCH_Num, graph->ranks + 1);
    uint32_t *other = g_memdup2(present, graph->ranks * sizeof(*present));

    improve(&place, other);
    if (scotch(&place, part)) {
        respect_slots(&place, part, host);
        improve(&place, host);
        keep_names(&place, present, host);
    } else {
        memcpy(host, other, graph->ranks * sizeof(*host));
    }
    if (total_cost(&place, other) <= total_cost(&place, host) * (1 + WORTH_IT)) {
        memcpy(host, other, graph->ranks * sizeof(*host)); /* fewer ranks move */
    }
    if (total_cost(&place, host) >= total_cost(&place, present) * (1 - WORTH_IT)) {
        memcpy(host, present, graph->ranks * sizeof(*host));
    }
    g_free(part);
    g_free(other);
}
