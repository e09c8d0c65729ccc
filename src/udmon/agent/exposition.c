#include "exposition.h"
#include "node.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FAMILY_MAX = 200 };

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

/* "# TYPE name counter": whose samples follow. */
static void read_comment(const char *line, char family[FAMILY_MAX], int *counter_p)
{
    char *end;

    while ((*line == '#') || (*line == ' ')) {
        ++line;
    }
    if (!strncmp(line, "TYPE ", 5) && (strlen(line + 5) < FAMILY_MAX)) {
        strcpy(family, line + 5);
        end = family + strcspn(family, " \t");
        *counter_p = (*end != '\0') && (strstr(end, "counter") != NULL);
        *end = '\0';
    }
}

/* Whether it is a counter of its family; takes the suffix off its name then. */
static bool series_counter(char *series, const char *family, int counter)
{
    size_t length = strcspn(series, "{"), family_length = strlen(family);
    const char *end = series + length;

    if (!counter || (length <= 6) || strncmp(end - 6, "_total", 6) ||
        strncmp(series, family, family_length) ||
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

static int read_sample(char *line, const char *family, int counter, struct samples *samples,
                       struct exposition_result *result)
{
    char *end = series_end(line), *number, *rest;
    size_t before = samples->added;
    double value;

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
    counter = series_counter(line, family, counter);
    samples_add(samples, counter, value, "%s", line);
    if (samples->added > before) {
        ++result->samples;
    } else {
        ++result->skipped;
    }
    return 0;
}

void exposition_read(char *text, struct samples *samples, struct exposition_result *result)
{
    char family[FAMILY_MAX] = "", *line, *next = text;
    int number = 0, counter = 0;

    memset(result, 0, sizeof(*result));
    while ((line = strsep(&next, "\n")) != NULL) {
        ++number;
        line += strspn(line, " \t");
        line[strcspn(line, "\r")] = '\0';
        if (*line == '#') {
            read_comment(line, family, &counter);
        } else if ((*line != '\0') && (read_sample(line, family, counter, samples, result) < 0)) {
            result->bad_line = (result->bad_line == 0) ? number : result->bad_line;
            node_refuse(samples->node, REFUSED_LINE, line);
        }
    }
}
