/*
 * mpi_busy [BYTES [COUNT]]: time of a message whose sender computes: the sender begins to send, calls
 * MPI_Test once, and then makes no call for longer than the message takes. The receiver measures, in
 * microseconds. A receiver that waits for such a sender is slow here.
 */
#include "bench.h"

#include <stdio.h>

#define SLOWEST  2e9    /* bytes per second: a copy is faster */
#define AT_LEAST 100e-6 /* seconds of computing */

static void compute(double seconds)
{
    double end = MPI_Wtime() + seconds;

    while (MPI_Wtime() < end) {
    }
}

static void send_and_compute(char *buffer, size_t length)
{
    MPI_Request request;
    int done;

    MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    MPI_Isend(buffer, (int)length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    compute(AT_LEAST + (double)length / SLOWEST);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static double receive(char *buffer, size_t length)
{
    double begin;

    MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    begin = MPI_Wtime();
    MPI_Recv(buffer, (int)length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Wtime() - begin;
}

static double run(const struct job *job, char *buffer, size_t length, size_t count)
{
    double seconds = 0;
    size_t i;

    for (i = 0; i < count; i++) {
        if (job->rank == 0) {
            seconds += receive(buffer, length);
        } else {
            send_and_compute(buffer, length);
        }
    }
    return seconds;
}

static void print(const struct job *job, size_t length, size_t count, double best, double median)
{
    (void)job;
    printf("busy sender %zu bytes: best %.2f median %.2f us\n", length, best / (double)count * 1e6,
           median / (double)count * 1e6);
}

int main(int argc, char **argv)
{
    static const struct bench bench = {
        .length = 1ul << 20, .count = 200, .repeats = 11, .ranks = 2, .run = run, .print = print};

    return bench_main(argc, argv, &bench);
}
