#include "worker.h"
#include "samples.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { WORKER_END_MS = 500, WORKER_DEADLINE_S = 10 };

/*
 * IDLE -> RUNS          the loop begins a tick
 * RUNS -> HANDS_OVER    the thread has samples and waits for the loop
 * HANDS_OVER -> RUNS    the loop has taken them
 * RUNS -> IDLE          the tick has returned
 * IDLE, RUNS -> ENDED   after `ending`, when the tick has returned
 */
enum worker_phase { WORKER_IDLE, WORKER_RUNS, WORKER_HANDS_OVER, WORKER_ENDED };

struct worker {
    pthread_t thread;
    pthread_mutex_t lock; /* of `phase`, `ending`, `abandoned`, `metrics` and `count` */
    pthread_cond_t changed;
    enum worker_phase phase;
    int ending;
    int abandoned; /* the loop does not wait any more: the thread frees the worker */
    const struct udmon_metric *metrics;
    size_t count;
    struct udmon_node *node; /* referenced */
    struct samples
        samples; /* of the thread; large, but pages are touched only as they are needed */
    /* Of the loop: */
    struct udmon_node *output;
    struct udmon_source ready; /* eventfd: the phase is HANDS_OVER, or a tick has returned */
    uint64_t started_ns, deadline_ns;
    int running; /* a tick was begun, and its end is not known yet */
    int stuck;
    uint64_t skipped;
};

static _Thread_local struct worker *worker_self;
static int workers_abandoned; /* atomic */

struct samples *worker_samples(void)
{
    return (worker_self != NULL) ? &worker_self->samples : NULL;
}

bool worker_any_abandoned(void)
{
    return __atomic_load_n(&workers_abandoned, __ATOMIC_SEQ_CST) > 0;
}

static void worker_free(struct worker *worker)
{
    close(worker->ready.fd);
    node_put(worker->node);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

/* With the lock held. */
static void worker_enter(struct worker *worker, enum worker_phase phase)
{
    worker->phase = phase;
    pthread_cond_broadcast(&worker->changed);
}

/* In a worker's thread: waits until the loop has taken the samples. */
static void worker_hand_over(struct worker *worker, const struct udmon_metric *metrics,
                             size_t count)
{
    pthread_mutex_lock(&worker->lock);
    if (!worker->ending) {
        worker->metrics = metrics;
        worker->count = count;
        worker_enter(worker, WORKER_HANDS_OVER);
        eventfd_write(worker->ready.fd, 1);
        while ((worker->phase == WORKER_HANDS_OVER) && !worker->ending) {
            pthread_cond_wait(&worker->changed, &worker->lock);
        }
        worker->phase = WORKER_RUNS;
    }
    pthread_mutex_unlock(&worker->lock);
}

void udmon_node_emit(struct udmon_node *node, const struct udmon_metric *metrics, size_t count)
{
    if (count == 0) {
        return;
    }
    if (worker_self != NULL) {
        worker_hand_over(worker_self, metrics, count);
    } else {
        node_deliver(node, metrics, count);
    }
}

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    const struct udmon_node_type *type = worker->node->type;
    int abandoned;

    worker_self = worker;
    pthread_mutex_lock(&worker->lock);
    while (!worker->ending) {
        if (worker->phase == WORKER_IDLE) {
            pthread_cond_wait(&worker->changed, &worker->lock);
            continue;
        }
        pthread_mutex_unlock(&worker->lock);
        type->tick(worker->node, worker->node->state);
        pthread_mutex_lock(&worker->lock);
        worker_enter(worker, WORKER_IDLE);
        eventfd_write(worker->ready.fd, 1);
    }
    pthread_mutex_unlock(&worker->lock);
    if (type->destroy != NULL) {
        type->destroy(worker->node->state);
    }
    pthread_mutex_lock(&worker->lock);
    worker_enter(worker, WORKER_ENDED);
    abandoned = worker->abandoned;
    pthread_mutex_unlock(&worker->lock);
    if (abandoned) {
        worker_free(worker);
        __atomic_fetch_sub(&workers_abandoned, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void worker_returned(struct worker *worker)
{
    worker->running = 0;
    if (worker->stuck) {
        udmon_warn("node %s: the sensor answers again, after %.0f s", worker->node->name,
                   (udmon_now_ns() - worker->started_ns) * 1e-9);
        worker->stuck = 0;
    }
}

static void worker_ready(struct udmon_source *source, uint32_t events)
{
    struct worker *worker = source->arg;
    enum worker_phase phase;
    eventfd_t news;

    (void)events;
    eventfd_read(source->fd, &news);
    pthread_mutex_lock(&worker->lock);
    phase = worker->phase;
    pthread_mutex_unlock(&worker->lock);
    if (phase == WORKER_HANDS_OVER) {
        node_deliver(worker->output, worker->metrics, worker->count);
        pthread_mutex_lock(&worker->lock);
        worker_enter(worker, WORKER_RUNS);
        pthread_mutex_unlock(&worker->lock);
    } else if (phase == WORKER_IDLE) {
        worker_returned(worker);
    }
}

int worker_start(struct udmon_node *node, struct worker **worker_p)
{
    struct worker *worker;
    double deadline;
    int ret;

    if (udmon_node_number(node, "deadline", WORKER_DEADLINE_S, 0.1, 86400, &deadline) < 0) {
        return -EINVAL;
    }
    worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return -ENOMEM;
    }
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->changed, NULL);
    worker->deadline_ns = deadline * 1e9;
    worker->node = node_get(node);
    worker->output = node;
    worker->ready.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->ready.ready = worker_ready;
    worker->ready.arg = worker;
    ret = (worker->ready.fd < 0) ? -errno : udmon_loop_add(&agent_loop, &worker->ready, EPOLLIN);
    if (ret == 0) {
        ret = udmon_thread_start(&worker->thread, worker_run, worker);
        if (ret < 0) {
            udmon_loop_delete(&agent_loop, &worker->ready);
        }
    }
    if (ret < 0) {
        udmon_node_error(node, NULL, "cannot start its thread: %s", strerror(-ret));
        worker_free(worker);
        return ret;
    }
    *worker_p = worker;
    return 0;
}

void worker_take_over(struct worker *worker, struct udmon_node *node)
{
    worker->output = node;
}

void worker_tick(struct worker *worker)
{
    uint64_t now_ns = udmon_now_ns();

    if (worker->running) {
        ++worker->skipped;
        if (!worker->stuck && ((now_ns - worker->started_ns) > worker->deadline_ns)) {
            worker->stuck = 1;
            udmon_warn("node %s: the sensor has been blocked for %.1f s (a file system, device or "
                       "endpoint does not answer): no samples of it until it answers",
                       worker->node->name, (now_ns - worker->started_ns) * 1e-9);
        }
        return;
    }
    worker->running = 1;
    worker->started_ns = now_ns;
    pthread_mutex_lock(&worker->lock);
    worker_enter(worker, WORKER_RUNS);
    pthread_mutex_unlock(&worker->lock);
}

/* Wait for the end of the thread, for a bounded time; returns whether it has ended. */
static bool worker_await_end(struct worker *worker)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WORKER_END_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (worker->phase != WORKER_ENDED) {
        if (worker->stuck ||
            (pthread_cond_timedwait(&worker->changed, &worker->lock, &until) == ETIMEDOUT)) {
            return false;
        }
    }
    return true;
}

void worker_stop(struct worker *worker)
{
    int ended;

    udmon_loop_delete(&agent_loop, &worker->ready);
    pthread_mutex_lock(&worker->lock);
    worker->ending = 1;
    pthread_cond_broadcast(&worker->changed);
    ended = worker_await_end(worker);
    worker->abandoned = !ended;
    if (!ended) {
        __atomic_fetch_add(&workers_abandoned, 1, __ATOMIC_SEQ_CST);
        pthread_detach(worker->thread);
    }
    pthread_mutex_unlock(&worker->lock);
    if (ended) {
        pthread_join(worker->thread, NULL);
        worker_free(worker);
    }
}

const struct udmon_node *worker_node(const struct worker *worker)
{
    return worker->node;
}

int worker_stuck(const struct worker *worker)
{
    return worker->stuck;
}

uint64_t worker_skipped(const struct worker *worker)
{
    return worker->skipped;
}
