#include "users.h"
#include "../lib/base/log.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <crypt.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_MAX = 1 << 20, HEADER_MAX = 1024 };

/* Whether the method of a hash costs an attacker time: bcrypt, yescrypt, scrypt, SHA-2. */
static bool users_strong(const char *hash)
{
    static const char *const methods[] = {"$2a$", "$2b$", "$2y$", "$y$",
                                          "$gy$", "$7$",  "$6$",  "$5$"};
    size_t i;

    for (i = 0; i < (sizeof(methods) / sizeof(methods[0])); ++i) {
        if (!strncmp(hash, methods[i], strlen(methods[i]))) {
            return true;
        }
    }
    return false;
}

/* Checks each line; the line number of the first bad one, or 0. */
static int users_bad_line(const char *text)
{
    const char *line = text, *colon, *end;
    char hash[CRYPT_OUTPUT_SIZE];
    int number = 1;

    for (; *line != '\0'; line = end + (*end != '\0'), ++number) {
        end = line + strcspn(line, "\n");
        colon = memchr(line, ':', end - line);
        if ((end == line) || (*line == '#')) {
            continue;
        }
        if ((colon == NULL) || (colon == line) || ((size_t)(end - colon) > sizeof(hash))) {
            return number;
        }
        snprintf(hash, sizeof(hash), "%.*s", (int)(end - colon - 1), colon + 1);
        if (!users_strong(hash)) {
            return number;
        }
    }
    return 0;
}

static int users_read(const char *path, char **text_p)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(FILE_MAX + 1);
    size_t length = 0;
    int ret = 0, line;

    if ((file == NULL) || (text == NULL)) {
        ret = -errno;
        udmon_error("cannot read the users of HTTP in %s: %s", path, strerror(errno));
    } else {
        length = fread(text, 1, FILE_MAX, file);
        text[length] = '\0';
        line = users_bad_line(text);
        if (line > 0) {
            udmon_error(
                "%s:%d: this is not NAME:HASH with a strong hash (make it with htpasswd -nB "
                "NAME, or mkpasswd)",
                path, line);
            ret = -EINVAL;
        } else if (strchr(text, ':') == NULL) {
            udmon_error("%s names no user of HTTP", path);
            ret = -EINVAL;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    if (ret < 0) {
        free(text);
    } else {
        *text_p = text;
    }
    return ret;
}

int users_open(struct users *users, const char *file)
{
    memset(users, 0, sizeof(*users));
    users->file = file;
    if (RAND_bytes(users->key, sizeof(users->key)) != 1) {
        udmon_error("no random numbers%s", "");
        return -EIO;
    }
    pthread_mutex_init(&users->lock, NULL);
    return users_read(file, &users->text);
}

int users_reload(struct users *users)
{
    char *text, *old;
    int ret = users_read(users->file, &text);

    if (ret < 0) {
        return ret;
    }
    pthread_mutex_lock(&users->lock);
    old = users->text;
    users->text = text;
    memset(users->known, 0, sizeof(users->known)); /* forget proofs with the old file */
    pthread_mutex_unlock(&users->lock);
    free(old);
    return 0;
}

void users_close(struct users *users)
{
    pthread_mutex_destroy(&users->lock);
    free(users->text);
}

static void users_digest(const struct users *users, const char *header, unsigned char digest[32])
{
    HMAC(EVP_sha256(), users->key, sizeof(users->key), (const unsigned char *)header,
         strlen(header), digest, NULL);
}

enum users_answer users_know(struct users *users, const char *header)
{
    enum users_answer answer = USERS_CHECK;
    unsigned char digest[32];
    unsigned i;

    if ((header == NULL) || strncasecmp(header, "Basic ", 6) || (strlen(header) > HEADER_MAX)) {
        return USERS_NO;
    }
    users_digest(users, header, digest);
    pthread_mutex_lock(&users->lock);
    for (i = 0; i < USERS_KNOWN; ++i) {
        if (CRYPTO_memcmp(users->known[i], digest, sizeof(digest)) == 0) {
            answer = USERS_YES;
        }
    }
    pthread_mutex_unlock(&users->lock);
    return answer;
}

/* "Basic BASE64" becomes NAME:PASSWORD. */
static int users_decode(const char *header, char text[HEADER_MAX])
{
    const char *base64 = header + 6 + strspn(header + 6, " ");
    size_t length = strlen(base64), padding = 0;
    int decoded;

    while ((padding < length) && (base64[length - 1 - padding] == '=')) {
        ++padding;
    }
    decoded = EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)base64, (int)length);
    if ((decoded < 0) || ((size_t)decoded < padding)) {
        return -EINVAL;
    }
    text[decoded - padding] = '\0';
    return (strlen(text) == decoded - padding) ? 0 : -EINVAL;
}

/* Returns the hash of a user, or a dummy hash: an unknown name takes as long as a known name. */
static int users_hash(struct users *users, const char *name, size_t length,
                      char hash[CRYPT_OUTPUT_SIZE])
{
    const char *line, *colon, *end;
    int found = 0;

    pthread_mutex_lock(&users->lock);
    for (line = users->text; *line != '\0'; line = end + (*end != '\0')) {
        end = line + strcspn(line, "\n");
        colon = memchr(line, ':', end - line);
        if ((colon == NULL) || (*line == '#')) {
            continue;
        }
        if (!found) {
            found = ((size_t)(colon - line) == length) && !strncmp(line, name, length);
            snprintf(hash, CRYPT_OUTPUT_SIZE, "%.*s", (int)(end - colon - 1), colon + 1);
        }
    }
    pthread_mutex_unlock(&users->lock);
    return found;
}

int users_check(struct users *users, const char *header)
{
    char text[HEADER_MAX], hash[CRYPT_OUTPUT_SIZE], *colon, *made;
    struct crypt_data *data = calloc(1, sizeof(*data));
    unsigned char digest[32];
    int good = 0;

    if ((data != NULL) && (users_decode(header, text) == 0) &&
        ((colon = strchr(text, ':')) != NULL)) {
        good = users_hash(users, text, colon - text, hash);
        made = crypt_rn(colon + 1, hash, data, sizeof(*data));
        good = (made != NULL) && (strlen(made) == strlen(hash)) &&
               (CRYPTO_memcmp(made, hash, strlen(hash)) == 0) && good;
        OPENSSL_cleanse(text, sizeof(text));
    }
    free(data);
    if (good) {
        users_digest(users, header, digest);
        pthread_mutex_lock(&users->lock);
        memcpy(users->known[users->next++ % USERS_KNOWN], digest, sizeof(digest));
        pthread_mutex_unlock(&users->lock);
    }
    return good;
}
