/*
 * Sequence window: finds missing, duplicate and late datagrams among the numbered datagrams of a
 * sender.
 *
 * The receiver keeps the next expected number and one bit for each of the SEQWIN_SIZE numbers
 * before it (a ring of bits indexed by number modulo size, as IPsec's anti-replay window). If a
 * larger number arrives, the skipped numbers count as lost until they arrive late.
 */
#ifndef COMMON_SEQWIN_H
#define COMMON_SEQWIN_H

#include <stdint.h>

enum { SEQWIN_WORDS = 16, SEQWIN_SIZE = 64 * SEQWIN_WORDS };

enum seqwin_verdict {
    SEQWIN_NEW,       /* never seen; numbers between this number and the newest count as lost */
    SEQWIN_LATE,      /* fills a hole: it had been counted lost and is not any more */
    SEQWIN_DUPLICATE, /* seen before */
    SEQWIN_STALE      /* too old to decide; a lost number stays lost */
};

struct seqwin {
    uint64_t next; /* the newest number seen, plus one */
    uint64_t seen[SEQWIN_WORDS];
    uint64_t received; /* new and late ones */
    uint64_t lost;     /* missing now: received + lost is the number of sent datagrams */
    uint64_t reordered;
    uint64_t duplicated;
    uint64_t stale;
};

/** Expect `next`; nothing before it counts, neither as seen nor as lost. */
void seqwin_init(struct seqwin *win, uint64_t next);

/** Note the arrival of `seq`. `*gap_p` is how many numbers just became lost (0 unless NEW). */
enum seqwin_verdict seqwin_arrive(struct seqwin *win, uint64_t seq, uint64_t *gap_p);

/**
 * The sender reports that it has sent every number before `next`. Missing numbers at the end are
 * now lost. Returns how many numbers have just become lost.
 */
uint64_t seqwin_advance(struct seqwin *win, uint64_t next);

#endif
