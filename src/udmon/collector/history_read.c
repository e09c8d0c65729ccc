/* Reading the history: chunks of the database, and the tail in memory. By any thread. */
#include "history.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gathering {
    struct history_points *points;
    int64_t from_ms, until_ms;
    int no_memory;
};

static void gather(const struct chunk *chunk, void *arg)
{
    struct gathering *gathering = arg;
    struct history_points *points = gathering->points;
    struct history_point *grown;
    unsigned i;

    if (points->count + chunk->count > points->size) {
        points->size = 2 * (points->count + chunk->count);
        grown = realloc(points->points, points->size * sizeof(*grown));
        if (grown == NULL) {
            points->size = 0;
            gathering->no_memory = 1;
            return;
        }
        points->points = grown;
    }
    for (i = 0; i < chunk->count; ++i) {
        if ((chunk->times[i] >= gathering->from_ms) && (chunk->times[i] < gathering->until_ms)) {
            points->points[points->count++] = (struct history_point){
                .time_ms = chunk->times[i],
                .value = chunk->values[0][i],
                .least = (chunk->columns > 1) ? chunk->values[1][i] : NAN,
                .most = (chunk->columns > 1) ? chunk->values[2][i] : NAN,
            };
        }
    }
}

static int point_compare(const void *left, const void *right)
{
    const struct history_point *a = left, *b = right;

    return (a->time_ms > b->time_ms) - (a->time_ms < b->time_ms);
}

/* Chunks overlap where samples came late, and where memory and the database have the same ones. */
static void points_sort(struct history_points *points)
{
    size_t i, kept = 0;
    int sorted = 1;

    for (i = 1; (i < points->count) && sorted; ++i) {
        sorted = points->points[i].time_ms > points->points[i - 1].time_ms;
    }
    if (sorted) {
        return;
    }
    qsort(points->points, points->count, sizeof(points->points[0]), point_compare);
    for (i = 1; i < points->count; ++i) {
        kept += (points->points[i].time_ms != points->points[kept].time_ms);
        points->points[kept] = points->points[i];
    }
    points->count = kept + 1;
}

int history_read(sqlite3 *db, const struct series *series, int64_t key, int level, int64_t from_ms,
                 int64_t until_ms, struct budget *budget, struct history_points *points)
{
    struct gathering gathering = {.points = points, .from_ms = from_ms, .until_ms = until_ms};
    struct history_points stored = {0};
    sqlite3_stmt *statement;
    struct chunk chunk;
    char query[200];
    int ret;

    *points = (struct history_points){0};
    /* Memory first: entries that are committed in between are found twice, and never missed. */
    if (series != NULL) {
        tail_read(&series->tail, level, gather, &gathering);
    }
    snprintf(query, sizeof(query),
             "SELECT data FROM %s WHERE series = ? AND start_ms >= ?"
             " AND start_ms < ? AND end_ms >= ? ORDER BY start_ms",
             history_levels[level].table);
    if (sqlite3_prepare_v2(db, query, -1, &statement, NULL) != SQLITE_OK) {
        return -EIO;
    }
    sqlite3_bind_int64(statement, 1, key);
    sqlite3_bind_int64(statement, 2,
                       (from_ms > history_levels[level].span_ms) ?
                           (from_ms - history_levels[level].span_ms) :
                           INT64_MIN);
    sqlite3_bind_int64(statement, 3, until_ms);
    sqlite3_bind_int64(statement, 4, from_ms);
    gathering.points = &stored;
    while ((ret = sqlite3_step(statement)) == SQLITE_ROW) {
        if (((budget != NULL) && budget_spent(budget)) || gathering.no_memory) {
            break;
        }
        if (chunk_decode(sqlite3_column_blob(statement, 0), sqlite3_column_bytes(statement, 0),
                         &chunk) == 0) {
            gather(&chunk, &gathering);
        }
    }
    sqlite3_finalize(statement);
    /* In the order of time, mostly: the database's, then memory's. */
    gathering.from_ms = INT64_MIN;
    gathering.until_ms = INT64_MAX;
    if ((points->count > 0) && (stored.count > 0)) {
        struct history_point *both =
            realloc(stored.points, (stored.count + points->count) * sizeof(*both));

        if (both != NULL) {
            memcpy(both + stored.count, points->points, points->count * sizeof(*both));
            stored.points = both;
            stored.count += points->count;
        }
        gathering.no_memory |= (both == NULL);
    }
    if (stored.count > 0) {
        free(points->points);
        *points = stored;
    } else {
        free(stored.points);
    }
    points_sort(points);
    return gathering.no_memory                 ? -ENOMEM :
           (ret == SQLITE_DONE)                ? 0 :
           ((budget != NULL) && budget->spent) ? -ETIME :
                                                 -EIO;
}

static void begins_look(const struct chunk *chunk, void *arg)
{
    int64_t *first = arg;

    if ((chunk->count > 0) && (chunk->times[0] < *first)) {
        *first = chunk->times[0];
    }
}

int64_t history_begins(sqlite3 *db, const struct series *series, int64_t key, int level)
{
    int64_t first = INT64_MAX, stored;
    sqlite3_stmt *statement;
    char query[128];

    if (series != NULL) {
        tail_read(&series->tail, level, begins_look, &first);
    }
    snprintf(query, sizeof(query),
             "SELECT start_ms FROM %s WHERE series = ? ORDER BY start_ms"
             " LIMIT 1",
             history_levels[level].table);
    if (sqlite3_prepare_v2(db, query, -1, &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, key);
        if (sqlite3_step(statement) == SQLITE_ROW) {
            stored = sqlite3_column_int64(statement, 0);
            first = (stored < first) ? stored : first;
        }
    }
    sqlite3_finalize(statement);
    return first;
}

int64_t history_oldest(sqlite3 *db)
{
    int64_t oldest = INT64_MAX, end_ms;
    sqlite3_stmt *statement;
    char query[100];
    int level;

    for (level = 0; level < HISTORY_LEVELS; ++level) {
        snprintf(query, sizeof(query), "SELECT end_ms FROM %s ORDER BY id LIMIT 1",
                 history_levels[level].table);
        if ((sqlite3_prepare_v2(db, query, -1, &statement, NULL) == SQLITE_OK) &&
            (sqlite3_step(statement) == SQLITE_ROW)) {
            end_ms = sqlite3_column_int64(statement, 0);
            oldest = (end_ms < oldest) ? end_ms : oldest;
        }
        sqlite3_finalize(statement);
    }
    return oldest;
}
