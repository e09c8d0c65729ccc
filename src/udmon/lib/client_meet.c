/*
 * Client: walks through the ways to the server until one works, and starts over when the connection
 * is lost. A way is a scheme and an address; on each: HELLO, endpoint, AUTH, and a ping through the
 * endpoint, whose answer proves that the way is good in both directions.
 */
#include "client.h"
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* UCT's name of a scheme's transport. */
static const char *client_transport(udmon_scheme_t scheme)
{
    return (scheme == UDMON_SCHEME_UD) ? "ud_mon" : udmon_scheme_name(scheme);
}

void udmon_client_set_state(udmon_client_t *client, udmon_client_state_t state, const char *reason)
{
    if (client->state != state) {
        client->state = state;
        if (client->callbacks.state != NULL) {
            client->callbacks.state(client->arg, state, reason);
        }
    }
}

void udmon_client_drop_path(udmon_client_t *client)
{
    udmon_chan_disconnect(&client->chan);
    udmon_timer_cancel(&client->keepalive);
    if (client->path != NULL) {
        udmon_path_close(client->path);
        client->path = NULL;
    }
}

void udmon_client_stop_meeting(udmon_client_t *client)
{
    if (client->lookup != NULL) {
        udmon_lookup_cancel(client->lookup);
        client->lookup = NULL;
    }
    udmon_timer_cancel(&client->patience);
    client->answered = NULL;
    if (client->call != NULL) {
        udmon_cm_cancel(client->call);
        client->call = NULL;
    }
    if (client->link != NULL) {
        udmon_link_close(client->link);
        client->link = NULL;
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
    udmon_client_stop_meeting(client);
    udmon_client_drop_path(client);
    if (client_next_way(client)) {
        client_try(client);
        return;
    }
    udmon_client_set_state(client, UDMON_DISCONNECTED, client->reason);
    udmon_timer_set(&client->loop, &client->retry, client->settings.values.retry_ms);
}

/* A connection that worked is lost: the same way first. */
void udmon_client_lost(udmon_client_t *client, const char *what)
{
    int worked = (client->state == UDMON_CONNECTED);

    if (!worked) {
        client_way_failed(client, what);
        return;
    }
    udmon_client_drop_path(client);
    snprintf(client->reason, sizeof(client->reason), "%s: %s", client->server.text, what);
    udmon_info("%s", client->reason);
    udmon_client_set_state(client, UDMON_DISCONNECTED, client->reason);
    udmon_timer_set(&client->loop, &client->retry, client->settings.values.retry_ms / 4);
}

/* Over a link: the request leaves when the link is open, and the next message is its answer. */

static void client_link_opened(void *arg)
{
    udmon_client_t *client = arg;

    if ((udmon_link_send_bytes(client->link, client->request, client->request_length) < 0)) {
        client_way_failed(client, "the connection is broken");
    }
}

static void client_answer(udmon_client_t *client, const void *data, long length)
{
    udmon_rpc_done_t answered = client->answered;
    udmon_rpc_place_t place = {
        .local = client->link->local, .remote = client->link->remote, .gid_index = -1,
        .link = client->link,
    };

    udmon_timer_cancel(&client->patience);
    client->answered = NULL;
    if (answered != NULL) {
        answered(client, &place, data, length);
    }
}

static void client_link_received(void *arg, const void *data, size_t length)
{
    client_answer(arg, data, length);
}

static void client_link_failed(void *arg, int error)
{
    client_way_failed(arg, (error == -EACCES) ?
                               "refused: the secret of the server is another" : strerror(-error));
}

void udmon_client_unanswered(udmon_timer_t *timer)
{
    client_way_failed(timer->arg, strerror(ETIMEDOUT));
}

static const udmon_link_ops_t client_link_ops = {
    .opened = client_link_opened,
    .received = client_link_received,
    .failed = client_link_failed,
};

static int client_call_link(udmon_client_t *client, const struct sockaddr *source,
                            const void *request, size_t length, udmon_rpc_done_t done)
{
    client->answered = done;
    udmon_timer_set(&client->loop, &client->patience, client->settings.values.connect_ms);
    if (client->link != NULL) {
        return udmon_link_send_bytes(client->link, request, length);
    }
    memcpy(client->request, request, length);
    client->request_length = length;
    return udmon_link_connect(&client->tls, &client->loop, source, client->host->ai_addr,
                              &client_link_ops, client, &client->link);
}

static int client_call(udmon_client_t *client, const void *request, size_t length,
                       udmon_rpc_done_t done)
{
    const struct sockaddr *source = NULL;

    if (client->settings.source.ss_family != AF_UNSPEC) {
        source = (struct sockaddr *)&client->settings.source;
    }
    if (client->scheme != UDMON_SCHEME_UD) {
        return client_call_link(client, source, request, length, done);
    }
    return udmon_cm_call(&client->loop, source, client->host->ai_addr, request, length,
                         client->settings.values.connect_ms, done, client, &client->call);
}

/* The way is the link itself, or the link has served its purpose. */
static int client_end_link(udmon_client_t *client)
{
    udmon_link_t *link = client->link;

    client->link = NULL;
    if (client->scheme == UDMON_SCHEME_TCP) {
        return udmon_path_of_link(&client->net, link, &client->path);
    }
    if (link != NULL) {
        udmon_link_close(link);
    }
    return 0;
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
    ret = client_end_link(client);
    if (ret < 0) {
        client_way_failed(client, strerror(-ret));
        return;
    }
    ret = udmon_chan_connect(&client->chan, udmon_path_mtu(client->path), le64toh(welcome->token),
                             0);
    if (ret < 0) {
        client_way_failed(client, "the network's datagrams are too small");
        return;
    }
    client->heard_ns = udmon_now_ns();
    udmon_timer_set(&client->loop, &client->keepalive, 0);
}

/* Make the endpoint to the server's interface; writes our own interface's address. */
static const char *client_endpoint(udmon_client_t *client, const udmon_rpc_place_t *place,
                                   const udmon_challenge_t *challenge, uint8_t *address,
                                   size_t size, long *length_p)
{
    udmon_port_t *port;

    if (udmon_net_port(&client->net, client_transport(client->scheme),
                       (client->scheme == UDMON_SCHEME_UD) ? place->device : NULL,
                       place->gid_index, &port) < 0) {
        return "this host has no such network";
    }
    if (udmon_path_open(port, challenge + 1, challenge->address_length, &client->path) < 0) {
        return "the server is not on this network";
    }
    *length_p = udmon_port_address(port, address, size);
    return (*length_p < 0) ? "the address of this host's interface is too long" : NULL;
}

/* The server's address is known: make the endpoint, and ask to be let in. */
static const char *client_send_auth(udmon_client_t *client, const udmon_rpc_place_t *place,
                                    const udmon_challenge_t *challenge)
{
    size_t size = (client->scheme == UDMON_SCHEME_UD) ? UDMON_CM_REQUEST_MAX : UDMON_RPC_MAX;
    uint8_t address[256], message[UDMON_RPC_MAX];
    const char *problem = NULL;
    long length = 0;
    int ret;

    if (client->scheme != UDMON_SCHEME_TCP) {
        problem = client_endpoint(client, place, challenge, address, sizeof(address), &length);
    }
    if (problem != NULL) {
        return problem;
    }
    memset(&client->auth, 0, sizeof(client->auth));
    memcpy(client->auth.server_nonce, challenge->server_nonce, UDMON_NONCE_SIZE);
    memcpy(client->auth.client_nonce, client->nonce, UDMON_NONCE_SIZE);
    client->auth.client_id = htole64(client->settings.values.client_id);
    client->auth.next_seq = htole64(udmon_chan_sent_before(&client->chan));
    memcpy(client->auth.transport, udmon_scheme_name(client->scheme),
           strlen(udmon_scheme_name(client->scheme)));
    length = udmon_meet_auth(&client->secret, &client->auth, address, length,
                             client->settings.name, message, size);
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
    } else if (udmon_meet_challenge_check(&client->secret, client->nonce, challenge,
                                          length) <= 0) {
        problem = "the server does not know the secret";
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

    udmon_client_set_state(client, UDMON_CONNECTING, client->server.text);
    if ((client->secret.length == 0) && !udmon_sockaddr_is_loopback(client->host->ai_addr)) {
        client_way_failed(client, "a server on another host needs a shared secret");
        return;
    }
    ret = udmon_random(client->nonce, sizeof(client->nonce));
    if (ret == 0) {
        length = udmon_meet_hello(client->nonce, udmon_scheme_name(client->scheme), &hello);
        ret = client_call(client, &hello, length, client_challenge);
    }
    if (ret < 0) {
        client_way_failed(client, (ret == -ENODEV) ? "this host has no RDMA" : strerror(-ret));
    }
}

static void client_looked_up(void *arg, int error, struct addrinfo *hosts)
{
    udmon_client_t *client = arg;

    client->lookup = NULL;
    if (hosts != NULL) {
        udmon_endpoint_free(&client->server);
        client->server.hosts = hosts;
    }
    if (client->server.hosts == NULL) {
        snprintf(client->reason, sizeof(client->reason), "no address for host '%s': %s",
                 client->server.host, gai_strerror(error));
        udmon_client_set_state(client, UDMON_DISCONNECTED, client->reason);
        udmon_timer_set(&client->loop, &client->retry, client->settings.values.retry_ms);
        return;
    }
    /* If the name service fails now, what it said before may still be right. */
    client_first_way(client);
    client_try(client);
}

/* Each time anew: the server may have moved. */
void udmon_client_retry(udmon_timer_t *timer)
{
    udmon_client_t *client = timer->arg;
    int ret;

    udmon_client_set_state(client, UDMON_CONNECTING, client->server.text);
    ret = udmon_lookup_start(&client->loop, client->server.host, client->server.port,
                             client_looked_up, client, &client->lookup);
    if (ret < 0) {
        udmon_client_set_state(client, UDMON_DISCONNECTED, strerror(-ret));
        udmon_timer_set(&client->loop, &client->retry, client->settings.values.retry_ms);
    }
}
