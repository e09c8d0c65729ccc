/* Client: the functions for programs, and the traffic of a connection. See client_meet.c. */
#include "client.h"
#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLIENT_PROBE_MS = 100,
    CLIENT_BURST = 32 /* datagrams of a backlog that are sent before the server has answered */
};

static int client_ping(struct udmon_client *client)
{
    int ret = udmon_chan_ping(&client->chan, UDMON_PING, udmon_now_ns());

    client->ping_due = (ret == -EAGAIN);
    return ret;
}

static void client_keepalive(struct udmon_timer *timer)
{
    struct udmon_client *client = timer->arg;
    const struct udmon_options *options = &client->settings.values;
    uint64_t now = udmon_now_ns(), silence_ms = (now - client->heard_ns) / 1000000;
    /* If this process was stopped for a while, answers of the server may be unread. */
    int overslept = ((now - client->asked_ns) / 1000000) > (2u * options->keepalive_ms);
    int connected = (client->state == UDMON_CONNECTED);
    unsigned limit = connected ? (UDMON_DEAD_KEEPALIVES * options->keepalive_ms) :
                                 udmon_client_patience_ms(client);
    int ret;

    client->asked_ns = now;
    if ((silence_ms > limit) && !overslept) {
        udmon_client_lost(client, connected ? "nothing heard of the server any more" :
                                              "the server's datagrams do not arrive");
        return;
    }
    ret = client_ping(client);
    if ((ret < 0) && (ret != -EAGAIN)) {
        udmon_client_lost(client, "the network reports that the server is gone");
        return;
    }
    udmon_timer_set(&client->loop, timer,
                    (connected || (options->keepalive_ms < CLIENT_PROBE_MS)) ?
                        options->keepalive_ms :
                        CLIENT_PROBE_MS);
}

static void client_flush_due(struct udmon_timer *timer)
{
    ((struct udmon_client *)timer->arg)->flush_now = 1;
}

static void client_broken(void *arg, struct udmon_path *path)
{
    (void)path;
    udmon_client_lost(arg, "the connection is broken");
}

static void client_received(void *arg, const void *data, size_t length)
{
    const struct udmon_dgram *dgram = data;
    struct udmon_client *client = arg;
    uint64_t asked_ns;

    if ((client->chan.mtu == 0) || (length < sizeof(*dgram)) ||
        (le64toh(dgram->token) != client->chan.token)) {
        return; /* of a connection that is no more, or of a stranger */
    }
    client->heard_ns = client->loop.now_ns;
    switch (udmon_chan_receive(&client->chan, data, length)) {
    case UDMON_PONG:
        asked_ns = le64toh(((const struct udmon_ping *)(dgram + 1))->time_ns);
        if (asked_ns == 0) {
            break; /* answers no ping: the server is slow, and says that it lives */
        }
        client->unanswered = 0;
        if (client->state != UDMON_CONNECTED) {
            client->backlog_end = client->chan.next_seq;
            udmon_client_connected(client);
        }
        client->left = (client->leaving_ns > 0) && (asked_ns >= client->leaving_ns);
        break;
    case UDMON_BYE:
        client->bye = 1;
        break;
    default:
        break;
    }
}

static int client_chan_send(void *arg, size_t size, udmon_pack_fn pack, void *pack_arg)
{
    return udmon_path_send(((struct udmon_client *)arg)->path, size, pack, pack_arg);
}

static void client_deliver(void *arg, const struct udmon_message *message)
{
    struct udmon_client *client = arg;

    ++client->delivered;
    if (client->callbacks.message != NULL) {
        client->callbacks.message(client->arg, message);
    }
}

static void client_gap(void *arg, uint64_t first, uint64_t count)
{
    (void)arg; /* in the counters */
    (void)first;
    (void)count;
}

static const struct udmon_chan_ops client_chan_ops = {
    .send = client_chan_send,
    .deliver = client_deliver,
    .gap = client_gap,
};

static void client_timer(struct udmon_client *client, struct udmon_timer *timer,
                         void (*fire)(struct udmon_timer *))
{
    timer->fire = fire;
    timer->arg = client;
}

static void client_free_servers(struct udmon_client *client)
{
    unsigned i;

    for (i = 0; i < client->server_count; ++i) {
        udmon_endpoint_free(&client->servers[i].endpoint);
    }
}

/* Take a list of addresses apart. */
static int client_parse_servers(struct udmon_client *client, const char *addresses)
{
    char *copy = strdup(addresses), *word, *rest = NULL;
    int ret = (copy != NULL) ? 0 : -ENOMEM;

    for (word = (ret == 0) ? strtok_r(copy, ", \t", &rest) : NULL; (word != NULL) && (ret == 0);
         word = strtok_r(NULL, ", \t", &rest)) {
        if (client->server_count == UDMON_SERVERS_MAX) {
            udmon_error("'%s': more than %d addresses", addresses, UDMON_SERVERS_MAX);
            ret = -EINVAL;
        } else {
            ret = udmon_endpoint_parse_only(word, 0,
                                            &client->servers[client->server_count++].endpoint);
        }
    }
    free(copy);
    if ((ret == 0) && (client->server_count == 0)) {
        udmon_error("the server's address is empty");
        ret = -EINVAL;
    }
    return ret;
}

static void client_set_numbers(struct udmon_client *client)
{
    const uint64_t *numbers = client->settings.values.numbers;
    unsigned i;

    for (i = 0; (numbers != NULL) && (i < client->server_count); ++i) {
        client->servers[i].next = numbers[i];
        client->servers[i].known = (numbers[i] > 0);
    }
    client->settings.values.numbers = NULL; /* the caller owns the array */
    udmon_chan_renumber(&client->chan, client->servers[0].next);
}

void udmon_client_numbers(const struct udmon_client *client, uint64_t numbers[UDMON_SERVERS_MAX])
{
    unsigned i;

    for (i = 0; i < UDMON_SERVERS_MAX; ++i) {
        numbers[i] = client->servers[i].next;
    }
    numbers[client->numbered] = udmon_chan_number(&client->chan) + client->chan.queue.count;
}

int udmon_client_open(const char *address, const struct udmon_options *options,
                      const struct udmon_client_callbacks *callbacks, void *arg,
                      struct udmon_client **client_p)
{
    struct udmon_client *client;
    int ret;

    client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return -ENOMEM;
    }
    client->arg = arg;
    if (callbacks != NULL) {
        client->callbacks = *callbacks;
    }
    ret = udmon_settings_make(options, &client->settings);
    if (ret < 0) {
        goto err_free;
    }
    ret = udmon_keys_of_client(&client->keys, client->settings.values.secret_file,
                               client->settings.name, (options != NULL) && (options->name != NULL));
    if (ret < 0) {
        goto err_free;
    }
    ret = client_parse_servers(client, address);
    if (ret < 0) {
        goto err_servers;
    }
    ret = udmon_loop_open(&client->loop);
    if (ret < 0) {
        goto err_servers;
    }
    ret = udmon_tls_open(&client->tls, &client->keys, &client->settings.values, 0);
    if (ret < 0) {
        goto err_loop;
    }
    ret = udmon_net_open(&client->net, &client->loop, &client->tls, client_received, client_broken,
                         client);
    if (ret < 0) {
        goto err_tls;
    }
    udmon_chan_init(&client->chan, &client->settings.values, &client_chan_ops, client);
    client_set_numbers(client);
    client_timer(client, &client->flush, client_flush_due);
    client_timer(client, &client->keepalive, client_keepalive);
    client_timer(client, &client->retry, udmon_client_retry);
    client_timer(client, &client->patience, udmon_client_unanswered);
    udmon_timer_set(&client->loop, &client->retry, 0);
    *client_p = client;
    return 0;

err_tls:
    udmon_tls_close(&client->tls);
err_loop:
    udmon_loop_close(&client->loop);
err_servers:
    client_free_servers(client);
    udmon_keys_close(&client->keys);
err_free:
    free(client);
    return ret;
}

int udmon_client_fd(const struct udmon_client *client)
{
    return client->loop.epoll_fd;
}

/*
 * Returns whether records from before the connection are still unsent. Thousands of records may
 * wait, and the server loses unrequested datagrams that arrive faster than the server reads. So the
 * client sends a group of records, then a ping, and the next group after the answer.
 */
static bool client_has_backlog(const struct udmon_client *client)
{
    return udmon_chan_sent_before(&client->chan) < client->backlog_end;
}

static int client_pump_backlog(struct udmon_client *client)
{
    uint64_t sent = client->chan.stats.datagrams_sent;
    int ret;

    if (client->unanswered >= CLIENT_BURST) {
        return 0;
    }
    ret = udmon_chan_pump_some(&client->chan, 1, CLIENT_BURST - client->unanswered);
    client->unanswered += client->chan.stats.datagrams_sent - sent;
    if ((ret == 0) && (client->unanswered >= CLIENT_BURST)) {
        ret = udmon_chan_ping(&client->chan, UDMON_PING, udmon_now_ns()); /* without this ping, the
                                                                           * next ping is the
                                                                           * keepalive */
    }
    return ret;
}

/* Sends as much as possible; the rest stays in the queue. */
static void client_pump(struct udmon_client *client)
{
    int ret;

    client->stuck = 0;
    /* A busy network is no dead server: the ping goes before the records that keep it busy. */
    if (client->ping_due && (client_ping(client) < 0)) {
        client->stuck = 1;
        return;
    }
    if ((client->state != UDMON_CONNECTED) || (client->leaving_ns > 0)) {
        return;
    }
    if (client_has_backlog(client)) {
        ret = client_pump_backlog(client);
    } else {
        ret = udmon_chan_pump(&client->chan, client->flush_now);
    }
    client->stuck = (ret < 0);
    if (ret == 0) {
        client->flush_now = 0;
    } else if (ret != -EAGAIN) {
        udmon_client_lost(client, "the network reports that the server is gone");
    }
}

/* Progresses until nothing is left to do; false if many rounds did not suffice. */
static bool client_progress(struct udmon_client *client)
{
    unsigned count;
    int i;

    for (i = 0; i < UDMON_ROUNDS; ++i) {
        count = udmon_net_progress(&client->net);
        client->net.blocked = 0;
        if (client->bye) {
            client->bye = 0;
            udmon_client_lost(client, "the server is closing");
        }
        if (client->left) {
            client->left = 0;
            udmon_client_return(client);
        }
        client_pump(client);
        if ((count == 0) && !udmon_net_arm(&client->net)) {
            return true;
        }
    }
    return false;
}

int udmon_client_process(struct udmon_client *client)
{
    client->delivered = 0;
    udmon_loop_enter(&client->loop);
    if (!client_progress(client)) {
        udmon_timer_set(&client->loop, &client->kick, 0); /* there is more: come back at once */
    }
    udmon_loop_leave(&client->loop);
    return client->delivered;
}

int udmon_client_send(struct udmon_client *client, const void *data, size_t length)
{
    int ret, pumped;
    uint64_t sent;

    if ((client->state != UDMON_CONNECTED) || (client->leaving_ns > 0) || client->stuck ||
        client_has_backlog(client)) {
        ret = udmon_chan_push(&client->chan, data, length);
    } else {
        sent = client->chan.stats.datagrams_sent;
        ret = udmon_chan_push_pump(&client->chan, data, length, &pumped);
        /* Errors of the path are process's to handle: here, being in the queue is enough. */
        client->stuck = (ret == 0) && (pumped < 0);
        if ((client->stuck || (client->chan.stats.datagrams_sent != sent)) &&
            (client->kick.due_ns == 0)) {
            udmon_timer_set(&client->loop, &client->kick, 0); /* for datagrams that the transport
                                                               * holds */
        }
    }
    if ((ret == 0) && (client->flush.due_ns == 0)) {
        udmon_timer_set(&client->loop, &client->flush, client->settings.values.flush_ms);
    }
    return ret;
}

void udmon_client_flush(struct udmon_client *client)
{
    client->flush_now = 1;
    udmon_timer_set(&client->loop, &client->kick, 0);
}

enum udmon_client_state udmon_client_state(const struct udmon_client *client)
{
    return client->state;
}

const char *udmon_client_transport(const struct udmon_client *client)
{
    return (client->state == UDMON_CONNECTED) ? udmon_scheme_name(client->used.scheme) : "";
}

int udmon_client_server(const struct udmon_client *client, const char **address_p)
{
    if (client->state != UDMON_CONNECTED) {
        return -ENOTCONN;
    }
    *address_p = client->servers[client->used.server].endpoint.text;
    return client->used.server;
}

void udmon_client_stats(const struct udmon_client *client, struct udmon_stats *stats)
{
    udmon_chan_stats(&client->chan, stats);
}

void udmon_client_close(struct udmon_client *client)
{
    udmon_client_stop_meeting(client);
    if (client->state == UDMON_CONNECTED) {
        udmon_chan_pump(&client->chan, 1);
        udmon_chan_signal(&client->chan, UDMON_BYE, client->chan.next_seq);
        udmon_net_drain(&client->net);
    }
    udmon_client_drop_path(client);
    udmon_chan_cleanup(&client->chan);
    udmon_net_close(&client->net);
    udmon_tls_close(&client->tls);
    udmon_loop_close(&client->loop);
    client_free_servers(client);
    udmon_keys_close(&client->keys);
    free(client);
}
