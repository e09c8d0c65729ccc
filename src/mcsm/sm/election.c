#include "election.h"

#include "proof.h"

#include <stdlib.h>
#include <utlist.h>

enum {
    WRONG_VALUE = 0x1c, /* MAD status: a field of the attribute has a wrong value */
    READY_WAIT = 10000  /* milliseconds that a master waits for a peer to become ready */
};

const char *mcsm_sm_state_name(uint8_t state)
{
    static const char *const names[] = {"not active", "discovering", "standby", "master"};

    return state < 4 ? names[state] : "unknown";
}

void mcsm_election_start(struct mcsm_election *election, const struct mcsm_config *config,
                         struct mcsm_mads *mads, uint64_t own_guid, struct mcsm_sweep *sweep,
                         const struct mcsm_sm_events *events)
{
    *election = (struct mcsm_election){.config = config,
                                       .mads = mads,
                                       .sweep = sweep,
                                       .events = events,
                                       .own_guid = own_guid,
                                       .state = MCSM_SM_DISCOVERING_STATE,
                                       .challenge = mcsm_random()};
}

static void free_list(struct mcsm_rival **list)
{
    struct mcsm_rival *rival, *next;

    LL_FOREACH_SAFE(*list, rival, next) {
        free(rival);
    }
    *list = NULL;
}

void mcsm_election_end(struct mcsm_election *election)
{
    free_list(&election->peers);
    free_list(&election->foreign);
}

void mcsm_election_set_state(struct mcsm_election *election, uint8_t state)
{
    if (election->state == state) {
        return;
    }
    mcsm_report(election->events, state == MCSM_SM_MASTER_STATE ? "master" : "state", MCSM_LOG_INFO,
                election->own_guid, 0, "cluster %s: %s", election->config->name,
                mcsm_sm_state_name(state));
    election->sweep->reregister |= state == MCSM_SM_MASTER_STATE;
    election->state = state;
    election->poll_failures = 0;
    election->handing_over = false;
    if (election->events->state != NULL) {
        election->events->state(election->events->arg, state);
    }
}

void mcsm_election_info(const struct mcsm_election *election, uint8_t *body)
{
    memset(body, 0, MCSM_SMP_DATA);
    mcsm_put64(body, MCSM_SMI_GUID, election->own_guid);
    /* Not the secret: an OpenSM with its defaults (SM_Key 1) takes us for a master and waits. */
    mcsm_put64(body, MCSM_SMI_KEY, election->config->shown_sm_key);
    /* The standard counts management activities. Each packet is one. */
    mcsm_put32(body, MCSM_SMI_ACT, mcsm_mads_stats(election->mads)->sent);
    body[MCSM_SMI_STATE] = election->config->priority << 4 | election->state;
}

static struct mcsm_rival *find(struct mcsm_rival *list, uint64_t guid)
{
    struct mcsm_rival *rival;

    LL_SEARCH_SCALAR(list, rival, guid, guid);
    return rival;
}

static bool is_above_us(const struct mcsm_election *election, const struct mcsm_rival *rival)
{
    if (rival->priority != election->config->priority) {
        return rival->priority > election->config->priority;
    }
    return rival->guid < election->own_guid;
}

/* ---- foreign managers ---- */

static void name_foreign(struct mcsm_election *election, struct mcsm_rival *rival)
{
    bool master = rival->state == MCSM_SM_MASTER_STATE;

    if (rival->named == rival->state + 1) {
        return;
    }
    rival->named = rival->state + 1;
    mcsm_report(election->events, master ? "two-masters" : "foreign-manager", MCSM_LOG_ERROR,
                rival->guid, 0,
                "%sa foreign subnet manager runs on port 0x%016lx (LID %u): state %s, priority "
                "%u. It does not prove the SM_Key of cluster %s and gets nothing. Stop it; if "
                "it belongs to this cluster, give it the same sm-key and m-key",
                master ? "two masters on one fabric: " : "", rival->guid, rival->lid,
                mcsm_sm_state_name(rival->state), rival->priority, election->config->name);
}

/* A foreign master may overwrite tables without M_Key protection. The
 * manager therefore writes all tables when a foreign master appears and when it disappears. */
static void set_disputed(struct mcsm_election *election)
{
    bool disputed = false;
    const struct mcsm_rival *rival;

    LL_FOREACH(election->foreign, rival) {
        disputed |= rival->state == MCSM_SM_MASTER_STATE;
    }
    if (disputed == election->disputed) {
        return;
    }
    election->disputed = disputed;
    election->sweep->distrust = true;
    election->sweep->wanted = true;
}

static void forget_unseen(struct mcsm_election *election)
{
    struct mcsm_rival *rival, *next;

    LL_FOREACH_SAFE(election->foreign, rival, next) {
        if (rival->seen) {
            continue;
        }
        mcsm_report(election->events, "foreign-manager-gone", MCSM_LOG_WARN, rival->guid, 0,
                    "the foreign subnet manager on port 0x%016lx is gone", rival->guid);
        LL_DELETE(election->foreign, rival);
        free(rival);
    }
    LL_FOREACH_SAFE(election->peers, rival, next) {
        if (rival->seen) {
            continue;
        }
        LL_DELETE(election->peers, rival);
        free(rival);
    }
    set_disputed(election);
}

/* ---- asking ---- */

static struct mcsm_rival *remember(struct mcsm_rival **list, struct mcsm_rival **other_list,
                                   uint64_t guid)
{
    struct mcsm_rival *rival = find(*list, guid), *other = find(*other_list, guid);

    if (other != NULL) {
        LL_DELETE(*other_list, other);
        free(other);
    }
    if (rival == NULL && (rival = calloc(1, sizeof(*rival))) != NULL) {
        rival->guid = guid;
        LL_PREPEND(*list, rival);
    }
    return rival;
}

static void got_info(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    const uint8_t *body = mad ? mad + MCSM_SMP_BODY : NULL;
    struct mcsm_port *port = arg2;
    struct mcsm_election *election = arg;
    struct mcsm_rival *rival;
    bool peer;

    (void)status;
    if (mad == NULL) {
        return; /* the port has the bit of a manager, but no manager answers */
    }
    peer =
        mcsm_proof_is_right(election->config->sm_key, MCSM_ROLE_ANSWER, election->asked, 0, body);
    rival = peer ? remember(&election->peers, &election->foreign, mcsm_get64(body, MCSM_SMI_GUID)) :
                   remember(&election->foreign, &election->peers, mcsm_get64(body, MCSM_SMI_GUID));
    if (rival == NULL) {
        return;
    }
    rival->priority = body[MCSM_SMI_STATE] >> 4;
    rival->state = body[MCSM_SMI_STATE] & 15;
    rival->act = mcsm_get32(body, MCSM_SMI_ACT);
    rival->path = mcsm_port_path(port);
    rival->lid = mcsm_get16(port->info, MCSM_PI_LID);
    if (peer) {
        rival->challenge = mcsm_get64(body, MCSM_SMI_CHALLENGE);
    } else {
        name_foreign(election, rival);
    }
    rival->seen = true;
    mcsm_debug("manager 0x%016lx: %s, priority %u", rival->guid, mcsm_sm_state_name(rival->state),
               rival->priority);
}

static void ask(struct mcsm_election *election, const struct mcsm_path *path, mcsm_answer_fn answer,
                void *arg2)
{
    uint8_t body[MCSM_SMP_DATA];

    mcsm_election_info(election, body);
    mcsm_put64(body, MCSM_SMI_CHALLENGE, election->asked);
    mcsm_smp(election->mads, path, MCSM_GET, MCSM_SM_INFO, 0, body, answer, election, arg2);
}

static void ask_all(struct mcsm_election *election, struct mcsm_fabric *fabric)
{
    struct mcsm_node *node, *next;

    election->asked = mcsm_random();
    HASH_ITER(hh, fabric->nodes, node, next) {
        for (int i = 0; i <= node->nports; i++) {
            struct mcsm_port *port = &node->ports[i];
            struct mcsm_path path;

            if (!mcsm_is_end_port(port) || !port->known || port == fabric->own_port ||
                port->guid == election->own_guid ||
                !(mcsm_get32(port->info, MCSM_PI_CAPABILITY) & MCSM_CAP_IS_SM)) {
                continue;
            }
            path = mcsm_port_path(port);
            ask(election, &path, got_info, port);
        }
    }
}

void mcsm_election_ask(struct mcsm_election *election, struct mcsm_fabric *fabric)
{
    struct mcsm_rival *rival;

    LL_FOREACH(election->peers, rival) {
        rival->seen = false;
    }
    LL_FOREACH(election->foreign, rival) {
        rival->seen = false;
    }
    ask_all(election, fabric);
}

void mcsm_election_looked(struct mcsm_election *election)
{
    const struct mcsm_rival *rival;

    forget_unseen(election);
    LL_FOREACH(election->peers, rival) {
        election->sweep->changed |=
            rival->state >= MCSM_SM_STANDBY_STATE && is_above_us(election, rival);
    }
}

/* ---- decision ---- */

static void ordered(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_election *election = arg;

    (void)arg2;
    if (mad == NULL) {
        mcsm_warn("cluster %s: another manager %s an order of this manager, which keeps its state",
                  election->config->name, status ? "refuses" : "does not answer");
    }
}

static void order(struct mcsm_election *election, const struct mcsm_rival *peer, uint32_t what)
{
    uint8_t body[MCSM_SMP_DATA];

    mcsm_election_info(election, body);
    mcsm_put64(body, MCSM_SMI_CHALLENGE, election->challenge);
    mcsm_proof_write(election->config->sm_key, MCSM_ROLE_ORDER, peer->challenge, what, body);
    mcsm_smp(election->mads, &peer->path, MCSM_SET, MCSM_SM_INFO, what, body, ordered, election,
             NULL);
}

/* Whether the master waits before it hands over to a peer. Without light sweeps the master would not
 * ask again. */
static bool waits_for(struct mcsm_election *election, const struct mcsm_rival *peer)
{
    uint64_t now = mcsm_now();

    if (election->events->ready == NULL || election->config->sweep_interval == 0 ||
        election->events->ready(election->events->arg, peer->guid)) {
        return false;
    }
    if (election->waiting == 0) {
        election->waiting = now;
        mcsm_info("manager 0x%016lx of priority %u gets the cluster when it has all registrations",
                  peer->guid, peer->priority);
    }
    return now - election->waiting < READY_WAIT;
}

bool mcsm_election_may_be_master(struct mcsm_election *election)
{
    bool we_are = election->state == MCSM_SM_MASTER_STATE;
    const struct mcsm_rival *best = NULL, *peer;

    forget_unseen(election);
    LL_FOREACH(election->peers, peer) {
        bool is_master = peer->state == MCSM_SM_MASTER_STATE, yields;

        if (peer->state == MCSM_SM_NOTACTIVE_STATE) {
            continue;
        }
        /* A new manager does not dispute a master. A master yields to a peer above it. */
        if (we_are) {
            yields = is_above_us(election, peer) && peer->state != MCSM_SM_DISCOVERING_STATE;
        } else {
            yields = is_master || is_above_us(election, peer);
        }
        if (yields && (best == NULL || is_master)) {
            best = peer;
        }
    }
    if (best != NULL && we_are && waits_for(election, best)) {
        election->handing_over = false;
        return true;
    }
    election->waiting = 0;
    if (best == NULL) {
        election->handing_over = false;
        return true;
    }
    election->master_guid = best->guid;
    if (we_are) {
        mcsm_info("handing over to manager 0x%016lx of priority %u", best->guid, best->priority);
        election->handing_over = true;
        order(election, best, MCSM_SM_HANDOVER);
    } else {
        mcsm_election_set_state(election, MCSM_SM_STANDBY_STATE);
    }
    return false;
}

/* ---- standby ---- */

static void polled(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    const uint8_t *body = mad ? mad + MCSM_SMP_BODY : NULL;
    struct mcsm_election *election = arg;
    bool alive = false;

    (void)arg2;
    (void)status;
    if (election->state != MCSM_SM_STANDBY_STATE) {
        return;
    }
    if (mad != NULL &&
        mcsm_proof_is_right(election->config->sm_key, MCSM_ROLE_ANSWER, election->asked, 0, body)) {
        uint8_t state = body[MCSM_SMI_STATE] & 15;
        uint32_t act = mcsm_get32(body, MCSM_SMI_ACT);

        alive = (state == MCSM_SM_MASTER_STATE || state == MCSM_SM_DISCOVERING_STATE) &&
                act != election->master_act;
        election->master_act = act;
    }
    if (alive) {
        election->master_alive = mcsm_now();
    }
    election->poll_failures = alive ? 0 : election->poll_failures + 1;
    if (election->poll_failures < 2) {
        return;
    }
    mcsm_report(election->events, "master-lost", MCSM_LOG_WARN, election->master_guid, 0,
                "the master 0x%016lx does not answer any more", election->master_guid);
    mcsm_election_set_state(election, MCSM_SM_DISCOVERING_STATE);
    election->sweep->wanted = true;
}

void mcsm_election_poll(struct mcsm_election *election)
{
    const struct mcsm_rival *master = find(election->peers, election->master_guid);

    election->asked = mcsm_random();
    if (master != NULL) {
        ask(election, &master->path, polled, NULL);
    } else {
        election->sweep->wanted = true;
    }
}

/* ---- being asked ---- */

enum action { REFUSE, FOLLOW, TAKE_OVER, YIELD, SEARCH };

static const struct {
    enum action action;
    uint8_t next;
} transitions[4][6] = {
    [MCSM_SM_NOTACTIVE_STATE] = {[MCSM_SM_STANDBY] = {FOLLOW, MCSM_SM_STANDBY_STATE}},
    [MCSM_SM_STANDBY_STATE] = {[MCSM_SM_HANDOVER] = {TAKE_OVER, MCSM_SM_MASTER_STATE},
                               [MCSM_SM_DISABLE] = {FOLLOW, MCSM_SM_NOTACTIVE_STATE},
                               [MCSM_SM_DISCOVER] = {SEARCH, MCSM_SM_DISCOVERING_STATE}},
    [MCSM_SM_MASTER_STATE] = {[MCSM_SM_HANDOVER] = {TAKE_OVER, MCSM_SM_MASTER_STATE},
                              [MCSM_SM_ACKNOWLEDGE] = {YIELD, MCSM_SM_STANDBY_STATE}},
};

static void answer(struct mcsm_election *election, const struct mcsm_addr *from, const uint8_t *mad,
                   unsigned status)
{
    bool directed = mad[MCSM_MAD_CLASS] == MCSM_CLASS_SMP_DIRECT;
    uint64_t asked = mcsm_get64(mad + MCSM_SMP_BODY, MCSM_SMI_CHALLENGE);
    uint8_t reply[MCSM_MAD_SIZE], *body = reply + MCSM_SMP_BODY;

    memcpy(reply, mad, sizeof(reply));
    reply[MCSM_MAD_METHOD] = MCSM_GET | MCSM_RESPONSE;
    mcsm_put16(reply, MCSM_MAD_STATUS, status | (directed ? 0x8000 : 0));
    mcsm_election_info(election, body);
    mcsm_put64(body, MCSM_SMI_CHALLENGE, election->challenge);
    if (asked != 0) {
        mcsm_proof_write(election->config->sm_key, MCSM_ROLE_ANSWER, asked, 0, body);
    }
    mcsm_mad_send(election->mads, from, reply, sizeof(reply));
}

static void act(struct mcsm_election *election, enum action action, uint8_t next,
                const uint8_t *body)
{
    struct mcsm_rival *peer = find(election->peers, mcsm_get64(body, MCSM_SMI_GUID));

    if (action == YIELD) {
        election->master_guid = mcsm_get64(body, MCSM_SMI_GUID);
    }
    mcsm_election_set_state(election, next);
    if (action == TAKE_OVER && peer != NULL) {
        peer->challenge = mcsm_get64(body, MCSM_SMI_CHALLENGE);
        order(election, peer, MCSM_SM_ACKNOWLEDGE);
    }
    if (action == TAKE_OVER || action == SEARCH) {
        election->sweep->wanted = true;
    }
}

/* Returns the status of the answer. */
static unsigned obey(struct mcsm_election *election, uint32_t what, const uint8_t *body)
{
    enum action action = what < 6 ? transitions[election->state][what].action : REFUSE;

    if (election->last_challenge != 0 && what == election->last_what &&
        mcsm_proof_is_right(election->config->sm_key, MCSM_ROLE_ORDER, election->last_challenge,
                            what, body)) {
        return 0; /* our answer was lost, and the Set is repeated */
    }
    if (!mcsm_proof_is_right(election->config->sm_key, MCSM_ROLE_ORDER, election->challenge, what,
                             body)) {
        mcsm_report(election->events, "foreign-order", MCSM_LOG_ERROR,
                    mcsm_get64(body, MCSM_SMI_GUID), 0,
                    "a manager without the SM_Key (GUID 0x%016lx) sends an order by SMInfo: it "
                    "is refused",
                    mcsm_get64(body, MCSM_SMI_GUID));
        return WRONG_VALUE;
    }
    if (action == REFUSE || (action == YIELD && !election->handing_over)) {
        return WRONG_VALUE;
    }
    election->last_challenge = election->challenge;
    election->last_what = what;
    election->challenge = mcsm_random();
    act(election, action, transitions[election->state][what].next, body);
    return 0;
}

void mcsm_election_receive(struct mcsm_election *election, const struct mcsm_addr *from,
                           const uint8_t *mad)
{
    unsigned status = 0;

    if (mad[MCSM_MAD_METHOD] == MCSM_SET) {
        status = obey(election, mcsm_get32(mad, MCSM_MAD_MOD), mad + MCSM_SMP_BODY);
    }
    answer(election, from, mad, status);
}
