#include "base/env_names.h"
#include "base/log.h"

#include <string.h>
#include <unistd.h>

#define PREFIX       "GLEX_"
#define NAME_MAX_LEN 64

static const char *const env_names[] = {
    "GLEX_CAPTURE",      "GLEX_COPY_HELP",    "GLEX_FABRIC",   "GLEX_FAULT",       "GLEX_HEAP_SIZE",
    "GLEX_INM",          "GLEX_INM_NIC",      "GLEX_LOG",      "GLEX_NET",         "GLEX_NET_KEY",
    "GLEX_NET_KEY_FILE", "GLEX_NET_MODULE",   "GLEX_NET_PORT", "GLEX_NET_TIMEOUT", "GLEX_NIC_ID",
    "GLEX_NUM_NICS",     "GLEX_PRIVATE_RDMA", "GLEX_REQUIRE",  "GLEX_SHM_DIR",     "GLEX_STATS",
    "GLEX_TRANSPORTS",   "GLEX_UCX_TLS",      "GLEX_UD_MON",
};

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Levenshtein distance: letters to insert, to remove or to replace. Both at most NAME_MAX_LEN. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[NAME_MAX_LEN + 1], i, j, diagonal, above;

    for (j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (i = 1; i <= a_len; i++) {
        diagonal = row[0];
        row[0] = i;
        for (j = 1; j <= b_len; j++) {
            above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

const char *glex_env_nearest_name(const char *name, size_t len)
{
    size_t least = len / 3 + 1, found, i;
    const char *nearest = NULL;

    if (len > NAME_MAX_LEN) {
        return NULL;
    }
    for (i = 0; i < sizeof(env_names) / sizeof(env_names[0]); i++) {
        found = distance(name, len, env_names[i], strlen(env_names[i]));
        if (found < least) {
            least = found;
            nearest = env_names[i];
        }
    }
    return nearest;
}

void glex_env_check_names(void)
{
    const char *nearest;
    char **entry;
    size_t len;

    for (entry = environ; entry != NULL && *entry != NULL; entry++) {
        len = strcspn(*entry, "=");
        if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0) {
            continue;
        }
        nearest = glex_env_nearest_name(*entry, len);
        if (nearest == NULL) {
            glex_warn("nothing reads the variable %.*s: docs/variables.md has all", (int)len,
                      *entry);
        } else if (strlen(nearest) != len || strncmp(nearest, *entry, len) != 0) {
            glex_warn("nothing reads the variable %.*s: is %s meant?", (int)len, *entry, nearest);
        }
    }
}
