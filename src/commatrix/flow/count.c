#include "count.h"

#include "tables.h"

#include <stdlib.h>
#include <string.h>

void cm_counts_add(struct cm_counts *sum, const struct cm_counts *counts)
{
    int i;

    sum->wire += counts->wire;
    sum->payload += counts->payload;
    sum->packets += counts->packets;
    for (i = 0; i < CM_NUM_MESSAGES; i++) {
        sum->ended[i] += counts->ended[i];
    }
    sum->atomics += counts->atomics;
    sum->largest = MAX(sum->largest, counts->largest);
    sum->lost += counts->lost;
}

void cm_signs_add(struct cm_signs *sum, const struct cm_signs *signs)
{
    int i;

    sum->retransmissions += signs->retransmissions;
    sum->congested += signs->congested;
    sum->cnps += signs->cnps;
    for (i = 0; i < CM_DELAY_BINS; i++) {
        sum->delays[i] += signs->delays[i];
    }
}

struct cm_signs *cm_signs_of(struct cm_flow *flow)
{
    if (flow->signs == NULL) {
        flow->signs = g_new0(struct cm_signs, 1);
    }
    return flow->signs;
}

/* The middle of a bin. */
static uint64_t bin_delay(int bin)
{
    uint64_t octave = UINT64_C(1) << (bin / 4 + CM_DELAY_FIRST_BIT);

    return octave + octave * (uint64_t)(2 * (bin % 4) + 1) / 8;
}

void cm_count_delay(struct cm_flow *flow, uint64_t delay_ns)
{
    int bit, bin = 0;

    if (delay_ns >> CM_DELAY_FIRST_BIT != 0) {
        bit = 63 - __builtin_clzll(delay_ns);
        bin = (bit - CM_DELAY_FIRST_BIT) * 4 + (int)(delay_ns >> (bit - 2) & 3);
    }
    cm_signs_of(flow)->delays[MIN(bin, CM_DELAY_BINS - 1)]++;
}

uint64_t cm_delay_percentile(const struct cm_signs *signs, unsigned percent)
{
    uint64_t total = 0, sum = 0;
    int bin;

    for (bin = 0; bin < CM_DELAY_BINS; bin++) {
        total += signs->delays[bin];
    }
    for (bin = 0; bin < CM_DELAY_BINS && total > 0; bin++) {
        sum += signs->delays[bin];
        if (100 * sum >= percent * total) {
            return bin_delay(bin);
        }
    }
    return 0;
}

bool cm_is_answer(const struct cm_packet *packet)
{
    return packet->operation >= CM_READ_FIRST && packet->operation <= CM_ATOMIC_ACK &&
           packet->transport != CM_UD && packet->transport != CM_UC;
}

bool cm_begins_message(uint8_t operation)
{
    switch (operation) {
    case CM_SEND_FIRST:
    case CM_SEND_ONLY:
    case CM_SEND_ONLY_IMM:
    case CM_SEND_ONLY_INV:
    case CM_WRITE_FIRST:
    case CM_WRITE_ONLY:
    case CM_WRITE_ONLY_IMM:
    case CM_READ_FIRST:
    case CM_READ_ONLY:
    case CM_ATOMIC_WRITE:
        return true;
    default:
        return false;
    }
}

static bool ends_message(uint8_t operation)
{
    switch (operation) {
    case CM_SEND_LAST:
    case CM_SEND_LAST_IMM:
    case CM_SEND_LAST_INV:
    case CM_SEND_ONLY:
    case CM_SEND_ONLY_IMM:
    case CM_SEND_ONLY_INV:
    case CM_WRITE_LAST:
    case CM_WRITE_LAST_IMM:
    case CM_WRITE_ONLY:
    case CM_WRITE_ONLY_IMM:
    case CM_READ_LAST:
    case CM_READ_ONLY:
    case CM_ATOMIC_WRITE:
        return true;
    default:
        return false;
    }
}

static void note_path_mtu(struct track *track, const struct cm_packet *packet)
{
    if (packet->operation == CM_SEND_FIRST || packet->operation == CM_SEND_MIDDLE ||
        packet->operation == CM_WRITE_FIRST || packet->operation == CM_WRITE_MIDDLE ||
        packet->operation == CM_READ_FIRST || packet->operation == CM_READ_MIDDLE) {
        track->path_mtu = packet->payload;
    }
}

static enum cm_message message_kind(uint8_t operation)
{
    if (operation >= CM_READ_FIRST && operation <= CM_READ_ONLY) {
        return CM_MESSAGE_READ;
    }
    return (operation >= CM_WRITE_FIRST && operation <= CM_WRITE_ONLY_IMM) ||
                   operation == CM_ATOMIC_WRITE ?
               CM_MESSAGE_WRITE :
               CM_MESSAGE_SEND;
}

/* The contribution of one packet to the counts of its flow. */
struct addition {
    uint32_t wire, payload;
    bool atomic, ends; /* ends a message */
    enum cm_message kind;
    uint32_t size; /* of that message */
};

static void end_message(struct cm_traffic *traffic, struct addition *addition, enum cm_message kind,
                        uint32_t size)
{
    addition->ends = true;
    addition->kind = kind;
    addition->size = size;
    if (traffic->counting) {
        traffic->sizes[kind][size > 0 ? 32 - __builtin_clz(size) : 0]++;
    }
}

static void add_packet(struct cm_counts *counts, const struct addition *addition)
{
    counts->wire += addition->wire;
    counts->payload += addition->payload;
    counts->packets++;
    counts->atomics += addition->atomic;
    if (addition->ends) {
        counts->ended[addition->kind]++;
        counts->largest = MAX(counts->largest, addition->size);
    }
}

/* The user data and messages of a packet that is new. */
static void count_user_data(struct cm_traffic *traffic, struct track *track,
                            const struct cm_packet *packet, struct addition *addition)
{
    uint32_t *open = &track->open[cm_is_answer(packet)];

    addition->payload = packet->payload;
    if (packet->transport > CM_XRC) {
        /* The operations of a vendor's transport are not known: a packet is a message. */
        end_message(traffic, addition, CM_MESSAGE_SEND, packet->payload);
        return;
    }
    *open = cm_begins_message(packet->operation) ? packet->payload : *open + packet->payload;
    if (ends_message(packet->operation)) {
        end_message(traffic, addition, message_kind(packet->operation), *open);
        *open = 0;
    }
    addition->atomic = packet->operation == CM_COMPARE_SWAP || packet->operation == CM_FETCH_ADD;
    note_path_mtu(track, packet);
}

/* ---- activity: bytes over time --------------------------------------------------------------- */

static void join_bin(struct cm_activity_bin *sum, const struct cm_activity_bin *bin)
{
    if (bin->packets == 0) {
        return;
    }
    sum->first_ns = sum->packets == 0 ? bin->first_ns : MIN(sum->first_ns, bin->first_ns);
    sum->last_ns = MAX(sum->last_ns, bin->last_ns);
    sum->bytes += bin->bytes;
    sum->packets += bin->packets;
}

static void widen_bins(struct cm_activity *activity)
{
    uint64_t base = activity->base;
    struct cm_activity_bin bin;
    int i;

    activity->width_ns *= 2;
    activity->base /= 2;
    for (i = 0; i < CM_ACTIVITY_BINS; i++) {
        bin = activity->bins[i];
        memset(&activity->bins[i], 0, sizeof(bin));
        join_bin(&activity->bins[(base + (uint64_t)i) / 2 - activity->base], &bin);
    }
}

static int last_bin(const struct cm_activity *activity)
{
    int i = CM_ACTIVITY_BINS - 1;

    while (i > 0 && activity->bins[i].packets == 0) {
        i--;
    }
    return i;
}

/* A packet came that is earlier than the first bin: the bins move, or become wider. */
static void move_bins(struct cm_activity *activity, uint64_t time_ns)
{
    uint64_t by;

    while ((by = activity->base - MIN(time_ns / activity->width_ns, activity->base)) > 0) {
        if (by + (uint64_t)last_bin(activity) >= CM_ACTIVITY_BINS) {
            widen_bins(activity);
            continue;
        }
        memmove(activity->bins + by, activity->bins,
                (CM_ACTIVITY_BINS - by) * sizeof(activity->bins[0]));
        memset(activity->bins, 0, by * sizeof(activity->bins[0]));
        activity->base -= by;
    }
}

static void count_activity(struct cm_activity *activity, uint64_t time_ns, uint32_t wire)
{
    struct cm_activity_bin packet = {wire, 1, time_ns, time_ns};
    uint64_t at;

    if (activity->width_ns == 0) {
        activity->width_ns = 1000;
        activity->base = time_ns / activity->width_ns;
    }
    at = time_ns / activity->width_ns;
    if (at < activity->base) {
        move_bins(activity, time_ns);
        at = time_ns / activity->width_ns;
    }
    while (at - activity->base >= CM_ACTIVITY_BINS) {
        widen_bins(activity);
        at = time_ns / activity->width_ns;
    }
    join_bin(&activity->bins[at - activity->base], &packet);
}

/* ---- windows --------------------------------------------------------------------------------- */

enum { MAX_ENTRIES = 1 << 18 }; /* of windows whose width may change: a page holds no more */

static gint compare_entries(gconstpointer a, gconstpointer b)
{
    const struct cm_window_entry *x = a, *y = b;

    if (x->flow != y->flow) {
        return x->flow < y->flow ? -1 : 1;
    }
    return x->window == y->window ? 0 : x->window < y->window ? -1 : 1;
}

/* Join each two windows. The first entry is not used: it stays where it is. */
static void widen_windows(struct cm_traffic *traffic)
{
    struct cm_window_entry *entries = (struct cm_window_entry *)(void *)traffic->windows->data;
    guint n = traffic->windows->len, kept = 0, i;

    traffic->options.window_ns *= 2;
    for (i = 1; i < n; i++) {
        cm_traffic_flow(traffic, entries[i].flow)->window_entry = 0;
        entries[i].window = entries[i].window / 2 - (entries[i].window % 2 < 0);
    }
    qsort(entries + 1, n - 1, sizeof(*entries), compare_entries);
    for (i = 1; i < n; i++) {
        if (kept > 0 && compare_entries(&entries[kept], &entries[i]) == 0) {
            cm_counts_add(&entries[kept].counts, &entries[i].counts);
        } else {
            entries[++kept] = entries[i];
        }
    }
    g_array_set_size(traffic->windows, kept + 1);
}

/* Whether windows whose width may change have to become wider. */
static bool has_many_windows(const struct cm_traffic *traffic, int64_t time_ns)
{
    int64_t number = ABS(time_ns) / (int64_t)traffic->options.window_ns;

    return traffic->options.max_windows != 0 &&
           (number >= traffic->options.max_windows ||
            (number > 0 && traffic->windows->len > MAX_ENTRIES));
}

/* `time_ns` counts from the zero of the capture. */
static void count_window(struct cm_traffic *traffic, struct cm_flow *flow, int64_t time_ns,
                         const struct addition *addition)
{
    int64_t width, number;
    int32_t window;
    struct cm_window_entry *entry, fresh = {.flow = flow->number};

    while (has_many_windows(traffic, time_ns)) {
        widen_windows(traffic);
    }
    width = (int64_t)traffic->options.window_ns;
    number = time_ns / width - (time_ns % width < 0);
    fresh.window = window = (int32_t)CLAMP(number, INT32_MIN, INT32_MAX);
    entry = &g_array_index(traffic->windows, struct cm_window_entry, flow->window_entry);
    if (flow->window_entry == 0 || entry->window != window) {
        flow->window_entry = traffic->windows->len;
        g_array_append_val(traffic->windows, fresh);
        entry = &g_array_index(traffic->windows, struct cm_window_entry, flow->window_entry);
    }
    add_packet(&entry->counts, addition);
}

void cm_count(struct cm_traffic *traffic, struct cm_flow *flow, const struct cm_packet *packet,
              bool again)
{
    struct addition addition = {.wire = packet->wire};

    if (!again && !packet->cut && !packet->fragment) {
        count_user_data(traffic, cm_track_of(traffic, flow), packet, &addition);
    }
    if (!traffic->counting) {
        return;
    }
    if (again) {
        cm_signs_of(flow)->retransmissions++;
    }
    if (packet->congested) {
        cm_signs_of(flow)->congested++;
    }
    add_packet(&flow->counts, &addition);
    count_activity(&traffic->activity, packet->time_ns, packet->wire);
    if (traffic->options.window_ns != 0) {
        count_window(traffic, flow, (int64_t)(packet->time_ns - cm_traffic_zero(traffic)),
                     &addition);
    }
}
