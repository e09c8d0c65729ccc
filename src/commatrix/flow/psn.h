/*
 * Packet sequence numbers (PSNs) of one direction of one queue pair.
 *
 * cm_psn_arrive() tells for each packet whether the packet is new, a copy that mirroring made, or a
 * retransmission, and how many packets the capture has lost.
 *
 * A struct cm_psn knows each number between the oldest and the newest number that the capture has:
 * a number is either in the list of gaps, or the capture has its packet. The packet of a number in
 * a gap is never a copy, however late the packet comes. Adaptive routing and packet spraying
 * deliver packets thousands of numbers late.
 *
 * A copy comes within the skew time after its original. A retransmission comes after a timeout or
 * after a NAK. The times of the newest sixteen numbers are known, in groups of four.
 */
#ifndef CM_PSN_H
#define CM_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define CM_PSN_MASK 0xffffffu

enum cm_psn_verdict {
    CM_PSN_NEW,
    CM_PSN_LATE,          /* new; cm_psn_arrive() counted the packet as lost before */
    CM_PSN_DUPLICATE,     /* a copy of a packet of the capture */
    CM_PSN_RETRANSMISSION /* the sender sent the packet again */
};

struct cm_gaps;

struct cm_psn {
    struct cm_gaps *gaps; /* NULL before the first gap */
    uint32_t time[4];     /* microseconds, of the newest number in each group of four */
    uint32_t again_time;
    uint32_t start_time;
    uint32_t arrived;   /* packets since the start */
    uint32_t passed;    /* the next so many numbers may belong to the answer of a read */
    uint32_t next : 24; /* the newest number + 1 */
    uint32_t started : 1;
    uint32_t repeats : 1;
    uint32_t again : 24; /* while `repeats`: the number that the sender repeats next */
    uint32_t acked : 1;  /* the receiver acknowledged a packet */
    uint32_t oldest : 24;
    uint32_t forgets : 1; /* the list of gaps was full: numbers before `oldest` are not known */
    uint32_t origin : 24; /* the first number of the connection */
};

/* What cm_psn_arrive() found out. */
struct cm_psn_result {
    enum cm_psn_verdict verdict;
    uint32_t lost;  /* NEW: so many numbers are missing more than before */
    bool restarted; /* NEW: the number belongs to another connection of the queue pair */
};

/** A packet arrives at `now_us`. `skew_us`: a copy comes within this time. */
struct cm_psn_result cm_psn_arrive(struct cm_psn *psn, uint32_t number, uint32_t now_us,
                                   uint32_t skew_us);

/** The receiver asks for all packets from `number` on once more. */
void cm_psn_nak(struct cm_psn *psn, uint32_t number);

/** The receiver acknowledged a packet. */
void cm_psn_ack(struct cm_psn *psn);

/**
 * The answer of the read request `number` takes up to `count` numbers after it. Returns how many of
 * these numbers were counted as lost before.
 */
uint32_t cm_psn_pass_over(struct cm_psn *psn, uint32_t number, uint32_t count);

/** The next packet starts a new connection. Also frees all memory of `psn`. */
void cm_psn_reset(struct cm_psn *psn);

#endif
