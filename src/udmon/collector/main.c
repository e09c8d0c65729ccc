/* udmon-collector: receives from agents, keeps a history, serves it over HTTP. */
#include "history.h"
#include "http.h"
#include "store.h"
#include "../log.h"
#include "../metric.h"
#include "../udmon.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { COMMIT_MS = 1000 };

typedef struct collector {
    const char *listen, *http_address, *database, *secret;
    uint64_t keep_seconds;
    int64_t max_rows;
    udmon_loop_t loop;
    udmon_source_t signals, server_source;
    udmon_timer_t commit;
    udmon_server_t *server;
    store_t store;
    history_t history;
    http_t http;
    int stopping;
} collector_t;

static void collector_message(void *arg, const udmon_peer_t *peer, const udmon_message_t *message)
{
    collector_t *collector = arg;
    host_t *host = store_host(&collector->store, peer->name);
    char name[UDMON_METRIC_NAME_MAX + 1];
    udmon_metric_t metric;
    series_t *series;

    if (host == NULL) {
        return;
    }
    host->changed = 1;
    if (!message->reliable) {
        ++host->received;
        host->lost -= (message->late && (host->lost > 0));
    }
    if (udmon_metric_decode(message->data, message->length, &metric, name) < 0) {
        ++host->malformed;
        return;
    }
    series = store_series(host, name);
    if (series == NULL) {
        return;
    }
    series->counter = metric.counter;
    if (metric.time_ns >= series->time_ns) {
        series->value = metric.value;
        series->time_ns = metric.time_ns;
        history_add(&collector->history, series);
    }
}

static void collector_joined(void *arg, const udmon_peer_t *peer)
{
    collector_t *collector = arg;
    host_t *host = store_host(&collector->store, peer->name);

    if (host == NULL) {
        udmon_warn("node %s: more than %d nodes, or no memory: not recorded", peer->name,
                   STORE_HOSTS_MAX);
        return;
    }
    ++host->connected;
    snprintf(host->transport, sizeof(host->transport), "%s", peer->transport);
    snprintf(host->address, sizeof(host->address), "%s", peer->address);
    udmon_info("node %s connected over %s from %s", peer->name, peer->transport, peer->address);
}

/* How far an agent's count has come; what it sends while nobody listens is then known as lost. */
static void collector_remember(collector_t *collector, const udmon_peer_t *peer)
{
    udmon_stats_t stats;

    if (udmon_server_stats(collector->server, peer->id, &stats) == 0) {
        history_set_next_seq(&collector->history, peer->id, stats.peer_next);
    }
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
        history_set_next_seq(&collector->history, peer->id, stats->peer_next);
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

static uint64_t collector_resume(void *arg, uint64_t agent)
{
    return history_next_seq(&((collector_t *)arg)->history, agent);
}

static void collector_remember_each(void *arg, const udmon_peer_t *peer)
{
    collector_remember(arg, peer);
}

static void collector_commit(udmon_timer_t *timer)
{
    collector_t *collector = timer->arg;

    udmon_server_clients(collector->server, collector_remember_each, collector);
    history_commit(&collector->history, &collector->store);
    udmon_timer_set(&collector->loop, timer, COMMIT_MS);
}

static void collector_ready(udmon_source_t *source, uint32_t events)
{
    (void)events;
    udmon_server_process(((collector_t *)source->arg)->server);
}

static void collector_signal(udmon_source_t *source, uint32_t events)
{
    (void)events;
    ((collector_t *)source->arg)->stopping = 1;
}

static int collector_signals(collector_t *collector)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
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
    ret = history_open(&collector->history, collector->database, collector->keep_seconds,
                       collector->max_rows);
    if (ret < 0) {
        return ret;
    }
    history_load(&collector->history, &collector->store);
    ret = udmon_server_open(collector->listen, &options, &callbacks, collector,
                            &collector->server);
    if (ret < 0) {
        goto err_history;
    }
    ret = http_open(&collector->http, &collector->loop, collector->http_address,
                    &collector->store, &collector->history);
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
err_history:
    history_close(&collector->history);
    return ret;
}

static void collector_close(collector_t *collector)
{
    http_close(&collector->http);
    udmon_loop_delete(&collector->loop, &collector->server_source);
    udmon_server_close(collector->server);
    history_commit(&collector->history, &collector->store);
    history_close(&collector->history);
    store_free(&collector->store);
    udmon_loop_close(&collector->loop);
}

static int usage(FILE *out, int status)
{
    fprintf(out,
            "Usage: udmon-collector [OPTION...]\n"
            "Receives metrics from udmon-agents, keeps them, and serves them over HTTP.\n\n"
            "  -l, --listen ADDRESS   [SCHEME://]HOST:PORT for agents [*:4999]\n"
            "  -w, --http HOST:PORT   for browsers and Prometheus [127.0.0.1:9499]\n"
            "  -d, --database FILE    history [/var/lib/udmon/history.db]\n"
            "  -s, --secret FILE      only agents that know this secret are let in\n"
            "  -k, --keep SECONDS     keep history for so long [86400]\n"
            "  -n, --rows NUMBER      keep so many samples at most [10000000]\n"
            "  -h, --help             this text\n\n"
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
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
    };
    int option, bad = 0;
    int64_t value = 0;

    while ((option = getopt_long(argc, argv, "l:w:d:s:k:n:h", options, NULL)) != -1) {
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
            break;
        case 'n':
            bad = number(optarg, &collector->max_rows);
            break;
        case 'h':
            return usage(stdout, 0);
        default:
            return usage(stderr, 2);
        }
        if (bad) {
            fprintf(stderr, "udmon-collector: '%s' is no positive number\n", optarg);
            return 2;
        }
    }
    return (optind < argc) ? usage(stderr, 2) : -1;
}

int main(int argc, char **argv)
{
    static collector_t collector = {
        .listen = "*:4999",
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
    wait = (struct pollfd) {.fd = collector.loop.epoll_fd, .events = POLLIN};
    while (!collector.stopping) {
        poll(&wait, 1, -1);
        udmon_loop_run(&collector.loop);
    }
    collector_close(&collector);
    return 0;
}
