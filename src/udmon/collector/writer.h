/*
 * The history's thread, and the bounded queue to the thread. The receiving thread never waits.
 * Entries that find a full queue are counted and logged.
 */
#ifndef UDMON_COLLECTOR_WRITER_H
#define UDMON_COLLECTOR_WRITER_H

#include "history.h"

#include <pthread.h>

enum { WRITER_QUEUE = 1 << 18 /* entries, a power of two: 20 s of 13,000 samples a second */ };

typedef enum writer_kind { WRITER_SAMPLE, WRITER_HOST, WRITER_AGENT, WRITER_COMMIT } writer_kind_t;

typedef struct writer_entry {
    uint64_t kind : 8;
    int64_t number : 56; /* time in ms; records received; next record */
    union {
        series_t *series;
        host_t *host;
        uint64_t agent;
    };
    union {
        double value;
        uint64_t lost;
    };
} writer_entry_t;

typedef struct writer {
    history_t history;
    pthread_t thread;
    pthread_mutex_t lock; /* of sleeping alone */
    pthread_cond_t wake;
    int woken;
    writer_entry_t *entries;
    uint64_t head, tail; /* atomic, as all below: written by the thread; by the receiver */
    int stopping;
    uint64_t overflowed;                /* samples that the queue did not take */
    uint64_t stored, unstored, commits; /* as of the last commit */
} writer_t;

/* The history is open. Starts the thread. */
int writer_start(writer_t *writer);
/* Writes waiting entries, commits and ends the thread; then the history may be closed. */
void writer_stop(writer_t *writer);

/* All below: by the receiving thread. Return 0, or -EAGAIN if the queue is full. */
int writer_sample(writer_t *writer, series_t *series, int64_t time_ms, double value);
int writer_host(writer_t *writer, host_t *host);
int writer_agent(writer_t *writer, uint64_t id, uint64_t next);
int writer_commit(writer_t *writer);

/* Entries that wait now. */
size_t writer_waiting(const writer_t *writer);

#endif
