/*
 * The declarations that the files of the engine share. From the top: engine.c (the module), control.c
 * (control connections), fabric.c (frames over libfabric), proof.c (the key), conn.c (the table).
 */
#ifndef GLEX_NET_ENGINE_ENGINE_H
#define GLEX_NET_ENGINE_ENGINE_H

#include "net/engine.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <sys/queue.h>

#define ENGINE_RX_BUFFERS  32u
#define ENGINE_TX_SLAB     16u
#define ENGINE_TX_SLABS    64u
#define ENGINE_ADDRESS_MAX 64u /* of libfabric's own */

#define CONTROL_NONCE 16u
#define CONTROL_MAC   32u

struct engine_conn;

/* ---- wire: the control connection, all numbers little endian --------------------------------- */

#define CONTROL_MAGIC   0x6e78656c67ull /* "glexn" */
#define CONTROL_VERSION 6u

/* Flag in glex_net_frame.to: the frame is for the connection that goes back over the connection
 * with this id. See docs/hosts.md. */
#define ENGINE_TO_BACK (1ull << 31)

/* From the listening side, at once. */
struct control_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t reserved;
    uint8_t nonce[CONTROL_NONCE];
};

/* From the connecting side. The mac covers all fields before it, and the nonce of the hello. */
struct control_proof {
    uint64_t from, to; /* addresses of the endpoints */
    uint64_t id;       /* id of the connection, in frames to the connecting side */
    uint64_t epoch;    /* number of the epoch at the connecting side */
    uint8_t nonce[CONTROL_NONCE];
    uint8_t mac[CONTROL_MAC];
};

/* From the listening side. The mac covers all fields before it, and both nonces. */
struct control_welcome {
    uint64_t id;    /* id of the connection, in frames to the listening side */
    uint64_t epoch; /* number of the epoch at the listening side */
    uint32_t len;   /* of `fabric` */
    uint32_t reserved;
    uint8_t fabric[ENGINE_ADDRESS_MAX]; /* where libfabric listens */
    uint8_t mac[CONTROL_MAC];
};

/* From the side that connects, as data of libfabric's request to connect. The mac covers the id, and
 * both nonces. */
struct control_token {
    uint64_t id; /* as in the welcome */
    uint8_t mac[CONTROL_MAC];
};

/* ---- state ----------------------------------------------------------------------------------- */

enum engine_state {
    CONN_CONNECTING,   /* ours: TCP */
    CONN_WAIT_HELLO,   /* ours */
    CONN_WAIT_WELCOME, /* ours: we have proven the key */
    CONN_WAIT_PROOF,   /* theirs: we have said hello */
    CONN_WAIT_FABRIC,  /* both have proven the key; libfabric connects */
    CONN_DROPPED,      /* ours: the peer gave the connection up; control.c connects once more */
    CONN_UP,
    CONN_CLOSING, /* the peer has closed; frames in flight still arrive */
    CONN_CLOSED   /* to be freed */
};

struct engine_buffer {
    struct fi_context context;   /* first: libfabric hands it back */
    struct glex_net_buffer base; /* a receive buffer uses only base.data */
    bool is_rx;
    LIST_ENTRY(engine_buffer) entry; /* of tx_free, in_flight or rx_lost */
    struct engine_conn *conn;        /* connection that sends the buffer, or NULL */
    void *desc;
};

LIST_HEAD(engine_buffers, engine_buffer);

struct engine_conn {
    struct glex_net_conn base; /* first: what the link knows */
    struct glex_net_engine *engine;
    LIST_ENTRY(engine_conn) entry;
    bool settled; /* in the list `up` of the engine, not in `going` */
    enum engine_state state;
    enum glex_net_end why; /* in CLOSED */
    bool ours;             /* we connected */
    int fd;                /* control, or -1 */
    uint64_t deadline;     /* ns; 0: none */
    uint32_t ip;           /* of the peer, in host byte order */
    uint16_t port;
    uint16_t dropped;     /* how often the peer dropped the connection before it was up */
    uint64_t id, peer_id; /* low half: the place in the engine's table */
    uint8_t nonce_listen[CONTROL_NONCE], nonce_connect[CONTROL_NONCE];
    uint8_t in[sizeof(struct control_welcome)]; /* room for the longest message */
    size_t in_len;
    struct fid_ep *ep;
    struct engine_buffers in_flight;
    struct engine_conn *back;    /* the connection for requests that go back over this connection,
                                  * or NULL */
    struct engine_conn *carrier; /* the connection that this connection goes back over, or NULL */
};

struct glex_net_engine {
    struct glex_net_params params;
    LIST_HEAD(, engine_conn) going; /* connections that progress() visits; new ones in front */
    LIST_HEAD(, engine_conn) up;    /* all other connections; they are up */
    struct engine_conn **table;     /* by the low half of the id */
    uint32_t table_size;
    uint32_t free_slot; /* all slots before this slot are taken */
    uint32_t unproven;
    unsigned turns;
    int control_fd;      /* an epoll of all control connections */
    int wait_fd;         /* an epoll of control_fd and libfabric's descriptors */
    bool watched;        /* the completion queue is in wait_fd */
    uint64_t deaf_until; /* ns: no accept() before this time; 0: accept at any time */

    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_ep *srx;
    struct fid_pep *pep;
    uint8_t address[ENGINE_ADDRESS_MAX];
    size_t address_len;
    struct engine_buffers tx_free;
    struct engine_buffer *tx_slabs[ENGINE_TX_SLABS];
    struct fid_mr *tx_mrs[ENGINE_TX_SLABS];
    unsigned num_slabs, max_slabs;
    struct engine_buffer rx[ENGINE_RX_BUFFERS];
    struct engine_buffers rx_lost; /* receive buffers that libfabric refused; fabric.c posts them
                                    * again */
    char *rx_memory;
    struct fid_mr *rx_mr;
};

void engine_log(const struct glex_net_engine *engine, bool error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

uint64_t engine_now_ns(void);

/** Counts a peer without proof of the key. @return The count before. */
uint64_t engine_deny(struct glex_net_engine *engine);

/** Ends a connection. The next progress() reports the end to the link. */
void engine_conn_end(struct engine_conn *conn, enum glex_net_end why);

/** Moves a connection to the list `going`: progress() visits the connection until it is up or
 * freed. */
void engine_conn_go(struct engine_conn *conn);

/** Marks a connection, and the connection that goes back over it, as down: no frame is sent any
 * more. */
void engine_conn_down(struct engine_conn *conn);

/** Makes a connection and enters it in the lists. `fd`: an accepted socket, or -1. NULL: no memory,
 *  which was logged. */
struct engine_conn *engine_conn_new(struct glex_net_engine *engine, int fd);

/** Closes the control connection, if it is open. Takes the descriptor out of the epoll before, where
 *  it names `conn`: a child of fork() may have the descriptor, too, and keep it there. */
void engine_conn_hang_up(struct engine_conn *conn);

/** Makes the connection for requests that go back over `carrier`. NULL: no memory, which was
 * logged. */
struct engine_conn *engine_back_new(struct engine_conn *carrier);

/** Begins to connect by libfabric. False: not possible, which was logged. */
bool engine_fabric_connect(struct engine_conn *conn, const uint8_t *address, size_t len);

/** The connection that an id names, or NULL. */
struct engine_conn *engine_conn_find(const struct glex_net_engine *engine, uint64_t id);

/* proof.c */

/** HMAC-SHA256 of a purpose, both nonces and some bytes. False: OpenSSL cannot compute it. */
bool engine_mac(const struct engine_conn *conn, char purpose, const void *data, size_t len,
                uint8_t mac[CONTROL_MAC]);

/** Whether a mac is right. A mac that cannot be computed is not right. */
bool engine_is_proof(const struct engine_conn *conn, char purpose, const void *data, size_t len,
                     const uint8_t mac[CONTROL_MAC]);

/** Make and check the token that proves that libfabric's request to connect comes from the peer of
 *  `conn`. False: the token cannot be made; the token is not of this peer. */
bool engine_token_make(const struct engine_conn *conn, struct control_token *token);
bool engine_token_check(const struct engine_conn *conn, const struct control_token *token);

/* fabric.c */
bool engine_fabric_open(struct glex_net_engine *engine);
void engine_fabric_close(struct glex_net_engine *engine);
bool engine_fabric_probe(const char *provider, uint32_t ip, char *why, size_t why_size);
unsigned engine_fabric_progress(struct glex_net_engine *engine, bool events);
bool engine_fabric_arm(struct glex_net_engine *engine);
void engine_fabric_disarm(struct glex_net_engine *engine);
void engine_fabric_drain(struct glex_net_engine *engine);
struct glex_net_buffer *engine_fabric_buffer(struct glex_net_engine *engine);
void engine_fabric_drop(struct glex_net_engine *engine, struct glex_net_buffer *buffer);
bool engine_fabric_send(struct glex_net_conn *base, struct glex_net_buffer *buffer);
void engine_fabric_tx_done(struct engine_buffer *tx);

/* control.c */
bool engine_control_open(struct glex_net_engine *engine);
void engine_control_close(struct glex_net_engine *engine);
bool engine_control_listen(struct glex_net_engine *engine, bool on);
void engine_control_progress(struct glex_net_engine *engine);
bool engine_control_connect(struct engine_conn *conn, uint32_t ip, uint16_t port);
/** Functions look and finish of struct glex_net_module. */
void engine_control_look(struct glex_net_conn *base);
void engine_control_finish(struct glex_net_conn *base);

#endif
