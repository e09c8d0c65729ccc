#include "psn.h"

/* A jump by more is another connection that has the same number of a queue pair. */
enum { MAX_GAP = 1 << 20, MAX_BEHIND = 1 << 16, WINDOW = 64 };

static uint32_t distance(uint32_t from, uint32_t to)
{
    return (to - from) & CM_PSN_MASK;
}

static void start(struct cm_psn *psn, uint32_t number, uint32_t now_us)
{
    int i;

    psn->next = (number + 1) & CM_PSN_MASK;
    psn->seen = 1;
    psn->started = true;
    psn->repeats = false;
    psn->passed = 0;
    for (i = 0; i < 4; i++) {
        psn->time[i] = now_us;
    }
}

static void go_ahead(struct cm_psn *psn, uint32_t number, uint32_t gap, uint32_t now_us)
{
    psn->seen = gap + 1 >= WINDOW ? 1 : psn->seen << (gap + 1) | 1;
    psn->next = (number + 1) & CM_PSN_MASK;
    psn->time[number >> 2 & 3] = now_us;
    psn->repeats = false;
}

/* Microseconds since a number was seen, or at least so many. */
static uint32_t age(const struct cm_psn *psn, uint32_t number, uint32_t now_us)
{
    uint32_t newest = psn->next - 1;
    uint32_t groups = distance(number & ~3u, newest & ~3u) >> 2;

    /* Of older ones it is known that they were seen before the oldest group of which the time is
     * kept. */
    return now_us - psn->time[groups < 4 ? number >> 2 & 3 : ((newest >> 2) + 1) & 3];
}

static enum cm_psn_verdict repeated(struct cm_psn *psn, uint32_t number, uint32_t now_us,
                                    uint32_t skew_us)
{
    bool again;

    if (psn->repeats && distance(psn->again, number) < MAX_BEHIND) {
        again = true; /* the sender goes on with its repetition */
    } else if (psn->repeats) {
        again = now_us - psn->again_time >= skew_us; /* or a copy of what it has repeated */
    } else {
        again = age(psn, number, now_us) >= skew_us;
    }
    if (!again) {
        return CM_PSN_DUPLICATE;
    }
    psn->repeats = true;
    psn->again = (number + 1) & CM_PSN_MASK;
    psn->again_time = now_us;
    if (distance(number, psn->next) <= 16) {
        psn->time[number >> 2 & 3] = now_us;
    }
    return CM_PSN_RETRANSMISSION;
}

enum cm_psn_verdict cm_psn_arrive(struct cm_psn *psn, uint32_t number, uint32_t now_us,
                                  uint32_t skew_us, uint32_t *lost_p)
{
    uint32_t ahead = distance(psn->next, number);
    uint32_t behind = distance(number, psn->next) - 1;

    *lost_p = 0;
    if (!psn->started || (ahead > MAX_GAP && behind > MAX_BEHIND)) {
        start(psn, number, now_us);
        return CM_PSN_NEW;
    }
    if (ahead <= MAX_GAP) {
        *lost_p = ahead > psn->passed ? ahead - psn->passed : 0;
        psn->passed = 0;
        go_ahead(psn, number, ahead, now_us);
        return CM_PSN_NEW;
    }
    if (behind < WINDOW && !(psn->seen >> behind & 1)) {
        psn->seen |= UINT64_C(1) << behind;
        return CM_PSN_LATE;
    }
    return repeated(psn, number, now_us, skew_us);
}

void cm_psn_nak(struct cm_psn *psn, uint32_t number)
{
    if (psn->started && distance(number, psn->next) - 1 < MAX_BEHIND) {
        psn->repeats = true;
        psn->again = number & CM_PSN_MASK;
    }
}

void cm_psn_pass_over(struct cm_psn *psn, uint32_t count)
{
    psn->passed = count;
}
