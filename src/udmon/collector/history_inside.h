/* Common declarations of the files of the history. */
#ifndef UDMON_COLLECTOR_HISTORY_INSIDE_H
#define UDMON_COLLECTOR_HISTORY_INSIDE_H

#include "history.h"

enum { HISTORY_ROW_BYTES = 44 /* of a chunk's row and its index entry, beside the data */ };

/* history_db.c */

/** Locks and opens the database, and prepares its statements. -EIO, -EBUSY, with a message. */
int history_db_open(struct history *history, const char *file);
/** From now on, waiting for a locked database ends when the collector stops. */
void history_db_started(struct history *history);

/**
 * Reports that the database cannot be written or read. The live view continues. The log gets one
 * message until the database can be written again.
 */
void history_failed(struct history *history, const char *doing);
/** Begins a transaction, if none is active. */
int history_begin(struct history *history);
/** Run a statement that answers nothing, in a transaction. -EIO. */
int history_run(struct history *history, sqlite3_stmt *statement);
/** The same for history->statements[which]. */
int history_do(struct history *history, int which);
/** The number that a query answers, or 0. */
int64_t history_ask(struct history *history, const char *query);
/** The number that a prepared statement answers, or 0. */
int64_t history_get(sqlite3_stmt *statement);
/** Insert a chunk, or update row `*row_p`. Samples in log rows after `log` are not in the chunk. */
int history_write(struct history *history, int level, int64_t key, const struct chunk *chunk,
                  uint64_t log, const uint8_t *bytes, size_t length, int64_t *row_p);
/** Writes the bytes of the levels. */
void history_put_levels(struct history *history);

/** The log has the samples of a series that are not in a full chunk. `first`: the oldest series. */
void history_set_dirty(struct history *history, struct series *series, int first);
/** A chunk of the series was written in this transaction. */
void history_set_written(struct history *history, struct series *series);
/** The transaction is over: readers find its full chunks in the database, or they are lost. */
void history_written_end(struct history *history, int committed);
/**
 * After an error such as a full disk, SQLite may roll back the whole transaction. Then the rows of
 * the transaction are gone: chunks, and rows whose keys are remembered here.
 */
void history_check_transaction(struct history *history);

/* history_restore.c: within a transaction that stays open. -EIO: the database says why. */
int history_convert(struct history *history);
int history_replay(struct history *history);

#endif
