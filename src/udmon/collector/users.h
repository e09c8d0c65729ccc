/*
 * The users that may read over HTTP: names and hashed passwords of a file (Basic authentication). A
 * line is NAME:HASH, as htpasswd -B or mkpasswd write it; the hash is a hash of crypt(5).
 *
 * Computing a hash takes milliseconds on purpose. So earlier proofs are remembered, and new proofs
 * are checked outside of the HTTP thread.
 */
#ifndef UDMON_COLLECTOR_USERS_H
#define UDMON_COLLECTOR_USERS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { USERS_KNOWN = 64 };

enum users_answer { USERS_NO, USERS_YES, USERS_CHECK };

struct users {
    const char *file;
    pthread_mutex_t lock;
    char *text;                           /* of the file */
    unsigned char key[32];                /* random: of the digests below */
    unsigned char known[USERS_KNOWN][32]; /* digests of accepted headers, a ring */
    unsigned next;
};

/** On failure, a line in the log names the error in the file. */
int users_open(struct users *users, const char *file);
/** Read the file again; on failure the users stay. */
int users_reload(struct users *users);
void users_close(struct users *users);

/** Checks a header "Authorization" (or NULL) without computing a hash. */
enum users_answer users_know(struct users *users, const char *header);
/** Compute the hash; returns whether the header proves a user. May take long. */
int users_check(struct users *users, const char *header);

#endif
