/* Server: the functions for programs, and the listeners. See server_meet.c and server_session.c. */
#include "server.h"
#include "base/log.h"
#include "net/rpc.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int server_listen(struct udmon_server *server, const struct udmon_rpc_ops *ops,
                         const struct sockaddr *addr, unsigned short port)
{
    struct sockaddr_storage copy;
    unsigned i = server->listener_count;
    int ret;

    if (ops->listen == NULL) {
        return -ENODEV;
    }
    if (i == SERVER_LISTENERS_MAX) {
        return -ENOSPC;
    }
    memcpy(&copy, addr, udmon_sockaddr_length(addr));
    if (copy.ss_family == AF_INET) {
        ((struct sockaddr_in *)&copy)->sin_port = htons(port);
    } else {
        ((struct sockaddr_in6 *)&copy)->sin6_port = htons(port);
    }
    ret = ops->listen(&server->loop, &server->tls, (struct sockaddr *)&copy, udmon_server_serve,
                      server, &server->listeners[i].listener);
    if (ret == 0) {
        server->listeners[i].ops = ops;
        ++server->listener_count;
    }
    return ret;
}

/* Whether a meeting over RDMA CM, which has no certificates, can be accepted. */
static bool server_takes_cm(const struct udmon_server *server)
{
    return (server->keys.secrets[KEYS_PRESENT].length > 0) ||
           (server->settings.values.ca_file == NULL);
}

/* Without a secret or certificates any process that can reach the port could send. */
static int server_check_open(const struct udmon_server *server,
                             const struct udmon_endpoint *endpoint)
{
    int certificates = (server->settings.values.ca_file != NULL);
    struct addrinfo *host;

    if ((endpoint->scheme == UDMON_SCHEME_UD) && !server_takes_cm(server)) {
        udmon_error("%s: this network needs a shared secret: certificates are for TLS",
                    endpoint->text);
        return -EACCES;
    }
    for (host = endpoint->hosts;
         (host != NULL) && (server->keys.secrets[KEYS_PRESENT].length == 0) && !certificates;
         host = host->ai_next) {
        if (!udmon_sockaddr_is_loopback(host->ai_addr)) {
            udmon_error("%s: listening on other addresses than those of loopback (127.0.0.1, "
                        "[::1]) needs a shared secret or certificates",
                        endpoint->text);
            return -EACCES;
        }
    }
    return 0;
}

/* One listener for each address and kind. RDMA may be missing where it was not asked for. */
static int server_listen_all(struct udmon_server *server, const struct udmon_endpoint *endpoint)
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
        if ((endpoint->scheme == UDMON_SCHEME_UD) ||
            ((endpoint->scheme == UDMON_SCHEME_ANY) && server_takes_cm(server))) {
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

static void server_close_listeners(struct udmon_server *server)
{
    while (server->listener_count > 0) {
        --server->listener_count;
        server->listeners[server->listener_count].ops->close(
            server->listeners[server->listener_count].listener);
    }
}

static int server_setup(struct udmon_server *server, const char *address)
{
    struct udmon_endpoint endpoint;
    int ret;

    ret = udmon_keys_of_server(&server->keys, server->settings.values.secret_file,
                               server->settings.values.old_secret_file);
    if (ret < 0) {
        return ret;
    }
    ret = udmon_gate_open(&server->gate);
    if (ret < 0) {
        goto err_keys;
    }
    ret = udmon_endpoint_parse(address, 1, &endpoint);
    if (ret < 0) {
        goto err_keys;
    }
    ret = server_check_open(server, &endpoint);
    if (ret < 0) {
        goto err_endpoint;
    }
    ret = udmon_loop_open(&server->loop);
    if (ret < 0) {
        goto err_endpoint;
    }
    ret = udmon_tls_open(&server->tls, &server->keys, &server->settings.values, 1);
    if (ret < 0) {
        goto err_loop;
    }
    ret = udmon_net_open(&server->net, &server->loop, &server->tls, udmon_server_received,
                         udmon_server_broken, server);
    if (ret < 0) {
        goto err_tls;
    }
    server->scheme = endpoint.scheme;
    ret = server_listen_all(server, &endpoint);
    if (ret < 0) {
        goto err_net;
    }
    udmon_endpoint_free(&endpoint);
    return 0;

err_net:
    server_close_listeners(server);
    udmon_net_close(&server->net);
err_tls:
    udmon_tls_close(&server->tls);
err_loop:
    udmon_loop_close(&server->loop);
err_endpoint:
    udmon_endpoint_free(&endpoint);
err_keys:
    udmon_keys_close(&server->keys);
    return ret;
}

int udmon_server_open(const char *address, const struct udmon_options *options,
                      const struct udmon_server_callbacks *callbacks, void *arg,
                      struct udmon_server **server_p)
{
    struct udmon_server *server;
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
    server->scan.fire = udmon_server_scan;
    server->scan.arg = server;
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

int udmon_server_fd(const struct udmon_server *server)
{
    return server->loop.epoll_fd;
}

int udmon_server_port(const struct udmon_server *server)
{
    return server->listeners[0].ops->port(server->listeners[0].listener);
}

/* Progresses until nothing is left to do; false if many rounds did not suffice. */
static bool server_progress(struct udmon_server *server)
{
    unsigned count;
    int i;

    for (i = 0; i < UDMON_ROUNDS; ++i) {
        count = udmon_net_progress(&server->net);
        server->net.blocked = 0;
        udmon_server_service(server);
        if ((count == 0) && !udmon_net_arm(&server->net)) {
            return true;
        }
    }
    return false;
}

int udmon_server_process(struct udmon_server *server)
{
    server->delivered = 0;
    udmon_loop_enter(&server->loop);
    if (!server_progress(server)) {
        udmon_timer_set(&server->loop, &server->kick, 0); /* there is more: come back at once */
    }
    udmon_loop_leave(&server->loop);
    return server->delivered;
}

int udmon_server_reply(struct udmon_server *server, uint64_t client_id, const void *data,
                       size_t length)
{
    struct udmon_session *session = udmon_sessions_by_id(&server->sessions, client_id);
    int ret;

    if (session == NULL) {
        return -ENOTCONN;
    }
    ret = udmon_chan_push(&session->chan, data, length);
    if (ret == 0) {
        udmon_session_pend(&server->sessions, session);
        if (server->kick.due_ns == 0) {
            udmon_timer_set(&server->loop, &server->kick, 0); /* if called from outside process */
        }
    }
    return ret;
}

int udmon_server_stats(const struct udmon_server *server, uint64_t client_id,
                       struct udmon_stats *stats)
{
    const struct udmon_session *session = udmon_sessions_by_id(&server->sessions, client_id);

    if (session == NULL) {
        return -ENOENT;
    }
    udmon_chan_stats(&session->chan, stats);
    return 0;
}

void udmon_server_clients(const struct udmon_server *server,
                          void (*each)(void *arg, const struct udmon_peer *peer), void *arg)
{
    const struct udmon_session *session;

    LIST_FOREACH(session, &server->sessions.all, all) {
        if (!session->gone) {
            each(arg, &session->peer);
        }
    }
}

void udmon_server_close(struct udmon_server *server)
{
    struct udmon_session *session;

    LIST_FOREACH(session, &server->sessions.all, all) {
        if (!session->gone) {
            udmon_server_pump(session);
            udmon_chan_signal(&session->chan, UDMON_BYE, session->chan.next_seq);
        }
    }
    udmon_net_drain(&server->net);
    while ((session = LIST_FIRST(&server->sessions.all)) != NULL) {
        udmon_server_tell_left(session, session->gone ? session->reason : UDMON_LEFT_CLOSING);
        udmon_sessions_remove(&server->sessions, session);
    }
    server_close_listeners(server);
    udmon_net_close(&server->net);
    udmon_tls_close(&server->tls);
    udmon_loop_close(&server->loop);
    udmon_keys_close(&server->keys);
    free(server);
}
