/* Do the configurations of the clusters of one fabric fit together? */
#include "config.h"

#include <stdlib.h>
#include <string.h>

struct cross {
    struct mcsm_config *const *configs;
    size_t count;
    FILE *err;
    int found;
};

#define CONTRADICTION(cross, ...) (fprintf((cross)->err, __VA_ARGS__), (cross)->found++)

static int find_cluster(const struct cross *cross, const char *name)
{
    for (size_t i = 0; i < cross->count; i++) {
        if (strcmp(cross->configs[i]->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static const struct mcsm_border *find_border(const struct mcsm_config *config, uint64_t guid,
                                             uint8_t port)
{
    for (size_t i = 0; i < config->border_count; i++) {
        if (config->borders[i].guid == guid && config->borders[i].port == port) {
            return &config->borders[i];
        }
    }
    return NULL;
}

/* The neighbour's configuration must name the same link. */
static void check_border(struct cross *cross, const struct mcsm_config *config,
                         const struct mcsm_border *border)
{
    const char *name = config->neighbours[border->neighbour].name;
    int other = find_cluster(cross, name);
    const struct mcsm_border *back;

    if (other < 0) {
        CONTRADICTION(cross, "%s:%d: no configuration of cluster %s was given\n", config->path,
                      border->line, name);
        return;
    }
    back = find_border(cross->configs[other], border->peer_guid, border->peer_port);
    if (back == NULL) {
        CONTRADICTION(cross, "%s:%d: cluster %s does not know its border port 0x%016lx/%u\n",
                      config->path, border->line, name, border->peer_guid, border->peer_port);
        return;
    }
    if (back->peer_guid != border->guid || back->peer_port != border->port ||
        strcmp(cross->configs[other]->neighbours[back->neighbour].name, config->name) != 0) {
        CONTRADICTION(cross, "%s:%d: cluster %s says that 0x%016lx/%u leads to %s 0x%016lx/%u\n",
                      config->path, border->line, name, border->peer_guid, border->peer_port,
                      cross->configs[other]->neighbours[back->neighbour].name, back->peer_guid,
                      back->peer_port);
    } else if (back->joint != border->joint) {
        CONTRADICTION(cross, "%s:%d: only one side calls the link 0x%016lx/%u to %s a joint\n",
                      config->path, border->line, border->guid, border->port, name);
    }
}

static void check_pair(struct cross *cross, const struct mcsm_config *a,
                       const struct mcsm_config *b)
{
    unsigned lid = mcsm_common_lid(&a->db, a->lids, &b->db, b->lids);

    if (strcmp(a->name, b->name) == 0) {
        CONTRADICTION(cross, "%s and %s: both clusters are named %s\n", a->path, b->path, a->name);
    }
    if (lid != 0) {
        CONTRADICTION(cross, "%s and %s: LID %u may be given by both clusters\n", a->path, b->path,
                      lid);
    }
    if (a->mlids != b->mlids) {
        CONTRADICTION(cross,
                      "%s and %s: mlids %u and %u differ, so that a group would have two MLIDs\n",
                      a->path, b->path, a->mlids, b->mlids);
    }
    /* A manager configures its end of a border link by its own limits. It reports its own limit of
     * the packet size to its hosts. */
    if (a->max_mtu != b->max_mtu || a->max_op_vls != b->max_op_vls) {
        CONTRADICTION(cross,
                      "%s and %s: mtu or vls of [port] differ: long packets from one cluster "
                      "would be lost in the other one\n",
                      a->path, b->path);
    }
    if (a->multicast_sl != b->multicast_sl) {
        CONTRADICTION(cross, "%s and %s: sl of [multicast] differs\n", a->path, b->path);
    }
    if ((a->own_levels || b->own_levels) && memcmp(a->sl2vl, b->sl2vl, sizeof(a->sl2vl)) != 0) {
        CONTRADICTION(cross,
                      "%s and %s: sl2vl of [port] differs, so that packets of one service level "
                      "change their virtual lane at the border\n",
                      a->path, b->path);
    }
    if (a->subnet_prefix != b->subnet_prefix) {
        CONTRADICTION(cross, "%s and %s: the subnet prefixes differ\n", a->path, b->path);
    }
}

static const struct mcsm_neighbour *find_neighbour(const struct mcsm_config *config,
                                                   const char *name)
{
    for (size_t i = 0; i < config->neighbour_count; i++) {
        if (strcmp(config->neighbours[i].name, name) == 0) {
            return &config->neighbours[i];
        }
    }
    return NULL;
}

/* The LIDs that a cluster has for a neighbour must be the LIDs that the neighbour gives. */
static void check_lids(struct cross *cross, const struct mcsm_config *config,
                       const struct mcsm_config *other)
{
    const struct mcsm_neighbour *known = find_neighbour(config, other->name);

    if (known == NULL) {
        CONTRADICTION(cross,
                      "%s: nothing is said of cluster %s: add [neighbour %s] with its LIDs, "
                      "and via if it is not adjacent\n",
                      config->path, other->name, other->name);
        return;
    }
    if (other->db.count == 0 &&
        (known->lids.from > other->lids.from || known->lids.to < other->lids.to)) {
        CONTRADICTION(cross, "%s:%d: cluster %s gives the LIDs %u-%u, not %u-%u\n", config->path,
                      known->line, other->name, other->lids.from, other->lids.to, known->lids.from,
                      known->lids.to);
    }
    for (size_t i = 0; i < other->db.count; i++) {
        uint16_t lid = other->db.entries[i].lid;
        bool has = known->db.count > 0 ?
                       mcsm_lid_db_find(&known->db, other->db.entries[i].guid) == lid :
                       mcsm_range_has(known->lids, lid);

        if (!has) {
            CONTRADICTION(cross, "%s:%d: LID %u of cluster %s is not known\n", config->path,
                          known->line, lid, other->name);
            return;
        }
    }
}

/* Follows `via` from cluster to cluster and checks that the path ends at `to`, not in a circle. */
static void check_way(struct cross *cross, size_t from, size_t to)
{
    size_t at = from;

    for (size_t steps = 0; at != to; steps++) {
        const struct mcsm_neighbour *known =
            find_neighbour(cross->configs[at], cross->configs[to]->name);
        int next;

        if (known == NULL) {
            return; /* check_lids() says so */
        }
        next = find_cluster(cross, cross->configs[at]->neighbours[known->via].name);
        if (next < 0) {
            return; /* check_border() says so */
        }
        if (steps > cross->count) {
            CONTRADICTION(cross, "%s: the way from cluster %s to %s goes in a circle through %s\n",
                          cross->configs[from]->path, cross->configs[from]->name,
                          cross->configs[to]->name, cross->configs[at]->name);
            return;
        }
        at = next;
    }
}

/* A manager expects packets only from a cluster to which it sends packets directly. */
static void check_entry(struct cross *cross, size_t from, size_t to)
{
    const struct mcsm_config *config = cross->configs[from];
    const struct mcsm_neighbour *target = find_neighbour(config, cross->configs[to]->name), *source;
    int next;

    if (target == NULL) {
        return; /* check_lids() says so */
    }
    next = find_cluster(cross, config->neighbours[target->via].name);
    source = next < 0 ? NULL : find_neighbour(cross->configs[next], config->name);
    if (source != NULL && source->via_name[0] != '\0') {
        CONTRADICTION(cross,
                      "%s: packets to %s go to %s, but %s, line %d, sends packets to %s via %s: "
                      "remove this via\n",
                      config->path, target->name, cross->configs[next]->name,
                      cross->configs[next]->path, source->line, config->name, source->via_name);
    }
}

static size_t root_of(size_t *parent, size_t i)
{
    while (parent[i] != i) {
        i = parent[i];
    }
    return i;
}

/* The joints must form a tree over the clusters, or multicast packets go round for ever. */
static void check_joints(struct cross *cross)
{
    size_t *parent = calloc(cross->count, sizeof(*parent));

    for (size_t i = 0; parent != NULL && i < cross->count; i++) {
        parent[i] = i;
    }
    for (size_t i = 0; parent != NULL && i < cross->count; i++) {
        const struct mcsm_config *config = cross->configs[i];

        for (size_t k = 0; k < config->border_count; k++) {
            const struct mcsm_border *border = &config->borders[k];
            int other = find_cluster(cross, config->neighbours[border->neighbour].name);

            if (!border->joint || other < 0 || (size_t)other < i) {
                continue; /* each link once */
            }
            if (root_of(parent, i) == root_of(parent, other)) {
                CONTRADICTION(cross, "%s:%d: the joint to %s closes a loop of the multicast tree\n",
                              config->path, border->line, cross->configs[other]->name);
            }
            parent[root_of(parent, i)] = root_of(parent, other);
        }
    }
    free(parent);
}

/* Checks that each cluster on the path between two clusters lets the packets pass. */
static void check_passes(struct cross *cross, size_t from, size_t to)
{
    size_t at = from, before = from;

    for (size_t steps = 0; at != to && steps <= cross->count; steps++) {
        const struct mcsm_config *config = cross->configs[at];
        const struct mcsm_neighbour *target = find_neighbour(config, cross->configs[to]->name);
        const struct mcsm_neighbour *source = find_neighbour(config, cross->configs[before]->name);
        int next;

        if (target == NULL) {
            return; /* check_lids() says so */
        }
        if (at != from && source != NULL && !source->passes[target - config->neighbours]) {
            CONTRADICTION(cross,
                          "%s: cluster %s reaches %s through %s, whose [neighbour %s] does not say "
                          "passes-to = %s\n",
                          config->path, cross->configs[from]->name, target->name, config->name,
                          source->name, target->name);
        }
        next = find_cluster(cross, config->neighbours[target->via].name);
        if (next < 0) {
            return;
        }
        before = at;
        at = next;
    }
}

/* ---- the contract by border port: the proof is in docs/mcsm.md ---- */

/* A channel between two clusters, named by the border port where it ends. */
struct entry {
    size_t cluster, border;
    int colour; /* 0 new, 1 on the way, 2 done */
};

struct channels {
    struct cross *cross;
    struct entry *list;
    size_t count;
};

static struct entry *far_end(const struct channels *channels, const struct mcsm_border *border)
{
    for (size_t i = 0; i < channels->count; i++) {
        const struct mcsm_config *config = channels->cross->configs[channels->list[i].cluster];
        const struct mcsm_border *other = &config->borders[channels->list[i].border];

        if (other->guid == border->peer_guid && other->port == border->peer_port) {
            return &channels->list[i];
        }
    }
    return NULL;
}

/* Depth first over the allowed pairs. True if the channel is on a circle. */
static bool follow(struct channels *channels, struct entry *entry)
{
    const struct mcsm_config *config = channels->cross->configs[entry->cluster];
    const struct mcsm_border *e = &config->borders[entry->border];

    entry->colour = 1;
    for (size_t i = 0; i < config->border_count; i++) {
        struct entry *next = NULL;

        if (mcsm_config_allows(config, e, &config->borders[i])) {
            next = far_end(channels, &config->borders[i]);
        }
        if (next == NULL || next->colour == 2) {
            continue;
        }
        if (next->colour == 0 && !follow(channels, next)) {
            continue;
        }
        CONTRADICTION(
            channels->cross,
            "%s:%d: packets may wait in a circle over the borders: from 0x%016lx/%u on to "
            "%s by 0x%016lx/%u; remove a passes-to, or give groups a lane of their own "
            "by [multicast] sl\n",
            config->path, config->borders[i].line, e->guid, e->port,
            config->neighbours[config->borders[i].neighbour].name, config->borders[i].guid,
            config->borders[i].port);
        return true;
    }
    entry->colour = 2;
    return false;
}

static void check_circles(struct cross *cross)
{
    struct channels channels = {.cross = cross};
    size_t room = 0;

    for (size_t i = 0; i < cross->count; i++) {
        room += cross->configs[i]->border_count;
    }
    channels.list = calloc(room + 1, sizeof(*channels.list));
    if (channels.list == NULL) {
        return;
    }
    for (size_t i = 0; i < cross->count; i++) {
        for (size_t k = 0; k < cross->configs[i]->border_count; k++) {
            channels.list[channels.count++] = (struct entry){i, k, 0};
        }
    }
    for (size_t i = 0; i < channels.count; i++) {
        if (channels.list[i].colour == 0 && follow(&channels, &channels.list[i])) {
            break; /* one circle is named */
        }
    }
    free(channels.list);
}

int mcsm_config_cross_check(struct mcsm_config *const *configs, size_t count, FILE *err)
{
    struct cross cross = {configs, count, err, 0};

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < configs[i]->border_count; k++) {
            check_border(&cross, configs[i], &configs[i]->borders[k]);
        }
        for (size_t k = 0; k < count; k++) {
            if (k < i) {
                check_pair(&cross, configs[k], configs[i]);
            }
            if (k != i) {
                check_lids(&cross, configs[i], configs[k]);
                check_way(&cross, i, k);
                check_passes(&cross, i, k);
                check_entry(&cross, i, k);
            }
        }
    }
    check_joints(&cross);
    check_circles(&cross);
    return cross.found;
}
