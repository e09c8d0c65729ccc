/*
 * Work before a collector begins. The samples in the log of a killed collector become chunks. A history
 * of the earlier form, which had a row for each sample, becomes chunks, too.
 */
#include "history_inside.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *log_get_number(const uint8_t *at, const uint8_t *end, uint64_t *number_p)
{
    unsigned shift;

    *number_p = 0;
    for (shift = 0; (at < end) && (shift < 64); shift += 7) {
        *number_p |= (uint64_t)(*at & 0x7f) << shift;
        if ((*at++ & 0x80) == 0) {
            return at;
        }
    }
    return NULL;
}

/* Calls `each` for the samples of a log row; -EPROTO: invalid row. */
static int log_each(const uint8_t *at, size_t length, int64_t base_ms,
                    void (*each)(int64_t key, int64_t time_ms, double value, void *arg), void *arg)
{
    const uint8_t *end = at + length;
    uint64_t key, apart;
    double value;

    while (at < end) {
        at = log_get_number(at, end, &key);
        at = (at != NULL) ? log_get_number(at, end, &apart) : NULL;
        if ((at == NULL) || ((size_t)(end - at) < sizeof(value))) {
            return -EPROTO;
        }
        memcpy(&value, at, sizeof(value));
        at += sizeof(value);
        each((int64_t)key, base_ms + (int64_t)((apart >> 1) ^ -(apart & 1)), value, arg);
    }
    return 0;
}

struct replayed {
    int64_t key;
    uint64_t log; /* rows up to this one are in chunks */
    struct chunk chunk;
};

struct replay {
    struct history *history;
    void *tree;
    uint64_t log, samples;
    int failed;
};

static int replayed_compare(const void *left, const void *right)
{
    const struct replayed *a = left, *b = right;

    return (a->key > b->key) - (a->key < b->key);
}

static void replayed_write(struct replay *replay, struct replayed *replayed)
{
    uint8_t bytes[CHUNK_BYTES];
    int64_t row = 0;
    size_t length;

    if (replayed->chunk.count > 0) {
        replay->samples += replayed->chunk.count;
        chunk_sort(&replayed->chunk);
        length = chunk_encode(&replayed->chunk, bytes);
        replay->failed |= history_write(replay->history, 0, replayed->key, &replayed->chunk,
                                        replay->log, bytes, length, &row) < 0;
        replay->history->bytes[0] += (int64_t)length + HISTORY_ROW_BYTES;
        replayed->chunk.count = 0;
    }
}

static struct replayed *replay_find(struct replay *replay, int64_t key)
{
    struct replayed *replayed, **found, probe = {.key = key};
    char query[128];

    found = tfind(&probe, &replay->tree, replayed_compare);
    if (found != NULL) {
        return *found;
    }
    replayed = calloc(1, sizeof(*replayed));
    if (replayed == NULL) {
        replay->failed = 1;
        return NULL;
    }
    replayed->key = key; /* before tsearch(), which orders the tree by the key */
    if (tsearch(replayed, &replay->tree, replayed_compare) == NULL) {
        free(replayed);
        replay->failed = 1;
        return NULL;
    }
    snprintf(query, sizeof(query),
             "SELECT max(log) FROM (SELECT log FROM chunk WHERE series = %lld"
             " ORDER BY start_ms DESC LIMIT 4)",
             (long long)key);
    replayed->log = (uint64_t)history_ask(replay->history, query);
    replayed->chunk.columns = 1;
    return replayed;
}

static void replay_sample(int64_t key, int64_t time_ms, double value, void *arg)
{
    struct replay *replay = arg;
    struct replayed *replayed = replay_find(replay, key);
    struct chunk *chunk;

    if ((replayed == NULL) || (replay->log < replayed->log)) {
        return;
    }
    chunk = &replayed->chunk;
    if ((chunk->count == CHUNK_SAMPLES) ||
        ((chunk->count > 0) && (llabs(time_ms - chunk->times[0]) > history_levels[0].span_ms))) {
        replayed_write(replay, replayed);
    }
    chunk->times[chunk->count] = time_ms;
    chunk->values[0][chunk->count++] = value;
}

static void replay_free(void *replayed)
{
    free(replayed);
}

static void replay_rest(const void *node, VISIT which, void *arg)
{
    if ((which == postorder) || (which == leaf)) {
        replayed_write(arg, *(struct replayed *const *)node);
    }
}

/* Makes chunks of the log's samples that no chunk has. */
int history_replay(struct history *history)
{
    struct replay replay = {.history = history};
    sqlite3_stmt *statement;
    int64_t base_ms;
    int ret;

    if (sqlite3_prepare_v2(history->db, "SELECT id, data FROM log ORDER BY id", -1, &statement,
                           NULL) != SQLITE_OK) {
        return -EIO;
    }
    history_begin(history);
    while ((ret = sqlite3_step(statement)) == SQLITE_ROW) {
        const uint8_t *bytes = sqlite3_column_blob(statement, 1);
        size_t length = sqlite3_column_bytes(statement, 1);

        replay.log = (uint64_t)sqlite3_column_int64(statement, 0);
        if (length >= sizeof(base_ms)) {
            memcpy(&base_ms, bytes, sizeof(base_ms));
            log_each(bytes + sizeof(base_ms), length - sizeof(base_ms), base_ms, replay_sample,
                     &replay);
        }
    }
    sqlite3_finalize(statement);
    twalk_r(replay.tree, replay_rest, &replay);
    tdestroy(replay.tree, replay_free);
    if ((ret != SQLITE_DONE) || replay.failed ||
        (sqlite3_exec(history->db, "DELETE FROM log", NULL, NULL, NULL) != SQLITE_OK)) {
        return -EIO;
    }
    if (replay.samples > 0) {
        udmon_info("history: %llu samples of the last minutes before a kill are read from the log",
                   (unsigned long long)replay.samples);
    }
    return 0;
}

/* ---- histories of the earlier form ------------------------------------------------------------- */

struct conversion {
    struct history *history;
    int level;
    int64_t key;
    struct chunk chunk;
    uint64_t samples;
    int failed;
};

static void conversion_write(struct conversion *conversion)
{
    uint8_t bytes[CHUNK_BYTES];
    int64_t row = 0;
    size_t length;

    if (conversion->chunk.count > 0) {
        conversion->samples += conversion->chunk.count;
        length = chunk_encode(&conversion->chunk, bytes);
        conversion->failed |= history_write(conversion->history, conversion->level, conversion->key,
                                            &conversion->chunk, 0, bytes, length, &row) < 0;
        conversion->history->bytes[conversion->level] += (int64_t)length + HISTORY_ROW_BYTES;
        conversion->chunk.count = 0;
    }
}

static void conversion_row(struct conversion *conversion, int64_t key, int64_t time_ms,
                           double value)
{
    const struct history_level *level = &history_levels[conversion->level];
    struct chunk *chunk = &conversion->chunk;

    if ((key != conversion->key) || (chunk->count == tail_full(conversion->level)) ||
        ((chunk->count > 0) && (time_ms - chunk->times[0] > level->span_ms))) {
        conversion_write(conversion);
    }
    conversion->key = key;
    chunk->columns = tail_columns(conversion->level);
    chunk->times[chunk->count] = time_ms;
    chunk->values[0][chunk->count] = value;
    chunk->values[1][chunk->count] = NAN; /* the earlier form had no range */
    chunk->values[2][chunk->count++] = NAN;
}

static int history_convert_table(struct conversion *conversion, int level, const char *query)
{
    sqlite3_stmt *statement;
    int ret;

    if (sqlite3_prepare_v2(conversion->history->db, query, -1, &statement, NULL) != SQLITE_OK) {
        return -EIO;
    }
    conversion->level = level;
    conversion->key = 0;
    while (((ret = sqlite3_step(statement)) == SQLITE_ROW) && !conversion->failed) {
        conversion_row(conversion, sqlite3_column_int64(statement, 0),
                       sqlite3_column_int64(statement, 1),
                       (sqlite3_column_type(statement, 2) == SQLITE_NULL) ?
                           NAN :
                           sqlite3_column_double(statement, 2));
    }
    sqlite3_finalize(statement);
    conversion_write(conversion);
    return ((ret == SQLITE_DONE) && !conversion->failed) ? 0 : -EIO;
}

/* In one transaction: if the collector is killed, its next start converts the series again. */
static int history_convert_series(struct history *history)
{
    if (history_ask(history, "SELECT count(*) FROM sqlite_master WHERE name = 'series' AND sql LIKE"
                             " '%UNIQUE(host, name, counter)%'") == 1) {
        return 0;
    }
    history_begin(history);
    return (sqlite3_exec(
                history->db,
                "CREATE TABLE series_new(id INTEGER PRIMARY KEY, host INTEGER NOT NULL,"
                " name TEXT NOT NULL, counter INTEGER NOT NULL, UNIQUE(host, name, counter));"
                "INSERT INTO series_new SELECT id, host, name, counter FROM series;"
                "DROP TABLE series; ALTER TABLE series_new RENAME TO series",
                NULL, NULL, NULL) == SQLITE_OK) ?
               0 :
               -EIO;
}

int history_convert(struct history *history)
{
    static const struct {
        int level;
        const char *query;
    } tables[] = {
        /* steps of 10 s replace deleted samples */
        {0, "SELECT series, time_ms, value FROM sample_10s WHERE time_ms < coalesce((SELECT"
            " min(time_ms) FROM sample WHERE series = sample_10s.series), time_ms + 1)"
            " ORDER BY series, time_ms"},
        {0, "SELECT series, time_ms, value FROM sample ORDER BY series, time_ms"},
        {1, "SELECT series, time_ms, value FROM sample_1min ORDER BY series, time_ms"},
        {2, "SELECT series, time_ms, value FROM sample_10min ORDER BY series, time_ms"},
    };
    struct conversion conversion = {.history = history};
    size_t i;

    if (history_convert_series(history) < 0) {
        return -EIO;
    }
    if (history_ask(history, "SELECT count(*) FROM sqlite_master WHERE name IN ('sample',"
                             " 'sample_10s', 'sample_1min', 'sample_10min')") != 4) {
        return 0;
    }
    udmon_warn("the history has the form of an earlier version: it is converted now%s", "");
    history_begin(history);
    for (i = 0; i < (sizeof(tables) / sizeof(tables[0])); ++i) {
        if (history_convert_table(&conversion, tables[i].level, tables[i].query) < 0) {
            return -EIO;
        }
    }
    if (sqlite3_exec(history->db,
                     "DROP TABLE sample; DROP TABLE sample_10s;"
                     " DROP TABLE sample_1min; DROP TABLE sample_10min",
                     NULL, NULL, NULL) != SQLITE_OK) {
        return -EIO;
    }
    udmon_warn("the history is converted: %llu samples and steps",
               (unsigned long long)conversion.samples);
    return 0;
}
