/*
 * exchange make BOARD RANKS: makes a board for RANKS processes. The processes are started
 * separately, in any place: exchange run [OPTION...] BOARD INDEX MEGABYTES
 *
 * Each process exchanges messages with every other process by all operations of UCP, and checks
 * every byte, until each process has received MEGABYTES; with 0, until this command: exchange
 * finish BOARD
 */
#include "rank.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORK_STEPS 3000 /* between two children */

static bool handles_errors = true, forks;
static const char *ending; /* how SIGTERM ends the process: NULL: at once */
static unsigned later_uid; /* of the process after rank_open(); 0: as before */
static volatile sig_atomic_t is_told;

static void on_term(int number)
{
    (void)number;
    is_told = 1;
}

/* A process that leaves in the midst of its work, as faulty programs do. Its peers may see gaps and
 * errors, as after a death. */
static void leave(struct rank *rank)
{
    board_set(&rank->own->killed, rank->gen);
    if (strcmp(ending, "close") == 0) {
        ucp_worker_destroy(rank->worker);
        for (;;) {
            pause();
        }
    }
    exit(3);
}

static bool all_have(const struct board *board, uint64_t bytes)
{
    unsigned i;

    for (i = 0; i < board->ranks; i++) {
        if (__atomic_load_n(&board->slot[i].checked, __ATOMIC_RELAXED) < bytes) {
            return false;
        }
    }
    return true;
}

static bool all_sampled(const struct board *board)
{
    unsigned i;

    for (i = 0; i < board->ranks; i++) {
        if (board_get(&board->slot[i].sampled) != 1) {
            return false;
        }
    }
    return true;
}

/* A child of a program that communicates: it leaves, ends in order, or becomes another program. */
static void fork_child(unsigned kind)
{
    pid_t pid = fork();

    if (pid < 0) {
        fail("cannot fork: %s", strerror(errno));
    }
    if (pid == 0) {
        switch (kind % 3) {
        case 0:
            _exit(0);
        case 1:
            exit(0);
        default:
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
    }
    waitpid(pid, NULL, 0);
}

/* The first process decides when to pause and when to end. No process ends before all are quiet. */
static void run(struct rank *rank, uint64_t bytes)
{
    struct board *board = rank->board;

    while (!board_get(&board->stop) && rank->own->problem[0] == '\0') {
        rank_step(rank);
        if (is_told) {
            leave(rank);
        }
        if (forks && rank->steps % FORK_STEPS == 0) {
            fork_child((unsigned)(rank->steps / FORK_STEPS));
        }
        if (rank->index != 0) {
            continue;
        }
        if (board->pause == 0 &&
            (board_get(&board->finish) || (bytes > 0 && all_have(board, bytes)))) {
            board_set(&board->pause, 1);
        } else if (board->pause == 1 && all_sampled(board)) {
            board_set(&board->stop, 1);
        }
    }
}

static int run_rank(const char *path, unsigned index, uint64_t megabytes)
{
    struct board *board = board_open(path);
    struct rank rank;

    if (ending != NULL) {
        signal(SIGTERM, on_term);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* end when the parent is interrupted */
    if (index >= board->ranks) {
        fail("process %u of %u", index, board->ranks);
    }
    board->slot[index].gen = 1;
    rank_open(&rank, board, index, 1, handles_errors);
    if (later_uid != 0 && setuid(later_uid) != 0) {
        fail("cannot become uid %u: %s", later_uid, strerror(errno));
    }
    run(&rank, megabytes * 1000000);
    rank_close(&rank);
    if (board->slot[index].problem[0] != '\0') {
        return 1;
    }
    printf("exchange: process %u: %llu bytes were right\n", index,
           (unsigned long long)board->slot[index].checked);
    return 0;
}

static unsigned number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value > UINT32_MAX) {
        fail("%s is no number", text);
    }
    return (unsigned)value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"no-peer-errors", no_argument, NULL, 'n'},     {"fork", no_argument, NULL, 'f'},
        {"on-term", required_argument, NULL, 't'},      {"setuid", required_argument, NULL, 'u'},
        {"wire-version", required_argument, NULL, 'w'}, {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            handles_errors = false;
            break;
        case 'f':
            forks = true;
            break;
        case 't':
            ending = optarg;
            break;
        case 'u':
            later_uid = number(optarg);
            break;
        case 'w':
            rank_wire_version = (uint16_t)number(optarg);
            break;
        default:
            return 2;
        }
    }
    argv += optind;
    argc -= optind;
    if (argc == 3 && strcmp(argv[0], "make") == 0) {
        board_make(argv[1], number(argv[2]));
        return 0;
    }
    if (argc == 2 && strcmp(argv[0], "finish") == 0) {
        board_set(&board_open(argv[1])->finish, 1);
        return 0;
    }
    if (argc == 4 && strcmp(argv[0], "run") == 0) {
        return run_rank(argv[1], number(argv[2]), number(argv[3]));
    }
    fail("usage: exchange make BOARD RANKS | exchange finish BOARD | "
         "exchange [--no-peer-errors] [--fork] [--on-term=exit|close] [--setuid=UID] "
         "[--wire-version=N] run BOARD INDEX MEGABYTES");
}
