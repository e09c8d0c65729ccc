#include "expr.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char not_simple[] = "it is not NAME{LABEL=\"VALUE\"} OPERATOR NUMBER";
static const char no_memory[] = "there is no memory";

bool expr_name_valid(const char *name, size_t length, bool colons)
{
    size_t i;

    for (i = 0; i < length; ++i) {
        if (!(((name[i] >= 'a') && (name[i] <= 'z')) || ((name[i] >= 'A') && (name[i] <= 'Z')) ||
              (name[i] == '_') || (colons && (name[i] == ':')) ||
              ((i > 0) && (name[i] >= '0') && (name[i] <= '9')))) {
            return false;
        }
    }
    return length > 0;
}

static const char *expr_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static size_t expr_name(const char *at, bool colons)
{
    size_t length = 0;

    while (expr_name_valid(at, length + 1, colons)) {
        ++length;
    }
    return length;
}

/* A string in quotes, with the escapes \\, \", \', \n and \t. Moves *at_p behind the string. */
static const char *expr_string(const char **at_p, char **text_p)
{
    const char *at = *at_p;
    char quote = *at, *text = malloc(strlen(at) + 1);
    size_t length = 0;

    *text_p = text;
    if (text == NULL) {
        return no_memory;
    }
    for (++at; *at != quote; ++at) {
        if ((*at == '\0') || (*at == '\n')) {
            return "a string has no end";
        }
        if (*at == '\\') {
            ++at;
            if ((*at == '\0') || (strchr("\\\"'nt", *at) == NULL)) {
                return "a string has an escape other than \\\\, \\\", \\', \\n and \\t";
            }
            text[length++] = (*at == 'n') ? '\n' : (*at == 't') ? '\t' : *at;
        } else {
            text[length++] = *at;
        }
    }
    text[length] = '\0';
    *at_p = at + 1;
    return NULL;
}

/* LABEL="VALUE" or LABEL!="VALUE" */
static const char *expr_matcher(const char **at_p, struct expr *expr)
{
    const char *at = *at_p, *wrong;
    size_t length = expr_name(at, false);
    char *name = strndup(at, length), *value = NULL;
    struct labels *labels;

    at = expr_blanks(at + length);
    if ((length == 0) || (name == NULL)) {
        wrong = (name == NULL) ? no_memory : not_simple;
    } else if (!strncmp(at, "=~", 2) || !strncmp(at, "!~", 2)) {
        wrong = "it has a regular expression";
    } else if ((*at != '=') && strncmp(at, "!=", 2)) {
        wrong = not_simple;
    } else {
        labels = (*at == '=') ? &expr->equal : &expr->unequal;
        at = expr_blanks(at + ((*at == '=') ? 1 : 2));
        wrong = ((*at == '"') || (*at == '\'')) ? expr_string(&at, &value) : not_simple;
        if ((wrong == NULL) && ((labels_get(labels, name)[0] != '\0') || (value[0] == '\0'))) {
            wrong = "a label is compared twice or with an empty value";
        }
        if ((wrong == NULL) && !labels_set(labels, name, value)) {
            wrong = no_memory;
        }
    }
    free(name);
    free(value);
    *at_p = at;
    return wrong;
}

/* The labels in braces, which may be missing. */
static const char *expr_matchers(const char **at_p, struct expr *expr)
{
    const char *at = *at_p, *wrong;

    if (*at != '{') {
        return NULL;
    }
    at = expr_blanks(at + 1);
    while (*at != '}') {
        wrong = expr_matcher(&at, expr);
        if (wrong != NULL) {
            return wrong;
        }
        at = expr_blanks(at);
        if (*at == ',') {
            at = expr_blanks(at + 1);
        } else if (*at != '}') {
            return not_simple;
        }
    }
    *at_p = at + 1;
    return NULL;
}

static const char *expr_comparison(const char **at_p, struct expr *expr)
{
    static const char *const operators[] = {
        [EXPR_EQUAL] = "==",         [EXPR_UNEQUAL] = "!=", [EXPR_LESS_EQUAL] = "<=",
        [EXPR_GREATER_EQUAL] = ">=", [EXPR_LESS] = "<",     [EXPR_GREATER] = ">",
    };
    size_t i;

    for (i = 0; i < (sizeof(operators) / sizeof(operators[0])); ++i) {
        if (!strncmp(*at_p, operators[i], strlen(operators[i]))) {
            expr->op = (enum expr_operator)i;
            *at_p += strlen(operators[i]);
            return NULL;
        }
    }
    return not_simple;
}

/* strtod() knows more numbers than PromQL: a hexadecimal fraction, nan(...) and infinity. */
static const char *expr_number(const char **at_p, double *number_p)
{
    const char *at = *at_p, *word = at + ((*at == '+') || (*at == '-'));
    size_t length = strcspn(word, " \t\r\n#");
    char *end;

    if (((length == 3) && (!strncasecmp(word, "inf", 3) || !strncasecmp(word, "nan", 3))) ||
        ((length > 0) && (strspn(word, "0123456789.eE+-") == length) &&
         (isdigit((unsigned char)word[0]) || (word[0] == '.')))) {
        *number_p = strtod(at, &end);
        *at_p = end;
        return (end == word + length) ? NULL : not_simple;
    }
    return not_simple;
}

const char *expr_parse(const char *text, struct expr *expr)
{
    const char *at = expr_blanks(text), *wrong;
    size_t length = expr_name(at, true);

    *expr = (struct expr){.metric = strndup(at, length)};
    at = expr_blanks(at + length);
    wrong = (expr->metric == NULL) ? no_memory :
            (length == 0)          ? not_simple :
            (*at == '(')           ? "it has a function or an aggregation" :
                                     expr_matchers(&at, expr);
    if (wrong == NULL) {
        at = expr_blanks(at);
        wrong = (*at == '[') ? "it has a range of time" : expr_comparison(&at, expr);
    }
    if (wrong == NULL) {
        at = expr_blanks(at);
        wrong = expr_number(&at, &expr->number);
    }
    if ((wrong == NULL) && (*expr_blanks(at) != '\0')) {
        wrong = "more follows the number";
    }
    if (wrong != NULL) {
        expr_free(expr);
    }
    return wrong;
}

void expr_free(struct expr *expr)
{
    free(expr->metric);
    expr->metric = NULL;
    labels_free(&expr->equal);
    labels_free(&expr->unequal);
}

static bool expr_compare(enum expr_operator op, double value, double number)
{
    switch (op) {
    case EXPR_EQUAL:
        return value == number;
    case EXPR_UNEQUAL:
        return value != number;
    case EXPR_LESS_EQUAL:
        return value <= number;
    case EXPR_GREATER_EQUAL:
        return value >= number;
    case EXPR_LESS:
        return value < number;
    case EXPR_GREATER:
        return value > number;
    }
    return false;
}

bool expr_holds(const struct expr *expr, const struct labels *labels, double value)
{
    const struct label *label;
    size_t i;

    for (i = 0; i < expr->equal.count; ++i) {
        label = &expr->equal.list[i];
        if (strcmp(labels_get(labels, label->name), label->value) != 0) {
            return false;
        }
    }
    for (i = 0; i < expr->unequal.count; ++i) {
        label = &expr->unequal.list[i];
        if (strcmp(labels_get(labels, label->name), label->value) == 0) {
            return false;
        }
    }
    return expr_compare(expr->op, value, expr->number);
}
