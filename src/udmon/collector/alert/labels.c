#include "labels.h"
#include "../../lib/metric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void labels_free(struct labels *labels)
{
    size_t i;

    for (i = 0; i < labels->count; ++i) {
        free(labels->list[i].name);
        free(labels->list[i].value);
    }
    free(labels->list);
    *labels = (struct labels){0};
}

/* The place of a name, or where it would stand. */
static size_t labels_place(const struct labels *labels, const char *name)
{
    size_t i;

    for (i = 0; (i < labels->count) && (strcmp(labels->list[i].name, name) < 0); ++i) {
    }
    return i;
}

static bool labels_has(const struct labels *labels, size_t at, const char *name)
{
    return (at < labels->count) && !strcmp(labels->list[at].name, name);
}

static void labels_remove(struct labels *labels, size_t at)
{
    free(labels->list[at].name);
    free(labels->list[at].value);
    --labels->count;
    memmove(&labels->list[at], &labels->list[at + 1],
            (labels->count - at) * sizeof(labels->list[0]));
}

/* Makes room for one more label. */
static bool labels_grow(struct labels *labels)
{
    struct label *grown = realloc(labels->list, (labels->count + 1) * sizeof(*grown));

    if (grown == NULL) {
        return false;
    }
    labels->list = grown;
    return true;
}

static bool labels_insert(struct labels *labels, size_t at, const char *name, const char *value)
{
    struct label label = {.name = strdup(name), .value = strdup(value)};

    if ((label.name == NULL) || (label.value == NULL) || !labels_grow(labels)) {
        free(label.name);
        free(label.value);
        return false;
    }
    memmove(&labels->list[at + 1], &labels->list[at],
            (labels->count - at) * sizeof(labels->list[0]));
    labels->list[at] = label;
    ++labels->count;
    return true;
}

bool labels_set(struct labels *labels, const char *name, const char *value)
{
    size_t at = labels_place(labels, name);

    if (labels_has(labels, at, name)) {
        labels_remove(labels, at);
    }
    return (value[0] == '\0') || labels_insert(labels, at, name, value);
}

const char *labels_get(const struct labels *labels, const char *name)
{
    size_t at = labels_place(labels, name);

    return labels_has(labels, at, name) ? labels->list[at].value : "";
}

const char *labels_parse(struct labels *labels, const char *at)
{
    struct udmon_label label;
    char *name, *value;
    bool set = true;

    while (set && udmon_label_next(&at, &label)) {
        name = strndup(label.name, label.name_length);
        value = malloc(label.value_length + 1);
        set = (name != NULL) && (value != NULL);
        if (set) {
            udmon_label_value(&label, value, label.value_length + 1);
            set = labels_set(labels, name, value);
        }
        free(name);
        free(value);
    }
    return set ? (at + (*at == '}')) : NULL;
}

static void labels_write_value(FILE *out, const char *value)
{
    for (; *value != '\0'; ++value) {
        if ((*value == '\\') || (*value == '"') || (*value == '\n')) {
            fputc('\\', out);
        }
        fputc((*value == '\n') ? 'n' : *value, out);
    }
}

char *labels_text(const struct labels *labels)
{
    char *text = NULL;
    size_t length, i;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        return NULL;
    }
    for (i = 0; i < labels->count; ++i) {
        fprintf(out, "%s%s=\"", (i > 0) ? "," : "", labels->list[i].name);
        labels_write_value(out, labels->list[i].value);
        fputc('"', out);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
