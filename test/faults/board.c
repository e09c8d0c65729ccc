#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static struct board *board_map(int fd, int flags)
{
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);

    if (board == MAP_FAILED) {
        fail("cannot map the board: %s", strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    return board;
}

struct board *board_make(const char *path, unsigned ranks)
{
    struct board *board;
    int fd = -1;

    if (ranks > BOARD_MAX_RANKS) {
        fail("%u processes, at most %d are possible", ranks, BOARD_MAX_RANKS);
    }
    if (path != NULL) {
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0 || ftruncate(fd, sizeof(*board)) != 0) {
            fail("cannot make the board %s: %s", path, strerror(errno));
        }
    }
    board = board_map(fd, path == NULL ? MAP_ANONYMOUS : 0);
    board->ranks = ranks;
    return board;
}

struct board *board_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0) {
        fail("cannot open the board %s: %s", path, strerror(errno));
    }
    return board_map(fd, 0);
}

void board_problem(struct board *board, unsigned slot, const char *format, ...)
{
    struct board_slot *own = &board->slot[slot];
    char text[BOARD_TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "process %u.%u: %s\n", slot, own->gen, text);
    if (own->problem[0] == '\0') {
        memcpy(own->problem, text, sizeof(text));
    }
}

uint64_t board_now(void)
{
    return board_clock(CLOCK_MONOTONIC);
}

uint64_t board_clock(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) != 0) {
        fail("no such clock: %s", strerror(errno));
    }
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
