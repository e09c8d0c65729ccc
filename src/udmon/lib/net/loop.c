#include "loop.h"
#include "../base/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int udmon_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    int ret;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ret = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -ret;
}

/* Set the timerfd to the soonest timer, if it is not already; while timers come and go, later. */
static void loop_arm_timer(struct udmon_loop *loop)
{
    struct udmon_timer *first = LIST_FIRST(&loop->timers);
    uint64_t due = (first != NULL) ? first->due_ns : 0;
    struct itimerspec spec = {
        .it_value = {.tv_sec = due / 1000000000u, .tv_nsec = due % 1000000000u},
    };

    if (!loop->entered && (due != loop->armed_ns)) {
        timerfd_settime(loop->timerfd.fd, TFD_TIMER_ABSTIME, &spec, NULL);
        loop->armed_ns = due;
    }
}

static void loop_timers_due(struct udmon_source *source, uint32_t events)
{
    struct udmon_loop *loop = source->arg;
    uint64_t expirations;

    (void)events;
    if (read(source->fd, &expirations, sizeof(expirations)) < 0) {
        return; /* the timer was set again */
    }
    loop->armed_ns = 0;
}

static int loop_run_timers(struct udmon_loop *loop)
{
    uint64_t now = loop->now_ns = udmon_now_ns();
    struct udmon_timer *timer;
    int count = 0;

    /* Timers set meanwhile lie after `now`, so this ends. */
    while (((timer = LIST_FIRST(&loop->timers)) != NULL) && (timer->due_ns <= now)) {
        udmon_timer_cancel(timer);
        if (timer->fire != NULL) {
            timer->fire(timer);
        }
        ++count;
    }
    return count;
}

int udmon_loop_open(struct udmon_loop *loop)
{
    int ret;

    memset(loop, 0, sizeof(*loop));
    loop->now_ns = udmon_now_ns();
    LIST_INIT(&loop->timers);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        ret = -errno;
        udmon_error("cannot make an epoll descriptor: %s (too many open files?)", strerror(errno));
        return ret;
    }
    loop->timerfd.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->timerfd.fd < 0) {
        ret = -errno;
        udmon_error("cannot make a timer descriptor: %s (too many open files?)", strerror(errno));
        goto err_epoll;
    }
    loop->timerfd.ready = loop_timers_due;
    loop->timerfd.arg = loop;
    ret = udmon_loop_add(loop, &loop->timerfd, EPOLLIN);
    if (ret < 0) {
        goto err_timer;
    }
    return 0;

err_timer:
    close(loop->timerfd.fd);
err_epoll:
    close(loop->epoll_fd);
    return ret;
}

void udmon_loop_close(struct udmon_loop *loop)
{
    close(loop->timerfd.fd);
    close(loop->epoll_fd);
}

static int loop_ctl(struct udmon_loop *loop, int op, struct udmon_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    int ret;

    if (epoll_ctl(loop->epoll_fd, op, source->fd, &event) < 0) {
        ret = -errno;
        udmon_error("epoll does not take descriptor %d: %s", source->fd, strerror(errno));
        return ret;
    }
    return 0;
}

int udmon_loop_add(struct udmon_loop *loop, struct udmon_source *source, uint32_t events)
{
    return loop_ctl(loop, EPOLL_CTL_ADD, source, events);
}

int udmon_loop_modify(struct udmon_loop *loop, struct udmon_source *source, uint32_t events)
{
    return loop_ctl(loop, EPOLL_CTL_MOD, source, events);
}

void udmon_loop_delete(struct udmon_loop *loop, struct udmon_source *source)
{
    loop_ctl(loop, EPOLL_CTL_DEL, source, 0);
    ++loop->deleted;
}

void udmon_timer_cancel(struct udmon_timer *timer)
{
    if (timer->due_ns != 0) {
        LIST_REMOVE(timer, list);
        timer->due_ns = 0;
    }
}

void udmon_timer_set(struct udmon_loop *loop, struct udmon_timer *timer, uint64_t delay_ms)
{
    udmon_timer_set_at(loop, timer, udmon_now_ns() + (delay_ms * 1000000u) + 1);
}

void udmon_timer_set_at(struct udmon_loop *loop, struct udmon_timer *timer, uint64_t due_ns)
{
    struct udmon_timer *other, *last = NULL;

    udmon_timer_cancel(timer);
    timer->due_ns = due_ns;
    LIST_FOREACH(other, &loop->timers, list) {
        if (other->due_ns > timer->due_ns) {
            break;
        }
        last = other;
    }
    if (last == NULL) {
        LIST_INSERT_HEAD(&loop->timers, timer, list);
    } else {
        LIST_INSERT_AFTER(last, timer, list);
    }
    loop_arm_timer(loop);
}

int udmon_loop_enter(struct udmon_loop *loop)
{
    struct epoll_event events[16];
    unsigned deleted = loop->deleted;
    int i, count, calls = 0;

    loop->entered = 1;
    count = epoll_wait(loop->epoll_fd, events, 16, 0);
    for (i = 0; i < count; ++i) {
        struct udmon_source *source = events[i].data.ptr;
        if (source->ready != NULL) {
            source->ready(source, events[i].events);
        }
        ++calls;
        if (loop->deleted != deleted) {
            break; /* later events may belong to the deleted source; the kernel reports them
                    * again */
        }
    }
    return calls + loop_run_timers(loop);
}

void udmon_loop_leave(struct udmon_loop *loop)
{
    loop->entered = 0;
    loop_arm_timer(loop);
}

int udmon_loop_run(struct udmon_loop *loop)
{
    int calls = udmon_loop_enter(loop);

    udmon_loop_leave(loop);
    return calls;
}

static void signals_ready(struct udmon_source *source, uint32_t events)
{
    struct udmon_signals *signals = source->arg;
    struct signalfd_siginfo info;

    (void)events;
    while (read(source->fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGHUP) {
            signals->hangup();
        } else {
            signals->ended = 1;
        }
    }
}

int udmon_signals_catch(struct udmon_loop *loop, struct udmon_signals *signals,
                        void (*hangup)(void))
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *signals = (struct udmon_signals){
        .source = {.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC),
                   .ready = signals_ready,
                   .arg = signals},
        .hangup = hangup,
    };
    return (signals->source.fd < 0) ? -errno : udmon_loop_add(loop, &signals->source, EPOLLIN);
}

void udmon_signals_wait(struct udmon_loop *loop, struct udmon_signals *signals)
{
    struct pollfd wait = {.fd = loop->epoll_fd, .events = POLLIN};

    while (!signals->ended) {
        poll(&wait, 1, -1);
        udmon_loop_run(loop);
    }
}
