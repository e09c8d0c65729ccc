/*
 * The database of the history: its tables, its statements and its transactions. A transaction
 * begins with the first statement that writes, and lasts until history_commit().
 */
#include "history_inside.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

enum {
    HISTORY_FORM = 2, /* PRAGMA user_version */
    BUSY_SLEEP_MS = 20,
    BUSY_STOPPING = 100 /* sleeps before a closing collector gives a locked database up */
};

static const char schema[] =
    "PRAGMA auto_vacuum = INCREMENTAL;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"
    "CREATE TABLE IF NOT EXISTS host(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,"
    " received INTEGER NOT NULL, lost INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS series(id INTEGER PRIMARY KEY, host INTEGER NOT NULL,"
    " name TEXT NOT NULL, counter INTEGER NOT NULL, UNIQUE(host, name, counter));"
    "CREATE TABLE IF NOT EXISTS agents(id INTEGER PRIMARY KEY, next_seq INTEGER NOT NULL,"
    " seen_ms INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY AUTOINCREMENT, count INTEGER NOT NULL,"
    " data BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS level(name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;"
    /* Hosts that have counted since the last tidying. */
    "CREATE TEMP TABLE counted(host INTEGER PRIMARY KEY);";

static const char *const statements[HISTORY_STATEMENTS] = {
    [HISTORY_SERIES_ADD] = "INSERT OR IGNORE INTO series(host, name, counter) VALUES(?, ?, ?)",
    [HISTORY_SERIES_GET] = "SELECT id FROM series WHERE host = ? AND name = ? AND counter = ?",
    [HISTORY_HOST_ADD] = "INSERT OR IGNORE INTO host(name, received, lost) VALUES(?, 0, 0)",
    [HISTORY_HOST_GET] = "SELECT id FROM host WHERE name = ?",
    [HISTORY_HOST_UPDATE] = "UPDATE host SET received = ?, lost = ? WHERE id = ?",
    [HISTORY_AGENT_PUT] = "INSERT OR REPLACE INTO agents(id, next_seq, seen_ms)"
                          " VALUES(?, ?, ?)",
    [HISTORY_PRUNE_AGENTS] = "DELETE FROM agents WHERE seen_ms < ?",
    [HISTORY_PRUNE_SERIES] =
        "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM chunk WHERE series = series.id)"
        " AND NOT EXISTS (SELECT 1 FROM chunk_1min WHERE series = series.id)"
        " AND NOT EXISTS (SELECT 1 FROM chunk_10min WHERE series = series.id)"
        " AND id NOT IN (SELECT series FROM temp.fresh)",
    [HISTORY_HOST_COUNTED] = "INSERT OR IGNORE INTO counted VALUES(?)",
    /* A relay has counts, and no samples. */
    [HISTORY_PRUNE_HOSTS] = "DELETE FROM host WHERE id NOT IN (SELECT host FROM series)"
                            " AND id NOT IN (SELECT host FROM counted)",
    [HISTORY_PRUNE_COUNTED] = "DELETE FROM counted",
    [HISTORY_FRESH] = "INSERT OR IGNORE INTO temp.fresh VALUES(?)",
    [HISTORY_PRUNE_FRESH] = "DELETE FROM temp.fresh",
    [HISTORY_LOG_ADD] = "INSERT INTO log(id, count, data) VALUES(?, ?, ?)",
    [HISTORY_LOG_PRUNE] = "DELETE FROM log WHERE id < ?",
    [HISTORY_LEVEL_PUT] = "INSERT OR REPLACE INTO level(name, bytes) VALUES(?, ?)",
};

const struct history_level history_levels[HISTORY_LEVELS] = {
    {"chunk", 0, 12, 1800 * 1000},
    {"chunk_1min", 60 * 1000, 3, 12 * 3600 * 1000},
    {"chunk_10min", 600 * 1000, 1, 12 * 3600 * 1000},
};

/* AUTOINCREMENT: a deleted row's number is never used again, so age is order. */
static const char level_schema[] =
    "CREATE TABLE IF NOT EXISTS %1$s(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " series INTEGER NOT NULL, start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL, log INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS %1$s_series ON %1$s(series, start_ms, end_ms);"
    "INSERT OR IGNORE INTO level(name, bytes) VALUES('%1$s', 0);";

static const char *const level_statements[HISTORY_LEVEL_STATEMENTS] = {
    [HISTORY_INSERT] = "INSERT INTO %1$s(series, start_ms, end_ms, count, log, data)"
                       " VALUES(?, ?, ?, ?, ?, ?)",
    [HISTORY_UPDATE] = "UPDATE %1$s SET start_ms = ?2, end_ms = ?3, count = ?4, log = ?5, data = ?6"
                       " WHERE id = ?7 AND series = ?1",
    [HISTORY_NEWEST] = "SELECT max(end_ms) FROM %1$s WHERE series = ? AND start_ms >="
                       " (SELECT max(start_ms) - ? FROM %1$s WHERE series = ?1)",
    [HISTORY_OLDEST] = "SELECT id, end_ms, length(data) FROM %1$s ORDER BY id LIMIT ?",
    [HISTORY_PRUNE_ROWS] = "DELETE FROM %1$s WHERE id <= ?",
};

void history_failed(struct history *history, const char *doing)
{
    history->failed = 1;
    if (!history->broken) {
        udmon_error("history: %s: %s (is the disk full?)", doing, sqlite3_errmsg(history->db));
        history->broken = 1;
    }
}

int history_begin(struct history *history)
{
    if (!sqlite3_get_autocommit(history->db)) {
        return 0;
    }
    if (sqlite3_exec(history->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) {
        history_failed(history, "cannot begin a transaction");
        return -EIO;
    }
    ++history->transaction;
    return 0;
}

/* Bytes of the levels, as of the last commit. */
static void history_read_levels(struct history *history)
{
    sqlite3_stmt *statement;
    const char *name;
    int level;

    if (sqlite3_prepare_v2(history->db, "SELECT name, bytes FROM level", -1, &statement, NULL) !=
        SQLITE_OK) {
        history_failed(history, "cannot read the levels");
        return;
    }
    while (sqlite3_step(statement) == SQLITE_ROW) {
        name = (const char *)sqlite3_column_text(statement, 0);
        for (level = 0; level < HISTORY_LEVELS; ++level) {
            if (!strcmp(name, history_levels[level].table)) {
                history->bytes[level] = sqlite3_column_int64(statement, 1);
            }
        }
    }
    sqlite3_finalize(statement);
}

void history_put_levels(struct history *history)
{
    sqlite3_stmt *put = history->statements[HISTORY_LEVEL_PUT];
    int level;

    for (level = 0; level < HISTORY_LEVELS; ++level) {
        sqlite3_bind_text(put, 1, history_levels[level].table, -1, SQLITE_STATIC);
        sqlite3_bind_int64(put, 2, history->bytes[level]);
        history_run(history, put);
    }
}

/* ---- transactions ---------------------------------------------------------------------------- */

/*
 * Called after a commit that contains the chunk, and after a rollback of the transaction that wrote
 * the chunk.
 */
static void level_written(struct tail_level *open, uint64_t transaction, int committed)
{
    if (committed) {
        open->committed = open->row_count;
        return;
    }
    open->row_count = open->committed;
    if (open->row_of == transaction) {
        open->row = 0;
    }
}

void history_set_dirty(struct history *history, struct series *series, int first)
{
    if (series->tail->dirty_since == 0) {
        series->tail->dirty_since = first ? 1 : history->log_id;
        if (first) {
            STAILQ_INSERT_HEAD(&history->dirty, series, dirty);
        } else {
            STAILQ_INSERT_TAIL(&history->dirty, series, dirty);
        }
        __atomic_fetch_add(&series->queued, 1, __ATOMIC_SEQ_CST);
    }
}

void history_written_end(struct history *history, int committed)
{
    struct series *series;
    int level;

    while ((series = STAILQ_FIRST(&history->written)) != NULL) {
        STAILQ_REMOVE_HEAD(&history->written, written);
        series->is_written = 0;
        for (level = 0; level < HISTORY_LEVELS; ++level) {
            level_written(&series->tail->levels[level], history->transaction, committed);
        }
        if (!committed && (series->tail->levels[0].count > 0)) {
            history_set_dirty(history, series, 1);
        }
        tail_committed(series->tail);
        __atomic_fetch_sub(&series->queued, 1, __ATOMIC_SEQ_CST);
    }
    history->written_samples = 0;
}

void history_set_written(struct history *history, struct series *series)
{
    if (!series->is_written) {
        series->is_written = 1;
        __atomic_fetch_add(&series->queued, 1, __ATOMIC_SEQ_CST);
        STAILQ_INSERT_TAIL(&history->written, series, written);
    }
}

void history_check_transaction(struct history *history)
{
    if (sqlite3_get_autocommit(history->db)) {
        history->unstored += history->written_samples;
        history->stored -= history->written_samples;
        history_written_end(history, 0);
        history_read_levels(history);
        ++history->generation;
    }
}

int history_run(struct history *history, sqlite3_stmt *statement)
{
    int ret;

    if (history_begin(history) < 0) {
        return -EIO;
    }
    ret = sqlite3_step(statement);

    sqlite3_reset(statement);
    if ((ret != SQLITE_DONE) && (ret != SQLITE_ROW)) {
        history_failed(history, "cannot write");
        history_check_transaction(history);
        return -EIO;
    }
    return 0;
}

int history_do(struct history *history, int which)
{
    return history_run(history, history->statements[which]);
}

int64_t history_ask(struct history *history, const char *query)
{
    sqlite3_stmt *statement;
    int64_t number = 0;

    if (sqlite3_prepare_v2(history->db, query, -1, &statement, NULL) == SQLITE_OK) {
        number = (sqlite3_step(statement) == SQLITE_ROW) ? sqlite3_column_int64(statement, 0) : 0;
    }
    sqlite3_finalize(statement);
    return number;
}

int64_t history_get(sqlite3_stmt *statement)
{
    int64_t number =
        (sqlite3_step(statement) == SQLITE_ROW) ? sqlite3_column_int64(statement, 0) : 0;

    sqlite3_reset(statement);
    return number;
}

int history_write(struct history *history, int level, int64_t key, const struct chunk *chunk,
                  uint64_t log, const uint8_t *bytes, size_t length, int64_t *row_p)
{
    sqlite3_stmt *statement =
        history->of_level[level][(*row_p != 0) ? HISTORY_UPDATE : HISTORY_INSERT];

    sqlite3_bind_int64(statement, 1, key);
    sqlite3_bind_int64(statement, 2, chunk->times[0]);
    sqlite3_bind_int64(statement, 3, chunk->times[chunk->count - 1]);
    sqlite3_bind_int(statement, 4, (int)chunk->count);
    sqlite3_bind_int64(statement, 5, (int64_t)log);
    sqlite3_bind_blob(statement, 6, bytes, (int)length, SQLITE_STATIC);
    if (*row_p != 0) {
        sqlite3_bind_int64(statement, 7, *row_p);
    }
    if (history_run(history, statement) < 0) {
        return -EIO;
    }
    if (*row_p == 0) {
        *row_p = sqlite3_last_insert_rowid(history->db);
    } else if (sqlite3_changes(history->db) == 0) { /* forgotten meanwhile */
        *row_p = 0;
        return history_write(history, level, key, chunk, log, bytes, length, row_p);
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A second collector on one file would mix the histories of both. */
static int history_lock(struct history *history, const char *file)
{
    char path[4096];
    int ret = 0;

    snprintf(path, sizeof(path), "%s-lock", file);
    history->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if ((history->lock_fd < 0) || (flock(history->lock_fd, LOCK_EX | LOCK_NB) < 0)) {
        ret = (errno == EWOULDBLOCK) ? -EBUSY : -EIO;
        if (ret == -EBUSY) {
            udmon_error("another collector uses the history %s: name another file by --database",
                        file);
        } else {
            udmon_error("cannot lock history %s by %s: %s", file, path, strerror(errno));
        }
    }
    return ret;
}

static const char *history_fresh_table = "CREATE TEMP TABLE fresh(series INTEGER PRIMARY KEY)";

/* The tables of a level, and its statements. Returns SQLite's status. */
static int history_open_level(struct history *history, int level)
{
    char text[768];
    int i, ret;

    snprintf(text, sizeof(text), level_schema, history_levels[level].table);
    ret = sqlite3_exec(history->db, text, NULL, NULL, NULL);
    for (i = 0; (i < HISTORY_LEVEL_STATEMENTS) && (ret == SQLITE_OK); ++i) {
        snprintf(text, sizeof(text), level_statements[i], history_levels[level].table);
        ret = sqlite3_prepare_v2(history->db, text, -1, &history->of_level[level][i], NULL);
    }
    return ret;
}

static int history_prepare(struct history *history)
{
    int i, ret = sqlite3_exec(history->db, history_fresh_table, NULL, NULL, NULL);

    for (i = 0; (i < HISTORY_LEVELS) && (ret == SQLITE_OK); ++i) {
        ret = history_open_level(history, i);
    }
    for (i = 0; (i < HISTORY_STATEMENTS) && (ret == SQLITE_OK); ++i) {
        ret = sqlite3_prepare_v2(history->db, statements[i], -1, &history->statements[i], NULL);
    }
    return ret;
}

int history_db_open(struct history *history, const char *file)
{
    char *message = NULL;
    int ret = history_lock(history, file);

    if (ret < 0) {
        return ret;
    }
    if (sqlite3_open(file, &history->db) != SQLITE_OK) {
        udmon_error("cannot open history %s: %s", file, sqlite3_errmsg(history->db));
        return -EIO;
    }
    sqlite3_busy_timeout(history->db, 5000);
    if (sqlite3_exec(history->db, schema, NULL, NULL, &message) != SQLITE_OK) {
        udmon_error("%s is no history that can be used: %s", file, message);
        sqlite3_free(message);
        return -EIO;
    }
    if (history_ask(history, "PRAGMA user_version") > HISTORY_FORM) {
        udmon_error("%s is a history of a later version of udmon-collector", file);
        return -EIO;
    }
    if (history_prepare(history) != SQLITE_OK) {
        udmon_error("%s is a history of another form: %s", file, sqlite3_errmsg(history->db));
        return -EIO;
    }
    history_read_levels(history);
    return 0;
}

/* Another process has locked the database: only this thread waits. */
static int history_busy(void *arg, int times)
{
    const struct timespec pause = {.tv_nsec = BUSY_SLEEP_MS * 1000000};
    const struct history *history = arg;

    nanosleep(&pause, NULL);
    return (history->stopping == NULL) || !__atomic_load_n(history->stopping, __ATOMIC_SEQ_CST) ||
           (times < BUSY_STOPPING);
}

void history_db_started(struct history *history)
{
    sqlite3_busy_handler(history->db, history_busy, history);
}
