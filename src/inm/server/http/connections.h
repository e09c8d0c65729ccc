/*
 * The open connections of a listener. A slow client must not keep others out. A connection whose
 * request is not complete in time is closed. If too many connections are open, the connection
 * with the longest wait is closed.
 */
#ifndef INM_CONNECTIONS_H
#define INM_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum connection_state {
    CONNECTION_WAITS,  /* for a request, or for the rest of it */
    CONNECTION_WORKS,  /* the server computes the answer, or streams */
    CONNECTION_ANSWERS /* the client reads the answer */
};

struct connections;
struct connection;

/** @return NULL: no memory. `max` connections are kept open. */
struct connections *connections_new(uint32_t max);
void connections_free(struct connections *list);

/** Adds a connection; closes another one if there are more than `max`. @return NULL: no memory. */
struct connection *connections_add(struct connections *list, int fd);
void connections_remove(struct connections *list, struct connection *connection);
void connections_set(struct connections *list, struct connection *connection,
                     enum connection_state state);

/** Waits at most `seconds`, until no connection works or answers. Clients of a server that stops
 * receive the last answers. */
void connections_finish(struct connections *list, double seconds);

/** Closes connections whose time is over. To be called every second or more often. */
void connections_expire(struct connections *list);

#endif
