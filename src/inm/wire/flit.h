/*
 * A management packet on a link: 4 flits of 198 bits, as the data link layer sends them (paper,
 * section 3.3). The head flit bears the virtual channel, the length and the hop count; the tail
 * flit a CRC over the descriptor. Flits stand one behind the other, without gaps: 792 bits.
 *
 *   head   2 type, 3 VC, 3 length, 5 hop, 57 reserved, 128 of the descriptor
 *   body   2 type, 4 reserved, 192 of the descriptor          (twice)
 *   tail   2 type, 164 reserved, 32 CRC
 *
 * The hop count changes at every NRC, so the CRC does not cover it.
 */
#ifndef INM_FLIT_H
#define INM_FLIT_H

#include "common/nmp.h"

#include <assert.h>

#define FLIT_BITS    198
#define PACKET_FLITS 4
#define PACKET_BITS  (FLIT_BITS * PACKET_FLITS)
#define PACKET_BYTES 99
#define PACKET_VC    3 /* virtual channel of management packets; the NRC has VC0 to VC5 */
static_assert(PACKET_BITS == PACKET_BYTES * 8, "a packet is whole bytes");
static_assert(FLIT_BITS - 2 - 3 - 3 - 5 - 57 == 128 && FLIT_BITS - 2 - 4 == 192 &&
                  128 + 2 * 192 == NMP_DESC_BITS && FLIT_BITS - 2 - 164 == 32,
              "flits are full");

enum flit_type { FLIT_HEAD = 1, FLIT_BODY = 2, FLIT_TAIL = 3 };

/** Make the packet of a descriptor; its hop count is 0. */
void flit_pack(const uint8_t desc[NMP_DESC_BYTES], uint8_t packet[PACKET_BYTES]);

/**
 * Check a packet and take its descriptor out. Takes any bytes.
 * @return Whether flit types, virtual channel, length and CRC are right.
 */
bool flit_unpack(const uint8_t packet[PACKET_BYTES], uint8_t desc[NMP_DESC_BYTES]);

#endif
