/* udmon-agent: reads its configuration, runs its graph, reads anew on SIGHUP. */
#include "graph.h"
#include "../lib/log.h"
#include "../include/udmon.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

udmon_loop_t agent_loop;
graph_t *agent_graph;

static const char *config_file = "/etc/udmon/agent.conf";
static int stopping;

static void agent_reload(void)
{
    graph_t *next;

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

static void agent_signal(udmon_source_t *source, uint32_t events)
{
    struct signalfd_siginfo info;

    (void)events;
    while (read(source->fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGHUP) {
            agent_reload();
        } else {
            stopping = 1;
        }
    }
}

static int agent_signals(udmon_source_t *source)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    source->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    source->ready = agent_signal;
    return (source->fd < 0) ? -errno : udmon_loop_add(&agent_loop, source, EPOLLIN);
}

static int usage(FILE *out, int status)
{
    fprintf(out, "Usage: udmon-agent [-c FILE] [-t]\n"
                 "Sends this host's metrics to a udmon-collector.\n\n"
                 "  -c, --config FILE  read this configuration [%s]\n"
                 "  -t, --test         only tell whether the configuration is right\n"
                 "  -h, --help         this text\n"
                 "  -V, --version      the version\n\n"
                 "SIGHUP reads the configuration anew. See udmon-agent(8).\n", config_file);
    return status;
}

/* Returns an exit status, or -1 to go on. */
static int agent_arguments(int argc, char **argv, int *test_p)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"test", no_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "c:thV", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            config_file = optarg;
            break;
        case 't':
            *test_p = 1;
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
    udmon_source_t signals;
    struct pollfd wait;
    int status, test = 0;

    status = agent_arguments(argc, argv, &test);
    if (status >= 0) {
        return status;
    }
    if ((udmon_loop_open(&agent_loop) < 0) || (agent_signals(&signals) < 0)) {
        return 1;
    }
    if (graph_read(config_file, &agent_graph) < 0) {
        return 1;
    }
    if (graph_start(agent_graph, NULL) < 0) {
        graph_free(agent_graph);
        return 1;
    }
    wait = (struct pollfd) {.fd = agent_loop.epoll_fd, .events = POLLIN};
    while (!stopping && !test) {
        poll(&wait, 1, -1);
        udmon_loop_run(&agent_loop);
    }
    graph_free(agent_graph); /* sends what waits and says goodbye */
    udmon_loop_close(&agent_loop);
    return 0;
}
