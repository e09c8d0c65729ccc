/* Incoming datagrams of a peer that has authenticated itself, and is still not believed a word. */
#include "chan.h"
#include "../net/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Note record `seq` and deliver it, unless it has come before. */
static void rx_record(struct udmon_chan *chan, uint64_t seq, const void *data, size_t length)
{
    struct udmon_message message = {.data = data, .length = length, .seq = seq};
    uint64_t gap;

    switch (seqwin_arrive(&chan->win, seq, &gap)) {
    case SEQWIN_NEW:
        if (gap > 0) {
            chan->ops->gap(chan->arg, seq - gap, gap);
        }
        break;
    case SEQWIN_LATE:
        message.late = 1;
        break;
    case SEQWIN_DUPLICATE:
    case SEQWIN_STALE:
        return;
    }
    chan->ops->deliver(chan->arg, &message);
}

static int rx_data(struct udmon_chan *chan, const struct udmon_dgram *dgram, size_t length)
{
    const uint8_t *at = (const uint8_t *)(dgram + 1), *end = (const uint8_t *)dgram + length;
    unsigned i, count = le16toh(dgram->count);
    uint64_t seq = le64toh(dgram->seq);
    struct udmon_record record;

    /* Check the whole datagram before using any part of it. */
    for (i = 0; i < count; ++i) {
        if ((size_t)(end - at) < sizeof(record)) {
            return -EPROTO;
        }
        memcpy(&record, at, sizeof(record));
        at += sizeof(record);
        if (((size_t)(end - at) < le16toh(record.length)) ||
            (le16toh(record.length) > chan->max_record)) {
            return -EPROTO;
        }
        at += le16toh(record.length);
    }
    if ((at != end) || (count == 0) || (seq > (UINT64_MAX - count))) {
        return -EPROTO;
    }
    at = (const uint8_t *)(dgram + 1);
    for (i = 0; i < count; ++i) {
        memcpy(&record, at, sizeof(record));
        rx_record(chan, seq + i, at + sizeof(record), le16toh(record.length));
        at += sizeof(record) + le16toh(record.length);
    }
    return UDMON_DATA;
}

static void rx_assembly_end(struct udmon_assembly *assembly)
{
    assembly->missing = 0;
    if (assembly->size > UDMON_ASSEMBLY_KEEP) {
        free(assembly->bytes);
        assembly->bytes = NULL;
        assembly->size = 0;
    }
}

void udmon_chan_forget_assemblies(struct udmon_chan *chan)
{
    size_t i;

    for (i = 0; i < UDMON_ASSEMBLIES; ++i) {
        chan->stats.incomplete += (chan->assemblies[i].missing > 0);
        free(chan->assemblies[i].bytes);
        memset(&chan->assemblies[i], 0, sizeof(chan->assemblies[i]));
    }
}

static void rx_assembly_begin(struct udmon_assembly *assembly, uint64_t seq, uint32_t total)
{
    if (assembly->size < total) {
        free(assembly->bytes);
        assembly->bytes = malloc(total);
        assembly->size = (assembly->bytes != NULL) ? total : 0;
    }
    if (assembly->bytes != NULL) {
        assembly->seq = seq;
        assembly->total = total;
        assembly->missing = total;
        assembly->range_count = 0;
    }
}

/* The assembly of a record; a new one takes the place of the oldest, whose record is given up. */
static struct udmon_assembly *rx_assembly(struct udmon_chan *chan, uint64_t seq, uint32_t total)
{
    struct udmon_assembly *assembly, *place = &chan->assemblies[0];
    size_t i;

    for (i = 0; i < UDMON_ASSEMBLIES; ++i) {
        assembly = &chan->assemblies[i];
        if ((assembly->missing > 0) && (assembly->seq == seq)) {
            return (assembly->total == total) ? assembly : NULL;
        }
        if ((place->missing > 0) && ((assembly->missing == 0) || (assembly->seq < place->seq))) {
            place = assembly;
        }
    }
    if (place->missing > 0) {
        if (place->seq > seq) {
            return NULL; /* a straggler of one given up already */
        }
        ++chan->stats.incomplete;
        rx_assembly_end(place);
    }
    rx_assembly_begin(place, seq, total);
    return (place->missing > 0) ? place : NULL;
}

/*
 * Notes the arrival of [begin, end). Returns 0 if a part of the range had arrived before, or if the
 * record would need more ranges than are kept; the record is then lost.
 */
static bool rx_range_add(struct udmon_assembly *assembly, uint32_t begin, uint32_t end)
{
    struct udmon_range *ranges = assembly->ranges;
    unsigned place, i = assembly->range_count; /* of the ranges before `end`: nearly always all */
    int left, right;

    while ((i > 0) && (ranges[i - 1].begin >= end)) {
        --i;
    }
    if ((i > 0) && (ranges[i - 1].end > begin)) {
        return false;
    }
    left = (i > 0) && (ranges[i - 1].end == begin);
    right = (i < assembly->range_count) && (ranges[i].begin == end);
    if (left && right) {
        ranges[i - 1].end = ranges[i].end;
        --assembly->range_count;
        memmove(&ranges[i], &ranges[i + 1], (assembly->range_count - i) * sizeof(ranges[0]));
    } else if (left) {
        ranges[i - 1].end = end;
    } else if (right) {
        ranges[i].begin = begin;
    } else if (assembly->range_count < UDMON_RANGES) {
        for (place = assembly->range_count++; place > i; --place) {
            ranges[place] = ranges[place - 1];
        }
        ranges[i] = (struct udmon_range){begin, end};
    } else {
        return false;
    }
    return true;
}

static void rx_piece(struct udmon_chan *chan, uint64_t seq, const struct udmon_piece *piece,
                     const void *data)
{
    uint32_t total = le32toh(piece->total), offset = le32toh(piece->offset);
    uint16_t length = le16toh(piece->length);
    struct udmon_assembly *assembly;

    if (length == total) {
        rx_record(chan, seq, data, length);
        return;
    }
    assembly = rx_assembly(chan, seq, total);
    if ((assembly == NULL) || !rx_range_add(assembly, offset, offset + length)) {
        return;
    }
    memcpy(assembly->bytes + offset, data, length);
    assembly->missing -= length;
    if (assembly->missing == 0) {
        rx_record(chan, seq, assembly->bytes, total);
        rx_assembly_end(assembly);
    }
}

/* Whether a piece lies within a record of allowed length. */
static bool rx_piece_sane(const struct udmon_chan *chan, const struct udmon_piece *piece,
                          size_t behind)
{
    uint32_t total = le32toh(piece->total), offset = le32toh(piece->offset);
    uint16_t length = le16toh(piece->length);

    return (length > 0) && (length <= behind) && (total <= chan->max_record) && (offset < total) &&
           (length <= (total - offset));
}

static int rx_pieces(struct udmon_chan *chan, const struct udmon_dgram *dgram, size_t length)
{
    const uint8_t *at = (const uint8_t *)(dgram + 1), *end = (const uint8_t *)dgram + length;
    unsigned i, count = le16toh(dgram->count);
    uint64_t seq = le64toh(dgram->seq);
    struct udmon_piece piece;

    for (i = 0; i < count; ++i) { /* as in rx_data */
        if ((size_t)(end - at) < sizeof(piece)) {
            return -EPROTO;
        }
        memcpy(&piece, at, sizeof(piece));
        at += sizeof(piece);
        if (!rx_piece_sane(chan, &piece, end - at)) {
            return -EPROTO;
        }
        at += le16toh(piece.length);
    }
    if ((at != end) || (count == 0) || (seq > (UINT64_MAX - count))) {
        return -EPROTO;
    }
    at = (const uint8_t *)(dgram + 1);
    for (i = 0; i < count; ++i) {
        memcpy(&piece, at, sizeof(piece));
        rx_piece(chan, seq + i, &piece, at + sizeof(piece));
        at += sizeof(piece) + le16toh(piece.length);
    }
    return UDMON_PIECES;
}

/* The peer reports the number of records that it has sent. So losses at the end are known, too. */
static void rx_sent_before(struct udmon_chan *chan, uint64_t before)
{
    uint64_t gap = seqwin_advance(&chan->win, before);

    if (gap > 0) {
        chan->ops->gap(chan->arg, before - gap, gap);
    }
}

static int rx_ping(struct udmon_chan *chan, const struct udmon_dgram *dgram, size_t length)
{
    const struct udmon_ping *ping = (const void *)(dgram + 1);

    if (length != (sizeof(*dgram) + sizeof(*ping))) {
        return -EPROTO;
    }
    rx_sent_before(chan, le64toh(dgram->seq));
    chan->stats.peer_received = le64toh(ping->received);
    chan->stats.peer_lost = le64toh(ping->lost);
    if (dgram->clock_s != 0) { /* the difference of 32 bits is right beyond 2106, too */
        chan->stats.peer_clock_s = (int32_t)(le32toh(dgram->clock_s) - (uint32_t)time(NULL));
    }
    if ((dgram->type == UDMON_PONG) && (ping->time_ns != 0)) {
        chan->stats.rtt_ns = udmon_now_ns() - le64toh(ping->time_ns);
    }
    return dgram->type;
}

int udmon_chan_receive(struct udmon_chan *chan, const void *data, size_t length)
{
    const struct udmon_dgram *dgram = data;
    int ret = -EPROTO;

    if ((length < sizeof(*dgram)) || (dgram->version != UDMON_VERSION)) {
        ++chan->stats.malformed;
        return -EPROTO;
    }
    ++chan->stats.datagrams_received;
    switch (dgram->type) {
    case UDMON_DATA:
        ret = rx_data(chan, dgram, length);
        break;
    case UDMON_PIECES:
        ret = rx_pieces(chan, dgram, length);
        break;
    case UDMON_PING:
    case UDMON_PONG:
        ret = rx_ping(chan, dgram, length);
        break;
    case UDMON_BYE:
        if (length == sizeof(*dgram)) {
            rx_sent_before(chan, le64toh(dgram->seq));
            ret = UDMON_BYE;
        }
        break;
    default:
        break;
    }
    chan->stats.malformed += (ret < 0);
    return ret;
}
