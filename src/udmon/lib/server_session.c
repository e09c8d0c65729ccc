/* Server: the traffic of connected clients. A datagram counts only with the token of a session. */
#include "server.h"

#include <errno.h>

static int server_chan_send(void *arg, size_t size, udmon_pack_fn pack, void *pack_arg)
{
    return udmon_path_send(((struct udmon_session *)arg)->path, size, pack, pack_arg);
}

static void server_deliver(void *arg, const struct udmon_message *message)
{
    struct udmon_session *session = arg;
    struct udmon_server *server = session->server;

    ++server->delivered;
    server->callbacks.message(server->arg, &session->peer, message);
}

void udmon_server_gap(void *arg, uint64_t first, uint64_t count)
{
    struct udmon_session *session = arg;
    struct udmon_server *server = session->server;

    if (server->callbacks.gap != NULL) {
        server->callbacks.gap(server->arg, &session->peer, first, count);
    }
}

const struct udmon_chan_ops udmon_server_chan_ops = {
    .send = server_chan_send,
    .deliver = server_deliver,
    .gap = udmon_server_gap,
};

void udmon_server_leave(struct udmon_server *server, struct udmon_session *session,
                        enum udmon_left reason)
{
    if (!session->gone) {
        session->gone = 1;
        session->reason = reason;
        udmon_session_pend(&server->sessions, session);
    }
}

void udmon_server_broken(void *arg, struct udmon_path *path)
{
    udmon_server_leave(arg, path->owner, UDMON_LEFT_SILENT);
}

/*
 * Over TCP, megabytes of records may precede a client's ping. A slow server reads the ping too
 * late, and the client would presume the server dead. So the server sends an unrequested PONG. The
 * time is read from the clock, not from the loop, because the loop's time does not change within a
 * call of udmon_server_process(), which may be long.
 */
static void server_reassure(struct udmon_server *server, struct udmon_session *session)
{
    uint64_t limit_ns = 2 * (uint64_t)server->settings.values.keepalive_ms * 1000000;

    if (!session->pong_due && (udmon_now_ns() > (session->pong_ns + limit_ns))) {
        session->pong_due = 1;
        session->pong_time = 0;
        udmon_session_pend(&server->sessions, session);
    }
}

void udmon_server_received(void *arg, const void *data, size_t length)
{
    const struct udmon_dgram *dgram = data;
    struct udmon_server *server = arg;
    struct udmon_session *session;

    if (length < sizeof(*dgram)) {
        return;
    }
    session = udmon_sessions_by_token(&server->sessions, le64toh(dgram->token));
    if ((session == NULL) || session->gone) {
        return; /* of a connection that is no more, or of a stranger */
    }
    session->heard_ns = server->loop.now_ns;
    session->proven = 1;
    switch (udmon_chan_receive(&session->chan, data, length)) {
    case UDMON_PING:
        session->pong_due = 1;
        session->pong_time = le64toh(((const struct udmon_ping *)(dgram + 1))->time_ns);
        udmon_session_pend(&server->sessions, session);
        break;
    case UDMON_BYE:
        udmon_server_leave(server, session, UDMON_LEFT_BYE);
        break;
    case UDMON_DATA:
    case UDMON_PIECES:
        server_reassure(server, session);
        break;
    default:
        break;
    }
}

void udmon_server_tell_left(struct udmon_session *session, enum udmon_left reason)
{
    struct udmon_server *server = session->server;
    struct udmon_stats stats;

    if (server->callbacks.left != NULL) {
        udmon_chan_stats(&session->chan, &stats);
        server->callbacks.left(server->arg, &session->peer, reason, &stats);
    }
}

int udmon_server_pump(struct udmon_session *session)
{
    int ret = 0;

    if (session->pong_due) {
        ret = udmon_chan_ping(&session->chan, UDMON_PONG, session->pong_time);
        session->pong_due = (ret == -EAGAIN);
        session->pong_ns = udmon_now_ns();
    }
    return (ret == 0) ? udmon_chan_pump(&session->chan, 1) : ret;
}

void udmon_server_service(struct udmon_server *server)
{
    struct udmon_sessions *sessions = &server->sessions;
    struct udmon_session *session, *first_waiting = NULL;
    int ret;

    while (((session = TAILQ_FIRST(&sessions->pending)) != NULL) && (session != first_waiting)) {
        TAILQ_REMOVE(&sessions->pending, session, pending);
        session->is_pending = 0;
        ret = session->gone ? 0 : udmon_server_pump(session);
        if (ret == -EAGAIN) {
            udmon_session_pend(sessions, session);
            first_waiting = (first_waiting != NULL) ? first_waiting : session;
        } else if (ret < 0) {
            session->gone = 1;
            session->reason = UDMON_LEFT_SILENT;
        }
        if (session->gone) {
            udmon_server_tell_left(session, session->reason);
            first_waiting = (first_waiting == session) ? NULL : first_waiting;
            udmon_sessions_remove(sessions, session);
        }
    }
}

/*
 * How long a client may be silent. Before its first datagram: as long as the client tries to send
 * it.
 */
static uint64_t server_patience_ns(const struct udmon_server *server,
                                   const struct udmon_session *session)
{
    const struct udmon_options *options = &server->settings.values;
    uint64_t ms = (uint64_t)options->keepalive_ms * UDMON_DEAD_KEEPALIVES;

    if (!session->proven && (ms < options->connect_ms)) {
        ms = options->connect_ms;
    }
    return ms * 1000000;
}

void udmon_server_scan(struct udmon_timer *timer)
{
    struct udmon_server *server = timer->arg;
    uint64_t now = udmon_now_ns();
    uint64_t keepalive_ns = (uint64_t)server->settings.values.keepalive_ms * 1000000;
    /* If this process was stopped for a while, datagrams of the clients may be unread. */
    int overslept = ((now - server->scanned_ns) > (2 * keepalive_ns));
    struct udmon_session *session;

    server->scanned_ns = now;
    LIST_FOREACH(session, &server->sessions.all, all) {
        if (!overslept && ((now - session->heard_ns) > server_patience_ns(server, session))) {
            udmon_server_leave(server, session, UDMON_LEFT_SILENT);
        }
    }
    udmon_timer_set(&server->loop, timer, server->settings.values.keepalive_ms);
}
