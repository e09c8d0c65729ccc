/*
 * neighbours: two endpoints of one process that reach each other through the network, by
 * GLEX_FAULT=far. Tests properties of remote peers that test/hosts/link does not test: chains,
 * refused immediate puts, full event queues, fences of each kind of request, unknown flags, a full
 * window, probing, and the destruction of an endpoint with unsent data for an endpoint that no
 * thread polls. Prints a line per case. The exit status is 0 if all cases are ok.
 */
#include <glex.h>
#include <glex_ext.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define KEY      7
#define LEN      65536u
#define SMALL_EQ 64u
#define NET_PORT 20000 /* GLEX_NET_PORT by default */
#define FLAGS                                                                                      \
    (GLEX_FLAG_LOCAL_INTR | GLEX_FLAG_REMOTE_INTR | GLEX_FLAG_NO_CONNECTION |                      \
     GLEX_FLAG_ROUTE_ADAPTIVE)

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("not ok %s line %d: %s\n", case_name, __LINE__, #cond);                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *case_name = "start";
static glex_device_handle_t device;
static glex_ep_handle_t a, b;  /* a posts, b is the peer */
static glex_ep_handle_t other; /* polled instead of b, or NULL */
static glex_ep_addr_t to;      /* b */
static char *memory, *local;   /* of b, of a */
static glex_mem_handle_t both, read_only, write_only, local_mh;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static glex_ep_handle_t create(void)
{
    struct glex_ep_attr attr = {
        .type = GLEX_EP_TYPE_NORMAL, .num = GLEX_ANY_EP_NUM, .key = KEY, .eq_capacity = SMALL_EQ};
    glex_ep_handle_t ep;

    CHECK(glex_create_ep(device, &attr, &ep) == GLEX_SUCCESS);
    return ep;
}

/* Let the network of both go on, which polls do that find nothing: one of the two queues is
 * empty. */
static void pump_one(glex_ep_handle_t ep)
{
    glex_event_t *event;
    glex_ep_addr_t from;
    uint32_t len;
    void *data;

    (void)glex_probe_first_event(ep, 0, &event);
    (void)glex_probe_first_mp(ep, 0, &from, &data, &len);
}

static void pump(void)
{
    pump_one(a);
    pump_one(other != NULL ? other : b);
}

/* Let the network of an endpoint go on, and take nothing out of its event queue. */
static void pump_messages(glex_ep_handle_t ep)
{
    glex_ep_addr_t from;
    uint32_t len;
    void *data;

    (void)glex_probe_first_mp(ep, 0, &from, &data, &len);
}

static void pump_for(double seconds)
{
    double end = now() + seconds;

    while (now() < end) {
        pump();
    }
}

/* The error request that comes next, at `a`. */
static struct glex_err_req wait_error(void)
{
    struct glex_err_req error;
    double end = now() + 30;
    uint32_t num;

    do {
        CHECK(now() < end);
        pump_one(a);
        pump_messages(other != NULL ? other : b); /* a probe of events makes room for one more */
        num = 1;
        CHECK(glex_poll_error_req(a, &num, &error) == GLEX_SUCCESS);
    } while (num == 0);
    return error;
}

static bool has_error(void)
{
    struct glex_err_req error;
    uint32_t num = 1;

    return glex_poll_error_req(a, &num, &error) == GLEX_SUCCESS && num != 0;
}

/* cookie_1 of the event that comes next. */
static uint64_t wait_event(glex_ep_handle_t ep)
{
    double end = now() + 30;
    glex_event_t *event;
    uint64_t cookie;

    while (glex_probe_first_event(ep, 0, &event) != GLEX_SUCCESS) {
        CHECK(now() < end);
        pump();
    }
    cookie = event->cookie_1;
    CHECK(glex_discard_probed_event(ep) == GLEX_SUCCESS);
    return cookie;
}

/* The message that comes next, to b. */
static int wait_number(void)
{
    double end = now() + 30;
    glex_ep_addr_t from;
    char data[128];
    uint32_t len;
    int number;

    while (glex_receive_mp(b, 0, &from, data, &len) != GLEX_SUCCESS) {
        CHECK(now() < end);
        pump();
    }
    CHECK(len == sizeof(number));
    memcpy(&number, data, sizeof(number));
    return number;
}

static glex_imm_mp_req_t message(const int *number)
{
    return (glex_imm_mp_req_t){
        .rmt_ep_addr = to, .data = (void *)(uintptr_t)number, .len = sizeof(*number)};
}

static glex_imm_rdma_req_t imm_put(const void *data, uint32_t len, uint32_t offset)
{
    return (glex_imm_rdma_req_t){.rmt_ep_addr = to,
                                 .data = (void *)(uintptr_t)data,
                                 .len = len,
                                 .rmt_mh = both,
                                 .rmt_offset = offset,
                                 .rmt_key = KEY};
}

static glex_rdma_req_t rdma(enum glex_rdma_type type, uint32_t offset, uint32_t len)
{
    return (glex_rdma_req_t){.rmt_ep_addr = to,
                             .local_mh = local_mh,
                             .local_offset = offset,
                             .len = len,
                             .rmt_mh = both,
                             .rmt_offset = offset,
                             .type = type,
                             .rmt_key = KEY,
                             .local_evt = {.cookie_1 = 5},
                             .flag = GLEX_FLAG_LOCAL_EVT};
}

/* The fault works: requests go through the network. */
static void case_far(void)
{
    struct glex_ext_counters sent, got;
    int number = 42;
    glex_imm_mp_req_t req = message(&number);

    CHECK(glex_send_imm_mp(a, &req, NULL) == GLEX_SUCCESS);
    CHECK(wait_number() == 42);
    CHECK(glex_ext_query_counters(a, &sent) == GLEX_SUCCESS && sent.net_tx == 1);
    CHECK(glex_ext_query_counters(b, &got) == GLEX_SUCCESS && got.net_rx == 1);
}

/* Posted requests arrive although `a` makes no further call. In most rounds the flusher runs while
 * `a` does nothing, in some rounds while `a` posts. */
static void case_left_behind(void)
{
    int round, i, number = 0, expected = 0;
    glex_imm_mp_req_t req = message(&number);
    glex_ep_addr_t from;
    char data[128];
    uint32_t len;
    double end;

    for (round = 0; round < 200; round++) {
        for (i = 0; i <= round % 7; i++, number++) {
            CHECK(glex_send_imm_mp(a, &req, NULL) == GLEX_SUCCESS);
        }
        for (end = now() + 10; expected < number;) {
            CHECK(now() < end);
            if (glex_receive_mp(b, 0, &from, data, &len) == GLEX_SUCCESS) {
                CHECK(len == sizeof(expected) && memcmp(data, &expected, len) == 0);
                expected++;
            }
        }
    }
}

static void case_chains(void)
{
    int numbers[3] = {1, 2, 3};
    glex_imm_mp_req_t mps[3], *bad_mp = NULL;
    glex_imm_rdma_req_t imms[3], *bad_imm = NULL;
    glex_rdma_req_t rdmas[3], *bad_rdma = NULL;
    int i;

    for (i = 0; i < 3; i++) {
        mps[i] = message(&numbers[i]);
        imms[i] = imm_put(&numbers[i], 4, 100 + 4 * (uint32_t)i);
        rdmas[i] = rdma(GLEX_RDMA_TYPE_PUT, 1000 * (uint32_t)i, 1000);
        rdmas[i].local_evt.cookie_1 = (uint64_t)i + 1;
        mps[i].next = i < 2 ? &mps[i + 1] : NULL;
        imms[i].next = i < 2 ? &imms[i + 1] : NULL;
        rdmas[i].next = i < 2 ? &rdmas[i + 1] : NULL;
    }
    memset(local, 'c', LEN);
    memset(memory, 0, LEN);
    CHECK(glex_rdma(a, rdmas, &bad_rdma) == GLEX_SUCCESS);
    CHECK(glex_imm_rdma(a, imms, &bad_imm) == GLEX_SUCCESS);
    CHECK(glex_send_imm_mp(a, mps, &bad_mp) == GLEX_SUCCESS);
    for (i = 0; i < 3; i++) {
        CHECK(wait_number() == i + 1);
        CHECK(wait_event(a) == (uint64_t)i + 1);
    }
    CHECK(memcmp(memory, local, 100) == 0 && memcmp(memory + 112, local, 2888) == 0);
    CHECK(memory[3000] == 0 && memcmp(memory + 100, numbers, sizeof(numbers)) == 0);
    /* An invalid request ends its chain, and bad_req points to it. */
    mps[1].len = 113;
    CHECK(glex_send_imm_mp(a, mps, &bad_mp) == GLEX_INVALID_PARAM && bad_mp == &mps[1]);
    imms[1].len = 97;
    CHECK(glex_imm_rdma(a, imms, &bad_imm) == GLEX_INVALID_PARAM && bad_imm == &imms[1]);
    rdmas[1].local_evt.cookie_1 = 0;
    CHECK(glex_rdma(a, rdmas, &bad_rdma) == GLEX_INVALID_PARAM && bad_rdma == &rdmas[1]);
    CHECK(wait_number() == 1 && wait_event(a) == 1);
    pump_for(0.05);
    CHECK(!has_error());
}

static void expect_imm_refused(glex_imm_rdma_req_t req, enum glex_err_req_status status)
{
    struct glex_err_req error;

    req.flag = GLEX_FLAG_REMOTE_EVT;
    req.rmt_evt.cookie_1 = 99;
    CHECK(glex_imm_rdma(a, &req, NULL) == GLEX_SUCCESS);
    error = wait_error();
    CHECK(error.op == GLEX_ERR_OP_IMM_RDMA_PUT && error.status == status);
    CHECK(error.rmt_ep_num == req.rmt_ep_addr.ep_num && error.data2 == 99);
}

/* Wrong key, handle, range, direction, and endpoint; none of these requests raises an event. */
static void case_refused(void)
{
    int number = 8;
    glex_imm_rdma_req_t put = imm_put("no", 2, 0);
    glex_imm_mp_req_t mp = message(&number);
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, 0, 100);
    glex_event_t *event;

    memset(memory, 0, LEN);
    put.rmt_key = KEY + 1;
    expect_imm_refused(put, GLEX_ERR_STATUS_MMT);
    put.rmt_key = KEY;
    put.rmt_mh.v = 12345;
    expect_imm_refused(put, GLEX_ERR_STATUS_MMT);
    put.rmt_mh = read_only;
    expect_imm_refused(put, GLEX_ERR_STATUS_MMT);
    put.rmt_mh = both;
    put.rmt_offset = LEN - 1;
    expect_imm_refused(put, GLEX_ERR_STATUS_ATT);
    put.rmt_ep_addr.ep_num += 50;
    expect_imm_refused(put, GLEX_ERR_STATUS_DEST_VP_STOP);
    mp.rmt_ep_addr = put.rmt_ep_addr;
    CHECK(glex_send_imm_mp(a, &mp, NULL) == GLEX_SUCCESS);
    CHECK(wait_error().op == GLEX_ERR_OP_IMM_MP);
    get.rmt_mh = write_only;
    CHECK(glex_rdma(a, &get, NULL) == GLEX_SUCCESS);
    CHECK(wait_error().status == GLEX_ERR_STATUS_MMT);
    get.local_mh.v = 777; /* the initiator's handle, not the peer's */
    CHECK(glex_rdma(a, &get, NULL) == GLEX_SUCCESS);
    CHECK(wait_error().status == GLEX_ERR_STATUS_FORMAT);
    CHECK(memory[0] == 0 && memory[LEN - 1] == 0);
    CHECK(glex_probe_first_event(b, 20, &event) == GLEX_NO_EVENT);
    CHECK(glex_probe_first_event(a, 20, &event) == GLEX_NO_EVENT);
}

static void expect_rdma_refused(glex_rdma_req_t req, enum glex_err_req_status status)
{
    CHECK(glex_rdma(a, &req, NULL) == GLEX_SUCCESS);
    CHECK(wait_error().status == status);
}

/* c serves b's registrations. No thread polls b, and b has no connection. */
static void case_domain(void)
{
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, 100, 5000);
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, 100, 5000);
    glex_imm_rdma_req_t imm = imm_put("imm", 3, 60000);
    struct glex_ext_counters before, after;
    glex_ep_handle_t c = create();
    glex_event_t *event;
    double end;
    int i;

    CHECK(glex_ext_query_counters(b, &before) == GLEX_SUCCESS);
    CHECK(glex_get_ep_addr(c, &put.rmt_ep_addr) == GLEX_SUCCESS);
    CHECK(glex_ext_is_remote(a, put.rmt_ep_addr) == 1);
    get.rmt_ep_addr = imm.rmt_ep_addr = put.rmt_ep_addr;
    put.flag |= GLEX_EXT_FLAG_DOMAIN;
    get.flag |= GLEX_EXT_FLAG_DOMAIN;
    imm.flag = GLEX_EXT_FLAG_DOMAIN | GLEX_FLAG_REMOTE_EVT;
    imm.rmt_evt.cookie_1 = 31;
    other = c;                                     /* pump() polls it */
    expect_rdma_refused(put, GLEX_ERR_STATUS_MMT); /* it has no domain yet */
    CHECK(glex_ext_set_domain(c, b) == GLEX_SUCCESS);
    CHECK(glex_ext_set_domain(c, c) == GLEX_INVALID_PARAM);
    for (i = 0; i < (int)LEN; i++) {
        local[i] = (char)(i * 7 + 1);
    }
    memset(memory, 0, LEN);
    CHECK(glex_rdma(a, &put, NULL) == GLEX_SUCCESS && wait_event(a) == 5);
    CHECK(memcmp(memory + 100, local + 100, 5000) == 0 && memory[99] == 0 && memory[5100] == 0);
    CHECK(glex_imm_rdma(a, &imm, NULL) == GLEX_SUCCESS);
    for (end = now() + 30; glex_probe_first_event(c, 0, &event) != GLEX_SUCCESS; pump()) {
        CHECK(now() < end);
    }
    CHECK(event->cookie_1 == 31 && memcmp(memory + 60000, "imm", 4) == 0);
    CHECK(glex_discard_probed_event(c) == GLEX_SUCCESS);
    memset(local, 0, LEN);
    CHECK(glex_rdma(a, &get, NULL) == GLEX_SUCCESS && wait_event(a) == 5);
    CHECK(memcmp(memory + 100, local + 100, 5000) == 0 && local[99] == 0 && local[5100] == 0);
    /* c refuses requests that b would refuse. */
    put.rmt_key = KEY + 1;
    expect_rdma_refused(put, GLEX_ERR_STATUS_MMT);
    put.rmt_key = KEY;
    put.rmt_mh = read_only;
    expect_rdma_refused(put, GLEX_ERR_STATUS_MMT);
    get.rmt_mh = write_only;
    expect_rdma_refused(get, GLEX_ERR_STATUS_MMT);
    put.rmt_mh = both;
    put.rmt_offset = LEN - 4999;
    expect_rdma_refused(put, GLEX_ERR_STATUS_ATT);
    put.flag &= ~GLEX_EXT_FLAG_DOMAIN; /* c itself has no registration */
    expect_rdma_refused(put, GLEX_ERR_STATUS_MMT);
    imm.rmt_offset = LEN - 2;
    CHECK(glex_imm_rdma(a, &imm, NULL) == GLEX_SUCCESS);
    CHECK(wait_error().status == GLEX_ERR_STATUS_ATT);
    CHECK(glex_ext_query_counters(b, &after) == GLEX_SUCCESS && after.net_rx == before.net_rx);
    other = NULL;
    CHECK(glex_destroy_ep(c) == GLEX_SUCCESS);
}

/* A sequence that waits at a for one packet sends 8 bytes to where the packet says. */
static void swap_addr(bool ep_too, glex_ep_addr_t from)
{
    const uint64_t number = 0x7700 + ep_too;
    glex_imm_rdma_req_t put = imm_put(&number, sizeof(number), 0);
    glex_ep_addr_t own;
    double end = now() + 30;
    char data[128];
    glex_imm_mp_req_t packet = {.data = data,
                                .flag = GLEX_FLAG_COLL | GLEX_FLAG_COLL_COUNTER |
                                        GLEX_FLAG_COLL_CP_SWAP_ADDR};

    memset(memory, 0, LEN);
    put.rmt_mh.v = ~0ull;
    put.rmt_key = 0;
    put.rmt_ep_addr = ep_too ? from : to; /* from: c, which the packet puts right */
    put.flag = GLEX_FLAG_COLL | GLEX_FLAG_COLL_SEQ_START | GLEX_FLAG_COLL_SEQ_TAIL |
               (ep_too ? GLEX_FLAG_COLL_SWAP_EP : GLEX_FLAG_COLL_SWAP);
    put.coll_counter = 1;
    CHECK(glex_imm_rdma(a, &put, NULL) == GLEX_SUCCESS);
    CHECK(glex_get_ep_addr(a, &own) == GLEX_SUCCESS);
    packet.rmt_ep_addr = own;
    CHECK(glex_coll_compose_mp_swap_addr_data(b, both, 32, KEY, data, &packet.len) == GLEX_SUCCESS);
    CHECK(glex_send_imm_mp(b, &packet, NULL) == GLEX_SUCCESS);
    while (memcmp(memory + 32, &number, sizeof(number)) != 0) {
        CHECK(now() < end);
        pump();
    }
    CHECK(!has_error());
}

/* ... and a message to the endpoints of a set, with the packet's data. */
static void swap_set(glex_ep_handle_t c, glex_ep_addr_t c_addr)
{
    const int number = 21;
    glex_imm_mp_req_t packet = message(&number), req = {0};
    glex_ep_addr_t set[2] = {to, c_addr}, from;
    double end = now() + 30;
    char data[128];
    uint32_t len;

    req.rmt_ep_addr = to;
    req.data = data;
    req.flag = GLEX_FLAG_COLL | GLEX_FLAG_COLL_SEQ_START | GLEX_FLAG_COLL_SEQ_TAIL |
               GLEX_FLAG_COLL_SWAP | GLEX_FLAG_COLL_SWAP_SET | GLEX_FLAG_COLL_CP_DATA;
    req.coll_counter = 1;
    CHECK(glex_coll_compose_mp_set_data(set, 2, data, &req.len) == GLEX_SUCCESS);
    CHECK(glex_send_imm_mp(a, &req, NULL) == GLEX_SUCCESS);
    CHECK(glex_get_ep_addr(a, &packet.rmt_ep_addr) == GLEX_SUCCESS);
    packet.flag = GLEX_FLAG_COLL | GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_COLL_CP_SWAP_DATA;
    CHECK(glex_send_imm_mp(c, &packet, NULL) == GLEX_SUCCESS);
    CHECK(wait_number() == number);
    while (glex_receive_mp(c, 0, &from, data, &len) != GLEX_SUCCESS) {
        CHECK(now() < end);
        pump();
    }
    CHECK(len == sizeof(number) && memcmp(data, &number, len) == 0);
    CHECK(!has_error());
}

static void case_swaps(void)
{
    glex_ep_handle_t c = create();
    glex_ep_addr_t c_addr;

    CHECK(glex_get_ep_addr(c, &c_addr) == GLEX_SUCCESS);
    swap_addr(false, c_addr);
    swap_addr(true, c_addr);
    swap_set(c, c_addr);
    CHECK(glex_destroy_ep(c) == GLEX_SUCCESS);
}

/* More events than b's queue can hold. Without NO_LOSS, the excess is lost and reported. With
 * NO_LOSS, all events arrive when the queue has room. */
static void case_full_events(void)
{
    glex_imm_rdma_req_t put = imm_put("x", 1, 0);
    uint32_t i, lost = 0, num = SMALL_EQ + 20;
    glex_event_t *event;

    put.flag = GLEX_FLAG_REMOTE_EVT;
    for (i = 0; i < num; i++) {
        put.rmt_evt.cookie_1 = i + 1;
        CHECK(glex_imm_rdma(a, &put, NULL) == GLEX_SUCCESS);
    }
    for (; lost < 20; lost++) {
        CHECK(wait_error().status == GLEX_ERR_STATUS_DEST_EQ_FULL);
    }
    for (i = 0; i < SMALL_EQ; i++) {
        CHECK(wait_event(b) == i + 1);
    }
    put.flag |= GLEX_EXT_FLAG_NO_LOSS;
    for (i = 0; i < num; i++) {
        put.rmt_evt.cookie_1 = i + 1;
        CHECK(glex_imm_rdma(a, &put, NULL) == GLEX_SUCCESS);
    }
    pump_for(0.05);
    for (i = 0; i < num; i++) {
        CHECK(wait_event(b) == i + 1);
    }
    CHECK(glex_probe_first_event(b, 20, &event) == GLEX_NO_EVENT && !has_error());
}

/* Requests of each kind, fenced behind a get: BUSY until that has ended. */
static void case_fences(void)
{
    int number = 3;
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, 0, LEN), put = rdma(GLEX_RDMA_TYPE_PUT, 0, 8);
    glex_imm_rdma_req_t imm = imm_put("fenced", 6, 100);
    glex_imm_mp_req_t mp = message(&number);
    glex_event_t *event;
    double end;
    int kind;

    mp.flag = imm.flag = GLEX_FLAG_FENCE;
    put.flag = GLEX_FLAG_FENCE;
    for (kind = 0; kind < 3; kind++) {
        glex_ret_t ret = GLEX_BUSY;
        bool waited = false;

        CHECK(glex_rdma(a, &get, NULL) == GLEX_SUCCESS);
        for (end = now() + 30; ret == GLEX_BUSY && now() < end; pump()) {
            ret = kind == 0 ? glex_send_imm_mp(a, &mp, NULL) :
                  kind == 1 ? glex_imm_rdma(a, &imm, NULL) :
                              glex_rdma(a, &put, NULL);
            waited |= ret == GLEX_BUSY;
            if (ret == GLEX_SUCCESS) { /* earlier requests have ended by now */
                CHECK(glex_probe_first_event(a, 0, &event) == GLEX_SUCCESS);
            }
        }
        CHECK(ret == GLEX_SUCCESS && waited);
        CHECK(wait_event(a) == 5);
    }
    CHECK(wait_number() == 3);
}

/* Flags that have no meaning here change nothing. */
static void case_flags(void)
{
    int number = 6;
    glex_imm_mp_req_t mp = message(&number);
    glex_imm_rdma_req_t imm = imm_put("flagged", 7, 0);
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, 1000, 100), get;
    glex_event_t *event;

    memset(local, 'f', LEN);
    mp.flag = imm.flag = FLAGS;
    put.flag |= FLAGS;
    CHECK(glex_imm_rdma(a, &imm, NULL) == GLEX_SUCCESS);
    CHECK(glex_rdma(a, &put, NULL) == GLEX_SUCCESS);
    CHECK(glex_send_imm_mp(a, &mp, NULL) == GLEX_SUCCESS);
    CHECK(wait_number() == 6 && wait_event(a) == 5);
    CHECK(memcmp(memory, "flagged", 7) == 0 && memcmp(memory + 1000, local, 100) == 0);
    memset(local, 0, LEN);
    get = rdma(GLEX_RDMA_TYPE_GET, 0, 2000);
    get.flag |= FLAGS;
    CHECK(glex_rdma(a, &get, NULL) == GLEX_SUCCESS);
    CHECK(wait_event(a) == 5 && memcmp(local, memory, 2000) == 0);
    CHECK(glex_probe_first_event(b, 20, &event) == GLEX_NO_EVENT);
}

/* At most a window of requests is in flight to a peer that does nothing. */
static void case_window(void)
{
    int number, posted = 0;
    glex_imm_mp_req_t mp = message(&number);

    for (number = 0; number < 1000; number++, posted++) {
        if (glex_send_imm_mp(a, &mp, NULL) != GLEX_SUCCESS) {
            break;
        }
    }
    CHECK(posted == 256);
    CHECK(glex_send_imm_mp(a, &mp, NULL) == GLEX_BUSY);
    for (number = 0; number < posted; number++) {
        CHECK(wait_number() == number);
    }
    CHECK(glex_send_imm_mp(a, &mp, NULL) == GLEX_SUCCESS);
    CHECK(wait_number() == posted);
}

/* Probed messages stay where they are until they are discarded. */
static void case_probing(void)
{
    int numbers[3] = {10, 20, 30}, i;
    glex_ep_addr_t from, self;
    glex_imm_mp_req_t mp;
    uint32_t len;
    void *data;

    CHECK(glex_get_ep_addr(a, &self) == GLEX_SUCCESS);
    CHECK(glex_probe_first_mp(b, 10, &from, &data, &len) == GLEX_NO_MP);
    for (i = 0; i < 3; i++) {
        mp = message(&numbers[i]);
        CHECK(glex_send_imm_mp(a, &mp, NULL) == GLEX_SUCCESS);
    }
    pump_for(0.05);
    CHECK(glex_probe_first_mp(b, 30000, &from, &data, &len) == GLEX_SUCCESS);
    CHECK(from.v == self.v && len == sizeof(int) && memcmp(data, &numbers[0], len) == 0);
    CHECK(glex_probe_next_mp(b, &from, &data, &len) == GLEX_SUCCESS);
    CHECK(memcmp(data, &numbers[1], len) == 0);
    CHECK(glex_discard_probed_mp(b) == GLEX_SUCCESS);
    CHECK(wait_number() == 30);
}

/* An endpoint without a receiver behaves like a destroyed endpoint, also for connected peers. Later
 * the endpoint gets a receiver again. */
static void case_receiver(void)
{
    int number = 1;
    glex_imm_mp_req_t mp = message(&number);
    double end = now() + 30;

    CHECK(glex_send_imm_mp(a, &mp, NULL) == GLEX_SUCCESS);
    CHECK(wait_number() == 1);
    CHECK(glex_ext_set_receiver(b, 0) == GLEX_SUCCESS);
    while (glex_ext_check_peer(a, to, 0, 0) == GLEX_SUCCESS) { /* its end is in flight */
        CHECK(now() < end);
        (void)glex_ext_arm(a);
    }
    /* It does not come back by being asked for. */
    pump_for(0.05);
    CHECK(glex_ext_check_peer(a, to, 0, 0) == GLEX_NO_EP_RESOURCE);
    CHECK(glex_ext_has_receiver(a, to) == GLEX_NO_EP_RESOURCE);
    CHECK(glex_send_imm_mp(a, &mp, NULL) == GLEX_SUCCESS);
    CHECK(wait_error().status == GLEX_ERR_STATUS_DEST_VP_STOP);
    CHECK(glex_ext_set_receiver(b, 1) == GLEX_SUCCESS);
    number = 2;
    CHECK(glex_send_imm_mp(a, &mp, NULL) == GLEX_SUCCESS);
    CHECK(wait_number() == 2);
    CHECK(glex_ext_check_peer(a, to, 0, 0) == GLEX_SUCCESS && !has_error());
}

/* glex_destroy_ep() waits until the peer has all posted requests. Here the peer is an endpoint of
 * the same process that no thread polls, and no connection exists yet. */
static void case_destroy(void)
{
    glex_ep_handle_t ep = create();
    int number = 77;
    glex_imm_mp_req_t mp = message(&number);

    CHECK(glex_send_imm_mp(ep, &mp, NULL) == GLEX_SUCCESS);
    CHECK(glex_destroy_ep(ep) == GLEX_SUCCESS);
    CHECK(wait_number() == 77);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static glex_ep_addr_t address(glex_ep_handle_t ep)
{
    glex_ep_addr_t addr;

    CHECK(glex_get_ep_addr(ep, &addr) == GLEX_SUCCESS);
    return addr;
}

static uint64_t epoch_of(glex_ep_handle_t ep, glex_ep_addr_t peer)
{
    uint64_t epoch = 0;

    CHECK(glex_ext_peer_epoch(ep, peer, &epoch) == GLEX_SUCCESS && epoch != 0);
    CHECK(glex_ext_check_peer(ep, peer, 0, epoch) == GLEX_SUCCESS);
    return epoch;
}

/*
 * A closing peer has left more events than fit the queue. The peer is gone only after all have
 * arrived.
 */
static void case_held(void)
{
    const unsigned num = 3 * SMALL_EQ;
    glex_ep_handle_t c = create();
    uint64_t epoch = epoch_of(b, address(c));
    unsigned posted = 0, taken = 0;
    double end = now() + 60;
    glex_event_t *event;

    while (posted < num) {
        CHECK(now() < end);
        posted += glex_ext_post_event(c, to, posted, 1) == GLEX_SUCCESS;
        pump_messages(c);
        pump_messages(b);
    }
    CHECK(glex_ext_set_receiver(c, 0) == GLEX_SUCCESS);
    while (glex_ext_check_peer(b, address(c), 0, epoch) == GLEX_SUCCESS) {
        CHECK(now() < end);
        if (glex_probe_first_event(b, 0, &event) == GLEX_SUCCESS) {
            CHECK(event->cookie_0 == taken);
            taken++;
            CHECK(glex_discard_probed_event(b) == GLEX_SUCCESS);
        }
    }
    CHECK(taken >= num - SMALL_EQ);
    for (; taken < num; taken++) { /* handed over: they lie in the queue */
        CHECK(glex_probe_first_event(b, 0, &event) == GLEX_SUCCESS && event->cookie_0 == taken);
        CHECK(glex_discard_probed_event(b) == GLEX_SUCCESS);
    }
    CHECK(glex_destroy_ep(c) == GLEX_SUCCESS);
}

/* Breaks the control connection of a peer to an endpoint. */
static void break_connection_to(glex_ep_handle_t ep)
{
    const char *base = getenv("GLEX_NET_PORT");
    int port = (base != NULL ? atoi(base) : NET_PORT) + address(ep).ep_num, fd, broken = 0;
    struct sockaddr_in sin;
    socklen_t len;

    for (fd = 0; fd < 1024; fd++) {
        len = sizeof(sin);
        if (getpeername(fd, (struct sockaddr *)&sin, &len) == 0 && sin.sin_family == AF_INET &&
            ntohs(sin.sin_port) == port) {
            CHECK(shutdown(fd, SHUT_RDWR) == 0);
            broken++;
        }
    }
    CHECK(broken == 1);
}

/* Progresses the network of an endpoint that gets no data. */
static void poll_nothing(glex_ep_handle_t ep)
{
    struct glex_ext_arrival arrival;

    CHECK(glex_ext_poll(ep, &arrival) == GLEX_NO_EVENT);
}

/* Connects two endpoints at the same moment. Each endpoint makes a connection. */
static void connect_both(glex_ep_handle_t c, glex_ep_handle_t d)
{
    double end = now() + 30;
    struct glex_ext_arrival arrival;
    unsigned came = 0;

    CHECK(glex_ext_post_mp(c, address(d), 1, 1, 1, NULL, 0) == GLEX_SUCCESS);
    CHECK(glex_ext_post_mp(d, address(c), 1, 1, 1, NULL, 0) == GLEX_SUCCESS);
    while (came < 2) {
        CHECK(now() < end);
        came += glex_ext_poll(c, &arrival) == GLEX_SUCCESS;
        came += glex_ext_poll(d, &arrival) == GLEX_SUCCESS;
    }
}

static int wait_status(glex_ep_handle_t ep, glex_ep_handle_t peer)
{
    struct glex_err_req error;
    double end = now() + 30;
    uint32_t num;

    do {
        CHECK(now() < end);
        poll_nothing(peer);
        poll_nothing(ep);
        num = 1;
        CHECK(glex_poll_error_req(ep, &num, &error) == GLEX_SUCCESS);
    } while (num == 0);
    return error.status;
}

/*
 * The end of one direction is the end of the epoch for both. Requests that the peer posts
 * afterwards, before it knows, are refused: the memory may have another use.
 */
static void case_half(void)
{
    glex_ep_handle_t c = create(), d = create();
    char target[64] = "";
    glex_mem_handle_t mh;
    glex_imm_rdma_req_t put = imm_put("late", 5, 0);
    uint64_t epoch, next;
    double end = now() + 60;

    CHECK(glex_register_mem(d, target, sizeof(target), GLEX_MEM_WRITE, &mh) == GLEX_SUCCESS);
    connect_both(c, d);
    epoch = epoch_of(d, address(c));
    (void)epoch_of(c, address(d));
    break_connection_to(c);
    while (glex_ext_check_peer(d, address(c), 0, epoch) == GLEX_SUCCESS) {
        CHECK(now() < end);
        poll_nothing(d);
    }
    put.rmt_ep_addr = address(d);
    put.rmt_mh = mh;
    CHECK(glex_imm_rdma(c, &put, NULL) == GLEX_SUCCESS);
    CHECK(wait_status(c, d) == GLEX_ERR_STATUS_DEST_VP_STOP);
    CHECK(target[0] == '\0');

    /* A program that has asked for an epoch decides when the next epoch begins. */
    CHECK(glex_ext_post_mp(d, address(c), 2, 2, 2, NULL, 0) == GLEX_SUCCESS);
    CHECK(wait_status(d, c) == GLEX_ERR_STATUS_DEST_VP_STOP);
    next = epoch_of(d, address(c));
    CHECK(next != epoch);
    CHECK(glex_ext_check_peer(d, address(c), 0, epoch) == GLEX_NO_EP_RESOURCE);
    (void)epoch_of(c, address(d));
    connect_both(c, d);
    CHECK(glex_ext_check_peer(d, address(c), 0, next) == GLEX_SUCCESS);
    CHECK(glex_destroy_ep(c) == GLEX_SUCCESS && glex_destroy_ep(d) == GLEX_SUCCESS);
}

/* ---- floods ---------------------------------------------------------------------------------- */

/* How a program takes entries. */
enum way { PROBE, RECEIVE, POLL, NUM_WAYS };

#define FLOOD  1u /* the first word of entries of a flood */
#define MARKER 2u /* of the entry that must come through */
/* Polls within which the marker comes: the longest time between two looks at the network that
 * glex_ext_poll() has, and the entries of a full queue. */
#define FLOOD_BOUND (4096u + 2 * SMALL_EQ)

static bool flood_post(glex_ep_handle_t from, glex_ep_handle_t ep, bool event, uint64_t word)
{
    return (event ? glex_ext_post_event(from, address(ep), word, 1) :
                    glex_ext_post_mp(from, address(ep), word, 1, 1, NULL, 0)) == GLEX_SUCCESS;
}

static uint64_t probe_event(glex_ep_handle_t ep)
{
    glex_event_t *event;
    uint64_t word;

    if (glex_probe_first_event(ep, 0, &event) != GLEX_SUCCESS) {
        return 0;
    }
    word = event->cookie_0;
    CHECK(glex_discard_probed_event(ep) == GLEX_SUCCESS);
    return word;
}

static uint64_t probe_mp(glex_ep_handle_t ep, glex_ep_addr_t *from)
{
    uint64_t word;
    uint32_t len;
    void *data;

    if (glex_probe_first_mp(ep, 0, from, &data, &len) != GLEX_SUCCESS) {
        return 0;
    }
    memcpy(&word, data, sizeof(word));
    CHECK(glex_discard_probed_mp(ep) == GLEX_SUCCESS);
    return word;
}

/* The first word of the next entry, or 0. */
static uint64_t take(glex_ep_handle_t ep, bool event, enum way way)
{
    struct glex_ext_arrival arrival;
    uint64_t words[16] = {0};
    glex_ep_addr_t from;
    uint32_t len;

    if (way == POLL) {
        if (glex_ext_poll(ep, &arrival) != GLEX_SUCCESS) {
            return 0;
        }
        memcpy(words, arrival.event != NULL ? (void *)arrival.event : arrival.data, 8);
    } else if (event) {
        return probe_event(ep);
    } else if (way == PROBE) {
        return probe_mp(ep, &from);
    } else {
        (void)glex_receive_mp(ep, 0, &from, words, &len);
    }
    return words[0];
}

static glex_ep_handle_t create_small(uint32_t capacity, bool threads)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL,
                                .num = GLEX_ANY_EP_NUM,
                                .key = KEY,
                                .mpq_capacity = capacity,
                                .eq_capacity = capacity};
    glex_ep_handle_t ep;

    CHECK(glex_create_ep(device, &attr, &ep) == GLEX_SUCCESS);
    CHECK(threads || glex_ext_set_single_threaded(ep) == GLEX_SUCCESS);
    return ep;
}

/* Posts a first message over the network, so that there is a connection. */
static void meet(glex_ep_handle_t from, glex_ep_handle_t ep)
{
    double end = now() + 30;

    CHECK(flood_post(from, ep, false, MARKER));
    while (take(ep, false, PROBE) != MARKER) {
        CHECK(now() < end);
        pump_one(from);
    }
}

/* Producers on this host keep a queue full. A request of another host comes through. */
static void flood_from_host(bool threads, bool event, bool marker_event, enum way way)
{
    glex_ep_handle_t ep = create_small(SMALL_EQ, threads), far = create_small(SMALL_EQ, threads);
    unsigned polls = 0, i;

    meet(far, ep);
    for (i = 0; i < 100000; i++) { /* the network has been silent for long */
        (void)take(ep, event, way);
    }
    while (flood_post(ep, ep, event, FLOOD)) {
    }
    CHECK(flood_post(far, ep, marker_event, MARKER));
    while (take(ep, event, way) != MARKER) {
        CHECK(++polls < FLOOD_BOUND);
        while (flood_post(ep, ep, event, FLOOD)) {
        }
        pump_one(far);
    }
    CHECK(glex_destroy_ep(ep) == GLEX_SUCCESS && glex_destroy_ep(far) == GLEX_SUCCESS);
}

/* Another host keeps a queue full. A request of this host comes through. */
static void flood_from_net(bool threads, bool event, bool marker_event, enum way way)
{
    glex_ep_handle_t ep = create_small(SMALL_EQ, threads), far = create_small(SMALL_EQ, threads);
    unsigned polls = 0, i;
    bool posted = false;

    meet(far, ep);
    for (i = 0; i < 4 * SMALL_EQ; i++) {
        while (flood_post(far, ep, event, FLOOD)) {
        }
        pump_one(far);
        CHECK(take(ep, event, way) != MARKER);
    }
    while (take(ep, event, way) != MARKER) {
        CHECK(++polls < FLOOD_BOUND);
        posted = posted || flood_post(ep, ep, marker_event, MARKER);
        while (flood_post(far, ep, event, FLOOD)) {
        }
        pump_one(far);
    }
    CHECK(glex_destroy_ep(ep) == GLEX_SUCCESS && glex_destroy_ep(far) == GLEX_SUCCESS);
}

/* A request that has ended at the peer needs room for its event in a queue that others keep full. */
static void flood_before_local_event(bool threads, enum way way)
{
    glex_ep_handle_t ep = create_small(SMALL_EQ, threads);
    glex_rdma_req_t put = {.rmt_ep_addr = to,
                           .rmt_mh = both,
                           .rmt_key = KEY,
                           .len = 64,
                           .type = GLEX_RDMA_TYPE_PUT,
                           .flag = GLEX_FLAG_LOCAL_EVT,
                           .local_evt = {.cookie_0 = MARKER, .cookie_1 = 1}};
    unsigned polls = 0;

    meet(ep, b);
    CHECK(glex_register_mem(ep, local, LEN, GLEX_MEM_READ, &put.local_mh) == GLEX_SUCCESS);
    while (flood_post(ep, ep, true, FLOOD)) {
    }
    CHECK(glex_rdma(ep, &put, NULL) == GLEX_SUCCESS);
    while (take(ep, true, way) != MARKER) {
        CHECK(++polls < FLOOD_BOUND);
        while (flood_post(ep, ep, true, FLOOD)) {
        }
        pump_one(b);
    }
    CHECK(glex_destroy_ep(ep) == GLEX_SUCCESS);
}

static void case_floods(void)
{
    unsigned i;

    for (i = 0; i < 4 * NUM_WAYS; i++) {
        bool threads = i & 1, event = i & 2;
        enum way way = (enum way)(i / 4);

        flood_from_host(threads, event, event, way);
        flood_from_net(threads, event, event, way);
        if (way == POLL) { /* one call for both queues */
            flood_from_host(threads, event, !event, way);
            flood_from_net(threads, event, !event, way);
        }
        if (event) {
            flood_before_local_event(threads, way);
        }
    }
}

/* Peers that keep a queue full together get equal shares. */
static void case_shares(void)
{
    enum { PEERS = 5, TAKEN = 20000 };
    glex_ep_handle_t ep = create_small(4, false), peers[PEERS];
    unsigned shares[PEERS] = {0}, taken, i;
    double end = now() + 100;
    glex_ep_addr_t from;

    for (i = 0; i < PEERS; i++) {
        peers[i] = create_small(4, false);
        meet(peers[i], ep);
    }
    for (taken = 0; taken < TAKEN;) {
        CHECK(now() < end);
        for (i = 0; i < PEERS; i++) {
            while (flood_post(peers[i], ep, false, FLOOD)) {
            }
            pump_one(peers[i]);
        }
        if (probe_mp(ep, &from) != 0) {
            taken++;
            for (i = 0; i < PEERS; i++) {
                shares[i] += address(peers[i]).v == from.v;
            }
        }
    }
    for (i = 0; i < PEERS; i++) {
        if (shares[i] < TAKEN / PEERS / 4) {
            printf("# of %u messages %u are of peer %u\n", taken, shares[i], i);
        }
        CHECK(shares[i] >= TAKEN / PEERS / 4);
        CHECK(glex_destroy_ep(peers[i]) == GLEX_SUCCESS);
    }
    CHECK(glex_destroy_ep(ep) == GLEX_SUCCESS);
}

/* ---- memory that disappears ------------------------------------------------------------------ */

#define BIG       (32u << 20)
#define REUSED    0x55 /* what the program does with the memory afterwards */
#define FAR_BELOW (UINT64_C(1) << 36)

/* How memory disappears. */
enum gone { DEREGISTERED, UNMAPPED, FORBIDDEN, NUM_GONE };

/*
 * Maps memory far below all other mappings. A case unmaps this memory while a peer puts data into it.
 * The kernel places new mappings at the highest free address. So the kernel does not place buffers of
 * libfabric in the unmapped range, where the put would overwrite the buffers.
 */
static char *map_big(void)
{
    static char *place;
    char *big;

    if (place == NULL) {
        big = mmap(NULL, BIG, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(big != MAP_FAILED && munmap(big, BIG) == 0);
        place = big - FAR_BELOW;
    }
    place -= 2 * BIG;
    big = mmap(place, BIG, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(big == place);
    memset(big, 1, BIG);
    return big;
}

/* The memory has another use afterwards, or none. */
static void disappear(glex_ep_handle_t ep, char *big, glex_mem_handle_t mh, enum gone gone)
{
    if (gone == FORBIDDEN) {
        CHECK(mprotect(big, BIG, PROT_NONE) == 0);
    } else if (gone == UNMAPPED) {
        CHECK(munmap(big, BIG) == 0);
    } else {
        CHECK(glex_deregister_mem(ep, mh) == GLEX_SUCCESS);
        CHECK(mmap(big, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0) == big);
        memset(big, REUSED, BIG);
    }
}

/* Drive the network of one endpoint until its frames fill the sockets of the peer. */
static void fill_sockets(glex_ep_handle_t ep)
{
    int i;

    for (i = 0; i < 20000; i++) {
        pump_messages(ep);
    }
}

/* Later requests succeed in both directions, although the memory of an earlier request is gone. */
static void others_live_on(glex_ep_handle_t c, glex_ep_handle_t d, enum glex_err_req_status wanted)
{
    double end = now() + 60;
    struct glex_ext_counters counters;
    struct glex_err_req error;
    bool failed = false, there = false, back = false;
    uint32_t num;

    CHECK(flood_post(c, d, false, MARKER) && flood_post(d, c, false, MARKER));
    while (!failed || !there || !back) {
        CHECK(now() < end);
        there = take(d, false, PROBE) == MARKER || there;
        back = take(c, false, PROBE) == MARKER || back;
        num = 1;
        CHECK(glex_poll_error_req(c, &num, &error) == GLEX_SUCCESS);
        if (num != 0) {
            CHECK(!failed && error.status == wanted);
            failed = true;
        }
    }
    CHECK(glex_ext_query_counters(c, &counters) == GLEX_SUCCESS && counters.net_ended == 0);
    CHECK(glex_ext_query_counters(d, &counters) == GLEX_SUCCESS && counters.net_ended == 0);
}

/* The memory of the target, or of the initiator, disappears while a put or a get is on its way, or,
 * if the request is short, before the request. */
static void memory_gone(bool get, bool target, enum gone gone, uint32_t len)
{
    glex_ep_handle_t c = create_small(SMALL_EQ, true), d = create_small(SMALL_EQ, true);
    char *ours = map_big(), *theirs = map_big(), *big = target ? theirs : ours;
    glex_rdma_req_t req = {.rmt_ep_addr = address(d),
                           .rmt_key = KEY,
                           .len = len,
                           .type = get ? GLEX_RDMA_TYPE_GET : GLEX_RDMA_TYPE_PUT,
                           .local_evt = {.cookie_0 = 1, .cookie_1 = 1},
                           .flag = GLEX_FLAG_LOCAL_EVT};
    const int32_t both_ways = GLEX_MEM_READ | GLEX_MEM_WRITE;
    enum glex_err_req_status wanted = gone != DEREGISTERED ? GLEX_ERR_STATUS_PCIE_READ :
                                      target               ? GLEX_ERR_STATUS_MMT :
                                                             GLEX_ERR_STATUS_FORMAT;
    uint32_t i;

    meet(c, d);
    CHECK(glex_register_mem(c, ours, BIG, both_ways, &req.local_mh) == GLEX_SUCCESS);
    CHECK(glex_register_mem(d, theirs, BIG, both_ways, &req.rmt_mh) == GLEX_SUCCESS);
    if (len < BIG) {
        disappear(target ? d : c, big, target ? req.rmt_mh : req.local_mh, gone);
        CHECK(glex_rdma(c, &req, NULL) == GLEX_SUCCESS);
    } else {
        CHECK(glex_rdma(c, &req, NULL) == GLEX_SUCCESS);
        fill_sockets(c);
        fill_sockets(get ? d : c);
        disappear(target ? d : c, big, target ? req.rmt_mh : req.local_mh, gone);
    }
    others_live_on(c, d, wanted);
    /* Nothing was read from memory that had another use, and nothing was written there. */
    for (i = 0; gone == DEREGISTERED && i < BIG; i++) {
        CHECK(big[i] == REUSED && (target ? ours : theirs)[i] == 1);
    }
    CHECK(glex_destroy_ep(c) == GLEX_SUCCESS && glex_destroy_ep(d) == GLEX_SUCCESS);
    /* Not a second time: libfabric may have mapped memory at the same address. */
    CHECK((gone == UNMAPPED && ours == big) || munmap(ours, BIG) == 0);
    CHECK((gone == UNMAPPED && theirs == big) || munmap(theirs, BIG) == 0);
}

static void case_memory_gone(void)
{
    int i;

    for (i = 0; i < 4 * NUM_GONE; i++) {
        memory_gone(i & 1, i & 2, (enum gone)(i / 4), BIG);
        if (i / 4 != DEREGISTERED) {
            memory_gone(i & 1, i & 2, (enum gone)(i / 4), 256);
        }
    }
}

static void run(const char *name, void (*function)(void))
{
    case_name = name;
    function();
    printf("ok %s\n", name);
    fflush(stdout);
}

int main(void)
{
    CHECK(glex_open_device(0, &device) == GLEX_SUCCESS);
    a = create();
    b = create();
    CHECK(glex_get_ep_addr(b, &to) == GLEX_SUCCESS);
    memory = calloc(1, LEN);
    local = calloc(1, LEN);
    CHECK(memory != NULL && local != NULL);
    CHECK(glex_register_mem(a, local, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &local_mh) == 0);
    CHECK(glex_register_mem(b, memory, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &both) == 0);
    CHECK(glex_register_mem(b, memory, LEN, GLEX_MEM_READ, &read_only) == 0);
    CHECK(glex_register_mem(b, memory, LEN, GLEX_MEM_WRITE, &write_only) == 0);
    run("neighbours are reached by the network", case_far);
    run("messages that a program leaves behind", case_left_behind);
    run("chains of each kind", case_chains);
    run("immediate puts, and others, that are refused", case_refused);
    run("memory that an endpoint serves for another", case_domain);
    run("collectives: addresses and sets of destinations", case_swaps);
    run("a full event queue", case_full_events);
    run("fences of each kind of request", case_fences);
    run("flags without a meaning", case_flags);
    run("a window of requests", case_window);
    run("probing messages", case_probing);
    run("an endpoint without a receiver", case_receiver);
    run("an endpoint that ends before its peer was polled", case_destroy);
    run("a peer is gone when all that it left has come", case_held);
    run("the end of one direction ends the other one, too", case_half);
    run("a flood of one kind keeps no other kind waiting", case_floods);
    run("peers that flood together get equal shares", case_shares);
    run("a request whose memory disappears fails alone", case_memory_gone);
    CHECK(glex_destroy_ep(a) == GLEX_SUCCESS && glex_destroy_ep(b) == GLEX_SUCCESS);
    CHECK(glex_close_device(device) == GLEX_SUCCESS);
    return 0;
}
