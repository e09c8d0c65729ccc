/*
 * HTTP of the collector: /metrics for Prometheus, / for people, /api/... for the page and for
 * programs (api.h, overview.h). Answers are compressed if the client accepts gzip.
 *
 * One thread serves all connections and makes /metrics. The thread suspends a request for /api/...
 * while a thread of the pool makes the answer. So queries of the history and hashes of passwords do
 * not delay /metrics. If too many connections wait, send slowly, or do not read, the oldest are
 * closed.
 */
#ifndef UDMON_COLLECTOR_HTTP_H
#define UDMON_COLLECTOR_HTTP_H

#include "alert/alerts.h"
#include "overview.h"
#include "pool.h"
#include "query.h"
#include "relay.h"
#include "remote.h"
#include "store.h"
#include "users.h"
#include "writer.h"

#include <pthread.h>
#include <sys/queue.h>

struct MHD_Daemon;
struct MHD_Response;

enum { HTTP_CACHED = 4 };

/* An answer for all clients of one second: the cost does not grow with their number. */
struct http_cached {
    char what[24]; /* URL, format and encoding; "" if unused */
    uint64_t made_ns;
    struct MHD_Response *response;
};

struct http_options {
    const char *address;              /* HOST:PORT */
    const char *database;             /* the history's file */
    const char *users_file;           /* or NULL: every client may read */
    const char *cert_file, *key_file; /* or NULL: no TLS */
    struct query *query;              /* of older values, or NULL */
    int open;                         /* every client of other hosts may read */
};

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    int listen_fd;
    char *cert, *key; /* texts of the files */
    struct pool pool;
    struct users users; /* if there is a users_file */
    struct store *store;
    const struct writer *writer;
    const struct remote *remote;   /* or NULL */
    const struct relay *relay;     /* or NULL */
    struct alerts *alerts;         /* or NULL */
    pthread_mutex_t overview_lock; /* of `overview` */
    struct overview overview;
    pthread_mutex_t nodes_lock;              /* of `nodes`, for short steps */
    struct http_cached nodes[HTTP_CACHED];   /* /api/nodes, by the pool */
    struct http_cached metrics[HTTP_CACHED]; /* /metrics, by the HTTP thread */
    struct MHD_Response *no_memory;          /* for requests that have no memory for an answer */
    pthread_mutex_t lock;                    /* of the connections */
    unsigned requesting, reading; /* connections without a whole request; that read an answer */
    LIST_HEAD(, http_connection) connections;
};

/** On failure, a line in the log has the reason. */
int http_open(struct http *http, const struct http_options *options, struct store *store,
              const struct writer *writer, const struct remote *remote, const struct relay *relay,
              struct alerts *alerts);
/** Reads users, certificate and key again. Unusable files change nothing. */
void http_reload(struct http *http);
void http_close(struct http *http);

/** To be called now and then: closes connections that take too long for a request or an answer. */
void http_expire(struct http *http);

extern const unsigned char http_page[]; /* made by the build of page.html */
extern const size_t http_page_length;

#endif
