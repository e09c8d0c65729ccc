/*
 * The headers of a captured packet.
 *
 * cm_packet_parse() reads a frame of a capture file and fills a struct cm_packet. The function
 * reads only captured bytes. `cut` tells that headers are missing.
 */
#ifndef CM_PACKET_H
#define CM_PACKET_H

#include "wire.h"

#include <stdbool.h>
#include <stddef.h>

/* The purpose of a packet. Kinds other than DATA are system traffic, which the matrix leaves out by
 * default. docs/commatrix.md has the rule for each kind. */
enum cm_kind {
    CM_KIND_DATA,
    CM_KIND_SMP, /* subnet management: virtual lane 15 or queue pair 0 */
    CM_KIND_SA,  /* queue pair 1: subnet administration */
    CM_KIND_CM,  /* queue pair 1: communication management */
    CM_KIND_GMP, /* queue pair 1: all other management */
    CM_KIND_ACK,
    CM_KIND_NAK, /* also "receiver not ready" */
    CM_KIND_CNP, /* congestion notification */
    CM_KIND_IPOIB,
    CM_KIND_MULTICAST,
    CM_KIND_RAW,   /* on an InfiniBand link without a BTH */
    CM_KIND_OTHER, /* no RDMA: ARP, TCP, ... */
    CM_NUM_KINDS
};

extern const char *const cm_kind_names[CM_NUM_KINDS];

/* Tunnels that cm_packet_parse() does not look into. */
enum cm_closed {
    CM_CLOSED_NONE,
    CM_CLOSED_ESP,
    CM_CLOSED_L2TP,
    CM_CLOSED_GTP,
    CM_CLOSED_GRE,  /* a GRE tunnel with an unknown payload */
    CM_CLOSED_MPLS, /* an MPLS label stack with an unknown payload */
    CM_CLOSED_DEEP, /* too many tunnels, one in the other */
    CM_NUM_CLOSED
};

extern const char *const cm_closed_names[CM_NUM_CLOSED];

/* Where a packet comes from or goes to. All bytes of it count when two are compared. */
struct cm_address {
    uint8_t gid[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t lid;
    bool has_gid;
    bool has_lid;
};

#define CM_QPN_NONE UINT32_MAX /* a queue pair that the packet does not name */

struct cm_packet {
    uint64_t time_ns; /* since 1970 */
    uint32_t wire;    /* bytes on the wire, of the link's frame without its checksum */
    struct cm_address src, dst;
    enum cm_kind kind;
    bool cut;      /* headers are missing: the members below are not set */
    bool fragment; /* of IP, but not the first one */
    bool first_fragment;
    uint32_t ip_id;
    uint8_t transport, operation; /* of enum cm_transport, cm_operation */
    bool congested;               /* marked: ECN of IP, or FECN of InfiniBand */
    uint8_t closed;               /* enum cm_closed */
    uint8_t tunnels;              /* around the packet */
    uint32_t dst_qpn, src_qpn;    /* src_qpn: only in datagrams (DETH) */
    uint32_t eec;                 /* RD: the EE context */
    uint32_t psn;
    uint32_t payload; /* bytes of user data */
    uint32_t dma_len; /* RETH: of the whole request */
    uint32_t imm;     /* immediate data, 0 without */
    uint32_t q_key;
    uint8_t syndrome;    /* AETH */
    const uint8_t *data; /* of the user data, what was captured of it */
    uint32_t data_len;
};

/** Read a frame. `link_type` is one of libpcap's DLT_*: see cm_link_supported(). */
void cm_packet_parse(struct cm_packet *packet, int link_type, const uint8_t *frame,
                     uint32_t captured, uint32_t wire);

bool cm_link_supported(int link_type);

/** Why a link type is not supported; to be freed by g_free(). */
char *cm_link_reason(int link_type);

/* ---- between the files that read it ---- */

/* Bytes that were captured, at most `len` of them, and how many were on the wire. */
struct cm_bytes {
    const uint8_t *at;
    uint32_t len;
    uint32_t wire;
    uint16_t type; /* type of the bytes at `at`, from the header before them */
};

/**
 * Steps over a header. Returns false, and does nothing, if the capture or the length on the wire is
 * too short for the header.
 */
static inline bool cm_skip(struct cm_bytes *bytes, uint32_t len)
{
    if (bytes->len < len || bytes->wire < len) {
        return false;
    }
    bytes->at += len;
    bytes->len -= len;
    bytes->wire -= len;
    return true;
}

/*
 * The protocols that may stand next in a packet. A parser reads the header of its own protocol,
 * steps over the header and returns the protocol behind it. Parsers do not call
 * each other, so the depth of tunnels takes no stack.
 */
enum cm_layer {
    CM_LAYER_END, /* nothing more to read */
    CM_LAYER_ETHERNET,
    CM_LAYER_COOKED_1,
    CM_LAYER_COOKED_2,
    CM_LAYER_LOOPBACK,
    CM_LAYER_ERF,
    CM_LAYER_ETHERTYPE, /* `type` is an Ethernet type */
    CM_LAYER_IP,
    CM_LAYER_IP_PROTOCOL, /* `type` is a protocol of IP that may be a tunnel's */
    CM_LAYER_UDP_PORT,    /* `type` is a port of UDP that may be a tunnel's */
    CM_LAYER_MPLS,
    CM_LAYER_LRH,
    CM_LAYER_GRH,
    CM_LAYER_BTH, /* `wire` includes the ICRC */
    CM_NUM_LAYERS
};

typedef enum cm_layer cm_parser(struct cm_packet *packet, struct cm_bytes *bytes);

cm_parser cm_parse_ethernet, cm_parse_cooked_1, cm_parse_cooked_2, cm_parse_loopback, cm_parse_erf;
cm_parser cm_parse_ethertype, cm_parse_ip, cm_parse_ip_protocol, cm_parse_udp_port, cm_parse_mpls;
cm_parser cm_parse_lrh, cm_parse_grh, cm_parse_bth;

/** Headers are missing: ends the parsing. */
static inline enum cm_layer cm_cut(struct cm_packet *packet)
{
    packet->cut = true;
    return CM_LAYER_END;
}

/**
 * Forgets the addresses of the outer packet. Returns `inside`, or the end after too many tunnels.
 */
enum cm_layer cm_enter_tunnel(struct cm_packet *packet, enum cm_layer inside);

#endif
