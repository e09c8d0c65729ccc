/*
 * Channel: one side of a connection, the same for client and server. Outgoing records are numbered,
 * queued and packed into datagrams (chan_tx.c). Incoming records are checked, reassembled and
 * counted (chan_rx.c). A channel outlives connections: queued records wait for the next connection.
 */
#ifndef UDMON_CHAN_H
#define UDMON_CHAN_H

#include "common/seqwin.h"
#include "queue.h"
#include "../../include/udmon.h"
#include "../base/wire.h"

enum {
    UDMON_ASSEMBLIES = 4, /* cut records being put together at once */
    UDMON_ASSEMBLY_KEEP = 16384,
    UDMON_RANGES = 8 /* separate ranges of a record that may have arrived */
};

/* Functions of the channel's owner. */
struct udmon_chan_ops {
    /* Send a datagram of at most `size` bytes: 0, -EAGAIN, or another error if the path is dead. */
    int (*send)(void *arg, size_t size, udmon_pack_fn pack, void *pack_arg);
    void (*deliver)(void *arg, const struct udmon_message *message);
    void (*gap)(void *arg, uint64_t first, uint64_t count);
};

/* Bytes of a record that have come, [begin, end). */
struct udmon_range {
    uint32_t begin, end;
};

struct udmon_assembly {
    uint8_t *bytes;
    size_t size; /* size of `bytes`; small memory is kept for the next record */
    uint64_t seq;
    uint32_t total;
    uint32_t missing; /* bytes; 0: not in use */
    unsigned range_count;
    struct udmon_range ranges[UDMON_RANGES]; /* ascending, none touches another */
};

struct udmon_chan {
    const struct udmon_chan_ops *ops;
    void *arg;
    size_t batch_wanted; /* size of datagrams that small records share */
    size_t datagram_max; /* longest datagram, even if the network allows more */
    size_t max_record;
    size_t queue_bytes;
    size_t mtu;   /* of the connection; 0: no connection */
    size_t batch; /* of the connection: at most the mtu */
    uint64_t token;
    struct udmon_queue queue;
    uint64_t next_seq;    /* of the next record accepted */
    uint64_t number_base; /* records for other servers; subtracted from numbers on the wire */
    size_t part_done;     /* bytes of the oldest record that were sent in pieces */
    size_t part_gone;     /* part of `part_done` that was removed from the queue */
    struct seqwin win;
    struct udmon_assembly assemblies[UDMON_ASSEMBLIES];
    struct udmon_stats stats;
};

void udmon_chan_init(struct udmon_chan *chan, const struct udmon_options *options,
                     const struct udmon_chan_ops *ops, void *arg);
void udmon_chan_cleanup(struct udmon_chan *chan);

/**
 * A connection is there: datagrams of up to `mtu` if the options do not say less, incoming records
 * numbered from `first`.
 * -EMSGSIZE: datagrams of that size are too small to be of use.
 */
int udmon_chan_connect(struct udmon_chan *chan, size_t mtu, uint64_t token, uint64_t first);
void udmon_chan_disconnect(struct udmon_chan *chan);

void udmon_chan_stats(const struct udmon_chan *chan, struct udmon_stats *stats);

/** Queue a record. -EMSGSIZE, -ENOMEM. */
int udmon_chan_push(struct udmon_chan *chan, const void *data, size_t length);

/**
 * Queues a record and sends full datagrams. Data that goes into a datagram at once is not copied
 * into the queue. *pumped_p is the result of udmon_chan_pump.
 */
int udmon_chan_push_pump(struct udmon_chan *chan, const void *data, size_t length, int *pumped_p);

/** Number of the oldest record not yet sent: all before have been sent or dropped. */
static inline uint64_t udmon_chan_sent_before(const struct udmon_chan *chan)
{
    return chan->next_seq - chan->queue.count;
}

/**
 * Sends full datagrams, and with `all` also a partly filled datagram. 0: nothing is left to send;
 * -EAGAIN: no room now; another error: the path is gone.
 */
int udmon_chan_pump(struct udmon_chan *chan, int all);

/** As udmon_chan_pump(), with at most `most` datagrams. */
int udmon_chan_pump_some(struct udmon_chan *chan, int all, unsigned most);

/** Number of the oldest record not yet sent, as the present server counts. */
uint64_t udmon_chan_number(const struct udmon_chan *chan);

/**
 * Directs unsent records to another server, which counts the first of them as `number`. Call this
 * before telling the server this number. Returns the previous udmon_chan_number.
 */
uint64_t udmon_chan_renumber(struct udmon_chan *chan, uint64_t number);

/**
 * Send a datagram without content (UDMON_BYE); `end`: how many records there were, by our count.
 */
int udmon_chan_signal(struct udmon_chan *chan, uint8_t type, uint64_t end);

/** Send UDMON_PING, or UDMON_PONG with the ping's time, or 0 where there was no ping. */
int udmon_chan_ping(struct udmon_chan *chan, uint8_t type, uint64_t time_ns);

/** Handle a datagram. Returns its type, or -EPROTO if it makes no sense. */
int udmon_chan_receive(struct udmon_chan *chan, const void *data, size_t length);

/** Writes the header of an outgoing datagram; returns the byte after the header. */
void *udmon_chan_header(const struct udmon_chan *chan, void *buffer, uint8_t type, uint64_t seq,
                        uint16_t count);
/** The counting half of ops->send. */
int udmon_chan_send(struct udmon_chan *chan, size_t size, udmon_pack_fn pack, void *arg);

/* chan_rx.c */
void udmon_chan_forget_assemblies(struct udmon_chan *chan);

#endif
