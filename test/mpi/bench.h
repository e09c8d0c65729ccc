/*
 * Shared by the MPI measuring programs. Two ranks take part; the measure is repeated, and the best
 * and the median are printed, since on a machine that others use too the mean tells of the others.
 */
#ifndef TEST_MPI_BENCH_H
#define TEST_MPI_BENCH_H

#include "common.h"

/** What to measure: do `count` messages of `length` bytes, and return the seconds they took. */
typedef double bench_run_t(int rank, char *buffer, size_t length, size_t count);

/** Read the arguments BYTES and COUNT, measure, and let rank 0 print. */
int bench_main(int argc, char **argv, bench_run_t *run, size_t length, size_t count,
               void (*print)(size_t length, size_t count, double best, double median));

/** For bandwidth and rate: messages from rank 0 to rank 1, 64 under way at a time, one answer. */
double bench_stream(int rank, char *buffer, size_t length, size_t count);

#endif
