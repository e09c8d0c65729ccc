/*
 * Network management packets (NMP): the descriptor of 512 bits that software hands to the NIC, and
 * that the NIC hands to software (paper "in-band management of Tianhe-2", section 3.3, figure 3).
 *
 * The figure names the fields; it does not give all their places. The places below are those of
 * this project. Bit n of a descriptor is bit n % 8 of byte n / 8; a field's lowest bit comes first.
 * docs/inm.md has the same table. Both sides of the wire are held against it.
 *
 * Nothing here allocates, blocks or fails; all is thread safe.
 */
#ifndef COMMON_NMP_H
#define COMMON_NMP_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define NMP_DESC_BITS    512
#define NMP_DESC_BYTES   64
#define NMP_MAX_HOPS     20
#define NMP_ROUTE_BITS   105 /* hop count and 20 hops, 5 bits each */
#define NMP_DATA_BITS    216
#define NMP_DATA_BYTES   27
#define NMP_ID_NONE      0xffffffu /* DestID of a chip without an id: all ones */
#define NMP_HEAD         0x4eu     /* the mark of a management descriptor */
#define NMP_TYPE_MP      0x3u      /* management packets are a kind of MP */
#define NMP_ROUTE_SOURCE 1u        /* RtType: by a list of ports; data packets: by tables */
#define NMP_MAX_REGS     2
#define NMP_MAX_BYTES    6

/* NAME, first bit, width. Every bit belongs to one field. */
#define NMP_FIELDS(F)                                                                              \
    F(HEAD, 0, 8)                                                                                  \
    F(TYPE, 8, 4)                                                                                  \
    F(SM, 12, 1)                                                                                   \
    F(INST, 13, 1)                                                                                 \
    F(ERR, 14, 1)                                                                                  \
    F(FEN, 15, 1)                                                                                  \
    F(LINT, 16, 1)                                                                                 \
    F(RINT, 17, 1)                                                                                 \
    F(RT_TYPE, 18, 2)                                                                              \
    F(DEST_TYPE, 20, 2)                                                                            \
    F(RESERVED, 22, 2)                                                                             \
    F(DEST_ID, 24, 24)                                                                             \
    F(DEST_VP, 48, 8)                                                                              \
    F(SRC_VP, 56, 8)                                                                               \
    F(TRANSACTION, 64, 16)                                                                         \
    F(NMP_TYPE, 80, 6)                                                                             \
    F(FROUTE, 86, 105)                                                                             \
    F(BROUTE, 191, 105)                                                                            \
    F(NMP_DATA, 296, 216)

#define NMP_ENUM(name, bit, width) NMP_BIT_##name = (bit), NMP_WIDTH_##name = (width),
enum nmp_places { NMP_FIELDS(NMP_ENUM) };
#undef NMP_ENUM

#define NMP_SUM(name, bit, width) +(width)
static_assert((0 NMP_FIELDS(NMP_SUM)) == NMP_DESC_BITS, "fields fill the descriptor");
#undef NMP_SUM
static_assert(NMP_BIT_NMP_DATA + NMP_WIDTH_NMP_DATA == NMP_DESC_BITS, "the data is last");
static_assert(NMP_BIT_NMP_DATA % 8 == 0 && NMP_DATA_BYTES * 8 == NMP_DATA_BITS, "whole bytes");
static_assert(NMP_ROUTE_BITS == 5 + NMP_MAX_HOPS * 5, "a route field is 105 bits");

/* The 11 types of packet; all other values are errors. */
enum nmp_type {
    NMP_REG_READ_REQ = 1,
    NMP_REG_READ_RSP = 2,
    NMP_REG_WRITE_REQ = 3,
    NMP_REG_WRITE_RSP = 4,
    NMP_REG_ERR_RSP = 5,
    NMP_EEP_READ_REQ = 6,
    NMP_EEP_READ_RSP = 7,
    NMP_EEP_WRITE_REQ = 8,
    NMP_EEP_WRITE_RSP = 9,
    NMP_EEP_ERR_RSP = 10,
    NMP_REPORT = 11
};

enum nmp_chip { NMP_CHIP_NONE = 0, NMP_CHIP_NIC = 1, NMP_CHIP_NRC = 2 };

/* Why a request was refused: Status of an error response. */
enum nmp_status {
    NMP_OK = 0,
    NMP_BAD_ADDRESS = 1, /* outside of the chip's registers or EEPROM */
    NMP_BAD_COUNT = 2,   /* 0, or more than a packet can carry */
    NMP_BAD_TYPE = 3,    /* not a request */
    NMP_READ_ONLY = 4,   /* a register that only the chip writes */
    NMP_BAD_VALUE = 5    /* a value that the register refuses */
};

/* Reports of a chip. Bit n of report enable and fault mask is event n. */
enum nmp_event {
    NMP_EVENT_LINK_DOWN = 1,
    NMP_EVENT_LINK_UP = 2,
    NMP_EVENT_RETRY = 3, /* the retry counter passed its threshold */
    NMP_EVENT_HOT = 4,
    NMP_EVENT_COOL = 5,
    NMP_EVENT_CRC = 6, /* a packet with a wrong CRC was dropped */
    NMP_EVENT_BIST_DONE = 7,
    NMP_EVENT_WIDTH = 8, /* a link runs with fewer lanes */
    NMP_EVENT_MAX = 9
};

struct nmp_route {
    uint8_t num;               /* hops in use */
    uint8_t hop[NMP_MAX_HOPS]; /* output port of each NRC on the way */
};

/* The contents of NMPData. Which member counts follows from the packet's type. */
struct nmp_data {
    uint8_t count;  /* registers or bytes */
    uint8_t status; /* enum nmp_status */
    uint16_t addr[NMP_MAX_BYTES];
    uint64_t reg[NMP_MAX_REGS];
    uint8_t byte[NMP_MAX_BYTES];
    struct {
        uint8_t event; /* enum nmp_event */
        uint8_t port;
        uint8_t src_type;
        uint32_t src_id;
        uint32_t seq; /* of this chip: a gap means a lost report */
        uint64_t value;
    } report;
};

struct nmp_desc {
    uint8_t head, type, sm, inst, err, fence, lint, rint, rt_type, dest_type;
    uint32_t dest_id;
    uint8_t dest_vp, src_vp;
    uint16_t transaction;
    uint8_t nmp_type;
    struct nmp_route forward, backward;
    struct nmp_data data;
};

/** Bits of a descriptor, little-endian; width 1 to 64. */
uint64_t nmp_get_bits(const uint8_t *buf, unsigned bit, unsigned width);
void nmp_put_bits(uint8_t *buf, unsigned bit, unsigned width, uint64_t value);

void nmp_put_route(uint8_t *buf, unsigned bit, const struct nmp_route *route);

/** @return Whether the hop count is at most 20. The route is set in any case, with no more hops. */
bool nmp_get_route(const uint8_t *buf, unsigned bit, struct nmp_route *route);

/** A value that is wider than its field loses its upper bits. */
void nmp_encode(const struct nmp_desc *desc, uint8_t buf[NMP_DESC_BYTES]);

/**
 * Takes any 64 bytes.
 * @return Whether they are a management packet: head, type, route type, and hop counts in range.
 *         The type of packet and its data are for the receiver to judge. `desc` is set in any case.
 */
bool nmp_decode(const uint8_t buf[NMP_DESC_BYTES], struct nmp_desc *desc);

/** Makes a descriptor with the values that are the same in every request. */
void nmp_init(struct nmp_desc *desc, enum nmp_type type, enum nmp_chip dest_type, uint32_t dest_id);

bool nmp_is_request(unsigned type);
const char *nmp_type_name(unsigned type);
const char *nmp_status_name(unsigned status);
const char *nmp_event_name(unsigned event);

#endif
