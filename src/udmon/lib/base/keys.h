/*
 * The secrets of a client or a server. A server may have two shared secrets, so the nodes can
 * change to the new secret one by one. The secret of a node is HMAC-SHA256(shared secret, name of
 * the node): the server computes the secret of each name, and a node cannot compute the secret of
 * another node. Changed files are read again.
 */
#ifndef UDMON_KEYS_H
#define UDMON_KEYS_H

#include "auth.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* A file in the state of the last reading. */
struct udmon_file {
    char *path;  /* or NULL */
    ino_t inode; /* 0: the file was missing */
    struct timespec changed;
};

/* Tells the server which secret the client has. */
struct udmon_hint {
    uint8_t id[UDMON_HINT_SIZE];
    char node[UDMON_NAME_MAX + 1]; /* empty: a shared secret */
};

enum {
    KEYS_PRESENT,
    KEYS_OLD, /* of a server: accepted too */
    KEYS_MAX
};

struct udmon_keys {
    struct udmon_secret secrets[KEYS_MAX]; /* length 0: none */
    struct udmon_file files[KEYS_MAX];
    bool server;
    char name[UDMON_NAME_MAX + 1]; /* of a client, or empty: the secret of any node will do */
};

/** `path` NULL: a file that never changes. -ENOMEM. */
int udmon_file_watch(struct udmon_file *file, const char *path);
void udmon_file_forget(struct udmon_file *file);
/** Whether the file has changed since the last call. A missing file that existed has changed. */
bool udmon_file_changed(struct udmon_file *file);

/**
 * Read the files, NULL: no secret. -EACCES: a file cannot be used. A missing `old_file` is no error:
 * no old secret is accepted until the file exists.
 */
int udmon_keys_of_server(struct udmon_keys *keys, const char *file, const char *old_file);
/**
 * The secret may be the secret of a node. If the user has not `chosen` the name of the client, the
 * client takes the name of that node. -EACCES, also for the secret of another node than `name`.
 */
int udmon_keys_of_client(struct udmon_keys *keys, const char *file, char name[UDMON_NAME_MAX + 1],
                         bool chosen);
void udmon_keys_close(struct udmon_keys *keys);
/** Reads changed files again. If a new file is unusable, the earlier secret stays in use. */
void udmon_keys_refresh(struct udmon_keys *keys);

/** -EIO: libcrypto fails. */
int udmon_keys_hint(const struct udmon_secret *secret, struct udmon_hint *hint);
/** Copies the secret that a hint of a client names, or returns false. The caller erases the copy. */
bool udmon_keys_find(const struct udmon_keys *keys, const struct udmon_hint *hint,
                     struct udmon_secret *secret);
/** Copies the secret of the node that shared secret `index` makes; false if there is none. */
bool udmon_keys_of_node(const struct udmon_keys *keys, unsigned index, const char *node,
                        struct udmon_secret *secret);

#endif
