/*
 * The reader under libFuzzer. An input is a series of frames of one link type. Before each frame
 * are two bytes of captured length, two bytes of length on the wire, and one byte of elapsed time.
 * The target also fills all tables and finds ranks.
 */
#include "flow/rank.h"
#include "flow/traffic.h"
#include "read/packet.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_HEADER = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_frame(struct cm_traffic *traffic, int link, const uint8_t *frame, uint32_t captured,
                      uint32_t wire, uint64_t time_ns)
{
    uint8_t *copy = malloc(captured); /* of its very length: a byte too many is found */
    struct cm_packet packet;

    memcpy(copy, frame, captured);
    cm_packet_parse(&packet, link, copy, captured, wire);
    packet.time_ns = time_ns;
    cm_traffic_add(traffic, &packet, captured);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int links[] = {1, 12, 113, 197, 247, 276};
    struct cm_traffic_options options = {.kinds = 0x3ff, .skew_us = 100};
    struct cm_traffic *traffic;
    struct cm_ranks *ranks;
    uint64_t now = UINT64_C(1) << 60;
    char *why = NULL;
    int link;

    if (size < 2) {
        return 0;
    }
    link = links[data[0] % (sizeof(links) / sizeof(links[0]))];
    options.window_ns = data[1] & 1 ? 100000 : 0;
    options.max_windows = data[1] & 2 ? 8 : 0;
    data += 2;
    size -= 2;
    traffic = cm_traffic_new(&options);
    while (size >= FRAME_HEADER) {
        uint32_t captured = cm_be16(data) & 0xfff, wire = cm_be16(data + 2);

        now += (uint64_t)(int8_t)data[4] * 5000;
        data += FRAME_HEADER;
        size -= FRAME_HEADER;
        captured = captured < size ? captured : (uint32_t)size;
        add_frame(traffic, link, data, captured, wire, now);
        data += captured;
        size -= captured;
    }
    ranks = cm_ranks_new(traffic, NULL, &why);
    if (ranks != NULL) {
        cm_ranks_free(ranks);
    }
    g_free(why);
    cm_traffic_free(traffic);
    return 0;
}
