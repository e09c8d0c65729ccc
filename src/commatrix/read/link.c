/*
 * From a frame of the link to InfiniBand or IP: Ethernet, Linux cooked, loopback, InfiniBand, ERF.
 */
#include "packet.h"

#include <byteswap.h>

enum { ETHERNET_LEN = 14, SLL_LEN = 16, SLL2_LEN = 20, LOOPBACK_LEN = 4, VLAN_LEN = 4 };
enum { MAX_VLANS = 8 };
enum { LOOPBACK_IPV4 = 2 };

static bool is_vlan(uint16_t ethertype)
{
    return ethertype == CM_ETHERTYPE_VLAN || ethertype == CM_ETHERTYPE_QINQ ||
           ethertype == CM_ETHERTYPE_QINQ_1;
}

enum cm_layer cm_parse_ethertype(struct cm_packet *packet, struct cm_bytes *bytes)
{
    int i;

    for (i = 0; i < MAX_VLANS && is_vlan(bytes->type); i++) {
        if (!cm_skip(bytes, VLAN_LEN)) {
            return cm_cut(packet);
        }
        bytes->type = cm_be16(bytes->at - 2);
    }
    switch (bytes->type) {
    case CM_ETHERTYPE_ROCE:
        return CM_LAYER_GRH;
    case CM_ETHERTYPE_IPV4:
    case CM_ETHERTYPE_IPV6:
        return CM_LAYER_IP;
    case CM_ETHERTYPE_MPLS:
    case CM_ETHERTYPE_MPLS_GROUP:
        return CM_LAYER_MPLS;
    default:
        return CM_LAYER_END;
    }
}

/* A link header of `len` bytes with the Ethernet type at `type_at`. */
static enum cm_layer parse_framed(struct cm_packet *packet, struct cm_bytes *bytes, uint32_t len,
                                  uint32_t type_at)
{
    const uint8_t *header = bytes->at;

    if (!cm_skip(bytes, len)) {
        return cm_cut(packet);
    }
    bytes->type = cm_be16(header + type_at);
    return cm_parse_ethertype(packet, bytes);
}

enum cm_layer cm_parse_ethernet(struct cm_packet *packet, struct cm_bytes *bytes)
{
    return parse_framed(packet, bytes, ETHERNET_LEN, 12);
}

enum cm_layer cm_parse_cooked_1(struct cm_packet *packet, struct cm_bytes *bytes)
{
    return parse_framed(packet, bytes, SLL_LEN, 14);
}

enum cm_layer cm_parse_cooked_2(struct cm_packet *packet, struct cm_bytes *bytes)
{
    return parse_framed(packet, bytes, SLL2_LEN, 0);
}

/* Four bytes name the protocol: in the byte order of the host, or in that of the network. IPv6 has
 * another number on each system. */
enum cm_layer cm_parse_loopback(struct cm_packet *packet, struct cm_bytes *bytes)
{
    uint32_t family;

    if (!cm_skip(bytes, LOOPBACK_LEN)) {
        return cm_cut(packet);
    }
    family = cm_be32(bytes->at - LOOPBACK_LEN);
    family = family > 0xffff ? bswap_32(family) : family;
    return family == LOOPBACK_IPV4 || family == 24 || family == 28 || family == 30 ? CM_LAYER_IP :
                                                                                     CM_LAYER_END;
}

enum cm_layer cm_parse_erf(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *erf = bytes->at;
    uint32_t wire;
    uint8_t type;

    if (!cm_skip(bytes, CM_ERF_LEN)) {
        return cm_cut(packet);
    }
    type = erf[8];
    wire = cm_be16(erf + 14); /* the record's length in the file says nothing of a cut packet's */
    while (type & CM_ERF_MORE) {
        const uint8_t *extension = bytes->at;

        if (!cm_skip(bytes, CM_ERF_EXTENSION_LEN)) {
            return cm_cut(packet);
        }
        type = (type & 0x7f) | (extension[0] & CM_ERF_MORE);
    }
    if (wire != 0) {
        bytes->wire = wire;
        bytes->len = bytes->len < wire ? bytes->len : wire;
    }
    packet->wire = bytes->wire;
    if (type == CM_ERF_ETHERNET) {
        if (!cm_skip(bytes, CM_ERF_PAD_LEN)) {
            return cm_cut(packet);
        }
        bytes->wire += CM_ERF_PAD_LEN; /* cm_skip() subtracted the padding, which the length on the
                                        * wire does not include */
        return cm_parse_ethernet(packet, bytes);
    }
    return type == CM_ERF_INFINIBAND ? CM_LAYER_LRH : CM_LAYER_END;
}
