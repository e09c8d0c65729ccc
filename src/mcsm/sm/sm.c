/* The phases of the manager, and when one follows another. */
#include "sm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

enum {
    RETRY_FIRST = 1000, /* milliseconds after an incomplete sweep; doubled up to the last */
    RETRY_LAST = 60000
};

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
    mcsm_election_start(&sm->election);
    sm->sweep.wanted = true;
    sm->lanes_set = 1;
    if (events != NULL) {
        sm->events = *events;
    }
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
    while (sm->drained != NULL) {
        struct mcsm_drained *drained = sm->drained;

        sm->drained = drained->next;
        free(drained);
    }
    mcsm_fabric_free(sm->fabric);
    mcsm_fabric_free(sm->next);
    mcsm_graph_free(sm->graph);
    mcsm_tree_free(sm->tree);
    mcsm_lids_free(sm->lids);
    free(sm);
}

void mcsm_sm_report(struct mcsm_sm *sm, const char *name, enum mcsm_log_level level, uint64_t guid,
                    uint8_t port, const char *format, ...)
{
    char text[512];
    struct mcsm_event event = {name, text, level, guid, port};
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    mcsm_log(level, "%s", text);
    if (sm->events.event != NULL) {
        sm->events.event(sm->events.arg, &event);
    }
}

void mcsm_sm_sweep(struct mcsm_sm *sm)
{
    sm->sweep.wanted = true;
}

void mcsm_sm_multicast(struct mcsm_sm *sm)
{
    sm->sweep.multicast = true;
}

static int order(struct mcsm_sm *sm, const struct mcsm_drained *wanted, bool on)
{
    struct mcsm_node *node = mcsm_fabric_find(sm->fabric, wanted->guid);
    struct mcsm_drained **at = &sm->drained, *found;

    if (on && (node == NULL || wanted->port > node->nports)) {
        return -ENOENT;
    }
    while (*at != NULL && ((*at)->guid != wanted->guid || (*at)->port != wanted->port ||
                           (*at)->held != wanted->held)) {
        at = &(*at)->next;
    }
    found = *at;
    if (!on && found == NULL) {
        return -ENOENT;
    }
    if (on && found == NULL) {
        found = calloc(1, sizeof(*found));
        if (found == NULL) {
            return -ENOMEM;
        }
        *found = *wanted;
        found->next = sm->drained;
        sm->drained = found;
    } else if (!on) {
        *at = found->next;
        free(found);
    }
    if (on) { /* the next decision of health must not count on this link */
        node->ports[wanted->port].drained = true;
        node->ports[wanted->port].held |= wanted->held;
    }
    mcsm_sm_sweep(sm);
    return 0;
}

int mcsm_sm_drain(struct mcsm_sm *sm, uint64_t guid, uint8_t port, bool drain)
{
    return order(sm, &(struct mcsm_drained){.guid = guid, .port = port}, drain);
}

int mcsm_sm_hold(struct mcsm_sm *sm, uint64_t guid, uint8_t port, bool hold)
{
    return order(sm, &(struct mcsm_drained){.guid = guid, .port = port, .held = true}, hold);
}

void mcsm_sm_receive(struct mcsm_sm *sm, const struct mcsm_addr *from, const uint8_t *mad)
{
    uint8_t method = mad[MCSM_MAD_METHOD];
    uint16_t attr = mcsm_get16(mad, MCSM_MAD_ATTR);

    if (method == MCSM_TRAP && attr == MCSM_NOTICE) {
        mcsm_sm_trap(sm, from, mad);
    } else if ((method == MCSM_GET || method == MCSM_SET) && attr == MCSM_SM_INFO) {
        mcsm_election_receive(sm, from, mad);
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
    unsigned wait;

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
    sm->sweep.failures = sm->sweep.incomplete ? sm->sweep.failures + 1 : 0;
    wait = RETRY_FIRST << (sm->sweep.failures < 7 ? sm->sweep.failures : 6);
    sm->sweep.retry_at = sm->sweep.incomplete ? now + (wait < RETRY_LAST ? wait : RETRY_LAST) : 0;
    sm->sweep.next_light = now + sm->config->sweep_interval * 1000ULL;
    sm->sweep.next_poll = now + sm->config->standby_interval * 1000ULL;
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
            sm->sweep.retry_at = now + 5 * RETRY_FIRST;
            return MCSM_PHASE_IDLE;
        }
        mcsm_sm_discovered(sm);
        mcsm_election_ask(sm);
        return MCSM_PHASE_MANAGERS;
    case MCSM_PHASE_MANAGERS:
        if (!mcsm_election_may_be_master(sm)) {
            break;
        }
        mcsm_sm_set_state(sm, MCSM_SM_MASTER_STATE);
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
        mcsm_election_looked(sm);
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
    sm->sweep.multicast = false;
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
    if (sm->sweep.wanted || (sm->sweep.retry_at != 0 && now >= sm->sweep.retry_at)) {
        sm->sweep.wanted = false;
        sm->sweep.retry_at = 0;
        mcsm_sm_discover(sm);
        return sm->next ? MCSM_PHASE_DISCOVER : MCSM_PHASE_IDLE;
    }
    if (master && sm->sweep.multicast) {
        return start_multicast(sm);
    }
    if (master && sm->config->sweep_interval > 0 && now >= sm->sweep.next_light) {
        sm->sweep.next_light = now + sm->config->sweep_interval * 1000ULL;
        mcsm_sm_light(sm);
        return MCSM_PHASE_LIGHT;
    }
    if (sm->election.state == MCSM_SM_STANDBY_STATE && now >= sm->sweep.next_poll) {
        sm->sweep.next_poll = now + sm->config->standby_interval * 1000ULL;
        mcsm_election_poll(sm);
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
