/*
 * HTTP of the collector: /metrics for Prometheus, / for people, /api/... for the page.
 *   /api/nodes                               all hosts with their counts and series
 *   /api/series?node=N&name=S[&seconds=T]    [[ms, value], ...] of the last T seconds (600)
 */
#ifndef UDMON_COLLECTOR_HTTP_H
#define UDMON_COLLECTOR_HTTP_H

#include "../loop.h"
#include "history.h"
#include "store.h"

struct MHD_Daemon;

typedef struct http {
    struct MHD_Daemon *daemon;
    udmon_loop_t *loop;
    udmon_source_t source;
    udmon_timer_t timer; /* for connections that time out */
    store_t *store;
    history_t *history;
} http_t;

/* `address` is HOST:PORT. Says what is wrong. */
int http_open(http_t *http, udmon_loop_t *loop, const char *address, store_t *store,
              history_t *history);
void http_close(http_t *http);

extern const char http_page[];

#endif
