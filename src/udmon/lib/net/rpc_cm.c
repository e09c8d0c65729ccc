/*
 * Requests over RDMA CM, port space UDP: the private data of a connection request and of its answer
 * (on the wire, a service id resolution). The queue pair number that the protocol
 * carries besides is not used: addresses are in the messages.
 */
#include "openglex.h"
#include "rpc.h"
#include "address.h"
#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_VERBS

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

enum { CM_GID_MAX = 256, CM_UNUSED_QPN = 1 };

static int cm_channel_open(struct udmon_loop *loop, struct udmon_source *source,
                           struct rdma_event_channel **channel_p)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    int ret;

    if (channel == NULL) {
        return -ENODEV; /* no RDMA on this host */
    }
    source->fd = channel->fd;
    if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) < 0) {
        ret = -errno;
    } else {
        ret = udmon_loop_add(loop, source, EPOLLIN);
    }
    if (ret < 0) {
        rdma_destroy_event_channel(channel);
        return ret;
    }
    *channel_p = channel;
    return 0;
}

/* The entry of the port's table that holds the local address: it names the network interface. */
static int cm_gid_index(struct rdma_cm_id *id, const struct sockaddr *local)
{
    struct ibv_gid_entry *table = calloc(CM_GID_MAX, sizeof(*table));
    int best = -1;
    uint8_t gid[16] = {0};
    ssize_t i, count;

    if (table == NULL) {
        return -1;
    }
    if (local->sa_family == AF_INET) {
        gid[10] = gid[11] = 0xff;
        memcpy(gid + 12, &((const struct sockaddr_in *)local)->sin_addr, 4);
    } else {
        memcpy(gid, &((const struct sockaddr_in6 *)local)->sin6_addr, 16);
    }
    count = ibv_query_gid_table(id->verbs, table, CM_GID_MAX, 0);
    for (i = 0; i < count; ++i) {
        if ((table[i].port_num == id->port_num) && !memcmp(table[i].gid.raw, gid, sizeof(gid)) &&
            (table[i].gid_type == IBV_GID_TYPE_ROCE_V2)) {
            best = table[i].gid_index;
        }
    }
    free(table);
    return best; /* -1 on InfiniBand, whose addresses are not made of IP addresses */
}

static void cm_place(struct rdma_cm_id *id, struct udmon_rpc_place *place)
{
    const struct sockaddr *local = rdma_get_local_addr(id), *remote = rdma_get_peer_addr(id);

    memset(place, 0, sizeof(*place));
    memcpy(&place->local, local, udmon_sockaddr_length(local));
    memcpy(&place->remote, remote, udmon_sockaddr_length(remote));
    place->gid_index = -1;
    if (id->verbs != NULL) {
        snprintf(place->device, sizeof(place->device), "%s:%u",
                 ibv_get_device_name(id->verbs->device), (unsigned)id->port_num);
        place->gid_index = cm_gid_index(id, local);
    }
}

struct udmon_rpc_listener {
    struct udmon_loop *loop;
    struct udmon_source source;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    udmon_rpc_serve_fn serve;
    void *arg;
};

static void cm_answer(struct udmon_rpc_listener *listener, struct rdma_cm_event *event)
{
    uint8_t response[UDMON_CM_RESPONSE_MAX];
    struct rdma_conn_param param = {.private_data = response, .qp_num = CM_UNUSED_QPN};
    struct udmon_rpc_place place;
    size_t length = 0;

    if ((event->param.ud.private_data != NULL) && (event->id->verbs != NULL)) {
        cm_place(event->id, &place);
        length = listener->serve(listener->arg, &place, event->param.ud.private_data,
                                 event->param.ud.private_data_len, response, sizeof(response));
    }
    param.private_data_len = length;
    if ((length == 0) ? rdma_reject(event->id, NULL, 0) : rdma_accept(event->id, &param)) {
        udmon_warn("cannot answer a request over RDMA CM: %s", strerror(errno));
    }
}

static void cm_listener_ready(struct udmon_source *source, uint32_t events)
{
    struct udmon_rpc_listener *listener = source->arg;
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;

    (void)events;
    while (rdma_get_cm_event(listener->channel, &event) == 0) {
        id = event->id;
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            cm_answer(listener, event);
            rdma_ack_cm_event(event);
            rdma_destroy_id(id); /* datagrams have no connection to keep */
        } else {
            if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
                udmon_warn("an RDMA device was removed");
            }
            rdma_ack_cm_event(event);
        }
    }
}

static int cm_listen_id(struct udmon_rpc_listener *listener, const struct sockaddr *addr)
{
    char text[80];
    int ret;

    if (rdma_create_id(listener->channel, &listener->id, NULL, RDMA_PS_UDP) < 0) {
        return -ENODEV;
    }
    if ((rdma_bind_addr(listener->id, (struct sockaddr *)addr) < 0) ||
        (rdma_listen(listener->id, 256) < 0)) {
        ret = -errno;
        /* An address without RDMA behind it is no error of a server that has others too. */
        udmon_info("cannot listen on RDMA CM %s: %s", udmon_sockaddr_text(addr, text, sizeof(text)),
                   strerror(errno));
        rdma_destroy_id(listener->id);
        return (ret == -EADDRINUSE) ? ret : -ENODEV;
    }
    return 0;
}

static int cm_listen(struct udmon_loop *loop, struct udmon_tls *tls, const struct sockaddr *addr,
                     udmon_rpc_serve_fn serve, void *arg, struct udmon_rpc_listener **listener_p)
{
    struct udmon_rpc_listener *listener;
    int ret;

    (void)tls;

    listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return -ENOMEM;
    }
    listener->loop = loop;
    listener->serve = serve;
    listener->arg = arg;
    listener->source.ready = cm_listener_ready;
    listener->source.arg = listener;
    ret = cm_channel_open(loop, &listener->source, &listener->channel);
    if (ret < 0) {
        goto err_free;
    }
    ret = cm_listen_id(listener, addr);
    if (ret < 0) {
        goto err_channel;
    }
    *listener_p = listener;
    return 0;

err_channel:
    udmon_loop_delete(loop, &listener->source);
    rdma_destroy_event_channel(listener->channel);
err_free:
    free(listener);
    return ret;
}

static int cm_port(const struct udmon_rpc_listener *listener)
{
    return ntohs(rdma_get_src_port(listener->id));
}

static void cm_close(struct udmon_rpc_listener *listener)
{
    udmon_loop_delete(listener->loop, &listener->source);
    rdma_destroy_id(listener->id);
    rdma_destroy_event_channel(listener->channel);
    free(listener);
}

struct udmon_cm_request {
    struct udmon_loop *loop;
    struct udmon_source source;
    struct udmon_timer timeout;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    udmon_rpc_done_fn done;
    void *arg;
    unsigned timeout_ms;
    uint8_t request[UDMON_CM_REQUEST_MAX];
    size_t length;
};

void udmon_cm_cancel(struct udmon_cm_request *call)
{
    udmon_timer_cancel(&call->timeout);
    udmon_loop_delete(call->loop, &call->source);
    rdma_destroy_id(call->id);
    rdma_destroy_event_channel(call->channel);
    free(call);
}

static void cm_finish(struct udmon_cm_request *call, const void *bytes, long length)
{
    uint8_t response[UDMON_RPC_MAX];
    udmon_rpc_done_fn done = call->done;
    void *arg = call->arg;
    struct udmon_rpc_place place;

    cm_place(call->id, &place);
    if (length > (long)sizeof(response)) {
        length = sizeof(response);
    }
    if (length > 0) {
        memcpy(response, bytes, length);
    }
    udmon_cm_cancel(call);
    done(arg, &place, response, length);
}

static void cm_timeout(struct udmon_timer *timer)
{
    cm_finish(timer->arg, NULL, -ETIMEDOUT);
}

/* Address found, then route, then the request itself. Returns a negative errno if it ends here. */
static int cm_step(struct udmon_cm_request *call, enum rdma_cm_event_type event, int status)
{
    struct rdma_conn_param param = {
        .private_data = call->request,
        .private_data_len = call->length,
        .qp_num = CM_UNUSED_QPN,
    };

    switch (event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return (rdma_resolve_route(call->id, call->timeout_ms) < 0) ? -errno : 0;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return (rdma_connect(call->id, &param) < 0) ? -errno : 0;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return -EHOSTUNREACH;
    case RDMA_CM_EVENT_UNREACHABLE:
        /* no process listens there (a status of the protocol), or no host answers (an errno) */
        return (status < 0) ? status : -ECONNREFUSED;
    case RDMA_CM_EVENT_REJECTED:
        return -ECONNREFUSED;
    default:
        return 0;
    }
}

static void cm_call_ready(struct udmon_source *source, uint32_t events)
{
    struct udmon_cm_request *call = source->arg;
    struct rdma_cm_event *event;
    uint8_t bytes[UDMON_RPC_MAX];
    size_t length;
    int ret;

    (void)events;
    if (rdma_get_cm_event(call->channel, &event) < 0) {
        return;
    }
    if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
        length = event->param.ud.private_data_len;
        length = (length < sizeof(bytes)) ? length : sizeof(bytes);
        memcpy(bytes, event->param.ud.private_data, length);
        rdma_ack_cm_event(event);
        cm_finish(call, bytes, length);
        return;
    }
    ret = cm_step(call, event->event, event->status);
    rdma_ack_cm_event(event);
    if (ret < 0) {
        cm_finish(call, NULL, ret);
    }
}

int udmon_cm_call(struct udmon_loop *loop, const struct sockaddr *source,
                  const struct sockaddr *addr, const void *request, size_t length,
                  unsigned timeout_ms, udmon_rpc_done_fn done, void *arg,
                  struct udmon_cm_request **call_p)
{
    struct udmon_cm_request *call;
    int ret;

    if (length > UDMON_CM_REQUEST_MAX) {
        return -EMSGSIZE;
    }
    call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return -ENOMEM;
    }
    call->loop = loop;
    call->done = done;
    call->arg = arg;
    call->timeout_ms = timeout_ms;
    call->length = length;
    memcpy(call->request, request, length);
    call->timeout.fire = cm_timeout;
    call->timeout.arg = call;
    call->source.ready = cm_call_ready;
    call->source.arg = call;
    ret = cm_channel_open(loop, &call->source, &call->channel);
    if (ret < 0) {
        goto err_free;
    }
    if (rdma_create_id(call->channel, &call->id, NULL, RDMA_PS_UDP) < 0) {
        ret = -ENODEV;
        goto err_channel;
    }
    if (rdma_resolve_addr(call->id, (struct sockaddr *)source, (struct sockaddr *)addr,
                          timeout_ms) < 0) {
        ret = -errno;
        goto err_id;
    }
    udmon_timer_set(loop, &call->timeout, timeout_ms);
    *call_p = call;
    return 0;

err_id:
    rdma_destroy_id(call->id);
err_channel:
    udmon_loop_delete(loop, &call->source);
    rdma_destroy_event_channel(call->channel);
err_free:
    free(call);
    return ret;
}

const struct udmon_rpc_ops udmon_rpc_cm = {
    .listen = cm_listen,
    .port = cm_port,
    .close = cm_close,
};

#else /* no librdmacm: this host has no RDMA */

const struct udmon_rpc_ops udmon_rpc_cm = {.listen = NULL};

int udmon_cm_call(struct udmon_loop *loop, const struct sockaddr *source,
                  const struct sockaddr *addr, const void *request, size_t length,
                  unsigned timeout_ms, udmon_rpc_done_fn done, void *arg,
                  struct udmon_cm_request **call_p)
{
    (void)loop;
    (void)source;
    (void)addr;
    (void)request;
    (void)length;
    (void)timeout_ms;
    (void)done;
    (void)arg;
    (void)call_p;
    return -ENODEV;
}

void udmon_cm_cancel(struct udmon_cm_request *call)
{
    (void)call;
}

#endif
