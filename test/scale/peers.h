/*
 * Live peers for a program that measures one interface: forked processes, each with several
 * interfaces. The program sends orders through shared memory.
 */
#ifndef TEST_SCALE_PEERS_H
#define TEST_SCALE_PEERS_H

#include "node.h"

#include <semaphore.h>
#include <stdbool.h>
#include <sys/types.h>

enum peers_stage {
    PEERS_OPEN,  /* opening their interfaces */
    PEERS_RUN,   /* running their role */
    PEERS_DRAIN, /* begin nothing new, but make progress */
    PEERS_STOP
};

/** A peer, shared with the program; on a separate cache line, because different processes write. */
struct peer {
    struct node_address address;
    uint64_t received; /* messages, by its handler */
    uint64_t sent;
    sem_t turn; /* where a role lets peers run one after another */
} __attribute__((aligned(128)));

/** In shared memory. */
struct peers_shared {
    int stage;
    unsigned ready;  /* peers that are open */
    unsigned failed; /* processes that ended early */
    uint32_t turn;   /* the process that is awake, where a role lets others sleep */
    struct node_address hub;
    uint64_t order[2]; /* further arguments of the role */
    struct peer peer[];
};

struct peers;

/** A peer's own state, in its process. */
struct peer_node {
    struct node node;
    struct peer *shared;
    uct_ep_h ep; /* to the hub, NULL before the role makes it */
};

/** One turn of one peer process: make progress, send. Called until the stage is PEERS_STOP. */
typedef void peers_role_t(struct peers *peers, struct peer_node *nodes, unsigned num);

struct peers {
    struct peers_shared *shared;
    unsigned count, processes;
    size_t size; /* of the shared memory */
    peers_role_t *role;
    /** Called in the peer's process before its interface is opened: for its environment. */
    void (*prepare)(unsigned index);
    int cpu; /* processor for the peers, -1: any */
    pid_t *pids;
};

#define PEERS_AM_ID 1

/** Fork; the caller has not touched UCX yet. Returns when all interfaces are open. */
void peers_start(struct peers *peers, unsigned count, unsigned per_process);

void peers_tell(struct peers *peers, enum peers_stage stage);
enum peers_stage peers_stage(const struct peers *peers);

/** End all processes; their counters can be read until peers_free(). */
void peers_stop(struct peers *peers);
void peers_free(struct peers *peers);

/** A role: receive only. */
void peers_receive(struct peers *peers, struct peer_node *nodes, unsigned num);

/** Progress of `node` until a peer has received so many messages; fails where that never comes. */
void peers_await(struct peers *peers, struct node *node, unsigned index, uint64_t received);

#endif
