/*
 * A tree barrier of the NIC, beside MPI's.
 *
 *   mpirun -n N coll_barrier [-n ROUNDS] [-d DEGREE] [-c MICROSECONDS]
 *
 * A leaf sends one control packet to its parent. An inner rank posts two sequences. The first
 * sequence waits for the children and notifies the parent. The second sequence waits for the parent
 * and notifies the children and the rank itself. The first rounds are checked: no rank may leave
 * before the last rank has come. Then both barriers are timed, and timed again with MICROSECONDS of
 * computing between begin and end.
 */
#include "tree.h"

static void begin_glex(struct tree *tree, int round)
{
    glex_imm_mp_req_t reqs[GLEX_COLL_MAX_BRANCH_DEGREE + 1];
    int i, child, counter = 1, inner;

    (void)round;
    if (tree->rank != 0) {
        client_coll_req(&reqs[0], tree->up_addr[tree->parent], NULL, 0, GLEX_FLAG_COLL_COUNTER);
        if (tree->num_children == 0) {
            while (glex_send_imm_mp(tree->up, &reqs[0], NULL) == GLEX_BUSY) {
            }
            return;
        }
        client_coll_post(tree->up, reqs, 1, tree->num_children);
    } else {
        counter = tree->num_children;
    }
    for (i = 0; i < tree->num_children; i++) {
        child = tree->first_child + i;
        inner = tree_children_of(tree, child) != 0;
        client_coll_req(&reqs[i], tree->up_addr[child], NULL, 0,
                        inner ? GLEX_FLAG_COLL_COUNTER : GLEX_FLAG_COLL_CP_DATA);
    }
    client_coll_req(&reqs[i], tree->up_addr[tree->rank], NULL, 0, GLEX_FLAG_COLL_CP_DATA);
    client_coll_post(tree->up, reqs, i + 1, counter);
}

static void end_glex(struct tree *tree, int round)
{
    (void)round;
    (void)tree_wait(tree, tree->up);
    tree_done(tree, tree->up);
}

static MPI_Request mpi_request;

static void begin_mpi(struct tree *tree, int round)
{
    (void)tree, (void)round;
    MPI_Ibarrier(MPI_COMM_WORLD, &mpi_request);
}

static void end_mpi(struct tree *tree, int round)
{
    (void)tree, (void)round;
    MPI_Wait(&mpi_request, MPI_STATUS_IGNORE);
}

static void nothing(struct tree *tree, int round)
{
    (void)tree, (void)round;
}

static void barrier_mpi(struct tree *tree, int round)
{
    (void)tree, (void)round;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* All ranks share one clock. The last rank must come before the first rank leaves. */
static void check_barrier(struct tree *tree, int rounds)
{
    double come, leave, last, first;
    int round;

    for (round = 1; round <= rounds; round++) {
        tree_compute((tree->rank * 7 + round) % 5 * 20000); /* another one is last each time */
        come = tree_now();
        begin_glex(tree, round);
        end_glex(tree, round);
        leave = tree_now();
        MPI_Allreduce(&come, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&leave, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        if (last > first) {
            CLIENT_FAIL("somebody left barrier %d before all had come", round);
        }
    }
    if (tree->rank == 0) {
        printf("%d ranks, degree %d: nobody left a barrier too early\n", tree->size, tree->degree);
    }
}

int main(int argc, char **argv)
{
    static const struct tree_way ways[] = {
        {"offload", begin_glex, end_glex},
        {"MPI_Barrier", nothing, barrier_mpi},
        {"MPI_Ibarrier", begin_mpi, end_mpi},
    };
    int rounds = 1000, degree = 8;
    static struct tree tree;
    double us = 20.0;

    MPI_Init(&argc, &argv);
    tree_options(argc, argv, &rounds, &degree, &us);
    tree_open(&tree, degree);
    if (tree.size > 1) {
        check_barrier(&tree, 100);
        tree_measure(&tree, ways, 3, rounds, us);
    }
    tree_close(&tree);
    MPI_Finalize();
    return 0;
}
