/*
 * pattern NAME [ITERATIONS [BYTES]]: communicates as the NAS parallel benchmarks (NPB) and other
 * MPI programs do.
 *
 * bt        NPB BT and SP, multi-partition: each rank of a square grid sends faces to its neighbors
 *           in the row, in the column and on the diagonal, forth and back
 * cg        NPB CG: sums in the rows of a grid by recursive doubling, exchange with the transposed rank
 * ft        NPB FT and IS, transposition: all to all, in equal blocks
 * lu        NPB LU, wavefront: neighbors on a 2-D grid without wrap-around
 * mg        NPB MG, multigrid: neighbors on a periodic 3-D grid, at distances 1, 2, 4, ...
 * pencils   FFT of pencils: all to all in the rows, then in the columns of a grid
 * stencil3  neighbors on a 3-D grid without wrap-around
 * doubling  recursive doubling: partners differ in one bit
 * master    rank 0 sends work to the workers, and gets results
 * ring      to the next rank, in messages of growing length
 *
 * Prints nothing.
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

/* The sides of a grid of all ranks, as equal as MPI makes them. */
static void grid(int dims, int sides[3])
{
    sides[0] = sides[1] = sides[2] = dims == 3 ? 0 : 1;
    sides[0] = sides[1] = 0;
    MPI_Dims_create(size, dims, sides);
}

/* The rank at an offset in one dimension, or MPI_PROC_NULL. */
static int beside(const int sides[3], int dim, int offset, int periodic)
{
    int at[3] = {rank / sides[2] / sides[1], rank / sides[2] % sides[1], rank % sides[2]};

    at[dim] += offset;
    if (!periodic && (at[dim] < 0 || at[dim] >= sides[dim])) {
        return MPI_PROC_NULL;
    }
    at[dim] = (at[dim] + sides[dim]) % sides[dim];
    return (at[0] * sides[1] + at[1]) * sides[2] + at[2];
}

static void faces(const int sides[3], int step, int periodic, int bytes)
{
    int dim, sign;

    for (dim = 0; dim < 3; dim++) {
        for (sign = -1; sign <= 1 && sides[dim] > step; sign += 2) {
            exchange(beside(sides, dim, sign * step, periodic),
                     beside(sides, dim, -sign * step, periodic), bytes);
        }
    }
}

static void lu(int bytes)
{
    int sides[3];

    grid(2, sides);
    faces(sides, 1, 0, bytes);
}

static void stencil3(int bytes)
{
    int sides[3];

    grid(3, sides);
    faces(sides, 1, 0, bytes);
}

static void mg(int bytes)
{
    int sides[3], step;

    grid(3, sides);
    for (step = 1; step < sides[0]; step *= 2) {
        faces(sides, step, 1, bytes / step);
    }
}

static void pencils(int bytes)
{
    static MPI_Comm row = MPI_COMM_NULL, column = MPI_COMM_NULL;
    int sides[3];

    grid(2, sides);
    if (row == MPI_COMM_NULL) {
        MPI_Comm_split(MPI_COMM_WORLD, rank / sides[1], rank, &row);
        MPI_Comm_split(MPI_COMM_WORLD, rank % sides[1], rank, &column);
    }
    MPI_Alltoall(out, bytes / sides[1], MPI_BYTE, in, bytes / sides[1], MPI_BYTE, row);
    MPI_Alltoall(out, bytes / sides[0], MPI_BYTE, in, bytes / sides[0], MPI_BYTE, column);
}

static void doubling(int bytes)
{
    int step;

    for (step = 1; step < size; step *= 2) {
        exchange(rank ^ step, rank ^ step, bytes);
    }
}

static void cg(int bytes)
{
    int rows = 1, columns, row, column, step, partner;

    while (4 * rows * rows <= size) {
        rows *= 2;
    }
    columns = size / rows;
    row = rank / columns;
    column = rank % columns;
    for (step = 1; step < columns; step *= 2) {
        partner = row * columns + (column ^ step);
        exchange(partner, partner, bytes);
    }
    partner = columns == rows ? column * columns + row : 2 * (column / 2 * rows + row) + rank % 2;
    if (partner != rank) {
        exchange(partner, partner, bytes);
    }
}

static void master(int bytes)
{
    int worker;

    for (worker = 1; worker < size; worker++) {
        if (rank == 0) {
            exchange(worker, worker, bytes);
        } else if (rank == worker) {
            exchange(0, 0, bytes);
        }
    }
}

static const struct {
    const char *name;
    void (*step)(int bytes);
} patterns[] = {{"bt", bt},
                {"cg", cg},
                {"ft", ft},
                {"lu", lu},
                {"mg", mg},
                {"pencils", pencils},
                {"stencil3", stencil3},
                {"doubling", doubling},
                {"master", master},
                {"ring", ring}};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "bt";
    int iterations = argc > 2 ? atoi(argv[2]) : 10, bytes = argc > 3 ? atoi(argv[3]) : 65536;
    void (*step)(int) = NULL;
    size_t k;
    int i;

    for (k = 0; k < sizeof(patterns) / sizeof(patterns[0]); k++) {
        step = strcmp(name, patterns[k].name) == 0 ? patterns[k].step : step;
    }
    if (step == NULL || iterations < 1 || bytes < 1) {
        fprintf(stderr, "usage: pattern bt|cg|ft|lu|mg|pencils|stencil3|doubling|master|ring "
                        "[iterations [bytes]]\n");
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
