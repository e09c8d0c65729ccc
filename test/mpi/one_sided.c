/*
 * one_sided [BYTES [allocate]]: MPI windows. Put, get and accumulate between fences; passive target
 * with locks and flushes; fetch_and_op as a ticket counter, compare_and_swap as an election; a
 * counter raised by read and write under an exclusive lock. BYTES (1 MB) is the longest put and
 * get. With "allocate" the windows are made of memory that MPI allocates, which its network may
 * know better than the program's.
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 50 };

static int neighbour(const struct job *job, int distance)
{
    return (job->rank + distance + job->size) % job->size;
}

struct window {
    char *memory;
    MPI_Win win;
};

static int by_mpi; /* "allocate" */

/*
 * A window of this many bytes, zero everywhere when the call returns. Made of memory that the
 * program brings, unless asked otherwise: with MPI_Win_allocate() an MPI library may share the
 * memory itself among the ranks of a node, and its network has nothing to do.
 */
static struct window make_window(struct job *job, size_t length)
{
    struct window window;

    if (by_mpi) {
        MPI_Win_allocate((MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.memory,
                         &window.win);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, job->rank, 0, window.win);
        memset(window.memory, 0, length);
        MPI_Win_unlock(job->rank, window.win);
        MPI_Barrier(MPI_COMM_WORLD);
        return window;
    }
    window.memory = allocate(job, length);
    memset(window.memory, 0, length);
    MPI_Win_create(window.memory, (MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
    return window;
}

static uint64_t word_of(const struct window *window)
{
    uint64_t word;

    memcpy(&word, window->memory, sizeof(word));
    return word;
}

static void free_window(struct window *window)
{
    MPI_Win_free(&window->win);
    if (!by_mpi) {
        free(window->memory);
    }
}

static void put_and_get_fence(struct job *job, size_t max)
{
    char *local = allocate(job, max);
    size_t length;
    struct window window = make_window(job, max);
    MPI_Win win = window.win;

    for (length = 1; length <= max; length = next_size(length, max)) {
        fill(local, length, seed_of((uint64_t)job->rank, length, 1));
        MPI_Win_fence(0, win);
        MPI_Put(local, (int)length, MPI_BYTE, neighbour(job, 1), 0, (int)length, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        check(job, window.memory, length, seed_of((uint64_t)neighbour(job, -1), length, 1),
              "MPI_Put");
        memset(local, 0, length);
        MPI_Win_fence(0, win);
        MPI_Get(local, (int)length, MPI_BYTE, neighbour(job, 1), 0, (int)length, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        check(job, local, length, seed_of((uint64_t)job->rank, length, 1), "MPI_Get");
    }
    free_window(&window);
    free(local);
}

/* The same by passive target; each rank writes to its own part of every other rank's window. */
static void put_and_get_lock(struct job *job, size_t length)
{
    size_t place = (size_t)job->rank * length;
    char *local = allocate(job, length);
    char *back = allocate(job, length);
    struct window window = make_window(job, length * (size_t)job->size);
    MPI_Win win = window.win;
    int rank;

    for (rank = 0; rank < job->size; rank++) {
        fill(local, length, seed_of((uint64_t)job->rank, (uint64_t)rank, 2));
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        MPI_Put(local, (int)length, MPI_BYTE, rank, (MPI_Aint)place, (int)length, MPI_BYTE, win);
        MPI_Win_flush(rank, win);
        MPI_Get(back, (int)length, MPI_BYTE, rank, (MPI_Aint)place, (int)length, MPI_BYTE, win);
        MPI_Win_unlock(rank, win);
        check(job, back, length, seed_of((uint64_t)job->rank, (uint64_t)rank, 2),
              "MPI_Get after MPI_Win_flush");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, job->rank, 0, win);
    for (rank = 0; rank < job->size; rank++) {
        check(job, window.memory + (size_t)rank * length, length,
              seed_of((uint64_t)rank, (uint64_t)job->rank, 2), "MPI_Put to a locked window");
    }
    MPI_Win_unlock(job->rank, win);
    free_window(&window);
    free(back);
    free(local);
}

static void expect(struct job *job, uint64_t value, uint64_t right, const char *what)
{
    if (value != right) {
        fail(job, "%s: %llu instead of %llu", what, (unsigned long long)value,
             (unsigned long long)right);
    }
    job->checked++;
}

/* Every rank adds its number to every word of every window, and the sums must come out. */
static void accumulate(struct job *job)
{
    enum { WORDS = 1000 };
    uint64_t mine[WORDS], sum = (uint64_t)job->size * (uint64_t)(job->size + 1) / 2;
    struct window window = make_window(job, sizeof(mine));
    uint64_t *sums = (uint64_t *)window.memory;
    MPI_Win win = window.win;
    int i;

    for (i = 0; i < WORDS; i++) {
        mine[i] = (uint64_t)(job->rank + 1) * (uint64_t)(i + 1);
    }
    MPI_Win_fence(0, win);
    for (i = 0; i < job->size; i++) {
        MPI_Accumulate(mine, WORDS, MPI_UINT64_T, i, 0, WORDS, MPI_UINT64_T, MPI_SUM, win);
    }
    MPI_Win_fence(0, win);
    for (i = 0; i < WORDS; i++) {
        expect(job, sums[i], sum * (uint64_t)(i + 1), "MPI_Accumulate");
    }
    free_window(&window);
}

/* Tickets from one counter. No ticket is given twice, so the sum of squares is known. */
static void fetch_and_op(struct job *job)
{
    uint64_t one = 1, ticket, sums[2] = {0, 0}, totals[2], n = (uint64_t)job->size * ROUNDS;
    struct window window = make_window(job, sizeof(uint64_t));
    MPI_Win win = window.win;
    int i;

    MPI_Win_lock_all(0, win);
    for (i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &ticket, MPI_UINT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        sums[0] += ticket;
        sums[1] += ticket * ticket;
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(sums, totals, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect(job, totals[0], n * (n - 1) / 2, "sum of the tickets");
    expect(job, totals[1], (n - 1) * n * (2 * n - 1) / 6, "sum of their squares");
    MPI_Win_lock(MPI_LOCK_SHARED, job->rank, 0, win);
    if (job->rank == 0) {
        expect(job, word_of(&window), n, "the counter at the end");
    }
    MPI_Win_unlock(job->rank, win);
    free_window(&window);
}

/* Every rank tries to be the first to take a word; exactly one must be, and be named there. */
static void compare_and_swap(struct job *job)
{
    uint64_t none = 0, me = (uint64_t)job->rank + 1, found, won = 0, winners, winner;
    struct window window = make_window(job, sizeof(uint64_t));
    MPI_Win win = window.win;
    int home = job->size - 1;

    MPI_Win_lock(MPI_LOCK_SHARED, home, 0, win);
    MPI_Compare_and_swap(&me, &none, &found, MPI_UINT64_T, home, 0, win);
    MPI_Win_unlock(home, win);
    won = found == 0 ? me : 0;
    MPI_Allreduce(&won, &winner, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    won = found == 0;
    MPI_Allreduce(&won, &winners, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect(job, winners, 1, "winners of MPI_Compare_and_swap");
    if (found != 0) {
        expect(job, found, winner, "winner that a loser found");
    }
    free_window(&window);
}

/* Read, add one, write back: right only if the lock excludes the others, and flushes in time. */
static void exclusive_lock(struct job *job)
{
    uint64_t value;
    struct window window = make_window(job, sizeof(value));
    MPI_Win win = window.win;
    int i;

    for (i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&value, 1, MPI_UINT64_T, 0, 0, 1, MPI_UINT64_T, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_UINT64_T, 0, 0, 1, MPI_UINT64_T, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job->rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        expect(job, word_of(&window), (uint64_t)job->size * ROUNDS,
               "counter under an exclusive lock");
        MPI_Win_unlock(0, win);
    }
    free_window(&window);
}

int main(int argc, char **argv)
{
    struct job job;
    size_t max;

    start(&job, &argc, &argv, 2);
    max = argument(&job, argc, argv, 1, 1ul << 20);
    by_mpi = argc > 2 && strcmp(argv[2], "allocate") == 0;
    put_and_get_fence(&job, max);
    put_and_get_lock(&job, 1);
    put_and_get_lock(&job, 3000);
    put_and_get_lock(&job, 70000);
    accumulate(&job);
    fetch_and_op(&job);
    compare_and_swap(&job);
    exclusive_lock(&job);
    return finish(&job);
}
