#include "measure.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void fail(const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fail("%s: %s", what, ucs_status_string(status));
    }
}

double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void pin(int n)
{
    cpu_set_t all, one;
    int cpu;

    if (sched_getaffinity(0, sizeof(all), &all) != 0 || n >= CPU_COUNT(&all)) {
        return;
    }
    CPU_ZERO(&one);
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && n-- == 0) {
            CPU_SET(cpu, &one);
        }
    }
    if (sched_setaffinity(0, sizeof(one), &one) != 0) {
        fail("cannot bind to a processor: %s", strerror(errno));
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double sort_median(double *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), ascending);
    return values[count / 2];
}
