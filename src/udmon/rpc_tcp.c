/* Requests over TCP: connect, send the request, read the response, close; lengths go before. */
#include "rpc.h"
#include "address.h"
#include "log.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

enum { TCP_SERVED_MAX = 256, TCP_SERVE_MS = 3000 };

/* A message on its way through a socket, in pieces. */
typedef struct tcp_message {
    uint8_t bytes[2 + UDMON_RPC_MAX];
    size_t done;  /* bytes sent or received */
} tcp_message_t;

static size_t message_length(const tcp_message_t *message)
{
    return message->bytes[0] | ((size_t)message->bytes[1] << 8);
}

static void message_set(tcp_message_t *message, size_t length)
{
    message->bytes[0] = length & 0xff;
    message->bytes[1] = length >> 8;
    message->done = 0;
}

/* 1: all sent, 0: not yet, negative: error */
static int message_send(int fd, tcp_message_t *message)
{
    size_t total = 2 + message_length(message);
    ssize_t ret;

    while (message->done < total) {
        ret = send(fd, message->bytes + message->done, total - message->done, MSG_NOSIGNAL);
        if (ret < 0) {
            return ((errno == EAGAIN) || (errno == EINTR)) ? 0 : -errno;
        }
        message->done += ret;
    }
    return 1;
}

/* 1: complete, 0: not yet, negative: error */
static int message_receive(int fd, tcp_message_t *message)
{
    size_t wanted;
    ssize_t ret;

    for (;;) {
        wanted = (message->done < 2) ? 2 : (2 + message_length(message));
        if (wanted > sizeof(message->bytes)) {
            return -EPROTO;
        }
        if ((message->done == wanted) && (wanted > 2)) {
            return 1;
        }
        if (message->done == wanted) {
            return -EPROTO; /* an empty message */
        }
        ret = recv(fd, message->bytes + message->done, wanted - message->done, 0);
        if (ret < 0) {
            return ((errno == EAGAIN) || (errno == EINTR)) ? 0 : -errno;
        }
        if (ret == 0) {
            return -ECONNRESET;
        }
        message->done += ret;
    }
}

static int same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family) {
        return 0;
    }
    if (a->sa_family == AF_INET) {
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    }
    return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                   &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

/* An IPv4 client of an IPv6 socket: say IPv4, since interfaces have it so. */
static void unmap_ipv4(struct sockaddr_storage *addr)
{
    struct sockaddr_in6 in6 = *(struct sockaddr_in6 *)addr;
    struct sockaddr_in *in = (struct sockaddr_in *)addr;

    if ((addr->ss_family == AF_INET6) && IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
        memset(addr, 0, sizeof(*addr));
        in->sin_family = AF_INET;
        in->sin_port = in6.sin6_port;
        memcpy(&in->sin_addr, &in6.sin6_addr.s6_addr[12], 4);
    }
}

/* Which network interface a connection goes through: the one with its local address. */
static void place_of_socket(int fd, udmon_rpc_place_t *place)
{
    socklen_t length = sizeof(place->local);
    struct ifaddrs *list, *each;

    memset(place, 0, sizeof(*place));
    place->gid_index = -1;
    getsockname(fd, (struct sockaddr *)&place->local, &length);
    length = sizeof(place->remote);
    getpeername(fd, (struct sockaddr *)&place->remote, &length);
    unmap_ipv4(&place->local);
    unmap_ipv4(&place->remote);
    if (getifaddrs(&list) < 0) {
        return;
    }
    for (each = list; each != NULL; each = each->ifa_next) {
        if ((each->ifa_addr != NULL) &&
            same_host(each->ifa_addr, (struct sockaddr *)&place->local)) {
            snprintf(place->device, sizeof(place->device), "%s", each->ifa_name);
            break;
        }
    }
    freeifaddrs(list);
}

/* Server */

typedef struct tcp_served {
    LIST_ENTRY(tcp_served) list;
    struct udmon_rpc_listener *listener;
    udmon_source_t source;
    udmon_timer_t timeout;
    int answering;
    tcp_message_t message;
} tcp_served_t;

struct udmon_rpc_listener {
    udmon_loop_t *loop;
    udmon_source_t source;
    udmon_rpc_serve_t serve;
    void *arg;
    LIST_HEAD(, tcp_served) served;
    unsigned count;
};

static void served_close(tcp_served_t *served)
{
    udmon_loop_delete(served->listener->loop, &served->source);
    udmon_timer_cancel(&served->timeout);
    close(served->source.fd);
    LIST_REMOVE(served, list);
    --served->listener->count;
    free(served);
}

static void served_timeout(udmon_timer_t *timer)
{
    served_close(timer->arg);
}

static int served_answer(tcp_served_t *served)
{
    udmon_rpc_listener_t *listener = served->listener;
    uint8_t request[UDMON_RPC_MAX];
    udmon_rpc_place_t place;
    size_t length = message_length(&served->message);

    memcpy(request, served->message.bytes + 2, length);
    place_of_socket(served->source.fd, &place);
    length = listener->serve(listener->arg, &place, request, length, served->message.bytes + 2,
                             UDMON_RPC_MAX);
    message_set(&served->message, length);
    served->answering = 1;
    return (length > 0) ? udmon_loop_modify(listener->loop, &served->source, EPOLLOUT) : -EPROTO;
}

static void served_ready(udmon_source_t *source, uint32_t events)
{
    tcp_served_t *served = source->arg;
    int ret;

    (void)events;
    if (!served->answering) {
        ret = message_receive(source->fd, &served->message);
        if ((ret < 0) || ((ret == 1) && (served_answer(served) < 0))) {
            served_close(served);
        }
        return;
    }
    if (message_send(source->fd, &served->message) != 0) {
        served_close(served);
    }
}

static void listener_accept(udmon_rpc_listener_t *listener, int fd)
{
    tcp_served_t *served = calloc(1, sizeof(*served));

    if (served == NULL) {
        close(fd);
        return;
    }
    served->listener = listener;
    served->source.fd = fd;
    served->source.ready = served_ready;
    served->source.arg = served;
    served->timeout.fire = served_timeout;
    served->timeout.arg = served;
    if (udmon_loop_add(listener->loop, &served->source, EPOLLIN) < 0) {
        close(fd);
        free(served);
        return;
    }
    udmon_timer_set(listener->loop, &served->timeout, TCP_SERVE_MS);
    LIST_INSERT_HEAD(&listener->served, served, list);
    ++listener->count;
}

static void listener_ready(udmon_source_t *source, uint32_t events)
{
    udmon_rpc_listener_t *listener = source->arg;
    tcp_served_t *served, *oldest = NULL;
    int fd;

    (void)events;
    fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if ((errno != EAGAIN) && (errno != ECONNABORTED) && (errno != EINTR)) {
            udmon_warn("cannot accept a connection: %s", strerror(errno));
        }
        return;
    }
    if (listener->count >= TCP_SERVED_MAX) {
        LIST_FOREACH(served, &listener->served, list) {
            oldest = served; /* new ones stand in front */
        }
        served_close(oldest);
    }
    listener_accept(listener, fd);
}

static int listener_socket(const struct sockaddr *addr, int *fd_p)
{
    char text[80];
    int fd, ret, one = 1, zero = 0;

    fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        ret = -errno;
        udmon_error("no socket: %s", strerror(errno));
        return ret;
    }
    /* A restarted server gets its port back at once; "any" of IPv6 includes IPv4. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (addr->sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    }
    if ((bind(fd, addr, udmon_sockaddr_length(addr)) < 0) || (listen(fd, 128) < 0)) {
        ret = -errno;
        udmon_error("cannot listen on TCP %s: %s", udmon_sockaddr_text(addr, text, sizeof(text)),
                    strerror(errno));
        close(fd);
        return ret;
    }
    *fd_p = fd;
    return 0;
}

static int tcp_listen(udmon_loop_t *loop, const struct sockaddr *addr, udmon_rpc_serve_t serve,
                      void *arg, udmon_rpc_listener_t **listener_p)
{
    udmon_rpc_listener_t *listener;
    int ret;

    listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return -ENOMEM;
    }
    LIST_INIT(&listener->served);
    listener->loop = loop;
    listener->serve = serve;
    listener->arg = arg;
    listener->source.ready = listener_ready;
    listener->source.arg = listener;
    ret = listener_socket(addr, &listener->source.fd);
    if (ret < 0) {
        goto err_free;
    }
    ret = udmon_loop_add(loop, &listener->source, EPOLLIN);
    if (ret < 0) {
        goto err_close;
    }
    *listener_p = listener;
    return 0;

err_close:
    close(listener->source.fd);
err_free:
    free(listener);
    return ret;
}

static int tcp_port(const udmon_rpc_listener_t *listener)
{
    struct sockaddr_storage addr;
    socklen_t length = sizeof(addr);

    if (getsockname(listener->source.fd, (struct sockaddr *)&addr, &length) < 0) {
        return -errno;
    }
    return udmon_sockaddr_port((struct sockaddr *)&addr);
}

static void tcp_close(udmon_rpc_listener_t *listener)
{
    while (!LIST_EMPTY(&listener->served)) {
        served_close(LIST_FIRST(&listener->served));
    }
    udmon_loop_delete(listener->loop, &listener->source);
    close(listener->source.fd);
    free(listener);
}

/* Client */

struct udmon_rpc_call {
    udmon_loop_t *loop;
    udmon_source_t source;
    udmon_timer_t timeout;
    udmon_rpc_done_t done;
    void *arg;
    int sent;
    tcp_message_t message;
};

static void tcp_cancel(udmon_rpc_call_t *call)
{
    udmon_timer_cancel(&call->timeout);
    udmon_loop_delete(call->loop, &call->source);
    close(call->source.fd);
    free(call);
}

static void call_finish(udmon_rpc_call_t *call, long length)
{
    udmon_rpc_done_t done = call->done;
    void *arg = call->arg;
    uint8_t response[UDMON_RPC_MAX];
    udmon_rpc_place_t place;

    place_of_socket(call->source.fd, &place);
    if (length > 0) {
        memcpy(response, call->message.bytes + 2, length);
    }
    tcp_cancel(call);
    done(arg, &place, response, length);
}

static void call_timeout(udmon_timer_t *timer)
{
    call_finish(timer->arg, -ETIMEDOUT);
}

static void call_ready(udmon_source_t *source, uint32_t events)
{
    udmon_rpc_call_t *call = source->arg;
    socklen_t length = sizeof(int);
    int ret, error = 0;

    (void)events;
    if (!call->sent) {
        getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        ret = error ? -error : message_send(source->fd, &call->message);
        if (ret < 0) {
            call_finish(call, ret);
        } else if (ret == 1) {
            call->sent = 1;
            call->message.done = 0;
            udmon_loop_modify(call->loop, source, EPOLLIN);
        }
        return;
    }
    ret = message_receive(source->fd, &call->message);
    if (ret != 0) {
        call_finish(call, (ret == 1) ? (long)message_length(&call->message) : ret);
    }
}

static int tcp_call(udmon_loop_t *loop, const struct sockaddr *source, const struct sockaddr *addr,
                    const void *request, size_t length, unsigned timeout_ms, udmon_rpc_done_t done,
                    void *arg, udmon_rpc_call_t **call_p)
{
    udmon_rpc_call_t *call;
    int ret;

    if (length > UDMON_RPC_MAX) {
        return -EMSGSIZE;
    }
    call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return -ENOMEM;
    }
    call->loop = loop;
    call->done = done;
    call->arg = arg;
    call->timeout.fire = call_timeout;
    call->timeout.arg = call;
    call->source.ready = call_ready;
    call->source.arg = call;
    memcpy(call->message.bytes + 2, request, length);
    message_set(&call->message, length);
    call->source.fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (call->source.fd < 0) {
        ret = -errno;
        goto err_free;
    }
    if ((source != NULL) && (bind(call->source.fd, source, udmon_sockaddr_length(source)) < 0)) {
        ret = -errno;
        goto err_close;
    }
    if ((connect(call->source.fd, addr, udmon_sockaddr_length(addr)) < 0) &&
        (errno != EINPROGRESS)) {
        ret = -errno;
        goto err_close;
    }
    ret = udmon_loop_add(loop, &call->source, EPOLLOUT);
    if (ret < 0) {
        goto err_close;
    }
    udmon_timer_set(loop, &call->timeout, timeout_ms);
    *call_p = call;
    return 0;

err_close:
    close(call->source.fd);
err_free:
    free(call);
    return ret;
}

const udmon_rpc_ops_t udmon_rpc_tcp = {
    .listen = tcp_listen,
    .port = tcp_port,
    .close = tcp_close,
    .call = tcp_call,
    .cancel = tcp_cancel,
};
