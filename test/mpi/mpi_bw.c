/* mpi_bw [BYTES [COUNT]]: bandwidth of a stream of messages one way, in MB/s (10^6 bytes). */
#include "bench.h"

#include <stdio.h>

static void print(size_t length, size_t count, double best, double median)
{
    double megabytes = (double)length * (double)count / 1e6;

    printf("bandwidth %zu bytes: best %.1f median %.1f MB/s\n", length, megabytes / best,
           megabytes / median);
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, bench_stream, 1ul << 20, 256, print);
}
