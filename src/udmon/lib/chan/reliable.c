/*
 * Reliable messages: a window of copies, sent again until acknowledged, delivered in order. The
 * receiver acknowledges with the next number it expects and a bit for each message beyond it.
 */
#include "chan.h"
#include "../log.h"
#include "../net/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static udmon_reliable_slot_t *reliable_out(udmon_reliable_t *reliable, uint64_t seq)
{
    return &reliable->out[seq % UDMON_WINDOW_MAX];
}

static void reliable_slot_free(udmon_reliable_slot_t *slot)
{
    free(slot->bytes);
    memset(slot, 0, sizeof(*slot));
}

static int reliable_slot_set(udmon_reliable_slot_t *slot, const void *data, size_t length)
{
    slot->bytes = malloc(length + 1); /* never nothing: NULL means "not in use" */
    if (slot->bytes == NULL) {
        return -ENOMEM;
    }
    memcpy(slot->bytes, data, length);
    slot->length = length;
    return 0;
}

typedef struct reliable_packing {
    udmon_chan_t *chan;
    uint64_t seq;
} reliable_packing_t;

/* `extra` is the distance to the oldest unacknowledged: so a new peer learns where we are. */
static size_t reliable_pack(void *buffer, size_t size, void *arg)
{
    const reliable_packing_t *packing = arg;
    udmon_reliable_t *reliable = &packing->chan->reliable;
    udmon_reliable_slot_t *slot = reliable_out(reliable, packing->seq);
    void *at;

    (void)size;
    at = udmon_chan_header(packing->chan, buffer, UDMON_RELIABLE_DATA, packing->seq, 0,
                           packing->seq - reliable->out_first);
    memcpy(at, slot->bytes, slot->length);
    return sizeof(udmon_dgram_t) + slot->length;
}

static int reliable_transmit(udmon_chan_t *chan, uint64_t seq)
{
    udmon_reliable_slot_t *slot = reliable_out(&chan->reliable, seq);
    reliable_packing_t packing = {.chan = chan, .seq = seq};
    uint64_t delay_ms = UDMON_RETRANSMIT_MS;
    int ret;

    ret = udmon_chan_send(chan, sizeof(udmon_dgram_t) + slot->length, reliable_pack, &packing);
    if (ret == 0) {
        delay_ms <<= (slot->tries < 4) ? slot->tries : 4;
        delay_ms = (delay_ms < UDMON_RETRANSMIT_MAX_MS) ? delay_ms : UDMON_RETRANSMIT_MAX_MS;
        chan->stats.retransmitted += (slot->tries > 0);
        ++slot->tries;
        slot->resend_ns = udmon_now_ns() + (delay_ms * 1000000);
    }
    return ret;
}

int udmon_reliable_send(udmon_chan_t *chan, const void *data, size_t length)
{
    udmon_reliable_t *reliable = &chan->reliable;
    size_t limit = (chan->mtu != 0) ? chan->batch : chan->batch_wanted;
    int ret;

    if (length > (limit - sizeof(udmon_dgram_t))) {
        return -EMSGSIZE;
    }
    if ((reliable->out_next - reliable->out_first) >= reliable->window) {
        return -EAGAIN;
    }
    ret = reliable_slot_set(reliable_out(reliable, reliable->out_next), data, length);
    if (ret < 0) {
        return ret;
    }
    ++chan->stats.reliable_sent;
    reliable_transmit(chan, reliable->out_next++); /* if not now, the tick does it */
    return 0;
}

unsigned udmon_reliable_tick(udmon_chan_t *chan)
{
    udmon_reliable_t *reliable = &chan->reliable;
    uint64_t seq, now = udmon_now_ns();
    udmon_reliable_slot_t *slot;

    if ((chan->mtu == 0) || (reliable->out_first == reliable->out_next)) {
        return 0;
    }
    for (seq = reliable->out_first; seq != reliable->out_next; ++seq) {
        slot = reliable_out(reliable, seq);
        if ((slot->bytes != NULL) && (slot->resend_ns <= now) &&
            (reliable_transmit(chan, seq) < 0)) {
            break;
        }
    }
    return UDMON_RETRANSMIT_MS / 2;
}

static size_t reliable_pack_ack(void *buffer, size_t size, void *arg)
{
    const udmon_chan_t *chan = arg;
    const udmon_reliable_t *reliable = &chan->reliable;
    uint64_t bits = 0;
    udmon_ack_t *ack;
    unsigned i;

    (void)size;
    for (i = 0; i < (UDMON_WINDOW_MAX - 1); ++i) {
        if (reliable->in[(reliable->in_next + 1 + i) % UDMON_WINDOW_MAX].bytes != NULL) {
            bits |= UINT64_C(1) << i;
        }
    }
    ack = udmon_chan_header(chan, buffer, UDMON_ACK, reliable->in_next, 0, 0);
    ack->bits = htole64(bits);
    return sizeof(udmon_dgram_t) + sizeof(*ack);
}

int udmon_reliable_pump_ack(udmon_chan_t *chan)
{
    int ret = 0;

    if (chan->reliable.ack_due) {
        ret = udmon_chan_send(chan, sizeof(udmon_dgram_t) + sizeof(udmon_ack_t), reliable_pack_ack,
                              chan);
        if (ret == 0) {
            chan->reliable.ack_due = 0;
        }
    }
    return ret;
}

static void reliable_deliver(udmon_chan_t *chan, const void *data, size_t length)
{
    udmon_message_t message = {
        .data = data,
        .length = length,
        .seq = chan->reliable.in_next++,
        .reliable = 1,
    };

    ++chan->stats.reliable_received;
    chan->ops->deliver(chan->arg, &message);
}

int udmon_reliable_receive(udmon_chan_t *chan, const udmon_dgram_t *dgram, size_t length)
{
    udmon_reliable_t *reliable = &chan->reliable;
    uint64_t seq = le64toh(dgram->seq), back = le32toh(dgram->extra);
    udmon_reliable_slot_t *slot, early;

    if ((back >= UDMON_WINDOW_MAX) || (back > seq)) {
        return -EPROTO;
    }
    if (!reliable->in_started) {
        reliable->in_started = 1;
        reliable->in_next = seq - back;
    }
    reliable->ack_due = 1;
    if (seq < reliable->in_next) {
        return UDMON_RELIABLE_DATA; /* again: our acknowledgement was lost */
    }
    if ((seq - reliable->in_next) >= UDMON_WINDOW_MAX) {
        return -EPROTO;
    }
    slot = &reliable->in[seq % UDMON_WINDOW_MAX];
    if (seq != reliable->in_next) {
        if (slot->bytes == NULL) {
            /* without memory it is as good as lost: it comes again */
            reliable_slot_set(slot, dgram + 1, length - sizeof(*dgram));
        }
        return UDMON_RELIABLE_DATA;
    }
    reliable_deliver(chan, dgram + 1, length - sizeof(*dgram));
    while (slot = &reliable->in[reliable->in_next % UDMON_WINDOW_MAX], slot->bytes != NULL) {
        early = *slot;
        memset(slot, 0, sizeof(*slot));
        reliable_deliver(chan, early.bytes, early.length);
        free(early.bytes);
    }
    return UDMON_RELIABLE_DATA;
}

int udmon_reliable_ack(udmon_chan_t *chan, const udmon_dgram_t *dgram, size_t length)
{
    const udmon_ack_t *ack = (const void *)(dgram + 1);
    udmon_reliable_t *reliable = &chan->reliable;
    uint64_t seq, bits, next = le64toh(dgram->seq);

    if ((length != (sizeof(*dgram) + sizeof(*ack))) || (next > reliable->out_next)) {
        return -EPROTO;
    }
    bits = le64toh(ack->bits);
    for (seq = reliable->out_first; seq != reliable->out_next; ++seq) {
        if ((seq < next) || ((seq > next) && ((seq - next - 1) < 64) &&
                             (bits & (UINT64_C(1) << (seq - next - 1))))) {
            reliable_slot_free(reliable_out(reliable, seq));
        }
    }
    while ((reliable->out_first != reliable->out_next) &&
           (reliable_out(reliable, reliable->out_first)->bytes == NULL)) {
        ++reliable->out_first;
    }
    return UDMON_ACK;
}

/* A new peer: it has none of what came early, and is owed all that is not acknowledged. */
void udmon_reliable_connect(udmon_chan_t *chan)
{
    udmon_reliable_t *reliable = &chan->reliable;
    size_t i;

    for (i = 0; i < UDMON_WINDOW_MAX; ++i) {
        reliable_slot_free(&reliable->in[i]);
        reliable->out[i].resend_ns = 0;
        reliable->out[i].tries = 0;
        if (reliable->out[i].length > (chan->mtu - sizeof(udmon_dgram_t))) {
            udmon_warn("a reliable message of %zu bytes is too long for the network connected now "
                       "(%zu): dropped", reliable->out[i].length, chan->mtu);
            /* sent empty: its number cannot be left out */
            reliable->out[i].length = 0;
            ++chan->stats.dropped;
        }
    }
    reliable->in_started = 0;
    reliable->ack_due = 0;
}

void udmon_reliable_cleanup(udmon_chan_t *chan)
{
    size_t i;

    for (i = 0; i < UDMON_WINDOW_MAX; ++i) {
        reliable_slot_free(&chan->reliable.in[i]);
        reliable_slot_free(&chan->reliable.out[i]);
    }
}
