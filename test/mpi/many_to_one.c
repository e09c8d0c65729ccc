/*
 * many_to_one [MESSAGES]: every rank sends MESSAGES (200) messages of many sizes to rank 0 without
 * pause. Rank 0 receives from any source, and checks that no message is lost, no message overtakes
 * an earlier message of its sender, and every byte is right.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

enum { TAG = 7, WINDOW = 16 };

/* Mostly short, as in real programs; every sixteenth long enough for a rendezvous. */
static size_t length_of(size_t sequence)
{
    static const size_t lengths[] = {0,  8,  40,   200, 1, 1000, 112, 4096,
                                     64, 16, 8000, 96,  2, 500,  33,  150000};

    return lengths[sequence % (sizeof(lengths) / sizeof(lengths[0]))];
}

enum { MAX_LENGTH = 150000 };

static void send_all(struct job *job, size_t messages)
{
    MPI_Request requests[WINDOW];
    char *buffers = allocate(job, (size_t)WINDOW * MAX_LENGTH);
    size_t i, slot;

    for (slot = 0; slot < WINDOW; slot++) {
        requests[slot] = MPI_REQUEST_NULL;
    }
    for (i = 0; i < messages; i++) {
        slot = i % WINDOW;
        MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        fill(buffers + slot * MAX_LENGTH, length_of(i), seed_of((uint64_t)job->rank, i, 1));
        MPI_Isend(buffers + slot * MAX_LENGTH, (int)length_of(i), MPI_BYTE, 0, TAG, MPI_COMM_WORLD,
                  &requests[slot]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    free(buffers);
}

static void receive_one(struct job *job, char *buffer, size_t *sequences)
{
    MPI_Status status;
    char what[64];
    size_t *next;
    int count;

    MPI_Recv(buffer, MAX_LENGTH, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    next = &sequences[status.MPI_SOURCE];
    snprintf(what, sizeof(what), "message %zu from rank %d", *next, status.MPI_SOURCE);
    if ((size_t)count != length_of(*next)) {
        fail(job, "%s: %d bytes arrived of %zu", what, count, length_of(*next));
    }
    check(job, buffer, (size_t)count, seed_of((uint64_t)status.MPI_SOURCE, *next, 1), what);
    (*next)++;
}

static void receive_all(struct job *job, size_t messages)
{
    size_t left = messages * (size_t)(job->size - 1);
    size_t *sequences = allocate(job, (size_t)job->size * sizeof(*sequences));
    char *buffer = allocate(job, MAX_LENGTH);
    int rank;

    for (rank = 0; rank < job->size; rank++) {
        sequences[rank] = 0;
    }
    while (left-- > 0) {
        receive_one(job, buffer, sequences);
    }
    for (rank = 1; rank < job->size; rank++) {
        if (sequences[rank] != messages) {
            fail(job, "%zu messages of rank %d instead of %zu", sequences[rank], rank, messages);
        }
    }
    free(buffer);
    free(sequences);
}

int main(int argc, char **argv)
{
    struct job job;
    size_t messages;

    start(&job, &argc, &argv, 2);
    messages = argument(&job, argc, argv, 1, 200);
    if (job.rank == 0) {
        receive_all(&job, messages);
    } else {
        send_all(&job, messages);
    }
    return finish(&job);
}
