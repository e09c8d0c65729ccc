#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static enum glex_log_level log_level = GLEX_LOG_WARN;

void glex_log_set_level(enum glex_log_level level)
{
    log_level = level;
}

void glex_log(enum glex_log_level level, const char *fmt, ...)
{
    int err = errno;
    char line[512];
    va_list ap;

    if (level > log_level) {
        return;
    }

    /* One write(), so lines of several ranks do not mix. */
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    fprintf(stderr, "glex: %s\n", line);
    errno = err;
}
