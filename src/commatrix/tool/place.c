/*
 * commatrix place: proposes on which host each rank should run. matrix/placement.h finds the
 * placement.
 */
#include "tool.h"
#include "matrix/placement.h"
#include "usage.h"

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* More ranks than this have no slots in any topology that is known. */
enum { MAX_RANK = 1 << 22 };

struct place {
    const struct cm_topology *topology;
    uint32_t ranks;
    struct cm_rank_graph graph;
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

/* ---- the matrix as a graph ------------------------------------------------------------------- */

/* The rank that a name of the matrix is; -1: the name is no rank. */
static int64_t rank_of(const char *name)
{
    char *end;
    unsigned long rank = strtoul(name, &end, 10);

    return g_ascii_isdigit(name[0]) && *end == '\0' && rank < MAX_RANK ? (int64_t)rank : -1;
}

/* The number of ranks; 0: the matrix has none. */
static uint32_t count_ranks(const struct cm_loaded *matrix)
{
    uint32_t ranks = 0;
    guint i;

    for (i = 0; strcmp(matrix->by, "rank") == 0 && i < matrix->names->len; i++) {
        ranks = MAX(ranks, (uint32_t)(rank_of(g_ptr_array_index(matrix->names, i)) + 1));
    }
    return ranks;
}

static void make_graph(struct place *place, const struct cm_loaded *matrix)
{
    struct cm_rank_edge *edges = g_new(struct cm_rank_edge, matrix->cells->len + 1);
    guint num = 0, i;

    for (i = 0; i < matrix->cells->len; i++) {
        const struct cm_loaded_cell *cell = &g_array_index(matrix->cells, struct cm_loaded_cell, i);
        int64_t from = rank_of(g_ptr_array_index(matrix->names, cell->from));
        int64_t to = rank_of(g_ptr_array_index(matrix->names, cell->to));

        if (from >= 0 && to >= 0) {
            edges[num++] = (struct cm_rank_edge){(uint32_t)from, (uint32_t)to, cell->value};
        }
    }
    place->graph = cm_rank_graph_make(edges, num, place->ranks);
    g_free(edges);
}

/* ---- where ranks run today ------------------------------------------------------------------- */

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

static bool has_slots(const struct place *place, const struct options *options)
{
    uint64_t slots = 0;
    guint i;

    for (i = 0; i < place->topology->hosts->len; i++) {
        slots += g_array_index(place->topology->hosts, struct cm_topology_host, i).slots;
    }
    if (slots < place->ranks) {
        fprintf(stderr, "commatrix: %s has %" PRIu64 " slots, the matrix has %u ranks\n",
                options->topology, slots, place->ranks);
        return false;
    }
    return true;
}

static bool place_ranks(struct place *place, const struct options *options)
{
    uint32_t *present = g_new0(uint32_t, place->ranks), *host = g_new0(uint32_t, place->ranks);
    bool ok = cm_placement_in_order(place->topology, place->ranks, present) &&
              (options->present == NULL || read_present(place, options->present, present));
    double before, after;

    if (ok) {
        cm_placement_propose(&place->graph, place->topology, present, host);
        before = cm_placement_cost(&place->graph, place->topology, present);
        after = cm_placement_cost(&place->graph, place->topology, host);
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
        place.ranks = count_ranks(matrix);
        if (place.ranks > 0) {
            ok = has_slots(&place, &options);
        } else {
            fprintf(stderr, "commatrix: %s is no matrix by ranks: make it with --by rank --json\n",
                    argv[optind]);
        }
        if (ok) {
            make_graph(&place, matrix);
            ok = place_ranks(&place, &options);
            cm_rank_graph_free(&place.graph);
        }
        cm_loaded_free(matrix);
    }
    cm_topology_free(topology);
    return ok ? CM_EXIT_OK : CM_EXIT_ERROR;
}
