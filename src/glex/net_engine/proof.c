/*
 * Proofs that a process knows the job's key: HMACs over both nonces of a connection.
 */
#include "net_engine/engine.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

bool engine_mac(const struct engine_conn *conn, char purpose, const void *data, size_t len,
                uint8_t mac[CONTROL_MAC])
{
    uint8_t text[1 + 2 * CONTROL_NONCE + sizeof(struct control_welcome)];
    size_t at = 0;

    text[at++] = (uint8_t)purpose;
    memcpy(text + at, conn->nonce_listen, CONTROL_NONCE);
    at += CONTROL_NONCE;
    memcpy(text + at, conn->nonce_connect, CONTROL_NONCE);
    at += CONTROL_NONCE;
    memcpy(text + at, data, len);
    /* With GLEX_NET_KEY=none the key is empty. Each process knows an empty key. */
    return HMAC(EVP_sha256(), conn->engine->params.key, (int)conn->engine->params.key_len, text,
                at + len, mac, NULL) != NULL;
}

bool engine_is_proof(const struct engine_conn *conn, char purpose, const void *data, size_t len,
                     const uint8_t mac[CONTROL_MAC])
{
    uint8_t right[CONTROL_MAC];

    return engine_mac(conn, purpose, data, len, right) &&
           CRYPTO_memcmp(right, mac, sizeof(right)) == 0;
}

bool engine_token_make(const struct engine_conn *conn, struct control_token *token)
{
    token->id = conn->peer_id;
    return engine_mac(conn, 'F', &token->id, sizeof(token->id), token->mac);
}

bool engine_token_check(const struct engine_conn *conn, const struct control_token *token)
{
    return engine_is_proof(conn, 'F', &token->id, sizeof(token->id), token->mac);
}
