/*
 * IPv4 with options and fragments, IPv6 with extension headers; UDP to port 4791 is RoCEv2.
 */
#include "packet.h"

#include <string.h>

enum { IPV4_LEN = 20, IPV6_LEN = 40, MAX_EXTENSIONS = 16 };
enum { IP_CONGESTED = 3 }; /* the field ECN, RFC 3168 */
enum {
    IPV6_HOP_BY_HOP = 0,
    IPV6_ROUTING = 43,
    IPV6_FRAGMENT = 44,
    IPV6_AUTHENTICATION = 51,
    IPV6_DESTINATION = 60,
    IPV6_MOBILITY = 135,
    IPV6_HIP = 139,
    IPV6_SHIM6 = 140
};

/* Only the destination port tells RoCE: a sender chooses its source port at random. */
static enum cm_layer parse_udp(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *udp = bytes->at;
    uint32_t length;

    if (!cm_skip(bytes, CM_UDP_LEN)) {
        return cm_cut(packet);
    }
    bytes->type = cm_be16(udp + 2);
    if (bytes->type != CM_UDP_PORT_ROCE) {
        return CM_LAYER_UDP_PORT;
    }
    packet->kind = CM_KIND_DATA;
    /* The first fragment counts for the user data of the whole datagram. The others count for their
     * bytes on the wire only. */
    length = cm_be16(udp + 4);
    length = length > CM_UDP_LEN ? length - CM_UDP_LEN : 0;
    bytes->wire = packet->first_fragment || length < bytes->wire ? length : bytes->wire;
    return CM_LAYER_BTH;
}

/* `offset` 0 and `more`: the first fragment; `offset` 0 and no more: no fragment at all. */
static enum cm_layer parse_fragment(struct cm_packet *packet, struct cm_bytes *bytes,
                                    uint8_t protocol, uint32_t offset, bool more)
{
    if (protocol != CM_PROTOCOL_UDP) {
        bytes->type = protocol;
        return offset == 0 ? CM_LAYER_IP_PROTOCOL : CM_LAYER_END;
    }
    if (offset != 0) {
        packet->fragment = true;
        return CM_LAYER_END;
    }
    packet->first_fragment = more;
    return parse_udp(packet, bytes);
}

static enum cm_layer parse_ipv4(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *ip = bytes->at;
    uint32_t header = (ip[0] & 15u) * 4, length;

    if (header < IPV4_LEN || !cm_skip(bytes, header)) {
        return cm_cut(packet);
    }
    packet->src.gid[10] = packet->src.gid[11] = packet->dst.gid[10] = packet->dst.gid[11] = 0xff;
    memcpy(packet->src.gid + 12, ip + 12, 4);
    memcpy(packet->dst.gid + 12, ip + 16, 4);
    packet->src.has_gid = packet->dst.has_gid = true;
    packet->ip_id = cm_be16(ip + 4);
    packet->congested = (ip[1] & 3) == IP_CONGESTED;
    length = cm_be16(ip + 2);
    length = length > header ? length - header : 0;
    bytes->wire = length < bytes->wire ? length : bytes->wire; /* Ethernet fills up short frames */
    return parse_fragment(packet, bytes, ip[9], cm_be16(ip + 6) & 0x1fffu, ip[6] & 0x20);
}

static bool is_extension(uint8_t next)
{
    return next == IPV6_HOP_BY_HOP || next == IPV6_ROUTING || next == IPV6_FRAGMENT ||
           next == IPV6_AUTHENTICATION || next == IPV6_DESTINATION || next == IPV6_MOBILITY ||
           next == IPV6_HIP || next == IPV6_SHIM6;
}

static uint32_t extension_len(uint8_t type, const uint8_t *extension)
{
    switch (type) {
    case IPV6_FRAGMENT:
        return 8;
    case IPV6_AUTHENTICATION:
        return (extension[1] + 2u) * 4;
    default:
        return (extension[1] + 1u) * 8;
    }
}

static enum cm_layer parse_ipv6(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *ip = bytes->at, *extension;
    uint32_t offset = 0, length;
    uint8_t next;
    bool more = false;
    int i;

    if (!cm_skip(bytes, IPV6_LEN)) {
        return cm_cut(packet);
    }
    memcpy(packet->src.gid, ip + 8, 16);
    memcpy(packet->dst.gid, ip + 24, 16);
    packet->src.has_gid = packet->dst.has_gid = true;
    packet->congested = (ip[1] >> 4 & 3) == IP_CONGESTED;
    length = cm_be16(ip + 4);
    bytes->wire = length < bytes->wire ? length : bytes->wire;
    next = ip[6];
    for (i = 0; i < MAX_EXTENSIONS && is_extension(next) && offset == 0; i++) {
        extension = bytes->at;
        if (bytes->len < 8 || !cm_skip(bytes, extension_len(next, extension))) {
            return cm_cut(packet);
        }
        if (next == IPV6_FRAGMENT) {
            offset = cm_be16(extension + 2) >> 3;
            more = extension[3] & 1;
            packet->ip_id = cm_be32(extension + 4);
        }
        next = extension[0];
    }
    return parse_fragment(packet, bytes, next, offset, more);
}

enum cm_layer cm_parse_ip(struct cm_packet *packet, struct cm_bytes *bytes)
{
    if (bytes->len < IPV4_LEN) {
        return cm_cut(packet);
    }
    switch (bytes->at[0] >> 4) {
    case 4:
        return parse_ipv4(packet, bytes);
    case 6:
        return parse_ipv6(packet, bytes);
    default:
        return CM_LAYER_END;
    }
}
