/* Many processes send to one process as fast as they can. Nothing is lost, no sender starves, and
 * the receiver's memory is bounded. */
#include "peers.h"
#include "scale.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST 256 /* messages that a sender sends in its turn, at most */
#define NAP_S 1   /* after which a sender without its turn looks whether the storm is over */

struct sender {
    uint64_t next; /* the number that is to come */
    uint64_t at_deadline;
};

static struct sender *senders;
static unsigned num_senders;
static uint64_t received;

/* ---- the senders ----------------------------------------------------------------------------- */

/*
 * The senders share a processor, and pass the processor on explicitly. Otherwise the scheduler's
 * fairness would be measured: in one run of thirty, sched_yield() gave some senders ten times the
 * processor time of other senders, at equal cost and refusals per message.
 */
static bool await_turn(struct peer *peer)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += NAP_S;
    return sem_timedwait(&peer->turn, &end) == 0;
}

static void pass_turn(struct peers *peers, const struct peer *from)
{
    sem_post(&peers->shared->peer[(from - peers->shared->peer + 1) % peers->count].turn);
}

/* A message is (sender, number). */
static void send_burst(struct peer_node *node, uint64_t index)
{
    uint64_t *number = &node->shared->sent;
    ucs_status_t status = UCS_OK;
    int i;

    for (i = 0; i < BURST && status == UCS_OK; i++) {
        status = uct_ep_am_short(node->ep, PEERS_AM_ID, index, number, sizeof(*number));
        *number += status == UCS_OK;
    }
    if (status != UCS_OK && status != UCS_ERR_NO_RESOURCE) {
        fail("sender %llu: %s", (unsigned long long)index, ucs_status_string(status));
    }
}

static void send_in_turn(struct peers *peers, struct peer_node *nodes, unsigned num)
{
    struct peer *self = nodes[0].shared;

    if (!await_turn(self)) {
        return;
    }
    if (nodes[0].ep == NULL) {
        nodes[0].ep = node_connect(&nodes[0].node, &peers->shared->hub);
    }
    if (peers_stage(peers) == PEERS_RUN) {
        send_burst(&nodes[0], (uint64_t)(self - peers->shared->peer));
    }
    peers_receive(peers, nodes, num);
    pass_turn(peers, self);
}

/* ---- the receiver ---------------------------------------------------------------------------- */

static ucs_status_t take_number(void *arg, void *data, size_t length, unsigned flags)
{
    uint64_t message[2];

    (void)arg;
    (void)flags;
    if (length != sizeof(message)) {
        fail("a message of %zu bytes came", length);
    }
    memcpy(message, data, sizeof(message));
    if (message[0] >= num_senders || senders[message[0]].next != message[1]) {
        fail("message %llu of sender %llu came, which is not next", (unsigned long long)message[1],
             (unsigned long long)message[0]);
    }
    senders[message[0]].next++;
    received++;
    return UCS_OK;
}

static void receive_for(struct node *node, double seconds)
{
    double end = now() + seconds;

    while (now() < end) {
        if (uct_iface_progress(node->iface) == 0) {
            sched_yield();
        }
    }
}

static uint64_t all_sent(const struct peers *peers)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < num_senders; i++) {
        sum += __atomic_load_n(&peers->shared->peer[i].sent, __ATOMIC_RELAXED);
    }
    return sum;
}

static void drain(struct peers *peers, struct node *node)
{
    double deadline = now() + 20;

    peers_tell(peers, PEERS_DRAIN);
    while (now() < deadline && (received < all_sent(peers) || now() < deadline - 19)) {
        if (uct_iface_progress(node->iface) == 0) {
            sched_yield();
        }
    }
    figure("lost", (double)all_sent(peers) - (double)received);
}

static void report_fairness(double seconds)
{
    uint64_t least = UINT64_MAX, most = 0, sum = 0;
    unsigned i;

    for (i = 0; i < num_senders; i++) {
        uint64_t count = senders[i].next - senders[i].at_deadline;

        least = count < least ? count : least;
        most = count > most ? count : most;
        sum += count;
    }
    figure("rate", (double)sum / seconds);
    figure("least_to_most", most > 0 ? (double)least / (double)most : 0);
}

void scale_storm(unsigned count, double seconds)
{
    /* The receiver never waits, so processes on its processor hardly run, for any transport */
    struct peers peers = {.role = send_in_turn, .cpu = 1};
    size_t heap, settled, shared;
    struct node node;
    unsigned i;

    num_senders = count;
    senders = calloc(count, sizeof(*senders));
    if (senders == NULL) {
        fail("no memory for %u senders", count);
    }
    peers_start(&peers, count, 1);
    pin(0);
    node_open(&node);
    node_handle(&node, PEERS_AM_ID, take_number, NULL);
    peers.shared->hub = node.address;
    heap = heap_used();
    peers_tell(&peers, PEERS_RUN);
    sem_post(&peers.shared->peer[0].turn);
    receive_for(&node, 1); /* until all are connected */
    settled = heap_used();
    shared = shared_used();
    for (i = 0; i < count; i++) {
        senders[i].at_deadline = senders[i].next; /* from here on they are compared */
    }
    receive_for(&node, seconds);
    report_fairness(seconds);
    figure("heap", (double)heap_used() - (double)heap);
    figure("growth", (double)heap_used() - (double)settled);
    figure("touched", (double)shared_used() - (double)shared);
    drain(&peers, &node);
    peers_stop(&peers);
    node_close(&node);
    peers_free(&peers);
    free(senders);
}
