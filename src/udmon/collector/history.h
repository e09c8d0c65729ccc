/*
 * History in an SQLite database, bounded in age and in rows. It has levels: samples as they came,
 * and one for each 10 s, minute and 10 minutes (the mean of a gauge, the last value of a counter).
 * Each level has its share of the rows, so the coarser ones reach further back. Samples are written
 * within one transaction, committed together with what was received and lost until then: after a
 * crash the counts fit the samples that are there. Used by one thread (writer.h), but for
 * history_open and history_load before that thread begins.
 */
#ifndef UDMON_COLLECTOR_HISTORY_H
#define UDMON_COLLECTOR_HISTORY_H

#include "store.h"

#include <sqlite3.h>

enum {
    HISTORY_SERIES_ADD,
    HISTORY_SERIES_GET,
    HISTORY_HOST_ADD,
    HISTORY_HOST_GET,
    HISTORY_HOST_UPDATE,
    HISTORY_AGENT_PUT,
    HISTORY_PRUNE_AGENTS,
    HISTORY_PRUNE_SERIES,
    HISTORY_HOST_COUNTED,
    HISTORY_PRUNE_HOSTS,
    HISTORY_PRUNE_COUNTED,
    HISTORY_STATEMENTS
};

/* Of each level. */
enum {
    HISTORY_INSERT,
    HISTORY_OLDEST,
    HISTORY_PRUNE_AGE,
    HISTORY_PRUNE_ROWS,
    HISTORY_LEVEL_STATEMENTS
};

typedef struct history_level {
    const char *table;
    int64_t step_ms; /* 0: samples as they came */
    int share;       /* of the rows: one in so many */
} history_level_t;

extern const history_level_t history_levels[HISTORY_LEVELS];

typedef struct history {
    sqlite3 *db;
    sqlite3_stmt *statements[HISTORY_STATEMENTS];
    sqlite3_stmt *of_level[HISTORY_LEVELS][HISTORY_LEVEL_STATEMENTS];
    uint64_t keep_ms;
    int64_t max_rows;
    uint64_t clock_ms, clock_at_ns; /* the time of day that age is counted by: history_clock */
    uint64_t jumped_at_ns;   /* since when the system's clock says something else, or 0 */
    uint64_t tidied_ns;      /* when unused series were looked for last */
    const int *stopping; /* waiting for a locked database ends */
    uint64_t generation; /* of keys: a lost transaction takes those along that it had made */
    uint64_t pending;    /* samples of the current transaction */
    uint64_t stored;     /* samples written, also those of the current transaction */
    uint64_t unstored;   /* samples that were lost with a transaction, or could not be written */
    int failed;          /* something in the current transaction */
    int broken;          /* the disk is full or gone; said once */
} history_t;

/*
 * -EIO, or -EDOM if `promised` and the rows cannot last for `keep_seconds` for the series there
 * were; both with a message. `file` is made if it is not there.
 */
int history_open(history_t *history, const char *file, uint64_t keep_seconds, int64_t max_rows,
                 int promised);
void history_close(history_t *history);

/* Hosts with their counts, as they were at the last commit. */
void history_load(history_t *history, store_t *store);

/* Call `each` for the agents that were here: number of the next record expected of them. */
void history_agents(history_t *history, void (*each)(uint64_t id, uint64_t next, void *arg),
                    void *arg);

/* Write into the current transaction. What cannot be written is counted in `unstored`. */
void history_add(history_t *history, series_t *series, int64_t time_ms, double value);
/* Write what has been gathered of the current steps of a series: before the program ends. */
void history_finish(history_t *history, series_t *series);
void history_host(history_t *history, host_t *host, uint64_t received, uint64_t lost);
void history_agent(history_t *history, uint64_t id, uint64_t next);

/* Forget some of what is too old, and make all permanent. */
void history_commit(history_t *history);

#endif
