/*
 * Common code of the collective clients: a tree over the ranks of MPI_COMM_WORLD, endpoints, and
 * the same measurement for the NIC's collective and for MPI's.
 *
 * As in public programs, a client posts the collective as sequences, which the NIC executes by
 * itself. The client polls its message queue for the end, and discards messages only now and then.
 */
#ifndef TREE_H
#define TREE_H

#include "client.h"

#include <getopt.h>
#include <mpi.h>
#include <sched.h>
#include <time.h>

#define TREE_MAX_RANKS 1024
#define TREE_DISCARD   128

struct tree {
    int rank, size, degree;
    int num_children, first_child, parent; /* ranks */
    glex_device_handle_t dev;
    struct glex_device_attr attr;
    glex_ep_handle_t up, down; /* two endpoints: packets up and results down do not meet */
    glex_ep_addr_t up_addr[TREE_MAX_RANKS], down_addr[TREE_MAX_RANKS];
    uint32_t probed; /* messages since the last discard */
};

/* An implementation of the collective: begin it, and wait for its end. */
struct tree_way {
    const char *name;
    void (*begin)(struct tree *tree, int round);
    void (*end)(struct tree *tree, int round);
};

static inline double tree_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static inline int tree_children_of(const struct tree *tree, int rank)
{
    int first = rank * tree->degree + 1;

    if (first >= tree->size) {
        return 0;
    }
    return tree->size - first < tree->degree ? tree->size - first : tree->degree;
}

static inline void tree_open(struct tree *tree, int degree)
{
    glex_ep_addr_t addr;

    MPI_Comm_rank(MPI_COMM_WORLD, &tree->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &tree->size);
    if (tree->size > TREE_MAX_RANKS) {
        CLIENT_FAIL("%d ranks at most", TREE_MAX_RANKS);
    }
    tree->degree = degree;
    tree->num_children = tree_children_of(tree, tree->rank);
    tree->first_child = tree->rank * degree + 1;
    tree->parent = (tree->rank - 1) / degree;
    tree->probed = 0;
    tree->dev = client_open_device(&tree->attr);
    tree->up = client_create_ep(tree->dev, 13, GLEX_EP_MPQ_CAPACITY_DEFAULT);
    tree->down = client_create_ep(tree->dev, 13, GLEX_EP_MPQ_CAPACITY_DEFAULT);
    CLIENT_CHECK(glex_get_ep_addr(tree->up, &addr));
    MPI_Allgather(&addr, sizeof(addr), MPI_BYTE, tree->up_addr, sizeof(addr), MPI_BYTE,
                  MPI_COMM_WORLD);
    CLIENT_CHECK(glex_get_ep_addr(tree->down, &addr));
    MPI_Allgather(&addr, sizeof(addr), MPI_BYTE, tree->down_addr, sizeof(addr), MPI_BYTE,
                  MPI_COMM_WORLD);
}

static inline void tree_close(struct tree *tree)
{
    client_check_no_errors(tree->up);
    client_check_no_errors(tree->down);
    MPI_Barrier(MPI_COMM_WORLD);
    CLIENT_CHECK(glex_destroy_ep(tree->up));
    CLIENT_CHECK(glex_destroy_ep(tree->down));
    CLIENT_CHECK(glex_close_device(tree->dev));
}

/* The message that says that it is over. Ranks may be more than processors: let others run. */
static inline void *tree_wait(struct tree *tree, glex_ep_handle_t ep)
{
    double deadline = 0.0;
    glex_ep_addr_t src;
    glex_ret_t ret;
    uint32_t len;
    void *data;
    int spins;

    for (spins = 1; (ret = glex_probe_next_mp(ep, &src, &data, &len)) == GLEX_NO_MP; spins++) {
        if (spins % 128 == 0) {
            sched_yield();
        }
        if (spins % 65536 == 0) {
            deadline = deadline == 0.0 ? tree_now() + CLIENT_WAIT_MS * 1e-3 : deadline;
            if (tree_now() > deadline) {
                CLIENT_FAIL("rank %d waits in vain", tree->rank);
            }
        }
    }
    client_check(ret, "glex_probe_next_mp");
    return data;
}

/* Discards the probed messages. */
static inline void tree_done(struct tree *tree, glex_ep_handle_t ep)
{
    if (++tree->probed == TREE_DISCARD) {
        CLIENT_CHECK(glex_discard_probed_mp(ep));
        tree->probed = 0;
    }
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Work for the processor; the compiler must not remove it as unused. */
static inline void tree_compute(long loops)
{
    for (long i = 0; i < loops; i++) {
        __asm__ volatile("" : : "r"(i) : "memory");
    }
}

static inline long tree_calibrate(double us)
{
    double start = tree_now();
    long loops = 2000000;

    tree_compute(loops);
    return (long)((double)loops * us * 1e-6 / (tree_now() - start)) + 1;
}

/* Others use the machine as well: a measurement is the best of so many, of a round at least. */
#define TREE_BATCHES 200

/* How long, and how often, one rank computes while the other ranks wait. The time is longer than
 * the time slice of a shared processor. */
#define TREE_LATE_US     20000.0
#define TREE_LATE_ROUNDS 20

/* Seconds of a round, in the mean of all ranks. `way` NULL: computing alone. */
static inline double tree_batch(struct tree *tree, const struct tree_way *way, int rounds,
                                long loops, int *round)
{
    double time, sum;
    int i;

    MPI_Barrier(MPI_COMM_WORLD);
    time = tree_now();
    for (i = 0; i < rounds; i++) {
        if (way != NULL) {
            way->begin(tree, *round);
        }
        tree_compute(loops);
        if (way != NULL) {
            way->end(tree, (*round)++);
        }
    }
    time = (tree_now() - time) / rounds;
    MPI_Allreduce(&time, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum / tree->size;
}

static inline double tree_time(struct tree *tree, const struct tree_way *way, int rounds,
                               long loops, int *round)
{
    int batches = rounds < TREE_BATCHES ? rounds : TREE_BATCHES, i;
    double best = 1e9, time;

    for (i = 0; i < batches; i++) {
        time = tree_batch(tree, way, rounds / batches, loops, round);
        best = time < best ? time : best;
    }
    return best;
}

/* Mean seconds that the other ranks wait for the end of a collective. Rank 1, between the other
 * ranks and the root, has begun the collective and computes. */
static inline double tree_late_wait(struct tree *tree, const struct tree_way *way, long loops,
                                    int *round)
{
    double best = 1e9, wait, sum;
    int i;

    for (i = 0; i < TREE_LATE_ROUNDS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        way->begin(tree, *round);
        wait = tree_now();
        if (tree->rank == 1) {
            tree_compute(loops);
        }
        way->end(tree, (*round)++);
        wait = tree->rank == 1 ? 0.0 : tree_now() - wait;
        MPI_Allreduce(&wait, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        best = sum / (tree->size - 1) < best ? sum / (tree->size - 1) : best;
    }
    return best;
}

/* A line for each way: how much of the time that one rank computes the others need not wait. */
static inline void tree_late(struct tree *tree, const struct tree_way *ways, int num, int round)
{
    long loops = tree_calibrate(TREE_LATE_US);
    double wait, hidden;
    int i;

    MPI_Bcast(&loops, 1, MPI_LONG, 1, MPI_COMM_WORLD);
    for (i = 0; i < num; i++) {
        wait = tree_late_wait(tree, &ways[i], loops, &round) * 1e6;
        hidden = 100.0 * (1.0 - wait / TREE_LATE_US);
        if (tree->rank == 0) {
            printf("%-16s %3d ranks  one computes %7.0f us  the others wait %9.2f us  hidden %4.0f "
                   "%%\n",
                   ways[i].name, tree->size, TREE_LATE_US, wait, hidden < 0.0 ? 0.0 : hidden);
        }
    }
}

/* Prints a line for each implementation: the time without computing, and the share of this time
 * that computing hides. */
static inline void tree_measure(struct tree *tree, const struct tree_way *ways, int num, int rounds,
                                double us)
{
    long loops = tree_calibrate(us);
    double compute, alone, both, hidden;
    int i, round = 0;

    if (rounds == 0) {
        return;
    }

    MPI_Bcast(&loops, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (i = 0; i < num; i++) {
        (void)tree_time(tree, &ways[i], rounds / 10 + 1, 0, &round);
        alone = tree_time(tree, &ways[i], rounds, 0, &round);
        compute = tree_time(tree, NULL, rounds, loops, &round);
        both = tree_time(tree, &ways[i], rounds, loops, &round);
        hidden = 100.0 * (alone + compute - both) / alone;
        if (tree->rank == 0) {
            printf(
                "%-16s %3d ranks  %9.2f us  computing %9.2f us  both %9.2f us  hidden %4.0f %%\n",
                ways[i].name, tree->size, alone * 1e6, compute * 1e6, both * 1e6,
                hidden < 0.0   ? 0.0 :
                hidden > 100.0 ? 100.0 :
                                 hidden);
        }
    }
    if (tree->size > 2) {
        tree_late(tree, ways, num, round);
    }
}

/* -n ROUNDS (0: measure nothing), -d DEGREE, -c MICROSECONDS. */
static inline void tree_options(int argc, char **argv, int *rounds, int *degree, double *us)
{
    int opt;

    while ((opt = getopt(argc, argv, "n:d:c:")) != -1) {
        if (opt == 'n') {
            *rounds = atoi(optarg);
        } else if (opt == 'd') {
            *degree = atoi(optarg);
        } else if (opt == 'c') {
            *us = atof(optarg);
        } else {
            fprintf(stderr, "usage: %s [-n rounds] [-d degree] [-c microseconds]\n", argv[0]);
            exit(2);
        }
    }
    if (*rounds < 0 || *degree < 1 || *degree > GLEX_COLL_MAX_BRANCH_DEGREE) {
        CLIENT_FAIL("no rounds or more, degree 1 to %d", GLEX_COLL_MAX_BRANCH_DEGREE);
    }
}

#endif
