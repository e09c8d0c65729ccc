/* The phases of the manager, and when one follows another. */
#include "sm.h"

#include "phases.h"

#include <errno.h>
#include <stdlib.h>

struct mcsm_sm *mcsm_sm_new(const struct mcsm_config *config, struct mcsm_mads *mads,
                            uint64_t own_guid, const struct mcsm_sm_events *events)
{
    struct mcsm_sm *sm = calloc(1, sizeof(*sm));

    if (sm == NULL) {
        return NULL;
    }
    sm->config = config;
    sm->mads = mads;
    sm->own_guid = own_guid;
    sm->sweep.wanted = true;
    if (events != NULL) {
        sm->events = *events;
    }
    mcsm_election_start(&sm->election, config, mads, own_guid, &sm->sweep, &sm->events);
    sm->fabric = mcsm_fabric_new();
    sm->lids = mcsm_lids_new(config);
    if (sm->fabric == NULL || sm->lids == NULL) {
        mcsm_sm_free(sm);
        return NULL;
    }
    mcsm_mads_set_keys(mads, config->m_key, config->m_key_before);
    return sm;
}

void mcsm_sm_free(struct mcsm_sm *sm)
{
    if (sm == NULL) {
        return;
    }
    mcsm_election_end(&sm->election);
    mcsm_drains_free(&sm->drains);
    mcsm_fabric_free(sm->fabric);
    mcsm_fabric_free(sm->next);
    mcsm_graph_free(sm->graph);
    mcsm_tree_free(sm->tree);
    free(sm->closed);
    mcsm_lids_free(sm->lids);
    free(sm);
}

void mcsm_sm_sweep(struct mcsm_sm *sm)
{
    sm->sweep.wanted = true;
}

void mcsm_sm_multicast(struct mcsm_sm *sm)
{
    sm->sweep.multicast = true;
}

static int order(struct mcsm_sm *sm, uint64_t guid, uint8_t port, bool held, bool on)
{
    struct mcsm_node *node = mcsm_fabric_find(sm->fabric, guid);
    int status;

    if (on && (node == NULL || port > node->nports)) {
        return -ENOENT;
    }
    status = on ? mcsm_drains_add(&sm->drains, guid, port, held) :
                  mcsm_drains_remove(&sm->drains, guid, port, held);
    if (status < 0) {
        return status;
    }
    if (on) { /* the next decision of health must not count on this link */
        mcsm_drains_mark(&sm->drains, node);
    }
    mcsm_sm_sweep(sm);
    return 0;
}

int mcsm_sm_drain(struct mcsm_sm *sm, uint64_t guid, uint8_t port, bool drain)
{
    int status = order(sm, guid, port, false, drain);

    if (status == 0 && sm->events.drained != NULL) {
        sm->events.drained(sm->events.arg, guid, port, drain);
    }
    return status;
}

int mcsm_sm_hold(struct mcsm_sm *sm, uint64_t guid, uint8_t port, bool hold)
{
    return order(sm, guid, port, true, hold);
}

void mcsm_sm_receive(struct mcsm_sm *sm, const struct mcsm_addr *from, const uint8_t *mad)
{
    uint8_t method = mad[MCSM_MAD_METHOD];
    uint16_t attr = mcsm_get16(mad, MCSM_MAD_ATTR);

    if (method == MCSM_TRAP && attr == MCSM_NOTICE) {
        mcsm_sm_trap(sm, from, mad);
    } else if ((method == MCSM_GET || method == MCSM_SET) && attr == MCSM_SM_INFO) {
        mcsm_election_receive(&sm->election, from, mad);
    } else {
        mcsm_debug("SMP with method 0x%02x, attribute 0x%02x from LID %u is ignored", method, attr,
                   from->lid);
    }
}

/* ---- the end of a heavy sweep ---- */

/* Reports end ports that came and went. */
static void report_end_ports(struct mcsm_sm *sm, const struct mcsm_fabric *in,
                             const struct mcsm_fabric *not_in, bool there)
{
    struct mcsm_node *node, *next;

    HASH_ITER(hh, in->nodes, node, next) {
        for (int i = 1; i <= node->nports && !node->sw; i++) {
            const struct mcsm_port *port = &node->ports[i];
            const struct mcsm_node *other = mcsm_fabric_find(not_in, node->guid);

            if (port->lid == 0 || port->guid == 0 ||
                (other != NULL && i <= other->nports && other->ports[i].lid != 0)) {
                continue;
            }
            mcsm_info("0x%016lx (%s) LID %u %s", port->guid, node->desc, port->lid,
                      there ? "is reachable" : "is gone");
            if (sm->events.end_port != NULL) {
                sm->events.end_port(sm->events.arg, port->guid, there);
            }
        }
    }
}

static void replace_fabric(struct mcsm_sm *sm)
{
    struct mcsm_fabric *old = sm->fabric;

    if (sm->election.handing_over) { /* no LIDs were assigned, and clients still ask this manager */
        mcsm_fabric_free(sm->next);
        sm->next = NULL;
        return;
    }
    sm->fabric = sm->next;
    sm->next = NULL;
    if (sm->election.state == MCSM_SM_MASTER_STATE) {
        report_end_ports(sm, old, sm->fabric, false);
        report_end_ports(sm, sm->fabric, old, true);
    }
    mcsm_fabric_free(old);
}

static void end_sweep(struct mcsm_sm *sm, uint64_t now)
{
    replace_fabric(sm);
    sm->stats.heavy_sweeps++;
    sm->stats.sweep_ms = now - sm->sweep.started;
    if (sm->election.state == MCSM_SM_MASTER_STATE) {
        mcsm_lids_save(sm->lids);
        sm->sweep.reregister = false;
        sm->sweep.former_master = 0; /* a port that appears later must register again */
        mcsm_info("SUBNET UP: cluster %s, %d switches, %d other nodes, %d links, %u ms%s",
                  sm->config->name, sm->fabric->switch_count, sm->fabric->ca_count,
                  sm->fabric->link_count, sm->stats.sweep_ms,
                  sm->sweep.incomplete ? "; not all of it could be set up" : "");
    }
    mcsm_sweep_end(&sm->sweep, sm->config, now);
    if (sm->events.swept != NULL) {
        sm->events.swept(sm->events.arg);
    }
}

/* ---- phases ---- */

static bool start_ports(struct mcsm_sm *sm)
{
    int without = mcsm_lids_assign(sm->lids, sm->next);

    sm->stats.without_lid = without > 0 ? without : 0;
    if (without < 0) {
        return false;
    }
    if (sm->next->own_port->lid == 0) {
        mcsm_error("the manager's own port has no LID, so that nothing can be set up");
        return false;
    }
    mcsm_fabric_inherit(sm->next, sm->fabric);
    mcsm_sm_ports(sm);
    return true;
}

/* The phase after the last answer of the present phase. */
static enum mcsm_phase next_phase(struct mcsm_sm *sm, uint64_t now)
{
    switch (sm->sweep.phase) {
    case MCSM_PHASE_DISCOVER:
        if (sm->next == NULL || sm->next->own_port == NULL || !sm->next->own_port->known) {
            mcsm_fabric_free(sm->next);
            sm->next = NULL;
            mcsm_sweep_put_off(&sm->sweep, now);
            return MCSM_PHASE_IDLE;
        }
        mcsm_sm_discovered(sm);
        mcsm_election_ask(&sm->election, sm->next);
        return MCSM_PHASE_MANAGERS;
    case MCSM_PHASE_MANAGERS:
        if (!mcsm_election_may_be_master(&sm->election)) {
            break;
        }
        mcsm_election_set_state(&sm->election, MCSM_SM_MASTER_STATE);
        if (!start_ports(sm)) {
            break;
        }
        return MCSM_PHASE_PORTS;
    case MCSM_PHASE_PORTS:
        if (mcsm_sm_route(sm) < 0) {
            break;
        }
        mcsm_sm_set_lanes(sm);
        mcsm_sm_multicast_tables(sm);
        mcsm_sm_write_tables(sm);
        return MCSM_PHASE_TABLES;
    case MCSM_PHASE_TABLES:
        mcsm_sm_set_link_state(sm, MCSM_STATE_ARMED);
        return MCSM_PHASE_ARM;
    case MCSM_PHASE_ARM:
        mcsm_sm_set_link_state(sm, MCSM_STATE_ACTIVE);
        return MCSM_PHASE_ACTIVATE;
    case MCSM_PHASE_ACTIVATE:
        if (sm->next != NULL) {
            end_sweep(sm, now);
        }
        return MCSM_PHASE_IDLE;
    case MCSM_PHASE_LIGHT:
        mcsm_election_looked(&sm->election);
        sm->sweep.wanted |= sm->sweep.changed;
        if (!sm->sweep.changed) {
            mcsm_sm_set_link_state(sm, MCSM_STATE_ARMED);
            return MCSM_PHASE_ARM; /* border links whose other side has come */
        }
        return MCSM_PHASE_IDLE;
    default:
        return MCSM_PHASE_IDLE;
    }
    if (sm->next != NULL) {
        end_sweep(sm, now);
    }
    return MCSM_PHASE_IDLE;
}

static enum mcsm_phase start_multicast(struct mcsm_sm *sm)
{
    mcsm_sm_multicast_tables(sm);
    for (int i = 0; i < sm->fabric->switch_count; i++) {
        if (sm->fabric->switches[i]->mft != NULL) {
            mcsm_sm_write_mft(sm, sm->fabric->switches[i]);
        }
    }
    return MCSM_PHASE_MULTICAST;
}

static enum mcsm_phase leave_idle(struct mcsm_sm *sm, uint64_t now)
{
    bool master = sm->election.state == MCSM_SM_MASTER_STATE;

    if (sm->election.state == MCSM_SM_NOTACTIVE_STATE) {
        sm->sweep.wanted = false; /* only a Set STANDBY of a peer ends this state */
        return MCSM_PHASE_IDLE;
    }
    if (mcsm_sweep_heavy_due(&sm->sweep, now)) {
        mcsm_sm_discover(sm);
        return sm->next ? MCSM_PHASE_DISCOVER : MCSM_PHASE_IDLE;
    }
    if (master && mcsm_sweep_multicast_due(&sm->sweep)) {
        return start_multicast(sm);
    }
    if (master && mcsm_sweep_light_due(&sm->sweep, sm->config, now)) {
        mcsm_sm_light(sm);
        return MCSM_PHASE_LIGHT;
    }
    if (sm->election.state == MCSM_SM_STANDBY_STATE &&
        mcsm_sweep_poll_due(&sm->sweep, sm->config, now)) {
        mcsm_election_poll(&sm->election);
    }
    return MCSM_PHASE_IDLE;
}

void mcsm_sm_run(struct mcsm_sm *sm, uint64_t now)
{
    mcsm_mads_tick(sm->mads, now);
    /* A phase that had nothing to send ends at once. */
    for (int i = 0; i < 16 && mcsm_mads_pending(sm->mads) == 0; i++) {
        enum mcsm_phase was = sm->sweep.phase;

        sm->sweep.phase = was == MCSM_PHASE_IDLE ? leave_idle(sm, now) : next_phase(sm, now);
        if (was == MCSM_PHASE_IDLE && sm->sweep.phase == MCSM_PHASE_IDLE) {
            return;
        }
    }
}
