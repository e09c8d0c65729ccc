/*
 * Whom TLS believes: who knows the shared secret, or who has a certificate of the CA.
 */
#include "link.h"
#include "../log.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char psk_identity[] = "udmon";
static const unsigned char psk_cipher[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

/* The pre-shared key */

/* What TLS takes for a session to be resumed: the key, and the cipher that it is good for. */
static SSL_SESSION *psk_session(SSL *ssl)
{
    const udmon_tls_t *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
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
    return 1; /* goes on without a key, which then fails for want of a certificate */
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

static int tls_set_key(udmon_tls_t *tls, const udmon_secret_t *secret, int server)
{
    if (udmon_sign(secret, "TLS key", "", 0, NULL, 0, tls->key) < 0) {
        return -EIO;
    }
    if (server) {
        SSL_CTX_set_psk_find_session_callback(tls->context, psk_find);
    } else {
        SSL_CTX_set_psk_use_session_callback(tls->context, psk_use);
        /* A server that shows a certificate instead of the secret is refused: none is trusted. */
        SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    }
    return 0;
}

/* Certificates */

static int tls_file_error(const char *what, const char *path)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    udmon_error("%s %s cannot be used: %s", what, path, (reason != NULL) ? reason : "no such file");
    return -EACCES;
}

static int tls_set_certificates(udmon_tls_t *tls, const udmon_options_t *options)
{
    int ret = udmon_private_file("key file", options->key_file);

    ERR_clear_error();
    if (ret < 0) {
        return ret;
    }
    if (!SSL_CTX_load_verify_file(tls->context, options->ca_file)) {
        return tls_file_error("CA file", options->ca_file);
    }
    if (SSL_CTX_use_certificate_chain_file(tls->context, options->cert_file) != 1) {
        return tls_file_error("certificate file", options->cert_file);
    }
    /* Also checks that it belongs to the certificate. */
    if (SSL_CTX_use_PrivateKey_file(tls->context, options->key_file, SSL_FILETYPE_PEM) != 1) {
        return tls_file_error("key file", options->key_file);
    }
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    tls->certificates = 1;
    return 0;
}

int udmon_tls_expect(const udmon_tls_t *tls, SSL *ssl, const char *host)
{
    return (!tls->certificates || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) ||
            SSL_set1_host(ssl, host)) ? 0 : -ENOMEM;
}

int udmon_tls_is_alert(unsigned long error)
{
    return (ERR_GET_LIB(error) == ERR_LIB_SSL) && (ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET);
}

void udmon_tls_problem(const udmon_tls_t *tls, const SSL *ssl, char *text, size_t size)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);
    long verified = SSL_get_verify_result(ssl);

    udmon_debug("TLS: %s", (reason != NULL) ? reason : "failed");
    if (!tls->certificates) {
        snprintf(text, size, "%s", (verified != X509_V_OK) ?
                 "it shows a certificate, and we have only a secret" :
                 SSL_is_server(ssl) ? "it does not know the secret" :
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

int udmon_tls_open(udmon_tls_t *tls, const udmon_secret_t *secret, const udmon_options_t *options,
                   int server)
{
    int ret;

    memset(tls, 0, sizeof(*tls));
    LIST_INIT(&tls->unsent);
    tls->method = udmon_link_bio();
    tls->context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if ((tls->method == NULL) || (tls->context == NULL) ||
        !SSL_CTX_set_min_proto_version(tls->context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(tls->context, "TLS_AES_128_GCM_SHA256") ||
        !SSL_CTX_set_num_tickets(tls->context, 0)) {
        udmon_error("OpenSSL offers no TLS 1.3 with AES-128-GCM");
        udmon_tls_close(tls);
        return -EIO;
    }
    SSL_CTX_set_app_data(tls->context, tls);
    SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                       SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(tls->context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    ret = (options->ca_file != NULL) ? tls_set_certificates(tls, options) :
                                       tls_set_key(tls, secret, server);
    if (ret < 0) {
        udmon_tls_close(tls);
    }
    return ret;
}

void udmon_tls_close(udmon_tls_t *tls)
{
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    memset(tls, 0, sizeof(*tls));
}
