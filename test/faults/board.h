/*
 * The board: memory of a job that all its processes map. Processes find their peers on the board,
 * and write their observations for the process that kills. The board is a file, so processes in
 * other namespaces can map it.
 */
#ifndef TEST_FAULTS_BOARD_H
#define TEST_FAULTS_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define BOARD_MAX_RANKS 16
#define BOARD_ADDRESS   1024
#define BOARD_KEY       512
#define BOARD_WINDOWS   2 /* memory for RMA: from the NIC, and private */
#define BOARD_TEXT      160

/** Bytes of a window that belong to one writer */
#define BOARD_REGION 65536

/** The resources of a process when nothing is in flight. All except `memory` and `fds` must be as
 * expected at once. `memory` and `fds` must not grow. */
struct board_holds {
    int64_t credits;  /* entries of the MPQ missing: granted + free - capacity */
    int64_t vcs_held; /* connections that hold entries, beyond the living peers */
    int64_t vcs_used; /* connections with messages or operations, failed ones with anything */
    int64_t fifos;    /* FIFOs lent without a living borrower */
    int64_t units;    /* buffers in use: SR, zero copy, bounce, mirrors */
    int64_t ops;      /* operations in flight, and their quotas */
    int64_t requests; /* requests of UCP that never ended */
    int64_t fds;
    int64_t maps;   /* mappings of dead peers' memory */
    int64_t vcs;    /* length of the table of connections */
    int64_t memory; /* bytes of heap in use */
};

/** A process's knowledge of a peer. The process writes it, the killer reads it. */
struct board_peer {
    uint32_t connected; /* generation it has an endpoint to; 0: none yet */
    uint32_t gone;      /* generation whose end was reported to the process */
    uint64_t connected_ns, gone_ns;
    uint64_t gone_cpu_ns;    /* in its own processor time */
    uint64_t sent, received; /* messages of these generations */
};

struct board_slot {
    uint32_t gen;     /* the how-manieth process here, from 1 */
    uint32_t ready;   /* generation of the address */
    uint32_t killed;  /* generation that was killed, or is about to be */
    uint32_t paused;  /* value of board.pause at which it is quiet */
    uint32_t sampled; /* ... and has reported its resources */
    uint32_t address_length, key_length[BOARD_WINDOWS];
    uint64_t window[BOARD_WINDOWS];
    char address[BOARD_ADDRESS];
    char key[BOARD_WINDOWS][BOARD_KEY];
    struct board_peer peer[BOARD_MAX_RANKS];
    struct board_holds holds;
    uint64_t checked;         /* bytes that were as sent */
    uint64_t held;            /* messages that were kept beyond their handler */
    char problem[BOARD_TEXT]; /* an error; empty: none */
};

struct board {
    uint32_t ranks;
    uint32_t pause;  /* not 0: become quiet, and say so */
    uint32_t stop;   /* end in order */
    uint32_t finish; /* it is enough: come to an end */
    struct board_slot slot[BOARD_MAX_RANKS];
};

/** A new board; `path` NULL: for this process and its children alone. Failure ends the program. */
struct board *board_make(const char *path, unsigned ranks);

/** The board that another process has made. Ends the program on failure. */
struct board *board_open(const char *path);

/** A problem of a process: the first one stays. Said on standard error as well. */
void board_problem(struct board *board, unsigned slot, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Clock that all processes share, ns */
uint64_t board_now(void);

/** A clock, such as that of a process's processor time, ns */
uint64_t board_clock(clockid_t clock);

/**
 * A process that sees the flag also sees everything that was written before: release and acquire.
 */
static inline void board_set(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static inline uint32_t board_get(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/** One line on standard error, and the end of the process with status 1 */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
