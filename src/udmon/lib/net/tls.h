/*
 * Authentication in TLS: a peer must know the shared secret, or have a certificate of the CA. All
 * links (link.h) of a client or server use the same context of OpenSSL.
 */
#ifndef UDMON_TLS_H
#define UDMON_TLS_H

#include "../base/keys.h"
#include "../../include/udmon.h"
#include "loop.h"

#include <openssl/ssl.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

enum { TLS_CA, TLS_CERTIFICATE, TLS_KEY, TLS_FILES };

/* Common data of all links of a client or server. */
struct udmon_tls {
    SSL_CTX *context;
    BIO_METHOD *method;
    int server;
    struct udmon_keys *keys; /* for the pre-shared keys; not used with: */
    int certificates;
    struct udmon_file files[TLS_FILES];
    LIST_HEAD(, udmon_link) unsent; /* links whose messages have not been given to the socket */
};

/**
 * The context of a server's or a client's links. The keys stay with the caller, and are not used if
 * the options name certificates. -EACCES: their files cannot be used.
 */
int udmon_tls_open(struct udmon_tls *tls, struct udmon_keys *keys,
                   const struct udmon_options *options, int server);
void udmon_tls_close(struct udmon_tls *tls);

/**
 * TLS over a socket, which the caller keeps open as long as the SSL object. Reads changed files of
 * certificates and secrets before. If the new files are unusable, the earlier ones stay. NULL: no
 * memory.
 */
SSL *udmon_tls_new(struct udmon_tls *tls, struct udmon_source *socket);
/** The server's certificate must name this host, a name or an IP address. -ENOMEM. */
int udmon_tls_expect(const struct udmon_tls *tls, SSL *ssl, const char *host);
/**
 * Whether the peer's certificate names the peer so, also in capital letters. False if the peer
 * showed none.
 */
bool udmon_tls_names(const SSL *ssl, const char *name);
/** Whether an error of OpenSSL is that the peer has sent an alert. */
bool udmon_tls_is_alert(unsigned long error);
/** Why a handshake failed, said of the peer, from OpenSSL's last error. */
void udmon_tls_problem(const struct udmon_tls *tls, const SSL *ssl, char *text, size_t size);

#endif
