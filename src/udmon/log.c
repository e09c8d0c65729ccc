#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static void log_stderr(void *arg, udmon_log_level_t level, const char *line)
{
    (void)arg;
    if (level <= UDMON_LOG_WARN) {
        fprintf(stderr, "udmon: %s\n", line);
    }
}

static void (*log_function)(void *, udmon_log_level_t, const char *) = log_stderr;
static void *log_arg;

void udmon_set_log(void (*log)(void *arg, udmon_log_level_t level, const char *line), void *arg)
{
    log_function = (log != NULL) ? log : log_stderr;
    log_arg = arg;
}

void udmon_log(udmon_log_level_t level, const char *format, ...)
{
    int saved = errno; /* a message is told in the midst of handling an error */
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log_function(log_arg, level, line);
    errno = saved;
}
