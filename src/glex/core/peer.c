#include "core/endpoint.h"

#include <stdlib.h>

#define PEER_MIN_BUCKETS 64u
#define PEER_MAX_HINTS   (UINT16_MAX + 1u)

/* The place of an address among `num` buckets, two at least. A bucket beyond the last one is not
 * split off yet from the one that has a bit less. */
static uint32_t peer_bucket_index(uint64_t addr, uint32_t num)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(num - 1);
    uint32_t i = glex_peer_hash(addr) & mask;

    return i < num ? i : i & (mask >> 1);
}

static struct glex_peer **peer_bucket(const struct glex_peer_table *table, uint64_t addr)
{
    return &table->buckets[peer_bucket_index(addr, table->num_buckets)];
}

struct glex_peer *glex_peer_lookup(const struct glex_peer_table *table, uint64_t addr)
{
    struct glex_peer *peer = *peer_bucket(table, addr);

    while (peer != NULL && peer->addr != addr) {
        peer = peer->next;
    }
    return peer;
}

static void peer_ref_clear(struct glex_peer_ref *ref)
{
    ref->addr = UINT64_MAX;
    ref->peer = NULL;
}

uint64_t glex_peer_hinted_addr(const struct glex_peer *peer)
{
    glex_ep_addr_t addr = {.v = peer->addr};

    addr.resv = peer->hint;
    return addr.v;
}

/* Returns false where there is no memory, or no number, for more. */
static bool peer_grow_hints(struct glex_peer_table *table)
{
    uint32_t num = table->num_hinted == 0 ? 64 : 2 * table->num_hinted;
    struct glex_peer_ref *hinted;

    if (num > PEER_MAX_HINTS) {
        return false;
    }
    hinted = realloc(table->hinted, num * sizeof(*hinted));
    if (hinted == NULL) {
        return false;
    }
    table->hinted = hinted;
    if (table->num_hinted == 0) {
        peer_ref_clear(&hinted[table->num_hinted++]);
        table->free_hint = 1;
    }
    while (table->num_hinted < num) {
        peer_ref_clear(&hinted[table->num_hinted++]);
    }
    return true;
}

/* Give a peer the lowest free entry: four entries share a cache line, which counts with very many
 * peers. Where there is no entry, the peer is found by its address. */
static void peer_give_hint(struct glex_peer_table *table, struct glex_peer *peer)
{
    uint32_t i = table->free_hint;

    while (i < table->num_hinted && table->hinted[i].peer != NULL) {
        i++;
    }
    table->free_hint = i;
    if (i >= table->num_hinted && !peer_grow_hints(table)) {
        return;
    }
    i = table->free_hint++;
    peer->hint = (uint16_t)i;
    table->hinted[i].addr = glex_peer_hinted_addr(peer);
    table->hinted[i].peer = peer;
}

static void peer_take_hint(struct glex_peer_table *table, struct glex_peer *peer)
{
    if (peer->hint != 0) {
        peer_ref_clear(&table->hinted[peer->hint]);
        if (peer->hint < table->free_hint) {
            table->free_hint = peer->hint;
        }
    }
}

glex_ret_t glex_peer_init(struct glex_endpoint *ep)
{
    struct glex_peer_table *table = &ep->peers;
    uint32_t i;

    for (i = 0; i < GLEX_PEER_CACHE; i++) {
        peer_ref_clear(&table->cache[i]);
    }
    table->buckets = calloc(PEER_MIN_BUCKETS, sizeof(*table->buckets));
    if (table->buckets == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    table->num_buckets = table->bucket_room = PEER_MIN_BUCKETS;
    return GLEX_SUCCESS;
}

void glex_peer_cleanup(struct glex_endpoint *ep)
{
    struct glex_peer_table *table = &ep->peers;
    uint32_t i;

    for (i = 0; i < table->num_buckets; i++) {
        while (table->buckets[i] != NULL) {
            glex_peer_drop(ep, table->buckets[i]);
        }
    }
    free(table->buckets);
    table->buckets = NULL;
    free(table->hinted);
    table->hinted = NULL;
}

void glex_peer_fork(struct glex_peer_table *table)
{
    memset(table->cache, 0, sizeof(table->cache));
    table->num_hinted = 0;
}

/* Adds a bucket, and divides the peers of one bucket between the old and the new bucket (linear
 * hashing). So no request pays for all peers of a large table. Without memory, chains become
 * longer: slower, but still right. */
static void peer_grow(struct glex_peer_table *table)
{
    uint32_t i = table->num_buckets;
    struct glex_peer **buckets = table->buckets, *peer, *next, **bucket;

    if (i == table->bucket_room) {
        /* of many, the C library moves the pages and copies nothing */
        buckets = realloc(buckets, 2 * sizeof(*buckets) * table->bucket_room);
        if (buckets == NULL) {
            return;
        }
        table->buckets = buckets;
        table->bucket_room *= 2;
    }
    table->num_buckets++;
    buckets[i] = NULL;
    bucket = &buckets[i & (UINT32_MAX >> __builtin_clz(i)) >> 1];
    peer = *bucket;
    *bucket = NULL;
    for (; peer != NULL; peer = next) {
        next = peer->next;
        bucket = peer_bucket(table, peer->addr);
        peer->next = *bucket;
        *bucket = peer;
    }
}

static void peer_count(struct glex_endpoint *ep, int more)
{
    ep->peers.num_peers += (uint32_t)more;
    __atomic_store_n(&ep->segment.hdr->num_peers, ep->peers.num_peers, __ATOMIC_RELAXED);
}

const struct glex_link *glex_peer_link(struct glex_nic *dev, uint32_t nic_id)
{
    size_t i;

    for (i = 0; i < sizeof(dev->links) / sizeof(dev->links[0]); i++) {
        if (dev->links[i]->reaches(dev, nic_id)) {
            return dev->links[i];
        }
    }
    return NULL;
}

const struct glex_link *glex_endpoint_link(struct glex_endpoint *ep, uint64_t addr)
{
    const glex_ep_addr_t ep_addr = {.v = addr};

    /* The endpoint itself is no neighbour: its own queues and memory are at hand in any case. */
    if (ep->dev->neighbours != NULL && ep_addr.nic_id == ep->dev->nic_id && addr != ep->addr) {
        return ep->dev->neighbours;
    }
    return glex_peer_link(ep->dev, ep_addr.nic_id);
}

static struct glex_peer *peer_attach(struct glex_endpoint *ep, uint64_t addr, int *status_p)
{
    struct glex_peer_table *table = &ep->peers;
    const struct glex_link *link = glex_endpoint_link(ep, addr);
    struct glex_peer *peer, **bucket;

    if (link == NULL) {
        *status_p = GLEX_ERR_STATUS_DEST_HOST_DEAD;
        return NULL;
    }
    peer = link->attach(ep, addr, status_p);
    if (peer == NULL) {
        return NULL;
    }
    if (table->num_peers >= table->num_buckets) {
        peer_grow(table);
    }
    peer->link = link;
    bucket = peer_bucket(table, addr);
    peer->next = *bucket;
    *bucket = peer;
    peer_count(ep, 1);
    if (!ep->threads.on) {
        peer_give_hint(table, peer);
    }
    return peer;
}

struct glex_peer *glex_peer_find(struct glex_endpoint *ep, uint64_t addr, int *status_p)
{
    struct glex_peer_table *table = &ep->peers;
    uint32_t i = glex_peer_cache_index(addr);
    struct glex_peer *peer = glex_peer_lookup(table, addr);

    if (peer == NULL) {
        peer = peer_attach(ep, addr, status_p);
    }
    /* The cache is read without the lock: an endpoint that several threads use has an empty one. */
    if (peer != NULL && !ep->threads.on) {
        table->cache[i].addr = addr;
        table->cache[i].peer = peer;
    }
    return peer;
}

void glex_peer_describe(const struct glex_peer *peer, struct glex_peer_past *past)
{
    past->addr = peer->addr;
    past->receivers[0] = past->receivers[1] = peer->receiver;
    past->pid = peer->pid;
    past->rank = peer->rank;
    past->left = GLEX_LEFT_NOT;
    if (peer->base != NULL) {
        past->receivers[1] = __atomic_load_n(&peer->base->receiver, __ATOMIC_RELAXED);
        past->left = __atomic_load_n(&peer->base->left, __ATOMIC_RELAXED);
    }
}

void glex_peer_remember(struct glex_endpoint *ep, const struct glex_peer_past *past)
{
    struct glex_peer_table *table = &ep->peers;
    const struct glex_peer_past *last = &table->past[(table->num_past - 1) % GLEX_PEER_PAST];

    /* A program may try to reach a dead peer many times */
    if (table->num_past == 0 || last->addr != past->addr ||
        last->receivers[0] != past->receivers[0]) {
        table->past[table->num_past++ % GLEX_PEER_PAST] = *past;
    }
}

void glex_peer_drop(struct glex_endpoint *ep, struct glex_peer *peer)
{
    struct glex_peer_table *table = &ep->peers;
    uint32_t i = glex_peer_cache_index(peer->addr);
    struct glex_peer **link = peer_bucket(table, peer->addr);
    struct glex_peer_past past;

    if (!peer->link->is_remote) {
        glex_peer_describe(peer, &past);
        glex_peer_remember(ep, &past);
    }
    if (table->cache[i].peer == peer) {
        peer_ref_clear(&table->cache[i]);
    }
    peer_take_hint(table, peer);
    while (*link != peer) {
        link = &(*link)->next;
    }
    *link = peer->next;
    peer_count(ep, -1);
    peer->link->detach(ep, peer);
}

int GLEX_NOINLINE glex_peer_post_again(struct glex_endpoint *ep, struct glex_peer *peer,
                                       glex_peer_post_fn post, const void *req)
{
    uint64_t addr = peer->addr;
    int status;

    glex_peer_drop(ep, peer);
    peer = glex_endpoint_peer(ep, addr, &status);
    return peer != NULL ? post(ep, peer, req) : status;
}
