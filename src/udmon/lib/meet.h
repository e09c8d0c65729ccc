/* How client and server meet: making and checking the four messages of wire.h. */
#ifndef UDMON_MEET_H
#define UDMON_MEET_H

#include "base/keys.h"
#include "../include/udmon.h"
#include "base/wire.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    UDMON_HELLO_MAX = sizeof(struct udmon_hello) + sizeof(struct udmon_hello_hint) + UDMON_NAME_MAX
};

/* The parts of a checked AUTH; pointers lead into the message. */
struct udmon_auth_view {
    const struct udmon_auth *auth;
    const void *address;
    size_t address_length;
    char name[UDMON_NAME_MAX + 1];
    char transport[UDMON_TRANSPORT_SIZE + 1];
};

/** Returns the length. */
size_t udmon_meet_hello(const uint8_t client_nonce[UDMON_NONCE_SIZE], const char *transport,
                        const struct udmon_hint *hint, uint8_t message[UDMON_HELLO_MAX]);
/** Reads the hint of a HELLO. 1, 0: an earlier version gave no hint; -EPROTO: malformed. */
int udmon_meet_hint(const void *message, size_t length, struct udmon_hint *hint);
/** Returns the length, or -EMSGSIZE. */
long udmon_meet_auth(const struct udmon_secret *secret, const struct udmon_auth *fields,
                     const void *address, size_t address_length, const char *name, uint8_t *message,
                     size_t size);

/**
 * Returns the type of a message if its header is right and its length is sufficient for the type;
 * else 0.
 */
int udmon_meet_type(const void *message, size_t length);

/** Parses an AUTH. -EPROTO: malformed. Does not check the signature. */
int udmon_meet_auth_parse(const void *message, size_t length, struct udmon_auth_view *view);
/** Whether the signature is right. */
bool udmon_meet_auth_check(const struct udmon_secret *secret, const struct udmon_auth_view *view);

/**
 * Sign a CHALLENGE with its address, for a client's nonce, or check its signature. -EPROTO: it is
 * longer than `length`.
 */
int udmon_meet_challenge_sign(const struct udmon_secret *secret,
                              const uint8_t client_nonce[UDMON_NONCE_SIZE],
                              struct udmon_challenge *challenge);
int udmon_meet_challenge_check(const struct udmon_secret *secret,
                               const uint8_t client_nonce[UDMON_NONCE_SIZE],
                               const struct udmon_challenge *challenge, size_t length);

/** Sign a WELCOME that answers `auth`, or check its signature. */
int udmon_meet_welcome_sign(const struct udmon_secret *secret, const struct udmon_auth *auth,
                            struct udmon_welcome *welcome);
bool udmon_meet_welcome_check(const struct udmon_secret *secret, const struct udmon_auth *auth,
                              const struct udmon_welcome *welcome);

/** Write a response's header; returns its length. */
size_t udmon_meet_header(void *message, uint8_t type, uint8_t status);

/** Explains a response's status to a user. */
const char *udmon_meet_status_text(uint8_t status);

#endif
