#include "bench.h"

#include <stdlib.h>

enum { REPEATS = 11, WINDOW = 64 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int bench_main(int argc, char **argv, bench_run_t *run, size_t length, size_t count,
               void (*print)(size_t length, size_t count, double best, double median))
{
    double seconds[REPEATS];
    struct job job;
    char *buffer;
    int i;

    start(&job, &argc, &argv, 2);
    length = argument(&job, argc, argv, 1, length);
    count = argument(&job, argc, argv, 2, count);
    if (count == 0) {
        fail(&job, "nothing to measure: COUNT is 0");
    }
    buffer = allocate(&job, length);
    fill(buffer, length, 1);
    if (job.rank < 2) {
        run(job.rank, buffer, length, count / 10 + 1);
        for (i = 0; i < REPEATS; i++) {
            seconds[i] = run(job.rank, buffer, length, count);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == 0) {
        qsort(seconds, REPEATS, sizeof(seconds[0]), ascending);
        print(length, count, seconds[0], seconds[REPEATS / 2]);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}

double bench_stream(int rank, char *buffer, size_t length, size_t count)
{
    MPI_Request requests[WINDOW];
    double begin = MPI_Wtime();
    size_t done, i, part;

    for (done = 0; done < count; done += part) {
        part = count - done < WINDOW ? count - done : WINDOW;
        for (i = 0; i < part; i++) {
            if (rank == 0) {
                MPI_Isend(buffer, (int)length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
            } else {
                MPI_Irecv(buffer, (int)length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
            }
        }
        MPI_Waitall((int)part, requests, MPI_STATUSES_IGNORE);
    }
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - begin;
}
