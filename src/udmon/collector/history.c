#include "history.h"
#include "../log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char schema[] =
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"
    "CREATE TABLE IF NOT EXISTS host(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,"
    " received INTEGER NOT NULL, lost INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS series(id INTEGER PRIMARY KEY, host INTEGER NOT NULL,"
    " name TEXT NOT NULL, counter INTEGER NOT NULL, UNIQUE(host, name));"
    /* AUTOINCREMENT: a deleted row's number is never used again, so age is order */
    "CREATE TABLE IF NOT EXISTS sample(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " series INTEGER NOT NULL, time_ms INTEGER NOT NULL, value REAL);"
    "CREATE INDEX IF NOT EXISTS sample_series ON sample(series, time_ms);"
    "CREATE INDEX IF NOT EXISTS sample_time ON sample(time_ms);"
    "CREATE TABLE IF NOT EXISTS agent(id INTEGER PRIMARY KEY, next_seq INTEGER NOT NULL);";

static const char *const statements[HISTORY_STATEMENTS] = {
    [HISTORY_INSERT] = "INSERT INTO sample(series, time_ms, value) VALUES(?, ?, ?)",
    [HISTORY_SERIES_ADD] = "INSERT OR IGNORE INTO series(host, name, counter) VALUES(?, ?, ?)",
    [HISTORY_SERIES_GET] = "SELECT id FROM series WHERE host = ? AND name = ?",
    [HISTORY_HOST_ADD] = "INSERT INTO host(name, received, lost) VALUES(?, 0, 0)",
    [HISTORY_HOST_UPDATE] = "UPDATE host SET received = ?, lost = ? WHERE id = ?",
    [HISTORY_AGENT_PUT] = "INSERT OR REPLACE INTO agent(id, next_seq) VALUES(?, ?)",
    [HISTORY_AGENT_GET] = "SELECT next_seq FROM agent WHERE id = ?",
    [HISTORY_PRUNE_AGE] = "DELETE FROM sample WHERE time_ms < ?",
    [HISTORY_PRUNE_ROWS] = "DELETE FROM sample WHERE id <= (SELECT max(id) FROM sample) - ?",
    [HISTORY_QUERY] = "SELECT time_ms, value FROM sample WHERE series ="
                      " (SELECT series.id FROM series JOIN host ON series.host = host.id"
                      "  WHERE host.name = ? AND series.name = ?)"
                      " AND time_ms >= ? ORDER BY time_ms",
};

/* A history that cannot be written must not stop the live view, nor fill the log. */
static void history_failed(history_t *history, const char *doing)
{
    if (!history->broken) {
        udmon_error("history: %s: %s (is the disk full?)", doing, sqlite3_errmsg(history->db));
        history->broken = 1;
    }
}

/* Run a statement that answers nothing. */
static int history_do(history_t *history, int which)
{
    sqlite3_stmt *statement = history->statements[which];
    int ret = sqlite3_step(statement);

    sqlite3_reset(statement);
    if ((ret != SQLITE_DONE) && (ret != SQLITE_ROW)) {
        history_failed(history, "cannot write");
        return -EIO;
    }
    return 0;
}

int history_open(history_t *history, const char *file, uint64_t keep_seconds, int64_t max_rows)
{
    char *message = NULL;
    int i;

    memset(history, 0, sizeof(*history));
    history->keep_ms = keep_seconds * 1000;
    history->max_rows = max_rows;
    if (sqlite3_open(file, &history->db) != SQLITE_OK) {
        udmon_error("cannot open history %s: %s", file, sqlite3_errmsg(history->db));
        goto err;
    }
    sqlite3_busy_timeout(history->db, 200); /* others may read */
    if (sqlite3_exec(history->db, schema, NULL, NULL, &message) != SQLITE_OK) {
        udmon_error("%s is no history that can be used: %s", file, message);
        sqlite3_free(message);
        goto err;
    }
    for (i = 0; i < HISTORY_STATEMENTS; ++i) {
        if (sqlite3_prepare_v2(history->db, statements[i], -1, &history->statements[i], NULL) !=
            SQLITE_OK) {
            udmon_error("%s is a history of another form: %s", file, sqlite3_errmsg(history->db));
            goto err;
        }
    }
    if (sqlite3_exec(history->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) {
        udmon_error("cannot write history %s: %s", file, sqlite3_errmsg(history->db));
        goto err;
    }
    return 0;

err:
    history_close(history);
    return -EIO;
}

void history_close(history_t *history)
{
    int i;

    for (i = 0; i < HISTORY_STATEMENTS; ++i) {
        sqlite3_finalize(history->statements[i]);
    }
    sqlite3_close(history->db);
    history->db = NULL;
}

void history_load(history_t *history, store_t *store)
{
    sqlite3_stmt *statement;
    host_t *host;

    if (sqlite3_prepare_v2(history->db, "SELECT id, name, received, lost FROM host", -1,
                           &statement, NULL) != SQLITE_OK) {
        history_failed(history, "cannot read the hosts");
        return;
    }
    while (sqlite3_step(statement) == SQLITE_ROW) {
        host = store_host(store, (const char *)sqlite3_column_text(statement, 1));
        if (host != NULL) {
            host->key = sqlite3_column_int64(statement, 0);
            host->received = sqlite3_column_int64(statement, 2);
            host->lost = sqlite3_column_int64(statement, 3);
        }
    }
    sqlite3_finalize(statement);
}

static void history_host_key(history_t *history, host_t *host)
{
    sqlite3_stmt *statement = history->statements[HISTORY_HOST_ADD];

    if (host->key == 0) {
        sqlite3_bind_text(statement, 1, host->name, -1, SQLITE_STATIC);
        if (history_do(history, HISTORY_HOST_ADD) == 0) {
            host->key = sqlite3_last_insert_rowid(history->db);
        }
    }
}

static void history_series_key(history_t *history, series_t *series)
{
    sqlite3_stmt *add = history->statements[HISTORY_SERIES_ADD];
    sqlite3_stmt *get = history->statements[HISTORY_SERIES_GET];

    history_host_key(history, series->host);
    sqlite3_bind_int64(add, 1, series->host->key);
    sqlite3_bind_text(add, 2, series->name, -1, SQLITE_STATIC);
    sqlite3_bind_int(add, 3, series->counter);
    if (history_do(history, HISTORY_SERIES_ADD) < 0) {
        return;
    }
    sqlite3_bind_int64(get, 1, series->host->key);
    sqlite3_bind_text(get, 2, series->name, -1, SQLITE_STATIC);
    if (sqlite3_step(get) == SQLITE_ROW) {
        series->key = sqlite3_column_int64(get, 0);
    }
    sqlite3_reset(get);
}

void history_add(history_t *history, series_t *series)
{
    sqlite3_stmt *statement = history->statements[HISTORY_INSERT];

    if (series->key == 0) {
        history_series_key(history, series);
    }
    if (series->key != 0) {
        sqlite3_bind_int64(statement, 1, series->key);
        sqlite3_bind_int64(statement, 2, series->time_ns / 1000000);
        sqlite3_bind_double(statement, 3, series->value);
        history_do(history, HISTORY_INSERT);
    }
}

uint64_t history_next_seq(history_t *history, uint64_t agent)
{
    sqlite3_stmt *statement = history->statements[HISTORY_AGENT_GET];
    uint64_t next = UINT64_MAX;

    sqlite3_bind_int64(statement, 1, agent);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        next = sqlite3_column_int64(statement, 0);
    }
    sqlite3_reset(statement);
    return next;
}

void history_set_next_seq(history_t *history, uint64_t agent, uint64_t next)
{
    sqlite3_stmt *statement = history->statements[HISTORY_AGENT_PUT];

    sqlite3_bind_int64(statement, 1, agent);
    sqlite3_bind_int64(statement, 2, next);
    history_do(history, HISTORY_AGENT_PUT);
}

static void history_prune(history_t *history)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    sqlite3_bind_int64(history->statements[HISTORY_PRUNE_AGE], 1,
                       (((int64_t)now.tv_sec * 1000) - (int64_t)history->keep_ms));
    history_do(history, HISTORY_PRUNE_AGE);
    sqlite3_bind_int64(history->statements[HISTORY_PRUNE_ROWS], 1, history->max_rows);
    history_do(history, HISTORY_PRUNE_ROWS);
}

void history_commit(history_t *history, store_t *store)
{
    sqlite3_stmt *statement = history->statements[HISTORY_HOST_UPDATE];
    host_t *host;

    LIST_FOREACH(host, &store->hosts, list) {
        if (host->changed) {
            history_host_key(history, host);
            sqlite3_bind_int64(statement, 1, host->received);
            sqlite3_bind_int64(statement, 2, host->lost);
            sqlite3_bind_int64(statement, 3, host->key);
            host->changed = (history_do(history, HISTORY_HOST_UPDATE) < 0);
        }
    }
    history_prune(history);
    if ((sqlite3_exec(history->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) &&
        !sqlite3_get_autocommit(history->db)) {
        history_failed(history, "cannot commit"); /* the transaction goes on; tried again */
        return;
    }
    if (sqlite3_exec(history->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) {
        history_failed(history, "cannot begin a transaction");
        return;
    }
    if (history->broken) {
        udmon_warn("history: can be written again");
        history->broken = 0;
    }
}

void history_query(history_t *history, const char *host, const char *series, int64_t since_ms,
                   void (*each)(int64_t time_ms, double value, void *arg), void *arg)
{
    sqlite3_stmt *statement = history->statements[HISTORY_QUERY];

    sqlite3_bind_text(statement, 1, host, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 2, series, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(statement, 3, since_ms);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        each(sqlite3_column_int64(statement, 0), sqlite3_column_double(statement, 1), arg);
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}
