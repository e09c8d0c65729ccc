/* Incoming datagrams of a peer that has authenticated itself, and is still not believed a word. */
#include "chan.h"
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Note record `seq` and deliver it, unless it has come before. */
static void rx_record(udmon_chan_t *chan, uint64_t seq, const void *data, size_t length)
{
    udmon_message_t message = {.data = data, .length = length, .seq = seq};
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

static int rx_data(udmon_chan_t *chan, const udmon_dgram_t *dgram, size_t length)
{
    const uint8_t *at = (const uint8_t *)(dgram + 1), *end = (const uint8_t *)dgram + length;
    unsigned i, count = le16toh(dgram->count);
    uint64_t seq = le64toh(dgram->seq);
    udmon_record_t record;

    /* First look whether all of it makes sense, then believe it. */
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

static void rx_assembly_free(udmon_assembly_t *assembly)
{
    free(assembly->bytes);
    free(assembly->have);
    memset(assembly, 0, sizeof(*assembly));
}

void udmon_chan_forget_assemblies(udmon_chan_t *chan)
{
    size_t i;

    for (i = 0; i < UDMON_ASSEMBLIES; ++i) {
        chan->stats.incomplete += (chan->assemblies[i].bytes != NULL);
        rx_assembly_free(&chan->assemblies[i]);
    }
}

/* The assembly of a record; a new one takes the place of the oldest, whose record is given up. */
static udmon_assembly_t *rx_assembly(udmon_chan_t *chan, uint64_t seq, uint32_t total,
                                     uint32_t part)
{
    udmon_assembly_t *assembly, *place = &chan->assemblies[0];
    uint32_t parts = (total + part - 1) / part;
    size_t i;

    for (i = 0; i < UDMON_ASSEMBLIES; ++i) {
        assembly = &chan->assemblies[i];
        if ((assembly->bytes != NULL) && (assembly->seq == seq)) {
            return ((assembly->total == total) && (assembly->part == part)) ? assembly : NULL;
        }
        if ((place->bytes != NULL) && ((assembly->bytes == NULL) || (assembly->seq < place->seq))) {
            place = assembly;
        }
    }
    if (place->bytes != NULL) {
        if (place->seq > seq) {
            return NULL; /* a straggler of one given up already */
        }
        ++chan->stats.incomplete;
        rx_assembly_free(place);
    }
    place->bytes = malloc(total);
    place->have = calloc(parts, 1);
    if ((place->bytes == NULL) || (place->have == NULL)) {
        rx_assembly_free(place);
        return NULL;
    }
    place->seq = seq;
    place->total = total;
    place->part = part;
    place->missing = parts;
    return place;
}

static int rx_fragment(udmon_chan_t *chan, const udmon_dgram_t *dgram, size_t length)
{
    const udmon_fragment_t *fragment = (const void *)(dgram + 1);
    uint32_t total = le32toh(dgram->extra), part = le16toh(dgram->count), offset, expected;
    size_t bytes = length - sizeof(*dgram) - sizeof(*fragment);
    udmon_assembly_t *assembly;

    if ((length < (sizeof(*dgram) + sizeof(*fragment))) || (part == 0) || (total == 0) ||
        (total > chan->max_record) || (le64toh(dgram->seq) == UINT64_MAX)) {
        return -EPROTO;
    }
    offset = le32toh(fragment->offset);
    if ((offset >= total) || (offset % part)) {
        return -EPROTO;
    }
    expected = ((total - offset) < part) ? (total - offset) : part;
    if (bytes != expected) {
        return -EPROTO;
    }
    assembly = rx_assembly(chan, le64toh(dgram->seq), total, part);
    if ((assembly == NULL) || assembly->have[offset / part]) {
        return UDMON_FRAGMENT;
    }
    memcpy(assembly->bytes + offset, fragment + 1, bytes);
    assembly->have[offset / part] = 1;
    if (--assembly->missing == 0) {
        rx_record(chan, assembly->seq, assembly->bytes, total);
        rx_assembly_free(assembly);
    }
    return UDMON_FRAGMENT;
}

/* The peer says what it has sent so far, so that losses at the end are known too. */
static void rx_sent_before(udmon_chan_t *chan, uint64_t before)
{
    uint64_t gap = seqwin_advance(&chan->win, before);

    if (gap > 0) {
        chan->ops->gap(chan->arg, before - gap, gap);
    }
}

static int rx_ping(udmon_chan_t *chan, const udmon_dgram_t *dgram, size_t length)
{
    const udmon_ping_t *ping = (const void *)(dgram + 1);

    if (length != (sizeof(*dgram) + sizeof(*ping))) {
        return -EPROTO;
    }
    rx_sent_before(chan, le64toh(dgram->seq));
    chan->stats.peer_received = le64toh(ping->received);
    chan->stats.peer_lost = le64toh(ping->lost);
    if (dgram->type == UDMON_PONG) {
        chan->stats.rtt_ns = udmon_now_ns() - le64toh(ping->time_ns);
    }
    return dgram->type;
}

int udmon_chan_receive(udmon_chan_t *chan, const void *data, size_t length)
{
    const udmon_dgram_t *dgram = data;
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
    case UDMON_FRAGMENT:
        ret = rx_fragment(chan, dgram, length);
        break;
    case UDMON_RELIABLE_DATA:
        ret = udmon_reliable_receive(chan, dgram, length);
        break;
    case UDMON_ACK:
        ret = udmon_reliable_ack(chan, dgram, length);
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
