#include "count.h"

#include "tables.h"

#include <stdlib.h>
#include <string.h>

void cm_counts_add(struct cm_counts *sum, const struct cm_counts *counts)
{
    sum->wire += counts->wire;
    sum->payload += counts->payload;
    sum->packets += counts->packets;
    sum->messages += counts->messages;
    sum->largest = MAX(sum->largest, counts->largest);
    sum->lost += counts->lost;
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

/* The user data and messages of a packet that was not seen before. */
static void count_user_data(struct track *track, const struct cm_packet *packet,
                            struct cm_counts *counts)
{
    uint32_t *open = &track->open[cm_is_answer(packet)];

    counts->payload = packet->payload;
    if (packet->transport > CM_XRC) {
        counts->messages = 1; /* of a vendor's transport: one of each packet is all that is known */
        counts->largest = packet->payload;
        return;
    }
    *open = cm_begins_message(packet->operation) ? packet->payload : *open + packet->payload;
    if (ends_message(packet->operation)) {
        counts->messages = 1;
        counts->largest = *open;
        *open = 0;
    }
    note_path_mtu(track, packet);
}

static void count_activity(struct cm_activity *activity, uint64_t time_ns, uint32_t wire)
{
    int i;

    while (time_ns / activity->width_ns >= CM_ACTIVITY_BINS) {
        for (i = 0; i < CM_ACTIVITY_BINS / 2; i++) {
            activity->bytes[i] = activity->bytes[2 * i] + activity->bytes[2 * i + 1];
            activity->packets[i] = activity->packets[2 * i] + activity->packets[2 * i + 1];
        }
        memset(activity->bytes + CM_ACTIVITY_BINS / 2, 0, sizeof(activity->bytes) / 2);
        memset(activity->packets + CM_ACTIVITY_BINS / 2, 0, sizeof(activity->packets) / 2);
        activity->width_ns *= 2;
    }
    activity->bytes[time_ns / activity->width_ns] += wire;
    activity->packets[time_ns / activity->width_ns]++;
}

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

/* `time_ns` counts from the first packet that was read. */
static void count_window(struct cm_traffic *traffic, struct cm_flow *flow, int64_t time_ns,
                         const struct cm_counts *counts)
{
    int64_t width, number, most = traffic->options.max_windows;
    int32_t window;
    struct cm_window_entry *entry, fresh = {.flow = flow->number};

    while (most != 0 && ABS(time_ns) / (int64_t)traffic->options.window_ns >= most) {
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
    cm_counts_add(&entry->counts, counts);
}

void cm_count(struct cm_traffic *traffic, struct cm_flow *flow, const struct cm_packet *packet,
              bool again)
{
    struct cm_counts counts = {.wire = packet->wire, .packets = 1};
    int64_t time_ns = (int64_t)(packet->time_ns - traffic->first_read_ns);

    if (!again && !packet->cut && !packet->fragment) {
        count_user_data(cm_track_of(traffic, flow), packet, &counts);
    }
    cm_counts_add(&flow->counts, &counts);
    count_activity(&traffic->activity, (uint64_t)MAX(time_ns, 0), packet->wire);
    if (traffic->options.window_ns != 0) {
        count_window(traffic, flow, time_ns, &counts);
    }
}
