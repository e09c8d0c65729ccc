#include "history.h"
#include "../lib/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    PRUNE_ROWS = 20000,        /* in one commit: forgetting must not keep others waiting */
    BUSY_SLEEP_MS = 20,
    BUSY_STOPPING = 100,       /* sleeps before a closing collector gives a locked database up */
    AGENT_KEEP_DAYS = 90
};
#define CLOCK_JUMP_MS UINT64_C(60000)
#define CLOCK_TRUST_NS UINT64_C(3600000000000)
#define TIDY_NS UINT64_C(600000000000)

static const char schema[] =
    "PRAGMA auto_vacuum = INCREMENTAL;"
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
    "DROP INDEX IF EXISTS sample_time;" /* of earlier versions: rows come in the order of time */
    "CREATE TABLE IF NOT EXISTS agents(id INTEGER PRIMARY KEY, next_seq INTEGER NOT NULL,"
    " seen_ms INTEGER NOT NULL);";

static const char *const statements[HISTORY_STATEMENTS] = {
    [HISTORY_INSERT] = "INSERT INTO sample(series, time_ms, value) VALUES(?, ?, ?)",
    [HISTORY_SERIES_ADD] = "INSERT OR IGNORE INTO series(host, name, counter) VALUES(?, ?, ?)",
    [HISTORY_SERIES_GET] = "SELECT id FROM series WHERE host = ? AND name = ?",
    [HISTORY_HOST_ADD] = "INSERT OR IGNORE INTO host(name, received, lost) VALUES(?, 0, 0)",
    [HISTORY_HOST_GET] = "SELECT id FROM host WHERE name = ?",
    [HISTORY_HOST_UPDATE] = "UPDATE host SET received = ?, lost = ? WHERE id = ?",
    [HISTORY_AGENT_PUT] = "INSERT OR REPLACE INTO agents(id, next_seq, seen_ms)"
                          " VALUES(?, ?, ?)",
    [HISTORY_PRUNE_AGENTS] = "DELETE FROM agents WHERE seen_ms < ?",
    [HISTORY_PRUNE_SERIES] = "DELETE FROM series WHERE NOT EXISTS"
                             " (SELECT 1 FROM sample WHERE sample.series = series.id)",
    [HISTORY_OLDEST] = "SELECT time_ms FROM sample ORDER BY id LIMIT 1",
    [HISTORY_PRUNE_AGE] = "DELETE FROM sample WHERE id IN"
                          " (SELECT id FROM sample ORDER BY id LIMIT ?2) AND time_ms < ?1",
    [HISTORY_PRUNE_ROWS] = "DELETE FROM sample WHERE id IN (SELECT id FROM sample"
                           " WHERE id <= (SELECT max(id) FROM sample) - ? LIMIT ?)",
};

/* A history that cannot be written must not stop the live view, nor fill the log. */
static void history_failed(history_t *history, const char *doing)
{
    history->failed = 1;
    if (!history->broken) {
        udmon_error("history: %s: %s (is the disk full?)", doing, sqlite3_errmsg(history->db));
        history->broken = 1;
    }
}

/* A transaction, if there is none. */
static int history_begin(history_t *history)
{
    if (!sqlite3_get_autocommit(history->db)) {
        return 0;
    }
    history->pending = 0;
    if (sqlite3_exec(history->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) {
        history_failed(history, "cannot begin a transaction");
        return -EIO;
    }
    return 0;
}

/*
 * SQLite may answer an error, as a full disk, by undoing the whole transaction. Then what was made
 * in it is gone: samples, and rows whose keys are remembered here.
 */
static void history_check_transaction(history_t *history)
{
    if (sqlite3_get_autocommit(history->db)) {
        history->unstored += history->pending;
        history->stored -= history->pending;
        history->pending = 0;
        ++history->generation;
    }
}

/* Run a statement that answers nothing. */
static int history_do(history_t *history, int which)
{
    sqlite3_stmt *statement = history->statements[which];
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

/* Somebody else has locked the database: only this thread waits. */
static int history_busy(void *arg, int times)
{
    const struct timespec pause = {.tv_nsec = BUSY_SLEEP_MS * 1000000};
    const history_t *history = arg;

    nanosleep(&pause, NULL);
    return (history->stopping == NULL) || !__atomic_load_n(history->stopping, __ATOMIC_SEQ_CST) ||
           (times < BUSY_STOPPING);
}

int history_open(history_t *history, const char *file, uint64_t keep_seconds, int64_t max_rows)
{
    char *message = NULL;
    int i;

    memset(history, 0, sizeof(*history));
    history->generation = 1;
    history->keep_ms = keep_seconds * 1000;
    history->max_rows = max_rows;
    if (sqlite3_open(file, &history->db) != SQLITE_OK) {
        udmon_error("cannot open history %s: %s", file, sqlite3_errmsg(history->db));
        goto err;
    }
    sqlite3_busy_timeout(history->db, 5000);
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
    sqlite3_busy_handler(history->db, history_busy, history);
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
            host->key_of = history->generation;
            host->received = sqlite3_column_int64(statement, 2);
            host->lost = sqlite3_column_int64(statement, 3);
        }
    }
    sqlite3_finalize(statement);
}

/* The number that a statement answers, or 0 if none. */
static int64_t history_get(history_t *history, int which)
{
    sqlite3_stmt *statement = history->statements[which];
    int64_t number = (sqlite3_step(statement) == SQLITE_ROW) ?
                         sqlite3_column_int64(statement, 0) : 0;

    sqlite3_reset(statement);
    return number;
}

/* Returns whether the host has a key. */
static int history_host_key(history_t *history, host_t *host)
{
    if (host->key_of != history->generation) {
        sqlite3_bind_text(history->statements[HISTORY_HOST_ADD], 1, host->name, -1, SQLITE_STATIC);
        sqlite3_bind_text(history->statements[HISTORY_HOST_GET], 1, host->name, -1, SQLITE_STATIC);
        if (history_do(history, HISTORY_HOST_ADD) < 0) {
            return 0;
        }
        host->key = history_get(history, HISTORY_HOST_GET);
        host->key_of = (host->key != 0) ? history->generation : 0;
    }
    return host->key_of == history->generation;
}

/* Returns whether the series has a key. */
static int history_series_key(history_t *history, series_t *series)
{
    sqlite3_stmt *add = history->statements[HISTORY_SERIES_ADD];
    sqlite3_stmt *get = history->statements[HISTORY_SERIES_GET];

    if (!history_host_key(history, series->host)) {
        return 0;
    }
    sqlite3_bind_int64(add, 1, series->host->key);
    sqlite3_bind_text(add, 2, series->name, -1, SQLITE_STATIC);
    sqlite3_bind_int(add, 3, series->counter);
    if (history_do(history, HISTORY_SERIES_ADD) < 0) {
        return 0;
    }
    sqlite3_bind_int64(get, 1, series->host->key);
    sqlite3_bind_text(get, 2, series->name, -1, SQLITE_STATIC);
    series->key = history_get(history, HISTORY_SERIES_GET);
    series->key_of = (series->key != 0) ? history->generation : 0;
    return series->key_of == history->generation;
}

void history_add(history_t *history, series_t *series, int64_t time_ms, double value)
{
    sqlite3_stmt *statement = history->statements[HISTORY_INSERT];

    if ((series->key_of == history->generation) || history_series_key(history, series)) {
        sqlite3_bind_int64(statement, 1, series->key);
        sqlite3_bind_int64(statement, 2, time_ms);
        sqlite3_bind_double(statement, 3, value);
        if (history_do(history, HISTORY_INSERT) == 0) {
            ++history->pending;
            ++history->stored;
            return;
        }
    }
    ++history->unstored;
}

void history_agents(history_t *history, void (*each)(uint64_t id, uint64_t next, void *arg),
                    void *arg)
{
    sqlite3_stmt *statement;

    if (sqlite3_prepare_v2(history->db, "SELECT id, next_seq FROM agents", -1, &statement, NULL) !=
        SQLITE_OK) {
        history_failed(history, "cannot read the agents");
        return;
    }
    while (sqlite3_step(statement) == SQLITE_ROW) {
        each(sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1), arg);
    }
    sqlite3_finalize(statement);
}

void history_host(history_t *history, host_t *host, uint64_t received, uint64_t lost)
{
    sqlite3_stmt *statement = history->statements[HISTORY_HOST_UPDATE];

    if (history_host_key(history, host)) {
        sqlite3_bind_int64(statement, 1, received);
        sqlite3_bind_int64(statement, 2, lost);
        sqlite3_bind_int64(statement, 3, host->key);
        history_do(history, HISTORY_HOST_UPDATE);
    }
}

static uint64_t history_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000) + (now.tv_nsec / 1000000);
}

/*
 * The time of day that ages are counted by. A clock that jumps must not delete the history: it goes
 * on as it went, until the system's clock has stayed where it is for CLOCK_TRUST_NS.
 */
static uint64_t history_clock(history_t *history)
{
    uint64_t now_ns = udmon_now_ns(), system_ms = history_now_ms();
    uint64_t here_ms = history->clock_ms + ((now_ns - history->clock_at_ns) / 1000000);
    uint64_t apart = (system_ms > here_ms) ? (system_ms - here_ms) : (here_ms - system_ms);

    if ((history->clock_at_ns == 0) || (apart <= CLOCK_JUMP_MS)) {
        history->jumped_at_ns = 0;
        here_ms = system_ms;
    } else if (history->jumped_at_ns == 0) {
        history->jumped_at_ns = now_ns;
        udmon_warn("the system's clock has jumped by %llu s: the age of the history is counted by "
                   "the old one for an hour", (unsigned long long)(apart / 1000));
    } else if ((now_ns - history->jumped_at_ns) > CLOCK_TRUST_NS) {
        history->jumped_at_ns = 0;
        here_ms = system_ms;
    }
    history->clock_ms = here_ms;
    history->clock_at_ns = now_ns;
    return here_ms;
}

void history_agent(history_t *history, uint64_t id, uint64_t next)
{
    sqlite3_stmt *statement = history->statements[HISTORY_AGENT_PUT];

    sqlite3_bind_int64(statement, 1, id);
    sqlite3_bind_int64(statement, 2, next);
    sqlite3_bind_int64(statement, 3, history_now_ms());
    history_do(history, HISTORY_AGENT_PUT);
}

/* Delete at most PRUNE_ROWS rows with a statement of a bound and a limit; returns how many. */
static int history_prune_some(history_t *history, int which, int64_t bound)
{
    sqlite3_bind_int64(history->statements[which], 1, bound);
    sqlite3_bind_int64(history->statements[which], 2, PRUNE_ROWS);
    return (history_do(history, which) == 0) ? sqlite3_changes(history->db) : 0;
}

static void history_prune(history_t *history)
{
    static udmon_log_limit_t limit;
    uint64_t now_ms = history_clock(history), now_ns = udmon_now_ns();
    int64_t keep_ms = history->keep_ms;

    /* Times differ from the order of rows by some minutes at most: collector_time_ms. */
    if (history_get(history, HISTORY_OLDEST) < ((int64_t)now_ms - keep_ms)) {
        history_prune_some(history, HISTORY_PRUNE_AGE, (int64_t)now_ms - keep_ms);
    }
    if (history_prune_some(history, HISTORY_PRUNE_ROWS, history->max_rows) > 0) {
        udmon_warn_limited(&limit, "history: %lld samples (--rows) do not last for %lld s (--keep):"
                           " the oldest go sooner", (long long)history->max_rows,
                           (long long)(keep_ms / 1000));
    }
    if ((now_ns - history->tidied_ns) > TIDY_NS) {
        history->tidied_ns = now_ns;
        sqlite3_bind_int64(history->statements[HISTORY_PRUNE_AGENTS], 1,
                           (int64_t)now_ms - (INT64_C(86400000) * AGENT_KEEP_DAYS));
        history_do(history, HISTORY_PRUNE_AGENTS);
        if ((history_do(history, HISTORY_PRUNE_SERIES) == 0) &&
            (sqlite3_changes(history->db) > 0)) {
            ++history->generation; /* keys of deleted rows are not valid any more */
        }
    }
}

void history_commit(history_t *history)
{
    history_prune(history);
    if ((history_begin(history) < 0) ||
        (sqlite3_exec(history->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)) {
        /* The transaction goes on, and is tried again; or it has been undone. */
        history_failed(history, "cannot commit");
        history_check_transaction(history);
        history->failed = 0;
        return;
    }
    history->pending = 0;
    if (history->broken && !history->failed) {
        udmon_warn("history: can be written again; %llu samples were not stored",
                   (unsigned long long)history->unstored);
        history->broken = 0;
    }
    history->failed = 0;
    /* Give pages of deleted rows back, in pieces. */
    sqlite3_exec(history->db, "PRAGMA incremental_vacuum(500)", NULL, NULL, NULL);
}
