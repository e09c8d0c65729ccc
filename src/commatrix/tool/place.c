/*
 * commatrix place: an order of ranks on hosts that shortens the way of the traffic.
 *
 * The cost of a placement is the sum over all pairs of ranks of what they send, times the distance
 * of their hosts. SCOTCH maps the ranks onto the network; exchanging pairs improves what it found,
 * and what is there today; the better one is proposed, or today's, if neither is better.
 */
#include "tool.h"
#include "matrix/topology.h"
#include "usage.h"

#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <scotch.h>

static const char help[] =
    "Usage: commatrix place --topology FILE [OPTION...] MATRIX\n"
    "\n"
    "MATRIX is what commatrix --by rank --json wrote. Proposes on which host each rank should run, "
    "so\n"
    "that less traffic goes a long way.\n"
    "\n"
    "  --topology FILE   the network: lines  switch NAME;  host NAME SWITCH [SLOTS];\n"
    "                    link SWITCH SWITCH [COST]\n"
    "  --present FILE    where ranks run today: lines  rank NUMBER HOST  (default: the first ranks "
    "on\n"
    "                    the first host, and so on)\n"
    "  --count WHAT      what is to be brought near: wire (default), payload, packets, messages\n"
    "  --rankfile        print a rankfile for Open MPI's mpirun\n"
    "  --json            instead of the table\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0; 2 wrong usage; 4 a file could not be read, or there are too few slots.\n";

enum { MAX_PASSES = 20, MAX_WEIGHT = 1000000 };

struct place {
    const struct cm_topology *topology;
    uint32_t ranks;
    uint32_t *first; /* ranks + 1: where the neighbours of a rank begin */
    uint32_t *other; /* the neighbour */
    double *weight;  /* what goes to it and comes from it */
};

struct options {
    const char *topology, *present, *field;
    bool rankfile, json;
};

static void read_options(struct options *options, int argc, char **argv)
{
    static const struct option longs[] = {{"topology", required_argument, NULL, 't'},
                                          {"present", required_argument, NULL, 'p'},
                                          {"count", required_argument, NULL, 'c'},
                                          {"rankfile", no_argument, NULL, 'r'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    *options = (struct options){.field = "wire_bytes"};
    while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (option) {
        case 't':
            options->topology = optarg;
            break;
        case 'p':
            options->present = optarg;
            break;
        case 'c':
            options->field = cm_loaded_field(optarg);
            break;
        case 'r':
            options->rankfile = true;
            break;
        case 'j':
            options->json = true;
            break;
        case 'h':
            fputs(help, stdout);
            exit(CM_EXIT_OK);
        default:
            exit(CM_EXIT_USAGE);
        }
    }
    if (options->topology == NULL || argc - optind != 1) {
        cm_usage_error("place takes --topology FILE and a matrix");
    }
}

/* ---- cost ------------------------------------------------------------------------------------ */

static double rank_cost(const struct place *place, const uint32_t *host, uint32_t rank, uint32_t at)
{
    double cost = 0;
    uint32_t i;

    for (i = place->first[rank]; i < place->first[rank + 1]; i++) {
        cost += place->weight[i] * cm_topology_distance(place->topology, at, host[place->other[i]]);
    }
    return cost;
}

static double total_cost(const struct place *place, const uint32_t *host)
{
    double cost = 0;
    uint32_t rank;

    for (rank = 0; rank < place->ranks; rank++) {
        cost += rank_cost(place, host, rank, host[rank]);
    }
    return cost / 2; /* each pair was met from both sides */
}

static double weight_between(const struct place *place, uint32_t a, uint32_t b)
{
    uint32_t i;

    for (i = place->first[a]; i < place->first[a + 1]; i++) {
        if (place->other[i] == b) {
            return place->weight[i];
        }
    }
    return 0;
}

/* What exchanging the hosts of two ranks saves. */
static double exchange_gain(const struct place *place, const uint32_t *host, uint32_t a, uint32_t b)
{
    double distance = cm_topology_distance(place->topology, host[a], host[b]);
    double before = rank_cost(place, host, a, host[a]) + rank_cost(place, host, b, host[b]);
    double after = rank_cost(place, host, a, host[b]) + rank_cost(place, host, b, host[a]);

    return before - after - 2 * distance * weight_between(place, a, b);
}

/* Move ranks to free slots, and exchange pairs, while that saves anything. */
static void improve(const struct place *place, uint32_t *host)
{
    guint hosts = place->topology->hosts->len, h;
    uint32_t *used = g_new0(uint32_t, hosts), a, b, swap;
    bool better = true;
    int pass;

    for (a = 0; a < place->ranks; a++) {
        used[host[a]]++;
    }
    for (pass = 0; pass < MAX_PASSES && better; pass++) {
        better = false;
        for (a = 0; a < place->ranks; a++) {
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
            for (b = a + 1; b < place->ranks; b++) {
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

/* ---- the matrix as a graph ------------------------------------------------------------------- */

/* Ranks are numbers; the matrix's names are in any order. -1: the name is none. */
static int64_t rank_of(const char *name)
{
    char *end;
    unsigned long rank = strtoul(name, &end, 10);

    return g_ascii_isdigit(name[0]) && *end == '\0' && rank < (1 << 16) ? (int64_t)rank : -1;
}

static double *dense(const struct cm_loaded *matrix, uint32_t ranks)
{
    double *sums = g_new0(double, (gsize)ranks *ranks);
    guint i;

    for (i = 0; i < matrix->cells->len; i++) {
        const struct cm_loaded_cell *cell = &g_array_index(matrix->cells, struct cm_loaded_cell, i);
        int64_t from = rank_of(g_ptr_array_index(matrix->names, cell->from));
        int64_t to = rank_of(g_ptr_array_index(matrix->names, cell->to));

        if (from >= 0 && to >= 0 && from != to) {
            sums[from * ranks + to] += cell->value;
            sums[to * ranks + from] += cell->value;
        }
    }
    return sums;
}

/* False: the matrix has no ranks. */
static bool make_graph(struct place *place, const struct cm_loaded *matrix)
{
    double *sums;
    uint32_t a, b, n = 0;
    guint i;

    for (i = 0; i < matrix->names->len; i++) {
        int64_t rank = rank_of(g_ptr_array_index(matrix->names, i));

        place->ranks = MAX(place->ranks, (uint32_t)(rank + 1));
    }
    if (strcmp(matrix->by, "rank") != 0 || place->ranks == 0) {
        return false;
    }
    sums = dense(matrix, place->ranks);
    place->first = g_new0(uint32_t, place->ranks + 1);
    place->other = g_new(uint32_t, 2 * (gsize)matrix->cells->len + 1);
    place->weight = g_new(double, 2 * (gsize)matrix->cells->len + 1);
    for (a = 0; a < place->ranks; a++) {
        place->first[a] = n;
        for (b = 0; b < place->ranks; b++) {
            if (sums[(gsize)a * place->ranks + b] > 0) {
                place->other[n] = b;
                place->weight[n++] = sums[(gsize)a * place->ranks + b];
            }
        }
    }
    place->first[place->ranks] = n;
    g_free(sums);
    return true;
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
            i < hosts ? (SCOTCH_Num)g_array_index(topology->hosts, struct cm_topology_host, i).slots
                      : 1;
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
    uint32_t edges = place->first[place->ranks], i;
    SCOTCH_Num *first = g_new(SCOTCH_Num, place->ranks + 1), *other = g_new(SCOTCH_Num, edges + 1);
    SCOTCH_Num *weight = g_new(SCOTCH_Num, edges + 1);
    SCOTCH_Graph graph;
    SCOTCH_Strat strategy;
    double most = 1;
    bool ok;

    for (i = 0; i < edges; i++) {
        most = MAX(most, place->weight[i]);
    }
    for (i = 0; i < edges; i++) {
        other[i] = (SCOTCH_Num)place->other[i];
        weight[i] = 1 + (SCOTCH_Num)(place->weight[i] / most * MAX_WEIGHT);
    }
    for (i = 0; i <= place->ranks; i++) {
        first[i] = (SCOTCH_Num)place->first[i];
    }
    SCOTCH_graphInit(&graph);
    SCOTCH_stratInit(&strategy);
    ok = SCOTCH_graphBuild(&graph, 0, (SCOTCH_Num)place->ranks, first, first + 1, NULL, NULL,
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
    SCOTCH_randomReset(); /* the same matrix, the same proposal */
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

/* SCOTCH balances; slots are a limit. Who is too many goes to the nearest free slot. */
static void respect_slots(const struct place *place, const SCOTCH_Num *part, uint32_t *host)
{
    guint hosts = place->topology->hosts->len, h;
    uint32_t *free_slots = g_new(uint32_t, hosts), rank, wanted, best;
    bool *placed = g_new0(bool, place->ranks + 1);

    for (h = 0; h < hosts; h++) {
        free_slots[h] = g_array_index(place->topology->hosts, struct cm_topology_host, h).slots;
    }
    for (rank = 0; rank < place->ranks; rank++) {
        wanted = (uint32_t)part[rank];
        if (wanted < hosts && free_slots[wanted] > 0) {
            free_slots[wanted]--;
            host[rank] = wanted;
            placed[rank] = true;
        }
    }
    for (rank = 0; rank < place->ranks; rank++) {
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

/* ---- where ranks run today ------------------------------------------------------------------- */

static bool in_order(const struct place *place, uint32_t *host)
{
    uint32_t rank = 0, slot;
    guint h;

    for (h = 0; h < place->topology->hosts->len; h++) {
        const struct cm_topology_host *node =
            &g_array_index(place->topology->hosts, struct cm_topology_host, h);

        for (slot = 0; slot < node->slots && rank < place->ranks; slot++) {
            host[rank++] = h;
        }
    }
    return rank == place->ranks;
}

static bool present_line(const struct place *place, char **words, uint32_t *host)
{
    int64_t rank;
    int node;

    if (g_strv_length(words) < 3 || strcmp(words[0], "rank") != 0) {
        return true; /* the map file names hosts, too */
    }
    rank = rank_of(words[1]);
    node = cm_topology_host(place->topology, words[2]);
    if (rank < 0 || node < 0) {
        return false;
    }
    if (rank < place->ranks) {
        host[rank] = (uint32_t)node;
    }
    return true;
}

static bool read_present(const struct place *place, const char *file, uint32_t *host)
{
    GError *error = NULL;
    char *text, **lines;
    bool ok = true;
    int i;

    if (!g_file_get_contents(file, &text, NULL, &error)) {
        fprintf(stderr, "commatrix: %s\n", error->message);
        g_error_free(error);
        return false;
    }
    lines = g_strsplit(text, "\n", -1);
    for (i = 0; lines[i] != NULL && ok; i++) {
        char **words = g_strsplit(g_strstrip(lines[i]), " ", -1);

        ok = present_line(place, words, host);
        if (!ok) {
            fprintf(stderr, "commatrix: %s:%d: no such rank, or no such host in the topology\n",
                    file, i + 1);
        }
        g_strfreev(words);
    }
    g_strfreev(lines);
    g_free(text);
    return ok;
}

/* ---- output ---------------------------------------------------------------------------------- */

static const char *name_of(const struct place *place, uint32_t host)
{
    return g_array_index(place->topology->hosts, struct cm_topology_host, host).name;
}

static void print_rankfile(const struct place *place, const uint32_t *host)
{
    uint32_t *slot = g_new0(uint32_t, place->topology->hosts->len), rank;

    for (rank = 0; rank < place->ranks; rank++) {
        printf("rank %u=%s slot=%u\n", rank, name_of(place, host[rank]), slot[host[rank]]++);
    }
    g_free(slot);
}

static void print_table(const struct place *place, const uint32_t *present, const uint32_t *host,
                        double before, double after)
{
    uint32_t rank, moved = 0;

    for (rank = 0; rank < place->ranks; rank++) {
        printf("rank %u %s%s%s\n", rank, name_of(place, host[rank]),
               host[rank] != present[rank] ? "    # today " : "",
               host[rank] != present[rank] ? name_of(place, present[rank]) : "");
        moved += host[rank] != present[rank];
    }
    printf("# %u of %u ranks move; traffic times distance: %.4g, today %.4g: %.1f %% less\n", moved,
           place->ranks, after, before, before > 0 ? 100 * (before - after) / before : 0.0);
}

static void print_json(const struct place *place, const uint32_t *present, const uint32_t *host,
                       double before, double after)
{
    struct json_object *object = json_object_new_object(), *ranks = json_object_new_array(), *entry;
    uint32_t rank;

    for (rank = 0; rank < place->ranks; rank++) {
        entry = json_object_new_object();
        json_object_object_add(entry, "rank", json_object_new_int64(rank));
        json_object_object_add(entry, "host", json_object_new_string(name_of(place, host[rank])));
        json_object_object_add(entry, "present",
                               json_object_new_string(name_of(place, present[rank])));
        json_object_array_add(ranks, entry);
    }
    json_object_object_add(object, "ranks", ranks);
    json_object_object_add(object, "cost_present", json_object_new_double(before));
    json_object_object_add(object, "cost", json_object_new_double(after));
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY));
    json_object_put(object);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The best placement that is found, into `host`. */
static void propose(const struct place *place, const uint32_t *present, uint32_t *host)
{
    SCOTCH_Num *part = g_new0(SCOTCH_Num, place->ranks + 1);
    uint32_t *other = g_memdup2(present, place->ranks * sizeof(*present));

    improve(place, other);
    if (scotch(place, part)) {
        respect_slots(place, part, host);
        improve(place, host);
    } else {
        memcpy(host, other, place->ranks * sizeof(*host));
    }
    if (total_cost(place, other) <= total_cost(place, host)) {
        memcpy(host, other, place->ranks * sizeof(*host));
    }
    if (total_cost(place, present) <= total_cost(place, host)) {
        memcpy(host, present, place->ranks * sizeof(*host));
    }
    g_free(part);
    g_free(other);
}

static bool place_ranks(struct place *place, const struct options *options)
{
    uint32_t *present = g_new0(uint32_t, place->ranks), *host = g_new0(uint32_t, place->ranks);
    bool ok = in_order(place, present);
    double before, after;

    if (!ok) {
        fprintf(stderr, "commatrix: %s has fewer slots than the matrix has ranks (%u)\n",
                options->topology, place->ranks);
    }
    ok = ok && (options->present == NULL || read_present(place, options->present, present));
    if (ok) {
        propose(place, present, host);
        before = total_cost(place, present);
        after = total_cost(place, host);
        if (options->rankfile) {
            print_rankfile(place, host);
        } else if (options->json) {
            print_json(place, present, host, before, after);
        } else {
            print_table(place, present, host, before, after);
        }
    }
    g_free(present);
    g_free(host);
    return ok;
}

int cm_tool_place(int argc, char **argv)
{
    struct options options;
    struct place place = {0};
    struct cm_topology *topology;
    struct cm_loaded *matrix;
    char *error = NULL;
    bool ok = false;

    read_options(&options, argc, argv);
    topology = cm_topology_load(options.topology, &error);
    if (topology == NULL) {
        fprintf(stderr, "commatrix: %s\n", error);
        g_free(error);
        return CM_EXIT_ERROR;
    }
    place.topology = topology;
    matrix = cm_loaded_new(argv[optind], options.field);
    if (matrix != NULL) {
        if (make_graph(&place, matrix)) {
            ok = place_ranks(&place, &options);
        } else {
            fprintf(stderr, "commatrix: %s is no matrix by ranks: make it with --by rank --json\n",
                    argv[optind]);
        }
        cm_loaded_free(matrix);
    }
    cm_topology_free(topology);
    g_free(place.first);
    g_free(place.other);
    g_free(place.weight);
    return ok ? CM_EXIT_OK : CM_EXIT_ERROR;
}
