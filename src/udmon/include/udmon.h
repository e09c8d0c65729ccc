/**
 * libudmon: monitoring records from many clients to a server, over the best available network.
 *
 * A server receives from many clients at once. A client sends records and never waits. Records are
 * not retransmitted. The server counts lost records, and tells its program.
 *
 * Address: [SCHEME://]HOST:PORT. HOST is a name, an IPv4 address, or an IPv6 address in brackets.
 *   ud://     InfiniBand or RoCE unreliable datagrams, connected by RDMA CM
 *   glex://   the Tianhe interconnect, or its software NIC
 *   tcp://    TCP
 *   (none)    server: all networks of this host; client: the first of these that reaches the server
 * Except with ud://, client and server meet on TCP port PORT. A server may leave HOST empty or give
 * "*".
 *
 * One thread at a time may use an object (server or client). Objects are independent of each other.
 * Only udmon_server_open blocks: it may wait for the name service. libudmon does nothing in the
 * background: a program polls the descriptor of an object, and calls the object's process function
 * when the descriptor is readable.
 *
 * Functions that return int return 0 or a count on success, and a negative errno value otherwise.
 */
#ifndef UDMON_H
#define UDMON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct udmon_server udmon_server_t;
typedef struct udmon_client udmon_client_t;

enum {
    UDMON_NAME_MAX = 63,           /**< bytes of a client's name */
    UDMON_RECORD_MAX = 1024 * 1024 /**< upper limit of option max_record */
};

/** 0 in a numeric option selects the default. */
typedef struct udmon_options {
    const char *secret_file; /**< shared secret, or NULL for none; the file must be private (0600).
                              *   A client may have the secret of its name instead
                              *   (udmon-collector --node-secret) */
    const char *ca_file;     /**< PEM, as the next two; NULL: TLS uses the secret. With
                              * certificates, the peer needs a certificate of this CA, and a
                              * server's certificate must name the host of its address */
    const char *cert_file;   /**< our own certificate, with its chain, */
    const char *key_file;    /**< and its key; the file must be private (0600) */
    const char *name;        /**< of a client, for the server; default: the name in the secret,
                              *   or the host's name */
    const char *source;      /**< of a client: IP address to connect from; default: by routing */
    uint64_t client_id;      /**< identity across connections; 0: random */
    size_t datagram_size;    /**< bytes; the network's limit may be lower; default: 2048 of records
                              *   that share one, the network's limit for longer records */
    unsigned flush_ms;       /**< longest time a record waits for others to share its datagram;
                              *   default 100 */
    size_t queue_bytes;      /**< records waiting to be sent; default 1 MiB; the oldest are dropped
                              *   */
    size_t max_record;       /**< bytes; default 65536 */
    unsigned keepalive_ms;   /**< default 1000; a peer is presumed dead after five silent
                              * keepalive times */
    unsigned connect_ms;     /**< timeout of one attempt; default 6000: RDMA CM repeats a lost
                              *   request after 4 s */
    unsigned retry_ms;       /**< between rounds of attempts; default 1000 */
    unsigned return_ms;      /**< of a client of several servers: a preferred one that has
                              *   answered for so long gets the records again; default 30000 */
    unsigned max_clients;    /**< of a server; default 4096 */
    /**
     * For a client that continues an earlier client with the same client_id: the
     * udmon_client_numbers of the earlier client. The server then counts records that the earlier
     * client accepted and did not send as lost. UDMON_SERVERS_MAX numbers, or NULL: all 0.
     */
    const uint64_t *numbers;
    int relay;         /**< of a client: its records come from other nodes (udmon_peer_t) */
    int refuse_relays; /**< of a server: so that records cannot go round in a circle */
    /**
     * Of a server: the names of the relays that may connect, separated by commas; the server keeps
     * the pointer. NULL: all relays. With certificates, the certificate of a relay must name the
     * relay, and a relay cannot connect over ud.
     */
    const char *relays;
    int check_names; /**< of a server: each client must prove its name, by a certificate that names
                      * the client, or by the secret of its name */
    const char *old_secret_file; /**< of a server: a second secret, accepted too. The file may be
                                  *   missing. Changed secrets are read for the next connection */
} udmon_options_t;

enum { UDMON_SERVERS_MAX = 8 /**< that a client is given */ };

/** All defaults. */
void udmon_options_init(udmon_options_t *options);

/** No keepalive has reported the peer's time of day yet. */
#define UDMON_CLOCK_UNKNOWN INT64_MIN

/** Counters of both directions, of a client, or of a server for one client. */
typedef struct udmon_stats {
    uint64_t accepted;   /**< records given to us to send */
    uint64_t sent;       /**< records that left in datagrams */
    uint64_t dropped;    /**< records dropped here, oldest first, because the queue was full */
    uint64_t received;   /**< records delivered to the program */
    uint64_t lost;       /**< records of the peer that are missing (dropped there or on the way)
                          *   */
    uint64_t duplicated; /**< records that came twice, delivered once */
    uint64_t late;       /**< records delivered after they had been counted lost */
    uint64_t incomplete; /**< cut records given up because a piece is missing */
    uint64_t datagrams_sent;
    uint64_t datagrams_received;
    uint64_t malformed;     /**< datagrams of the peer that made no sense */
    uint64_t queued;        /**< records waiting now */
    uint64_t connections;   /**< how often a connection was made */
    uint64_t peer_next;     /**< number of the peer's next record: all before are received or lost
                             *   */
    uint64_t peer_received; /**< our records that the peer has, as of its last answer */
    uint64_t peer_lost;
    uint64_t rtt_ns;      /**< of the last keepalive */
    int64_t peer_clock_s; /**< how far the peer's time of day was ahead of ours at its last
                           *   keepalive, or UDMON_CLOCK_UNKNOWN */
} udmon_stats_t;

/** One received record. `data` is valid until the callback returns. */
typedef struct udmon_message {
    const void *data;
    size_t length;
    uint64_t seq; /**< number of the record in the sender's count */
    int late;     /**< had been reported in a gap */
} udmon_message_t;

/** A client as its server sees it. Strings are valid until the client has left. */
typedef struct udmon_peer {
    uint64_t id; /**< the client's identity, the same after it reconnects */
    const char *name;
    const char *transport; /**< "ud", "glex" or "tcp" */
    const char *address;   /**< where it came from */
    int relay;             /**< the peer is a relay: its records come from other nodes
                            * (udmon_options_t) */
} udmon_peer_t;

/** Why a client has left. */
typedef enum udmon_left {
    UDMON_LEFT_BYE,      /**< it said so */
    UDMON_LEFT_SILENT,   /**< nothing was heard for five keepalive times */
    UDMON_LEFT_REPLACED, /**< a client of the same identity connected */
    UDMON_LEFT_CLOSING   /**< the server is being closed */
} udmon_left_t;

/** Answer of `resume` for a client never heard of. */
#define UDMON_SEQ_UNKNOWN UINT64_MAX

/**
 * Functions that udmon_server_process calls. All except `message` may be NULL. They may use the
 * server, but must not close it.
 */
typedef struct udmon_server_callbacks {
    /** A record. */
    void (*message)(void *arg, const udmon_peer_t *peer, const udmon_message_t *message);
    /** A client has connected. */
    void (*joined)(void *arg, const udmon_peer_t *peer);
    /** A client has left; `stats` are its final counters. */
    void (*left)(void *arg, const udmon_peer_t *peer, udmon_left_t reason,
                 const udmon_stats_t *stats);
    /** Records first .. first + count - 1 of a client are missing; some may still come late. */
    void (*gap)(void *arg, const udmon_peer_t *peer, uint64_t first, uint64_t count);
    /**
     * Returns the number of the next record expected from a client, from before a restart of the
     * server, or UDMON_SEQ_UNKNOWN. Records that the client has sent in between are then reported
     * as a gap.
     */
    uint64_t (*resume)(void *arg, uint64_t client_id);
} udmon_server_callbacks_t;

/**
 * Open a server.
 * @param options NULL for the defaults.
 * @param callbacks copied.
 * @return -EINVAL: bad address or option.
 *         -ENOENT: the host is unknown.
 *         -EADDRINUSE.
 *         -ENODEV: this host lacks the scheme's network.
 *         -EACCES: a file of a secret or of certificates cannot be used. The log has the reason: a
 *         secret file is missing, empty, readable by others, or has the secret of a node. Also
 *         without a secret and certificates, for an address that is not of loopback; and for ud
 *         without a secret.
 */
int udmon_server_open(const char *address, const udmon_options_t *options,
                      const udmon_server_callbacks_t *callbacks, void *arg,
                      udmon_server_t **server_p);

/** Descriptor to poll for reading; belongs to the server. */
int udmon_server_fd(const udmon_server_t *server);

/** TCP port of the server, for one opened with port 0. */
int udmon_server_port(const udmon_server_t *server);

/** Handle waiting events; returns the number of delivered messages. */
int udmon_server_process(udmon_server_t *server);

/** Send a record to a client. -ENOTCONN: no such client; -EMSGSIZE. */
int udmon_server_reply(udmon_server_t *server, uint64_t client_id, const void *data, size_t length);

/** Counters for one connected client, or -ENOENT. */
int udmon_server_stats(const udmon_server_t *server, uint64_t client_id, udmon_stats_t *stats);

/** Call `each` for every connected client. It must not use the server. */
void udmon_server_clients(const udmon_server_t *server,
                          void (*each)(void *arg, const udmon_peer_t *peer), void *arg);

/** Say goodbye to all clients and free the server. */
void udmon_server_close(udmon_server_t *server);

typedef enum udmon_client_state {
    UDMON_DISCONNECTED, /**< will try again */
    UDMON_CONNECTING,
    UDMON_CONNECTED
} udmon_client_state_t;

/** Functions that udmon_client_process calls. All may be NULL. */
typedef struct udmon_client_callbacks {
    /** A reply of the server. */
    void (*message)(void *arg, const udmon_message_t *message);
    /** The client has connected or disconnected; `reason` is text for a log. */
    void (*state)(void *arg, udmon_client_state_t state, const char *reason);
} udmon_client_callbacks_t;

/**
 * Open a client. The client connects when processed, and reconnects after each loss of the
 * connection.
 * @param address of a server, or up to eight addresses separated by commas or blanks, the preferred
 *        first. If a server is away, records go to the next server. Records return to a preferred
 *        server after it has answered for return_ms. The client sends each record to one server.
 * @return as udmon_server_open. An absent server or an unknown name is no error, because it may
 *        appear later. The name is looked up before each round of attempts.
 */
int udmon_client_open(const char *address, const udmon_options_t *options,
                      const udmon_client_callbacks_t *callbacks, void *arg,
                      udmon_client_t **client_p);

/** Descriptor to poll for reading; belongs to the client. */
int udmon_client_fd(const udmon_client_t *client);

/** Handle waiting events; returns the number of delivered messages. */
int udmon_client_process(udmon_client_t *client);

/**
 * Send a record. The record is copied, and sent when its datagram is full or after flush_ms.
 * Without a connection the record waits in the queue. A full queue drops its oldest record and
 * counts it. After connecting, waiting records are sent no faster than the server answers.
 * @return -EMSGSIZE: longer than max_record.
 */
int udmon_client_send(udmon_client_t *client, const void *data, size_t length);

/** Send waiting records now, before flush_ms has passed. */
void udmon_client_flush(udmon_client_t *client);

udmon_client_state_t udmon_client_state(const udmon_client_t *client);

/**
 * Which of its servers the client is connected to, counted from 0; *address_p as it was given,
 * valid until the client is closed. -ENOTCONN.
 */
int udmon_client_server(const udmon_client_t *client, const char **address_p);

/**
 * For each server of the client, in order: the number of the record after the last record for this
 * server.
 */
void udmon_client_numbers(const udmon_client_t *client, uint64_t numbers[UDMON_SERVERS_MAX]);

/** "ud", "glex" or "tcp" while connected, else "". */
const char *udmon_client_transport(const udmon_client_t *client);

void udmon_client_stats(const udmon_client_t *client, udmon_stats_t *stats);

/** Send waiting records as far as possible without waiting, say goodbye, and free the client. */
void udmon_client_close(udmon_client_t *client);

typedef enum udmon_log_level {
    UDMON_LOG_ERROR,
    UDMON_LOG_WARN,
    UDMON_LOG_INFO,
    UDMON_LOG_DEBUG
} udmon_log_level_t;

/**
 * Where the library's messages go, for the whole process; NULL: errors and warnings to stderr, or
 * as many as the variable UDMON_LOG_LEVEL says (error, warn, info, debug).
 * A line has no newline at its end.
 */
void udmon_set_log(void (*log)(void *arg, udmon_log_level_t level, const char *line), void *arg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
