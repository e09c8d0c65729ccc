/*
 * Tunnels: frames and IP packets within other packets. Ethernet fabrics mirror by ERSPAN; virtual
 * networks use VXLAN, GENEVE and GRE.
 */
#include "packet.h"

#include <string.h>

enum { MAX_TUNNELS = 8 };

enum { PROTOCOL_IPIP = 4, PROTOCOL_IPV6 = 41, PROTOCOL_GRE = 47, PROTOCOL_ESP = 50 };
enum { PROTOCOL_L2TP = 115, PROTOCOL_MPLS = 137 };

enum {
    PORT_L2TP = 1701,
    PORT_GTP = 2152,
    PORT_ESP = 4500,
    PORT_VXLAN = 4789,
    PORT_VXLAN_GPE = 4790,
    PORT_GENEVE = 6081,
    PORT_MPLS = 6635,
    PORT_VXLAN_LINUX = 8472 /* the default of Linux before the port was assigned */
};

enum { VXLAN_LEN = 8, VXLAN_HAS_ID = 0x08, GENEVE_LEN = 8 };
enum { GPE_IPV4 = 1, GPE_IPV6 = 2, GPE_ETHERNET = 3 };
enum { GRE_LEN = 4, GRE_CHECKSUM = 0x80, GRE_KEY = 0x20, GRE_SEQUENCE = 0x10 };
enum { ERSPAN_2_LEN = 8, ERSPAN_3_LEN = 12, ERSPAN_3_MORE = 1, ERSPAN_3_MORE_LEN = 8 };
enum { MPLS_LEN = 4, MPLS_LAST = 0x01, MAX_LABELS = 16, CONTROL_WORD_LEN = 4 };

bool cm_enter_tunnel(struct cm_packet *packet)
{
    if (packet->tunnels >= MAX_TUNNELS) {
        packet->closed = CM_CLOSED_DEEP;
        return false;
    }
    packet->tunnels++;
    memset(&packet->src, 0, sizeof(packet->src));
    memset(&packet->dst, 0, sizeof(packet->dst));
    packet->first_fragment = false;
    packet->ip_id = 0;
    return true;
}

/* Steps over the header of a tunnel and enters it. */
static bool enter(struct cm_packet *packet, struct cm_bytes *bytes, uint32_t len)
{
    if (!cm_skip(bytes, len)) {
        packet->cut = true;
        return false;
    }
    return cm_enter_tunnel(packet);
}

static void enter_ip(struct cm_packet *packet, struct cm_bytes bytes)
{
    if (cm_enter_tunnel(packet)) {
        cm_parse_ip(packet, bytes);
    }
}

/* A mirrored frame counts with its own length: the tunnel is one of the capture. */
static void enter_mirrored(struct cm_packet *packet, struct cm_bytes bytes, uint32_t len)
{
    if (enter(packet, &bytes, len)) {
        packet->wire = bytes.wire;
        cm_parse_ethernet(packet, bytes);
    }
}

void cm_parse_mpls(struct cm_packet *packet, struct cm_bytes bytes)
{
    const uint8_t *label;
    int i;

    for (i = 0; i < MAX_LABELS; i++) {
        label = bytes.at;
        if (!cm_skip(&bytes, MPLS_LEN)) {
            packet->cut = true;
            return;
        }
        if (label[2] & MPLS_LAST) {
            break;
        }
    }
    if (bytes.len == 0) {
        packet->cut = true;
        return;
    }
    /* The label alone says what follows. An IP header shows by its version; a pseudowire begins
     * with a control word of zeros. */
    switch (bytes.at[0] >> 4) {
    case 4:
    case 6:
        enter_ip(packet, bytes);
        break;
    case 0:
        if (enter(packet, &bytes, CONTROL_WORD_LEN)) {
            cm_parse_ethernet(packet, bytes);
        }
        break;
    default:
        packet->closed = CM_CLOSED_MPLS;
        break;
    }
}

/* ERSPAN: type I has no header, and GRE then has no sequence number. */
static void parse_erspan(struct cm_packet *packet, struct cm_bytes bytes, uint16_t type,
                         bool sequence)
{
    uint32_t len = type == CM_ETHERTYPE_ERSPAN_3 ? ERSPAN_3_LEN : sequence ? ERSPAN_2_LEN : 0;

    if (type == CM_ETHERTYPE_ERSPAN_3 && bytes.len >= ERSPAN_3_LEN &&
        (bytes.at[ERSPAN_3_LEN - 1] & ERSPAN_3_MORE)) {
        len += ERSPAN_3_MORE_LEN;
    }
    enter_mirrored(packet, bytes, len);
}

static void parse_gre(struct cm_packet *packet, struct cm_bytes bytes)
{
    const uint8_t *gre = bytes.at;
    uint32_t len = GRE_LEN;
    uint16_t type;

    if (bytes.len < GRE_LEN) {
        packet->cut = true;
        return;
    }
    len += gre[0] & GRE_CHECKSUM ? 4 : 0;
    len += gre[0] & GRE_KEY ? 4 : 0;
    len += gre[0] & GRE_SEQUENCE ? 4 : 0;
    type = cm_be16(gre + 2);
    if (!cm_skip(&bytes, len)) {
        packet->cut = true;
        return;
    }
    switch (type) {
    case CM_ETHERTYPE_ERSPAN:
    case CM_ETHERTYPE_ERSPAN_3:
        parse_erspan(packet, bytes, type, gre[0] & GRE_SEQUENCE);
        break;
    case CM_ETHERTYPE_BRIDGE:
        if (cm_enter_tunnel(packet)) {
            cm_parse_ethernet(packet, bytes);
        }
        break;
    case CM_ETHERTYPE_IPV4:
    case CM_ETHERTYPE_IPV6:
        enter_ip(packet, bytes);
        break;
    case CM_ETHERTYPE_MPLS:
        cm_parse_mpls(packet, bytes);
        break;
    default:
        packet->closed = CM_CLOSED_GRE;
        break;
    }
}

bool cm_parse_ip_tunnel(struct cm_packet *packet, struct cm_bytes bytes, uint8_t protocol)
{
    switch (protocol) {
    case PROTOCOL_IPIP:
    case PROTOCOL_IPV6:
        enter_ip(packet, bytes);
        return true;
    case PROTOCOL_GRE:
        parse_gre(packet, bytes);
        return true;
    case PROTOCOL_MPLS:
        cm_parse_mpls(packet, bytes);
        return true;
    case PROTOCOL_ESP:
        packet->closed = CM_CLOSED_ESP;
        return true;
    case PROTOCOL_L2TP:
        packet->closed = CM_CLOSED_L2TP;
        return true;
    default:
        return false;
    }
}

/* VXLAN; with the extension GPE the last byte of the flags names another protocol. */
static void parse_vxlan(struct cm_packet *packet, struct cm_bytes bytes, bool extended)
{
    const uint8_t *vxlan = bytes.at;
    uint8_t next;

    if (!cm_skip(&bytes, VXLAN_LEN)) {
        packet->cut = true;
        return;
    }
    if (!(vxlan[0] & VXLAN_HAS_ID)) {
        return;
    }
    next = extended ? vxlan[3] : GPE_ETHERNET;
    if (next == GPE_IPV4 || next == GPE_IPV6) {
        enter_ip(packet, bytes);
    } else if (next == GPE_ETHERNET && cm_enter_tunnel(packet)) {
        cm_parse_ethernet(packet, bytes);
    }
}

static void parse_geneve(struct cm_packet *packet, struct cm_bytes bytes)
{
    const uint8_t *geneve = bytes.at;
    uint16_t type;

    if (bytes.len < GENEVE_LEN) {
        packet->cut = true;
        return;
    }
    type = cm_be16(geneve + 2);
    if (!enter(packet, &bytes, GENEVE_LEN + (geneve[0] & 0x3fu) * 4)) {
        return;
    }
    if (type == CM_ETHERTYPE_BRIDGE) {
        cm_parse_ethernet(packet, bytes);
    } else {
        cm_parse_ethertype(packet, bytes, type);
    }
}

bool cm_parse_udp_tunnel(struct cm_packet *packet, struct cm_bytes bytes, uint16_t port)
{
    switch (port) {
    case PORT_VXLAN:
    case PORT_VXLAN_LINUX:
        parse_vxlan(packet, bytes, false);
        return true;
    case PORT_VXLAN_GPE:
        parse_vxlan(packet, bytes, true);
        return true;
    case PORT_GENEVE:
        parse_geneve(packet, bytes);
        return true;
    case PORT_MPLS:
        cm_parse_mpls(packet, bytes);
        return true;
    case PORT_ESP:
        packet->closed = CM_CLOSED_ESP;
        return true;
    case PORT_L2TP:
        packet->closed = CM_CLOSED_L2TP;
        return true;
    case PORT_GTP:
        packet->closed = CM_CLOSED_GTP;
        return true;
    default:
        return false;
    }
}
