/*
 * Signatures with the shared secret. The server derives its nonce from the client's nonce and a
 * value that only the server knows. The client signs both nonces with the secret. The server signs
 * its answer. Without a secret the signatures use an empty key and prove nothing.
 */
#ifndef UDMON_AUTH_H
#define UDMON_AUTH_H

#include "wire.h"
#include "../../include/udmon.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    UDMON_SECRET_MAX = 1024,
    UDMON_USED_NONCES = 16384, /* in 10 s */
};

struct udmon_secret {
    uint8_t bytes[UDMON_SECRET_MAX];
    size_t length;                 /* 0: no secret */
    char node[UDMON_NAME_MAX + 1]; /* the secret is this node's; empty: the shared secret */
};

/* The server's side: the secret value behind its nonces, and the used nonces. */
struct udmon_gate {
    uint8_t key[32]; /* random, of this server's life */
    struct {
        uint8_t nonce[UDMON_NONCE_SIZE];
        uint64_t until_ns;
    } used[UDMON_USED_NONCES];
    unsigned next_used;
};

/** `path` NULL: no secret. -EACCES: missing, empty, too long, not a file, or others may read it. */
int udmon_secret_load(const char *path, struct udmon_secret *secret);

/** Writes 2 * `length` lower-case hexadecimal digits and a 0. Returns the end of the digits. */
char *udmon_hex(const void *bytes, size_t length, char *text);

/**
 * The secret of a node, as the text of its file: "udmon-node:NAME:" and HMAC-SHA256(shared, "node" +
 * NAME) in hexadecimal digits. -EINVAL: `shared` is empty or the secret of a node itself.
 */
int udmon_secret_of_node(const struct udmon_secret *shared, const char *node,
                         struct udmon_secret *secret);

/**
 * -EACCES, with a line in the log: `path`, called `what`, is missing, or other users may read it.
 */
int udmon_private_file(const char *what, const char *path);

/** Random bytes good for keys. */
int udmon_random(void *bytes, size_t length);

/** mac = HMAC-SHA256(secret, role + a + b); b may have length 0. */
int udmon_sign(const struct udmon_secret *secret, const char *role, const void *a, size_t a_length,
               const void *b, size_t b_length, uint8_t mac[UDMON_MAC_SIZE]);

/** In constant time. */
bool udmon_mac_equal(const uint8_t *a, const uint8_t *b, size_t length);

int udmon_gate_open(struct udmon_gate *gate);
int udmon_gate_nonce(struct udmon_gate *gate, const uint8_t client_nonce[UDMON_NONCE_SIZE],
                     uint8_t nonce[UDMON_NONCE_SIZE]);
/**
 * Whether the server has made the nonce for this client nonce, and the nonce is fresh and unused.
 */
bool udmon_gate_check(struct udmon_gate *gate, const uint8_t client_nonce[UDMON_NONCE_SIZE],
                      const uint8_t nonce[UDMON_NONCE_SIZE]);

#endif
