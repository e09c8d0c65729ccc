/* Outgoing records: small ones share a datagram, long ones are sent in parts. */
#include "chan.h"

#include <errno.h>
#include <string.h>

/* Longest record that goes into a datagram as a whole. */
static size_t tx_whole_max(const udmon_chan_t *chan)
{
    return chan->mtu - sizeof(udmon_dgram_t) - sizeof(udmon_record_t);
}

static size_t tx_part_size(const udmon_chan_t *chan)
{
    return chan->mtu - sizeof(udmon_dgram_t) - sizeof(udmon_fragment_t);
}

uint64_t udmon_chan_sent_before(const udmon_chan_t *chan)
{
    return chan->next_seq - chan->queue.count;
}

int udmon_chan_push(udmon_chan_t *chan, const void *data, size_t length)
{
    long dropped;
    int ret;

    if (length > chan->max_record) {
        return -EMSGSIZE;
    }
    if (chan->queue.bytes == NULL) {
        ret = udmon_queue_open(&chan->queue, chan->queue_bytes);
        if (ret < 0) {
            return ret;
        }
    }
    dropped = udmon_queue_push(&chan->queue, data, length);
    if (dropped < 0) {
        return dropped;
    }
    if (dropped > 0) {
        chan->part_done = 0; /* it was the oldest that was under way */
        chan->stats.dropped += dropped;
    }
    ++chan->next_seq;
    ++chan->stats.accepted;
    return 0;
}

typedef struct tx_packing {
    udmon_chan_t *chan;
    size_t packed; /* records, or bytes of a part */
} tx_packing_t;

/* As many whole records as fit, from the oldest on. */
static size_t tx_pack_records(void *buffer, size_t size, void *arg)
{
    tx_packing_t *packing = arg;
    udmon_chan_t *chan = packing->chan;
    udmon_dgram_t *dgram = buffer;
    size_t length, position = chan->queue.head, used = sizeof(*dgram);
    const void *data = udmon_queue_front(&chan->queue, &length);
    udmon_record_t record;

    packing->packed = 0;
    udmon_chan_header(chan, buffer, UDMON_DATA, udmon_chan_sent_before(chan), 0, 0);
    while ((data != NULL) && (length <= (size - used - sizeof(record)))) {
        record.length = htole16(length);
        memcpy((uint8_t *)buffer + used, &record, sizeof(record));
        memcpy((uint8_t *)buffer + used + sizeof(record), data, length);
        used += sizeof(record) + length;
        ++packing->packed;
        if ((size - used) < sizeof(record)) {
            break;
        }
        data = udmon_queue_next(&chan->queue, &position, &length);
    }
    dgram->count = htole16(packing->packed);
    return used;
}

/* The oldest record is `length` bytes long: if it does not fit a batch, it goes alone. */
static int tx_send_records(udmon_chan_t *chan, size_t length)
{
    tx_packing_t packing = {.chan = chan};
    size_t least = sizeof(udmon_dgram_t) + sizeof(udmon_record_t) + length;
    int ret;

    ret = udmon_chan_send(chan, (least > chan->batch) ? least : chan->batch, tx_pack_records,
                          &packing);
    if (ret < 0) {
        return ret;
    }
    chan->stats.sent += packing.packed;
    while (packing.packed-- > 0) {
        udmon_queue_pop(&chan->queue);
    }
    return 0;
}

static size_t tx_pack_part(void *buffer, size_t size, void *arg)
{
    tx_packing_t *packing = arg;
    udmon_chan_t *chan = packing->chan;
    size_t total, part = tx_part_size(chan);
    const uint8_t *data = udmon_queue_front(&chan->queue, &total);
    udmon_fragment_t *fragment;

    (void)size;
    fragment = udmon_chan_header(chan, buffer, UDMON_FRAGMENT, udmon_chan_sent_before(chan), part,
                                 total);
    fragment->offset = htole32(chan->part_done);
    packing->packed = ((total - chan->part_done) < part) ? (total - chan->part_done) : part;
    memcpy(fragment + 1, data + chan->part_done, packing->packed);
    return sizeof(udmon_dgram_t) + sizeof(*fragment) + packing->packed;
}

/* The next part of the oldest record; the last one takes the record off the queue. */
static int tx_send_part(udmon_chan_t *chan, size_t total)
{
    tx_packing_t packing = {.chan = chan};
    int ret;

    ret = udmon_chan_send(chan, chan->mtu, tx_pack_part, &packing);
    if (ret < 0) {
        return ret;
    }
    chan->part_done += packing.packed;
    if (chan->part_done == total) {
        chan->part_done = 0;
        udmon_queue_pop(&chan->queue);
        ++chan->stats.sent;
    }
    return 0;
}

/* Whether what waits fills a datagram. */
static int tx_full(const udmon_chan_t *chan)
{
    return (chan->queue.payload + (chan->queue.count * sizeof(udmon_record_t))) >=
           (chan->batch - sizeof(udmon_dgram_t));
}

int udmon_chan_pump(udmon_chan_t *chan, int all)
{
    size_t length;
    int ret = 0;

    if (chan->mtu == 0) {
        return 0;
    }
    while ((ret == 0) && (udmon_queue_front(&chan->queue, &length) != NULL)) {
        if (length > tx_whole_max(chan)) {
            ret = tx_send_part(chan, length);
        } else if (all || tx_full(chan)) {
            ret = tx_send_records(chan, length);
        } else {
            break;
        }
    }
    return (ret < 0) ? ret : udmon_reliable_pump_ack(chan);
}
