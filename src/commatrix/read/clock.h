/*
 * The clocks of capture files. Two files that have packets in common show how much the clocks of
 * their hosts differ.
 */
#ifndef CM_CLOCK_H
#define CM_CLOCK_H

#include "file.h"

/* The result of a first pass over a file. */
struct cm_look;

struct cm_clock {
    int64_t ahead_ns; /* of the first file's clock */
    uint32_t common;  /* packets that the file shares with other files */
    bool corrected;   /* false: the common packets do not agree, or differ by too much */
};

/** `keys`: remember packets, to compare files. Otherwise only the earliest time is found. */
struct cm_look *cm_look_new(bool keys);

/** Takes a frame into account. */
void cm_look_add(struct cm_look *look, const struct cm_frame *frame);

/** The earliest time of all frames; UINT64_MAX: there was no frame. */
uint64_t cm_look_earliest(const struct cm_look *look);

/** Compares the clocks of the files. */
void cm_clocks_compare(struct cm_look *const *looks, struct cm_clock *clocks, int num);

void cm_look_free(struct cm_look *look);

#endif
