/* udmon-collector: receives from agents, keeps a history, serves it over HTTP. */
#include "history.h"
#include "http.h"
#include "remote.h"
#include "store.h"
#include "writer.h"
#include "../lib/log.h"
#include "../lib/net/loop.h"
#include "../lib/metric.h"
#include "../include/udmon.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum {
    COMMIT_MS = 1000,
};
#define FORGET_NS UINT64_C(3600000000000)

typedef struct collector {
    const char *listen, *http_address, *database, *secret, *remote_url;
    uint64_t keep_seconds;
    int64_t max_rows;
    int keep_promised; /* --keep was given */
    udmon_loop_t loop;
    udmon_source_t signals, server_source;
    udmon_timer_t commit;
    udmon_server_t *server;
    store_t store;     /* the lock is held while the server is processed */
    void *agents;      /* tree of agent_t by id: how far their counts had come */
    writer_t writer;
    remote_t remote; /* if there is a remote_url */
    http_t http;
    int stopping;
} collector_t;

/* What is known of an agent over connections and restarts. */
typedef struct agent {
    uint64_t id, next;
} agent_t;

static int agent_compare(const void *left, const void *right)
{
    const agent_t *a = left, *b = right;

    return (a->id > b->id) - (a->id < b->id);
}

/* How far an agent's count has come; what it sends while nobody listens is then known as lost. */
static void collector_set_next(uint64_t id, uint64_t next, void *arg)
{
    agent_t key = {.id = id}, **found, *agent;
    collector_t *collector = arg;

    found = tsearch(&key, &collector->agents, agent_compare);
    if ((found != NULL) && (*found == &key)) {
        agent = malloc(sizeof(*agent));
        if (agent == NULL) {
            tdelete(&key, &collector->agents, agent_compare);
            return;
        }
        *agent = key;
        *found = agent;
    }
    if (found != NULL) {
        (*found)->next = next;
    }
}

static uint64_t collector_resume(void *arg, uint64_t id)
{
    agent_t key = {.id = id}, **found;

    found = tfind(&key, &((collector_t *)arg)->agents, agent_compare);
    return (found != NULL) ? (*found)->next : UDMON_SEQ_UNKNOWN;
}

/* How far an agent's clock is ahead of ours. */
static int64_t collector_clock_s(const collector_t *collector, uint64_t agent)
{
    udmon_stats_t stats;

    return (udmon_server_stats(collector->server, agent, &stats) == 0) ? stats.peer_clock_s :
                                                                         UDMON_CLOCK_UNKNOWN;
}

/*
 * The time that a sample is stored with: the agent's, unless its clock is far from ours. Then it is
 * the time when it came.
 */
static int64_t collector_time_ms(const collector_t *collector, uint64_t agent, host_t *host,
                                 const udmon_metric_t *metric)
{
    static udmon_log_limit_t limit;
    struct timespec clock;
    int64_t now_ms, apart_ms, clock_s = 0;

    clock_gettime(CLOCK_REALTIME, &clock);
    now_ms = ((int64_t)clock.tv_sec * 1000) + (clock.tv_nsec / 1000000);
    apart_ms = (int64_t)(metric->time_ns / 1000000) - now_ms;
    if (apart_ms < -STORE_LATE_MS) {
        clock_s = collector_clock_s(collector, agent);
    }
    if (store_is_dated(apart_ms, clock_s)) {
        return metric->time_ns / 1000000;
    }
    ++host->misdated;
    udmon_warn_limited(&limit, "node %s: its clock and ours are %lld s apart: its samples are "
                       "stored with the time when they came", host->name,
                       (long long)(apart_ms / 1000));
    return now_ms;
}

static void collector_sample(collector_t *collector, uint64_t agent, host_t *host,
                             const udmon_metric_t *metric, int late)
{
    static udmon_log_limit_t limit;
    series_t *series = store_series(host, metric->name);
    int64_t time_ms;

    if (series == NULL) {
        ++host->discarded;
        udmon_warn_limited(&limit, "node %s: more than %d series: %s and others are discarded",
                           host->name, STORE_SERIES_MAX, metric->name);
        return;
    }
    store_sample(series, metric, late, host->arrived_ns);
    time_ms = collector_time_ms(collector, agent, host, metric);
    writer_sample(&collector->writer, series, time_ms, metric->value);
    if (collector->remote_url != NULL) {
        remote_sample(&collector->remote, series, time_ms, metric->value);
    }
}

static void collector_message(void *arg, const udmon_peer_t *peer, const udmon_message_t *message)
{
    collector_t *collector = arg;
    host_t *host = store_host(&collector->store, peer->name);
    char name[UDMON_METRIC_NAME_MAX + 1];
    udmon_metric_t metric;

    if (host == NULL) {
        return;
    }
    host->changed = 1;
    host->arrived_ns = collector->loop.now_ns;
    ++host->received;
    host->lost -= (message->late && (host->lost > 0));
    if (udmon_metric_decode(message->data, message->length, &metric, name) < 0) {
        ++host->malformed;
        return;
    }
    collector_sample(collector, peer->id, host, &metric, message->late);
}

static void collector_joined(void *arg, const udmon_peer_t *peer)
{
    static udmon_log_limit_t full, twice;
    collector_t *collector = arg;
    host_t *host = store_host(&collector->store, peer->name);

    if (host == NULL) {
        udmon_warn_limited(&full, "node %s: more than %d nodes, or no memory: not recorded",
                           peer->name, STORE_HOSTS_MAX);
        return;
    }
    if (host->connected++ > 0) {
        udmon_warn_limited(&twice, "node %s: two agents give this name, at %s and %s: their "
                           "samples are mixed (option name)", peer->name, host->address, peer->address);
    }
    snprintf(host->transport, sizeof(host->transport), "%s", peer->transport);
    snprintf(host->address, sizeof(host->address), "%s", peer->address);
    udmon_info("node %s connected over %s from %s", peer->name, peer->transport, peer->address);
}

static void collector_left(void *arg, const udmon_peer_t *peer, udmon_left_t reason,
                           const udmon_stats_t *stats)
{
    static const char *const reasons[] = {
        [UDMON_LEFT_BYE] = "said goodbye",
        [UDMON_LEFT_SILENT] = "fell silent",
        [UDMON_LEFT_REPLACED] = "connected anew",
        [UDMON_LEFT_CLOSING] = "is left alone: the collector is closing",
    };
    collector_t *collector = arg;
    host_t *host = store_host(&collector->store, peer->name);

    if ((host != NULL) && (host->connected > 0)) {
        --host->connected;
    }
    /* Replaced: who came instead goes on counting, and is remembered at the next commit. */
    if (reason != UDMON_LEFT_REPLACED) {
        collector_set_next(peer->id, stats->peer_next, collector);
        writer_agent(&collector->writer, peer->id, stats->peer_next);
    }
    udmon_info("node %s %s", peer->name, reasons[reason]);
}

static void collector_gap(void *arg, const udmon_peer_t *peer, uint64_t first, uint64_t count)
{
    collector_t *collector = arg;
    host_t *host = store_host(&collector->store, peer->name);

    if (host != NULL) {
        host->lost += count;
        host->changed = 1;
    }
    udmon_debug("node %s: records %llu to %llu are missing", peer->name, (unsigned long long)first,
                (unsigned long long)(first + count - 1));
}

static void collector_remember(void *arg, const udmon_peer_t *peer)
{
    collector_t *collector = arg;
    udmon_stats_t stats;

    if (udmon_server_stats(collector->server, peer->id, &stats) == 0) {
        collector_set_next(peer->id, stats.peer_next, collector);
        writer_agent(&collector->writer, peer->id, stats.peer_next);
    }
}

/* Counts go the same way as the samples, so that they fit them. */
static void collector_commit(udmon_timer_t *timer)
{
    collector_t *collector = timer->arg;
    uint64_t keep_ns;
    host_t *host;

    store_lock(&collector->store);
    udmon_server_clients(collector->server, collector_remember, collector);
    LIST_FOREACH(host, &collector->store.hosts, list) {
        if (host->changed) {
            host->changed = (writer_host(&collector->writer, host) < 0);
        }
    }
    /* A node that is gone is shown for as long as there is something of it. */
    keep_ns = collector->keep_seconds * 1000000000;
    store_forget(&collector->store, udmon_now_ns(), FORGET_NS,
                 (keep_ns > FORGET_NS) ? keep_ns : FORGET_NS);
    store_unlock(&collector->store);
    writer_commit(&collector->writer);
    http_expire(&collector->http);
    udmon_timer_set(&collector->loop, timer, COMMIT_MS);
}

static void collector_ready(udmon_source_t *source, uint32_t events)
{
    collector_t *collector = source->arg;

    (void)events;
    store_lock(&collector->store);
    udmon_server_process(collector->server);
    store_unlock(&collector->store);
}

static void collector_signal(udmon_source_t *source, uint32_t events)
{
    collector_t *collector = source->arg;
    struct signalfd_siginfo info;

    (void)events;
    while (read(source->fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGHUP) {
            udmon_warn("SIGHUP: there is nothing to read anew; restart to change the options");
        } else {
            collector->stopping = 1;
        }
    }
}

static int collector_signals(collector_t *collector)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* HTTP clients go when they like */
    collector->signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    collector->signals.ready = collector_signal;
    collector->signals.arg = collector;
    return (collector->signals.fd < 0) ?
               -errno : udmon_loop_add(&collector->loop, &collector->signals, EPOLLIN);
}

static int collector_open(collector_t *collector)
{
    udmon_server_callbacks_t callbacks = {
        .message = collector_message,
        .joined = collector_joined,
        .left = collector_left,
        .gap = collector_gap,
        .resume = collector_resume,
    };
    udmon_options_t options;
    int ret;

    udmon_options_init(&options);
    options.secret_file = collector->secret;
    options.datagram_size = 65535;
    if ((udmon_loop_open(&collector->loop) < 0) || (collector_signals(collector) < 0)) {
        return -EIO;
    }
    store_init(&collector->store);
    ret = history_open(&collector->writer.history, collector->database, collector->keep_seconds,
                       collector->max_rows, collector->keep_promised);
    if (ret < 0) {
        return ret;
    }
    history_load(&collector->writer.history, &collector->store);
    history_agents(&collector->writer.history, collector_set_next, collector);
    ret = writer_start(&collector->writer);
    if (ret < 0) {
        goto err_history;
    }
    ret = (collector->remote_url != NULL) ?
              remote_open(&collector->remote, collector->remote_url) : 0;
    if (ret < 0) {
        goto err_writer;
    }
    ret = udmon_server_open(collector->listen, &options, &callbacks, collector,
                            &collector->server);
    if (ret < 0) {
        goto err_remote;
    }
    ret = http_open(&collector->http, collector->http_address, collector->database,
                    &collector->store, &collector->writer,
                    (collector->remote_url != NULL) ? &collector->remote : NULL);
    if (ret < 0) {
        goto err_server;
    }
    collector->server_source.fd = udmon_server_fd(collector->server);
    collector->server_source.ready = collector_ready;
    collector->server_source.arg = collector;
    collector->commit.fire = collector_commit;
    collector->commit.arg = collector;
    udmon_timer_set(&collector->loop, &collector->commit, COMMIT_MS);
    return udmon_loop_add(&collector->loop, &collector->server_source, EPOLLIN);

err_server:
    udmon_server_close(collector->server);
err_remote:
    if (collector->remote_url != NULL) {
        remote_close(&collector->remote);
    }
err_writer:
    writer_stop(&collector->writer);
err_history:
    history_close(&collector->writer.history);
    return ret;
}

static void collector_finish(series_t *series, void *arg)
{
    history_finish(arg, series);
}

static void collector_close(collector_t *collector)
{
    host_t *host;

    http_close(&collector->http);
    udmon_loop_delete(&collector->loop, &collector->server_source);
    udmon_server_close(collector->server);
    LIST_FOREACH(host, &collector->store.hosts, list) {
        if (host->changed) {
            writer_host(&collector->writer, host);
        }
    }
    if (collector->remote_url != NULL) {
        remote_close(&collector->remote);
    }
    writer_stop(&collector->writer);
    LIST_FOREACH(host, &collector->store.hosts, list) {
        store_each(host, collector_finish, &collector->writer.history);
    }
    history_commit(&collector->writer.history);
    history_close(&collector->writer.history);
    store_free(&collector->store);
    tdestroy(collector->agents, free);
    udmon_loop_close(&collector->loop);
}

static int usage(FILE *out, int status)
{
    fprintf(out,
            "Usage: udmon-collector [OPTION...]\n"
            "Receives metrics from udmon-agents, keeps them, and serves them over HTTP.\n\n"
            "  -l, --listen ADDRESS   [SCHEME://]HOST:PORT for agents [*:4999,\n"
            "                         without a secret localhost:4999]\n"
            "  -w, --http HOST:PORT   for browsers and Prometheus [127.0.0.1:9499]\n"
            "  -d, --database FILE    history [/var/lib/udmon/history.db]\n"
            "  -s, --secret FILE      only agents that know this secret are let in;\n"
            "                         needed for other addresses than loopback\n"
            "  -k, --keep SECONDS     keep history for so long [86400]; refused if --rows\n"
            "                         cannot last for it\n"
            "  -n, --rows NUMBER      keep so many rows at most [10000000]\n"
            "  -r, --remote-write URL send samples on to Prometheus or others that take its\n"
            "                         remote_write protocol\n"
            "  -h, --help             this text\n"
            "  -V, --version          the version\n\n"
            "Exit status: 0; 1 it could not start (a line says why); 2 wrong usage.\n"
            "See udmon-collector(8).\n");
    return status;
}

static int number(const char *text, int64_t *value_p)
{
    char *end;

    errno = 0;
    *value_p = strtoll(text, &end, 10);
    return ((end != text) && (*end == '\0') && (errno == 0) && (*value_p > 0) &&
            (*value_p < (INT64_C(1) << 50))) ? 0 : -EINVAL;
}

/* Returns an exit status, or -1 to go on. */
static int arguments(int argc, char **argv, collector_t *collector)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'},   {"http", required_argument, NULL, 'w'},
        {"database", required_argument, NULL, 'd'}, {"secret", required_argument, NULL, 's'},
        {"keep", required_argument, NULL, 'k'},     {"rows", required_argument, NULL, 'n'},
        {"remote-write", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},           {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int option, bad = 0;
    int64_t value = 0;

    while ((option = getopt_long(argc, argv, "l:w:d:s:k:n:r:hV", options, NULL)) != -1) {
        switch (option) {
        case 'l':
            collector->listen = optarg;
            break;
        case 'w':
            collector->http_address = optarg;
            break;
        case 'd':
            collector->database = optarg;
            break;
        case 's':
            collector->secret = optarg;
            break;
        case 'k':
            bad = number(optarg, &value);
            collector->keep_seconds = value;
            collector->keep_promised = 1;
            break;
        case 'n':
            bad = number(optarg, &collector->max_rows);
            break;
        case 'r':
            collector->remote_url = optarg;
            break;
        case 'h':
            return usage(stdout, 0);
        case 'V':
            printf("udmon-collector %s\n", UDMON_PACKAGE_VERSION);
            return 0;
        default:
            return usage(stderr, 2);
        }
        if (bad) {
            fprintf(stderr, "udmon-collector: '%s' is no positive number\n", optarg);
            return 2;
        }
    }
    if (collector->listen == NULL) {
        /* For others only if they can prove who they are. */
        collector->listen = (collector->secret != NULL) ? "*:4999" : "localhost:4999";
    }
    return (optind < argc) ? usage(stderr, 2) : -1;
}

int main(int argc, char **argv)
{
    static collector_t collector = {
        .http_address = "127.0.0.1:9499",
        .database = "/var/lib/udmon/history.db",
        .keep_seconds = 86400,
        .max_rows = 10000000,
    };
    struct pollfd wait;
    int status;

    status = arguments(argc, argv, &collector);
    if (status >= 0) {
        return status;
    }
    if (collector_open(&collector) < 0) {
        return 1;
    }
    fprintf(stderr, "udmon-collector: listening on %s (port %d%s), page at http://%s/\n",
            collector.listen, udmon_server_port(collector.server),
            (collector.secret != NULL) ? "" : ", this host only: no secret was given",
            collector.http_address);
    wait = (struct pollfd) {.fd = collector.loop.epoll_fd, .events = POLLIN};
    while (!collector.stopping) {
        poll(&wait, 1, -1);
        udmon_loop_run(&collector.loop);
    }
    collector_close(&collector);
    return 0;
}
