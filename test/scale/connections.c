/* Live peers: what a connection costs, and what a message costs as their number grows. */
#include "peers.h"
#include "scale.h"
#include "glex_vc.h"

#include <stdio.h>
#include <stdlib.h>

#define PER_PROCESS 250
#define BURST       8 /* messages that are timed together */
#define BURSTS      4000
#define IDLE_CALLS  200000

struct connections {
    struct peers peers;
    struct node  node;
    uct_ep_h    *eps;
    uint64_t    *sent;
    unsigned     count; /* connected */
};

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

/* Connect to one more: endpoint, first message, and what has to come back. */
static void connect_one(struct connections *c)
{
    unsigned index = c->count++;
    double deadline = now() + 30;

    c->eps[index] = node_connect(&c->node, &c->peers.shared->peer[index].address);
    while (try_send(c, index) != UCS_OK) {
        uct_iface_progress(c->node.iface);
        if (now() > deadline) {
            fail("no connection to peer %u", index);
        }
    }
    peers_await(&c->peers, &c->node, index, c->sent[index]);
}

/* Median seconds per message of short bursts, round robin over all peers. Only sending is timed:
 * what comes back is taken in between. */
static double message_cost(struct connections *c)
{
    double *times = malloc(BURSTS * sizeof(*times)), begin, seconds, median;
    unsigned next = 0, i, n, waited = 0;

    if (times == NULL) {
        fail("no memory for %d times", BURSTS);
    }
    for (n = 0; n < BURSTS;) {
        /* all that was sent to these peers has come: they have their credits back, or soon */
        for (i = 0; i < BURST; i++) {
            peers_await(&c->peers, &c->node, (next + i) % c->count, c->sent[(next + i) % c->count]);
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

    snprintf(name, sizeof(name), "message_%u", c->count);
    figure(name, message_cost(c));
    snprintf(name, sizeof(name), "idle_progress_%u", c->count);
    figure(name, idle_progress(c));
}

static void run(struct connections *c, unsigned count)
{
    size_t heap = 0, shared = 0;
    double begin = now();
    unsigned decade = 1, first = 0;

    while (c->count < count) {
        progress_note("connecting", c->count, count);
        connect_one(c);
        if (c->count == decade) {
            report(c);
            decade *= 10;
            if (c->count <= 10) { /* the first ones make what all share */
                heap = heap_used();
                shared = shared_used();
                first = c->count;
                begin = now();
            }
        }
    }
    figure("vc", sizeof(uct_glex_vc_t));
    if (count > first) {
        figure("connect", (now() - begin) / (count - first));
        figure("heap_per_connection", (double)(heap_used() - heap) / (count - first));
        figure("shared_per_connection", ((double)shared_used() - (double)shared) / (count - first));
    }
    if (c->count * 10 != decade) {
        report(c);
    }
}

/* A peer of ours has one connection: its queues are as small as they may be, for memory's sake. */
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
    struct connections c = {.peers = {.role = peers_receive, .prepare = prepare, .cpu = 1}};
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
