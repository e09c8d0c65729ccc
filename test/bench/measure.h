/* Common functions of measuring programs: a clock, processors, medians, and errors. */
#ifndef TEST_BENCH_MEASURE_H
#define TEST_BENCH_MEASURE_H

#include <stddef.h>
#include <ucs/type/status.h>

/** Print "PROGRAM: ..." to standard error and exit with status 1. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/** Fail unless a call of UCX went well. */
void check(ucs_status_t status, const char *what);

/** Seconds on a clock that all processes share. */
double now(void);

/** Bind this process to the n-th allowed processor, if it exists. */
void pin(int n);

/** Sort the values; the one in the middle. */
double sort_median(double *values, size_t count);

#endif
