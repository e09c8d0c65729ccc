#include "exposition.h"
#include "node.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAMILY_MAX = UDMON_FAMILY_NAME_MAX + 1 };

/* Where the name with its labels ends, or NULL: quoted values may have any character. */
static char *series_end(char *line)
{
    char *at = line + strcspn(line, "{ \t");
    size_t blanks = strspn(at, " \t");
    int quoted = 0;

    if (at[blanks] == '{') {
        at += blanks;
    }
    if (*at != '{') {
        return (at > line) ? at : NULL;
    }
    for (++at; *at != '\0'; ++at) {
        if (quoted && (*at == '\\') && (at[1] != '\0')) {
            ++at;
        } else if (*at == '"') {
            quoted = !quoted;
        } else if ((*at == '}') && !quoted) {
            return at + 1;
        }
    }
    return NULL;
}

/* The form that samples have here: no blanks between labels, no comma after the last. */
static void series_tidy(char *series)
{
    char *from, *to = series;
    int quoted = 0;

    for (from = series; *from != '\0'; ++from) {
        if (quoted && (from[0] == '\\') && (from[1] != '\0')) {
            *to++ = *from++;
            *to++ = *from;
            continue;
        }
        quoted ^= (*from == '"');
        if (quoted || ((*from != ' ') && (*from != '\t'))) {
            *to++ = *from;
        }
    }
    *to = '\0';
    if ((to - series >= 2) && !strcmp(to - 2, ",}")) {
        strcpy(to - 2, "}");
    } else if ((to - series >= 2) && !strcmp(to - 2, "{}")) {
        to[-2] = '\0';
    }
}

/* What the comments say about the family whose samples follow. */
struct family {
    char name[FAMILY_MAX]; /* as in the comments */
    int type;
    char unit[UDMON_UNIT_MAX + 1];
    char help[UDMON_HELP_MAX + 1];
    bool changed; /* since the last sample */
};

/*
 * The text of a HELP line has the escapes \\ and \n, and \" in OpenMetrics. A text that is too long
 * is cut.
 */
static void read_help(const char *text, bool openmetrics, char help[UDMON_HELP_MAX + 1])
{
    const char *escapes = openmetrics ? "\\n\"" : "\\n";
    size_t used = 0;

    for (; (*text != '\0') && (used < UDMON_HELP_MAX); ++text) {
        if ((text[0] == '\\') && (text[1] != '\0') && (strchr(escapes, text[1]) != NULL)) {
            ++text;
            help[used++] = (*text == 'n') ? '\n' : *text;
        } else {
            help[used++] = *text;
        }
    }
    while ((*text != '\0') && (used > 0) && ((help[used - 1] & 0xc0) == 0x80)) {
        --used; /* of a UTF-8 character that was perhaps cut */
    }
    used -= (*text != '\0') && (used > 0) && ((help[used - 1] & 0xc0) == 0xc0);
    help[used] = '\0';
}

static void read_type(const char *text, struct family *family)
{
    family->type = !strcmp(text, "counter")   ? UDMON_TYPE_COUNTER :
                   !strcmp(text, "gauge")     ? UDMON_TYPE_GAUGE :
                   !strcmp(text, "histogram") ? UDMON_TYPE_HISTOGRAM :
                   !strcmp(text, "summary")   ? UDMON_TYPE_SUMMARY :
                                                UDMON_TYPE_UNKNOWN;
}

/* Cuts the next word off the text. */
static char *next_word(char **text_p)
{
    char *word = *text_p + strspn(*text_p, " \t");
    size_t length = strcspn(word, " \t");

    *text_p = word + length;
    *text_p += strspn(*text_p, " \t");
    word[length] = '\0';
    return word;
}

/* "# TYPE name counter", "# HELP name text", "# UNIT name unit" */
static void read_comment(char *line, bool openmetrics, struct family *family)
{
    char *word, *name;

    ++line;
    word = next_word(&line);
    if (strcmp(word, "TYPE") && strcmp(word, "HELP") && strcmp(word, "UNIT")) {
        return;
    }
    name = next_word(&line);
    if (strlen(name) >= FAMILY_MAX) {
        return;
    }
    if (strcmp(family->name, name)) {
        memset(family, 0, sizeof(*family));
        strcpy(family->name, name);
    }
    family->changed = true;
    if (*word == 'H') {
        read_help(line, openmetrics, family->help);
    } else if (*word == 'T') {
        read_type(next_word(&line), family);
    } else {
        snprintf(family->unit, sizeof(family->unit), "%s", next_word(&line));
    }
}

/* Whether it is a counter of its family; takes the suffix off its name then. */
static bool series_counter(char *series, const struct family *family)
{
    size_t length = strcspn(series, "{"), family_length = strlen(family->name);
    const char *end = series + length;

    if ((family->type != UDMON_TYPE_COUNTER) || (length <= 6) || strncmp(end - 6, "_total", 6) ||
        strncmp(series, family->name, family_length) ||
        ((length != family_length) && (length != (family_length + 6)))) {
        return false;
    }
    memmove(series + length - 6, end, strlen(end) + 1);
    return true;
}

/* Whether behind a value there is nothing, or a timestamp, or a comment with an exemplar. */
static bool ends_sample(const char *rest)
{
    char *end;

    if ((*rest != ' ') && (*rest != '\t') && (*rest != '\0')) {
        return false;
    }
    rest += strspn(rest, " \t");
    if ((*rest != '\0') && (*rest != '#')) {
        strtod(rest, &end);
        rest = (end > rest) ? (end + strspn(end, " \t")) : rest;
    }
    return (*rest == '\0') || (*rest == '#');
}

/* Whether the name is that of a part of the histogram or summary. */
static bool family_part(const struct family *family, const char *name)
{
    size_t length = strlen(family->name);
    const char *end = name + length;

    if (strncmp(name, family->name, length) != 0) {
        return false;
    }
    if (!strcmp(end, "_sum") || !strcmp(end, "_count")) {
        return (family->type == UDMON_TYPE_HISTOGRAM) || (family->type == UDMON_TYPE_SUMMARY);
    }
    return (family->type == UDMON_TYPE_HISTOGRAM) && !strcmp(end, "_bucket");
}

/* Describes the family of a series. Without comments the type is unknown. */
static void describe(struct samples *samples, struct family *family, const char *series,
                     bool counter)
{
    struct udmon_family described = {.counter = counter, .unit = "", .help = ""};
    char name[FAMILY_MAX];
    size_t length = strcspn(series, "{");

    if (length >= sizeof(name)) {
        samples_describe(samples, NULL);
        return;
    }
    memcpy(name, series, length);
    name[length] = '\0';
    if (family_part(family, name)) {
        strcpy(name, family->name); /* all parts have one description */
    }
    if (!family->changed && (samples->family != NULL) && !strcmp(samples->family->name, name) &&
        (samples->family->counter == counter)) {
        return;
    }
    described.name = name;
    if (counter || !strcmp(family->name, name)) {
        described.type = family->type;
        described.unit = family->unit;
        described.help = family->help;
    }
    samples_describe(samples, &described);
    family->changed = false;
}

static int read_sample(char *line, struct family *family, struct samples *samples,
                       struct exposition_result *result)
{
    char *end = series_end(line), *number, *rest;
    size_t before = samples->added;
    double value;
    bool counter;

    if ((end == NULL) || ((*end != ' ') && (*end != '\t'))) {
        return -1;
    }
    *end = '\0';
    number = end + 1;
    value = strtod(number, &rest);
    if ((rest == number) || !ends_sample(rest)) {
        return -1;
    }
    series_tidy(line);
    counter = series_counter(line, family);
    describe(samples, family, line, counter);
    samples_add(samples, counter, value, "%s", line);
    if (samples->added > before) {
        ++result->samples;
    } else {
        ++result->skipped;
    }
    return 0;
}

void exposition_read(char *text, bool openmetrics, struct samples *samples,
                     struct exposition_result *result)
{
    struct family family = {.name = ""};
    char *line, *next = text;
    int number = 0;

    memset(result, 0, sizeof(*result));
    while ((line = strsep(&next, "\n")) != NULL) {
        ++number;
        line += strspn(line, " \t");
        line[strcspn(line, "\r")] = '\0';
        if (*line == '#') {
            read_comment(line, openmetrics, &family);
        } else if ((*line != '\0') && (read_sample(line, &family, samples, result) < 0)) {
            result->bad_line = (result->bad_line == 0) ? number : result->bad_line;
            node_refuse(samples->node, REFUSED_LINE, line);
        }
    }
    samples_describe(samples, NULL);
}
