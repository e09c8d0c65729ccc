/*
 * all_to_all [MAX_BYTES]: every rank sends a separate block to every rank. The program uses
 * MPI_Alltoall with blocks of all sizes up to MAX_BYTES (256 KB), MPI_Alltoallv with a different
 * size for each pair, and messages that are all in flight at once. Every byte is checked.
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 3 };

static uint64_t pair_seed(int from, int to, size_t length)
{
    return seed_of((uint64_t)from, (uint64_t)to, length);
}

static void equal_blocks(struct job *job, char *out, char *in, size_t length)
{
    int rank;

    for (rank = 0; rank < job->size; rank++) {
        fill(out + (size_t)rank * length, length, pair_seed(job->rank, rank, length));
    }
    memset(in, 0, length * (size_t)job->size);
    MPI_Alltoall(out, (int)length, MPI_BYTE, in, (int)length, MPI_BYTE, MPI_COMM_WORLD);
    for (rank = 0; rank < job->size; rank++) {
        check(job, in + (size_t)rank * length, length, pair_seed(rank, job->rank, length),
              "MPI_Alltoall");
    }
}

/* The length of a message between two ranks in the runs with unequal blocks: 0 to max bytes. */
static size_t unequal(int from, int to, size_t max)
{
    return (size_t)(seed_of((uint64_t)from, (uint64_t)to, 99) % (max + 1));
}

static void unequal_blocks(struct job *job, char *out, char *in, size_t max)
{
    size_t ranks = (size_t)job->size;
    int *counts = allocate(job, 3 * ranks * sizeof(int));
    int *displacements = counts + ranks;
    int *in_counts = displacements + ranks;
    int rank;

    for (rank = 0; rank < job->size; rank++) {
        counts[rank] = (int)unequal(job->rank, rank, max);
        in_counts[rank] = (int)unequal(rank, job->rank, max);
        displacements[rank] = rank * (int)max;
        fill(out + displacements[rank], (size_t)counts[rank], pair_seed(job->rank, rank, max));
    }
    memset(in, 0, max * ranks);
    MPI_Alltoallv(out, counts, displacements, MPI_BYTE, in, in_counts, displacements, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (rank = 0; rank < job->size; rank++) {
        check(job, in + displacements[rank], (size_t)in_counts[rank],
              pair_seed(rank, job->rank, max), "MPI_Alltoallv");
    }
    free(counts);
}

static void all_at_once(struct job *job, char *out, char *in, size_t length)
{
    size_t ranks = (size_t)job->size;
    MPI_Request *requests = allocate(job, 2 * ranks * sizeof(*requests));
    int rank;

    memset(in, 0, length * ranks);
    for (rank = 0; rank < job->size; rank++) {
        MPI_Irecv(in + (size_t)rank * length, (int)length, MPI_BYTE, rank, TAG, MPI_COMM_WORLD,
                  &requests[rank]);
    }
    for (rank = 0; rank < job->size; rank++) {
        fill(out + (size_t)rank * length, length, pair_seed(job->rank, rank, length + 1));
        MPI_Isend(out + (size_t)rank * length, (int)length, MPI_BYTE, rank, TAG, MPI_COMM_WORLD,
                  &requests[job->size + rank]);
    }
    MPI_Waitall(2 * job->size, requests, MPI_STATUSES_IGNORE);
    for (rank = 0; rank < job->size; rank++) {
        check(job, in + (size_t)rank * length, length, pair_seed(rank, job->rank, length + 1),
              "messages all at once");
    }
    free(requests);
}

int main(int argc, char **argv)
{
    struct job job;
    size_t length, max;
    char *out, *in;

    start(&job, &argc, &argv, 1);
    max = argument(&job, argc, argv, 1, 256ul << 10);
    out = allocate(&job, max * (size_t)job.size);
    in = allocate(&job, max * (size_t)job.size);
    for (length = 0; length <= max; length = next_size(length, max)) {
        equal_blocks(&job, out, in, length);
        all_at_once(&job, out, in, length);
    }
    unequal_blocks(&job, out, in, max);
    free(out);
    free(in);
    return finish(&job);
}
