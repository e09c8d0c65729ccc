/* Live peers: the cost of a connection, and the cost of a message by the number of peers. */
#include "peers.h"
#include "scale.h"
#include "core/glex_vc.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PER_PROCESS 250
#define NAP_NS      10000000 /* interval at which a sleeping process checks for the end */
#define WARM_UP     128 /* messages to each peer first: its queues' entries were all used then */
#define BURST       8   /* messages that are timed together */
#define BURSTS      4000
#define IDLE_CALLS  200000

struct connections {
    struct peers peers;
    struct node node;
    uct_ep_h *eps;
    uint64_t *sent;
    unsigned count;    /* connected */
    unsigned warm;     /* of these, the first ones, whose queues were used */
    double connecting; /* seconds that connecting took */
    double longest;    /* progress call meanwhile, in processor time */
};

/*
 * A process of peers. On a real node each peer has a processor. Here all peers share one processor.
 * With the scheduler's time slices, each message would go to a peer that has not run for
 * milliseconds, and whose data other processes have displaced from the caches. So only the process
 * whose peers get messages is awake. Relaxed order suffices: the number only selects the awake
 * process.
 */
static void receive_in_turn(struct peers *peers, struct peer_node *nodes, unsigned num)
{
    uint32_t mine = (uint32_t)(nodes[0].shared - peers->shared->peer) / PER_PROCESS;
    uint32_t turn = __atomic_load_n(&peers->shared->turn, __ATOMIC_RELAXED);
    struct timespec nap = {.tv_nsec = NAP_NS};

    if (turn == mine) {
        peers_receive(peers, nodes, num);
    } else {
        syscall(SYS_futex, &peers->shared->turn, FUTEX_WAIT, turn, &nap, NULL, 0);
    }
}

static void wake_peer(struct connections *c, unsigned index)
{
    uint32_t *turn = &c->peers.shared->turn;

    if (*turn != index / PER_PROCESS) {
        __atomic_store_n(turn, index / PER_PROCESS, __ATOMIC_RELAXED);
        syscall(SYS_futex, turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

/* Until a peer has received all that was sent to it. */
static void await_peer(struct connections *c, unsigned index)
{
    wake_peer(c, index);
    peers_await(&c->peers, &c->node, index, c->sent[index]);
}

static ucs_status_t try_send(struct connections *c, unsigned index)
{
    ucs_status_t status = uct_ep_am_short(c->eps[index], PEERS_AM_ID, 0, NULL, 0);

    if (status == UCS_OK) {
        c->sent[index]++;
    } else if (status != UCS_ERR_NO_RESOURCE) {
        fail("a message to peer %u of %u: %s", index, c->count, ucs_status_string(status));
    }
    return status;
}

static void send_one(struct connections *c, unsigned index)
{
    double deadline = now() + 30;

    wake_peer(c, index);
    while (try_send(c, index) != UCS_OK) {
        uct_iface_progress(c->node.iface);
        if (now() > deadline) {
            fail("no message can be sent to peer %u", index);
        }
    }
}

static void timed_progress(struct connections *c, unsigned index, double since)
{
    double begin = processor_time(), took;

    uct_iface_progress(c->node.iface);
    took = processor_time() - begin;
    c->longest = took > c->longest ? took : c->longest;
    if (now() - since > 60) {
        fail("peer %u of %u has not received its first message", index, c->count);
    }
}

/* Connects to a further peer: endpoint, first message, and the peer's answer. */
static void connect_one(struct connections *c)
{
    unsigned index = c->count++;
    double begin = now();

    c->eps[index] = node_connect(&c->node, &c->peers.shared->peer[index].address);
    wake_peer(c, index);
    while (try_send(c, index) != UCS_OK) {
        timed_progress(c, index, begin);
    }
    while (__atomic_load_n(&c->peers.shared->peer[index].received, __ATOMIC_RELAXED) <
           c->sent[index]) {
        timed_progress(c, index, begin);
    }
    c->connecting += now() - begin;
}

/* The first laps of a queue measure the kernel's page faults, so they are not timed. */
static void warm_up(struct connections *c)
{
    unsigned i;

    for (; c->warm < c->count; c->warm++) {
        progress_note("warming up", c->warm, c->count);
        for (i = 0; i < WARM_UP; i++) {
            send_one(c, c->warm);
        }
        await_peer(c, c->warm);
    }
}

/* Median seconds per message of short bursts, round robin over all peers. Only sending is timed.
 * Incoming messages are handled between bursts. */
static double message_cost(struct connections *c)
{
    double *times = malloc(BURSTS * sizeof(*times)), begin, seconds, median;
    unsigned next = 0, i, n, waited = 0;

    if (times == NULL) {
        fail("no memory for %d times", BURSTS);
    }
    for (n = 0; n < BURSTS;) {
        /* the peers have received all messages, so they have returned the credits, or will soon */
        for (i = 0; i < BURST; i++) {
            await_peer(c, (next + i) % c->count);
        }
        for (i = 0; i < 16; i++) {
            uct_iface_progress(c->node.iface);
        }
        begin = now();
        for (i = 0; i < BURST && try_send(c, (next + i) % c->count) == UCS_OK; i++) {
        }
        seconds = now() - begin;
        if (i == BURST) {
            times[n++] = seconds / BURST;
            next = (next + BURST) % c->count;
        } else if (++waited > 1000 * BURSTS) {
            fail("peers do not give credits back");
        }
    }
    median = sort_median(times, BURSTS);
    free(times);
    return median;
}

static double idle_progress(struct connections *c)
{
    double begin;
    int call;

    for (call = 0; call < IDLE_CALLS / 10; call++) { /* until nothing comes any more */
        uct_iface_progress(c->node.iface);
    }
    begin = now();
    for (call = 0; call < IDLE_CALLS; call++) {
        uct_iface_progress(c->node.iface);
    }
    return (now() - begin) / IDLE_CALLS;
}

static void report(struct connections *c)
{
    char name[64];

    warm_up(c);
    snprintf(name, sizeof(name), "message_%u", c->count);
    figure(name, message_cost(c));
    snprintf(name, sizeof(name), "idle_progress_%u", c->count);
    figure(name, idle_progress(c));
}

/* Connections whose cost is measured, and the memory before them */
struct mark {
    unsigned count;
    size_t heap, shared;
    double connecting;
};

static struct mark mark_now(const struct connections *c)
{
    return (struct mark){c->count, heap_used(), shared_used(), c->connecting};
}

static void report_connecting(const struct connections *c, const struct mark *from)
{
    struct mark to = mark_now(c);
    double count = to.count - from->count;

    figure("connect", (to.connecting - from->connecting) / count);
    figure("longest_progress", c->longest);
    figure("heap_per_connection", (double)(to.heap - from->heap) / count);
    figure("shared_per_connection", ((double)to.shared - (double)from->shared) / count);
}

/* The cost of connecting is measured between two reports, because reports use the queues. */
static void run(struct connections *c, unsigned count)
{
    struct mark last = {0};
    unsigned decade = 1;

    figure("vc", sizeof(uct_glex_vc_t));
    while (c->count < count) {
        progress_note("connecting", c->count, count);
        connect_one(c);
        if (c->count == count && last.count > 0) {
            report_connecting(c, &last);
        }
        if (c->count == decade || c->count == count) {
            report(c);
            last = mark_now(c);
            decade *= 10;
        }
    }
}

/* A peer process has one connection, so its queues have the minimum size, to save memory. */
static void prepare(unsigned index)
{
    (void)index;
    setenv("UCX_GLEX_EP_MPQ_CAPACITY", "64", 1);
    setenv("UCX_GLEX_EP_EQ_CAPACITY", "128", 1);
    setenv("UCX_GLEX_SRQ_CAPACITY", "8", 1);
    setenv("UCX_GLEX_RMA_REQ_CAPACITY", "1", 1);
    setenv("UCX_GLEX_ZC_REQ_CAPACITY", "1", 1);
    setenv("UCX_GLEX_ER_MAX_CHANNELS", "1", 1);
}

void scale_connections(unsigned count)
{
    struct connections c = {.peers = {.role = receive_in_turn, .prepare = prepare, .cpu = 1}};
    unsigned i;

    peers_start(&c.peers, count, PER_PROCESS);
    peers_tell(&c.peers, PEERS_RUN);
    pin(0);
    c.eps = calloc(count, sizeof(*c.eps));
    c.sent = calloc(count, sizeof(*c.sent));
    if (c.eps == NULL || c.sent == NULL) {
        fail("no memory for %u peers", count);
    }
    node_open(&c.node);
    run(&c, count);
    for (i = 0; i < count; i++) {
        uct_ep_destroy(c.eps[i]);
    }
    node_close(&c.node);
    peers_stop(&c.peers);
    peers_free(&c.peers);
    free(c.eps);
    free(c.sent);
}
