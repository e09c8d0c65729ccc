/*
 * Packet sequence numbers of one direction of one queue pair: which packets are copies that
 * mirroring made, which the sender sent again, and how many the capture has lost.
 *
 * A packet is known to be a repetition by a window of the last 64 numbers. A copy comes within a
 * short time of the packet that it copies, a retransmission only after a timeout, or after a NAK.
 * Time is kept for each four numbers, of the last sixteen.
 */
#ifndef CM_PSN_H
#define CM_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define CM_PSN_MASK 0xffffffu

enum cm_psn_verdict {
    CM_PSN_NEW,
    CM_PSN_LATE,          /* was counted as lost, and is not any more */
    CM_PSN_DUPLICATE,     /* a copy of a packet that was seen */
    CM_PSN_RETRANSMISSION /* sent again */
};

struct cm_psn {
    uint64_t seen;    /* bit i: number `next` - 1 - i */
    uint32_t time[4]; /* microseconds, of the newest number in each group of four */
    uint32_t again_time;
    uint32_t passed;    /* so many numbers after `next` may be missing: see cm_psn_pass_over() */
    uint32_t next : 24; /* one more than the newest */
    uint32_t started : 1;
    uint32_t repeats : 1;
    uint32_t again : 24; /* the number that the sender repeats next, while `repeats` */
};

/*
 * A packet arrives. `skew_us`: within this time it is a copy. *lost_p is how many numbers before it
 * were not seen (only NEW).
 */
enum cm_psn_verdict cm_psn_arrive(struct cm_psn *psn, uint32_t number, uint32_t now_us,
                                  uint32_t skew_us, uint32_t *lost_p);

/* The receiver asked for all from `number` on once more. */
void cm_psn_nak(struct cm_psn *psn, uint32_t number);

/* Up to `count` of the next numbers belong to the answer of a read: not seeing them is no loss. */
void cm_psn_pass_over(struct cm_psn *psn, uint32_t count);

#endif
