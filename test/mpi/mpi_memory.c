/*
 * mpi_memory: what a job takes of the node's memory when every rank has sent to every other. Rank 0
 * prints what is private to the ranks, and what all files of /dev/shm take; who wants to know how
 * much of that is the job's subtracts what they took before.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* Kilobytes that only this process has. */
static double private_memory(const struct job *job)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    double sum = 0, value;
    char line[256];

    if (file == NULL) {
        fail(job, "cannot read /proc/self/smaps_rollup");
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Private_Clean: %lf", &value) == 1 ||
            sscanf(line, "Private_Dirty: %lf", &value) == 1) {
            sum += value;
        }
    }
    fclose(file);
    return sum;
}

static double shared_memory(const struct job *job)
{
    struct statvfs vfs;

    if (statvfs("/dev/shm", &vfs) != 0) {
        fail(job, "cannot look at /dev/shm");
    }
    return (double)(vfs.f_blocks - vfs.f_bfree) * (double)vfs.f_frsize / 1024;
}

int main(int argc, char **argv)
{
    struct job job;
    double mine, all;
    char *buffer;

    start(&job, &argc, &argv, 1);
    buffer = allocate(&job, 16 * (size_t)job.size);
    memset(buffer, 1, 16 * (size_t)job.size);
    MPI_Alltoall(buffer, 8, MPI_BYTE, buffer + 8 * (size_t)job.size, 8, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    mine = private_memory(&job);
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (job.rank == 0) {
        printf("memory %d ranks: private %.0f shared %.0f KB\n", job.size, all,
               shared_memory(&job));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(buffer);
    MPI_Finalize();
    return 0;
}
