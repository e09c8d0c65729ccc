#include "tables.h"

#include <string.h>

enum { FIRST_SLOTS = 64 };

static guint address_hash(gconstpointer key)
{
    const struct cm_address *address = key;
    uint64_t words[2];

    memcpy(words, address->gid, 16);
    return cm_mix(words[0] ^ cm_mix(words[1] ^ (uint64_t)address->lid << 40));
}

static gboolean address_equal(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, sizeof(struct cm_address)) == 0;
}

static uint32_t flow_hash(const struct cm_flow_key *key)
{
    return cm_mix(((uint64_t)key->src << 32 | key->dst) ^
                  cm_mix((uint64_t)key->dst_qpn << 32 | key->src_qpn));
}

static bool flow_equal(const struct cm_flow_key *a, const struct cm_flow_key *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static guint sender_hash(gconstpointer item)
{
    const struct sender *sender = item;

    return cm_mix(((uint64_t)sender->src << 32 | sender->dst) ^ cm_mix(sender->number));
}

static gboolean sender_equal(gconstpointer a, gconstpointer b)
{
    const struct sender *x = a, *y = b;

    return x->src == y->src && x->dst == y->dst && x->number == y->number;
}

static uint32_t lookup_address(struct cm_traffic *traffic, const struct cm_address *address)
{
    gpointer id;
    struct cm_address *copy;

    if (g_hash_table_lookup_extended(traffic->address_ids, address, NULL, &id)) {
        return GPOINTER_TO_UINT(id);
    }
    copy = g_memdup2(address, sizeof(*address));
    g_ptr_array_add(traffic->addresses, copy);
    g_hash_table_insert(traffic->address_ids, copy, GUINT_TO_POINTER(traffic->addresses->len - 1));
    return traffic->addresses->len - 1;
}

/* `side`: 0 for senders, 1 for receivers. Most are the same as in the packet before. */
uint32_t cm_find_address(struct cm_traffic *traffic, const struct cm_address *address, int side)
{
    struct known_address *known = &traffic->known[side];

    if (!known->valid || !address_equal(&known->address, address)) {
        known->id = lookup_address(traffic, address);
        known->address = *address;
        known->valid = true;
    }
    return known->id;
}

/*
 * The table of flows has four bytes for each slot, and linear probing: a capture may have millions
 * of flows. Returns the slot of a key, or the free slot for it.
 */
static uint32_t *flow_slot(const struct cm_traffic *traffic, const struct cm_flow_key *key)
{
    uint32_t mask = traffic->num_slots - 1, at = flow_hash(key) & mask;

    while (traffic->slots[at] != 0 &&
           !flow_equal(&cm_traffic_flow(traffic, traffic->slots[at] - 1)->key, key)) {
        at = (at + 1) & mask;
    }
    return &traffic->slots[at];
}

/*
 * At most three quarters of the slots are taken. After a free() of a large block glibc takes later
 * blocks from its heap, and then the tracks that cm_tables_finish() frees stay with the process. A
 * realloc() has no such effect.
 */
static void grow_slots(struct cm_traffic *traffic)
{
    uint32_t i;

    traffic->num_slots = MAX(2 * traffic->num_slots, FIRST_SLOTS);
    traffic->slots = g_renew(uint32_t, traffic->slots, traffic->num_slots);
    memset(traffic->slots, 0, traffic->num_slots * sizeof(*traffic->slots));
    for (i = 0; i < traffic->num_flows; i++) {
        *flow_slot(traffic, &cm_traffic_flow(traffic, i)->key) = i + 1;
    }
}

static struct cm_flow *new_flow(struct cm_traffic *traffic, const struct cm_flow_key *key)
{
    struct cm_flow *flow;

    if (traffic->num_flows >= traffic->num_slots / 4 * 3) {
        grow_slots(traffic);
    }

    if (traffic->num_flows % BLOCK_FLOWS == 0) {
        g_ptr_array_add(traffic->blocks, g_new0(struct cm_flow, BLOCK_FLOWS));
        g_ptr_array_add(traffic->tracks, g_new0(struct track, BLOCK_FLOWS));
    }
    flow = cm_traffic_flow(traffic, traffic->num_flows);
    flow->key = *key;
    flow->number = traffic->num_flows++;
    *flow_slot(traffic, key) = flow->number + 1;
    return flow;
}

struct cm_flow *cm_known_flow(struct cm_traffic *traffic, const struct cm_flow_key *key)
{
    uint32_t number = *flow_slot(traffic, key);

    return number != 0 ? cm_traffic_flow(traffic, number - 1) : NULL;
}

/* Most packets belong to the same flow as the one before. */
struct cm_flow *cm_find_flow(struct cm_traffic *traffic, const struct cm_flow_key *key)
{
    struct cm_flow *flow = traffic->last;

    if (flow == NULL || !flow_equal(&flow->key, key)) {
        flow = cm_known_flow(traffic, key);
        if (flow == NULL) {
            flow = new_flow(traffic, key);
        }
        traffic->last = flow;
    }
    return flow;
}

struct sender *cm_find_sender(struct cm_traffic *traffic, uint32_t src, uint32_t dst,
                              uint32_t number)
{
    struct sender probe = {.src = src, .dst = dst, .number = number}, *sender;

    sender = g_hash_table_lookup(traffic->senders, &probe);
    if (sender == NULL) {
        sender = g_memdup2(&probe, sizeof(probe));
        sender->answers_qpn = CM_QPN_NONE;
        g_hash_table_add(traffic->senders, sender);
    }
    return sender;
}

struct cm_flow *cm_traffic_flow(const struct cm_traffic *traffic, uint32_t number)
{
    struct cm_flow *block = g_ptr_array_index(traffic->blocks, number / BLOCK_FLOWS);

    return &block[number % BLOCK_FLOWS];
}

const struct cm_address *cm_traffic_address(const struct cm_traffic *traffic, uint32_t id)
{
    return g_ptr_array_index(traffic->addresses, id);
}

uint32_t cm_flow_src_qpn(const struct cm_flow *flow)
{
    if (flow->key.src_qpn != CM_QPN_NONE) {
        return flow->key.src_qpn;
    }
    return flow->partner.lead > 0 ? flow->partner.qpn : CM_QPN_NONE;
}

static void free_sender(gpointer item)
{
    struct sender *sender = item;

    cm_psn_reset(&sender->psn);
    cm_psn_reset(&sender->answer_psn);
    g_free(sender);
}

void cm_tables_init(struct cm_traffic *traffic)
{
    traffic->addresses = g_ptr_array_new_with_free_func(g_free);
    traffic->address_ids = g_hash_table_new(address_hash, address_equal);
    grow_slots(traffic);
    traffic->senders = g_hash_table_new_full(sender_hash, sender_equal, free_sender, NULL);
    traffic->blocks = g_ptr_array_new_with_free_func(g_free);
    traffic->tracks = g_ptr_array_new_with_free_func(g_free);
    traffic->known = g_new0(struct known_address, 2);
}

void cm_tables_finish(struct cm_traffic *traffic)
{
    uint32_t i;

    for (i = 0; i < traffic->num_flows; i++) {
        struct track *track = cm_track_of(traffic, cm_traffic_flow(traffic, i));

        cm_psn_reset(&track->psn);
        if (track->answer_psn != NULL) {
            cm_psn_reset(track->answer_psn);
            g_free(track->answer_psn);
        }
    }
    g_ptr_array_free(traffic->tracks, TRUE);
    traffic->tracks = NULL;
    g_hash_table_destroy(traffic->address_ids);
    g_free(traffic->slots);
    traffic->slots = NULL;
    g_hash_table_destroy(traffic->senders);
    g_free(traffic->known);
}
