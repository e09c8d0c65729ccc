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

typedef struct udmon_source {
    int fd;
    void (*ready)(struct udmon_source *source, uint32_t events); /* NULL: the caller only wakes */
    void *arg;
} udmon_source_t;

typedef struct udmon_timer {
    LIST_ENTRY(udmon_timer) list;
    uint64_t due_ns;                         /* 0: not set */
    void (*fire)(struct udmon_timer *timer); /* or NULL */
    void *arg;
} udmon_timer_t;

typedef struct udmon_loop {
    int epoll_fd;
    udmon_source_t timerfd;
    LIST_HEAD(, udmon_timer) timers; /* soonest first */
    uint64_t armed_ns;
    int entered;      /* the timerfd is set when it is left */
    uint64_t now_ns;  /* when udmon_loop_run was called last: exact enough for timeouts */
    unsigned deleted; /* counts deletions, so that events of a deleted source are not handled */
} udmon_loop_t;

/* A thread that gets no signals: they are the main thread's. */
int udmon_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

int udmon_loop_open(udmon_loop_t *loop);
void udmon_loop_close(udmon_loop_t *loop);

int udmon_loop_add(udmon_loop_t *loop, udmon_source_t *source, uint32_t events);
int udmon_loop_modify(udmon_loop_t *loop, udmon_source_t *source, uint32_t events);
/* Before the descriptor is closed. */
void udmon_loop_delete(udmon_loop_t *loop, udmon_source_t *source);

/* (Re)start a one-shot timer. */
void udmon_timer_set(udmon_loop_t *loop, udmon_timer_t *timer, uint64_t delay_ms);
/* The same for a moment of udmon_now_ns, for periods that must not drift. */
void udmon_timer_set_at(udmon_loop_t *loop, udmon_timer_t *timer, uint64_t due_ns);
void udmon_timer_cancel(udmon_timer_t *timer);

/* Calls ready sources and due timers, without waiting; returns the number of calls. */
int udmon_loop_run(udmon_loop_t *loop);

/*
 * The same, for a caller that has more work before it waits: until udmon_loop_leave, changes of
 * timers cost no system call.
 */
int udmon_loop_enter(udmon_loop_t *loop);
void udmon_loop_leave(udmon_loop_t *loop);

/* The signals of a program whose main thread runs a loop. */
typedef struct udmon_signals {
    udmon_source_t source;
    void (*hangup)(void); /* SIGHUP has come */
    int ended;            /* SIGTERM or SIGINT has */
} udmon_signals_t;

/* Before there are threads. */
int udmon_signals_catch(udmon_loop_t *loop, udmon_signals_t *signals, void (*hangup)(void));
/* Run the loop until SIGTERM or SIGINT. */
void udmon_signals_wait(udmon_loop_t *loop, udmon_signals_t *signals);

#endif
