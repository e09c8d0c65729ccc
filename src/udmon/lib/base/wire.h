/*
 * Wire protocol of libudmon, version 3. All integers are little-endian; docs/udmon.md explains.
 *
 * Meeting: two pairs of request and response. With ud they travel in the private data of RDMA CM.
 * With all other networks they travel over one TCP connection with TLS 1.3, each message after its
 * length of 16 bits (link.h).
 *   HELLO     -> CHALLENGE  address of the server's interface, a nonce to be signed
 *   AUTH      -> WELCOME    address of the client's interface; the token of the connection
 * Then datagrams, each beginning with struct udmon_dgram: UCT active messages UDMON_AM_ID, or (tcp)
 * messages of the same TLS connection. With tcp both interface addresses are empty.
 *
 * TLS: external pre-shared key HMAC-SHA256(secret, "TLS key"), or certificates of both sides; with
 * ephemeral Diffie-Hellman and TLS_AES_128_GCM_SHA256. The identity of the key is "udmon:ID" with
 * the identifier of the secret in hexadecimal digits, "udmon:ID:NODE" for the secret of a node, or
 * "udmon" for the server's shared secret.
 */
#ifndef UDMON_WIRE_H
#define UDMON_WIRE_H

#include <assert.h>
#include <endian.h>
#include <stddef.h>
#include <stdint.h>

#define UDMON_MAGIC 0x6d64u /* "dm" */

enum {
    UDMON_VERSION = 3,
    UDMON_AM_ID = 23,
    UDMON_NONCE_SIZE = 16,
    UDMON_MAC_SIZE = 32,
    UDMON_HINT_SIZE = 8,
    UDMON_AUTH_MAC_SIZE = 16, /* its first bytes: so the longest name fits RDMA CM's request */
    UDMON_TRANSPORT_SIZE = 8,
    /* RDMA CM carries that much, as requests and as responses; TCP could carry more. */
    UDMON_CM_REQUEST_MAX = 180,
    UDMON_CM_RESPONSE_MAX = 136,
    UDMON_RPC_MAX = 512
};

enum { UDMON_HELLO = 1, UDMON_CHALLENGE, UDMON_AUTH, UDMON_WELCOME };

enum {
    UDMON_OK = 0,
    UDMON_REFUSED,       /* the client proved another secret */
    UDMON_FULL,          /* the server has its maximum of clients */
    UDMON_NO_TRANSPORT,  /* the server does not offer this network */
    UDMON_BAD_REQUEST,   /* malformed, or of another version */
    UDMON_EXPIRED,       /* the nonce is too old or was used before: the client begins again */
    UDMON_NO_RELAY,      /* the server is a relay itself, and refuses the records of other relays */
    UDMON_UNKNOWN_RELAY, /* the server does not list the relay, or the certificate names another */
    UDMON_WRONG_NAME     /* neither certificate nor secret prove the client's name */
};

/* Flag of HELLO. */
enum {
    UDMON_HINTED = 1 << 0 /* struct udmon_hello_hint follows; earlier versions have none */
};

/* Flags of AUTH. */
enum {
    UDMON_RELAY = 1 << 0, /* the client passes on records of other nodes */
    UDMON_FIRST = 1 << 1  /* the client's first connection to this server: records before its
                           * next_seq are lost */
};

/* Begins all four. */
struct udmon_rpc_header {
    uint16_t magic;
    uint8_t version;
    uint8_t type;
    uint8_t status; /* of responses */
    uint8_t flags;  /* of HELLO and AUTH, else 0 */
    uint8_t zero[2];
} __attribute__((packed));

struct udmon_hello {
    struct udmon_rpc_header header;
    uint8_t client_nonce[UDMON_NONCE_SIZE];
    char transport[UDMON_TRANSPORT_SIZE]; /* filled up with zeros */
} __attribute__((packed));

/* Follows HELLO: which secret the client has. A server may have two, and one for each node. */
struct udmon_hello_hint {
    uint8_t id[UDMON_HINT_SIZE]; /* the first bytes of HMAC-SHA256(secret, "identifier") */
    uint8_t node_length;         /* of the node's name, which follows; 0: it is the shared secret */
} __attribute__((packed));

struct udmon_challenge {
    struct udmon_rpc_header header;
    uint8_t server_nonce[UDMON_NONCE_SIZE];
    uint8_t mac[UDMON_MAC_SIZE]; /* over "challenge", the client's nonce, and this message with mac
                                  * zero and the following bytes */
    uint8_t address_length;      /* length of the interface address of the server, which follows */
} __attribute__((packed));

struct udmon_auth {
    struct udmon_rpc_header header;
    uint8_t server_nonce[UDMON_NONCE_SIZE];
    uint8_t client_nonce[UDMON_NONCE_SIZE];
    uint64_t client_id;
    uint64_t next_seq; /* the first record that will be sent on this connection */
    /* The beginning of HMAC-SHA256 of "client" and this message, mac being zero. */
    uint8_t mac[UDMON_AUTH_MAC_SIZE];
    char transport[UDMON_TRANSPORT_SIZE];
    uint8_t address_length; /* length of the client's interface address, which follows */
    uint8_t name_length;    /* length of the client's name, which follows the address */
} __attribute__((packed));

struct udmon_welcome {
    struct udmon_rpc_header header;
    uint64_t token;
    uint8_t mac[UDMON_MAC_SIZE]; /* of "server", both nonces and this message, mac being zero */
} __attribute__((packed));

/* An interface: device and interface address of UCT, one after the other. */
struct udmon_address {
    uint8_t device_length;
    uint8_t iface_length;
    uint8_t bytes[];
} __attribute__((packed));

/* Types of datagrams. Both sides send all of them. */
enum {
    UDMON_DATA = 1, /* `count` records, the first being number `seq` */
    UDMON_PIECES,   /* `count` pieces of as many records in a row, the first of number `seq` */
    UDMON_PING = 5, /* 3 and 4 were others in earlier versions */
    UDMON_PONG,
    UDMON_BYE /* the sender has sent `seq` records in all, and sends no more */
};

struct udmon_dgram {
    uint8_t version;
    uint8_t type;
    uint16_t count;
    uint32_t clock_s; /* of UDMON_PING and UDMON_PONG: the sender's time of day, seconds since 1970,
                       * the low 32 bits, never 0; else 0 */
    uint64_t token;   /* of the connection; known to client and server only */
    uint64_t seq;
} __attribute__((packed));

/* Precedes each record of UDMON_DATA. */
struct udmon_record {
    uint16_t length;
} __attribute__((packed));

/* Precedes each piece of UDMON_PIECES. */
struct udmon_piece {
    uint32_t total;  /* of the record */
    uint32_t offset; /* in it */
    uint16_t length;
} __attribute__((packed));

/* Follows the datagram header in UDMON_PING and UDMON_PONG; `seq` is the number before which all
 * has been sent. */
struct udmon_ping {
    uint64_t time_ns; /* the pinger's clock, sent back in the answer. 0: a PONG without a PING, by
                       * which a slow server says that it takes records */
    uint64_t received;
    uint64_t lost;
} __attribute__((packed));

/* Write a message or datagram of at most `size` bytes to `buffer`; returns its length. */
typedef size_t (*udmon_pack_fn)(void *buffer, size_t size, void *arg);

static_assert(sizeof(struct udmon_rpc_header) == 8, "on the wire");
static_assert(sizeof(struct udmon_hello) == 32, "on the wire");
static_assert(sizeof(struct udmon_hello_hint) == 9, "on the wire");
static_assert(sizeof(struct udmon_challenge) == 57, "on the wire");
static_assert(sizeof(struct udmon_auth) == 82, "on the wire");
static_assert(sizeof(struct udmon_welcome) == 48, "on the wire");
static_assert(sizeof(struct udmon_dgram) == 24, "on the wire");
static_assert(sizeof(struct udmon_piece) == 10, "on the wire");
static_assert(sizeof(struct udmon_ping) == 24, "on the wire");

#endif
