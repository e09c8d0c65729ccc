/*
 * A tour of the interface: each kind of request, and each function except those that compose data
 * for collectives.
 *
 *   tutorial DIRECTORY RANK SIZE [THREADS]
 *
 * The ranks form a ring. The next rank is the right neighbour, and the previous rank is the left
 * neighbour. An endpoint sends to the right and receives from the left. With THREADS a process has
 * several endpoints, and a thread for each endpoint.
 *
 * An endpoint registers three segments of memory. Peers may read and write the first segment, and
 * only read the second segment. The third segment is for the endpoint's own requests. A message or
 * event of a later step may come early, so an endpoint counts messages and events by their step.
 */
#include "job.h"

#define SEG_LEN 70001 /* a length and offsets of no alignment */
#define GUARD   0xee
#define OTHER   0xdd /* what lies around the data of puts */

/* Places in the segment that peers write, and in the segment that they read. */
#define IMM_AT     3
#define PUT_AT     1001
#define PUT_LEN    50003
#define GET_AT     517
#define GET_LEN    40009
#define REFUSED_AT 60000

enum step {
    STEP_IMM_MP = 1,
    STEP_CHAIN,
    STEP_FLAGS,
    STEP_IMM_RDMA,
    STEP_PUT_LOCAL,
    STEP_PUT_REMOTE,
    STEP_GET_LOCAL,
    STEP_GET_REMOTE,
    STEP_COLL,
    STEP_READY, /* the left neighbour has used the segment that goes */
    STEP_GONE,  /* the right neighbour has deregistered it */
    NUM_STEPS
};

#define CHAIN 5

/* An endpoint's data for its peers. */
struct card {
    glex_ep_addr_t addr;
    glex_mem_handle_t writable, readable;
    uint32_t key;
};

struct side {
    struct job *job;
    int thread;
    glex_ep_handle_t ep;
    uint8_t *writable, *readable, *result; /* a segment each */
    glex_mem_handle_t result_mh;
    struct card mine, left, right;
    int mps[NUM_STEPS], events[NUM_STEPS];
};

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            CLIENT_FAIL("rank %d, endpoint %d: not true: %s", side->job->rank, side->thread,       \
                        #condition);                                                               \
        }                                                                                          \
    } while (0)

static uint8_t pattern(const struct card *owner, int step, uint32_t i)
{
    return (uint8_t)(owner->addr.ep_num * 31u + owner->addr.nic_id * 7u + (uint32_t)step * 89 + i +
                     i / 239);
}

static void fill(uint8_t *data, const struct card *owner, int step, uint32_t len)
{
    uint32_t i;

    for (i = 0; i < len; i++) {
        data[i] = pattern(owner, step, i);
    }
}

static void check(const struct side *side, const uint8_t *data, const struct card *owner, int step,
                  uint32_t len)
{
    uint32_t i;

    for (i = 0; i < len; i++) {
        if (data[i] != pattern(owner, step, i)) {
            CLIENT_FAIL("rank %d, endpoint %d, step %d: byte %u of %u is %u, not %u",
                        side->job->rank, side->thread, step, i, len, data[i],
                        pattern(owner, step, i));
        }
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void set_mp(glex_imm_mp_req_t *req, glex_ep_addr_t to, uint8_t *data, uint32_t len, int flag)
{
    CLIENT_UNINITIALISED(req);
    req->rmt_ep_addr = to;
    req->data = data;
    req->len = len;
    req->flag = flag;
    req->next = NULL;
}

static void post_mp(struct side *side, glex_imm_mp_req_t *req)
{
    glex_ret_t ret;

    do {
        ret = glex_send_imm_mp(side->ep, req, &req);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_send_imm_mp");
}

/* A message is its step, and a pattern. */
static void take_mp(struct side *side, glex_ep_addr_t src, const uint8_t *data, uint32_t len)
{
    const struct card *owner;
    int step;

    EXPECT(len > 0 && data[0] > 0 && data[0] < NUM_STEPS);
    step = data[0];
    owner = step == STEP_COLL ? &side->mine : step == STEP_GONE ? &side->right : &side->left;
    EXPECT(src.v == owner->addr.v);
    check(side, data + 1, owner, step, len - 1);
    side->mps[step]++;
}

static uint32_t make_mp(const struct side *side, uint8_t *data, int step, uint32_t len)
{
    data[0] = (uint8_t)step;
    fill(data + 1, &side->mine, step, len - 1);
    return len;
}

/* Waits for `num` messages of a step. `copy`: glex_receive_mp() copies each message. Otherwise probes
 * read the messages in the queue. */
static void wait_mps(struct side *side, int step, int num, int copy)
{
    glex_ep_addr_t src;
    glex_ret_t ret;
    uint8_t copied[256];
    uint32_t len;
    void *data;

    while (side->mps[step] < num) {
        if (copy) {
            ret = glex_receive_mp(side->ep, CLIENT_WAIT_MS, &src, copied, &len);
            client_check(ret, "glex_receive_mp");
            take_mp(side, src, copied, len);
            continue;
        }
        client_check(client_probe(side->ep, &src, &data, &len), "glex_probe_first_mp");
        do {
            take_mp(side, src, data, len);
            ret = glex_probe_next_mp(side->ep, &src, &data, &len);
        } while (ret == GLEX_SUCCESS);
        EXPECT(ret == GLEX_NO_MP);
        CLIENT_CHECK(glex_discard_probed_mp(side->ep));
    }
    EXPECT(side->mps[step] == num);
}

static void use_messages(struct side *side)
{
    uint32_t max = side->job->attr.max_imm_mp_data_len, i;
    glex_imm_mp_req_t reqs[CHAIN], *bad = NULL;
    uint8_t data[CHAIN][256];

    EXPECT(max >= CHAIN && max < sizeof(data[0]));
    set_mp(reqs, side->right.addr, data[0], make_mp(side, data[0], STEP_IMM_MP, max), 0);
    post_mp(side, reqs);
    wait_mps(side, STEP_IMM_MP, 1, 1);

    for (i = 0; i < CHAIN; i++) {
        set_mp(&reqs[i], side->right.addr, data[i], make_mp(side, data[i], STEP_CHAIN, 1 + i), 0);
        reqs[i].next = i + 1 < CHAIN ? &reqs[i + 1] : NULL;
    }
    post_mp(side, reqs);
    wait_mps(side, STEP_CHAIN, CHAIN, 0);

    /* Flags that choose how a packet travels change nothing for programs. */
    set_mp(reqs, side->right.addr, data[0], make_mp(side, data[0], STEP_FLAGS, 9),
           GLEX_FLAG_LOCAL_INTR | GLEX_FLAG_REMOTE_INTR | GLEX_FLAG_NO_CONNECTION |
               GLEX_FLAG_ROUTE_ADAPTIVE);
    post_mp(side, reqs);
    wait_mps(side, STEP_FLAGS, 1, 0);

    /* One byte too many: nothing of the chain is sent, and `bad` names the request. */
    set_mp(reqs, side->right.addr, data[0], max + 1, 0);
    EXPECT(glex_send_imm_mp(side->ep, reqs, &bad) == GLEX_INVALID_PARAM && bad == reqs);
}

/* A sequence that waits for the control packet of the left neighbour, and sends to itself. */
static void use_coll(struct side *side)
{
    glex_imm_mp_req_t req;
    uint8_t data[8];

    make_mp(side, data, STEP_COLL, sizeof(data));
    client_coll_req(&req, side->mine.addr, data, sizeof(data), GLEX_FLAG_COLL_CP_DATA);
    client_coll_post(side->ep, &req, 1, 1);
    client_coll_req(&req, side->right.addr, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    post_mp(side, &req);
    wait_mps(side, STEP_COLL, 1, 0);
}

/* ---- RDMA ------------------------------------------------------------------------------------ */

static void set_event(glex_event_t *event, const struct side *side, int step)
{
    event->cookie_0 = side->mine.addr.v;
    event->cookie_1 = (uint64_t)step;
}

static void wait_event(struct side *side, int step)
{
    glex_event_t *event;
    glex_ret_t ret;
    uint64_t who;

    while (side->events[step] == 0) {
        ret = glex_probe_first_event(side->ep, CLIENT_WAIT_MS, &event);
        if (ret != GLEX_SUCCESS) {
            client_check_no_errors(side->ep);
        }
        client_check(ret, "glex_probe_first_event");
        do {
            EXPECT(event->cookie_1 > 0 && event->cookie_1 < NUM_STEPS);
            who = event->cookie_1 == STEP_PUT_LOCAL || event->cookie_1 == STEP_GET_LOCAL ?
                      side->mine.addr.v :
                      side->left.addr.v;
            EXPECT(event->cookie_0 == who);
            side->events[event->cookie_1]++;
            ret = glex_probe_next_event(side->ep, &event);
        } while (ret == GLEX_SUCCESS);
        EXPECT(ret == GLEX_NO_EVENT);
        CLIENT_CHECK(glex_discard_probed_event(side->ep));
    }
    EXPECT(side->events[step] == 1);
}

static void set_imm_rdma(struct side *side, glex_imm_rdma_req_t *req, uint8_t *data, uint32_t len)
{
    CLIENT_UNINITIALISED(req);
    req->rmt_ep_addr = side->right.addr;
    req->data = data;
    req->len = len;
    req->rmt_mh = side->right.writable;
    req->rmt_offset = IMM_AT;
    req->rmt_key = side->right.key;
    req->flag = 0;
    req->next = NULL;
}

static void post_imm_rdma(struct side *side, glex_imm_rdma_req_t *req)
{
    glex_ret_t ret;

    do {
        ret = glex_imm_rdma(side->ep, req, NULL);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_imm_rdma");
}

static void set_rdma(struct side *side, glex_rdma_req_t *req, enum glex_rdma_type type,
                     glex_mem_handle_t rmt_mh, uint32_t rmt_offset, uint32_t len)
{
    CLIENT_UNINITIALISED(req);
    req->rmt_ep_addr = side->right.addr;
    req->local_mh = side->result_mh;
    req->local_offset = rmt_offset;
    req->len = len;
    req->rmt_mh = rmt_mh;
    req->rmt_offset = rmt_offset;
    req->type = type;
    req->rmt_key = side->right.key;
    req->flag = 0;
    req->next = NULL;
}

static void post_rdma(struct side *side, glex_rdma_req_t *req)
{
    glex_ret_t ret;

    do {
        ret = glex_rdma(side->ep, req, NULL);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_rdma");
}

static void use_rdma(struct side *side)
{
    uint32_t max = side->job->attr.max_imm_rdma_data_len;
    glex_imm_rdma_req_t imm;
    uint8_t data[256];
    glex_rdma_req_t req;

    EXPECT(max > 0 && max < sizeof(data));
    fill(data, &side->mine, STEP_IMM_RDMA, max);
    set_imm_rdma(side, &imm, data, max);
    imm.flag = GLEX_FLAG_REMOTE_EVT;
    set_event(&imm.rmt_evt, side, STEP_IMM_RDMA);
    post_imm_rdma(side, &imm);
    wait_event(side, STEP_IMM_RDMA);
    check(side, side->writable + IMM_AT, &side->left, STEP_IMM_RDMA, max);

    fill(side->result + PUT_AT, &side->mine, STEP_PUT_REMOTE, PUT_LEN);
    set_rdma(side, &req, GLEX_RDMA_TYPE_PUT, side->right.writable, PUT_AT, PUT_LEN);
    req.flag = GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT;
    set_event(&req.local_evt, side, STEP_PUT_LOCAL);
    set_event(&req.rmt_evt, side, STEP_PUT_REMOTE);
    post_rdma(side, &req);
    wait_event(side, STEP_PUT_LOCAL);
    wait_event(side, STEP_PUT_REMOTE);
    check(side, side->writable + PUT_AT, &side->left, STEP_PUT_REMOTE, PUT_LEN);

    set_rdma(side, &req, GLEX_RDMA_TYPE_GET, side->right.readable, GET_AT, GET_LEN);
    req.flag = GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT | GLEX_FLAG_FENCE;
    set_event(&req.local_evt, side, STEP_GET_LOCAL);
    set_event(&req.rmt_evt, side, STEP_GET_REMOTE);
    post_rdma(side, &req);
    wait_event(side, STEP_GET_LOCAL);
    wait_event(side, STEP_GET_REMOTE);
    check(side, side->result + GET_AT, &side->right, STEP_GET_LOCAL, GET_LEN);

    /* An event without its second word: the request is not taken. */
    set_event(&req.local_evt, side, 0);
    EXPECT(glex_rdma(side->ep, &req, NULL) == GLEX_INVALID_PARAM);
}

/* ---- requests that fail ---------------------------------------------------------------------- */

/* Waits for the error of the last request. */
static void expect_error(struct side *side, enum glex_err_req_op op,
                         enum glex_err_req_status status, glex_ep_addr_t to)
{
    double deadline = job_now() + CLIENT_WAIT_MS * 1e-3;
    uint32_t nic_id, ep_num, num = 0, len;
    struct glex_err_req errs[2];
    glex_ep_addr_t src;
    void *data;

    while (num == 0) {
        if (job_now() > deadline) {
            CLIENT_FAIL("rank %d: no error: %s %s", side->job->rank, glex_error_req_opcode_str(op),
                        glex_error_req_status_str(status));
        }
        num = 2;
        CLIENT_CHECK(glex_poll_error_req(side->ep, &num, errs));
        if (num == 0 && glex_probe_first_mp(side->ep, 0, &src, &data, &len) == GLEX_SUCCESS) {
            take_mp(side, src, data, len);
            CLIENT_CHECK(glex_discard_probed_mp(side->ep));
        }
    }
    CLIENT_CHECK(glex_decompose_ep_addr(to, GLEX_EP_TYPE_NORMAL, &nic_id, &ep_num));
    if (num != 1 || errs[0].op != op || errs[0].status != status || errs[0].rmt_nic_id != nic_id ||
        errs[0].rmt_ep_num != ep_num) {
        CLIENT_FAIL("rank %d: %u errors: %s to endpoint %u: %s, not %s to endpoint %u: %s",
                    side->job->rank, num, glex_error_req_opcode_str(errs[0].op), errs[0].rmt_ep_num,
                    glex_error_req_status_str(errs[0].status), glex_error_req_opcode_str(op),
                    ep_num, glex_error_req_status_str(status));
    }
    EXPECT(glex_error_req_opcode_str(op)[0] != '\0');
    EXPECT(glex_error_req_status_str(status)[0] != '\0');
}

static void expect_rdma_error(struct side *side, glex_rdma_req_t *req,
                              enum glex_err_req_status status)
{
    post_rdma(side, req);
    expect_error(side,
                 req->type == GLEX_RDMA_TYPE_PUT ? GLEX_ERR_OP_RDMA_PUT : GLEX_ERR_OP_RDMA_GET,
                 status, req->rmt_ep_addr);
}

/* An endpoint of this NIC that does not exist */
static glex_ep_addr_t nowhere(const struct side *side)
{
    glex_ep_addr_t addr;

    CLIENT_CHECK(glex_compose_ep_addr(side->job->attr.nic_id, 12000, GLEX_EP_TYPE_NORMAL, &addr));
    return addr;
}

static void use_errors(struct side *side)
{
    uint8_t data[16] = {0};
    glex_imm_rdma_req_t imm;
    glex_imm_mp_req_t mp;
    glex_rdma_req_t req;

    set_mp(&mp, nowhere(side), data, sizeof(data), 0);
    post_mp(side, &mp);
    expect_error(side, GLEX_ERR_OP_IMM_MP, GLEX_ERR_STATUS_DEST_VP_STOP, mp.rmt_ep_addr);

    set_imm_rdma(side, &imm, data, sizeof(data));
    imm.rmt_offset = REFUSED_AT;
    imm.rmt_key = side->right.key + 1;
    post_imm_rdma(side, &imm);
    expect_error(side, GLEX_ERR_OP_IMM_RDMA_PUT, GLEX_ERR_STATUS_MMT, imm.rmt_ep_addr);

    set_rdma(side, &req, GLEX_RDMA_TYPE_PUT, side->right.writable, REFUSED_AT, 100);
    req.rmt_key = side->right.key + 1;
    expect_rdma_error(side, &req, GLEX_ERR_STATUS_MMT);
    req.type = GLEX_RDMA_TYPE_GET;
    expect_rdma_error(side, &req, GLEX_ERR_STATUS_MMT);

    set_rdma(side, &req, GLEX_RDMA_TYPE_PUT, side->right.writable, SEG_LEN - 99, 100);
    req.local_offset = 0;
    expect_rdma_error(side, &req, GLEX_ERR_STATUS_ATT);

    set_rdma(side, &req, GLEX_RDMA_TYPE_PUT, side->right.readable, REFUSED_AT, 100);
    expect_rdma_error(side, &req, GLEX_ERR_STATUS_MMT);

    set_rdma(side, &req, GLEX_RDMA_TYPE_GET, side->right.readable, GET_AT, 100);
    req.local_offset = SEG_LEN - 99;
    expect_rdma_error(side, &req, GLEX_ERR_STATUS_FORMAT);
    client_check_no_errors(side->ep);
}

/* The owner takes the readable segment back. A later get fails, and the writable segment lives on. */
static void use_deregistration(struct side *side)
{
    glex_imm_mp_req_t mp;
    glex_rdma_req_t req;
    uint8_t data[4];

    set_mp(&mp, side->right.addr, data, make_mp(side, data, STEP_READY, sizeof(data)), 0);
    post_mp(side, &mp);
    wait_mps(side, STEP_READY, 1, 0);
    CLIENT_CHECK(glex_deregister_mem(side->ep, side->mine.readable));
    set_mp(&mp, side->left.addr, data, make_mp(side, data, STEP_GONE, sizeof(data)), 0);
    post_mp(side, &mp);
    wait_mps(side, STEP_GONE, 1, 0);
    set_rdma(side, &req, GLEX_RDMA_TYPE_GET, side->right.readable, GET_AT, GET_LEN);
    expect_rdma_error(side, &req, GLEX_ERR_STATUS_MMT);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void *run(void *arg)
{
    struct side *side = arg;

    use_messages(side);
    use_coll(side);
    use_rdma(side);
    use_errors(side);
    use_deregistration(side);
    return NULL;
}

static void check_attributes(const struct side *side)
{
    const struct glex_device_attr *attr = &side->job->attr;
    uint32_t nic_id, ep_num;
    struct glex_ep_attr ep;
    glex_ep_addr_t addr;

    CLIENT_CHECK(glex_query_ep(side->ep, &ep));
    CLIENT_CHECK(glex_decompose_ep_addr(side->mine.addr, GLEX_EP_TYPE_NORMAL, &nic_id, &ep_num));
    EXPECT(nic_id == attr->nic_id && ep_num == ep.num && ep.key == side->mine.key);
    CLIENT_CHECK(glex_compose_ep_addr(nic_id, ep_num, GLEX_EP_TYPE_NORMAL, &addr));
    EXPECT(addr.v == side->mine.addr.v && addr.s.ep_num == addr.ep_num);
    EXPECT(ep.dq_capacity == attr->def_ep_dq_capacity);
    EXPECT(ep.mpq_capacity == attr->def_ep_mpq_capacity);
    EXPECT(ep.eq_capacity == attr->def_ep_eq_capacity);
    EXPECT(attr->max_rdma_data_len >= SEG_LEN && attr->mmt_units >= 3);
}

/* Nothing has come: each wait ends, and says that nothing came. */
static void check_empty(const struct side *side)
{
    glex_event_t *event;
    glex_ep_addr_t src;
    uint8_t data[256];
    uint32_t len;
    void *place;

    EXPECT(glex_probe_first_mp(side->ep, 2, &src, &place, &len) == GLEX_NO_MP);
    EXPECT(glex_receive_mp(side->ep, 0, &src, data, &len) == GLEX_NO_MP);
    EXPECT(glex_probe_first_event(side->ep, 2, &event) == GLEX_NO_EVENT);
}

static uint8_t *make_segment(uint8_t byte)
{
    uint8_t *mem = malloc(SEG_LEN);

    if (mem == NULL) {
        CLIENT_FAIL("no memory");
    }
    memset(mem, byte, SEG_LEN);
    return mem;
}

static void open_side(struct side *side, struct job *job, int thread)
{
    struct card cards[JOB_MAX_RANKS];

    side->job = job;
    side->thread = thread;
    side->mine.key = GLEX_EP_MAKE_KEY(1 + job->rank);
    side->ep = client_create_ep(job->dev, side->mine.key, GLEX_EP_MPQ_CAPACITY_DEFAULT);
    CLIENT_CHECK(glex_get_ep_addr(side->ep, &side->mine.addr));
    side->writable = make_segment(GUARD);
    side->readable = make_segment(GUARD);
    side->result = make_segment(OTHER);
    fill(side->readable + GET_AT, &side->mine, STEP_GET_LOCAL, GET_LEN);
    CLIENT_CHECK(glex_register_mem(side->ep, side->writable, SEG_LEN,
                                   GLEX_MEM_READ | GLEX_MEM_WRITE, &side->mine.writable));
    CLIENT_CHECK(
        glex_register_mem(side->ep, side->readable, SEG_LEN, GLEX_MEM_READ, &side->mine.readable));
    CLIENT_CHECK(glex_register_mem(side->ep, side->result, SEG_LEN, GLEX_MEM_READ | GLEX_MEM_WRITE,
                                   &side->result_mh));
    check_attributes(side);
    check_empty(side);
    job_exchange(job, &side->mine, cards, sizeof(side->mine));
    side->left = cards[(job->rank + job->size - 1) % job->size];
    side->right = cards[(job->rank + 1) % job->size];
}

/* No byte beside the asked ones has changed. */
static void check_guards(const struct side *side)
{
    uint32_t i;

    for (i = 0; i < SEG_LEN; i++) {
        if ((i < IMM_AT || i >= IMM_AT + side->job->attr.max_imm_rdma_data_len) &&
            (i < PUT_AT || i >= PUT_AT + PUT_LEN)) {
            EXPECT(side->writable[i] == GUARD);
        }
        if (i < GET_AT || i >= GET_AT + GET_LEN) {
            EXPECT(side->readable[i] == GUARD);
        }
    }
}

static void close_side(struct side *side)
{
    check_guards(side);
    check_empty(side);
    client_check_no_errors(side->ep);
    CLIENT_CHECK(glex_deregister_mem(side->ep, side->mine.writable));
    CLIENT_CHECK(glex_deregister_mem(side->ep, side->result_mh));
    EXPECT(glex_deregister_mem(side->ep, side->result_mh) == GLEX_INVALID_PARAM);
    CLIENT_CHECK(glex_destroy_ep(side->ep));
    free(side->writable);
    free(side->readable);
    free(side->result);
}

int main(int argc, char **argv)
{
    static struct side sides[JOB_MAX_THREADS];
    struct job job;
    int i;

    job_open(&job, argc, argv);
    for (i = 0; i < job.threads; i++) {
        open_side(&sides[i], &job, i);
    }
    job_run(&job, run, sides, sizeof(sides[0]));
    job_barrier(&job);
    for (i = 0; i < job.threads; i++) {
        close_side(&sides[i]);
    }
    job_close(&job);
    if (job.rank == 0) {
        printf("%d ranks, %d threads: each request did what it should\n", job.size, job.threads);
    }
    return 0;
}
