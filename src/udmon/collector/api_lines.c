/* Lines of a chart: sums of the series of a node's families. */
#include "api_inside.h"
#include "history.h"
#include "../lib/base/clock.h"
#include "../lib/metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A family of the request */
struct family {
    const char *name;
    size_t length;
    bool known[2]; /* whether the local history has series of it: gauges, counters */
};

struct lines {
    const char *by; /* label, or NULL */
    struct family *families;
    int family_count;
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
    free(lines->families);
}

/* Finds or makes a line. NULL: too many lines, or no memory. */
static struct line *lines_get(struct lines *lines, const char *name, size_t family,
                              const char *label, size_t length, int counter)
{
    struct line *line;
    int i;

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

/* The line of a series. */
static struct line *lines_find(struct lines *lines, const char *name, int counter)
{
    size_t family = strcspn(name, "{"), length = 0;
    const char *label = "", *at = name + family;
    struct udmon_label each;

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
    return lines_get(lines, name, family, label, length, counter);
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
    api_add_levels(subject, points->first * points->step_ms,
                   (points->first + points->num) * points->step_ms, points);
    api_points_flush(points);
}

/* The family whose series are added. */
struct lines_family {
    struct lines *lines;
    const struct api_reader *reader;
    const char *node;
    struct family *family;
};

static void lines_add_found(const char *name, int counter, int64_t key, void *arg)
{
    const struct lines_family *of = arg;
    struct subject subject = {.reader = of->reader, .key = key};

    if (!of->lines->no_memory) {
        subject.series = api_subject_find(of->reader, of->node, name, counter);
        lines_add_series(of->lines, &subject, name, counter);
        of->family->known[counter] = true;
    }
}

/* All local series of a family. */
static void lines_add_family(struct lines *lines, const struct api_reader *reader, const char *node,
                             struct family *family)
{
    struct lines_family of = {.lines = lines, .reader = reader, .node = node, .family = family};

    api_each_series(reader, node, family->name, family->length, lines_add_found, &of);
}

/* ---- older values of lines ------------------------------------------------------------------- */

/* A selector of a family, or NULL. */
static char *family_selector(const struct older *older, const char *node,
                             const struct family *family, int counter)
{
    char *selector = NULL;
    size_t length;
    FILE *out = open_memstream(&selector, &length);

    if (out == NULL) {
        return NULL;
    }
    older_select_family(out, family->name, family->length, counter != 0);
    older_select_label(out, "node", node);
    older_select_end(out, older, NULL);
    if (fclose(out) != 0) {
        free(selector);
        selector = NULL;
    }
    return selector;
}

/* Returns how many labels the line of a series has, or -1 if the row lacks one of them. */
static int row_has_labels(const struct query_row *row, const struct line *line)
{
    char text[UDMON_METRIC_NAME_MAX + 3], name[UDMON_METRIC_NAME_MAX + 1];
    char value[UDMON_METRIC_NAME_MAX + 1];
    const char *at = text;
    struct udmon_label label;
    int count = 0;

    snprintf(text, sizeof(text), "{%s}", line->label);
    while ((line->label[0] != '\0') && udmon_label_next(&at, &label)) {
        snprintf(name, sizeof(name), "%s%.*s", udmon_label_prefix(&label), (int)label.name_length,
                 label.name);
        udmon_label_value(&label, value, sizeof(value));
        if (strcmp(older_label(row, name), value) != 0) {
            return -1;
        }
        ++count;
    }
    return count;
}

/* The labels of a row as those of a series: without node, and without the prefix "exported_". */
static void row_label_text(const struct query_row *row, char *text, size_t size)
{
    char quoted[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_label label;
    size_t used = 0;
    int length;

    text[0] = '\0';
    json_object_object_foreach(row->labels, name, value) {
        label = (struct udmon_label){.name = name, .name_length = strlen(name)};
        if (!strcmp(name, "node") || !strcmp(name, "__name__")) {
            continue;
        }
        udmon_label_quote(json_object_get_string(value), quoted, sizeof(quoted));
        length = snprintf(text + used, size - used, "%s%s=\"%s\"", (used > 0) ? "," : "",
                          name + strlen(udmon_label_prefix(&label)), quoted);
        if ((length < 0) || ((size_t)length >= size - used)) {
            text[used] = '\0';
            return;
        }
        used += (size_t)length;
    }
}

/* The line to which a row belongs. */
static struct line *lines_find_row(struct lines *lines, const struct family *family, const char *by,
                                   const struct query_row *row, int counter)
{
    char text[(2 * UDMON_METRIC_NAME_MAX) + 1];
    struct line *line, *best = NULL;
    int i, labels, most = -1;

    if (by != NULL) {
        udmon_label_quote(older_label(row, by), text, sizeof(text));
        return lines_get(lines, family->name, family->length, text, strlen(text), counter);
    }
    for (i = 0; i < lines->num; ++i) {
        line = &lines->list[i];
        labels = ((line->counter == counter) && (strlen(line->family) == family->length) &&
                  !memcmp(line->family, family->name, family->length)) ?
                     row_has_labels(row, line) :
                     -1;
        if (labels > most) {
            most = labels;
            best = line;
        }
    }
    if (best != NULL) {
        return best;
    }
    row_label_text(row, text, sizeof(text));
    return lines_get(lines, family->name, family->length, text, strlen(text), counter);
}

/*
 * The engine's sums replace local sums. At the begin of the local history, chunks of some series are
 * already deleted, so local sums may be too small.
 */
static void line_add_row(struct line *line, const struct query_steps *steps,
                         const struct query_row *row)
{
    int64_t i;

    for (i = 0; i < steps->num; ++i) {
        if (isfinite(row->values[i])) {
            line->sums[i] = row->values[i];
            line->seen[i] = 1;
        }
    }
}

/* Returns whether the engine has values. */
static bool lines_ask(struct lines *lines, const struct api_reader *reader, const char *node,
                      const struct family *family, int counter)
{
    struct query_steps steps = {
        .step_ms = lines->points.step_ms, .first = lines->points.first, .num = lines->points.num};
    int64_t num = (reader->older->end_ms / steps.step_ms) - steps.first + 1;
    struct udmon_label label = {.name = lines->by};
    struct older_question question = {.counter = counter != 0, .by = ""};
    struct query_table table = {0};
    char *selector, by[UDMON_METRIC_NAME_MAX + 1] = "";
    struct line *line;
    size_t i;

    steps.num = (num < steps.num) ? num : steps.num;
    if ((lines->by != NULL) && !strcmp(lines->by, "*")) {
        question.by = NULL;
    } else if (lines->by != NULL) {
        label.name_length = strlen(lines->by);
        snprintf(by, sizeof(by), "%s%s", udmon_label_prefix(&label), lines->by);
        question.by = by;
    }
    if ((by[0] != '\0') && !older_label_valid(by)) {
        return false;
    }
    selector = family_selector(reader->older, node, family, counter);
    question.selector = selector;
    if ((selector != NULL) && older_ask(reader->older, &question, &steps, &table)) {
        for (i = 0; (i < table.count) && !lines->no_memory; ++i) {
            line = lines_find_row(lines, family, question.by, &table.rows[i], counter);
            if (line != NULL) {
                line_add_row(line, &steps, &table.rows[i]);
            }
        }
    }
    free(selector);
    i = table.count;
    query_free(&table);
    return i > 0;
}

/* A family that the local history does not know is one of gauges, or else of counters. */
static void lines_add_older(struct lines *lines, const struct api_reader *reader, const char *node,
                            const struct family *family)
{
    bool known = family->known[0] || family->known[1], found = false;
    int counter;

    for (counter = 0; (counter < 2) && !lines->no_memory; ++counter) {
        if (known ? family->known[counter] : !found) {
            found = lines_ask(lines, reader, node, family, counter);
        }
    }
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

/* Splits the list of families. False: no memory. */
static bool lines_split(struct lines *lines, const char *families)
{
    size_t length, count = 1;
    const char *at;

    for (at = families; *at != '\0'; ++at) {
        count += (*at == ',');
    }
    lines->families = calloc(count, sizeof(*lines->families));
    for (at = families; (lines->families != NULL) && (*at != '\0');
         at += length + (at[length] != 0)) {
        length = strcspn(at, ",");
        if (!family_before(families, at, length)) {
            lines->families[lines->family_count++] = (struct family){.name = at, .length = length};
        }
    }
    return lines->families != NULL;
}

struct json_object *api_lines(const struct api_reader *reader, const char *node,
                              const char *families, const char *by, const struct api_range *range)
{
    struct lines lines = {.by = by, .list = calloc(API_LINES_MAX, sizeof(*lines.list))};
    struct json_object *answer = NULL, *array;
    int i;

    lines.points.step_ms = api_step_ms(range);
    lines.points.first = range->from_ms / lines.points.step_ms;
    lines.points.num = (range->until_ms / lines.points.step_ms) - lines.points.first + 1;
    lines.no_memory = (lines.list == NULL) || !lines_split(&lines, families);
    api_reader_begin(reader);
    for (i = 0; (i < lines.family_count) && !lines.no_memory; ++i) {
        lines_add_family(&lines, reader, node, &lines.families[i]);
    }
    api_reader_end(reader);
    if ((reader->older != NULL) && (range->from_ms < reader->older->end_ms)) {
        for (i = 0; i < lines.family_count; ++i) {
            lines_add_older(&lines, reader, node, &lines.families[i]);
        }
    }
    if (!lines.no_memory) {
        answer = json_object_new_object();
        array = json_object_new_array();
        for (i = 0; i < lines.num; ++i) {
            json_object_array_add(array, line_json(&lines, &lines.list[i]));
        }
        json_object_object_add(answer, "lines", array);
        json_object_object_add(answer, "left_out", json_object_new_int(lines.left_out));
        api_add_older(answer, reader);
    }
    lines_free(&lines);
    return answer;
}
