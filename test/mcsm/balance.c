/*
 * mcsm_balance FABRIC [ENGINE [LANES]]: routes a fabric of ibsim's format as a manager with this
 * engine (auto) does, without an SMP. Links have LANES virtual lanes (8). The ports of dimension i
 * of a torus are 2i + 1 and 2i + 2. Prints one line: the engine that made the routes, the highest
 * load of a link in pairs of hosts, the switches that all pairs pass together, lost pairs, lanes,
 * milliseconds of processor time of the routes and lanes, MB of memory, LIDs, switches.
 */
#include "fabric/fabric.h"
#include "route/plan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <uthash.h>

struct node {
    char name[32];
    UT_hash_handle hh;
    struct node *next;
    int index; /* of a switch; -1: a host */
    int ports, line;
};

struct fabric {
    struct node *nodes, *first, *last;
    int switches;
    struct mcsm_graph *graph;
};

static double cpu_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static struct node *find(const struct fabric *fabric, const char *name)
{
    struct node *node;

    HASH_FIND_STR(fabric->nodes, name, node);
    return node;
}

/* First the nodes, in the order of the file. */
static void read_nodes(struct fabric *fabric, FILE *file)
{
    char line[256], kind[16], name[32];
    int ports;

    while (fgets(line, sizeof(line), file) != NULL) {
        struct node *node;

        if (sscanf(line, "%15s %d \"%31[^\"]\"", kind, &ports, name) != 3) {
            continue;
        }
        node = calloc(1, sizeof(*node));
        if (node == NULL) {
            abort();
        }
        strcpy(node->name, name);
        node->ports = ports;
        node->index = strcmp(kind, "Switch") == 0 ? fabric->switches++ : -1;
        HASH_ADD_STR(fabric->nodes, name, node);
        *(fabric->last ? &fabric->last->next : &fabric->first) = node;
        fabric->last = node;
    }
}

/* Then the links, and a LID for each node: those of the switches first. */
static int read_links(struct fabric *fabric, FILE *file)
{
    char line[256], kind[16], name[32];
    struct mcsm_graph *graph = fabric->graph;
    const struct node *at = NULL;
    int ports, port, peer_port, lid = 1;

    for (int i = 0; i < fabric->switches; i++) {
        if (mcsm_graph_target(graph, i, 0, lid++, false) < 0) {
            return -1;
        }
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%15s %d \"%31[^\"]\"", kind, &ports, name) == 3) {
            at = find(fabric, name);
        }
        if (at == NULL || at->index < 0 ||
            sscanf(line, "[%d] \"%31[^\"]\"[%d]", &port, name, &peer_port) != 3) {
            continue;
        }
        const struct node *peer = find(fabric, name);
        if (peer == NULL || lid > MCSM_LID_MAX) {
            return -1;
        }
        if (peer->index >= 0) {
            mcsm_graph_link(graph, at->index, port, peer->index, peer_port);
        } else {
            graph->sw[at->index].hosts++;
            if (mcsm_graph_target(graph, at->index, port, lid++, false) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int read_fabric(struct fabric *fabric, const char *path)
{
    FILE *file = fopen(path, "re");
    uint8_t *nports;
    int status;

    if (file == NULL) {
        perror(path);
        return -1;
    }
    read_nodes(fabric, file);
    nports = calloc(fabric->switches + 1, 1);
    for (const struct node *node = fabric->first; nports != NULL && node != NULL;
         node = node->next) {
        if (node->index >= 0) {
            nports[node->index] = node->ports;
        }
    }
    fabric->graph = nports ? mcsm_graph_new(fabric->switches, nports) : NULL;
    free(nports);
    rewind(file);
    status = fabric->graph ? read_links(fabric, file) : -1;
    fclose(file);
    for (int i = 0; i < fabric->switches && status == 0; i++) {
        struct mcsm_gswitch *sw = &fabric->graph->sw[i];

        sw->guid = 0x200000 + i;
        sw->bare = sw->hosts == 0;
        sw->lft = malloc((fabric->graph->lid_top / 64 + 1) * 64);
        status = sw->lft ? 0 : -1;
    }
    return status;
}

struct judge {
    uint64_t hops, lost, *load, *flow;
    int *steps, *order;
};

/* Follows all pairs with this LID as destination, from the tables alone. The switches with a way are
 * put in the order of their distance, and pass their load on, the farthest one first. */
static void follow(const struct mcsm_graph *graph, const struct mcsm_target *to,
                   const uint8_t *column, struct judge *judge)
{
    int n = 0;

    for (int i = 0; i < graph->count; i++) {
        judge->steps[i] = -1;
        judge->flow[i] = 0;
    }
    judge->steps[to->sw] = 0;
    judge->order[n++] = to->sw;
    for (int k = 0; k < n; k++) {
        const struct mcsm_gswitch *sw = &graph->sw[judge->order[k]];

        for (int p = 1; p <= sw->nports; p++) {
            int peer = sw->ports[p].peer;

            if (peer >= 0 && judge->steps[peer] < 0 && column[peer] == sw->ports[p].peer_port) {
                judge->steps[peer] = judge->steps[judge->order[k]] + 1;
                judge->order[n++] = peer;
            }
        }
    }
    for (int i = 0; i < graph->count; i++) {
        uint64_t pairs = graph->sw[i].hosts - (i == to->sw);

        if (judge->steps[i] < 0) {
            judge->lost += pairs;
        } else {
            judge->hops += pairs * (judge->steps[i] + 1);
        }
    }
    for (int k = n - 1; k > 0; k--) {
        int at = judge->order[k];

        judge->flow[at] += graph->sw[at].hosts;
        judge->load[graph->sw[at].first_link + column[at]] += judge->flow[at];
        judge->flow[graph->sw[at].ports[column[at]].peer] += judge->flow[at];
    }
}

static int print(const struct mcsm_graph *graph, const struct mcsm_plan *plan, double ms)
{
    struct judge judge = {.load = calloc(graph->links + 1, sizeof(uint64_t)),
                          .flow = calloc(graph->count + 1, sizeof(uint64_t)),
                          .steps = calloc(graph->count + 1, sizeof(int)),
                          .order = calloc(graph->count + 1, sizeof(int))};
    uint8_t *columns = malloc((size_t)graph->count * MCSM_COLUMNS + 1);
    const struct mcsm_target **targets = calloc(MCSM_LFT_SIZE, sizeof(*targets));
    uint64_t most = 0;
    struct rusage usage;

    if (!judge.load || !judge.flow || !judge.steps || !judge.order || !columns || !targets) {
        return -1;
    }
    for (size_t i = 0; i < graph->target_count; i++) {
        if (graph->targets[i].port != 0) {
            targets[graph->targets[i].lid] = &graph->targets[i];
        }
    }
    for (unsigned lid = 0; lid <= graph->lid_top; lid++) {
        if (lid % MCSM_COLUMNS == 0) {
            mcsm_columns(graph, lid, MCSM_COLUMNS, columns);
        }
        if (targets[lid] != NULL) {
            follow(graph, targets[lid], columns + (size_t)(lid % MCSM_COLUMNS) * graph->count,
                   &judge);
        }
    }
    for (int i = 0; i < graph->links; i++) {
        most = judge.load[i] > most ? judge.load[i] : most;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("engine %s load %lu hops %lu lost %lu lanes %d cpu_ms %.0f MB %ld lids %u switches %d\n",
           mcsm_engine_name(plan->engine), most, judge.hops, judge.lost, graph->lanes, ms,
           usage.ru_maxrss / 1024, graph->lid_top, graph->count);
    free(judge.load);
    free(judge.flow);
    free(judge.steps);
    free(judge.order);
    free(columns);
    free(targets);
    return 0;
}

static enum mcsm_engine engine_of(const char *name)
{
    enum mcsm_engine engine = MCSM_ENGINE_MINHOP;

    while (engine < MCSM_ENGINE_AUTO && strcmp(mcsm_engine_name(engine), name) != 0) {
        engine++;
    }
    return engine;
}

int main(int argc, char **argv)
{
    struct mcsm_config config = {.dimension_count = 0};
    struct fabric fabric = {.switches = 0};
    struct mcsm_plan plan;
    struct node *node, *next;
    double start;
    int status;

    if (argc < 2 || argc > 4 || read_fabric(&fabric, argv[1]) < 0) {
        fputs("Usage: mcsm_balance FABRIC [ENGINE [LANES]]\n", stderr);
        return 2;
    }
    for (int i = 0; i < 3; i++) {
        config.dimensions[config.dimension_count++] =
            (struct mcsm_dimension){{2 * i + 1, 2 * i + 2}, 2};
    }
    start = cpu_ms();
    status = mcsm_plan_routes(fabric.graph, &config, engine_of(argc > 2 ? argv[2] : "auto"),
                              argc > 3 ? atoi(argv[3]) : 8, &plan);
    if (status == 0) {
        status = print(fabric.graph, &plan, cpu_ms() - start);
    }
    mcsm_tree_free(plan.tree);
    for (int i = 0; i < fabric.graph->count; i++) {
        free(fabric.graph->sw[i].lft);
    }
    mcsm_graph_free(fabric.graph);
    HASH_ITER(hh, fabric.nodes, node, next) {
        HASH_DEL(fabric.nodes, node);
        free(node);
    }
    return status < 0;
}
