/*
 * The engine: its connections, and what the link calls.
 */
#include "net_engine/engine.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

/* Turns between two checks whether connections that are up have ended. */
#define ENGINE_CONTROL_TURNS 16u

/* ---- connections ----------------------------------------------------------------------------- */

static void conn_settle(struct engine_conn *conn)
{
    conn->settled = true;
    LIST_REMOVE(conn, entry);
    LIST_INSERT_HEAD(&conn->engine->up, conn, entry);
}

/* Makes a connection for requests that go back over the peer's connection. NULL: not possible, so
 * the caller connects to the peer. */
static struct engine_conn *engine_back_connect(struct engine_conn *carrier)
{
    struct engine_conn *back;

    if (carrier == NULL || carrier->ours || carrier->carrier != NULL || carrier->back != NULL) {
        return NULL;
    }
    engine_control_look(&carrier->base);
    if (carrier->state != CONN_UP) {
        return NULL;
    }
    back = engine_back_new(carrier);
    if (back != NULL) {
        back->state = CONN_WAIT_FABRIC; /* engine_back_up() reports to the link that the connection
                                         * is up */
        engine_conn_go(carrier);
    }
    return back;
}

static void engine_back_up(struct engine_conn *back)
{
    back->state = CONN_UP;
    back->base.up = back->carrier->base.up; /* false if the peer is closing the carrier */
    back->engine->params.calls->up(back->base.user);
}

static void engine_forget_in_flight(struct engine_conn *conn)
{
    while (!LIST_EMPTY(&conn->in_flight)) {
        engine_fabric_tx_done(LIST_FIRST(&conn->in_flight));
    }
}

/* Takes a connection out of the lists and frees it; its descriptor and libfabric's endpoint are
 * closed. */
static void engine_conn_free(struct engine_conn *conn)
{
    struct glex_net_engine *engine = conn->engine;
    uint32_t slot = (uint32_t)conn->id;

    engine_conn_hang_up(conn);
    if (conn->ep != NULL) {
        (void)fi_shutdown(conn->ep, 0);
        (void)fi_close(&conn->ep->fid);
        /* libfabric has queued all completions that the close causes. No completion follows
         * later. */
        engine_fabric_drain(engine);
    }
    engine_forget_in_flight(conn);
    if (conn->back != NULL) {
        engine_forget_in_flight(conn->back);
        free(conn->back);
    }
    engine->table[slot] = NULL;
    if (slot < engine->free_slot) {
        engine->free_slot = slot;
    }
    LIST_REMOVE(conn, entry);
    free(conn);
}

static void engine_tell_end(const struct engine_conn *conn, enum glex_net_end why)
{
    if (conn->base.user != NULL) {
        conn->engine->params.calls->end(conn->base.user, why);
    }
}

/* Reports to the link that a connection is up, or has ended. */
static void engine_tell(struct engine_conn *conn)
{
    if (conn->back != NULL && conn->back->state == CONN_WAIT_FABRIC) {
        engine_back_up(conn->back);
    }
    if (conn->state == CONN_CLOSED) {
        engine_tell_end(conn, conn->why);
        if (conn->back != NULL) {
            engine_tell_end(conn->back, conn->why);
        }
    }
}

/* Reports and frees ended connections, and moves connections that are up to the list `up`. The
 * reports may end further connections. */
static void engine_reap(struct glex_net_engine *engine)
{
    struct engine_conn *conn, *next;

    for (conn = LIST_FIRST(&engine->going); conn != NULL; conn = next) {
        engine_tell(conn);
        next = LIST_NEXT(conn, entry);
        if (conn->state == CONN_CLOSED) {
            engine_conn_free(conn);
        } else if (conn->state == CONN_UP) {
            conn_settle(conn);
        }
    }
}

/* ---- the link's calls ------------------------------------------------------------------------ */

/* Each peer takes up to four descriptors. select() is not for programs with so many peers. */
static void engine_raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void engine_close(struct glex_net_engine *engine)
{
    struct engine_conn *conn;

    /* All connections end before the first one is freed. Frames that still arrive are dropped. */
    while ((conn = LIST_FIRST(&engine->up)) != NULL) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
    LIST_FOREACH(conn, &engine->going, entry) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
    while ((conn = LIST_FIRST(&engine->going)) != NULL) {
        engine_conn_free(conn);
    }
    engine_fabric_close(engine);
    engine_control_close(engine);
    if (engine->wait_fd >= 0) {
        close(engine->wait_fd);
    }
    OPENSSL_cleanse(engine->params.key, sizeof(engine->params.key));
    free(engine->table);
    free(engine);
}

static struct glex_net_engine *engine_open(const struct glex_net_params *params)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct glex_net_engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL) {
        params->calls->log(true, "no memory for a network");
        close(params->listen_fd);
        return NULL;
    }
    engine->params = *params;
    engine->control_fd = engine->wait_fd = -1;
    engine_raise_limit();
    engine->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!engine_control_open(engine) || engine->wait_fd < 0 ||
        epoll_ctl(engine->wait_fd, EPOLL_CTL_ADD, engine->control_fd, &event) != 0 ||
        !engine_fabric_open(engine)) {
        engine_close(engine);
        return NULL;
    }
    return engine;
}

/* Closes the child's copies of the descriptors. While they are open, a peer does not notice our
 * end. Objects of libfabric stay open, because their close would send messages to the peer. */
static void engine_forked(struct glex_net_engine *engine)
{
    uint32_t i;

    for (i = 0; i < engine->table_size; i++) {
        if (engine->table[i] != NULL && engine->table[i]->fd >= 0) {
            close(engine->table[i]->fd);
        }
    }
    close(engine->params.listen_fd);
    close(engine->control_fd);
    close(engine->wait_fd);
}

static struct glex_net_conn *engine_connect(struct glex_net_engine *engine, uint32_t ip,
                                            uint16_t port, uint64_t addr,
                                            struct glex_net_conn *over, void *user)
{
    struct engine_conn *conn = engine_back_connect((struct engine_conn *)over);

    if (conn != NULL) {
        conn->base.user = user;
        return &conn->base;
    }
    conn = engine_conn_new(engine, -1);
    if (conn == NULL) {
        return NULL;
    }
    conn->base.addr = addr;
    conn->base.user = user;
    if (!engine_control_connect(conn, ip, port)) {
        conn->state = CONN_CLOSED;
        engine_conn_free(conn);
        return NULL;
    }
    return &conn->base;
}

static void engine_disconnect(struct glex_net_conn *base)
{
    struct engine_conn *conn = (struct engine_conn *)base;

    conn->base.user = NULL;
    engine_conn_end(conn, GLEX_NET_END_CLOSED);
}

static unsigned engine_progress(struct glex_net_engine *engine)
{
    bool look = !LIST_EMPTY(&engine->going) || ++engine->turns % ENGINE_CONTROL_TURNS == 0;
    unsigned num = engine_fabric_progress(engine, look);

    if (look) {
        engine_control_progress(engine);
        if (!LIST_EMPTY(&engine->going)) {
            num += engine_fabric_progress(engine, true);
            engine_reap(engine);
        }
    }
    return num;
}

static int engine_fd(const struct glex_net_engine *engine)
{
    return engine->wait_fd;
}

static bool engine_arm(struct glex_net_engine *engine)
{
    struct engine_conn *conn;

    LIST_FOREACH(conn, &engine->going, entry) {
        if (conn->state == CONN_CLOSED ||
            (conn->back != NULL && conn->back->state == CONN_WAIT_FABRIC)) {
            return false;
        }
    }
    return engine_fabric_arm(engine);
}

__attribute__((visibility("default"))) extern const struct glex_net_module glex_net_module;

const struct glex_net_module glex_net_module = {
    .version = GLEX_NET_ENGINE_VERSION,
    .probe = engine_fabric_probe,
    .open = engine_open,
    .close = engine_close,
    .forked = engine_forked,
    .listen = engine_control_listen,
    .connect = engine_connect,
    .disconnect = engine_disconnect,
    .finish = engine_control_finish,
    .look = engine_control_look,
    .buffer = engine_fabric_buffer,
    .drop = engine_fabric_drop,
    .send = engine_fabric_send,
    .progress = engine_progress,
    .fd = engine_fd,
    .arm = engine_arm,
    .disarm = engine_fabric_disarm,
};
