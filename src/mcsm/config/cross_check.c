/* Do the configurations of the clusters of one fabric fit together? */
#include "config.h"

#include <stdlib.h>
#include <string.h>

typedef struct cross {
    mcsm_config_t *const *configs;
    size_t count;
    FILE *err;
    int found;
} cross_t;

#define CONTRADICTION(cross, ...) (fprintf((cross)->err, __VA_ARGS__), (cross)->found++)

static int find_cluster(const cross_t *cross, const char *name)
{
    for (size_t i = 0; i < cross->count; i++) {
        if (strcmp(cross->configs[i]->name, name) == 0)
            return i;
    }
    return -1;
}

static const mcsm_border_t *find_border(const mcsm_config_t *config, uint64_t guid, uint8_t port)
{
    for (size_t i = 0; i < config->border_count; i++) {
        if (config->borders[i].guid == guid && config->borders[i].port == port)
            return &config->borders[i];
    }
    return NULL;
}

/* The other side has to name the same link, back to us. */
static void check_border(cross_t *cross, const mcsm_config_t *config, const mcsm_border_t *border)
{
    const char *name = config->neighbours[border->neighbour].name;
    int other = find_cluster(cross, name);
    const mcsm_border_t *back;

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
        strcmp(cross->configs[other]->neighbours[back->neighbour].name, config->name) != 0)
        CONTRADICTION(cross, "%s:%d: cluster %s says that 0x%016lx/%u leads to %s 0x%016lx/%u\n",
                      config->path, border->line, name, border->peer_guid, border->peer_port,
                      cross->configs[other]->neighbours[back->neighbour].name, back->peer_guid,
                      back->peer_port);
    else if (back->joint != border->joint)
        CONTRADICTION(cross, "%s:%d: only one side calls the link 0x%016lx/%u to %s a joint\n",
                      config->path, border->line, border->guid, border->port, name);
}

static void check_pair(cross_t *cross, const mcsm_config_t *a, const mcsm_config_t *b)
{
    unsigned lid = mcsm_common_lid(&a->db, a->lids, &b->db, b->lids);

    if (strcmp(a->name, b->name) == 0)
        CONTRADICTION(cross, "%s and %s: both clusters are named %s\n", a->path, b->path, a->name);
    if (lid != 0)
        CONTRADICTION(cross, "%s and %s: LID %u may be given by both clusters\n", a->path, b->path,
                      lid);
    if (a->mlids != b->mlids)
        CONTRADICTION(cross,
                      "%s and %s: mlids %u and %u differ, so that a group would have two MLIDs\n",
                      a->path, b->path, a->mlids, b->mlids);
    /* Each manager sets its end of a border link, and tells its hosts how long packets may be, by
     * its own limits. */
    if (a->max_mtu != b->max_mtu || a->max_op_vls != b->max_op_vls)
        CONTRADICTION(cross,
                      "%s and %s: mtu or vls of [port] differ: long packets from one cluster "
                      "would be lost in the other one\n",
                      a->path, b->path);
    if (a->subnet_prefix != b->subnet_prefix)
        CONTRADICTION(cross, "%s and %s: the subnet prefixes differ\n", a->path, b->path);
}

static const mcsm_neighbour_t *find_neighbour(const mcsm_config_t *config, const char *name)
{
    for (size_t i = 0; i < config->neighbour_count; i++) {
        if (strcmp(config->neighbours[i].name, name) == 0)
            return &config->neighbours[i];
    }
    return NULL;
}

/* What a cluster believes about the LIDs of another one must be what the other one gives. */
static void check_lids(cross_t *cross, const mcsm_config_t *config, const mcsm_config_t *other)
{
    const mcsm_neighbour_t *known = find_neighbour(config, other->name);

    if (known == NULL) {
        CONTRADICTION(cross,
                      "%s: nothing is said of cluster %s: add [neighbour %s] with its LIDs, "
                      "and via if it is not adjacent\n",
                      config->path, other->name, other->name);
        return;
    }
    if (other->db.count == 0 &&
        (known->lids.from > other->lids.from || known->lids.to < other->lids.to))
        CONTRADICTION(cross, "%s:%d: cluster %s gives the LIDs %u-%u, not %u-%u\n", config->path,
                      known->line, other->name, other->lids.from, other->lids.to, known->lids.from,
                      known->lids.to);
    for (size_t i = 0; i < other->db.count; i++) {
        uint16_t lid = other->db.entries[i].lid;
        bool has = known->db.count > 0
                       ? mcsm_lid_db_find(&known->db, other->db.entries[i].guid) == lid
                       : mcsm_range_has(known->lids, lid);

        if (!has) {
            CONTRADICTION(cross, "%s:%d: LID %u of cluster %s is not known\n", config->path,
                          known->line, lid, other->name);
            return;
        }
    }
}

/* Follow `via` from cluster to cluster: the LIDs of `to` must arrive there. */
static void check_way(cross_t *cross, size_t from, size_t to)
{
    size_t at = from;

    for (size_t steps = 0; at != to; steps++) {
        const mcsm_neighbour_t *known =
            find_neighbour(cross->configs[at], cross->configs[to]->name);
        int next;

        if (known == NULL)
            return; /* check_lids() says so */
        next = find_cluster(cross, cross->configs[at]->neighbours[known->via].name);
        if (next < 0)
            return; /* check_border() says so */
        if (steps > cross->count) {
            CONTRADICTION(cross, "%s: the way from cluster %s to %s goes in a circle through %s\n",
                          cross->configs[from]->path, cross->configs[from]->name,
                          cross->configs[to]->name, cross->configs[at]->name);
            return;
        }
        at = next;
    }
}

static size_t root_of(size_t *parent, size_t i)
{
    while (parent[i] != i)
        i = parent[i];
    return i;
}

/* The joints must form a tree over the clusters, or multicast packets go round for ever. */
static void check_joints(cross_t *cross)
{
    size_t *parent = calloc(cross->count, sizeof(*parent));

    for (size_t i = 0; parent != NULL && i < cross->count; i++)
        parent[i] = i;
    for (size_t i = 0; parent != NULL && i < cross->count; i++) {
        const mcsm_config_t *config = cross->configs[i];

        for (size_t k = 0; k < config->border_count; k++) {
            const mcsm_border_t *border = &config->borders[k];
            int other = find_cluster(cross, config->neighbours[border->neighbour].name);

            if (!border->joint || other < 0 || (size_t)other < i)
                continue; /* each link once */
            if (root_of(parent, i) == root_of(parent, other))
                CONTRADICTION(cross, "%s:%d: the joint to %s closes a loop of the multicast tree\n",
                              config->path, border->line, cross->configs[other]->name);
            parent[root_of(parent, i)] = root_of(parent, other);
        }
    }
    free(parent);
}

int mcsm_config_cross_check(mcsm_config_t *const *configs, size_t count, FILE *err)
{
    cross_t cross = {configs, count, err, 0};

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < configs[i]->border_count; k++)
            check_border(&cross, configs[i], &configs[i]->borders[k]);
        for (size_t k = 0; k < count; k++) {
            if (k < i)
                check_pair(&cross, configs[k], configs[i]);
            if (k != i) {
                check_lids(&cross, configs[i], configs[k]);
                check_way(&cross, i, k);
            }
        }
    }
    check_joints(&cross);
    return cross.found;
}
