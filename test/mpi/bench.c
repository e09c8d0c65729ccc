#include "bench.h"

#include <stdlib.h>

enum { WINDOW = 64 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const struct bench *bench, const struct job *job, char *buffer, size_t length,
                    size_t count, double *seconds)
{
    size_t warmup = count / 10 + 1;
    int i;

    bench->run(job, buffer, length, warmup < bench->warmup ? bench->warmup : warmup);
    for (i = 0; i < bench->repeats; i++) {
        seconds[i] = bench->run(job, buffer, length, count);
    }
    qsort(seconds, (size_t)bench->repeats, sizeof(seconds[0]), ascending);
}

int bench_main(int argc, char **argv, const struct bench *bench)
{
    size_t length, count;
    struct job job;
    double *seconds;
    char *buffer;
    int ranks;

    start(&job, &argc, &argv, bench->ranks == 0 ? 1 : bench->ranks);
    ranks = bench->ranks == 0 ? job.size : bench->ranks;
    length = argument(&job, argc, argv, 1, bench->length);
    count = argument(&job, argc, argv, 2, bench->count);
    if (count == 0) {
        fail(&job, "nothing to measure: COUNT is 0");
    }
    buffer = allocate(&job, 2 * length * (size_t)ranks);
    seconds = allocate(&job, (size_t)bench->repeats * sizeof(*seconds));
    fill(buffer, 2 * length * (size_t)ranks, 1);
    if (job.rank < ranks) {
        measure(bench, &job, buffer, length, count, seconds);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == 0) {
        bench->print(&job, length, count, seconds[0], seconds[bench->repeats / 2]);
    }
    if (bench->end != NULL && job.rank < ranks) {
        bench->end();
    }
    free(seconds);
    free(buffer);
    MPI_Finalize();
    return 0;
}

double bench_stream(const struct job *job, char *buffer, size_t length, size_t count)
{
    MPI_Request requests[WINDOW];
    double begin = MPI_Wtime();
    size_t done, i, part;

    for (done = 0; done < count; done += part) {
        part = count - done < WINDOW ? count - done : WINDOW;
        for (i = 0; i < part; i++) {
            if (job->rank == 0) {
                MPI_Isend(buffer, (int)length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
            } else {
                MPI_Irecv(buffer, (int)length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
            }
        }
        MPI_Waitall((int)part, requests, MPI_STATUSES_IGNORE);
    }
    if (job->rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - begin;
}
