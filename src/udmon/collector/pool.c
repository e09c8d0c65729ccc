#include "pool.h"
#include "../lib/base/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <string.h>

enum { BUDGET_STEPS = 1000 /* SQLite's virtual machine steps between two checks of the budget */ };

int budget_spent(struct budget *budget)
{
    if (!budget->spent &&
        (((budget->until_ns != 0) && (udmon_now_ns() > budget->until_ns)) ||
         ((budget->stopping != NULL) && __atomic_load_n(budget->stopping, __ATOMIC_SEQ_CST)))) {
        budget->spent = 1;
    }
    return budget->spent;
}

static int budget_progress(void *arg)
{
    return budget_spent(arg);
}

/* How many jobs of an address wait or run. With the lock held. */
static unsigned pool_jobs_of(const struct pool *pool, uint64_t address, int running_only)
{
    const struct pool_job *job;
    unsigned i, count = 0;

    for (i = 0; i < POOL_THREADS; ++i) {
        count += pool->threads[i].busy && (pool->threads[i].address == address);
    }
    if (!running_only) {
        STAILQ_FOREACH(job, &pool->waiting, list) {
            count += (job->address == address);
        }
    }
    return count;
}

/* The oldest job of the addresses that occupy the fewest threads. With the lock held. */
static struct pool_job *pool_next(struct pool *pool)
{
    unsigned running, least = POOL_THREADS + 1;
    struct pool_job *job, *best = NULL;

    STAILQ_FOREACH(job, &pool->waiting, list) {
        running = pool_jobs_of(pool, job->address, 1);
        if (running < least) {
            least = running;
            best = job;
        }
    }
    if (best != NULL) {
        STAILQ_REMOVE(&pool->waiting, best, pool_job, list);
        --pool->waiting_count;
    }
    return best;
}

static void pool_run_job(struct pool_thread *thread, struct pool_job *job)
{
    struct pool *pool = thread->pool;
    struct budget budget = {
        .until_ns = udmon_now_ns() + (POOL_QUESTION_MS * UINT64_C(1000000)),
        .stopping = &pool->stopping,
    };

    sqlite3_progress_handler(thread->db, BUDGET_STEPS, budget_progress, &budget);
    job->run(job, thread->db, &budget);
    sqlite3_progress_handler(thread->db, 0, NULL, NULL);
    if (budget.spent) {
        __atomic_fetch_add(&pool->exceeded, 1, __ATOMIC_RELAXED);
    }
    job->done(job, 1);
}

static void *pool_thread(void *arg)
{
    struct pool_thread *thread = arg;
    struct pool *pool = thread->pool;
    struct pool_job *job;

    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        job = pool_next(pool);
        if (job == NULL) {
            pthread_cond_wait(&pool->wake, &pool->lock);
            continue;
        }
        thread->busy = 1;
        thread->address = job->address;
        pthread_mutex_unlock(&pool->lock);
        pool_run_job(thread, job);
        pthread_mutex_lock(&pool->lock);
        thread->busy = 0;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int pool_start_thread(struct pool *pool, const char *database)
{
    struct pool_thread *thread = &pool->threads[pool->started];
    int ret;

    thread->pool = pool;
    if (sqlite3_open_v2(database, &thread->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        udmon_error("cannot read history %s: %s", database, sqlite3_errmsg(thread->db));
        sqlite3_close(thread->db);
        return -EIO;
    }
    sqlite3_busy_timeout(thread->db, 200);
    ret = udmon_thread_start(&thread->thread, pool_thread, thread);
    if (ret < 0) {
        udmon_error("no thread for questions to the history: %s", strerror(-ret));
        sqlite3_close(thread->db);
        return ret;
    }
    ++pool->started;
    return 0;
}

int pool_open(struct pool *pool, const char *database)
{
    int ret = 0;

    memset(pool, 0, sizeof(*pool));
    STAILQ_INIT(&pool->waiting);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    while ((pool->started < POOL_THREADS) && (ret == 0)) {
        ret = pool_start_thread(pool, database);
    }
    if (ret < 0) {
        pool_close(pool);
    }
    return ret;
}

void pool_close(struct pool *pool)
{
    struct pool_job *job;
    unsigned i;

    pthread_mutex_lock(&pool->lock);
    __atomic_store_n(&pool->stopping, 1, __ATOMIC_SEQ_CST);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (i = 0; i < pool->started; ++i) {
        pthread_join(pool->threads[i].thread, NULL);
        sqlite3_close(pool->threads[i].db);
    }
    while ((job = STAILQ_FIRST(&pool->waiting)) != NULL) {
        STAILQ_REMOVE_HEAD(&pool->waiting, list);
        job->done(job, 0);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
}

int pool_submit(struct pool *pool, struct pool_job *job)
{
    int ret = 0;

    pthread_mutex_lock(&pool->lock);
    if (pool->stopping || (pool->waiting_count == POOL_WAITING_MAX) ||
        (pool_jobs_of(pool, job->address, 0) >= POOL_ADDRESS_MAX)) {
        __atomic_fetch_add(&pool->refused, 1, __ATOMIC_RELAXED);
        ret = -EAGAIN;
    } else {
        STAILQ_INSERT_TAIL(&pool->waiting, job, list);
        ++pool->waiting_count;
        pthread_cond_signal(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
    return ret;
}
