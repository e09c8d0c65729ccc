/*
 * The network engine: authenticated, reliable, ordered connections between endpoints of different
 * hosts, which carry frames. The engine is a separate module (src/glex/net_engine), loaded if
 * GLEX_NET is set, because it needs libfabric and OpenSSL. A program that stays on its host needs
 * only the C library.
 *
 * The side that makes a connection sends requests over it, and the other side answers. One thread
 * at a time may call an engine's functions. No function blocks.
 */
#ifndef GLEX_NET_ENGINE_H
#define GLEX_NET_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GLEX_NET_ENGINE_VERSION 9

/* Longest frame, with its header. */
#define GLEX_NET_FRAME_MAX 65536u
#define GLEX_NET_KEY_MAX   64u

/* The header of each frame. The engine fills it before a send, and checks it after a receive. */
struct glex_net_frame {
    uint64_t to;       /* the receiver's name for this connection */
    uint32_t requests; /* the next three members belong to the link: docs/hosts.md */
    uint32_t flags;
    uint64_t bytes;
};

/* The engine's memory for a frame. */
struct glex_net_buffer {
    char *data;
    uint32_t len; /* used bytes of `data`, at most GLEX_NET_FRAME_MAX */
};

/* Why a connection ended. */
enum glex_net_end {
    GLEX_NET_END_CLOSED,      /* the peer's endpoint was destroyed, or its process ended */
    GLEX_NET_END_REFUSED,     /* there is no endpoint at that address */
    GLEX_NET_END_UNREACHABLE, /* the host did not answer */
    GLEX_NET_END_DENIED,      /* a side could not prove knowledge of the key */
    GLEX_NET_END_SILENT       /* the host has stopped to answer */
};

struct glex_net_engine;

/* The link's view of a connection. */
struct glex_net_conn {
    void *user;         /* argument of the link's functions; NULL: no function is called */
    uint64_t addr;      /* the peer's */
    uint64_t epoch;     /* the link's number for the epoch of this connection */
    uint32_t in_flight; /* frames that send() took and libfabric has not completed */
    bool up;            /* frames can be sent; not any more once the peer is known to close */
    bool down;          /* this side or the peer closes the connection */
};

/* Functions of the link that an engine calls, only in progress(). */
struct glex_net_calls {
    /**
     * Called while a connection is made, when the peer's number of its epoch has arrived. `ours`:
     * the connection's epoch, or 0 if the peer made the connection. `ip`: the address that the peer
     * connected from, in host byte order, or 0 if this side made the connection. @return This
     * side's number of the common epoch. 0: the connection ends.
     */
    uint64_t (*meet)(void *arg, uint64_t addr, uint32_t ip, uint64_t theirs, uint64_t ours);
    /** A peer has connected. @return `user` of the connection, or NULL to refuse. */
    void *(*accept)(void *arg, struct glex_net_conn *conn);
    /** An own connection is ready. */
    void (*up)(void *user);
    /** A frame has arrived, with a complete header. The engine reuses the frame after the call. */
    void (*receive)(void *user, const struct glex_net_frame *frame, size_t len);
    /** A connection ended without disconnect(). The engine frees the connection after the call. */
    void (*end)(void *user, enum glex_net_end why);
    /** Logs a line as an error or as a warning. */
    void (*log)(bool error, const char *line);
};

struct glex_net_params {
    const char *provider; /* of libfabric */
    uint32_t ip;          /* of the interface, in host byte order */
    uint64_t addr;        /* of the endpoint */
    int listen_fd;        /* bound and listening; the engine owns it, whatever open() returns */
    uint8_t key[GLEX_NET_KEY_MAX];
    uint32_t key_len;    /* 0: every peer may connect */
    uint32_t timeout_ms; /* time after which a silent peer counts as gone */
    uint64_t *denied;    /* counts peers without proof of the key */
    const struct glex_net_calls *calls;
    void *arg; /* of accept() */
};

/* The symbol `glex_net_module` of the module. */
struct glex_net_module {
    uint32_t version;

    /** Returns whether libfabric has the provider on the interface. If not, `why` gets the
     * reason. */
    bool (*probe)(const char *provider, uint32_t ip, char *why, size_t why_size);

    /** Opens an engine. NULL: the engine cannot be opened; the reason was logged. */
    struct glex_net_engine *(*open)(const struct glex_net_params *params);

    /** End all connections, without calls. */
    void (*close)(struct glex_net_engine *engine);

    /** Closes the descriptors in a child of fork(). The connections stay with the parent. */
    void (*forked)(struct glex_net_engine *engine);

    /** Start or stop listening; open() starts it. While stopped, the kernel refuses connections at
     * once, and the port stays taken. False: not possible, which was logged. */
    bool (*listen)(struct glex_net_engine *engine, bool on);

    /** Begin to connect. `over`: a connection that this peer has made to this side, or NULL;
     *  requests may go back over it. The caller sets the connection's epoch. NULL: no memory or no
     *  descriptor, which was logged. */
    struct glex_net_conn *(*connect)(struct glex_net_engine *engine, uint32_t ip, uint16_t port,
                                     uint64_t addr, struct glex_net_conn *over, void *user);

    /** End a connection. The engine makes no further call for the connection. */
    void (*disconnect)(struct glex_net_conn *conn);

    /** Announce the end of a connection to its peer. Data in flight still arrives, for at most one
     * second. Then the connection ends by itself. */
    void (*finish)(struct glex_net_conn *conn);

    /** Check whether the peer has closed a connection that is up, as far as this host's kernel
     *  knows. If so, the connection is down, and progress() ends it. */
    void (*look)(struct glex_net_conn *conn);

    /** Takes an empty buffer; send() or drop() gives it back. NULL: no buffer is free now. */
    struct glex_net_buffer *(*buffer)(struct glex_net_engine *engine);
    void (*drop)(struct glex_net_engine *engine, struct glex_net_buffer *buffer);

    /** Sends a frame. Returns false if the engine does not take it now: try again after
     *  progress(). */
    bool (*send)(struct glex_net_conn *conn, struct glex_net_buffer *buffer);

    /** Make progress. @return The number of arrived and sent frames. */
    unsigned (*progress)(struct glex_net_engine *engine);

    /** A descriptor that becomes readable when there may be something to do, after arm(). */
    int (*fd)(const struct glex_net_engine *engine);

    /** Asks for the descriptor to become readable. False: do not sleep, because progress() has
     * something to do. */
    bool (*arm)(struct glex_net_engine *engine);

    /** No thread sleeps any more: the descriptor need not become readable before the next arm(). */
    void (*disarm)(struct glex_net_engine *engine);
};

#endif
