/* inm-fabric: the emulated network. */
#include "faults.h"
#include "openglex.h"
#include "serve.h"
#include "traffic.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int stop;

static const char usage[] =
    "Usage: inm-fabric [OPTION]...\n"
    "       inm-fabric [--socket PATH] --control COMMAND\n"
    "Emulate the chips and links of a Tianhe-2-like network, for inmd and libglex.\n\n"
    "  -t, --topology NAME  th2 (default: 5,856 NRCs, 18,304 NICs), small, or a file\n"
    "  -c, --clock KIND     real (default): as fast as it goes; model: answers bear the time\n"
    "                       that they would take in the network\n"
    "  -b, --busy           with the modelled clock: all links carry data\n"
    "  -f, --fault SPEC     inject a fault; may be repeated; see inm-fabric(1)\n"
    "  -s, --seed N         of all that is random (default 1)\n"
    "  -S, --socket PATH    where libglex connects (default $GLEX_INM, else ./inm-fabric.sock)\n"
    "      --control COMMAND  tell a running emulator: fault SPEC, clear N|all, list, stats,\n"
    "                       traffic PATTERN, paths; see inm-fabric(1)\n"
    "      --describe       print the topology as JSON, with the hops of its NRCs, and end\n"
    "  -q, --quiet          do not say when it is ready\n"
    "  -h, --help           show this text\n"
    "  -V, --version        show the version\n\n"
    "Exit status: 0 success, 1 the command was refused, 2 wrong use or no access.\n";

struct options {
    const char *topology, *socket, *control;
    const char *faults[64];
    int num_faults;
    bool modelled, busy, quiet, describe;
    uint64_t seed;
};

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option table[] = {
        {"topology", required_argument, NULL, 't'}, {"clock", required_argument, NULL, 'c'},
        {"busy", no_argument, NULL, 'b'},           {"fault", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 's'},     {"socket", required_argument, NULL, 'S'},
        {"control", required_argument, NULL, 1},    {"describe", no_argument, NULL, 2},
        {"quiet", no_argument, NULL, 'q'},          {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},        {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "t:c:bf:s:S:qhV", table, NULL)) != -1) {
        switch (c) {
        case 't':
            o->topology = optarg;
            break;
        case 'c':
            o->modelled = strcmp(optarg, "model") == 0;
            if (!o->modelled && strcmp(optarg, "real") != 0) {
                fprintf(stderr, "inm-fabric: --clock is real or model, not %s\n", optarg);
                return 2;
            }
            break;
        case 'b':
            o->busy = true;
            break;
        case 'f':
            if (o->num_faults == 64) {
                fprintf(stderr, "inm-fabric: more than 64 faults\n");
                return 2;
            }
            o->faults[o->num_faults++] = optarg;
            break;
        case 's':
            o->seed = strtoull(optarg, NULL, 0);
            break;
        case 'S':
            o->socket = optarg;
            break;
        case 1:
            o->control = optarg;
            break;
        case 2:
            o->describe = true;
            break;
        case 'q':
            o->quiet = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'V':
            puts("inm-fabric " PACKAGE_VERSION);
            return 0;
        default:
            fprintf(stderr, "Try inm-fabric --help.\n");
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "inm-fabric: unknown argument %s; try --help\n", argv[optind]);
        return 2;
    }
    return -1;
}

/* How many hops NRCs are away from the server, and where the chips are. */
static int describe(const struct inm_topo *topo)
{
    uint32_t *hops = malloc(inm_topo_chips(topo) * sizeof(*hops));
    uint32_t *queue = malloc(inm_topo_chips(topo) * sizeof(*queue));
    uint32_t amount[32] = {0}, head = 0, tail = 0, i, chip, peer, max = 0;

    if (hops == NULL || queue == NULL) {
        free(hops);
        free(queue);
        return 2;
    }
    memset(hops, 0xff, inm_topo_chips(topo) * sizeof(*hops));
    chip = inm_topo_port_chip(topo, topo->peer[inm_topo_port(topo, topo->server, 0)]);
    hops[chip] = 0;
    queue[tail++] = chip;
    while (head < tail) {
        chip = queue[head++];
        amount[hops[chip] < 31 ? hops[chip] : 31]++;
        max = hops[chip] > max ? hops[chip] : max;
        for (i = 0; i < INM_NRC_PORTS; i++) {
            peer = topo->peer[inm_topo_port(topo, chip, i)];
            peer = peer != INM_NONE ? inm_topo_port_chip(topo, peer) : topo->num_nrc;
            if (peer < topo->num_nrc && hops[peer] == INM_NONE) {
                hops[peer] = hops[chip] + 1;
                queue[tail++] = peer;
            }
        }
    }
    printf("{\"topology\":\"%s\",\"nrc\":%u,\"nic\":%u,\"switches\":%u,\"links\":%u,\"hops\":[",
           topo->name, topo->num_nrc, topo->num_nic, topo->num_boards, topo->num_links);
    for (i = 0; i <= max && i < 32; i++) {
        printf("%s%u", i > 0 ? "," : "", amount[i]);
    }
    puts("]}");
    free(hops);
    free(queue);
    return 0;
}

static int run(const struct options *o, struct inm_topo *topo)
{
    struct fabric *fab = fab_new(topo, o->modelled, o->seed);
    struct faults *faults = fab != NULL ? faults_new(fab) : NULL;
    struct serve *serve = NULL;
    char error[256];
    struct timespec now;
    int i, status = 2;

    if (faults != NULL) {
        fab->traffic = traffic_new(fab);
    }
    if (faults == NULL || fab->traffic == NULL) {
        fprintf(stderr, "inm-fabric: no memory\n");
        goto out;
    }
    fab->busy = o->busy;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (i = 0; i < o->num_faults; i++) {
        if (faults_add(faults, o->faults[i],
                       (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, error,
                       sizeof(error)) < 0) {
            fprintf(stderr, "inm-fabric: %s\n", error);
            goto out;
        }
    }
    serve = serve_open(fab, faults, o->socket);
    if (serve == NULL) {
        goto out;
    }
    if (!o->quiet) {
        printf("inm-fabric: %s: %u NRCs, %u NICs, %u links; ready at %s\n", topo->name,
               topo->num_nrc, topo->num_nic, topo->num_links, o->socket);
        fflush(stdout);
    }
    serve_run(serve, &stop);
    serve_close(serve);
    status = 0;
out:
    faults_free(faults);
    if (fab != NULL) {
        traffic_free(fab->traffic);
        fab_free(fab);
    } else {
        inm_topo_free(topo);
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *env = getenv("GLEX_INM");
    struct options o = {.topology = "th2",
                        .seed = 1,
                        .socket = env != NULL && env[0] != '\0' ? env : "inm-fabric.sock"};
    struct sigaction action = {.sa_handler = on_signal};
    struct inm_topo *topo;
    char error[512];
    int status = parse_options(argc, argv, &o);

    if (status >= 0) {
        return status;
    }
    if (o.control != NULL) {
        return serve_control(o.socket, o.control);
    }
    topo = inm_topo_make(o.topology, error, sizeof(error));
    if (topo == NULL) {
        fprintf(stderr, "inm-fabric: %s\n", error);
        return 2;
    }
    if (o.describe) {
        status = describe(topo);
        inm_topo_free(topo);
        return status;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run(&o, topo);
}
