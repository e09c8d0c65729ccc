/*
 * Ring exchange by RDMA put with remote events, under MPI.
 *
 *   mpirun -n N rdma_ring [-l LAPS]
 *
 * Every rank starts with one block. In each of N - 1 steps a rank puts the last received block into
 * the memory of its right neighbour. Then the rank waits for two events: the end of its own put,
 * and the arrival of the left neighbour's put. After a lap every rank has every block, byte for
 * byte. Short blocks use immediate puts. MPI carries only the addresses and the start of a lap.
 */
#include "client.h"

#include <getopt.h>
#include <mpi.h>

/* Blocks are aligned to nothing, neither their lengths nor their places. */
#define MAX_BLOCK    ((1u << 20) + 5)
#define BLOCK_STRIDE (MAX_BLOCK + 2)
#define MAX_RANKS    64
#define KIND_LOCAL   1
#define KIND_REMOTE  2

/* A rank's data for its peers. */
struct card {
    glex_ep_addr_t addr;
    glex_mem_handle_t mh;
};

struct ring {
    int rank, size;
    glex_device_handle_t dev;
    struct glex_device_attr attr;
    glex_ep_handle_t ep;
    glex_mem_handle_t mh;
    uint8_t *mem; /* a place for each rank's block */
    struct card cards[MAX_RANKS];
    /* events of this lap; a fast left neighbour may be steps ahead */
    int arrived[MAX_RANKS];
    int sent[MAX_RANKS];
};

static uint32_t ring_key(int rank)
{
    return (uint32_t)(1 + rank);
}

static uint32_t block_offset(int owner)
{
    return (uint32_t)owner * BLOCK_STRIDE;
}

static uint8_t block_byte(int owner, int lap, uint32_t i)
{
    return (uint8_t)((uint32_t)owner * 41 + (uint32_t)lap * 17 + i + i / 251);
}

static void ring_open(struct ring *ring)
{
    size_t len = (size_t)MAX_RANKS * BLOCK_STRIDE;
    struct card mine;

    ring->dev = client_open_device(&ring->attr);
    ring->ep = client_create_ep(ring->dev, ring_key(ring->rank), GLEX_EP_MPQ_CAPACITY_DEFAULT);
    ring->mem = malloc(len);
    if (ring->mem == NULL) {
        CLIENT_FAIL("no memory");
    }
    CLIENT_CHECK(
        glex_register_mem(ring->ep, ring->mem, len, GLEX_MEM_READ | GLEX_MEM_WRITE, &ring->mh));
    CLIENT_CHECK(glex_get_ep_addr(ring->ep, &mine.addr));
    mine.mh.v = ring->mh.v;
    MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, ring->cards, sizeof(mine), MPI_BYTE,
                  MPI_COMM_WORLD);
    if (ring->cards[ring->rank].addr.s.nic_id != ring->attr.nic_id) {
        CLIENT_FAIL("an endpoint of NIC %x says it is on %x", ring->attr.nic_id,
                    ring->cards[ring->rank].addr.nic_id);
    }
}

static void ring_close(struct ring *ring)
{
    client_check_no_errors(ring->ep);
    MPI_Barrier(MPI_COMM_WORLD);
    CLIENT_CHECK(glex_deregister_mem(ring->ep, ring->mh));
    CLIENT_CHECK(glex_destroy_ep(ring->ep));
    CLIENT_CHECK(glex_close_device(ring->dev));
    free(ring->mem);
}

/* cookie_0 may be anything, cookie_1 must not be 0: the kind goes there. */
static void set_event(glex_event_t *event, int step, int kind)
{
    event->cookie_0 = (uint64_t)step;
    event->cookie_1 = (uint64_t)kind;
}

/* A short block: immediate, from any memory, copied at the call; it has no local event. */
static void put_short(struct ring *ring, const struct card *to, int step, int owner, uint32_t len)
{
    glex_imm_rdma_req_t req, *bad;
    glex_ret_t ret;

    CLIENT_UNINITIALISED(&req);
    req.rmt_ep_addr.v = to->addr.v;
    req.data = ring->mem + block_offset(owner);
    req.len = len;
    req.rmt_mh.v = to->mh.v;
    req.rmt_offset = block_offset(owner);
    req.rmt_key = ring_key((ring->rank + 1) % ring->size);
    req.flag = GLEX_FLAG_REMOTE_EVT;
    req.next = NULL;
    set_event(&req.rmt_evt, step, KIND_REMOTE);
    while ((ret = glex_imm_rdma(ring->ep, &req, &bad)) == GLEX_BUSY) {
        if (bad != &req) {
            CLIENT_FAIL("busy, and another request is to blame");
        }
    }
    client_check(ret, "glex_imm_rdma");
    ring->sent[step] = 1;
}

static void put_long(struct ring *ring, const struct card *to, int step, int owner, uint32_t len)
{
    glex_rdma_req_t req;
    glex_ret_t ret;

    CLIENT_UNINITIALISED(&req);
    req.rmt_ep_addr = to->addr;
    req.local_mh = ring->mh;
    req.local_offset = block_offset(owner);
    req.len = len;
    req.rmt_mh = to->mh;
    req.rmt_offset = block_offset(owner);
    req.type = GLEX_RDMA_TYPE_PUT;
    req.rmt_key = ring_key((ring->rank + 1) % ring->size);
    req.flag = GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT;
    req.next = NULL;
    set_event(&req.local_evt, step, KIND_LOCAL);
    set_event(&req.rmt_evt, step, KIND_REMOTE);
    do {
        ret = glex_rdma(ring->ep, &req, NULL);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_rdma");
}

static void take_event(struct ring *ring, const glex_event_t *event)
{
    int *seen = (event->cookie_1 == KIND_LOCAL) ? ring->sent : ring->arrived;

    if (event->cookie_0 >= (uint64_t)ring->size || seen[event->cookie_0]++ != 0 ||
        (event->cookie_1 != KIND_LOCAL && event->cookie_1 != KIND_REMOTE)) {
        CLIENT_FAIL("rank %d: an event nobody sent: %llu %llu", ring->rank,
                    (unsigned long long)event->cookie_0, (unsigned long long)event->cookie_1);
    }
}

/* Takes all events in the queue, at least one, and then discards them at once. */
static void wait_events(struct ring *ring)
{
    glex_event_t *event;
    glex_ret_t ret = GLEX_NO_EVENT;
    int i;

    for (i = 0; i < CLIENT_SPINS && ret == GLEX_NO_EVENT; i++) {
        ret = glex_probe_first_event(ring->ep, 0, &event);
    }
    if (ret == GLEX_NO_EVENT || ret == GLEX_INTR) {
        ret = glex_probe_first_event(ring->ep, CLIENT_WAIT_MS, &event);
    }
    if (ret != GLEX_SUCCESS) {
        client_check_no_errors(ring->ep);
    }
    client_check(ret, "glex_probe_first_event");
    do {
        take_event(ring, event);
        ret = glex_probe_next_event(ring->ep, &event);
    } while (ret == GLEX_SUCCESS);
    if (ret != GLEX_NO_EVENT) {
        client_check(ret, "glex_probe_next_event");
    }
    CLIENT_CHECK(glex_discard_probed_event(ring->ep));
}

static void check_block(const struct ring *ring, int owner, int lap, uint32_t len)
{
    const uint8_t *block = ring->mem + block_offset(owner);
    uint32_t i;

    for (i = 0; i < len; i++) {
        if (block[i] != block_byte(owner, lap, i)) {
            CLIENT_FAIL("rank %d, lap %d: byte %u of %u of rank %d's block is %u, not %u",
                        ring->rank, lap, i, len, owner, block[i], block_byte(owner, lap, i));
        }
    }
}

static void ring_lap(struct ring *ring, int lap, uint32_t len)
{
    const struct card *right = &ring->cards[(ring->rank + 1) % ring->size];
    int step, owner;
    uint32_t i;

    memset(ring->mem, 0xff, block_offset(ring->size));
    memset(ring->arrived, 0, sizeof(ring->arrived));
    memset(ring->sent, 0, sizeof(ring->sent));
    for (i = 0; i < len; i++) {
        ring->mem[block_offset(ring->rank) + i] = block_byte(ring->rank, lap, i);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* no rank writes here before all memory is cleared */

    for (step = 0; step < ring->size - 1; step++) {
        owner = (ring->rank - step + ring->size) % ring->size;
        if (len <= ring->attr.max_imm_rdma_data_len) {
            put_short(ring, right, step, owner, len);
        } else {
            put_long(ring, right, step, owner, len);
        }
        while (!ring->sent[step] || !ring->arrived[step]) {
            wait_events(ring);
        }
        owner = (ring->rank - step - 1 + ring->size) % ring->size;
        check_block(ring, owner, lap, len);
    }
    for (owner = 0; owner < ring->size; owner++) {
        check_block(ring, owner, lap, len);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* no rank clears before all ranks have compared */
}

int main(int argc, char **argv)
{
    static const uint32_t lens[] = {1, 8, 95, 96, 97, 4096 + 3, 65536, MAX_BLOCK};
    static struct ring ring;
    int laps = 3, opt, lap;
    size_t i;

    MPI_Init(&argc, &argv);
    while ((opt = getopt(argc, argv, "l:")) != -1) {
        if (opt != 'l') {
            fprintf(stderr, "usage: %s [-l laps]\n", argv[0]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        laps = atoi(optarg);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &ring.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ring.size);
    if (ring.size < 2 || ring.size > MAX_RANKS) {
        CLIENT_FAIL("2 to %d ranks, not %d", MAX_RANKS, ring.size);
    }
    ring_open(&ring);
    for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (lap = 0; lap < laps; lap++) {
            ring_lap(&ring, lap, lens[i]);
        }
    }
    ring_close(&ring);
    if (ring.rank == 0) {
        printf("%d ranks, %zu lengths, %d laps each: every block everywhere\n", ring.size,
               sizeof(lens) / sizeof(lens[0]), laps);
    }
    MPI_Finalize();
    return 0;
}
