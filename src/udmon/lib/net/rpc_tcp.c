/* Listens on a TCP port, and answers the requests of authenticated peers. */
#include "rpc.h"
#include "address.h"
#include "../base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A new connection has SERVE_MS to authenticate and to send its request. If more than SERVED_MAX
 * connections exist, the oldest is closed after its first SERVE_LEAST_MS. Until then, accepting
 * pauses for PAUSE_MS. Accepting also pauses if the process is out of descriptors. Without the
 * pause, thousands of agents that connect at once after a restart would displace each other.
 */
enum {
    SERVED_MAX = 512,
    SERVE_MS = 5000,
    SERVE_LEAST_MS = 1000,
    PAUSE_MS = 100,
    ACCEPTS = 64,
    LISTEN_BACKLOG = 4096
};

struct tcp_served {
    TAILQ_ENTRY(tcp_served) list;
    struct udmon_rpc_listener *listener;
    struct udmon_link *link;
    struct udmon_timer timeout;
};

struct udmon_rpc_listener {
    struct udmon_loop *loop;
    struct udmon_tls *tls;
    struct udmon_source source;
    struct udmon_timer pause;
    udmon_rpc_serve_fn serve;
    void *arg;
    TAILQ_HEAD(, tcp_served) served; /* oldest first */
    unsigned count;
};

/* The link is closed or has another owner. */
static void served_forget(struct tcp_served *served)
{
    udmon_timer_cancel(&served->timeout);
    TAILQ_REMOVE(&served->listener->served, served, list);
    --served->listener->count;
    free(served);
}

static void served_close(struct tcp_served *served)
{
    udmon_link_close(served->link);
    served_forget(served);
}

static void served_timeout(struct udmon_timer *timer)
{
    served_close(timer->arg);
}

static void served_failed(void *arg, int error)
{
    static struct udmon_log_limit limit;
    struct tcp_served *served = arg;
    char text[80];

    if (error == -EACCES) {
        udmon_warn_limited(
            &limit, "a client at %s refused: %s",
            udmon_sockaddr_text((struct sockaddr *)&served->link->remote, text, sizeof(text)),
            served->link->problem);
    }
    served_close(served);
}

static void served_received(void *arg, const void *data, size_t length)
{
    uint8_t response[UDMON_RPC_MAX];
    struct tcp_served *served = arg;
    struct udmon_link *link = served->link;
    struct udmon_rpc_place place = {
        .local = link->local,
        .remote = link->remote,
        .gid_index = -1,
        .link = link,
    };
    size_t answered;

    if (length > UDMON_RPC_MAX) {
        served_close(served);
        return;
    }
    answered = served->listener->serve(served->listener->arg, &place, data, length, response,
                                       sizeof(response));
    if ((answered == 0) || (udmon_link_send_bytes(link, response, answered) < 0)) {
        /* The new owner of the link notices the silence. */
        if (link->arg == served) {
            served_close(served);
            return;
        }
    }
    if (link->arg != served) {
        served_forget(served);
    }
}

static const struct udmon_link_ops served_ops = {.received = served_received,
                                                 .failed = served_failed};

/* Returns whether the client closed while it waited in the backlog. A handshake would then be
 * useless. */
static bool socket_is_left(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLRDHUP};

    return poll(&wait, 1, 0) > 0;
}

static void listener_serve(struct udmon_rpc_listener *listener, int fd)
{
    struct tcp_served *served = socket_is_left(fd) ? NULL : calloc(1, sizeof(*served));

    if (served == NULL) {
        close(fd);
        return;
    }
    if (udmon_link_accept(listener->tls, listener->loop, fd, &served_ops, served, &served->link) <
        0) {
        free(served);
        return;
    }
    served->listener = listener;
    served->timeout.fire = served_timeout;
    served->timeout.arg = served;
    udmon_timer_set(listener->loop, &served->timeout, SERVE_MS);
    TAILQ_INSERT_TAIL(&listener->served, served, list);
    ++listener->count;
}

static void listener_resume(struct udmon_timer *timer)
{
    struct udmon_rpc_listener *listener = timer->arg;

    udmon_loop_modify(listener->loop, &listener->source, EPOLLIN);
}

static void listener_pause(struct udmon_rpc_listener *listener)
{
    udmon_loop_modify(listener->loop, &listener->source, 0);
    udmon_timer_set(listener->loop, &listener->pause, PAUSE_MS);
}

/* Whether another connection may be accepted, if necessary after closing an old connection. */
static bool listener_make_room(struct udmon_rpc_listener *listener)
{
    struct tcp_served *oldest = TAILQ_FIRST(&listener->served);
    const uint64_t least_ns = (SERVE_MS - SERVE_LEAST_MS) * UINT64_C(1000000);

    if (listener->count < SERVED_MAX) {
        return true;
    }
    if (oldest->timeout.due_ns > (udmon_now_ns() + least_ns)) {
        return false;
    }
    served_close(oldest);
    return true;
}

/* Whether to go on accepting. */
static int listener_failed(struct udmon_rpc_listener *listener)
{
    static struct udmon_log_limit limit;

    if ((errno == EMFILE) || (errno == ENFILE) || (errno == ENOBUFS) || (errno == ENOMEM)) {
        udmon_warn_limited(&limit,
                           "cannot accept a connection: %s (LimitNOFILE of the service, "
                           "ulimit -n?)",
                           strerror(errno));
        if (!TAILQ_EMPTY(&listener->served)) {
            served_close(TAILQ_FIRST(&listener->served)); /* another connection may have its
                                                           * place */
        }
        listener_pause(listener);
        return 0;
    }
    return (errno == ECONNABORTED) || (errno == EINTR);
}

static void listener_ready(struct udmon_source *source, uint32_t events)
{
    struct udmon_rpc_listener *listener = source->arg;
    int i, fd;

    (void)events;
    for (i = 0; i < ACCEPTS; ++i) {
        if (!listener_make_room(listener)) {
            listener_pause(listener);
            return;
        }
        fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if ((fd < 0) && !listener_failed(listener)) {
            return;
        }
        if (fd < 0) {
            continue;
        }
        listener_serve(listener, fd);
    }
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
    if ((bind(fd, addr, udmon_sockaddr_length(addr)) < 0) || (listen(fd, LISTEN_BACKLOG) < 0)) {
        ret = -errno;
        udmon_error("cannot listen on TCP %s: %s", udmon_sockaddr_text(addr, text, sizeof(text)),
                    strerror(errno));
        close(fd);
        return ret;
    }
    *fd_p = fd;
    return 0;
}

static int tcp_listen(struct udmon_loop *loop, struct udmon_tls *tls, const struct sockaddr *addr,
                      udmon_rpc_serve_fn serve, void *arg, struct udmon_rpc_listener **listener_p)
{
    struct udmon_rpc_listener *listener;
    int ret;

    listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return -ENOMEM;
    }
    TAILQ_INIT(&listener->served);
    listener->loop = loop;
    listener->tls = tls;
    listener->serve = serve;
    listener->arg = arg;
    listener->pause.fire = listener_resume;
    listener->source.ready = listener_ready;
    listener->pause.arg = listener->source.arg = listener;
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

static int tcp_port(const struct udmon_rpc_listener *listener)
{
    struct sockaddr_storage addr;
    socklen_t length = sizeof(addr);

    if (getsockname(listener->source.fd, (struct sockaddr *)&addr, &length) < 0) {
        return -errno;
    }
    return udmon_sockaddr_port((struct sockaddr *)&addr);
}

static void tcp_close(struct udmon_rpc_listener *listener)
{
    while (!TAILQ_EMPTY(&listener->served)) {
        served_close(TAILQ_FIRST(&listener->served));
    }
    udmon_timer_cancel(&listener->pause);
    udmon_loop_delete(listener->loop, &listener->source);
    close(listener->source.fd);
    free(listener);
}

const struct udmon_rpc_ops udmon_rpc_tcp = {
    .listen = tcp_listen,
    .port = tcp_port,
    .close = tcp_close,
};
