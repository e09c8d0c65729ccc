/*
 * forks [BYTES]: fork(), system() and popen() between messages from and to one buffer of each rank.
 *
 * A child of fork() has the contents of the buffer at the moment of the fork, whatever the parent and
 * its peers store meanwhile, and the stores of the child reach nobody.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAG_RING = 1, ROUNDS = 4 };

/* Each rank sends its buffer to the next rank, and checks the message of the last rank. */
static void ring(struct job *job, char *out, char *in, size_t length, uint64_t round)
{
    int next = (job->rank + 1) % job->size, last = (job->rank + job->size - 1) % job->size;
    MPI_Request requests[2];

    fill(out, length, seed_of((uint64_t)job->rank, round, 0));
    memset(in, 0, length);
    MPI_Irecv(in, (int)length, MPI_BYTE, last, TAG_RING, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, (int)length, MPI_BYTE, next, TAG_RING, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check(job, in, length, seed_of((uint64_t)last, round, 0), "message in the ring");
}

static int is_filled(const char *buffer, char *scratch, size_t length, uint64_t seed)
{
    fill(scratch, length, seed);
    return memcmp(buffer, scratch, length) == 0;
}

/* The child: waits until the parent has changed the buffers, and finds their old contents. */
static void child(int wait_fd, char *out, char *in, char *scratch, size_t length, uint64_t mine,
                  uint64_t other)
{
    char byte, *more;
    int right;

    if (read(wait_fd, &byte, 1) != 1) {
        _exit(2);
    }
    right = is_filled(out, scratch, length, mine) && is_filled(in, scratch, length, other);
    memset(out, 0xaa, length);
    memset(in, 0xaa, length);
    free(in);
    more = malloc(2 * length);
    if (more == NULL) {
        _exit(3);
    }
    memset(more, 0xaa, 2 * length);
    free(more);
    _exit(right ? 0 : 1);
}

static void fork_once(struct job *job, char *out, char *in, char *scratch, size_t length,
                      uint64_t round)
{
    uint64_t last = (uint64_t)((job->rank + job->size - 1) % job->size);
    int fds[2], status;
    pid_t pid;

    if (pipe(fds) != 0) {
        fail(job, "no pipe");
    }
    pid = fork();
    if (pid == 0) {
        child(fds[0], out, in, scratch, length, seed_of((uint64_t)job->rank, round, 0),
              seed_of(last, round, 0));
    }
    if (pid < 0) {
        fail(job, "no child");
    }
    ring(job, out, in, length, round + 1);
    if (write(fds[1], "x", 1) != 1 || waitpid(pid, &status, 0) != pid || status != 0) {
        fail(job, "the child ended with status %d", status);
    }
    check(job, out, length, seed_of((uint64_t)job->rank, round + 1, 0), "buffer after the child");
    check(job, in, length, seed_of(last, round + 1, 0), "message after the child");
    close(fds[0]);
    close(fds[1]);
}

static void shell(struct job *job)
{
    char line[32] = "";
    FILE *pipe_of;

    if (system("exit 7") != 7 << 8) {
        fail(job, "system() failed");
    }
    pipe_of = popen("echo word", "r");
    if (pipe_of == NULL || fgets(line, sizeof(line), pipe_of) == NULL || pclose(pipe_of) != 0 ||
        strcmp(line, "word\n") != 0) {
        fail(job, "popen() failed");
    }
}

int main(int argc, char **argv)
{
    char *out, *in, *scratch;
    struct job job;
    size_t length;
    uint64_t i;

    start(&job, &argc, &argv, 2);
    length = argument(&job, argc, argv, 1, 4ul << 20);
    out = allocate(&job, length);
    in = allocate(&job, length);
    scratch = allocate(&job, length);
    for (i = 0; i < ROUNDS; i++) {
        ring(&job, out, in, length, 2 * i);
        shell(&job);
        fork_once(&job, out, in, scratch, length, 2 * i);
    }
    free(out);
    free(in);
    free(scratch);
    return finish(&job);
}
