/* Users and sessions; see auth.h. */
#include "auth.h"
#include "inm/server/core/base.h"

#include <ctype.h>
#include <pthread.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SESSIONS 256
#define MAX_TRIES    1024
#define TRY_SECONDS  60.0

/* What an address did lately: failed logins, and requests of this second. */
struct tries {
    char address[64];
    double begin;
    uint32_t failed;
    double second;
    uint32_t requests;
};

struct auth {
    struct history *history;
    const struct inm_config *config;
    pthread_mutex_t lock;
    pthread_mutex_t hashing; /* a hash takes 64 MB: one at a time */
    struct auth_session sessions[MAX_SESSIONS];
    struct tries tries[MAX_TRIES];
    uint32_t next_try;
    char nobody[crypto_pwhash_STRBYTES]; /* the hash of no password */
    uint8_t key[32];                     /* of CSRF tokens for users of a proxy */
};

struct auth *auth_open(struct history *history, const struct inm_config *config)
{
    struct auth *auth = calloc(1, sizeof(*auth));
    char random[AUTH_TOKEN];
    uint8_t bytes[16];

    if (auth == NULL || sodium_init() < 0) {
        free(auth);
        return NULL;
    }
    auth->history = history;
    auth->config = config;
    randombytes_buf(auth->key, sizeof(auth->key));
    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2hex(random, sizeof(random), bytes, sizeof(bytes));
    if (crypto_pwhash_str(auth->nobody, random, strlen(random), crypto_pwhash_OPSLIMIT_INTERACTIVE,
                          crypto_pwhash_MEMLIMIT_INTERACTIVE) != 0) {
        free(auth);
        return NULL;
    }
    pthread_mutex_init(&auth->lock, NULL);
    pthread_mutex_init(&auth->hashing, NULL);
    return auth;
}

void auth_close(struct auth *auth)
{
    pthread_mutex_destroy(&auth->lock);
    pthread_mutex_destroy(&auth->hashing);
    sodium_memzero(auth, sizeof(*auth));
    free(auth);
}

bool auth_equal(const char *a, const char *b)
{
    size_t len = strlen(a);

    return len == strlen(b) && len > 0 && sodium_memcmp(a, b, len) == 0;
}

const char *auth_role_name(enum auth_role role)
{
    static const char *const names[] = {"none", "viewer", "operator", "administrator"};

    return names[role];
}

enum auth_role auth_role_parse(const char *name)
{
    int i;

    for (i = ROLE_VIEWER; i <= ROLE_ADMINISTRATOR; i++) {
        if (strcmp(name, auth_role_name((enum auth_role)i)) == 0) {
            return (enum auth_role)i;
        }
    }
    return ROLE_NONE;
}

static bool name_ok(const char *name)
{
    size_t i;

    for (i = 0; name[i] != '\0'; i++) {
        if (!isalnum((unsigned char)name[i]) && strchr("._-", name[i]) == NULL) {
            return false;
        }
    }
    return i > 0 && i < 32;
}

/* Ends all sessions of a user who was deleted, or whose password or role has changed. */
static void end_sessions(struct auth *auth, const char *name)
{
    int i;

    pthread_mutex_lock(&auth->lock);
    for (i = 0; i < MAX_SESSIONS; i++) {
        if (strcmp(auth->sessions[i].user, name) == 0) {
            sodium_memzero(&auth->sessions[i], sizeof(auth->sessions[i]));
        }
    }
    pthread_mutex_unlock(&auth->lock);
}

bool auth_set_user(struct auth *auth, const char *name, enum auth_role role, const char *password)
{
    char hash[crypto_pwhash_STRBYTES];
    sqlite3_stmt *stmt;
    bool ok = false;
    int failed;

    if (!name_ok(name) || role == ROLE_NONE || strlen(password) < 8 || strlen(password) > 256) {
        return false;
    }
    pthread_mutex_lock(&auth->hashing);
    failed = crypto_pwhash_str(hash, password, strlen(password), crypto_pwhash_OPSLIMIT_INTERACTIVE,
                               crypto_pwhash_MEMLIMIT_INTERACTIVE);
    pthread_mutex_unlock(&auth->hashing);
    if (failed) {
        return false;
    }
    history_lock(auth->history);
    if (sqlite3_prepare_v2(history_db(auth->history), "INSERT OR REPLACE INTO users VALUES(?,?,?)",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
        sqlite3_bind_int(stmt, 2, role);
        sqlite3_bind_text(stmt, 3, hash, -1, SQLITE_STATIC);
        ok = sqlite3_step(stmt) == SQLITE_DONE;
        sqlite3_finalize(stmt);
    }
    history_unlock(auth->history);
    end_sessions(auth, name);
    return ok;
}

bool auth_delete_user(struct auth *auth, const char *name)
{
    sqlite3_stmt *stmt;
    bool ok = false;

    history_lock(auth->history);
    if (sqlite3_prepare_v2(history_db(auth->history), "DELETE FROM users WHERE name = ?", -1, &stmt,
                           NULL) == SQLITE_OK) {
        sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
        ok = sqlite3_step(stmt) == SQLITE_DONE && sqlite3_changes(history_db(auth->history)) == 1;
        sqlite3_finalize(stmt);
    }
    history_unlock(auth->history);
    end_sessions(auth, name);
    return ok;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* With the lock held. The slot that was made first is used again where all are taken. */
static struct tries *tries_of(struct auth *auth, const char *address)
{
    struct tries *t;
    int i;

    for (i = 0; i < MAX_TRIES && auth->tries[i].address[0] != '\0'; i++) {
        if (strcmp(auth->tries[i].address, address) == 0) {
            return &auth->tries[i];
        }
    }
    t = &auth->tries[auth->next_try++ % MAX_TRIES];
    *t = (struct tries){.begin = 0};
    snprintf(t->address, sizeof(t->address), "%s", address);
    return t;
}

bool auth_rate(struct auth *auth, const char *address)
{
    double now = now_seconds();
    struct tries *t;
    bool ok;

    pthread_mutex_lock(&auth->lock);
    t = tries_of(auth, address);
    if (now - t->second >= 1 || now < t->second) {
        t->second = now;
        t->requests = 0;
    }
    ok = t->requests++ < auth->config->rate_per_second;
    pthread_mutex_unlock(&auth->lock);
    return ok;
}

/* Counts the try, before it is known how it ends: tries at the same time do not slip through. */
static bool may_try(struct auth *auth, const char *address)
{
    double now = now_seconds();
    struct tries *t;
    bool ok;

    pthread_mutex_lock(&auth->lock);
    t = tries_of(auth, address);
    if (now - t->begin > TRY_SECONDS) {
        t->begin = now;
        t->failed = 0;
    }
    ok = t->failed < auth->config->login_tries;
    t->failed += ok;
    pthread_mutex_unlock(&auth->lock);
    return ok;
}

static void try_succeeded(struct auth *auth, const char *address)
{
    pthread_mutex_lock(&auth->lock);
    tries_of(auth, address)->failed = 0;
    pthread_mutex_unlock(&auth->lock);
}

/* ---- sessions -------------------------------------------------------------------------------- */

static enum auth_role find_user(struct auth *auth, const char *name,
                                char hash[crypto_pwhash_STRBYTES])
{
    enum auth_role role = ROLE_NONE;
    sqlite3_stmt *stmt;

    snprintf(hash, crypto_pwhash_STRBYTES, "%s", auth->nobody);
    history_lock(auth->history);
    if (sqlite3_prepare_v2(history_db(auth->history), "SELECT role, hash FROM users WHERE name = ?",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
        if (sqlite3_step(stmt) == SQLITE_ROW) {
            role = (enum auth_role)(sqlite3_column_int(stmt, 0) & 3);
            snprintf(hash, crypto_pwhash_STRBYTES, "%s",
                     (const char *)sqlite3_column_text(stmt, 1));
        }
        sqlite3_finalize(stmt);
    }
    history_unlock(auth->history);
    return role;
}

static void new_token(char token[AUTH_TOKEN])
{
    uint8_t bytes[16];

    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2hex(token, AUTH_TOKEN, bytes, sizeof(bytes));
}

static void new_session(struct auth *auth, const char *name, enum auth_role role,
                        struct auth_session *session)
{
    double now = now_seconds();
    int i, slot = 0;

    memset(session, 0, sizeof(*session));
    new_token(session->token);
    new_token(session->csrf);
    snprintf(session->user, sizeof(session->user), "%s", name);
    session->role = role;
    session->expires = now + auth->config->session_minutes * 60.0;
    pthread_mutex_lock(&auth->lock);
    for (i = 0; i < MAX_SESSIONS; i++) { /* a free slot, or the session that would end first */
        if (auth->sessions[i].expires < auth->sessions[slot].expires) {
            slot = i;
        }
    }
    auth->sessions[slot] = *session;
    pthread_mutex_unlock(&auth->lock);
}

enum auth_login auth_login(struct auth *auth, const char *name, const char *password,
                           const char *address, struct auth_session *session)
{
    char hash[crypto_pwhash_STRBYTES];
    enum auth_role role;
    bool ok;

    if (!may_try(auth, address)) {
        return LOGIN_TOO_MANY;
    }
    role = find_user(auth, name, hash);
    pthread_mutex_lock(&auth->hashing);
    ok = crypto_pwhash_str_verify(hash, password, strlen(password)) == 0 && role != ROLE_NONE;
    pthread_mutex_unlock(&auth->hashing);
    if (!ok) {
        return LOGIN_WRONG;
    }
    try_succeeded(auth, address);
    new_session(auth, name, role, session);
    return LOGIN_OK;
}

bool auth_find_session(struct auth *auth, const char *token, struct auth_session *session)
{
    double now = now_seconds();
    bool found = false;
    int i;

    pthread_mutex_lock(&auth->lock);
    for (i = 0; i < MAX_SESSIONS && !found; i++) {
        found = auth->sessions[i].expires > now && auth_equal(auth->sessions[i].token, token);
        if (found) {
            *session = auth->sessions[i];
        }
    }
    pthread_mutex_unlock(&auth->lock);
    return found;
}

/* The CSRF token is a hash of the name under a key of this process: nothing has to be stored. */
bool auth_proxy_session(struct auth *auth, const char *name, struct auth_session *session)
{
    char hash[crypto_pwhash_STRBYTES];
    uint8_t csrf[16];
    size_t len = strlen(name);

    if (len == 0 || len >= sizeof(session->user) ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@+") !=
            len) {
        return false;
    }
    memset(session, 0, sizeof(*session));
    session->role = find_user(auth, name, hash);
    if (session->role == ROLE_NONE) {
        session->role = auth_role_parse(auth->config->user_role);
    }
    crypto_generichash(csrf, sizeof(csrf), (const uint8_t *)name, len, auth->key,
                       sizeof(auth->key));
    sodium_bin2hex(session->csrf, sizeof(session->csrf), csrf, sizeof(csrf));
    snprintf(session->user, sizeof(session->user), "%s", name);
    return session->role != ROLE_NONE;
}

void auth_logout(struct auth *auth, const char *token)
{
    int i;

    pthread_mutex_lock(&auth->lock);
    for (i = 0; i < MAX_SESSIONS; i++) {
        if (auth_equal(auth->sessions[i].token, token)) {
            sodium_memzero(&auth->sessions[i], sizeof(auth->sessions[i]));
        }
    }
    pthread_mutex_unlock(&auth->lock);
}
