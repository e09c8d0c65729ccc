/*
 * Event loop of one object: an epoll set whose descriptor the user polls, with all timers on one
 * timerfd. Sources and timers are embedded in their owners.
 */
#ifndef UDMON_LOOP_H
#define UDMON_LOOP_H

#include "../base/clock.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>

struct udmon_source {
    int fd;
    void (*ready)(struct udmon_source *source, uint32_t events); /* NULL: the caller only wakes */
    void *arg;
};

struct udmon_timer {
    LIST_ENTRY(udmon_timer) list;
    uint64_t due_ns;                         /* 0: not set */
    void (*fire)(struct udmon_timer *timer); /* or NULL */
    void *arg;
};

struct udmon_loop {
    int epoll_fd;
    struct udmon_source timerfd;
    LIST_HEAD(, udmon_timer) timers; /* soonest first */
    uint64_t armed_ns;
    int entered;      /* the timerfd is set when it is left */
    uint64_t now_ns;  /* when udmon_loop_run was called last: exact enough for timeouts */
    unsigned deleted; /* counts deletions, so that events of a deleted source are not handled */
};

/** A thread that gets no signals: they are the main thread's. */
int udmon_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

int udmon_loop_open(struct udmon_loop *loop);
void udmon_loop_close(struct udmon_loop *loop);

int udmon_loop_add(struct udmon_loop *loop, struct udmon_source *source, uint32_t events);
int udmon_loop_modify(struct udmon_loop *loop, struct udmon_source *source, uint32_t events);
/** Before the descriptor is closed. */
void udmon_loop_delete(struct udmon_loop *loop, struct udmon_source *source);

/** (Re)start a one-shot timer. */
void udmon_timer_set(struct udmon_loop *loop, struct udmon_timer *timer, uint64_t delay_ms);
/** As udmon_timer_set(), at a time of udmon_now_ns(). Periods then do not drift. */
void udmon_timer_set_at(struct udmon_loop *loop, struct udmon_timer *timer, uint64_t due_ns);
void udmon_timer_cancel(struct udmon_timer *timer);

/** Calls ready sources and due timers, without waiting; returns the number of calls. */
int udmon_loop_run(struct udmon_loop *loop);

/**
 * The same, for a caller that has more work before it waits: until udmon_loop_leave, changes of
 * timers cost no system call.
 */
int udmon_loop_enter(struct udmon_loop *loop);
void udmon_loop_leave(struct udmon_loop *loop);

/* The signals of a program whose main thread runs a loop. */
struct udmon_signals {
    struct udmon_source source;
    void (*hangup)(void); /* SIGHUP has come */
    int ended;            /* SIGTERM or SIGINT has */
};

/** Before there are threads. */
int udmon_signals_catch(struct udmon_loop *loop, struct udmon_signals *signals,
                        void (*hangup)(void));
/** Run the loop until SIGTERM or SIGINT. */
void udmon_signals_wait(struct udmon_loop *loop, struct udmon_signals *signals);

#endif
