/* Common declarations of the files of the history. */
#ifndef UDMON_COLLECTOR_HISTORY_INSIDE_H
#define UDMON_COLLECTOR_HISTORY_INSIDE_H

#include "history.h"

enum { HISTORY_ROW_BYTES = 44 /* of a chunk's row and its index entry, beside the data */ };

/** Begins a transaction, if none is active. */
int history_begin(struct history *history);
/** The number that a query answers, or 0. */
int64_t history_ask(struct history *history, const char *query);
/** Insert a chunk, or update row `*row_p`. Samples in log rows after `log` are not in the chunk. */
int history_write(struct history *history, int level, int64_t key, const struct chunk *chunk,
                  uint64_t log, const uint8_t *bytes, size_t length, int64_t *row_p);

/** history_restore.c: within a transaction that stays open. -EIO: the database says why. */
int history_convert(struct history *history);
int history_replay(struct history *history);

#endif
