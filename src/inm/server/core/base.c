/* Log lines and the clock; see base.h. */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void inm_log(int level, const char *fmt, ...)
{
    char text[600];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(stderr, "<%d>inmd: %s\n", level, text);
}

double now_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
