/*
 * windows: the operations of Open MPI's osc rdma over atomic operations of btl ofi: locks,
 * accumulates, fetch-and-add, compare-and-swap. test/mpi/one_sided tests the same for all MPIs, but
 * Open MPI 4.1 crashes when a rank compares and swaps in its own window over btl ofi.
 */
#include "common.h"

#include <mpi.h>
#include <stdint.h>

enum { ROUNDS = 50, WORDS = 500 };

/* Each other rank adds to all words of a rank, takes tickets, and swaps until a swap succeeds */
static void use_window(struct job *job, int home, MPI_Win win)
{
    uint64_t ones[WORDS], one = 1, ticket, found, expected, wanted, last = 0;
    MPI_Aint bytes = sizeof(uint64_t);
    int i;

    for (i = 0; i < WORDS; i++) {
        ones[i] = 1;
    }
    for (i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, home, 0, win);
        MPI_Accumulate(ones, i % 2 ? WORDS : 3, MPI_UINT64_T, home, 2 * bytes, i % 2 ? WORDS : 3,
                       MPI_UINT64_T, MPI_SUM, win);
        MPI_Fetch_and_op(&one, &ticket, MPI_UINT64_T, home, 0, MPI_SUM, win);
        MPI_Win_flush(home, win);
        if (i > 0 && ticket <= last) {
            fail(job, "ticket %llu after %llu", (unsigned long long)ticket,
                 (unsigned long long)last);
        }
        last = ticket;
        for (expected = 0;; expected = found) {
            wanted = expected + 1;
            MPI_Compare_and_swap(&wanted, &expected, &found, MPI_UINT64_T, home, bytes, win);
            MPI_Win_flush(home, win);
            if (found == expected) {
                break;
            }
        }
        MPI_Win_unlock(home, win);
        job->checked++;
    }
}

static void check_words(struct job *job, const uint64_t *words)
{
    uint64_t others = (uint64_t)job->size - 1;
    int i;

    for (i = 0; i < WORDS + 2; i++) {
        uint64_t right = others * (i < 5 ? ROUNDS : ROUNDS / 2);
        if (words[i] != right) {
            fail(job, "word %d is %llu instead of %llu", i, (unsigned long long)words[i],
                 (unsigned long long)right);
        }
        job->checked++;
    }
}

int main(int argc, char **argv)
{
    static uint64_t words[WORDS + 2];
    struct job job;
    MPI_Win win;
    int i;

    start(&job, &argc, &argv, 2);
    MPI_Win_create(words, sizeof(words), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (i = 1; i < job.size; i++) {
        use_window(&job, (job.rank + i) % job.size, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, job.rank, 0, win);
    check_words(&job, words);
    MPI_Win_unlock(job.rank, win);
    MPI_Win_free(&win);
    return finish(&job);
}
