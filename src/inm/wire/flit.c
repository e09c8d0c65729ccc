/* Packets of flits; see flit.h. */
#include "flit.h"

#include <string.h>
#include <zlib.h>

enum { BIT_VC = 2, BIT_LENGTH = 5, BIT_HEAD_DATA = 70, BIT_BODY_DATA = 6, BIT_CRC = 166 };
_Static_assert(BIT_HEAD_DATA + 128 == FLIT_BITS && BIT_BODY_DATA + 192 == FLIT_BITS &&
                   BIT_CRC + 32 == FLIT_BITS,
               "data ends with its flit");

/* Where each of the descriptor's eight words lies in the packet. */
static const uint16_t word_place[8] = {BIT_HEAD_DATA,
                                       BIT_HEAD_DATA + 64,
                                       FLIT_BITS + BIT_BODY_DATA,
                                       FLIT_BITS + BIT_BODY_DATA + 64,
                                       FLIT_BITS + BIT_BODY_DATA + 128,
                                       2 * FLIT_BITS + BIT_BODY_DATA,
                                       2 * FLIT_BITS + BIT_BODY_DATA + 64,
                                       2 * FLIT_BITS + BIT_BODY_DATA + 128};

static uint32_t desc_crc(const uint8_t *desc)
{
    return (uint32_t)crc32(0, desc, NMP_DESC_BYTES);
}

void flit_pack(const uint8_t desc[NMP_DESC_BYTES], uint8_t packet[PACKET_BYTES])
{
    unsigned i;

    memset(packet, 0, PACKET_BYTES);
    nmp_put_bits(packet, 0, 2, FLIT_HEAD);
    nmp_put_bits(packet, BIT_VC, 3, PACKET_VC);
    nmp_put_bits(packet, BIT_LENGTH, 3, PACKET_FLITS);
    nmp_put_bits(packet, FLIT_BITS, 2, FLIT_BODY);
    nmp_put_bits(packet, 2 * FLIT_BITS, 2, FLIT_BODY);
    nmp_put_bits(packet, 3 * FLIT_BITS, 2, FLIT_TAIL);
    for (i = 0; i < 8; i++) {
        nmp_put_bits(packet, word_place[i], 64, nmp_get_bits(desc, 64 * i, 64));
    }
    nmp_put_bits(packet, 3 * FLIT_BITS + BIT_CRC, 32, desc_crc(desc));
}

bool flit_unpack(const uint8_t packet[PACKET_BYTES], uint8_t desc[NMP_DESC_BYTES])
{
    unsigned i;

    for (i = 0; i < 8; i++) {
        nmp_put_bits(desc, 64 * i, 64, nmp_get_bits(packet, word_place[i], 64));
    }
    return nmp_get_bits(packet, 0, 2) == FLIT_HEAD &&
           nmp_get_bits(packet, BIT_VC, 3) == PACKET_VC &&
           nmp_get_bits(packet, BIT_LENGTH, 3) == PACKET_FLITS &&
           nmp_get_bits(packet, FLIT_BITS, 2) == FLIT_BODY &&
           nmp_get_bits(packet, 2 * FLIT_BITS, 2) == FLIT_BODY &&
           nmp_get_bits(packet, 3 * FLIT_BITS, 2) == FLIT_TAIL &&
           nmp_get_bits(packet, 3 * FLIT_BITS + BIT_CRC, 32) == desc_crc(desc);
}
