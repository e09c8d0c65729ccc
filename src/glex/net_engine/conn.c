/*
 * The table of an engine's connections: making, finding and ending an entry. Other files connect, and
 * send frames.
 */
#include "net_engine/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

void engine_log(const struct glex_net_engine *engine, bool error, const char *fmt, ...)
{
    char line[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    engine->params.calls->log(error, line);
}

uint64_t engine_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

uint64_t engine_deny(struct glex_net_engine *engine)
{
    uint64_t before = *engine->params.denied;

    /* relaxed: this thread is the only writer, and readers need the number alone */
    __atomic_store_n(engine->params.denied, before + 1, __ATOMIC_RELAXED);
    return before;
}

/* ---- connections ----------------------------------------------------------------------------- */

void engine_conn_go(struct engine_conn *conn)
{
    if (conn->settled) {
        conn->settled = false;
        LIST_REMOVE(conn, entry);
        LIST_INSERT_HEAD(&conn->engine->going, conn, entry);
    }
}

void engine_conn_down(struct engine_conn *conn)
{
    engine_conn_go(conn);
    conn->base.up = false;
    conn->base.down = true;
    if (conn->back != NULL) {
        conn->back->base.up = false;
        conn->back->base.down = true;
    }
}

void engine_conn_end(struct engine_conn *conn, enum glex_net_end why)
{
    if (conn->carrier != NULL) {
        conn = conn->carrier; /* a connection and its carrier end together */
    }
    if (conn->state == CONN_CLOSED) {
        return;
    }
    if (conn->back != NULL) {
        conn->back->state = CONN_CLOSED;
    }
    if (conn->state == CONN_WAIT_PROOF) {
        conn->engine->unproven--;
    }
    engine_conn_down(conn);
    conn->why = why;
    conn->state = CONN_CLOSED;
}

/* Gives a connection an id: a place in engine->table, by which frames name their receiver. */
static bool engine_give_id(struct glex_net_engine *engine, struct engine_conn *conn)
{
    struct engine_conn **table;
    uint32_t random, i, size;

    for (i = engine->free_slot; i < engine->table_size && engine->table[i] != NULL; i++) {
    }
    if (i == engine->table_size) {
        size = engine->table_size == 0 ? 64 : 2 * engine->table_size;
        table = realloc(engine->table, size * sizeof(*table));
        if (table == NULL) {
            return false;
        }
        memset(table + engine->table_size, 0, (size - engine->table_size) * sizeof(*table));
        engine->table = table;
        engine->table_size = size;
    }
    if (getentropy(&random, sizeof(random)) != 0) {
        return false;
    }
    conn->id = (uint64_t)random << 32 | i;
    engine->table[i] = conn;
    engine->free_slot = i + 1;
    return true;
}

struct engine_conn *engine_conn_find(const struct glex_net_engine *engine, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    struct engine_conn *conn = slot < engine->table_size ? engine->table[slot] : NULL;

    return conn != NULL && conn->id == id ? conn : NULL;
}

struct engine_conn *engine_conn_new(struct glex_net_engine *engine, int fd)
{
    struct engine_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL || !engine_give_id(engine, conn)) {
        engine_log(engine, true, "no memory for a connection");
        free(conn);
        return NULL;
    }
    conn->engine = engine;
    conn->ours = fd < 0;
    conn->fd = fd;
    LIST_INSERT_HEAD(&engine->going, conn, entry);
    return conn;
}

struct engine_conn *engine_back_new(struct engine_conn *carrier)
{
    struct engine_conn *back = calloc(1, sizeof(*back));

    if (back == NULL) {
        engine_log(carrier->engine, true, "no memory for a connection");
        return NULL;
    }
    back->base.addr = carrier->base.addr;
    back->base.epoch = carrier->base.epoch;
    back->engine = carrier->engine;
    back->carrier = carrier;
    back->fd = -1;
    back->peer_id = carrier->peer_id | ENGINE_TO_BACK;
    back->ep = carrier->ep;
    carrier->back = back;
    return back;
}

void engine_conn_hang_up(struct engine_conn *conn)
{
    if (conn->fd >= 0) {
        (void)epoll_ctl(conn->engine->control_fd, EPOLL_CTL_DEL, conn->fd, NULL);
        close(conn->fd);
        conn->fd = -1;
    }
}
