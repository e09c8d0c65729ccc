#include "relay.h"
#include "../lib/base/log.h"
#include "../lib/metric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { RELAY_ALL_S = 10 /* between two tellings of all states */ };

static void relay_connection(void *arg, udmon_client_state_t state, const char *reason)
{
    static udmon_log_limit_t limit;
    relay_t *relay = arg;
    const char *address;

    if (state == UDMON_CONNECTED) {
        relay->tell_all = 1;
        udmon_client_server(relay->client, &address);
        udmon_info("passing on to %s over %s", address, reason);
    } else if (state == UDMON_DISCONNECTED) {
        udmon_warn_limited(&limit, "cannot pass on to %s: %s", relay->upper, reason);
    }
}

static void relay_ready(udmon_source_t *source, uint32_t events)
{
    (void)events;
    udmon_client_process(((relay_t *)source->arg)->client);
}

int relay_open(relay_t *relay, const char *upper, const udmon_options_t *options,
               udmon_loop_t *loop)
{
    udmon_client_callbacks_t callbacks = {.state = relay_connection};
    udmon_options_t values = *options;
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

void relay_close(relay_t *relay)
{
    udmon_stats_t stats;

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

static void relay_send(relay_t *relay, const udmon_relayed_t *relayed)
{
    uint8_t record[UDMON_RELAYED_RECORD_MAX];
    int length = udmon_relayed_encode(relayed, record);

    length = (length < 0) ? length : udmon_client_send(relay->client, record, length);
    if (length < 0) { /* names have been checked, and the queue drops: only memory may be missing */
        udmon_warn("a record of node %s could not be queued: %s", relayed->node, strerror(-length));
    }
}

void relay_sample(relay_t *relay, const host_t *host, const udmon_metric_t *metric, int64_t time_ms,
                  int late)
{
    udmon_relayed_t relayed = {.metric = *metric, .late = late};

    relayed.metric.time_ns = (uint64_t)time_ms * 1000000;
    snprintf(relayed.node, sizeof(relayed.node), "%s", host->name);
    relay_send(relay, &relayed);
}

void relay_state(relay_t *relay, host_t *host)
{
    udmon_relayed_t relayed = {.is_state = 1, .up = host->connected > 0, .lost = host->lost};

    snprintf(relayed.node, sizeof(relayed.node), "%s", host->name);
    host->told_up = relayed.up;
    host->told_lost = relayed.lost;
    relay_send(relay, &relayed);
}

static void relay_count(relay_t *relay)
{
    static udmon_log_limit_t limit;
    const char *address;
    udmon_stats_t stats;
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

void relay_states(relay_t *relay, store_t *store)
{
    int all = relay->tell_all || ((++relay->seconds % RELAY_ALL_S) == 0);
    host_t *host;

    relay->tell_all = 0;
    LIST_FOREACH(host, &store->hosts, list) {
        if (all || (host->told_up != (host->connected > 0)) || (host->told_lost != host->lost)) {
            relay_state(relay, host);
        }
    }
    relay_count(relay);
}

/* The upper side */

static void relayed_up(host_t *host, uint64_t relay, const char *name)
{
    static udmon_log_limit_t twice;

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

static void relayed_down(host_t *host)
{
    host->relay = 0;
    host->connected -= (host->connected > 0);
}

void relayed_state(host_t *host, uint64_t relay, const char *name, int up, uint64_t lost)
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

void relayed_gone(store_t *store, uint64_t relay)
{
    host_t *host;

    LIST_FOREACH(host, &store->hosts, list) {
        if (host->relay == relay) {
            relayed_down(host);
        }
    }
}
