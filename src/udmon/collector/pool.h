/*
 * A pool of threads answers questions to the history, so /metrics never waits for the history. The queue is
 * bounded, in all and for each address; an address with few questions goes before one with many.
 */
#ifndef UDMON_COLLECTOR_POOL_H
#define UDMON_COLLECTOR_POOL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
    POOL_THREADS = 2,
    POOL_WAITING_MAX = 256,
    POOL_ADDRESS_MAX = 32, /* of one address, waiting and running */
    POOL_QUESTION_MS = 2000
};

/* The remaining cost of a request. The working thread calls budget_spent() from time to time. */
struct budget {
    uint64_t until_ns;   /* by udmon_now_ns; 0: no limit */
    const int *stopping; /* or NULL */
    int spent;           /* the question was given up: its answer is incomplete */
};

int budget_spent(struct budget *budget);

struct pool_job {
    STAILQ_ENTRY(pool_job) list;
    uint64_t address; /* hash of the client's address */
    /* Called by a thread of the pool. `db` reads the history. */
    void (*run)(struct pool_job *job, sqlite3 *db, struct budget *budget);
    /* Called once after `run`, or instead of it when the pool ends. */
    void (*done)(struct pool_job *job, int was_run);
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    STAILQ_HEAD(, pool_job) waiting;
    unsigned waiting_count;
    struct pool_thread {
        struct pool *pool;
        pthread_t thread;
        sqlite3 *db;
        uint64_t address; /* of the job that runs */
        int busy;
    } threads[POOL_THREADS];
    unsigned started;
    int stopping;
    uint64_t refused, exceeded; /* atomic: questions without an answer */
};

/** `database` is the history's file. On failure, a line in the log has the reason. */
int pool_open(struct pool *pool, const char *database);
/** Ends running requests within some milliseconds. */
void pool_close(struct pool *pool);

/** -EAGAIN: too many wait already. */
int pool_submit(struct pool *pool, struct pool_job *job);

#endif
