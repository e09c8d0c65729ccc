#include "job_older.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIND_STEPS = 366, /* days of a year */
    FIND_FINE_STEPS = 5000,
    FIND_LEAST_MS = 1000,
    FIND_ROUNDS = 3 /* a second within a year */
};

static char *job_selector(const struct older *older, const struct job_older_family *family,
                          const char *const *nodes, size_t count)
{
    char *selector = NULL;
    size_t i, length;
    FILE *out = open_memstream(&selector, &length);

    if (out == NULL) {
        return NULL;
    }
    older_select_family(out, family->name, strlen(family->name), family->counter);
    if (family->job != NULL) {
        older_select_label(out, "job", family->job);
    } else {
        fputs(",device!=\"lo\"", out);
    }
    for (i = 0; i < count; ++i) {
        fputs((i == 0) ? ",node=~\"" : "|", out);
        older_select_pattern(out, nodes[i]);
    }
    fputs((count > 0) ? "\"" : "", out);
    older_select_end(out, older, NULL);
    if (fclose(out) != 0) {
        free(selector);
        selector = NULL;
    }
    return selector;
}

/* Narrows the time to the steps with values; false: there are none. */
static bool find_narrow(const struct query_table *table, const struct query_steps *steps,
                        int64_t *from_ms, int64_t *until_ms)
{
    int64_t i, first = INT64_MAX, last = -1;
    size_t row;

    for (row = 0; row < table->count; ++row) {
        for (i = 0; i < steps->num; ++i) {
            if (!isnan(table->rows[row].values[i])) {
                first = (i < first) ? i : first;
                last = (i > last) ? i : last;
            }
        }
    }
    if (last >= 0) {
        *from_ms = (steps->first + first) * steps->step_ms;
        *until_ms = (steps->first + last + 1) * steps->step_ms;
    }
    return last >= 0;
}

bool job_older_find(struct older *older, const char *id, int64_t from_ms, int64_t until_ms,
                    struct query_steps *steps_p, struct query_table *table_p)
{
    const struct job_older_family family = {.name = "slurm_job_memory_bytes", .job = id};
    char *selector = job_selector(older, &family, NULL, 0);
    struct older_question question = {
        .selector = selector, .function = OLDER_COUNT, .by = "node,user,partition"};
    struct query_table table = {0};
    struct query_steps steps;
    bool found = selector != NULL;
    int round;

    for (round = 0; (round < FIND_ROUNDS) && found; ++round) {
        query_free(&table);
        steps.step_ms = (until_ms - from_ms) / ((round > 0) ? FIND_FINE_STEPS : FIND_STEPS);
        steps.step_ms = (steps.step_ms > FIND_LEAST_MS) ? steps.step_ms : FIND_LEAST_MS;
        steps.first = from_ms / steps.step_ms;
        steps.num = ((until_ms - 1) / steps.step_ms) - steps.first + 1;
        found = (steps.num > 0) && older_ask(older, &question, &steps, &table) &&
                find_narrow(&table, &steps, &from_ms, &until_ms);
    }
    free(selector);
    if (!found) {
        query_free(&table);
        return false;
    }
    *steps_p = steps;
    *table_p = table;
    return true;
}

bool job_older_read(struct older *older, const struct job_older_family *family,
                    const char *const *nodes, size_t count, const struct query_steps *steps,
                    struct query_table *table_p)
{
    char *selector = job_selector(older, family, nodes, count);
    const struct older_question question = {
        .selector = selector, .counter = family->counter, .by = "node"};
    bool answered = (selector != NULL) && older_ask(older, &question, steps, table_p);

    free(selector);
    return answered;
}
