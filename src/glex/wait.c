#include "wait.h"
#include "endpoint.h"
#include "fabric.h"
#include "log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* An answer that is on its way arrives within this; longer would burn a core for nothing. */
#define WAIT_SPIN_NS 20000ull

uint64_t glex_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* ---- the socket ------------------------------------------------------------------------------ */

/*
 * Address of an endpoint's socket. The kernel takes 107 bytes: where the fabric's path is longer
 * the way leads through our descriptor of the directory.
 */
static socklen_t wait_address(struct glex_endpoint *ep, uint64_t addr, struct sockaddr_un *sun)
{
    char dir[PATH_MAX], name[GLEX_NAME_LEN];

    glex_fabric_name(addr, name);
    glex_fabric_path(dir, sizeof(dir));
    if (strlen(dir) + sizeof("/") + GLEX_NAME_LEN + 2 > sizeof(sun->sun_path)) {
        snprintf(dir, sizeof(dir), "/proc/self/fd/%d", ep->dev->dirfd);
    }
    memset(sun, 0, sizeof(*sun));
    sun->sun_family = AF_UNIX;
    snprintf(sun->sun_path, sizeof(sun->sun_path), "%.70s/%s.s", dir, name);
    return sizeof(*sun);
}

glex_ret_t glex_wait_open(struct glex_endpoint *ep)
{
    struct sockaddr_un sun;
    socklen_t len;
    int fd;

    if (ep->wait_fd >= 0) {
        return GLEX_SUCCESS;
    }
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

void glex_wait_close(struct glex_endpoint *ep)
{
    if (ep->wait_fd >= 0) {
        close(ep->wait_fd);
    }
    if (ep->wake_fd >= 0) {
        close(ep->wake_fd);
    }
}

/*
 * A socket of its own, connected to the one that was woken last: nearly always it is the next, and
 * the kernel need not look for it by its path again.
 */
static bool wait_connect(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation)
{
    struct sockaddr_un sun;
    socklen_t len = wait_address(ep, addr, &sun);

    if (ep->wake_fd >= 0) {
        close(ep->wake_fd);
    }
    ep->wake_incarnation = incarnation;
    ep->wake_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (ep->wake_fd < 0) {
        glex_error("cannot wake a sleeping peer: %s", strerror(errno));
        return false;
    }
    if (connect(ep->wake_fd, (const struct sockaddr *)&sun, len) != 0) {
        close(ep->wake_fd); /* nobody is there */
        ep->wake_fd = -1;
        return false;
    }
    return true;
}

static bool wait_send(const struct glex_endpoint *ep)
{
    return send(ep->wake_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

/*
 * Where the socket cannot send: the peer made its own anew, or (EAGAIN) has wake-ups enough
 * waiting, or ours is charged with too many that others have not taken yet. A new one is charged
 * with none, so where that cannot send either, the peer is awake already, or gone.
 */
void GLEX_NOINLINE glex_wait_wake(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation)
{
    if ((ep->wake_fd >= 0 && ep->wake_incarnation == incarnation && wait_send(ep)) ||
        (wait_connect(ep, addr, incarnation) && wait_send(ep))) {
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

static bool wait_spin(const struct glex_ring_rx *rx, uint64_t pos)
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
    } while (glex_now_ns() < end);
    return false;
}

/* Sleep until woken or the deadline. SUCCESS: look again. */
static glex_ret_t wait_sleep(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t deadline)
{
    struct pollfd pfd = {.fd = ep->wait_fd, .events = POLLIN};
    struct timespec left = {0, 1000000}, *left_p = &left;
    uint64_t now;
    bool armed;
    int ret;

    glex_wait_drain(ep);
    armed = glex_ring_arm(rx);
    if (!armed) {
        /* Claimed, and still not published after a spin: its producer was stopped or killed. */
        pfd.events = 0;
    } else if (deadline == UINT64_MAX) {
        left_p = NULL;
    } else {
        now = glex_now_ns();
        now = deadline > now ? deadline - now : 0;
        left.tv_sec = (time_t)(now / 1000000000ull);
        left.tv_nsec = (long)(now % 1000000000ull);
    }
    ret = ppoll(&pfd, 1, left_p, NULL);
    if (armed) {
        glex_ring_disarm(rx);
    }
    if (ret < 0) {
        return errno == EINTR ? GLEX_INTR : GLEX_SYS_ERR;
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_wait_for(struct glex_endpoint *ep, struct glex_ring_rx *rx, uint64_t pos,
                         uint64_t deadline, glex_ret_t none)
{
    glex_ret_t ret;

    for (;;) {
        if (glex_endpoint_idle(ep, rx, pos)) {
            return GLEX_SUCCESS;
        }
        if (deadline == 0) {
            return none;
        }
        glex_fault_flush(ep); /* who waits posts nothing that delayed messages could wait for */
        if (wait_spin(rx, pos)) {
            return GLEX_SUCCESS;
        }
        if (glex_now_ns() >= deadline) {
            return none;
        }
        ret = glex_wait_open(ep);
        if (ret == GLEX_SUCCESS) {
            ret = wait_sleep(ep, rx, deadline);
        }
        if (ret != GLEX_SUCCESS) {
            return ret;
        }
        if (wait_is_published(rx, pos)) {
            return GLEX_SUCCESS;
        }
    }
}
