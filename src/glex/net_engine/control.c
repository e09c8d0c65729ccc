/*
 * The control connection: plain TCP from the initiator to the port of the endpoint. The address alone
 * is enough to open it. First both sides prove knowledge of the job's key. Then the listening side
 * sends the address of its libfabric. The kernel's keep-alive of this connection detects that a host
 * is gone, also while the processes of that host compute and make no call.
 */
#include "net_engine/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Limit for connections without proof. Above the limit, the oldest such connection is dropped,
 * after CONTROL_PROOF_NS at the earliest. */
#define CONTROL_MAX_UNPROVEN 256u
#define CONTROL_PROOF_NS     1000000000ull
/* How often a connection that the peer dropped before it was up is made again. */
#define CONTROL_MAX_DROPPED 16u
/* How long frames in flight may still arrive after the control connection was closed. */
#define CONTROL_CLOSING_NS 1000000000ull
/* Pause of accept() if no descriptor is free; if CONTROL_MAX_UNPROVEN is reached. */
#define CONTROL_DEAF_NS 100000000ull
#define CONTROL_FULL_NS 1000000ull
#define CONTROL_EVENTS  32
#define CONTROL_BACKLOG 1024

/* ---- sending --------------------------------------------------------------------------------- */

/* Sends a short message, which always fits into the empty buffer of a socket. False: the connection
 * is closed. */
static bool control_send(struct engine_conn *conn, const void *data, size_t len)
{
    return send(conn->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

static void control_send_hello(struct engine_conn *conn)
{
    struct control_hello hello = {.magic = CONTROL_MAGIC, .version = CONTROL_VERSION};

    memcpy(hello.nonce, conn->nonce_listen, CONTROL_NONCE);
    if (!control_send(conn, &hello, sizeof(hello))) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
}

static bool control_send_proof(struct engine_conn *conn)
{
    struct control_proof proof = {.from = conn->engine->params.addr,
                                  .to = conn->base.addr,
                                  .id = conn->id,
                                  .epoch = conn->base.epoch};

    memcpy(proof.nonce, conn->nonce_connect, CONTROL_NONCE);
    return engine_mac(conn, 'C', &proof, offsetof(struct control_proof, mac), proof.mac) &&
           control_send(conn, &proof, sizeof(proof));
}

static void control_send_welcome(struct engine_conn *conn)
{
    struct control_welcome welcome = {
        .id = conn->id, .epoch = conn->base.epoch, .len = (uint32_t)conn->engine->address_len};

    memcpy(welcome.fabric, conn->engine->address, conn->engine->address_len);
    if (!engine_mac(conn, 'W', &welcome, offsetof(struct control_welcome, mac), welcome.mac) ||
        !control_send(conn, &welcome, sizeof(welcome))) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void control_denied(struct engine_conn *conn, const char *what)
{
    struct glex_net_engine *engine = conn->engine;

    if (engine_deny(engine) == 0) {
        engine_log(engine, false,
                   "%s: the connection is refused, as all such from now on; all "
                   "processes of a job need the same GLEX_NET_KEY and version of openglex",
                   what);
    }
    engine_conn_end(conn, GLEX_NET_END_DENIED);
}

/*
 * The peer dropped the connection before it was up: connects again. A listening peer limits the
 * number of connections without proof, and their time. A process that computes proves late. No
 * frame was sent yet, so no frame can arrive twice.
 */
static void control_dropped(struct engine_conn *conn)
{
    if (conn->dropped++ == CONTROL_MAX_DROPPED) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
        return;
    }
    if (conn->ep != NULL) {
        (void)fi_close(&conn->ep->fid);
        conn->ep = NULL;
    }
    engine_conn_hang_up(conn);
    conn->in_len = 0;
    if (!engine_control_connect(conn, conn->ip, conn->port)) {
        engine_conn_end(conn, GLEX_NET_END_UNREACHABLE);
    }
}

/* Whether the peer has closed by now. */
static bool control_is_closed(const struct engine_conn *conn)
{
    char byte;

    return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Returns whether both sides agree on the epoch. If not, the connection has ended. The link may
 * also have ended the connection. */
static bool control_meet(struct engine_conn *conn, uint64_t theirs)
{
    const struct glex_net_params *params = &conn->engine->params;

    conn->base.epoch = params->calls->meet(params->arg, conn->base.addr, conn->ours ? 0 : conn->ip,
                                           theirs, conn->base.epoch);
    if (conn->base.epoch == 0) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
    return conn->state != CONN_CLOSED;
}

static void control_on_hello(struct engine_conn *conn)
{
    struct control_hello hello;

    memcpy(&hello, conn->in, sizeof(hello));
    if (hello.magic != CONTROL_MAGIC || hello.version != CONTROL_VERSION) {
        control_denied(conn, "what answers at a peer's port is no GLEX endpoint of this version");
        return;
    }
    memcpy(conn->nonce_listen, hello.nonce, CONTROL_NONCE);
    conn->state = CONN_WAIT_WELCOME;
    if (control_is_closed(conn) || !control_send_proof(conn)) {
        control_dropped(conn);
    }
}

static void control_on_proof(struct engine_conn *conn)
{
    struct control_proof proof;

    memcpy(&proof, conn->in, sizeof(proof));
    memcpy(conn->nonce_connect, proof.nonce, CONTROL_NONCE);
    if (!engine_is_proof(conn, 'C', &proof, offsetof(struct control_proof, mac), proof.mac) ||
        proof.to != conn->engine->params.addr) {
        control_denied(conn, "somebody connected without proof of the job's key");
        return;
    }
    conn->base.addr = proof.from;
    conn->peer_id = proof.id;
    conn->engine->unproven--;
    conn->deadline = 0; /* no limit: the peer may be computing */
    conn->state = CONN_WAIT_FABRIC;
    if (control_meet(conn, proof.epoch)) {
        control_send_welcome(conn);
    }
}

static void control_on_welcome(struct engine_conn *conn)
{
    struct control_welcome welcome;

    memcpy(&welcome, conn->in, sizeof(welcome));
    if (!engine_is_proof(conn, 'W', &welcome, offsetof(struct control_welcome, mac), welcome.mac) ||
        welcome.len != conn->engine->address_len) {
        control_denied(conn, "a peer answers without proof of the job's key");
        return;
    }
    conn->peer_id = welcome.id;
    if (!control_meet(conn, welcome.epoch)) {
        return;
    }
    conn->state = CONN_WAIT_FABRIC;
    if (!engine_fabric_connect(conn, welcome.fabric, welcome.len)) {
        engine_conn_end(conn, GLEX_NET_END_UNREACHABLE);
    }
}

/* The next message in each state: its length and its function. In other states no message comes. */
static const struct {
    size_t len;
    void (*take)(struct engine_conn *conn);
} control_messages[] = {
    [CONN_WAIT_HELLO] = {sizeof(struct control_hello), control_on_hello},
    [CONN_WAIT_PROOF] = {sizeof(struct control_proof), control_on_proof},
    [CONN_WAIT_WELCOME] = {sizeof(struct control_welcome), control_on_welcome},
    [CONN_CLOSED] = {0, NULL},
};

_Static_assert(sizeof(struct control_hello) <= sizeof(((struct engine_conn *)0)->in) &&
                   sizeof(struct control_proof) <= sizeof(((struct engine_conn *)0)->in) &&
                   sizeof(struct control_welcome) <= sizeof(((struct engine_conn *)0)->in),
               "all that comes fits conn->in");

/* The peer has closed the connection. Frames that the peer sent before still arrive by
 * libfabric. */
static void control_begin_closing(struct engine_conn *conn)
{
    engine_conn_down(conn);
    conn->state = CONN_CLOSING;
    conn->deadline = engine_now_ns() + CONTROL_CLOSING_NS;
    epoll_ctl(conn->engine->control_fd, EPOLL_CTL_DEL, conn->fd, NULL);
}

/*
 * Whether the peer's process had our proof when it closed the connection. If the process closed the
 * connection before the proof arrived, its kernel has not acknowledged the proof, and resets the
 * connection.
 */
static bool control_had_proof(const struct engine_conn *conn)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    return getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           info.tcpi_state == TCP_CLOSE_WAIT && info.tcpi_unacked == 0;
}

/* The connection is closed, or broken, before it was CLOSING. */
static void control_on_end(struct engine_conn *conn, int err)
{
    bool closed = err == 0 || err == ECONNRESET || err == EPIPE;

    if (conn->state == CONN_CONNECTING) {
        engine_conn_end(conn,
                        err == ECONNREFUSED ? GLEX_NET_END_REFUSED : GLEX_NET_END_UNREACHABLE);
    } else if (!closed) {
        engine_conn_end(conn, GLEX_NET_END_SILENT);
    } else if (conn->state == CONN_WAIT_WELCOME && err == 0 && control_had_proof(conn)) {
        control_denied(conn, "a peer did not accept our proof of the job's key, or our address");
    } else if (conn->ours && conn->state != CONN_UP) {
        control_dropped(conn);
    } else if (conn->ep != NULL) {
        control_begin_closing(conn);
    } else {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
}

static void control_read(struct engine_conn *conn)
{
    size_t wanted;
    ssize_t got;

    while (conn->state < CONN_CLOSING) {
        wanted = control_messages[conn->state].len;
        /* After the handshake no byte follows. A byte means the end, as a close does. */
        got = recv(conn->fd, conn->in + conn->in_len, wanted != 0 ? wanted - conn->in_len : 1,
                   MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (got <= 0 || wanted == 0) {
            control_on_end(conn, got < 0 ? errno : 0);
            return;
        }
        conn->in_len += (size_t)got;
        if (conn->in_len == wanted) {
            conn->in_len = 0;
            control_messages[conn->state].take(conn);
            if (conn->state == CONN_CONNECTING) {
                return; /* control_dropped() has replaced the socket */
            }
        }
    }
}

void engine_control_look(struct glex_net_conn *base)
{
    struct engine_conn *conn = (struct engine_conn *)base;

    control_read(conn->carrier != NULL ? conn->carrier : conn);
}

/* Closes our direction. The peer notices at once, and closes its direction. */
void engine_control_finish(struct glex_net_conn *base)
{
    struct engine_conn *conn = (struct engine_conn *)base;

    conn = conn->carrier != NULL ? conn->carrier : conn;
    if (conn->state == CONN_UP) {
        (void)shutdown(conn->fd, SHUT_WR);
        control_begin_closing(conn);
    } else if (conn->state < CONN_UP) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void control_set_options(const struct engine_conn *conn)
{
    unsigned ms = conn->engine->params.timeout_ms;
    int one = 1, idle = (int)(ms / 3000 > 0 ? ms / 3000 : 1), count = 4;
    int interval = (int)(ms / 6000 > 0 ? ms / 6000 : 1);

    /* A failure has no effect on the connection: each option is only an improvement. */
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

static uint64_t control_timeout_ns(const struct glex_net_engine *engine)
{
    return engine->params.timeout_ms * 1000000ull;
}

static bool control_watch(struct engine_conn *conn, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};

    return epoll_ctl(conn->engine->control_fd, EPOLL_CTL_ADD, conn->fd, &event) == 0;
}

bool engine_control_connect(struct engine_conn *conn, uint32_t ip, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)}, from = to;
    int one = 1;

    to.sin_addr.s_addr = htonl(ip);
    from.sin_addr.s_addr = htonl(conn->engine->params.ip);
    from.sin_port = 0;
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (conn->fd < 0 || getentropy(conn->nonce_connect, CONTROL_NONCE) != 0) {
        engine_log(conn->engine, true, "cannot make a socket to connect with: %s%s",
                   strerror(errno),
                   errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
        return false;
    }
    control_set_options(conn);
    (void)setsockopt(conn->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    if (bind(conn->fd, (struct sockaddr *)&from, sizeof(from)) != 0) {
        engine_log(conn->engine, true, "cannot connect from the address of this endpoint: %s%s",
                   strerror(errno),
                   errno == EADDRNOTAVAIL ?
                       "; the host has another address since the device was opened" :
                       "");
        return false;
    }
    conn->ip = ip;
    conn->port = port;
    conn->state = CONN_CONNECTING;
    conn->deadline = engine_now_ns() + control_timeout_ns(conn->engine);
    if (connect(conn->fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS) {
        control_on_end(conn, errno);
        return true; /* the next progress() reports the end to the link */
    }
    return control_watch(conn, EPOLLIN | EPOLLOUT);
}

/* The TCP connection is established, or has failed. */
static void control_connected(struct engine_conn *conn)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    socklen_t len = sizeof(int);
    int err = 0;

    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err != 0) {
        control_on_end(conn, err);
        return;
    }
    /* No deadline from now on, because the peer may be computing. The keep-alive finds a dead
     * host. */
    conn->deadline = 0;
    conn->state = CONN_WAIT_HELLO;
    epoll_ctl(conn->engine->control_fd, EPOLL_CTL_MOD, conn->fd, &event);
}

/* ---- listening ------------------------------------------------------------------------------- */

static struct engine_conn *control_oldest(const struct glex_net_engine *engine)
{
    struct engine_conn *conn, *oldest = NULL;

    LIST_FOREACH(conn, &engine->going, entry) {
        if (conn->state == CONN_WAIT_PROOF) {
            oldest = conn; /* new connections are at the front */
        }
    }
    return oldest;
}

/*
 * Whether another connection without proof can be accepted. If very many peers connect at once, the
 * dropped peers connect again, and displace peers that have not had the time for their proof. So
 * further connections wait in the socket's backlog.
 */
static bool control_has_room(const struct glex_net_engine *engine)
{
    const struct engine_conn *oldest;

    if (engine->unproven < CONTROL_MAX_UNPROVEN) {
        return true;
    }
    oldest = control_oldest(engine);
    return oldest == NULL ||
           engine_now_ns() >= oldest->deadline - control_timeout_ns(engine) + CONTROL_PROOF_NS;
}

static void control_drop_oldest(struct glex_net_engine *engine)
{
    struct engine_conn *oldest = control_oldest(engine);

    if (oldest != NULL) {
        (void)engine_deny(engine);
        engine_conn_end(oldest, GLEX_NET_END_DENIED);
    }
}

static void control_accepted(struct glex_net_engine *engine, int fd, uint32_t ip)
{
    struct engine_conn *conn = engine_conn_new(engine, fd);

    if (conn == NULL) {
        close(fd);
        return;
    }
    conn->ip = ip;
    conn->state = CONN_WAIT_PROOF;
    conn->deadline = engine_now_ns() + control_timeout_ns(engine);
    if (++engine->unproven > CONTROL_MAX_UNPROVEN) {
        control_drop_oldest(engine);
    }
    control_set_options(conn);
    if (getentropy(conn->nonce_listen, CONTROL_NONCE) != 0 || !control_watch(conn, EPOLLIN)) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
        return;
    }
    control_send_hello(conn);
}

/* Adds the listening socket to the epoll, or removes it. */
static void control_hear(struct glex_net_engine *engine, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    epoll_ctl(engine->control_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, engine->params.listen_fd,
              &event);
}

static void control_deafen(struct glex_net_engine *engine, uint64_t ns)
{
    engine->deaf_until = engine_now_ns() + ns;
    control_hear(engine, false);
}

static void control_accept(struct glex_net_engine *engine)
{
    struct sockaddr_in from = {0};
    socklen_t len;
    int i, fd;

    for (i = 0; i < CONTROL_EVENTS; i++) { /* a limit, so other connections make progress too */
        if (!control_has_room(engine)) {
            control_deafen(engine, CONTROL_FULL_NS);
            return;
        }
        len = sizeof(from);
        fd = accept4(engine->params.listen_fd, (struct sockaddr *)&from, &len,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            control_accepted(engine, fd, ntohl(from.sin_addr.s_addr));
        } else if (errno != ECONNABORTED && errno != EINTR) {
            break;
        }
    }
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        engine_log(engine, true, "cannot accept connections now: %s%s", strerror(errno),
                   errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
        control_deafen(engine, CONTROL_DEAF_NS);
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

static void control_deadlines(struct glex_net_engine *engine)
{
    struct engine_conn *conn;
    uint64_t now;

    if (LIST_EMPTY(&engine->going) && engine->deaf_until == 0) {
        return;
    }
    now = engine_now_ns();
    if (engine->deaf_until != 0 && now >= engine->deaf_until) {
        engine->deaf_until = 0;
        control_hear(engine, true);
    }
    LIST_FOREACH(conn, &engine->going, entry) {
        if (conn->state == CONN_DROPPED) {
            control_dropped(conn);
        }
        if (conn->deadline != 0 && now >= conn->deadline && conn->state != CONN_CLOSED) {
            engine_conn_end(conn, conn->state == CONN_CLOSING    ? GLEX_NET_END_CLOSED :
                                  conn->state == CONN_WAIT_PROOF ? GLEX_NET_END_DENIED :
                                                                   GLEX_NET_END_UNREACHABLE);
        }
    }
}

void engine_control_progress(struct glex_net_engine *engine)
{
    struct epoll_event events[CONTROL_EVENTS];
    int i, num = epoll_wait(engine->control_fd, events, CONTROL_EVENTS, 0);

    for (i = 0; i < num; i++) {
        struct engine_conn *conn = events[i].data.ptr;

        if (conn == NULL) {
            control_accept(engine);
        } else if (conn->state == CONN_CONNECTING) {
            control_connected(conn);
        } else {
            control_read(conn);
        }
    }
    if (num < CONTROL_EVENTS) { /* with more events pending, the awaited message may be among them,
                                 * so no deadline applies yet */
        control_deadlines(engine);
    }
}

bool engine_control_open(struct glex_net_engine *engine)
{
    engine->control_fd = epoll_create1(EPOLL_CLOEXEC);
    if (engine->control_fd < 0) {
        engine_log(engine, true, "cannot make a descriptor: %s", strerror(errno));
        return false;
    }
    control_hear(engine, true);
    return true;
}

/* Starts or stops listening. A stopped socket stays bound, so the kernel refuses connections. No
 * other socket can be bound to the port, because SO_REUSEADDR is off. */
bool engine_control_listen(struct glex_net_engine *engine, bool on)
{
    int fd = engine->params.listen_fd, reuse = on;
    struct engine_conn *conn;

    control_hear(engine, false);
    engine->deaf_until = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) != 0 ||
        (on ? listen(fd, CONTROL_BACKLOG) : shutdown(fd, SHUT_RD)) != 0) {
        engine_log(engine, true, "an endpoint cannot %s: %s",
                   on ? "listen to other hosts" : "refuse other hosts", strerror(errno));
        return false;
    }
    if (on) {
        control_hear(engine, true);
        return true;
    }
    LIST_FOREACH(conn, &engine->going, entry) {
        if (!conn->ours && conn->state < CONN_UP) {
            engine_conn_end(conn, GLEX_NET_END_CLOSED); /* the peer connects again, and the kernel
                                                         * refuses */
        }
    }
    return true;
}

void engine_control_close(struct glex_net_engine *engine)
{
    if (engine->control_fd >= 0) {
        close(engine->control_fd);
    }
    close(engine->params.listen_fd);
}
