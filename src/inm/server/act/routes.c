/* Routing tables; see routes.h and graph.h. */
#include "routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {"shortest", "balanced", "updown"};

const char *route_kind_name(enum route_kind kind)
{
    return kind_names[kind];
}

enum route_kind route_kind_parse(const char *name)
{
    int i;

    for (i = ROUTE_SHORTEST; i < ROUTE_UPDOWN && strcmp(name, kind_names[i]) != 0; i++) {
    }
    return (enum route_kind)i;
}

/* Returns the ports of a set that a kind of table uses towards a destination. */
static uint32_t choose(enum route_kind kind, uint32_t ports, uint32_t spread)
{
    uint32_t n;

    if (kind == ROUTE_UPDOWN || ports == 0) {
        return ports;
    }
    n = kind == ROUTE_SHORTEST ? 0 : spread % (uint32_t)__builtin_popcount(ports);
    for (; n > 0; n--) {
        ports &= ports - 1;
    }
    return ports & -ports;
}

/* Counts the consecutive hosts from `nic` on that are at the same NRC. @return The NRC. */
static uint32_t next_block(const struct graph *g, uint32_t nic, uint32_t *num)
{
    uint32_t index, chip = graph_home(g, nic, &index);

    for (*num = 1; nic + *num < g->topo->num_nic; ++*num) {
        if (graph_home(g, nic + *num, &index) != chip) {
            break;
        }
    }
    return chip;
}

struct maker {
    struct graph *g;
    struct routes *routes;
    struct route_result *r;
    uint32_t *upward; /* by port of an NRC: destinations */
    uint32_t *ports;  /* by NRC: towards the present destination */
    double *traffic;  /* by NRC: pairs whose traffic passes it on the way to the destination */
    uint32_t hosts;   /* all that have a link */
};

/* The traffic of a router leaves it in equal parts over the ports of its table. */
static void send_on(struct maker *m, uint32_t chip)
{
    uint32_t ports = m->ports[chip], base = chip * INM_NRC_PORTS;
    double part;

    if (m->traffic[chip] <= 0 || ports == 0) {
        return;
    }
    part = m->traffic[chip] / __builtin_popcount(ports);
    for (; ports != 0; ports &= ports - 1) {
        uint32_t port = base + (uint32_t)__builtin_ctz(ports);

        m->routes->load[port] += part;
        m->traffic[m->g->peer[port] / INM_NRC_PORTS] += part;
    }
}

/* Upward traffic is moved first, from the lowest routers on; then the downward traffic. */
static void add_traffic(struct maker *m, uint32_t to, uint32_t num)
{
    const struct graph *g = m->g;
    uint32_t k, chip, n = g->topo->num_nrc;

    for (chip = 0; chip < n; chip++) {
        m->traffic[chip] = chip != to ? (double)g->nodes[chip].hosts * num : 0;
    }
    for (k = n; k > 0; k--) {
        chip = g->order[k - 1];
        if (g->down[chip] == GRAPH_FAR) {
            send_on(m, chip);
        }
    }
    for (k = 0; k < n; k++) {
        chip = g->order[k];
        if (g->down[chip] != GRAPH_FAR && chip != to) {
            send_on(m, chip);
        }
    }
}

/* The entries of all routers for `num` NICs from `nic` on, which are at the router `to`. */
static bool fill_block(struct maker *m, enum route_kind kind, uint32_t to, uint32_t nic,
                       uint32_t num)
{
    const struct graph *g = m->g;
    const struct inm_topo *topo = g->topo;
    uint32_t spread = topo->chips[topo->num_nrc + nic].board, chip, ports, i, index, reached = 0;
    bool ok = true;

    for (chip = 0; chip < topo->num_nrc; chip++) {
        ports = chip == to ? 0 : choose(kind, graph_ways(g, chip), spread + chip);
        m->ports[chip] = ports;
        reached += chip == to || ports != 0 ? g->nodes[chip].hosts : 0;
        /* A router in the middle that no way to there passes needs no entry. */
        m->r->unreachable += ports == 0 && chip != to && g->nodes[chip].hosts != 0;
        ok &= ports == 0 || inm_table_set(&m->routes->tables[chip], nic, num, ports);
        for (; ports != 0 && g->down[chip] == GRAPH_FAR; ports &= ports - 1) {
            m->upward[chip * INM_NRC_PORTS + (uint32_t)__builtin_ctz(ports)] += num;
        }
    }
    for (i = 0; i < num; i++) {
        graph_home(g, nic + i, &index);
        ok &= inm_table_set(&m->routes->tables[to], nic + i, 1, 1u << index);
        m->routes->connected[nic + i] = reached * 2 > m->hosts;
    }
    return ok;
}

static bool fill_tables(struct maker *m, enum route_kind kind)
{
    const struct inm_topo *topo = m->g->topo;
    uint32_t nic, num, to;
    bool ok = true;

    for (nic = 0; nic < topo->num_nic && ok; nic += num) {
        to = next_block(m->g, nic, &num);
        if (to == INM_NONE) {
            m->r->unreachable += num;
            continue;
        }
        graph_measure(m->g, to);
        ok = fill_block(m, kind, to, nic, num);
        add_traffic(m, to, num);
    }
    return ok;
}

/* The ports towards `nic`; `run` is the first run that may have them, and never goes back. */
static uint32_t next_ports(const struct inm_table *table, uint32_t *run, uint32_t nic)
{
    while (*run < table->num && (uint32_t)table->runs[*run].first + table->runs[*run].num <= nic) {
        ++*run;
    }
    return *run < table->num && table->runs[*run].first <= nic ? table->runs[*run].ports : 0;
}

/* Whether no table leads a packet up that came down: checked on the tables, however they were
 * made. `runs`: a zero for each NRC. */
static bool check_turns(struct graph *g, const struct inm_table *tables, uint32_t *runs)
{
    const struct inm_topo *topo = g->topo;
    uint8_t *came_down = g->down; /* by NRC */
    uint32_t nic, num, chip, other, ports, k;

    for (nic = 0; nic < topo->num_nic; nic += num) {
        next_block(g, nic, &num);
        memset(came_down, 0, topo->num_nrc);
        for (k = 0; k < topo->num_nrc; k++) { /* upper ones first: their marks are complete */
            chip = g->order[k];
            for (ports = next_ports(&tables[chip], &runs[chip], nic); ports != 0;
                 ports &= ports - 1) {
                other = g->peer[chip * INM_NRC_PORTS + (uint32_t)__builtin_ctz(ports)];
                if (other >= topo->num_nrc * INM_NRC_PORTS) {
                    continue;
                }
                other /= INM_NRC_PORTS;
                if (g->rank[other] < g->rank[chip]) {
                    came_down[other] = 1;
                } else if (came_down[chip]) {
                    return false;
                }
            }
        }
    }
    return true;
}

static void sum_up(const struct maker *m)
{
    const struct graph *g = m->g;
    struct route_result *r = m->r;
    uint32_t chip, i;

    r->min_load = UINT32_MAX;
    for (chip = 0; chip < g->topo->num_nrc; chip++) {
        const struct graph_node *node = &g->nodes[chip];

        r->runs += m->routes->tables[chip].num;
        r->chips += m->routes->tables[chip].num != 0;
        for (i = 0; i < node->num_up && g->topo->chips[chip].level == INM_LEVEL_LEAF; i++) {
            uint32_t n = m->upward[chip * INM_NRC_PORTS + node->port[i]];

            r->min_load = n < r->min_load ? n : r->min_load;
            r->max_load = n > r->max_load ? n : r->max_load;
        }
    }
    r->min_load = r->min_load == UINT32_MAX ? 0 : r->min_load;
}

bool routes_make(struct graph *g, enum route_kind kind, struct routes *routes,
                 struct route_result *r)
{
    const struct inm_topo *topo = g->topo;
    struct maker m = {.g = g, .routes = routes, .r = r};
    double begin = now_seconds();
    uint32_t chip;
    bool ok;

    memset(r, 0, sizeof(*r));
    *routes = (struct routes){.print = graph_print(g)};
    routes->tables = calloc(topo->num_nrc, sizeof(*routes->tables));
    routes->load = calloc(topo->num_nrc * INM_NRC_PORTS, sizeof(*routes->load));
    routes->connected = calloc(topo->num_nic, 1);
    m.upward = calloc(topo->num_nrc * INM_NRC_PORTS, sizeof(*m.upward));
    m.ports = malloc(topo->num_nrc * sizeof(*m.ports));
    m.traffic = malloc(topo->num_nrc * sizeof(*m.traffic));
    for (chip = 0; chip < topo->num_nrc; chip++) {
        m.hosts += g->nodes[chip].hosts;
    }
    ok = routes->tables && routes->load && routes->connected && m.upward && m.ports && m.traffic &&
         fill_tables(&m, kind);
    if (ok) {
        sum_up(&m);
        memset(m.ports, 0, topo->num_nrc * sizeof(*m.ports));
        r->deadlock_free = check_turns(g, routes->tables, m.ports);
    } else {
        routes_clear(topo, routes);
        snprintf(r->message, sizeof(r->message), "no memory");
    }
    free(m.upward);
    free(m.ports);
    free(m.traffic);
    r->seconds = now_seconds() - begin;
    return ok;
}

void routes_clear(const struct inm_topo *topo, struct routes *routes)
{
    uint32_t i;

    for (i = 0; routes->tables != NULL && i < topo->num_nrc; i++) {
        inm_table_clear(&routes->tables[i]);
    }
    free(routes->tables);
    free(routes->load);
    free(routes->connected);
    memset(routes, 0, sizeof(*routes));
}

bool routes_graph(struct inmd *d, struct graph *g)
{
    uint32_t *peer = malloc(inm_topo_ports(d->topo) * sizeof(*peer)), i;
    bool ok = false;

    pthread_mutex_lock(&d->lock);
    if (peer != NULL) {
        memcpy(peer, d->found.peer, inm_topo_ports(d->topo) * sizeof(*peer));
        for (i = 0; i < inm_topo_ports(d->topo); i++) {
            if (d->cut[i] && peer[i] != INM_NONE) {
                peer[peer[i]] = INM_NONE;
                peer[i] = INM_NONE;
            }
        }
        ok = graph_init(g, d->topo, peer, d->found.hop, d->gone);
    }
    pthread_mutex_unlock(&d->lock);
    free(peer);
    return ok;
}

bool routes_generate(struct inmd *d, enum route_kind kind, struct route_result *r)
{
    struct routes routes, old;
    struct graph g;
    bool ok;

    memset(r, 0, sizeof(*r));
    if (!routes_graph(d, &g)) {
        snprintf(r->message, sizeof(r->message), "no memory");
        return false;
    }
    ok = routes_make(&g, kind, &routes, r);
    graph_free(&g);
    if (ok) {
        pthread_mutex_lock(&d->lock);
        old = (struct routes){
            .tables = d->tables, .load = d->table_load, .connected = d->table_connected};
        d->tables = routes.tables;
        d->table_load = routes.load;
        d->table_connected = routes.connected;
        d->table_print = routes.print;
        d->tables_loaded = false;
        snprintf(d->table_kind, sizeof(d->table_kind), "%s", route_kind_name(kind));
        pthread_mutex_unlock(&d->lock);
        routes_clear(d->topo, &old);
    }
    return ok;
}
