#include "history.h"
#include "../lib/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <math.h>
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
    "DROP INDEX IF EXISTS sample_time;" /* of earlier versions: rows come in the order of time */
    "CREATE TABLE IF NOT EXISTS agents(id INTEGER PRIMARY KEY, next_seq INTEGER NOT NULL,"
    " seen_ms INTEGER NOT NULL);"
    /* Hosts that have counted since the last tidying. */
    "CREATE TEMP TABLE counted(host INTEGER PRIMARY KEY);";

static const char *const statements[HISTORY_STATEMENTS] = {
    [HISTORY_SERIES_ADD] = "INSERT OR IGNORE INTO series(host, name, counter) VALUES(?, ?, ?)",
    [HISTORY_SERIES_GET] = "SELECT id FROM series WHERE host = ? AND name = ?",
    [HISTORY_HOST_ADD] = "INSERT OR IGNORE INTO host(name, received, lost) VALUES(?, 0, 0)",
    [HISTORY_HOST_GET] = "SELECT id FROM host WHERE name = ?",
    [HISTORY_HOST_UPDATE] = "UPDATE host SET received = ?, lost = ? WHERE id = ?",
    [HISTORY_AGENT_PUT] = "INSERT OR REPLACE INTO agents(id, next_seq, seen_ms)"
                          " VALUES(?, ?, ?)",
    [HISTORY_PRUNE_AGENTS] = "DELETE FROM agents WHERE seen_ms < ?",
    [HISTORY_PRUNE_SERIES] =
        "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM sample WHERE series = series.id)"
        " AND NOT EXISTS (SELECT 1 FROM sample_10s WHERE series = series.id)"
        " AND NOT EXISTS (SELECT 1 FROM sample_1min WHERE series = series.id)"
        " AND NOT EXISTS (SELECT 1 FROM sample_10min WHERE series = series.id)",
    [HISTORY_HOST_COUNTED] = "INSERT OR IGNORE INTO counted VALUES(?)",
    /* A relay has counts, and no samples. */
    [HISTORY_PRUNE_HOSTS] = "DELETE FROM host WHERE id NOT IN (SELECT host FROM series)"
                            " AND id NOT IN (SELECT host FROM counted)",
    [HISTORY_PRUNE_COUNTED] = "DELETE FROM counted",
};

const history_level_t history_levels[HISTORY_LEVELS] = {
    {"sample", 0, 2},
    {"sample_10s", 10 * 1000, 4},
    {"sample_1min", 60 * 1000, 8},
    {"sample_10min", 600 * 1000, 8},
};

/* AUTOINCREMENT: a deleted row's number is never used again, so age is order. */
static const char level_schema[] =
    "CREATE TABLE IF NOT EXISTS %1$s(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " series INTEGER NOT NULL, time_ms INTEGER NOT NULL, value REAL);"
    "CREATE INDEX IF NOT EXISTS %1$s_series ON %1$s(series, time_ms);";

static const char *const level_statements[HISTORY_LEVEL_STATEMENTS] = {
    [HISTORY_INSERT] = "INSERT INTO %1$s(series, time_ms, value) VALUES(?, ?, ?)",
    [HISTORY_OLDEST] = "SELECT time_ms FROM %1$s ORDER BY id LIMIT 1",
    [HISTORY_PRUNE_AGE] = "DELETE FROM %1$s WHERE id IN"
                          " (SELECT id FROM %1$s ORDER BY id LIMIT ?2) AND time_ms < ?1",
    [HISTORY_PRUNE_ROWS] = "DELETE FROM %1$s WHERE id IN (SELECT id FROM %1$s"
                           " WHERE id <= (SELECT max(id) FROM %1$s) - ? LIMIT ?)",
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
static int history_run(history_t *history, sqlite3_stmt *statement)
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

static int history_do(history_t *history, int which)
{
    return history_run(history, history->statements[which]);
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

/* The tables of a level, and its statements. Returns SQLite's status. */
static int history_open_level(history_t *history, int level)
{
    char text[512];
    int i, ret;

    snprintf(text, sizeof(text), level_schema, history_levels[level].table);
    ret = sqlite3_exec(history->db, text, NULL, NULL, NULL);
    for (i = 0; (i < HISTORY_LEVEL_STATEMENTS) && (ret == SQLITE_OK); ++i) {
        snprintf(text, sizeof(text), level_statements[i], history_levels[level].table);
        ret = sqlite3_prepare_v2(history->db, text, -1, &history->of_level[level][i], NULL);
    }
    return ret;
}

static int history_prepare(history_t *history)
{
    int i, ret = SQLITE_OK;

    for (i = 0; (i < HISTORY_LEVELS) && (ret == SQLITE_OK); ++i) {
        ret = history_open_level(history, i);
    }
    for (i = 0; (i < HISTORY_STATEMENTS) && (ret == SQLITE_OK); ++i) {
        ret = sqlite3_prepare_v2(history->db, statements[i], -1, &history->statements[i], NULL);
    }
    return ret;
}

/* Rows that the coarsest level needs to last for `keep_ms`, if there are so many series. */
static double history_rows_needed(const history_t *history, int64_t series)
{
    const history_level_t *last = &history_levels[HISTORY_LEVELS - 1];

    return (double)series * last->share * ((double)history->keep_ms / last->step_ms);
}

/* A promise that cannot be kept is refused. */
static int history_check_promise(history_t *history)
{
    sqlite3_stmt *statement;
    int64_t series = 0;
    double needed;

    if (sqlite3_prepare_v2(history->db, "SELECT count(*) FROM series", -1, &statement, NULL) !=
        SQLITE_OK) {
        return 0;
    }
    if (sqlite3_step(statement) == SQLITE_ROW) {
        series = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    needed = history_rows_needed(history, (series > 0) ? series : 1);
    if (needed > history->max_rows) {
        udmon_error("history: to keep %lld series for %llu s takes --rows %.0f, not %lld; give more, "
                    "or a shorter --keep", (long long)series,
                    (unsigned long long)(history->keep_ms / 1000), ceil(needed),
                    (long long)history->max_rows);
        return -EDOM;
    }
    return 0;
}

int history_open(history_t *history, const char *file, uint64_t keep_seconds, int64_t max_rows,
                 int promised)
{
    char *message = NULL;
    int ret = -EIO;

    memset(history, 0, sizeof(*history));
    history->generation = 1;
    history->keep_ms = keep_seconds * 1000;
    history->tidied_ns = udmon_now_ns(); /* who has counts may not have come yet */
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
    if (history_prepare(history) != SQLITE_OK) {
        udmon_error("%s is a history of another form: %s", file, sqlite3_errmsg(history->db));
        goto err;
    }
    ret = promised ? history_check_promise(history) : 0;
    if (ret < 0) {
        goto err;
    }
    sqlite3_busy_handler(history->db, history_busy, history);
    return 0;

err:
    history_close(history);
    return ret;
}

void history_close(history_t *history)
{
    int i, level;

    for (i = 0; i < HISTORY_STATEMENTS; ++i) {
        sqlite3_finalize(history->statements[i]);
    }
    for (level = 0; level < HISTORY_LEVELS; ++level) {
        for (i = 0; i < HISTORY_LEVEL_STATEMENTS; ++i) {
            sqlite3_finalize(history->of_level[level][i]);
        }
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
            host->arrived_ns = udmon_now_ns(); /* forgotten so long after now, at the earliest */
        }
    }
    sqlite3_finalize(statement);
}

/* The number that a statement answers, or 0 if none. */
static int64_t history_get(sqlite3_stmt *statement)
{
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
        host->key = history_get(history->statements[HISTORY_HOST_GET]);
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
    series->key = history_get(get);
    series->key_of = (series->key != 0) ? history->generation : 0;
    return series->key_of == history->generation;
}

/* A row of a level. */
static int history_insert(history_t *history, series_t *series, int level, int64_t time_ms,
                          double value)
{
    sqlite3_stmt *statement = history->of_level[level][HISTORY_INSERT];

    if ((series->key_of != history->generation) && !history_series_key(history, series)) {
        return -EIO;
    }
    sqlite3_bind_int64(statement, 1, series->key);
    sqlite3_bind_int64(statement, 2, time_ms);
    sqlite3_bind_double(statement, 3, value);
    return history_run(history, statement);
}

/* Write a step that is over, and begin the next. */
static void history_end_step(history_t *history, series_t *series, int level)
{
    step_t *step = &series->steps[level - 1];

    if (step->count > 0) {
        history_insert(history, series, level, step->time_ms,
                       series->counter ? step->last : (step->sum / step->count));
    }
    memset(step, 0, sizeof(*step));
}

static void history_step(history_t *history, series_t *series, int level, int64_t time_ms,
                         double value)
{
    step_t *step = &series->steps[level - 1];
    int64_t number = time_ms / history_levels[level].step_ms;

    if (number > step->number) { /* what comes late counts for the current one */
        history_end_step(history, series, level);
        step->number = number;
    }
    step->time_ms = (time_ms > step->time_ms) ? time_ms : step->time_ms;
    step->sum += value;
    step->last = value;
    ++step->count;
}

void history_add(history_t *history, series_t *series, int64_t time_ms, double value)
{
    int level;

    for (level = 1; level < HISTORY_LEVELS; ++level) {
        history_step(history, series, level, time_ms, value);
    }
    if (history_insert(history, series, 0, time_ms, value) < 0) {
        ++history->unstored;
        return;
    }
    ++history->pending;
    ++history->stored;
}

void history_finish(history_t *history, series_t *series)
{
    int level;

    for (level = 1; level < HISTORY_LEVELS; ++level) {
        history_end_step(history, series, level);
    }
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
        sqlite3_bind_int64(history->statements[HISTORY_HOST_COUNTED], 1, host->key);
        history_do(history, HISTORY_HOST_COUNTED);
    }
}

/*
 * The time of day that ages are counted by. A clock that jumps must not delete the history: it goes
 * on as it went, until the system's clock has stayed where it is for CLOCK_TRUST_NS.
 */
static uint64_t history_clock(history_t *history)
{
    uint64_t now_ns = udmon_now_ns(), system_ms = udmon_time_ns() / 1000000;
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
    sqlite3_bind_int64(statement, 3, udmon_time_ns() / 1000000);
    history_do(history, HISTORY_AGENT_PUT);
}

/* Delete some rows with a statement of a bound and a limit; returns how many. */
static int history_prune_some(history_t *history, sqlite3_stmt *statement, int64_t bound)
{
    /* More than can have come since the last time, and no more than is done quickly. */
    int64_t some = (history->pending < (PRUNE_ROWS / 2)) ? PRUNE_ROWS : (2 * history->pending);

    sqlite3_bind_int64(statement, 1, bound);
    sqlite3_bind_int64(statement, 2, some);
    return (history_run(history, statement) == 0) ? sqlite3_changes(history->db) : 0;
}

/* Returns whether rows went for want of room. */
static int history_prune_level(history_t *history, int level, int64_t before_ms)
{
    sqlite3_stmt **statement = history->of_level[level];

    /* Times differ from the order of rows where samples waited in an agent's queue: such rows go
     * when those before them have gone. */
    if (history_get(statement[HISTORY_OLDEST]) < before_ms) {
        history_prune_some(history, statement[HISTORY_PRUNE_AGE], before_ms);
    }
    return history_prune_some(history, statement[HISTORY_PRUNE_ROWS],
                              history->max_rows / history_levels[level].share) > 0;
}

/* Rows that nothing refers to any more. Who is still there gets a new one when it is needed. */
static void history_tidy(history_t *history, uint64_t now_ms)
{
    int changes;

    sqlite3_bind_int64(history->statements[HISTORY_PRUNE_AGENTS], 1,
                       (int64_t)now_ms - (INT64_C(86400000) * AGENT_KEEP_DAYS));
    history_do(history, HISTORY_PRUNE_AGENTS);
    changes = sqlite3_total_changes(history->db);
    if ((history_do(history, HISTORY_PRUNE_SERIES) == 0) &&
        (history_do(history, HISTORY_PRUNE_HOSTS) == 0) &&
        (sqlite3_total_changes(history->db) != changes)) {
        ++history->generation; /* keys of deleted rows are not valid any more */
    }
    history_do(history, HISTORY_PRUNE_COUNTED);
}

static void history_prune(history_t *history)
{
    static udmon_log_limit_t limit;
    uint64_t now_ms = history_clock(history), now_ns = udmon_now_ns();
    int level, short_of_room = 0;

    for (level = 0; level < HISTORY_LEVELS; ++level) {
        short_of_room = history_prune_level(history, level,
                                            (int64_t)now_ms - (int64_t)history->keep_ms);
    }
    if (short_of_room) { /* even for the coarsest level */
        udmon_warn_limited(&limit, "history: %lld rows (--rows) do not last for %lld s (--keep):"
                           " the oldest go sooner", (long long)history->max_rows,
                           (long long)(history->keep_ms / 1000));
    }
    if ((now_ns - history->tidied_ns) > TIDY_NS) {
        history->tidied_ns = now_ns;
        history_tidy(history, now_ms);
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
