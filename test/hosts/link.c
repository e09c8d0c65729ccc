/*
 * link PEER_NIC PROGRAM [ARGUMENT...]: a GLEX program on this host and a server on another host.
 * The command line, with "--server" added, starts the server. A peer on another host must have all
 * properties that glex.h promises. With LINK_SLOW set, and a short GLEX_NET_TIMEOUT, only one case
 * runs: a sender that computes for longer than the timeout. Prints a line per case. The exit status
 * is 0 if all cases are ok.
 */
#include <glex.h>
#include <glex_ext.h>

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVER_NUM 100
#define CLIENT_NUM 101
#define KEY        7
#define LEN        (4u << 20)
#define SMALL_MPQ  64
#define FLOOD      1500 /* control packets: more than fit the queue for them */
#define FLOOD_STEP 500
#define VICTIMS    36 /* more than an endpoint has receive buffers */

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            failure(__LINE__, #cond);                                                              \
        }                                                                                          \
    } while (0)

/* The server's properties, sent at the beginning. */
struct hello {
    char op;
    glex_mem_handle_t all, read_only, event_data;
};

/* A request of the client. */
struct command {
    char op; /* see serve() */
    uint32_t number;
};

static glex_device_handle_t device;
static glex_ep_handle_t ep;
static char *memory;
static const char *case_name = "start";
static char **server_args;
static pid_t server;
static uint32_t peer_nic;
static glex_ep_addr_t peer;
static struct hello remote;
static glex_mem_handle_t local;
static char *scratch;
static glex_mem_handle_t scratch_mh;

static void failure(int line, const char *what)
{
    printf("not ok %s line %d: %s\n", case_name, line, what);
    if (server > 0) {
        kill(server, SIGTERM);
    }
    exit(1);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void pattern(char *data, uint32_t len, uint32_t seed)
{
    uint32_t i;

    for (i = 0; i < len; i++) {
        data[i] = (char)(seed * 31 + i * 7 + (i >> 8));
    }
}

static bool is_pattern(const char *data, uint32_t len, uint32_t seed)
{
    uint32_t i;

    for (i = 0; i < len; i++) {
        if (data[i] != (char)(seed * 31 + i * 7 + (i >> 8))) {
            return false;
        }
    }
    return true;
}

static void open_endpoint(uint32_t num)
{
    struct glex_ep_attr attr = {
        .type = GLEX_EP_TYPE_NORMAL, .num = num, .key = KEY, .mpq_capacity = SMALL_MPQ};

    CHECK(glex_open_device(0, &device) == GLEX_SUCCESS);
    CHECK(glex_create_ep(device, &attr, &ep) == GLEX_SUCCESS);
    memory = calloc(1, LEN);
    CHECK(memory != NULL);
}

/* Send a message; a full queue is waited for. */
static void send_to(glex_ep_addr_t to, const void *data, uint32_t len)
{
    glex_imm_mp_req_t req = {.rmt_ep_addr = to,
                             .data = (void *)(uintptr_t)data,
                             .len = len,
                             .flag = GLEX_EXT_FLAG_NO_LOSS};
    glex_event_t *event;
    glex_ret_t ret;

    while ((ret = glex_send_imm_mp(ep, &req, NULL)) == GLEX_BUSY) {
        (void)glex_probe_first_event(ep, 0, &event); /* lets the network go on */
    }
    CHECK(ret == GLEX_SUCCESS);
}

static uint32_t receive(void *data)
{
    glex_ep_addr_t from;
    uint32_t len = 0;

    CHECK(glex_receive_mp(ep, 30000, &from, data, &len) == GLEX_SUCCESS);
    return len;
}

/* ---- the server ------------------------------------------------------------------------------ */

static void serve_hello(glex_ep_addr_t to)
{
    struct hello hello = {.op = 'h'};

    CHECK(glex_register_mem(ep, memory, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &hello.all) == 0);
    CHECK(glex_register_mem(ep, memory, LEN, GLEX_MEM_READ, &hello.read_only) == 0);
    CHECK(glex_register_mem(ep, memory, LEN, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA,
                            &hello.event_data) == 0);
    send_to(to, &hello, sizeof(hello));
}

static uint32_t serve_count_events(uint32_t wanted)
{
    glex_event_t *event;
    uint32_t num;

    for (num = 0; num < wanted; num++) {
        if (glex_probe_first_event(ep, 20000, &event) != GLEX_SUCCESS ||
            event->cookie_1 != num + 1) {
            break;
        }
        glex_discard_probed_event(ep);
    }
    return num;
}

/* A sequence of one message to the client, which waits for so many control packets. */
static void serve_sequence(glex_ep_addr_t to, uint32_t count, const void *data, uint32_t len,
                           int32_t flag)
{
    glex_imm_mp_req_t req = {.rmt_ep_addr = to,
                             .data = (void *)(uintptr_t)data,
                             .len = len,
                             .coll_counter = count,
                             .flag = GLEX_FLAG_COLL | GLEX_FLAG_COLL_SEQ_START |
                                     GLEX_FLAG_COLL_SEQ_TAIL | GLEX_EXT_FLAG_NO_LOSS | flag};
    glex_event_t *event;
    glex_ret_t ret;

    while ((ret = glex_send_imm_mp(ep, &req, NULL)) == GLEX_BUSY) {
        (void)glex_probe_first_event(ep, 0, &event);
    }
    CHECK(ret == GLEX_SUCCESS);
}

static void serve_reduce(glex_ep_addr_t to, uint32_t count)
{
    union glex_coll_data_loc value = {.int64_s = {.data = 1000, .location = 0}};
    char data[112];
    uint32_t len;

    CHECK(glex_coll_compose_mp_reduce_data(&value, 1, GLEX_COLL_REDUCE_DATA_BITS_64,
                                           GLEX_COLL_REDUCE_SUM_SIGNED, count, data,
                                           &len) == GLEX_SUCCESS);
    serve_sequence(to, count, data, len, GLEX_FLAG_COLL_REDUCE);
}

/* Let control packets come, more than there is room for; then take them. */
static void serve_flood(glex_ep_addr_t to, uint32_t count)
{
    double end = now() + 0.5;
    glex_event_t *event;
    uint32_t i;

    while (now() < end) {
        (void)glex_probe_first_event(ep, 0, &event);
    }
    for (i = 0; i < count / FLOOD_STEP; i++) {
        serve_sequence(to, FLOOD_STEP, &i, sizeof(i), 0);
    }
}

static int serve(void)
{
    char data[128];
    struct command command;
    glex_ep_addr_t from;
    uint32_t len;

    open_endpoint(SERVER_NUM);
    while (glex_receive_mp(ep, -1, &from, data, &len) == GLEX_SUCCESS) {
        memcpy(&command, data, len < sizeof(command) ? len : sizeof(command));
        if (len == 0 || command.op == 'e') { /* echo */
            send_to(from, data, len);
            continue;
        }
        switch (command.op) {
        case 'h':
            serve_hello(from);
            break;
        case 'n': /* how many events come in their order? */
            command.number = serve_count_events(command.number);
            send_to(from, &command, sizeof(command));
            break;
        case 's': /* sleep, and take nothing */
            usleep(command.number * 1000);
            break;
        case 'b': /* answer later */
            usleep(command.number * 1000);
            send_to(from, &command, sizeof(command));
            break;
        case 'c': /* a sequence; it sends offered data, or its own */
            serve_sequence(from, command.number, "own", 4, GLEX_FLAG_COLL_SWAP);
            break;
        case 'r':
            serve_reduce(from, command.number);
            break;
        case 'f':
            serve_flood(from, command.number);
            break;
        case 'k':
            kill(getpid(), SIGKILL);
            break;
        case 'q':
            return glex_destroy_ep(ep) == GLEX_SUCCESS ? 0 : 1;
        default:
            break; /* 'x': one of many */
        }
    }
    return 1;
}

/* ---- the client ------------------------------------------------------------------------------ */

static void ask(char op, uint32_t number)
{
    struct command command = {.op = op, .number = number};

    send_to(peer, &command, sizeof(command));
}

static void start_server(void)
{
    server = fork();
    CHECK(server >= 0);
    if (server == 0) {
        execvp(server_args[0], server_args);
        _exit(127);
    }
}

/* Says hello until the server answers. */
static void meet_server(void)
{
    struct glex_err_req errors[16];
    double end = now() + 30;
    glex_ep_addr_t from;
    uint32_t len, num;
    char data[128];

    do {
        CHECK(now() < end);
        ask('h', 0);
        while (glex_receive_mp(ep, 200, &from, data, &len) != GLEX_SUCCESS) {
            num = 16;
            CHECK(glex_poll_error_req(ep, &num, errors) == GLEX_SUCCESS && now() < end);
            if (num != 0) {
                len = 0;
                break;
            }
        }
    } while (len != sizeof(remote));
    memcpy(&remote, data, sizeof(remote));
}

static void wait_events(uint32_t num)
{
    struct glex_err_req error;
    uint32_t one = 1;
    glex_event_t *event;

    while (num-- > 0) {
        if (glex_probe_first_event(ep, 30000, &event) != GLEX_SUCCESS) {
            glex_poll_error_req(ep, &one, &error);
            printf("# errors %u, status %d\n", one, one != 0 ? (int)error.status : -1);
            failure(__LINE__, "an event comes");
        }
        glex_discard_probed_event(ep);
    }
}

static void post_rdma(glex_rdma_req_t *req)
{
    glex_event_t *event;
    glex_ret_t ret;

    while ((ret = glex_rdma(ep, req, NULL)) == GLEX_BUSY) {
        CHECK(glex_probe_first_event(ep, 0, &event) != GLEX_INVALID_PARAM);
    }
    CHECK(ret == GLEX_SUCCESS);
}

static glex_rdma_req_t rdma(enum glex_rdma_type type, uint32_t offset, uint32_t len)
{
    return (glex_rdma_req_t){.rmt_ep_addr = peer,
                             .local_mh = local,
                             .local_offset = offset,
                             .len = len,
                             .rmt_mh = remote.all,
                             .rmt_offset = offset,
                             .type = type,
                             .rmt_key = KEY,
                             .local_evt = {.cookie_0 = 1, .cookie_1 = 2},
                             .flag = GLEX_FLAG_LOCAL_EVT};
}

/* The one error request that comes. */
static struct glex_err_req wait_error(void)
{
    struct glex_err_req error;
    double end = now() + 40;
    glex_event_t *event;
    uint32_t num = 1;

    do {
        CHECK(now() < end);
        CHECK(glex_probe_first_event(ep, 10, &event) != GLEX_SUCCESS);
        num = 1;
        CHECK(glex_poll_error_req(ep, &num, &error) == GLEX_SUCCESS);
    } while (num == 0);
    return error;
}

static void case_messages(void)
{
    char data[128], back[128];
    uint32_t i, len, sent, wanted = 5000;

    for (i = 0, sent = 0; i < wanted; i++) {
        for (; sent < wanted && sent < i + 32; sent++) {
            len = sent % 113;
            pattern(data, len, sent);
            data[0] = 'e';
            send_to(peer, data, len);
        }
        len = i % 113;
        pattern(data, len, i);
        data[0] = 'e';
        CHECK(receive(back) == len);
        CHECK(memcmp(data, back, len) == 0);
    }
}

/* Whether a descriptor of this process is a TCP connection. */
static bool is_connection(int fd)
{
    struct sockaddr_storage to = {0};
    socklen_t len = sizeof(to);

    return getpeername(fd, (struct sockaddr *)&to, &len) == 0 && to.ss_family == AF_INET;
}

/* The server's requests use the connection that this process made: the control connection, and the
 * connection of libfabric, which need not be TCP. */
static void case_one_connection(void)
{
    int fd, found = 0;

    for (fd = 0; fd < 1024; fd++) {
        found += is_connection(fd);
    }
    CHECK(found >= 1 && found <= 2);
}

static void case_put_get(void)
{
    static const uint32_t lengths[] = {0,     1,     7,      8,       100,   2047,  2048,
                                       2049,  4096,  8191,   8192,    32768, 57343, 57344,
                                       57345, 65536, 200001, 1 << 20, LEN};
    glex_rdma_req_t req;
    uint32_t i;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        pattern(memory, LEN, i);
        req = rdma(GLEX_RDMA_TYPE_PUT, 0, lengths[i]);
        post_rdma(&req);
        wait_events(1);
        memset(memory, 0, LEN);
        req = rdma(GLEX_RDMA_TYPE_GET, 0, lengths[i]);
        post_rdma(&req);
        wait_events(1);
        CHECK(is_pattern(memory, lengths[i], i));
        CHECK(lengths[i] == LEN || memory[lengths[i]] == 0);
    }
}

/* Many at a time, and a remote event for each, in order. */
static void case_remote_events(void)
{
    struct command answer;
    glex_rdma_req_t req;
    uint32_t i, num = 300;

    ask('n', num);
    for (i = 0; i < num; i++) {
        req = rdma(GLEX_RDMA_TYPE_PUT, 4096 * (i % 16), i % 7 * 1000);
        req.flag = GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS;
        req.rmt_evt.cookie_1 = i + 1;
        post_rdma(&req);
    }
    CHECK(receive(&answer) == sizeof(answer));
    CHECK(answer.number == num);
    ask('n', 1);
    req = rdma(GLEX_RDMA_TYPE_GET, 0, 100000);
    req.flag |= GLEX_FLAG_REMOTE_EVT;
    req.rmt_evt.cookie_1 = 1;
    post_rdma(&req);
    wait_events(1);
    CHECK(receive(&answer) == sizeof(answer));
    CHECK(answer.number == 1);
}

static void case_immediate(void)
{
    glex_imm_rdma_req_t put = {
        .rmt_ep_addr = peer, .data = scratch, .rmt_key = KEY, .rmt_evt = {.cookie_1 = 1}};
    struct command answer;
    glex_rdma_req_t req;
    uint32_t len, kind;

    for (len = 0; len <= 96; len++) {
        for (kind = 0; kind < 3; kind++) {
            pattern(scratch, 96, len + kind);
            put.rmt_mh = kind == 2 ? remote.event_data : remote.all;
            put.rmt_offset = 1000 + 100 * kind;
            put.len = len;
            put.flag = kind == 0 ? 0 : GLEX_FLAG_REMOTE_EVT;
            if (kind != 0) {
                ask('n', 1);
            }
            CHECK(glex_imm_rdma(ep, &put, NULL) == GLEX_SUCCESS);
            if (kind != 0) {
                CHECK(receive(&answer) == sizeof(answer) && answer.number == 1);
            }
            memset(memory, 0, 2000);
            req = rdma(GLEX_RDMA_TYPE_GET, 1000 + 100 * kind, 96);
            post_rdma(&req); /* after the put: requests to a peer are executed in order */
            wait_events(1);
            CHECK(is_pattern(memory + 1000 + 100 * kind, len, len + kind));
        }
    }
}

static void expect_refused(glex_rdma_req_t req, enum glex_err_req_status status)
{
    struct glex_err_req error;

    req.local_evt.cookie_1 = 77;
    post_rdma(&req);
    error = wait_error();
    CHECK(error.status == status);
    CHECK(error.data2 == 77 && error.rmt_ep_num == req.rmt_ep_addr.ep_num);
}

static void case_errors(void)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, 0, 100);

    req.rmt_key = KEY + 1;
    expect_refused(req, GLEX_ERR_STATUS_MMT);
    req.type = GLEX_RDMA_TYPE_GET;
    expect_refused(req, GLEX_ERR_STATUS_MMT);
    req = rdma(GLEX_RDMA_TYPE_PUT, 0, 100);
    req.rmt_mh = remote.read_only;
    expect_refused(req, GLEX_ERR_STATUS_MMT);
    req.rmt_mh.v = 12345;
    expect_refused(req, GLEX_ERR_STATUS_MMT);
    req = rdma(GLEX_RDMA_TYPE_PUT, 0, 100);
    req.rmt_offset = LEN - 50;
    expect_refused(req, GLEX_ERR_STATUS_ATT);
    req.type = GLEX_RDMA_TYPE_GET;
    expect_refused(req, GLEX_ERR_STATUS_ATT);
    req = rdma(GLEX_RDMA_TYPE_PUT, 0, 1 << 20); /* in many pieces: one error */
    req.rmt_offset = LEN - 1000;
    expect_refused(req, GLEX_ERR_STATUS_ATT);
    req.rmt_ep_addr.ep_num = SERVER_NUM + 7; /* no such endpoint */
    expect_refused(req, GLEX_ERR_STATUS_DEST_VP_STOP);
    req.rmt_ep_addr.ep_num = 60000; /* without a port */
    expect_refused(req, GLEX_ERR_STATUS_DEST_VP_STOP);
}

/*
 * Too many messages for a queue that no process empties: lost messages are reported, the others
 * arrive.
 */
static void case_full_queue(void)
{
    struct command command = {.op = 'x'};
    glex_imm_mp_req_t req = {.rmt_ep_addr = peer, .data = &command, .len = sizeof(command)};
    struct glex_err_req errors[16];
    uint32_t i, num, lost = 0;
    double end;

    ask('s', 1000);
    for (i = 0; i < 3 * SMALL_MPQ; i++) {
        CHECK(glex_send_imm_mp(ep, &req, NULL) == GLEX_SUCCESS);
    }
    ask('b', 0); /* waits for room */
    CHECK(receive(&command) == sizeof(command) && command.op == 'b');
    for (end = now() + 5; lost < SMALL_MPQ && now() < end; lost += num) {
        num = 16;
        CHECK(glex_poll_error_req(ep, &num, errors) == GLEX_SUCCESS);
        CHECK(num == 0 || errors[0].status == GLEX_ERR_STATUS_DEST_MPQ_FULL);
    }
    CHECK(lost >= SMALL_MPQ); /* the queue held about one of the three */
    do {                      /* the rest, which the next case does not want */
        num = 16;
        CHECK(glex_poll_error_req(ep, &num, errors) == GLEX_SUCCESS);
    } while (num != 0);
}

/* Without loss: all messages arrive in order, even if the queue is full. */
static void case_no_loss(void)
{
    struct command command = {.op = 'e'};
    uint32_t i;

    ask('s', 500);
    for (i = 0; i < 200; i++) {
        command.number = i;
        send_to(peer, &command, sizeof(command));
    }
    for (i = 0; i < 200; i++) {
        CHECK(receive(&command) == sizeof(command) && command.number == i);
    }
}

/* A fenced get must see an earlier put to another place. */
static void case_fence(void)
{
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, 0, 1 << 20);
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, 0, 1 << 20);

    pattern(memory, 1 << 20, 99);
    put.flag = 0;
    post_rdma(&put);
    get.local_mh = scratch_mh;
    get.flag |= GLEX_FLAG_FENCE;
    post_rdma(&get);
    wait_events(1);
    CHECK(is_pattern(scratch, 1 << 20, 99));
}

/* If memory is deregistered during a put from it, the NIC does not read it; other puts continue. */
static void case_deregistered_source(void)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, 0, LEN);
    struct command answer;
    glex_event_t *event;
    uint32_t i;

    ask('n', 1);
    req.local_mh = scratch_mh;
    req.flag |= GLEX_FLAG_REMOTE_EVT;
    req.rmt_evt.cookie_1 = 1;
    post_rdma(&req);
    CHECK(glex_deregister_mem(ep, scratch_mh) == GLEX_SUCCESS);
    CHECK(wait_error().status == GLEX_ERR_STATUS_FORMAT);
    for (i = 0; i < 100; i++) {
        CHECK(glex_probe_first_event(ep, 1, &event) == GLEX_NO_EVENT);
    }
    CHECK(glex_register_mem(ep, scratch, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &scratch_mh) == 0);
    pattern(scratch, LEN, 77);
    req.local_mh = scratch_mh;
    post_rdma(&req);
    wait_events(1);
    CHECK(receive(&answer) == sizeof(answer) && answer.number == 1); /* the second one's event */
    req = rdma(GLEX_RDMA_TYPE_GET, 0, LEN);
    post_rdma(&req);
    wait_events(1);
    CHECK(is_pattern(memory, LEN, 77));
}

/* If memory is deregistered during a get into it, the NIC does not write it. */
static void case_deregistered(void)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, 0, 1 << 20);
    uint32_t i;

    pattern(memory, 1 << 20, 7);
    post_rdma(&req);
    wait_events(1);
    memset(scratch, 0, 1 << 20);
    req = rdma(GLEX_RDMA_TYPE_GET, 0, 1 << 20);
    req.local_mh = scratch_mh;
    post_rdma(&req);
    CHECK(glex_deregister_mem(ep, scratch_mh) == GLEX_SUCCESS);
    CHECK(wait_error().status == GLEX_ERR_STATUS_FORMAT);
    for (i = 0; i < 1 << 20; i++) {
        CHECK(scratch[i] == 0);
    }
    CHECK(glex_register_mem(ep, scratch, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &scratch_mh) == 0);
    req.local_mh = scratch_mh;
    post_rdma(&req);
    wait_events(1);
    CHECK(is_pattern(scratch, 1 << 20, 7));
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void send_coll(glex_ep_addr_t to, const void *data, uint32_t len, int32_t flag)
{
    glex_imm_mp_req_t req = {.rmt_ep_addr = to,
                             .data = (void *)(uintptr_t)data,
                             .len = len,
                             .flag = GLEX_FLAG_COLL | GLEX_EXT_FLAG_NO_LOSS | flag};
    glex_event_t *event;
    glex_ret_t ret;

    while ((ret = glex_send_imm_mp(ep, &req, NULL)) == GLEX_BUSY) {
        (void)glex_probe_first_event(ep, 0, &event);
    }
    CHECK(ret == GLEX_SUCCESS);
}

/* A sequence waits on the other host. It sends its own data, or the data of a control packet. */
static void case_coll_messages(void)
{
    char data[112], back[128];
    uint32_t len;

    ask('c', 2);
    send_coll(peer, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    send_coll(peer, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    CHECK(receive(back) == 4 && strcmp(back, "own") == 0);
    pattern(data, sizeof(data), 5);
    ask('c', 2);
    send_coll(peer, data, sizeof(data),
              GLEX_FLAG_COLL_CP_SWAP_DATA); /* offers, and does not count */
    send_coll(peer, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    send_coll(peer, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    CHECK(receive(back) == sizeof(data) && memcmp(back, data, sizeof(data)) == 0);
    data[0] = 'e'; /* into the message queue as well, where it is answered */
    ask('c', 1);
    send_coll(peer, data, 100, GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_COLL_CP_DATA);
    len = receive(back); /* the answer and the sequence's, in either order */
    CHECK(len + receive(back) == 100 + 4);
}

/* Control packets beside puts: the data arrives before the sequence starts. */
static void case_coll_puts(void)
{
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, 0, 1 << 20);
    glex_imm_rdma_req_t imm = {.rmt_ep_addr = peer,
                               .data = "immediate",
                               .len = 9,
                               .rmt_mh = remote.all,
                               .rmt_offset = 2 << 20,
                               .rmt_evt = {.cookie_0 = 9, .cookie_1 = 1},
                               .rmt_key = KEY,
                               .flag =
                                   GLEX_FLAG_COLL | GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_REMOTE_EVT};
    glex_rdma_req_t get;
    struct command answer;
    char back[128];

    pattern(memory, 1 << 20, 31);
    put.flag |= GLEX_FLAG_COLL | GLEX_FLAG_COLL_COUNTER;
    ask('c', 2);
    post_rdma(&put);
    CHECK(glex_imm_rdma(ep, &imm, NULL) == GLEX_SUCCESS);
    CHECK(receive(back) == 4 && strcmp(back, "own") == 0);
    wait_events(1);
    ask('n', 1);
    CHECK(receive(&answer) == sizeof(answer) && answer.number == 1);
    get = rdma(GLEX_RDMA_TYPE_GET, 0, 3 << 20);
    get.local_mh = scratch_mh;
    post_rdma(&get);
    wait_events(1);
    CHECK(is_pattern(scratch, 1 << 20, 31) && memcmp(scratch + (2 << 20), "immediate", 9) == 0);
    /* Small ones, whose data goes into the message queue, too. */
    memory[0] = 'e';
    put.len = 20;
    put.flag = GLEX_FLAG_COLL | GLEX_FLAG_COLL_CP_DATA;
    post_rdma(&put);
    CHECK(receive(back) == 20 && memcmp(back, memory, 20) == 0);
}

/* Refused packets do not count. */
static void case_coll_refused(void)
{
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, 0, 1 << 18);
    char back[128];

    put.flag |= GLEX_FLAG_COLL | GLEX_FLAG_COLL_COUNTER;
    put.rmt_key = KEY + 1;
    ask('c', 1);
    expect_refused(put, GLEX_ERR_STATUS_MMT);
    put.rmt_key = KEY;
    put.rmt_offset = LEN - 100;
    expect_refused(put, GLEX_ERR_STATUS_ATT);
    ask('e', 77);
    CHECK(receive(back) == sizeof(struct command)); /* and nothing before it */
    send_coll(peer, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    CHECK(receive(back) == 4);
}

/* A put whose source is deregistered during the transfer does not count, and sends no later
 * contents of the memory. */
static void case_coll_deregistered(void)
{
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, 0, LEN);
    char back[128];

    memset(scratch, 0, LEN);
    put.local_mh = scratch_mh;
    put.flag |= GLEX_FLAG_COLL | GLEX_FLAG_COLL_COUNTER;
    ask('c', 1);
    post_rdma(&put);
    CHECK(glex_deregister_mem(ep, scratch_mh) == GLEX_SUCCESS);
    memset(scratch, 'x', LEN);
    CHECK(wait_error().status == GLEX_ERR_STATUS_FORMAT);
    CHECK(glex_register_mem(ep, scratch, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &scratch_mh) == 0);
    ask('e', 78);
    CHECK(receive(back) == sizeof(struct command)); /* and nothing before it */
    send_coll(peer, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    CHECK(receive(back) == 4);
    put = rdma(GLEX_RDMA_TYPE_GET, LEN - 100, 100);
    put.local_mh = scratch_mh;
    post_rdma(&put);
    wait_events(1);
    CHECK(scratch[LEN - 1] != 'x');
}

static void case_coll_reduce(void)
{
    union glex_coll_data_loc value;
    char data[112], back[128];
    uint32_t i, len;

    ask('r', 3);
    for (i = 0; i < 3; i++) {
        value.int64_s.data = (int64_t)1 << (20 * i);
        value.int64_s.location = i;
        CHECK(glex_coll_compose_mp_reduce_data(&value, 1, GLEX_COLL_REDUCE_DATA_BITS_64,
                                               GLEX_COLL_REDUCE_SUM_SIGNED, 3, data, &len) == 0);
        send_coll(peer, data, len, GLEX_FLAG_COLL_COUNTER | GLEX_FLAG_COLL_CP_SWAP_DATA);
    }
    CHECK(receive(back) == len);
    CHECK(glex_coll_decompose_mp_reduce_data(&value, 1, GLEX_COLL_REDUCE_DATA_BITS_64, back) == 0);
    CHECK(value.int64_s.data == 1000 + 1 + (1 << 20) + ((int64_t)1 << 40));
}

/* More than there is room for: they wait, and none is lost or comes twice. */
static void case_coll_flood(void)
{
    struct command answer;
    char back[128];
    uint32_t i;

    ask('f', FLOOD);
    for (i = 0; i < FLOOD; i++) {
        send_coll(peer, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    }
    for (i = 0; i < FLOOD / FLOOD_STEP; i++) {
        CHECK(receive(back) == sizeof(i) && memcmp(back, &i, sizeof(i)) == 0);
    }
    ask('c', 1); /* waits: none is left */
    ask('e', 78);
    CHECK(receive(&answer) == sizeof(answer) && answer.number == 78);
    send_coll(peer, NULL, 0, GLEX_FLAG_COLL_COUNTER);
    CHECK(receive(back) == 4);
}

/* Empty polls: the network's descriptor need not become readable for a process that only polls. */
static void poll_for_nothing(void)
{
    glex_event_t *event;
    int i;

    for (i = 0; i < 100; i++) {
        CHECK(glex_probe_first_event(ep, 0, &event) == GLEX_NO_EVENT);
    }
}

/* Returns the seconds until a sleeping process receives a message that takes 50 ms. Sleeps on `fd`;
 * with -1 in the call. Polls continue between arming and sleeping, as by another thread. */
static double sleep_for_answer(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    struct command command;
    glex_ep_addr_t from;
    double begin = now();
    uint32_t len;

    ask('b', 50);
    poll_for_nothing();
    while (glex_receive_mp(ep, fd < 0 ? 1000 : 0, &from, &command, &len) != GLEX_SUCCESS) {
        if (fd >= 0 && glex_ext_arm(ep) == GLEX_SUCCESS) {
            poll_for_nothing();
            CHECK(poll(&pfd, 1, 30000) == 1);
        }
    }
    return now() - begin;
}

static void *receive_asleep(void *arg)
{
    struct command command;

    (void)arg;
    CHECK(receive(&command) == sizeof(command));
    return NULL;
}

/* The same with two threads: a thread sleeps in the call, this thread polls. */
static double sleep_beside_polls(int fd)
{
    double begin = now();
    pthread_t thread;

    (void)fd;
    ask('b', 50);
    CHECK(pthread_create(&thread, NULL, receive_asleep, NULL) == 0);
    usleep(10000);
    poll_for_nothing();
    CHECK(pthread_join(thread, NULL) == 0);
    return now() - begin;
}

/* A sleeper looks by itself every 200 ms: of some that are woken, one at least is woken before. */
static void check_is_woken(double (*sleep_once)(int fd), int fd)
{
    double time, best = 1;
    int i;

    for (i = 0; i < 10 && best >= 0.15; i++) {
        time = sleep_once(fd);
        best = time < best ? time : best;
    }
    CHECK(best < 0.15);
}

static void case_sleep(void)
{
    glex_ep_addr_t from;
    struct command command;
    uint32_t len;
    double begin = now();
    int fd;

    CHECK(glex_receive_mp(ep, 300, &from, &command, &len) == GLEX_NO_MP);
    CHECK(now() - begin >= 0.29);
    check_is_woken(sleep_for_answer, -1);
    check_is_woken(sleep_beside_polls, -1);
    CHECK(glex_ext_event_fd(ep, &fd) == GLEX_SUCCESS);
    check_is_woken(sleep_for_answer, fd);
    check_is_woken(sleep_for_answer, -1);
}

/* All requests to a killed process end. The next process at its address is a new peer. */
static void case_death(void)
{
    struct glex_err_req errors[16];
    uint32_t i, num, ended = 0, posted = 100;
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, 0, 100000);
    double end = now() + 30;
    glex_event_t *event;

    ask('k', 0);
    for (i = 0; i < posted; i++) {
        post_rdma(&req);
    }
    while (ended < posted) {
        CHECK(now() < end);
        if (glex_probe_first_event(ep, 10, &event) == GLEX_SUCCESS) {
            glex_discard_probed_event(ep);
            ended++;
        }
        num = 16;
        CHECK(glex_poll_error_req(ep, &num, errors) == GLEX_SUCCESS);
        ended += num;
    }
    CHECK(waitpid(server, NULL, 0) == server);
    start_server();
    meet_server();
    case_messages();
}

/* victim ADDRESS MEMORY: puts to the client without end, and death in the midst of one. */
static int be_victim(const char *to, const char *mh)
{
    glex_rdma_req_t req = {.len = 1 << 20,
                           .type = GLEX_RDMA_TYPE_PUT,
                           .rmt_key = KEY,
                           .local_evt = {.cookie_1 = 1},
                           .flag = GLEX_FLAG_LOCAL_EVT};
    uint32_t i;

    open_endpoint(GLEX_ANY_EP_NUM);
    CHECK(glex_register_mem(ep, memory, LEN, GLEX_MEM_READ, &req.local_mh) == GLEX_SUCCESS);
    req.rmt_ep_addr.v = strtoull(to, NULL, 16);
    req.rmt_mh.v = strtoull(mh, NULL, 16);
    post_rdma(&req);
    wait_events(1);
    for (i = 0; i < 8; i++) {
        post_rdma(&req);
    }
    kill(getpid(), SIGKILL);
    return 1;
}

/* The same program on the peer's host, with other arguments than the server's. */
static pid_t start_victim(void)
{
    char to[32], mh[32];
    size_t num = 0;
    glex_ep_addr_t self;
    char **args;
    pid_t pid;

    CHECK(glex_get_ep_addr(ep, &self) == GLEX_SUCCESS); /* the endpoint is not the child's */
    pid = fork();
    if (pid != 0) {
        return pid;
    }
    while (server_args[num] != NULL) {
        num++;
    }
    args = calloc(num + 3, sizeof(*args));
    snprintf(to, sizeof(to), "%llx", (unsigned long long)self.v);
    snprintf(mh, sizeof(mh), "%llx", (unsigned long long)scratch_mh.v);
    memcpy(args, server_args, num * sizeof(*args));
    args[num - 1] = "--victim";
    args[num] = to;
    args[num + 1] = mh;
    execvp(args[0], args);
    _exit(127);
}

/* Peers that are killed during a transfer do not keep resources, such as receive buffers. */
static void case_victims(void)
{
    const char *fewer = getenv("LINK_VICTIMS"); /* where processes are slow to start */
    int i, status, num = fewer != NULL ? atoi(fewer) : VICTIMS;
    glex_event_t *event;
    double end;
    pid_t pid;

    for (i = 0; i < num; i++) {
        pid = start_victim();
        CHECK(pid > 0);
        for (end = now() + 60; waitpid(pid, &status, WNOHANG) == 0;) {
            CHECK(now() < end);
            (void)glex_probe_first_event(ep, 1, &event);
        }
        CHECK(!WIFEXITED(status) || WEXITSTATUS(status) == 128 + SIGKILL);
    }
    case_messages();
}

/* Requests that are posted before the end of an endpoint arrive. */
static void case_destroy(void)
{
    int status = -1;

    ask('q', 0);
    CHECK(glex_destroy_ep(ep) == GLEX_SUCCESS);
    CHECK(waitpid(server, &status, 0) == server);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    server = 0;
    CHECK(glex_close_device(device) == GLEX_SUCCESS);
}

/* A sender computes between its post and the proof of the key, for longer than the timeout of the
 * receiver. The message must arrive. For a short GLEX_NET_TIMEOUT. */
static void case_slow(void)
{
    const char *timeout = getenv("GLEX_NET_TIMEOUT");
    glex_ep_handle_t first = ep;
    struct glex_err_req error;
    struct command command;
    uint32_t num = 1;
    char data[128];

    CHECK(timeout != NULL);
    open_endpoint(CLIENT_NUM + 1);
    ask('e', 5);
    sleep((unsigned)atoi(timeout) + 2);
    CHECK(receive(data) == sizeof(command));
    memcpy(&command, data, sizeof(command));
    CHECK(command.op == 'e' && command.number == 5);
    CHECK(glex_poll_error_req(ep, &num, &error) == GLEX_SUCCESS && num == 0);
    CHECK(glex_destroy_ep(ep) == GLEX_SUCCESS);
    ep = first;
}

static void run(const char *name, void (*function)(void))
{
    case_name = name;
    function();
    printf("ok %s\n", name);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } cases[] = {
        {"messages of all lengths, in order", case_messages},
        {"one connection for both directions", case_one_connection},
        {"puts and gets from 0 B to 4 MB", case_put_get},
        {"remote events of puts and gets", case_remote_events},
        {"immediate puts of all lengths", case_immediate},
        {"requests that are refused say why", case_errors},
        {"a full queue loses with an error", case_full_queue},
        {"a full queue without loss", case_no_loss},
        {"fence", case_fence},
        {"memory that is deregistered before a put has ended", case_deregistered_source},
        {"memory that is deregistered before a get has ended", case_deregistered},
        {"collectives: messages, and what they offer", case_coll_messages},
        {"collectives: puts", case_coll_puts},
        {"collectives: what is refused does not count", case_coll_refused},
        {"collectives: a put's memory that is deregistered", case_coll_deregistered},
        {"collectives: a sum", case_coll_reduce},
        {"collectives: more control packets than fit", case_coll_flood},
        {"sleeping, by timeout and by descriptor", case_sleep},
        {"a peer that is killed, and its successor", case_death},
        {"peers that are killed in the midst of puts", case_victims},
        {"what is posted before the end arrives", case_destroy},
    };
    bool slow = getenv("LINK_SLOW") != NULL;
    size_t i;

    if (argc > 1 && strcmp(argv[argc - 1], "--server") == 0) {
        case_name = "server";
        return serve();
    }
    if (argc > 3 && strcmp(argv[argc - 3], "--victim") == 0) {
        case_name = "victim";
        return be_victim(argv[argc - 2], argv[argc - 1]);
    }
    if (argc < 3) {
        fprintf(stderr, "usage: %s PEER_NIC PROGRAM [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    peer_nic = (uint32_t)strtoul(argv[1], NULL, 0);
    server_args = calloc((size_t)argc, sizeof(*server_args));
    scratch = malloc(LEN);
    CHECK(server_args != NULL && scratch != NULL);
    memcpy(server_args, argv + 2, (size_t)(argc - 2) * sizeof(*server_args));
    server_args[argc - 2] = "--server";
    start_server();
    open_endpoint(CLIENT_NUM);
    CHECK(glex_register_mem(ep, memory, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &local) == 0);
    CHECK(glex_register_mem(ep, scratch, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &scratch_mh) == 0);
    glex_compose_ep_addr(peer_nic, SERVER_NUM, GLEX_EP_TYPE_NORMAL, &peer);
    meet_server();
    if (slow) {
        run("a sender that computes before its proof", case_slow);
    }
    for (i = slow ? sizeof(cases) / sizeof(cases[0]) - 1 : 0; i < sizeof(cases) / sizeof(cases[0]);
         i++) {
        run(cases[i].name, cases[i].function);
    }
    return 0;
}
