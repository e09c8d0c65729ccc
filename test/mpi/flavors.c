/*
 * flavors [BYTES]: the kinds of MPI windows that one_sided does not use, of BYTES (64 KB).
 *
 * - A window of shared memory: each rank fills its part, and reads the parts of all ranks.
 * - A dynamic window: each rank attaches several regions, and fills the regions of the next rank.
 *   Then each rank detaches every second region, and frees the window.
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>

enum { REGIONS = 5, ROUNDS = 3 };

static int next_rank(const struct job *job)
{
    return (job->rank + 1) % job->size;
}

static int previous_rank(const struct job *job)
{
    return (job->rank + job->size - 1) % job->size;
}

static void share(struct job *job, size_t length)
{
    MPI_Aint size;
    int unit, rank;
    char *mine, *other;
    MPI_Comm node;
    MPI_Win win;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared((MPI_Aint)length, 1, MPI_INFO_NULL, node, &mine, &win);
    MPI_Comm_rank(node, &rank);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    fill(mine, length, seed_of((uint64_t)rank, length, 5));
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    MPI_Comm_size(node, &rank);
    while (rank-- > 0) {
        MPI_Win_shared_query(win, rank, &size, &unit, &other);
        if ((size_t)size != length) {
            fail(job, "MPI_Win_shared_query: %ld bytes instead of %zu", (long)size, length);
        }
        check(job, other, length, seed_of((uint64_t)rank, length, 5), "shared window");
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
}

/* Writes all regions of the next rank. */
static void write_regions(struct job *job, MPI_Win win, const MPI_Aint *places, size_t length)
{
    char *local = allocate(job, length);
    int i;

    for (i = 0; i < REGIONS; i++) {
        fill(local, length, seed_of((uint64_t)job->rank, (uint64_t)i, 6));
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next_rank(job), 0, win);
        MPI_Put(local, (int)length, MPI_BYTE, next_rank(job), places[i], (int)length, MPI_BYTE,
                win);
        MPI_Win_unlock(next_rank(job), win);
    }
    free(local);
}

static void attach_and_detach(struct job *job, size_t length)
{
    MPI_Aint mine[REGIONS], theirs[REGIONS];
    char *regions[REGIONS];
    MPI_Win win;
    int i;

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (i = 0; i < REGIONS; i++) {
        regions[i] = allocate(job, length);
        memset(regions[i], 0, length);
        MPI_Win_attach(win, regions[i], (MPI_Aint)length);
        MPI_Get_address(regions[i], &mine[i]);
    }
    MPI_Sendrecv(mine, REGIONS, MPI_AINT, previous_rank(job), 0, theirs, REGIONS, MPI_AINT,
                 next_rank(job), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    write_regions(job, win, theirs, length);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, job->rank, 0, win);
    for (i = 0; i < REGIONS; i++) {
        check(job, regions[i], length, seed_of((uint64_t)previous_rank(job), (uint64_t)i, 6),
              "dynamic window");
    }
    MPI_Win_unlock(job->rank, win);
    for (i = REGIONS - 1; i >= 0; i -= 2) {
        MPI_Win_detach(win, regions[i]);
    }
    MPI_Win_free(&win);
    for (i = 0; i < REGIONS; i++) {
        free(regions[i]);
    }
}

int main(int argc, char **argv)
{
    struct job job;
    size_t length;
    int round;

    start(&job, &argc, &argv, 2);
    length = argument(&job, argc, argv, 1, 1ul << 16);
    for (round = 0; round < ROUNDS; round++) {
        share(&job, length);
        attach_and_detach(&job, length);
    }
    return finish(&job);
}
