/*
 * The runs: the timed operations.
 *
 * Latency: the client sends an operation and waits for the same operation from the server. The time
 * of an operation is half of this time. A get needs no answer: its time is the whole time.
 *
 * Stream: the client keeps a window of operations in flight. Operations that take a place in the
 * server's queues (messages, immediate puts with their event) are limited by credits, which the
 * server returns by message. Puts and gets are limited by their own completion events.
 */
#include "perf.h"

#include <string.h>

/* The requests of a run, made once. */
struct posts {
    enum perf_op op;
    glex_imm_mp_req_t mp;
    glex_imm_rdma_req_t imm;
    glex_rdma_req_t rdma;
};

static void make_posts(const struct perf_session *s, const struct perf_run *run, struct posts *p)
{
    const struct perf_kind *kind = &perf_kinds[run->kind];
    uint32_t half = (uint32_t)perf_memory_half(s, kind->region);

    memset(p, 0, sizeof(*p));
    p->op = kind->op;
    p->mp.rmt_ep_addr = s->peer;
    p->mp.data = perf_memory_source(s, run);
    p->mp.len = run->size;

    p->imm.rmt_ep_addr = s->peer;
    p->imm.data = perf_memory_source(s, run);
    p->imm.len = run->size;
    p->imm.rmt_mh = s->theirs.mh[kind->region];
    p->imm.rmt_offset = half;
    p->imm.rmt_key = s->theirs.key;
    p->imm.flag = GLEX_FLAG_REMOTE_EVT;
    p->imm.rmt_evt.cookie_1 = 1;

    p->rdma.rmt_ep_addr = s->peer;
    p->rdma.local_mh = s->mine.mh[kind->region];
    p->rdma.rmt_mh = s->theirs.mh[kind->region];
    p->rdma.rmt_key = s->theirs.key;
    p->rdma.len = run->size;
    p->rdma.local_evt.cookie_1 = 1;
    p->rdma.rmt_evt.cookie_1 = 1;
    if (kind->op == PERF_OP_GET) {
        p->rdma.type = GLEX_RDMA_TYPE_GET;
        p->rdma.local_offset = half; /* from the peer's first half into our second */
    } else {
        p->rdma.type = GLEX_RDMA_TYPE_PUT;
        p->rdma.rmt_offset = half;
    }
    p->rdma.flag = (kind->op == PERF_OP_PUT && run->pattern == PERF_LATENCY) ?
                       GLEX_FLAG_REMOTE_EVT :
                       GLEX_FLAG_LOCAL_EVT;
}

static inline glex_ret_t post_once(struct perf_session *s, struct posts *p)
{
    switch (p->op) {
    case PERF_OP_MP:
        return glex_send_imm_mp(s->ep, &p->mp, NULL);
    case PERF_OP_IMM_PUT:
        return glex_imm_rdma(s->ep, &p->imm, NULL);
    default:
        return glex_rdma(s->ep, &p->rdma, NULL);
    }
}

static inline bool post(struct perf_session *s, struct posts *p)
{
    struct perf_wait wait = {0};
    glex_ret_t ret;

    while ((ret = post_once(s, p)) == GLEX_BUSY) {
        if (!perf_wait_more(s, &wait)) {
            return false;
        }
    }
    if (ret != GLEX_SUCCESS) {
        tool_error("the NIC does not take the request: %s", glex_error_str(ret));
    }
    return ret == GLEX_SUCCESS;
}

static void look_at_mp(struct perf_session *s, const struct perf_run *run, const void *data,
                       uint32_t len)
{
    enum perf_side from = (s->side == PERF_CLIENT) ? PERF_SERVER : PERF_CLIENT;

    s->mp_right = (len == run->size && perf_data_right(from, data, len));
}

/*
 * Takes the messages that have arrived, at least one and at most `max`. With `last`, the message
 * number `max` is the last message of the run, and its data is compared.
 */
static inline bool take_mps(struct perf_session *s, const struct perf_run *run, uint32_t max,
                            bool last, uint32_t *num_p)
{
    uint32_t num = 1, len;
    glex_ep_addr_t src;
    void *data;

    if (!perf_wait_mp(s, &data, &len)) {
        return false;
    }
    while (num < max && glex_probe_next_mp(s->ep, &src, &data, &len) == GLEX_SUCCESS) {
        num++;
    }
    if (last && num == max) {
        look_at_mp(s, run, data, len);
    }
    glex_discard_probed_mp(s->ep);
    *num_p = num;
    return true;
}

static inline bool take_events(struct perf_session *s, uint32_t max, uint32_t *num_p)
{
    glex_event_t *event;
    uint32_t num = 1;

    if (!perf_wait_event(s, &event)) {
        return false;
    }
    while (num < max && glex_probe_next_event(s->ep, &event) == GLEX_SUCCESS) {
        num++;
    }
    glex_discard_probed_event(s->ep);
    *num_p = num;
    return true;
}

static inline bool take(struct perf_session *s, const struct perf_run *run, enum perf_op op,
                        uint32_t max, bool last, uint32_t *num_p)
{
    return (op == PERF_OP_MP) ? take_mps(s, run, max, last, num_p) : take_events(s, max, num_p);
}

static bool latency_client(struct perf_session *s, const struct perf_run *run, struct posts *p)
{
    uint32_t i, num;

    for (i = 0; i < run->count; i++) {
        if (!post(s, p) || !take(s, run, p->op, 1, i == run->count - 1, &num)) {
            return false;
        }
    }
    return true;
}

static bool latency_server(struct perf_session *s, const struct perf_run *run, struct posts *p)
{
    uint32_t i, num;

    for (i = 0; i < run->count; i++) {
        if (!take(s, run, p->op, 1, i == run->count - 1, &num) || !post(s, p)) {
            return false;
        }
    }
    return true;
}

static bool take_credits(struct perf_session *s, uint32_t window, uint32_t *credits_p)
{
    uint32_t len, credits;
    void *data;

    if (!perf_wait_mp(s, &data, &len)) {
        return false;
    }
    if (len != sizeof(credits)) {
        tool_error("%u bytes are no credits", len);
        return false;
    }
    memcpy(&credits, data, sizeof(credits));
    glex_discard_probed_mp(s->ep);
    if (credits > window - *credits_p) {
        tool_error("%u credits of a window of %u", credits, window);
        return false;
    }
    *credits_p += credits;
    return true;
}

/* Ends when all credits have returned. By then the server has taken all messages. */
static bool credit_stream_client(struct perf_session *s, const struct perf_run *run,
                                 struct posts *p)
{
    uint32_t credits = run->window, i;

    for (i = 0; i < run->count; i++) {
        while (credits == 0) {
            if (!take_credits(s, run->window, &credits)) {
                return false;
            }
        }
        if (!post(s, p)) {
            return false;
        }
        credits--;
    }
    while (credits < run->window) {
        if (!take_credits(s, run->window, &credits)) {
            return false;
        }
    }
    return true;
}

static bool credit_stream_server(struct perf_session *s, const struct perf_run *run,
                                 enum perf_op op)
{
    uint32_t done = 0, unreturned = 0, num, left;

    while (done < run->count) {
        left = run->count - done;
        if (!take(s, run, op, left < run->window ? left : run->window, left <= run->window, &num)) {
            return false;
        }
        done += num;
        unreturned += num;
        if (unreturned >= (run->window + 1) / 2 || done == run->count) {
            if (!perf_send(s, &unreturned, sizeof(unreturned))) {
                return false;
            }
            unreturned = 0;
        }
    }
    return true;
}

static bool rdma_stream_client(struct perf_session *s, const struct perf_run *run, struct posts *p)
{
    uint32_t posted = 0, done = 0, num;

    while (done < run->count) {
        while (posted < run->count && posted - done < run->window) {
            if (!post(s, p)) {
                return false;
            }
            posted++;
        }
        if (!take_events(s, posted - done, &num)) {
            return false;
        }
        done += num;
    }
    return true;
}

static bool has_credits(enum perf_op op)
{
    return op == PERF_OP_MP || op == PERF_OP_IMM_PUT;
}

bool perf_run_client(struct perf_session *s, const struct perf_run *run, double *seconds_p)
{
    struct posts p;
    double start;
    bool ok;

    make_posts(s, run, &p);
    start = perf_now();
    if (run->pattern == PERF_HANDOVER) {
        ok = perf_handover_client(s, run);
    } else if (run->pattern == PERF_LATENCY) {
        ok = latency_client(s, run, &p);
    } else if (has_credits(p.op)) {
        ok = credit_stream_client(s, run, &p);
    } else {
        ok = rdma_stream_client(s, run, &p);
    }
    *seconds_p = perf_now() - start;
    return ok;
}

/* Serves puts and gets. The NIC executes them alone; between hosts this process executes them when
 * it polls. The client's next message ends the service, and stays in the queue for the caller. */
static bool attend(struct perf_session *s, const struct perf_run *run)
{
    uint32_t len;
    void *data;

    return !run->is_far || perf_wait_mp(s, &data, &len);
}

bool perf_run_server(struct perf_session *s, const struct perf_run *run)
{
    struct posts p;

    if (run->pattern == PERF_HANDOVER) {
        return perf_handover_server(s, run);
    }
    make_posts(s, run, &p);
    if (p.op == PERF_OP_GET || (p.op == PERF_OP_PUT && run->pattern == PERF_STREAM)) {
        return attend(s, run); /* one-sided: this side is not asked */
    }
    return (run->pattern == PERF_LATENCY) ? latency_server(s, run, &p) :
                                            credit_stream_server(s, run, p.op);
}
