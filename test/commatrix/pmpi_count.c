/*
 * A library for LD_PRELOAD: counts the bytes between each pair of ranks, through MPI's profiling
 * interface, for the MPI calls of pattern.c. PMPI_COUNT is the prefix of the files. Each rank
 * writes a file with lines "FROM TO BYTES". An all-to-all counts as one block to each rank, like a
 * direct exchange.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long long *sent;
static int rank, size;

int MPI_Init(int *argc, char ***argv)
{
    int status = PMPI_Init(argc, argv);

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    sent = calloc((size_t)size, sizeof(*sent));
    return status;
}

static void count(int to, int number, MPI_Datatype type)
{
    int bytes;

    PMPI_Type_size(type, &bytes);
    if (to >= 0 && to < size) {
        sent[to] += (long long)number * bytes;
    }
}

int MPI_Send(const void *data, int number, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    count(to, number, type);
    return PMPI_Send(data, number, type, to, tag, comm);
}

int MPI_Sendrecv(const void *out, int out_number, MPI_Datatype out_type, int to, int out_tag,
                 void *in, int in_number, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status *status)
{
    count(to, out_number, out_type);
    return PMPI_Sendrecv(out, out_number, out_type, to, out_tag, in, in_number, in_type, from,
                         in_tag, comm, status);
}

int MPI_Alltoall(const void *out, int out_number, MPI_Datatype out_type, void *in, int in_number,
                 MPI_Datatype in_type, MPI_Comm comm)
{
    int to;

    for (to = 0; to < size; to++) {
        count(to, out_number, out_type);
    }
    return PMPI_Alltoall(out, out_number, out_type, in, in_number, in_type, comm);
}

int MPI_Finalize(void)
{
    const char *prefix = getenv("PMPI_COUNT");
    char name[4096];
    FILE *file;
    int to;

    snprintf(name, sizeof(name), "%s.%d", prefix != NULL ? prefix : "pmpi", rank);
    file = fopen(name, "w");
    if (file == NULL) {
        perror(name);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return MPI_ERR_OTHER;
    }
    for (to = 0; to < size; to++) {
        fprintf(file, "%d %d %lld\n", rank, to, sent[to]);
    }
    fclose(file);
    free(sent);
    return PMPI_Finalize();
}
