/*
 * mpi_window [BYTES [COUNT [put|get [create|allocate]]]]: time of MPI_Put() or MPI_Get() and
 * MPI_Win_flush() by rank 0, in microseconds. Rank 1 waits in MPI_Recv(). The window is memory of
 * the program (create) or of the MPI library (allocate).
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_get, is_allocated;

struct window {
    void *memory; /* NULL: no window yet */
    MPI_Win win;
};

static struct window window;

static void make_window(const struct job *job, size_t length)
{
    if (is_allocated) {
        MPI_Win_allocate((MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.memory,
                         &window.win);
    } else {
        window.memory = allocate(job, length);
        MPI_Win_create(window.memory, (MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                       &window.win);
    }
    memset(window.memory, 0, length);
    MPI_Win_lock_all(0, window.win);
}

static double run(const struct job *job, char *buffer, size_t length, size_t count)
{
    double begin, seconds;
    size_t i;

    if (window.memory == NULL) {
        make_window(job, length);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (i = 0; i < count && job->rank == 0; i++) {
        if (is_get) {
            MPI_Get(buffer, (int)length, MPI_BYTE, 1, 0, (int)length, MPI_BYTE, window.win);
        } else {
            MPI_Put(buffer, (int)length, MPI_BYTE, 1, 0, (int)length, MPI_BYTE, window.win);
        }
        MPI_Win_flush(1, window.win);
    }
    seconds = MPI_Wtime() - begin;
    if (job->rank == 0) {
        MPI_Send(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return seconds;
}

static void print(const struct job *job, size_t length, size_t count, double best, double median)
{
    double each = 1e6 / (double)count;

    (void)job;
    printf("%s %s %zu bytes: best %.3f median %.3f us\n", is_allocated ? "allocate" : "create",
           is_get ? "get" : "put", length, best * each, median * each);
}

static void end(void)
{
    MPI_Win_unlock_all(window.win);
    MPI_Win_free(&window.win);
    if (!is_allocated) {
        free(window.memory);
    }
}

int main(int argc, char **argv)
{
    static const struct bench bench = {.length = 8,
                                       .count = 10000,
                                       .repeats = 11,
                                       .ranks = 2,
                                       .run = run,
                                       .print = print,
                                       .end = end};

    is_get = argc > 3 && strcmp(argv[3], "get") == 0;
    is_allocated = argc > 4 && strcmp(argv[4], "allocate") == 0;
    return bench_main(argc, argv, &bench);
}
