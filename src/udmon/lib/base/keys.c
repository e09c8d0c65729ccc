#include "keys.h"
#include "log.h"

#include <openssl/crypto.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int udmon_file_watch(struct udmon_file *file, const char *path)
{
    memset(file, 0, sizeof(*file));
    if (path == NULL) {
        return 0;
    }
    file->path = strdup(path);
    if (file->path == NULL) {
        return -ENOMEM;
    }
    udmon_file_changed(file);
    return 0;
}

void udmon_file_forget(struct udmon_file *file)
{
    free(file->path);
    memset(file, 0, sizeof(*file));
}

bool udmon_file_changed(struct udmon_file *file)
{
    struct stat status;

    if (file->path == NULL) {
        return false;
    }
    if (stat(file->path, &status) < 0) {
        if (errno != ENOENT) {
            return false;
        }
        memset(&status, 0, sizeof(status));
    }
    /* The time of the inode's change: a file can become usable by chmod or chown. */
    if ((file->inode == status.st_ino) && (file->changed.tv_sec == status.st_ctim.tv_sec) &&
        (file->changed.tv_nsec == status.st_ctim.tv_nsec)) {
        return false;
    }
    file->inode = status.st_ino;
    file->changed = status.st_ctim;
    return true;
}

/* Whether the secret can be used by this client or server. */
static int keys_check(const struct udmon_keys *keys, const char *path,
                      const struct udmon_secret *secret)
{
    if (secret->node[0] == '\0') {
        return 0;
    }
    if (keys->server) {
        udmon_error("secret file %s has the secret of node %s: a server needs the secret from "
                    "which the secrets of the nodes are made",
                    path, secret->node);
        return -EACCES;
    }
    if ((keys->name[0] != '\0') && strcmp(keys->name, secret->node)) {
        udmon_error("secret file %s has the secret of node %s, and our name is %s", path,
                    secret->node, keys->name);
        return -EACCES;
    }
    return 0;
}

static int keys_load(struct udmon_keys *keys, int index)
{
    const struct udmon_file *file = &keys->files[index];
    struct udmon_secret secret = {.length = 0};
    int ret = 0;

    /* Without the file of the old secret, no old secret is accepted. */
    if ((index != KEYS_OLD) || (file->inode != 0)) {
        ret = udmon_secret_load(file->path, &secret);
    }
    if (ret == 0) {
        ret = keys_check(keys, file->path, &secret);
    }
    if (ret == 0) {
        keys->secrets[index] = secret;
    }
    OPENSSL_cleanse(&secret, sizeof(secret));
    return ret;
}

static int keys_open(struct udmon_keys *keys, const char *file, const char *old_file)
{
    int i, ret;

    ret = udmon_file_watch(&keys->files[KEYS_PRESENT], file);
    if (ret == 0) {
        ret = udmon_file_watch(&keys->files[KEYS_OLD], old_file);
    }
    for (i = 0; (i < KEYS_MAX) && (ret == 0); ++i) {
        ret = keys_load(keys, i);
    }
    if (ret < 0) {
        udmon_keys_close(keys);
    }
    return ret;
}

int udmon_keys_of_server(struct udmon_keys *keys, const char *file, const char *old_file)
{
    memset(keys, 0, sizeof(*keys));
    keys->server = true;
    return keys_open(keys, file, old_file);
}

int udmon_keys_of_client(struct udmon_keys *keys, const char *file, char name[UDMON_NAME_MAX + 1],
                         bool chosen)
{
    int ret;

    memset(keys, 0, sizeof(*keys));
    snprintf(keys->name, sizeof(keys->name), "%s", chosen ? name : "");
    ret = keys_open(keys, file, NULL);
    if (ret < 0) {
        return ret;
    }
    if (keys->secrets[KEYS_PRESENT].node[0] != '\0') {
        snprintf(name, UDMON_NAME_MAX + 1, "%s", keys->secrets[KEYS_PRESENT].node);
    }
    snprintf(keys->name, sizeof(keys->name), "%s", name);
    return 0;
}

void udmon_keys_close(struct udmon_keys *keys)
{
    int i;

    for (i = 0; i < KEYS_MAX; ++i) {
        udmon_file_forget(&keys->files[i]);
    }
    OPENSSL_cleanse(keys, sizeof(*keys));
}

void udmon_keys_refresh(struct udmon_keys *keys)
{
    int i;

    for (i = 0; i < KEYS_MAX; ++i) {
        if (!udmon_file_changed(&keys->files[i])) {
            continue;
        }
        if (keys_load(keys, i) < 0) {
            udmon_warn("the secret that was read before stays in use");
        } else {
            udmon_info("secret file %s has changed and was read anew", keys->files[i].path);
        }
    }
}

/*
 * The identifier of a secret travels in clear. An eavesdropper could use the identifier to test
 * guesses of the secret. The handshake of TLS allows the same test: it contains an HMAC with the
 * secret.
 */
int udmon_keys_hint(const struct udmon_secret *secret, struct udmon_hint *hint)
{
    uint8_t mac[UDMON_MAC_SIZE];
    int ret = udmon_sign(secret, "identifier", "", 0, NULL, 0, mac);

    memset(hint, 0, sizeof(*hint));
    memcpy(hint->id, mac, sizeof(hint->id));
    snprintf(hint->node, sizeof(hint->node), "%s", secret->node);
    return ret;
}

static bool keys_has_id(const struct udmon_secret *secret, const struct udmon_hint *hint)
{
    struct udmon_hint own;

    return (udmon_keys_hint(secret, &own) == 0) &&
           udmon_mac_equal(own.id, hint->id, sizeof(own.id));
}

bool udmon_keys_of_node(const struct udmon_keys *keys, unsigned index, const char *node,
                        struct udmon_secret *secret)
{
    return (keys->secrets[index].length > 0) &&
           (udmon_secret_of_node(&keys->secrets[index], node, secret) == 0);
}

bool udmon_keys_find(const struct udmon_keys *keys, const struct udmon_hint *hint,
                     struct udmon_secret *secret)
{
    unsigned i;

    for (i = 0; i < KEYS_MAX; ++i) {
        if ((i == KEYS_OLD) && (keys->secrets[i].length == 0)) {
            continue; /* an empty old secret is no secret */
        }
        *secret = keys->secrets[i];
        if (((hint->node[0] == '\0') || udmon_keys_of_node(keys, i, hint->node, secret)) &&
            keys_has_id(secret, hint)) {
            return true;
        }
    }
    return false;
}
