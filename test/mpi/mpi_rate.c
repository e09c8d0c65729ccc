/* mpi_rate [BYTES [COUNT]]: how many short messages one way, in millions per second. */
#include "bench.h"

#include <stdio.h>

static void print(const struct job *job, size_t length, size_t count, double best, double median)
{
    double millions = (double)count / 1e6;

    (void)job;
    printf("rate %zu bytes: best %.3f median %.3f M/s\n", length, millions / best,
           millions / median);
}

int main(int argc, char **argv)
{
    static const struct bench bench = {.length = 8,
                                       .count = 100000,
                                       .repeats = 11,
                                       .ranks = 2,
                                       .run = bench_stream,
                                       .print = print};

    return bench_main(argc, argv, &bench);
}
