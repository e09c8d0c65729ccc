/*
 * Sleeping: one file descriptor, an epoll set of all event sources (completions and the port).
 * Arming polls once more after requesting the event, because a completion between the last poll and
 * the request raises no event.
 */
#include "ud_mon_iface.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { UD_MON_EVENT_FDS = 2 }; /* completions, device */

ucs_status_t ud_mon_event_add(uct_ud_mon_iface_t *iface, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(iface->event_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        ucs_error("ib_ud_mon: epoll does not take descriptor %d: %m", fd);
        return UCS_ERR_IO_ERROR;
    }
    return UCS_OK;
}

ucs_status_t ud_mon_event_open(uct_ud_mon_iface_t *iface)
{
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);
    ucs_status_t status = UCS_ERR_IO_ERROR;

    iface->channel = ibv_create_comp_channel(md->context);
    if (iface->channel == NULL) {
        ucs_error("ib_ud_mon: no completion channel on %s: %m", md->name);
        return status;
    }
    iface->event_fd = epoll_create1(EPOLL_CLOEXEC);
    if (iface->event_fd < 0) {
        ucs_error("ib_ud_mon: no epoll descriptor: %m");
        goto err_channel;
    }
    if ((ucs_sys_fcntl_modfl(iface->channel->fd, O_NONBLOCK, 0) != UCS_OK) ||
        (ud_mon_event_add(iface, iface->channel->fd) != UCS_OK) ||
        (ud_mon_event_add(iface, md->context->async_fd) != UCS_OK)) {
        goto err_epoll;
    }
    return UCS_OK;

err_epoll:
    close(iface->event_fd);
err_channel:
    ibv_destroy_comp_channel(iface->channel);
    return status;
}

void ud_mon_event_close(uct_ud_mon_iface_t *iface)
{
    close(iface->event_fd);
    if (ibv_destroy_comp_channel(iface->channel) != 0) {
        ucs_warn("ib_ud_mon: cannot destroy the completion channel: %m");
    }
}

ucs_status_t uct_ud_mon_iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    *fd_p = ucs_derived_of(tl_iface, uct_ud_mon_iface_t)->event_fd;
    return UCS_OK;
}

/* Device events concern all interfaces of the device. The first reader notifies the other
 * interfaces. */
static void ud_mon_event_device(uct_ud_mon_iface_t *iface)
{
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);
    struct ibv_async_event event;

    while (ibv_get_async_event(md->context, &event) == 0) {
        ucs_diag("ib_ud_mon: %s: %s", md->name, ibv_event_type_str(event.event_type));
        if (event.event_type == IBV_EVENT_QP_FATAL) {
            ((uct_ud_mon_iface_t *)event.element.qp->qp_context)->failed = 1;
        }
        ibv_ack_async_event(&event);
    }
}

static void ud_mon_event_drain(uct_ud_mon_iface_t *iface)
{
    struct ibv_cq *cq;
    void *context;

    while (ibv_get_cq_event(iface->channel, &cq, &context) == 0) {
        *((cq == iface->rx.cq) ? &iface->rx.armed : &iface->tx.armed) = UD_MON_DISARMED;
        ibv_ack_cq_events(cq, 1);
    }
}

/* Reads only descriptors that are ready. Reading every descriptor would need a system call each. */
static void ud_mon_event_read(uct_ud_mon_iface_t *iface)
{
    struct epoll_event events[UD_MON_EVENT_FDS];
    int i, count = epoll_wait(iface->event_fd, events, UD_MON_EVENT_FDS, 0);

    for (i = 0; i < count; ++i) {
        if (events[i].data.fd == iface->channel->fd) {
            ud_mon_event_drain(iface);
        } else {
            ud_mon_event_device(iface);
        }
    }
}

/*
 * Requests an event. Sets *fresh_p if a new request was necessary; then completions may have
 * arrived before, and the caller must poll. A queue that is still armed for the same completions
 * has had none since.
 */
static ucs_status_t ud_mon_event_arm_cq(uct_ud_mon_iface_t *iface, struct ibv_cq *cq,
                                        ud_mon_armed_t wanted, ud_mon_armed_t *armed, int *fresh_p)
{
    int ret;

    *fresh_p = (*armed < wanted);
    if (!*fresh_p) {
        return UCS_OK;
    }
    ret = ibv_req_notify_cq(cq, wanted == UD_MON_ARMED_SOLICITED);
    if (ret != 0) {
        ucs_error("ib_ud_mon: %s: cannot ask for completion events: %s",
                  uct_ud_mon_iface_md(iface)->name, strerror(ret));
        return UCS_ERR_IO_ERROR;
    }
    *armed = wanted;
    return UCS_OK;
}

ucs_status_t uct_ud_mon_iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    uct_ud_mon_iface_t *iface = ucs_derived_of(tl_iface, uct_ud_mon_iface_t);
    ud_mon_rx_t *rx = &iface->rx;
    ud_mon_armed_t wanted;
    ucs_status_t status;
    int count, fresh;

    uct_ud_mon_tx_doorbell(iface);
    ud_mon_event_read(iface);
    if (iface->failed || (rx->stashed > 0)) {
        return UCS_ERR_BUSY;
    }
    if (events & UCT_EVENT_SEND_COMP) {
        status = ud_mon_event_arm_cq(iface, iface->tx.cq, UD_MON_ARMED, &iface->tx.armed, &fresh);
        if (status != UCS_OK) {
            return status;
        }
        if (fresh && (uct_ud_mon_tx_poll(iface) > 0)) {
            return UCS_ERR_BUSY;
        }
    }
    if (events & (UCT_EVENT_RECV | UCT_EVENT_RECV_SIG)) {
        wanted = (events & UCT_EVENT_RECV) ? UD_MON_ARMED : UD_MON_ARMED_SOLICITED;
        status = ud_mon_event_arm_cq(iface, rx->cq, wanted, &rx->armed, &fresh);
        if ((status != UCS_OK) || !fresh) {
            return status;
        }
        count = ibv_poll_cq(rx->cq, UD_MON_POLL_MAX, rx->stash);
        if (count < 0) {
            iface->failed = 1;
            return UCS_ERR_BUSY;
        }
        rx->stashed = count;
        if (count > 0) {
            return UCS_ERR_BUSY;
        }
    }
    return UCS_OK;
}
