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
    CHAN_BATCH_DEFAULT = sizeof(struct udmon_dgram) + 2048 + (8 * sizeof(struct udmon_record)),
    CHAN_DATAGRAM_MAX = UINT16_MAX
};

static size_t chan_min(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

void udmon_chan_init(struct udmon_chan *chan, const struct udmon_options *options,
                     const struct udmon_chan_ops *ops, void *arg)
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

void udmon_chan_cleanup(struct udmon_chan *chan)
{
    udmon_chan_forget_assemblies(chan);
    udmon_queue_close(&chan->queue);
}

int udmon_chan_connect(struct udmon_chan *chan, size_t mtu, uint64_t token, uint64_t first)
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

void udmon_chan_disconnect(struct udmon_chan *chan)
{
    chan->mtu = 0;
}

uint64_t udmon_chan_number(const struct udmon_chan *chan)
{
    return udmon_chan_sent_before(chan) - chan->number_base;
}

uint64_t udmon_chan_renumber(struct udmon_chan *chan, uint64_t number)
{
    uint64_t before = udmon_chan_number(chan);

    chan->number_base = udmon_chan_sent_before(chan) - number;
    return before;
}

/*
 * The window's counts start again with each connection; `stats` keeps the sums of earlier
 * connections.
 */
void udmon_chan_stats(const struct udmon_chan *chan, struct udmon_stats *stats)
{
    *stats = chan->stats;
    stats->received += chan->win.received;
    stats->lost += chan->win.lost;
    stats->duplicated += chan->win.duplicated + chan->win.stale;
    stats->late += chan->win.reordered;
    stats->queued = chan->queue.count;
    stats->peer_next = chan->win.next;
}

void *udmon_chan_header(const struct udmon_chan *chan, void *buffer, uint8_t type, uint64_t seq,
                        uint16_t count)
{
    struct udmon_dgram *dgram = buffer;

    *dgram = (struct udmon_dgram){
        .version = UDMON_VERSION,
        .type = type,
        .count = htole16(count),
        .token = htole64(chan->token),
        .seq = htole64(seq - chan->number_base),
    };
    return dgram + 1;
}

int udmon_chan_send(struct udmon_chan *chan, size_t size, udmon_pack_fn pack, void *arg)
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

struct chan_note {
    const struct udmon_chan *chan;
    uint8_t type;
    union {
        uint64_t time_ns, end;
    };
};

static size_t chan_pack_signal(void *buffer, size_t size, void *arg)
{
    const struct chan_note *note = arg;

    (void)size;
    udmon_chan_header(note->chan, buffer, note->type, note->end, 0);
    return sizeof(struct udmon_dgram);
}

int udmon_chan_signal(struct udmon_chan *chan, uint8_t type, uint64_t end)
{
    struct chan_note note = {.chan = chan, .type = type, .end = end};

    return udmon_chan_send(chan, sizeof(struct udmon_dgram), chan_pack_signal, &note);
}

/* 0 means that the peer does not report its clock. */
static uint32_t chan_clock_s(void)
{
    uint32_t now = (uint32_t)time(NULL);

    return now != 0 ? now : 1;
}

static size_t chan_pack_ping(void *buffer, size_t size, void *arg)
{
    const struct chan_note *note = arg;
    const struct udmon_chan *chan = note->chan;
    struct udmon_ping *ping;

    (void)size;
    ping = udmon_chan_header(chan, buffer, note->type, udmon_chan_sent_before(chan), 0);
    ((struct udmon_dgram *)buffer)->clock_s = htole32(chan_clock_s());
    ping->time_ns = htole64(note->time_ns);
    ping->received = htole64(chan->win.received);
    ping->lost = htole64(chan->win.lost);
    return sizeof(struct udmon_dgram) + sizeof(*ping);
}

int udmon_chan_ping(struct udmon_chan *chan, uint8_t type, uint64_t time_ns)
{
    struct chan_note note = {.chan = chan, .type = type, .time_ns = time_ns};

    return udmon_chan_send(chan, sizeof(struct udmon_dgram) + sizeof(struct udmon_ping),
                           chan_pack_ping, &note);
}
