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
struct udmon_client_server {
    struct udmon_endpoint endpoint;
    uint64_t next; /* number of its next record, while the records are numbered for another */
    int known;     /* the client was connected to this server before, so the server knows the
                    * number */
};

/* A way to a server: one of its schemes and addresses. */
struct udmon_way {
    unsigned server;
    enum udmon_scheme scheme;
    struct addrinfo *host; /* one of endpoint.hosts */
};

struct udmon_client {
    struct udmon_loop loop;
    struct udmon_tls tls;
    struct udmon_net net;
    struct udmon_settings settings;
    struct udmon_keys keys;
    struct udmon_client_server servers[UDMON_SERVERS_MAX];
    unsigned server_count;
    unsigned numbered; /* the server that the records are numbered for */
    struct udmon_client_callbacks callbacks;
    void *arg;
    enum udmon_client_state state;
    struct udmon_way way;  /* being tried, or that was tried last */
    struct udmon_way used; /* of the connection; its host may have been freed */
    /*
     * While connected to another server than the first, the client probes a preferred server from
     * time to time (`probing` during a probe), by a meeting that ends with CHALLENGE. After a
     * preferred server has answered for return_ms, the client stops sending, and a ping asks the
     * present server whether everything has arrived.
     */
    int probing;
    uint64_t back_since_ns; /* when server `back` began to answer; 0: it does not */
    unsigned back;
    uint64_t leaving_ns;         /* when sending ended; 0: it goes on */
    int left;                    /* the present server has all */
    struct udmon_lookup *lookup; /* lookup of the server's name in progress, or NULL */
    /* Meeting: by calls over RDMA CM, or over a link */
    struct udmon_cm_request *call;  /* call in progress, or NULL */
    struct udmon_link *link;        /* NULL, too, when it has become the path */
    udmon_rpc_done_fn answered;     /* called with the next message of the link */
    uint8_t request[UDMON_RPC_MAX]; /* request to send when the link is open */
    size_t request_length;
    struct udmon_timer patience; /* for the answer */
    int unanswered_calls;        /* in this round of attempts */
    unsigned slow;               /* rounds in a row that had some, at most CLIENT_SLOW_MAX */
    uint8_t nonce[UDMON_NONCE_SIZE];
    struct udmon_auth auth; /* the sent message, to check the answer */
    struct udmon_path *path;
    struct udmon_chan chan;
    uint64_t heard_ns;
    uint64_t asked_ns;    /* when `keepalive` was fired last */
    uint64_t backlog_end; /* records before it have waited for this connection */
    unsigned unanswered;  /* datagrams of theirs since the server's last answer */
    int ping_due;         /* a ping waits for room */
    int flush_now;
    int stuck; /* sending is process's, which knows when there is room again */
    int bye;
    int delivered;
    char reason[512];
    struct udmon_timer flush, keepalive, retry, kick;
};

/* client_meet.c */

/** Calls the program's `state`. */
void udmon_client_set_state(struct udmon_client *client, enum udmon_client_state state,
                            const char *reason);
/** Timer: tries all networks to all servers, or, while connected, to the preferred servers. */
void udmon_client_retry(struct udmon_timer *timer);
/**
 * The connection, or the attempt, has failed. `what` is the reason. Continues with the next
 * attempt.
 */
void udmon_client_lost(struct udmon_client *client, const char *what);
void udmon_client_drop_path(struct udmon_client *client);
/** A ping has been answered: the way that was tried is good. */
void udmon_client_connected(struct udmon_client *client);
/** Says goodbye to the present server, and starts again with the first server. */
void udmon_client_return(struct udmon_client *client);
/** Cancels the meeting in progress. */
void udmon_client_stop_meeting(struct udmon_client *client);
/**
 * How long an attempt may take: connect_ms, doubled after each round without an answer. Otherwise a
 * server would spend its time on clients that have given up when thousands of clients return at
 * once.
 */
unsigned udmon_client_patience_ms(const struct udmon_client *client);
/** Timer: no answer. */
void udmon_client_unanswered(struct udmon_timer *timer);

#endif
