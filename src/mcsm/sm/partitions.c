/*
 * P_Key tables. A manager owns each table completely. Keys that no partition of the configuration
 * gives to a port are removed from all blocks. A key keeps its index as long as it is in the table,
 * because queue pairs refer to a key by its index.
 *
 * A switch port to a host gets the host's keys and filters packets by them, if the table of the
 * switch has room. Ports between switches and border ports filter nothing.
 */
#include "phases.h"

#include <errno.h>
#include <stdlib.h>

enum { BLOCK = 32, DEFAULT_KEY = 0x7fff };

static bool has_guid(const uint64_t *guids, size_t count, uint64_t guid)
{
    for (size_t i = 0; i < count; i++) {
        if (guids[i] == guid) {
            return true;
        }
    }
    return false;
}

/* The key that a partition gives to a port; 0: none. */
static uint16_t key_of(const struct mcsm_sm *sm, const struct mcsm_partition *partition,
                       const struct mcsm_port *port)
{
    bool full = has_guid(partition->full, partition->full_count, port->guid);
    bool limited = has_guid(partition->limited, partition->limited_count, port->guid);

    if (partition->pkey == DEFAULT_KEY && port == sm->next->own_port) {
        return 0xffff; /* the manager speaks with all */
    }
    if (full || (partition->all && partition->all_full && !limited)) {
        return partition->pkey | 0x8000;
    }
    if (limited || partition->all || partition->pkey == DEFAULT_KEY) {
        return partition->pkey;
    }
    return 0;
}

static uint16_t wanted_key(const struct mcsm_sm *sm, const struct mcsm_port *port, uint16_t base)
{
    for (size_t i = 0; i < sm->config->partition_count; i++) {
        if (sm->config->partitions[i].pkey == base) {
            return key_of(sm, &sm->config->partitions[i], port);
        }
    }
    return 0;
}

static int find_base(const uint16_t *table, unsigned count, uint16_t base)
{
    for (unsigned i = 0; i < count; i++) {
        if (table[i] != 0 && (table[i] & 0x7fff) == base) {
            return i;
        }
    }
    return -1;
}

static int find_free(const uint16_t *table, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (table[i] == 0) {
            return i;
        }
    }
    return -1;
}

/* Computes the wanted table of an end port. `table` has port->pkey_count entries. */
static void plan_table(const struct mcsm_sm *sm, const struct mcsm_port *port, uint16_t *table)
{
    unsigned room = mcsm_get16(port->node->info, MCSM_NI_PARTITION_CAP);

    if (room == 0 || room > port->pkey_count) {
        room = port->pkey_count;
    }
    memset(table, 0, port->pkey_count * sizeof(*table));
    for (unsigned i = 0; i < room; i++) {
        uint16_t base = port->pkeys[i] & 0x7fff;

        if (base != 0 && find_base(table, i, base) < 0) {
            table[i] = wanted_key(sm, port, base);
        }
    }
    for (size_t i = 0; i < sm->config->partition_count; i++) {
        const struct mcsm_partition *partition = &sm->config->partitions[i];
        uint16_t key = key_of(sm, partition, port);
        int at;

        if (key == 0 || find_base(table, room, partition->pkey) >= 0) {
            continue;
        }
        at = find_free(table, room);
        if (at >= 0) {
            table[at] = key;
        } else {
            mcsm_error("0x%016lx (%s): no room for partition %s in its table of %u", port->guid,
                       port->node->desc, partition->name, room);
        }
    }
}

/* ---- reading ---- */

static void got_block(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    unsigned block = mad ? mcsm_get32(mad, MCSM_MAD_MOD) & 0xffff : 0;
    struct mcsm_port *port = arg2;

    (void)arg;
    (void)status;
    if (mad == NULL || (block + 1) * BLOCK > port->pkey_count) {
        return;
    }
    for (int i = 0; i < BLOCK; i++) {
        port->pkeys[block * BLOCK + i] = mcsm_get16(mad + MCSM_SMP_BODY, 2 * i);
    }
    if (port->pkey_blocks > 0) {
        port->pkey_blocks--;
    }
}

static int make_room(struct mcsm_port *port, unsigned entries)
{
    unsigned blocks = (entries + BLOCK - 1) / BLOCK;

    if (blocks == 0) {
        blocks = 1;
    }
    if (blocks > MCSM_PKEYS_MAX / BLOCK) {
        blocks = MCSM_PKEYS_MAX / BLOCK;
    }
    free(port->pkeys);
    port->pkeys = calloc(blocks * BLOCK, sizeof(*port->pkeys));
    port->pkey_count = port->pkeys ? blocks * BLOCK : 0;
    port->pkey_blocks = blocks;
    return port->pkeys ? 0 : -ENOMEM;
}

void mcsm_sm_read_pkeys(struct mcsm_sm *sm, struct mcsm_port *port)
{
    struct mcsm_port *was = mcsm_fabric_find_port(sm->fabric, port->guid);
    struct mcsm_path path = mcsm_port_path(port);

    if (make_room(port, mcsm_get16(port->node->info, MCSM_NI_PARTITION_CAP)) < 0) {
        mcsm_error("out of memory: the P_Keys of 0x%016lx are not set", port->guid);
        return;
    }
    /* An active port that this manager has configured before still has the previous table. */
    if (was != NULL && was->pkey_blocks == 0 && was->pkey_count == port->pkey_count &&
        port->state == MCSM_STATE_ACTIVE && !sm->sweep.distrust && !sm->sweep.reregister &&
        mcsm_get16(port->info, MCSM_PI_SM_LID) == mcsm_get16(was->info, MCSM_PI_SM_LID)) {
        memcpy(port->pkeys, was->pkeys, port->pkey_count * sizeof(*port->pkeys));
        port->pkey_blocks = 0;
        return;
    }
    for (unsigned block = 0; block < port->pkey_count / BLOCK; block++) {
        mcsm_smp(sm->mads, &path, MCSM_GET, MCSM_PKEY_TABLE, block, NULL, got_block, sm, port);
    }
}

/* ---- writing ---- */

static void set_block(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_port *port = arg2;

    if (mad != NULL) {
        got_block(arg, arg2, mad, status);
        return;
    }
    port->pkey_blocks = 1; /* the present table is unknown */
    mcsm_sm_set_done(arg, arg2, mad, status);
}

static void write_blocks(struct mcsm_sm *sm, struct mcsm_port *port, const uint16_t *table,
                         bool all)
{
    uint32_t number = port->node->sw ? (uint32_t)port->num << 16 : 0;
    struct mcsm_path path = mcsm_port_path(port);
    uint8_t body[64];

    for (unsigned block = 0; block < port->pkey_count / BLOCK; block++) {
        const uint16_t *wanted = table + block * BLOCK;

        if (!all && memcmp(wanted, port->pkeys + block * BLOCK, BLOCK * sizeof(*wanted)) == 0) {
            continue;
        }
        for (int i = 0; i < BLOCK; i++) {
            mcsm_put16(body, 2 * i, wanted[i]);
        }
        mcsm_smp(sm->mads, &path, MCSM_SET, MCSM_PKEY_TABLE, number | block, body, set_block, sm,
                 port);
    }
}

/* Whether all hosts are full members of the only partition. A filter would pass every packet that the
 * hosts accept. */
static bool is_one_for_all(const struct mcsm_config *config)
{
    return config->partition_count == 1 && config->partitions[0].pkey == DEFAULT_KEY &&
           config->partitions[0].all_full;
}

/* The table of a switch port belongs to the manager, so it is written without being read. */
static void plan_filter(struct mcsm_sm *sm, struct mcsm_port *port, const uint16_t *keys,
                        unsigned count)
{
    unsigned room = mcsm_get16(port->node->sw_info, MCSM_SI_PARTITION_CAP), used = 0;
    uint16_t *table;
    bool all;

    port->enforce = false;
    for (unsigned i = 0; i < count; i++) {
        used += keys[i] != 0;
    }
    if (!sm->config->enforce_partitions || room == 0 || is_one_for_all(sm->config)) {
        return;
    }
    if (used > room) {
        mcsm_warn("port %u of %s (0x%016lx) filters no P_Keys: its table has room for %u, and the "
                  "host has %u",
                  port->num, port->node->desc, port->node->guid, room, used);
        return;
    }
    all = port->pkeys == NULL || port->pkey_blocks > 0 || port->state < MCSM_STATE_ARMED;
    if (port->pkeys == NULL && make_room(port, room) < 0) {
        return;
    }
    table = calloc(port->pkey_count, sizeof(*table));
    if (table == NULL) {
        return;
    }
    used = 0;
    for (unsigned i = 0; i < count; i++) {
        if (keys[i] != 0 && used < port->pkey_count) {
            table[used++] = keys[i];
        }
    }
    write_blocks(sm, port, table, all);
    port->pkey_blocks = 0;
    port->enforce = true;
    free(table);
}

void mcsm_sm_plan_pkeys(struct mcsm_sm *sm, struct mcsm_port *port)
{
    uint16_t *table;

    if (port->pkeys == NULL || port->pkey_blocks > 0 || port->lid == 0) {
        return;
    }
    table = calloc(port->pkey_count, sizeof(*table));
    if (table == NULL) {
        return;
    }
    plan_table(sm, port, table);
    if (port->peer != NULL && port->peer->node->sw) {
        plan_filter(sm, port->peer, table, port->pkey_count);
    }
    write_blocks(sm, port, table, false);
    free(table);
}
