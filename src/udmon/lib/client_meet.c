/*
 * Client: walks through the servers and the ways to each until one works, and starts over when the
 * connection is lost. A way is a scheme and an address; on each: HELLO, endpoint, AUTH, and a ping
 * through the endpoint, whose answer proves that the way is good in both directions.
 */
#include "client.h"
#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* UCT's name of a scheme's transport. */
static const char *client_transport(enum udmon_scheme scheme)
{
    return (scheme == UDMON_SCHEME_UD) ? "ud_mon" : udmon_scheme_name(scheme);
}

void udmon_client_set_state(struct udmon_client *client, enum udmon_client_state state,
                            const char *reason)
{
    if (client->state != state) {
        client->state = state;
        if (client->callbacks.state != NULL) {
            client->callbacks.state(client->arg, state, reason);
        }
    }
}

void udmon_client_drop_path(struct udmon_client *client)
{
    udmon_chan_disconnect(&client->chan);
    udmon_timer_cancel(&client->keepalive);
    client->ping_due = 0;
    client->bye = client->left = 0; /* said over this path */
    if (client->path != NULL) {
        udmon_path_close(client->path);
        client->path = NULL;
    }
}

void udmon_client_stop_meeting(struct udmon_client *client)
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

static const struct udmon_secret *client_secret(const struct udmon_client *client)
{
    return &client->keys.secrets[KEYS_PRESENT];
}

static void client_try(struct udmon_client *client);
static void client_meet_server(struct udmon_client *client);

static const struct udmon_endpoint *client_endpoint_of(const struct udmon_client *client)
{
    return &client->servers[client->way.server].endpoint;
}

/* Goes to the next scheme and address of this server. False: all were tried. */
static bool client_next_way(struct udmon_client *client)
{
    const struct udmon_endpoint *endpoint = client_endpoint_of(client);
    struct udmon_way *way = &client->way;

    way->host = way->host->ai_next;
    if (way->host != NULL) {
        return true;
    }
    way->host = endpoint->hosts;
    if ((endpoint->scheme != UDMON_SCHEME_ANY) || (way->scheme == (UDMON_SCHEME_COUNT - 1))) {
        return false;
    }
    ++way->scheme;
    return true;
}

static void client_first_way(struct udmon_client *client)
{
    const struct udmon_endpoint *endpoint = client_endpoint_of(client);

    client->way.host = endpoint->hosts;
    client->way.scheme =
        (endpoint->scheme == UDMON_SCHEME_ANY) ? UDMON_SCHEME_UD : endpoint->scheme;
}

static void client_probe_later(struct udmon_client *client)
{
    udmon_client_stop_meeting(client);
    client->probing = 0;
    udmon_timer_set(&client->loop, &client->retry, client->settings.values.return_ms / 2);
}

/* No scheme and address of this server works: goes to the next server, or waits for the next
 * round. */
static void client_next_server(struct udmon_client *client)
{
    if (++client->way.server < (client->probing ? client->used.server : client->server_count)) {
        client_meet_server(client);
    } else if (client->probing) {
        client->back_since_ns = 0;
        client_probe_later(client);
    } else {
        client->slow += (client->unanswered_calls > 0) && (client->slow < CLIENT_SLOW_MAX);
        udmon_client_set_state(client, UDMON_DISCONNECTED, client->reason);
        udmon_timer_set(&client->loop, &client->retry, client->settings.values.retry_ms);
    }
}

unsigned udmon_client_patience_ms(const struct udmon_client *client)
{
    return client->settings.values.connect_ms << client->slow;
}

/* This network does not lead to the server; `what` is the reason. */
static void client_way_failed(struct udmon_client *client, const char *what)
{
    char text[80];

    udmon_sockaddr_text(client->way.host->ai_addr, text, sizeof(text));
    snprintf(client->reason, sizeof(client->reason), "%s://%s: %s",
             udmon_scheme_name(client->way.scheme), text, what);
    udmon_client_stop_meeting(client);
    if (client->probing) {
        udmon_debug("%s", client->reason);
    } else {
        udmon_info("%s", client->reason);
        udmon_client_drop_path(client);
    }
    if (client_next_way(client)) {
        client_try(client);
    } else {
        client_next_server(client);
    }
}

/* A preferred server answers. */
static void client_probe_answered(struct udmon_client *client)
{
    uint64_t now = udmon_now_ns();

    if ((client->back_since_ns == 0) || (client->back != client->way.server)) {
        client->back_since_ns = now;
        client->back = client->way.server;
    }
    client_probe_later(client);
    if ((now - client->back_since_ns) >= (client->settings.values.return_ms * UINT64_C(1000000))) {
        udmon_timer_cancel(&client->retry);
        client->leaving_ns = now;
        udmon_timer_set(&client->loop, &client->keepalive, 0);
    }
}

void udmon_client_connected(struct udmon_client *client)
{
    client->used = client->way;
    client->servers[client->used.server].known = 1;
    client->back_since_ns = client->leaving_ns = 0;
    client->slow = 0;
    if (client->used.server > 0) {
        client_probe_later(client);
    }
    udmon_client_set_state(client, UDMON_CONNECTED, udmon_scheme_name(client->used.scheme));
}

void udmon_client_return(struct udmon_client *client)
{
    udmon_chan_signal(&client->chan, UDMON_BYE, udmon_chan_sent_before(&client->chan));
    udmon_net_drain(&client->net);
    if (client->state == UDMON_CONNECTED) { /* else the connection is lost already */
        udmon_client_lost(client, "left, since a preferred server is back");
    }
}

/* A working connection is lost: start again soon. */
void udmon_client_lost(struct udmon_client *client, const char *what)
{
    int worked = (client->state == UDMON_CONNECTED);

    if (!worked) {
        client_way_failed(client, what);
        return;
    }
    udmon_client_stop_meeting(client); /* of a probe */
    client->probing = 0;
    client->leaving_ns = 0;
    udmon_client_drop_path(client);
    snprintf(client->reason, sizeof(client->reason), "%s: %s",
             client->servers[client->used.server].endpoint.text, what);
    udmon_info("%s", client->reason);
    udmon_client_set_state(client, UDMON_DISCONNECTED, client->reason);
    udmon_timer_set(&client->loop, &client->retry, client->settings.values.retry_ms / 4);
}

/* Over a link: the request leaves when the link is open, and the next message is its answer. */

static void client_link_opened(void *arg)
{
    struct udmon_client *client = arg;

    if ((udmon_link_send_bytes(client->link, client->request, client->request_length) < 0)) {
        client_way_failed(client, "the connection is broken");
    }
}

static void client_answer(struct udmon_client *client, const void *data, long length)
{
    udmon_rpc_done_fn answered = client->answered;
    struct udmon_rpc_place place = {
        .local = client->link->local,
        .remote = client->link->remote,
        .gid_index = -1,
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
    struct udmon_client *client = arg;
    char problem[sizeof(client->link->problem)];

    /* The link, which has the text, is closed before it is used. */
    snprintf(problem, sizeof(problem), "%s", client->link->problem);
    client_way_failed(client, (error == -EACCES) ? problem : strerror(-error));
}

void udmon_client_unanswered(struct udmon_timer *timer)
{
    struct udmon_client *client = timer->arg;

    ++client->unanswered_calls;
    client_way_failed(client, strerror(ETIMEDOUT));
}

static const struct udmon_link_ops client_link_ops = {
    .opened = client_link_opened,
    .received = client_link_received,
    .failed = client_link_failed,
};

static int client_call_link(struct udmon_client *client, const struct sockaddr *source,
                            const void *request, size_t length, udmon_rpc_done_fn done)
{
    client->answered = done;
    udmon_timer_set(&client->loop, &client->patience, udmon_client_patience_ms(client));
    if (client->link != NULL) {
        return udmon_link_send_bytes(client->link, request, length);
    }
    memcpy(client->request, request, length);
    client->request_length = length;
    return udmon_link_connect(&client->tls, &client->loop, source, client->way.host->ai_addr,
                              client_endpoint_of(client)->host, &client_link_ops, client,
                              &client->link);
}

static int client_call(struct udmon_client *client, const void *request, size_t length,
                       udmon_rpc_done_fn done)
{
    const struct sockaddr *source = NULL;

    if (client->settings.source.ss_family != AF_UNSPEC) {
        source = (struct sockaddr *)&client->settings.source;
    }
    if (client->way.scheme != UDMON_SCHEME_UD) {
        return client_call_link(client, source, request, length, done);
    }
    return udmon_cm_call(&client->loop, source, client->way.host->ai_addr, request, length,
                         client->settings.values.connect_ms, done, client, &client->call);
}

/* The way is the link itself, or the link has served its purpose. */
static int client_end_link(struct udmon_client *client)
{
    struct udmon_link *link = client->link;

    client->link = NULL;
    if (client->way.scheme == UDMON_SCHEME_TCP) {
        return udmon_path_of_link(&client->net, link, &client->path);
    }
    if (link != NULL) {
        udmon_link_close(link);
    }
    return 0;
}

static void client_welcome(void *arg, const struct udmon_rpc_place *place, const void *response,
                           long length)
{
    const struct udmon_welcome *welcome = response;
    struct udmon_client *client = arg;
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
    if (!udmon_meet_welcome_check(client_secret(client), &client->auth, welcome)) {
        client_way_failed(client, "the server does not know the secret");
        return;
    }
    ret = client_end_link(client);
    if (ret < 0) {
        client_way_failed(client, strerror(-ret));
        return;
    }
    ret =
        udmon_chan_connect(&client->chan, udmon_path_mtu(client->path), le64toh(welcome->token), 0);
    if (ret < 0) {
        client_way_failed(client, "the network's datagrams are too small");
        return;
    }
    client->heard_ns = udmon_now_ns();
    udmon_timer_set(&client->loop, &client->keepalive, 0);
}

/* Make the endpoint to the server's interface; writes our own interface's address. */
static const char *client_endpoint(struct udmon_client *client, const struct udmon_rpc_place *place,
                                   const struct udmon_challenge *challenge, uint8_t *address,
                                   size_t size, long *length_p)
{
    struct udmon_port *port;

    if (udmon_net_port(&client->net, client_transport(client->way.scheme),
                       (client->way.scheme == UDMON_SCHEME_UD) ? place->device : NULL,
                       place->gid_index, &port) < 0) {
        return "this host has no such network";
    }
    if (udmon_path_open(port, challenge + 1, challenge->address_length, &client->path) < 0) {
        return "the server is not on this network";
    }
    *length_p = udmon_port_address(port, address, size);
    return (*length_p < 0) ? "the address of this host's interface is too long" : NULL;
}

/*
 * Each server has a separate count of record numbers. So a record for another server is no gap. A
 * record that was sent to this server and lost is a gap, also after a later return of the client.
 */
static void client_number_for(struct udmon_client *client, unsigned server)
{
    if (client->numbered != server) {
        client->servers[client->numbered].next =
            udmon_chan_renumber(&client->chan, client->servers[server].next);
        client->numbered = server;
    }
}

/* The server's address is known: make the endpoint, and ask to be let in. */
static const char *client_send_auth(struct udmon_client *client,
                                    const struct udmon_rpc_place *place,
                                    const struct udmon_challenge *challenge)
{
    size_t size = (client->way.scheme == UDMON_SCHEME_UD) ? UDMON_CM_REQUEST_MAX : UDMON_RPC_MAX;
    uint8_t address[256], message[UDMON_RPC_MAX];
    const char *problem = NULL;
    long length = 0;
    int ret;

    if (client->way.scheme != UDMON_SCHEME_TCP) {
        problem = client_endpoint(client, place, challenge, address, sizeof(address), &length);
    }
    if (problem != NULL) {
        return problem;
    }
    client_number_for(client, client->way.server);
    memset(&client->auth, 0, sizeof(client->auth));
    memcpy(client->auth.server_nonce, challenge->server_nonce, UDMON_NONCE_SIZE);
    memcpy(client->auth.client_nonce, client->nonce, UDMON_NONCE_SIZE);
    client->auth.header.flags = (client->settings.values.relay ? UDMON_RELAY : 0) |
                                (client->servers[client->way.server].known ? 0 : UDMON_FIRST);
    client->auth.client_id = htole64(client->settings.values.client_id);
    client->auth.next_seq = htole64(udmon_chan_number(&client->chan));
    memcpy(client->auth.transport, udmon_scheme_name(client->way.scheme),
           strlen(udmon_scheme_name(client->way.scheme)));
    length = udmon_meet_auth(client_secret(client), &client->auth, address, length,
                             client->settings.name, message, size);
    if (length < 0) {
        return "the address of this host's interface is too long";
    }
    memcpy(&client->auth, message, sizeof(client->auth)); /* with the signature */
    ret = client_call(client, message, length, client_welcome);
    return (ret < 0) ? strerror(-ret) : NULL;
}

static void client_challenge(void *arg, const struct udmon_rpc_place *place, const void *response,
                             long length)
{
    const struct udmon_challenge *challenge = response;
    const char *problem = NULL;
    struct udmon_client *client = arg;

    client->call = NULL;
    if (length < 0) {
        problem = strerror(-length);
    } else if (udmon_meet_type(response, length) != UDMON_CHALLENGE) {
        problem = udmon_meet_status_text(UDMON_BAD_REQUEST);
    } else if (challenge->header.status != UDMON_OK) {
        problem = udmon_meet_status_text(challenge->header.status);
    } else if (udmon_meet_challenge_check(client_secret(client), client->nonce, challenge,
                                          length) <= 0) {
        problem = "the server does not know the secret";
    } else if (client->probing) {
        client_probe_answered(client);
    } else {
        problem = client_send_auth(client, place, challenge);
    }
    if (problem != NULL) {
        client_way_failed(client, problem);
    }
}

static void client_try(struct udmon_client *client)
{
    uint8_t hello[UDMON_HELLO_MAX];
    struct udmon_hint hint;
    size_t length;
    int ret;

    udmon_keys_refresh(&client->keys);
    if (!client->probing) {
        udmon_client_set_state(client, UDMON_CONNECTING, client_endpoint_of(client)->text);
    }
    if ((client_secret(client)->length == 0) && client->tls.certificates &&
        (client->way.scheme == UDMON_SCHEME_UD)) {
        client_way_failed(client, "this network needs a shared secret: certificates are for TLS");
        return;
    }
    if ((client_secret(client)->length == 0) && !client->tls.certificates &&
        !udmon_sockaddr_is_loopback(client->way.host->ai_addr)) {
        client_way_failed(client, "a server on another host needs a shared secret or certificates");
        return;
    }
    ret = udmon_random(client->nonce, sizeof(client->nonce));
    if (ret == 0) {
        ret = udmon_keys_hint(client_secret(client), &hint);
    }
    if (ret == 0) {
        length =
            udmon_meet_hello(client->nonce, udmon_scheme_name(client->way.scheme), &hint, hello);
        ret = client_call(client, hello, length, client_challenge);
    }
    if (ret < 0) {
        client_way_failed(client, (ret == -ENODEV) ? "this host has no RDMA" : strerror(-ret));
    }
}

static void client_looked_up(void *arg, int error, struct addrinfo *hosts)
{
    struct udmon_client *client = arg;
    struct udmon_endpoint *endpoint = &client->servers[client->way.server].endpoint;

    client->lookup = NULL;
    if (hosts != NULL) {
        udmon_endpoint_free(endpoint);
        endpoint->hosts = hosts;
    }
    if (endpoint->hosts == NULL) {
        snprintf(client->reason, sizeof(client->reason), "no address for host '%s': %s",
                 endpoint->host, gai_strerror(error));
        client_next_server(client);
        return;
    }
    /* If the name service fails now, its earlier answer may still be right. */
    client_first_way(client);
    client_try(client);
}

/* Looks up the server's name each time, because the server may have moved. */
static void client_meet_server(struct udmon_client *client)
{
    const struct udmon_endpoint *endpoint = client_endpoint_of(client);
    int ret;

    if (!client->probing) {
        udmon_client_set_state(client, UDMON_CONNECTING, endpoint->text);
    }
    ret = udmon_lookup_start(&client->loop, endpoint->host, endpoint->port, client_looked_up,
                             client, &client->lookup);
    if (ret < 0) {
        snprintf(client->reason, sizeof(client->reason), "looking '%s' up: %s", endpoint->host,
                 strerror(-ret));
        client_next_server(client);
    }
}

void udmon_client_retry(struct udmon_timer *timer)
{
    struct udmon_client *client = timer->arg;

    client->probing = (client->state == UDMON_CONNECTED);
    client->way.server = 0;
    client->unanswered_calls = 0;
    client_meet_server(client);
}
