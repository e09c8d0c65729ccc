/*
 * Shared by the MPI test programs: data that can be recognized, and one way to fail.
 *
 * Every message has a seed, and every byte of it follows from the seed and its place, so a byte
 * that was lost, moved or taken from another message is noticed.
 */
#ifndef TEST_MPI_COMMON_H
#define TEST_MPI_COMMON_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/** The properties of the job after start(). */
struct job {
    const char *program;
    int rank;
    int size;
    uint64_t checked; /**< messages or blocks that were found right here */
};

/** MPI_Init, and at least `min_ranks` ranks. */
void start(struct job *job, int *argc, char ***argv, int min_ranks);

/** Add up the checks of all ranks, let rank 0 report the sum, and call MPI_Finalize. Returns 0. */
int finish(struct job *job);

/** Print the error and end the whole job with status 1. */
void fail(const struct job *job, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/** A seed from up to three numbers, such as sender, receiver and sequence number. */
uint64_t seed_of(uint64_t a, uint64_t b, uint64_t c);

void fill(void *buffer, size_t length, uint64_t seed);

/** Compare every byte with the data of fill() for this seed. A wrong byte ends the job. */
void check(struct job *job, const void *buffer, size_t length, uint64_t seed, const char *what);

/** malloc() that ends the job instead of returning NULL; a length of 0 is good. */
void *allocate(const struct job *job, size_t length);

/**
 * The next size to test after `size`, up to `max`: 0, 1, and around every power of two (one below,
 * itself, one above), where the protocols change. Returns `max` + 1 at the end.
 */
size_t next_size(size_t size, size_t max);

/** The argument at `index` as a number, or `otherwise` if it is missing. */
size_t argument(const struct job *job, int argc, char **argv, int index, size_t otherwise);

#endif
