#include "peers.h"
#include "scale.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 60.0 /* seconds of waiting after which the wait has failed */

/* Acquire and release: a process that sees the stage sees everything written before. */
enum peers_stage peers_stage(const struct peers *peers)
{
    return __atomic_load_n(&peers->shared->stage, __ATOMIC_ACQUIRE);
}

void peers_tell(struct peers *peers, enum peers_stage stage)
{
    __atomic_store_n(&peers->shared->stage, stage, __ATOMIC_RELEASE);
}

/* ---- in a peer's process --------------------------------------------------------------------- */

static ucs_status_t count_message(void *arg, void *data, size_t length, unsigned flags)
{
    struct peer *peer = arg;

    (void)data;
    (void)length;
    (void)flags;
    /* one writer; relaxed: only the number is read elsewhere */
    __atomic_store_n(&peer->received, peer->received + 1, __ATOMIC_RELAXED);
    return UCS_OK;
}

static void open_peer(struct peers *peers, struct peer_node *peer, unsigned index)
{
    if (peers->prepare != NULL) {
        peers->prepare(index);
    }
    peer->shared = &peers->shared->peer[index];
    node_open(&peer->node);
    node_handle(&peer->node, PEERS_AM_ID, count_message, peer->shared);
    peer->shared->address = peer->node.address;
    /* release: a process that counts the peer sees its address */
    __atomic_fetch_add(&peers->shared->ready, 1, __ATOMIC_RELEASE);
}

static void run_process(struct peers *peers, unsigned first, unsigned num)
{
    struct peer_node *nodes = calloc(num, sizeof(*nodes));
    unsigned i;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nodes == NULL) {
        fail("no memory for %u peers", num);
    }
    if (peers->cpu >= 0) {
        pin(peers->cpu);
    }
    for (i = 0; i < num; i++) {
        open_peer(peers, &nodes[i], first + i);
    }
    while (peers_stage(peers) == PEERS_OPEN) {
        usleep(1000);
    }
    while (peers_stage(peers) != PEERS_STOP) {
        peers->role(peers, nodes, num);
    }
    for (i = 0; i < num; i++) {
        if (nodes[i].ep != NULL) {
            uct_ep_destroy(nodes[i].ep);
        }
        node_close(&nodes[i].node);
    }
    free(nodes);
}

void peers_receive(struct peers *peers, struct peer_node *nodes, unsigned num)
{
    unsigned i;

    (void)peers;
    for (i = 0; i < num; i++) {
        uct_iface_progress(nodes[i].node.iface);
    }
}

/* ---- in the program -------------------------------------------------------------------------- */

static void check_children(struct peers *peers)
{
    unsigned i;
    int status;

    for (i = 0; i < peers->processes; i++) {
        if (peers->pids[i] != 0 && waitpid(peers->pids[i], &status, WNOHANG) == peers->pids[i]) {
            fail("a process of peers ended early, status 0x%x", status);
        }
    }
}

void peers_start(struct peers *peers, unsigned count, unsigned per_process)
{
    double deadline;
    unsigned i;

    peers->count = count;
    peers->processes = (count + per_process - 1) / per_process;
    peers->size = sizeof(*peers->shared) + count * sizeof(struct peer);
    peers->shared =
        mmap(NULL, peers->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    peers->pids = calloc(peers->processes, sizeof(*peers->pids));
    if (peers->shared == MAP_FAILED || peers->pids == NULL) {
        fail("no memory for %u peers", count);
    }
    for (i = 0; i < count; i++) {
        if (sem_init(&peers->shared->peer[i].turn, 1, 0) != 0) {
            fail("cannot make a semaphore: %s", strerror(errno));
        }
    }
    for (i = 0; i < peers->processes; i++) {
        peers->pids[i] = fork();
        if (peers->pids[i] < 0) {
            fail("cannot fork: %s", strerror(errno));
        }
        if (peers->pids[i] == 0) {
            run_process(peers, i * per_process,
                        i + 1 < peers->processes ? per_process : count - i * per_process);
            _exit(0);
        }
    }
    deadline = now() + PATIENCE + count * 0.02;
    while (__atomic_load_n(&peers->shared->ready, __ATOMIC_ACQUIRE) < count) {
        check_children(peers);
        progress_note("opening peers", peers->shared->ready, count);
        if (now() > deadline) {
            fail("%u of %u peers are open after a long time", peers->shared->ready, count);
        }
        usleep(20000);
    }
}

void peers_await(struct peers *peers, struct node *node, unsigned index, uint64_t received)
{
    const uint64_t *count = &peers->shared->peer[index].received;
    double deadline = now() + PATIENCE;

    while (__atomic_load_n(count, __ATOMIC_RELAXED) < received) {
        uct_iface_progress(node->iface);
        if (now() > deadline) {
            check_children(peers);
            fail("peer %u received %llu messages of %llu", index, (unsigned long long)*count,
                 (unsigned long long)received);
        }
    }
}

void peers_stop(struct peers *peers)
{
    unsigned i;

    peers_tell(peers, PEERS_STOP);
    for (i = 0; i < peers->processes; i++) {
        waitpid(peers->pids[i], NULL, 0);
    }
}

void peers_free(struct peers *peers)
{
    munmap(peers->shared, peers->size);
    free(peers->pids);
}
