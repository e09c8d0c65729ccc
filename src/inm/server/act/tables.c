/* Routing tables into the chips; see tables.h. */
#include "tables.h"
#include "access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    d->tables_loaded = r->failed == 0;
    return r->failed == 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Calls `take` for each range of entries whose ports differ; ports 0 empty them. */
static void each_change(const struct inm_table *from, const struct inm_table *to,
                        void (*take)(void *arg, uint32_t first, uint32_t num, uint32_t ports),
                        void *arg)
{
    uint32_t a = 0, b = 0, at = 0, end, old, new;

    while (a < from->num || b < to->num) {
        const struct inm_run *x = a < from->num ? &from->runs[a] : NULL;
        const struct inm_run *y = b < to->num ? &to->runs[b] : NULL;

        end = 0x10000;
        old = new = 0;
        if (x != NULL && at >= x->first) {
            old = x->ports;
            end = (uint32_t)x->first + x->num;
        } else if (x != NULL) {
            end = x->first;
        }
        if (y != NULL && at >= y->first) {
            new = y->ports;
            end = (uint32_t)y->first + y->num < end ? (uint32_t)y->first + y->num : end;
        } else if (y != NULL) {
            end = y->first < end ? y->first : end;
        }
        if (old != new) {
            take(arg, at, end - at, new);
        }
        at = end;
        a += x != NULL && at >= (uint32_t)x->first + x->num;
        b += y != NULL && at >= (uint32_t)y->first + y->num;
    }
}

static void count_change(void *arg, uint32_t first, uint32_t num, uint32_t ports)
{
    struct table_changes *changes = arg;

    (void)first;
    (void)ports;
    changes->writes++;
    changes->entries += num;
}

void tables_compare(const struct inm_topo *topo, const struct inm_table *from,
                    const struct inm_table *to, struct table_changes *changes)
{
    uint32_t chip, before;

    memset(changes, 0, sizeof(*changes));
    for (chip = 0; chip < topo->num_nrc; chip++) {
        before = changes->writes;
        each_change(&from[chip], &to[chip], count_change, changes);
        changes->chips += changes->writes != before;
    }
}

struct change_list {
    struct net_req *reqs;
    const struct net_req *first;
    uint32_t num;
};

static void list_change(void *arg, uint32_t first, uint32_t num, uint32_t ports)
{
    struct change_list *l = arg;
    struct net_req *req = &l->reqs[l->num++];

    *req = *l->first;
    req->count = 2;
    req->addr[0] = REG_ROUTE_ADDR;
    req->addr[1] = REG_ROUTE_DATA;
    req->reg[0] = first | (uint64_t)num << 16;
    req->reg[1] = ports;
}

/* Writes the changes of one chip. */
static void change_chip(struct inmd *d, uint32_t chip, const struct inm_table *to,
                        struct route_result *r)
{
    struct table_changes changes = {0};
    struct change_list list = {0};
    struct inm_route route;
    struct net_req first;

    each_change(&d->tables[chip], to, count_change, &changes);
    if (changes.writes == 0) {
        return;
    }
    r->chips++;
    r->runs += changes.writes;
    list.reqs = malloc(changes.writes * sizeof(*list.reqs));
    if (list.reqs == NULL || !request_for(d, chip, GLEX_MGMT_REG_WRITE_REQ, &first, &route)) {
        r->failed += changes.writes;
        free(list.reqs);
        return;
    }
    list.first = &first;
    each_change(&d->tables[chip], to, list_change, &list);
    r->failed += net_run(d->net, list.reqs, list.num);
    free(list.reqs);
}

static void verify_chip(struct inmd *d, uint32_t chip, const struct inm_table *table,
                        struct route_result *r);

bool tables_change(struct inmd *d, const struct inm_table *to, struct route_result *r)
{
    struct route_result check = {0};
    double begin = now_seconds();
    uint32_t chip;

    memset(r, 0, sizeof(*r));
    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        change_chip(d, chip, &to[chip], r);
    }
    for (chip = 0; chip < d->topo->num_nrc && r->failed == 0; chip++) {
        if (!inm_table_equal(&d->tables[chip], &to[chip])) {
            verify_chip(d, chip, &to[chip], &check);
        }
    }
    r->differ = check.differ;
    r->checked = check.checked;
    r->failed += check.failed;
    r->seconds = now_seconds() - begin;
    if (r->failed != 0 || r->differ != 0) {
        snprintf(r->message, sizeof(r->message),
                 "%u requests failed, %u tables differ when read "
                 "back: load the tables again by \"inm route load\"",
                 r->failed, r->differ);
    }
    return r->failed == 0 && r->differ == 0;
}

/* ---- reading back ---------------------------------------------------------------------------- */

/* The entries at which a table with as many runs can differ: both ends of each run, and the entry behind
 * a run that the next run does not follow. `entries` has room for 3 of each run. */
static uint32_t ends_of_runs(const struct inm_table *table, uint32_t *entries)
{
    uint32_t i, end, n = 0;

    for (i = 0; i < table->num; i++) {
        end = (uint32_t)table->runs[i].first + table->runs[i].num;
        entries[n++] = table->runs[i].first;
        entries[n++] = end - 1;
        if (end < UINT16_MAX && (i + 1 == table->num || table->runs[i + 1].first != end)) {
            entries[n++] = end;
        }
    }
    return n;
}

/* Requests that read the number of runs, then each entry. */
static uint32_t read_entries(const struct net_req *first, const uint32_t *entries, uint32_t num,
                             struct net_req *reqs)
{
    uint32_t i, n = 0;

    reqs[n] = *first;
    reqs[n++].addr[0] = REG_ROUTE_RUNS;
    for (i = 0; i < num; i++) {
        reqs[n] = *first;
        reqs[n].type = GLEX_MGMT_REG_WRITE_REQ;
        reqs[n].addr[0] = REG_ROUTE_ADDR;
        reqs[n++].reg[0] = entries[i];
        reqs[n] = *first;
        reqs[n++].addr[0] = REG_ROUTE_DATA;
    }
    return n;
}

/* Compares a chip's table with `table`: the number of runs, and their ends. */
static void verify_chip(struct inmd *d, uint32_t chip, const struct inm_table *table,
                        struct route_result *r)
{
    uint32_t *entries = malloc((table->num * 3 + 1) * sizeof(*entries)), num, i;
    struct net_req *reqs = malloc((table->num * 6 + 1) * sizeof(*reqs));
    struct inm_route route;
    struct net_req first;
    bool differ;

    if (entries == NULL || reqs == NULL ||
        !request_for(d, chip, GLEX_MGMT_REG_READ_REQ, &first, &route)) {
        r->failed++;
        goto out;
    }
    num = ends_of_runs(table, entries);
    r->failed += net_run(d->net, reqs, read_entries(&first, entries, num, reqs));
    differ = reqs[0].reg[0] != table->num;
    for (i = 0; i < num; i++) {
        differ = differ || reqs[2 * i + 2].reg[0] != inm_table_get(table, entries[i]);
    }
    r->checked += table->num;
    r->differ += differ;
    r->chips++;
out:
    free(reqs);
    free(entries);
}

bool routes_verify(struct inmd *d, struct route_result *r)
{
    double begin = now_seconds();
    uint32_t chip;

    if (!have_tables(d, r)) {
        return false;
    }
    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        verify_chip(d, chip, &d->tables[chip], r);
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
