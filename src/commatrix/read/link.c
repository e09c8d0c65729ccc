/*
 * From a frame of the link to InfiniBand or IP: Ethernet, Linux cooked, loopback, InfiniBand, ERF.
 */
#include "packet.h"

#include <byteswap.h>
#include <glib.h>
#include <pcap/pcap.h>
#include <string.h>

#ifndef DLT_LINUX_SLL2
#define DLT_LINUX_SLL2 276
#endif

enum { ETHERNET_LEN = 14, SLL_LEN = 16, SLL2_LEN = 20, LOOPBACK_LEN = 4, VLAN_LEN = 4 };
enum { MAX_VLANS = 8 };
enum { LINKTYPE_RAW = 101 }; /* in files; DLT_RAW in libpcap */
enum { LOOPBACK_IPV4 = 2 };

bool cm_link_supported(int link_type)
{
    switch (link_type) {
    case DLT_EN10MB:
    case DLT_LINUX_SLL:
    case DLT_LINUX_SLL2:
    case DLT_INFINIBAND:
    case DLT_ERF:
    case DLT_NULL:
    case DLT_LOOP:
    case DLT_RAW:
    case LINKTYPE_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
        return true;
    default:
        return false;
    }
}

char *cm_link_reason(int link_type)
{
    const char *name = pcap_datalink_val_to_name(link_type);

    return g_strdup_printf("link type %d (%s) carries no RDMA that is known: InfiniBand, ERF, "
                           "Ethernet, Linux cooked, raw IP and loopback do",
                           link_type, name != NULL ? name : "unknown");
}

static bool is_vlan(uint16_t ethertype)
{
    return ethertype == CM_ETHERTYPE_VLAN || ethertype == CM_ETHERTYPE_QINQ ||
           ethertype == CM_ETHERTYPE_QINQ_1;
}

void cm_parse_ethertype(struct cm_packet *packet, struct cm_bytes bytes, uint16_t ethertype)
{
    const uint8_t *tag;
    int i;

    for (i = 0; i < MAX_VLANS && is_vlan(ethertype); i++) {
        tag = bytes.at;
        if (!cm_skip(&bytes, VLAN_LEN)) {
            packet->cut = true;
            return;
        }
        ethertype = cm_be16(tag + 2);
    }
    switch (ethertype) {
    case CM_ETHERTYPE_ROCE:
        packet->kind = CM_KIND_DATA;
        cm_parse_grh(packet, bytes);
        break;
    case CM_ETHERTYPE_IPV4:
    case CM_ETHERTYPE_IPV6:
        cm_parse_ip(packet, bytes);
        break;
    case CM_ETHERTYPE_MPLS:
    case CM_ETHERTYPE_MPLS_GROUP:
        cm_parse_mpls(packet, bytes);
        break;
    default:
        break;
    }
}

/* A link header of `len` bytes with the Ethernet type at `type_at`. */
static void parse_framed(struct cm_packet *packet, struct cm_bytes bytes, uint32_t len,
                         uint32_t type_at)
{
    const uint8_t *header = bytes.at;

    if (!cm_skip(&bytes, len)) {
        packet->cut = true;
        return;
    }
    cm_parse_ethertype(packet, bytes, cm_be16(header + type_at));
}

void cm_parse_ethernet(struct cm_packet *packet, struct cm_bytes bytes)
{
    parse_framed(packet, bytes, ETHERNET_LEN, 12);
}

/* Four bytes name the protocol: in the byte order of the host, or in that of the network. IPv6 has
 * another number on each system. */
static void parse_loopback(struct cm_packet *packet, struct cm_bytes bytes)
{
    uint32_t family;

    if (!cm_skip(&bytes, LOOPBACK_LEN)) {
        packet->cut = true;
        return;
    }
    family = cm_be32(bytes.at - LOOPBACK_LEN);
    family = family > 0xffff ? bswap_32(family) : family;
    if (family == LOOPBACK_IPV4 || family == 24 || family == 28 || family == 30) {
        cm_parse_ip(packet, bytes);
    }
}

static void parse_erf(struct cm_packet *packet, struct cm_bytes bytes)
{
    const uint8_t *erf = bytes.at;
    uint32_t wire;
    uint8_t type;

    if (!cm_skip(&bytes, CM_ERF_LEN)) {
        packet->cut = true;
        return;
    }
    type = erf[8];
    wire = cm_be16(erf + 14); /* the record's length in the file says nothing of a cut packet's */
    while (type & CM_ERF_MORE) {
        const uint8_t *extension = bytes.at;

        if (!cm_skip(&bytes, CM_ERF_EXTENSION_LEN)) {
            packet->cut = true;
            return;
        }
        type = (type & 0x7f) | (extension[0] & CM_ERF_MORE);
    }
    if (wire != 0) {
        bytes.wire = wire;
        bytes.len = bytes.len < wire ? bytes.len : wire;
    }
    packet->wire = bytes.wire;
    if (type == CM_ERF_ETHERNET) {
        if (!cm_skip(&bytes, CM_ERF_PAD_LEN)) {
            packet->cut = true;
            return;
        }
        bytes.wire += CM_ERF_PAD_LEN; /* the length on the wire does not include the padding */
        cm_parse_ethernet(packet, bytes);
    } else if (type == CM_ERF_INFINIBAND) {
        packet->kind = CM_KIND_DATA;
        cm_parse_lrh(packet, bytes);
    }
}

void cm_packet_parse(struct cm_packet *packet, int link_type, const uint8_t *frame,
                     uint32_t captured, uint32_t wire)
{
    struct cm_bytes bytes = {frame, captured < wire ? captured : wire, wire};

    memset(packet, 0, sizeof(*packet));
    packet->wire = wire;
    packet->kind = CM_KIND_OTHER;
    packet->dst_qpn = packet->src_qpn = CM_QPN_NONE;
    switch (link_type) {
    case DLT_EN10MB:
        cm_parse_ethernet(packet, bytes);
        break;
    case DLT_LINUX_SLL:
        parse_framed(packet, bytes, SLL_LEN, 14);
        break;
    case DLT_LINUX_SLL2:
        parse_framed(packet, bytes, SLL2_LEN, 0);
        break;
    case DLT_INFINIBAND:
        packet->kind = CM_KIND_DATA;
        cm_parse_lrh(packet, bytes);
        break;
    case DLT_ERF:
        parse_erf(packet, bytes);
        break;
    case DLT_NULL:
    case DLT_LOOP:
        parse_loopback(packet, bytes);
        break;
    case DLT_RAW:
    case LINKTYPE_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
        cm_parse_ip(packet, bytes);
        break;
    default:
        break; /* an interface of a pcapng file that carries no RDMA */
    }
}
