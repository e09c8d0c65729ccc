#include "relay.h"
#include "../lib/base/log.h"
#include "../lib/metric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { RELAY_ALL_S = 10 /* between two tellings of all states */ };

static void relay_connection(void *arg, enum udmon_client_state state, const char *reason)
{
    static struct udmon_log_limit limit;
    struct relay *relay = arg;
    const char *address;

    if (state == UDMON_CONNECTED) {
        relay->tell_all = 1;
        udmon_client_server(relay->client, &address);
        udmon_info("passing on to %s over %s", address, reason);
    } else if (state == UDMON_DISCONNECTED) {
        udmon_warn_limited(&limit, "cannot pass on to %s: %s", relay->upper, reason);
    }
}

static void relay_ready(struct udmon_source *source, uint32_t events)
{
    (void)events;
    udmon_client_process(((struct relay *)source->arg)->client);
}

int relay_open(struct relay *relay, const char *upper, const struct udmon_options *options,
               struct udmon_loop *loop)
{
    struct udmon_client_callbacks callbacks = {.state = relay_connection};
    struct udmon_options values = *options;
    int ret;

    relay->loop = loop;
    relay->upper = upper;
    values.relay = 1;
    values.client_id = relay->id;
    values.numbers = relay->numbers;
    ret = udmon_client_open(upper, &values, &callbacks, relay, &relay->client);
    if (ret < 0) {
        return ret;
    }
    relay->source.fd = udmon_client_fd(relay->client);
    relay->source.ready = relay_ready;
    relay->source.arg = relay;
    ret = udmon_loop_add(loop, &relay->source, EPOLLIN);
    if (ret < 0) {
        udmon_client_close(relay->client);
    }
    return ret;
}

void relay_close(struct relay *relay)
{
    struct udmon_stats stats;

    udmon_loop_delete(relay->loop, &relay->source);
    udmon_client_flush(relay->client);
    udmon_client_process(relay->client);
    udmon_client_stats(relay->client, &stats);
    if (stats.queued > 0) {
        udmon_warn("%llu records that waited for %s are lost", (unsigned long long)stats.queued,
                   relay->upper);
    }
    udmon_client_close(relay->client);
}

static void relay_record(struct relay *relay, const char *node, const uint8_t *record, int length)
{
    length = (length < 0) ? length : udmon_client_send(relay->client, record, length);
    if (length < 0) { /* names have been checked, and the queue drops: only memory may be missing */
        udmon_warn("a record of node %s could not be queued: %s", node, strerror(-length));
    }
}

static void relay_send(struct relay *relay, const struct udmon_relayed *relayed)
{
    uint8_t record[UDMON_RELAYED_RECORD_MAX];

    relay_record(relay, relayed->node, record, udmon_relayed_encode(relayed, record));
}

/*
 * Without the upper collector, repeated descriptions would take the queue's room from samples. Agents
 * send the descriptions again.
 */
void relay_family(struct relay *relay, const struct host *host, const struct udmon_family *family)
{
    uint8_t record[UDMON_RELAYED_RECORD_MAX];

    if (udmon_client_state(relay->client) != UDMON_CONNECTED) {
        return;
    }
    relay_record(relay, host->name, record, udmon_family_encode(family, host->name, record));
}

void relay_sample(struct relay *relay, const struct host *host, const struct udmon_metric *metric,
                  int64_t time_ms, int late)
{
    struct udmon_relayed relayed = {.metric = *metric, .late = late};

    relayed.metric.time_ns = (uint64_t)time_ms * 1000000;
    snprintf(relayed.node, sizeof(relayed.node), "%s", host->name);
    relay_send(relay, &relayed);
}

void relay_state(struct relay *relay, struct host *host)
{
    struct udmon_relayed relayed = {.is_state = 1, .up = host->connected > 0, .lost = host->lost};

    snprintf(relayed.node, sizeof(relayed.node), "%s", host->name);
    host->told_up = relayed.up;
    host->told_lost = relayed.lost;
    relay_send(relay, &relayed);
}

static void relay_count(struct relay *relay)
{
    static struct udmon_log_limit limit;
    const char *address;
    struct udmon_stats stats;
    int number = udmon_client_server(relay->client, &address);

    udmon_client_stats(relay->client, &stats);
    if (stats.dropped > relay->dropped) {
        udmon_warn_limited(&limit,
                           "%s is away or does not keep up: %llu records were not passed "
                           "on",
                           relay->upper, (unsigned long long)stats.dropped);
    }
    __atomic_store_n(&relay->connected, (number < 0) ? 0 : (number + 1), __ATOMIC_SEQ_CST);
    __atomic_store_n(&relay->sent, stats.sent, __ATOMIC_SEQ_CST);
    __atomic_store_n(&relay->dropped, stats.dropped, __ATOMIC_SEQ_CST);
    __atomic_store_n(&relay->waiting, stats.queued, __ATOMIC_SEQ_CST);
}

void relay_states(struct relay *relay, struct store *store)
{
    int all = relay->tell_all || ((++relay->seconds % RELAY_ALL_S) == 0);
    struct host *host;

    relay->tell_all = 0;
    LIST_FOREACH(host, &store->hosts, list) {
        if (all || (host->told_up != (host->connected > 0)) || (host->told_lost != host->lost)) {
            relay_state(relay, host);
        }
    }
    relay_count(relay);
}

/* The upper side */

static void relayed_up(struct host *host, uint64_t relay, const char *name)
{
    static struct udmon_log_limit twice;

    if (host->relay == relay) {
        return;
    }
    if (host->connected > 0) {
        udmon_warn_limited(&twice,
                           "node %s: two agents give this name, at %s and via %s, or it "
                           "has just changed from one to the other",
                           host->name, host->address, name);
    }
    host->connected += (host->relay == 0);
    host->relay = relay;
    snprintf(host->address, sizeof(host->address), "via %s", name);
}

static void relayed_down(struct host *host)
{
    host->relay = 0;
    host->connected -= (host->connected > 0);
}

void relayed_state(struct host *host, uint64_t relay, const char *name, int up, uint64_t lost)
{
    uint64_t less;

    if (up) {
        relayed_up(host, relay, name);
    } else if (host->relay == relay) {
        relayed_down(host);
    }
    if (strcmp(host->relay_name, name)) {
        if (!up) {
            return; /* the node went to another relay, which counts now */
        }
        /* Earlier counts of this relay do not concern this collector, or are already counted. */
        snprintf(host->relay_name, sizeof(host->relay_name), "%s", name);
        host->relay_lost = lost;
    }
    less = (lost < host->relay_lost) ? (host->relay_lost - lost) : 0; /* came late after all */
    if (less > 0) {
        host->lost -= (less < host->lost) ? less : host->lost;
    } else {
        host->lost += lost - host->relay_lost;
    }
    host->changed = 1;
    host->relay_lost = lost;
}

void relayed_gone(struct store *store, uint64_t relay)
{
    struct host *host;

    LIST_FOREACH(host, &store->hosts, list) {
        if (host->relay == relay) {
            relayed_down(host);
        }
    }
}
