/*
 * Wavefronts over a grid of processes, by collective offload.
 *
 *   wavefront DIRECTORY RANK SIZE [THREADS]
 *
 * A wave starts at the first rank of the grid. Each other rank waits for the ranks above and to the
 * left, and sends to the ranks below, to the right, and to itself. Each rank posts the sequences of
 * all waves at the start. The last rank of the grid starts the next wave, so the NICs carry all
 * waves on without the programs. The programs only count and check their own messages.
 *
 * Two kinds of waves alternate:
 * - A token travels: each sequence swaps its data for the data of the packet that came. Each rank
 *   must find the token of the wave, 0 to 112 bytes.
 * - A reduction travels: each sequence adds the values that came. So the first value at a rank is the
 *   number of paths from the first rank. The second value is this number times the wave's number.
 *
 * With THREADS each endpoint of a process has its own grid and its own thread.
 */
#include "job.h"

#define WAVES 60

struct grid {
    const struct job *job;
    int rows, cols, row, col;
    uint32_t max_len;
    glex_ep_handle_t ep;
    glex_ep_addr_t addrs[JOB_MAX_RANKS];
};

static uint8_t token_byte(int wave, uint32_t i)
{
    return (uint8_t)((uint32_t)wave * 37 + i * 11 + 5);
}

static uint32_t token_len(const struct grid *grid, int wave)
{
    return (uint32_t)wave * 13 % (grid->max_len + 1);
}

static int is_token(int wave)
{
    return wave % 2 == 0;
}

/* The most square grid. */
static void set_grid(struct grid *grid)
{
    const struct job *job = grid->job;
    int rows;

    for (rows = 1; rows * rows <= job->size; rows++) {
        if (job->size % rows == 0) {
            grid->rows = rows;
        }
    }
    grid->cols = job->size / grid->rows;
    grid->row = job->rank / grid->cols;
    grid->col = job->rank % grid->cols;
}

/* The data of a sequence's own request: the first rank's is the start of a wave. */
static uint32_t own_data(const struct grid *grid, int wave, uint8_t *data)
{
    int first = grid->job->rank == 0;
    union glex_coll_data_loc values[2];
    uint32_t len, i;

    if (!is_token(wave)) {
        memset(values, 0, sizeof(values));
        values[0].int64_s.data = first ? 1 : 0;
        values[1].int64_s.data = first ? wave : 0;
        CLIENT_CHECK(glex_coll_compose_mp_reduce_data(values, 2, GLEX_COLL_REDUCE_DATA_BITS_64,
                                                      GLEX_COLL_REDUCE_SUM_SIGNED, 2, data, &len));
        return len;
    }
    len = first ? token_len(grid, wave) : 0;
    for (i = 0; i < len; i++) {
        data[i] = token_byte(wave, i);
    }
    return len;
}

static void post_wave(const struct grid *grid, int wave)
{
    const int pass_on = GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_COLL_CP_SWAP_DATA;
    const glex_ep_addr_t *own = &grid->addrs[grid->job->rank];
    int counter = (grid->row > 0) + (grid->col > 0);
    glex_imm_mp_req_t reqs[3];
    int flag, num = 0;
    uint8_t data[256];
    uint32_t len;

    len = own_data(grid, wave, data);
    flag = is_token(wave) ? 0 : GLEX_FLAG_COLL_REDUCE;
    if (counter > 0) {
        flag |= GLEX_FLAG_COLL_SWAP;
    } else if (wave > 0) {
        counter = 1; /* from the last rank */
    }
    if (grid->row + 1 < grid->rows) {
        client_coll_req(&reqs[num++], own[grid->cols], data, len, flag | pass_on);
    }
    if (grid->col + 1 < grid->cols) {
        client_coll_req(&reqs[num++], own[1], data, len, flag | pass_on);
    }
    client_coll_req(&reqs[num++], own[0], data, len, flag | GLEX_FLAG_COLL_CP_DATA);
    if (grid->job->rank == grid->job->size - 1 && wave + 1 < WAVES) {
        client_coll_req(&reqs[num++], grid->addrs[0], NULL, 0, GLEX_FLAG_COLL_COUNTER);
    }
    client_coll_post(grid->ep, reqs, num, counter);
}

static void check_token(const struct grid *grid, int wave, const uint8_t *data, uint32_t len)
{
    uint32_t i;

    if (len != token_len(grid, wave)) {
        CLIENT_FAIL("rank %d, wave %d: the token has %u bytes, not %u", grid->job->rank, wave, len,
                    token_len(grid, wave));
    }
    for (i = 0; i < len; i++) {
        if (data[i] != token_byte(wave, i)) {
            CLIENT_FAIL("rank %d, wave %d: byte %u of %u is %u, not %u", grid->job->rank, wave, i,
                        len, data[i], token_byte(wave, i));
        }
    }
}

static int64_t num_paths(const struct grid *grid)
{
    int64_t paths = 1;
    int i;

    for (i = 1; i <= grid->row; i++) {
        paths = paths * (grid->col + i) / i;
    }
    return paths;
}

static void check_sum(const struct grid *grid, int wave, void *data)
{
    union glex_coll_data_loc values[2];
    int64_t paths = num_paths(grid);

    CLIENT_CHECK(
        glex_coll_decompose_mp_reduce_data(values, 2, GLEX_COLL_REDUCE_DATA_BITS_64, data));
    if (values[0].int64_s.data != paths || values[1].int64_s.data != paths * wave) {
        CLIENT_FAIL("rank %d, wave %d: %lld paths and %lld, not %lld and %lld", grid->job->rank,
                    wave, (long long)values[0].int64_s.data, (long long)values[1].int64_s.data,
                    (long long)paths, (long long)(paths * wave));
    }
}

static void *run(void *arg)
{
    const struct grid *grid = arg;
    glex_ep_addr_t src;
    uint32_t len;
    void *data;
    int wave;

    for (wave = 0; wave < WAVES; wave++) {
        post_wave(grid, wave);
    }
    for (wave = 0; wave < WAVES; wave++) {
        client_check(client_probe(grid->ep, &src, &data, &len), "no wave: glex_probe_first_mp");
        if (src.v != grid->addrs[grid->job->rank].v) {
            CLIENT_FAIL("rank %d, wave %d: a message of endpoint %u", grid->job->rank, wave,
                        src.ep_num);
        }
        if (is_token(wave)) {
            check_token(grid, wave, data, len);
        } else {
            check_sum(grid, wave, data);
        }
        CLIENT_CHECK(glex_discard_probed_mp(grid->ep));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct grid grids[JOB_MAX_THREADS];
    glex_ep_addr_t addr;
    struct job job;
    int i;

    job_open(&job, argc, argv);
    for (i = 0; i < job.threads; i++) {
        grids[i].job = &job;
        grids[i].max_len = job.attr.max_imm_mp_data_len;
        set_grid(&grids[i]);
        grids[i].ep = client_create_ep(job.dev, 22, GLEX_EP_MPQ_CAPACITY_DEFAULT);
        CLIENT_CHECK(glex_get_ep_addr(grids[i].ep, &addr));
        job_exchange(&job, &addr, grids[i].addrs, sizeof(addr));
    }
    job_run(&job, run, grids, sizeof(grids[0]));
    job_barrier(&job);
    for (i = 0; i < job.threads; i++) {
        client_check_no_errors(grids[i].ep);
        CLIENT_CHECK(glex_destroy_ep(grids[i].ep));
    }
    job_close(&job);
    if (job.rank == 0) {
        printf("%d waves over %d x %d ranks, %d threads: each rank has found each\n", WAVES,
               grids[0].rows, grids[0].cols, job.threads);
    }
    return 0;
}
