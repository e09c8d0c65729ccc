#include "core/wait.h"
#include "base/fabric.h"
#include "base/log.h"
#include "core/endpoint.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- the socket ------------------------------------------------------------------------------ */

/*
 * Address of an endpoint's socket. The kernel takes 107 bytes: where the path is longer the way
 * leads through our descriptor of the directory, for which /proc must be mounted.
 */
static void wait_address(struct glex_endpoint *ep, uint64_t addr, struct sockaddr_un *sun)
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
}

glex_ret_t glex_wait_open(struct glex_endpoint *ep)
{
    struct sockaddr_un sun;
    int fd;

    if (ep->wait_fd >= 0) {
        return GLEX_SUCCESS;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        glex_error("cannot make a socket to sleep on: %s", strerror(errno));
        return GLEX_SYS_ERR;
    }
    wait_address(ep, ep->addr, &sun);
    (void)unlink(sun.sun_path); /* the name belongs to this address: a dead owner has left it */
    if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0) {
        glex_error("cannot bind the socket %s: %s", sun.sun_path, strerror(errno));
        close(fd);
        return GLEX_SYS_ERR;
    }
    ep->wait_fd = fd;
    return GLEX_SUCCESS;
}

/* Closes the descriptor for programs, if open; the socket stays. */
void glex_wait_close_event(struct glex_endpoint *ep)
{
    if (ep->event_fd >= 0) {
        close(ep->event_fd);
    }
    if (ep->timer_fd >= 0) {
        close(ep->timer_fd);
    }
    ep->event_fd = ep->timer_fd = -1;
}

void glex_wait_close(struct glex_endpoint *ep)
{
    glex_wait_close_event(ep);
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
    ep->wake_incarnation = 0; /* not connected */
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
 * The socket stays connected to the last woken peer. This is nearly always also the next peer, and
 * the kernel need not look up its path again.
 */
static bool wait_send(struct glex_endpoint *ep, uint64_t addr, uint64_t incarnation)
{
    struct sockaddr_un sun;

    if (ep->wake_incarnation != incarnation) {
        wait_address(ep, addr, &sun);
        if (connect(ep->wake_fd, (const struct sockaddr *)&sun, sizeof(sun)) != 0) {
            return false; /* no owner */
        }
        ep->wake_incarnation = incarnation;
    }
    return send(ep->wake_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

/*
 * If the socket cannot send, the peer is gone. With EAGAIN, the peer has enough waiting wake-ups,
 * or this socket has too many wake-ups that other peers have not read. A new socket has none. If
 * the new socket cannot send either, the peer is awake or gone. The old socket is closed first, so
 * its descriptor is free for the new socket. After another error, for example ENOMEM,
 * the peer wakes up at its own next check.
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
