#include "api.h"
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

/* A line of a chart: the sum of series over time, by steps. */
struct line {
    char *family, *label; /* common family and label of its series */
    int counter;          /* and this: a counter x is not added to a gauge x */
    int series;
    double *sums;
    char *seen;
};

/* The points of a series. The points of one step become their mean. */
struct points {
    struct json_object *array; /* where they go, or NULL: */
    struct line *line;         /* here they are added, from step `first` on */
    int64_t first, num;
    int counter, extremes;
    int64_t step_ms, step; /* the current one */
    double last;           /* of a counter */
    int64_t last_ms;       /* 0: none yet */
    double sum, least, most;
    int64_t sum_ms;
    int count;
};

static void points_flush(struct points *points)
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
        points_flush(points);
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

/* A series whose points are read */
struct subject {
    const struct api_reader *reader;
    const struct series *series; /* or NULL: only the database has it */
    int64_t key;
};

/* The store keeps the found series until the reader ends: see store_reader_begin. */
static const struct series *subject_find(const struct api_reader *reader, const char *node,
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
static void levels_add(const struct subject *subject, int64_t from_ms, int64_t until_ms,
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

static void reader_begin(const struct api_reader *reader)
{
    if (reader->store != NULL) {
        store_reader_begin(reader->store);
    }
}

static void reader_end(const struct api_reader *reader)
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

    reader_begin(reader);
    subject.series = subject_find(reader, node, name, counter);
    levels_add(&subject, steps->first * steps->step_ms,
               (steps->first + steps->num) * steps->step_ms, &points);
    reader_end(reader);
    points_flush(&points);
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

    reader_begin(reader);
    series = subject_find(reader, node, name, counter);
    for (level = 0; level < HISTORY_LEVELS; ++level) {
        ms = history_begins(reader->db, series, key, level);
        first_ms = (ms < first_ms) ? ms : first_ms;
    }
    if ((series != NULL) && (series->arrived_ns != 0)) {
        ms = (int64_t)(series->time_ns / 1000000);
        last_ms = (ms > last_ms) ? ms : last_ms;
    }
    reader_end(reader);
    if (first_ms > last_ms) {
        return false;
    }
    *first_ms_p = first_ms;
    *last_ms_p = last_ms;
    return true;
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
        reader_begin(reader);
        subject.series = subject_find(reader, node, name, points.counter);
        levels_add(&subject, range->from_ms, range->until_ms, &points);
        reader_end(reader);
        points_flush(&points);
    }
    json_object_object_add(answer, "counter", json_object_new_boolean(points.counter));
    json_object_object_add(answer, "points", points.array);
    return answer;
}

/* ---- lines of a chart ------------------------------------------------------------------------ */

struct lines {
    const char *by; /* label, or NULL */
    struct line *list;
    int num, left_out; /* series beyond API_LINES_MAX lines */
    int no_memory;
    struct points points; /* of the series at hand */
};

static void lines_free(struct lines *lines)
{
    int i;

    for (i = 0; i < lines->num; ++i) {
        free(lines->list[i].family);
        free(lines->list[i].label);
        free(lines->list[i].sums);
        free(lines->list[i].seen);
    }
    free(lines->list);
}

/* Finds or makes the line of a series. NULL: too many lines, or no memory. */
static struct line *lines_find(struct lines *lines, const char *name, int counter)
{
    size_t family = strcspn(name, "{"), length = 0;
    const char *label = "", *at = name + family;
    struct udmon_label each;
    struct line *line;
    int i;

    if ((lines->by != NULL) && !strcmp(lines->by, "*") && (*at == '{')) {
        label = at + 1;
        length = strlen(label) - 1; /* without the brace */
    }
    while ((lines->by != NULL) && udmon_label_next(&at, &each)) {
        if (udmon_label_is(&each, lines->by)) {
            label = each.value;
            length = each.value_length;
        }
    }
    for (i = 0; i < lines->num; ++i) {
        line = &lines->list[i];
        if ((line->counter == counter) && (strlen(line->family) == family) &&
            !memcmp(line->family, name, family) && (strlen(line->label) == length) &&
            !memcmp(line->label, label, length)) {
            return line;
        }
    }
    if (lines->num == API_LINES_MAX) {
        ++lines->left_out;
        return NULL;
    }
    line = &lines->list[lines->num++];
    *line = (struct line){.counter = counter,
                          .family = strndup(name, family),
                          .label = strndup(label, length),
                          .sums = calloc((size_t)lines->points.num, sizeof(*line->sums)),
                          .seen = calloc((size_t)lines->points.num, 1)};
    lines->no_memory |= (line->family == NULL) || (line->label == NULL) || (line->sums == NULL) ||
                        (line->seen == NULL);
    return lines->no_memory ? NULL : line;
}

static void lines_add_series(struct lines *lines, const struct subject *subject, const char *name,
                             int counter)
{
    struct points *points = &lines->points;
    struct budget *budget = subject->reader->budget;

    if ((budget != NULL) && budget_spent(budget)) {
        return;
    }
    points->line = lines_find(lines, name, counter);
    if (points->line == NULL) {
        return;
    }
    ++points->line->series;
    points->counter = counter;
    points->step = -1;
    points->last_ms = 0;
    levels_add(subject, points->first * points->step_ms,
               (points->first + points->num) * points->step_ms, points);
    points_flush(points);
}

/* All series of a family. */
static void lines_add_family(struct lines *lines, const struct api_reader *reader, const char *node,
                             const char *family, size_t length)
{
    struct subject subject = {.reader = reader};
    sqlite3_stmt *statement;
    const char *name;

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
    while (!lines->no_memory && (sqlite3_step(statement) == SQLITE_ROW)) {
        name = (const char *)sqlite3_column_text(statement, 1);
        subject.key = sqlite3_column_int64(statement, 0);
        subject.series = subject_find(reader, node, name, sqlite3_column_int(statement, 2));
        lines_add_series(lines, &subject, name, sqlite3_column_int(statement, 2));
    }
    sqlite3_finalize(statement);
}

static struct json_object *line_json(const struct lines *lines, const struct line *line)
{
    struct json_object *object = json_object_new_object(), *points = json_object_new_array(), *pair;
    const struct points *p = &lines->points;
    int64_t i;

    for (i = 0; i < p->num; ++i) {
        if (line->seen[i]) {
            pair = json_object_new_array_ext(2);
            json_object_array_add(
                pair, json_object_new_int64(((p->first + i) * p->step_ms) + (p->step_ms / 2)));
            json_object_array_add(pair, json_object_new_double(line->sums[i]));
            json_object_array_add(points, pair);
        }
    }
    json_object_object_add(object, "family", json_object_new_string(line->family));
    json_object_object_add(object, "label", json_object_new_string(line->label));
    json_object_object_add(object, "series", json_object_new_int(line->series));
    json_object_object_add(object, "points", points);
    return object;
}

/* Whether a family also appears in the list before `at`. */
static bool family_before(const char *families, const char *at, size_t length)
{
    size_t other;

    for (; families < at; families += other + 1) {
        other = strcspn(families, ",");
        if ((other == length) && !memcmp(families, at, length)) {
            return true;
        }
    }
    return false;
}

struct json_object *api_lines(const struct api_reader *reader, const char *node,
                              const char *families, const char *by, const struct api_range *range)
{
    struct lines lines = {.by = by, .list = calloc(API_LINES_MAX, sizeof(*lines.list))};
    struct json_object *answer = NULL, *array;
    const char *at;
    size_t length;
    int i;

    lines.points.step_ms = api_step_ms(range);
    lines.points.first = range->from_ms / lines.points.step_ms;
    lines.points.num = (range->until_ms / lines.points.step_ms) - lines.points.first + 1;
    lines.no_memory = lines.list == NULL;
    reader_begin(reader);
    for (at = families; !lines.no_memory && (*at != '\0'); at += length + (at[length] != 0)) {
        length = strcspn(at, ",");
        if (!family_before(families, at, length)) {
            lines_add_family(&lines, reader, node, at, length);
        }
    }
    reader_end(reader);
    if (!lines.no_memory) {
        answer = json_object_new_object();
        array = json_object_new_array();
        for (i = 0; i < lines.num; ++i) {
            json_object_array_add(array, line_json(&lines, &lines.list[i]));
        }
        json_object_object_add(answer, "lines", array);
        json_object_object_add(answer, "left_out", json_object_new_int(lines.left_out));
    }
    lines_free(&lines);
    return answer;
}
