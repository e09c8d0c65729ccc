#include "tls.h"
#include "../base/log.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static const char psk_identity[] = "udmon";
static const unsigned char psk_cipher[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

/* The socket as OpenSSL's: its own BIO would raise SIGPIPE. */

static int bio_write(BIO *bio, const char *data, int length)
{
    const struct udmon_source *socket = BIO_get_data(bio);
    ssize_t ret = send(socket->fd, data, length, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if ((ret < 0) && ((errno == EAGAIN) || (errno == EINTR))) {
        BIO_set_retry_write(bio);
    }
    return ret;
}

static int bio_read(BIO *bio, char *data, int length)
{
    const struct udmon_source *socket = BIO_get_data(bio);
    ssize_t ret = recv(socket->fd, data, length, 0);

    BIO_clear_retry_flags(bio);
    if ((ret < 0) && ((errno == EAGAIN) || (errno == EINTR))) {
        BIO_set_retry_read(bio);
    }
    return ret;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is kept here: always flushed */
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "udmon link");

    if ((method != NULL) &&
        (!BIO_meth_set_write(method, bio_write) || !BIO_meth_set_read(method, bio_read) ||
         !BIO_meth_set_ctrl(method, bio_control) || !BIO_meth_set_create(method, bio_create))) {
        BIO_meth_free(method);
        method = NULL;
    }
    return method;
}

/* The pre-shared key */

/* The object that TLS uses as a session to resume: the key, and the cipher for the key. */
static SSL_SESSION *psk_session(SSL *ssl)
{
    const struct udmon_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, psk_cipher);
    SSL_SESSION *session = SSL_SESSION_new();

    if ((session != NULL) && (cipher != NULL) &&
        SSL_SESSION_set1_master_key(session, tls->key, sizeof(tls->key)) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
        return session;
    }
    SSL_SESSION_free(session);
    return NULL;
}

static int psk_find(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **session_p)
{
    *session_p = NULL;
    if ((length == (sizeof(psk_identity) - 1)) && !memcmp(identity, psk_identity, length)) {
        *session_p = psk_session(ssl);
        return *session_p != NULL;
    }
    return 1; /* continues without a key, and then fails because the peer has no certificate */
}

static int psk_use(SSL *ssl, const EVP_MD *digest, const unsigned char **identity_p,
                   size_t *length_p, SSL_SESSION **session_p)
{
    *session_p = NULL;
    if ((digest != NULL) && !EVP_MD_is_a(digest, "SHA256")) {
        return 1; /* after a retry that asked for another cipher: no key for it */
    }
    *identity_p = (const unsigned char *)psk_identity;
    *length_p = sizeof(psk_identity) - 1;
    *session_p = psk_session(ssl);
    return *session_p != NULL;
}

static void tls_use_key(const struct udmon_tls *tls, SSL_CTX *context)
{
    if (tls->server) {
        SSL_CTX_set_psk_find_session_callback(context, psk_find);
    } else {
        SSL_CTX_set_psk_use_session_callback(context, psk_use);
        /* A server that shows a certificate instead of the secret is refused: none is trusted. */
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    }
}

/* Certificates */

static int tls_file_error(const char *what, const char *path)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    udmon_error("%s %s cannot be used: %s", what, path, (reason != NULL) ? reason : "no such file");
    return -EACCES;
}

/* Records the state of the files; returns whether a file has changed. */
static int tls_files_changed(struct udmon_tls *tls)
{
    struct stat status;
    int i, changed = 0;

    for (i = 0; i < TLS_FILES; ++i) {
        struct udmon_tls_file *file = &tls->files[i];
        if ((stat(file->path, &status) == 0) &&
            ((file->inode != status.st_ino) || (file->changed.tv_sec != status.st_mtim.tv_sec) ||
             (file->changed.tv_nsec != status.st_mtim.tv_nsec))) {
            file->inode = status.st_ino;
            file->changed = status.st_mtim;
            changed = 1;
        }
    }
    return changed;
}

static int tls_use_certificates(const struct udmon_tls *tls, SSL_CTX *context)
{
    const char *ca = tls->files[TLS_CA].path, *certificate = tls->files[TLS_CERTIFICATE].path;
    const char *key = tls->files[TLS_KEY].path;
    int ret = udmon_private_file("key file", key);

    ERR_clear_error();
    if (ret < 0) {
        return ret;
    }
    if (!SSL_CTX_load_verify_file(context, ca)) {
        return tls_file_error("CA file", ca);
    }
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) {
        return tls_file_error("certificate file", certificate);
    }
    /* Also checks that it belongs to the certificate. */
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        return tls_file_error("key file", key);
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

int udmon_tls_expect(const struct udmon_tls *tls, SSL *ssl, const char *host)
{
    return (!tls->certificates || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) ||
            SSL_set1_host(ssl, host)) ?
               0 :
               -ENOMEM;
}

bool udmon_tls_names(const SSL *ssl, const char *name)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);

    /* OpenSSL takes ".cluster" for every name that ends so. */
    return (certificate != NULL) && (name[0] != '.') &&
           (X509_check_host(certificate, name, 0, X509_CHECK_FLAG_NO_WILDCARDS, NULL) == 1);
}

bool udmon_tls_is_alert(unsigned long error)
{
    return (ERR_GET_LIB(error) == ERR_LIB_SSL) && (ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET);
}

void udmon_tls_problem(const struct udmon_tls *tls, const SSL *ssl, char *text, size_t size)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);
    long verified = SSL_get_verify_result(ssl);

    udmon_debug("TLS: %s", (reason != NULL) ? reason : "failed");
    if (!tls->certificates) {
        snprintf(text, size, "%s",
                 (verified != X509_V_OK) ? "it shows a certificate, and we have only a secret" :
                 SSL_is_server(ssl)      ? "it does not know the secret" :
                                           "the secret of the server is another");
    } else if (verified != X509_V_OK) {
        snprintf(text, size, "its certificate is not accepted: %s",
                 X509_verify_cert_error_string(verified));
    } else if (udmon_tls_is_alert(error)) {
        snprintf(text, size, "it does not accept our certificate: %s", reason);
    } else if (ERR_GET_REASON(error) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        snprintf(text, size, "it has no certificate");
    } else {
        snprintf(text, size, "TLS failed: %s", (reason != NULL) ? reason : "unknown reason");
    }
}

static int tls_context(struct udmon_tls *tls, SSL_CTX **context_p)
{
    SSL_CTX *context = SSL_CTX_new(tls->server ? TLS_server_method() : TLS_client_method());
    int ret = 0;

    if ((context == NULL) || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") ||
        !SSL_CTX_set_num_tickets(context, 0)) {
        udmon_error("OpenSSL offers no TLS 1.3 with AES-128-GCM");
        SSL_CTX_free(context);
        return -EIO;
    }
    SSL_CTX_set_app_data(context, tls);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    if (tls->certificates) {
        ret = tls_use_certificates(tls, context);
    } else {
        tls_use_key(tls, context);
    }
    if (ret < 0) {
        SSL_CTX_free(context);
        return ret;
    }
    *context_p = context;
    return 0;
}

static int tls_name_files(struct udmon_tls *tls, const struct udmon_options *options)
{
    tls->certificates = 1;
    tls->files[TLS_CA].path = strdup(options->ca_file);
    tls->files[TLS_CERTIFICATE].path = strdup(options->cert_file);
    tls->files[TLS_KEY].path = strdup(options->key_file);
    if ((tls->files[TLS_CA].path == NULL) || (tls->files[TLS_CERTIFICATE].path == NULL) ||
        (tls->files[TLS_KEY].path == NULL)) {
        return -ENOMEM;
    }
    tls_files_changed(tls);
    return 0;
}

int udmon_tls_open(struct udmon_tls *tls, const struct udmon_secret *secret,
                   const struct udmon_options *options, int server)
{
    int ret;

    memset(tls, 0, sizeof(*tls));
    LIST_INIT(&tls->unsent);
    tls->server = server;
    tls->method = bio_method();
    ret = (options->ca_file != NULL) ? tls_name_files(tls, options) :
                                       udmon_sign(secret, "TLS key", "", 0, NULL, 0, tls->key);
    if ((ret == 0) && (tls->method == NULL)) {
        ret = -ENOMEM;
    }
    if (ret == 0) {
        ret = tls_context(tls, &tls->context);
    }
    if (ret < 0) {
        udmon_tls_close(tls);
    }
    return ret;
}

/* Reads changed certificate files again. */
static void tls_refresh(struct udmon_tls *tls)
{
    SSL_CTX *context;

    if (!tls->certificates || !tls_files_changed(tls)) {
        return;
    }
    if (tls_context(tls, &context) < 0) {
        udmon_warn("the certificates that were read before stay in use");
        return;
    }
    SSL_CTX_free(tls->context); /* links that use it keep it */
    tls->context = context;
    udmon_info("certificates have changed and were read anew");
}

SSL *udmon_tls_new(struct udmon_tls *tls, struct udmon_source *socket)
{
    SSL *ssl;
    BIO *bio;

    tls_refresh(tls);
    ssl = SSL_new(tls->context);
    bio = BIO_new(tls->method);
    if ((ssl == NULL) || (bio == NULL)) {
        BIO_free(bio);
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_data(bio, socket);
    SSL_set_bio(ssl, bio, bio);
    return ssl;
}

void udmon_tls_close(struct udmon_tls *tls)
{
    int i;

    for (i = 0; i < TLS_FILES; ++i) {
        free(tls->files[i].path);
    }
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    memset(tls, 0, sizeof(*tls));
}
