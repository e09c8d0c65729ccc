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

static const char psk_begin[] = "udmon";
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
static int psk_session(SSL *ssl, const struct udmon_secret *secret, SSL_SESSION **session_p)
{
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, psk_cipher);
    SSL_SESSION *session = SSL_SESSION_new();
    uint8_t key[UDMON_MAC_SIZE];
    bool good;

    good = (session != NULL) && (cipher != NULL) &&
           (udmon_sign(secret, "TLS key", "", 0, NULL, 0, key) == 0) &&
           SSL_SESSION_set1_master_key(session, key, sizeof(key)) &&
           SSL_SESSION_set_cipher(session, cipher) &&
           SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
    OPENSSL_cleanse(key, sizeof(key));
    if (!good) {
        SSL_SESSION_free(session);
        return 0;
    }
    *session_p = session;
    return 1;
}

static const struct udmon_keys *psk_keys(SSL *ssl)
{
    const struct udmon_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

    return tls->keys;
}

/* Reads "udmon:ID" or "udmon:ID:NODE". */
static bool psk_parse(const char *identity, struct udmon_hint *hint)
{
    const char *digits = identity + sizeof(psk_begin), *node;
    unsigned byte;
    int i;

    memset(hint, 0, sizeof(*hint));
    if (strncmp(identity, psk_begin, sizeof(psk_begin) - 1) ||
        (identity[sizeof(psk_begin) - 1] != ':') ||
        (strspn(digits, "0123456789abcdef") != (2 * UDMON_HINT_SIZE))) {
        return false;
    }
    for (i = 0; i < UDMON_HINT_SIZE; ++i) {
        sscanf(digits + (2 * i), "%2x", &byte);
        hint->id[i] = byte;
    }
    node = digits + (2 * UDMON_HINT_SIZE);
    if (*node == '\0') {
        return true;
    }
    if ((*node != ':') || (strlen(node + 1) > UDMON_NAME_MAX)) {
        return false;
    }
    memcpy(hint->node, node + 1, strlen(node + 1));
    return true;
}

static int psk_find(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **session_p)
{
    const struct udmon_keys *keys = psk_keys(ssl);
    struct udmon_secret secret;
    struct udmon_hint hint;
    char text[128];
    int ret = 1; /* continues without a key, and then fails because the peer has no certificate */

    *session_p = NULL;
    snprintf(text, sizeof(text), "%.*s", (int)length, (const char *)identity);
    if (!strcmp(text, psk_begin)) {
        return psk_session(ssl, &keys->secrets[KEYS_PRESENT], session_p); /* an earlier version */
    }
    if (psk_parse(text, &hint) && udmon_keys_find(keys, &hint, &secret)) {
        ret = psk_session(ssl, &secret, session_p);
    }
    OPENSSL_cleanse(&secret, sizeof(secret));
    return ret;
}

static int psk_use(SSL *ssl, const EVP_MD *digest, const unsigned char **identity_p,
                   size_t *length_p, SSL_SESSION **session_p)
{
    const struct udmon_secret *secret = &psk_keys(ssl)->secrets[KEYS_PRESENT];
    static __thread char identity[128]; /* OpenSSL copies the text after the return */
    struct udmon_hint hint;
    char *end;

    *session_p = NULL;
    if ((digest != NULL) && !EVP_MD_is_a(digest, "SHA256")) {
        return 1; /* after a retry that asked for another cipher: no key for it */
    }
    if (udmon_keys_hint(secret, &hint) < 0) {
        return 0;
    }
    end = identity + snprintf(identity, sizeof(identity), "%s:", psk_begin);
    end = udmon_hex(hint.id, sizeof(hint.id), end);
    if (hint.node[0] != '\0') {
        snprintf(end, sizeof(identity) - (end - identity), ":%s", hint.node);
    }
    *identity_p = (const unsigned char *)identity;
    *length_p = strlen(identity);
    return psk_session(ssl, secret, session_p);
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
static bool tls_files_changed(struct udmon_tls *tls)
{
    bool changed = false;
    int i;

    for (i = 0; i < TLS_FILES; ++i) {
        changed |= udmon_file_changed(&tls->files[i]);
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
    char *spelled = NULL;
    bool equal;

    /* OpenSSL takes ".cluster" for every name that ends so. */
    if ((certificate == NULL) || (name[0] == '.') ||
        (X509_check_host(certificate, name, 0, X509_CHECK_FLAG_NO_WILDCARDS, &spelled) != 1)) {
        return false;
    }
    /* OpenSSL ignores capital letters, and nodes "a" and "A" are different nodes. */
    equal = (spelled != NULL) && !strcmp(spelled, name);
    OPENSSL_free(spelled);
    return equal;
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
    if ((ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) ||
        (ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE)) {
        snprintf(text, size, "no memory for TLS");
    } else if (!tls->certificates) {
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
    const char *paths[TLS_FILES] = {[TLS_CA] = options->ca_file,
                                    [TLS_CERTIFICATE] = options->cert_file,
                                    [TLS_KEY] = options->key_file};
    int i, ret = 0;

    tls->certificates = 1;
    for (i = 0; (i < TLS_FILES) && (ret == 0); ++i) {
        ret = udmon_file_watch(&tls->files[i], paths[i]);
    }
    return ret;
}

int udmon_tls_open(struct udmon_tls *tls, struct udmon_keys *keys,
                   const struct udmon_options *options, int server)
{
    int ret;

    memset(tls, 0, sizeof(*tls));
    LIST_INIT(&tls->unsent);
    tls->server = server;
    tls->method = bio_method();
    tls->keys = keys;
    ret = (options->ca_file != NULL) ? tls_name_files(tls, options) : 0;
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
    udmon_keys_refresh(tls->keys);
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
        udmon_file_forget(&tls->files[i]);
    }
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    memset(tls, 0, sizeof(*tls));
}
