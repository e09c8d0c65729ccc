#include "usage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void cm_usage_error(const char *format, ...)
{
    va_list args;

    fputs("commatrix: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(" (--help)\n", stderr);
    exit(CM_EXIT_USAGE);
}
