/*
 * Open connections; see connections.h.
 *
 * A connection is closed by shutdown(): its thread in libmicrohttpd wakes up and ends. The file
 * descriptor stays valid until connections_remove(), because libmicrohttpd closes it afterwards.
 */
#include "connections.h"
#include "inm/server/core/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_SECONDS 10.0 /* from the connection, or the last answer, to a complete request */
#define ANSWER_SECONDS  60.0 /* for a client to read an answer */

struct connection {
    struct connection *previous, *next; /* in the order of `since` */
    int fd;
    enum connection_state state;
    bool closed;
    double since; /* begin of the state */
};

struct connections {
    pthread_mutex_t lock;
    struct connection head; /* of a ring; the oldest comes next */
    uint32_t num, max;      /* num: open connections */
};

struct connections *connections_new(uint32_t max)
{
    struct connections *list = calloc(1, sizeof(*list));

    if (list != NULL) {
        pthread_mutex_init(&list->lock, NULL);
        list->head.previous = list->head.next = &list->head;
        list->max = max;
    }
    return list;
}

void connections_free(struct connections *list)
{
    struct connection *c, *next;

    if (list == NULL) {
        return;
    }
    for (c = list->head.next; c != &list->head; c = next) {
        next = c->next;
        free(c);
    }
    pthread_mutex_destroy(&list->lock);
    free(list);
}

static void unlink_connection(struct connection *c)
{
    c->previous->next = c->next;
    c->next->previous = c->previous;
}

/* As the newest. */
static void link_connection(struct connections *list, struct connection *c)
{
    c->since = now_seconds();
    c->previous = list->head.previous;
    c->next = &list->head;
    c->previous->next = c->next->previous = c;
}

static void close_connection(struct connections *list, struct connection *c)
{
    shutdown(c->fd, SHUT_RDWR);
    c->closed = true;
    list->num--;
}

/* Connections without a complete request go first, then slow readers. */
static void close_oldest(struct connections *list)
{
    static const enum connection_state order[] = {CONNECTION_WAITS, CONNECTION_ANSWERS};
    struct connection *c;
    int i;

    for (i = 0; i < 2; i++) {
        for (c = list->head.next; c != &list->head; c = c->next) {
            if (c->state == order[i] && !c->closed) {
                close_connection(list, c);
                return;
            }
        }
    }
}

struct connection *connections_add(struct connections *list, int fd)
{
    struct connection *c = calloc(1, sizeof(*c));

    if (c != NULL) {
        c->fd = fd;
        pthread_mutex_lock(&list->lock);
        if (list->num >= list->max) {
            close_oldest(list);
        }
        link_connection(list, c);
        list->num++;
        pthread_mutex_unlock(&list->lock);
    }
    return c;
}

void connections_remove(struct connections *list, struct connection *c)
{
    pthread_mutex_lock(&list->lock);
    unlink_connection(c);
    list->num -= !c->closed;
    pthread_mutex_unlock(&list->lock);
    free(c);
}

void connections_set(struct connections *list, struct connection *c, enum connection_state state)
{
    pthread_mutex_lock(&list->lock);
    unlink_connection(c);
    c->state = state;
    link_connection(list, c);
    pthread_mutex_unlock(&list->lock);
}

static bool is_busy(struct connections *list)
{
    const struct connection *c;
    bool busy = false;

    pthread_mutex_lock(&list->lock);
    for (c = list->head.next; c != &list->head; c = c->next) {
        busy |= c->state != CONNECTION_WAITS && !c->closed;
    }
    pthread_mutex_unlock(&list->lock);
    return busy;
}

void connections_finish(struct connections *list, double seconds)
{
    double end = now_seconds() + seconds;

    while (list != NULL && is_busy(list) && now_seconds() < end) {
        usleep(10000);
    }
}

void connections_expire(struct connections *list)
{
    double now = now_seconds();
    struct connection *c;

    pthread_mutex_lock(&list->lock);
    for (c = list->head.next; c != &list->head; c = c->next) {
        double limit = c->state == CONNECTION_WAITS   ? REQUEST_SECONDS :
                       c->state == CONNECTION_ANSWERS ? ANSWER_SECONDS :
                                                        1e12;

        if (!c->closed && now - c->since > limit) {
            close_connection(list, c);
        }
    }
    pthread_mutex_unlock(&list->lock);
}
