/*
 * Wire format of transport ud_mon: the header of every datagram, and the addresses that processes
 * exchange. All integers are little-endian. A change of the format changes UD_MON_MAGIC.
 */
#ifndef UD_MON_WIRE_H
#define UD_MON_WIRE_H

#include <assert.h>
#include <endian.h>
#include <stdint.h>

/* "UDM" and the version of the format. */
#define UD_MON_MAGIC 0x014d4455u

/* Follows the 40 bytes that verbs reserves for the global routing header. */
typedef struct ud_mon_header {
    uint32_t magic;
    uint8_t am_id;
    uint8_t zero;
    uint16_t length;  /* of the payload, bytes; must match the received length */
    uint32_t qkey;    /* of the sender, for replies; its QPN comes with the completion */
    uint32_t stream;  /* the sender's endpoint: each counts its own datagrams */
    uint64_t sender;  /* random identity of the sending interface */
    uint64_t seq;     /* number of the datagram in its stream, from 0 */
    uint64_t sent_ns; /* time of sending, nanoseconds since 1970 (CLOCK_REALTIME) */
} __attribute__((packed)) ud_mon_header_t;

enum {
    UD_MON_ADDR_VERSION = 1,
    UD_MON_ADDR_ETH = 1 << 0 /* RoCE: the GID decides, there is no LID */
};

/* Device address: where the port is. */
typedef struct ud_mon_device_addr {
    uint8_t version;
    uint8_t flags;
    uint16_t lid;
    uint8_t gid[16]; /* network byte order, as always */
} __attribute__((packed)) ud_mon_device_addr_t;

/* Interface address: the queue pair behind the port, and its queue key. */
typedef struct ud_mon_iface_addr {
    uint32_t qpn;
    uint32_t qkey;
} __attribute__((packed)) ud_mon_iface_addr_t;

static_assert(sizeof(ud_mon_header_t) == 40, "on the wire");
static_assert(sizeof(ud_mon_device_addr_t) == 20, "on the wire");
static_assert(sizeof(ud_mon_iface_addr_t) == 8, "on the wire");

#endif
