/* A collector: its options and its parts. */
#ifndef UDMON_COLLECTOR_COLLECTOR_H
#define UDMON_COLLECTOR_COLLECTOR_H

#include "http.h"
#include "relay.h"
#include "remote.h"
#include "store.h"
#include "writer.h"
#include "../lib/net/loop.h"
#include "../include/udmon.h"

typedef struct collector {
    /* Set by the caller: */
    udmon_options_t options; /* of the server, and of the client of an upper collector */
    const char *listen, *database;
    http_options_t http_options;     /* except the database */
    const char *remote_url, *upper;  /* or NULL */
    remote_options_t remote_options; /* except the directory */
    uint64_t keep_seconds;
    int64_t max_bytes; /* of the history */
    /* Its own: */
    udmon_loop_t loop;
    udmon_signals_t signals;
    udmon_source_t server_source;
    udmon_timer_t commit;
    udmon_server_t *server;
    store_t store; /* the lock is held while the server is processed */
    void *agents;  /* tree of agent_t by id: how far their counts had come */
    writer_t writer;
    char remote_directory[4096];
    remote_t remote; /* if there is a remote_url */
    relay_t relay;   /* if there is an upper collector */
    http_t http;
} collector_t;

/* On failure, a line in the log has the reason. */
int collector_open(collector_t *collector);
void collector_close(collector_t *collector);

#endif
