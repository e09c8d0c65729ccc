/*
 * History in an SQLite database, bounded in age and in bytes. The history has levels: original
 * samples, and steps of a minute and of 10 minutes. A step of a gauge has the mean, the least and
 * the greatest value. A step of a counter has the last value, and the least and the greatest rate.
 * Each level has a share of the bytes, so a coarse level reaches further back than a fine level.
 *
 * A row of a level is a chunk of one series (chunk.h). The samples of a chunk that is not full are
 * in memory (tail.h) and in the table `log`. A commit writes its samples as one row of the log. So
 * a crash loses only samples since the last commit: the next start makes chunks from the log.
 * Counts of records are committed with the samples that they count.
 *
 * The writer thread (writer.h) calls these functions. history_open and history_load are called
 * before the thread begins. history_read and history_begins may be called by any thread.
 */
#ifndef UDMON_COLLECTOR_HISTORY_H
#define UDMON_COLLECTOR_HISTORY_H

#include "pool.h"
#include "store.h"

#include <sqlite3.h>

enum { HISTORY_LEVELS = TAIL_LEVELS };

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
    HISTORY_FRESH,
    HISTORY_PRUNE_FRESH,
    HISTORY_LOG_ADD,
    HISTORY_LOG_PRUNE,
    HISTORY_LEVEL_PUT,
    HISTORY_STATEMENTS
};

/* Of each level. */
enum {
    HISTORY_INSERT,
    HISTORY_UPDATE,
    HISTORY_NEWEST,
    HISTORY_OLDEST,
    HISTORY_PRUNE_ROWS,
    HISTORY_LEVEL_STATEMENTS
};

struct history_level {
    const char *table;
    int64_t step_ms; /* 0: samples as they came */
    int share;       /* of the bytes, in sixteenths */
    int64_t span_ms; /* a chunk lasts no longer */
};

extern const struct history_level history_levels[HISTORY_LEVELS];

struct history {
    sqlite3 *db;
    int lock_fd; /* of the file that keeps a second collector away */
    sqlite3_stmt *statements[HISTORY_STATEMENTS];
    sqlite3_stmt *of_level[HISTORY_LEVELS][HISTORY_LEVEL_STATEMENTS];
    uint64_t keep_ms;
    int64_t max_bytes;
    int64_t bytes[HISTORY_LEVELS];  /* in the database, as ROW_BYTES and the data's length count */
    uint64_t clock_ms, clock_at_ns; /* the time of day that age is counted by: history_clock */
    uint64_t jumped_at_ns;          /* since when the system's clock says something else, or 0 */
    uint64_t tidied_ns;             /* time of the last search for unused series */
    const int *stopping;            /* waiting for a locked database ends */
    uint64_t generation; /* of keys; changes when a rolled-back transaction has lost keys */
    /* The log's next row: */
    uint8_t *log;
    size_t log_length, log_size;
    uint64_t log_id;
    unsigned log_count;
    int64_t log_ms;                /* the times in it count from here */
    STAILQ_HEAD(, series) dirty;   /* with samples that are only in the log, in its order */
    STAILQ_HEAD(, series) written; /* with chunks of this transaction */
    uint64_t written_samples;      /* of full ones */
    uint64_t transaction;          /* its number */
    uint64_t stored;               /* written samples, including the current transaction */
    uint64_t unstored; /* samples that were lost with a transaction, or could not be written */
    int failed;        /* something in the current transaction */
    int broken;        /* the disk is full or gone; logged once */
};

/**
 * -EIO or, if another collector uses it, -EBUSY, with a message. `file` is made if it is not there;
 * one of an earlier form is converted.
 */
int history_open(struct history *history, const char *file, uint64_t keep_seconds,
                 int64_t max_bytes);
void history_close(struct history *history);

/** Hosts with their counts, as they were at the last commit. */
void history_load(struct history *history, struct store *store);

/** Calls `each` for all known agents, with the number of the next expected record. */
void history_agents(struct history *history, void (*each)(uint64_t id, uint64_t next, void *arg),
                    void *arg);

/** Adds a sample. A sample that cannot be added is counted in `unstored`. */
void history_add(struct history *history, struct series *series, int64_t time_ms, double value);
/** Writes a series' entries in memory, before the program ends. */
void history_finish(struct history *history, struct series *series);
void history_host(struct history *history, struct host *host, uint64_t received, uint64_t lost);
void history_agent(struct history *history, uint64_t id, uint64_t next);

/** Deletes some outdated data, and commits. */
void history_commit(struct history *history);

/* Samples, or steps, in the order of time. */
struct history_point {
    int64_t time_ms;
    double value, least, most; /* NAN if not known */
};

struct history_points {
    struct history_point *points;
    size_t count, size;
};

/**
 * Read a level of a series in [from, until). `key` is that of the table `series`; `series` is
 * of the store, or NULL if the store does not have it. The caller frees points->points. -ENOMEM,
 * -EIO, or -ETIME if the budget (or NULL) is spent.
 */
int history_read(sqlite3 *db, const struct series *series, int64_t key, int level, int64_t from_ms,
                 int64_t until_ms, struct budget *budget, struct history_points *points);

/**
 * The end of the oldest chunk, or INT64_MAX without chunks. Chunks are deleted in the order in which they
 * were written, so the history of all series is complete after this time.
 */
int64_t history_oldest(sqlite3 *db);
/** When a level of a series begins, or INT64_MAX. */
int64_t history_begins(sqlite3 *db, const struct series *series, int64_t key, int level);

#endif
