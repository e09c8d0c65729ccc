/*
 * The inside of the client. client.c has the functions for programs and the traffic of the
 * connection; client_meet.c makes the connection.
 */
#ifndef UDMON_CLIENT_H
#define UDMON_CLIENT_H

#include "net/address.h"
#include "chan/chan.h"
#include "net/lookup.h"
#include "meet.h"
#include "net/net.h"
#include "options.h"
#include "net/rpc.h"

enum { CLIENT_SLOW_MAX = 3 };

/* A server that the program named; the preferred server is the first. */
typedef struct udmon_client_server {
    udmon_endpoint_t endpoint;
    uint64_t next; /* number of its next record, while the records are numbered for another */
    int known;     /* the client was connected to this server before, so the server knows the
                    * number */
} udmon_client_server_t;

/* A way to a server: one of its schemes and addresses. */
typedef struct udmon_way {
    unsigned server;
    udmon_scheme_t scheme;
    struct addrinfo *host; /* one of endpoint.hosts */
} udmon_way_t;

struct udmon_client {
    udmon_loop_t loop;
    udmon_tls_t tls;
    udmon_net_t net;
    udmon_settings_t settings;
    udmon_secret_t secret;
    udmon_client_server_t servers[UDMON_SERVERS_MAX];
    unsigned server_count;
    unsigned numbered; /* the server that the records are numbered for */
    udmon_client_callbacks_t callbacks;
    void *arg;
    udmon_client_state_t state;
    udmon_way_t way;  /* being tried, or that was tried last */
    udmon_way_t used; /* of the connection; its host may have been freed */
    /*
     * While connected to another server than the first, the client probes a preferred server from
     * time to time (`probing` during a probe), by a meeting that ends with CHALLENGE. After a
     * preferred server has answered for return_ms, the client stops sending, and a ping asks the
     * present server whether everything has arrived.
     */
    int probing;
    uint64_t back_since_ns; /* when server `back` began to answer; 0: it does not */
    unsigned back;
    uint64_t leaving_ns;    /* when sending ended; 0: it goes on */
    int left;               /* the present server has all */
    udmon_lookup_t *lookup; /* lookup of the server's name in progress, or NULL */
    /* Meeting: by calls over RDMA CM, or over a link */
    udmon_cm_call_t *call;          /* call in progress, or NULL */
    udmon_link_t *link;             /* NULL, too, when it has become the path */
    udmon_rpc_done_t answered;      /* called with the next message of the link */
    uint8_t request[UDMON_RPC_MAX]; /* to be sent when the link is open */
    size_t request_length;
    udmon_timer_t patience; /* for the answer */
    int unanswered_calls;   /* in this round of attempts */
    unsigned slow;          /* rounds in a row that had some, at most CLIENT_SLOW_MAX */
    uint8_t nonce[UDMON_NONCE_SIZE];
    udmon_auth_t auth; /* as sent, to check the answer with */
    udmon_path_t *path;
    udmon_chan_t chan;
    uint64_t heard_ns;
    uint64_t asked_ns;    /* when `keepalive` was fired last */
    uint64_t backlog_end; /* records before it have waited for this connection */
    unsigned unanswered;  /* datagrams of theirs since the server's last answer */
    int ping_due;         /* there was no room for one */
    int flush_now;
    int stuck; /* sending is process's, which knows when there is room again */
    int bye;
    int delivered;
    char reason[512];
    udmon_timer_t flush, keepalive, retry, kick;
};

/* client_meet.c */

/* Calls the program's `state`. */
void udmon_client_set_state(udmon_client_t *client, udmon_client_state_t state, const char *reason);
/* Timer: tries all networks to all servers, or, while connected, to the preferred servers. */
void udmon_client_retry(udmon_timer_t *timer);
/*
 * The connection, or the attempt, has failed. `what` is the reason. Continues with the next
 * attempt.
 */
void udmon_client_lost(udmon_client_t *client, const char *what);
void udmon_client_drop_path(udmon_client_t *client);
/* A ping has been answered: the way that was tried is good. */
void udmon_client_connected(udmon_client_t *client);
/* Says goodbye to the present server, and starts again with the first server. */
void udmon_client_return(udmon_client_t *client);
/* Cancels the meeting in progress. */
void udmon_client_stop_meeting(udmon_client_t *client);
/*
 * How long an attempt may take: connect_ms, doubled after each round without an answer. Otherwise a
 * server would spend its time on clients that have given up when thousands of clients return at
 * once.
 */
unsigned udmon_client_patience_ms(const udmon_client_t *client);
/* Timer: no answer. */
void udmon_client_unanswered(udmon_timer_t *timer);

#endif
