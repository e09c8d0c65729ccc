/*
 * A file service: requests and replies are messages, data goes by RDMA.
 *
 *   file_service DIRECTORY RANK SIZE [THREADS]
 *
 * Rank 0 is the server. THREADS threads of the server use one endpoint. All other ranks have THREADS
 * clients. A client is a thread with an endpoint.
 *
 * | request | what the server does                                    | how the client learns of the end |
 * | ------- | ------------------------------------------------------- | -------------------------------- |
 * | OPEN    | looks the file up                                       | a reply with the file's length   |
 * | READ    | puts the bytes into the client's memory                 | the event of the put             |
 * | WRITE   | gets the bytes from the client's memory into the file   | a reply after the get            |
 * | CLOSE   | counts the client                                       | a reply                          |
 *
 * File 0 is written by the server. Each client writes one file of its own in blocks of odd lengths,
 * several at a time, reads the file back in other blocks, and compares every byte. A request beyond
 * the end of a file, and of an unknown file, gets a reply with an error, and changes nothing.
 */
#include "job.h"

#include <stdatomic.h>

#define SERVER_KEY 0x23
#define CLIENT_KEY 0x77
#define FILE_LEN   (96 * 1024 + 13)
#define MAX_FILES  (1 + JOB_MAX_RANKS * JOB_MAX_THREADS)
#define DEPTH      8 /* requests of a client at a time */
#define MAX_TAGS   4096
#define GUARD      0xee

enum op { OP_OPEN = 1, OP_READ, OP_WRITE, OP_CLOSE };

struct request {
    uint32_t op, tag;
    uint32_t file, offset, len;
    uint32_t client_offset;
    glex_mem_handle_t client_mh;
};

struct reply {
    uint32_t tag, failed;
    uint32_t value;
};

static uint8_t file_byte(uint32_t file, uint32_t version, uint32_t i)
{
    return (uint8_t)(file * 29 + version * 101 + i + i / 241);
}

/* ---- the server ------------------------------------------------------------------------------ */

struct server {
    struct job *job;
    glex_ep_handle_t ep;
    glex_mem_handle_t mh;
    uint8_t *files; /* FILE_LEN bytes each */
    uint32_t num_files;
    atomic_uint closed; /* clients */
    atomic_uint reads, writes;
};

/* The server's events are ends of gets. An event has room for the client's address and the tag. */
static void get_block(struct server *server, glex_ep_addr_t client, const struct request *request)
{
    glex_rdma_req_t req;
    glex_ret_t ret;

    CLIENT_UNINITIALISED(&req);
    req.rmt_ep_addr = client;
    req.local_mh = server->mh;
    req.local_offset = request->file * FILE_LEN + request->offset;
    req.len = request->len;
    req.rmt_mh = request->client_mh;
    req.rmt_offset = request->client_offset;
    req.type = GLEX_RDMA_TYPE_GET;
    req.local_evt.cookie_0 = client.v;
    req.local_evt.cookie_1 = request->tag;
    req.rmt_key = CLIENT_KEY;
    req.flag = GLEX_FLAG_LOCAL_EVT;
    req.next = NULL;
    do {
        ret = glex_rdma(server->ep, &req, NULL);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_rdma");
}

static void put_short(struct server *server, glex_ep_addr_t client, const struct request *request)
{
    glex_imm_rdma_req_t req;
    glex_ret_t ret;

    CLIENT_UNINITIALISED(&req);
    req.rmt_ep_addr = client;
    req.data = server->files + request->file * FILE_LEN + request->offset;
    req.len = request->len;
    req.rmt_mh = request->client_mh;
    req.rmt_offset = request->client_offset;
    req.rmt_evt.cookie_0 = request->len;
    req.rmt_evt.cookie_1 = request->tag;
    req.rmt_key = CLIENT_KEY;
    req.flag = GLEX_FLAG_REMOTE_EVT;
    req.next = NULL;
    do {
        ret = glex_imm_rdma(server->ep, &req, NULL);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_imm_rdma");
}

static void put_long(struct server *server, glex_ep_addr_t client, const struct request *request)
{
    glex_rdma_req_t req;
    glex_ret_t ret;

    CLIENT_UNINITIALISED(&req);
    req.rmt_ep_addr = client;
    req.local_mh = server->mh;
    req.local_offset = request->file * FILE_LEN + request->offset;
    req.len = request->len;
    req.rmt_mh = request->client_mh;
    req.rmt_offset = request->client_offset;
    req.type = GLEX_RDMA_TYPE_PUT;
    req.rmt_evt.cookie_0 = request->len;
    req.rmt_evt.cookie_1 = request->tag;
    req.rmt_key = CLIENT_KEY;
    req.flag = GLEX_FLAG_REMOTE_EVT;
    req.next = NULL;
    do {
        ret = glex_rdma(server->ep, &req, NULL);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_rdma");
}

static void send_reply(struct server *server, glex_ep_addr_t client, uint32_t tag, uint32_t failed,
                       uint32_t value)
{
    struct reply reply = {.tag = tag, .failed = failed, .value = value};

    client_send(server->ep, client, &reply, sizeof(reply));
}

static void serve_request(struct server *server, glex_ep_addr_t client,
                          const struct request *request)
{
    if (request->file >= server->num_files || (uint64_t)request->offset + request->len > FILE_LEN) {
        send_reply(server, client, request->tag, 1, 0);
        return;
    }
    switch (request->op) {
    case OP_OPEN:
        send_reply(server, client, request->tag, 0, FILE_LEN);
        break;
    case OP_READ:
        atomic_fetch_add(&server->reads, 1);
        if (request->len <= server->job->attr.max_imm_rdma_data_len) {
            put_short(server, client, request);
        } else {
            put_long(server, client, request);
        }
        break;
    case OP_WRITE:
        atomic_fetch_add(&server->writes, 1);
        get_block(server, client, request);
        break;
    case OP_CLOSE:
        send_reply(server, client, request->tag, 0, 0);
        atomic_fetch_add(&server->closed, 1);
        break;
    default:
        CLIENT_FAIL("a client asks for %u", request->op);
    }
}

/* Takes a request, if one comes within `timeout`. */
static int take_request(struct server *server, int timeout)
{
    struct request request;
    glex_ep_addr_t client;
    glex_ret_t ret;
    uint32_t len;
    void *data;

    ret = glex_probe_first_mp(server->ep, timeout, &client, &data, &len);
    if (ret == GLEX_NO_MP || ret == GLEX_INTR) {
        return 0;
    }
    client_check(ret, "glex_probe_first_mp");
    if (len != sizeof(request)) {
        CLIENT_FAIL("a request of %u bytes", len);
    }
    memcpy(&request, data, sizeof(request));
    CLIENT_CHECK(glex_discard_probed_mp(server->ep));
    serve_request(server, client, &request);
    return 1;
}

/* Replies to a write whose bytes have come. */
static int take_end_of_get(struct server *server)
{
    glex_ep_addr_t client;
    glex_event_t *event;
    uint32_t tag;
    glex_ret_t ret;

    ret = glex_probe_first_event(server->ep, 0, &event);
    if (ret == GLEX_NO_EVENT) {
        return 0;
    }
    client_check(ret, "glex_probe_first_event");
    client.v = event->cookie_0;
    tag = (uint32_t)event->cookie_1;
    CLIENT_CHECK(glex_discard_probed_event(server->ep));
    send_reply(server, client, tag, 0, 0);
    return 1;
}

static void *serve(void *arg)
{
    struct server *server = *(struct server **)arg;
    double deadline = job_now() + CLIENT_WAIT_MS * 1e-3;
    int busy = 1;

    while (atomic_load(&server->closed) < server->num_files - 1) {
        busy = take_request(server, busy ? 0 : 1) + take_end_of_get(server);
        if (busy) {
            deadline = job_now() + CLIENT_WAIT_MS * 1e-3;
        } else if (job_now() > deadline) {
            client_check_no_errors(server->ep);
            CLIENT_FAIL("only %u clients have ended", atomic_load(&server->closed));
        }
    }
    return NULL;
}

static void open_server(struct server *server, struct job *job, glex_ep_addr_t *addr)
{
    size_t len;
    uint32_t i;

    server->job = job;
    server->num_files = 1 + (uint32_t)((job->size - 1) * job->threads);
    len = (size_t)server->num_files * FILE_LEN;
    server->files = malloc(len);
    if (server->files == NULL) {
        CLIENT_FAIL("no memory");
    }
    memset(server->files, 0, len);
    for (i = 0; i < FILE_LEN; i++) {
        server->files[i] = file_byte(0, 0, i);
    }
    server->ep = client_create_ep(job->dev, SERVER_KEY, GLEX_EP_MPQ_CAPACITY_DEFAULT);
    CLIENT_CHECK(glex_register_mem(server->ep, server->files, len, GLEX_MEM_READ | GLEX_MEM_WRITE,
                                   &server->mh));
    CLIENT_CHECK(glex_get_ep_addr(server->ep, addr));
}

/* The files are as the clients wrote them last. */
static void close_server(struct server *server)
{
    uint32_t file, i;

    for (file = 0; file < server->num_files; file++) {
        for (i = 0; i < FILE_LEN; i++) {
            if (server->files[file * FILE_LEN + i] != file_byte(file, file == 0 ? 0 : 2, i)) {
                CLIENT_FAIL("byte %u of file %u is %u at the end", i, file,
                            server->files[file * FILE_LEN + i]);
            }
        }
    }
    client_check_no_errors(server->ep);
    CLIENT_CHECK(glex_deregister_mem(server->ep, server->mh));
    CLIENT_CHECK(glex_destroy_ep(server->ep));
    free(server->files);
}

/* ---- a client -------------------------------------------------------------------------------- */

struct client {
    struct job *job;
    uint32_t file; /* its own */
    glex_ep_addr_t server;
    glex_ep_handle_t ep;
    glex_mem_handle_t mh;
    uint8_t *mem; /* FILE_LEN bytes and a guard */
    uint32_t tag, ended;
    uint8_t done[MAX_TAGS];
};

static void send_request(struct client *client, uint32_t op, uint32_t file, uint32_t offset,
                         uint32_t len)
{
    struct request request;

    request.op = op;
    request.tag = ++client->tag;
    request.file = file;
    request.offset = offset;
    request.len = len;
    request.client_offset = offset;
    request.client_mh = client->mh;
    if (client->tag >= MAX_TAGS) {
        CLIENT_FAIL("too many requests");
    }
    client_send(client->ep, client->server, &request, sizeof(request));
}

static void end_request(struct client *client, uint64_t tag)
{
    if (tag == 0 || tag > client->tag || client->done[tag]++ != 0) {
        CLIENT_FAIL("request %llu ends, and is not open", (unsigned long long)tag);
    }
    client->ended++;
}

static int take_reply(struct client *client, struct reply *reply)
{
    glex_ep_addr_t src;
    glex_ret_t ret;
    uint8_t data[256];
    uint32_t len;

    ret = glex_receive_mp(client->ep, 1, &src, data, &len);
    if (ret == GLEX_NO_MP || ret == GLEX_INTR) {
        return 0;
    }
    client_check(ret, "glex_receive_mp");
    if (src.v != client->server.v || len != sizeof(*reply)) {
        CLIENT_FAIL("a reply of %u bytes of endpoint %u", len, src.ep_num);
    }
    memcpy(reply, data, sizeof(*reply));
    end_request(client, reply->tag);
    return 1;
}

static struct reply wait_reply(struct client *client)
{
    double deadline = job_now() + CLIENT_WAIT_MS * 1e-3;
    struct reply reply;

    while (!take_reply(client, &reply)) {
        if (job_now() > deadline) {
            client_check_no_errors(client->ep);
            CLIENT_FAIL("client %u gets no reply", client->file);
        }
    }
    return reply;
}

static void wait_write(struct client *client)
{
    struct reply reply = wait_reply(client);

    if (reply.failed) {
        CLIENT_FAIL("write %u of client %u failed", reply.tag, client->file);
    }
}

/* Waits for a put, and takes further puts that have come. */
static void wait_read(struct client *client)
{
    glex_event_t *event;
    glex_ret_t ret;

    ret = glex_probe_first_event(client->ep, CLIENT_WAIT_MS, &event);
    if (ret != GLEX_SUCCESS) {
        client_check_no_errors(client->ep);
    }
    client_check(ret, "glex_probe_first_event");
    do {
        end_request(client, event->cookie_1);
    } while (glex_probe_next_event(client->ep, &event) == GLEX_SUCCESS);
    CLIENT_CHECK(glex_discard_probed_event(client->ep));
}

/* A whole file in blocks of growing lengths, DEPTH requests at a time. */
static void transfer(struct client *client, uint32_t op, uint32_t file, uint32_t first_len)
{
    uint32_t offset = 0, len = first_len, begun = client->tag;

    while (offset < FILE_LEN || client->ended < client->tag) {
        if (offset < FILE_LEN && client->tag - client->ended < DEPTH) {
            len = len < FILE_LEN - offset ? len : FILE_LEN - offset;
            send_request(client, op, file, offset, len);
            offset += len;
            len = len * 5 / 4 + 1;
        } else if (op == OP_READ) {
            wait_read(client);
        } else {
            wait_write(client);
        }
    }
    if (client->tag == begun) {
        CLIENT_FAIL("nothing was transferred");
    }
}

static void fill(struct client *client, uint32_t file, uint32_t version)
{
    uint32_t i;

    for (i = 0; i < FILE_LEN; i++) {
        client->mem[i] = file_byte(file, version, i);
    }
}

static void read_and_compare(struct client *client, uint32_t file, uint32_t version,
                             uint32_t first_len)
{
    uint32_t i;

    memset(client->mem, GUARD, FILE_LEN);
    transfer(client, OP_READ, file, first_len);
    for (i = 0; i < FILE_LEN; i++) {
        if (client->mem[i] != file_byte(file, version, i)) {
            CLIENT_FAIL("client %u reads %u, not %u, at byte %u of file %u", client->file,
                        client->mem[i], file_byte(file, version, i), i, file);
        }
    }
    if (client->mem[FILE_LEN] != GUARD) {
        CLIENT_FAIL("a read of client %u went beyond its end", client->file);
    }
}

static void expect_refusal(struct client *client, uint32_t op, uint32_t file, uint32_t offset,
                           uint32_t len)
{
    send_request(client, op, file, offset, len);
    if (!wait_reply(client).failed) {
        CLIENT_FAIL("client %u: no error for %u bytes at %u of file %u", client->file, len, offset,
                    file);
    }
}

static void *use_files(void *arg)
{
    struct client *client = arg;
    struct reply reply;

    send_request(client, OP_OPEN, client->file, 0, 0);
    reply = wait_reply(client);
    if (reply.failed || reply.value != FILE_LEN) {
        CLIENT_FAIL("file %u has %u bytes", client->file, reply.value);
    }
    fill(client, client->file, 1);
    transfer(client, OP_WRITE, client->file, 1);
    read_and_compare(client, client->file, 1, 7);
    read_and_compare(client, 0, 0, 90);
    fill(client, client->file, 2);
    transfer(client, OP_WRITE, client->file, 1000);
    expect_refusal(client, OP_WRITE, client->file, FILE_LEN - 1, 2);
    expect_refusal(client, OP_READ, client->file, 0xffffffff, 1);
    expect_refusal(client, OP_OPEN, MAX_FILES, 0, 0);
    read_and_compare(client, client->file, 2, FILE_LEN);
    send_request(client, OP_CLOSE, client->file, 0, 0);
    wait_reply(client);
    return NULL;
}

static void open_client(struct client *client, struct job *job, int thread, glex_ep_addr_t server)
{
    client->job = job;
    client->file = (uint32_t)(1 + (job->rank - 1) * job->threads + thread);
    client->server = server;
    client->ep = client_create_ep(job->dev, CLIENT_KEY, GLEX_EP_MPQ_CAPACITY_DEFAULT);
    client->mem = malloc(FILE_LEN + 1);
    if (client->mem == NULL) {
        CLIENT_FAIL("no memory");
    }
    client->mem[FILE_LEN] = GUARD;
    CLIENT_CHECK(glex_register_mem(client->ep, client->mem, FILE_LEN + 1,
                                   GLEX_MEM_READ | GLEX_MEM_WRITE, &client->mh));
}

static void close_client(struct client *client)
{
    client_check_no_errors(client->ep);
    CLIENT_CHECK(glex_deregister_mem(client->ep, client->mh));
    CLIENT_CHECK(glex_destroy_ep(client->ep));
    free(client->mem);
}

int main(int argc, char **argv)
{
    static struct client clients[JOB_MAX_THREADS];
    struct server *servers[JOB_MAX_THREADS];
    glex_ep_addr_t addrs[JOB_MAX_RANKS], mine = {.v = 0};
    static struct server server;
    struct job job;
    int i;

    job_open(&job, argc, argv);
    if (job.rank == 0) {
        open_server(&server, &job, &mine);
    }
    job_exchange(&job, &mine, addrs, sizeof(mine));
    for (i = 0; i < job.threads; i++) {
        servers[i] = &server;
        if (job.rank > 0) {
            open_client(&clients[i], &job, i, addrs[0]);
        }
    }
    if (job.rank == 0) {
        job_run(&job, serve, servers, sizeof(servers[0]));
    } else {
        job_run(&job, use_files, clients, sizeof(clients[0]));
    }
    job_barrier(&job);
    if (job.rank == 0) {
        close_server(&server);
        printf("%u reads and %u writes of %u clients, %d threads: every byte is right\n",
               atomic_load(&server.reads), atomic_load(&server.writes), server.num_files - 1,
               job.threads);
    }
    for (i = 0; i < job.threads && job.rank > 0; i++) {
        close_client(&clients[i]);
    }
    job_close(&job);
    return 0;
}
