/*
 * The history's thread, and the bounded queue to the thread. The receiving thread never waits.
 * Entries that find a full queue are counted and logged.
 */
#ifndef UDMON_COLLECTOR_WRITER_H
#define UDMON_COLLECTOR_WRITER_H

#include "history.h"

#include <pthread.h>

enum { WRITER_QUEUE = 1 << 18 /* entries, a power of two: 20 s of 13,000 samples a second */ };

enum writer_kind { WRITER_SAMPLE, WRITER_HOST, WRITER_AGENT, WRITER_COMMIT };

struct writer_entry {
    uint64_t kind : 8;
    int64_t number : 56; /* time in ms; records received; next record */
    union {
        struct series *series;
        struct host *host;
        uint64_t agent;
    };
    union {
        double value;
        uint64_t lost;
    };
};

struct writer {
    struct history history;
    pthread_t thread;
    pthread_mutex_t lock; /* of sleeping alone */
    pthread_cond_t wake;
    int woken;
    struct writer_entry *entries;
    uint64_t head, tail; /* atomic, as all below: written by the thread; by the receiver */
    int stopping;
    uint64_t overflowed;                /* samples that the queue did not take */
    uint64_t stored, unstored, commits; /* as of the last commit */
};

/** The history is open. Starts the thread. */
int writer_start(struct writer *writer);
/** Writes waiting entries, commits and ends the thread; then the history may be closed. */
void writer_stop(struct writer *writer);

/** All below: by the receiving thread. Return 0, or -EAGAIN if the queue is full. */
int writer_sample(struct writer *writer, struct series *series, int64_t time_ms, double value);
int writer_host(struct writer *writer, struct host *host);
int writer_agent(struct writer *writer, uint64_t id, uint64_t next);
int writer_commit(struct writer *writer);

/** Entries that wait now. */
size_t writer_waiting(const struct writer *writer);

#endif
