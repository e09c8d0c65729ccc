#include "chan.h"
#include "../net/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * By default a batch takes 2,048 bytes of records: eight of 256, four of 512, two of 1,024. Larger
 * datagrams are for longer records: fewer parts to lose.
 */
enum {
    CHAN_MTU_MIN = 128,
    CHAN_BATCH_DEFAULT = sizeof(udmon_dgram_t) + 2048 + (8 * sizeof(udmon_record_t)),
    CHAN_DATAGRAM_MAX = UINT16_MAX
};

static size_t chan_min(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

void udmon_chan_init(udmon_chan_t *chan, const udmon_options_t *options,
                     const udmon_chan_ops_t *ops, void *arg)
{
    memset(chan, 0, sizeof(*chan));
    chan->ops = ops;
    chan->arg = arg;
    chan->batch_wanted = options->datagram_size;
    chan->datagram_max = options->datagram_size;
    if (options->datagram_size == 0) {
        chan->batch_wanted = CHAN_BATCH_DEFAULT;
        chan->datagram_max = CHAN_DATAGRAM_MAX;
    }
    chan->max_record = options->max_record;
    chan->queue_bytes = options->queue_bytes;
    chan->stats.peer_clock_s = UDMON_CLOCK_UNKNOWN;
    seqwin_init(&chan->win, 0);
}

void udmon_chan_cleanup(udmon_chan_t *chan)
{
    udmon_chan_forget_assemblies(chan);
    udmon_queue_close(&chan->queue);
}

int udmon_chan_connect(udmon_chan_t *chan, size_t mtu, uint64_t token, uint64_t first)
{
    mtu = chan_min(mtu, chan->datagram_max);
    if (mtu < CHAN_MTU_MIN) {
        return -EMSGSIZE;
    }
    chan->mtu = mtu;
    chan->batch = chan_min(mtu, chan->batch_wanted);
    chan->token = token;
    if (chan->part_gone > 0) {
        udmon_queue_pop(&chan->queue);
        ++chan->stats.dropped;
    }
    chan->part_done = chan->part_gone = 0; /* half of a record is of no use to a new peer */
    udmon_chan_forget_assemblies(chan);
    udmon_chan_stats(chan, &chan->stats);
    seqwin_init(&chan->win, first);
    ++chan->stats.connections;
    return 0;
}

void udmon_chan_disconnect(udmon_chan_t *chan)
{
    chan->mtu = 0;
}

/*
 * The window's counts start again with each connection; `stats` keeps the sums of earlier
 * connections.
 */
void udmon_chan_stats(const udmon_chan_t *chan, udmon_stats_t *stats)
{
    *stats = chan->stats;
    stats->received += chan->win.received;
    stats->lost += chan->win.lost;
    stats->duplicated += chan->win.duplicated + chan->win.stale;
    stats->late += chan->win.reordered;
    stats->queued = chan->queue.count;
    stats->peer_next = chan->win.next;
}

void *udmon_chan_header(const udmon_chan_t *chan, void *buffer, uint8_t type, uint64_t seq,
                        uint16_t count)
{
    udmon_dgram_t *dgram = buffer;

    *dgram = (udmon_dgram_t){
        .version = UDMON_VERSION,
        .type = type,
        .count = htole16(count),
        .token = htole64(chan->token),
        .seq = htole64(seq - chan->number_base),
    };
    return dgram + 1;
}

int udmon_chan_send(udmon_chan_t *chan, size_t size, udmon_pack_t pack, void *arg)
{
    int ret;

    if (chan->mtu == 0) {
        return -ENOTCONN;
    }
    ret = chan->ops->send(chan->arg, size, pack, arg);
    if (ret == 0) {
        ++chan->stats.datagrams_sent;
    }
    return ret;
}

typedef struct chan_note {
    const udmon_chan_t *chan;
    uint8_t type;
    union {
        uint64_t time_ns, end;
    };
} chan_note_t;

static size_t chan_pack_signal(void *buffer, size_t size, void *arg)
{
    const chan_note_t *note = arg;

    (void)size;
    udmon_chan_header(note->chan, buffer, note->type, note->end, 0);
    return sizeof(udmon_dgram_t);
}

int udmon_chan_signal(udmon_chan_t *chan, uint8_t type, uint64_t end)
{
    chan_note_t note = {.chan = chan, .type = type, .end = end};

    return udmon_chan_send(chan, sizeof(udmon_dgram_t), chan_pack_signal, &note);
}

/* 0 means that the peer does not report its clock. */
static uint32_t chan_clock_s(void)
{
    uint32_t now = (uint32_t)time(NULL);

    return now != 0 ? now : 1;
}

static size_t chan_pack_ping(void *buffer, size_t size, void *arg)
{
    const chan_note_t *note = arg;
    const udmon_chan_t *chan = note->chan;
    udmon_ping_t *ping;

    (void)size;
    ping = udmon_chan_header(chan, buffer, note->type, udmon_chan_sent_before(chan), 0);
    ((udmon_dgram_t *)buffer)->clock_s = htole32(chan_clock_s());
    ping->time_ns = htole64(note->time_ns);
    ping->received = htole64(chan->win.received);
    ping->lost = htole64(chan->win.lost);
    return sizeof(udmon_dgram_t) + sizeof(*ping);
}

int udmon_chan_ping(udmon_chan_t *chan, uint8_t type, uint64_t time_ns)
{
    chan_note_t note = {.chan = chan, .type = type, .time_ns = time_ns};

    return udmon_chan_send(chan, sizeof(udmon_dgram_t) + sizeof(udmon_ping_t), chan_pack_ping,
                           &note);
}
