/*
 * Limits of one sender. A sender with too many samples harms no other sender. A sender is a node or a
 * relay: the samples of a relay count for the relay and for their node. The receiving thread calls
 * all functions, with the store's lock held.
 */
#ifndef UDMON_COLLECTOR_QUOTA_H
#define UDMON_COLLECTOR_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum quota_kind {
    QUOTA_NODES,   /* of a relay */
    QUOTA_SERIES,  /* in memory */
    QUOTA_SAMPLES, /* a second */
    QUOTA_BYTES,   /* a second */
    QUOTA_HISTORY, /* percent of the samples that all senders store in the history */
    QUOTA_KINDS
};

enum {
    /*
     * Samples that waited in a queue arrive at once. The default queue of a relay holds 2,097,152
     * samples of the smallest size (64 MiB, 32 bytes each), possibly all of one node.
     */
    QUOTA_BURST_S = 120,
    QUOTA_WINDOW_S = 60,   /* of the share of the history */
    QUOTA_HISTORY_PART = 4 /* each sender may store a quarter of its limit of samples in any case */
};

extern const char *const quota_names[QUOTA_KINDS];

struct quota_limits {
    int64_t limits[QUOTA_KINDS];
};

/* Of a sender. */
struct quota {
    double samples, bytes; /* that may still come now */
    double history;        /* samples that may still be stored now */
    uint64_t filled_ns;    /* when; 0: never */
    uint64_t all_bytes;    /* since the start */
    uint64_t all_stored;
    size_t nodes, series; /* of a relay: brought by the relay */
    uint64_t refused[QUOTA_KINDS];
};

/* Of all senders. */
struct quota_total {
    uint64_t window; /* number of the present window */
    uint64_t stored; /* samples for the history in the present window */
    uint64_t before; /* the same in the window before */
};

/** The limits of a node or a relay without options. */
void quota_defaults(struct quota_limits *limits, bool relay);
/** Reads NAME=NUMBER,... ; -EINVAL. */
int quota_parse(struct quota_limits *limits, const char *text);

/** Takes a record. The kind of the exceeded limit, or -1. An excess is counted. */
int quota_take(struct quota *quota, const struct quota_limits *limits, struct quota_total *total,
               size_t bytes, uint64_t now_ns);
/**
 * Whether the sample that was taken may go to the history. An excess is counted. After a true
 * answer, the caller calls quota_stored for all senders of the sample, and adds 1 to total->stored.
 */
bool quota_may_store(struct quota *quota, const struct quota_limits *limits);
void quota_stored(struct quota *quota);
/** Whether a sender that has `present` nodes or series may have one more. An excess is counted. */
bool quota_more(struct quota *quota, const struct quota_limits *limits, enum quota_kind kind,
                size_t present);

#endif
