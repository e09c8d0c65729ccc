/*
 * Nearest neighbours: few of many pairs are busy at a time, and which ones changes. The hub lends
 * FIFOs to a quarter of its peers; the traffic should run through them wherever it is.
 */
#include "peers.h"
#include "scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_PEERS 32
#define HOT       (NUM_PEERS / 4)
#define PHASES    12     /* every peer is hot three times */
#define MESSAGES  400000 /* of a phase */
#define COLD      20     /* every so many messages one of a peer that is not hot */

static const char *mode;

static void prepare(unsigned index)
{
    int sr = strcmp(mode, "sr") == 0 || (strcmp(mode, "first") == 0 && index >= HOT);

    setenv("UCX_GLEX_CHANNELS", sr ? "sr" : "er,sr", 1);
}

static void prepare_hub(void)
{
    char channels[16];

    snprintf(channels, sizeof(channels), "%d", strcmp(mode, "all") == 0 ? NUM_PEERS : HOT);
    setenv("UCX_GLEX_ER_MAX_CHANNELS", channels, 1);
    setenv("UCX_GLEX_CHANNELS", strcmp(mode, "sr") == 0 ? "sr" : "er,sr", 1);
}

static bool try_send(struct peer_node *peer)
{
    ucs_status_t status = uct_ep_am_short(peer->ep, PEERS_AM_ID, 0, NULL, 0);

    if (status == UCS_OK) {
        peer->shared->sent++;
    } else if (status != UCS_ERR_NO_RESOURCE) {
        fail("a message to the hub: %s", ucs_status_string(status));
    }
    return status == UCS_OK;
}

static void send_surely(struct peer_node *peer)
{
    double deadline = now() + 30;

    while (!try_send(peer)) {
        uct_iface_progress(peer->node.iface);
        if (now() > deadline) {
            fail("the hub gives no credits");
        }
    }
}

/* One phase: sends to the hot peers in turn, and now and then to another peer. A hot peer without
 * credits is skipped, like in a program with other neighbours to send to. */
static void run_phase(struct peer_node *nodes, unsigned phase)
{
    unsigned base = (phase % (NUM_PEERS / HOT)) * HOT, turn = 0, cold = base, sent = 0;
    struct peer_node *peer;

    while (sent < MESSAGES) {
        peer = &nodes[base + turn++ % HOT];
        if (try_send(peer)) {
            sent++;
        } else {
            uct_iface_progress(peer->node.iface);
        }
        if (turn % COLD == 0) {
            cold = (cold + 1) % NUM_PEERS;
            send_surely(&nodes[cold]);
            uct_iface_progress(nodes[cold].node.iface);
            sent++;
        }
    }
}

/* Sends all phases by one call. */
static void send_phases(struct peers *peers, struct peer_node *nodes, unsigned num)
{
    unsigned i, phase;

    if (nodes[0].ep == NULL) {
        for (i = 0; i < num; i++) {
            nodes[i].ep = node_connect(&nodes[i].node, &peers->shared->hub);
            send_surely(&nodes[i]); /* first come, first served: in the order of their numbers */
        }
        __atomic_store_n(&peers->shared->order[0], 1, __ATOMIC_RELEASE);
    }
    if (peers_stage(peers) == PEERS_DRAIN) {
        for (phase = 0; phase < PHASES; phase++) {
            run_phase(nodes, phase);
        }
        __atomic_store_n(&peers->shared->order[1], 1, __ATOMIC_RELEASE);
        while (peers_stage(peers) != PEERS_STOP) {
            peers_receive(peers, nodes, num);
        }
    }
    peers_receive(peers, nodes, num);
}

static uint64_t received;

static ucs_status_t count_message(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg;
    (void)data;
    (void)length;
    (void)flags;
    received++;
    return UCS_OK;
}

static void progress_until(struct node *node, const uint64_t *flag)
{
    double deadline = now() + 120;
    unsigned calls = 0;

    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) {
        uct_iface_progress(node->iface);
        if (++calls % 1024 == 0 && now() > deadline) { /* the clock takes longer than a message */
            fail("the peers do not get on: %llu messages came", (unsigned long long)received);
        }
    }
}

void scale_promotion(const char *chosen)
{
    struct peers peers = {.role = send_phases, .prepare = prepare, .cpu = 1};
    uint64_t expected = NUM_PEERS;
    struct node hub;
    double begin;
    unsigned i;

    mode = chosen;
    if (strcmp(mode, "quota") != 0 && strcmp(mode, "all") != 0 && strcmp(mode, "first") != 0 &&
        strcmp(mode, "sr") != 0) {
        fail("no such mode: %s", mode);
    }
    peers_start(&peers, NUM_PEERS, NUM_PEERS);
    pin(0);
    prepare_hub();
    node_open(&hub);
    node_handle(&hub, PEERS_AM_ID, count_message, NULL);
    peers.shared->hub = hub.address;
    peers_tell(&peers, PEERS_RUN);
    progress_until(&hub, &peers.shared->order[0]);

    begin = now();
    peers_tell(&peers, PEERS_DRAIN);
    progress_until(&hub, &peers.shared->order[1]);
    for (i = 0; i < 1000000 && received < expected; i++) {
        expected = 0;
        for (unsigned peer = 0; peer < NUM_PEERS; peer++) {
            expected += peers.shared->peer[peer].sent;
        }
        uct_iface_progress(hub.iface);
    }
    figure("rate", (double)(received - NUM_PEERS) / (now() - begin));
    peers_stop(&peers);
    node_close(&hub);
    peers_free(&peers);
}
