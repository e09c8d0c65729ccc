/* The emulated network: wires, packets and the clock; see fabric.h. */
#include "fabric.h"
#include "inm/wire/flit.h"
#include "walk.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LANES               8
#define DEFAULT_TEMPERATURE 45000
#define DEFAULT_HOT_LIMIT   85000

uint32_t fab_random(struct fabric *fab, uint32_t below)
{
    fab->random ^= fab->random << 13;
    fab->random ^= fab->random >> 7;
    fab->random ^= fab->random << 17;
    return (uint32_t)((fab->random >> 32) % below);
}

bool fab_chance(struct fabric *fab, uint32_t ppm)
{
    return ppm != 0 && fab_random(fab, 1000000) < ppm;
}

struct fabric *fab_new(struct inm_topo *topo, bool modelled, uint64_t seed)
{
    struct fabric *fab = calloc(1, sizeof(*fab));
    uint32_t i;

    if (fab == NULL) {
        return NULL;
    }
    fab->topo = topo;
    fab->modelled = modelled;
    fab->random = seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
    fab->random += fab->random == 0;
    fab->ports = calloc(inm_topo_ports(topo), sizeof(*fab->ports));
    fab->chips = calloc(inm_topo_chips(topo), sizeof(*fab->chips));
    fab->rates = calloc(inm_topo_ports(topo), sizeof(*fab->rates));
    if (fab->ports == NULL || fab->chips == NULL || fab->rates == NULL) {
        free(fab->ports);
        free(fab->chips);
        free(fab->rates);
        free(fab);
        return NULL;
    }
    for (i = 0; i < inm_topo_ports(topo); i++) {
        fab->ports[i] = (struct fab_port){.peer = topo->peer[i],
                                          .enabled = 1,
                                          .lanes = LANES,
                                          .up = topo->peer[i] != INM_NONE,
                                          .handshakes = topo->peer[i] != INM_NONE};
    }
    for (i = 0; i < inm_topo_chips(topo); i++) {
        fab->chips[i].serial = 100000000u + i;
        fab->chips[i].firmware = 2ull << 32 | 1u << 16;
        fab_chip_reset(fab, i);
    }
    fab->changes = 1;
    return fab;
}

static void chip_free_tables(struct fab_chip *chip)
{
    uint32_t i;

    inm_table_clear(&chip->table);
    for (i = 0; chip->port_table != NULL && i < INM_NRC_PORTS; i++) {
        inm_table_clear(&chip->port_table[i]);
    }
    free(chip->port_table);
    chip->port_table = NULL;
}

void fab_free(struct fabric *fab)
{
    uint32_t i, page;

    for (i = 0; i < inm_topo_chips(fab->topo); i++) {
        chip_free_tables(&fab->chips[i]);
        for (page = 0; fab->chips[i].eeprom != NULL && page < 256; page++) {
            free(fab->chips[i].eeprom[page]);
        }
        free(fab->chips[i].eeprom);
    }
    inm_topo_free(fab->topo);
    free(fab->ports);
    free(fab->chips);
    free(fab->rates);
    free(fab);
}

uint64_t real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- EEPROM ---------------------------------------------------------------------------------- */

uint8_t fab_eeprom_read(const struct fabric *fab, uint32_t chip, uint16_t addr)
{
    const uint8_t *page =
        fab->chips[chip].eeprom != NULL ? fab->chips[chip].eeprom[addr / 256] : NULL;

    if (page != NULL) {
        return page[addr % 256];
    }
    return addr < 4 ? (uint8_t)(EEP_MAGIC >> (8 * addr)) : 0; /* content of a new EEPROM */
}

bool fab_eeprom_write(struct fabric *fab, uint32_t chip, uint16_t addr, uint8_t value)
{
    uint8_t ***eeprom = &fab->chips[chip].eeprom;
    uint8_t *page;
    uint16_t i;

    if (*eeprom == NULL) {
        *eeprom = calloc(256, sizeof(**eeprom));
        if (*eeprom == NULL) {
            return false;
        }
    }
    if ((*eeprom)[addr / 256] == NULL) {
        page = malloc(256);
        if (page == NULL) {
            return false;
        }
        for (i = 0; i < 256; i++) {
            page[i] = fab_eeprom_read(fab, chip, (uint16_t)(addr / 256 * 256 + i));
        }
        (*eeprom)[addr / 256] = page;
    }
    (*eeprom)[addr / 256][addr % 256] = value;
    return true;
}

static uint64_t eeprom_number(const struct fabric *fab, uint32_t chip, uint32_t addr, unsigned len)
{
    uint64_t v = 0;
    unsigned i;

    for (i = 0; i < len; i++) {
        v |= (uint64_t)fab_eeprom_read(fab, chip, (uint16_t)(addr + i)) << (8 * i);
    }
    return v;
}

/* What the chip loads when it is switched on; a wrong magic number: nothing. */
static void chip_load(struct fabric *fab, uint32_t chip)
{
    struct fab_chip *c = &fab->chips[chip];
    uint32_t i, num, at;

    if (c->eeprom == NULL || eeprom_number(fab, chip, 0, 4) != EEP_MAGIC) {
        return;
    }
    for (i = 0; i < REG_CONFIG_NUM; i++) {
        c->config[i] = eeprom_number(fab, chip, EEP_CONFIG + 8 * i, 8);
    }
    num = (uint32_t)eeprom_number(fab, chip, EEP_ROUTE_NUM, 2);
    for (i = 0; i < num && EEP_ROUTES + 8 * (i + 1) <= INM_EEPROM_BYTES; i++) {
        at = EEP_ROUTES + 8 * i;
        inm_table_set(&c->table, (uint32_t)eeprom_number(fab, chip, at, 2),
                      (uint32_t)eeprom_number(fab, chip, at + 2, 2),
                      (uint32_t)eeprom_number(fab, chip, at + 4, 4) & 0xffffffu);
    }
}

void fab_chip_reset(struct fabric *fab, uint32_t chip)
{
    struct fab_chip *c = &fab->chips[chip];
    struct fab_chip old = *c;

    chip_free_tables(c);
    *c = (struct fab_chip){.mute = old.mute,
                           .dead = old.dead,
                           .eeprom = old.eeprom,
                           .serial = old.serial,
                           .firmware = old.firmware,
                           .temperature =
                               old.temperature != 0 ? old.temperature : DEFAULT_TEMPERATURE,
                           .hot_limit = DEFAULT_HOT_LIMIT};
    fab->changes++;
    chip_load(fab, chip);
}

/* ---- links ----------------------------------------------------------------------------------- */

bool fab_link_up(const struct fabric *fab, uint32_t port)
{
    const struct fab_port *p = &fab->ports[port];

    return p->up && p->bist_end_ns == 0 && fab->ports[p->peer].bist_end_ns == 0;
}

static bool link_should_be_up(const struct fabric *fab, uint32_t port)
{
    const struct fab_port *p = &fab->ports[port], *q;

    if (p->peer == INM_NONE) {
        return false;
    }
    q = &fab->ports[p->peer];
    return p->enabled && q->enabled && !p->broken && !q->broken &&
           !fab->chips[inm_topo_port_chip(fab->topo, port)].dead &&
           !fab->chips[inm_topo_port_chip(fab->topo, p->peer)].dead;
}

static void port_set(struct fabric *fab, uint32_t port, bool up)
{
    struct fab_port *p = &fab->ports[port];

    if (p->up == up) {
        return;
    }
    fab_settle_flits(fab);
    fab->changes++;
    fab->rates[port] = (struct fab_rate){0};
    p->up = up;
    p->handshakes += up;
    fab_event(fab, inm_topo_port_chip(fab->topo, port),
              up ? NMP_EVENT_LINK_UP : NMP_EVENT_LINK_DOWN, inm_topo_port_index(fab->topo, port),
              p->handshakes);
}

void fab_link_update(struct fabric *fab, uint32_t port)
{
    bool up = link_should_be_up(fab, port);
    uint32_t peer = fab->ports[port].peer;

    port_set(fab, port, up);
    if (peer != INM_NONE) {
        port_set(fab, peer, up);
    }
}

void fab_settle_flits(struct fabric *fab)
{
    uint64_t now = fab->modelled ? fab->now_ns : real_ns();
    double seconds = now > fab->flits_ns ? (double)(now - fab->flits_ns) * 1e-9 : 0;
    uint32_t port;

    for (port = 0; port < inm_topo_ports(fab->topo) && fab->flits_ns != 0 && seconds > 0; port++) {
        uint64_t flits = (uint64_t)(fab->rates[port].flits * seconds);

        if (flits > 0) {
            fab->ports[port].tx_flits += flits;
            fab->ports[fab->ports[port].peer].rx_flits += flits;
        }
        fab->ports[port].tx_waits += (uint64_t)(fab->rates[port].waits * seconds);
    }
    fab->flits_ns = now;
}

uint64_t fab_new_serial(struct fabric *fab)
{
    return 200000000u + fab->changes++;
}

void fab_add_retries(struct fabric *fab, uint32_t port, uint64_t num)
{
    struct fab_port *p = &fab->ports[port];

    p->retries += num;
    if (p->retry_limit != 0 && p->retries - p->retry_reported >= p->retry_limit) {
        p->retry_reported = p->retries;
        fab_event(fab, inm_topo_port_chip(fab->topo, port), NMP_EVENT_RETRY,
                  inm_topo_port_index(fab->topo, port), p->retries);
    }
}

void fab_set_temperature(struct fabric *fab, uint32_t chip, int32_t temperature)
{
    struct fab_chip *c = &fab->chips[chip];
    bool hot;

    c->temperature = temperature;
    /* Two degrees of hysteresis. */
    hot = temperature > c->hot_limit || (c->hot && temperature > c->hot_limit - 2000);
    if (hot != (bool)c->hot) {
        c->hot = hot;
        fab_event(fab, chip, hot ? NMP_EVENT_HOT : NMP_EVENT_COOL, 0, (uint64_t)temperature);
    }
}

void fab_bist_settle(struct fabric *fab, uint32_t port)
{
    struct fab_port *p = &fab->ports[port];

    if (p->bist_end_ns == 0 || fab->now_ns < p->bist_end_ns) {
        return;
    }
    p->bist_end_ns = 0;
    p->bist_bits = (uint64_t)p->lanes * 14000u * p->bist_us; /* 14 Gb/s a lane */
    p->bist_errors = (uint64_t)((double)p->bist_bits * p->error_rate * 1e-12);
    if (!p->up) {
        p->bist_errors = p->bist_bits / 2; /* noise */
    }
    fab_event(fab, inm_topo_port_chip(fab->topo, port), NMP_EVENT_BIST_DONE,
              inm_topo_port_index(fab->topo, port), p->bist_errors);
}

/* ---- packets --------------------------------------------------------------------------------- */

/* Over the link at a chip's port. @return false: lost. */
static bool walk_link(struct fabric *fab, struct walk *w, uint32_t index)
{
    uint32_t port = inm_topo_port(fab->topo, w->chip, index);
    struct fab_port *p = &fab->ports[port], *q;

    if (p->bist_end_ns != 0) {
        fab_bist_settle(fab, port);
    }
    if (!p->up || p->bist_end_ns != 0) {
        fab->counters.lost_link++;
        return false;
    }
    q = &fab->ports[p->peer];
    if (q->bist_end_ns != 0) {
        fab_bist_settle(fab, p->peer);
        if (q->bist_end_ns != 0) {
            fab->counters.lost_link++;
            return false;
        }
    }
    p->tx_flits += PACKET_FLITS;
    q->rx_flits += PACKET_FLITS;
    if (fab_chance(fab, fab->corrupt_ppm)) {
        w->corrupt = true;
        q->crc_errors++;
        fab->counters.corrupted++;
    }
    w->chip = inm_topo_port_chip(fab->topo, p->peer);
    w->hops++;
    return true;
}

/* Follows a source route from chip to chip. A NIC has one port, which the route does not name. */
bool walk_route(struct fabric *fab, struct walk *w, const struct nmp_route *route)
{
    unsigned i;

    if (w->chip >= fab->topo->num_nrc && !walk_link(fab, w, 0)) {
        return false;
    }
    for (i = 0; i < route->num; i++) {
        if (w->chip >= fab->topo->num_nrc || route->hop[i] >= INM_NRC_PORTS) {
            fab->counters.lost_route++;
            return false;
        }
        if (!walk_link(fab, w, route->hop[i])) {
            return false;
        }
    }
    return true;
}

/* Modelled time of one direction. */
double way_ns(const struct fabric *fab, uint32_t links)
{
    double hop = MODEL_HOP_NS + (fab->busy ? MODEL_BUSY_HOP_NS : 0);

    return links == 0 ?
               0 :
               (MODEL_FIRST_LINK_NS + (links - 1) * hop + (fab->busy ? MODEL_BUSY_HOP_NS : 0)) / 2;
}

/* The last link to a NIC is passed: its host gets the packet, unless it is damaged. */
void arrive(struct fabric *fab, const struct walk *w, uint64_t time_ns, const struct nmp_desc *desc,
            uint64_t *count)
{
    uint8_t buf[NMP_DESC_BYTES];

    if (w->chip < fab->topo->num_nrc) {
        fab->counters.lost_route++; /* the route ended in a router */
        return;
    }
    if (w->corrupt) {
        fab->chips[w->chip].drop_crc++;
        return;
    }
    nmp_encode(desc, buf);
    ++*count;
    fab->deliver(fab->deliver_arg, w->chip, time_ns, buf, desc->dest_vp);
}

/* ---- reports --------------------------------------------------------------------------------- */

void fab_event(struct fabric *fab, uint32_t chip, unsigned event, unsigned port, uint64_t value)
{
    struct fab_chip *c = &fab->chips[chip];
    struct walk w = {.chip = chip};
    struct nmp_desc desc;
    uint8_t route[16];

    if (c->dead || (c->route0 == 0 && c->route1 == 0 && chip < fab->topo->num_nrc) ||
        (c->report_enable & ~c->fault_mask & 1ull << event) == 0) {
        c->reports_masked++;
        return;
    }
    nmp_init(&desc, NMP_REPORT, NMP_CHIP_NONE, NMP_ID_NONE);
    desc.dest_vp = c->report_vp;
    desc.data.count = 1;
    desc.data.report.event = (uint8_t)event;
    desc.data.report.port = (uint8_t)port;
    desc.data.report.src_type = fab->topo->chips[chip].type;
    desc.data.report.src_id = inm_chip_id(fab->topo, chip);
    desc.data.report.seq = ++c->seq;
    desc.data.report.value = value;
    nmp_put_bits(route, 0, 64, c->route0);
    nmp_put_bits(route, 64, 41, c->route1);
    nmp_get_route(route, 0, &desc.backward);
    c->reports_sent++;
    if (walk_route(fab, &w, &desc.backward)) {
        fab->counters.hops += w.hops;
        arrive(fab, &w, (fab->modelled ? fab->now_ns : real_ns()) + (uint64_t)way_ns(fab, w.hops),
               &desc, &fab->counters.reports);
    }
}
