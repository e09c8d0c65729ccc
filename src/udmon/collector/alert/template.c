#include "template.h"
#include "expr.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A part of a text: a label's name, or the value if the name is empty. */
struct part {
    const char *name;
    size_t length;
};

/* `at` points behind "{{". Returns the end behind "}}", or NULL: another part. */
static const char *template_part(const char *at, struct part *part)
{
    static const char of_label[] = "$labels.", of_value[] = "$value";
    const char *end;

    at += strspn(at, " \t");
    if (!strncmp(at, of_label, strlen(of_label))) {
        part->name = at + strlen(of_label);
        part->length = strcspn(part->name, " \t}");
        if (!expr_name_valid(part->name, part->length, false)) {
            return NULL;
        }
        end = part->name + part->length;
    } else if (!strncmp(at, of_value, strlen(of_value))) {
        *part = (struct part){.name = at};
        end = at + strlen(of_value);
    } else {
        return NULL;
    }
    end += strspn(end, " \t");
    return !strncmp(end, "}}", 2) ? (end + 2) : NULL;
}

const char *template_check(const char *text)
{
    struct part part;
    const char *at;

    for (at = strstr(text, "{{"); at != NULL; at = strstr(at, "{{")) {
        at = template_part(at + 2, &part);
        if (at == NULL) {
            return "only {{ $labels.NAME }} and {{ $value }} can be filled in here";
        }
    }
    return NULL;
}

void template_number(double value, char text[32])
{
    int digits;

    if (isnan(value) || isinf(value)) {
        snprintf(text, 32, "%s", isnan(value) ? "NaN" : (value > 0) ? "+Inf" : "-Inf");
        return;
    }
    for (digits = 15; digits <= 17; ++digits) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            return;
        }
    }
}

static void template_write(FILE *out, const struct part *part, const struct labels *labels,
                           double value)
{
    char number[32], *name;

    if (part->length == 0) {
        template_number(value, number);
        fputs(number, out);
        return;
    }
    name = strndup(part->name, part->length);
    if (name != NULL) {
        fputs(labels_get(labels, name), out);
    }
    free(name);
}

char *template_expand(const char *text, const struct labels *labels, double value)
{
    const char *next, *end;
    char *expanded = NULL;
    struct part part;
    size_t length;
    FILE *out = open_memstream(&expanded, &length);

    if (out == NULL) {
        return NULL;
    }
    for (next = strstr(text, "{{"); next != NULL; next = strstr(text, "{{")) {
        end = template_part(next + 2, &part);
        if (end == NULL) {
            break;
        }
        fwrite(text, 1, next - text, out);
        template_write(out, &part, labels, value);
        text = end;
    }
    fputs(text, out);
    if (fclose(out) != 0) {
        free(expanded);
        return NULL;
    }
    return expanded;
}
