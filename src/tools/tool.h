/* Common functions of the tools: numbers on the command line, statistics, JSON. */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of both tools, as their man pages say. */
enum tool_exit {
    TOOL_EXIT_OK = 0,
    TOOL_EXIT_FAIL = 1, /* the request could not be done */
    TOOL_EXIT_USAGE = 2 /* the command line makes no sense */
};

/** Median and range of a repeated measurement. */
struct tool_stat {
    double median, min, max;
};

/** One line on stderr, with the program's name before it. */
void tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Length of an option's text as a number; suffixes k, m and g are powers of 1024. */
bool tool_parse_size(const char *text, uint64_t *value_p);

/** A plain number within a range, decimal or 0x. */
bool tool_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value_p);

/** Statistics of `num` values, at least one; sorts them. */
struct tool_stat tool_stat(double *values, size_t num);

/** A string in quotes, as JSON; bytes that are no UTF-8 become '?'. */
void tool_json_string(FILE *out, const char *text);

/** A number as JSON: null if it is not finite. */
void tool_json_number(FILE *out, double value);

/** Flush stdout. False, with a message, if writing has failed. */
bool tool_finish_output(void);

#endif
