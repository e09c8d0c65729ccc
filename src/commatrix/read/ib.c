/*
 * InfiniBand: from the LRH, the GRH or the BTH to the user data, and what the packet is for.
 */
#include "packet.h"

#include <string.h>

/* Extended headers of an operation behind those of its transport. */
enum {
    EXT_RETH = 1,
    EXT_ATOMIC = 2,
    EXT_AETH = 4,
    EXT_ATOMIC_ACK = 8,
    EXT_IMM = 16,
    EXT_INV = 32,
    EXT_FETH = 64,
    EXT_RESPONSE = 128 /* not a header: goes from the responder to the requester */
};

static const uint8_t operation_headers[32] = {
    [CM_SEND_LAST_IMM] = EXT_IMM,
    [CM_SEND_ONLY_IMM] = EXT_IMM,
    [CM_WRITE_FIRST] = EXT_RETH,
    [CM_WRITE_LAST_IMM] = EXT_IMM,
    [CM_WRITE_ONLY] = EXT_RETH,
    [CM_WRITE_ONLY_IMM] = EXT_RETH | EXT_IMM,
    [CM_READ_REQUEST] = EXT_RETH,
    [CM_READ_FIRST] = EXT_AETH | EXT_RESPONSE,
    [CM_READ_MIDDLE] = EXT_RESPONSE,
    [CM_READ_LAST] = EXT_AETH | EXT_RESPONSE,
    [CM_READ_ONLY] = EXT_AETH | EXT_RESPONSE,
    [CM_ACKNOWLEDGE] = EXT_AETH | EXT_RESPONSE,
    [CM_ATOMIC_ACK] = EXT_AETH | EXT_ATOMIC_ACK | EXT_RESPONSE,
    [CM_COMPARE_SWAP] = EXT_ATOMIC,
    [CM_FETCH_ADD] = EXT_ATOMIC,
    [CM_SEND_LAST_INV] = EXT_INV,
    [CM_SEND_ONLY_INV] = EXT_INV,
    [CM_FLUSH] = EXT_FETH | EXT_RETH,
    [CM_ATOMIC_WRITE] = EXT_RETH,
};

static bool is_multicast(const struct cm_address *address)
{
    if (address->has_lid && address->lid >= CM_LID_MULTICAST && address->lid != CM_LID_PERMISSIVE) {
        return true;
    }
    /* An IPv6 group, or ::ffff:224.0.0.0 and above. */
    return address->has_gid && (address->gid[0] == 0xff ||
                                (memcmp(address->gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0 &&
                                 address->gid[12] >= 224));
}

/* The user data begins like an IP or ARP packet behind the four bytes of RFC 4391. Subnets may
 * choose a Q_Key of their own, so the default Q_Key alone is not enough. */
static bool is_ipoib(const struct cm_packet *packet)
{
    const uint8_t *p = packet->data;

    if (packet->data_len < 8 || p[2] != 0 || p[3] != 0) {
        return false;
    }
    switch (cm_be16(p)) {
    case CM_ETHERTYPE_IPV4:
        return p[4] >> 4 == 4 && cm_be16(p + 6) <= packet->payload - 4 && cm_be16(p + 6) >= 20;
    case CM_ETHERTYPE_IPV6:
        return p[4] >> 4 == 6;
    case CM_ETHERTYPE_ARP:
        return cm_be16(p + 4) == 32 && cm_be16(p + 6) == CM_ETHERTYPE_IPV4;
    default:
        return false;
    }
}

static enum cm_kind management_kind(const struct cm_packet *packet)
{
    if (packet->dst_qpn == 0) {
        return CM_KIND_SMP;
    }
    if (packet->data_len >= 2) {
        if (packet->data[1] == CM_MAD_SA) {
            return CM_KIND_SA;
        }
        if (packet->data[1] == CM_MAD_CM) {
            return CM_KIND_CM;
        }
    }
    return CM_KIND_GMP;
}

static bool is_cnp(const struct cm_packet *packet)
{
    return packet->transport == CM_CNP && packet->operation == CM_OPERATION_CNP;
}

static enum cm_kind kind_of(const struct cm_packet *packet)
{
    bool send = packet->operation <= CM_SEND_ONLY_IMM;

    if (is_cnp(packet)) {
        return CM_KIND_CNP;
    }
    if (packet->transport == CM_UD && packet->dst_qpn <= 1) {
        return management_kind(packet);
    }
    if (packet->operation == CM_ACKNOWLEDGE && packet->transport != CM_UD &&
        packet->transport <= CM_XRC) {
        return (packet->syndrome >> 5 & 3) == CM_AETH_ACK ? CM_KIND_ACK : CM_KIND_NAK;
    }
    if (send && packet->transport == CM_UD && packet->q_key == CM_QKEY_IPOIB) {
        return CM_KIND_IPOIB;
    }
    if (send && (packet->transport == CM_UD || packet->transport == CM_RC) && is_ipoib(packet)) {
        return CM_KIND_IPOIB;
    }
    return is_multicast(&packet->dst) ? CM_KIND_MULTICAST : CM_KIND_DATA;
}

/* The headers that the transport puts before those of the operation. */
static bool skip_transport_headers(struct cm_packet *packet, struct cm_bytes *bytes, bool response)
{
    const uint8_t *p = bytes->at;

    if (packet->transport == CM_RD) {
        if (!cm_skip(bytes, CM_RDETH_LEN)) {
            return false;
        }
        packet->eec = cm_be24(p + 1);
        p = bytes->at;
    }
    if (packet->transport == CM_UD || (packet->transport == CM_RD && !response)) {
        if (!cm_skip(bytes, CM_DETH_LEN)) {
            return false;
        }
        packet->q_key = cm_be32(p);
        packet->src_qpn = cm_be24(p + 5);
    }
    return packet->transport != CM_XRC || response || cm_skip(bytes, CM_XRCETH_LEN);
}

static bool skip_operation_headers(struct cm_packet *packet, struct cm_bytes *bytes,
                                   unsigned headers)
{
    const uint8_t *p;

    if ((headers & EXT_FETH) && !cm_skip(bytes, CM_FETH_LEN)) {
        return false;
    }
    p = bytes->at;
    if (headers & EXT_RETH) {
        if (!cm_skip(bytes, CM_RETH_LEN)) {
            return false;
        }
        packet->dma_len = cm_be32(p + 12);
    }
    p = bytes->at;
    if (headers & EXT_AETH) {
        if (!cm_skip(bytes, CM_AETH_LEN)) {
            return false;
        }
        packet->syndrome = p[0];
    }
    p = bytes->at;
    if (headers & (EXT_IMM | EXT_INV)) {
        if (!cm_skip(bytes, CM_IMM_LEN)) {
            return false;
        }
        packet->imm = cm_be32(p);
    }
    return (!(headers & EXT_ATOMIC) || cm_skip(bytes, CM_ATOMIC_LEN)) &&
           (!(headers & EXT_ATOMIC_ACK) || cm_skip(bytes, CM_ATOMICACK_LEN));
}

enum cm_layer cm_parse_bth(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *bth = bytes->at;
    uint32_t trailer;
    unsigned headers;

    if (!cm_skip(bytes, CM_BTH_LEN)) {
        return cm_cut(packet);
    }
    packet->transport = bth[0] >> 5;
    packet->operation = bth[0] & 31;
    packet->dst_qpn = cm_be24(bth + 5);
    packet->congested |= bth[4] >> 7;
    packet->psn = cm_be24(bth + 9);
    /* What a vendor's transport puts behind the BTH is not known: all of it counts as user data. */
    headers = packet->transport <= CM_XRC && packet->transport != CM_CNP ?
                  operation_headers[packet->operation] :
                  0;
    if (!skip_transport_headers(packet, bytes, headers & EXT_RESPONSE) ||
        !skip_operation_headers(packet, bytes, headers)) {
        return cm_cut(packet);
    }
    trailer = CM_ICRC_LEN + (bth[1] >> 4 & 3);
    packet->payload = bytes->wire > trailer && !is_cnp(packet) ? bytes->wire - trailer : 0;
    packet->data = bytes->at;
    packet->data_len = bytes->len < packet->payload ? bytes->len : packet->payload;
    packet->kind = kind_of(packet);
    return CM_LAYER_END;
}

enum cm_layer cm_parse_grh(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *grh = bytes->at;
    uint32_t length;

    packet->kind = CM_KIND_DATA;
    if (!cm_skip(bytes, CM_GRH_LEN)) {
        return cm_cut(packet);
    }
    memcpy(packet->src.gid, grh + 8, 16);
    memcpy(packet->dst.gid, grh + 24, 16);
    packet->src.has_gid = packet->dst.has_gid = true;
    length = cm_be16(grh + 4); /* from behind the GRH up to and with the ICRC */
    bytes->wire = length < bytes->wire ? length : bytes->wire;
    if (grh[6] == CM_GRH_NEXT_BTH) {
        return cm_parse_bth(packet, bytes);
    }
    packet->kind = CM_KIND_RAW;
    return CM_LAYER_END;
}

/* A raw packet: a mirrored one within it, or nothing that is known. */
static enum cm_layer parse_raw(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *rwh = bytes->at;
    enum cm_layer inside;

    packet->kind = CM_KIND_RAW;
    if (!cm_skip(bytes, CM_RWH_LEN) || cm_be16(rwh + 2) != CM_RWH_MIRROR ||
        !cm_skip(bytes, CM_MIRROR_LEN)) {
        return CM_LAYER_END;
    }
    inside = cm_enter_tunnel(packet, CM_LAYER_LRH);
    if (inside != CM_LAYER_END) {
        packet->wire = bytes->wire;
    }
    return inside;
}

enum cm_layer cm_parse_lrh(struct cm_packet *packet, struct cm_bytes *bytes)
{
    const uint8_t *lrh = bytes->at;
    enum cm_layer next;
    uint32_t length;

    packet->kind = CM_KIND_DATA;
    if (!cm_skip(bytes, CM_LRH_LEN)) {
        packet->kind = CM_KIND_RAW; /* the packet has no address that is known */
        return cm_cut(packet);
    }
    packet->dst.lid = cm_be16(lrh + 2);
    packet->src.lid = cm_be16(lrh + 6);
    packet->src.has_lid = packet->dst.has_lid = true;
    length = (cm_be16(lrh + 4) & 0x7ffu) * 4; /* from the LRH up to and with the ICRC */
    length = length > CM_LRH_LEN ? length - CM_LRH_LEN : 0;
    bytes->wire = length < bytes->wire ? length : bytes->wire;
    switch (lrh[1] & 3) {
    case CM_LNH_BTH:
        next = cm_parse_bth(packet, bytes);
        break;
    case CM_LNH_GRH:
        next = cm_parse_grh(packet, bytes);
        break;
    default:
        return parse_raw(packet, bytes);
    }
    if (lrh[0] >> 4 == CM_VL_MANAGEMENT) {
        packet->kind = CM_KIND_SMP;
    }
    return next;
}
