#include "net.h"
#include "../base/log.h"
#include "../base/wire.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NET_RETRY_MS = 1, NET_DRAIN_MS = 50 };

/*
 * Under load, a wake-up for each datagram costs more than the datagram. Load is more than one
 * datagram in NET_BUSY_NS, measured over NET_WINDOW_NS. Under load the receiver uses one of two
 * modes:
 *
 * - Batches. If the transport reports the end of a sender's batch (UCT_EVENT_RECV_SIG of ud_mon),
 *   this event wakes the receiver. After NET_SIGNAL_NS the receiver polls anyway, because the last
 *   datagram of the batch may be lost.
 * - Pauses, for other transports and for very small batches. The receiver polls when
 *   NET_PAUSE_COUNT datagrams may have come at the measured rate, but after NET_PAUSE_NS at the
 *   latest. In this time fewer datagrams arrive than the 1024 receives that ud_mon keeps posted,
 *   even if the rate jumps to 12.5 Gbit/s of 2 KB each. After NET_PAUSES pauses, the receiver tries
 *   batches again.
 */
#define NET_BUSY_NS     UINT64_C(250000)
#define NET_WINDOW_NS   UINT64_C(1000000)
#define NET_PAUSE_NS    UINT64_C(1000000)
#define NET_PAUSE_COUNT 256
#define NET_PAUSES      100
#define NET_SIGNAL_NS   UINT64_C(50000000)

/*
 * UCX 1.13 finds only its own transports. A transport of openglex registers itself when it is
 * loaded. This function loads the transport from UDMON_PLUGIN_PATH or from the installed directory.
 */
static void net_load_transport(const char *name)
{
    const char *dirs = getenv("UDMON_PLUGIN_PATH"), *end;
    char path[4096];

    dirs = (dirs != NULL) ? dirs : UDMON_PLUGIN_DIR;
    do {
        end = strchrnul(dirs, ':');
        snprintf(path, sizeof(path), "%.*s/%s", (int)(end - dirs), dirs, name);
        if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL) {
            return;
        }
        udmon_debug("transport not loaded: %s", dlerror());
        dirs = end + 1;
    } while (*end != '\0');
}

static void net_load_transports(void)
{
    static int done;

    if (!done) {
        done = 1;
        net_load_transport("libuct_glex.so");
        net_load_transport("libuct_ib_ud_mon.so");
    }
}

int udmon_net_open(struct udmon_net *net, struct udmon_loop *loop, struct udmon_tls *tls,
                   udmon_net_receive_fn receive, udmon_net_broken_fn broken, void *arg)
{
    ucs_status_t status;

    net_load_transports();
    memset(net, 0, sizeof(*net));
    net->loop = loop;
    net->tls = tls;
    net->receive = receive;
    net->broken = broken;
    net->arg = arg;
    LIST_INIT(&net->ports);
    LIST_INIT(&net->paths);
    /* Polled, since a thread of UCX would run in the midst of our calls. */
    status = ucs_async_context_create(UCS_ASYNC_MODE_POLL, &net->async);
    if (status != UCS_OK) {
        udmon_error("UCX gives no async context: %s", ucs_status_string(status));
        return udmon_net_errno(status);
    }
    status = uct_worker_create(net->async, UCS_THREAD_MODE_SINGLE, &net->worker);
    if (status != UCS_OK) {
        udmon_error("UCX gives no worker: %s", ucs_status_string(status));
        ucs_async_context_destroy(net->async);
        return udmon_net_errno(status);
    }
    return 0;
}

void udmon_net_close(struct udmon_net *net)
{
    while (!LIST_EMPTY(&net->paths)) {
        udmon_path_close(LIST_FIRST(&net->paths));
    }
    while (!LIST_EMPTY(&net->ports)) {
        udmon_port_close(LIST_FIRST(&net->ports));
    }
    udmon_timer_cancel(&net->retry);
    uct_worker_destroy(net->worker);
    ucs_async_context_destroy(net->async);
}

int udmon_path_open(struct udmon_port *port, const void *bytes, size_t length,
                    struct udmon_path **path_p)
{
    const struct udmon_address *address = bytes;
    uct_ep_params_t params = {
        .field_mask =
            UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR,
        .iface = port->iface,
    };
    struct udmon_path *path;
    ucs_status_t status;

    /* The transport reads as much as its own addresses are long. */
    if ((length < sizeof(*address)) || (address->device_length != port->attr.device_addr_len) ||
        (address->iface_length != port->attr.iface_addr_len) ||
        (length != (sizeof(*address) + address->device_length + address->iface_length))) {
        return -EINVAL;
    }
    params.dev_addr = (const uct_device_addr_t *)address->bytes;
    params.iface_addr = (const uct_iface_addr_t *)(address->bytes + address->device_length);
    if (!uct_iface_is_reachable(port->iface, params.dev_addr, params.iface_addr)) {
        return -ENETUNREACH;
    }
    path = calloc(1, sizeof(*path));
    if (path == NULL) {
        return -ENOMEM;
    }
    path->net = port->net;
    path->port = port;
    status = uct_ep_create(&params, &path->ep);
    if (status != UCS_OK) {
        udmon_debug("%s/%s: no endpoint: UCX: %s", port->transport, port->device,
                    ucs_status_string(status));
        free(path);
        return udmon_net_errno(status);
    }
    LIST_INSERT_HEAD(&port->net->paths, path, list);
    *path_p = path;
    return 0;
}

static void path_link_received(void *arg, const void *data, size_t length)
{
    struct udmon_net *net = ((struct udmon_path *)arg)->net;

    net->receive(net->arg, data, length);
}

static void path_link_failed(void *arg, int error)
{
    struct udmon_path *path = arg;

    udmon_debug("a TLS connection is over: %s", strerror(-error));
    path->failed = 1;
    path->net->broken(path->net->arg, path);
}

static const struct udmon_link_ops path_link_ops = {
    .received = path_link_received,
    .failed = path_link_failed,
};

int udmon_path_of_link(struct udmon_net *net, struct udmon_link *link, struct udmon_path **path_p)
{
    struct udmon_path *path = calloc(1, sizeof(*path));

    if (path == NULL) {
        return -ENOMEM;
    }
    path->net = net;
    path->link = link;
    udmon_link_give(link, &path_link_ops, path);
    LIST_INSERT_HEAD(&net->paths, path, list);
    *path_p = path;
    return 0;
}

void udmon_path_close(struct udmon_path *path)
{
    LIST_REMOVE(path, list);
    if (path->link != NULL) {
        udmon_link_close(path->link);
    } else {
        uct_ep_destroy(path->ep);
    }
    free(path);
}

size_t udmon_path_mtu(const struct udmon_path *path)
{
    return (path->link != NULL) ? LINK_MESSAGE_MAX : path->port->attr.cap.am.max_bcopy;
}

struct net_pack {
    udmon_pack_fn pack;
    size_t size;
    void *arg;
};

static size_t net_pack(void *buffer, void *arg)
{
    struct net_pack *pack = arg;

    return pack->pack(buffer, pack->size, pack->arg);
}

int udmon_path_send(struct udmon_path *path, size_t size, udmon_pack_fn pack, void *arg)
{
    struct net_pack packing = {.pack = pack, .size = size, .arg = arg};
    ssize_t ret;

    if (path->failed) {
        return -EIO;
    }
    if (path->link != NULL) {
        return udmon_link_send(path->link, size, pack, arg);
    }
    ret = uct_ep_am_bcopy(path->ep, UDMON_AM_ID, net_pack, &packing, 0);
    if (ret >= 0) {
        return 0;
    }
    if (ret == UCS_ERR_NO_RESOURCE) {
        path->port->net->blocked = 1;
        return -EAGAIN;
    }
    udmon_debug("%s: sending failed: UCX: %s", path->port->transport,
                ucs_status_string((ucs_status_t)ret));
    path->failed = 1;
    return -EIO;
}

unsigned udmon_net_progress(struct udmon_net *net)
{
    udmon_links_send(net->tls, 0);
    return uct_worker_progress(net->worker);
}

void udmon_net_drain(struct udmon_net *net)
{
    struct timespec pause = {.tv_nsec = 1000000};
    struct udmon_port *port;
    int i, busy = 1;

    for (i = 0; (i < NET_DRAIN_MS) && busy; ++i) {
        busy = (udmon_links_send(net->tls, 1) > 0);
        while (udmon_net_progress(net) > 0) {
        }
        LIST_FOREACH(port, &net->ports, list) {
            busy |= (uct_iface_flush(port->iface, 0, NULL) != UCS_OK);
        }
        if (busy) {
            nanosleep(&pause, NULL);
        }
    }
}

/* Whether the port can wake us when there is room to send. */
static bool port_tells_room(const struct udmon_port *port)
{
    return (port->source.fd >= 0) && (port->attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_SEND_COMP);
}

/* A port armed before would wake us with its next datagram. */
static void port_deafen(struct udmon_port *port, int deaf)
{
    if ((port->source.fd >= 0) && (port->deaf != deaf) &&
        (udmon_loop_modify(port->net->loop, &port->source, deaf ? 0 : EPOLLIN) == 0)) {
        port->deaf = deaf;
    }
}

static bool port_tells_batches(const struct udmon_port *port)
{
    return (port->source.fd >= 0) && (port->attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_RECV_SIG);
}

static bool port_arm(struct udmon_port *port, unsigned events)
{
    port_deafen(port, 0);
    if (port->net->blocked && port_tells_room(port)) {
        events |= UCT_EVENT_SEND_COMP;
    }
    return (port->source.fd >= 0) && (uct_iface_event_arm(port->iface, events) == UCS_ERR_BUSY);
}

/* Whether datagrams arrive so fast that the receiver should wait for a group of them. */
static bool net_is_busy(struct udmon_net *net)
{
    uint64_t elapsed = net->loop->now_ns - net->window_ns, pause;
    uint64_t count = net->received - net->window_received;
    int news = (net->received != net->seen_received);

    if (elapsed >= NET_WINDOW_NS) {
        net->busy = (count * NET_BUSY_NS) > elapsed;
        pause = (count > 0) ? ((elapsed * NET_PAUSE_COUNT) / count) : NET_PAUSE_NS;
        net->pause_ns = (pause < NET_PAUSE_NS) ? pause : NET_PAUSE_NS;
        net->window_received = net->received;
        net->window_ns = net->loop->now_ns;
    }
    net->seen_received = net->received;
    return net->busy && news && !net->blocked;
}

/* Whether the end of a batch can wake us, and does not do so too often. */
static int net_by_batches(struct udmon_net *net)
{
    struct udmon_port *port;

    uint64_t slept_ns = net->loop->now_ns - net->armed_ns; /* 0: asked a moment ago, not slept */

    if (net->by_batches && (slept_ns > 0) && (slept_ns < net->pause_ns)) {
        net->pauses = NET_PAUSES;
    }
    net->by_batches = (net->pauses == 0);
    net->pauses -= (net->pauses > 0);
    LIST_FOREACH(port, &net->ports, list) {
        net->by_batches &= port_tells_batches(port);
    }
    return net->by_batches;
}

/* To be woken by batches or after a pause. */
static int net_arm_busy(struct udmon_net *net)
{
    uint64_t pause_ns = net->pause_ns;
    struct udmon_port *port;
    int busy = 0;

    if (net_by_batches(net)) {
        pause_ns = NET_SIGNAL_NS;
        LIST_FOREACH(port, &net->ports, list) {
            busy |= port_arm(port, UCT_EVENT_RECV_SIG);
        }
    } else {
        LIST_FOREACH(port, &net->ports, list) {
            port_deafen(port, 1);
        }
    }
    net->armed_ns = net->loop->now_ns;
    udmon_timer_set_at(net->loop, &net->retry, net->armed_ns + pause_ns);
    return busy;
}

int udmon_net_arm(struct udmon_net *net)
{
    int poll = 0, busy = 0;
    struct udmon_port *port;

    udmon_links_send(net->tls, 0);
    if (net_is_busy(net)) {
        return net_arm_busy(net);
    }
    net->by_batches = 0;
    LIST_FOREACH(port, &net->ports, list) {
        busy |= port_arm(port, UCT_EVENT_RECV);
        poll |= (port->source.fd < 0) || (net->blocked && !port_tells_room(port));
    }
    if (poll) {
        udmon_timer_set(net->loop, &net->retry, NET_RETRY_MS);
    }
    return busy;
}
