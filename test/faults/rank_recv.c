#include "rank.h"

#include <stdlib.h>
#include <string.h>

/* ---- checks of messages ---------------------------------------------------------------------- */

/* Messages of a process arrive in order over all protocols. False: the message is invalid. */
static bool check_header(struct rank *rank, const struct rank_message *message, size_t length,
                         enum rank_stream stream)
{
    struct rank_peer *peer;

    if (message->src >= rank->board->ranks || message->length != length ||
        length < sizeof(*message)) {
        board_problem(rank->board, rank->index, "a message of %zu bytes that nobody has sent",
                      length);
        return false;
    }
    peer = &rank->peer[message->src];
    if (message->gen < peer->from) {
        return true; /* of a dead one: it came late */
    }
    if (message->gen > peer->from) {
        peer->from = message->gen;
        memset(peer->next, 0, sizeof(peer->next));
        rank->own->peer[message->src].received = 0;
    }
    /* The last messages of a killed peer may still arrive, with gaps: failed rendezvous */
    if (message->seq != peer->next[stream] && !rank_was_killed(rank, message->src, message->gen)) {
        board_problem(rank->board, rank->index, "%s %u of %u.%u came where %u was to come",
                      stream == RANK_AM ? "active message" : "tagged message", message->seq,
                      message->src, message->gen, peer->next[stream]);
    }
    peer->next[stream] = message->seq + 1;
    return true;
}

static void check_data(struct rank *rank, const struct rank_message *message, const char *data)
{
    long wrong = pattern_check(data + sizeof(*message), message->length - sizeof(*message),
                               pattern_seed(message));

    if (memcmp(data, message, sizeof(*message)) != 0 || wrong >= 0) {
        board_problem(rank->board, rank->index, "byte %ld of message %u of %u.%u (%u bytes)", wrong,
                      message->seq, message->src, message->gen, message->length);
    }
    rank->own->checked += message->length;
    if (message->gen == rank->peer[message->src].from) {
        rank->own->peer[message->src].received++;
    }
}

/* The rest of a message did not come: only that of a dead process may */
static void check_failure(struct rank *rank, const struct rank_message *message,
                          ucs_status_t status)
{
    if (!rank->ending && !rank_was_killed(rank, message->src, message->gen)) {
        board_problem(rank->board, rank->index, "message %u of the living process %u.%u: %s",
                      message->seq, message->src, message->gen, ucs_status_string(status));
    }
}

/* ---- active messages ------------------------------------------------------------------------- */

/* Data of a rendezvous in flight */
struct fetch {
    struct rank *rank;
    struct rank_message message;
    char *data;
};

static void fetch_ended(struct fetch *fetch, ucs_status_t status)
{
    if (status == UCS_OK) {
        check_data(fetch->rank, &fetch->message, fetch->data);
    } else {
        check_failure(fetch->rank, &fetch->message, status);
    }
    fetch->rank->recvs--;
    free(fetch->data);
    free(fetch);
}

static void fetch_callback(void *request, ucs_status_t status, size_t length, void *user_data)
{
    (void)length;
    ucp_request_free(request);
    fetch_ended(user_data, status);
}

static void fetch_data(struct rank *rank, const struct rank_message *message, void *desc)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv_am = fetch_callback,
                                 .user_data = fetch};
    ucs_status_ptr_t request;

    if (fetch == NULL || (fetch->data = malloc(message->length)) == NULL) {
        fail("no memory to receive %u bytes", message->length);
    }
    fetch->rank = rank;
    fetch->message = *message;
    rank->recvs++;
    request = ucp_am_recv_data_nbx(rank->worker, desc, fetch->data, message->length, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        fetch_ended(fetch, UCS_PTR_STATUS(request));
    }
}

static bool hold(struct rank *rank, const struct rank_message *message, void *data, bool rndv)
{
    unsigned i;

    for (i = 0; i < RANK_MAX_HELD; i++) {
        if (rank->held[i].data == NULL) {
            rank->held[i] = (struct rank_held){.data = data,
                                               .message = *message,
                                               .rndv = rndv,
                                               .patience = rank_random(rank, 20000)};
            rank->own->held++;
            return true;
        }
    }
    return false;
}

static ucs_status_t am_callback(void *arg, const void *header, size_t header_length, void *data,
                                size_t length, const ucp_am_recv_param_t *param)
{
    bool rndv = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    struct rank_message message;
    struct rank *rank = arg;

    if (header_length != sizeof(message)) {
        board_problem(rank->board, rank->index, "an active message's header of %zu bytes",
                      header_length);
        return UCS_OK;
    }
    memcpy(&message, header, sizeof(message));
    if (!check_header(rank, &message, length, RANK_AM)) {
        return UCS_OK;
    }
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA || rndv) && !rank->quiet &&
        rank_random(rank, 16) == 0 && hold(rank, &message, data, rndv)) {
        return UCS_INPROGRESS;
    }
    if (rndv) {
        fetch_data(rank, &message, data);
        return UCS_INPROGRESS;
    }
    check_data(rank, &message, data);
    return UCS_OK;
}

void rank_recv_step(struct rank *rank)
{
    struct rank_held *held = &rank->held[rank->steps % RANK_MAX_HELD];

    if (held->data == NULL || (held->patience-- > 0 && !rank->quiet)) {
        return;
    }
    if (held->rndv) {
        fetch_data(rank, &held->message, held->data);
    } else {
        check_data(rank, &held->message, held->data);
        ucp_am_data_release(rank->worker, held->data);
    }
    held->data = NULL;
}

bool rank_recv_holds(const struct rank *rank)
{
    unsigned i;

    for (i = 0; i < RANK_MAX_HELD; i++) {
        if (rank->held[i].data != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- tags ------------------------------------------------------------------------------------ */

static void post_tag_recv(struct rank *rank);

/* UCP does not name the sender of a message that failed */
static void check_tag_failure(struct rank *rank, ucs_status_t status)
{
    bool killed = false;
    unsigned i;

    for (i = 0; i < rank->board->ranks; i++) {
        killed |= rank_was_killed(rank, i, 1);
    }
    if (!killed) {
        board_problem(rank->board, rank->index, "a tagged message while all live: %s",
                      ucs_status_string(status));
    }
}

static void tag_callback(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                         void *user_data)
{
    struct rank_message message;
    struct rank *rank = user_data;

    ucp_request_free(request);
    rank->tag_request = NULL;
    if (rank->ending) {
        return;
    }
    memcpy(&message, rank->tag_data, sizeof(message));
    if (status != UCS_OK) {
        check_tag_failure(rank, status);
    } else if (check_header(rank, &message, info->length, RANK_TAG)) {
        check_data(rank, &message, rank->tag_data);
    }
    post_tag_recv(rank);
}

static void post_tag_recv(struct rank *rank)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = tag_callback,
                                 .user_data = rank};

    rank->tag_request =
        ucp_tag_recv_nbx(rank->worker, rank->tag_data, RANK_MAX_MESSAGE, 0, 0, &param);
    if (!UCS_PTR_IS_PTR(rank->tag_request)) {
        fail("ucp_tag_recv_nbx: %s", ucs_status_string(UCS_PTR_STATUS(rank->tag_request)));
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void rank_recv_open(struct rank *rank)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = RANK_AM,
        .flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA,
        .cb = am_callback,
        .arg = rank};

    if (ucp_worker_set_am_recv_handler(rank->worker, &param) != UCS_OK) {
        fail("no handler for active messages");
    }
    rank->tag_data = malloc(RANK_MAX_MESSAGE);
    if (rank->tag_data == NULL) {
        fail("no memory to receive");
    }
    post_tag_recv(rank);
}

void rank_recv_close(struct rank *rank)
{
    if (rank->tag_request != NULL) {
        ucp_request_cancel(rank->worker, rank->tag_request);
    }
}
