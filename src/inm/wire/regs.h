/*
 * Registers of the two chips: all of 64 bits, addressed by 12 bits in a NIC, by 15 in an NRC. 
 * The two chips have the same map. A NIC has one port. The paper names the registers and gives no addresses.
 * This project chose the addresses.
 */
#ifndef INM_REGS_H
#define INM_REGS_H

#include <assert.h>
#include <stdint.h>

#define INM_NIC_REGS     0x1000u
#define INM_NRC_REGS     0x8000u
#define INM_NRC_PORTS    24
#define INM_NIC_PORTS    1
#define INM_EEPROM_BYTES 65536u

/* ---- of the chip ----------------------------------------------------------------------------- */
enum {
    REG_ID = 0x00,             /* ro: see REG_ID_* */
    REG_VERSION = 0x01,        /* ro */
    REG_TEMPERATURE = 0x02,    /* ro: thousandths of a degree Celsius */
    REG_REPORT_ENABLE = 0x03,  /* rw: bit n: event n is reported */
    REG_FAULT_MASK = 0x04,     /* rw: bit n: event n is not reported, whatever is enabled */
    REG_REPORT_ROUTE0 = 0x05,  /* rw: bits 0..63 of the route to the management server */
    REG_REPORT_ROUTE1 = 0x06,  /* rw: bits 64..104 of the route; bits 48..55 of this register: the
                                * server's VP */
    REG_REPORTS_SENT = 0x07,   /* ro */
    REG_REPORTS_MASKED = 0x08, /* ro: not sent: masked, not enabled, or no route was set */
    REG_DROP_CRC = 0x09,       /* ro: packets with a wrong CRC */
    REG_DROP_DEST = 0x0a,      /* ro: requests with the id of another chip */
    REG_DROP_FORMAT = 0x0b,    /* ro: what is no management packet, or no request */
    REG_ERRORS = 0x0c,         /* ro: requests that were answered by an error response */
    REG_LINKS_UP = 0x0d,       /* ro: bit n: port n has a link */
    REG_RETRIES = 0x0e,        /* ro: retries of all ports together */
    REG_HOT_LIMIT = 0x0f,      /* rw: thousandths of a degree; above it event HOT */
    REG_NEIGHBOUR0 = 0x10,     /* ro: 12 registers; each tells of two ports, see REG_NB_* */
    REG_ROUTE_ADDR = 0x20,     /* rw: routing table: first entry | entries << 16, of all ports */
    REG_ROUTE_DATA = 0x21, /* rw: written: those entries' output ports, one bit each; read: of the
                              first */
    REG_ROUTE_RUNS = 0x22, /* ro: runs of equal entries in the table of all ports */
    REG_CRC_ERRORS = 0x23, /* ro: CRC errors of all ports together */
    REG_SERIAL = 0x24,     /* ro: serial number of the chip */
    REG_FIRMWARE = 0x25,   /* ro: version: major << 32 | minor << 16 | patch */
    REG_CONFIG0 = 0x30     /* rw: 16 registers of the configuration, loaded from EEPROM */
};
#define REG_CONFIG_NUM 16

/* REG_ID and the neighbour entries: what a port's peer tells of itself. */
#define REG_NB_ID_MASK 0xffffffu
#define REG_NB_PORT(v) (((v) >> 24) & 31u)
#define REG_NB_TYPE(v) (((v) >> 29) & 3u)
#define REG_NB_UP      (1u << 31)
#define REG_NB(id, port, type, up)                                                                 \
    (((uint32_t)(id) & REG_NB_ID_MASK) | ((uint32_t)(port) & 31u) << 24 |                          \
     ((uint32_t)(type) & 3u) << 29 | ((up) ? REG_NB_UP : 0))

/* ---- of a port: REG_PORT(port) + one of these ------------------------------------------------ */
#define REG_PORT_BASE   0x100u
#define REG_PORT_STRIDE 0x40u
#define REG_PORT(port)  (REG_PORT_BASE + (uint32_t)(port) * REG_PORT_STRIDE)

enum {
    PORT_CONTROL = 0x00,      /* rw: bit 0: enabled */
    PORT_STATUS = 0x01,       /* ro: bit 0: up; bits 8..15: lanes; bits 16..31: Mb/s of a lane */
    PORT_HANDSHAKES = 0x02,   /* ro: how often the link came up */
    PORT_RETRIES = 0x03,      /* ro: retransmitted packets */
    PORT_CRC_ERRORS = 0x04,   /* ro */
    PORT_TX_FLITS = 0x05,     /* ro */
    PORT_RX_FLITS = 0x06,     /* ro */
    PORT_NEIGHBOUR = 0x07,    /* ro: as in REG_NEIGHBOUR0, lower half */
    PORT_RETRY_LIMIT = 0x08,  /* rw: retries between two reports; 0: none */
    PORT_BIST_CONTROL = 0x09, /* rw: bit 0: start; bits 8..15: strength; bits 32..63: us to run */
    PORT_BIST_STATUS = 0x0a,  /* ro: 0 idle, 1 running, 2 done */
    PORT_BIST_BITS = 0x0b,    /* ro: bits tested */
    PORT_BIST_ERRORS = 0x0c,  /* ro: bits that were wrong */
    PORT_ID = 0x0d,           /* ro: id of the chip | port << 24 | type << 29 */
    PORT_TX_WAITS = 0x0e,     /* ro: flits that could not leave when they were ready */
    PORT_ROUTE_ADDR = 0x10,   /* rw: as REG_ROUTE_ADDR, of the table of this port alone */
    PORT_ROUTE_DATA = 0x11,
    PORT_REGS = 0x12
};
static_assert(REG_PORT(INM_NRC_PORTS) <= INM_NRC_REGS, "an NRC's ports fit into 15 bits");
static_assert(REG_PORT(INM_NIC_PORTS) <= INM_NIC_REGS, "a NIC's port fits into 12 bits");
static_assert((unsigned)PORT_REGS <= REG_PORT_STRIDE, "ports do not overlap");

#define PORT_ENABLE          1u
#define PORT_STATUS_UP       1u
#define PORT_STATUS_LANES(v) (((v) >> 8) & 255u)
#define BIST_START           1u

/* EEPROM: what a chip loads when it is switched on. */
#define EEP_MAGIC     0x494e4d31u /* "INM1", bytes 0..3, little-endian */
#define EEP_CONFIG    0x0010u     /* the 16 configuration registers, 8 bytes each */
#define EEP_ROUTE_NUM 0x0100u     /* 2 bytes: runs of the routing table */
#define EEP_ROUTES    0x0102u     /* 8 bytes a run: first entry, entries, output ports */

#endif
