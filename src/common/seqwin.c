#include "seqwin.h"

#include <string.h>

static uint64_t *seqwin_word(struct seqwin *win, uint64_t seq)
{
    return &win->seen[(seq / 64) % SEQWIN_WORDS];
}

static uint64_t seqwin_bit(uint64_t seq)
{
    return UINT64_C(1) << (seq % 64);
}

void seqwin_init(struct seqwin *win, uint64_t next)
{
    memset(win, 0, sizeof(*win));
    win->next = next;
    /* Earlier numbers count as seen, so an earlier datagram is never a late arrival. */
    memset(win->seen, 0xff, sizeof(win->seen));
}

uint64_t seqwin_advance(struct seqwin *win, uint64_t next)
{
    uint64_t gap, seq;

    if (next <= win->next) {
        return 0;
    }
    gap = next - win->next;
    if (gap >= SEQWIN_SIZE) {
        memset(win->seen, 0, sizeof(win->seen));
    } else {
        for (seq = win->next; seq != next; ++seq) {
            *seqwin_word(win, seq) &= ~seqwin_bit(seq);
        }
    }
    win->next = next;
    win->lost += gap;
    return gap;
}

enum seqwin_verdict seqwin_arrive(struct seqwin *win, uint64_t seq, uint64_t *gap_p)
{
    *gap_p = 0;
    if (seq >= win->next) {
        *gap_p = seqwin_advance(win, seq);
        win->next = seq + 1;
        *seqwin_word(win, seq) |= seqwin_bit(seq);
        ++win->received;
        return SEQWIN_NEW;
    }
    if (win->next - seq > SEQWIN_SIZE) {
        ++win->stale;
        return SEQWIN_STALE;
    }
    if (*seqwin_word(win, seq) & seqwin_bit(seq)) {
        ++win->duplicated;
        return SEQWIN_DUPLICATE;
    }
    *seqwin_word(win, seq) |= seqwin_bit(seq);
    --win->lost;
    ++win->received;
    ++win->reordered;
    return SEQWIN_LATE;
}
