/* mpi_lat [BYTES [COUNT]]: latency of a message one way, half of a ping-pong, in microseconds. */
#include "bench.h"

#include <stdio.h>

static double run(const struct job *job, char *buffer, size_t length, size_t count)
{
    double begin = MPI_Wtime();
    size_t i;

    for (i = 0; i < count; i++) {
        if (job->rank == 0) {
            MPI_Send(buffer, (int)length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, (int)length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, (int)length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, (int)length, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    return MPI_Wtime() - begin;
}

static void print(const struct job *job, size_t length, size_t count, double best, double median)
{
    double half = 1e6 / (2.0 * (double)count);

    (void)job;
    printf("latency %zu bytes: best %.3f median %.3f us\n", length, best * half, median * half);
}

int main(int argc, char **argv)
{
    static const struct bench bench = {
        .length = 8, .count = 10000, .repeats = 11, .ranks = 2, .run = run, .print = print};

    return bench_main(argc, argv, &bench);
}
