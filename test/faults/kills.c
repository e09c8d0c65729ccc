/*
 * kills [OPTION...] COUNT: kills processes of a job, COUNT times, while every process sends to
 * every other process, and checks the survivors. contrib/kills runs this program with several
 * settings and lists the checks.
 *
 * The first two processes are never killed, so they see all deaths. Their resources at the end are
 * compared with their resources at the start of the job. Prints lines "name value".
 */
#include "rank.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ELDERS      2
#define TELL_LIMIT  2000000000ull  /* limit for the report of a death: 2 s */
#define PATIENCE    60000000000ull /* ns of waiting after which the wait has failed */
#define MAX_LIFE_US 30000          /* before a process is killed */
#define POLL_US     200
#define CHECK_EVERY 20 /* kills between two checks of the resources */

struct job {
    struct board *board;
    pid_t pid[BOARD_MAX_RANKS]; /* 0: it is dead */
    uint64_t random;
    unsigned kills, early; /* early: before the others knew of it */
    uint64_t *told;        /* times from the kill to the error handler, ns */
    unsigned num_told, max_told, slow, late;
    uint64_t cpu_ns[BOARD_MAX_RANKS]; /* processor time at the last kill */
    unsigned looks;
    struct board_holds first, last, worst; /* of the elders: sums; worst of the invariants */
    uint64_t checked;
};

static unsigned pick(struct job *job, unsigned below)
{
    job->random = job->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((job->random >> 33) % below);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void start(struct job *job, unsigned index)
{
    struct board_slot *slot = &job->board->slot[index];
    struct rank rank;
    pid_t pid;

    job->checked += slot->checked;
    slot->checked = 0;
    slot->gen++;
    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        fail("cannot fork: %s", strerror(errno));
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        rank_open(&rank, job->board, index, slot->gen, true);
        rank_run(&rank, 0);
        rank_close(&rank);
        exit(slot->problem[0] != '\0');
    }
    job->pid[index] = pid;
}

static void end_all(struct job *job)
{
    unsigned i;

    for (i = 0; i < job->board->ranks; i++) {
        if (job->pid[i] != 0) {
            kill(job->pid[i], SIGKILL);
            waitpid(job->pid[i], NULL, 0);
        }
    }
}

__attribute__((format(printf, 2, 3), noreturn)) static void give_up(struct job *job,
                                                                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "kills: after %u kills: ", job->kills);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    if (getenv("KILLS_WAIT") != NULL) {
        pause(); /* wait for a debugger */
    }
    end_all(job);
    exit(1);
}

/* Only this program ends processes, and no process has found an error. */
static void check_living(struct job *job)
{
    struct board_slot *slot;
    unsigned i;
    int status;

    for (i = 0; i < job->board->ranks; i++) {
        slot = &job->board->slot[i];
        if (slot->problem[0] != '\0') {
            give_up(job, "process %u.%u: %s", i, slot->gen, slot->problem);
        }
        if (job->pid[i] != 0 && waitpid(job->pid[i], &status, WNOHANG) == job->pid[i]) {
            job->pid[i] = 0;
            give_up(job, "the surviving process %u.%u ended: %s %d", i, slot->gen,
                    WIFSIGNALED(status) ? "signal" : "status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
}

/* Waits until `done` returns true; `done` writes what is missing to `text`. */
static void wait_until(struct job *job, bool (*done)(struct job *job, char *text, size_t size),
                       const char *what)
{
    uint64_t deadline = board_now() + PATIENCE;
    char text[BOARD_TEXT] = "";

    while (!done(job, text, sizeof(text))) {
        check_living(job);
        if (board_now() > deadline) {
            give_up(job, "%s: %s", what, text);
        }
        usleep(POLL_US);
    }
}

static bool all_connected(struct job *job, char *text, size_t size)
{
    struct board *board = job->board;
    unsigned i, j;

    for (i = 0; i < board->ranks; i++) {
        for (j = 0; j < board->ranks; j++) {
            if (board_get(&board->slot[i].ready) != board->slot[i].gen ||
                (i != j && board_get(&board->slot[j].peer[i].connected) != board->slot[i].gen)) {
                snprintf(text, size, "%u.%u to %u.%u", j, board->slot[j].gen, i,
                         board->slot[i].gen);
                return false;
            }
        }
    }
    return true;
}

/* ---- killing --------------------------------------------------------------------------------- */

/*
 * Whether the survivors know of the death: every process with a connection, or a possible
 * connection, to the dead process was told.
 */
static bool all_told(struct job *job, char *text, size_t size)
{
    struct board *board = job->board;
    unsigned i, j;

    for (i = 0; i < board->ranks; i++) {
        if (job->pid[i] != 0 || board_get(&board->slot[i].ready) != board->slot[i].gen) {
            continue; /* the process lives, or no peer ever knew it */
        }
        for (j = 0; j < board->ranks; j++) {
            if (j != i && job->pid[j] != 0 &&
                board_get(&board->slot[j].peer[i].gone) != board->slot[i].gen) {
                snprintf(text, size, "%u.%u was never told of the end of %u.%u", j,
                         board->slot[j].gen, i, board->slot[i].gen);
                return false;
            }
        }
    }
    return true;
}

static void note_times(struct job *job, unsigned victim, uint64_t killed_ns)
{
    const struct board_peer *peer;
    uint64_t since, took;
    unsigned i;

    for (i = 0; i < job->board->ranks; i++) {
        if (i == victim || job->pid[i] == 0) {
            continue;
        }
        peer = &job->board->slot[i].peer[victim];
        since = peer->connected_ns > killed_ns ? peer->connected_ns : killed_ns;
        took = peer->gone_ns > since ? peer->gone_ns - since : 0;
        job->slow += took > TELL_LIMIT;
        /* On a busy machine they may have had no time to look. */
        job->late += took > TELL_LIMIT && peer->gone_cpu_ns - job->cpu_ns[i] > TELL_LIMIT;
        if (job->num_told < job->max_told) {
            job->told[job->num_told++] = took;
        }
    }
}

static void note_cpu(struct job *job)
{
    clockid_t clock;
    unsigned i;

    for (i = 0; i < job->board->ranks; i++) {
        if (clock_getcpuclockid(job->pid[i], &clock) == 0) {
            job->cpu_ns[i] = board_clock(clock);
        }
    }
}

static void kill_one(struct job *job)
{
    unsigned victim = ELDERS + pick(job, job->board->ranks - ELDERS);
    struct board_slot *slot = &job->board->slot[victim];
    uint64_t killed_ns;

    /* Mostly a process in the midst of its work; some while they are still being opened. */
    if (pick(job, 8) != 0) {
        wait_until(job, all_connected, "waiting for connections");
    }
    usleep(pick(job, MAX_LIFE_US));
    check_living(job);
    board_set(&slot->killed, slot->gen);
    note_cpu(job);
    killed_ns = board_now();
    kill(job->pid[victim], SIGKILL);
    waitpid(job->pid[victim], NULL, 0);
    job->pid[victim] = 0;
    job->kills++;
    if (board_get(&slot->ready) != slot->gen) {
        job->early++;
    } else {
        wait_until(job, all_told, "waiting for the error handlers");
        note_times(job, victim, killed_ns);
    }
    start(job, victim);
}

/* ---- resources ------------------------------------------------------------------------------- */

static bool all_sampled(struct job *job, char *text, size_t size)
{
    struct board *board = job->board;
    unsigned i;

    for (i = 0; i < board->ranks; i++) {
        if (board_get(&board->slot[i].sampled) != board->pause) {
            snprintf(text, size, "process %u.%u has %s", i, board->slot[i].gen,
                     board_get(&board->slot[i].paused) == board->pause ?
                         "messages that do not come" :
                         "operations that do not end");
            return false;
        }
    }
    return true;
}

static void add_worst(int64_t *worst, int64_t value)
{
    *worst = llabs(value) > llabs(*worst) ? value : *worst;
}

static void add_holds(struct board_holds *sum, struct board_holds *worst,
                      const struct board_holds *holds)
{
    add_worst(&worst->credits, holds->credits);
    add_worst(&worst->vcs_held, holds->vcs_held);
    add_worst(&worst->vcs_used, holds->vcs_used);
    add_worst(&worst->fifos, holds->fifos);
    add_worst(&worst->units, holds->units);
    add_worst(&worst->ops, holds->ops);
    add_worst(&worst->requests, holds->requests);
    sum->fds += holds->fds;
    sum->maps += holds->maps;
    sum->vcs += holds->vcs;
    sum->memory += holds->memory;
}

/* Waits until all processes are quiet, asks for their resources, and lets them continue. */
static void look(struct job *job)
{
    struct board *board = job->board;
    struct board_holds sum = {0}, ignored = {0};
    unsigned i;

    wait_until(job, all_connected, "waiting for connections");
    board_set(&board->pause, ++job->looks);
    wait_until(job, all_sampled, "waiting for quiet");
    for (i = 0; i < board->ranks; i++) {
        add_holds(i < ELDERS ? &sum : &ignored, &job->worst, &board->slot[i].holds);
    }
    job->first = job->looks == 1 ? sum : job->first;
    job->last = sum;
    board_set(&board->pause, 0);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void stop(struct job *job)
{
    unsigned i;
    int status;

    board_set(&job->board->pause, ++job->looks);
    wait_until(job, all_sampled, "waiting for quiet");
    board_set(&job->board->stop, 1);
    for (i = 0; i < job->board->ranks; i++) {
        waitpid(job->pid[i], &status, 0);
        job->pid[i] = 0;
        job->checked += job->board->slot[i].checked;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            give_up(job, "process %u did not end in order: status 0x%x", i, status);
        }
    }
}

/* Counts the files in shared memory after the end of all processes */
static unsigned count_left(void)
{
    char path[256];
    const struct dirent *entry;
    unsigned count = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/dev/shm/glex-%u/%s", (unsigned)geteuid(), getenv("GLEX_FABRIC"));
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    if (dir != NULL) {
        closedir(dir);
        count++; /* the directory itself */
    }
    return count;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void print(const char *name, double value)
{
    printf("%s %.12g\n", name, value);
}

static void report(struct job *job)
{
    unsigned n = job->num_told;

    qsort(job->told, n, sizeof(*job->told), compare_times);
    print("kills", job->kills);
    print("early", job->early);
    print("told", n);
    print("slow", job->slow);
    print("late", job->late);
    print("median_ms", n > 0 ? (double)job->told[n / 2] / 1e6 : 0);
    print("max_ms", n > 0 ? (double)job->told[n - 1] / 1e6 : 0);
    print("checked_mb", (double)job->checked / 1e6);
    print("looks", job->looks);
    print("leak_credits", (double)job->worst.credits);
    print("leak_connections", (double)(llabs(job->worst.vcs_held) + llabs(job->worst.vcs_used)));
    print("leak_fifos", (double)job->worst.fifos);
    print("leak_units", (double)job->worst.units);
    print("leak_operations", (double)job->worst.ops);
    print("leak_requests", (double)job->worst.requests);
    print("grown_fds", (double)(job->last.fds - job->first.fds));
    print("left_mapped", (double)job->last.maps);
    print("grown_vcs", (double)(job->last.vcs - job->first.vcs));
    print("grown_bytes", (double)(job->last.memory - job->first.memory));
    print("left_in_shm", count_left());
}

static void run(struct job *job, unsigned count)
{
    unsigned i;

    for (i = 0; i < job->board->ranks; i++) {
        start(job, i);
    }
    while (job->kills < count) {
        kill_one(job);
        if (job->kills % CHECK_EVERY == 0 || job->kills == count) {
            look(job);
            fprintf(stderr, "kills: %u of %u, %u error handlers called\n", job->kills, count,
                    job->num_told);
        }
    }
    stop(job);
    report(job);
}

static void usage(void)
{
    printf("usage: kills [--ranks N] [--seed N] COUNT\n"
           "Kills processes of a job over the transport; see contrib/kills --help.\n");
    exit(0);
}

static unsigned number(const char *text, unsigned min, unsigned max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < min || value > max) {
        fail("%s: must be a number from %u to %u", text, min, max);
    }
    return (unsigned)value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"ranks", required_argument, NULL, 'n'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct job job = {.random = board_now()};
    unsigned ranks = 5, count;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            ranks = number(optarg, ELDERS + 1, BOARD_MAX_RANKS);
            break;
        case 's':
            job.random = number(optarg, 0, UINT32_MAX);
            break;
        case 'h':
            usage();
            break;
        default:
            return 2;
        }
    }
    if (optind + 1 != argc || getenv("GLEX_FABRIC") == NULL) {
        fail("usage: kills [--ranks N] [--seed N] COUNT, with GLEX_FABRIC set");
    }
    count = number(argv[optind], 1, 1000000);
    job.max_told = count * ranks;
    job.told = calloc(job.max_told, sizeof(*job.told));
    if (job.told == NULL) {
        fail("no memory for %u times", job.max_told);
    }
    job.board = board_make(NULL, ranks);
    run(&job, count);
    return 0;
}
