#include "older.h"
#include "../lib/metric.h"

#include <stdlib.h>
#include <string.h>

/* ---- selectors ------------------------------------------------------------------------------- */

void older_select_family(FILE *out, const char *family, size_t length, bool counter)
{
    char name[UDMON_METRIC_NAME_MAX + 1], text[2 * UDMON_METRIC_NAME_MAX];

    snprintf(name, sizeof(name), "%.*s", (int)length, family);
    udmon_label_quote(name, text, sizeof(text));
    fprintf(out, "{__name__=\"%s%s\"", text, counter ? "_total" : "");
}

void older_select_label(FILE *out, const char *name, const char *text)
{
    char quoted[2 * UDMON_METRIC_NAME_MAX];

    udmon_label_quote(text, quoted, sizeof(quoted));
    fprintf(out, ",%s=\"%s\"", name, quoted);
}

/* The escapes of a label's value are those of PromQL. */
void older_select_labels(FILE *out, const char *labels)
{
    struct udmon_label label;

    while (udmon_label_next(&labels, &label)) {
        fprintf(out, ",%s%.*s=\"%.*s\"", udmon_label_prefix(&label), (int)label.name_length,
                label.name, (int)label.value_length, label.value);
    }
}

void older_select_pattern(FILE *out, const char *text)
{
    for (; *text != '\0'; ++text) {
        if (strchr(".*+?()[]{}|^$", *text) != NULL) {
            fputs("\\\\", out); /* a backslash, by the escapes of a PromQL string */
        }
        fputc(*text, out);
    }
}

/*
 * An engine that receives the samples by remote write may scrape the collector, too, and would then
 * have each sample twice. Scraped samples have the label `instance`.
 */
void older_select_end(FILE *out, const struct older *older, const char *labels)
{
    const char *match = older->query->options.match;
    struct udmon_label label;
    bool own = false;

    while ((labels != NULL) && udmon_label_next(&labels, &label)) {
        own |= udmon_label_is(&label, "instance");
    }
    if (match != NULL) {
        fprintf(out, "%s%s", (*match != '\0') ? "," : "", match);
    } else if (!own) {
        fputs(",instance=\"\"", out);
    }
    fputc('}', out);
}

bool older_label_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    return (*name != '\0') && ((*name < '0') || (*name > '9')) &&
           (name[strspn(name, letters)] == '\0');
}

const char *older_label(const struct query_row *row, const char *name)
{
    struct json_object *value;

    return json_object_object_get_ex(row->labels, name, &value) ? json_object_get_string(value) :
                                                                  "";
}

/* ---- questions ------------------------------------------------------------------------------- */

/*
 * Writes what a series' value is in a step. The rate of a counter is the change between the last
 * samples of two steps, divided by the distance of their times, as api.c computes it. PromQL's rate()
 * needs two samples in each step, and extrapolates.
 */
static void write_value(FILE *out, const struct older_question *question, long long step_ms)
{
    static const char *const functions[] = {
        [OLDER_MEAN] = "avg_over_time",
        [OLDER_LEAST] = "min_over_time",
        [OLDER_GREATEST] = "max_over_time",
        [OLDER_COUNT] = "count_over_time",
    };
    const char *selector = question->selector;

    if (question->counter && (question->function != OLDER_COUNT)) {
        fprintf(out,
                "((%1$s - %1$s offset %2$lldms) >= 0)"
                " / ((timestamp(%1$s) - timestamp(%1$s offset %2$lldms)) > 0)",
                selector, step_ms);
    } else {
        fprintf(out, "%s(%s[%lldms])", functions[question->function], selector, step_ms);
    }
}

bool older_ask(struct older *older, const struct older_question *question,
               const struct query_steps *steps, struct query_table *table_p)
{
    int64_t until_ms = (steps->first + steps->num) * steps->step_ms; /* of the last step */
    char *expression = NULL;
    size_t length;
    FILE *out = open_memstream(&expression, &length);
    bool answered = false;

    if (out != NULL) {
        if (question->by != NULL) {
            fprintf(out, "sum by (%s) (", question->by);
        }
        write_value(out, question, (long long)steps->step_ms);
        if (question->by != NULL) {
            fputc(')', out);
        }
        answered = (fclose(out) == 0) &&
                   (query_ask(older->query, older->budget, expression, steps, table_p) == 0);
        free(expression);
    }
    older->failed |= !answered;
    if ((!answered || (table_p->count > 0)) && (until_ms > older->until_ms)) {
        older->until_ms = (until_ms < older->end_ms) ? until_ms : older->end_ms;
    }
    return answered;
}
