/*
 * Link: a TCP connection with TLS 1.3 that carries messages of up to LINK_MESSAGE_MAX bytes. In the
 * TLS handshake, client and server prove knowledge of the shared secret (an external pre-shared key
 * made from the secret), or show a certificate of the same CA. Before this proof, no data of a peer
 * reaches the owner of a link. Each message is preceded by its length, 16 bits, little-endian.
 */
#ifndef UDMON_LINK_H
#define UDMON_LINK_H

#include "../base/wire.h"
#include "tls.h"

#include <stddef.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum {
    LINK_MESSAGE_MAX = 16 * 1024,
    LINK_OUT_MAX = 128 * 1024 /* bytes that wait for the socket */
};

/* Functions of a link's owner. Each function may close the link. */
struct udmon_link_ops {
    /* The peer is authenticated. May be NULL. */
    void (*opened)(void *arg);
    void (*received)(void *arg, const void *data, size_t length);
    /* The link is of no use any more; to be closed. -EACCES: one of the two
     * is not believed, and `problem` of the link says why. */
    void (*failed)(void *arg, int error);
};

struct udmon_link {
    LIST_ENTRY(udmon_link) unsent;
    struct udmon_tls *tls;
    struct udmon_loop *loop;
    const struct udmon_link_ops *ops;
    void *arg;
    struct udmon_source source;
    uint32_t events; /* events that `source` waits for */
    SSL *ssl;
    enum { LINK_CONNECTING, LINK_HANDSHAKE, LINK_OPEN, LINK_FAILED } state;
    int is_unsent;       /* is in the list of `tls` */
    int calling, closed; /* a function of the owner is running; it has closed the link */
    uint8_t *in, *out;
    size_t in_length, out_begin, out_end;
    char problem[160];
    struct sockaddr_storage local, remote;
};

/** Makes a link of an accepted socket, and takes over the socket, also on failure. */
int udmon_link_accept(struct udmon_tls *tls, struct udmon_loop *loop, int fd,
                      const struct udmon_link_ops *ops, void *arg, struct udmon_link **link_p);
/** A link from `source` (NULL: by routing) to `addr`, which is an address of `host`. */
int udmon_link_connect(struct udmon_tls *tls, struct udmon_loop *loop,
                       const struct sockaddr *source, const struct sockaddr *addr, const char *host,
                       const struct udmon_link_ops *ops, void *arg, struct udmon_link **link_p);
/** May be called from within the owner's functions. Waiting data is lost. */
void udmon_link_close(struct udmon_link *link);

/** Another owner. */
void udmon_link_give(struct udmon_link *link, const struct udmon_link_ops *ops, void *arg);

/**
 * Queue a message of at most `size` bytes; it leaves with udmon_links_send. -EAGAIN: no room now,
 * `pack` was not called, and the loop wakes when there is; -EIO: the link is not open.
 */
int udmon_link_send(struct udmon_link *link, size_t size, udmon_pack_fn pack, void *arg);
/** As udmon_link_send(), for a message that exists already. */
int udmon_link_send_bytes(struct udmon_link *link, const void *data, size_t length);

/**
 * Writes queued data to the sockets. Returns how many links still have queued data. `all`: also
 * write to links that had no room the last time. The loop already waits for these links.
 */
unsigned udmon_links_send(struct udmon_tls *tls, int all);

#endif
