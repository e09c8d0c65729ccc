#include "clock.h"

#include "packet.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALL_KEYS = 200000,  /* the first packets of a file, of which all are remembered */
    SAMPLE = 16,        /* of later packets, 1 of SAMPLE is remembered; all files remember the same
                         * packets */
    MIN_COMMON = 8,     /* common packets that a difference of two clocks needs */
    AGREE_NS = 1000000, /* from the median */
    AGREE_PERCENT = 80
};
#define MAX_AHEAD_NS (INT64_C(10) * 1000000000)

/* A packet that other files may have, too. */
struct key {
    uint64_t hash;
    uint64_t time_ns;
};

struct cm_look {
    bool with_keys;
    GArray *keys;
    uint64_t earliest_ns;
};

struct cm_look *cm_look_new(bool keys)
{
    struct cm_look *look = g_new0(struct cm_look, 1);

    look->with_keys = keys;
    look->keys = g_array_new(FALSE, FALSE, sizeof(struct key));
    look->earliest_ns = UINT64_MAX;
    return look;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint64_t hash_address(uint64_t hash, const struct cm_address *address)
{
    uint64_t words[2];

    memcpy(words, address->gid, 16);
    return mix(mix(mix(hash, words[0]), words[1]), address->lid);
}

static uint64_t hash_packet(const struct cm_packet *packet)
{
    uint64_t hash = mix(1, (uint64_t)packet->dst_qpn << 32 | packet->src_qpn);

    hash = mix(hash, (uint64_t)packet->psn << 32 | packet->eec);
    hash = mix(hash, (uint64_t)packet->transport << 40 | (uint64_t)packet->operation << 32 |
                         packet->payload);
    return hash_address(hash_address(hash, &packet->src), &packet->dst);
}

void cm_look_add(struct cm_look *look, const struct cm_frame *frame)
{
    struct cm_packet packet;
    struct key key;

    look->earliest_ns = MIN(look->earliest_ns, frame->time_ns);
    if (!look->with_keys) {
        return;
    }
    cm_packet_parse(&packet, frame->link_type, frame->data, frame->captured, frame->wire);
    if (packet.kind == CM_KIND_OTHER || packet.kind == CM_KIND_RAW || packet.cut ||
        packet.fragment) {
        return;
    }
    key.hash = hash_packet(&packet);
    key.time_ns = frame->time_ns;
    if (look->keys->len < ALL_KEYS || key.hash % SAMPLE == 0) {
        g_array_append_val(look->keys, key);
    }
}

uint64_t cm_look_earliest(const struct cm_look *look)
{
    return look->earliest_ns;
}

/* ---- groups of files whose clocks can be compared ----------------------------------------------
 */

/* The file that had a packet first, and its time. */
struct first {
    int file;
    uint64_t time_ns;
};

struct group {
    int parent;
    int64_t ahead_ns; /* of the parent's clock */
};

static int find_group(struct group *groups, int i, int64_t *ahead_p)
{
    int64_t ahead = 0;

    while (groups[i].parent != i) {
        ahead += groups[i].ahead_ns;
        i = groups[i].parent;
    }
    *ahead_p = ahead;
    return i;
}

/* The clock of file `b` is ahead of that of file `a`. */
static void join_groups(struct group *groups, int a, int b, int64_t ahead_ns)
{
    int64_t of_a, of_b;
    int root_a = find_group(groups, a, &of_a), root_b = find_group(groups, b, &of_b);

    if (root_a < root_b) {
        groups[root_b] = (struct group){root_a, ahead_ns + of_a - of_b};
    } else if (root_b < root_a) {
        groups[root_a] = (struct group){root_b, of_b - ahead_ns - of_a};
    }
}

static gint compare_differences(gconstpointer a, gconstpointer b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x == y ? 0 : x < y ? -1 : 1;
}

/* Whether the times of common packets tell the difference of two clocks. */
static bool median_of(GArray *differences, int64_t *median_p)
{
    guint n = differences->len, agree = 0, i;
    int64_t median;

    g_array_sort(differences, compare_differences);
    *median_p = median = g_array_index(differences, int64_t, n / 2);
    for (i = 0; i < n; i++) {
        agree += llabs(g_array_index(differences, int64_t, i) - median) <= AGREE_NS;
    }
    return 100 * agree >= AGREE_PERCENT * n && llabs(median) <= MAX_AHEAD_NS;
}

static guint key_hash(gconstpointer key)
{
    return (guint)(GPOINTER_TO_SIZE(key) >> 32);
}

/* Times of a file minus those of earlier files, by the earlier file. Each packet counts once. */
static void find_differences(GHashTable *firsts, const struct cm_look *look, int file,
                             GArray **differences)
{
    guint i;

    for (i = 0; i < look->keys->len; i++) {
        const struct key *key = &g_array_index(look->keys, struct key, i);
        struct first *first = g_hash_table_lookup(firsts, GSIZE_TO_POINTER(key->hash));
        int64_t difference;

        if (first == NULL) {
            first = g_new(struct first, 1);
            *first = (struct first){file, key->time_ns};
            g_hash_table_insert(firsts, GSIZE_TO_POINTER(key->hash), first);
        } else if (first->file != file) {
            difference = (int64_t)(key->time_ns - first->time_ns);
            if (differences[first->file] == NULL) {
                differences[first->file] = g_array_new(FALSE, FALSE, sizeof(int64_t));
            }
            g_array_append_val(differences[first->file], difference);
        }
    }
}

static void compare_file(GHashTable *firsts, const struct cm_look *look, int file,
                         struct group *groups, struct cm_clock *clocks)
{
    GArray **differences = g_new0(GArray *, file + 1);
    int64_t ahead;
    int other;

    find_differences(firsts, look, file, differences);
    for (other = 0; other < file; other++) {
        if (differences[other] == NULL) {
            continue;
        }
        clocks[file].common += differences[other]->len;
        if (differences[other]->len >= MIN_COMMON) {
            if (median_of(differences[other], &ahead)) {
                join_groups(groups, other, file, ahead);
                clocks[file].corrected = clocks[other].corrected = true;
            } else if (!clocks[file].corrected) {
                clocks[file].ahead_ns = ahead;
            }
        }
        g_array_free(differences[other], TRUE);
    }
    g_free(differences);
}

void cm_clocks_compare(struct cm_look *const *looks, struct cm_clock *clocks, int num)
{
    GHashTable *firsts = g_hash_table_new_full(key_hash, g_direct_equal, NULL, g_free);
    struct group *groups = g_new0(struct group, num + 1);
    int i;

    for (i = 0; i < num; i++) {
        groups[i].parent = i;
        compare_file(firsts, looks[i], i, groups, clocks);
    }
    for (i = 0; i < num; i++) {
        if (clocks[i].corrected) {
            (void)find_group(groups, i, &clocks[i].ahead_ns);
        }
    }
    g_free(groups);
    g_hash_table_destroy(firsts);
}

void cm_look_free(struct cm_look *look)
{
    g_array_free(look->keys, TRUE);
    g_free(look);
}
