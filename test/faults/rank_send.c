#include "rank.h"

#include <stdlib.h>
#include <string.h>

/* An operation in flight: a message, or a put, a flush and a get of the same bytes */
struct op {
    struct rank_peer *peer;
    uint32_t gen;
    void (*next)(struct op *op); /* the next step; NULL: this step is the last */
    struct rank_message message;
    unsigned window;
    uint64_t offset, seed;
    char *data;
};

static struct op *op_new(struct rank_peer *peer, size_t length)
{
    struct op *op = calloc(1, sizeof(*op));

    if (op == NULL || (op->data = malloc(length > 0 ? length : 1)) == NULL) {
        fail("no memory for an operation");
    }
    op->peer = peer;
    op->gen = peer->gen;
    op->message.length = (uint32_t)length;
    peer->ops++;
    peer->rank->ops++;
    return op;
}

static void op_free(struct op *op)
{
    struct rank_peer *peer = op->peer;

    peer->rank->ops--;
    if (peer->gen == op->gen) {
        peer->ops--;
    }
    free(op->data);
    free(op);
}

/* A step has ended. Only an operation to a dead process may fail. */
static void op_ended(struct op *op, ucs_status_t status)
{
    struct rank_peer *peer = op->peer;
    struct rank *rank = peer->rank;

    if (status != UCS_OK && !rank->ending && !rank_was_killed(rank, peer->index, op->gen)) {
        board_problem(rank->board, rank->index, "an operation to the living process %u.%u: %s",
                      peer->index, op->gen, ucs_status_string(status));
    }
    if (status == UCS_OK && op->next != NULL && !peer->failed && peer->gen == op->gen) {
        op->next(op);
        return;
    }
    if (op->seed != 0 && peer->gen == op->gen) {
        peer->rma_busy = false;
    }
    op_free(op);
}

static void op_callback(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    op_ended(user_data, status);
}

static ucp_request_param_t op_param(struct op *op)
{
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = op_callback,
                                 .user_data = op};

    return param;
}

static void op_posted(struct op *op, ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        op_ended(op, UCS_PTR_STATUS(request));
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Covers each UCT protocol: short, buffered copy, zero copy, and a rendezvous */
static size_t random_length(struct rank *rank)
{
    switch (rank_random(rank, 8)) {
    case 0:
    case 1:
    case 2:
        return rank_random(rank, 64);
    case 3:
    case 4:
        return rank_random(rank, 3000);
    case 5:
    case 6:
        return 3000 + rank_random(rank, 30000);
    default:
        return 40000 + rank_random(rank, RANK_MAX_MESSAGE - 40000 - sizeof(struct rank_message));
    }
}

/* No tagged message in several pieces: where the sender dies between two, UCP's receive, which has
 * matched the first, never ends. Either one piece, however small pieces are, or a rendezvous. */
static size_t random_tag_length(struct rank *rank)
{
    return rank_random(rank, 4) > 0 ? rank_random(rank, 700) :
                                      40000 + rank_random(rank, RANK_MAX_MESSAGE - 50000);
}

static void send_message(struct rank_peer *peer, enum rank_stream stream)
{
    struct rank *rank = peer->rank;
    size_t length = stream == RANK_AM ? random_length(rank) : random_tag_length(rank);
    struct op *op = op_new(peer, length + sizeof(op->message));
    ucp_request_param_t param = op_param(op);

    op->message.src = rank->index;
    op->message.gen = rank->gen;
    op->message.seq = peer->seq[stream]++;
    memcpy(op->data, &op->message, sizeof(op->message));
    pattern_fill(op->data + sizeof(op->message), op->message.length - sizeof(op->message),
                 pattern_seed(&op->message));
    rank->own->peer[peer->index].sent++;
    if (stream == RANK_AM) {
        op_posted(op, ucp_am_send_nbx(peer->ep, RANK_AM, &op->message, sizeof(op->message),
                                      op->data, op->message.length, &param));
    } else {
        op_posted(op,
                  ucp_tag_send_nbx(peer->ep, op->data, op->message.length, rank->index, &param));
    }
}

/* ---- put, flush, get: the get must return the put's data ------------------------------------- */

static uint64_t remote_address(const struct op *op)
{
    struct rank *rank = op->peer->rank;

    return rank->board->slot[op->peer->index].window[op->window] +
           (uint64_t)rank->index * BOARD_REGION + op->offset;
}

static void check_got(struct op *op)
{
    struct rank *rank = op->peer->rank;
    long wrong = pattern_check(op->data, op->message.length, op->seed);

    if (wrong >= 0) {
        board_problem(rank->board, rank->index, "byte %ld of %u put to %u.%u was not got back",
                      wrong, op->message.length, op->peer->index, op->gen);
    }
    rank->own->checked += op->message.length;
    op->next = NULL;
    op_ended(op, UCS_OK);
}

static void get_back(struct op *op)
{
    ucp_request_param_t param = op_param(op);

    op->next = check_got;
    memset(op->data, 0, op->message.length);
    op_posted(op, ucp_get_nbx(op->peer->ep, op->data, op->message.length, remote_address(op),
                              op->peer->rkey[op->window], &param));
}

static void flush_put(struct op *op)
{
    ucp_request_param_t param = op_param(op);

    op->next = get_back;
    op_posted(op, ucp_ep_flush_nbx(op->peer->ep, &param));
}

static void put_and_get(struct rank_peer *peer)
{
    struct rank *rank = peer->rank;
    struct op *op = op_new(peer, rank_random(rank, 4) == 0 ? 1 + rank_random(rank, 60000) :
                                                             1 + rank_random(rank, 2000));
    ucp_request_param_t param = op_param(op);

    peer->rma_busy = true;
    op->next = flush_put;
    op->window = rank_random(rank, BOARD_WINDOWS);
    op->offset = rank_random(rank, BOARD_REGION - op->message.length);
    op->seed = 1 + rank_random(rank, 1u << 30);
    pattern_fill(op->data, op->message.length, op->seed);
    op_posted(op, ucp_put_nbx(peer->ep, op->data, op->message.length, remote_address(op),
                              peer->rkey[op->window], &param));
}

void rank_send_something(struct rank *rank)
{
    struct rank_peer *peer = &rank->peer[rank_random(rank, rank->board->ranks)];
    unsigned what = rank_random(rank, 8);

    if (peer->ep == NULL || peer->failed || rank->ops >= RANK_MAX_OPS ||
        peer->ops >= RANK_PEER_OPS) {
        return;
    }
    if (what == 0 && !peer->rma_busy) {
        put_and_get(peer);
    } else {
        send_message(peer, what < 6 ? RANK_AM : RANK_TAG);
    }
}
