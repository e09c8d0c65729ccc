/* Receives from agents and relays; passes on to store, history, remote write, upper collector. */
#include "collector.h"
#include "metrics.h"
#include "../lib/base/auth.h"
#include "../lib/base/log.h"
#include "../lib/metric.h"
#include "common/fnv.h"

#include <openssl/crypto.h>

#include <errno.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COMMIT_MS = 1000,
};
#define FORGET_NS UINT64_C(3600000000000)

/* The data of an agent that survives connections and restarts. */
struct agent {
    uint64_t id, next;
};

static int agent_compare(const void *left, const void *right)
{
    const struct agent *a = left, *b = right;

    return (a->id > b->id) - (a->id < b->id);
}

/*
 * Remembers the next number of an agent's records. Records that the agent sends while no collector
 * listens are then known as lost.
 */
static void collector_set_next(uint64_t id, uint64_t next, void *arg)
{
    struct agent key = {.id = id}, **found, *agent;
    struct collector *collector = arg;

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

/* The identity of a name that counts over restarts, as agents do */
static uint64_t collector_id(const char *name, const char *of)
{
    uint64_t id = fnv1a(fnv1a(FNV_START, name, strlen(name)), "/", 1);

    return fnv1a(id, of, strlen(of));
}

static uint64_t collector_resume(void *arg, uint64_t id)
{
    struct agent key = {.id = id}, **found;

    found = tfind(&key, &((struct collector *)arg)->agents, agent_compare);
    return (found != NULL) ? (*found)->next : UDMON_SEQ_UNKNOWN;
}

/* How far an agent's clock is ahead of the collector's clock. */
static int64_t collector_clock_s(const struct collector *collector, uint64_t agent)
{
    struct udmon_stats stats;

    return (udmon_server_stats(collector->server, agent, &stats) == 0) ? stats.peer_clock_s :
                                                                         UDMON_CLOCK_UNKNOWN;
}

/*
 * The stored time of a sample: the agent's time, or the arrival time if the agent's clock is far
 * from the collector's clock.
 */
static int64_t collector_time_ms(const struct collector *collector, uint64_t agent,
                                 struct host *host, const struct udmon_metric *metric)
{
    static struct udmon_log_limit limit;
    int64_t now_ms = udmon_time_ns() / 1000000, clock_s = 0;
    int64_t apart_ms = (int64_t)(metric->time_ns / 1000000) - now_ms;

    if (apart_ms < -STORE_LATE_MS) {
        clock_s = collector_clock_s(collector, agent);
    }
    if (store_is_dated(apart_ms, clock_s)) {
        return metric->time_ns / 1000000;
    }
    ++host->misdated;
    udmon_warn_limited(&limit,
                       "node %s: its clock and ours are %lld s apart: its samples are "
                       "stored with the time when they came",
                       host->name, (long long)(apart_ms / 1000));
    return now_ms;
}

/* A limit of its own for each reason: one node's fault does not hide another's. */
static void collector_discard(const struct collector *collector, struct host *host,
                              const char *name, int reason)
{
    static struct udmon_log_limit series, all, memory;

    ++host->discarded;
    if (reason == ENOSPC) {
        udmon_warn_limited(&series,
                           "node %s: more than %zu series: %s and others are discarded "
                           "(option --node-quota)",
                           host->name, host->series_count, name);
    } else if (reason == EDQUOT) {
        udmon_warn_limited(&all,
                           "all nodes together have %zu series (option --series): %s and others of "
                           "node %s, which has more than %d, are discarded",
                           collector->store.series_count, name, host->name, STORE_SERIES_SURE);
    } else {
        udmon_warn_limited(&memory, "node %s: no memory: %s and others are discarded", host->name,
                           name);
    }
}

/* Tells once which limit a sender has exceeded. */
static void collector_exceeded(const struct host *sender, const struct quota_limits *limits,
                               enum quota_kind kind)
{
    static struct udmon_log_limit limit[QUOTA_KINDS];
    static const char *const what[QUOTA_KINDS] = {
        [QUOTA_NODES] = "nodes",
        [QUOTA_SERIES] = "series",
        [QUOTA_SAMPLES] = "samples a second",
        [QUOTA_BYTES] = "bytes a second",
        [QUOTA_HISTORY] = "percent of the history's samples",
    };

    udmon_warn_limited(&limit[kind],
                       "node %s: more than %lld %s (options --node-quota, --relay-quota): %s",
                       sender->name, (long long)limits->limits[kind], what[kind],
                       (kind == QUOTA_HISTORY) ? "further samples are shown, but not stored" :
                                                 "further samples are discarded");
}

/*
 * Whether node and relay (or NULL) may send this record now. The node comes first: an excess of one
 * node takes nothing from the other nodes of its relay.
 */
static bool collector_may_send(struct collector *collector, struct host *host, struct host *relay,
                               size_t bytes)
{
    struct store *store = &collector->store;
    struct host *sender = host;
    uint64_t now_ns = collector->loop.now_ns;
    int kind = quota_take(&host->quota, &store->node_limits, &store->quota_total, bytes, now_ns);

    if ((kind < 0) && (relay != NULL)) {
        sender = relay;
        kind = quota_take(&relay->quota, &store->relay_limits, &store->quota_total, bytes, now_ns);
    }
    if (kind >= 0) {
        ++host->discarded;
        collector_exceeded(sender, (sender == relay) ? &store->relay_limits : &store->node_limits,
                           kind);
    }
    return kind < 0;
}

/* Whether the sample may be stored in the history. */
static bool collector_may_store(struct collector *collector, struct host *host, struct host *relay)
{
    struct store *store = &collector->store;

    if (!quota_may_store(&host->quota, &store->node_limits)) {
        collector_exceeded(host, &store->node_limits, QUOTA_HISTORY);
        return false;
    }
    if (relay != NULL) {
        if (!quota_may_store(&relay->quota, &store->relay_limits)) {
            collector_exceeded(relay, &store->relay_limits, QUOTA_HISTORY);
            return false;
        }
        quota_stored(&relay->quota);
    }
    quota_stored(&host->quota);
    ++store->quota_total.stored;
    return true;
}

/* Finds or makes the series of a sample. A relay may make a limited number. */
static struct series *collector_series(const struct collector *collector, struct host *host,
                                       struct host *relay, const struct udmon_metric *metric)
{
    const struct quota_limits *limits = &host->store->relay_limits;
    size_t before = host->series_count;
    struct series *series;

    if ((relay != NULL) && (relay->quota.series >= (size_t)limits->limits[QUOTA_SERIES])) {
        series = store_find_series(host, metric->name, metric->counter);
        if (series == NULL) {
            quota_more(&relay->quota, limits, QUOTA_SERIES, relay->quota.series);
            collector_exceeded(relay, limits, QUOTA_SERIES);
            ++host->discarded;
        }
        return series;
    }
    series = metric->counter ? store_counter(host, metric->name) : store_series(host, metric->name);
    if (series == NULL) {
        collector_discard(collector, host, metric->name, errno);
    } else if (relay != NULL) {
        relay->quota.series += host->series_count - before;
    }
    return series;
}

static void collector_sample(struct collector *collector, const struct udmon_peer *peer,
                             struct host *host, struct host *relay,
                             const struct udmon_metric *metric, int late)
{
    struct series *series = collector_series(collector, host, relay, metric);
    int64_t time_ms;

    if (series == NULL) {
        return;
    }
    store_sample(series, metric, late, host->arrived_ns);
    time_ms = collector_time_ms(collector, peer->id, host, metric);
    if (collector_may_store(collector, host, relay)) {
        writer_sample(&collector->writer, series, time_ms, metric->value);
    }
    if (collector->remote_url != NULL) {
        remote_sample(&collector->remote, series, time_ms, metric->value);
    }
    if (collector->upper != NULL) {
        relay_sample(&collector->relay, host, metric, time_ms, late);
    }
}

/*
 * Counts a description that was discarded. The agent repeats the description each minute, so only
 * the first one of a node is logged.
 */
static void collector_undescribed(const struct store *store, struct host *host, const char *name,
                                  int reason)
{
    static struct udmon_log_limit one, all, memory;

    if (++host->descriptions_discarded > 1) {
        return;
    }
    if (reason == -ENOMEM) {
        udmon_warn_limited(&memory, "node %s: no memory: the description of %s is discarded",
                           host->name, name);
    } else if (host->descriptions >= DESCRIPTIONS_OF_NODE) {
        udmon_warn_limited(&one,
                           "node %s: descriptions of more than %d families: those of %s and others "
                           "are discarded",
                           host->name, DESCRIPTIONS_OF_NODE, name);
    } else {
        udmon_warn_limited(&all,
                           "all nodes together have descriptions of %zu families: those of %s and "
                           "others of node %s are discarded",
                           store->descriptions.count, name, host->name);
    }
}

/* A node describes a family. */
static void collector_family(struct collector *collector, struct host *host,
                             const struct udmon_family *family)
{
    int ret =
        descriptions_put(&collector->store.descriptions, host, family, collector->loop.now_ns);

    if (ret < 0) {
        collector_undescribed(&collector->store, host, family->name, ret);
    }
    if (collector->upper != NULL) {
        relay_family(&collector->relay, host, family);
    }
}

/* A sample of a node, valid or invalid, has arrived. */
static void collector_arrived(struct collector *collector, struct host *host)
{
    host->changed = 1;
    host->arrived_ns = collector->loop.now_ns;
    ++host->received;
}

/*
 * The history keeps our counts together with the last loss count of each relay for the node. A
 * relay's losses during our absence are counted only here, as the difference to this count.
 */
static void collector_state(struct collector *collector, const struct udmon_peer *peer,
                            const struct udmon_relayed *relayed, struct host *host)
{
    uint64_t id = collector_id(peer->name, host->name);
    uint64_t known = collector_resume(collector, id);

    if (relayed->up && (known != UDMON_SEQ_UNKNOWN) && strcmp(host->relay_name, peer->name)) {
        snprintf(host->relay_name, sizeof(host->relay_name), "%s", peer->name);
        host->relay_lost = known;
    }
    relayed_state(host, peer->id, peer->name, relayed->up, relayed->lost);
    if ((known != host->relay_lost) && !strcmp(host->relay_name, peer->name)) {
        collector_set_next(id, host->relay_lost, collector);
        writer_agent(&collector->writer, id, host->relay_lost);
    }
}

/* Finds or makes a node of a relay. A relay may bring a limited number. */
static struct host *collector_node_of(struct collector *collector, const struct udmon_peer *peer,
                                      struct host *relay, const char *name)
{
    const struct quota_limits *limits = &collector->store.relay_limits;
    struct host *host = store_find_host(&collector->store, name);

    if ((host == NULL) || (host->sender != peer->id)) {
        if (!quota_more(&relay->quota, limits, QUOTA_NODES, relay->quota.nodes)) {
            ++relay->discarded;
            collector_exceeded(relay, limits, QUOTA_NODES);
            return NULL;
        }
        host = store_host(&collector->store, name);
        if (host == NULL) {
            return NULL;
        }
        host->sender = peer->id;
        snprintf(host->sender_name, sizeof(host->sender_name), "%s", peer->name);
        ++relay->quota.nodes;
        relay->quota.series += host->series_count;
    }
    return host;
}

static void collector_relayed_family(struct collector *collector, const struct udmon_peer *peer,
                                     struct host *relay, const struct udmon_message *message)
{
    struct udmon_family_text family;
    char node[UDMON_NAME_MAX + 1];
    struct host *host;

    if (udmon_family_decode(message->data, message->length, &family, node) < 0) {
        collector_arrived(collector, relay);
        ++relay->malformed;
        return;
    }
    host = collector_node_of(collector, peer, relay, node);
    if (host != NULL) {
        collector_arrived(collector, host);
        if (collector_may_send(collector, host, relay, message->length)) {
            collector_family(collector, host, &family.family);
        }
    }
}

/* The relay is a node, too. Its losses are the losses between relay and collector, of all nodes. */
static void collector_relayed(struct collector *collector, const struct udmon_peer *peer,
                              struct host *relay, const struct udmon_message *message)
{
    char name[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_relayed relayed;
    struct host *host;

    relay->lost -= (message->late && (relay->lost > 0));
    if (udmon_record_is_family(message->data, message->length)) {
        collector_relayed_family(collector, peer, relay, message);
        return;
    }
    if (udmon_relayed_decode(message->data, message->length, &relayed, name) < 0) {
        collector_arrived(collector, relay);
        ++relay->malformed;
        return;
    }
    if (relayed.is_state) {
        collector_arrived(collector, relay);
        host = relayed.up ? collector_node_of(collector, peer, relay, relayed.node) :
                            store_find_host(&collector->store, relayed.node);
        if (host != NULL) {
            collector_state(collector, peer, &relayed, host);
        }
        return;
    }
    host = collector_node_of(collector, peer, relay, relayed.node);
    if (host != NULL) {
        collector_arrived(collector, host);
        if (collector_may_send(collector, host, relay, message->length)) {
            collector_sample(collector, peer, host, relay, &relayed.metric,
                             relayed.late || message->late);
        }
    }
}

static void collector_message(void *arg, const struct udmon_peer *peer,
                              const struct udmon_message *message)
{
    struct collector *collector = arg;
    struct host *host = store_host(&collector->store, peer->name);
    char name[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_family_text family;
    struct udmon_metric metric;

    if (host == NULL) {
        return;
    }
    if (peer->relay) {
        collector_relayed(collector, peer, host, message);
        return;
    }
    collector_arrived(collector, host);
    host->lost -= (message->late && (host->lost > 0));
    if (!collector_may_send(collector, host, NULL, message->length)) {
        return;
    }
    if (udmon_record_is_family(message->data, message->length)) {
        if (udmon_family_decode(message->data, message->length, &family, NULL) < 0) {
            ++host->malformed;
        } else {
            collector_family(collector, host, &family.family);
        }
        return;
    }
    if (udmon_metric_decode(message->data, message->length, &metric, name) < 0) {
        ++host->malformed;
        return;
    }
    collector_sample(collector, peer, host, NULL, &metric, message->late);
}

static void collector_joined(void *arg, const struct udmon_peer *peer)
{
    static struct udmon_log_limit full, twice;
    struct collector *collector = arg;
    struct host *host = store_host(&collector->store, peer->name);

    if (host == NULL) {
        udmon_warn_limited(&full, "node %s: more than %d nodes, or no memory: not recorded",
                           peer->name, STORE_HOSTS_MAX);
        return;
    }
    host->sender = 0; /* the next sample through a relay counts the node for the relay again */
    if (host->connected++ > 0) {
        udmon_warn_limited(&twice,
                           "node %s: two agents give this name, at %s and %s: their "
                           "samples are mixed (option name)",
                           peer->name, host->address, peer->address);
    }
    snprintf(host->transport, sizeof(host->transport), "%s", peer->transport);
    snprintf(host->address, sizeof(host->address), "%s", peer->address);
    if (collector->upper != NULL) {
        relay_state(&collector->relay, host);
    }
    udmon_info("node %s connected over %s from %s", peer->name, peer->transport, peer->address);
}

static void collector_left(void *arg, const struct udmon_peer *peer, enum udmon_left reason,
                           const struct udmon_stats *stats)
{
    static const char *const reasons[] = {
        [UDMON_LEFT_BYE] = "said goodbye",
        [UDMON_LEFT_SILENT] = "fell silent",
        [UDMON_LEFT_REPLACED] = "connected anew",
        [UDMON_LEFT_CLOSING] = "is left alone: the collector is closing",
    };
    struct collector *collector = arg;
    struct host *host = store_host(&collector->store, peer->name);

    if ((host != NULL) && (host->connected > 0)) {
        --host->connected;
        if (collector->upper != NULL) {
            relay_state(&collector->relay, host);
        }
    }
    /* A relay that has reconnected reports its nodes at once. */
    if (peer->relay && (reason != UDMON_LEFT_REPLACED)) {
        relayed_gone(&collector->store, peer->id);
    }
    /* Replaced: the new connection keeps counting, and the next commit stores its number. */
    if (reason != UDMON_LEFT_REPLACED) {
        collector_set_next(peer->id, stats->peer_next, collector);
        writer_agent(&collector->writer, peer->id, stats->peer_next);
    }
    udmon_info("node %s %s", peer->name, reasons[reason]);
}

static void collector_gap(void *arg, const struct udmon_peer *peer, uint64_t first, uint64_t count)
{
    struct collector *collector = arg;
    struct host *host = store_host(&collector->store, peer->name);

    if (host != NULL) {
        host->lost += count;
        host->changed = 1;
    }
    udmon_debug("node %s: records %llu to %llu are missing", peer->name, (unsigned long long)first,
                (unsigned long long)(first + count - 1));
}

static void collector_remember(void *arg, const struct udmon_peer *peer)
{
    struct collector *collector = arg;
    struct udmon_stats stats;

    if (udmon_server_stats(collector->server, peer->id, &stats) == 0) {
        collector_set_next(peer->id, stats.peer_next, collector);
        writer_agent(&collector->writer, peer->id, stats.peer_next);
    }
}

static void collector_remember_relay(struct collector *collector)
{
    struct relay *relay = &collector->relay;
    uint64_t numbers[UDMON_SERVERS_MAX];
    unsigned i;

    udmon_client_numbers(relay->client, numbers);
    for (i = 0; i < UDMON_SERVERS_MAX; ++i) {
        if ((numbers[i] != relay->numbers[i]) &&
            (writer_agent(&collector->writer, relay->id + i, numbers[i]) == 0)) {
            relay->numbers[i] = numbers[i];
        }
    }
}

/* Counts pass through the same queue as the samples, so counts and samples match. */
static void collector_commit(struct udmon_timer *timer)
{
    struct collector *collector = timer->arg;
    uint64_t keep_ns;
    struct host *host;

    store_lock(&collector->store);
    udmon_server_clients(collector->server, collector_remember, collector);
    LIST_FOREACH(host, &collector->store.hosts, list) {
        if (host->changed) {
            host->changed = (writer_host(&collector->writer, host) < 0);
        }
    }
    if (collector->upper != NULL) {
        relay_states(&collector->relay, &collector->store);
        collector_remember_relay(collector);
    }
    /* A node that is gone stays visible as long as the history has its data. */
    store_count_relayed(&collector->store);
    keep_ns = collector->keep_seconds * UINT64_C(1000000000);
    store_forget(&collector->store, udmon_now_ns(), FORGET_NS,
                 (keep_ns > FORGET_NS) ? keep_ns : FORGET_NS);
    store_unlock(&collector->store);
    writer_commit(&collector->writer);
    http_expire(&collector->http);
    udmon_timer_set(&collector->loop, timer, COMMIT_MS);
}

static void collector_ready(struct udmon_source *source, uint32_t events)
{
    struct collector *collector = source->arg;

    (void)events;
    store_lock(&collector->store);
    udmon_server_process(collector->server);
    store_unlock(&collector->store);
}

static struct collector *collector_of_signals;

static void collector_hangup(void)
{
    http_reload(&collector_of_signals->http);
    if (collector_of_signals->rules_file != NULL) {
        alerts_reload(&collector_of_signals->alerts);
    }
    udmon_warn("SIGHUP: users and certificate of HTTP are read again, and the rules of alerts; "
               "changed secrets are read without a signal; restart to change options");
}

/* Derives the relay's identity from its name, which no other node has. */
static void collector_name_relay(struct collector *collector, const char *name)
{
    struct relay *relay = &collector->relay;
    uint64_t next;
    unsigned i;

    relay->id = collector_id(name, "");
    for (i = 0; i < UDMON_SERVERS_MAX; ++i) {
        next = collector_resume(collector, relay->id + i);
        relay->numbers[i] = (next != UDMON_SEQ_UNKNOWN) ? next : 0;
    }
}

static int collector_open_relay(struct collector *collector)
{
    struct udmon_options options = collector->options;
    char name[UDMON_NAME_MAX + 1], host[UDMON_NAME_MAX + 1] = "";
    struct udmon_secret secret;
    int ret;

    if (collector->upper_secret != NULL) {
        options.secret_file = collector->upper_secret;
    }
    ret = udmon_secret_load(options.secret_file, &secret);
    if (ret < 0) {
        return ret;
    }
    gethostname(host, sizeof(host) - 1);
    /* The host's own name without "relay-" is the name of the agent on this host. */
    snprintf(name, sizeof(name), "relay-%.56s", host);
    if (secret.node[0] != '\0') {
        snprintf(name, sizeof(name), "%s", secret.node);
    }
    OPENSSL_cleanse(&secret, sizeof(secret));
    options.name = (options.name != NULL) ? options.name : name;
    collector_name_relay(collector, options.name);
    return relay_open(&collector->relay, collector->upper, &options, &collector->loop);
}

static bool collector_alert_wants(const void *arg, const char *name, size_t length, int counter)
{
    return alerts_wants(arg, name, length, counter);
}

/* By the thread of the alerts. */
static void collector_write_samples(void *arg, FILE *out)
{
    struct collector *collector = arg;
    const struct metrics_filter filter = {.wants = collector_alert_wants,
                                          .arg = &collector->alerts};

    metrics_write(&collector->store, &collector->writer,
                  (collector->remote_url != NULL) ? &collector->remote : NULL,
                  (collector->upper != NULL) ? &collector->relay : NULL, &filter, METRICS_TEXT,
                  out);
}

static int collector_open_alerts(struct collector *collector)
{
    const struct alerts_options options = {.rules_file = collector->rules_file,
                                           .write_samples = collector_write_samples,
                                           .arg = collector};
    int ret;

    if (collector->rules_file == NULL) {
        return 0;
    }
    ret = alerts_open(&collector->alerts, &options);
    if (ret < 0) {
        return ret;
    }
    ret = notify_open(&collector->notify, &collector->alerts, &collector->notify_options);
    if (ret < 0) {
        alerts_close(&collector->alerts);
    }
    return ret;
}

static void collector_close_alerts(struct collector *collector)
{
    if (collector->rules_file != NULL) {
        notify_close(&collector->notify);
        alerts_close(&collector->alerts);
    }
}

int collector_open(struct collector *collector)
{
    struct udmon_server_callbacks callbacks = {
        .message = collector_message,
        .joined = collector_joined,
        .left = collector_left,
        .gap = collector_gap,
        .resume = collector_resume,
    };
    struct udmon_options options = collector->options;
    int ret;

    if ((collector->query_options.url != NULL) &&
        (query_open(&collector->query, &collector->query_options) < 0)) {
        return -EINVAL;
    }
    collector_of_signals = collector;
    options.queue_bytes = 0; /* agents are sent nothing */
    options.datagram_size = 65535;
    options.max_clients = STORE_HOSTS_MAX;
    options.refuse_relays = (collector->upper != NULL);
    if ((udmon_loop_open(&collector->loop) < 0) ||
        (udmon_signals_catch(&collector->loop, &collector->signals, collector_hangup) < 0)) {
        return -EIO;
    }
    signal(SIGPIPE, SIG_IGN); /* HTTP clients go when they like */
    store_init(&collector->store);
    collector->store.series_max = collector->max_series;
    collector->store.node_limits = collector->node_limits;
    collector->store.relay_limits = collector->relay_limits;
    ret = history_open(&collector->writer.history, collector->database, collector->keep_seconds,
                       collector->max_bytes);
    if (ret < 0) {
        return ret;
    }
    history_load(&collector->writer.history, &collector->store);
    history_agents(&collector->writer.history, collector_set_next, collector);
    ret = writer_start(&collector->writer);
    if (ret < 0) {
        goto err_history;
    }
    snprintf(collector->remote_directory, sizeof(collector->remote_directory), "%.4000s-remote",
             collector->database);
    collector->remote_options.directory = collector->remote_directory;
    ret = (collector->remote_url != NULL) ?
              remote_open(&collector->remote, collector->remote_url, &collector->remote_options) :
              0;
    if (ret < 0) {
        goto err_writer;
    }
    ret = (collector->upper != NULL) ? collector_open_relay(collector) : 0;
    if (ret < 0) {
        goto err_remote;
    }
    ret = udmon_server_open(collector->listen, &options, &callbacks, collector, &collector->server);
    if (ret < 0) {
        goto err_relay;
    }
    ret = collector_open_alerts(collector);
    if (ret < 0) {
        goto err_server;
    }
    collector->http_options.database = collector->database;
    collector->http_options.query =
        (collector->query_options.url != NULL) ? &collector->query : NULL;
    ret = http_open(&collector->http, &collector->http_options, &collector->store,
                    &collector->writer, (collector->remote_url != NULL) ? &collector->remote : NULL,
                    (collector->upper != NULL) ? &collector->relay : NULL,
                    (collector->rules_file != NULL) ? &collector->alerts : NULL);
    if (ret < 0) {
        goto err_alerts;
    }
    collector->server_source.fd = udmon_server_fd(collector->server);
    collector->server_source.ready = collector_ready;
    collector->server_source.arg = collector;
    collector->commit.fire = collector_commit;
    collector->commit.arg = collector;
    udmon_timer_set(&collector->loop, &collector->commit, COMMIT_MS);
    return udmon_loop_add(&collector->loop, &collector->server_source, EPOLLIN);

err_alerts:
    collector_close_alerts(collector);
err_server:
    udmon_server_close(collector->server);
err_relay:
    if (collector->upper != NULL) {
        relay_close(&collector->relay);
    }
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

static void collector_finish(struct series *series, void *arg)
{
    history_finish(arg, series);
}

void collector_close(struct collector *collector)
{
    struct host *host;

    http_close(&collector->http);
    collector_close_alerts(collector);
    udmon_loop_delete(&collector->loop, &collector->server_source);
    udmon_server_close(collector->server);
    if (collector->upper != NULL) {
        relay_close(&collector->relay);
    }
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
