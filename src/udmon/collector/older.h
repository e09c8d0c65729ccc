/*
 * The part of the history that is older than the collector's own: read from another engine by PromQL
 * (query.h). Steps of time and values are those of api.h: the mean of the samples in a step, of a
 * counter its rate per second. So older and local values make one line.
 */
#ifndef UDMON_COLLECTOR_OLDER_H
#define UDMON_COLLECTOR_OLDER_H

#include "query.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Of one request to the API */
struct older {
    struct query *query;
    struct budget *budget; /* or NULL */
    int64_t end_ms;        /* the engine is asked for the time before */
    int64_t until_ms;      /* it has values, or has failed, for the time before; or 0 */
    bool failed;           /* once at least: some values are missing */
};

enum { OLDER_DELAY_MS = 10 * 1000 /* younger samples may still be on their way to the engine */ };

enum older_function { OLDER_MEAN, OLDER_LEAST, OLDER_GREATEST, OLDER_COUNT /* of samples */ };

struct older_question {
    const char *selector; /* made by older_select */
    bool counter;
    enum older_function function; /* of a counter: OLDER_MEAN or OLDER_COUNT */
    const char *by;               /* sum by these labels; "": one sum; NULL: each series alone */
};

/**
 * Write the parts of a selector, in this order: family; labels; end. `labels` are those of a series,
 * from '{' on, or NULL.
 */
void older_select_family(FILE *out, const char *family, size_t length, bool counter);
void older_select_label(FILE *out, const char *name, const char *text);
void older_select_labels(FILE *out, const char *labels);
/** A part of a regular expression: matches the text. */
void older_select_pattern(FILE *out, const char *text);
void older_select_end(FILE *out, const struct older *older, const char *labels);

/** Whether the label can be a name in PromQL: [a-zA-Z_][a-zA-Z0-9_]* */
bool older_label_valid(const char *name);
/** The label's value in a row; "" if there is none. */
const char *older_label(const struct query_row *row, const char *name);

/** False, with older->failed: no answer. The caller frees the table with query_free. */
bool older_ask(struct older *older, const struct older_question *question,
               const struct query_steps *steps, struct query_table *table_p);

#endif
