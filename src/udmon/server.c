/*
 * Server: answers requests to connect (HELLO, AUTH), keeps a session for each client, hands what
 * they send to the program. A datagram counts only with the token of a session.
 */
#include "address.h"
#include "log.h"
#include "meet.h"
#include "options.h"
#include "rpc.h"
#include "sessions.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVER_LISTENERS_MAX = 16 };

struct udmon_server {
    udmon_loop_t loop;
    udmon_net_t net;
    udmon_settings_t settings;
    udmon_secret_t secret;
    udmon_gate_t gate;
    udmon_scheme_t scheme;
    udmon_server_callbacks_t callbacks;
    void *arg;
    struct {
        const udmon_rpc_ops_t *ops;
        udmon_rpc_listener_t *listener;
    } listeners[SERVER_LISTENERS_MAX];
    unsigned listener_count;
    udmon_sessions_t sessions;
    udmon_timer_t scan, resend, kick;
    int delivered;
};

static udmon_scheme_t server_scheme(const char *name)
{
    int i;

    for (i = UDMON_SCHEME_UD; i < UDMON_SCHEME_COUNT; ++i) {
        if (!strcmp(udmon_scheme_name(i), name)) {
            return i;
        }
    }
    return UDMON_SCHEME_COUNT;
}

/* The port that a client asks for, or the status to refuse it with. */
static uint8_t server_port(udmon_server_t *server, const char *transport,
                           const udmon_rpc_place_t *place, udmon_port_t **port_p)
{
    udmon_scheme_t scheme = server_scheme(transport);
    int by_device = (scheme == UDMON_SCHEME_UD) || (scheme == UDMON_SCHEME_TCP);

    if ((scheme == UDMON_SCHEME_COUNT) ||
        ((server->scheme != UDMON_SCHEME_ANY) && (server->scheme != scheme)) ||
        (by_device && (place->device[0] == '\0')) ||
        /* An RDMA device comes with a request over RDMA CM and only there. */
        ((scheme == UDMON_SCHEME_UD) != (strchr(place->device, ':') != NULL)) ||
        (udmon_net_port(&server->net, (scheme == UDMON_SCHEME_UD) ? "ud_mon" : transport,
                        by_device ? place->device : NULL, place->gid_index, port_p) < 0)) {
        return UDMON_NO_TRANSPORT;
    }
    return UDMON_OK;
}

static size_t server_hello(udmon_server_t *server, const udmon_rpc_place_t *place,
                           const udmon_hello_t *hello, void *response, size_t size)
{
    char transport[UDMON_TRANSPORT_SIZE + 1] = "";
    udmon_challenge_t *challenge = response;
    udmon_port_t *port;
    uint8_t status;
    int length;

    memcpy(transport, hello->transport, sizeof(hello->transport));
    status = server_port(server, transport, place, &port);
    if (status != UDMON_OK) {
        return udmon_meet_header(response, UDMON_CHALLENGE, status);
    }
    udmon_meet_header(challenge, UDMON_CHALLENGE, UDMON_OK);
    length = udmon_port_address(port, challenge + 1, size - sizeof(*challenge));
    if ((length < 0) || (length > UINT8_MAX) ||
        (udmon_gate_nonce(&server->gate, hello->client_nonce, challenge->server_nonce) < 0)) {
        return udmon_meet_header(response, UDMON_CHALLENGE, UDMON_NO_TRANSPORT);
    }
    challenge->address_length = length;
    return sizeof(*challenge) + length;
}

static int server_chan_send(void *arg, size_t size, udmon_chan_pack_t pack, void *pack_arg)
{
    return udmon_path_send(((udmon_session_t *)arg)->path, size, pack, pack_arg);
}

static void server_deliver(void *arg, const udmon_message_t *message)
{
    udmon_session_t *session = arg;
    udmon_server_t *server = session->server;

    ++server->delivered;
    server->callbacks.message(server->arg, &session->peer, message);
}

static void server_gap(void *arg, uint64_t first, uint64_t count)
{
    udmon_session_t *session = arg;
    udmon_server_t *server = session->server;

    if (server->callbacks.gap != NULL) {
        server->callbacks.gap(server->arg, &session->peer, first, count);
    }
}

static const udmon_chan_ops_t server_chan_ops = {
    .send = server_chan_send,
    .deliver = server_deliver,
    .gap = server_gap,
};

static void server_leave(udmon_server_t *server, udmon_session_t *session, udmon_left_t reason)
{
    if (!session->gone) {
        session->gone = 1;
        session->reason = reason;
        udmon_session_pend(&server->sessions, session);
    }
}

/* Number of the first record that counts: as we or the program remember, or where it is now. */
static uint64_t server_resume(udmon_server_t *server, uint64_t client_id, uint64_t next_seq)
{
    udmon_session_t *before = udmon_sessions_by_id(&server->sessions, client_id);
    uint64_t expected = UDMON_SEQ_UNKNOWN;

    if (before != NULL) {
        expected = before->chan.win.next;
        server_leave(server, before, UDMON_LEFT_REPLACED);
    } else if (server->callbacks.resume != NULL) {
        expected = server->callbacks.resume(server->arg, client_id);
    }
    return (expected <= next_seq) ? expected : next_seq;
}

static udmon_session_t *server_session_new(udmon_server_t *server, const udmon_rpc_place_t *place,
                                           const udmon_auth_view_t *view, udmon_port_t *port)
{
    udmon_session_t *session = calloc(1, sizeof(*session));

    if (session == NULL) {
        return NULL;
    }
    if (udmon_path_open(port, view->address, view->address_length, &session->path) < 0) {
        free(session);
        return NULL;
    }
    session->server = server;
    snprintf(session->name, sizeof(session->name), "%s", view->name);
    snprintf(session->transport, sizeof(session->transport), "%.7s", view->transport);
    udmon_sockaddr_text((const struct sockaddr *)&place->remote, session->address,
                        sizeof(session->address));
    session->peer = (udmon_peer_t) {
        .id = le64toh(view->auth->client_id),
        .name = session->name,
        .transport = session->transport,
        .address = session->address,
    };
    session->heard_ns = udmon_now_ns();
    udmon_chan_init(&session->chan, &server->settings.values, &server_chan_ops, session);
    return session;
}

/* A token that no other session has. */
static int server_token(udmon_server_t *server, uint64_t *token_p)
{
    int ret;

    do {
        ret = udmon_random(token_p, sizeof(*token_p));
    } while ((ret == 0) && (udmon_sessions_by_token(&server->sessions, *token_p) != NULL));
    return ret;
}

static uint8_t server_admit(udmon_server_t *server, const udmon_rpc_place_t *place,
                            const udmon_auth_view_t *view, uint64_t *token_p)
{
    uint64_t gap, first, next_seq = le64toh(view->auth->next_seq);
    udmon_session_t *session;
    udmon_port_t *port;
    uint8_t status;

    if (server->sessions.count >= server->settings.values.max_clients) {
        udmon_warn("client %s refused: there are %u already", view->name, server->sessions.count);
        return UDMON_FULL;
    }
    status = server_port(server, view->transport, place, &port);
    if (status != UDMON_OK) {
        return status;
    }
    session = server_session_new(server, place, view, port);
    if (session == NULL) {
        return UDMON_NO_TRANSPORT;
    }
    first = server_resume(server, session->peer.id, next_seq);
    if ((server_token(server, token_p) < 0) ||
        (udmon_chan_connect(&session->chan, udmon_port_mtu(port), *token_p, first) < 0)) {
        udmon_chan_cleanup(&session->chan);
        udmon_path_close(session->path);
        free(session);
        return UDMON_NO_TRANSPORT;
    }
    udmon_sessions_add(&server->sessions, session);
    udmon_net_expect(&server->net);
    if (server->callbacks.joined != NULL) {
        server->callbacks.joined(server->arg, &session->peer);
    }
    gap = seqwin_advance(&session->chan.win, next_seq);
    if (gap > 0) {
        server_gap(session, first, gap);
    }
    return UDMON_OK;
}

static size_t server_auth(udmon_server_t *server, const udmon_rpc_place_t *place,
                          const void *request, size_t length, void *response)
{
    udmon_welcome_t *welcome = response;
    udmon_auth_view_t view;
    uint8_t status;
    uint64_t token;
    char text[80];

    if (udmon_meet_auth_parse(request, length, &view) < 0) {
        return udmon_meet_header(response, UDMON_WELCOME, UDMON_BAD_REQUEST);
    }
    if (!udmon_meet_auth_check(&server->secret, &view) ||
        !udmon_gate_check(&server->gate, view.auth->client_nonce, view.auth->server_nonce)) {
        udmon_warn("client %s at %s refused: it does not know the secret", view.name,
                   udmon_sockaddr_text((const struct sockaddr *)&place->remote, text,
                                       sizeof(text)));
        return udmon_meet_header(response, UDMON_WELCOME, UDMON_REFUSED);
    }
    status = server_admit(server, place, &view, &token);
    if (status != UDMON_OK) {
        return udmon_meet_header(response, UDMON_WELCOME, status);
    }
    memset(welcome, 0, sizeof(*welcome));
    udmon_meet_header(welcome, UDMON_WELCOME, UDMON_OK);
    welcome->token = htole64(token);
    return (udmon_meet_welcome_sign(&server->secret, view.auth, welcome) == 0) ?
               sizeof(*welcome) : 0;
}

static size_t server_serve(void *arg, const udmon_rpc_place_t *place, const void *request,
                           size_t length, void *response, size_t size)
{
    udmon_server_t *server = arg;

    switch (udmon_meet_type(request, length)) {
    case UDMON_HELLO:
        return server_hello(server, place, request, response, size);
    case UDMON_AUTH:
        return server_auth(server, place, request, length, response);
    default:
        return udmon_meet_header(response, UDMON_CHALLENGE, UDMON_BAD_REQUEST);
    }
}

static void server_received(void *arg, udmon_port_t *port, const void *data, size_t length)
{
    const udmon_dgram_t *dgram = data;
    udmon_server_t *server = arg;
    udmon_session_t *session;

    (void)port;
    if (length < sizeof(*dgram)) {
        return;
    }
    session = udmon_sessions_by_token(&server->sessions, le64toh(dgram->token));
    if ((session == NULL) || session->gone) {
        return; /* of a connection that is no more, or of a stranger */
    }
    session->heard_ns = udmon_now_ns();
    switch (udmon_chan_receive(&session->chan, data, length)) {
    case UDMON_PING:
        session->pong_due = 1;
        session->pong_time = le64toh(((const udmon_ping_t *)(dgram + 1))->time_ns);
        udmon_session_pend(&server->sessions, session);
        break;
    case UDMON_RELIABLE_DATA:
        udmon_session_pend(&server->sessions, session); /* for the acknowledgement */
        break;
    case UDMON_BYE:
        server_leave(server, session, UDMON_LEFT_BYE);
        break;
    default:
        break;
    }
}

static void server_tell_left(udmon_session_t *session, udmon_left_t reason)
{
    udmon_server_t *server = session->server;
    udmon_stats_t stats;

    if (server->callbacks.left != NULL) {
        udmon_chan_stats(&session->chan, &stats);
        server->callbacks.left(server->arg, &session->peer, reason, &stats);
    }
}

/* Send what a session has to; -EAGAIN if it has to wait. */
static int server_session_pump(udmon_session_t *session)
{
    int ret = 0;

    if (session->pong_due) {
        ret = udmon_chan_ping(&session->chan, UDMON_PONG, session->pong_time);
        session->pong_due = (ret == -EAGAIN);
    }
    return (ret == 0) ? udmon_chan_pump(&session->chan, 1) : ret;
}

/* Sessions with something to be done, each once; who has to wait stands at the end again. */
static void server_service(udmon_server_t *server)
{
    udmon_sessions_t *sessions = &server->sessions;
    udmon_session_t *session, *first_waiting = NULL;
    int ret;

    while (((session = TAILQ_FIRST(&sessions->pending)) != NULL) && (session != first_waiting)) {
        TAILQ_REMOVE(&sessions->pending, session, pending);
        session->is_pending = 0;
        ret = session->gone ? 0 : server_session_pump(session);
        if (ret == -EAGAIN) {
            udmon_session_pend(sessions, session);
            first_waiting = (first_waiting != NULL) ? first_waiting : session;
        } else if (ret < 0) {
            session->gone = 1;
            session->reason = UDMON_LEFT_SILENT;
        }
        if (session->gone) {
            server_tell_left(session, session->reason);
            first_waiting = (first_waiting == session) ? NULL : first_waiting;
            udmon_sessions_remove(sessions, session);
        }
    }
}

static void server_scan(udmon_timer_t *timer)
{
    udmon_server_t *server = timer->arg;
    uint64_t limit_ns = (uint64_t)server->settings.values.keepalive_ms * UDMON_DEAD_KEEPALIVES *
                        1000000;
    uint64_t now = udmon_now_ns();
    udmon_session_t *session;

    LIST_FOREACH(session, &server->sessions.all, all) {
        if ((now - session->heard_ns) > limit_ns) {
            server_leave(server, session, UDMON_LEFT_SILENT);
        }
    }
    udmon_timer_set(&server->loop, timer, server->settings.values.keepalive_ms);
}

static void server_resend(udmon_timer_t *timer)
{
    udmon_server_t *server = timer->arg;
    udmon_session_t *session;
    unsigned ms, soonest = 0;

    LIST_FOREACH(session, &server->sessions.all, all) {
        ms = udmon_reliable_tick(&session->chan);
        soonest = (ms > 0) ? ms : soonest;
    }
    if (soonest > 0) {
        udmon_timer_set(&server->loop, timer, soonest);
    }
}

static void server_nothing(udmon_timer_t *timer)
{
    (void)timer;
}

static int server_listen(udmon_server_t *server, const udmon_rpc_ops_t *ops,
                         const struct sockaddr *addr, unsigned short port)
{
    struct sockaddr_storage copy;
    unsigned i = server->listener_count;
    int ret;

    if (i == SERVER_LISTENERS_MAX) {
        return -ENOSPC;
    }
    memcpy(&copy, addr, udmon_sockaddr_length(addr));
    if (copy.ss_family == AF_INET) {
        ((struct sockaddr_in *)&copy)->sin_port = htons(port);
    } else {
        ((struct sockaddr_in6 *)&copy)->sin6_port = htons(port);
    }
    ret = ops->listen(&server->loop, (struct sockaddr *)&copy, server_serve, server,
                      &server->listeners[i].listener);
    if (ret == 0) {
        server->listeners[i].ops = ops;
        ++server->listener_count;
    }
    return ret;
}

/* One listener for each address and kind. RDMA may be missing where it was not asked for. */
static int server_listen_all(udmon_server_t *server, const udmon_endpoint_t *endpoint)
{
    struct addrinfo *host;
    unsigned short port;
    int ret = 0;

    for (host = endpoint->hosts; host != NULL; host = host->ai_next) {
        port = udmon_sockaddr_port(host->ai_addr);
        if ((port == 0) && (server->listener_count > 0)) {
            port = udmon_server_port(server);
        }
        if (endpoint->scheme != UDMON_SCHEME_UD) {
            ret = server_listen(server, &udmon_rpc_tcp, host->ai_addr, port);
            if (ret < 0) {
                return ret;
            }
            port = udmon_server_port(server);
        }
        if ((endpoint->scheme == UDMON_SCHEME_UD) || (endpoint->scheme == UDMON_SCHEME_ANY)) {
            ret = server_listen(server, &udmon_rpc_cm, host->ai_addr, port);
            if ((ret < 0) && (endpoint->scheme == UDMON_SCHEME_UD)) {
                udmon_error("cannot listen on %s: %s", endpoint->text,
                            (ret == -ENODEV) ? "no RDMA device behind this address" :
                                               strerror(-ret));
                return ret;
            }
        }
    }
    return 0;
}

static void server_close_listeners(udmon_server_t *server)
{
    while (server->listener_count > 0) {
        --server->listener_count;
        server->listeners[server->listener_count].ops->close(
            server->listeners[server->listener_count].listener);
    }
}

static int server_setup(udmon_server_t *server, const char *address)
{
    udmon_endpoint_t endpoint;
    int ret;

    ret = udmon_secret_load(server->settings.values.secret_file, &server->secret);
    if (ret < 0) {
        return ret;
    }
    ret = udmon_gate_open(&server->gate);
    if (ret < 0) {
        return ret;
    }
    ret = udmon_endpoint_parse(address, 1, &endpoint);
    if (ret < 0) {
        return ret;
    }
    ret = udmon_loop_open(&server->loop);
    if (ret < 0) {
        goto out;
    }
    ret = udmon_net_open(&server->net, &server->loop, server_received, server);
    if (ret < 0) {
        goto err_loop;
    }
    server->scheme = endpoint.scheme;
    ret = server_listen_all(server, &endpoint);
    if (ret < 0) {
        goto err_net;
    }
    goto out;

err_net:
    server_close_listeners(server);
    udmon_net_close(&server->net);
err_loop:
    udmon_loop_close(&server->loop);
out:
    udmon_endpoint_free(&endpoint);
    return ret;
}

int udmon_server_open(const char *address, const udmon_options_t *options,
                      const udmon_server_callbacks_t *callbacks, void *arg,
                      udmon_server_t **server_p)
{
    udmon_server_t *server;
    int ret;

    if (callbacks->message == NULL) {
        udmon_error("a server needs a callback for messages");
        return -EINVAL;
    }
    server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return -ENOMEM;
    }
    server->callbacks = *callbacks;
    server->arg = arg;
    udmon_sessions_init(&server->sessions);
    server->scan.fire = server_scan;
    server->resend.fire = server_resend;
    server->kick.fire = server_nothing;
    server->scan.arg = server->resend.arg = server->kick.arg = server;
    ret = udmon_settings_make(options, &server->settings);
    if (ret == 0) {
        ret = server_setup(server, address);
    }
    if (ret < 0) {
        free(server);
        return ret;
    }
    udmon_timer_set(&server->loop, &server->scan, server->settings.values.keepalive_ms);
    *server_p = server;
    return 0;
}

int udmon_server_fd(const udmon_server_t *server)
{
    return server->loop.epoll_fd;
}

int udmon_server_port(const udmon_server_t *server)
{
    return server->listeners[0].ops->port(server->listeners[0].listener);
}

int udmon_server_process(udmon_server_t *server)
{
    unsigned count;
    int i;

    server->delivered = 0;
    for (i = 0; i < UDMON_ROUNDS; ++i) {
        udmon_loop_run(&server->loop);
        count = udmon_net_progress(&server->net);
        server->net.blocked = 0;
        server_service(server);
        if (!udmon_net_arm(&server->net) && (count == 0)) {
            return server->delivered;
        }
    }
    udmon_timer_set(&server->loop, &server->kick, 0); /* there is more: come back at once */
    return server->delivered;
}

int udmon_server_reply(udmon_server_t *server, uint64_t client_id, const void *data, size_t length,
                       unsigned flags)
{
    udmon_session_t *session = udmon_sessions_by_id(&server->sessions, client_id);
    int ret;

    if (session == NULL) {
        return -ENOTCONN;
    }
    if (flags & UDMON_RELIABLE) {
        ret = udmon_reliable_send(&session->chan, data, length);
        if ((ret == 0) && (server->resend.due_ns == 0)) {
            udmon_timer_set(&server->loop, &server->resend, UDMON_RETRANSMIT_MS / 2);
        }
    } else {
        ret = udmon_chan_push(&session->chan, data, length);
    }
    if (ret == 0) {
        udmon_session_pend(&server->sessions, session);
        if (server->kick.due_ns == 0) {
            udmon_timer_set(&server->loop, &server->kick, 0); /* if called from outside process */
        }
    }
    return ret;
}

int udmon_server_stats(const udmon_server_t *server, uint64_t client_id, udmon_stats_t *stats)
{
    const udmon_session_t *session = udmon_sessions_by_id(&server->sessions, client_id);

    if (session == NULL) {
        return -ENOENT;
    }
    udmon_chan_stats(&session->chan, stats);
    return 0;
}

void udmon_server_clients(const udmon_server_t *server,
                          void (*each)(void *arg, const udmon_peer_t *peer), void *arg)
{
    const udmon_session_t *session;

    LIST_FOREACH(session, &server->sessions.all, all) {
        if (!session->gone) {
            each(arg, &session->peer);
        }
    }
}

void udmon_server_close(udmon_server_t *server)
{
    udmon_session_t *session;

    LIST_FOREACH(session, &server->sessions.all, all) {
        if (!session->gone) {
            server_session_pump(session);
            udmon_chan_signal(&session->chan, UDMON_BYE);
        }
    }
    udmon_net_drain(&server->net);
    while ((session = LIST_FIRST(&server->sessions.all)) != NULL) {
        server_tell_left(session, session->gone ? session->reason : UDMON_LEFT_CLOSING);
        udmon_sessions_remove(&server->sessions, session);
    }
    server_close_listeners(server);
    udmon_net_close(&server->net);
    udmon_loop_close(&server->loop);
    free(server);
}
