/*
 * HTTP of the collector, in a thread of its own: /metrics for Prometheus, / for people, /api/...
 * for the page and for programs (api.h, overview.h). Answers are compressed for those who take
 * gzip.
 */
#ifndef UDMON_COLLECTOR_HTTP_H
#define UDMON_COLLECTOR_HTTP_H

#include "overview.h"
#include "relay.h"
#include "remote.h"
#include "store.h"
#include "writer.h"

#include <pthread.h>
#include <sqlite3.h>
#include <sys/queue.h>

struct MHD_Daemon;
struct MHD_Response;

enum { HTTP_CACHED = 8 };

/* An answer that all who ask within a second share: its cost does not grow with their number. */
typedef struct http_cached {
    char what[24]; /* URL, format and encoding; "" if unused */
    uint64_t made_ns;
    struct MHD_Response *response;
} http_cached_t;

typedef struct http {
    struct MHD_Daemon *daemon;
    store_t *store;
    const writer_t *writer;
    const remote_t *remote; /* or NULL */
    const relay_t *relay;   /* or NULL */
    sqlite3 *db; /* for reading the history */
    overview_t overview;
    http_cached_t cached[HTTP_CACHED];
    unsigned sending; /* large answers on their way */
    pthread_mutex_t lock; /* of the connections */
    LIST_HEAD(, http_connection) connections;
} http_t;

/* `address` is HOST:PORT, `database` the history's file. Says what is wrong. */
int http_open(http_t *http, const char *address, const char *database, store_t *store,
              const writer_t *writer, const remote_t *remote, const relay_t *relay);
void http_close(http_t *http);

/* To be called now and then: closes connections that take too long for a request or an answer. */
void http_expire(http_t *http);

extern const unsigned char http_page[]; /* made by the build of page.html */
extern const size_t http_page_length;

#endif
