#include "map.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Names and addresses are keys of the same tables: "lid 5", "gid fe80::1", "name node1". */
struct cm_map {
    GHashTable *names; /* address -> name of the host */
    GHashTable *ranks; /* host, or "host qp N" -> rank + 1; 0: several */
};

bool cm_address_parse(const char *text, struct cm_address *address)
{
    unsigned long lid;
    char *end;

    memset(address, 0, sizeof(*address));
    if (inet_pton(AF_INET6, text, address->gid) == 1) {
        address->has_gid = true;
        return true;
    }
    if (inet_pton(AF_INET, text, address->gid + 12) == 1) {
        address->gid[10] = address->gid[11] = 0xff;
        address->has_gid = true;
        return true;
    }
    memset(address->gid, 0, sizeof(address->gid));
    errno = 0;
    lid = strtoul(text, &end, 0);
    if (!g_ascii_isdigit(text[0]) || *end != '\0' || errno != 0 || lid > 0xffff) {
        return false;
    }
    address->lid = (uint16_t)lid;
    address->has_lid = true;
    return true;
}

char *cm_address_lid(const struct cm_address *address)
{
    return address->has_lid ? g_strdup_printf("%u", address->lid) : cm_address_ip(address);
}

char *cm_address_gid(const struct cm_address *address)
{
    char text[INET6_ADDRSTRLEN];

    if (!address->has_gid) {
        return g_strdup_printf("lid %u", address->lid);
    }
    inet_ntop(AF_INET6, address->gid, text, sizeof(text));
    return g_strdup(text);
}

char *cm_address_ip(const struct cm_address *address)
{
    char text[INET6_ADDRSTRLEN];

    if (address->has_gid && memcmp(address->gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0) {
        inet_ntop(AF_INET, address->gid + 12, text, sizeof(text));
        return g_strdup(text);
    }
    return cm_address_gid(address);
}

static char *lid_key(const struct cm_address *address)
{
    return g_strdup_printf("lid %u", address->lid);
}

static char *gid_key(const struct cm_address *address)
{
    char *gid = cm_address_gid(address), *key = g_strconcat("gid ", gid, NULL);

    g_free(gid);
    return key;
}

/* The keys under which an address may stand in the map; at most two, to be freed. */
static int address_keys(const struct cm_address *address, char *keys[2])
{
    int n = 0;

    if (address->has_gid) {
        keys[n++] = gid_key(address);
    }
    if (address->has_lid) {
        keys[n++] = lid_key(address);
    }
    return n;
}

static const char *add_host(struct cm_map *map, char **words, guint n)
{
    struct cm_address address;
    char *keys[2];
    guint i;

    if (n < 3) {
        return "host needs a name and at least one address";
    }
    for (i = 2; i < n; i++) {
        if (!cm_address_parse(words[i], &address)) {
            return "that is no LID, IP address or GID";
        }
        (void)address_keys(&address, keys);
        if (g_hash_table_contains(map->names, keys[0])) {
            g_free(keys[0]);
            return "the address has a name already";
        }
        g_hash_table_insert(map->names, keys[0], g_strdup(words[1]));
    }
    return NULL;
}

static bool parse_number(const char *text, unsigned long max, unsigned long *value_p)
{
    char *end;

    errno = 0;
    *value_p = strtoul(text, &end, 0);
    return g_ascii_isdigit(text[0]) && *end == '\0' && errno == 0 && *value_p <= max;
}

static void add_rank_key(struct cm_map *map, char *key, unsigned long rank)
{
    gpointer known, value = GUINT_TO_POINTER((guint)rank + 1);

    if (g_hash_table_lookup_extended(map->ranks, key, NULL, &known) && known != value) {
        value = GUINT_TO_POINTER(0);
    }
    g_hash_table_insert(map->ranks, key, value);
}

static const char *add_rank(struct cm_map *map, char **words, guint n)
{
    unsigned long rank, qpn;
    struct cm_address address;
    char *keys[1], *host;

    if (n != 3 && n != 5) {
        return "rank needs a number, a host and perhaps qp with its number";
    }
    if (!parse_number(words[1], (1 << 22) - 1, &rank)) {
        return "that is no rank";
    }
    if (n == 5 && (strcmp(words[3], "qp") != 0 || !parse_number(words[4], 0xffffff, &qpn))) {
        return "behind the host only qp and its number may stand";
    }
    if (cm_address_parse(words[2], &address)) {
        host = address.has_gid ? gid_key(&address) : lid_key(&address);
    } else {
        host = g_strconcat("name ", words[2], NULL);
    }
    keys[0] = n == 5 ? g_strdup_printf("%s qp %lu", host, qpn) : g_strdup(host);
    g_free(host);
    add_rank_key(map, keys[0], rank);
    return NULL;
}

static const char *add_line(struct cm_map *map, char *line)
{
    char **split, **words;
    const char *mistake = NULL;
    guint n = 0, i;

    if (strchr(line, '#') != NULL) {
        *strchr(line, '#') = '\0';
    }
    split = g_strsplit_set(line, " \t\r", -1);
    words = g_new0(char *, g_strv_length(split) + 1);
    for (i = 0; split[i] != NULL; i++) {
        if (split[i][0] != '\0') {
            words[n++] = split[i];
        }
    }
    if (n > 0 && strcmp(words[0], "host") == 0) {
        mistake = add_host(map, words, n);
    } else if (n > 0 && strcmp(words[0], "rank") == 0) {
        mistake = add_rank(map, words, n);
    } else if (n > 0) {
        mistake = "a line begins with host or rank";
    }
    g_free(words);
    g_strfreev(split);
    return mistake;
}

struct cm_map *cm_map_load(const char *name, char **error_p)
{
    struct cm_map *map;
    GError *error = NULL;
    const char *mistake = NULL;
    char *text, **lines;
    int i;

    if (!g_file_get_contents(name, &text, NULL, &error)) {
        *error_p = g_strdup(error->message);
        g_error_free(error);
        return NULL;
    }
    map = g_new0(struct cm_map, 1);
    map->names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    map->ranks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    lines = g_strsplit(text, "\n", -1);
    g_free(text);
    for (i = 0; lines[i] != NULL && mistake == NULL; i++) {
        mistake = add_line(map, lines[i]);
    }
    g_strfreev(lines);
    if (mistake != NULL) {
        *error_p = g_strdup_printf("%s:%d: %s", name, i, mistake);
        cm_map_free(map);
        return NULL;
    }
    return map;
}

const char *cm_map_host(const struct cm_map *map, const struct cm_address *address)
{
    const char *name = NULL;
    char *keys[2];
    int n, i;

    if (map == NULL) {
        return NULL;
    }
    n = address_keys(address, keys);
    for (i = 0; i < n; i++) {
        if (name == NULL) {
            name = g_hash_table_lookup(map->names, keys[i]);
        }
        g_free(keys[i]);
    }
    return name;
}

/* Returns the rank that the map gives to a host or to its queue pair; -3: the map names neither. */
static int64_t host_rank(const struct cm_map *map, const char *host, uint32_t qpn)
{
    char *key = g_strdup_printf("%s qp %u", host, qpn);
    gpointer value;
    bool found = g_hash_table_lookup_extended(map->ranks, key, NULL, &value) ||
                 g_hash_table_lookup_extended(map->ranks, host, NULL, &value);

    g_free(key);
    if (!found) {
        return -3;
    }
    return GPOINTER_TO_UINT(value) == 0 ? CM_RANK_SEVERAL : (int64_t)GPOINTER_TO_UINT(value) - 1;
}

int64_t cm_map_rank(const struct cm_map *map, const struct cm_address *address, uint32_t qpn)
{
    const char *name = cm_map_host(map, address);
    char *hosts[3];
    int64_t rank = -3;
    int n, i;

    if (map == NULL) {
        return CM_RANK_NONE;
    }
    n = address_keys(address, hosts);
    if (name != NULL) {
        hosts[n++] = g_strconcat("name ", name, NULL);
    }
    for (i = 0; i < n; i++) {
        if (rank == -3) {
            rank = host_rank(map, hosts[i], qpn);
        }
        g_free(hosts[i]);
    }
    return rank == -3 ? CM_RANK_NONE : rank;
}

bool cm_map_has_ranks(const struct cm_map *map)
{
    return map != NULL && g_hash_table_size(map->ranks) > 0;
}

void cm_map_free(struct cm_map *map)
{
    if (map != NULL) {
        g_hash_table_destroy(map->names);
        g_hash_table_destroy(map->ranks);
        g_free(map);
    }
}
