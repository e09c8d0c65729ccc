/* How client and server meet: making and checking the four messages of wire.h. */
#ifndef UDMON_MEET_H
#define UDMON_MEET_H

#include "base/auth.h"
#include "../include/udmon.h"
#include "base/wire.h"

#include <stddef.h>

/* The parts of a checked AUTH; pointers lead into the message. */
typedef struct udmon_auth_view {
    const udmon_auth_t *auth;
    const void *address;
    size_t address_length;
    char name[UDMON_NAME_MAX + 1];
    char transport[UDMON_TRANSPORT_SIZE + 1];
} udmon_auth_view_t;

size_t udmon_meet_hello(const uint8_t client_nonce[UDMON_NONCE_SIZE], const char *transport,
                        udmon_hello_t *hello);
/* Returns the length, or -EMSGSIZE. */
long udmon_meet_auth(const udmon_secret_t *secret, const udmon_auth_t *fields, const void *address,
                     size_t address_length, const char *name, uint8_t *message, size_t size);

/*
 * Returns the type of a message if its header is right and its length is sufficient for the type;
 * else 0.
 */
int udmon_meet_type(const void *message, size_t length);

/* Parses an AUTH. -EPROTO: malformed. Does not check the signature. */
int udmon_meet_auth_parse(const void *message, size_t length, udmon_auth_view_t *view);
/* Whether the signature is right. */
int udmon_meet_auth_check(const udmon_secret_t *secret, const udmon_auth_view_t *view);

/*
 * Sign a CHALLENGE with its address, for a client's nonce, or check its signature. -EPROTO: it is
 * longer than `length`.
 */
int udmon_meet_challenge_sign(const udmon_secret_t *secret,
                              const uint8_t client_nonce[UDMON_NONCE_SIZE],
                              udmon_challenge_t *challenge);
int udmon_meet_challenge_check(const udmon_secret_t *secret,
                               const uint8_t client_nonce[UDMON_NONCE_SIZE],
                               const udmon_challenge_t *challenge, size_t length);

/* Sign a WELCOME that answers `auth`, or check its signature. */
int udmon_meet_welcome_sign(const udmon_secret_t *secret, const udmon_auth_t *auth,
                            udmon_welcome_t *welcome);
int udmon_meet_welcome_check(const udmon_secret_t *secret, const udmon_auth_t *auth,
                             const udmon_welcome_t *welcome);

/* Write a response's header; returns its length. */
size_t udmon_meet_header(void *message, uint8_t type, uint8_t status);

/* Explains a response's status to a user. */
const char *udmon_meet_status_text(uint8_t status);

#endif
