/* The registers of a chip, by address; see wire/regs.h. */
#include "fabric.h"
#include "traffic.h"

#include <stdlib.h>

/* The neighbour entry of a port. A chip learns the entry when the link comes up. */
static uint32_t neighbour(const struct fabric *fab, uint32_t port)
{
    const struct fab_port *p = &fab->ports[port];
    uint32_t chip;

    if (p->peer == INM_NONE || !p->up) {
        return 0;
    }
    chip = inm_topo_port_chip(fab->topo, p->peer);
    return REG_NB(inm_chip_id(fab->topo, chip), inm_topo_port_index(fab->topo, p->peer),
                  fab->topo->chips[chip].type, true);
}

static uint64_t neighbour_pair(const struct fabric *fab, uint32_t chip, uint32_t first)
{
    uint64_t value = neighbour(fab, inm_topo_port(fab->topo, chip, first));

    if (first + 1 < inm_chip_ports(fab->topo, chip)) {
        value |= (uint64_t)neighbour(fab, inm_topo_port(fab->topo, chip, first + 1)) << 32;
    }
    return value;
}

static uint64_t links_up(const struct fabric *fab, uint32_t chip)
{
    uint64_t up = 0;
    uint32_t i;

    for (i = 0; i < inm_chip_ports(fab->topo, chip); i++) {
        up |= (uint64_t)fab->ports[inm_topo_port(fab->topo, chip, i)].up << i;
    }
    return up;
}

static uint64_t all_crc_errors(const struct fabric *fab, uint32_t chip)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < inm_chip_ports(fab->topo, chip); i++) {
        sum += fab->ports[inm_topo_port(fab->topo, chip, i)].crc_errors;
    }
    return sum;
}

static uint64_t all_retries(const struct fabric *fab, uint32_t chip)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < inm_chip_ports(fab->topo, chip); i++) {
        sum += fab->ports[inm_topo_port(fab->topo, chip, i)].retries;
    }
    return sum;
}

static const struct inm_table *port_table(const struct fab_chip *c, uint32_t index)
{
    return c->port_table != NULL && c->port_table[index].num > 0 ? &c->port_table[index] :
                                                                   &c->table;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum nmp_status read_port(struct fabric *fab, uint32_t chip, uint32_t index, uint32_t reg,
                                 uint64_t *value)
{
    uint32_t port = inm_topo_port(fab->topo, chip, index);
    const struct fab_port *p = &fab->ports[port];

    fab_bist_settle(fab, port);
    if (fab->traffic != NULL &&
        (reg == PORT_TX_FLITS || reg == PORT_RX_FLITS || reg == PORT_TX_WAITS)) {
        traffic_settle(fab->traffic);
    }
    switch (reg) {
    case PORT_CONTROL:
        *value = p->enabled;
        break;
    case PORT_STATUS:
        *value = (uint64_t)p->up | (uint64_t)(p->up ? p->lanes : 0) << 8 | 14000ull << 16;
        break;
    case PORT_HANDSHAKES:
        *value = p->handshakes;
        break;
    case PORT_RETRIES:
        *value = p->retries;
        break;
    case PORT_CRC_ERRORS:
        *value = p->crc_errors;
        break;
    case PORT_TX_FLITS:
        *value = p->tx_flits;
        break;
    case PORT_RX_FLITS:
        *value = p->rx_flits;
        break;
    case PORT_TX_WAITS:
        *value = p->tx_waits;
        break;
    case PORT_NEIGHBOUR:
        *value = neighbour(fab, port);
        break;
    case PORT_RETRY_LIMIT:
        *value = p->retry_limit;
        break;
    case PORT_BIST_CONTROL:
        *value = (uint64_t)p->bist_us << 32;
        break;
    case PORT_BIST_STATUS:
        *value = p->bist_end_ns != 0 ? 1 : p->bist_bits != 0 ? 2 : 0;
        break;
    case PORT_BIST_BITS:
        *value = p->bist_bits;
        break;
    case PORT_BIST_ERRORS:
        *value = p->bist_errors;
        break;
    case PORT_ID:
        *value = REG_NB(inm_chip_id(fab->topo, chip), index, fab->topo->chips[chip].type, false);
        break;
    case PORT_ROUTE_ADDR:
        *value = p->route_addr;
        break;
    case PORT_ROUTE_DATA:
        *value = inm_table_get(port_table(&fab->chips[chip], index), p->route_addr & 0xffffu);
        break;
    default:
        return NMP_BAD_ADDRESS;
    }
    return NMP_OK;
}

static enum nmp_status read_chip(const struct fabric *fab, uint32_t chip, uint32_t addr,
                                 uint64_t *value)
{
    const struct fab_chip *c = &fab->chips[chip];

    switch (addr) {
    case REG_ID:
        *value = REG_NB(inm_chip_id(fab->topo, chip), 0, fab->topo->chips[chip].type, false);
        break;
    case REG_VERSION:
        *value = 1;
        break;
    case REG_TEMPERATURE:
        *value = (uint64_t)(int64_t)c->temperature;
        break;
    case REG_REPORT_ENABLE:
        *value = c->report_enable;
        break;
    case REG_FAULT_MASK:
        *value = c->fault_mask;
        break;
    case REG_REPORT_ROUTE0:
        *value = c->route0;
        break;
    case REG_REPORT_ROUTE1:
        *value = c->route1 | (uint64_t)c->report_vp << 48;
        break;
    case REG_REPORTS_SENT:
        *value = c->reports_sent;
        break;
    case REG_REPORTS_MASKED:
        *value = c->reports_masked;
        break;
    case REG_DROP_CRC:
        *value = c->drop_crc;
        break;
    case REG_DROP_DEST:
        *value = c->drop_dest;
        break;
    case REG_DROP_FORMAT:
        *value = c->drop_format;
        break;
    case REG_ERRORS:
        *value = c->errors;
        break;
    case REG_LINKS_UP:
        *value = links_up(fab, chip);
        break;
    case REG_RETRIES:
        *value = all_retries(fab, chip);
        break;
    case REG_HOT_LIMIT:
        *value = (uint64_t)(int64_t)c->hot_limit;
        break;
    case REG_ROUTE_ADDR:
        *value = c->route_addr;
        break;
    case REG_ROUTE_DATA:
        *value = inm_table_get(&c->table, c->route_addr & 0xffffu);
        break;
    case REG_ROUTE_RUNS:
        *value = c->table.num;
        break;
    case REG_CRC_ERRORS:
        *value = all_crc_errors(fab, chip);
        break;
    case REG_SERIAL:
        *value = c->serial;
        break;
    case REG_FIRMWARE:
        *value = c->firmware;
        break;
    default:
        return NMP_BAD_ADDRESS;
    }
    return NMP_OK;
}

enum nmp_status reg_read(struct fabric *fab, uint32_t chip, uint32_t addr, uint64_t *value)
{
    uint32_t ports = inm_chip_ports(fab->topo, chip);

    if (addr >= REG_NEIGHBOUR0 && addr < REG_NEIGHBOUR0 + (ports + 1) / 2) {
        *value = neighbour_pair(fab, chip, 2 * (addr - REG_NEIGHBOUR0));
        return NMP_OK;
    }
    if (addr >= REG_CONFIG0 && addr < REG_CONFIG0 + REG_CONFIG_NUM) {
        *value = fab->chips[chip].config[addr - REG_CONFIG0];
        return NMP_OK;
    }
    if (addr >= REG_PORT_BASE && addr < REG_PORT(ports)) {
        return read_port(fab, chip, (addr - REG_PORT_BASE) / REG_PORT_STRIDE,
                         (addr - REG_PORT_BASE) % REG_PORT_STRIDE, value);
    }
    return read_chip(fab, chip, addr, value);
}

/* ---- writing --------------------------------------------------------------------------------- */

static enum nmp_status write_table(struct inm_table *table, uint64_t addr, uint64_t value)
{
    uint32_t first = (uint32_t)addr & 0xffffu, num = (uint32_t)(addr >> 16) & 0xffffu;

    if (value > 0xffffffu || first + num > 0x10000u || num == 0) {
        return NMP_BAD_VALUE;
    }
    return inm_table_set(table, first, num, (uint32_t)value) ? NMP_OK : NMP_BAD_VALUE;
}

static enum nmp_status start_bist(struct fabric *fab, uint32_t port, uint64_t value)
{
    struct fab_port *p = &fab->ports[port];

    if ((value & BIST_START) == 0) {
        p->bist_end_ns = 0;
        return NMP_OK;
    }
    if (value >> 32 == 0 || value >> 32 > 60000000u || p->peer == INM_NONE) {
        return NMP_BAD_VALUE;
    }
    p->bist_us = (uint32_t)(value >> 32);
    p->bist_bits = p->bist_errors = 0;
    p->bist_end_ns = fab->now_ns + p->bist_us * 1000ull;
    return NMP_OK;
}

static enum nmp_status write_port_table(struct fab_chip *c, uint32_t index, uint64_t addr,
                                        uint64_t value)
{
    if (c->port_table == NULL) {
        c->port_table = calloc(INM_NRC_PORTS, sizeof(*c->port_table));
        if (c->port_table == NULL) {
            return NMP_BAD_VALUE;
        }
    }
    return write_table(&c->port_table[index], addr, value);
}

static enum nmp_status write_port(struct fabric *fab, uint32_t chip, uint32_t index, uint32_t reg,
                                  uint64_t value)
{
    uint32_t port = inm_topo_port(fab->topo, chip, index);
    struct fab_port *p = &fab->ports[port];

    switch (reg) {
    case PORT_CONTROL:
        p->enabled = (value & PORT_ENABLE) != 0;
        fab_link_update(fab, port);
        return NMP_OK;
    case PORT_RETRY_LIMIT:
        p->retry_limit = value;
        p->retry_reported = p->retries;
        return NMP_OK;
    case PORT_BIST_CONTROL:
        return start_bist(fab, port, value);
    case PORT_ROUTE_ADDR:
        p->route_addr = (uint32_t)value;
        return NMP_OK;
    case PORT_ROUTE_DATA:
        return write_port_table(&fab->chips[chip], index, p->route_addr, value);
    default:
        return reg < PORT_REGS && reg != 0x0f ? NMP_READ_ONLY : NMP_BAD_ADDRESS;
    }
}

static enum nmp_status write_chip(struct fabric *fab, uint32_t chip, uint32_t addr, uint64_t value)
{
    struct fab_chip *c = &fab->chips[chip];
    uint64_t old;

    switch (addr) {
    case REG_REPORT_ENABLE:
        c->report_enable = value;
        return NMP_OK;
    case REG_FAULT_MASK:
        c->fault_mask = value;
        return NMP_OK;
    case REG_REPORT_ROUTE0:
        c->route0 = value;
        return NMP_OK;
    case REG_REPORT_ROUTE1:
        c->route1 = value & ((1ull << 41) - 1);
        c->report_vp = (uint8_t)(value >> 48);
        return NMP_OK;
    case REG_HOT_LIMIT:
        if ((int64_t)value < -50000 || (int64_t)value > 200000) {
            return NMP_BAD_VALUE;
        }
        c->hot_limit = (int32_t)(int64_t)value;
        fab_set_temperature(fab, chip, c->temperature);
        return NMP_OK;
    case REG_ROUTE_ADDR:
        c->route_addr = (uint32_t)value;
        return NMP_OK;
    case REG_ROUTE_DATA:
        fab->counters.table_writes++;
        fab->changes++;
        return write_table(&c->table, c->route_addr, value);
    default:
        return reg_read(fab, chip, addr, &old) == NMP_OK ? NMP_READ_ONLY : NMP_BAD_ADDRESS;
    }
}

enum nmp_status reg_write(struct fabric *fab, uint32_t chip, uint32_t addr, uint64_t value)
{
    if (addr >= REG_CONFIG0 && addr < REG_CONFIG0 + REG_CONFIG_NUM) {
        fab->chips[chip].config[addr - REG_CONFIG0] = value;
        return NMP_OK;
    }
    if (addr >= REG_PORT_BASE && addr < REG_PORT(inm_chip_ports(fab->topo, chip))) {
        return write_port(fab, chip, (addr - REG_PORT_BASE) / REG_PORT_STRIDE,
                          (addr - REG_PORT_BASE) % REG_PORT_STRIDE, value);
    }
    return write_chip(fab, chip, addr, value);
}
