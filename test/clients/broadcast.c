/*
 * Broadcasts of long data in pieces down a tree, by collective offload.
 *
 *   broadcast DIRECTORY RANK SIZE [THREADS]
 *
 * The root puts each piece into the memory of its children. A child with children has posted a
 * sequence for each piece, which puts the piece into the memory of these children when the piece
 * has come. The last piece brings an event. No two rounds use the same memory, so no barrier is
 * necessary between rounds. Each rank checks every byte of each round.
 *
 * With THREADS each endpoint of a process has its own tree and its own thread.
 */
#include "job.h"

#define DEGREE      2
#define PIECE       16384
#define KEY         0x81
#define KIND_LOCAL  1
#define KIND_REMOTE 2
#define NUM_ROUNDS  6

/* Bytes of a round; the memory of a round has some more bytes, which no put may change. */
static const uint32_t lens[NUM_ROUNDS] = {1, PIECE, PIECE + 1, 3 * PIECE - 5, 7, 8 * PIECE + 77};
#define STRIDE (9 * PIECE)

/* A rank's data for its peers. */
struct card {
    glex_ep_addr_t addr;
    glex_mem_handle_t mh;
};

struct tree {
    const struct job *job;
    int num_children, first_child;
    glex_ep_handle_t ep;
    uint8_t *mem;
    struct card cards[JOB_MAX_RANKS];
};

static uint8_t round_byte(int round, uint32_t i)
{
    return (uint8_t)((uint32_t)round * 71 + i + i / 253);
}

/* Another byte at each rank, so that a put of a byte too many shows. */
static uint8_t guard(const struct job *job)
{
    return (uint8_t)(0xee - job->rank);
}

static int children_of(const struct job *job, int rank)
{
    int first = rank * DEGREE + 1;

    if (first >= job->size) {
        return 0;
    }
    return job->size - first < DEGREE ? job->size - first : DEGREE;
}

static uint32_t num_pieces(int round)
{
    return (lens[round] + PIECE - 1) / PIECE;
}

static void set_put(const struct tree *tree, glex_rdma_req_t *req, int round, uint32_t piece,
                    int child)
{
    uint32_t done = piece * PIECE;

    CLIENT_UNINITIALISED(req);
    req->rmt_ep_addr = tree->cards[child].addr;
    req->local_mh = tree->cards[tree->job->rank].mh;
    req->rmt_mh = tree->cards[child].mh;
    req->local_offset = req->rmt_offset = (uint32_t)round * STRIDE + done;
    req->len = lens[round] - done < PIECE ? lens[round] - done : PIECE;
    req->type = GLEX_RDMA_TYPE_PUT;
    req->rmt_key = KEY;
    req->flag = GLEX_FLAG_COLL;
    req->next = NULL;
    if (children_of(tree->job, child) > 0) {
        req->flag |= GLEX_FLAG_COLL_COUNTER;
    }
    if (piece + 1 == num_pieces(round)) {
        req->flag |= GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT;
        req->local_evt.cookie_0 = req->rmt_evt.cookie_0 = (uint64_t)round;
        req->local_evt.cookie_1 = KIND_LOCAL;
        req->rmt_evt.cookie_1 = KIND_REMOTE;
    }
}

/* The sequence that passes one piece on. */
static void post_piece(const struct tree *tree, int round, uint32_t piece)
{
    glex_rdma_req_t reqs[DEGREE], *req = reqs;
    glex_ret_t ret;
    int i;

    for (i = 0; i < tree->num_children; i++) {
        set_put(tree, &reqs[i], round, piece, tree->first_child + i);
        if (i > 0) {
            reqs[i - 1].next = &reqs[i];
        }
    }
    reqs[0].flag |= GLEX_FLAG_COLL_SEQ_START;
    reqs[0].coll_counter = tree->job->rank == 0 ? 0 : 1;
    reqs[i - 1].flag |= GLEX_FLAG_COLL_SEQ_TAIL;
    do {
        ret = glex_rdma(tree->ep, req, &req);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_rdma");
}

/* Waits until `num` events have come in total, and checks that each is of this tree. */
static void wait_events(const struct tree *tree, int num)
{
    int come[NUM_ROUNDS] = {0}, gone[NUM_ROUNDS] = {0};
    glex_event_t *event;
    glex_ret_t ret;
    int *seen;

    while (num-- > 0) {
        ret = glex_probe_first_event(tree->ep, CLIENT_WAIT_MS, &event);
        if (ret != GLEX_SUCCESS) {
            client_check_no_errors(tree->ep);
        }
        client_check(ret, "glex_probe_first_event");
        seen = event->cookie_1 == KIND_REMOTE ? come : gone;
        if (event->cookie_0 >= NUM_ROUNDS ||
            seen[event->cookie_0]++ == (seen == come ? 1 : tree->num_children)) {
            CLIENT_FAIL("rank %d has an event too many: %llu %llu", tree->job->rank,
                        (unsigned long long)event->cookie_0, (unsigned long long)event->cookie_1);
        }
        CLIENT_CHECK(glex_discard_probed_event(tree->ep));
    }
}

static void check_mem(const struct tree *tree)
{
    uint32_t i, expected;
    int round;

    for (round = 0; round < NUM_ROUNDS; round++) {
        for (i = 0; i < STRIDE; i++) {
            expected = i < lens[round] ? round_byte(round, i) : guard(tree->job);
            if (tree->mem[(uint32_t)round * STRIDE + i] != expected) {
                CLIENT_FAIL("rank %d, round %d: byte %u of %u is %u, not %u", tree->job->rank,
                            round, i, lens[round], tree->mem[(uint32_t)round * STRIDE + i],
                            expected);
            }
        }
    }
}

static void *run(void *arg)
{
    const struct tree *tree = arg;
    uint32_t piece;
    int round;

    for (round = 0; round < NUM_ROUNDS && tree->num_children > 0; round++) {
        for (piece = 0; piece < num_pieces(round); piece++) {
            post_piece(tree, round, piece);
        }
    }
    wait_events(tree, NUM_ROUNDS * (tree->num_children + (tree->job->rank != 0)));
    check_mem(tree);
    return NULL;
}

/* All memory is set before the exchange, after which a put may come. */
static void open_tree(struct tree *tree, struct job *job)
{
    struct card mine;
    uint32_t i;
    int round;

    tree->job = job;
    tree->num_children = children_of(job, job->rank);
    tree->first_child = job->rank * DEGREE + 1;
    tree->ep = client_create_ep(job->dev, KEY, GLEX_EP_MPQ_CAPACITY_DEFAULT);
    tree->mem = malloc(NUM_ROUNDS * STRIDE);
    if (tree->mem == NULL) {
        CLIENT_FAIL("no memory");
    }
    memset(tree->mem, guard(job), NUM_ROUNDS * STRIDE);
    for (round = 0; round < NUM_ROUNDS && job->rank == 0; round++) {
        for (i = 0; i < lens[round]; i++) {
            tree->mem[(uint32_t)round * STRIDE + i] = round_byte(round, i);
        }
    }
    CLIENT_CHECK(glex_register_mem(tree->ep, tree->mem, NUM_ROUNDS * STRIDE,
                                   GLEX_MEM_READ | GLEX_MEM_WRITE, &mine.mh));
    CLIENT_CHECK(glex_get_ep_addr(tree->ep, &mine.addr));
    job_exchange(job, &mine, tree->cards, sizeof(mine));
}

static void close_tree(struct tree *tree)
{
    client_check_no_errors(tree->ep);
    CLIENT_CHECK(glex_deregister_mem(tree->ep, tree->cards[tree->job->rank].mh));
    CLIENT_CHECK(glex_destroy_ep(tree->ep));
    free(tree->mem);
}

int main(int argc, char **argv)
{
    static struct tree trees[JOB_MAX_THREADS];
    struct job job;
    int i;

    job_open(&job, argc, argv);
    for (i = 0; i < job.threads; i++) {
        open_tree(&trees[i], &job);
    }
    job_run(&job, run, trees, sizeof(trees[0]));
    job_barrier(&job);
    for (i = 0; i < job.threads; i++) {
        close_tree(&trees[i]);
    }
    job_close(&job);
    if (job.rank == 0) {
        printf("%d broadcasts to %d ranks, %d threads: every byte everywhere\n", NUM_ROUNDS,
               job.size, job.threads);
    }
    return 0;
}
