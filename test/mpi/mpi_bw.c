/* mpi_bw [BYTES [COUNT]]: bandwidth of a stream of messages one way, in MB/s (10^6 bytes). */
#include "bench.h"

#include <stdio.h>

static void print(const struct job *job, size_t length, size_t count, double best, double median)
{
    double megabytes = (double)length * (double)count / 1e6;

    (void)job;
    printf("bandwidth %zu bytes: best %.1f median %.1f MB/s\n", length, megabytes / best,
           megabytes / median);
}

int main(int argc, char **argv)
{
    static const struct bench bench = {.length = 1ul << 20,
                                       .count = 256,
                                       .repeats = 11,
                                       .ranks = 2,
                                       .run = bench_stream,
                                       .print = print};

    return bench_main(argc, argv, &bench);
}
