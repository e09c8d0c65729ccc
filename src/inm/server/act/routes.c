/*
 * Routing tables: generated from what was discovered, loaded into the chips, read back, kept in
 * EEPROM.
 *
 * Links are ordered: one end is upper. On a fat tree that is the end nearer to the roots. A packet
 * goes up until its destination can be reached by going down only, and then down: it never turns
 * from down to up, so no circle of links can wait for each other (up/down routing). With the links
 * of a tree that are there, these are shortest paths.
 */
#include "routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"

#define FAR 255

struct graph {
    const struct inm_topo *topo;
    const uint32_t *peer;
    uint32_t *rank;  /* by NRC: greater is upper; each differs */
    uint32_t *order; /* NRCs, the uppermost first */
    uint8_t  *down;  /* by NRC: hops to the destination by going down only */
    uint8_t  *dist;  /* by NRC: hops to it */
    uint32_t *queue;
};

static void graph_free(struct graph *g)
{
    free(g->rank);
    free(g->order);
    free(g->down);
    free(g->dist);
    free(g->queue);
}

static int by_rank(const void *a, const void *b, void *arg)
{
    const uint32_t *rank = arg;
    uint32_t x = rank[*(const uint32_t *)a], y = rank[*(const uint32_t *)b];

    return x > y ? -1 : x < y;
}

static bool graph_init(struct graph *g, const struct inm_topo *topo, const struct inm_found *found)
{
    uint32_t n = topo->num_nrc, i;

    *g = (struct graph){.topo = topo, .peer = found->peer};
    g->rank = malloc(n * sizeof(*g->rank));
    g->order = malloc(n * sizeof(*g->order));
    g->down = malloc(n);
    g->dist = malloc(n);
    g->queue = malloc(n * sizeof(*g->queue));
    if (!g->rank || !g->order || !g->down || !g->dist || !g->queue) {
        graph_free(g);
        return false;
    }
    for (i = 0; i < n; i++) {
        /* Without levels: nearer to the server is upper. */
        uint32_t level = topo->tree.racks != 0 ? topo->chips[i].level : 63u - found->hop[i] % 64;

        g->rank[i] = level << 20 | i;
        g->order[i] = i;
    }
    qsort_r(g->order, n, sizeof(*g->order), by_rank, g->rank);
    return true;
}

/* The NRC at the other end of a port; INM_NONE: none, or a NIC. */
static inline uint32_t neighbour(const struct graph *g, uint32_t chip, uint32_t i)
{
    uint32_t peer = g->peer[chip * INM_NRC_PORTS + i];

    return peer < g->topo->num_nrc * INM_NRC_PORTS ? peer / INM_NRC_PORTS : INM_NONE;
}

/* Distances of all NRCs to one of them. */
static void measure(struct graph *g, uint32_t to)
{
    uint32_t head = 0, tail = 0, i, k, chip, other;

    memset(g->down, FAR, g->topo->num_nrc);
    memset(g->dist, FAR, g->topo->num_nrc);
    g->down[to] = 0;
    g->queue[tail++] = to;
    while (head < tail) { /* upwards from it, so downwards to it */
        chip = g->queue[head++];
        for (i = 0; i < INM_NRC_PORTS; i++) {
            other = neighbour(g, chip, i);
            if (other != INM_NONE && g->rank[other] > g->rank[chip] && g->down[other] == FAR) {
                g->down[other] = (uint8_t)(g->down[chip] + 1);
                g->queue[tail++] = other;
            }
        }
    }
    for (k = 0; k < g->topo->num_nrc; k++) {
        chip = g->order[k];
        g->dist[chip] = g->down[chip];
        for (i = 0; i < INM_NRC_PORTS && g->down[chip] == FAR; i++) {
            other = neighbour(g, chip, i);
            if (other != INM_NONE && g->rank[other] > g->rank[chip] &&
                g->dist[other] + 1 < g->dist[chip]) {
                g->dist[chip] = (uint8_t)(g->dist[other] + 1);
            }
        }
    }
}

/* The output ports of an NRC on the ways to the destination that was measured. */
static uint32_t ways(const struct graph *g, uint32_t chip)
{
    uint32_t ports = 0, i, other;

    for (i = 0; i < INM_NRC_PORTS && g->dist[chip] != FAR; i++) {
        other = neighbour(g, chip, i);
        if (other == INM_NONE) {
            continue;
        }
        if (g->down[chip] != FAR ? g->rank[other] < g->rank[chip] &&
                                       g->down[other] + 1 == g->down[chip]
                                 : g->rank[other] > g->rank[chip] &&
                                       g->dist[other] + 1 == g->dist[chip]) {
            ports |= 1u << i;
        }
    }
    return ports;
}

/* Of a set of ports those that a kind of table uses towards a destination. */
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

/* Hosts of one NRC that follow each other, from `*nic` on: their NRC, and their number. */
static uint32_t next_block(const struct inm_topo *topo, const uint32_t *peer, uint32_t nic,
                           uint32_t *num)
{
    uint32_t first = peer[inm_topo_port(topo, topo->num_nrc + nic, 0)], port;
    uint32_t chip = first == INM_NONE ? INM_NONE : inm_topo_port_chip(topo, first);

    for (*num = 1; nic + *num < topo->num_nic; ++*num) {
        port = peer[inm_topo_port(topo, topo->num_nrc + nic + *num, 0)];
        if ((port == INM_NONE ? INM_NONE : inm_topo_port_chip(topo, port)) != chip) {
            break;
        }
    }
    return chip < topo->num_nrc ? chip : INM_NONE;
}

static bool bears_hosts(const struct graph *g, uint32_t chip)
{
    uint32_t i, peer;

    for (i = 0; i < INM_NRC_PORTS; i++) {
        peer = g->peer[chip * INM_NRC_PORTS + i];
        if (peer != INM_NONE && peer >= g->topo->num_nrc * INM_NRC_PORTS) {
            return true;
        }
    }
    return false;
}

static bool fill_tables(struct graph *g, enum route_kind kind, struct inm_table *tables,
                        struct route_result *r, uint32_t *load)
{
    const struct inm_topo *topo = g->topo;
    uint32_t nic, num, to, chip, ports, i;
    bool ok = true;

    for (nic = 0; nic < topo->num_nic; nic += num) {
        uint32_t spread = topo->chips[topo->num_nrc + nic].board;

        to = next_block(topo, g->peer, nic, &num);
        if (to == INM_NONE) {
            r->unreachable += num;
            continue;
        }
        measure(g, to);
        for (chip = 0; chip < topo->num_nrc; chip++) {
            if (chip == to) {
                for (i = 0; i < num; i++) {
                    ok &= inm_table_set(&tables[chip], nic + i, 1, 1u << inm_topo_port_index(
                        topo, g->peer[inm_topo_port(topo, topo->num_nrc + nic + i, 0)]));
                }
                continue;
            }
            ports = choose(kind, ways(g, chip), spread + chip);
            /* A router in the middle that no way to there passes needs no entry. */
            r->unreachable += ports == 0 && bears_hosts(g, chip);
            ok &= ports == 0 || inm_table_set(&tables[chip], nic, num, ports);
            if (g->down[chip] == FAR) {
                for (; ports != 0; ports &= ports - 1) {
                    load[chip * INM_NRC_PORTS + (uint32_t)__builtin_ctz(ports)] += num;
                }
            }
        }
    }
    return ok;
}

/* Whether no table leads a packet up that came down: checked on the tables, not on how they were
 * made. */
static bool check_turns(struct graph *g, const struct inm_table *tables)
{
    const struct inm_topo *topo = g->topo;
    uint8_t *came_down = g->down; /* by NRC */
    uint32_t nic, num, chip, other, ports, k;

    for (nic = 0; nic < topo->num_nic; nic += num) {
        next_block(topo, g->peer, nic, &num);
        memset(came_down, 0, topo->num_nrc);
        for (k = 0; k < topo->num_nrc; k++) { /* upper ones first: their marks are complete */
            chip = g->order[k];
            for (ports = inm_table_get(&tables[chip], nic); ports != 0; ports &= ports - 1) {
                other = neighbour(g, chip, (uint32_t)__builtin_ctz(ports));
                if (other == INM_NONE) {
                    continue;
                }
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

static void sum_up(const struct graph *g, const struct inm_table *tables, const uint32_t *load,
                   struct route_result *r)
{
    uint32_t chip, i, other;

    r->min_load = UINT32_MAX;
    for (chip = 0; chip < g->topo->num_nrc; chip++) {
        r->runs += tables[chip].num;
        r->chips += tables[chip].num != 0;
        for (i = 0; i < INM_NRC_PORTS; i++) {
            other = neighbour(g, chip, i);
            if (other != INM_NONE && g->rank[other] > g->rank[chip] &&
                g->topo->chips[chip].level == INM_LEVEL_LEAF) {
                uint32_t n = load[chip * INM_NRC_PORTS + i];

                r->min_load = n < r->min_load ? n : r->min_load;
                r->max_load = n > r->max_load ? n : r->max_load;
            }
        }
    }
    r->min_load = r->min_load == UINT32_MAX ? 0 : r->min_load;
}

static void tables_free(const struct inm_topo *topo, struct inm_table *tables)
{
    uint32_t i;

    for (i = 0; tables != NULL && i < topo->num_nrc; i++) {
        inm_table_clear(&tables[i]);
    }
    free(tables);
}

static uint32_t *copy_peers(struct inmd *d, uint8_t *hops)
{
    uint32_t *peer = malloc(inm_topo_ports(d->topo) * sizeof(*peer));

    if (peer != NULL) {
        pthread_mutex_lock(&d->lock);
        memcpy(peer, d->found.peer, inm_topo_ports(d->topo) * sizeof(*peer));
        memcpy(hops, d->found.hop, d->topo->num_nrc);
        pthread_mutex_unlock(&d->lock);
    }
    return peer;
}

bool routes_generate(struct inmd *d, enum route_kind kind, struct route_result *r)
{
    static const char *const names[] = {"shortest", "balanced", "updown"};
    uint8_t *hops = malloc(d->topo->num_nrc);
    struct inm_found found = {.hop = hops, .peer = hops != NULL ? copy_peers(d, hops) : NULL};
    struct inm_table *tables = calloc(d->topo->num_nrc, sizeof(*tables)), *old;
    uint32_t *load = calloc(d->topo->num_nrc * INM_NRC_PORTS, sizeof(*load));
    double begin = now_seconds();
    struct graph g = {0};
    bool ok = false;

    memset(r, 0, sizeof(*r));
    if (found.peer != NULL && tables != NULL && load != NULL && graph_init(&g, d->topo, &found)) {
        ok = fill_tables(&g, kind, tables, r, load);
        sum_up(&g, tables, load, r);
        r->deadlock_free = ok && check_turns(&g, tables);
    }
    graph_free(&g);
    free(found.peer);
    free(hops);
    free(load);
    r->seconds = now_seconds() - begin;
    if (!ok) {
        tables_free(d->topo, tables);
        snprintf(r->message, sizeof(r->message), "no memory");
        return false;
    }
    pthread_mutex_lock(&d->lock);
    old = d->tables;
    d->tables = tables;
    snprintf(d->table_kind, sizeof(d->table_kind), "%s", names[kind]);
    pthread_mutex_unlock(&d->lock);
    tables_free(d->topo, old);
    return true;
}

/* ---- into the chips -------------------------------------------------------------------------- */

/* The caller holds `busy`, so the tables stay. */
static bool have_tables(const struct inmd *d, struct route_result *r)
{
    memset(r, 0, sizeof(*r));
    if (d->tables == NULL) {
        snprintf(r->message, sizeof(r->message), "no tables: generate them first");
    }
    return d->tables != NULL;
}

/* Requests for one chip's table: empty it, then a request for each run. */
static uint32_t list_runs(const struct inm_table *table, const struct net_req *first,
                          struct net_req *reqs)
{
    uint32_t i, n = 0;

    for (i = 0; i <= table->num; i++) {
        const struct inm_run all = {0, UINT16_MAX, 0};
        const struct inm_run *run = i == 0 ? &all : &table->runs[i - 1];

        reqs[n] = *first;
        reqs[n].count = 2;
        reqs[n].addr[0] = REG_ROUTE_ADDR;
        reqs[n].addr[1] = REG_ROUTE_DATA;
        reqs[n].reg[0] = run->first | (uint32_t)run->num << 16;
        reqs[n++].reg[1] = run->ports;
    }
    return n;
}

#define LOAD_BATCH 65536

bool routes_load(struct inmd *d, struct route_result *r)
{
    struct inm_route *routes = malloc(d->topo->num_nrc * sizeof(*routes));
    struct net_req *reqs = NULL, first;
    double begin = now_seconds();
    uint32_t chip, n = 0, max = 0;

    if (!have_tables(d, r) || routes == NULL) {
        free(routes);
        return false;
    }
    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        max = d->tables[chip].num > max ? d->tables[chip].num : max;
    }
    reqs = malloc((LOAD_BATCH + max + 1) * sizeof(*reqs));
    for (chip = 0; chip < d->topo->num_nrc && reqs != NULL; chip++) {
        if (request_for(d, chip, GLEX_MGMT_REG_WRITE_REQ, &first, &routes[chip])) {
            n += list_runs(&d->tables[chip], &first, reqs + n);
            r->runs += d->tables[chip].num;
            r->chips++;
        } else {
            r->failed++;
        }
        if (n >= LOAD_BATCH || chip + 1 == d->topo->num_nrc) {
            r->failed += net_run(d->net, reqs, n);
            n = 0;
        }
    }
    free(reqs);
    free(routes);
    r->seconds = now_seconds() - begin;
    return r->failed == 0;
}

/* A chip's table is read at the first and the last entry of every run, and its runs are counted. */
static void verify_chip(struct inmd *d, uint32_t chip, struct route_result *r)
{
    const struct inm_table *table = &d->tables[chip];
    struct inm_route route;
    struct net_req first, *reqs;
    uint32_t i, n = 1;
    bool differ = false;

    if (!request_for(d, chip, GLEX_MGMT_REG_READ_REQ, &first, &route)) {
        r->failed++;
        return;
    }
    reqs = malloc((table->num * 2 + 1) * sizeof(*reqs));
    if (reqs == NULL) {
        r->failed++;
        return;
    }
    reqs[0] = first;
    reqs[0].addr[0] = REG_ROUTE_RUNS;
    for (i = 0; i < table->num; i++) {
        reqs[n] = first;
        reqs[n].type = GLEX_MGMT_REG_WRITE_REQ;
        reqs[n].addr[0] = REG_ROUTE_ADDR;
        reqs[n++].reg[0] = (uint32_t)table->runs[i].first + table->runs[i].num - 1;
        reqs[n] = first;
        reqs[n++].addr[0] = REG_ROUTE_DATA;
    }
    r->failed += net_run(d->net, reqs, n);
    differ = reqs[0].reg[0] != table->num;
    for (i = 0; i < table->num; i++) {
        differ = differ || reqs[2 * i + 2].reg[0] != table->runs[i].ports;
        r->checked++;
    }
    r->differ += differ;
    r->chips++;
    free(reqs);
}

bool routes_verify(struct inmd *d, struct route_result *r)
{
    double begin = now_seconds();
    uint32_t chip;

    if (!have_tables(d, r)) {
        return false;
    }
    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        verify_chip(d, chip, r);
    }
    r->seconds = now_seconds() - begin;
    return r->failed == 0 && r->differ == 0;
}

static void put_number(uint8_t *buf, uint64_t value, unsigned len)
{
    unsigned i;

    for (i = 0; i < len; i++) {
        buf[i] = (uint8_t)(value >> (8 * i));
    }
}

static bool keep_chip(struct inmd *d, uint32_t chip)
{
    const struct inm_table *table = &d->tables[chip];
    uint32_t len = EEP_ROUTES - EEP_ROUTE_NUM + table->num * 8, i;
    uint8_t *buf = malloc(len), *back = malloc(len);
    bool ok = buf != NULL && back != NULL && EEP_ROUTE_NUM + len <= INM_EEPROM_BYTES;

    if (ok) {
        put_number(buf, table->num, 2);
        for (i = 0; i < table->num; i++) {
            put_number(buf + 2 + 8 * i, table->runs[i].first, 2);
            put_number(buf + 4 + 8 * i, table->runs[i].num, 2);
            put_number(buf + 6 + 8 * i, table->runs[i].ports, 4);
        }
        ok = chip_eeprom_write(d, chip, EEP_ROUTE_NUM, len, buf) == NET_OK &&
             chip_eeprom_read(d, chip, EEP_ROUTE_NUM, len, back) == NET_OK &&
             memcmp(buf, back, len) == 0;
    }
    free(buf);
    free(back);
    return ok;
}

bool routes_keep(struct inmd *d, uint32_t only_chip, struct route_result *r)
{
    double begin = now_seconds();
    uint32_t chip;

    if (!have_tables(d, r)) {
        return false;
    }
    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        if (only_chip == INM_NONE || chip == only_chip) {
            r->failed += !keep_chip(d, chip);
            r->chips++;
        }
    }
    r->seconds = now_seconds() - begin;
    return r->failed == 0;
}
