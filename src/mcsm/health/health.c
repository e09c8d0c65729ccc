#include "health.h"

#include "holds.h"
#include "reach.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

/* Offsets in a record for standbys. */
enum { END = 9, LEFT = 18, HOLDS = 26 };

struct mcsm_health {
    struct mcsm_mads *mads;
    struct mcsm_sm *sm;
    struct mcsm_link *links;
    struct mcsm_standbys *standbys;
    struct mcsm_hold *remembered; /* held links that a former process or master has stored; kept
                                   * until the first sweep */
    bool attached;
    bool polling;
    unsigned held;                         /* links */
    uint64_t next_poll, poll, poll_before; /* times of the next, present and previous poll */
    uint64_t polls;
};

struct mcsm_health *mcsm_health_new(struct mcsm_mads *mads)
{
    struct mcsm_health *health = calloc(1, sizeof(*health));

    if (health != NULL) {
        health->mads = mads;
    }
    return health;
}

void mcsm_health_free(struct mcsm_health *health)
{
    struct mcsm_link *link, *next;

    if (health == NULL) {
        return;
    }
    HASH_ITER(hh, health->links, link, next) {
        HASH_DEL(health->links, link);
        free(link);
    }
    mcsm_holds_free(&health->remembered);
    free(health);
}

/* ---- what the commands see ---- */

struct mcsm_link *mcsm_health_links(const struct mcsm_health *health)
{
    return health->links;
}

struct mcsm_link *mcsm_health_find(const struct mcsm_health *health, uint64_t guid, uint8_t port)
{
    struct mcsm_link *link, *next;

    HASH_ITER(hh, health->links, link, next) {
        for (int i = 0; i < 2; i++) {
            if (link->ends[i].guid == guid && link->ends[i].port == port) {
                return link;
            }
        }
    }
    return NULL;
}

enum mcsm_link_state mcsm_health_state(const struct mcsm_link *link)
{
    return link->held_until != 0 ? MCSM_LINK_HELD :
           !link->up             ? MCSM_LINK_DOWN :
           link->kept[0] != '\0' ? MCSM_LINK_KEPT :
                                   MCSM_LINK_UP;
}

static uint64_t sum(const uint64_t buckets[MCSM_HEALTH_BUCKETS])
{
    uint64_t all = 0;

    for (int i = 0; i < MCSM_HEALTH_BUCKETS; i++) {
        all += buckets[i];
    }
    return all;
}

uint64_t mcsm_health_errors(const struct mcsm_link *link)
{
    return sum(link->errors);
}

uint64_t mcsm_health_flaps(const struct mcsm_link *link)
{
    return sum(link->flaps);
}

uint64_t mcsm_health_polls(const struct mcsm_health *health)
{
    return health->polls;
}

unsigned mcsm_health_held(const struct mcsm_health *health)
{
    return health->held;
}

double mcsm_health_seconds(const struct mcsm_health *health)
{
    return health->polls > 1 ? (health->poll - health->poll_before) / 1e3 : 0;
}

/* ---- the window ---- */

static void forget(struct mcsm_link *link)
{
    memset(link->errors, 0, sizeof(link->errors));
    memset(link->flaps, 0, sizeof(link->flaps));
    link->kept[0] = '\0';
}

/* Empties the buckets whose time is over. */
static void turn(const struct mcsm_health *health, struct mcsm_link *link, uint64_t now)
{
    uint64_t length = health->sm->config->health_window * 1000ULL / MCSM_HEALTH_BUCKETS;
    uint64_t bucket = now / length + MCSM_HEALTH_BUCKETS; /* soon after the boot, too, not below */

    if (bucket < link->bucket || bucket - link->bucket > MCSM_HEALTH_BUCKETS) {
        link->bucket = bucket - MCSM_HEALTH_BUCKETS; /* all, or the window has a new length */
    }
    while (link->bucket < bucket) {
        link->bucket++;
        link->errors[link->bucket % MCSM_HEALTH_BUCKETS] = 0;
        link->flaps[link->bucket % MCSM_HEALTH_BUCKETS] = 0;
    }
}

static void add_flaps(const struct mcsm_health *health, struct mcsm_link *link, unsigned count,
                      uint64_t now)
{
    turn(health, link, now);
    link->flaps[link->bucket % MCSM_HEALTH_BUCKETS] += count;
    link->total_flaps += count;
}

/* ---- holding ---- */

static struct mcsm_port *port_of(const struct mcsm_health *health, const struct mcsm_link_end *end)
{
    struct mcsm_node *node = mcsm_fabric_find(health->sm->fabric, end->guid);

    return node != NULL && end->port <= node->nports ? &node->ports[end->port] : NULL;
}

const char *mcsm_health_name(const struct mcsm_health *health, const struct mcsm_link_end *end)
{
    const struct mcsm_config *config = health->sm->config;
    const struct mcsm_port *port = port_of(health, end);
    const struct mcsm_border *border = NULL;

    if (end->link->border && end == &end->link->ends[1]) {
        border = mcsm_config_border(config, end->link->key.guid, end->link->key.port);
    }
    if (border != NULL) {
        return config->neighbours[border->neighbour].name;
    }
    return port != NULL ? port->node->desc : "gone";
}

static void tell(struct mcsm_health *health, const struct mcsm_link *link, const char *event,
                 enum mcsm_log_level level, const char *what)
{
    const struct mcsm_link_end *a = &link->ends[0], *b = &link->ends[1];

    mcsm_report(&health->sm->events, event, level, a->guid, a->port,
                "link %s (0x%016lx) port %u - %s (0x%016lx) port %u: %s",
                mcsm_health_name(health, a), a->guid, a->port, mcsm_health_name(health, b), b->guid,
                b->port, what);
}

static void send(struct mcsm_health *health, struct mcsm_standby *only,
                 const struct mcsm_link *link, uint64_t now)
{
    uint8_t payload[MCSM_STATE_PAYLOAD] = {0};

    for (int i = 0; i < 2; i++) {
        mcsm_put64(payload, END * i, link->ends[i].guid);
        payload[END * i + 8] = link->ends[i].port;
    }
    mcsm_put64(payload, LEFT, link->held_until > now ? link->held_until - now : 0);
    mcsm_put32(payload, HOLDS, link->holds);
    mcsm_standbys_send(health->standbys, only, MCSM_STATE_HOLD, link->held_until == 0, payload);
}

/* A hold begins or ends: the file and the standbys get it. */
static void save(struct mcsm_health *health, const struct mcsm_link *link, uint64_t now)
{
    mcsm_holds_write(health->sm->config, health->links, now);
    send(health, NULL, link, now);
}

static void release(struct mcsm_health *health, struct mcsm_link *link, const char *event,
                    uint64_t now, const char *what)
{
    mcsm_sm_hold(health->sm, link->ends[0].guid, link->ends[0].port, false);
    health->held--;
    link->held_until = 0;
    link->good_since = now;
    forget(link);
    save(health, link, now);
    tell(health, link, event, MCSM_LOG_INFO, what);
}

int mcsm_health_release(struct mcsm_health *health, uint64_t guid, uint8_t port)
{
    struct mcsm_link *link = mcsm_health_find(health, guid, port);

    if (link == NULL || link->held_until == 0) {
        return -ENOENT;
    }
    link->holds = 0;
    release(health, link, "link-released", mcsm_now(),
            "released by the administrator, packets use it again");
    return 0;
}

/* Why the link must stay, or NULL. */
static const char *reason_to_keep(struct mcsm_health *health, const struct mcsm_link *link,
                                  const struct mcsm_port *port, char *text, size_t size)
{
    int lost;

    if (link->border) {
        return "the other end belongs to another manager";
    }
    if (link->contract_needs) {
        return "the contract needs this link for routes to other clusters";
    }
    lost = mcsm_reach_lost(health->sm->fabric, port);
    if (lost < 0) {
        return "out of memory";
    }
    snprintf(text, size, "the only way to %d node%s", lost, lost == 1 ? "" : "s");
    return lost > 0 ? text : NULL;
}

/* Keeps a link beyond a limit in use, and names it once. False: the link may be held. */
static bool keep(struct mcsm_health *health, struct mcsm_link *link, const struct mcsm_port *port)
{
    char text[80], said[240];
    const char *reason = reason_to_keep(health, link, port, text, sizeof(text));

    if (reason == NULL) {
        return false;
    }
    snprintf(said, sizeof(said), "%lu errors and %lu flaps in %u s; it stays in use, because: %s",
             mcsm_health_errors(link), mcsm_health_flaps(link), health->sm->config->health_window,
             reason);
    if (link->kept[0] == '\0') {
        tell(health, link, "link-kept", MCSM_LOG_ERROR, said);
    }
    snprintf(link->kept, sizeof(link->kept), "%s", reason);
    return true;
}

static void hold_until(struct mcsm_health *health, struct mcsm_link *link, uint64_t until,
                       uint64_t now, const char *said)
{
    if (mcsm_sm_hold(health->sm, link->ends[0].guid, link->ends[0].port, true) < 0) {
        return;
    }
    health->held++;
    link->holds++;
    link->left_out = health->sm->stats.left_out;
    link->held_until = until;
    forget(link);
    save(health, link, now);
    tell(health, link, "link-held", MCSM_LOG_WARN, said);
}

static void hold(struct mcsm_health *health, struct mcsm_link *link, uint64_t now)
{
    const struct mcsm_config *config = health->sm->config;
    struct mcsm_port *port = port_of(health, &link->ends[0]);
    unsigned long seconds = config->health_hold;
    char said[240];

    if (port == NULL || (!link->border && !mcsm_port_usable(port)) || keep(health, link, port)) {
        return;
    }
    if (link->good_since != 0 && now - link->good_since >= config->health_hold_max * 1000ULL) {
        link->holds = 0;
    }
    for (unsigned i = 0; i < link->holds && seconds < config->health_hold_max; i++) {
        seconds *= 2;
    }
    seconds = seconds < config->health_hold_max ? seconds : config->health_hold_max;
    snprintf(said, sizeof(said), "%lu errors and %lu flaps in %u s: no route uses it for %lu s",
             mcsm_health_errors(link), mcsm_health_flaps(link), config->health_window, seconds);
    hold_until(health, link, now + seconds * 1000, now, said);
}

/* Whether the link may be held again. If the former master held the link, then the port is out of
 * the routes already, and mcsm_health_swept() releases the link if it is needed. */
static bool may_hold_again(struct mcsm_health *health, const struct mcsm_hold *old,
                           const struct mcsm_link *link, const struct mcsm_port *port, uint64_t now)
{
    char text[80];

    return link != NULL && link->held_until == 0 && old->until > now && port != NULL &&
           link->ends[1].guid == old->ends[1].guid && link->ends[1].port == old->ends[1].port &&
           (port->held || mcsm_port_usable(port)) &&
           reason_to_keep(health, link, port, text, sizeof(text)) == NULL;
}

/* Holds the links again that a former process or the former master held. */
static void hold_remembered(struct mcsm_health *health, uint64_t now)
{
    const struct mcsm_hold *old;
    char said[80];

    LL_FOREACH(health->remembered, old) {
        struct mcsm_link *link = mcsm_health_find(health, old->ends[0].guid, old->ends[0].port);
        struct mcsm_port *port = link != NULL ? port_of(health, &link->ends[0]) : NULL;

        if (!may_hold_again(health, old, link, port, now)) {
            mcsm_sm_hold(health->sm, old->ends[0].guid, old->ends[0].port, false);
            continue;
        }
        link->holds = old->holds > 0 ? old->holds - 1 : 0; /* hold_until() counts this hold */
        snprintf(said, sizeof(said), "held before: no route uses it for %lu s",
                 (old->until - now + 999) / 1000);
        hold_until(health, link, old->until, now, said);
    }
    mcsm_holds_free(&health->remembered);
}

static void judge(struct mcsm_health *health, struct mcsm_link *link, uint64_t now)
{
    const struct mcsm_config *config = health->sm->config;
    bool noisy, flapping;

    turn(health, link, now);
    noisy = config->health_errors > 0 && mcsm_health_errors(link) >= config->health_errors;
    flapping = config->health_flaps > 0 && mcsm_health_flaps(link) >= config->health_flaps;
    if (!noisy && !flapping) {
        link->kept[0] = '\0';
    } else if (link->held_until == 0) {
        hold(health, link, now);
    }
}

/* ---- sweeps ---- */

static bool is_lower(const struct mcsm_port *a, const struct mcsm_port *b)
{
    return a->node->guid < b->node->guid || (a->node->guid == b->node->guid && a->num < b->num);
}

/* The record of the link between two ports. `guids` and `ports` are in the order of the ends. */
static struct mcsm_link *record(struct mcsm_health *health, const uint64_t guids[2],
                                const uint8_t ports[2])
{
    struct mcsm_link *link;
    typeof(link->key) key = {guids[0], ports[0]};

    HASH_FIND(hh, health->links, &key, sizeof(key), link);
    if (link != NULL && link->ends[1].guid == guids[1] && link->ends[1].port == ports[1]) {
        return link;
    }
    if (link == NULL) {
        link = calloc(1, sizeof(*link));
        if (link == NULL) {
            return NULL;
        }
        link->key = key;
        HASH_ADD(hh, health->links, key, sizeof(link->key), link);
    } else if (link->held_until != 0) {
        mcsm_sm_hold(health->sm, key.guid, key.port, false); /* another cable is in the port */
        health->held--;
        link->held_until = 0;
        send(health, NULL, link, 0);
    }
    mcsm_mads_reset(health->mads); /* answers on their way may be counters of the former ends */
    health->polling = false;
    for (int i = 0; i < 2; i++) {
        link->ends[i] = (struct mcsm_link_end){.link = link, .guid = guids[i], .port = ports[i]};
    }
    link->held_until = link->good_since = link->holds = link->total_flaps = 0;
    link->flaps_by_sweep = 0;
    forget(link);
    return link;
}

static void see_link(struct mcsm_health *health, const struct mcsm_port *port, uint64_t now)
{
    const struct mcsm_border *border = NULL;
    struct mcsm_link *link;

    if (port->state < MCSM_STATE_INIT) {
        return;
    }
    if (port->border) {
        border = mcsm_config_border(health->sm->config, port->node->guid, port->num);
    }
    if (border != NULL) {
        link = record(health, (uint64_t[]){border->guid, border->peer_guid},
                      (uint8_t[]){border->port, border->peer_port});
    } else if (port->peer != NULL && is_lower(port, port->peer) &&
               port->peer->state >= MCSM_STATE_INIT) {
        link = record(health, (uint64_t[]){port->node->guid, port->peer->node->guid},
                      (uint8_t[]){port->num, port->peer->num});
    } else {
        return;
    }
    if (link != NULL) {
        link->border = border != NULL;
        link->up = true;
        link->seen = now;
    }
}

/* The links of the fabric that carry, or could carry, packets. */
static void see_links(struct mcsm_health *health, uint64_t now)
{
    struct mcsm_node *node, *next;

    HASH_ITER(hh, health->sm->fabric->nodes, node, next) {
        for (int p = 1; p <= node->nports; p++) {
            see_link(health, &node->ports[p], now);
        }
    }
}

void mcsm_health_swept(struct mcsm_health *health, uint64_t now)
{
    struct mcsm_link *link, *next;

    if (health->sm->election.state != MCSM_SM_MASTER_STATE) {
        return;
    }
    see_links(health, now);
    hold_remembered(health, now);
    HASH_ITER(hh, health->links, link, next) {
        struct mcsm_port *port = port_of(health, &link->ends[0]);

        if (link->up && link->seen != now) {
            link->up = false;
            link->flaps_by_sweep++;
            add_flaps(health, link, 1, now);
            judge(health, link, now);
        } else if (link->up && link->held_until == 0) {
            judge(health, link, now);
        } else if (link->up && port != NULL && mcsm_reach_needs(health->sm->fabric, port)) {
            release(health, link, "link-needed", now,
                    "no other way is left, so packets use it again");
        } else if (link->up && health->sm->stats.left_out > link->left_out) {
            link->contract_needs = true;
            release(health, link, "link-needed", now,
                    "routes to other clusters are left out without it, so packets use it again");
        }
    }
}

/* ---- polls ---- */

static void take_wide(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_link_end *end = arg2;

    (void)arg;
    if (mad != NULL) {
        mcsm_counters_take_wide(&end->counters, mad + MCSM_PM_DATA);
    } else if (status != 0) {
        end->counters.refused = true;
    }
}

static void was_reset(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_link_end *end = arg2;

    (void)arg;
    (void)status;
    if (mad != NULL) {
        mcsm_counters_were_reset(&end->counters, end->reset);
    }
}

/* The port whose LID the request goes to: a CA port, or port 0 of a switch. */
static const struct mcsm_port *agent_of(const struct mcsm_port *port)
{
    return port->node->sw ? &port->node->ports[0] : port;
}

static void request(struct mcsm_health *health, struct mcsm_link_end *end, uint8_t method,
                    uint16_t attr, uint16_t select, mcsm_answer_fn answer)
{
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_PERF, 1, method};
    const struct mcsm_port *port = port_of(health, end), *agent = port ? agent_of(port) : NULL;
    struct mcsm_addr to = {.qpn = 1, .qkey = 0x80010000, .agent = MCSM_CLASS_PERF};

    if (agent == NULL || agent->lid == 0 || health->sm->fabric->own_port == NULL) {
        return;
    }
    to.lid = agent->lid;
    to.sl = mcsm_sm_lane(health->sm, health->sm->fabric->own_port, agent);
    mcsm_put16(mad, MCSM_MAD_ATTR, attr);
    mad[MCSM_PM_DATA + MCSM_PM_PORT_SELECT] = end->port;
    mcsm_put16(mad, MCSM_PM_DATA + MCSM_PM_COUNTER_SELECT, select);
    mcsm_mad_request(health->mads, &to, mad, answer, health, end);
}

static void take(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_link_end *end = arg2;
    struct mcsm_health *health = arg;

    (void)status;
    if (mad == NULL || mad[MCSM_PM_DATA + MCSM_PM_PORT_SELECT] != end->port) {
        return;
    }
    end->reset = mcsm_counters_take(&end->counters, mad + MCSM_PM_DATA);
    if (end->reset != 0) {
        request(health, end, MCSM_SET, MCSM_PORT_COUNTERS, end->reset, was_reset);
    }
    if (!end->counters.refused) {
        request(health, end, MCSM_GET, MCSM_PORT_COUNTERS_EXTENDED, 0, take_wide);
    }
}

static void start_poll(struct mcsm_health *health, uint64_t now)
{
    struct mcsm_link *link, *next;

    health->next_poll = now + health->sm->config->health_interval * 1000ULL;
    health->poll_before = health->poll;
    health->poll = now;
    health->polls++;
    health->polling = true;
    HASH_ITER(hh, health->links, link, next) {
        if (!link->up && link->held_until == 0 &&
            now - link->seen > health->sm->config->health_window * 1000ULL) {
            HASH_DEL(health->links,
                     link); /* no request refers to it, because the last poll ended */
            free(link);
            continue;
        }
        for (int i = 0; i < 2; i++) {
            memset(link->ends[i].counters.delta, 0, sizeof(link->ends[i].counters.delta));
            if (link->up && !(link->border && i == 1)) {
                request(health, &link->ends[i], MCSM_GET, MCSM_PORT_COUNTERS, 0, take);
            }
        }
    }
}

/* A failure of the link is in the LinkDownedCounter of both ends, and a sweep may have seen it. */
static void end_poll(struct mcsm_health *health, uint64_t now)
{
    struct mcsm_link *link, *next;

    health->polling = false;
    HASH_ITER(hh, health->links, link, next) {
        const uint64_t *a = link->ends[0].counters.delta, *b = link->ends[1].counters.delta;
        uint64_t flaps = a[MCSM_COUNTER_LINK_DOWNED] > b[MCSM_COUNTER_LINK_DOWNED] ?
                             a[MCSM_COUNTER_LINK_DOWNED] :
                             b[MCSM_COUNTER_LINK_DOWNED];

        if (flaps > link->flaps_by_sweep) {
            add_flaps(health, link, flaps - link->flaps_by_sweep, now);
        }
        link->flaps_by_sweep = 0;
        turn(health, link, now);
        link->errors[link->bucket % MCSM_HEALTH_BUCKETS] +=
            mcsm_counters_noise(a) + mcsm_counters_noise(b);
        judge(health, link, now);
    }
}

void mcsm_health_run(struct mcsm_health *health, uint64_t now)
{
    struct mcsm_link *link, *next;

    mcsm_mads_tick(health->mads, now);
    if (health->polling && mcsm_mads_pending(health->mads) == 0) {
        end_poll(health, now);
    }
    for (link = health->held > 0 ? health->links : NULL; link != NULL; link = next) {
        next = link->hh.next;
        if (link->held_until != 0 && now >= link->held_until) {
            release(health, link, "link-released", now, "its time is over, packets use it again");
        }
    }
    if (!health->polling && health->sm->election.state == MCSM_SM_MASTER_STATE &&
        health->sm->config->health_interval > 0 && now >= health->next_poll &&
        health->sm->stats.heavy_sweeps > 0) {
        start_poll(health, now);
    }
}

/* ---- standby managers ---- */

static void send_all(void *arg, struct mcsm_standbys *standbys, struct mcsm_standby *to)
{
    struct mcsm_health *health = arg;
    struct mcsm_link *link, *next;

    (void)standbys;
    HASH_ITER(hh, health->links, link, next) {
        if (link->held_until != 0) {
            send(health, to, link, mcsm_now());
        }
    }
}

/* The routes of the first sweep as the master must not use the link, so the order begins now. The
 * end of this sweep decides whether the link stays held. */
static void take_hold(void *arg, bool gone, const uint8_t *payload)
{
    struct mcsm_health *health = arg;
    struct mcsm_hold hold = {.until = mcsm_now() + mcsm_get64(payload, LEFT),
                             .holds = mcsm_get32(payload, HOLDS)};

    for (int i = 0; i < 2; i++) {
        hold.ends[i].guid = mcsm_get64(payload, END * i);
        hold.ends[i].port = payload[END * i + 8];
    }
    if (gone) {
        mcsm_holds_remove(&health->remembered, hold.ends[0].guid, hold.ends[0].port);
        mcsm_drains_remove(&health->sm->drains, hold.ends[0].guid, hold.ends[0].port, true);
    } else if (mcsm_holds_add(&health->remembered, &hold) < 0 ||
               mcsm_drains_add(&health->sm->drains, hold.ends[0].guid, hold.ends[0].port, true) <
                   0) {
        mcsm_error("out of memory: a held link will be used again");
    }
}

/* The holds from the time when this manager was the master, or from its file, are those of the
 * present master. */
static void clear_holds(void *arg)
{
    struct mcsm_health *health = arg;
    struct mcsm_drain *drain, *after;
    struct mcsm_link *link, *next;

    HASH_ITER(hh, health->links, link, next) {
        link->held_until = 0;
    }
    health->held = 0;
    mcsm_holds_free(&health->remembered);
    LL_FOREACH_SAFE(health->sm->drains.list, drain, after) {
        if (drain->held) {
            mcsm_drains_remove(&health->sm->drains, drain->guid, drain->port, true);
        }
    }
}

void mcsm_health_attach(struct mcsm_health *health, struct mcsm_sm *sm,
                        struct mcsm_standbys *standbys)
{
    static const struct mcsm_state_ops ops = {MCSM_STATE_HOLD, send_all, take_hold, clear_holds};

    health->sm = sm;
    health->standbys = standbys;
    health->polling = false;
    health->next_poll = 0;
    mcsm_standbys_offer(standbys, &ops, health);
    if (!health->attached) {
        health->attached = true;
        mcsm_holds_read(sm->config, mcsm_now(), &health->remembered);
    }
}
