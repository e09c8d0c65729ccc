#include "core/wait.h"
#include "coll/coll.h"
#include "base/fabric.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* An answer that is on its way arrives within this; longer would burn a core for nothing. */
#define WAIT_SPIN_NS 20000ull

/*
 * Who sleeps looks by itself so often. A wake-up does not come where its sender was killed between
 * the publication and the wake-up, or had no memory for a datagram.
 */
#define WAIT_RECHECK_NS 200000000l

uint64_t glex_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* ---- the socket ------------------------------------------------------------------------------ */

/*
 * Address of an endpoint's socket. The kernel takes 107 bytes: where the path is longer the way
 * leads through our descriptor of the directory, for which /proc must be mounted.
 */
static socklen_t wait_address(struct glex_endpoint *ep, uint64_t addr, struct sockaddr_un *sun)
{
    char path[PATH_MAX], name[GLEX_NAME_LEN];
    size_t len;

    glex_fabric_name(addr, name);
    glex_fabric_path(path, sizeof(path));
    len = strlen(path);
    snprintf(path + len, sizeof(path) - len, "/%s.s", name);
    if (strlen(path) >= sizeof(sun->sun_path)) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d/%s.s", ep->dev->dirfd, name);
    }
    memset(sun, 0, sizeof(*sun));
    sun->sun_family = AF_UNIX;
    memcpy(sun->sun_path, path, strlen(path));
    return sizeof(*sun);
}

/* The socket that peers wake us by. */
static glex_ret_t wait_open_socket(struct glex_endpoint *ep)
{
    struct sockaddr_un sun;
    socklen_t len;
    int fd;

    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        glex_error("cannot make a socket to sleep on: %s", strerror(errno));
        return GLEX_SYS_ERR;
    }
    len = wait_address(ep, ep->addr, &sun);
    (void)unlink(sun.sun_path); /* the name is ours: left by a dead owner of our address */
    if (bind(fd, (struct sockaddr *)&sun, len) != 0) {
        glex_error("cannot bind the socket %s: %s", sun.sun_path, strerror(errno));
        close(fd);
        return GLEX_SYS_ERR;
    }
    ep->wait_fd = fd;
    return GLEX_SUCCESS;
}

glex_ret_t glex_wait_open(struct glex_endpoint *ep)
{
    return ep->wait_fd >= 0 ? GLEX_SUCCESS : wait_open_socket(ep);
}

/* Close what is open of the descriptor for programs; the socket stays. */
static void wait_close_event(struct glex_endpoint *ep)
{
    if (ep->event_fd >= 0) {
        close(ep->event_fd);
    }
    if (ep->timer_fd >= 0) {
        close(ep->timer_fd);
    }
    ep->event_fd = ep->timer_fd = -1;
}

glex_ret_t glex_wait_open_event(struct glex_endpoint *ep)
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
        (ep->net != NULL &&
         epoll_ctl(ep->event_fd, EPOLL_CTL_ADD, glex_net_fd(ep), &event) != 0) ||
        epoll_ctl(ep->event_fd, EPOLL_CTL_ADD, ep->timer_fd, &event) != 0) {
        glex_error("cannot make a descriptor to sleep on: %s", strerror(errno));
        wait_close_event(ep);
        return GLEX_SYS_ERR;
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_wait_start_timer(struct glex_endpoint *ep)
{
    const struct itimerspec time = {.it_value = {0, WAIT_RECHECK_NS}};

    /* Setting it also takes back an expiry that nobody has looked at. */
    if (timerfd_settime(ep->timer_fd, 0, &time, NULL) != 0) {
        glex_error("cannot set the timer of a sleeping endpoint: %s", strerror(errno));
        return GLEX_SYS_ERR;
    }
    return GLEX_SUCCESS;
}

void glex_wait_close(struct glex_endpoint *ep)
{
    wait_close_event(ep);
    if (ep->wait_fd >= 0) {
        close(ep->wait_fd);
    }
    if (ep->wake_fd >= 0) {
        close(ep->wake_fd);
    }
}

/* ---- waking ---------------------------------------------------------------------------------- */

static bool wait_open_waker(struct glex_endpoint *ep)
{
    ep->wake_incarnation = 0; /* connected to nobody */
    ep->wake_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return ep->wake_fd >= 0;
}

glex_ret_t glex_wait_open_waker(struct glex_endpoint *ep)
{
    if (ep->wake_fd < 0 && !wait_open_waker(ep)) {
        glex_error("cannot make a socket to wake peers with: %s%s", strerror(errno),
                   errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
        return GLEX_SYS_ERR;
    }
    return GLEX_SUCCESS;
}

/*
 * The socket is connected to the peer that was woken last: nearly always that is the next one, and
 * the kernel need not look for it by its path again.
 */
static bool wait_send(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation)
{
    struct sockaddr_un sun;
    socklen_t len;

    if (ep->wake_incarnation != incarnation) {
        len = wait_address(ep, addr, &sun);
        if (connect(ep->wake_fd, (const struct sockaddr *)&sun, len) != 0) {
            return false; /* nobody is there */
        }
        ep->wake_incarnation = incarnation;
    }
    return send(ep->wake_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

/*
 * Where the socket cannot send, the peer is gone; or (EAGAIN) the peer has enough wake-ups waiting,
 * or this socket is charged with too many that others have not taken yet. A new socket is charged
 * with none, so where that cannot send either, the peer is awake already, or gone. The old one is
 * closed before, so that its descriptor is free for the new one. Whatever else fails here, such as
 * the kernel's memory, delays the peer until it looks by itself.
 */
void GLEX_NOINLINE glex_wait_wake(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation)
{
    if (ep->wake_fd >= 0) {
        if (wait_send(ep, addr, incarnation)) {
            GLEX_COUNT(ep, wakeups, 1);
            return;
        }
        close(ep->wake_fd);
    }
    if (wait_open_waker(ep) && wait_send(ep, addr, incarnation)) {
        GLEX_COUNT(ep, wakeups, 1);
    }
}

void glex_wait_drain(struct glex_endpoint *ep)
{
    char byte;

    while (recv(ep->wait_fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0) {
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

uint64_t glex_wait_deadline(int32_t timeout)
{
    if (timeout == 0) {
        return 0;
    }
    return timeout < 0 ? UINT64_MAX : glex_now_ns() + (uint64_t)timeout * 1000000ull;
}

static bool wait_is_published(const struct glex_ring_rx *rx, uint64_t pos)
{
    uint64_t ctrl;

    return glex_ring_rx_slot(rx, pos, &ctrl) != NULL;
}

/* Another thread may use the endpoint meanwhile: of `rx` this reads only what never changes. */
static bool wait_spin(struct glex_endpoint *ep, const struct glex_ring_rx *rx, uint64_t pos)
{
    uint64_t end = glex_now_ns() + WAIT_SPIN_NS;
    cpu_set_t set;
    int i;

    /* With one processor the producer waits for us to give it up. */
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) < 2) {
        return false;
    }
    do {
        for (i = 0; i < 16; i++) {
            if (wait_is_published(rx, pos)) {
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
    } while (glex_now_ns() < end);
    return false;
}

/* How long to sleep before a deadline. */
static struct timespec wait_time(uint64_t deadline, uint64_t most)
{
    uint64_t now = glex_now_ns(), left = deadline > now ? deadline - now : 0;

    left = left < most ? left : most;
    return (struct timespec){.tv_nsec = (long)left};
}

/* Sleep until woken, the deadline, or the time to look again. SUCCESS: look again. */
static glex_ret_t wait_sleep(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos,
                             uint64_t deadline)
{
    /* poll() passes over the second where it is -1. */
    struct pollfd pfd[2] = {{.fd = ep->wait_fd, .events = POLLIN},
                            {.fd = glex_net_fd(ep), .events = POLLIN}};
    struct timespec left;
    bool armed = false;
    int ret, err;

    /* One thread at a time: wake-ups that another one waits for are not to be taken away. */
    if (!ep->threads.sleeping) {
        glex_wait_drain(ep);
        armed = glex_ring_arm(rx, pos);
    }
    if (armed && (glex_coll_is_pending(ep) || !glex_net_arm(ep))) {
        glex_ring_disarm(rx); /* a sequence of ours is to be carried on, or the network: look again */
        armed = false;
    }
    if (armed) {
        left = wait_time(deadline, WAIT_RECHECK_NS);
    } else {
        /* Claimed, and still not published after a spin: its producer was stopped or killed. Or
         * another thread sleeps. */
        pfd[0].events = 0;
        left = wait_time(deadline, 1000000);
    }
    ep->threads.sleeping |= armed;
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

glex_ret_t glex_wait_for(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos,
                         uint64_t deadline, glex_ret_t none)
{
    glex_ret_t ret;
    bool published;

    for (;;) {
        if (glex_endpoint_idle(ep, rx, pos)) {
            return GLEX_SUCCESS;
        }
        if (deadline == 0) {
            return none;
        }
        glex_fault_flush(ep); /* who waits posts nothing that delayed messages could wait for */
        glex_endpoint_unlock(ep);
        published = wait_spin(ep, rx, pos);
        glex_endpoint_lock(ep);
        if (published) {
            return GLEX_SUCCESS;
        }
        if (glex_now_ns() >= deadline) {
            return none;
        }
        ret = glex_wait_open(ep);
        if (ret == GLEX_SUCCESS) {
            ret = wait_sleep(ep, rx, pos, deadline);
        }
        if (ret != GLEX_SUCCESS) {
            return ret;
        }
        /* Another thread may have taken meanwhile what is at that position. */
        if (wait_is_published(rx, pos) || ep->threads.on) {
            return GLEX_SUCCESS;
        }
    }
}
