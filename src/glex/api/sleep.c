/*
 * Sleeping: the calls that wait, and the descriptor that programs sleep on.
 */
#include "api/api.h"
#include "base/log.h"
#include "coll/coll.h"
#include "core/help.h"
#include "core/wait.h"
#include "debug/fault.h"
#include "net/net.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

/* An answer in flight arrives within this time. A longer spin would waste a core. */
#define SLEEP_SPIN_NS 20000ull

/*
 * A sleeping thread checks its queue at this interval. A wake-up is lost if the sender is killed
 * between the publication and the wake-up, or has no memory for a datagram.
 */
#define SLEEP_RECHECK_NS 200000000l
/* The same if other endpoints of the process wait for this endpoint: see progress_carry(). */
#define SLEEP_OTHERS_NS 1000000l

static long sleep_recheck_ns(const struct glex_endpoint *ep)
{
    return ep->carries_others ? SLEEP_OTHERS_NS : SLEEP_RECHECK_NS;
}

/* ---- calls that wait ------------------------------------------------------------------------- */

uint64_t glex_wait_deadline(int32_t timeout)
{
    if (timeout == 0) {
        return 0;
    }
    return timeout < 0 ? UINT64_MAX : glex_now_ns() + (uint64_t)timeout * 1000000ull;
}

static bool sleep_is_published(const struct glex_ring_rx *rx, uint64_t pos)
{
    uint64_t ctrl;

    return glex_ring_rx_slot(rx, pos, &ctrl) != NULL;
}

/* Another thread may use the endpoint. So this function reads only constant fields of `rx`. */
static bool sleep_spin(struct glex_endpoint *ep, const struct glex_ring_rx *rx, uint64_t pos)
{
    uint64_t end = glex_now_ns() + SLEEP_SPIN_NS;
    cpu_set_t set;
    int i;

    /* With one processor the producer waits for us to give it up. */
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) < 2) {
        return false;
    }
    do {
        for (i = 0; i < 16; i++) {
            if (sleep_is_published(rx, pos)) {
                return true;
            }
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
        if (ep->net != NULL) {
            GLEX_LOCKED(ep);
            glex_net_progress(ep);
        }
        if (glex_help_is_asked(ep)) {
            glex_help_poll_unlocked(ep);
        }
    } while (glex_now_ns() < end);
    return false;
}

/* How long to sleep before a deadline. */
static struct timespec sleep_time(uint64_t deadline, uint64_t most)
{
    uint64_t now = glex_now_ns(), left = deadline > now ? deadline - now : 0;

    left = left < most ? left : most;
    return (struct timespec){.tv_nsec = (long)left};
}

/* Sleeps until a wake-up, the deadline, or the time of the next check. SUCCESS: probe again. */
static glex_ret_t sleep_until(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos,
                              uint64_t deadline)
{
    /* poll() passes over the second where it is -1. */
    struct pollfd pfd[2] = {{.fd = ep->wait_fd, .events = POLLIN},
                            {.fd = glex_net_fd(ep), .events = POLLIN}};
    struct timespec left;
    bool armed = false;
    int ret, err;

    /* One thread at a time: this thread must not take the wake-ups of another waiting thread. */
    if (!ep->threads.sleeping) {
        glex_wait_drain(ep);
        armed = glex_ring_arm(rx, pos);
    }
    ep->threads.sleeping |= armed; /* before the network reads it: net_disarm() */
    if (armed && (glex_coll_is_pending(ep) || !glex_net_arm(ep))) {
        glex_ring_disarm(rx); /* a collective or the network has work: probe again */
        armed = ep->threads.sleeping = false;
    }
    if (armed) {
        left = sleep_time(deadline, sleep_recheck_ns(ep));
    } else {
        /* Claimed, and still not published after a spin: its producer was stopped or killed. Or
         * another thread sleeps. */
        pfd[0].events = 0;
        left = sleep_time(deadline, 1000000);
    }
    glex_endpoint_unlock(ep);
    ret = ppoll(pfd, 2, &left, NULL);
    err = errno;
    glex_endpoint_lock(ep);
    if (armed) {
        ep->threads.sleeping = false;
        glex_ring_disarm(rx);
    }
    if (ret < 0) {
        return err == EINTR ? GLEX_INTR : GLEX_SYS_ERR;
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_wait_for(struct glex_endpoint *ep, int which, uint64_t pos, uint64_t deadline)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);
    glex_ret_t ret;
    bool published;

    for (;;) {
        if (glex_endpoint_idle(ep, rx, pos)) {
            return GLEX_SUCCESS;
        }
        if (deadline == 0) {
            return glex_queue_none(which);
        }
        glex_fault_flush(ep); /* a waiting thread posts no requests that delayed messages could wait
                               * for */
        glex_endpoint_unlock(ep);
        published = sleep_spin(ep, rx, pos);
        glex_endpoint_lock(ep);
        if (published) {
            return GLEX_SUCCESS;
        }
        if (glex_now_ns() >= deadline) {
            return glex_queue_none(which);
        }
        ret = glex_wait_open(ep);
        if (ret == GLEX_SUCCESS) {
            ret = sleep_until(ep, rx, pos, deadline);
        }
        if (ret != GLEX_SUCCESS) {
            return ret;
        }
        /* Another thread may have taken the entry at this position. */
        if (sleep_is_published(rx, pos) || ep->threads.on) {
            return GLEX_SUCCESS;
        }
    }
}

/* ---- the descriptor that programs sleep on --------------------------------------------------- */

/* Make the descriptor that programs sleep on, ep->event_fd, if it is not there. */
static glex_ret_t sleep_open_event(struct glex_endpoint *ep)
{
    struct epoll_event event = {.events = EPOLLIN};
    glex_ret_t ret;

    if (ep->event_fd >= 0) {
        return GLEX_SUCCESS;
    }
    ret = glex_wait_open(ep);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    ep->event_fd = epoll_create1(EPOLL_CLOEXEC);
    ep->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ep->event_fd < 0 || ep->timer_fd < 0 ||
        epoll_ctl(ep->event_fd, EPOLL_CTL_ADD, ep->wait_fd, &event) != 0 ||
        (ep->net != NULL && epoll_ctl(ep->event_fd, EPOLL_CTL_ADD, glex_net_fd(ep), &event) != 0) ||
        epoll_ctl(ep->event_fd, EPOLL_CTL_ADD, ep->timer_fd, &event) != 0) {
        glex_error("cannot make a descriptor to sleep on: %s", strerror(errno));
        glex_wait_close_event(ep);
        return GLEX_SYS_ERR;
    }
    return GLEX_SUCCESS;
}

/* A program is about to sleep on ep->event_fd: let it become readable after a while. */
static glex_ret_t sleep_start_timer(struct glex_endpoint *ep)
{
    const struct itimerspec time = {.it_value = {0, sleep_recheck_ns(ep)}};

    /* Setting the timer also clears an unread expiry. */
    if (timerfd_settime(ep->timer_fd, 0, &time, NULL) != 0) {
        glex_error("cannot set the timer of a sleeping endpoint: %s", strerror(errno));
        return GLEX_SYS_ERR;
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_event_fd(glex_ep_handle_t handle, int *fd)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    glex_ret_t ret;

    if (handle == NULL || fd == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    ret = sleep_open_event(ep);
    if (ret == GLEX_SUCCESS) {
        *fd = ep->event_fd;
    }
    return ret;
}

/* Whether the oldest slot holds no entry, because its producer was killed or gave it up. */
static bool sleep_oldest_is_nothing(const struct glex_ring_rx *rx)
{
    uint64_t ctrl;

    return glex_ring_rx_slot(rx, rx->head, &ctrl) != NULL &&
           GLEX_CTRL_LEN(ctrl) == GLEX_CTRL_LEN_SKIP;
}

/* Requests a wake-up by the next entry. Skips slots of killed producers, so a program that only
 * arms and sleeps need not probe for them. */
static bool sleep_arm_ring(struct glex_endpoint *ep, struct glex_ring_rx *rx)
{
    while (!glex_ring_arm(rx, rx->head)) {
        if (rx->cursor != rx->head ||
            (!sleep_oldest_is_nothing(rx) && !glex_endpoint_idle(ep, rx, rx->head))) {
            return false;
        }
        glex_ring_pass_over(rx, rx->head + 1);
    }
    return true;
}

glex_ret_t glex_ext_arm(glex_ep_handle_t handle)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    glex_ret_t ret;

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    ret = sleep_open_event(ep);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    glex_fault_flush(ep);  /* delayed messages wait for later posts: a sleeper posts nothing */
    glex_net_progress(ep); /* also send frames that wait for further requests */
    /* Before arming: a wake-up that comes after this stays, and wakes at once. */
    glex_wait_drain(ep);
    if (!sleep_arm_ring(ep, &ep->eq)) {
        return GLEX_BUSY;
    }
    if (!sleep_arm_ring(ep, &ep->mpq)) {
        glex_ring_disarm(&ep->eq);
        return GLEX_BUSY;
    }
    if (glex_coll_is_pending(ep) || !glex_net_arm(ep)) {
        glex_ring_disarm(&ep->eq);
        glex_ring_disarm(&ep->mpq);
        glex_coll_idle(ep);
        glex_net_progress(ep);
        return GLEX_BUSY; /* their requests may have put something into our own queues */
    }
    return sleep_start_timer(ep);
}
