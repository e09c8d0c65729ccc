/*
 * Requests that the receiver has not accepted yet, in a directory with a file for each request. The
 * directory is bounded by bytes and survives a restart. One thread calls these functions.
 */
#ifndef UDMON_COLLECTOR_SPOOL_H
#define UDMON_COLLECTOR_SPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct spool_entry {
    STAILQ_ENTRY(spool_entry) list;
    uint64_t number;
    uint64_t samples;
    size_t length;
};

struct spool {
    char directory[4096];
    uint64_t max_bytes, bytes, samples, next;
    uint64_t dropped; /* samples that were dropped because of lack of room, or could not be
                       * written */
    STAILQ_HEAD(, spool_entry) entries; /* the oldest first */
};

/** Makes the directory, or reads the requests in it. Logs errors. */
int spool_open(struct spool *spool, const char *directory, uint64_t max_bytes);
void spool_close(struct spool *spool);

int spool_is_empty(const struct spool *spool);
/** Append a request. If there is no room, the oldest ones go. */
void spool_put(struct spool *spool, const void *bytes, size_t length, uint64_t samples);
/** The oldest request, of the caller's; NULL: it cannot be read, and was dropped. */
char *spool_oldest(struct spool *spool, size_t *length_p, uint64_t *samples_p);
/** The end of the oldest request is left; the rest was taken. */
void spool_shorten_oldest(struct spool *spool, const void *bytes, size_t length, uint64_t samples);
void spool_remove_oldest(struct spool *spool);

#endif
