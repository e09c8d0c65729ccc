#include "history_inside.h"
#include "../lib/base/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PRUNE_CHUNKS = 2000,     /* in one commit: forgetting must not keep others waiting */
    LOG_ROWS = 240,          /* a sample is in a chunk's row after so many commits */
    LOG_BYTES = 10 + 10 + 8, /* of one sample in the log at most */
    AGENT_KEEP_DAYS = 90
};
#define CLOCK_JUMP_MS  UINT64_C(60000)
#define CLOCK_TRUST_NS UINT64_C(3600000000000)
#define TIDY_NS        UINT64_C(600000000000)

/* Returns whether the host has a key. */
static bool history_host_key(struct history *history, struct host *host)
{
    if (host->key_of != history->generation) {
        sqlite3_bind_text(history->statements[HISTORY_HOST_ADD], 1, host->name, -1, SQLITE_STATIC);
        sqlite3_bind_text(history->statements[HISTORY_HOST_GET], 1, host->name, -1, SQLITE_STATIC);
        if (history_do(history, HISTORY_HOST_ADD) < 0) {
            return false;
        }
        host->key = history_get(history->statements[HISTORY_HOST_GET]);
        host->key_of = (host->key != 0) ? history->generation : 0;
    }
    return host->key_of == history->generation;
}

/* Returns whether the series has a key. */
static bool history_series_key(struct history *history, struct series *series)
{
    sqlite3_stmt *add = history->statements[HISTORY_SERIES_ADD];
    sqlite3_stmt *get = history->statements[HISTORY_SERIES_GET];
    int changes = sqlite3_total_changes(history->db);

    if (!history_host_key(history, series->host)) {
        return false;
    }
    sqlite3_bind_int64(add, 1, series->host->key);
    sqlite3_bind_text(add, 2, series->name, -1, SQLITE_STATIC);
    sqlite3_bind_int(add, 3, series->counter);
    if (history_do(history, HISTORY_SERIES_ADD) < 0) {
        return false;
    }
    sqlite3_bind_int64(get, 1, series->host->key);
    sqlite3_bind_text(get, 2, series->name, -1, SQLITE_STATIC);
    sqlite3_bind_int(get, 3, series->counter);
    series->key = history_get(get);
    series->key_of = (series->key != 0) ? history->generation : 0;
    series->key_was = (series->key_of != 0) && (sqlite3_total_changes(history->db) == changes);
    return series->key_of == history->generation;
}

/* ---- writing chunks -------------------------------------------------------------------------- */

/*
 * Writes the entries of a level in memory. `full`: the chunk ends here, else it continues in this
 * row.
 */
static int history_flush(struct history *history, struct series *series, int level, int full)
{
    struct tail_level *open = &series->tail->levels[level];
    uint8_t bytes[CHUNK_BYTES];
    struct chunk chunk;
    int64_t row = open->row, before;
    size_t length;
    unsigned count = open->count;
    int ret;

    if (count == 0) {
        return 0;
    }
    tail_pack(series->tail, level, &chunk);
    length = chunk_encode(&chunk, bytes);
    before = (row != 0) ? (int64_t)open->row_bytes : -HISTORY_ROW_BYTES;
    if ((series->key_of != history->generation) && !history_series_key(history, series)) {
        ret = -EIO;
    } else {
        ret = history_write(history, level, series->key, &chunk, history->log_id, bytes, length,
                            &row);
    }
    count -= open->committed;
    if (ret == 0) {
        history->bytes[level] += (int64_t)length - before;
        history_set_written(history, series);
    }
    if (full) {
        if (level == 0) {
            history->written_samples += (ret == 0) ? count : 0;
            history->unstored += (ret == 0) ? 0 : count;
            history->stored -= (ret == 0) ? 0 : count;
        }
        tail_clear(series->tail, level, bytes, length);
    } else if (ret == 0) {
        open->row_of = (open->row == row) ? open->row_of : history->transaction;
        open->row = row;
        open->row_bytes = length;
        open->row_count = open->count;
    }
    return ret;
}

static void history_set_clean(struct history *history, struct series *series)
{
    if (series->tail->dirty_since != 0) {
        series->tail->dirty_since = 0;
        STAILQ_REMOVE(&history->dirty, series, series, dirty);
        __atomic_fetch_sub(&series->queued, 1, __ATOMIC_SEQ_CST);
    }
}

/* Add an entry to a level; a full chunk is written. */
static void history_entry(struct history *history, struct series *series, int level,
                          int64_t time_ms, const double values[CHUNK_COLUMNS])
{
    struct tail_level *open = &series->tail->levels[level];

    if ((open->count == tail_full(level)) ||
        ((open->count > 0) && (llabs(time_ms - open->begin_ms) > history_levels[level].span_ms))) {
        history_flush(history, series, level, 1);
    }
    if (tail_add(series->tail, level, time_ms, values) < 0) {
        history->unstored += (level == 0);
        return;
    }
    history->stored += (level == 0);
    if (open->count == tail_full(level)) {
        history_flush(history, series, level, 1);
    }
}

/* Make an entry of a step that is over, and begin the next. */
static void history_end_step(struct history *history, struct series *series, int level)
{
    struct tail_step *step = &series->tail->steps[level - 1];
    double values[CHUNK_COLUMNS] = {
        series->counter ? step->last : (float)(step->sum / step->count),
        (step->ranged > 0) ? step->least : NAN,
        (step->ranged > 0) ? step->most : NAN,
    };

    if (step->count > 0) {
        history_entry(history, series, level, step->time_ms, values);
    }
    memset(step, 0, sizeof(*step));
}

/* `ranged`: the value, or a counter's rate; NAN if not known. */
static void history_step(struct history *history, struct series *series, int level, int64_t time_ms,
                         double value, double ranged)
{
    struct tail_step *step = &series->tail->steps[level - 1];
    int64_t number = time_ms / history_levels[level].step_ms;

    if (number > step->number) { /* a late sample counts for the current step */
        history_end_step(history, series, level);
        step->number = number;
    }
    step->time_ms = (time_ms > step->time_ms) ? time_ms : step->time_ms;
    step->sum += value;
    step->last = value;
    ++step->count;
    if (!isnan(ranged)) {
        step->least = ((step->ranged == 0) || (ranged < step->least)) ? ranged : step->least;
        step->most = ((step->ranged == 0) || (ranged > step->most)) ? ranged : step->most;
        ++step->ranged;
    }
}

/* The steps that a sample falls into. */
static void history_steps(struct history *history, struct series *series, int64_t time_ms,
                          double value)
{
    struct tail *tail = series->tail;
    double ranged = value;
    int level;

    if (series->counter) {
        ranged = ((tail->last_ms != 0) && (time_ms > tail->last_ms) && (value >= tail->last)) ?
                     ((value - tail->last) * 1000 / (double)(time_ms - tail->last_ms)) :
                     NAN;
        tail->last = value;
        tail->last_ms = time_ms;
    }
    for (level = 1; level < HISTORY_LEVELS; ++level) {
        history_step(history, series, level, time_ms, value, ranged);
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

static size_t log_put_number(uint8_t *bytes, uint64_t number)
{
    size_t length = 0;

    do {
        bytes[length++] = (number & 0x7f) | ((number > 0x7f) ? 0x80 : 0);
        number >>= 7;
    } while (number > 0);
    return length;
}

static int history_log(struct history *history, int64_t key, int64_t time_ms, double value)
{
    size_t size = (history->log_size > 0) ? (2 * history->log_size) : 65536;
    int64_t apart = time_ms - history->log_ms;
    uint8_t *at;

    if (history->log_length + LOG_BYTES > history->log_size) {
        at = realloc(history->log, size);
        if (at == NULL) {
            return -ENOMEM;
        }
        history->log = at;
        history->log_size = size;
    }
    at = history->log + history->log_length;
    at += log_put_number(at, (uint64_t)key);
    at += log_put_number(at, ((uint64_t)apart << 1) ^ (uint64_t)(apart >> 63));
    memcpy(at, &value, sizeof(value));
    history->log_length = at + sizeof(value) - history->log;
    ++history->log_count;
    return 0;
}

/* Write the log's row of this commit. Samples that stay in memory too long get into rows. */
static void history_log_commit(struct history *history)
{
    sqlite3_stmt *add = history->statements[HISTORY_LOG_ADD];
    uint64_t oldest;
    struct series *series;

    if (history->log_count > 0) {
        memcpy(history->log, &history->log_ms, sizeof(history->log_ms));
        sqlite3_bind_int64(add, 1, (int64_t)history->log_id);
        sqlite3_bind_int(add, 2, (int)history->log_count);
        sqlite3_bind_blob(add, 3, history->log, (int)history->log_length, SQLITE_STATIC);
        history_run(history, add);
    }
    while (((series = STAILQ_FIRST(&history->dirty)) != NULL) &&
           (series->tail->dirty_since + LOG_ROWS < history->log_id)) {
        if (history_flush(history, series, 0, 0) < 0) {
            break; /* the log keeps its samples */
        }
        history_set_clean(history, series);
    }
    oldest = (series != NULL) ? series->tail->dirty_since : history->log_id;
    sqlite3_bind_int64(history->statements[HISTORY_LOG_PRUNE], 1, (int64_t)oldest);
    history_do(history, HISTORY_LOG_PRUNE);
}

static void history_log_next(struct history *history)
{
    ++history->log_id;
    history->log_count = 0;
    history->log_length = sizeof(history->log_ms);
    history->log_ms = udmon_time_ns() / 1000000;
}

/* ---- opening --------------------------------------------------------------------------------- */

int history_open(struct history *history, const char *file, uint64_t keep_seconds,
                 int64_t max_bytes)
{
    int ret;

    memset(history, 0, sizeof(*history));
    history->generation = 1;
    history->keep_ms = keep_seconds * 1000;
    history->tidied_ns = udmon_now_ns(); /* nodes with stored counts may not have connected yet */
    history->max_bytes = max_bytes;
    STAILQ_INIT(&history->dirty);
    STAILQ_INIT(&history->written);
    ret = history_db_open(history, file);
    if (ret < 0) {
        goto err;
    }
    ret = -EIO;
    history->log_id = (uint64_t)history_ask(history, "SELECT max(seq) FROM sqlite_sequence WHERE"
                                                     " name IN ('log')") +
                      1;
    if ((history_convert(history) < 0) || (history_replay(history) < 0) ||
        (sqlite3_exec(history->db, "PRAGMA user_version = 2", NULL, NULL, NULL) != SQLITE_OK)) {
        udmon_error("cannot write to history %s: %s", file, sqlite3_errmsg(history->db));
        goto err;
    }
    history_put_levels(history);
    if (sqlite3_exec(history->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
        udmon_error("cannot write to history %s: %s", file, sqlite3_errmsg(history->db));
        goto err;
    }
    history_log_next(history);
    history_db_started(history);
    return 0;

err:
    history_close(history);
    return ret;
}

void history_close(struct history *history)
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
    free(history->log);
    history->log = NULL;
    if (history->lock_fd >= 0) {
        close(history->lock_fd);
    }
}

void history_load(struct history *history, struct store *store)
{
    sqlite3_stmt *statement;
    struct host *host;

    if (sqlite3_prepare_v2(history->db, "SELECT id, name, received, lost FROM host", -1, &statement,
                           NULL) != SQLITE_OK) {
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

void history_agents(struct history *history, void (*each)(uint64_t id, uint64_t next, void *arg),
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

void history_host(struct history *history, struct host *host, uint64_t received, uint64_t lost)
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

/* ---- taking samples -------------------------------------------------------------------------- */

/* Steps that a collector that was killed had only in memory are made again of the samples. */
static void history_catch_up(struct history *history, struct series *series)
{
    int64_t ends[HISTORY_LEVELS], first = INT64_MAX;
    struct history_points points = {0};
    int level;
    size_t i;

    for (level = 1; level < HISTORY_LEVELS; ++level) {
        sqlite3_stmt *newest = history->of_level[level][HISTORY_NEWEST];

        sqlite3_bind_int64(newest, 1, series->key);
        sqlite3_bind_int64(newest, 2, history_levels[level].span_ms);
        ends[level] = history_get(newest);
        first = (ends[level] < first) ? ends[level] : first;
    }
    if (history_read(history->db, NULL, series->key, 0, first + 1, INT64_MAX, NULL, &points) < 0) {
        free(points.points);
        return;
    }
    for (i = 0; i < points.count; ++i) {
        for (level = 1; level < HISTORY_LEVELS; ++level) {
            if (points.points[i].time_ms > ends[level]) {
                history_step(history, series, level, points.points[i].time_ms,
                             points.points[i].value,
                             series->counter ? NAN : points.points[i].value);
            }
        }
    }
    free(points.points);
}

/* Returns whether samples of the series can be taken. */
static bool history_ready(struct history *history, struct series *series)
{
    struct tail *tail;

    if ((series->key_of != history->generation) && !history_series_key(history, series)) {
        return false;
    }
    if (series->tail == NULL) {
        tail = tail_new();
        if (tail == NULL) {
            return false;
        }
        __atomic_store_n(&series->tail, tail, __ATOMIC_RELEASE); /* readers use it */
        if (series->key_was) {
            history_catch_up(history, series);
        }
    }
    return true;
}

void history_add(struct history *history, struct series *series, int64_t time_ms, double value)
{
    const double values[CHUNK_COLUMNS] = {value};

    if (!history_ready(history, series) ||
        (history_log(history, series->key, time_ms, value) < 0)) {
        ++history->unstored;
        return;
    }
    history_set_dirty(history, series, 0);
    history_entry(history, series, 0, time_ms, values);
    if (series->tail->levels[0].count == 0) {
        history_set_clean(history, series);
    }
    history_steps(history, series, time_ms, value);
}

void history_finish(struct history *history, struct series *series)
{
    int level;

    if (series->tail == NULL) {
        return;
    }
    for (level = 1; level < HISTORY_LEVELS; ++level) {
        history_end_step(history, series, level);
    }
    for (level = 0; level < HISTORY_LEVELS; ++level) {
        history_flush(history, series, level, 1);
    }
    history_set_clean(history, series);
}

/*
 * The time of day for ages. A jump of the system clock must not delete the history. So this clock
 * continues unchanged until the system clock has been steady for CLOCK_TRUST_NS.
 */
static uint64_t history_clock(struct history *history)
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
                   "the old one for an hour",
                   (unsigned long long)(apart / 1000));
    } else if ((now_ns - history->jumped_at_ns) > CLOCK_TRUST_NS) {
        history->jumped_at_ns = 0;
        here_ms = system_ms;
    }
    history->clock_ms = here_ms;
    history->clock_at_ns = now_ns;
    return here_ms;
}

void history_agent(struct history *history, uint64_t id, uint64_t next)
{
    sqlite3_stmt *statement = history->statements[HISTORY_AGENT_PUT];

    sqlite3_bind_int64(statement, 1, id);
    sqlite3_bind_int64(statement, 2, next);
    sqlite3_bind_int64(statement, 3, udmon_time_ns() / 1000000);
    history_do(history, HISTORY_AGENT_PUT);
}

/* Deletes the oldest chunks of a level: `excess` bytes, or the chunks that end before a time. */
static void history_prune_level(struct history *history, int level, int64_t before_ms,
                                int64_t excess)
{
    sqlite3_stmt *oldest = history->of_level[level][HISTORY_OLDEST];
    sqlite3_stmt *prune = history->of_level[level][HISTORY_PRUNE_ROWS];
    int64_t last = 0, bytes = 0;

    sqlite3_bind_int(oldest, 1, PRUNE_CHUNKS);
    while (sqlite3_step(oldest) == SQLITE_ROW) {
        /* Samples that waited in an agent's queue are in later rows. These rows are deleted after
         * the earlier rows. */
        if ((sqlite3_column_int64(oldest, 1) >= before_ms) && (bytes >= excess)) {
            break;
        }
        last = sqlite3_column_int64(oldest, 0);
        bytes += HISTORY_ROW_BYTES + sqlite3_column_int64(oldest, 2);
    }
    sqlite3_reset(oldest);
    if (last > 0) {
        sqlite3_bind_int64(prune, 1, last);
        if (history_run(history, prune) == 0) {
            history->bytes[level] -= bytes;
        }
    }
}

/* Delete rows that nothing refers to. A node or series that comes back gets a new row. */
static void history_tidy(struct history *history, uint64_t now_ms)
{
    sqlite3_stmt *fresh = history->statements[HISTORY_FRESH];
    struct series *series;
    int changes;

    STAILQ_FOREACH(series, &history->dirty, dirty) {
        sqlite3_bind_int64(fresh, 1, series->key);
        history_run(history, fresh);
    }
    sqlite3_bind_int64(history->statements[HISTORY_PRUNE_AGENTS], 1,
                       (int64_t)now_ms - (INT64_C(86400000) * AGENT_KEEP_DAYS));
    history_do(history, HISTORY_PRUNE_AGENTS);
    changes = sqlite3_total_changes(history->db);
    if ((history_do(history, HISTORY_PRUNE_SERIES) == 0) &&
        (history_do(history, HISTORY_PRUNE_HOSTS) == 0) &&
        (sqlite3_total_changes(history->db) != changes)) {
        ++history->generation; /* keys of deleted rows are not valid any more */
    }
    history_do(history, HISTORY_PRUNE_FRESH);
    history_do(history, HISTORY_PRUNE_COUNTED);
}

static void history_prune(struct history *history)
{
    static struct udmon_log_limit limit;
    uint64_t now_ms = history_clock(history), now_ns = udmon_now_ns();
    int64_t excess;
    int level;

    for (level = 0; level < HISTORY_LEVELS; ++level) {
        excess = history->bytes[level] - (history->max_bytes / 16 * history_levels[level].share);
        history_prune_level(history, level, (int64_t)now_ms - (int64_t)history->keep_ms, excess);
        if ((excess > 0) && (level == HISTORY_LEVELS - 1)) {
            udmon_warn_limited(&limit,
                               "history: %lld bytes (--size) do not last for %lld s (--keep),"
                               " even in steps of 10 minutes: the oldest go sooner",
                               (long long)history->max_bytes, (long long)(history->keep_ms / 1000));
        }
    }
    if ((now_ns - history->tidied_ns) > TIDY_NS) {
        history->tidied_ns = now_ns;
        history_tidy(history, now_ms);
    }
}

/* Whether the file is still the one that was opened. SQLite goes on writing to a deleted file. */
static int history_moved(struct history *history)
{
    int moved = 0;

    sqlite3_file_control(history->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved;
}

void history_commit(struct history *history)
{
    static struct udmon_log_limit limit;

    if (history_moved(history)) {
        history->unstored += history->log_count;
        history->stored -=
            (history->log_count < history->stored) ? history->log_count : history->stored;
        udmon_warn_limited(&limit,
                           "history: its file was removed or replaced: nothing is stored "
                           "until the collector is restarted%s",
                           "");
    }
    history_prune(history);
    history_log_commit(history);
    history_put_levels(history);
    if ((history_begin(history) < 0) ||
        (sqlite3_exec(history->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)) {
        /* The transaction goes on, and is tried again; or it has been undone. */
        history_failed(history, "cannot commit");
        history_check_transaction(history);
        history->failed = 0;
        history_log_next(history);
        return;
    }
    history_written_end(history, 1);
    history_log_next(history);
    if (history->broken && !history->failed) {
        udmon_warn("history: can be written again; %llu samples were not stored",
                   (unsigned long long)history->unstored);
        history->broken = 0;
    }
    history->failed = 0;
    /* Give pages of deleted rows back, in pieces. */
    sqlite3_exec(history->db, "PRAGMA incremental_vacuum(500)", NULL, NULL, NULL);
}
