/*
 * An all-reduce of the NIC, beside MPI's: the sum of one 64-bit number of each rank.
 *
 *   mpirun -n N coll_allreduce [-n ROUNDS] [-d DEGREE] [-c MICROSECONDS]
 *
 * Numbers go up a tree by one endpoint: each rank's sequence adds its number to the numbers of its
 * children. The result goes down by a second endpoint. Every result of every round is checked. Both
 * all-reduces are timed, and timed again with MICROSECONDS of computing between begin and end.
 */
#include "tree.h"

static int64_t number_of(int rank, int round)
{
    return (int64_t)round * 1000003 + (int64_t)rank * rank - 7;
}

static void check_sum(const struct tree *tree, int round, int64_t sum)
{
    int64_t expected = 0;
    int i;

    for (i = 0; i < tree->size; i++) {
        expected += number_of(i, round);
    }
    if (sum != expected) {
        CLIENT_FAIL("rank %d, round %d: %lld, not %lld", tree->rank, round, (long long)sum,
                    (long long)expected);
    }
}

static void begin_glex(struct tree *tree, int round)
{
    const int up = GLEX_FLAG_COLL_REDUCE | GLEX_FLAG_COLL_SWAP | GLEX_FLAG_COLL_COUNTER |
                   GLEX_FLAG_COLL_CP_SWAP_DATA;
    const int down = GLEX_FLAG_COLL_REDUCE_RESULT | GLEX_FLAG_COLL_SWAP;
    glex_imm_mp_req_t reqs[GLEX_COLL_MAX_BRANCH_DEGREE + 1];
    union glex_coll_data_loc loc;
    uint8_t data[112];
    uint32_t len;
    int i, child, inner;

    loc.int64_s.data = number_of(tree->rank, round);
    loc.int64_s.location = (uint32_t)tree->rank;
    CLIENT_CHECK(glex_coll_compose_mp_reduce_data(&loc, 1, GLEX_COLL_REDUCE_DATA_BITS_64,
                                                  GLEX_COLL_REDUCE_SUM_SIGNED,
                                                  (uint32_t)tree->degree, data, &len));
    client_coll_req(&reqs[0], tree->rank == 0 ? tree->down_addr[0] : tree->up_addr[tree->parent],
                    data, len, up);
    client_coll_post(tree->up, reqs, 1, tree->num_children);
    if (tree->num_children == 0) {
        return;
    }
    for (i = 0; i < tree->num_children; i++) {
        child = tree->first_child + i;
        inner = tree_children_of(tree, child) != 0;
        client_coll_req(&reqs[i], tree->down_addr[child], NULL, 0,
                        down | (inner ? GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_COLL_CP_SWAP_DATA :
                                        GLEX_FLAG_COLL_CP_DATA));
    }
    client_coll_req(&reqs[i], tree->down_addr[tree->rank], NULL, 0, down | GLEX_FLAG_COLL_CP_DATA);
    client_coll_post(tree->down, reqs, i + 1, 1);
}

static void end_glex(struct tree *tree, int round)
{
    union glex_coll_data_loc loc;

    CLIENT_CHECK(glex_coll_decompose_mp_reduce_data(&loc, 1, GLEX_COLL_REDUCE_DATA_BITS_64,
                                                    tree_wait(tree, tree->down)));
    check_sum(tree, round, loc.int64_s.data);
    tree_done(tree, tree->down);
}

static MPI_Request mpi_request;
static int64_t mpi_own, mpi_sum;

static void begin_mpi(struct tree *tree, int round)
{
    mpi_own = number_of(tree->rank, round);
    MPI_Iallreduce(&mpi_own, &mpi_sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &mpi_request);
}

static void end_mpi(struct tree *tree, int round)
{
    MPI_Wait(&mpi_request, MPI_STATUS_IGNORE);
    check_sum(tree, round, mpi_sum);
}

static void nothing(struct tree *tree, int round)
{
    (void)tree, (void)round;
}

static void allreduce_mpi(struct tree *tree, int round)
{
    mpi_own = number_of(tree->rank, round);
    MPI_Allreduce(&mpi_own, &mpi_sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    check_sum(tree, round, mpi_sum);
}

int main(int argc, char **argv)
{
    static const struct tree_way ways[] = {
        {"offload", begin_glex, end_glex},
        {"MPI_Allreduce", nothing, allreduce_mpi},
        {"MPI_Iallreduce", begin_mpi, end_mpi},
    };
    int rounds = 1000, degree = 8;
    static struct tree tree;
    double us = 20.0;

    MPI_Init(&argc, &argv);
    tree_options(argc, argv, &rounds, &degree, &us);
    tree_open(&tree, degree);
    if (tree.size > 1) {
        tree_measure(&tree, ways, 3, rounds, us);
        if (tree.rank == 0) {
            printf("%d ranks, degree %d: every sum is right\n", tree.size, tree.degree);
        }
    }
    tree_close(&tree);
    MPI_Finalize();
    return 0;
}
