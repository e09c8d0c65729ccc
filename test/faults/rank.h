/*
 * A process of a job over UCP. It exchanges messages with every other process by all operations of
 * UCP (active messages and tags of all sizes, put, get), checks every byte, and connects to the
 * replacements of dead processes.
 */
#ifndef TEST_FAULTS_RANK_H
#define TEST_FAULTS_RANK_H

#include "board.h"

#include <ucp/api/ucp.h>

#define RANK_MAX_MESSAGE 262144
#define RANK_MAX_OPS     48 /* of a process, in flight */
#define RANK_PEER_OPS    12 /* of these to one peer */
#define RANK_MAX_HELD    16 /* messages kept beyond their handler */

enum rank_stream { RANK_AM, RANK_TAG, RANK_STREAMS };

/** The beginning of every message; determines the rest */
struct rank_message {
    uint32_t src, gen, seq, length;
};

struct rank_peer {
    struct rank *rank;
    unsigned index;
    /* sending: to generation `gen` */
    ucp_ep_h ep;
    uint32_t gen;
    bool failed;   /* the error handler was called: the endpoint is to be closed */
    bool rma_busy; /* a peer uses this process's region of its windows */
    ucp_rkey_h rkey[BOARD_WINDOWS];
    unsigned ops;
    uint32_t seq[RANK_STREAMS];
    /* receiving: from generation `from` */
    uint32_t from;
    uint32_t next[RANK_STREAMS];
};

/** An active message that the handler has kept */
struct rank_held {
    void *data; /* NULL: free */
    struct rank_message message;
    bool rndv;         /* its data is still at the sender */
    unsigned patience; /* steps until it is given back */
};

struct rank {
    struct board *board;
    struct board_slot *own;
    unsigned index;
    uint32_t gen;
    bool handles_errors; /* UCP's peer error mode */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_mem_h window[BOARD_WINDOWS];
    struct rank_peer peer[BOARD_MAX_RANKS];
    struct rank_held held[RANK_MAX_HELD];
    void *tag_request; /* the single receive, so that messages complete in order */
    char *tag_data;
    unsigned ops;         /* open requests of this process: sends, put, get ... */
    unsigned recvs;       /* ... receives that matched, and closed endpoints */
    bool quiet;           /* nothing new is begun */
    bool ending;          /* peers may be gone, which is no longer an error */
    uint64_t asked_since; /* for quiet; 0: it is not */
    bool told_hang;
    uint64_t quiet_since; /* 0: something is in flight, or the resources were reported */
    uint64_t random;
    uint64_t steps;
};

/** The version of the wire protocol that the own address names; 0: the true one. For a test of the
 *  message about another version. Set before rank_open(). */
extern uint16_t rank_wire_version;

/** Open, publish the address. Ends the process on failure. */
void rank_open(struct rank *rank, struct board *board, unsigned index, uint32_t gen,
               bool handles_errors);

/** One step: connect to new processes, send, receive. */
void rank_step(struct rank *rank);

/** Whether every operation has ended and every message of living peers has arrived */
bool rank_is_quiet(const struct rank *rank);

/** Close everything */
void rank_close(struct rank *rank);

/** Live until the board says stop, or, with a number, until so many bytes were checked. */
void rank_run(struct rank *rank, uint64_t bytes);

static inline uint32_t rank_random(struct rank *rank, uint32_t below)
{
    rank->random = rank->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rank->random >> 33) % below);
}

/** Whether the killer has taken that process, or is about to */
static inline bool rank_was_killed(const struct rank *rank, unsigned index, uint32_t gen)
{
    return board_get(&rank->board->slot[index].killed) >= gen;
}

/* ---- rank_send.c ---- */

/** Begin one operation to some peer, if there is room. */
void rank_send_something(struct rank *rank);

/* ---- rank_recv.c ---- */

void rank_recv_open(struct rank *rank);
void rank_recv_close(struct rank *rank);

/** Check and return kept messages whose time has come. */
void rank_recv_step(struct rank *rank);

bool rank_recv_holds(const struct rank *rank);

/* ---- pattern.c ---- */

uint64_t pattern_seed(const struct rank_message *message);

/** Bytes that depend on their origin */
void pattern_fill(void *data, size_t length, uint64_t seed);

/** Position of the first wrong byte, or -1 */
long pattern_check(const void *data, size_t length, uint64_t seed);

/* ---- holds.c ---- */

/** Reads the resources of this process. The process must be quiet and have `living` peers. */
void holds_read(struct board_holds *holds, unsigned living, unsigned requests);

/** Prints the state of each connection on standard error, to debug a job that hangs. */
void holds_report(void);

/** Whether the resources are right: nothing of the dead, nothing in flight. */
bool holds_nothing(const struct board_holds *holds);

#endif
