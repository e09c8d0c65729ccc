#include "psn.h"

#include <glib.h>
#include <string.h>

enum {
    MAX_GAP = 1 << 20,    /* a longer jump ahead is a new connection */
    MAX_BEHIND = 1 << 16, /* a longer jump back is a new connection */
    SURE_GAP = 4096,      /* a gap of this length is plausible at any rate */
    MAX_BURST = 16,       /* a longer gap: how much faster than the mean the sender may be */
    NEW_CONNECTION_US = 250000,
    MIN_CONNECTION = 16,
    FIRST_GAPS = 8,
    MANY_GAPS = 1024, /* from here on old gaps of answers are dropped */
    MAX_GAPS = 65536,
    RECENT = 8192
};

/* Numbers whose packets are not in the capture. */
struct gap {
    uint32_t first : 24;
    uint32_t answer : 1; /* numbers that the answer of a read may have taken: no loss */
    uint32_t count;
};

/* In the order of their numbers. */
struct cm_gaps {
    uint32_t len, size;
    struct gap at[];
};

static uint32_t distance(uint32_t from, uint32_t to)
{
    return (to - from) & CM_PSN_MASK;
}

/* How far a number is behind the next one: 1 is the newest. */
static uint32_t behind(const struct cm_psn *psn, uint32_t number)
{
    return distance(number, psn->next);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

static void remove_gap(struct cm_gaps *gaps, uint32_t i)
{
    memmove(&gaps->at[i], &gaps->at[i + 1], (gaps->len - i - 1) * sizeof(gaps->at[0]));
    gaps->len--;
}

/* Drops old gaps of answers. If that is not enough, forgets the older half of all gaps. */
static void compact(struct cm_psn *psn)
{
    struct cm_gaps *gaps = psn->gaps;
    uint32_t kept = 0, i;

    for (i = 0; i < gaps->len; i++) {
        if (!gaps->at[i].answer || behind(psn, gaps->at[i].first) <= RECENT) {
            gaps->at[kept++] = gaps->at[i];
        }
    }
    gaps->len = kept;
    if (kept >= MAX_GAPS) {
        memmove(gaps->at, gaps->at + kept / 2, (kept - kept / 2) * sizeof(gaps->at[0]));
        gaps->len = kept - kept / 2;
        psn->oldest = gaps->at[0].first;
        psn->forgets = true;
    }
}

static void reserve(struct cm_psn *psn)
{
    struct cm_gaps *gaps = psn->gaps;
    uint32_t size = gaps != NULL ? gaps->size : 0;

    if (gaps != NULL && gaps->len == size && size >= MANY_GAPS) {
        compact(psn);
    }
    if (gaps == NULL || gaps->len > size / 2 + size / 4) {
        size = MAX(2 * size, FIRST_GAPS);
        psn->gaps = g_realloc(gaps, sizeof(*gaps) + size * sizeof(gaps->at[0]));
        psn->gaps->len = gaps != NULL ? psn->gaps->len : 0;
        psn->gaps->size = size;
    }
}

/* The last gap that begins at `number` or before; -1: there is none. */
static int64_t find_gap(const struct cm_psn *psn, uint32_t number)
{
    uint32_t low = 0, high = psn->gaps != NULL ? psn->gaps->len : 0, middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (behind(psn, psn->gaps->at[middle].first) >= behind(psn, number)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (int64_t)low - 1;
}

static void insert_gap(struct cm_psn *psn, uint32_t first, uint32_t count, bool answer)
{
    struct cm_gaps *gaps;
    int64_t at;

    if (count == 0) {
        return;
    }
    if (psn->gaps == NULL || psn->gaps->len == psn->gaps->size) {
        reserve(psn);
    }
    gaps = psn->gaps;
    first &= CM_PSN_MASK;
    at = find_gap(psn, first) + 1;
    memmove(&gaps->at[at + 1], &gaps->at[at], (gaps->len - (size_t)at) * sizeof(gaps->at[0]));
    gaps->at[at] = (struct gap){first, answer, count};
    gaps->len++;
}

/* Takes one number out of the gap that has it. Returns false if no gap has the number. */
static bool fill(struct cm_psn *psn, uint32_t number, bool *answer_p)
{
    int64_t i = find_gap(psn, number);
    struct gap *gap, whole;
    uint32_t offset;

    if (i < 0) {
        return false;
    }
    gap = &psn->gaps->at[i];
    offset = distance(gap->first, number);
    if (offset >= gap->count) {
        return false;
    }
    whole = *gap;
    *answer_p = gap->answer;
    gap->count = offset;
    if (offset == 0 && whole.count == 1) {
        remove_gap(psn->gaps, (uint32_t)i);
    } else if (offset == 0) {
        gap->first = (number + 1) & CM_PSN_MASK;
        gap->count = whole.count - 1;
    } else {
        insert_gap(psn, number + 1, whole.count - offset - 1, whole.answer);
    }
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void start(struct cm_psn *psn, uint32_t number, uint32_t now_us)
{
    int i;

    cm_psn_reset(psn);
    psn->started = true;
    psn->next = (number + 1) & CM_PSN_MASK;
    psn->oldest = psn->origin = number & CM_PSN_MASK;
    psn->start_time = now_us;
    psn->arrived = 1;
    for (i = 0; i < 4; i++) {
        psn->time[i] = now_us;
    }
}

static uint32_t newest_time(const struct cm_psn *psn)
{
    return psn->time[(psn->next - 1) >> 2 & 3];
}

/* Microseconds since the packet of a number came, or since an earlier time. */
static uint32_t age(const struct cm_psn *psn, uint32_t number, uint32_t now_us)
{
    uint32_t newest = psn->next - 1;
    uint32_t groups = distance(number & ~3u, newest & ~3u) >> 2;

    /* Older numbers came before the oldest group whose time is known. */
    return now_us - psn->time[groups < 4 ? number >> 2 & 3 : ((newest >> 2) + 1) & 3];
}

/* The sender sends a packet of the capture again, or mirroring made a copy of the packet. */
static enum cm_psn_verdict repeated(struct cm_psn *psn, uint32_t number, uint32_t now_us,
                                    uint32_t skew_us)
{
    bool again;

    if (psn->repeats && distance(psn->again, number) < MAX_BEHIND) {
        again = true; /* the sender goes on with its repetition */
    } else if (psn->repeats) {
        again = now_us - psn->again_time >= skew_us; /* earlier: a copy of a repeated packet */
    } else {
        again = age(psn, number, now_us) >= skew_us;
    }
    if (!again) {
        return CM_PSN_DUPLICATE;
    }
    psn->repeats = true;
    psn->again = (number + 1) & CM_PSN_MASK;
    psn->again_time = now_us;
    if (behind(psn, number) <= 16) {
        psn->time[number >> 2 & 3] = now_us;
    }
    return CM_PSN_RETRANSMISSION;
}

/*
 * Whether the sender can have sent as many packets as a gap has in the time of the gap. The mean
 * rate so far tells how fast the sender is.
 */
static bool is_plausible(const struct cm_psn *psn, uint32_t gap, uint32_t now_us)
{
    uint64_t life = (uint64_t)(newest_time(psn) - psn->start_time) + 1;
    uint64_t pause = (uint64_t)(now_us - newest_time(psn)) + 1;

    return gap <= SURE_GAP || gap <= pause * psn->arrived * MAX_BURST / life;
}

/*
 * Whether a number that came before begins a new connection: the connection's first number comes
 * again after a pause. A sender repeats its first packet only if nothing was acknowledged.
 */
static bool begins_anew(const struct cm_psn *psn, uint32_t number, uint32_t now_us)
{
    int32_t pause = (int32_t)(now_us - newest_time(psn));

    return number == psn->origin && pause >= NEW_CONNECTION_US &&
           (psn->acked || psn->arrived >= MIN_CONNECTION);
}

static uint32_t go_ahead(struct cm_psn *psn, uint32_t number, uint32_t gap, uint32_t now_us)
{
    uint32_t answers = MIN(gap, psn->passed), next = psn->next;

    psn->next = (number + 1) & CM_PSN_MASK;
    insert_gap(psn, next, answers, true);
    insert_gap(psn, next + answers, gap - answers, false);
    psn->time[number >> 2 & 3] = now_us;
    psn->repeats = false;
    psn->passed = 0;
    return gap - answers;
}

/* A number before the oldest one: nothing between them has come yet. */
static uint32_t go_back(struct cm_psn *psn, uint32_t number)
{
    uint32_t gap = distance(number, psn->oldest) - 1;

    insert_gap(psn, number + 1, gap, false);
    psn->oldest = psn->origin = number & CM_PSN_MASK;
    return gap;
}

struct cm_psn_result cm_psn_arrive(struct cm_psn *psn, uint32_t number, uint32_t now_us,
                                   uint32_t skew_us)
{
    uint32_t ahead = distance(psn->next, number), back = behind(psn, number);
    uint32_t known = distance(psn->oldest, psn->next);
    struct cm_psn_result result = {.verdict = CM_PSN_NEW};
    bool is_ahead = ahead <= CM_PSN_MASK / 2, answer = false;

    if (!psn->started) {
        start(psn, number, now_us);
        return result;
    }
    psn->arrived++;
    if (is_ahead && ahead <= MAX_GAP && is_plausible(psn, ahead, now_us)) {
        result.lost = go_ahead(psn, number, ahead, now_us);
    } else if (!is_ahead && back <= known && fill(psn, number, &answer)) {
        result.verdict = answer ? CM_PSN_NEW : CM_PSN_LATE;
    } else if (!is_ahead && back <= known && back <= MAX_BEHIND &&
               !begins_anew(psn, number, now_us)) {
        result.verdict = repeated(psn, number, now_us, skew_us);
    } else if (!is_ahead && back > known && back - known <= MAX_BEHIND) {
        result.lost = psn->forgets ? 0 : go_back(psn, number);
    } else {
        start(psn, number, now_us);
        result.restarted = true;
    }
    return result;
}

void cm_psn_nak(struct cm_psn *psn, uint32_t number)
{
    if (psn->started && behind(psn, number) - 1 < MAX_BEHIND) {
        psn->repeats = true;
        psn->again = number & CM_PSN_MASK;
    }
}

void cm_psn_ack(struct cm_psn *psn)
{
    psn->acked = true;
}

uint32_t cm_psn_pass_over(struct cm_psn *psn, uint32_t number, uint32_t count)
{
    uint32_t found = 0, last, from, end;
    int64_t i;

    if (behind(psn, number) == 1) {
        psn->passed = count;
        return 0;
    }
    /* The request came late: its answer takes numbers that lie in gaps. */
    last = (number + MIN(count, behind(psn, number) - 1)) & CM_PSN_MASK;
    for (i = find_gap(psn, last); i >= 0; i--) {
        struct gap *gap = &psn->gaps->at[i];

        from = distance(number, gap->first);
        if (from > distance(number, last) || from == 0) {
            break;
        }
        end = MIN(from + gap->count, distance(number, last) + 1);
        if (!gap->answer) {
            found += end - from;
            if (end - from == gap->count) {
                gap->answer = true;
            } else {
                uint32_t first = gap->first, rest = gap->count - (end - from);

                gap->first = (first + (end - from)) & CM_PSN_MASK;
                gap->count = rest;
                insert_gap(psn, first, end - from, true);
            }
        }
    }
    return found;
}

void cm_psn_reset(struct cm_psn *psn)
{
    g_free(psn->gaps);
    memset(psn, 0, sizeof(*psn));
}
