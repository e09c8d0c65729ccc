#include "fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mcsm_fabric *mcsm_fabric_new(void)
{
    struct mcsm_fabric *fabric = calloc(1, sizeof(*fabric));

    if (fabric == NULL) {
        return NULL;
    }
    fabric->by_lid = calloc(MCSM_LFT_SIZE, sizeof(*fabric->by_lid));
    if (fabric->by_lid == NULL) {
        free(fabric);
        return NULL;
    }
    return fabric;
}

static void free_node(struct mcsm_node *node)
{
    for (int i = 0; node->ports != NULL && i <= node->nports; i++) {
        free(node->ports[i].pkeys);
    }
    free(node->ports);
    free(node->lft);
    free(node->lft_known);
    free(node->mft);
    free(node->mft_known);
    free(node);
}

void mcsm_fabric_free(struct mcsm_fabric *fabric)
{
    struct mcsm_node *node, *next;

    if (fabric == NULL) {
        return;
    }
    HASH_ITER(hh, fabric->nodes, node, next) {
        HASH_DEL(fabric->nodes, node);
        free_node(node);
    }
    free(fabric->switches);
    free(fabric->by_lid);
    free(fabric->ends);
    free(fabric);
}

struct mcsm_node *mcsm_fabric_add(struct mcsm_fabric *fabric, uint64_t guid, uint8_t type,
                                  uint8_t nports)
{
    struct mcsm_node *node = calloc(1, sizeof(*node));

    if (node == NULL) {
        return NULL;
    }
    node->guid = guid;
    node->type = type;
    node->sw = type == 2;
    node->nports = nports;
    node->index = -1;
    node->ports = calloc(nports + 1, sizeof(*node->ports));
    if (node->ports == NULL) {
        free(node);
        return NULL;
    }
    for (int i = 0; i <= nports; i++) {
        node->ports[i].node = node;
        node->ports[i].num = i;
    }
    HASH_ADD(hh, fabric->nodes, guid, sizeof(guid), node);
    return node;
}

struct mcsm_node *mcsm_fabric_find(const struct mcsm_fabric *fabric, uint64_t guid)
{
    struct mcsm_node *node;

    HASH_FIND(hh, fabric->nodes, &guid, sizeof(guid), node);
    return node;
}

static int by_port_guid(const void *a, const void *b)
{
    const struct mcsm_port *x = *(struct mcsm_port *const *)a, *y = *(struct mcsm_port *const *)b;

    return x->guid < y->guid ? -1 : x->guid > y->guid;
}

static struct mcsm_port *find_without_list(const struct mcsm_fabric *fabric, uint64_t port_guid)
{
    struct mcsm_node *node, *next;

    HASH_ITER(hh, fabric->nodes, node, next) {
        for (int i = 0; i <= node->nports; i++) {
            if (mcsm_is_end_port(&node->ports[i]) && node->ports[i].guid == port_guid) {
                return &node->ports[i];
            }
        }
    }
    return NULL;
}

struct mcsm_port *mcsm_fabric_find_port(const struct mcsm_fabric *fabric, uint64_t port_guid)
{
    struct mcsm_port wanted = {.guid = port_guid}, *key = &wanted, **found = NULL;

    if (port_guid == 0) {
        return NULL;
    }
    if (fabric->ends == NULL) {
        return find_without_list(fabric, port_guid);
    }
    if (fabric->end_count > 0) {
        found = bsearch(&key, fabric->ends, fabric->end_count, sizeof(key), by_port_guid);
    }
    return found ? *found : NULL;
}

struct mcsm_port *mcsm_fabric_by_lid(const struct mcsm_fabric *fabric, unsigned lid)
{
    return lid < MCSM_LFT_SIZE ? fabric->by_lid[lid] : NULL;
}

static int by_guid(const void *a, const void *b)
{
    const struct mcsm_node *x = *(struct mcsm_node *const *)a, *y = *(struct mcsm_node *const *)b;

    return x->guid < y->guid ? -1 : x->guid > y->guid;
}

static int list_ends(struct mcsm_fabric *fabric)
{
    struct mcsm_node *node, *next;
    size_t room = 0;

    HASH_ITER(hh, fabric->nodes, node, next) {
        room += node->sw ? 1 : node->nports;
    }
    free(fabric->ends);
    fabric->end_count = 0;
    fabric->ends = calloc(room + 1, sizeof(*fabric->ends));
    if (fabric->ends == NULL) {
        return -ENOMEM;
    }
    HASH_ITER(hh, fabric->nodes, node, next) {
        for (int i = 0; i <= node->nports; i++) {
            if (mcsm_is_end_port(&node->ports[i]) && node->ports[i].guid != 0) {
                fabric->ends[fabric->end_count++] = &node->ports[i];
            }
        }
    }
    qsort(fabric->ends, fabric->end_count, sizeof(*fabric->ends), by_port_guid);
    return 0;
}

int mcsm_fabric_index(struct mcsm_fabric *fabric)
{
    struct mcsm_node *node, *next;
    int linked = 0;

    free(fabric->switches);
    fabric->switches = calloc(HASH_COUNT(fabric->nodes) + 1, sizeof(*fabric->switches));
    if (fabric->switches == NULL) {
        return -ENOMEM;
    }
    fabric->switch_count = fabric->ca_count = 0;
    HASH_ITER(hh, fabric->nodes, node, next) {
        if (node->sw) {
            fabric->switches[fabric->switch_count++] = node;
        } else {
            fabric->ca_count++;
        }
        for (int i = 1; i <= node->nports; i++) {
            linked += node->ports[i].peer != NULL;
        }
    }
    fabric->link_count = linked / 2;
    if (fabric->switch_count > 0) {
        qsort(fabric->switches, fabric->switch_count, sizeof(*fabric->switches), by_guid);
    }
    for (int i = 0; i < fabric->switch_count; i++) {
        fabric->switches[i]->index = i;
    }
    return list_ends(fabric);
}

bool mcsm_port_usable(const struct mcsm_port *port)
{
    return port->peer != NULL && port->state >= MCSM_STATE_INIT &&
           port->peer->state >= MCSM_STATE_INIT && !port->drained && !port->peer->drained;
}

bool mcsm_port_has_link(const struct mcsm_port *port)
{
    return port->num > 0 && port->known && port->state >= MCSM_STATE_INIT &&
           (port->border || (port->peer != NULL && port->peer->known));
}

/* Tables grow in whole blocks. */
struct mcsm_path mcsm_port_path(const struct mcsm_port *port)
{
    const struct mcsm_port *peer = port->peer;
    struct mcsm_path path;

    if (port->node->sw || port->node->path.hops == 0 || peer == NULL) {
        return port->node->path;
    }
    path = peer->node->path;
    if (path.hops < MCSM_MAX_HOPS) {
        path.port[++path.hops] = peer->num;
    }
    return path;
}

static int grow(uint8_t **table, unsigned *size, unsigned wanted)
{
    uint8_t *more;

    if (*size >= wanted) {
        return 0;
    }
    more = realloc(*table, wanted);
    if (more == NULL) {
        return -ENOMEM;
    }
    memset(more + *size, 0, wanted - *size);
    *table = more;
    *size = wanted;
    return 0;
}

int mcsm_fabric_tables(struct mcsm_node *node, unsigned lid_top, unsigned mlids)
{
    size_t mft_size = mcsm_mft_positions(node) * mlids;
    unsigned lft_size = (lid_top / 64 + 1) * 64;

    if (node->mft == NULL) {
        node->mft = calloc(mft_size, sizeof(*node->mft));
    }
    if (node->mft_known == NULL) {
        node->mft_known = calloc(mft_size, sizeof(*node->mft_known));
    }
    if (node->mft == NULL || node->mft_known == NULL) {
        return -ENOMEM;
    }
    return grow(&node->lft, &node->lft_size, lft_size);
}

static void inherit_lanes(struct mcsm_fabric *fabric, const struct mcsm_fabric *old)
{
    struct mcsm_node *node, *next;

    HASH_ITER(hh, fabric->nodes, node, next) {
        const struct mcsm_node *was = mcsm_fabric_find(old, node->guid);

        for (int i = 1; was != NULL && i <= node->nports && i <= was->nports; i++) {
            node->ports[i].vl_differs = was->ports[i].vl_differs;
        }
    }
}

void mcsm_fabric_inherit(struct mcsm_fabric *fabric, struct mcsm_fabric *old)
{
    inherit_lanes(fabric, old);
    for (int i = 0; i < fabric->switch_count; i++) {
        struct mcsm_node *node = fabric->switches[i], *was = mcsm_fabric_find(old, node->guid);

        if (was == NULL || !was->sw || was->nports != node->nports || node->lft_known != NULL) {
            continue;
        }
        for (int p = 1; p <= node->nports; p++) {
            struct mcsm_port *port = &node->ports[p], *old_port = &was->ports[p];

            if (port->pkeys != NULL) {
                continue;
            }
            port->pkeys = old_port->pkeys;
            port->pkey_count = old_port->pkey_count;
            port->pkey_blocks = old_port->pkey_blocks;
            old_port->pkeys = NULL;
            old_port->pkey_count = 0;
        }
        node->lft_known_size = was->lft_known_size;
        node->lft_known = was->lft_known;
        node->mft_known = was->mft_known;
        node->lft_valid = was->lft_valid;
        node->mft_valid = was->mft_valid;
        was->lft_known = NULL;
        was->lft_known_size = 0;
        was->mft_known = NULL;
        was->lft_valid = was->mft_valid = false;
    }
}
