/*
 * Client and server of a measurement connect and agree on the next run, by messages of the NIC:
 *
 *     client                       server
 *     HELLO half, its memory   ->            registers memory of that size
 *                              <-  WELCOME   its memory
 *     RUN kind, size, count    ->            clears the destination of the data
 *                              <-  READY
 *       ... the run itself, perf_run.c ...
 *     CHECK                    ->            compares the arrived data with the expected data
 *                              <-  DONE      right or not
 *     BYE                      ->
 *
 * Client and server sleep between runs.
 */
#include "perf.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define PERF_PROTOCOL 0x67706632 /* "gpf2" */

/* How long a wait sleeps before it looks whether the peer still lives. */
#define CONTROL_WAIT_MS    1000
#define CONTROL_WAIT_LIMIT 20 /* number of such waits for an answer */

/* Limits for requests of a client to a server. */
#define MAX_HALF  (1ull << 31) /* offsets of a region are 32 bits */
#define MAX_COUNT 100000000u

enum message_type { HELLO = 1, WELCOME, RUN, READY, CHECK, DONE, BYE };

struct message {
    uint32_t protocol;
    uint32_t type;
    union {
        struct {
            uint64_t half;
            struct perf_memory memory;
        } hello;             /* and welcome */
        struct perf_run run; /* and check */
        uint32_t right;
    };
};

_Static_assert(sizeof(struct message) <= 112, "a control message fits an MP");

static bool send_control(struct perf_session *s, enum message_type type, struct message *msg)
{
    msg->protocol = PERF_PROTOCOL;
    msg->type = type;
    return perf_send(s, msg, sizeof(*msg));
}

/* The other side of a wait that may be long. */
static bool peer_lives(struct perf_session *s)
{
    if (s->peer.v != 0) {
        return glex_ext_check_peer(s->ep, s->peer, 0, 0) == GLEX_SUCCESS;
    }
    return s->parent == 0 || getppid() == s->parent;
}

/* Takes a message of the protocol from the peer; without a peer, from any process. */
static bool take_control(struct perf_session *s, glex_ep_addr_t src, const void *data, uint32_t len,
                         struct message *msg)
{
    if (len != sizeof(*msg) || (s->peer.v != 0 && src.v != s->peer.v)) {
        tool_error("passed over a message of endpoint %u that is not part of this", src.ep_num);
        return false;
    }
    memcpy(msg, data, sizeof(*msg));
    if (msg->protocol != PERF_PROTOCOL) {
        tool_error("passed over a message of endpoint %u, no glex_perf of this version",
                   src.ep_num);
        return false;
    }
    return true;
}

/* Waits `limit` times CONTROL_WAIT_MS; for ever where that is 0. */
static bool wait_control(struct perf_session *s, int limit, struct message *msg,
                         glex_ep_addr_t *src)
{
    int waited = 0;
    glex_ret_t ret;
    uint32_t len;
    void *data;
    bool taken;

    for (;;) {
        ret = glex_probe_first_mp(s->ep, CONTROL_WAIT_MS, src, &data, &len);
        if (perf_interrupted) {
            if (s->parent == 0) { /* otherwise the client has sent the signal, or prints the
                                   * message */
                tool_error("interrupted");
            }
            return false;
        }
        if (ret == GLEX_SUCCESS) {
            taken = take_control(s, *src, data, len, msg);
            glex_discard_probed_mp(s->ep);
            if (taken) {
                return true;
            }
        } else if (ret != GLEX_NO_MP && ret != GLEX_INTR) {
            tool_error("glex_probe_first_mp: %s", glex_error_str(ret));
            return false;
        } else if (!peer_lives(s)) {
            tool_error("the peer has gone");
            return false;
        } else if (limit != 0 && ++waited >= limit) {
            tool_error("no answer from endpoint %u of NIC %08x", s->peer.ep_num, s->peer.nic_id);
            return false;
        }
    }
}

static bool wait_answer(struct perf_session *s, enum message_type type, struct message *msg)
{
    glex_ep_addr_t src;

    if (!wait_control(s, CONTROL_WAIT_LIMIT, msg, &src)) {
        return false;
    }
    if (msg->type != type) {
        tool_error("the peer answered %u, not %u", msg->type, type);
        return false;
    }
    return true;
}

static bool create_ep(struct perf_session *s, uint32_t window)
{
    struct glex_ep_attr attr = {
        .type = GLEX_EP_TYPE_FAST, .num = GLEX_ANY_EP_NUM, .key = GLEX_EP_MAKE_KEY(0x7065)};
    glex_ret_t ret;

    ret = glex_create_ep(s->dev, &attr, &s->ep);
    if (ret == GLEX_NO_EP_RESOURCE) {
        attr.type = GLEX_EP_TYPE_NORMAL;
        ret = glex_create_ep(s->dev, &attr, &s->ep);
    }
    if (ret != GLEX_SUCCESS) {
        tool_error("cannot create an endpoint: %s", glex_error_str(ret));
        return false;
    }
    glex_ext_set_single_threaded(s->ep); /* measure the NIC without the lock, as the transport uses
                                          * it */
    glex_query_ep(s->ep, &attr);
    s->window = window;
    s->mine.key = attr.key;
    /* both queues must hold a window and the control messages beside it */
    if (window > attr.mpq_capacity / 2 || window > attr.eq_capacity / 2) {
        tool_error("a window of %u is too large for queues of %u and %u", window, attr.mpq_capacity,
                   attr.eq_capacity);
        glex_destroy_ep(s->ep);
        return false;
    }
    return true;
}

/* Returns whether client and server run on one processor. Separately started programs know this
 * only if the machine has a single processor. */
static bool shares_processor(const struct perf_options *options)
{
    bool told = options->pin || !(options->server || options->connect);

    return options->cpus[1] == -1 && (told || sysconf(_SC_NPROCESSORS_ONLN) == 1);
}

bool perf_session_open(struct perf_session *s, const struct perf_options *options,
                       enum perf_side side)
{
    glex_ret_t ret;

    memset(s, 0, sizeof(*s));
    s->side = side;
    s->yield = shares_processor(options);
    ret = glex_open_device(options->device, &s->dev);
    if (ret != GLEX_SUCCESS) {
        tool_error("cannot open device %u: %s", options->device, glex_error_str(ret));
        return false;
    }
    ret = glex_query_device(s->dev, &s->attr);
    if (ret == GLEX_SUCCESS) {
        ret = glex_ext_query_device(s->dev, &s->ext);
    }
    if (ret != GLEX_SUCCESS || !create_ep(s, options->window)) {
        if (ret != GLEX_SUCCESS) {
            tool_error("cannot query device %u: %s", options->device, glex_error_str(ret));
        }
        glex_close_device(s->dev);
        return false;
    }
    glex_get_ep_addr(s->ep, &s->self);
    return true;
}

void perf_session_close(struct perf_session *s)
{
    glex_ext_unpin(s->lines_pin);
    perf_memory_close(s);
    glex_destroy_ep(s->ep);
    glex_close_device(s->dev);
}

bool perf_session_connect(struct perf_session *s, glex_ep_addr_t server, uint64_t half)
{
    struct message msg = {0};

    s->peer = server;
    s->half = half;
    if (glex_ext_check_peer(s->ep, server, 0, 0) != GLEX_SUCCESS) {
        tool_error("there is no endpoint %u on NIC %08x of this fabric", server.ep_num,
                   server.nic_id);
        return false;
    }
    if (!perf_memory_open(s)) {
        return false;
    }
    msg.hello.half = half;
    msg.hello.memory = s->mine;
    if (!send_control(s, HELLO, &msg) || !wait_answer(s, WELCOME, &msg)) {
        return false;
    }
    s->theirs = msg.hello.memory;
    if (perf_region_missing(s, PERF_REGION_LINES) == NULL && !perf_handover_map(s)) {
        s->mine.present &= ~(1u << PERF_REGION_LINES); /* no floor, then */
    }
    return true;
}

bool perf_session_begin(struct perf_session *s, const struct perf_run *run)
{
    struct message msg = {.run = *run};

    msg.run.is_far = s->lines == NULL;
    perf_memory_clear(s, run);
    s->mp_right = false;
    return send_control(s, RUN, &msg) && wait_answer(s, READY, &msg);
}

/* Whether this process received the right data, if it received data. */
static bool received_right(const struct perf_session *s, const struct perf_run *run)
{
    switch (perf_kinds[run->kind].op) {
    case PERF_OP_MP:
        return s->mp_right || (s->side == PERF_CLIENT && run->pattern == PERF_STREAM);
    case PERF_OP_GET:
        return s->side == PERF_SERVER || perf_memory_right(s, run);
    default:
        return (s->side == PERF_CLIENT && run->pattern == PERF_STREAM) || perf_memory_right(s, run);
    }
}

bool perf_session_check(struct perf_session *s, const struct perf_run *run)
{
    const struct perf_kind *kind = &perf_kinds[run->kind];
    struct message msg = {.run = *run};

    if (!send_control(s, CHECK, &msg) || !wait_answer(s, DONE, &msg)) {
        return false;
    }
    if (!msg.right || !received_right(s, run)) {
        tool_error("wrong data: %s, memory %s, %u bytes, at the %s", kind->name, kind->memory,
                   run->size, msg.right ? "client" : "server");
        return false;
    }
    return true;
}

void perf_session_bye(struct perf_session *s)
{
    struct message msg = {0};

    send_control(s, BYE, &msg);
}

/* ---- the server ---- */

static bool serve_hello(struct perf_session *s, glex_ep_addr_t src, struct message *msg)
{
    if (s->peer.v != 0 || msg->hello.half == 0 || msg->hello.half > MAX_HALF) {
        tool_error("a client asks for %" PRIu64 " bytes of memory", msg->hello.half);
        return false;
    }
    s->peer = src;
    s->half = msg->hello.half;
    s->theirs = msg->hello.memory;
    if (!perf_memory_open(s)) {
        return false;
    }
    msg->hello.memory = s->mine;
    return send_control(s, WELCOME, msg);
}

static bool valid_run(const struct perf_session *s, const struct perf_run *run)
{
    const char *missing;

    if (run->kind >= PERF_NUM_KINDS || run->pattern >= PERF_NUM_PATTERNS ||
        run->count > MAX_COUNT || run->window == 0 || run->window > s->window ||
        !perf_kind_fits(s, run->kind, run->size)) {
        tool_error("the client asks for what cannot be done: see that both have the same version "
                   "and --window");
        return false;
    }
    missing = (run->pattern == PERF_HANDOVER) ? perf_region_missing(s, PERF_REGION_LINES) :
                                                perf_kind_missing(s, run->kind);
    if (missing != NULL) {
        tool_error("the client asks for what is not here: %s", missing);
    }
    return missing == NULL;
}

static bool serve_one(struct perf_session *s, struct message *msg)
{
    struct perf_run run = msg->run;

    switch (msg->type) {
    case RUN:
        if (!valid_run(s, &run)) {
            return false;
        }
        perf_memory_clear(s, &run);
        s->mp_right = false;
        return send_control(s, READY, msg) && perf_run_server(s, &run);
    case CHECK:
        if (!valid_run(s, &run)) {
            return false;
        }
        msg->right = received_right(s, &run);
        return send_control(s, DONE, msg);
    default:
        tool_error("the client says %u, which is not part of the protocol", msg->type);
        return false;
    }
}

bool perf_serve(struct perf_session *s)
{
    glex_ep_addr_t src;
    struct message msg;

    if (!wait_control(s, 0, &msg, &src)) {
        return false;
    }
    if (msg.type != HELLO || !serve_hello(s, src, &msg)) {
        return false;
    }
    for (;;) {
        if (!wait_control(s, 0, &msg, &src)) {
            return false;
        }
        if (msg.type == BYE) {
            return true;
        }
        if (!serve_one(s, &msg)) {
            return false;
        }
    }
}
