/*
 * Common code of the MPI measuring programs. Measurements are repeated. The programs print the best
 * and the median, because on a shared machine the mean depends on other programs.
 */
#ifndef TEST_MPI_BENCH_H
#define TEST_MPI_BENCH_H

#include "common.h"

/** A measuring program; its arguments BYTES and COUNT replace `length` and `count`. */
struct bench {
    size_t length;
    size_t count;
    size_t warmup; /**< minimum number of untimed messages */
    int repeats;
    int ranks; /**< so many take part; 0: all */
    /** Do `count` messages of `length` bytes, and return the seconds they took. `buffer` has two
     * times `length` bytes for each rank that takes part. */
    double (*run)(const struct job *job, char *buffer, size_t length, size_t count);
    void (*print)(const struct job *job, size_t length, size_t count, double best, double median);
    void (*end)(void); /**< before MPI_Finalize(); may be NULL */
};

/** Read the arguments, measure, and let rank 0 print. Returns the exit status. */
int bench_main(int argc, char **argv, const struct bench *bench);

/** For bandwidth and rate: messages from rank 0 to rank 1, 64 in flight, one answer. */
double bench_stream(const struct job *job, char *buffer, size_t length, size_t count);

#endif
