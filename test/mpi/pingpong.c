/*
 * pingpong [MAX_BYTES]: neighbours (0 and 1, 2 and 3, ...) send each other messages of all sizes
 * from 0 to MAX_BYTES (64 MB) and check every byte. Each size goes forth and back, then both ways
 * at once.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_PING = 1, TAG_BOTH };

static void one_way(struct job *job, int from, int to, char *buffer, size_t length)
{
    uint64_t seed = seed_of((uint64_t)from, (uint64_t)to, length);
    MPI_Status status;
    char what[64];
    int count;

    if (job->rank == from) {
        fill(buffer, length, seed);
        MPI_Send(buffer, (int)length, MPI_BYTE, to, TAG_PING, MPI_COMM_WORLD);
        return;
    }
    memset(buffer, 0, length);
    MPI_Recv(buffer, (int)length, MPI_BYTE, from, TAG_PING, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    if ((size_t)count != length) {
        fail(job, "%d bytes arrived of %zu", count, length);
    }
    snprintf(what, sizeof(what), "message from %d", from);
    check(job, buffer, length, seed, what);
}

static void both_ways(struct job *job, int peer, char *out, char *in, size_t length)
{
    MPI_Request requests[2];

    fill(out, length, seed_of((uint64_t)job->rank, ~0ull, length));
    memset(in, 0, length);
    MPI_Irecv(in, (int)length, MPI_BYTE, peer, TAG_BOTH, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, (int)length, MPI_BYTE, peer, TAG_BOTH, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check(job, in, length, seed_of((uint64_t)peer, ~0ull, length), "message at the same time");
}

int main(int argc, char **argv)
{
    struct job job;
    size_t length, max;
    char *out, *in;
    int peer;

    start(&job, &argc, &argv, 2);
    max = argument(&job, argc, argv, 1, 64ul << 20);
    peer = job.rank ^ 1;
    if (peer < job.size) {
        out = allocate(&job, max);
        in = allocate(&job, max);
        for (length = 0; length <= max; length = next_size(length, max)) {
            one_way(&job, job.rank & ~1, job.rank | 1, out, length);
            one_way(&job, job.rank | 1, job.rank & ~1, out, length);
            both_ways(&job, peer, out, in, length);
        }
        free(out);
        free(in);
    }
    return finish(&job);
}
