/*
 * History in an SQLite database, bounded in age and in rows. Samples are written within one
 * transaction, committed together with what was received and lost until then: after a crash the
 * counts fit the samples that are there.
 */
#ifndef UDMON_COLLECTOR_HISTORY_H
#define UDMON_COLLECTOR_HISTORY_H

#include "store.h"

#include <sqlite3.h>

enum {
    HISTORY_INSERT,
    HISTORY_SERIES_ADD,
    HISTORY_SERIES_GET,
    HISTORY_HOST_ADD,
    HISTORY_HOST_UPDATE,
    HISTORY_AGENT_PUT,
    HISTORY_AGENT_GET,
    HISTORY_PRUNE_AGE,
    HISTORY_PRUNE_ROWS,
    HISTORY_QUERY,
    HISTORY_STATEMENTS
};

typedef struct history {
    sqlite3 *db;
    sqlite3_stmt *statements[HISTORY_STATEMENTS];
    uint64_t keep_ms;
    int64_t max_rows;
    int broken; /* the disk is full or gone; said once */
} history_t;

/* -EIO with a message. `file` is made if it is not there. */
int history_open(history_t *history, const char *file, uint64_t keep_seconds, int64_t max_rows);
void history_close(history_t *history);

/* Hosts with their counts, as they were at the last commit. */
void history_load(history_t *history, store_t *store);

/* Remember a sample. */
void history_add(history_t *history, series_t *series);

/* Number of the next record expected of an agent: get UINT64_MAX if unknown, or set. */
uint64_t history_next_seq(history_t *history, uint64_t agent);
void history_set_next_seq(history_t *history, uint64_t agent, uint64_t next);

/* Write the hosts' counts, forget what is too old, make all permanent. */
void history_commit(history_t *history, store_t *store);

/* Call `each` for the samples of a series since a time (ms since 1970), oldest first. */
void history_query(history_t *history, const char *host, const char *series, int64_t since_ms,
                   void (*each)(int64_t time_ms, double value, void *arg), void *arg);

#endif
