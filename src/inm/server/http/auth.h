/*
 * Who may do what: users with roles, passwords hashed by libsodium (Argon2id), sessions, limits.
 *
 * A session is a random number in a cookie. The CSRF token is a second random number. A page sends
 * the token in the header X-CSRF-Token with each request that changes data.
 */
#ifndef INM_AUTH_H
#define INM_AUTH_H

#include "inm/server/core/config.h"
#include "inm/server/core/history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTH_TOKEN 33 /* 16 random bytes in hexadecimal, and the end */

enum auth_role { ROLE_NONE = 0, ROLE_VIEWER = 1, ROLE_OPERATOR = 2, ROLE_ADMINISTRATOR = 3 };

struct auth_session {
    char token[AUTH_TOKEN], csrf[AUTH_TOKEN];
    char user[64];
    enum auth_role role;
    double expires;
};

struct auth *auth_open(struct history *history, const struct inm_config *config);
void auth_close(struct auth *auth);

/** Add a user, or change role and password. @return false: name or password not allowed. */
bool auth_set_user(struct auth *auth, const char *name, enum auth_role role, const char *password);
bool auth_delete_user(struct auth *auth, const char *name);

enum auth_login { LOGIN_OK, LOGIN_WRONG, LOGIN_TOO_MANY };
/** Check a password; takes as long for a name that there is not. */
enum auth_login auth_login(struct auth *auth, const char *name, const char *password,
                           const char *address, struct auth_session *session);
bool auth_find_session(struct auth *auth, const char *token, struct auth_session *session);
/** Makes the session of a user whom a trusted proxy names. @return false: no role, or no name. */
bool auth_proxy_session(struct auth *auth, const char *name, struct auth_session *session);
void auth_logout(struct auth *auth, const char *token);

/** Whether one more request from an address is within its rate. */
bool auth_rate(struct auth *auth, const char *address);

bool auth_equal(const char *a, const char *b);
const char *auth_role_name(enum auth_role role);
enum auth_role auth_role_parse(const char *name);

#endif
