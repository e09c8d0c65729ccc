/*
 * Phases: an application computes, then it communicates. A burst is a run of bins with traffic; a
 * pause of at least a 25th part of the time ends a phase.
 */
#include "matrix.h"

enum { QUIET_SHARE = 50, PAUSE_SHARE = 25 };

static bool is_quiet(const struct cm_activity *activity, int bin, uint64_t threshold)
{
    return activity->bytes[bin] <= threshold;
}

GArray *cm_phases_find(const struct cm_activity *activity, uint64_t offset_ns)
{
    GArray *phases = g_array_new(FALSE, FALSE, sizeof(struct cm_phase));
    struct cm_phase *phase = NULL;
    uint64_t total = 0, busy = 0, threshold;
    int bin, last = 0, pause, quiet = 0;

    for (bin = 0; bin < CM_ACTIVITY_BINS; bin++) {
        total += activity->bytes[bin];
        busy += activity->bytes[bin] != 0;
        last = activity->bytes[bin] != 0 ? bin : last;
    }
    threshold = busy > 0 ? total / busy / QUIET_SHARE : 0;
    pause = MAX(last / PAUSE_SHARE, 2);
    for (bin = 0; bin <= last; bin++) {
        if (is_quiet(activity, bin, threshold)) {
            quiet++;
            continue;
        }
        if (phase == NULL || quiet >= pause) {
            struct cm_phase fresh = {.begin_ns = offset_ns + (uint64_t)bin * activity->width_ns};

            g_array_append_val(phases, fresh);
            phase = &g_array_index(phases, struct cm_phase, phases->len - 1);
        }
        quiet = 0;
        phase->end_ns = offset_ns + (uint64_t)(bin + 1) * activity->width_ns;
        phase->bytes += activity->bytes[bin];
        phase->packets += activity->packets[bin];
    }
    return phases;
}
