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

enum cm_layer cm_enter_tunnel(struct cm_packet *packet, enum cm_layer inside)
{
    if (packet->tunnels >= MAX_TUNNELS) {
        packet->closed = CM_CLOSED_DEEP;
        return CM_LAYER_END;
    }
    packet->tunnels++;
    memset(&packet->src, 0, sizeof(packet->src));
    memset(&packet->dst, 0, sizeof(packet->dst));
    packet->first_fragment = false;
    packet->ip_id = 0;
    return inside;
}

static enum cm_layer closed(struct cm_packet *packet, enum cm_closed why)
{
    packet->closed = why;
    return CM_LAYER_END;
}

/* Steps over the header of a tunnel and enters the tunnel. */
static enum cm_layer enter(struct cm_packet *packet, struct cm_bytes *bytes, uint32_t len,
                           enum cm_layer inside)
{
    return cm_skip(bytes, len) ? cm_enter_tunnel(packet, inside) : cm_cut(packet);
}

/* A mirrored frame counts with its own length: the tunnel is one of the capture. */
static enum cm_layer enter_mirrored(struct cm_packet *packet, struct cm_bytes *bytes, uint32_t len)
{
    enum cm_layer inside = enter(packet, bytes, len, CM_LAYER_ETHERNET);

    if (inside != CM_LAYER_END) {
        packet->wire = bytes->wire;
    }
    return inside;
}

enum cm_layer cm_parse_mpls(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *label;
    int i;

    for (i = 0; i < MAX_LABELS; i++) {
        label = bytes->at;
        if (!cm_skip(bytes, MPLS_LEN)) {
            return cm_cut(packet);
        }
        if (label[2] & MPLS_LAST) {
            break;
        }
    }
    if (bytes->len == 0) {
        return cm_cut(packet);
    }
    /* The label alone says what follows. An IP header shows by its version; a pseudowire begins
     * with a control word of zeros. */
    switch (bytes->at[0] >> 4) {
    case 4:
    case 6:
        return cm_enter_tunnel(packet, CM_LAYER_IP);
    case 0:
        return enter(packet, bytes, CONTROL_WORD_LEN, CM_LAYER_ETHERNET);
    default:
        return closed(packet, CM_CLOSED_MPLS);
    }
}

/* ERSPAN: type I has no header, and GRE then has no sequence number. */
static enum cm_layer parse_erspan(struct cm_packet *packet, struct cm_bytes *bytes, uint16_t type,
                                  bool sequence)
{
    uint32_t len = type == CM_ETHERTYPE_ERSPAN_3 ? ERSPAN_3_LEN : sequence ? ERSPAN_2_LEN : 0;

    if (type == CM_ETHERTYPE_ERSPAN_3 && bytes->len >= ERSPAN_3_LEN &&
        (bytes->at[ERSPAN_3_LEN - 1] & ERSPAN_3_MORE)) {
        len += ERSPAN_3_MORE_LEN;
    }
    return enter_mirrored(packet, bytes, len);
}

static enum cm_layer parse_gre(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *gre = bytes->at;
    uint32_t len = GRE_LEN;
    uint16_t type;

    if (bytes->len < GRE_LEN) {
        return cm_cut(packet);
    }
    len += gre[0] & GRE_CHECKSUM ? 4 : 0;
    len += gre[0] & GRE_KEY ? 4 : 0;
    len += gre[0] & GRE_SEQUENCE ? 4 : 0;
    type = cm_be16(gre + 2);
    if (!cm_skip(bytes, len)) {
        return cm_cut(packet);
    }
    switch (type) {
    case CM_ETHERTYPE_ERSPAN:
    case CM_ETHERTYPE_ERSPAN_3:
        return parse_erspan(packet, bytes, type, gre[0] & GRE_SEQUENCE);
    case CM_ETHERTYPE_BRIDGE:
        return cm_enter_tunnel(packet, CM_LAYER_ETHERNET);
    case CM_ETHERTYPE_IPV4:
    case CM_ETHERTYPE_IPV6:
        return cm_enter_tunnel(packet, CM_LAYER_IP);
    case CM_ETHERTYPE_MPLS:
        return CM_LAYER_MPLS;
    default:
        return closed(packet, CM_CLOSED_GRE);
    }
}

enum cm_layer cm_parse_ip_protocol(struct cm_packet *packet, struct cm_bytes *bytes)
{
    switch (bytes->type) {
    case PROTOCOL_IPIP:
    case PROTOCOL_IPV6:
        return cm_enter_tunnel(packet, CM_LAYER_IP);
    case PROTOCOL_GRE:
        return parse_gre(packet, bytes);
    case PROTOCOL_MPLS:
        return CM_LAYER_MPLS;
    case PROTOCOL_ESP:
        return closed(packet, CM_CLOSED_ESP);
    case PROTOCOL_L2TP:
        return closed(packet, CM_CLOSED_L2TP);
    default:
        return CM_LAYER_END;
    }
}

/* VXLAN; with the extension GPE the last byte of the flags names another protocol. */
static enum cm_layer parse_vxlan(struct cm_packet *packet, struct cm_bytes *bytes, bool extended)
{
    const uint8_t *vxlan = bytes->at;
    uint8_t next;

    if (!cm_skip(bytes, VXLAN_LEN)) {
        return cm_cut(packet);
    }
    next = extended ? vxlan[3] : GPE_ETHERNET;
    if (!(vxlan[0] & VXLAN_HAS_ID)) {
        return CM_LAYER_END;
    }
    if (next == GPE_IPV4 || next == GPE_IPV6) {
        return cm_enter_tunnel(packet, CM_LAYER_IP);
    }
    return next == GPE_ETHERNET ? cm_enter_tunnel(packet, CM_LAYER_ETHERNET) : CM_LAYER_END;
}

static enum cm_layer parse_geneve(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *geneve = bytes->at;

    if (bytes->len < GENEVE_LEN) {
        return cm_cut(packet);
    }
    bytes->type = cm_be16(geneve + 2);
    return enter(packet, bytes, GENEVE_LEN + (geneve[0] & 0x3fu) * 4,
                 bytes->type == CM_ETHERTYPE_BRIDGE ? CM_LAYER_ETHERNET : CM_LAYER_ETHERTYPE);
}

enum cm_layer cm_parse_udp_port(struct cm_packet *packet, struct cm_bytes *bytes)
{
    switch (bytes->type) {
    case PORT_VXLAN:
    case PORT_VXLAN_LINUX:
        return parse_vxlan(packet, bytes, false);
    case PORT_VXLAN_GPE:
        return parse_vxlan(packet, bytes, true);
    case PORT_GENEVE:
        return parse_geneve(packet, bytes);
    case PORT_MPLS:
        return CM_LAYER_MPLS;
    case PORT_ESP:
        return closed(packet, CM_CLOSED_ESP);
    case PORT_L2TP:
        return closed(packet, CM_CLOSED_L2TP);
    case PORT_GTP:
        return closed(packet, CM_CLOSED_GTP);
    default:
        return CM_LAYER_END;
    }
}
