#include "common.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void start(struct job *job, int *argc, char ***argv, int min_ranks)
{
    const char *slash;

    MPI_Init(argc, argv);
    slash = strrchr((*argv)[0], '/');
    job->program = slash ? slash + 1 : (*argv)[0];
    job->checked = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->size);
    if (job->size < min_ranks) {
        fail(job, "needs %d ranks, has %d", min_ranks, job->size);
    }
}

int finish(struct job *job)
{
    uint64_t sum = 0;

    MPI_Reduce(&job->checked, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (job->rank == 0) {
        if (sum == 0) {
            fail(job, "nothing was checked");
        }
        printf("%s: %d ranks, %llu checks passed\n", job->program, job->size,
               (unsigned long long)sum);
    }
    MPI_Finalize();
    return 0;
}

void fail(const struct job *job, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: rank %d: ", job->program, job->rank);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* The finalizer of splitmix64: neighbouring inputs give unrelated outputs. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

uint64_t seed_of(uint64_t a, uint64_t b, uint64_t c)
{
    return mix(mix(mix(a) + b) + c);
}

void fill(void *buffer, size_t length, uint64_t seed)
{
    unsigned char *bytes = buffer;
    uint64_t word;
    size_t at, part;

    for (at = 0; at < length; at += part) {
        word = mix(seed + at);
        part = length - at < sizeof(word) ? length - at : sizeof(word);
        memcpy(bytes + at, &word, part);
    }
}

static void fail_at(const struct job *job, const unsigned char *bytes, size_t at, uint64_t word,
                    size_t length, const char *what)
{
    unsigned char expected[sizeof(word)];
    size_t i = 0;

    memcpy(expected, &word, sizeof(word));
    while (bytes[at + i] == expected[i]) {
        i++;
    }
    fail(job, "%s: byte %zu of %zu is 0x%02x, should be 0x%02x", what, at + i, length,
         bytes[at + i], expected[i]);
}

void check(struct job *job, const void *buffer, size_t length, uint64_t seed, const char *what)
{
    const unsigned char *bytes = buffer;
    uint64_t word;
    size_t at, part;

    for (at = 0; at < length; at += part) {
        word = mix(seed + at);
        part = length - at < sizeof(word) ? length - at : sizeof(word);
        if (memcmp(bytes + at, &word, part) != 0) {
            fail_at(job, bytes, at, word, length, what);
        }
    }
    job->checked++;
}

void *allocate(const struct job *job, size_t length)
{
    void *buffer = malloc(length ? length : 1);

    if (buffer == NULL) {
        fail(job, "no memory for %zu bytes", length);
    }
    return buffer;
}

size_t next_size(size_t size, size_t max)
{
    size_t power = 1;

    if (size == max) {
        return max + 1;
    }
    if (size < 4) {
        return size + 1;
    }
    while (power <= size + 1) {
        power *= 2;
    }
    /* power / 2 - 1 <= size < power - 1 */
    size = size < power / 2 + 1 ? size + 1 : power - 1;
    return size < max ? size : max;
}

size_t argument(const struct job *job, int argc, char **argv, int index, size_t otherwise)
{
    unsigned long long number;
    char *end;

    if (index >= argc) {
        return otherwise;
    }
    errno = 0;
    number = strtoull(argv[index], &end, 10);
    if (end == argv[index] || *end != '\0' || errno != 0) {
        fail(job, "argument %d is not a number: %s", index, argv[index]);
    }
    return (size_t)number;
}
