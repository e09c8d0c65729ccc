#include "rank.h"

#include "base/glex_wire.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_CALLS 8
#define FLUSH_STEPS    100000

/* ns of quiet after which remaining resources count as leaked */
#define HOLD_PATIENCE 10000000000ull

/* ... and without quiet after which it will not come */
#define HANG_PATIENCE 30000000000ull

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fail("%s: %s", what, ucs_status_string(status));
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static void open_worker(struct rank *rank)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};

    check(ucp_init(&params, NULL, &rank->context), "ucp_init");
    check(ucp_worker_create(rank->context, &worker_params, &rank->worker), "ucp_worker_create");
}

/* Memory that the others may put to: one window from the NIC, one of our own */
static void open_window(struct rank *rank, unsigned index)
{
    size_t length = (size_t)rank->board->ranks * BOARD_REGION;
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = length,
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    size_t key_length;
    void *key;

    if (index > 0) {
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
        params.flags = 0;
        params.address = calloc(1, length);
    }
    check(ucp_mem_map(rank->context, &params, &rank->window[index]), "ucp_mem_map");
    check(ucp_mem_query(rank->window[index], &attr), "ucp_mem_query");
    check(ucp_rkey_pack(rank->context, rank->window[index], &key, &key_length), "ucp_rkey_pack");
    if (key_length > BOARD_KEY) {
        fail("a packed key of %zu bytes", key_length);
    }
    memcpy(rank->own->key[index], key, key_length);
    rank->own->key_length[index] = (uint32_t)key_length;
    rank->own->window[index] = (uintptr_t)attr.address;
    ucp_rkey_buffer_release(key);
}

uint16_t rank_wire_version;

/* Replaces the version in the transport's part of an address, which begins with the id of the NIC
 * (GLEX_NIC_ID). */
static void fake_version(char *address, size_t length)
{
    const char *text = getenv("GLEX_NIC_ID");
    uct_glex_device_addr_t device;
    size_t i;

    if (text == NULL) {
        fail("--wire-version needs GLEX_NIC_ID");
    }
    for (i = 0; i + sizeof(device) <= length; i++) {
        memcpy(&device, address + i, sizeof(device));
        if (device.nic_id == strtoul(text, NULL, 0) && device.version == UCT_GLEX_WIRE_VERSION) {
            device.version = rank_wire_version;
            memcpy(address + i, &device, sizeof(device));
            return;
        }
    }
    fail("the address names no NIC %s", text);
}

static void publish(struct rank *rank)
{
    ucp_address_t *address;
    size_t length;

    check(ucp_worker_get_address(rank->worker, &address, &length), "ucp_worker_get_address");
    if (length > BOARD_ADDRESS) {
        fail("an address of %zu bytes", length);
    }
    memcpy(rank->own->address, address, length);
    if (rank_wire_version != 0) {
        fake_version(rank->own->address, length);
    }
    rank->own->address_length = (uint32_t)length;
    ucp_worker_release_address(rank->worker, address);
    board_set(&rank->own->ready, rank->gen);
}

void rank_open(struct rank *rank, struct board *board, unsigned index, uint32_t gen,
               bool handles_errors)
{
    unsigned i;

    memset(rank, 0, sizeof(*rank));
    rank->board = board;
    rank->own = &board->slot[index];
    rank->index = index;
    rank->gen = gen;
    rank->handles_errors = handles_errors;
    rank->random = board_now() ^ (uint64_t)getpid() << 32;
    memset(rank->own->peer, 0, sizeof(rank->own->peer));
    open_worker(rank);
    rank_recv_open(rank);
    for (i = 0; i < BOARD_WINDOWS; i++) {
        open_window(rank, i);
    }
    for (i = 0; i < board->ranks; i++) {
        rank->peer[i].rank = rank;
        rank->peer[i].index = i;
    }
    publish(rank);
}

/* ---- endpoints ------------------------------------------------------------------------------- */

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct rank_peer *peer = arg;
    struct rank *rank = peer->rank;
    struct board_peer *told = &rank->own->peer[peer->index];

    (void)ep;
    peer->failed = true;
    if (!rank->ending && !rank_was_killed(rank, peer->index, peer->gen)) {
        board_problem(rank->board, rank->index, "the living process %u.%u was reported as gone: %s",
                      peer->index, peer->gen, ucs_status_string(status));
    }
    told->gone_ns = board_now();
    told->gone_cpu_ns = board_clock(CLOCK_PROCESS_CPUTIME_ID);
    board_set(&told->gone, peer->gen);
}

static void connect_peer(struct rank *rank, struct rank_peer *peer, uint32_t gen)
{
    const struct board_slot *slot = &rank->board->slot[peer->index];
    struct board_peer *told = &rank->own->peer[peer->index];
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                              .address = (const ucp_address_t *)slot->address};
    unsigned i;

    if (rank->handles_errors) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = on_error;
        params.err_handler.arg = peer;
    }
    peer->gen = gen;
    peer->failed = false;
    peer->rma_busy = false;
    peer->ops = 0;
    memset(peer->seq, 0, sizeof(peer->seq));
    told->sent = 0;
    told->connected_ns = board_now();
    board_set(&told->connected, gen);
    check(ucp_ep_create(rank->worker, &params, &peer->ep), "ucp_ep_create");
    for (i = 0; i < BOARD_WINDOWS; i++) {
        check(ucp_ep_rkey_unpack(peer->ep, slot->key[i], &peer->rkey[i]), "ucp_ep_rkey_unpack");
    }
}

static void on_closed(void *request, ucs_status_t status, void *user_data)
{
    (void)status;
    ucp_request_free(request);
    ((struct rank *)user_data)->recvs--;
}

static void disconnect_peer(struct rank *rank, struct rank_peer *peer, bool force)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0,
                                 .cb.send = on_closed,
                                 .user_data = rank};
    ucs_status_ptr_t request;
    unsigned i;

    for (i = 0; i < BOARD_WINDOWS; i++) {
        ucp_rkey_destroy(peer->rkey[i]);
    }
    request = ucp_ep_close_nbx(peer->ep, &param);
    peer->ep = NULL;
    if (UCS_PTR_IS_PTR(request)) {
        rank->recvs++;
    } else if (UCS_PTR_IS_ERR(request) && !peer->failed) {
        board_problem(rank->board, rank->index, "closing the endpoint to %u.%u: %s", peer->index,
                      peer->gen, ucs_status_string(UCS_PTR_STATUS(request)));
    }
}

static void look_at_board(struct rank *rank)
{
    struct rank_peer *peer;
    uint32_t ready;
    unsigned i;

    for (i = 0; i < rank->board->ranks; i++) {
        peer = &rank->peer[i];
        ready = board_get(&rank->board->slot[i].ready);
        if (peer->ep != NULL && peer->failed) {
            disconnect_peer(rank, peer, true);
        } else if (peer->ep == NULL && i != rank->index && ready > peer->gen) {
            connect_peer(rank, peer, ready);
        }
    }
}

/* ---- going on -------------------------------------------------------------------------------- */

static void progress(struct rank *rank)
{
    unsigned calls, count = 0;

    for (calls = 0; calls < PROGRESS_CALLS; calls++) {
        count += ucp_worker_progress(rank->worker);
    }
    if (count == 0) {
        sched_yield();
    }
}

bool rank_is_quiet(const struct rank *rank)
{
    const struct rank_peer *peer;
    const struct board_slot *slot;
    uint64_t received;
    unsigned i;

    if (rank->ops > 0 || rank->recvs > 0 || rank_recv_holds(rank)) {
        return false;
    }
    for (i = 0; i < rank->board->ranks; i++) {
        peer = &rank->peer[i];
        slot = &rank->board->slot[i];
        if (peer->ep == NULL) {
            continue;
        }
        if (board_get(&slot->paused) != rank->board->pause) {
            return false;
        }
        received = peer->from == peer->gen ? rank->own->peer[i].received : 0;
        if (received != slot->peer[rank->index].sent) {
            return false;
        }
    }
    return true;
}

static unsigned living_peers(const struct rank *rank)
{
    unsigned i, count = 0;

    for (i = 0; i < rank->board->ranks; i++) {
        count += rank->peer[i].ep != NULL && !rank->peer[i].failed;
    }
    return count;
}

/* The process does not become quiet: prints once what is in flight */
static void report_hang(struct rank *rank)
{
    unsigned i;

    if (rank->asked_since == 0) {
        rank->asked_since = board_now();
    } else if (board_now() - rank->asked_since > HANG_PATIENCE && !rank->told_hang) {
        rank->told_hang = true;
        fprintf(stderr, "process %u.%u: %u operations, %u requests, kept messages %d\n",
                rank->index, rank->gen, rank->ops, rank->recvs, rank_recv_holds(rank));
        for (i = 0; i < rank->board->ranks; i++) {
            fprintf(stderr,
                    "  to %u.%u: endpoint %d failed %d operations %u sent %lu, "
                    "received %lu\n",
                    i, rank->peer[i].gen, rank->peer[i].ep != NULL, rank->peer[i].failed,
                    rank->peer[i].ops, (unsigned long)rank->own->peer[i].sent,
                    (unsigned long)rank->own->peer[i].received);
        }
        holds_report();
    }
}

/* The board asks for quiet. First the process stops sending. When all processes have stopped and
 * every message has arrived, it reports its resources. */
static void become_quiet(struct rank *rank)
{
    uint32_t pause = board_get(&rank->board->pause);

    rank->quiet = pause != 0;
    if (pause == 0 || rank->own->sampled == pause) {
        rank->asked_since = 0;
        return;
    }
    report_hang(rank);
    if (rank->own->paused != pause) {
        if (rank->ops == 0) {
            board_set(&rank->own->paused, pause);
        }
    } else if (rank_is_quiet(rank)) {
        rank->quiet_since = rank->quiet_since == 0 ? board_now() : rank->quiet_since;
        holds_read(&rank->own->holds, living_peers(rank), rank->ops + rank->recvs);
        /* Completions may still be in flight, and mappings end only when the kernel has finished
         * the dead process */
        if (holds_nothing(&rank->own->holds) || board_now() - rank->quiet_since > HOLD_PATIENCE) {
            rank->quiet_since = 0;
            board_set(&rank->own->sampled, pause);
        }
    }
}

void rank_step(struct rank *rank)
{
    rank->steps++;
    look_at_board(rank);
    become_quiet(rank);
    if (!rank->quiet) {
        rank_send_something(rank);
    }
    rank_recv_step(rank);
    progress(rank);
}

void rank_run(struct rank *rank, uint64_t bytes)
{
    while (!board_get(&rank->board->stop) && (bytes == 0 || rank->own->checked < bytes)) {
        rank_step(rank);
    }
}

void rank_close(struct rank *rank)
{
    unsigned i, steps;

    rank->ending = true;
    rank->quiet = true;
    for (i = 0; i < rank->board->ranks; i++) {
        if (rank->peer[i].ep != NULL) {
            disconnect_peer(rank, &rank->peer[i], rank->peer[i].failed);
        }
    }
    for (steps = 0; (rank->recvs > 0 || rank->ops > 0) && steps < FLUSH_STEPS; steps++) {
        rank_recv_step(rank);
        progress(rank);
    }
    if (rank->recvs > 0 || rank->ops > 0) {
        board_problem(rank->board, rank->index, "%u operations and %u requests never ended",
                      rank->ops, rank->recvs);
    }
    rank_recv_close(rank);
    for (i = 0; i < BOARD_WINDOWS; i++) {
        ucp_mem_unmap(rank->context, rank->window[i]);
    }
    ucp_worker_destroy(rank->worker);
    free(rank->tag_data);
    ucp_cleanup(rank->context);
}
