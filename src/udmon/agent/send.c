/*
 * Nodes that send samples out of the agent: to a collector, or to the terminal. And the sensor that
 * reports on these nodes.
 */
#include "graph.h"
#include "recorder.h"
#include "samples.h"
#include "types.h"
#include "worker.h"
#include "../lib/base/log.h"
#include "../lib/metric.h"
#include "../lib/net/loop.h"
#include "../include/udmon.h"
#include "common/fnv.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SEND_FAMILIES = 4096, /* half of the places are used at most */
    SEND_HELD_MAX = 1 << 20
};
#define SEND_FAMILY_AGAIN_NS UINT64_C(60000000000)

/* A description that was sent. */
struct described {
    uint64_t hash; /* 0: free */
    uint64_t at_ns;
};

struct sender {
    LIST_ENTRY(sender) list;
    char name[GRAPH_NAME_MAX]; /* of the node */
    struct udmon_client *client;
    struct udmon_source source;
    char server[600]; /* or several */
    int number;       /* index of the present or last collector; -1: never connected */
    uint64_t dropped; /* samples that a full queue has dropped, as in the log */
    struct udmon_log_limit lost, unqueued, full; /* lines that would come again and again */
    struct described described[SEND_FAMILIES];   /* an open table; sent since it was cleared */
    size_t described_count;
    uint64_t cleared_ns; /* when the table was cleared */
    /* All agents sample at the same instants. If all agents also sent at the same instants, they
     * would flood the collector. So records wait, for a time that the host's name determines. */
    uint64_t hold_ns;
    struct udmon_timer release;
    uint8_t *held; /* records, each behind its length */
    size_t held_length, held_size;
};

static LIST_HEAD(, sender) senders = LIST_HEAD_INITIALIZER(senders);

static const char *const send_options[] = {"server", "secret", "source", "datagram", "flush",
                                           "queue",  "name",   "return", "spread",   "ca",
                                           "cert",   "key",    NULL};

static void send_forget_described(struct sender *sender)
{
    memset(sender->described, 0, sizeof(sender->described));
    sender->described_count = 0;
    sender->cleared_ns = udmon_now_ns();
}

/*
 * Logs the collector of the samples from now on. A change of the collector is logged as a warning.
 */
static void send_connected(struct sender *sender, const char *transport)
{
    const char *address;
    int number = udmon_client_server(sender->client, &address);

    if ((sender->number >= 0) ? (number != sender->number) : (number > 0)) {
        udmon_warn("samples go to %s now (number %d of %s)", address, number + 1, sender->server);
    }
    sender->number = number;
    send_forget_described(sender); /* a collector that has started knows no descriptions */
    udmon_info("connected to %s over %s", address, transport);
}

static void send_state(void *arg, enum udmon_client_state state, const char *reason)
{
    struct sender *sender = arg;

    if (state == UDMON_CONNECTED) {
        send_connected(sender, reason);
    } else if (state == UDMON_DISCONNECTED) {
        udmon_warn_limited(&sender->lost, "not connected to %s: %s", sender->server, reason);
    }
}

static void send_ready(struct udmon_source *source, uint32_t events)
{
    (void)events;
    udmon_client_process(((struct sender *)source->arg)->client);
}

/* How long this host's records wait: a fixed part of the option spread. */
static int send_read_spread(struct udmon_node *node, uint64_t *hold_ns_p)
{
    const char *name = udmon_node_option(node, "name");
    char host[UDMON_NAME_MAX + 1] = "";
    double spread;

    if (udmon_node_number(node, "spread", 0.5, 0, 60, &spread) < 0) {
        return -EINVAL;
    }
    if (name == NULL) {
        gethostname(host, sizeof(host) - 1);
        name = host;
    }
    *hold_ns_p = spread * 1e9 * (fnv1a(FNV_START, name, strlen(name)) % 1024) / 1024;
    return 0;
}

static int send_read_options(struct udmon_node *node, struct udmon_options *options)
{
    double datagram, flush, queue, back;

    udmon_options_init(options);
    options->name = udmon_node_option(node, "name");
    options->secret_file = udmon_node_option(node, "secret");
    options->ca_file = udmon_node_option(node, "ca");
    options->cert_file = udmon_node_option(node, "cert");
    options->key_file = udmon_node_option(node, "key");
    options->source = udmon_node_option(node, "source");
    if ((udmon_node_number(node, "datagram", 0, 256, 65535, &datagram) < 0) ||
        (udmon_node_number(node, "flush", 0.1, 0.001, 3600, &flush) < 0) ||
        (udmon_node_number(node, "queue", 1 << 20, 131072, 1u << 31, &queue) < 0) ||
        (udmon_node_number(node, "return", 30, 0.01, 86400, &back) < 0)) {
        return -EINVAL;
    }
    options->datagram_size = datagram;
    options->flush_ms = flush * 1000;
    options->queue_bytes = queue;
    options->return_ms = back * 1000;
    return 0;
}

/* The queue drops the oldest samples to make room. */
static void send_tell_dropped(struct sender *sender)
{
    struct udmon_stats stats;

    udmon_client_stats(sender->client, &stats);
    if (stats.dropped > sender->dropped) {
        udmon_warn_limited(&sender->full,
                           "node %s: the queue for %s is full: %llu samples are lost "
                           "(option queue)",
                           sender->name, sender->server, (unsigned long long)stats.dropped);
        sender->dropped = stats.dropped;
    }
}

/* Queues a record. */
static void send_queue(struct sender *sender, const uint8_t *record, size_t length)
{
    int ret = udmon_client_send(sender->client, record, length);

    if (ret < 0) {
        udmon_warn_limited(&sender->unqueued, "node %s: a sample could not be queued: %s",
                           sender->name, strerror(-ret));
    }
}

static void send_release(struct sender *sender)
{
    uint16_t length;
    size_t at;

    for (at = 0; at < sender->held_length; at += sizeof(length) + length) {
        memcpy(&length, sender->held + at, sizeof(length));
        send_queue(sender, sender->held + at + sizeof(length), length);
    }
    sender->held_length = 0;
}

static void send_release_fire(struct udmon_timer *timer)
{
    struct sender *sender = timer->arg;

    send_release(sender);
    send_tell_dropped(sender);
}

/* Makes room for a record; false: no memory. */
static bool send_reserve(struct sender *sender, size_t length)
{
    size_t size = (sender->held_size > 0) ? (2 * sender->held_size) : 65536;
    uint8_t *grown;

    if (sender->held_length + length > SEND_HELD_MAX) {
        send_release(sender);
    }
    if (sender->held_length + length <= sender->held_size) {
        return true;
    }
    grown = realloc(sender->held, size);
    if (grown == NULL) {
        return false;
    }
    sender->held = grown;
    sender->held_size = size;
    return true;
}

/* Keeps a record until the host's time to send, or queues it at once. */
static void send_hold(struct sender *sender, const uint8_t *record, uint16_t length)
{
    if ((sender->hold_ns == 0) || !send_reserve(sender, sizeof(length) + length)) {
        send_release(sender); /* the order stays */
        send_queue(sender, record, length);
        return;
    }
    memcpy(sender->held + sender->held_length, &length, sizeof(length));
    memcpy(sender->held + sender->held_length + sizeof(length), record, length);
    sender->held_length += sizeof(length) + length;
    if (sender->release.due_ns == 0) {
        udmon_timer_set_at(&agent_loop, &sender->release, udmon_now_ns() + sender->hold_ns);
    }
}

static int send_create(struct udmon_node *node, void **state_p)
{
    struct udmon_client_callbacks callbacks = {.state = send_state};
    const char *server = udmon_node_option(node, "server");
    struct udmon_options options;
    struct sender *sender;
    uint64_t hold_ns = 0;
    int ret;

    if (server == NULL) {
        udmon_node_error(node, NULL, "needs an option \"server\": the collector's address");
        return -EINVAL;
    }
    ret = send_read_options(node, &options);
    ret = (ret == 0) ? send_read_spread(node, &hold_ns) : ret;
    if (ret < 0) {
        return ret;
    }
    sender = calloc(1, sizeof(*sender));
    if (sender == NULL) {
        return -ENOMEM;
    }
    sender->hold_ns = hold_ns;
    sender->release.fire = send_release_fire;
    sender->release.arg = sender;
    samples_label(sender->name, sizeof(sender->name), node->name);
    snprintf(sender->server, sizeof(sender->server), "%s", server);
    ret = udmon_client_open(server, &options, &callbacks, sender, &sender->client);
    if (ret < 0) {
        udmon_node_error(node, "server", "cannot be used: %s", strerror(-ret));
        free(sender);
        return ret;
    }
    sender->number = -1;
    sender->source.fd = udmon_client_fd(sender->client);
    sender->source.ready = send_ready;
    sender->source.arg = sender;
    ret = udmon_loop_add(&agent_loop, &sender->source, EPOLLIN);
    if (ret < 0) {
        udmon_client_close(sender->client);
        free(sender);
        return ret;
    }
    LIST_INSERT_HEAD(&senders, sender, list);
    *state_p = sender;
    return 0;
}

static void send_destroy(void *state)
{
    struct sender *sender = state;
    struct udmon_stats stats;

    udmon_timer_cancel(&sender->release);
    send_release(sender);
    free(sender->held);
    udmon_client_stats(sender->client, &stats);
    udmon_info("%s: %llu samples in all, %llu sent, %llu dropped here, %llu waiting",
               sender->server, (unsigned long long)stats.accepted, (unsigned long long)stats.sent,
               (unsigned long long)stats.dropped, (unsigned long long)stats.queued);
    LIST_REMOVE(sender, list);
    udmon_loop_delete(&agent_loop, &sender->source);
    udmon_client_close(sender->client);
    free(sender);
}

/* Sends a record. `length`: of the record, or negative if it could not be made. */
static void send_record(struct udmon_node *node, struct sender *sender, const char *name,
                        const uint8_t *record, int length)
{
    if (length < 0) {
        udmon_warn_limited(&sender->unqueued, "node %s: '%s' is no name of a metric", node->name,
                           name);
        return;
    }
    send_hold(sender, record, length);
}

static uint64_t send_family_hash(const struct udmon_family *family)
{
    uint64_t hash = FNV_START + (2 * family->type) + !!family->counter;

    hash = fnv1a(hash, family->name, strlen(family->name) + 1);
    hash = fnv1a(hash, family->unit, strlen(family->unit) + 1);
    hash = fnv1a(hash, family->help, strlen(family->help));
    return (hash != 0) ? hash : 1;
}

/* The place of a hash, or the free place for it. */
static struct described *send_described(struct sender *sender, uint64_t hash)
{
    size_t at = hash % SEND_FAMILIES;

    while ((sender->described[at].hash != 0) && (sender->described[at].hash != hash)) {
        at = (at + 1) % SEND_FAMILIES;
    }
    return &sender->described[at];
}

/*
 * Whether a description that the table lacks can be entered. A full table is cleared once in a while. So
 * a node with more families than places sends each of them at some time, and not all in each tick.
 */
static bool send_has_place(struct sender *sender, uint64_t now_ns)
{
    if (2 * sender->described_count < SEND_FAMILIES) {
        return true;
    }
    if ((now_ns - sender->cleared_ns) < SEND_FAMILY_AGAIN_NS) {
        return false;
    }
    send_forget_described(sender);
    return true;
}

/*
 * Whether the description must be sent now. Descriptions are sent again from time to time, because
 * a queue or a network may have lost one, and a relay does not keep them for its upper collector. A
 * repetition takes no room in the queue of a sender without a collector: after the connection all
 * descriptions are sent.
 */
static bool send_must_describe(struct sender *sender, const struct udmon_family *family)
{
    uint64_t hash = send_family_hash(family), now_ns = udmon_now_ns();
    struct described *place = send_described(sender, hash);

    if (place->hash == hash) {
        if (((now_ns - place->at_ns) < SEND_FAMILY_AGAIN_NS) ||
            (udmon_client_state(sender->client) != UDMON_CONNECTED)) {
            return false;
        }
    } else {
        if (!send_has_place(sender, now_ns)) {
            return false;
        }
        place = send_described(sender, hash);
        ++sender->described_count;
    }
    *place = (struct described){.hash = hash, .at_ns = now_ns};
    return true;
}

static void send_receive(struct udmon_node *node, void *state, const struct udmon_metric *metrics,
                         size_t count)
{
    uint8_t record[UDMON_RELAYED_RECORD_MAX];
    const struct udmon_family *family = NULL;
    struct sender *sender = state;
    size_t i;

    for (i = 0; i < count; ++i) {
        if ((metrics[i].family != NULL) && (metrics[i].family != family) &&
            send_must_describe(sender, metrics[i].family)) {
            send_record(node, sender, metrics[i].family->name, record,
                        udmon_family_encode(metrics[i].family, NULL, record));
        }
        family = metrics[i].family;
        send_record(node, sender, metrics[i].name, record,
                    udmon_metric_encode(&metrics[i], record));
    }
    send_tell_dropped(sender);
}

const struct udmon_node_type node_send = {
    .name = "send",
    .options = send_options,
    .create = send_create,
    .destroy = send_destroy,
    .receive = send_receive,
};

/* The sensor "agent" */

static void agent_sender(struct samples *samples, const struct sender *sender)
{
    const char *address;
    struct udmon_stats stats;
    int number = udmon_client_server(sender->client, &address);

    udmon_client_stats(sender->client, &stats);
    const struct {
        const char *name;
        int counter;
        uint64_t value;
    } all[] = {
        {"accepted", 1, stats.accepted},
        {"sent", 1, stats.sent},
        {"dropped", 1, stats.dropped},
        {"waiting", 0, stats.queued},
        {"connections", 1, stats.connections},
        /* 1: the first of option "server"; 0: none */
        {"server", 0, (number < 0) ? 0 : (number + 1)},
    };
    for (size_t i = 0; i < (sizeof(all) / sizeof(all[0])); ++i) {
        samples_add(samples, all[i].counter, all[i].value, "udmon_agent_%s{send=\"%s\"}",
                    all[i].name, sender->name);
    }
}

static void agent_refused(struct samples *samples, const struct udmon_node *node)
{
    static const char *const reasons[REFUSED_REASONS] = {[REFUSED_NAME] = "name",
                                                         [REFUSED_DUPLICATE] = "duplicate",
                                                         [REFUSED_LINE] = "line",
                                                         [REFUSED_SERIES] = "series"};
    char name[GRAPH_NAME_MAX];
    uint64_t refused;
    int i;

    samples_label(name, sizeof(name), node->name);
    for (i = 0; i < REFUSED_REASONS; ++i) {
        refused = __atomic_load_n(&node->refused[i], __ATOMIC_RELAXED);
        if (refused > 0) {
            samples_add(samples, 1, refused,
                        "udmon_agent_samples_refused{sensor=\"%s\",reason=\"%s\"}", name,
                        reasons[i]);
        }
    }
}

static void agent_worker(struct samples *samples, const struct udmon_node *node)
{
    char name[GRAPH_NAME_MAX];

    samples_label(name, sizeof(name), node->name);
    samples_add(samples, 0, worker_stuck(node->worker), "udmon_agent_sensor_stuck{sensor=\"%s\"}",
                name);
    samples_add(samples, 1, worker_skipped(node->worker),
                "udmon_agent_sensor_ticks_skipped{sensor=\"%s\"}", name);
}

static void agent_late(struct samples *samples, struct udmon_node *node)
{
    char name[GRAPH_NAME_MAX];

    samples_label(name, sizeof(name), node->name);
    samples_add(samples, 1, node->tick.count, "udmon_agent_ticks{sensor=\"%s\"}", name);
    samples_add(samples, 1, node->tick.late_ns * 1e-9,
                "udmon_agent_tick_late_seconds{sensor=\"%s\"}", name);
    samples_add(samples, 0, tick_late_greatest(&node->tick) * 1e-9,
                "udmon_agent_tick_late_max_seconds{sensor=\"%s\"}", name);
}

static void agent_tick(struct udmon_node *node, void *state)
{
    struct samples *samples = samples_begin(node);
    const struct sender *sender;
    struct udmon_node *each;

    (void)state;
    LIST_FOREACH(sender, &senders, list) {
        agent_sender(samples, sender);
    }
    STAILQ_FOREACH(each, &node->graph->nodes, list) {
        recorder_tell(samples, each);
        if (each->type->tick != NULL) {
            agent_late(samples, each);
        }
        if (each->worker != NULL) {
            agent_worker(samples, each);
        }
        agent_refused(samples, (each->worker != NULL) ? worker_node(each->worker) : each);
    }
    samples_end(samples);
}

const struct udmon_node_type sensor_agent = {.name = "agent", .tick = agent_tick, .has_output = 1};

static void print_receive(struct udmon_node *node, void *state, const struct udmon_metric *metrics,
                          size_t count)
{
    size_t i;

    (void)node;
    (void)state;
    for (i = 0; i < count; ++i) {
        printf("%s %.17g %llu\n", metrics[i].name, metrics[i].value,
               (unsigned long long)(metrics[i].time_ns / 1000000));
    }
    fflush(stdout);
}

const struct udmon_node_type node_print = {.name = "print", .receive = print_receive};
