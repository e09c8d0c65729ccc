/*
 * flood [BYTES [COUNT]]: memory of the receiver for unexpected messages. Rank 1 sends COUNT
 * messages of BYTES bytes to rank 0, which receives them only after the last message has come. Rank
 * 0 prints the growth of its address space and of its resident memory in KiB.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_DATA, TAG_LAST };

/* A value in KiB of /proc/self/status */
static long status_of(const struct job *job, const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    size_t length = strlen(name);
    long value = -1;
    char line[256];

    while ((file != NULL) && (value < 0) && (fgets(line, sizeof(line), file) != NULL)) {
        if ((strncmp(line, name, length) == 0) && (line[length] == ':')) {
            value = atol(line + length + 1);
        }
    }
    if (value < 0) {
        fail(job, "/proc/self/status has no %s", name);
    }
    fclose(file);
    return value;
}

static void send_all(char *buffer, size_t length, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        fill(buffer, length, seed_of(1, i, 0));
        MPI_Send(buffer, (int)length, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
    }
    MPI_Send(buffer, 0, MPI_BYTE, 0, TAG_LAST, MPI_COMM_WORLD);
}

static void receive_all(struct job *job, char *buffer, size_t length, size_t count)
{
    long size = status_of(job, "VmSize"), rss = status_of(job, "VmRSS");
    size_t i;

    MPI_Recv(buffer, 0, MPI_BYTE, 1, TAG_LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("growth %ld %ld\n", status_of(job, "VmSize") - size, status_of(job, "VmRSS") - rss);
    for (i = 0; i < count; i++) {
        MPI_Recv(buffer, (int)length, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(job, buffer, length, seed_of(1, i, 0), "an unexpected message");
    }
}

int main(int argc, char **argv)
{
    size_t length, count;
    struct job job;
    char *buffer;

    start(&job, &argc, &argv, 2);
    length = argument(&job, argc, argv, 1, 1024);
    count = argument(&job, argc, argv, 2, 20000);
    buffer = allocate(&job, length);
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == 1) {
        send_all(buffer, length, count);
    } else if (job.rank == 0) {
        receive_all(&job, buffer, length, count);
    }
    free(buffer);
    return finish(&job);
}
