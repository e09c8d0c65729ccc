#include "rules.h"
#include "template.h"
#include "../../lib/base/log.h"

#include <yaml.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times are compared in nanoseconds of 64 bits. */
#define RULES_DURATION_MAX_MS ((uint64_t)INT64_MAX / 1000000)

/* A file while it is read. */
struct reader {
    const char *file;
    yaml_document_t document;
    struct rules *rules;
    bool wrong;
};

/* A field of a mapping, and the function that reads its value to `to`. */
struct field {
    const char *name;
    void (*read)(struct reader *reader, const yaml_node_t *value, void *to);
    void *to;
    bool required;
};

static void reader_wrong(struct reader *reader, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void reader_wrong(struct reader *reader, const yaml_node_t *node, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    udmon_error("%s:%zu: %s", reader->file, node->start_mark.line + 1, text);
    reader->wrong = true;
}

/* The text of a scalar, or NULL after a message. */
static const char *reader_text(struct reader *reader, const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;

    if ((node->type != YAML_SCALAR_NODE) || (strlen(text) != node->data.scalar.length)) {
        reader_wrong(reader, node, "this should be a text");
        return NULL;
    }
    return text;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void read_text(struct reader *reader, const yaml_node_t *value, void *to)
{
    const char *text = reader_text(reader, value);
    char **text_p = to;

    if ((text != NULL) && (text[0] == '\0')) {
        reader_wrong(reader, value, "this should not be empty");
    } else if (text != NULL) {
        *text_p = strdup(text);
    }
}

bool rules_duration(const char *text, uint64_t *ms_p)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {
        {"y", UINT64_C(31536000000)},
        {"w", 604800000},
        {"d", 86400000},
        {"h", 3600000},
        {"m", 60000},
        {"s", 1000},
        {"ms", 1},
    };
    const size_t count = sizeof(units) / sizeof(units[0]);
    size_t unit = 0, digits, length;
    uint64_t ms = 0, number;

    if (!strcmp(text, "0")) {
        *ms_p = 0;
        return true;
    }
    if (*text == '\0') {
        return false;
    }
    while (*text != '\0') {
        digits = strspn(text, "0123456789");
        length = strspn(text + digits, "ywdhms");
        if ((digits == 0) || (digits > 9)) {
            return false;
        }
        while ((unit < count) && ((strlen(units[unit].name) != length) ||
                                  strncmp(text + digits, units[unit].name, length))) {
            ++unit; /* each unit once, in this order */
        }
        if (unit == count) {
            return false;
        }
        number = strtoull(text, NULL, 10);
        if (number > ((RULES_DURATION_MAX_MS - ms) / units[unit].ms)) {
            return false;
        }
        ms += number * units[unit++].ms;
        text += digits + length;
    }
    *ms_p = ms;
    return true;
}

static void read_duration(struct reader *reader, const yaml_node_t *value, void *to)
{
    const char *text = reader_text(reader, value);

    if ((text != NULL) && !rules_duration(text, to)) {
        reader_wrong(reader, value, "'%s' is no time such as 30s, 5m or 1h30m", text);
    }
}

static void read_interval(struct reader *reader, const yaml_node_t *value, void *to)
{
    uint64_t *ms_p = to;

    read_duration(reader, value, to);
    if (*ms_p < 1000) {
        reader_wrong(reader, value, "an interval has at least a second");
    }
}

static void read_expr(struct reader *reader, const yaml_node_t *value, void *to)
{
    const char *text = reader_text(reader, value), *why;
    struct rule *rule = to;

    if (text == NULL) {
        return;
    }
    why = expr_parse(text, &rule->expr);
    if (why != NULL) {
        reader_wrong(reader, value,
                     "the collector cannot evaluate '%.200s', because %s. Let Prometheus evaluate "
                     "this rule, from what the collector serves at /metrics",
                     text, why);
    }
    rule->text = strdup(text);
}

static void read_label(struct reader *reader, const yaml_node_t *name, const yaml_node_t *value,
                       struct labels *labels)
{
    const char *name_text = reader_text(reader, name), *text = reader_text(reader, value), *why;

    if ((name_text == NULL) || (text == NULL)) {
        return;
    }
    why = template_check(text);
    if (!expr_name_valid(name_text, strlen(name_text), false) || !strcmp(name_text, "__name__")) {
        reader_wrong(reader, name, "'%s' is no name of a label or annotation", name_text);
    } else if (why != NULL) {
        reader_wrong(reader, value, "%s: %s. Let Prometheus evaluate this rule", name_text, why);
    } else if (!labels_set(labels, name_text, text)) {
        reader_wrong(reader, value, "there is no memory");
    }
}

static void read_labels(struct reader *reader, const yaml_node_t *value, void *to)
{
    const yaml_node_pair_t *pair;

    if (value->type != YAML_MAPPING_NODE) {
        reader_wrong(reader, value, "this should be names with texts");
        return;
    }
    for (pair = value->data.mapping.pairs.start; pair < value->data.mapping.pairs.top; ++pair) {
        read_label(reader, yaml_document_get_node(&reader->document, pair->key),
                   yaml_document_get_node(&reader->document, pair->value), to);
    }
}

static void read_record(struct reader *reader, const yaml_node_t *value, void *to)
{
    (void)to;
    reader_wrong(reader, value,
                 "the collector has alerts only: rules that record are for "
                 "Prometheus");
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* Reads the fields of a mapping. `what` is its name in messages. */
static void read_fields(struct reader *reader, const yaml_node_t *node, const char *what,
                        const struct field *fields, size_t count)
{
    const yaml_node_t *key, *value;
    const yaml_node_pair_t *pair;
    unsigned seen = 0; /* a bit for each field */
    const char *name;
    size_t i;

    if (node->type != YAML_MAPPING_NODE) {
        reader_wrong(reader, node, "%s should have fields, as \"%s: ...\"", what, fields[0].name);
        return;
    }
    for (pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; ++pair) {
        key = yaml_document_get_node(&reader->document, pair->key);
        value = yaml_document_get_node(&reader->document, pair->value);
        name = reader_text(reader, key);
        for (i = 0; (name != NULL) && (i < count) && strcmp(fields[i].name, name); ++i) {
        }
        if ((name != NULL) && ((i == count) || ((seen & (1u << i)) != 0))) {
            reader_wrong(reader, key, "%s has field '%s' %s", what, name,
                         (i == count) ? "which the collector does not know" : "twice");
        } else if (name != NULL) {
            seen |= 1u << i;
            fields[i].read(reader, value, fields[i].to);
        }
    }
    for (i = 0; i < count; ++i) {
        if (fields[i].required && ((seen & (1u << i)) == 0)) {
            reader_wrong(reader, node, "%s needs a field '%s'", what, fields[i].name);
        }
    }
}

static void rule_free(struct rule *rule)
{
    free(rule->group);
    free(rule->name);
    free(rule->text);
    expr_free(&rule->expr);
    labels_free(&rule->labels);
    labels_free(&rule->annotations);
}

static void read_rule(struct reader *reader, const yaml_node_t *node)
{
    struct rule rule = {.line = (int)node->start_mark.line + 1}, *grown;
    const struct field fields[] = {
        {"alert", read_text, &rule.name, true},
        {"expr", read_expr, &rule, true},
        {"for", read_duration, &rule.for_ms, false},
        {"keep_firing_for", read_duration, &rule.keep_ms, false},
        {"labels", read_labels, &rule.labels, false},
        {"annotations", read_labels, &rule.annotations, false},
        {"record", read_record, NULL, false},
    };
    struct rules *rules = reader->rules;

    read_fields(reader, node, "a rule", fields, sizeof(fields) / sizeof(fields[0]));
    if (rules->count == RULES_MAX) {
        reader_wrong(reader, node, "there are more than %d rules", RULES_MAX);
    }
    grown = reader->wrong ? NULL : realloc(rules->list, (rules->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        reader->wrong = true;
        rule_free(&rule);
        return;
    }
    rules->list = grown;
    rules->list[rules->count++] = rule;
}

static void read_rules(struct reader *reader, const yaml_node_t *value, void *to)
{
    const yaml_node_item_t *item;

    (void)to;
    if (value->type != YAML_SEQUENCE_NODE) {
        reader_wrong(reader, value, "this should be a list of rules");
        return;
    }
    for (item = value->data.sequence.items.start; item < value->data.sequence.items.top; ++item) {
        read_rule(reader, yaml_document_get_node(&reader->document, *item));
    }
}

static void read_group(struct reader *reader, const yaml_node_t *node)
{
    uint64_t interval_ms = RULES_INTERVAL_MS;
    struct rules *rules = reader->rules;
    size_t i, first = rules->count;
    char *name = NULL;
    const struct field fields[] = {
        {"name", read_text, &name, true},
        {"interval", read_interval, &interval_ms, false},
        {"rules", read_rules, NULL, false},
    };

    read_fields(reader, node, "a group", fields, sizeof(fields) / sizeof(fields[0]));
    for (i = 0; (name != NULL) && (i < first); ++i) {
        if (!strcmp(rules->list[i].group, name)) {
            reader_wrong(reader, node, "there is a group '%s' already", name);
            break;
        }
    }
    for (i = first; i < rules->count; ++i) {
        rules->list[i].group = strdup((name != NULL) ? name : "");
        rules->list[i].interval_ms = interval_ms;
        reader->wrong |= (rules->list[i].group == NULL) || (rules->list[i].text == NULL) ||
                         (rules->list[i].name == NULL);
    }
    free(name);
}

static void read_groups(struct reader *reader, const yaml_node_t *value, void *to)
{
    const yaml_node_item_t *item;

    (void)to;
    if (value->type != YAML_SEQUENCE_NODE) {
        reader_wrong(reader, value, "this should be a list of groups");
        return;
    }
    for (item = value->data.sequence.items.start; item < value->data.sequence.items.top; ++item) {
        read_group(reader, yaml_document_get_node(&reader->document, *item));
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static void reader_syntax(struct reader *reader, const yaml_parser_t *parser)
{
    udmon_error("%s:%zu: this is no YAML: %s", reader->file, parser->problem_mark.line + 1,
                (parser->problem != NULL) ? parser->problem : "no memory");
    reader->wrong = true;
}

/* An empty file has no rules. */
static void reader_run(struct reader *reader, yaml_parser_t *parser)
{
    const struct field fields[] = {{"groups", read_groups, NULL, true}};
    yaml_document_t more;
    yaml_node_t *root;

    if (!yaml_parser_load(parser, &reader->document)) {
        reader_syntax(reader, parser);
        return;
    }
    root = yaml_document_get_root_node(&reader->document);
    if (root != NULL) {
        read_fields(reader, root, "the file", fields, 1);
        if (!yaml_parser_load(parser, &more)) {
            reader_syntax(reader, parser);
        } else {
            if (yaml_document_get_root_node(&more) != NULL) {
                reader_wrong(reader, yaml_document_get_root_node(&more),
                             "a second document begins here");
            }
            yaml_document_delete(&more);
        }
    }
    yaml_document_delete(&reader->document);
}

int rules_load(const char *file, struct rules *rules)
{
    struct reader reader = {.file = file, .rules = rules};
    FILE *in = fopen(file, "re");
    yaml_parser_t parser;
    int ret;

    *rules = (struct rules){0};
    if (in == NULL) {
        ret = -errno;
        udmon_error("cannot read the rules in %s: %s", file, strerror(errno));
        return ret;
    }
    if (!yaml_parser_initialize(&parser)) {
        fclose(in);
        return -ENOMEM;
    }
    yaml_parser_set_input_file(&parser, in);
    reader_run(&reader, &parser);
    yaml_parser_delete(&parser);
    fclose(in);
    if (reader.wrong) {
        rules_free(rules);
        return -EINVAL;
    }
    return 0;
}

void rules_free(struct rules *rules)
{
    size_t i;

    for (i = 0; i < rules->count; ++i) {
        rule_free(&rules->list[i]);
    }
    free(rules->list);
    *rules = (struct rules){0};
}

static bool labels_same(const struct labels *a, const struct labels *b)
{
    size_t i;

    for (i = 0; (i < a->count) && (i < b->count); ++i) {
        if (strcmp(a->list[i].name, b->list[i].name) ||
            strcmp(a->list[i].value, b->list[i].value)) {
            return false;
        }
    }
    return a->count == b->count;
}

bool rule_same(const struct rule *a, const struct rule *b)
{
    return !strcmp(a->group, b->group) && !strcmp(a->name, b->name) && !strcmp(a->text, b->text) &&
           (a->for_ms == b->for_ms) && labels_same(&a->labels, &b->labels);
}
