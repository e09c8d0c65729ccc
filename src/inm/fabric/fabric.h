/*
 * The emulated network: the chips of a topology with their registers, EEPROMs, routing tables and
 * management agents (NMA), the wires between them, a clock, and faults. One thread; no sockets:
 * those are serve.c's.
 *
 * A request is followed from chip to chip by its source route, served, and its response followed
 * back, all in one call; the modelled time at each step is computed on the way.
 */
#ifndef INM_FABRIC_H
#define INM_FABRIC_H

#include "common/nmp.h"
#include "inm/topo/topo.h"
#include "inm/wire/table.h"

/* ---- modelled time: the paper's constants, ns ------------------------------------------------ */
#define MODEL_HOP_NS          876.2     /* one hop, there and back (4.3) */
#define MODEL_REGISTER_NS     5959.7    /* a register request at the chip (4.3) */
#define MODEL_EEPROM_NS       157826.0  /* an EEPROM request of one byte (4.3) */
#define MODEL_EEPROM_READ_NS  150000.0  /* each further byte read (4.2) */
#define MODEL_EEPROM_WRITE_NS 3000000.0 /* each further byte written (4.2) */
#define MODEL_OUT_OF_BAND_NS  4816660.0 /* a register request over I2C (4.1) */
/* A read of the directly wired NRC took 6.73 us (4.1), less than a whole hop above the 5.9597. */
#define MODEL_FIRST_LINK_NS 770.3
/* Not in the paper as numbers: a second register costs less than a second request (figure 8d),
 * and a busy network slows each hop. With the chosen values, discovery takes the measured times
 * (4.4): 472.8 ms in the idle and 490.9 ms in the busy network. */
#define MODEL_SECOND_REG_NS 660.0
#define MODEL_BUSY_HOP_NS   72.0

struct fab_port {
    uint32_t peer; /* port at the other end of the wire, INM_NONE: nothing is plugged in */
    uint8_t up;
    uint8_t enabled;
    uint8_t broken; /* by a fault: counts them */
    uint8_t lanes;
    uint64_t tx_flits, rx_flits, tx_waits;
    uint64_t retries, crc_errors;
    uint64_t retry_limit, retry_reported;
    uint32_t handshakes;
    uint32_t bist_us;     /* how long the test runs */
    uint64_t bist_end_ns; /* not 0: a test runs until then */
    uint64_t bist_bits, bist_errors;
    uint32_t route_addr;
    uint32_t error_rate; /* of bits, in 10^-12 */
};

struct fab_chip {
    uint8_t mute; /* by a fault: does not answer; counts them */
    uint8_t dead; /* by a fault: is switched off; counts them */
    uint8_t hot;
    uint8_t report_vp;
    uint32_t seq;
    int32_t temperature; /* thousandths of a degree Celsius */
    int32_t hot_limit;
    uint32_t route_addr;
    uint64_t report_enable, fault_mask, route0, route1;
    uint64_t reports_sent, reports_masked, drop_crc, drop_dest, drop_format, errors;
    uint64_t busy_ns; /* the agent serves requests one after the other: until then */
    uint64_t config[REG_CONFIG_NUM];
    uint64_t serial, firmware;
    struct inm_table table;       /* of all ports */
    struct inm_table *port_table; /* by port; a port with an empty table uses the chip's */
    uint8_t **eeprom;             /* NULL, or 256 pages of 256 bytes, NULL where never written */
};

/** What leaves the network at a NIC. */
typedef void (*fab_deliver_fn)(void *arg, uint32_t nic_chip, uint64_t time_ns,
                               const uint8_t desc[NMP_DESC_BYTES], uint8_t vp);

struct fab_counters {
    uint64_t requests, responses, reports, hops;
    uint64_t table_writes;
    uint64_t lost_route, lost_link, lost_fault, lost_mute, corrupted;
};

/* Data traffic that leaves a port, flits a second; see traffic.h. */
struct fab_rate {
    double flits, waits;
};

struct traffic;

struct fabric {
    struct inm_topo *topo;
    struct fab_port *ports;
    struct fab_chip *chips;
    bool modelled;
    bool busy;       /* data traffic on all links */
    uint64_t now_ns; /* modelled: the latest time seen; real: of the last call */
    uint64_t random;
    uint32_t lose_ppm, corrupt_ppm; /* by a fault: of a million packets */
    struct fab_counters counters;
    struct traffic *traffic; /* NULL: no data traffic */
    struct fab_rate *rates;  /* by port */
    uint64_t flits_ns;       /* until then the rates are in the counters */
    uint64_t changes;        /* counts changes of links and tables */
    fab_deliver_fn deliver;
    void *deliver_arg;
};

/** @return NULL: no memory. The fabric owns the topology from then on. */
struct fabric *fab_new(struct inm_topo *topo, bool modelled, uint64_t seed);
void fab_free(struct fabric *fab);

/** The chip's registers as after power-on, with what its EEPROM keeps. */
void fab_chip_reset(struct fabric *fab, uint32_t chip);

/**
 * A NIC takes a descriptor out of its send queue. What comes back is delivered from within.
 * @param time_ns  Modelled clock: when it is sent.
 */
void fab_send(struct fabric *fab, uint32_t nic_chip, uint64_t time_ns,
              const uint8_t desc[NMP_DESC_BYTES]);

/** A chip has noticed an event. The chip reports the event if its registers enable the report. */
void fab_event(struct fabric *fab, uint32_t chip, unsigned event, unsigned port, uint64_t value);

/** Whether a port is the end of a link over which packets pass. */
bool fab_link_up(const struct fabric *fab, uint32_t port);

/** Bring a port's state, and that of its peer, in line with wires and faults; report changes. */
void fab_link_update(struct fabric *fab, uint32_t port);

/** Add retries to a port, and report where its limit is passed. */
void fab_add_retries(struct fabric *fab, uint32_t port, uint64_t num);

/** Change a chip's temperature, and report where its limit is passed. */
void fab_set_temperature(struct fabric *fab, uint32_t chip, int32_t temperature);

/** Adds the data traffic up to now to the flit counters. */
void fab_settle_flits(struct fabric *fab);

/** A serial number that no other chip has. */
uint64_t fab_new_serial(struct fabric *fab);

/** Test of a link: end it if its time is over. */
void fab_bist_settle(struct fabric *fab, uint32_t port);

/** A number below `below` from the fabric's seed. */
uint32_t fab_random(struct fabric *fab, uint32_t below);

uint8_t fab_eeprom_read(const struct fabric *fab, uint32_t chip, uint16_t addr);
bool fab_eeprom_write(struct fabric *fab, uint32_t chip, uint16_t addr, uint8_t value);

/** Serve a request at a chip. @return Whether `rsp` is to be sent back; else it was dropped. */
bool nma_serve(struct fabric *fab, uint32_t chip, const struct nmp_desc *req, struct nmp_desc *rsp);

/** Read and write one register. @return A status for the response. */
enum nmp_status reg_read(struct fabric *fab, uint32_t chip, uint32_t addr, uint64_t *value);
enum nmp_status reg_write(struct fabric *fab, uint32_t chip, uint32_t addr, uint64_t value);

#endif
