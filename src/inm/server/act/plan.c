/* Plans; see plan.h. */
#include "plan.h"
#include "access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS       16 /* plans that are kept */
#define MAX_APPLIED 32

struct plans {
    struct inm_plan list[PLANS]; /* a ring; plan n is at n % PLANS */
    uint32_t next;               /* id of the next plan, from 1 */
    struct inm_applied applied[MAX_APPLIED];
    uint32_t num_applied;
};

static const char *const action_names[] = {"drain", "cut", "add"};

const char *plan_action_name(enum plan_action action)
{
    return action_names[action];
}

enum plan_action plan_action_parse(const char *name)
{
    int i;

    for (i = PLAN_DRAIN; i < PLAN_ADD && strcmp(name, action_names[i]) != 0; i++) {
    }
    return (enum plan_action)i;
}

/* ---- the parts in use ------------------------------------------------------------------------ */

/* Marks the chips of a place: a chip, a switch or a cabinet. @return How many. */
static uint32_t mark_place(const struct inm_topo *topo, const char *place, uint8_t *gone)
{
    char name[INM_NAME_MAX];
    uint32_t chip, num = 0;

    for (chip = 0; chip < inm_topo_chips(topo); chip++) {
        if (strcmp(inm_chip_name(topo, chip, name), place) == 0 ||
            strcmp(inm_board_name(topo, chip, name), place) == 0 ||
            strcmp(inm_cabinet_name(topo, chip, name), place) == 0) {
            gone[chip] = 1;
            num++;
        }
    }
    return num;
}

static void mark_link(const struct inmd *d, const char *name, uint8_t *cut, uint8_t value)
{
    uint32_t port = inm_port_parse(d->topo, name);

    if (port != INM_NONE) {
        cut[port] = value;
        if (d->topo->peer[port] != INM_NONE) {
            cut[d->topo->peer[port]] = value;
        }
    }
}

/* Computes the parts in maintenance from the applied plans. */
static void mark_applied(struct inmd *d)
{
    uint32_t i;

    memset(d->gone, 0, inm_topo_chips(d->topo));
    memset(d->cut, 0, inm_topo_ports(d->topo));
    for (i = 0; i < d->plans->num_applied; i++) {
        const struct inm_applied *a = &d->plans->applied[i];

        if (a->action == PLAN_DRAIN) {
            mark_place(d->topo, a->target, d->gone);
        } else {
            mark_link(d, a->target, d->cut, a->action == PLAN_CUT);
        }
    }
    d->dirty = true;
}

/* The network in use after a plan. */
static bool planned_graph(struct inmd *d, const struct inm_plan *plan, struct graph *g)
{
    uint32_t a = inm_port_parse(d->topo, plan->target), b = inm_port_parse(d->topo, plan->other);
    uint8_t *gone = calloc(inm_topo_chips(d->topo), 1);
    uint32_t *peer = malloc(inm_topo_ports(d->topo) * sizeof(*peer));
    struct graph now;
    bool ok = false;

    if (gone != NULL && peer != NULL && routes_graph(d, &now)) {
        memcpy(peer, now.peer, inm_topo_ports(d->topo) * sizeof(*peer));
        if (plan->action == PLAN_DRAIN) {
            mark_place(d->topo, plan->target, gone);
        } else if (plan->action == PLAN_CUT) {
            peer[peer[a]] = INM_NONE;
            peer[a] = INM_NONE;
        } else {
            peer[a] = b;
            peer[b] = a;
        }
        ok = graph_init(g, d->topo, peer, d->found.hop, gone);
        graph_free(&now);
    }
    free(gone);
    free(peer);
    return ok;
}

/* ---- the effects ----------------------------------------------------------------------------- */

static void worst_loads(const struct graph *g, const double *load, double *most, uint32_t *worst,
                        double level[INM_LEVEL_NUM][2])
{
    uint32_t chip, i;

    *most = 0;
    *worst = INM_NONE;
    for (chip = 0; chip < g->topo->num_nrc; chip++) {
        const struct graph_node *node = &g->nodes[chip];

        for (i = 0; i < node->num; i++) {
            uint32_t port = chip * INM_NRC_PORTS + node->port[i];
            double *of_level = &level[g->topo->chips[chip].level][i >= node->num_up];

            *of_level = load[port] > *of_level ? load[port] : *of_level;
            if (load[port] > *most) {
                *most = load[port];
                *worst = port;
            }
        }
    }
}

/* Marks the hosts that lose something. */
static bool compare_hosts(const struct inmd *d, const struct graph *now, const struct graph *then,
                          const uint8_t *connected, struct inm_plan *plan)
{
    uint32_t n = d->topo->num_nrc, nic, index, home;
    uint8_t *sets = malloc(4 * (size_t)n);
    bool ok = sets != NULL && graph_redundancy(now, sets, sets + n) &&
              graph_redundancy(then, sets + 2 * n, sets + 3 * n);

    for (nic = 0; nic < d->topo->num_nic && ok; nic++) {
        if (!d->table_connected[nic]) {
            continue; /* nothing to lose */
        }
        home = graph_home(now, nic, &index);
        if (!connected[nic]) {
            plan->host[nic] = 1;
            plan->hosts_lost++;
        } else if (home != INM_NONE && sets[n + home] && !sets[3 * n + home]) {
            plan->host[nic] = 2;
            plan->hosts_fragile++;
        }
    }
    free(sets);
    return ok;
}

/* Counts the routers that the server reaches over the links that stay up, before and after a cut. */
static uint32_t count_cut_off(struct inmd *d, const struct inm_plan *plan)
{
    uint32_t port = inm_port_parse(d->topo, plan->target), n = d->topo->num_nrc;
    uint32_t *queue = malloc(n * sizeof(*queue)), head = 0, tail = 0, i, peer, lost = 0;
    uint8_t *seen = calloc(n, 1);

    pthread_mutex_lock(&d->lock);
    peer = d->found.peer[inm_topo_port(d->topo, d->topo->server, 0)];
    if (queue != NULL && seen != NULL && plan->action == PLAN_CUT && peer != INM_NONE &&
        peer != port) {
        seen[peer / INM_NRC_PORTS] = 1;
        queue[tail++] = peer / INM_NRC_PORTS;
    }
    while (head < tail) {
        for (i = queue[head] * INM_NRC_PORTS; i < (queue[head] + 1) * INM_NRC_PORTS; i++) {
            peer = d->found.peer[i];
            if (peer < n * INM_NRC_PORTS && i != port && peer != port &&
                !seen[peer / INM_NRC_PORTS]) {
                seen[peer / INM_NRC_PORTS] = 1;
                queue[tail++] = peer / INM_NRC_PORTS;
            }
        }
        head++;
    }
    for (i = 0; i < n && plan->action == PLAN_CUT && seen != NULL; i++) {
        lost += d->found.seen[i] && !seen[i];
    }
    pthread_mutex_unlock(&d->lock);
    free(queue);
    free(seen);
    return lost;
}

/* Whether the names of a plan fit the network. */
static bool check_target(struct inmd *d, const struct inm_plan *plan, char *error, size_t size)
{
    uint32_t a = inm_port_parse(d->topo, plan->target), b = inm_port_parse(d->topo, plan->other);
    uint8_t *gone = calloc(inm_topo_chips(d->topo), 1);
    uint32_t num = gone != NULL ? mark_place(d->topo, plan->target, gone) : 0;

    free(gone);
    error[0] = '\0';
    pthread_mutex_lock(&d->lock);
    if (plan->action == PLAN_DRAIN) {
        if (num == 0) {
            snprintf(error, size, "no chip, switch or cabinet has the name %s", plan->target);
        }
    } else if (a == INM_NONE || (plan->action == PLAN_ADD && b == INM_NONE)) {
        snprintf(error, size, "%s is no port; ports are named like r12f3n5:7",
                 a == INM_NONE ? plan->target : plan->other);
    } else if (plan->action == PLAN_CUT && (d->found.peer[a] == INM_NONE || d->cut[a])) {
        snprintf(error, size, "%s has no link that could be cut", plan->target);
    } else if (plan->action == PLAN_CUT &&
               (a == inm_topo_port(d->topo, d->topo->server, 0) ||
                d->found.peer[a] == inm_topo_port(d->topo, d->topo->server, 0))) {
        snprintf(error, size, "%s is the link of this server", plan->target);
    } else if (plan->action == PLAN_ADD && a == b) {
        snprintf(error, size, "a link needs two ports");
    } else if (plan->action == PLAN_ADD && ((d->found.peer[a] != INM_NONE && !d->cut[a]) ||
                                            (d->found.peer[b] != INM_NONE && !d->cut[b]))) {
        snprintf(error, size, "%s has a link already",
                 d->found.peer[a] != INM_NONE ? plan->target : plan->other);
    }
    pthread_mutex_unlock(&d->lock);
    return error[0] == '\0';
}

/* The effects of a plan from two graphs. */
static bool compute(struct inmd *d, struct inm_plan *plan, struct graph *now, struct graph *then,
                    char *error, size_t size)
{
    struct route_result result;
    struct routes routes;
    bool ok;

    plan->before = graph_print(now);
    plan->after = graph_print(then);
    if (d->tables == NULL || !d->tables_loaded || d->table_print != plan->before) {
        snprintf(error, size,
                 "the tables of the chips are not those of the present network: run "
                 "\"inm route generate\" and \"inm route load\" first");
        return false;
    }
    if (!routes_make(then, route_kind_parse(d->table_kind), &routes, &result)) {
        snprintf(error, size, "no memory");
        return false;
    }
    plan->deadlock_free = result.deadlock_free;
    tables_compare(d->topo, d->tables, routes.tables, &plan->changes);
    worst_loads(now, d->table_load, &plan->load_before, &plan->worst_before, plan->level_before);
    worst_loads(then, routes.load, &plan->load_after, &plan->worst_after, plan->level_after);
    ok = compare_hosts(d, now, then, routes.connected, plan);
    if (!ok) {
        snprintf(error, size, "no memory");
    }
    routes_clear(d->topo, &routes);
    return ok;
}

static bool fill_plan(struct inmd *d, struct inm_plan *plan, char *error, size_t size)
{
    struct graph now, then;
    uint32_t chip;
    bool ok;

    plan->host = calloc(d->topo->num_nic, 1);
    if (plan->host == NULL || !routes_graph(d, &now)) {
        snprintf(error, size, "no memory");
        return false;
    }
    if (!planned_graph(d, plan, &then)) {
        graph_free(&now);
        snprintf(error, size, "no memory");
        return false;
    }
    ok = compute(d, plan, &now, &then, error, size);
    graph_free(&now);
    graph_free(&then);
    plan->routers_cut_off = count_cut_off(d, plan);
    if (plan->action == PLAN_DRAIN) {
        uint8_t *gone = calloc(inm_topo_chips(d->topo), 1);

        plan->chips = gone != NULL ? mark_place(d->topo, plan->target, gone) : 0;
        for (chip = 0; chip < inm_topo_chips(d->topo) && gone != NULL; chip++) {
            plan->chips -= gone[chip] && d->gone[chip]; /* drained by an earlier plan */
        }
        free(gone);
    }
    return ok;
}

const struct inm_plan *plan_make(struct inmd *d, enum plan_action action, const char *target,
                                 const char *other, char *error, size_t size)
{
    struct inm_plan plan = {.action = action, .when = now_seconds()}, *slot;

    snprintf(plan.target, sizeof(plan.target), "%s", target);
    snprintf(plan.other, sizeof(plan.other), "%s", other != NULL ? other : "");
    if (!check_target(d, &plan, error, size) || !fill_plan(d, &plan, error, size)) {
        free(plan.host);
        return NULL;
    }
    plan.id = d->plans->next++;
    slot = &d->plans->list[plan.id % PLANS];
    free(slot->host);
    *slot = plan;
    return slot;
}

const struct inm_plan *plan_find(struct inmd *d, uint32_t id)
{
    const struct inm_plan *plan = &d->plans->list[id % PLANS];

    return id != 0 && plan->id == id ? plan : NULL;
}

/* ---- apply and undo -------------------------------------------------------------------------- */

static void store_applied(struct inmd *d)
{
    char text[MAX_APPLIED * 120] = "";
    size_t len = 0;
    uint32_t i;

    for (i = 0; i < d->plans->num_applied; i++) {
        const struct inm_applied *a = &d->plans->applied[i];

        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s %s %.0f\n",
                                action_names[a->action], a->target,
                                a->other[0] != '\0' ? a->other : "-", a->when);
    }
    history_setting(d->history, "applied", text);
}

static bool switch_port(struct inmd *d, uint32_t port, bool on)
{
    return chip_write(d, inm_topo_port_chip(d->topo, port),
                      REG_PORT(inm_topo_port_index(d->topo, port)) + PORT_CONTROL,
                      on ? PORT_ENABLE : 0) == NET_OK;
}

/* A link is switched off at the end nearer to the server, because the path to this end does not use
 * the link. It is switched on at both ends. */
static bool switch_link(struct inmd *d, const char *name, bool on)
{
    uint32_t port = inm_port_parse(d->topo, name), other;

    if (port == INM_NONE) {
        return false;
    }
    pthread_mutex_lock(&d->lock);
    other = d->found.peer[port] != INM_NONE ? d->found.peer[port] : d->topo->peer[port];
    if (other != INM_NONE && d->found.hop[inm_topo_port_chip(d->topo, other)] <
                                 d->found.hop[inm_topo_port_chip(d->topo, port)]) {
        uint32_t swap = port;

        port = other;
        other = swap;
    }
    pthread_mutex_unlock(&d->lock);
    return switch_port(d, port, on) && (!on || other == INM_NONE || switch_port(d, other, on));
}

/* Brings the chips' tables in line with the network in use, and takes them over into d->tables. */
static bool adopt_tables(struct inmd *d, struct graph *g, struct route_result *r)
{
    struct route_result made;
    struct routes routes;
    struct routes old = {
        .tables = d->tables, .load = d->table_load, .connected = d->table_connected};
    bool ok;

    if (!routes_make(g, route_kind_parse(d->table_kind), &routes, &made)) {
        *r = made;
        return false;
    }
    ok = tables_change(d, routes.tables, r);
    pthread_mutex_lock(&d->lock);
    d->tables = routes.tables;
    d->table_load = routes.load;
    d->table_connected = routes.connected;
    d->table_print = routes.print;
    d->tables_loaded = ok;
    pthread_mutex_unlock(&d->lock);
    routes_clear(d->topo, &old);
    return ok;
}

/* Whether the network in use is the one of before the plan; for a new link, of after the plan. */
static bool unchanged(struct inmd *d, const struct inm_plan *plan, char *message, size_t size)
{
    struct graph g;
    uint64_t print;
    bool ok;

    if (!routes_graph(d, &g)) {
        snprintf(message, size, "no memory");
        return false;
    }
    print = graph_print(&g);
    graph_free(&g);
    ok = d->tables_loaded && d->table_print == plan->before &&
         (print == plan->before || (plan->action == PLAN_ADD && print == plan->after));
    if (!ok) {
        snprintf(message, size, "the network has changed since the plan was made: make it again");
    } else if (plan->action == PLAN_ADD && print == plan->before &&
               !d->cut[inm_port_parse(d->topo, plan->target)]) {
        snprintf(message, size, "the link is not there yet: plug it in first");
        ok = false;
    } else if (plan->routers_cut_off != 0) {
        snprintf(message, size, "the plan would cut %u routers off from this server",
                 plan->routers_cut_off);
        ok = false;
    }
    return ok;
}

static void push_applied(struct inmd *d, const struct inm_plan *plan)
{
    struct inm_applied *a = &d->plans->applied[d->plans->num_applied++];

    *a = (struct inm_applied){.action = plan->action, .when = now_seconds()};
    memcpy(a->target, plan->target, sizeof(a->target));
    memcpy(a->other, plan->other, sizeof(a->other));
}

bool plan_apply(struct inmd *d, uint32_t id, struct route_result *r)
{
    const struct inm_plan *plan = plan_find(d, id);
    struct graph g;
    bool ok;

    memset(r, 0, sizeof(*r));
    if (plan == NULL) {
        snprintf(r->message, sizeof(r->message), "no plan has the number %u", id);
        return false;
    }
    if (d->plans->num_applied == MAX_APPLIED) {
        snprintf(r->message, sizeof(r->message), "%d plans are applied: undo one first",
                 MAX_APPLIED);
        return false;
    }
    if (!unchanged(d, plan, r->message, sizeof(r->message))) {
        return false;
    }
    if (plan->action == PLAN_ADD && d->cut[inm_port_parse(d->topo, plan->target)] &&
        !switch_link(d, plan->target, true)) {
        snprintf(r->message, sizeof(r->message), "the link cannot be switched on");
        return false;
    }
    if (!planned_graph(d, plan, &g)) {
        snprintf(r->message, sizeof(r->message), "no memory");
        return false;
    }
    /* Traffic leaves the parts before they are switched off. */
    ok = adopt_tables(d, &g, r);
    graph_free(&g);
    pthread_mutex_lock(&d->lock);
    push_applied(d, plan);
    mark_applied(d);
    store_applied(d);
    inmd_touch(d);
    pthread_mutex_unlock(&d->lock);
    /* The link is in maintenance by now, so its end raises no alarm. */
    if (ok && plan->action == PLAN_CUT && !switch_link(d, plan->target, false)) {
        snprintf(r->message, sizeof(r->message), "the link cannot be switched off");
        ok = false;
    }
    return ok;
}

bool plan_undo(struct inmd *d, struct route_result *r)
{
    struct inm_applied last;
    struct graph g;
    bool ok;

    memset(r, 0, sizeof(*r));
    if (d->plans->num_applied == 0) {
        snprintf(r->message, sizeof(r->message), "no plan is applied");
        return false;
    }
    if (d->tables == NULL) {
        snprintf(r->message, sizeof(r->message), "no tables: run \"inm route generate\" first");
        return false;
    }
    last = d->plans->applied[d->plans->num_applied - 1];
    if (last.action == PLAN_CUT && !switch_link(d, last.target, true)) {
        snprintf(r->message, sizeof(r->message), "the link cannot be switched on");
        return false;
    }
    pthread_mutex_lock(&d->lock);
    d->plans->num_applied--;
    mark_applied(d);
    if (last.action == PLAN_ADD && !d->cut[inm_port_parse(d->topo, last.target)]) {
        d->plans->num_applied++;
        pthread_mutex_unlock(&d->lock);
        snprintf(r->message, sizeof(r->message),
                 "the link was plugged in: take it out of use by a "
                 "plan to cut it");
        return false;
    }
    if (last.action == PLAN_CUT) {
        uint32_t port = inm_port_parse(d->topo, last.target), peer = d->topo->peer[port];

        if (peer != INM_NONE && d->found.peer[port] == INM_NONE &&
            d->found.peer[peer] == INM_NONE) {
            d->found.peer[port] = peer; /* the discovery that follows confirms the link */
            d->found.peer[peer] = port;
        }
        d->status.down[port] = 0; /* so that no alarm comes before the next poll */
        if (peer != INM_NONE) {
            d->status.down[peer] = 0;
        }
        d->rediscover = now_seconds();
    }
    store_applied(d);
    inmd_touch(d);
    pthread_mutex_unlock(&d->lock);
    if (!routes_graph(d, &g)) {
        snprintf(r->message, sizeof(r->message), "no memory");
        return false;
    }
    ok = adopt_tables(d, &g, r);
    graph_free(&g);
    if (ok && last.action == PLAN_ADD && !switch_link(d, last.target, false)) {
        snprintf(r->message, sizeof(r->message), "the link cannot be switched off again");
        ok = false;
    }
    return ok;
}

uint32_t plan_applied(const struct inmd *d, const struct inm_applied **applied)
{
    *applied = d->plans->applied;
    return d->plans->num_applied;
}

/* ---- begin and end --------------------------------------------------------------------------- */

bool plan_init(struct inmd *d)
{
    char text[MAX_APPLIED * 120], action[8], *line, *rest = NULL;
    struct inm_applied *a;

    d->plans = calloc(1, sizeof(*d->plans));
    if (d->plans == NULL) {
        return false;
    }
    d->plans->next = 1;
    if (!history_get_setting(d->history, "applied", text, sizeof(text))) {
        return true;
    }
    for (line = strtok_r(text, "\n", &rest); line != NULL && d->plans->num_applied < MAX_APPLIED;
         line = strtok_r(NULL, "\n", &rest)) {
        a = &d->plans->applied[d->plans->num_applied];
        if (sscanf(line, "%7s %31s %31s %lf", action, a->target, a->other, &a->when) == 4) {
            a->action = plan_action_parse(action);
            a->other[0] = strcmp(a->other, "-") == 0 ? '\0' : a->other[0];
            d->plans->num_applied++;
        }
    }
    mark_applied(d);
    return true;
}

void plan_free(struct inmd *d)
{
    uint32_t i;

    for (i = 0; d->plans != NULL && i < PLANS; i++) {
        free(d->plans->list[i].host);
    }
    free(d->plans);
}
