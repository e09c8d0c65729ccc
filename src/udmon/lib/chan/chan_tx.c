/* Outgoing records: small ones share a datagram, long ones are cut to fill datagrams. */
#include "chan.h"

#include <stdbool.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* Longest record that goes into a datagram as a whole. */
static size_t tx_whole_max(const struct udmon_chan *chan)
{
    return chan->mtu - sizeof(struct udmon_dgram) - sizeof(struct udmon_record);
}

/* Room for a piece in a datagram that has nothing else. */
static size_t tx_piece_max(const struct udmon_chan *chan)
{
    return chan->mtu - sizeof(struct udmon_dgram) - sizeof(struct udmon_piece);
}

/* The queue does not own the bytes before tx_keep. */
static int tx_lend(struct udmon_chan *chan, const void *data, size_t length)
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
    dropped = udmon_queue_lend(&chan->queue, data, length);
    if (dropped < 0) {
        return dropped;
    }
    if (dropped > 0) {
        chan->part_done = chan->part_gone = 0; /* the partly sent record was the oldest */
        chan->stats.dropped += dropped;
    }
    ++chan->next_seq;
    ++chan->stats.accepted;
    return 0;
}

/* Copies the unsent part of the newest record. */
static void tx_keep(struct udmon_chan *chan)
{
    size_t gone = 0;

    if ((chan->queue.lent != NULL) && (chan->queue.lent_at == chan->queue.head)) {
        chan->part_gone = gone = chan->part_done;
    }
    udmon_queue_keep(&chan->queue, gone);
}

int udmon_chan_push(struct udmon_chan *chan, const void *data, size_t length)
{
    int ret = tx_lend(chan, data, length);

    if (ret == 0) {
        udmon_queue_keep(&chan->queue, 0);
    }
    return ret;
}

int udmon_chan_push_pump(struct udmon_chan *chan, const void *data, size_t length, int *pumped_p)
{
    int ret = tx_lend(chan, data, length);

    if (ret == 0) {
        *pumped_p = udmon_chan_pump(chan, 0);
        tx_keep(chan);
    }
    return ret;
}

struct tx_packing {
    struct udmon_chan *chan;
    size_t packed;    /* records, to their end */
    size_t part_done; /* bytes of the one after them */
};

/* As many whole records as fit, from the oldest on. */
static size_t tx_pack_records(void *buffer, size_t size, void *arg)
{
    struct tx_packing *packing = arg;
    struct udmon_chan *chan = packing->chan;
    struct udmon_dgram *dgram = buffer;
    size_t length, position = chan->queue.head, used = sizeof(*dgram);
    const void *data = udmon_queue_front(&chan->queue, &length);
    struct udmon_record record;

    packing->packed = 0;
    udmon_chan_header(chan, buffer, UDMON_DATA, udmon_chan_sent_before(chan), 0);
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

/* How many datagrams `length` bytes of one record need, in pieces. */
static size_t tx_datagrams(const struct udmon_chan *chan, size_t length)
{
    size_t most = tx_piece_max(chan);

    return (length + most - 1) / most;
}

/*
 * Returns how much of a record, of which `done` bytes have been sent, goes into `room` bytes. A
 * record starts in a partly filled datagram only if it then needs no more datagrams than it would
 * need alone. Losing one of its datagrams loses the whole record.
 */
static size_t tx_piece(const struct udmon_chan *chan, size_t length, size_t done, size_t room)
{
    if (room <= sizeof(struct udmon_piece)) {
        return 0;
    }
    room -= sizeof(struct udmon_piece);
    if ((length - done) <= room) {
        return length - done;
    }
    if ((done == 0) && ((length <= tx_whole_max(chan)) ||
                        ((1 + tx_datagrams(chan, length - room)) > tx_datagrams(chan, length)))) {
        return 0;
    }
    return room;
}

/* Packs the rest of the oldest record, and as many of the following records as fit. */
static size_t tx_pack_pieces(void *buffer, size_t size, void *arg)
{
    struct tx_packing *packing = arg;
    struct udmon_chan *chan = packing->chan;
    struct udmon_dgram *dgram = buffer;
    size_t position = chan->queue.head, used = sizeof(*dgram), done = chan->part_done;
    size_t length, bytes;
    const uint8_t *data = udmon_queue_front(&chan->queue, &length);
    struct udmon_piece piece;
    unsigned count = 0;

    udmon_chan_header(chan, buffer, UDMON_PIECES, udmon_chan_sent_before(chan), 0);
    packing->packed = 0;
    while ((data != NULL) && ((bytes = tx_piece(chan, length, done, size - used)) > 0)) {
        piece.total = htole32(length);
        piece.offset = htole32(done);
        piece.length = htole16(bytes);
        memcpy((uint8_t *)buffer + used, &piece, sizeof(piece));
        memcpy((uint8_t *)buffer + used + sizeof(piece), data + done, bytes);
        used += sizeof(piece) + bytes;
        done += bytes;
        ++count;
        if (done < length) {
            break;
        }
        ++packing->packed;
        done = 0;
        data = udmon_queue_next(&chan->queue, &position, &length);
    }
    packing->part_done = done;
    dgram->count = htole16(count);
    return used;
}

/* Records that have left to their end leave the queue. */
static int tx_send(struct udmon_chan *chan, size_t size, udmon_pack_fn pack)
{
    struct tx_packing packing = {.chan = chan};
    int ret;

    ret = udmon_chan_send(chan, size, pack, &packing);
    if (ret < 0) {
        return ret;
    }
    chan->stats.sent += packing.packed;
    chan->part_done = packing.part_done;
    while (packing.packed-- > 0) {
        udmon_queue_pop(&chan->queue);
        chan->part_gone = 0;
    }
    return 0;
}

/* The oldest record is `length` bytes long: if it does not fit a batch, it goes alone. */
static int tx_send_records(struct udmon_chan *chan, size_t length)
{
    size_t least = sizeof(struct udmon_dgram) + sizeof(struct udmon_record) + length;

    return tx_send(chan, (least > chan->batch) ? least : chan->batch, tx_pack_records);
}

/* Whether the waiting records fill a datagram of `size`. */
static bool tx_fills(const struct udmon_chan *chan, size_t size, size_t header)
{
    return (chan->queue.payload - chan->part_done + (chan->queue.count * header)) >=
           (size - sizeof(struct udmon_dgram));
}

int udmon_chan_pump(struct udmon_chan *chan, int all)
{
    return udmon_chan_pump_some(chan, all, UINT_MAX);
}

int udmon_chan_pump_some(struct udmon_chan *chan, int all, unsigned most)
{
    size_t length;
    int ret = 0;

    if (chan->mtu == 0) {
        return 0;
    }
    while ((ret == 0) && (most-- > 0) && (udmon_queue_front(&chan->queue, &length) != NULL)) {
        if ((chan->part_done > 0) || (length > tx_whole_max(chan))) {
            if (!all && !tx_fills(chan, chan->mtu, sizeof(struct udmon_piece))) {
                break;
            }
            ret = tx_send(chan, chan->mtu, tx_pack_pieces);
        } else {
            if (!all && !tx_fills(chan, chan->batch, sizeof(struct udmon_record))) {
                break;
            }
            ret = tx_send_records(chan, length);
        }
    }
    return ret;
}
