/*
 * pattern NAME [ITERATIONS [BYTES]]: MPI programs with the communication of NAS parallel
 * benchmarks.
 *
 * bt    the multi-partition scheme: each rank of a square grid sends faces to its neighbours in the
 *       row, in the column and on the diagonal, forth and back
 * ft    the transposition: all to all, in equal blocks
 * ring  to the next rank, in messages of growing length
 *
 * Prints nothing. What each rank sends to each other one is known to Open MPI's monitoring.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static char *out, *in;

static int most; /* bytes of the longest message */

static void exchange(int to, int from, int bytes)
{
    MPI_Sendrecv(out, bytes, MPI_BYTE, to, 5, in, most, MPI_BYTE, from, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static int at(int side, int row, int column)
{
    return (row + side) % side * side + (column + side) % side;
}

static void bt(int bytes)
{
    int side = 1, row, column;

    while ((side + 1) * (side + 1) <= size) {
        side++;
    }
    if (rank >= side * side) {
        return;
    }
    row = rank / side;
    column = rank % side;
    exchange(at(side, row, column + 1), at(side, row, column - 1), bytes);
    exchange(at(side, row, column - 1), at(side, row, column + 1), bytes);
    exchange(at(side, row + 1, column), at(side, row - 1, column), bytes);
    exchange(at(side, row - 1, column), at(side, row + 1, column), bytes);
    exchange(at(side, row + 1, column - 1), at(side, row - 1, column + 1), bytes / 2);
    exchange(at(side, row - 1, column + 1), at(side, row + 1, column - 1), bytes / 2);
}

static void ft(int bytes)
{
    MPI_Alltoall(out, bytes / size, MPI_BYTE, in, bytes / size, MPI_BYTE, MPI_COMM_WORLD);
}

static void ring(int bytes)
{
    exchange((rank + 1) % size, (rank + size - 1) % size, bytes / size * (rank % size + 1));
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "bt";
    int iterations = argc > 2 ? atoi(argv[2]) : 10, bytes = argc > 3 ? atoi(argv[3]) : 65536;
    void (*step)(int) = strcmp(name, "bt") == 0     ? bt
                        : strcmp(name, "ft") == 0   ? ft
                        : strcmp(name, "ring") == 0 ? ring
                                                    : NULL;
    int i;

    if (step == NULL || iterations < 1 || bytes < 1) {
        fprintf(stderr, "usage: pattern bt|ft|ring [iterations [bytes]]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    most = bytes;
    out = calloc(1, (size_t)bytes);
    in = calloc(1, (size_t)bytes);
    for (i = 0; i < iterations; i++) {
        step(bytes);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
