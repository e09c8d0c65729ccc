/*
 * The formats of the packets that commatrix reads: InfiniBand's headers, those of Ethernet and IP
 * that may stand before them, and the record header of ERF. All numbers are big-endian. Field
 * offsets are from the start of the header that is named. docs/commatrix.md has the table.
 */
#ifndef CM_WIRE_H
#define CM_WIRE_H

#include <stdint.h>

/* ---- InfiniBand architecture specification, volume 1, chapters 5, 7, 8, 9 ---- */

enum {
    CM_LRH_LEN = 8,
    CM_GRH_LEN = 40,
    CM_BTH_LEN = 12,
    CM_RDETH_LEN = 4,
    CM_DETH_LEN = 8,
    CM_XRCETH_LEN = 4,
    CM_RETH_LEN = 16,
    CM_ATOMIC_LEN = 28, /* AtomicETH */
    CM_AETH_LEN = 4,
    CM_ATOMICACK_LEN = 8,
    CM_IMM_LEN = 4, /* also IETH, the key of send with invalidate */
    CM_FETH_LEN = 4,
    CM_ICRC_LEN = 4
};

/* LRH, byte 0: virtual lane 7..4. Byte 1: link next header 1..0. Bytes 2, 4, 6: DLID, length, SLID
 */
enum { CM_LNH_RAW = 0, CM_LNH_IPV6 = 1, CM_LNH_BTH = 2, CM_LNH_GRH = 3 };
enum { CM_VL_MANAGEMENT = 15 };
enum { CM_LID_MULTICAST = 0xc000, CM_LID_PERMISSIVE = 0xffff };

enum { CM_GRH_NEXT_BTH = 0x1b }; /* GRH, byte 6 */

/* BTH, byte 0: transport 7..5, operation 4..0. Byte 1: pad count 5..4. Bytes 5..7: destination
 * queue pair. Byte 8: acknowledgement requested 7. Bytes 9..11: PSN */
enum cm_transport { CM_RC, CM_UC, CM_RD, CM_UD, CM_CNP, CM_XRC, CM_VENDOR_6, CM_VENDOR_7 };

enum cm_operation {
    CM_SEND_FIRST,
    CM_SEND_MIDDLE,
    CM_SEND_LAST,
    CM_SEND_LAST_IMM,
    CM_SEND_ONLY,
    CM_SEND_ONLY_IMM,
    CM_WRITE_FIRST,
    CM_WRITE_MIDDLE,
    CM_WRITE_LAST,
    CM_WRITE_LAST_IMM,
    CM_WRITE_ONLY,
    CM_WRITE_ONLY_IMM,
    CM_READ_REQUEST,
    CM_READ_FIRST,
    CM_READ_MIDDLE,
    CM_READ_LAST,
    CM_READ_ONLY,
    CM_ACKNOWLEDGE,
    CM_ATOMIC_ACK,
    CM_COMPARE_SWAP,
    CM_FETCH_ADD,
    CM_RESYNC,
    CM_SEND_LAST_INV,
    CM_SEND_ONLY_INV,
    CM_FLUSH = 0x1c,
    CM_ATOMIC_WRITE = 0x1d
};

enum { CM_OPERATION_CNP = 1 }; /* of the transport CM_CNP */

/* AETH, byte 0: 6..5 are 0 in an acknowledgement, else in a NAK */
enum { CM_AETH_ACK = 0 };

/* A management datagram, byte 1: its class. Bytes 16, 17: the attribute */
enum { CM_MAD_SA = 0x03, CM_MAD_CM = 0x07, CM_MAD_ATTRIBUTE = 16 };

/**
 * Where a message of the communication management names the queue pair of its sender; 0: nowhere
 */
static inline uint32_t cm_cm_qpn_at(uint16_t attribute)
{
    return attribute == 0x0010 ? 56 : attribute == 0x0013 ? 36 : 0; /* REQ, REP */
}

enum { CM_QKEY_IPOIB = 0x0b1b };

/* ---- in front of it ---- */

enum {
    CM_ETHERTYPE_IPV4 = 0x0800,
    CM_ETHERTYPE_ARP = 0x0806,
    CM_ETHERTYPE_VLAN = 0x8100,
    CM_ETHERTYPE_IPV6 = 0x86dd,
    CM_ETHERTYPE_QINQ = 0x88a8,
    CM_ETHERTYPE_QINQ_1 = 0x9100, /* of switches older than IEEE 802.1ad */
    CM_ETHERTYPE_ROCE = 0x8915,
    CM_ETHERTYPE_MPLS = 0x8847,
    CM_ETHERTYPE_MPLS_GROUP = 0x8848,
    CM_ETHERTYPE_BRIDGE = 0x6558, /* an Ethernet frame: NVGRE, GENEVE */
    CM_ETHERTYPE_ERSPAN = 0x88be, /* types I and II */
    CM_ETHERTYPE_ERSPAN_3 = 0x22eb
};

/* RWH of a raw InfiniBand packet, bytes 2, 3: an Ethernet type. Switches of Mellanox give this one
 * to mirrored packets; four bytes and the mirrored packet follow. */
enum { CM_RWH_LEN = 4, CM_RWH_MIRROR = 0x1123, CM_MIRROR_LEN = 4 };

enum { CM_PROTOCOL_UDP = 17, CM_UDP_LEN = 8, CM_UDP_PORT_ROCE = 4791 };

/* ERF record header: 8 bytes of time, type, flags, record length, lost or colour, length on the
 * wire. Bit 7 of the type: extension headers of 8 bytes follow, and bit 7 of an
 * extension header tells of the next one. */
enum {
    CM_ERF_LEN = 16,
    CM_ERF_EXTENSION_LEN = 8,
    CM_ERF_MORE = 0x80,
    CM_ERF_ETHERNET = 2,
    CM_ERF_INFINIBAND = 21,
    CM_ERF_PAD_LEN = 2 /* in front of an Ethernet frame */
};

static inline uint16_t cm_be16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t cm_be24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t cm_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | cm_be24(p + 1);
}

#endif
