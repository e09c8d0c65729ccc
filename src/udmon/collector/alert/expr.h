/*
 * Expressions of alert rules. They are the part of PromQL that compares each series of a metric
 * with a number:
 *
 *     NAME{LABEL="VALUE",LABEL!="VALUE"} OPERATOR NUMBER
 *
 * The labels may be missing. OPERATOR is ==, !=, <, <=, > or >=.
 */
#ifndef UDMON_ALERT_EXPR_H
#define UDMON_ALERT_EXPR_H

#include "labels.h"

#include <stdbool.h>
#include <stddef.h>

enum expr_operator {
    EXPR_EQUAL,
    EXPR_UNEQUAL,
    EXPR_LESS_EQUAL,
    EXPR_GREATER_EQUAL,
    EXPR_LESS,
    EXPR_GREATER
};

struct expr {
    char *metric; /* as in /metrics */
    struct labels equal, unequal;
    enum expr_operator op;
    double number;
};

/** Returns NULL, or why the text is not such an expression. Then nothing needs to be freed. */
const char *expr_parse(const char *text, struct expr *expr);
void expr_free(struct expr *expr);

/** Whether the expression holds for a series of its metric. */
bool expr_holds(const struct expr *expr, const struct labels *labels, double value);

/** Whether it is a name of a label; of a metric, if colons are allowed. */
bool expr_name_valid(const char *name, size_t length, bool colons);

#endif
