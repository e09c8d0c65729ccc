/*
 * Other managers of the same cluster, by SMInfo (IBTA volume 1, section 14.4). Of several the one
 * with the highest priority, among equals the one with the lowest GUID, is the master.
 */
#include "sm.h"

#include <stdlib.h>

const char *mcsm_sm_state_name(uint8_t state)
{
    static const char *const names[] = {"not active", "discovering", "standby", "master"};

    return state < 4 ? names[state] : "unknown";
}

void mcsm_sm_set_state(mcsm_sm_t *sm, uint8_t state)
{
    if (sm->state == state)
        return;
    mcsm_info("cluster %s: %s", sm->config->name, mcsm_sm_state_name(state));
    sm->reregister |= state == MCSM_SM_MASTER_STATE;
    sm->state = state;
    sm->poll_failures = 0;
    if (sm->events.state != NULL)
        sm->events.state(sm->events.arg, state);
}

void mcsm_sm_free_others(mcsm_sm_t *sm)
{
    while (sm->others != NULL) {
        mcsm_other_sm_t *other = sm->others;

        sm->others = other->next;
        free(other);
    }
}

void mcsm_sm_fill_info(const mcsm_sm_t *sm, uint8_t *body, bool with_key)
{
    memset(body, 0, MCSM_SMP_DATA);
    mcsm_put64(body, MCSM_SMI_GUID, sm->own_guid);
    mcsm_put64(body, MCSM_SMI_KEY, with_key ? sm->config->sm_key : 0);
    mcsm_put32(body, MCSM_SMI_ACT, sm->act_count);
    body[MCSM_SMI_STATE] = sm->config->priority << 4 | sm->state;
}

static mcsm_other_sm_t *find_other(mcsm_sm_t *sm, uint64_t guid)
{
    mcsm_other_sm_t *other = sm->others;

    while (other != NULL && other->guid != guid)
        other = other->next;
    return other;
}

/* ---- asking ---- */

static void got_info(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    mcsm_port_t *port = arg2;
    mcsm_other_sm_t *other;
    mcsm_sm_t *sm = arg;
    uint8_t state;

    (void)status;
    if (mad == NULL)
        return; /* the bit is set, but nobody is there any more */
    other = find_other(sm, mcsm_get64(mad, MCSM_SMP_BODY));
    if (other == NULL) {
        other = calloc(1, sizeof(*other));
        if (other == NULL)
            return;
        other->next = sm->others;
        sm->others = other;
    }
    state = mad[MCSM_SMP_BODY + MCSM_SMI_STATE];
    other->guid = mcsm_get64(mad, MCSM_SMP_BODY + MCSM_SMI_GUID);
    other->priority = state >> 4;
    other->state = state & 15;
    other->path = mcsm_sm_path(port);
    mcsm_debug("manager 0x%016lx: %s, priority %u", other->guid, mcsm_sm_state_name(other->state),
               other->priority);
}

/* Ask all ports of a fabric that say that they have a manager. */
static void for_managers(mcsm_sm_t *sm, mcsm_fabric_t *fabric, mcsm_answer_fn answer)
{
    mcsm_node_t *node, *next;

    HASH_ITER(hh, fabric->nodes, node, next)
    {
        for (int i = 0; i <= node->nports; i++) {
            mcsm_port_t *port = &node->ports[i];
            mcsm_path_t path;

            if (!mcsm_is_end_port(port) || !port->known || port == fabric->own_port ||
                port->guid == sm->own_guid ||
                !(mcsm_get32(port->info, MCSM_PI_CAPABILITY) & MCSM_CAP_IS_SM))
                continue;
            path = mcsm_sm_path(port);
            mcsm_smp(sm->mads, &path, MCSM_GET, MCSM_SM_INFO, 0, NULL, answer, sm, port);
        }
    }
}

void mcsm_sm_ask_managers(mcsm_sm_t *sm)
{
    mcsm_sm_free_others(sm);
    for_managers(sm, sm->next, got_info);
}

/* ---- who is the master ---- */

static bool is_above_us(const mcsm_sm_t *sm, const mcsm_other_sm_t *other)
{
    if (other->priority != sm->config->priority)
        return other->priority > sm->config->priority;
    return other->guid < sm->own_guid;
}

/* A manager that came, and is above us, gets the cluster with the next heavy sweep. */
static void seen(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    mcsm_other_sm_t other = {.next = NULL};
    mcsm_sm_t *sm = arg;

    (void)arg2;
    (void)status;
    if (mad == NULL)
        return;
    other.guid = mcsm_get64(mad, MCSM_SMP_BODY + MCSM_SMI_GUID);
    other.priority = mad[MCSM_SMP_BODY + MCSM_SMI_STATE] >> 4;
    other.state = mad[MCSM_SMP_BODY + MCSM_SMI_STATE] & 15;
    sm->changed |= other.state >= MCSM_SM_STANDBY_STATE && is_above_us(sm, &other);
}

void mcsm_sm_look_for_managers(mcsm_sm_t *sm)
{
    for_managers(sm, sm->fabric, seen);
}

static void handed_over(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    mcsm_sm_t *sm = arg;

    (void)arg2;
    (void)status;
    if (mad == NULL) {
        mcsm_warn("the manager that should take over does not answer: this one stays the master");
        return;
    }
    sm->master_guid = mcsm_get64(mad, MCSM_SMP_BODY);
    mcsm_sm_set_state(sm, MCSM_SM_STANDBY_STATE);
}

static void send_state(mcsm_sm_t *sm, const mcsm_other_sm_t *other, uint32_t what,
                       mcsm_answer_fn answer)
{
    uint8_t body[MCSM_SMP_DATA];

    mcsm_sm_fill_info(sm, body, true);
    mcsm_smp(sm->mads, &other->path, MCSM_SET, MCSM_SM_INFO, what, body, answer, sm, NULL);
}

bool mcsm_sm_may_be_master(mcsm_sm_t *sm)
{
    const mcsm_other_sm_t *best = NULL;

    for (const mcsm_other_sm_t *other = sm->others; other != NULL; other = other->next) {
        bool master = other->state == MCSM_SM_MASTER_STATE;

        if (other->state == MCSM_SM_NOTACTIVE_STATE)
            continue;
        /* One that comes new does not dispute a master; a master yields to whoever is above it. */
        if (sm->state == MCSM_SM_MASTER_STATE
                ? is_above_us(sm, other) && other->state != MCSM_SM_DISCOVERING_STATE
                : master || is_above_us(sm, other)) {
            if (best == NULL || master)
                best = other;
        }
    }
    if (best == NULL)
        return true;
    if (sm->state == MCSM_SM_MASTER_STATE) {
        mcsm_info("handing over to manager 0x%016lx of priority %u", best->guid, best->priority);
        send_state(sm, best, MCSM_SM_HANDOVER, handed_over);
    } else {
        sm->master_guid = best->guid;
        mcsm_sm_set_state(sm, MCSM_SM_STANDBY_STATE);
    }
    return false;
}

/* ---- standby ---- */

static void polled(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    mcsm_sm_t *sm = arg;
    uint8_t state = mad ? mad[MCSM_SMP_BODY + MCSM_SMI_STATE] & 15 : 0;
    bool alive = state == MCSM_SM_MASTER_STATE || state == MCSM_SM_DISCOVERING_STATE;

    (void)arg2;
    (void)status;
    if (sm->state != MCSM_SM_STANDBY_STATE)
        return;
    sm->poll_failures = alive ? 0 : sm->poll_failures + 1;
    if (sm->poll_failures < 2)
        return;
    mcsm_warn("the master 0x%016lx does not answer any more", sm->master_guid);
    mcsm_sm_set_state(sm, MCSM_SM_DISCOVERING_STATE);
    mcsm_sm_sweep(sm);
}

void mcsm_sm_poll_master(mcsm_sm_t *sm)
{
    const mcsm_other_sm_t *master = find_other(sm, sm->master_guid);

    if (master != NULL)
        mcsm_smp(sm->mads, &master->path, MCSM_GET, MCSM_SM_INFO, 0, NULL, polled, sm, NULL);
    else
        mcsm_sm_sweep(sm);
}

/* ---- being asked ---- */

static void answer_info(mcsm_sm_t *sm, const mcsm_addr_t *from, const uint8_t *mad, unsigned status)
{
    uint8_t answer[MCSM_MAD_SIZE];
    bool directed = mad[MCSM_MAD_CLASS] == MCSM_CLASS_SMP_DIRECT;

    memcpy(answer, mad, sizeof(answer));
    answer[MCSM_MAD_METHOD] = MCSM_GET | MCSM_RESPONSE;
    mcsm_put16(answer, MCSM_MAD_STATUS, status | (directed ? 0x8000 : 0));
    mcsm_sm_fill_info(sm, answer + MCSM_SMP_BODY, false);
    mcsm_mad_send(sm->mads, from, answer, sizeof(answer));
}

void mcsm_sm_sm_info(mcsm_sm_t *sm, const mcsm_addr_t *from, const uint8_t *mad)
{
    uint32_t what = mcsm_get32(mad, MCSM_MAD_MOD);
    uint64_t key = mcsm_get64(mad, MCSM_SMP_BODY + MCSM_SMI_KEY);
    bool set = mad[MCSM_MAD_METHOD] == MCSM_SET;

    if (!set || key != sm->config->sm_key) {
        /* 0x1c: invalid attribute modifier or value; who does not know the SM_Key changes nothing.
         */
        answer_info(sm, from, mad, set ? 0x1c : 0);
        return;
    }
    switch (what) {
    case MCSM_SM_HANDOVER:
        answer_info(sm, from, mad, 0);
        mcsm_sm_set_state(sm, MCSM_SM_MASTER_STATE);
        mcsm_sm_sweep(sm);
        return;
    case MCSM_SM_STANDBY:
        if (sm->state == MCSM_SM_NOTACTIVE_STATE)
            mcsm_sm_set_state(sm, MCSM_SM_STANDBY_STATE);
        break;
    case MCSM_SM_DISCOVER:
        if (sm->state == MCSM_SM_STANDBY_STATE) {
            mcsm_sm_set_state(sm, MCSM_SM_DISCOVERING_STATE);
            mcsm_sm_sweep(sm);
        }
        break;
    case MCSM_SM_DISABLE:
        if (sm->state == MCSM_SM_STANDBY_STATE)
            mcsm_sm_set_state(sm, MCSM_SM_NOTACTIVE_STATE);
        break;
    default:
        break;
    }
    answer_info(sm, from, mad, 0);
}
