#include "auth.h"
#include "log.h"
#include "clock.h"

#include <stdbool.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NONCE_LIFE_NS UINT64_C(10000000000)

static int file_check(const char *what, const char *path, int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        udmon_error("%s %s: %s", what, path, strerror(errno));
        return -EACCES;
    }
    if (!S_ISREG(st.st_mode)) {
        udmon_error("%s %s is not a regular file", what, path);
        return -EACCES;
    }
    if (st.st_mode & (S_IRWXG | S_IRWXO)) {
        udmon_error("%s %s may be read by others: chmod 600 it", what, path);
        return -EACCES;
    }
    if ((st.st_uid != geteuid()) && (st.st_uid != 0)) {
        udmon_error("%s %s belongs to another user", what, path);
        return -EACCES;
    }
    return 0;
}

static int file_open(const char *what, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        udmon_error("cannot open %s %s: %s", what, path, strerror(errno));
        return -EACCES;
    }
    return fd;
}

int udmon_private_file(const char *what, const char *path)
{
    int ret, fd = file_open(what, path);

    if (fd < 0) {
        return fd;
    }
    ret = file_check(what, path, fd);
    close(fd);
    return ret;
}

static const char secret_prefix[] = "udmon-node:";

/* Recognizes the secret of a node. */
static int secret_parse(const char *path, struct udmon_secret *secret)
{
    const char *text = (const char *)secret->bytes, *name = text + sizeof(secret_prefix) - 1, *end;
    int length;

    if (strncmp(text, secret_prefix, sizeof(secret_prefix) - 1)) {
        return 0;
    }
    end = strrchr(name, ':');
    length = (end != NULL) ? (int)(end - name) : 0;
    if ((length <= 0) || (length > UDMON_NAME_MAX) ||
        (strspn(end + 1, "0123456789abcdef") != (2 * (size_t)UDMON_MAC_SIZE)) ||
        (text + secret->length != end + 1 + (2 * UDMON_MAC_SIZE))) {
        udmon_error("secret file %s begins as the secret of a node, and is not complete", path);
        return -EACCES;
    }
    snprintf(secret->node, sizeof(secret->node), "%.*s", length, name);
    return 0;
}

int udmon_secret_load(const char *path, struct udmon_secret *secret)
{
    ssize_t length;
    int fd, ret;

    memset(secret, 0, sizeof(*secret));
    if (path == NULL) {
        return 0;
    }
    fd = file_open("secret file", path);
    if (fd < 0) {
        return fd;
    }
    ret = file_check("secret file", path, fd);
    if (ret < 0) {
        goto out;
    }
    length = read(fd, secret->bytes, sizeof(secret->bytes));
    while ((length > 0) && (secret->bytes[length - 1] == '\n')) {
        secret->bytes[--length] = '\0'; /* an editor's newline at the end is not part of it */
    }
    if ((length <= 0) || (length == sizeof(secret->bytes))) {
        udmon_error("secret file %s is %s", path,
                    (length <= 0) ? "empty or unreadable" : "too long (1023 bytes at most)");
        ret = -EACCES;
        goto out;
    }
    secret->length = length;
    ret = secret_parse(path, secret);
out:
    close(fd);
    return ret;
}

int udmon_random(void *bytes, size_t length)
{
    if (getrandom(bytes, length, 0) != (ssize_t)length) {
        udmon_error("the kernel gives no random numbers: %s", strerror(errno));
        return -EIO;
    }
    return 0;
}

static int hmac(const void *key, size_t key_length, const char *role, const void *a,
                size_t a_length, const void *b, size_t b_length, uint8_t mac[UDMON_MAC_SIZE])
{
    uint8_t text[16 + (2 * UDMON_RPC_MAX)];
    size_t role_length = strlen(role);
    unsigned length = UDMON_MAC_SIZE;

    if ((role_length + a_length + b_length) > sizeof(text)) {
        return -EMSGSIZE;
    }
    memcpy(text, role, role_length);
    memcpy(text + role_length, a, a_length);
    if (b_length > 0) {
        memcpy(text + role_length + a_length, b, b_length);
    }
    if (HMAC(EVP_sha256(), key, key_length, text, role_length + a_length + b_length, mac,
             &length) == NULL) {
        udmon_error("libcrypto refuses HMAC-SHA256");
        return -EIO;
    }
    return 0;
}

int udmon_sign(const struct udmon_secret *secret, const char *role, const void *a, size_t a_length,
               const void *b, size_t b_length, uint8_t mac[UDMON_MAC_SIZE])
{
    return hmac(secret->bytes, secret->length, role, a, a_length, b, b_length, mac);
}

char *udmon_hex(const void *bytes, size_t length, char *text)
{
    const uint8_t *byte;

    for (byte = bytes; byte < ((const uint8_t *)bytes + length); ++byte) {
        text += snprintf(text, 3, "%02x", *byte);
    }
    return text;
}

int udmon_secret_of_node(const struct udmon_secret *shared, const char *node,
                         struct udmon_secret *secret)
{
    uint8_t mac[UDMON_MAC_SIZE];
    char *text = (char *)secret->bytes;
    int ret;

    if ((shared->length == 0) || (shared->node[0] != '\0') || (strlen(node) > UDMON_NAME_MAX)) {
        return -EINVAL;
    }
    ret = udmon_sign(shared, "node", node, strlen(node), NULL, 0, mac);
    if (ret < 0) {
        return ret;
    }
    OPENSSL_cleanse(secret, sizeof(*secret)); /* may be `shared` itself */
    snprintf(secret->node, sizeof(secret->node), "%s", node);
    text += snprintf(text, sizeof(secret->bytes), "%s%s:", secret_prefix, node);
    text = udmon_hex(mac, sizeof(mac), text);
    secret->length = text - (char *)secret->bytes;
    OPENSSL_cleanse(mac, sizeof(mac));
    return 0;
}

bool udmon_mac_equal(const uint8_t *a, const uint8_t *b, size_t length)
{
    return CRYPTO_memcmp(a, b, length) == 0;
}

int udmon_gate_open(struct udmon_gate *gate)
{
    memset(gate, 0, sizeof(*gate));
    return udmon_random(gate->key, sizeof(gate->key));
}

/* Eight bytes of time, eight of a signature over it and the client's nonce: nothing to remember. */
static int gate_nonce_at(struct udmon_gate *gate, uint64_t now,
                         const uint8_t client_nonce[UDMON_NONCE_SIZE],
                         uint8_t nonce[UDMON_NONCE_SIZE])
{
    uint8_t mac[UDMON_MAC_SIZE];
    uint64_t time = htole64(now);
    int ret;

    ret = hmac(gate->key, sizeof(gate->key), "nonce", &time, sizeof(time), client_nonce,
               UDMON_NONCE_SIZE, mac);
    memcpy(nonce, &time, sizeof(time));
    memcpy(nonce + sizeof(time), mac, UDMON_NONCE_SIZE - sizeof(time));
    return ret;
}

int udmon_gate_nonce(struct udmon_gate *gate, const uint8_t client_nonce[UDMON_NONCE_SIZE],
                     uint8_t nonce[UDMON_NONCE_SIZE])
{
    return gate_nonce_at(gate, udmon_now_ns(), client_nonce, nonce);
}

bool udmon_gate_check(struct udmon_gate *gate, const uint8_t client_nonce[UDMON_NONCE_SIZE],
                      const uint8_t nonce[UDMON_NONCE_SIZE])
{
    static struct udmon_log_limit full;
    uint64_t made, now = udmon_now_ns();
    uint8_t expected[UDMON_NONCE_SIZE];
    unsigned i;

    memcpy(&made, nonce, sizeof(made));
    made = le64toh(made);
    if ((made > now) || ((now - made) > NONCE_LIFE_NS) ||
        (gate_nonce_at(gate, made, client_nonce, expected) < 0) ||
        (CRYPTO_memcmp(expected, nonce, UDMON_NONCE_SIZE) != 0)) {
        return false;
    }
    for (i = 0; i < UDMON_USED_NONCES; ++i) {
        if ((gate->used[i].until_ns > now) &&
            !memcmp(gate->used[i].nonce, nonce, UDMON_NONCE_SIZE)) {
            return false;
        }
    }
    /*
     * The list has only unexpired nonces. Refusing is safer than forgetting a nonce that could be
     * replayed.
     */
    if (gate->used[gate->next_used].until_ns > now) {
        udmon_warn_limited(&full, "more than %d connections in 10 s: refusing one",
                           UDMON_USED_NONCES);
        return false;
    }
    memcpy(gate->used[gate->next_used].nonce, nonce, UDMON_NONCE_SIZE);
    gate->used[gate->next_used].until_ns = made + NONCE_LIFE_NS;
    gate->next_used = (gate->next_used + 1) % UDMON_USED_NONCES;
    return true;
}
