/*
 * outage SURVIVES PEER_NIC PROGRAM [ARGUMENT...]: two hosts exchange messages for some seconds,
 * while the network goes away and comes back. With SURVIVES 1 nothing may be lost. With 0 requests
 * may fail, each with an error, and requests after the outage arrive. Nothing arrives twice.
 */
#include <glex.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVER_NUM 100
#define CLIENT_NUM 101
#define SECONDS    8
#define MOST       150

static glex_ep_handle_t ep;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int failure(const char *what)
{
    printf("not ok: %s\n", what);
    exit(1);
}

static void open_endpoint(uint32_t num)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL, .num = num, .key = 1};
    glex_device_handle_t device;

    if (glex_open_device(0, &device) != GLEX_SUCCESS ||
        glex_create_ep(device, &attr, &ep) != GLEX_SUCCESS) {
        failure("no endpoint");
    }
}

/* Send a number. False: not now. */
static bool post(glex_ep_addr_t to, uint64_t number)
{
    glex_imm_mp_req_t req = {.rmt_ep_addr = to, .data = &number, .len = sizeof(number)};

    return glex_send_imm_mp(ep, &req, NULL) == GLEX_SUCCESS;
}

/* Echoes each message once and in order, until 0 arrives. */
static int serve(void)
{
    uint64_t number, last = 0;
    glex_ep_addr_t from;
    uint32_t len;

    open_endpoint(SERVER_NUM);
    for (;;) {
        if (glex_receive_mp(ep, MOST * 1000, &from, &number, &len) != GLEX_SUCCESS) {
            return 1;
        }
        if (number == 0) {
            return glex_destroy_ep(ep) == GLEX_SUCCESS ? 0 : 1;
        }
        if (number <= last) {
            return failure("a message came twice");
        }
        last = number;
        while (!post(from, number)) {
            usleep(100);
        }
    }
}

/* The number that comes back within `ms`; 0: none. Failed requests are counted. */
static uint64_t await(int32_t ms, uint32_t *failed)
{
    struct glex_err_req errors[16];
    glex_ep_addr_t from;
    uint64_t number = 0;
    uint32_t len, num = 16;

    if (glex_receive_mp(ep, ms, &from, &number, &len) != GLEX_SUCCESS) {
        number = 0;
    }
    if (glex_poll_error_req(ep, &num, errors) != GLEX_SUCCESS) {
        failure("errors cannot be read");
    }
    *failed += num;
    return number;
}

static pid_t start_server(char **args)
{
    pid_t pid = fork();

    if (pid == 0) {
        execvp(args[0], args);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv)
{
    bool survives;
    uint64_t sent = 0, back = 0, got = 0, number;
    uint32_t failed = 0;
    glex_ep_addr_t peer;
    double begin, last_back;
    char **args;
    pid_t pid;
    int status;

    if (argc > 1 && strcmp(argv[argc - 1], "--server") == 0) {
        return serve();
    }
    if (argc < 4) {
        fprintf(stderr, "usage: %s SURVIVES PEER_NIC PROGRAM [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    survives = argv[1][0] == '1';
    args = calloc((size_t)argc, sizeof(*args));
    memcpy(args, argv + 3, (size_t)(argc - 3) * sizeof(*args));
    args[argc - 3] = "--server";
    pid = start_server(args);
    open_endpoint(CLIENT_NUM);
    glex_compose_ep_addr((uint32_t)strtoul(argv[2], NULL, 0), SERVER_NUM, GLEX_EP_TYPE_NORMAL,
                         &peer);
    while (back == 0) { /* until the server is there */
        post(peer, ++sent);
        back = await(200, &failed);
    }
    printf("# both are there\n"); /* the outage may begin */
    fflush(stdout);
    got = back;
    failed = 0;
    begin = last_back = now();
    /* As long as the network may be away, and until it has been used again for a while. */
    while (now() - begin < SECONDS || (now() - last_back > 1 && now() - begin < MOST)) {
        if (sent - got < 32 || (!survives && now() - last_back > 1)) {
            sent += post(peer, sent + 1);
        }
        number = await(sent - got < 32 ? 0 : 5, &failed);
        if (number != 0) {
            if (number <= got) {
                failure("an answer came twice, or out of order");
            }
            got = number;
            back++;
            last_back = now();
        }
    }
    while (got < sent && now() - last_back < 10) {
        number = await(10, &failed);
        got = number > got ? number : got;
    }
    printf("# %llu sent, %u failed, last answer %llu\n", (unsigned long long)sent, failed,
           (unsigned long long)got);
    if (now() - begin >= MOST || got + 100 < sent) {
        failure("nothing arrives after the network is back");
    }
    if (survives && (failed != 0 || got != sent)) {
        failure("messages were lost in a short outage");
    }
    post(peer, 0);
    if (glex_destroy_ep(ep) != GLEX_SUCCESS || waitpid(pid, &status, 0) != pid || status != 0) {
        failure("the server has failed");
    }
    return 0;
}
