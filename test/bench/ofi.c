/*
 * Speed of libfabric's provider glex beside the provider shm and UCP: ofi [COUNT [FIGURE]]. Two
 * processes, each bound to a processor, exchange tagged messages.
 *
 * All transports are open at once and measured in turn, in batches of some microseconds. So a
 * change of a processor's speed or load affects all transports. Prints lines "FIGURE TRANSPORT
 * VALUE RATIO". VALUE is the median over all batches. RATIO is the median of the ratios of the
 * first transport's batch to this transport's batch in the same turn. Values are seconds; for the
 * figures "rate" and "bw" values are messages and bytes per second.
 */
#include "measure.h"
#include "ofi_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WINDOW     64
#define BIG        (1024 * 1024)
#define BIG_WINDOW 8
#define POSTED     10000
#define TAG        7
#define FAR_TAG    1000000ull
#define BATCH      32 /* round trips between readings of the clock; some more before */
#define IDLE_BATCH 1000
#define MAX_WAYS   4

/* A way is measured by one function: seconds for one batch */
struct way {
    const char *name;
    double (*batch)(void *arg);
    void *arg;
};

static struct ofi_node glex, posted, shm;
static int is_server;
static char *big;
static uint64_t small = 1;

/* ---- the turns ---- */

static double *times(size_t count)
{
    double *seconds = malloc(count * sizeof(*seconds));

    if (seconds == NULL) {
        fail("no memory");
    }
    return seconds;
}

static double median(const double *values, unsigned count)
{
    double *copy = times(count), value;

    memcpy(copy, values, count * sizeof(*copy));
    value = sort_median(copy, count);
    free(copy);
    return value;
}

/* `amount` is the amount of a batch, for figures per second; 0: the figure is the time itself */
static void show(const char *figure, const struct way *ways, double *const *seconds, unsigned n,
                 unsigned turns, double amount)
{
    double *ratios = times(turns), value;
    unsigned i, t;

    for (i = 0; i < n && !is_server; i++) {
        for (t = 0; t < turns; t++) {
            ratios[t] = amount > 0 ? seconds[i][t] / seconds[0][t] : seconds[0][t] / seconds[i][t];
        }
        value = median(seconds[i], turns);
        printf("%s %s %.9g %.4f\n", figure, ways[i].name, amount > 0 ? amount / value : value,
               median(ratios, turns));
    }
    free(ratios);
}

static void take_turns(const char *figure, const struct way *ways, unsigned n, unsigned turns,
                       double amount)
{
    unsigned warmup = turns / 10 + 1, i, t;
    double *seconds[MAX_WAYS], value;

    for (i = 0; i < n; i++) {
        seconds[i] = times(turns);
    }
    for (t = 0; t < warmup + turns; t++) {
        for (i = 0; i < n; i++) {
            value = ways[i].batch(ways[i].arg);
            if (t >= warmup) {
                seconds[i][t - warmup] = value;
            }
        }
    }
    show(figure, ways, seconds, n, turns, amount);
    for (i = 0; i < n; i++) {
        free(seconds[i]);
    }
}

/* ---- batches ---- */

static double ping_pong(void *arg)
{
    double start = 0;
    int i;

    for (i = -BATCH / 4; i < BATCH; i++) {
        if (i == 0) {
            start = now();
        }
        ofi_round_trip(arg, is_server);
    }
    return (now() - start) / BATCH / 2;
}

static double ucp_ping_pong(void *arg)
{
    double start = 0;
    int i;

    (void)arg;
    for (i = -BATCH / 4; i < BATCH; i++) {
        if (i == 0) {
            start = now();
        }
        ucp_pair_round_trip(is_server);
    }
    return (now() - start) / BATCH / 2;
}

/* The receiver: post a window, say so, and answer when all is there */
static void receive_window(struct ofi_node *node, unsigned window, void *buf, size_t len)
{
    unsigned i, until = node->recvs + window;
    char ack = 0;

    for (i = 0; i < window; i++) {
        ofi_post(node, buf, len, TAG);
    }
    ofi_inject(node, &ack, 1);
    ofi_wait_recvs(node, until);
    ofi_inject(node, &ack, 1);
}

/* Messages in one direction: from the receiver's permission to the receiver's confirmation */
static double window(struct ofi_node *node, unsigned count, void *buf, size_t len, int injects)
{
    unsigned i, recvs = node->recvs, sends = node->sends;
    char acks[2];
    double start;

    if (is_server) {
        receive_window(node, count, buf, len);
        return 0;
    }
    ofi_post(node, &acks[0], 1, TAG);
    ofi_post(node, &acks[1], 1, TAG);
    ofi_wait_recvs(node, recvs + 1);
    start = now();
    for (i = 0; i < count; i++) {
        if (injects) {
            ofi_inject(node, buf, len);
        } else {
            ofi_send(node, buf, len);
        }
    }
    ofi_wait_recvs(node, recvs + 2);
    if (!injects) {
        ofi_wait_sends(node, sends + count);
    }
    return now() - start;
}

static double inject_window(void *arg)
{
    return window(arg, WINDOW, &small, sizeof(small), 1);
}

static double send_window(void *arg)
{
    return window(arg, WINDOW, &small, sizeof(small), 0);
}

static double big_window(void *arg)
{
    return window(arg, BIG_WINDOW, big, BIG, 0);
}

static double idle(void *arg)
{
    double start = now();
    unsigned i;

    for (i = 0; i < IDLE_BATCH; i++) {
        ofi_idle(arg);
    }
    return (now() - start) / IDLE_BATCH;
}

/* ---- all of it ---- */

static void open_all(void)
{
    unsigned i;

    ofi_open(&glex, "glex");
    ofi_open(&shm, "shm");
    ofi_open(&posted, "glex");
    ucp_pair_open();
    big = malloc(BIG);
    if (big == NULL) {
        fail("no memory");
    }
    memset(big, 1, BIG);
    for (i = 0; i < POSTED - 1; i++) { /* that nothing will match */
        ofi_post(&posted, big, 8, FAR_TAG + i);
    }
}

static void measure(unsigned count, const char *only)
{
    const struct way lat[] = {{"glex", ping_pong, &glex},
                              {"shm", ping_pong, &shm},
                              {"ucp", ucp_ping_pong, NULL},
                              {"posted", ping_pong, &posted}};
    const struct way injects[] = {{"glex", inject_window, &glex}, {"shm", inject_window, &shm}};
    const struct way sends[] = {{"glex", send_window, &glex}, {"shm", send_window, &shm}};
    const struct way bw[] = {{"glex", big_window, &glex}, {"shm", big_window, &shm}};
    const struct way idles[] = {{"glex", idle, &glex}};

    if (only == NULL || strcmp(only, "lat") == 0) {
        take_turns("lat", lat, 4, count / BATCH + 1, 0);
    }
    if (only == NULL || strcmp(only, "inject") == 0) {
        take_turns("inject", injects, 2, count / WINDOW + 1, WINDOW);
    }
    if (only == NULL || strcmp(only, "send") == 0) {
        take_turns("send", sends, 2, count / WINDOW + 1, WINDOW);
    }
    if (only == NULL || strcmp(only, "bw") == 0) {
        take_turns("bw", bw, 2, count / 500 + 1, (double)BIG_WINDOW * BIG);
    }
    if (!is_server && (only == NULL || strcmp(only, "idle") == 0)) {
        take_turns("idle", idles, 1, count / 100 + 1, 0);
    }
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 100000;
    int up[2], down[2], status = 0;
    pid_t child;

    if (pipe(up) != 0 || pipe(down) != 0) {
        fail("no pipes");
    }
    child = fork();
    is_server = child == 0;
    pin(is_server);
    meet_by(is_server ? up[1] : down[1], is_server ? down[0] : up[0]);
    open_all();
    measure(count, argc > 2 ? argv[2] : NULL);
    fflush(stdout);
    _exit(is_server ? 0 : waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
}
