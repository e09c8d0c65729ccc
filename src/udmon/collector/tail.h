/*
 * The newest part of a series' history: samples and steps that are not in a full chunk yet, and
 * chunks whose transaction is not over. The history's thread changes it, with the lock held; other
 * threads read it with the lock held (tail_read).
 */
#ifndef UDMON_COLLECTOR_TAIL_H
#define UDMON_COLLECTOR_TAIL_H

#include "../lib/base/chunk.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum { TAIL_LEVELS = 3 };

/* A chunk that was written, and is not committed. */
struct tail_chunk {
    STAILQ_ENTRY(tail_chunk) list;
    int level;
    size_t length;
    uint8_t bytes[];
};

struct tail_level {
    void *entries;
    unsigned count, size;
    int64_t begin_ms; /* of the first entry */
    int64_t row;      /* the row that has a part of these entries already, or 0 */
    uint64_t row_of;  /* the transaction that has made it */
    size_t row_bytes; /* length of the row's data; number of its entries: */
    unsigned row_count;
    unsigned committed; /* entries that it had at the last commit */
};

/* A step of a coarse level, while it lasts. */
struct tail_step {
    int64_t number;  /* of the step since 1970 */
    int64_t time_ms; /* of the last sample in it */
    double sum, last, least, most;
    uint32_t count, ranged; /* number of samples; number of samples in `least` and `most` */
};

struct tail {
    struct tail_level levels[TAIL_LEVELS];
    struct tail_step steps[TAIL_LEVELS - 1];
    STAILQ_HEAD(, tail_chunk) written;
    int64_t last_ms; /* the last sample, for a counter's rate; 0: none */
    double last;
    uint64_t dirty_since; /* the log's row with the first sample that is in no row yet; 0: none */
};

/** NULL: no memory. */
struct tail *tail_new(void);
void tail_free(struct tail *tail); /* or NULL */

/** All below, but tail_read: by the history's thread. -ENOMEM: the entry is not there. */
int tail_add(struct tail *tail, int level, int64_t time_ms, const double values[CHUNK_COLUMNS]);
/** The entries of a level, sorted. */
void tail_pack(const struct tail *tail, int level, struct chunk *chunk);
/** Forget the entries, which are in a row now. `bytes`: readers have them until tail_committed. */
void tail_clear(struct tail *tail, int level, const uint8_t *bytes, size_t length);
void tail_committed(struct tail *tail);

/**
 * Call `each` for chunks of a level that may not be in the database yet. The order is that of
 * their writing. By any thread.
 */
void tail_read(struct tail *const *tail_p, int level,
               void (*each)(const struct chunk *chunk, void *arg), void *arg);

/** Entries of a chunk of a level, and columns of an entry. */
unsigned tail_full(int level);
unsigned tail_columns(int level);

#endif
