/* Descriptors on which threads of the program sleep, and the clock of their timeouts. */
#include "gfi.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#define GFI_WATCH_SLEEP_MS 200 /* sleeping threads wake up to check for dead peers */

uint64_t gfi_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int gfi_wait_open(struct gfi_domain *domain, int *wait_fd, int *signal_fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int nic_fd;

    if (!(domain->uct.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD) ||
        uct_iface_event_fd_get(domain->uct.iface, &nic_fd) != UCS_OK) {
        GFI_WARN(FI_LOG_CQ, "the NIC has no descriptor to sleep on: use FI_WAIT_NONE\n");
        return -FI_ENOSYS;
    }
    if (domain->rouse_fd < 0) {
        domain->rouse_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    *signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    *wait_fd = epoll_create1(EPOLL_CLOEXEC);
    if (domain->rouse_fd < 0 || *signal_fd < 0 || *wait_fd < 0 ||
        epoll_ctl(*wait_fd, EPOLL_CTL_ADD, domain->rouse_fd, &event) != 0 ||
        epoll_ctl(*wait_fd, EPOLL_CTL_ADD, *signal_fd, &event) != 0 ||
        epoll_ctl(*wait_fd, EPOLL_CTL_ADD, nic_fd, &event) != 0) {
        GFI_WARN(FI_LOG_CQ, "no descriptors to sleep on: %s\n", strerror(errno));
        gfi_wait_close(*wait_fd, *signal_fd);
        *wait_fd = *signal_fd = -1;
        return -FI_EMFILE;
    }
    return 0;
}

void gfi_wait_close(int wait_fd, int signal_fd)
{
    if (wait_fd >= 0) {
        close(wait_fd);
    }
    if (signal_fd >= 0) {
        close(signal_fd);
    }
}

void gfi_wait_signal(int signal_fd)
{
    uint64_t one = 1;

    if (write(signal_fd, &one, sizeof(one)) < 0) {
        return; /* the descriptor is readable already */
    }
}

void gfi_wait_clear(int signal_fd)
{
    uint64_t count;

    if (read(signal_fd, &count, sizeof(count)) < 0) {
        return; /* no signal has arrived */
    }
}

void gfi_set_due(struct gfi_domain *domain)
{
    if (gfi_unlikely(domain->has_thread) && !domain->due) {
        gfi_wait_signal(domain->thread_signal_fd);
    }
    domain->due = true;
}

bool gfi_wait_sleep(int wait_fd, int64_t until)
{
    struct pollfd pollfd = {.fd = wait_fd, .events = POLLIN};
    int64_t left = until < 0 ? GFI_WATCH_SLEEP_MS : until - (int64_t)gfi_now_ms();

    if (left <= 0) {
        return false;
    }
    poll(&pollfd, 1, (int)gfi_min(left, (int64_t)GFI_WATCH_SLEEP_MS));
    return true;
}

bool gfi_wait_yield(int64_t until)
{
    if (until >= 0 && (int64_t)gfi_now_ms() >= until) {
        return false;
    }
    sched_yield();
    return true;
}

bool gfi_wait_is_offered(enum fi_wait_obj wait_obj)
{
    switch (wait_obj) {
    case FI_WAIT_NONE:
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD:
    case FI_WAIT_YIELD:
    case FI_WAIT_POLLFD:
        return true;
    default:
        GFI_INFO(FI_LOG_CQ, "wait sets and mutexes are not offered as wait objects\n");
        return false;
    }
}

/* One descriptor, which never changes. The program's array may be too short for it. */
static int gfi_wait_get_pollfd(struct fi_wait_pollfd *set, int wait_fd)
{
    int ret = set->nfds < 1 ? -FI_ETOOSMALL : 0;

    set->change_index = 1;
    set->nfds = 1;
    if (ret == 0) {
        set->fd[0] = (struct pollfd){.fd = wait_fd, .events = POLLIN};
    }
    return ret;
}

int gfi_wait_control(int command, void *arg, int wait_fd, enum fi_wait_obj wait_obj)
{
    switch (command) {
    case FI_GETWAIT:
        if (wait_obj == FI_WAIT_POLLFD) {
            return gfi_wait_get_pollfd(arg, wait_fd);
        }
        if (wait_obj != FI_WAIT_FD) {
            return -FI_ENODATA;
        }
        *(int *)arg = wait_fd;
        return 0;
    case FI_GETWAITOBJ:
        *(enum fi_wait_obj *)arg = wait_obj;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}
