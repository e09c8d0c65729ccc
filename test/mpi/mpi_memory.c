/*
 * mpi_memory [BYTES [COUNT]]: memory of a job on a node after every rank has sent COUNT messages of
 * BYTES bytes to every other rank. The program does not use MPI_Alltoall, because its ranks send
 * short data only to a few neighbours, which forward the data. Rank 0 prints the private memory of
 * all ranks, and the size of all files in /dev/shm. Subtract the size of /dev/shm before the job.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* Kilobytes of private memory, without files in /dev/shm, which are counted separately. */
static double private_memory(const struct job *job)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    double sum = 0, value;
    char line[512], shared = ' ';

    if (file == NULL) {
        fail(job, "cannot read /proc/self/smaps");
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%*x-%*x %*c%*c%*c%c", &shared) == 1) {
            continue; /* a mapping begins: 's' or 'p' */
        }
        if (shared != 's' && (sscanf(line, "Private_Clean: %lf", &value) == 1 ||
                              sscanf(line, "Private_Dirty: %lf", &value) == 1)) {
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

/* Sends a message to each other rank, and receives a message from each. */
static void exchange(const struct job *job, char *buffer, size_t length)
{
    MPI_Request *requests = allocate(job, 2 * (size_t)job->size * sizeof(*requests));
    int i, peer, count = 0;

    for (i = 1; i < job->size; i++) {
        peer = (job->rank + i) % job->size;
        MPI_Irecv(buffer + (size_t)peer * length, (int)length, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                  &requests[count++]);
    }
    for (i = 1; i < job->size; i++) {
        peer = (job->rank + i) % job->size;
        MPI_Isend(buffer + (size_t)job->size * length, (int)length, MPI_BYTE, peer, 0,
                  MPI_COMM_WORLD, &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

int main(int argc, char **argv)
{
    struct job job;
    double mine, all;
    size_t length, count, i;
    char *buffer;

    start(&job, &argc, &argv, 1);
    length = argument(&job, argc, argv, 1, 8);
    count = argument(&job, argc, argv, 2, 1);
    buffer = allocate(&job, length * ((size_t)job.size + 1));
    memset(buffer, 1, length * ((size_t)job.size + 1));
    for (i = 0; i < count; i++) {
        exchange(&job, buffer, length);
    }
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
