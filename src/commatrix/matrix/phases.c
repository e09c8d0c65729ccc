/*
 * Phases: an application computes, then it communicates. A phase is a run of bins with traffic. A
 * pause of at least a 25th part of the time ends a phase.
 */
#include "matrix.h"

enum { QUIET_SHARE = 50, PAUSE_SHARE = 25 };

static bool is_quiet(const struct cm_activity_bin *bin, uint64_t threshold)
{
    return bin->bytes <= threshold;
}

/* A phase lasts from its first packet to its last packet, also if other packets lie between. */
static struct cm_phase make_phase(const struct cm_activity *activity, int first, int last,
                                  uint64_t zero_ns)
{
    struct cm_phase phase = {.begin_ns = activity->bins[first].first_ns - zero_ns,
                             .end_ns = activity->bins[last].last_ns + 1 - zero_ns};
    int bin;

    for (bin = first; bin <= last; bin++) {
        phase.bytes += activity->bins[bin].bytes;
        phase.packets += activity->bins[bin].packets;
    }
    return phase;
}

GArray *cm_phases_find(const struct cm_activity *activity, uint64_t zero_ns)
{
    GArray *phases = g_array_new(FALSE, FALSE, sizeof(struct cm_phase));
    uint64_t total = 0, busy = 0, threshold;
    int bin, last = 0, pause, begin = -1, end = -1;
    struct cm_phase phase;

    for (bin = 0; bin < CM_ACTIVITY_BINS; bin++) {
        total += activity->bins[bin].bytes;
        busy += activity->bins[bin].bytes != 0;
        last = activity->bins[bin].bytes != 0 ? bin : last;
    }
    threshold = busy > 0 ? total / busy / QUIET_SHARE : 0;
    pause = MAX(last / PAUSE_SHARE, 2);
    for (bin = 0; bin <= last; bin++) {
        if (is_quiet(&activity->bins[bin], threshold)) {
            continue;
        }
        if (begin >= 0 && bin - end > pause) {
            phase = make_phase(activity, begin, end, zero_ns);
            g_array_append_val(phases, phase);
            begin = -1;
        }
        begin = begin < 0 ? bin : begin;
        end = bin;
    }
    if (begin >= 0) {
        phase = make_phase(activity, begin, end, zero_ns);
        g_array_append_val(phases, phase);
    }
    return phases;
}
