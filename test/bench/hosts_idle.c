/*
 * The cost of silent peers on another host.
 *
 *   hosts_idle                 makes the requested endpoints, prints an address, and polls
 *   hosts_idle ADDRESS PEERS   sends a message to each of PEERS endpoints, then measures
 *
 * Prints lines "name value": peers, poll_ns (a poll that finds nothing), peer_kb (memory of this
 * process for each peer).
 */
#include <glex.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_PEERS     2000
#define PEER_CAPACITY 64 /* of the queues of each */
/* An idle process polls the network less and less often. The measurement begins after this time. */
#define SETTLE_NS 1000000000ull
#define POLL_NS   2000000000ull
#define LIMIT_NS  120000000000ull

#define CHECK(call) check((call), #call)

static void check(glex_ret_t ret, const char *what)
{
    if (ret != GLEX_SUCCESS) {
        fprintf(stderr, "hosts_idle: %s: %s\n", what, glex_error_str(ret));
        exit(EXIT_FAILURE);
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static glex_ep_handle_t make_ep(glex_device_handle_t dev, uint32_t capacity)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL,
                                .num = GLEX_ANY_EP_NUM,
                                .key = 1,
                                .mpq_capacity = capacity,
                                .eq_capacity = capacity};
    glex_ep_handle_t ep;

    CHECK(glex_create_ep(dev, &attr, &ep));
    return ep;
}

static void send_mp(glex_ep_handle_t ep, glex_ep_addr_t to, const void *data, uint32_t len)
{
    glex_imm_mp_req_t req = {.rmt_ep_addr = to, .data = (void *)(uintptr_t)data, .len = len};
    uint64_t end = now_ns() + LIMIT_NS;
    glex_ret_t ret;

    while ((ret = glex_send_imm_mp(ep, &req, NULL)) == GLEX_BUSY && now_ns() < end) {
    }
    check(ret, "glex_send_imm_mp");
}

/* Takes a message, which must come. Returns its sender. */
static glex_ep_addr_t take_mp(glex_ep_handle_t ep, void *to, uint32_t wanted)
{
    uint64_t end = now_ns() + LIMIT_NS;
    glex_ep_addr_t src;
    glex_ret_t ret;
    uint32_t len;
    void *data;

    while ((ret = glex_probe_first_mp(ep, 0, &src, &data, &len)) == GLEX_NO_MP && now_ns() < end) {
    }
    check(ret, "glex_probe_first_mp");
    if (len != wanted) {
        fprintf(stderr, "hosts_idle: a message of %u bytes, not %u\n", len, wanted);
        exit(EXIT_FAILURE);
    }
    if (len != 0) {
        memcpy(to, data, len);
    }
    glex_discard_probed_mp(ep);
    return src;
}

/* ---- the peers ------------------------------------------------------------------------------- */

/* The first endpoint receives orders, and answers with the number of endpoints and the endpoints
 * that got their message. Only one endpoint at a time is polled, because polling all would take too
 * long. */
static void serve(glex_device_handle_t dev)
{
    static glex_ep_handle_t eps[MAX_PEERS];
    glex_ep_handle_t first = make_ep(dev, 0);
    glex_ep_addr_t addr, client;
    uint32_t num, i;

    CHECK(glex_get_ep_addr(first, &addr));
    printf("0x%016" PRIx64 "\n", addr.v);
    fflush(stdout);
    client = take_mp(first, &num, sizeof(num));
    for (i = 0; i < num && i < MAX_PEERS; i++) {
        eps[i] = make_ep(dev, PEER_CAPACITY);
        CHECK(glex_get_ep_addr(eps[i], &addr));
        send_mp(first, client, &addr, sizeof(addr));
        take_mp(first, NULL, 0);
        take_mp(eps[i], NULL, 0);
        send_mp(first, client, "", 0);
    }
    take_mp(first, NULL, 0);
    for (i = 0; i < num; i++) {
        CHECK(glex_destroy_ep(eps[i]));
    }
    CHECK(glex_destroy_ep(first));
}

/* ---- the measuring process ------------------------------------------------------------------- */

static double resident_kb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1) {
        fprintf(stderr, "hosts_idle: cannot read /proc/self/statm\n");
        exit(EXIT_FAILURE);
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* The mean time of polls that find nothing, over `ns`. */
static double poll_for(glex_ep_handle_t ep, uint64_t ns)
{
    uint64_t begin = now_ns(), now = begin, polls = 0;
    glex_ep_addr_t src;
    uint32_t len, i;
    void *data;

    while (now - begin < ns) {
        for (i = 0; i < 1024; i++) {
            if (glex_probe_first_mp(ep, 0, &src, &data, &len) == GLEX_SUCCESS) {
                fprintf(stderr, "hosts_idle: a peer is not silent\n");
                exit(EXIT_FAILURE);
            }
        }
        polls += 1024;
        now = now_ns();
    }
    return (double)(now - begin) / (double)polls;
}

static void measure(glex_device_handle_t dev, glex_ep_addr_t server, uint32_t num)
{
    glex_ep_handle_t ep = make_ep(dev, 0);
    glex_ep_addr_t peer;
    double before = 0;
    uint32_t i;

    send_mp(ep, server, &num, sizeof(num));
    for (i = 0; i < num; i++) {
        take_mp(ep, &peer, sizeof(peer));
        before = i == 0 ? resident_kb() : before;
        send_mp(ep, server, "", 0);
        send_mp(ep, peer, "", 0);
        take_mp(ep, NULL, 0);
    }
    printf("peer_kb %.1f\n", (resident_kb() - before) / num);
    (void)poll_for(ep, SETTLE_NS);
    printf("poll_ns %.1f\npeers %u\n", poll_for(ep, POLL_NS), num);
    send_mp(ep, server, "", 0);
    CHECK(glex_destroy_ep(ep));
}

int main(int argc, char **argv)
{
    glex_ep_addr_t server = {.v = argc == 3 ? strtoull(argv[1], NULL, 0) : 0};
    unsigned long num = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    glex_device_handle_t dev;

    if (argc != 1 && (argc != 3 || num < 1 || num > MAX_PEERS)) {
        fprintf(stderr, "usage: hosts_idle [ADDRESS PEERS (1 to %d)]\n", MAX_PEERS);
        return 2;
    }
    CHECK(glex_open_device(0, &dev));
    if (argc == 1) {
        serve(dev);
    } else {
        measure(dev, server, (uint32_t)num);
    }
    CHECK(glex_close_device(dev));
    return 0;
}
