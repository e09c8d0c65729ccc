/*
 * Configures ports: LIDs, MTU, widths, virtual lanes, partitions, and the states of a link from
 * INIT over ARMED to ACTIVE. Only differences are written.
 */
#include "phases.h"
#include "vl_tables.h"

#include <stdlib.h>

/* The administration answers with the PortInfo that the port has now. */
static void take_info(struct mcsm_port *port, const uint8_t *mad)
{
    memcpy(port->info, mad + MCSM_SMP_BODY, sizeof(port->info));
    port->info[MCSM_PI_SUBNET_TIMEOUT] &= ~MCSM_CLIENT_REREGISTER;
    port->state = mcsm_lo(port->info, MCSM_PI_STATE_LO);
}

static void got_port(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    if (mad == NULL) {
        mcsm_sm_set_done(arg, arg2, mad, status);
    } else {
        take_info(arg2, mad);
    }
}

static void set_port(struct mcsm_sm *sm, struct mcsm_port *port, const uint8_t *info,
                     mcsm_answer_fn answer)
{
    struct mcsm_path path = mcsm_port_path(port);

    mcsm_smp(sm->mads, &path, MCSM_SET, MCSM_PORT_INFO, port->num, info, answer, sm, port);
}

static uint8_t least(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* A Set with 0 leaves states and speeds unchanged. */
static void leave_states(uint8_t *info)
{
    info[MCSM_PI_STATE_LO] &= 0xf0;
    info[MCSM_PI_PHYS_HI] = 0;
    info[MCSM_PI_WIDTH_ENABLED] = 0;
    mcsm_put_lo(info, MCSM_PI_SPEED_ACTIVE_HI, 0);
}

/* Computes the fields of an end port. True if a field differs. */
static bool plan_end_port(struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t *info)
{
    const struct mcsm_config *config = sm->config;
    uint16_t sm_lid = sm->next->own_port->lid, old_sm = mcsm_get16(port->info, MCSM_PI_SM_LID);
    uint8_t timeout = info[MCSM_PI_SUBNET_TIMEOUT] & 0x60, lmc = info[MCSM_PI_LMC] & 0x38;

    mcsm_put64(info, MCSM_PI_MKEY, config->m_key);
    mcsm_put16(info, MCSM_PI_MKEY_LEASE, config->m_key != 0 ? config->m_key_lease : 0);
    mcsm_put64(info, MCSM_PI_PREFIX, config->subnet_prefix);
    mcsm_put16(info, MCSM_PI_LID, port->lid);
    mcsm_put16(info, MCSM_PI_SM_LID, sm_lid);
    info[MCSM_PI_LMC] = lmc | (config->m_key != 0 ? config->m_key_bits << 6 : 0) |
                        (port->node->sw ? 0 : config->lmc);
    info[MCSM_PI_SUBNET_TIMEOUT] = timeout | config->subnet_timeout;
    /* A port that had another master registers again, unless the other master has sent the port's
     * groups and services to this manager. */
    if (!port->node->sw && (((sm->sweep.reregister || old_sm != sm_lid) &&
                             (old_sm == 0 || old_sm != sm->sweep.former_master)) ||
                            mcsm_get16(port->info, MCSM_PI_LID) != port->lid)) {
        info[MCSM_PI_SUBNET_TIMEOUT] |= MCSM_CLIENT_REREGISTER;
        return true;
    }
    return memcmp(info, port->info, sizeof(port->info)) != 0;
}

/* The fields of a port with a link: both ends get the same MTU and no more lanes than both have. */
static void plan_link(const struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t *info)
{
    const struct mcsm_config *config = sm->config;
    const uint8_t *peer = port->peer ? port->peer->info : port->info;
    uint8_t mtu = least(config->max_mtu, least(mcsm_lo(port->info, MCSM_PI_MTU_CAP_LO),
                                               mcsm_lo(peer, MCSM_PI_MTU_CAP_LO)));
    uint8_t vls = mcsm_vl_code(config, port);

    if (mtu >= 1) {
        mcsm_put_hi(info, MCSM_PI_MTU_HI, mtu);
    }
    if (vls >= 1) {
        mcsm_put_hi(info, MCSM_PI_OPER_VLS_HI, vls);
    }
    if (port->node->sw) {
        bool leaf = port->peer != NULL && !port->peer->node->sw;

        info[MCSM_PI_HOQ] = (info[MCSM_PI_HOQ] & 0xe0) |
                            (leaf ? config->leaf_head_of_queue_life : config->head_of_queue_life);
        info[MCSM_PI_OPER_VLS_HI] &= ~MCSM_PI_FILTERS;
        if (port->enforce) {
            info[MCSM_PI_OPER_VLS_HI] |= MCSM_PI_ENFORCE_PKEYS;
        }
    }
    if (config->set_vlarb) {
        info[MCSM_PI_VL_HIGH_LIMIT] = config->vlarb_high_limit;
    }
    if (port->node->sw) {
        mcsm_put64(info, MCSM_PI_MKEY, 0);
    }
}

static void plan_port(struct mcsm_sm *sm, struct mcsm_port *port)
{
    bool end = mcsm_is_end_port(port), write = false;
    const struct mcsm_config *config = sm->config;
    uint8_t info[64];

    if (!port->known || (end && port->lid == 0)) {
        return;
    }
    memcpy(info, port->info, sizeof(info));
    if (mcsm_port_has_link(port)) {
        plan_link(sm, port, info);
    }
    write = memcmp(info, port->info, sizeof(info)) != 0;
    if (end) {
        write |= plan_end_port(sm, port, info);
    }
    leave_states(info);
    if (config->link_width != 0 && mcsm_port_has_link(port)) {
        uint8_t width = config->link_width & port->info[MCSM_PI_WIDTH_SUPPORTED];

        write |= width != 0 && width != port->info[MCSM_PI_WIDTH_ENABLED];
        info[MCSM_PI_WIDTH_ENABLED] = width;
    }
    if (write) {
        set_port(sm, port, info, got_port);
    }
}

void mcsm_sm_ports(struct mcsm_sm *sm)
{
    struct mcsm_node *node, *next;

    /* First the keys: plan_port() switches on the filters of the switch ports. */
    HASH_ITER(hh, sm->next->nodes, node, next) {
        for (int i = 1; i <= node->nports && !node->sw; i++) {
            if (node->ports[i].known) {
                mcsm_sm_plan_pkeys(sm, &node->ports[i]);
            }
        }
    }
    HASH_ITER(hh, sm->next->nodes, node, next) {
        for (int i = 0; i <= node->nports; i++) {
            struct mcsm_port *port = &node->ports[i];

            plan_port(sm, port);
            if (!mcsm_vl_is_due(sm, port)) {
                continue;
            }
            if (sm->config->own_levels && !sm->config->shares_lanes) {
                mcsm_vl_write_sl2vl(sm, port);
            }
            mcsm_vl_write_arb(sm, port);
        }
    }
}

/* After the routes: lanes of ports, and the service level of packets to this manager. */
void mcsm_sm_set_lanes(struct mcsm_sm *sm)
{
    int lanes = mcsm_sm_lanes(sm);
    uint64_t map = mcsm_sm_lane_map(sm);
    bool changed = map != sm->lanes_set;
    bool by_routes = !sm->config->own_levels || sm->config->shares_lanes;
    struct mcsm_node *node, *next;

    HASH_ITER(hh, sm->next->nodes, node, next) {
        for (int i = 0; i <= node->nports; i++) {
            struct mcsm_port *port = &node->ports[i];
            uint8_t info[64], sl;

            if (by_routes && mcsm_port_has_link(port) &&
                (changed ||
                 ((lanes > 1 || sm->config->shares_lanes) && mcsm_vl_is_due(sm, port)))) {
                mcsm_vl_write_sl2vl(sm, port);
            }
            if (!mcsm_is_end_port(port) || !port->known || port->lid == 0) {
                continue;
            }
            sl = mcsm_sm_lane(sm, port, sm->next->own_port);
            if (mcsm_lo(port->info, MCSM_PI_MTU_HI) == sl) {
                continue;
            }
            memcpy(info, port->info, sizeof(info));
            mcsm_put_lo(info, MCSM_PI_MTU_HI, sl);
            leave_states(info);
            set_port(sm, port, info, got_port);
        }
    }
    if (changed) {
        mcsm_info("the routes use %d lane%s: %s%d switches", lanes, lanes > 1 ? "s" : "",
                  "SL2VL tables are set in ", sm->next->switch_count);
    }
    sm->lanes_set = map;
}

/* ---- link states ---- */

/* A border link becomes ACTIVE only when the other cluster's manager has armed its end. Until then
 * the port is tried again with each light sweep; that is no failure. */
static void got_state(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_port *port = arg2;
    struct mcsm_sm *sm = arg;

    if (mad != NULL) {
        take_info(port, mad);
    } else if (!port->border) {
        mcsm_sm_set_done(arg, arg2, mad, status);
    }
    if (port->border && port->state != MCSM_STATE_ACTIVE) {
        mcsm_debug("%s: border port 0x%016lx/%u waits for the other side", sm->config->name,
                   port->node->guid, port->num);
    }
}

/* Ends without a LID stay as they are, and their links too. */
static bool may_go_up(const struct mcsm_port *port)
{
    if (!mcsm_port_has_link(port) || port->failed) {
        return false;
    }
    if (mcsm_is_end_port(port) && port->lid == 0) {
        return false;
    }
    return port->border || !mcsm_is_end_port(port->peer) || port->peer->lid != 0;
}

void mcsm_sm_set_link_state(struct mcsm_sm *sm, uint8_t state)
{
    struct mcsm_fabric *fabric = sm->next ? sm->next : sm->fabric;
    struct mcsm_node *node, *next;
    uint8_t info[64];

    HASH_ITER(hh, fabric->nodes, node, next) {
        for (int i = 1; i <= node->nports; i++) {
            struct mcsm_port *port = &node->ports[i];

            if (!may_go_up(port) || port->state != state - 1) {
                continue;
            }
            memcpy(info, port->info, sizeof(info));
            leave_states(info);
            mcsm_put_lo(info, MCSM_PI_STATE_LO, state);
            set_port(sm, port, info, got_state);
        }
    }
}
