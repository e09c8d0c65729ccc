#include "vl_tables.h"

#include "phases.h"
#include "route/lanes.h"

enum {
    ENTRIES = 32,         /* of a block of VLArb */
    PASS = 300,           /* seconds in which light sweeps read the tables of all ports */
    PORTS_PER_SWEEP = 128 /* at most, so that light sweeps stay short on large clusters */
};

/* ---- the tables that a port shall have ---- */

uint8_t mcsm_vl_code(const struct mcsm_config *config, const struct mcsm_port *port)
{
    uint8_t code = config->max_op_vls, own = mcsm_hi(port->info, MCSM_PI_VL_CAP_HI);
    uint8_t other = port->peer ? mcsm_hi(port->peer->info, MCSM_PI_VL_CAP_HI) : own;

    code = own < code ? own : code;
    return other < code ? other : code;
}

static int lanes_of_link(const struct mcsm_sm *sm, const struct mcsm_port *port)
{
    uint8_t code = mcsm_vl_code(sm->config, port);

    return code == 0 ? 1 : code >= 5 ? MCSM_MAX_LANES : 1 << (code - 1);
}

/* Where the engine assigns lanes, levels that no pair has are dropped, because their packets were not
 * checked for circles. */
static uint8_t lane_of(const struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t sl)
{
    if (sm->config->own_levels && !mcsm_sm_shares(sm)) {
        return mcsm_config_lane(sm->config, sl, lanes_of_link(sm, port));
    }
    return mcsm_sm_lanes(sm) == 1 ? sm->config->sl2vl[sl] : mcsm_sm_vl(sm, port, sl);
}

static void make_sl2vl(const struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t table[8])
{
    for (int i = 0; i < 8; i++) {
        table[i] = lane_of(sm, port, 2 * i) << 4 | lane_of(sm, port, 2 * i + 1);
    }
}

bool mcsm_vl_sl2vl(const struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t table[8])
{
    make_sl2vl(sm, port, table);
    return sm->config->own_levels || mcsm_sm_lanes(sm) > 1;
}

int mcsm_vl_arb(const struct mcsm_sm *sm, const struct mcsm_port *port, int block,
                uint8_t table[64])
{
    const struct mcsm_config *config = sm->config;
    int entries = port->info[block <= 2 ? MCSM_PI_ARB_LOW_CAP : MCSM_PI_ARB_HIGH_CAP];

    memset(table, 0, 64); /* no weights in the upper blocks */
    if (block == 1) {
        memcpy(table, config->vlarb_low, sizeof(config->vlarb_low));
    } else if (block == 3) {
        memcpy(table, config->vlarb_high, sizeof(config->vlarb_high));
    }
    entries -= block % 2 == 0 ? ENTRIES : 0;
    if (!config->set_vlarb || entries < 0) {
        return 0;
    }
    return entries < ENTRIES ? entries : ENTRIES;
}

/* ---- comparing ---- */

/* Entries without weight are equal: the port skips them. */
static bool same_arb(const uint8_t *wanted, const uint8_t *has, int entries)
{
    for (int i = 0; i < entries; i++) {
        if (wanted[2 * i + 1] != has[2 * i + 1] ||
            (wanted[2 * i + 1] != 0 && ((wanted[2 * i] ^ has[2 * i]) & 15) != 0)) {
            return false;
        }
    }
    return true;
}

/* Whether the table in the answer is the table that the port shall have. */
static bool is_right(const struct mcsm_sm *sm, const struct mcsm_port *port, const uint8_t *mad)
{
    const uint8_t *has = mad + MCSM_SMP_BODY;
    uint8_t table[64];

    if (mcsm_get16(mad, MCSM_MAD_ATTR) == MCSM_SL2VL) {
        make_sl2vl(sm, port, table);
        return memcmp(table, has, 8) == 0;
    }
    int entries = mcsm_vl_arb(sm, port, mcsm_get32(mad, MCSM_MAD_MOD) >> 16 & 7, table);
    return same_arb(table, has, entries);
}

static void differs(struct mcsm_sm *sm, struct mcsm_port *port, const char *table)
{
    if (!port->vl_differs) {
        mcsm_report(&sm->events, "vl-tables-differ", MCSM_LOG_WARN, port->node->guid, port->num,
                    "0x%016lx (%s) port %u has another %s table than was written: the table is "
                    "written again with each sweep",
                    port->node->guid, port->node->desc, port->num, table);
    }
    port->vl_differs = true;
}

static const char *table_name(const uint8_t *mad)
{
    return mcsm_get16(mad, MCSM_MAD_ATTR) == MCSM_SL2VL ? "SL2VL" : "VLArb";
}

static void got_set(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    if (mad == NULL) {
        mcsm_sm_set_done(arg, arg2, mad, status);
    } else if (!is_right(arg, arg2, mad)) {
        differs(arg, arg2, table_name(mad));
    }
}

/* A table that was not read keeps the port among the ports that differ. */
static void got_table(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_port *port = arg2;

    (void)status;
    if (mad == NULL) {
        port->vl_now |= port->vl_differs;
    } else if (!is_right(arg, port, mad)) {
        port->vl_now = true;
        differs(arg, port, table_name(mad));
    }
    if (--port->vl_pending == 0 && port->vl_differs && !port->vl_now) {
        port->vl_differs = false;
        mcsm_info("0x%016lx (%s) port %u has the right SL2VL and VLArb tables again",
                  port->node->guid, port->node->desc, port->num);
    }
}

/* ---- writing and reading ---- */

/* Sends a Set or Get of a table. */
static void ask(struct mcsm_sm *sm, struct mcsm_port *port, uint8_t method, uint16_t attr,
                uint32_t mod, const uint8_t *table)
{
    struct mcsm_path path = mcsm_port_path(port);

    if (method == MCSM_SET) {
        mcsm_smp(sm->mads, &path, MCSM_SET, attr, mod, table, got_set, sm, port);
        return;
    }
    port->vl_pending++;
    mcsm_smp(sm->mads, &path, MCSM_GET, attr, mod, NULL, got_table, sm, port);
}

/* A switch port has a table for each input. */
static void all_sl2vl(struct mcsm_sm *sm, struct mcsm_port *port, uint8_t method)
{
    int inputs = port->node->sw ? port->node->nports : 0;
    uint8_t body[64] = {0};

    make_sl2vl(sm, port, body);
    for (int in = 0; in <= inputs; in++) {
        ask(sm, port, method, MCSM_SL2VL, port->node->sw ? (uint32_t)in << 8 | port->num : 0, body);
    }
}

static void all_arb(struct mcsm_sm *sm, struct mcsm_port *port, uint8_t method)
{
    uint32_t number = port->node->sw ? port->num : 0;
    uint8_t body[64];

    for (int block = 1; block <= 4; block++) {
        if (mcsm_vl_arb(sm, port, block, body) > 0) {
            ask(sm, port, method, MCSM_VLARB, (uint32_t)block << 16 | number, body);
        }
    }
}

bool mcsm_vl_is_due(const struct mcsm_sm *sm, const struct mcsm_port *port)
{
    return mcsm_port_has_link(port) && (sm->sweep.reregister || sm->sweep.distrust ||
                                        port->state == MCSM_STATE_INIT || port->vl_differs);
}

void mcsm_vl_write_sl2vl(struct mcsm_sm *sm, struct mcsm_port *port)
{
    all_sl2vl(sm, port, MCSM_SET);
}

void mcsm_vl_write_arb(struct mcsm_sm *sm, struct mcsm_port *port)
{
    all_arb(sm, port, MCSM_SET);
}

static void every_table(struct mcsm_sm *sm, struct mcsm_port *port, uint8_t method)
{
    uint8_t table[8];

    if (mcsm_vl_sl2vl(sm, port, table)) {
        all_sl2vl(sm, port, method);
    }
    all_arb(sm, port, method);
}

/* The n-th port of all ports of switches and channel adapters with a table. */
static struct mcsm_port *nth_port(const struct mcsm_fabric *fabric, size_t n)
{
    for (int i = 0; i < fabric->switch_count; i++) {
        if (n < fabric->switches[i]->nports) {
            return &fabric->switches[i]->ports[n + 1];
        }
        n -= fabric->switches[i]->nports;
    }
    return fabric->ends[n];
}

static size_t count_ports(const struct mcsm_fabric *fabric)
{
    size_t count = fabric->ends != NULL ? fabric->end_count : 0;

    for (int i = 0; i < fabric->switch_count; i++) {
        count += fabric->switches[i]->nports;
    }
    return count;
}

/* Reads a share of the ports, so that PASS seconds suffice for all ports of a small cluster. */
static void read_some(struct mcsm_sm *sm, size_t count)
{
    size_t some = count * sm->config->sweep_interval / PASS + 1;

    some = some < PORTS_PER_SWEEP ? some : PORTS_PER_SWEEP;
    for (size_t i = 0; i < some && i < count; i++) {
        struct mcsm_port *port = nth_port(sm->fabric, sm->next_vl_port++ % count);

        if (mcsm_port_has_link(port) && !port->vl_differs) {
            port->vl_now = false;
            every_table(sm, port, MCSM_GET);
        }
    }
}

/* Writes the tables of a port that differs. Returns how many more ports this sweep may write. */
static unsigned write_if_differing(struct mcsm_sm *sm, struct mcsm_port *port, unsigned left)
{
    if (left == 0 || !port->vl_differs || !mcsm_port_has_link(port)) {
        return left;
    }
    port->vl_now = false;
    every_table(sm, port, MCSM_SET);
    every_table(sm, port, MCSM_GET);
    return left - 1;
}

/* Each sweep begins with the switch behind the one where the last sweep reached its limit. */
static void write_differing(struct mcsm_sm *sm)
{
    const struct mcsm_fabric *fabric = sm->fabric;
    unsigned left = PORTS_PER_SWEEP;
    int switches = fabric->switch_count, first = sm->next_vl_switch;

    if (mcsm_vl_differing(fabric) == 0) {
        return;
    }
    for (size_t i = 0; fabric->ends != NULL && i < fabric->end_count; i++) {
        if (!fabric->ends[i]->node->sw) {
            left = write_if_differing(sm, fabric->ends[i], left);
        }
    }
    for (int i = 0; i < switches && left > 0; i++) {
        struct mcsm_node *node = fabric->switches[(first + i) % switches];

        for (int p = 1; p <= node->nports; p++) {
            left = write_if_differing(sm, &node->ports[p], left);
        }
        sm->next_vl_switch = (first + i + 1) % switches;
    }
}

void mcsm_vl_check(struct mcsm_sm *sm)
{
    size_t count = count_ports(sm->fabric);
    bool sets = sm->config->own_levels || mcsm_sm_lanes(sm) > 1 || sm->config->set_vlarb;

    if (sets && count > 0) {
        write_differing(sm);
        read_some(sm, count);
    }
}

unsigned mcsm_vl_differing(const struct mcsm_fabric *fabric)
{
    struct mcsm_node *node, *next;
    unsigned count = 0;

    HASH_ITER(hh, fabric->nodes, node, next) {
        for (int i = 1; i <= node->nports; i++) {
            count += node->ports[i].vl_differs;
        }
    }
    return count;
}
