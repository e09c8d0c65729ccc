/* mpi_alltoall [BYTES [COUNT]]: time of an MPI_Alltoall of all ranks, in microseconds. */
#include "bench.h"

#include <stdio.h>

static double run(const struct job *job, char *buffer, size_t length, size_t count)
{
    char *in = buffer + length * (size_t)job->size;
    double begin, seconds;
    size_t i;

    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (i = 0; i < count; i++) {
        MPI_Alltoall(buffer, (int)length, MPI_BYTE, in, (int)length, MPI_BYTE, MPI_COMM_WORLD);
    }
    seconds = MPI_Wtime() - begin;
    /* as long as the slowest rank took: where cores are shared the others end much earlier */
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static void print(const struct job *job, size_t length, size_t count, double best, double median)
{
    double each = 1e6 / (double)count;

    printf("alltoall %d ranks %zu bytes: best %.3f median %.3f us\n", job->size, length,
           best * each, median * each);
}

int main(int argc, char **argv)
{
    /* In the first lap of a transport's queue, each call touches new pages of the queue in every
     * rank, which takes several times as long as the call itself. glex changes from SR to ER after
     * 64 messages of a peer. */
    static const struct bench bench = {.length = 8,
                                       .count = 20,
                                       .warmup = 100,
                                       .repeats = 5,
                                       .ranks = 0,
                                       .run = run,
                                       .print = print};

    return bench_main(argc, argv, &bench);
}
