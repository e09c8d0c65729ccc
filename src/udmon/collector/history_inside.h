/* Common declarations of the files of the history. */
#ifndef UDMON_COLLECTOR_HISTORY_INSIDE_H
#define UDMON_COLLECTOR_HISTORY_INSIDE_H

#include "history.h"

enum { HISTORY_ROW_BYTES = 44 /* of a chunk's row and its index entry, beside the data */ };

/* Begins a transaction, if none is active. */
int history_begin(history_t *history);
/* The number that a query answers, or 0. */
int64_t history_ask(history_t *history, const char *query);
/* Insert a chunk, or update row `*row_p`. Samples in log rows after `log` are not in the chunk. */
int history_write(history_t *history, int level, int64_t key, const chunk_t *chunk, uint64_t log,
                  const uint8_t *bytes, size_t length, int64_t *row_p);

/* history_restore.c: within a transaction that stays open. -EIO: the database says why. */
int history_convert(history_t *history);
int history_replay(history_t *history);

#endif
