/* A collector: its options and its parts. */
#ifndef UDMON_COLLECTOR_COLLECTOR_H
#define UDMON_COLLECTOR_COLLECTOR_H

#include "alert/alerts.h"
#include "alert/notify.h"
#include "http.h"
#include "query.h"
#include "relay.h"
#include "remote.h"
#include "store.h"
#include "writer.h"
#include "../lib/net/loop.h"
#include "../include/udmon.h"

struct collector {
    /* Set by the caller: */
    struct udmon_options options; /* of the server, and of the client of an upper collector */
    const char *listen, *database;
    struct http_options http_options;     /* except the database */
    const char *remote_url, *upper;       /* or NULL */
    const char *upper_secret;             /* a file; NULL: the secret of the options */
    struct remote_options remote_options; /* except the directory */
    struct query_options query_options;   /* of older values, if there is a URL */
    uint64_t keep_seconds;
    int64_t max_bytes;  /* of the history */
    int64_t max_series; /* in memory, of all nodes */
    struct quota_limits node_limits, relay_limits;
    const char *rules_file; /* of alerts, or NULL */
    struct notify_options notify_options;
    /* Its own: */
    struct udmon_loop loop;
    struct udmon_signals signals;
    struct udmon_source server_source;
    struct udmon_timer commit;
    struct udmon_server *server;
    struct store store; /* the lock is held while the server is processed */
    void *agents;       /* tree of struct agent by id: how far their counts had come */
    struct writer writer;
    char remote_directory[4096];
    struct remote remote; /* if there is a remote_url */
    struct query query;   /* if there is a URL */
    struct relay relay;   /* if there is an upper collector */
    struct alerts alerts; /* if there is a rules_file */
    struct notify notify;
    struct http http;
};

/** On failure, a line in the log has the reason. */
int collector_open(struct collector *collector);
void collector_close(struct collector *collector);

#endif
