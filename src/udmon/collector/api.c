#include "api_inside.h"
#include "history.h"
#include "../lib/metric.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void names_add(struct series *series, void *arg)
{
    json_object_array_add(arg, json_object_new_string(series->name));
}

struct json_object *api_names(struct store *store, const char *node)
{
    struct json_object *names = NULL;
    const struct host *host;

    store_lock(store);
    host = store_find_host(store, node);
    if (host != NULL) {
        names = json_object_new_array();
        store_each(host, names_add, names);
    }
    store_unlock(store);
    return names;
}

void api_points_flush(struct points *points)
{
    int64_t at = points->step - points->first;
    struct json_object *pair;

    if ((points->count > 0) && (points->array != NULL)) {
        pair = json_object_new_array_ext(points->extremes ? 4 : 2);
        json_object_array_add(pair, json_object_new_int64(points->sum_ms / points->count));
        json_object_array_add(pair, json_object_new_double(points->sum / points->count));
        if (points->extremes) {
            json_object_array_add(pair, json_object_new_double(points->least));
            json_object_array_add(pair, json_object_new_double(points->most));
        }
        json_object_array_add(points->array, pair);
    } else if ((points->count > 0) && (at >= 0) && (at < points->num)) {
        points->line->sums[at] += points->sum / points->count;
        points->line->seen[at] = 1;
    }
    points->count = 0;
    points->sum = 0;
    points->sum_ms = 0;
}

/* A value that is not finite is no reading: the chart has a gap there. */
static void points_add(struct points *points, const struct history_point *point)
{
    double shown = point->value, least = point->least, most = point->most;
    int known = isfinite(shown);

    if (points->counter && known) {
        known = (points->last_ms != 0) && (point->time_ms > points->last_ms) &&
                (point->value >= points->last);
        shown = known ? ((point->value - points->last) * 1000 /
                         (double)(point->time_ms - points->last_ms)) :
                        0;
        points->last = point->value;
        points->last_ms = point->time_ms;
    }
    if (!known || !isfinite(shown)) {
        return;
    }
    if ((point->time_ms / points->step_ms) != points->step) {
        api_points_flush(points);
        points->step = point->time_ms / points->step_ms;
    }
    least = isfinite(least) ? least : shown;
    most = isfinite(most) ? most : shown;
    points->least = ((points->count == 0) || (least < points->least)) ? least : points->least;
    points->most = ((points->count == 0) || (most > points->most)) ? most : points->most;
    points->sum += shown;
    points->sum_ms += point->time_ms;
    ++points->count;
}

/* The key of a series, or 0. */
static int64_t series_key(const struct api_reader *reader, const char *node, const char *name,
                          int *counter_p)
{
    sqlite3_stmt *statement;
    int64_t key = 0;

    if (sqlite3_prepare_v2(reader->db,
                           "SELECT series.id, counter FROM series JOIN host"
                           " ON series.host = host.id WHERE host.name = ? AND series.name = ?"
                           " ORDER BY counter",
                           -1, &statement, NULL) != SQLITE_OK) {
        return 0;
    }
    sqlite3_bind_text(statement, 1, node, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, name, -1, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        key = sqlite3_column_int64(statement, 0);
        *counter_p = sqlite3_column_int(statement, 1);
    }
    sqlite3_finalize(statement);
    return key;
}

/* The store keeps the found series until the reader ends: see store_reader_begin. */
const struct series *api_subject_find(const struct api_reader *reader, const char *node,
                                      const char *name, int counter)
{
    const struct series *series = NULL;
    const struct host *host;

    if (reader->store != NULL) {
        store_lock(reader->store);
        host = store_find_host(reader->store, node);
        series = (host != NULL) ? store_find_series(host, name, counter) : NULL;
        store_unlock(reader->store);
    }
    return series;
}

void api_each_series(const struct api_reader *reader, const char *node, const char *family,
                     size_t length, api_series_fn each, void *arg)
{
    sqlite3_stmt *statement;

    /* '|' follows '{' */
    if (sqlite3_prepare_v2(reader->db,
                           "SELECT series.id, series.name, counter FROM series JOIN host"
                           " ON series.host = host.id WHERE host.name = ?1 AND (series.name = ?2"
                           " OR (series.name >= ?2 || '{' AND series.name < ?2 || '|'))"
                           " ORDER BY series.name",
                           -1, &statement, NULL) != SQLITE_OK) {
        return;
    }
    sqlite3_bind_text(statement, 1, node, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, family, (int)length, SQLITE_STATIC);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        each((const char *)sqlite3_column_text(statement, 1), sqlite3_column_int(statement, 2) != 0,
             sqlite3_column_int64(statement, 0), arg);
    }
    sqlite3_finalize(statement);
}

/* Add a level's points of [from, until); returns where the next level goes on. */
static int64_t level_add(const struct subject *subject, int level, int64_t from_ms,
                         int64_t until_ms, struct points *points)
{
    struct history_points read;
    size_t i;

    if (from_ms >= until_ms) {
        return from_ms;
    }
    if (history_read(subject->reader->db, subject->series, subject->key, level, from_ms, until_ms,
                     subject->reader->budget, &read) == 0) {
        for (i = 0; i < read.count; ++i) {
            from_ms = read.points[i].time_ms + 1;
            points_add(points, &read.points[i]);
        }
    }
    free(read.points);
    return from_ms;
}

/*
 * Add the points of the coarsest level that is fine enough. Coarser levels fill the time before its
 * first step, and finer levels the time after its last step.
 */
void api_add_levels(const struct subject *subject, int64_t from_ms, int64_t until_ms,
                    struct points *points)
{
    int64_t finer_ms;
    int level, best = 0;

    for (level = 1; level < HISTORY_LEVELS; ++level) {
        best = (history_levels[level].step_ms <= points->step_ms) ? level : best;
    }
    for (level = HISTORY_LEVELS - 1; level > best; --level) {
        finer_ms = history_begins(subject->reader->db, subject->series, subject->key, level - 1);
        from_ms =
            level_add(subject, level, from_ms, (finer_ms < until_ms) ? finer_ms : until_ms, points);
    }
    for (; level >= 0; --level) {
        from_ms = level_add(subject, level, from_ms, until_ms, points);
    }
}

int64_t api_step_ms(const struct api_range *range)
{
    int64_t span_ms = range->until_ms - range->from_ms;

    return (span_ms > range->points) ? (span_ms / range->points) : 1;
}

void api_reader_begin(const struct api_reader *reader)
{
    if (reader->store != NULL) {
        store_reader_begin(reader->store);
    }
}

void api_reader_end(const struct api_reader *reader)
{
    if (reader->store != NULL) {
        store_reader_end(reader->store);
    }
}

void api_add_series(const struct api_reader *reader, const char *node, const char *name,
                    int counter, int64_t key, const struct api_steps *steps)
{
    struct line line = {.sums = steps->sums, .seen = steps->seen};
    struct points points = {.line = &line,
                            .first = steps->first,
                            .num = steps->num,
                            .step_ms = steps->step_ms,
                            .counter = counter,
                            .step = -1};
    struct subject subject = {.reader = reader, .key = key};

    api_reader_begin(reader);
    subject.series = api_subject_find(reader, node, name, counter);
    api_add_levels(&subject, steps->first * steps->step_ms,
                   (steps->first + steps->num) * steps->step_ms, &points);
    api_reader_end(reader);
    api_points_flush(&points);
}

/* The end of the last chunk of a series, or 0. */
static int64_t stored_end(const struct api_reader *reader, int64_t key)
{
    int64_t end_ms = 0, ms;
    sqlite3_stmt *statement;
    char query[100];
    int level;

    for (level = 0; level < HISTORY_LEVELS; ++level) {
        snprintf(query, sizeof(query), "SELECT max(end_ms) FROM %s WHERE series = ?",
                 history_levels[level].table);
        if (sqlite3_prepare_v2(reader->db, query, -1, &statement, NULL) == SQLITE_OK) {
            sqlite3_bind_int64(statement, 1, key);
            ms = (sqlite3_step(statement) == SQLITE_ROW) ? sqlite3_column_int64(statement, 0) : 0;
            end_ms = (ms > end_ms) ? ms : end_ms;
        }
        sqlite3_finalize(statement);
    }
    return end_ms;
}

bool api_span(const struct api_reader *reader, const char *node, const char *name, int counter,
              int64_t key, int64_t *first_ms_p, int64_t *last_ms_p)
{
    int64_t first_ms = INT64_MAX, last_ms = stored_end(reader, key), ms;
    const struct series *series;
    int level;

    api_reader_begin(reader);
    series = api_subject_find(reader, node, name, counter);
    for (level = 0; level < HISTORY_LEVELS; ++level) {
        ms = history_begins(reader->db, series, key, level);
        first_ms = (ms < first_ms) ? ms : first_ms;
    }
    if ((series != NULL) && (series->arrived_ns != 0)) {
        ms = (int64_t)(series->time_ns / 1000000);
        last_ms = (ms > last_ms) ? ms : last_ms;
    }
    api_reader_end(reader);
    if (first_ms > last_ms) {
        return false;
    }
    *first_ms_p = first_ms;
    *last_ms_p = last_ms;
    return true;
}

/* ---- older values of one series -------------------------------------------------------------- */

void api_add_older(struct json_object *answer, const struct api_reader *reader)
{
    struct json_object *object;

    if ((reader->older != NULL) && (reader->older->until_ms != 0)) {
        object = json_object_new_object();
        json_object_object_add(object, "until_ms", json_object_new_int64(reader->older->until_ms));
        json_object_object_add(object, "failed", json_object_new_boolean(reader->older->failed));
        json_object_object_add(answer, "older", object);
    }
}

/* A selector of one series, or NULL. */
static char *series_selector(const struct older *older, const char *node, const char *name,
                             int counter)
{
    const char *labels = name + strcspn(name, "{");
    char *selector = NULL;
    size_t length;
    FILE *out = open_memstream(&selector, &length);

    if (out == NULL) {
        return NULL;
    }
    older_select_family(out, name, (size_t)(labels - name), counter != 0);
    older_select_label(out, "node", node);
    older_select_labels(out, labels);
    older_select_end(out, older, labels);
    if (fclose(out) != 0) {
        free(selector);
        selector = NULL;
    }
    return selector;
}

/*
 * The row of the series, or NULL. A selector matches series with more labels, too. A single row with
 * more labels is the series: an engine may add labels to all series.
 */
static const struct query_row *series_row(const struct query_table *table, size_t labels)
{
    struct json_object *name;
    size_t i, count;

    for (i = 0; i < table->count; ++i) {
        count = (size_t)json_object_object_length(table->rows[i].labels);
        count -= json_object_object_get_ex(table->rows[i].labels, "__name__", &name);
        if (count == labels) {
            return &table->rows[i];
        }
    }
    return (table->count == 1) ? &table->rows[0] : NULL;
}

/* What the engine has of a series, for some steps. */
struct older_series {
    struct query_steps steps;
    size_t labels;                            /* of the series, with the label node */
    struct query_table mean, least, greatest; /* the last two of a gauge, if they are wanted */
    const struct query_row *row;              /* of `mean`; NULL: the engine has nothing */
    int extremes;
};

static bool older_has(const struct older_series *older, int64_t step)
{
    return (step >= 0) && (step < older->steps.num) && isfinite(older->row->values[step]);
}

static double older_value(const struct older_series *older, const struct query_table *table,
                          int64_t step)
{
    const struct query_row *row = series_row(table, older->labels);

    return (row != NULL) ? row->values[step] : older->row->values[step];
}

static struct json_object *older_point(const struct older_series *older, int64_t step)
{
    struct json_object *point = json_object_new_array_ext(older->extremes ? 4 : 2);
    int64_t time_ms =
        ((older->steps.first + step) * older->steps.step_ms) + (older->steps.step_ms / 2);

    json_object_array_add(point, json_object_new_int64(time_ms));
    json_object_array_add(point, json_object_new_double(older->row->values[step]));
    if (older->extremes) {
        json_object_array_add(point,
                              json_object_new_double(older_value(older, &older->least, step)));
        json_object_array_add(point,
                              json_object_new_double(older_value(older, &older->greatest, step)));
    }
    return point;
}

/* Merges the points in the order of time. In a step that both have, the engine's point counts. */
static struct json_object *older_merge(const struct older_series *older, struct json_object *local)
{
    struct json_object *merged = json_object_new_array(), *point;
    size_t at, count = json_object_array_length(local);
    int64_t step = 0, own;

    for (at = 0; at < count; ++at) {
        point = json_object_array_get_idx(local, at);
        own = json_object_get_int64(json_object_array_get_idx(point, 0));
        own = (own / older->steps.step_ms) - older->steps.first;
        for (; (step < older->steps.num) && (step <= own); ++step) {
            if (older_has(older, step)) {
                json_object_array_add(merged, older_point(older, step));
            }
        }
        if (!older_has(older, own)) {
            json_object_array_add(merged, json_object_get(point));
        }
    }
    for (; step < older->steps.num; ++step) {
        if (older_has(older, step)) {
            json_object_array_add(merged, older_point(older, step));
        }
    }
    return merged;
}

/* Asks the engine; returns whether it has the series. */
static bool older_read(struct older_series *older, const struct api_reader *reader,
                       const char *selector, int counter)
{
    struct older_question question = {.selector = selector, .counter = counter != 0};

    if (!older_ask(reader->older, &question, &older->steps, &older->mean)) {
        return false;
    }
    older->row = series_row(&older->mean, older->labels);
    if ((older->row != NULL) && older->extremes && !counter) {
        question.function = OLDER_LEAST;
        older_ask(reader->older, &question, &older->steps, &older->least);
        question.function = OLDER_GREATEST;
        older_ask(reader->older, &question, &older->steps, &older->greatest);
    }
    return older->row != NULL;
}

/*
 * Adds the engine's points. A series that the local history does not know is a gauge or, if the engine
 * has no such gauge, a counter.
 */
static void series_add_older(const struct api_reader *reader, const char *node, const char *name,
                             const struct api_range *range, struct points *points, bool known)
{
    int64_t end_ms =
        (reader->older->end_ms < range->until_ms) ? reader->older->end_ms : range->until_ms;
    struct older_series older = {
        .steps = {.step_ms = points->step_ms, .first = range->from_ms / points->step_ms},
        .extremes = points->extremes};
    const char *at = name + strcspn(name, "{");
    struct json_object *merged;
    int counter, found = 0;
    struct udmon_label label;
    char *selector;

    for (older.labels = 1; udmon_label_next(&at, &label);) {
        older.labels += label.value_length > 0;
    }

    older.steps.num = (end_ms / points->step_ms) - older.steps.first + 1;
    for (counter = points->counter; (counter < (known ? points->counter + 1 : 2)) && !found;
         ++counter) {
        query_free(&older.mean);
        selector = series_selector(reader->older, node, name, counter);
        found = (selector != NULL) && older_read(&older, reader, selector, counter);
        free(selector);
    }
    if (found) {
        points->counter = counter - 1;
        merged = older_merge(&older, points->array);
        json_object_put(points->array);
        points->array = merged;
    }
    query_free(&older.mean);
    query_free(&older.least);
    query_free(&older.greatest);
}

struct json_object *api_series(const struct api_reader *reader, const char *node, const char *name,
                               const struct api_range *range)
{
    struct json_object *answer = json_object_new_object();
    struct points points = {
        .array = json_object_new_array(), .step = -1, .extremes = range->extremes};
    struct subject subject = {.reader = reader};

    points.step_ms = api_step_ms(range);
    subject.key = series_key(reader, node, name, &points.counter);
    if (subject.key != 0) {
        api_reader_begin(reader);
        subject.series = api_subject_find(reader, node, name, points.counter);
        api_add_levels(&subject, range->from_ms, range->until_ms, &points);
        api_reader_end(reader);
        api_points_flush(&points);
    }
    if ((reader->older != NULL) && (range->from_ms < reader->older->end_ms)) {
        series_add_older(reader, node, name, range, &points, subject.key != 0);
    }
    api_add_older(answer, reader);
    json_object_object_add(answer, "counter", json_object_new_boolean(points.counter));
    json_object_object_add(answer, "points", points.array);
    return answer;
}
