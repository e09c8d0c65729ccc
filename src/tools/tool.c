#include "tool.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void tool_error(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

bool tool_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value_p)
{
    unsigned long long value;
    char *end;

    if (*text < '0' || *text > '9') {
        return false; /* strtoull() would take blanks and a minus */
    }
    errno = 0;
    value = strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || value < min || value > max) {
        return false;
    }
    *value_p = value;
    return true;
}

bool tool_parse_size(const char *text, uint64_t *value_p)
{
    static const char suffixes[] = "kmg";
    size_t len = strlen(text);
    unsigned shift = 0;
    char digits[32];
    const char *suffix;

    if (len == 0 || len >= sizeof(digits)) {
        return false;
    }
    strcpy(digits, text);
    suffix = strchr(suffixes, digits[len - 1] | 0x20);
    if (suffix != NULL && *suffix != '\0') {
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        digits[len - 1] = '\0';
    }
    if (!tool_parse_number(digits, 0, UINT64_MAX >> shift, value_p)) {
        return false;
    }
    *value_p <<= shift;
    return true;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct tool_stat tool_stat(double *values, size_t num)
{
    struct tool_stat stat;

    qsort(values, num, sizeof(*values), compare_doubles);
    stat.min = values[0];
    stat.max = values[num - 1];
    stat.median = (values[(num - 1) / 2] + values[num / 2]) / 2;
    return stat;
}

/* Returns the length of the UTF-8 sequence at `s`, or 0 if it is invalid. */
static size_t utf8_len(const unsigned char *s)
{
    size_t len = (*s < 0x80)               ? 1 :
                 (*s >= 0xc2 && *s < 0xe0) ? 2 :
                 (*s >= 0xe0 && *s < 0xf0) ? 3 :
                 (*s >= 0xf0 && *s < 0xf5) ? 4 :
                                             0;
    size_t i;

    for (i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return len;
}

void tool_json_string(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t len;

    fputc('"', out);
    while (*s != '\0') {
        len = utf8_len(s);
        if (len == 0) {
            fputc('?', out);
            len = 1;
        } else if (*s == '"' || *s == '\\') {
            fprintf(out, "\\%c", *s);
        } else if (*s < 0x20 || *s == 0x7f) {
            fprintf(out, "\\u%04x", *s);
        } else {
            fwrite(s, 1, len, out);
        }
        s += len;
    }
    fputc('"', out);
}

void tool_json_number(FILE *out, double value)
{
    if (isfinite(value)) {
        fprintf(out, "%.6g", value);
    } else {
        fputs("null", out);
    }
}

bool tool_finish_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        tool_error("cannot write the output: %s", strerror(errno));
        return false;
    }
    return true;
}
