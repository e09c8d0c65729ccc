#include "packet.h"

#include <glib.h>
#include <pcap/pcap.h>
#include <string.h>

#ifndef DLT_LINUX_SLL2
#define DLT_LINUX_SLL2 276
#endif

enum { LINKTYPE_RAW = 101 }; /* in files; DLT_RAW in libpcap */

const char *const cm_closed_names[CM_NUM_CLOSED] = {
    [CM_CLOSED_NONE] = "",
    [CM_CLOSED_ESP] = "ESP",
    [CM_CLOSED_L2TP] = "L2TP",
    [CM_CLOSED_GTP] = "GTP",
    [CM_CLOSED_GRE] = "GRE",
    [CM_CLOSED_MPLS] = "MPLS",
    [CM_CLOSED_DEEP] = "more than eight tunnels",
};

const char *const cm_kind_names[CM_NUM_KINDS] = {
    [CM_KIND_DATA] = "data",   [CM_KIND_SMP] = "smp",
    [CM_KIND_SA] = "sa",       [CM_KIND_CM] = "cm",
    [CM_KIND_GMP] = "gmp",     [CM_KIND_ACK] = "ack",
    [CM_KIND_NAK] = "nak",     [CM_KIND_CNP] = "cnp",
    [CM_KIND_IPOIB] = "ipoib", [CM_KIND_MULTICAST] = "multicast",
    [CM_KIND_RAW] = "raw",     [CM_KIND_OTHER] = "other",
};

static cm_parser *const parsers[CM_NUM_LAYERS] = {
    [CM_LAYER_ETHERNET] = cm_parse_ethernet,
    [CM_LAYER_COOKED_1] = cm_parse_cooked_1,
    [CM_LAYER_COOKED_2] = cm_parse_cooked_2,
    [CM_LAYER_LOOPBACK] = cm_parse_loopback,
    [CM_LAYER_ERF] = cm_parse_erf,
    [CM_LAYER_ETHERTYPE] = cm_parse_ethertype,
    [CM_LAYER_IP] = cm_parse_ip,
    [CM_LAYER_IP_PROTOCOL] = cm_parse_ip_protocol,
    [CM_LAYER_UDP_PORT] = cm_parse_udp_port,
    [CM_LAYER_MPLS] = cm_parse_mpls,
    [CM_LAYER_LRH] = cm_parse_lrh,
    [CM_LAYER_GRH] = cm_parse_grh,
    [CM_LAYER_BTH] = cm_parse_bth,
};

/* The first protocol of a frame; CM_LAYER_END: the link carries no RDMA that is known. */
static enum cm_layer first_layer(int link_type)
{
    switch (link_type) {
    case DLT_EN10MB:
        return CM_LAYER_ETHERNET;
    case DLT_LINUX_SLL:
        return CM_LAYER_COOKED_1;
    case DLT_LINUX_SLL2:
        return CM_LAYER_COOKED_2;
    case DLT_INFINIBAND:
        return CM_LAYER_LRH;
    case DLT_ERF:
        return CM_LAYER_ERF;
    case DLT_NULL:
    case DLT_LOOP:
        return CM_LAYER_LOOPBACK;
    case DLT_RAW:
    case LINKTYPE_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
        return CM_LAYER_IP;
    default:
        return CM_LAYER_END;
    }
}

bool cm_link_supported(int link_type)
{
    return first_layer(link_type) != CM_LAYER_END;
}

char *cm_link_reason(int link_type)
{
    const char *name = pcap_datalink_val_to_name(link_type);

    return g_strdup_printf("link type %d (%s) carries no RDMA that is known: InfiniBand, ERF, "
                           "Ethernet, Linux cooked, raw IP and loopback do",
                           link_type, name != NULL ? name : "unknown");
}

void cm_packet_parse(struct cm_packet *packet, int link_type, const uint8_t *frame,
                     uint32_t captured, uint32_t wire)
{
    struct cm_bytes bytes = {frame, captured < wire ? captured : wire, wire, 0};
    enum cm_layer layer = first_layer(link_type);

    memset(packet, 0, sizeof(*packet));
    packet->wire = wire;
    packet->kind = CM_KIND_OTHER;
    packet->dst_qpn = packet->src_qpn = CM_QPN_NONE;
    while (layer != CM_LAYER_END) {
        layer = parsers[layer](packet, &bytes);
    }
}
