/* udmon-agent: reads its configuration, runs its graph, reads the configuration again on SIGHUP. */
#include "graph.h"
#include "modules.h"
#include "recorder.h"
#include "types.h"
#include "watchdog.h"
#include "worker.h"
#include "../lib/base/log.h"
#include "../include/udmon.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct graph *agent_graph; /* as of the last configuration */

static const char *config_file = "/etc/udmon/agent.conf";

static void agent_reload(void)
{
    struct graph *next;

    if (graph_read(config_file, &next) < 0) {
        udmon_error("%s is wrong: going on as before", config_file);
        return;
    }
    if (graph_start(next, agent_graph) < 0) {
        udmon_error("%s is wrong: going on as before", config_file);
        graph_free(next);
        return;
    }
    graph_free(agent_graph);
    agent_graph = next;
    udmon_log(UDMON_LOG_INFO, "%s read anew", config_file);
}

static int usage(FILE *out, int status)
{
    fprintf(out,
            "Usage: udmon-agent [-c FILE] [-t | -r]\n"
            "Sends this host's metrics to a udmon-collector.\n\n"
            "  -c, --config FILE  read this configuration [%s]\n"
            "  -t, --test         only tell whether the configuration is right\n"
            "  -r, --recording    print what the recorder of the running agent keeps\n"
            "  -h, --help         this text\n"
            "  -V, --version      the version\n\n"
            "SIGHUP reads the configuration anew. See udmon-agent(8).\n",
            config_file);
    return status;
}

/* Returns an exit status, or -1 to go on. */
static int agent_arguments(int argc, char **argv, int *test_p, int *recording_p)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"test", no_argument, NULL, 't'},
        {"recording", no_argument, NULL, 'r'},    {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "c:trhV", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            config_file = optarg;
            break;
        case 't':
            *test_p = 1;
            break;
        case 'r':
            *recording_p = 1;
            break;
        case 'h':
            return usage(stdout, 0);
        case 'V':
            printf("udmon-agent %s\n", UDMON_PACKAGE_VERSION);
            return 0;
        default:
            return usage(stderr, 2);
        }
    }
    return (optind < argc) ? usage(stderr, 2) : -1;
}

int main(int argc, char **argv)
{
    struct udmon_signals signals;
    int status, test = 0, recording = 0;

    status = agent_arguments(argc, argv, &test, &recording);
    if (status >= 0) {
        return status;
    }
    modules_begin(&agent_types);
    if (recording) {
        return recorder_fetch(config_file);
    }
    if ((udmon_loop_open(&agent_loop) < 0) ||
        (udmon_signals_catch(&agent_loop, &signals, agent_reload) < 0)) {
        return 1;
    }
    if (graph_read(config_file, &agent_graph) < 0) {
        return 1;
    }
    if (graph_start(agent_graph, NULL) < 0) {
        graph_free(agent_graph);
        return 1;
    }
    if (!test) {
        watchdog_start();
        udmon_signals_wait(&agent_loop, &signals);
    }
    graph_free(agent_graph); /* sends waiting samples and says goodbye */
    udmon_loop_close(&agent_loop);
    if (worker_any_abandoned()) {
        fflush(stdout);
        _exit(0); /* exit() would free data that a blocked sensor's thread still uses */
    }
    return 0;
}
