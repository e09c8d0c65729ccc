/* mpi_rate [BYTES [COUNT]]: how many short messages one way, in millions per second. */
#include "bench.h"

#include <stdio.h>

static void print(size_t length, size_t count, double best, double median)
{
    double millions = (double)count / 1e6;

    printf("rate %zu bytes: best %.3f median %.3f M/s\n", length, millions / best,
           millions / median);
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, bench_stream, 8, 100000, print);
}
