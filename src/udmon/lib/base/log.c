#include "log.h"
#include "clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_LIMIT_NS UINT64_C(10000000000)

/* Warnings and worse, or as UDMON_LOG_LEVEL says: error, warn, info, debug. */
static enum udmon_log_level log_stderr_level(void)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *wanted = getenv("UDMON_LOG_LEVEL");
    int level;

    for (level = UDMON_LOG_ERROR; (wanted != NULL) && (level <= UDMON_LOG_DEBUG); ++level) {
        if (!strcmp(wanted, names[level])) {
            return level;
        }
    }
    return UDMON_LOG_WARN;
}

static void log_stderr(void *arg, enum udmon_log_level level, const char *line)
{
    (void)arg;
    if (level <= log_stderr_level()) {
        fprintf(stderr, "udmon: %s\n", line);
    }
}

static void (*log_function)(void *, enum udmon_log_level, const char *) = log_stderr;
static void *log_arg;

void udmon_set_log(void (*log)(void *arg, enum udmon_log_level level, const char *line), void *arg)
{
    log_function = (log != NULL) ? log : log_stderr;
    log_arg = arg;
}

void udmon_log(enum udmon_log_level level, const char *format, ...)
{
    int saved = errno; /* callers log while they handle an error */
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log_function(log_arg, level, line);
    errno = saved;
}

bool udmon_log_allowed(struct udmon_log_limit *limit, uint64_t *unsaid_p)
{
    uint64_t now = udmon_now_ns(), next = __atomic_load_n(&limit->next_ns, __ATOMIC_RELAXED);

    if ((now < next) || !__atomic_compare_exchange_n(&limit->next_ns, &next, now + LOG_LIMIT_NS, 0,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        __atomic_fetch_add(&limit->unsaid, 1, __ATOMIC_RELAXED);
        return false;
    }
    *unsaid_p = __atomic_exchange_n(&limit->unsaid, 0, __ATOMIC_RELAXED);
    return true;
}

const char *udmon_log_unsaid(uint64_t count)
{
    static _Thread_local char text[64];

    text[0] = '\0';
    if (count > 0) {
        snprintf(text, sizeof(text), " (and %llu times more since the last such line)",
                 (unsigned long long)count);
    }
    return text;
}
