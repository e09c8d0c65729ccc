/* The light sweep, and traps: how changes are found (paper 001, "Detecting changes of the
 * topology"). */
#include "phases.h"

#include "base/text.h"
#include "vl_tables.h"

static void got_switch(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_node *node = arg2;
    struct mcsm_sm *sm = arg;

    (void)status;
    if (mad == NULL) {
        mcsm_info("%s (0x%016lx) does not answer any more", node->desc, node->guid);
        sm->sweep.changed = true;
    } else if (mad[MCSM_SMP_BODY + MCSM_SI_LIFE] & MCSM_SI_STATE_CHANGE) {
        mcsm_info("%s (0x%016lx): a port changed its state", node->desc, node->guid);
        sm->sweep.changed = true;
    }
}

/* A border port that waits for the other cluster, or a port with a new cable. */
static void got_port(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_port *port = arg2;
    struct mcsm_sm *sm = arg;
    uint8_t state;

    (void)status;
    if (mad == NULL) {
        return;
    }
    state = mcsm_lo(mad + MCSM_SMP_BODY, MCSM_PI_STATE_LO);
    if ((state > MCSM_STATE_DOWN) != (port->state > MCSM_STATE_DOWN)) {
        sm->sweep.changed = true;
    }
    memcpy(port->info, mad + MCSM_SMP_BODY, sizeof(port->info));
    port->state = state;
}

/* Whether something behind the port kept silent: it is asked again. */
static void got_silent(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_sm *sm = arg;

    (void)arg2;
    (void)status;
    sm->sweep.changed |= mad != NULL;
}

/* Reading the port with the right M_Key restarts its lease. If another manager has configured the
 * port, this manager configures the cluster again. */
static void got_lease(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    const uint8_t *info = mad ? mad + MCSM_SMP_BODY : NULL;
    const struct mcsm_port *port = arg2;
    struct mcsm_sm *sm = arg;

    (void)status;
    if (mad == NULL || sm->fabric->own_port == NULL ||
        (mcsm_get64(info, MCSM_PI_MKEY) == mcsm_get64(port->info, MCSM_PI_MKEY) &&
         mcsm_get16(info, MCSM_PI_SM_LID) == sm->fabric->own_port->lid)) {
        return;
    }
    mcsm_report(&sm->events, "port-overwritten", MCSM_LOG_ERROR, port->guid, port->num,
                "%s (0x%016lx) port %u: another manager has set M_Key or SM LID (LID %u): the "
                "cluster is set up anew",
                port->node->desc, port->node->guid, port->num, mcsm_get16(info, MCSM_PI_SM_LID));
    sm->sweep.distrust = sm->sweep.changed = true;
}

/* Each light sweep reads a part of the end ports. In one lease, every port is read three times. */
static void renew_leases(struct mcsm_sm *sm)
{
    size_t count = sm->fabric->end_count, some;
    unsigned lease = sm->config->m_key_lease;

    if (lease == 0 || sm->config->m_key == 0 || count == 0 || sm->fabric->ends == NULL) {
        return;
    }
    some = count * 3 * sm->config->sweep_interval / lease + 1;
    for (size_t i = 0; i < some && i < count; i++) {
        struct mcsm_port *port = sm->fabric->ends[sm->next_lease++ % count];
        struct mcsm_path path = mcsm_port_path(port);

        if (port->known && port->lid != 0) {
            mcsm_smp(sm->mads, &path, MCSM_GET, MCSM_PORT_INFO, port->num, NULL, got_lease, sm,
                     port);
        }
    }
}

void mcsm_sm_light(struct mcsm_sm *sm)
{
    const struct mcsm_path here = {.hops = 0};

    sm->sweep.changed = false;
    sm->stats.light_sweeps++;
    if (sm->fabric->switch_count == 0 && sm->fabric->own_port == NULL) {
        sm->sweep.changed = true;
        return;
    }
    if (sm->fabric->own_port != NULL) {
        mcsm_smp(sm->mads, &here, MCSM_GET, MCSM_PORT_INFO, sm->fabric->own_port->num, NULL,
                 got_port, sm, sm->fabric->own_port);
    }
    mcsm_election_ask(&sm->election, sm->fabric);
    renew_leases(sm);
    mcsm_vl_check(sm);
    for (int i = 0; i < sm->fabric->switch_count; i++) {
        struct mcsm_node *node = sm->fabric->switches[i];

        mcsm_smp(sm->mads, &node->path, MCSM_GET, MCSM_SWITCH_INFO, 0, NULL, got_switch, sm, node);
        for (int p = 1; p <= node->nports; p++) {
            struct mcsm_port *port = &node->ports[p];
            struct mcsm_path path = node->path;

            if (port->border && port->state != MCSM_STATE_ACTIVE) {
                mcsm_smp(sm->mads, &path, MCSM_GET, MCSM_PORT_INFO, p, NULL, got_port, sm, port);
            }
            if (!port->silent || path.hops >= MCSM_MAX_HOPS) {
                continue;
            }
            path.port[++path.hops] = p;
            mcsm_smp(sm->mads, &path, MCSM_GET, MCSM_NODE_INFO, 0, NULL, got_silent, sm, port);
        }
    }
}

/* ---- traps ---- */

static void repress(struct mcsm_sm *sm, const struct mcsm_addr *from, const uint8_t *mad)
{
    uint8_t answer[MCSM_MAD_SIZE];

    memcpy(answer, mad, sizeof(answer));
    answer[MCSM_MAD_METHOD] = MCSM_TRAP_REPRESS;
    mcsm_put16(answer, MCSM_MAD_STATUS, 0);
    mcsm_put64(answer, MCSM_SMP_MKEY, sm->config->m_key);
    mcsm_mad_send(sm->mads, from, answer, sizeof(answer));
}

/* The port has changed its description: read the description again. */
static void got_desc(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    uint64_t guid = (uintptr_t)arg2;
    struct mcsm_sm *sm = arg;
    struct mcsm_node *node = mcsm_fabric_find(sm->fabric, guid);

    (void)status;
    if (mad == NULL || node == NULL) {
        return;
    }
    memcpy(node->raw_desc, mad + MCSM_SMP_BODY, sizeof(node->raw_desc));
    mcsm_clean_text(node->desc, sizeof(node->desc), node->raw_desc, sizeof(node->raw_desc));
}

/* Trap 144 that says: nothing changed but the NodeDescription. */
static bool only_description(const uint8_t *notice)
{
    enum { LOCAL_CHANGES = 15, CHANGE_FLAGS = 20, DESCRIPTION = 1 };

    return notice[LOCAL_CHANGES] & 1 && mcsm_get16(notice, CHANGE_FLAGS) == DESCRIPTION;
}

/* A broken link may send traps 129 to 131 without end. Ten in a second are logged and handed on. */
static bool is_in_burst(struct mcsm_sm *sm, unsigned trap)
{
    enum { PER_SECOND = 10 };
    uint64_t second = mcsm_now() / 1000;

    if (trap < 129 || trap > 131) {
        return false;
    }
    if (second != sm->burst_second) {
        if (sm->burst > PER_SECOND) {
            mcsm_warn("%u more traps 129 to 131 came in one second", sm->burst - PER_SECOND);
        }
        sm->burst = 0;
        sm->burst_second = second;
    }
    return ++sm->burst > PER_SECOND;
}

/* The port refused an SMP with a wrong M_Key. Now the lease of the port runs. Reading the port with
 * the right key stops the lease. */
static void bad_m_key(struct mcsm_sm *sm, struct mcsm_port *port, const uint8_t *notice)
{
    struct mcsm_path path = mcsm_port_path(port);

    mcsm_report(&sm->events, "wrong-m-key", MCSM_LOG_ERROR, port->guid, port->num,
                "%s (0x%016lx) refused an SMP with a wrong M_Key from LID %u (method 0x%02x, "
                "attribute 0x%04x): does a foreign subnet manager run there?",
                port->node->desc, port->node->guid, mcsm_get16(notice, 12), notice[16],
                mcsm_get16(notice, 18));
    mcsm_smp(sm->mads, &path, MCSM_GET, MCSM_PORT_INFO, port->num, NULL, got_lease, sm, port);
}

static void act_on(struct mcsm_sm *sm, unsigned trap, struct mcsm_port *port, const uint8_t *notice)
{
    static const char *const what[] = {
        "a port changed its state", "local link integrity threshold reached",
        "excessive buffer overrun threshold reached", "flow control watchdog expired"};
    struct mcsm_path path = mcsm_port_path(port);

    if (trap == 256) {
        bad_m_key(sm, port, notice);
        return;
    }
    if (trap >= 128 && trap <= 131) {
        mcsm_log(trap == 128 ? MCSM_LOG_INFO : MCSM_LOG_WARN, "trap %u from %s (0x%016lx): %s",
                 trap, port->node->desc, port->node->guid, what[trap - 128]);
    } else {
        mcsm_info("trap %u from %s (0x%016lx)", trap, port->node->desc, port->node->guid);
    }
    if (trap == 128) {
        sm->sweep.wanted = true;
    } else if (trap == 144) {
        mcsm_smp(sm->mads, &path, MCSM_GET, MCSM_NODE_DESC, 0, NULL, got_desc, sm,
                 (void *)(uintptr_t)port->node->guid);
        if (!only_description(notice)) {
            sm->sweep.wanted = true; /* another manager may have come */
        }
    }
}

void mcsm_sm_trap(struct mcsm_sm *sm, const struct mcsm_addr *from, const uint8_t *mad)
{
    const uint8_t *notice = mad + MCSM_SMP_BODY;
    unsigned trap = mcsm_get16(notice, 4), issuer = mcsm_get16(notice, 6);
    struct mcsm_port *port =
        mcsm_fabric_by_lid(sm->fabric, from->lid == 0xffff ? issuer : from->lid);

    if (port == NULL || mcsm_fabric_by_lid(sm->fabric, issuer) == NULL) {
        sm->stats.foreign_traps++;
        mcsm_debug("trap %u of LID %u, which is not in this cluster, is ignored", trap, from->lid);
        return;
    }
    if (sm->election.state != MCSM_SM_MASTER_STATE) {
        return;
    }
    repress(sm, from, mad);
    if (!(notice[0] & 0x80)) {
        return; /* a vendor's own */
    }
    sm->stats.traps[trap >= 128 && trap <= 131 ? trap - 128 :
                    trap == 144                ? 4 :
                    trap == 256                ? 5 :
                                                 6]++;
    if (is_in_burst(sm, trap)) {
        return;
    }
    act_on(sm, trap, port, notice);
    if (sm->events.trap != NULL) {
        sm->events.trap(sm->events.arg, notice);
    }
}
