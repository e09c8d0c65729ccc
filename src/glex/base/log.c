#include "base/log.h"
#include "base/env.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void glex_log(enum glex_log_level level, const char *fmt, ...)
{
    int err = errno;
    char line[512];
    va_list ap;

    if (level > glex_env()->log_level) {
        return;
    }

    /* One write, so that lines of several ranks do not mix. */
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    fprintf(stderr, "glex: %s\n", line);
    errno = err;
}
