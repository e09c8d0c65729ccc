/*
 * Client: walks through the ways to the server until one works, keeps the connection alive, and
 * starts over when it is lost. A way is a scheme and an address; on each: HELLO, endpoint, AUTH,
 * and a ping through the endpoint, whose answer proves that the way is good in both directions.
 */
#include "address.h"
#include "chan.h"
#include "log.h"
#include "meet.h"
#include "net.h"
#include "options.h"
#include "rpc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT_PROBE_MS = 100 };

struct udmon_client {
    udmon_loop_t loop;
    udmon_net_t net;
    udmon_settings_t settings;
    udmon_secret_t secret;
    udmon_endpoint_t server;
    udmon_client_callbacks_t callbacks;
    void *arg;
    udmon_client_state_t state;
    udmon_scheme_t scheme;      /* of the way being tried or used */
    struct addrinfo *host;
    const udmon_rpc_ops_t *rpc; /* of `call` */
    udmon_rpc_call_t *call;     /* under way, or NULL */
    uint8_t nonce[UDMON_NONCE_SIZE];
    udmon_auth_t auth;          /* as sent, to check the answer with */
    udmon_path_t *path;
    udmon_chan_t chan;
    uint64_t heard_ns;
    uint64_t asked_ns; /* when `keepalive` was fired last */
    int flush_now;
    int stuck;                  /* sending is process's, which knows when there is room again */
    int bye;
    int delivered;
    char reason[512];
    udmon_timer_t flush, keepalive, retry, resend, kick;
};

static const udmon_rpc_ops_t *client_rpc(udmon_scheme_t scheme)
{
    return (scheme == UDMON_SCHEME_UD) ? &udmon_rpc_cm : &udmon_rpc_tcp;
}

/* UCT's name of a scheme's transport. */
static const char *client_transport(udmon_scheme_t scheme)
{
    return (scheme == UDMON_SCHEME_UD) ? "ud_mon" : udmon_scheme_name(scheme);
}

static void client_set_state(udmon_client_t *client, udmon_client_state_t state, const char *reason)
{
    if (client->state != state) {
        client->state = state;
        if (client->callbacks.state != NULL) {
            client->callbacks.state(client->arg, state, reason);
        }
    }
}

static void client_drop_path(udmon_client_t *client)
{
    udmon_chan_disconnect(&client->chan);
    udmon_timer_cancel(&client->keepalive);
    udmon_timer_cancel(&client->resend);
    if (client->path != NULL) {
        udmon_path_close(client->path);
        client->path = NULL;
    }
}

static void client_try(udmon_client_t *client);

/* To the next way; false when all have been tried. */
static int client_next_way(udmon_client_t *client)
{
    client->host = client->host->ai_next;
    if (client->host != NULL) {
        return 1;
    }
    client->host = client->server.hosts;
    if ((client->server.scheme != UDMON_SCHEME_ANY) ||
        (client->scheme == (UDMON_SCHEME_COUNT - 1))) {
        return 0;
    }
    ++client->scheme;
    return 1;
}

static void client_first_way(udmon_client_t *client)
{
    client->host = client->server.hosts;
    client->scheme = (client->server.scheme == UDMON_SCHEME_ANY) ? UDMON_SCHEME_UD :
                                                                  client->server.scheme;
}

/* This way does not work: `what` says why. */
static void client_way_failed(udmon_client_t *client, const char *what)
{
    char text[80];

    udmon_sockaddr_text(client->host->ai_addr, text, sizeof(text));
    snprintf(client->reason, sizeof(client->reason), "%s://%s: %s",
             udmon_scheme_name(client->scheme), text, what);
    udmon_info("%s", client->reason);
    client_drop_path(client);
    if (client_next_way(client)) {
        client_try(client);
        return;
    }
    client_set_state(client, UDMON_DISCONNECTED, client->reason);
    client_first_way(client);
    udmon_timer_set(&client->loop, &client->retry, client->settings.values.retry_ms);
}

/* A connection that worked is lost: the same way first. */
static void client_lost(udmon_client_t *client, const char *what)
{
    int worked = (client->state == UDMON_CONNECTED);

    if (!worked) {
        client_way_failed(client, what);
        return;
    }
    client_drop_path(client);
    snprintf(client->reason, sizeof(client->reason), "%s: %s", client->server.text, what);
    udmon_info("%s", client->reason);
    client_set_state(client, UDMON_DISCONNECTED, client->reason);
    client_first_way(client);
    udmon_timer_set(&client->loop, &client->retry, client->settings.values.retry_ms / 4);
}

static int client_call(udmon_client_t *client, const void *request, size_t length,
                       udmon_rpc_done_t done)
{
    const struct sockaddr *source = NULL;

    if (client->settings.source.ss_family != AF_UNSPEC) {
        source = (struct sockaddr *)&client->settings.source;
    }
    client->rpc = client_rpc(client->scheme);
    return client->rpc->call(&client->loop, source, client->host->ai_addr, request, length,
                             client->settings.values.connect_ms, done, client, &client->call);
}

static void client_welcome(void *arg, const udmon_rpc_place_t *place, const void *response,
                           long length)
{
    const udmon_welcome_t *welcome = response;
    udmon_client_t *client = arg;
    int ret;

    (void)place;
    client->call = NULL;
    if (length < 0) {
        client_way_failed(client, strerror(-length));
        return;
    }
    if (udmon_meet_type(response, length) != UDMON_WELCOME) {
        client_way_failed(client, udmon_meet_status_text(UDMON_BAD_REQUEST));
        return;
    }
    if (welcome->header.status != UDMON_OK) {
        client_way_failed(client, udmon_meet_status_text(welcome->header.status));
        return;
    }
    if (!udmon_meet_welcome_check(&client->secret, &client->auth, welcome)) {
        client_way_failed(client, "the server does not know the secret");
        return;
    }
    ret = udmon_chan_connect(&client->chan, udmon_port_mtu(client->path->port),
                             le64toh(welcome->token), 0);
    if (ret < 0) {
        client_way_failed(client, "the network's datagrams are too small");
        return;
    }
    client->heard_ns = udmon_now_ns();
    udmon_net_expect(&client->net); /* the server's endpoint to us */
    udmon_timer_set(&client->loop, &client->keepalive, 0);
    udmon_timer_set(&client->loop, &client->resend, 0); /* what is not acknowledged */
}

/* The server's address is known: make the endpoint, and ask to be let in. */
static const char *client_send_auth(udmon_client_t *client, const udmon_rpc_place_t *place,
                                    const udmon_challenge_t *challenge)
{
    size_t size = (client->scheme == UDMON_SCHEME_UD) ? UDMON_CM_REQUEST_MAX : UDMON_RPC_MAX;
    int by_device = (client->scheme == UDMON_SCHEME_UD) || (client->scheme == UDMON_SCHEME_TCP);
    uint8_t address[256], message[UDMON_RPC_MAX];
    udmon_port_t *port;
    long length;
    int ret;

    ret = udmon_net_port(&client->net, client_transport(client->scheme),
                         by_device ? place->device : NULL, place->gid_index, &port);
    if (ret < 0) {
        return "this host has no such network";
    }
    ret = udmon_path_open(port, challenge + 1, challenge->address_length, &client->path);
    if (ret < 0) {
        return "the server is not on this network";
    }
    memset(&client->auth, 0, sizeof(client->auth));
    memcpy(client->auth.server_nonce, challenge->server_nonce, UDMON_NONCE_SIZE);
    memcpy(client->auth.client_nonce, client->nonce, UDMON_NONCE_SIZE);
    client->auth.client_id = htole64(client->settings.values.client_id);
    client->auth.next_seq = htole64(udmon_chan_sent_before(&client->chan));
    memcpy(client->auth.transport, udmon_scheme_name(client->scheme),
           strlen(udmon_scheme_name(client->scheme)));
    length = udmon_port_address(port, address, sizeof(address));
    if (length > 0) {
        length = udmon_meet_auth(&client->secret, &client->auth, address, length,
                                 client->settings.name, message, size);
    }
    if (length < 0) {
        return "the address of this host's interface is too long";
    }
    memcpy(&client->auth, message, sizeof(client->auth)); /* with the signature */
    ret = client_call(client, message, length, client_welcome);
    return (ret < 0) ? strerror(-ret) : NULL;
}

static void client_challenge(void *arg, const udmon_rpc_place_t *place, const void *response,
                             long length)
{
    const udmon_challenge_t *challenge = response;
    const char *problem = NULL;
    udmon_client_t *client = arg;

    client->call = NULL;
    if (length < 0) {
        problem = strerror(-length);
    } else if (udmon_meet_type(response, length) != UDMON_CHALLENGE) {
        problem = udmon_meet_status_text(UDMON_BAD_REQUEST);
    } else if (challenge->header.status != UDMON_OK) {
        problem = udmon_meet_status_text(challenge->header.status);
    } else if ((sizeof(*challenge) + challenge->address_length) > (size_t)length) {
        problem = udmon_meet_status_text(UDMON_BAD_REQUEST);
    } else {
        problem = client_send_auth(client, place, challenge);
    }
    if (problem != NULL) {
        client_way_failed(client, problem);
    }
}

static void client_try(udmon_client_t *client)
{
    udmon_hello_t hello;
    size_t length;
    int ret;

    client_set_state(client, UDMON_CONNECTING, client->server.text);
    ret = udmon_random(client->nonce, sizeof(client->nonce));
    if (ret == 0) {
        length = udmon_meet_hello(client->nonce, udmon_scheme_name(client->scheme), &hello);
        ret = client_call(client, &hello, length, client_challenge);
    }
    if (ret < 0) {
        client_way_failed(client, (ret == -ENODEV) ? "this host has no RDMA" : strerror(-ret));
    }
}

static void client_retry(udmon_timer_t *timer)
{
    client_try(timer->arg);
}

static void client_keepalive(udmon_timer_t *timer)
{
    udmon_client_t *client = timer->arg;
    const udmon_options_t *options = &client->settings.values;
    uint64_t now = udmon_now_ns(), silence_ms = (now - client->heard_ns) / 1000000;
    /* If it was we who did not look, what the server has said has yet to be read. */
    int overslept = ((now - client->asked_ns) / 1000000) > (2u * options->keepalive_ms);
    int connected = (client->state == UDMON_CONNECTED);
    unsigned limit = connected ? (UDMON_DEAD_KEEPALIVES * options->keepalive_ms) :
                                 options->connect_ms;
    int ret;

    client->asked_ns = now;
    if ((silence_ms > limit) && !overslept) {
        client_lost(client, connected ? "nothing heard of the server any more" :
                                        "the server's datagrams do not arrive");
        return;
    }
    ret = udmon_chan_ping(&client->chan, UDMON_PING, udmon_now_ns());
    if ((ret < 0) && (ret != -EAGAIN)) {
        client_lost(client, "the network reports that the server is gone");
        return;
    }
    udmon_timer_set(&client->loop, timer,
                    (connected || (options->keepalive_ms < CLIENT_PROBE_MS)) ?
                        options->keepalive_ms : CLIENT_PROBE_MS);
}

static void client_resend(udmon_timer_t *timer)
{
    udmon_client_t *client = timer->arg;
    unsigned ms = udmon_reliable_tick(&client->chan);

    if (ms > 0) {
        udmon_timer_set(&client->loop, timer, ms);
    }
}

static void client_flush_due(udmon_timer_t *timer)
{
    ((udmon_client_t *)timer->arg)->flush_now = 1;
}

static void client_nothing(udmon_timer_t *timer)
{
    (void)timer;
}

static void client_received(void *arg, udmon_port_t *port, const void *data, size_t length)
{
    const udmon_dgram_t *dgram = data;
    udmon_client_t *client = arg;

    (void)port;
    if ((client->chan.mtu == 0) || (length < sizeof(*dgram)) ||
        (le64toh(dgram->token) != client->chan.token)) {
        return; /* of a connection that is no more, or of a stranger */
    }
    client->heard_ns = client->loop.now_ns;
    switch (udmon_chan_receive(&client->chan, data, length)) {
    case UDMON_PONG:
        client_set_state(client, UDMON_CONNECTED, udmon_scheme_name(client->scheme));
        break;
    case UDMON_BYE:
        client->bye = 1;
        break;
    default:
        break;
    }
}

static int client_chan_send(void *arg, size_t size, udmon_chan_pack_t pack, void *pack_arg)
{
    return udmon_path_send(((udmon_client_t *)arg)->path, size, pack, pack_arg);
}

static void client_deliver(void *arg, const udmon_message_t *message)
{
    udmon_client_t *client = arg;

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

static const udmon_chan_ops_t client_chan_ops = {
    .send = client_chan_send,
    .deliver = client_deliver,
    .gap = client_gap,
};

static void client_timer(udmon_client_t *client, udmon_timer_t *timer,
                         void (*fire)(udmon_timer_t *))
{
    timer->fire = fire;
    timer->arg = client;
}

int udmon_client_open(const char *address, const udmon_options_t *options,
                      const udmon_client_callbacks_t *callbacks, void *arg,
                      udmon_client_t **client_p)
{
    udmon_client_t *client;
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
    ret = udmon_secret_load(client->settings.values.secret_file, &client->secret);
    if (ret < 0) {
        goto err_free;
    }
    ret = udmon_endpoint_parse(address, 0, &client->server);
    if (ret < 0) {
        goto err_free;
    }
    ret = udmon_loop_open(&client->loop);
    if (ret < 0) {
        goto err_endpoint;
    }
    ret = udmon_net_open(&client->net, &client->loop, client_received, client);
    if (ret < 0) {
        goto err_loop;
    }
    udmon_chan_init(&client->chan, &client->settings.values, &client_chan_ops, client);
    client_timer(client, &client->flush, client_flush_due);
    client_timer(client, &client->keepalive, client_keepalive);
    client_timer(client, &client->retry, client_retry);
    client_timer(client, &client->resend, client_resend);
    client_timer(client, &client->kick, client_nothing);
    client_first_way(client);
    udmon_timer_set(&client->loop, &client->retry, 0);
    *client_p = client;
    return 0;

err_loop:
    udmon_loop_close(&client->loop);
err_endpoint:
    udmon_endpoint_free(&client->server);
err_free:
    free(client);
    return ret;
}

int udmon_client_fd(const udmon_client_t *client)
{
    return client->loop.epoll_fd;
}

/* Send what can be sent; what cannot stays in the queue. */
static void client_pump(udmon_client_t *client)
{
    int ret;

    client->stuck = 0;
    if (client->state != UDMON_CONNECTED) {
        return;
    }
    ret = udmon_chan_pump(&client->chan, client->flush_now);
    client->stuck = (ret < 0);
    if (ret == 0) {
        client->flush_now = 0;
    } else if (ret != -EAGAIN) {
        client_lost(client, "the network reports that the server is gone");
    }
}

/* Until there is no news; false if there was still some after many rounds. */
static int client_progress(udmon_client_t *client)
{
    unsigned count;
    int i;

    for (i = 0; i < UDMON_ROUNDS; ++i) {
        count = udmon_net_progress(&client->net);
        client->net.blocked = 0;
        if (client->bye) {
            client->bye = 0;
            client_lost(client, "the server is closing");
        }
        client_pump(client);
        if ((count == 0) && !udmon_net_arm(&client->net)) {
            return 1;
        }
    }
    return 0;
}

int udmon_client_process(udmon_client_t *client)
{
    client->delivered = 0;
    udmon_loop_enter(&client->loop);
    if (!client_progress(client)) {
        udmon_timer_set(&client->loop, &client->kick, 0); /* there is more: come back at once */
    }
    udmon_loop_leave(&client->loop);
    return client->delivered;
}

int udmon_client_send(udmon_client_t *client, const void *data, size_t length, unsigned flags)
{
    uint64_t sent;
    int ret;

    if (flags & UDMON_RELIABLE) {
        ret = udmon_reliable_send(&client->chan, data, length);
        if ((ret == 0) && (client->resend.due_ns == 0)) {
            udmon_timer_set(&client->loop, &client->resend, UDMON_RETRANSMIT_MS / 2);
        }
        return ret;
    }
    ret = udmon_chan_push(&client->chan, data, length);
    if (ret < 0) {
        return ret;
    }
    if (client->flush.due_ns == 0) {
        udmon_timer_set(&client->loop, &client->flush, client->settings.values.flush_ms);
    }
    /* Errors of the path are process's to handle: here, being in the queue is enough. */
    if ((client->state == UDMON_CONNECTED) && !client->stuck) {
        sent = client->chan.stats.datagrams_sent;
        client->stuck = (udmon_chan_pump(&client->chan, 0) < 0);
        if ((client->stuck || (client->chan.stats.datagrams_sent != sent)) &&
            (client->kick.due_ns == 0)) {
            udmon_timer_set(&client->loop, &client->kick, 0); /* for what the transport holds */
        }
    }
    return 0;
}

void udmon_client_flush(udmon_client_t *client)
{
    client->flush_now = 1;
    udmon_timer_set(&client->loop, &client->kick, 0);
}

udmon_client_state_t udmon_client_state(const udmon_client_t *client)
{
    return client->state;
}

const char *udmon_client_transport(const udmon_client_t *client)
{
    return (client->state == UDMON_CONNECTED) ? udmon_scheme_name(client->scheme) : "";
}

void udmon_client_stats(const udmon_client_t *client, udmon_stats_t *stats)
{
    udmon_chan_stats(&client->chan, stats);
}

void udmon_client_close(udmon_client_t *client)
{
    if (client->call != NULL) {
        client->rpc->cancel(client->call);
    }
    if (client->state == UDMON_CONNECTED) {
        udmon_chan_pump(&client->chan, 1);
        udmon_chan_signal(&client->chan, UDMON_BYE);
        udmon_net_drain(&client->net);
    }
    client_drop_path(client);
    udmon_chan_cleanup(&client->chan);
    udmon_net_close(&client->net);
    udmon_loop_close(&client->loop);
    udmon_endpoint_free(&client->server);
    free(client);
}
