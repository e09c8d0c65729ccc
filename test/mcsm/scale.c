/*
 * mcsm_scale LIDS [DIR]: routes a fabric of about LIDS LIDs in eight clusters, three-level fat
 * trees of 36-port switches, without an SMP. For each cluster its own router runs, as its manager
 * would. With DIR the dumps for mcsm-check are written there. Prints one line: LIDs, switches, the
 * seconds of the slowest cluster and of all, the memory of the process.
 */
#include "fabric/fabric.h"
#include "route/graph.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum {
    CLUSTERS = 8,
    DOWN = 18, /* hosts of a leaf, leaves of a pod, and links upwards of each */
    CABLES = 4 /* between each two clusters */
};

struct cluster {
    int index, hosts, leaves, middles, tops;
    unsigned first_lid, lids;
};

static uint64_t guid_of(const struct cluster *cluster, int sw)
{
    return ((uint64_t)cluster->index + 1) << 32 | (unsigned)(sw + 1);
}

static int pods_of(const struct cluster *cluster)
{
    return (cluster->leaves + DOWN - 1) / DOWN;
}

static int switches_of(const struct cluster *cluster)
{
    return cluster->leaves + cluster->middles + cluster->tops;
}

/* Top j of the cluster has one link to a middle switch of each pod; its ports from 65 on are border
 * ports. */
static void shape(struct cluster *cluster, int index, int lids)
{
    cluster->index = index;
    cluster->hosts = lids * 90 / 100; /* the rest are switches' own LIDs */
    cluster->leaves = (cluster->hosts + DOWN - 1) / DOWN;
    cluster->middles = pods_of(cluster) * DOWN;
    cluster->tops = pods_of(cluster) > 1 ? DOWN * DOWN / 2 : DOWN;
    cluster->lids = switches_of(cluster) + cluster->hosts;
    if (pods_of(cluster) == 1) {
        cluster->tops = 0, cluster->lids = switches_of(cluster) + cluster->hosts;
    }
}

static void link_tree(const struct cluster *cluster, struct mcsm_graph *graph)
{
    for (int leaf = 0; leaf < cluster->leaves; leaf++) {
        int pod = leaf / DOWN;

        for (int i = 0; i < DOWN; i++) {
            mcsm_graph_link(graph, leaf, DOWN + 1 + i, cluster->leaves + pod * DOWN + i,
                            1 + leaf % DOWN);
        }
    }
    for (int middle = 0; cluster->tops > 0 && middle < cluster->middles; middle++) {
        int pod = middle / DOWN, place = middle % DOWN;

        for (int i = 0; i < DOWN / 2; i++) {
            int top = cluster->leaves + cluster->middles + place * DOWN / 2 + i;

            mcsm_graph_link(graph, middle + cluster->leaves, DOWN + 1 + 2 * i, top, 1 + 2 * pod);
            mcsm_graph_link(graph, middle + cluster->leaves, DOWN + 2 + 2 * i, top, 2 + 2 * pod);
        }
    }
}

/* The switch and port of the cable to another cluster. */
static int border_of(const struct cluster *cluster, int other, int cable, uint8_t *port_p)
{
    int first = cluster->tops ? cluster->leaves + cluster->middles : cluster->leaves;
    int count = cluster->tops ? cluster->tops : cluster->middles;

    *port_p = 100 + other * CABLES + cable;
    return first + cable % count;
}

static int add_targets(const struct cluster *clusters, int own, struct mcsm_graph *graph)
{
    const struct cluster *cluster = &clusters[own];
    int switches = switches_of(cluster), status = 0;
    bool alive[CABLES] = {true, true, true, true};
    uint8_t port;

    for (int i = 0; i < switches && status == 0; i++) {
        status = mcsm_graph_target(graph, i, 0, cluster->first_lid + i, false);
    }
    for (int i = 0; i < cluster->hosts && status == 0; i++) {
        status = mcsm_graph_target(graph, i / DOWN, 1 + i % DOWN, cluster->first_lid + switches + i,
                                   false);
    }
    for (int other = 0; other < CLUSTERS && status == 0; other++) {
        for (unsigned lid = 0; other != own && lid < clusters[other].lids && status == 0; lid++) {
            int cable = mcsm_transit_choice(lid, alive, CABLES);
            int sw = border_of(cluster, other, cable, &port);

            status = mcsm_graph_target(graph, sw, port, clusters[other].first_lid + lid, true);
        }
    }
    return status;
}

static void dump_lft(FILE *out, uint64_t guid, const uint8_t *lft, unsigned top)
{
    unsigned from = 1;

    fprintf(out, "lft 0x%016lx", guid);
    for (unsigned lid = 2; lid <= top + 1; lid++) {
        if (lid <= top && lft[lid] == lft[from]) {
            continue;
        }
        if (lft[from] != MCSM_DROP) {
            fprintf(out, " %u-%u:%u", from, lid - 1, lft[from]);
        }
        from = lid;
    }
    fputc('\n', out);
}

static void dump_hosts(FILE *out, const struct cluster *cluster)
{
    int switches = switches_of(cluster);

    for (int i = 0; i < cluster->hosts; i++) {
        uint64_t guid = guid_of(cluster, 1000000 + i);

        fprintf(out, "node ca 0x%016lx 1 \"c%d-h%d\"\nlid 0x%016lx 1 0x%016lx %u\n", guid,
                cluster->index, i, guid, guid, cluster->first_lid + switches + i);
        fprintf(out, "link 0x%016lx %d 0x%016lx 1\n", guid_of(cluster, i / DOWN), 1 + i % DOWN,
                guid);
    }
}

static int dump(const char *directory, const struct cluster *clusters, int own,
                const struct mcsm_graph *graph)
{
    const struct cluster *cluster = &clusters[own];
    uint8_t port, peer_port;
    char path[300];
    FILE *out;

    snprintf(path, sizeof(path), "%s/c%d.dump", directory, own);
    out = fopen(path, "we");
    if (out == NULL) {
        perror(path);
        return -1;
    }
    fprintf(out, "mcsm-dump 1\ncluster c%d %u %u\n", own, cluster->first_lid,
            cluster->first_lid + cluster->lids - 1);
    for (int i = 0; i < graph->count; i++) {
        fprintf(out, "node switch 0x%016lx %u \"c%d-s%d\"\nlid 0x%016lx 0 0x%016lx %u\n",
                guid_of(cluster, i), graph->sw[i].nports, own, i, guid_of(cluster, i),
                guid_of(cluster, i), cluster->first_lid + i);
    }
    dump_hosts(out, cluster);
    for (int i = 0; i < graph->count; i++) {
        for (int p = 1; p <= graph->sw[i].nports; p++) {
            const struct mcsm_gport *end = &graph->sw[i].ports[p];

            if (end->peer > i) {
                fprintf(out, "link 0x%016lx %d 0x%016lx %u\n", guid_of(cluster, i), p,
                        guid_of(cluster, end->peer), end->peer_port);
            }
        }
        dump_lft(out, guid_of(cluster, i), graph->sw[i].lft, graph->lid_top);
    }
    for (int other = 0; other < CLUSTERS; other++) {
        for (int cable = 0; other != own && cable < CABLES; cable++) {
            int sw = border_of(cluster, other, cable, &port);
            int peer = border_of(&clusters[other], own, cable, &peer_port);

            fprintf(out, "border 0x%016lx %u c%d 0x%016lx %u transit\n", guid_of(cluster, sw), port,
                    other, guid_of(&clusters[other], peer), peer_port);
        }
    }
    fputs("end\n", out);
    return fclose(out);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double route(const struct cluster *clusters, int own, const char *directory)
{
    static const struct mcsm_config config = {.engine = MCSM_ENGINE_MINHOP};
    const struct cluster *cluster = &clusters[own];
    int count = switches_of(cluster);
    uint8_t *nports = malloc(count);
    struct mcsm_graph *graph;
    double start = now(), seconds;

    memset(nports, 160, count);
    memset(nports, 2 * DOWN, cluster->leaves);
    graph = mcsm_graph_new(count, nports);
    free(nports);
    if (graph == NULL) {
        return -1;
    }
    link_tree(cluster, graph);
    if (add_targets(clusters, own, graph) < 0) {
        return -1;
    }
    for (int i = 0; i < count; i++) {
        graph->sw[i].guid = guid_of(cluster, i);
        graph->sw[i].hosts = i < cluster->leaves ? DOWN : 0;
        graph->sw[i].lft = malloc((graph->lid_top / 64 + 1) * 64);
        if (graph->sw[i].lft == NULL) {
            return -1;
        }
    }
    seconds = mcsm_route(graph, &config) < 0 ? -1 : now() - start;
    if (directory != NULL && dump(directory, clusters, own, graph) < 0) {
        seconds = -1;
    }
    for (int i = 0; i < count; i++) {
        free(graph->sw[i].lft);
    }
    mcsm_graph_free(graph);
    return seconds;
}

int main(int argc, char **argv)
{
    struct cluster clusters[CLUSTERS] = {0};
    double slowest = 0, all = 0;
    unsigned lids = argc > 1 ? atoi(argv[1]) : 0, next = 1, switches = 0;
    struct rusage usage;

    if (argc < 2 || argc > 3 || lids < 800 || lids > MCSM_LID_MAX) {
        fputs("Usage: mcsm_scale LIDS [DIR]: 800 to 49151 LIDs in eight clusters\n", stderr);
        return 2;
    }
    for (int i = 0; i < CLUSTERS; i++) {
        int share = lids / CLUSTERS;

        /* As many hosts as leave room for their switches. */
        do {
            shape(&clusters[i], i, share);
        } while (clusters[i].lids > lids / CLUSTERS && share-- > 20);
        clusters[i].first_lid = next;
        next += clusters[i].lids;
        switches += switches_of(&clusters[i]);
    }
    for (int i = 0; i < CLUSTERS; i++) {
        double seconds = route(clusters, i, argc > 2 ? argv[2] : NULL);

        if (seconds < 0) {
            fputs("mcsm_scale: failed\n", stderr);
            return 1;
        }
        slowest = seconds > slowest ? seconds : slowest;
        all += seconds;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("lids %u switches %u slowest_cluster %.2f CPU s all %.2f CPU s memory %ld MB\n",
           next - 1, switches, slowest, all, usage.ru_maxrss / 1024);
    return 0;
}
