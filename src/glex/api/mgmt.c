/*
 * Management of the network: requests and responses, between a program and the chips.
 *
 * The endpoint keeps two arrays of records: requests that wait for the doorbell, and responses of
 * the last message that the program has not taken. All other state is in the network.
 */
#include "api/mgmt.h"
#include "base/log.h"
#include "core/endpoint.h"
#include "common/nmp.h"
#include "common/nmp_link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

struct glex_mgmt {
    int fd;
    uint8_t vp;
    bool broken; /* the network is gone; logged once */
    uint32_t num_out, num_in, next_in;
    struct inm_link_record out[INM_LINK_BATCH], in[INM_LINK_BATCH];
};

bool glex_mgmt_offered(void)
{
    const char *path = getenv("GLEX_INM");

    return path != NULL && path[0] != '\0';
}

static glex_ret_t mgmt_connect(int *fd_p)
{
    const char *path = getenv("GLEX_INM");
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd;

    if (path == NULL || strlen(path) >= sizeof(sun.sun_path)) {
        glex_error("GLEX_INM is not the path of a socket: %s", path != NULL ? path : "unset");
        return GLEX_SYS_ERR;
    }
    memcpy(sun.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        glex_error("no socket: %s", strerror(errno));
        return GLEX_SYS_ERR;
    }
    if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0) {
        glex_error("no network answers at GLEX_INM=%s: %s; is inm-fabric running?", path,
                   strerror(errno));
        close(fd);
        return GLEX_SYS_ERR;
    }
    *fd_p = fd;
    return GLEX_SUCCESS;
}

/* Which NIC of the network this host has: GLEX_INM_NIC, else the one that the topology names. */
static uint32_t mgmt_wanted_nic(void)
{
    const char *text = getenv("GLEX_INM_NIC");

    return text != NULL && text[0] != '\0' ? (uint32_t)strtoul(text, NULL, 0) : INM_LINK_ANY_NIC;
}

static glex_ret_t mgmt_hello(struct glex_mgmt *mgmt)
{
    struct inm_link_hello hello = {
        .magic = INM_LINK_MAGIC, .version = INM_LINK_VERSION, .nic_id = mgmt_wanted_nic()};
    struct pollfd pfd = {.fd = mgmt->fd, .events = POLLIN};

    if (send(mgmt->fd, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello) ||
        poll(&pfd, 1, 5000) != 1 ||
        recv(mgmt->fd, &hello, sizeof(hello), 0) != (ssize_t)sizeof(hello) ||
        hello.magic != INM_LINK_MAGIC || hello.version != INM_LINK_VERSION || hello.vp > 255) {
        glex_error("GLEX_INM: what answers is not inm-fabric, or of another version");
        return GLEX_SYS_ERR;
    }
    if (hello.status != 0) {
        glex_error("GLEX_INM: the network refuses this host's NIC: %s",
                   strerror((int)hello.status));
        return GLEX_SYS_ERR;
    }
    mgmt->vp = (uint8_t)hello.vp;
    return GLEX_SUCCESS;
}

glex_ret_t glex_mgmt_init(struct glex_endpoint *ep)
{
    struct glex_mgmt *mgmt;
    glex_ret_t ret;

    if (ep->attr.type != GLEX_EP_TYPE_MANAGEMENT) {
        return GLEX_SUCCESS;
    }
    mgmt = calloc(1, sizeof(*mgmt));
    if (mgmt == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    ret = mgmt_connect(&mgmt->fd);
    if (ret != GLEX_SUCCESS) {
        goto err_free;
    }
    ret = mgmt_hello(mgmt);
    if (ret != GLEX_SUCCESS) {
        goto err_close;
    }
    ep->mgmt = mgmt;
    return GLEX_SUCCESS;

err_close:
    close(mgmt->fd);
err_free:
    free(mgmt);
    return ret;
}

void glex_mgmt_cleanup(struct glex_endpoint *ep)
{
    if (ep->mgmt != NULL) {
        close(ep->mgmt->fd);
        free(ep->mgmt);
        ep->mgmt = NULL;
    }
}

static struct glex_mgmt *mgmt_of(glex_ep_handle_t handle)
{
    return handle != NULL && !glex_endpoint(handle)->forked ? glex_endpoint(handle)->mgmt : NULL;
}

static glex_ret_t mgmt_lost(struct glex_mgmt *mgmt, const char *why)
{
    if (!mgmt->broken) {
        glex_error("the managed network is gone: %s", why);
    }
    mgmt->broken = true;
    return GLEX_SYS_ERR;
}

/* The doorbell. BUSY: the NIC does not take any more before answers are received. */
static glex_ret_t mgmt_flush(struct glex_mgmt *mgmt)
{
    size_t len = mgmt->num_out * sizeof(mgmt->out[0]);
    ssize_t sent;

    if (mgmt->num_out == 0) {
        return GLEX_SUCCESS;
    }
    do {
        sent = send(mgmt->fd, mgmt->out, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)len) {
        mgmt->num_out = 0;
        return GLEX_SUCCESS;
    }
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
        return GLEX_BUSY;
    }
    return mgmt_lost(mgmt, strerror(errno));
}

static bool mgmt_request_ok(const struct glex_mgmt_info *req)
{
    uint32_t max = req->type <= GLEX_MGMT_REG_WRITE_REQ ? GLEX_MGMT_MAX_REGS : GLEX_MGMT_MAX_BYTES;

    return nmp_is_request(req->type) && req->count >= 1 && req->count <= max &&
           req->forward.num <= GLEX_MGMT_MAX_HOPS && req->backward.num <= GLEX_MGMT_MAX_HOPS &&
           (req->chip == GLEX_MGMT_CHIP_NIC || req->chip == GLEX_MGMT_CHIP_NRC);
}

_Static_assert(sizeof(struct nmp_route) == sizeof(struct glex_mgmt_route), "the same route");

static void mgmt_encode(const struct glex_mgmt *mgmt, const struct glex_mgmt_info *req,
                        int32_t flag, struct inm_link_record *record)
{
    struct nmp_desc desc;

    nmp_init(&desc, req->type, req->chip, req->chip_id);
    desc.fence = (flag & GLEX_MGMT_FLAG_FENCE) != 0;
    desc.src_vp = mgmt->vp;
    desc.dest_vp = mgmt->vp;
    desc.transaction = req->transaction_id;
    memcpy(&desc.forward, &req->forward, sizeof(desc.forward));
    memcpy(&desc.backward, &req->backward, sizeof(desc.backward));
    desc.data.count = req->count;
    memcpy(desc.data.addr, req->addr, sizeof(desc.data.addr));
    memcpy(desc.data.reg, req->reg, sizeof(desc.data.reg));
    memcpy(desc.data.byte, req->byte, sizeof(desc.data.byte));
    record->time_ns = req->time_ns;
    nmp_encode(&desc, record->desc);
}

static void mgmt_decode(const struct inm_link_record *record, struct glex_mgmt_info *ack)
{
    struct nmp_desc desc;

    nmp_decode(record->desc, &desc);
    memset(ack, 0, sizeof(*ack));
    ack->type = desc.nmp_type;
    ack->chip = desc.dest_type;
    ack->transaction_id = desc.transaction;
    ack->chip_id = desc.dest_id;
    memcpy(&ack->forward, &desc.forward, sizeof(ack->forward));
    memcpy(&ack->backward, &desc.backward, sizeof(ack->backward));
    ack->count = desc.data.count;
    ack->status = desc.data.status;
    memcpy(ack->addr, desc.data.addr, sizeof(ack->addr));
    memcpy(ack->reg, desc.data.reg, sizeof(ack->reg));
    memcpy(ack->byte, desc.data.byte, sizeof(ack->byte));
    ack->report.event = desc.data.report.event;
    ack->report.port = desc.data.report.port;
    ack->report.chip = desc.data.report.src_type;
    ack->report.chip_id = desc.data.report.src_id;
    ack->report.seq = desc.data.report.seq;
    ack->report.value = desc.data.report.value;
    ack->time_ns = record->time_ns;
}

glex_ret_t glex_send_mgmt_req(glex_ep_handle_t handle, struct glex_mgmt_info *req, int32_t flag)
{
    struct glex_mgmt *mgmt = mgmt_of(handle);
    glex_ret_t ret;

    if (mgmt == NULL || req == NULL || !mgmt_request_ok(req)) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(glex_endpoint(handle));
    if (mgmt->num_out == INM_LINK_BATCH) {
        ret = mgmt_flush(mgmt);
        if (ret != GLEX_SUCCESS) {
            return ret;
        }
    }
    mgmt_encode(mgmt, req, flag, &mgmt->out[mgmt->num_out++]);
    if ((flag & GLEX_MGMT_FLAG_MORE) != 0 && mgmt->num_out < INM_LINK_BATCH) {
        return GLEX_SUCCESS;
    }
    ret = mgmt_flush(mgmt);
    /* The next call of either function sends the accepted request. */
    return ret == GLEX_BUSY ? GLEX_SUCCESS : ret;
}

/* Wait for a message, and take it, if no other thread has taken one meanwhile. */
static glex_ret_t mgmt_fill(struct glex_endpoint *ep, int32_t timeout)
{
    struct glex_mgmt *mgmt = ep->mgmt;
    struct pollfd pfd = {.fd = mgmt->fd, .events = POLLIN};
    ssize_t len = recv(mgmt->fd, mgmt->in, sizeof(mgmt->in), MSG_DONTWAIT);
    int ready, err;

    if (len < 0 && errno == EAGAIN && timeout != 0) {
        if (mgmt->num_out != 0) {
            pfd.events |= POLLOUT; /* the send queue was full */
        }
        glex_endpoint_unlock(ep);
        ready = poll(&pfd, 1, timeout);
        err = errno;
        glex_endpoint_lock(ep);
        if (mgmt->next_in != mgmt->num_in) {
            return GLEX_SUCCESS;
        }
        errno = err;
        if (ready < 0) {
            return errno == EINTR ? GLEX_INTR : mgmt_lost(mgmt, strerror(errno));
        }
        if (ready == 0) {
            return GLEX_NO_EVENT; /* the time is over */
        }
        len = recv(mgmt->fd, mgmt->in, sizeof(mgmt->in), MSG_DONTWAIT);
    }
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return GLEX_NO_MP;
    }
    if (len <= 0 || len % (ssize_t)sizeof(mgmt->in[0]) != 0) {
        return mgmt_lost(mgmt, len < 0 ? strerror(errno) : "closed");
    }
    mgmt->num_in = (uint32_t)len / sizeof(mgmt->in[0]);
    mgmt->next_in = 0;
    return GLEX_SUCCESS;
}

glex_ret_t glex_receive_mgmt_ack(glex_ep_handle_t handle, int32_t timeout,
                                 struct glex_mgmt_info *ack)
{
    struct glex_mgmt *mgmt = mgmt_of(handle);
    glex_ret_t ret;

    if (mgmt == NULL || ack == NULL || timeout < -1) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(glex_endpoint(handle));
    while (mgmt->next_in == mgmt->num_in) {
        ret = mgmt_flush(mgmt);
        if (ret != GLEX_SUCCESS && ret != GLEX_BUSY) {
            return ret;
        }
        ret = mgmt_fill(glex_endpoint(handle), timeout);
        /* POLLOUT, not a message, ended the wait: send the rest, and wait on. */
        if (ret == GLEX_NO_MP && mgmt->num_out != 0 && timeout != 0) {
            continue;
        }
        if (ret != GLEX_SUCCESS) {
            return ret == GLEX_NO_EVENT ? GLEX_NO_MP : ret;
        }
    }
    mgmt_decode(&mgmt->in[mgmt->next_in++], ack);
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_mgmt_fd(glex_ep_handle_t handle, int *fd, uint8_t *vp)
{
    struct glex_mgmt *mgmt = mgmt_of(handle);

    if (mgmt == NULL || fd == NULL || vp == NULL) {
        return GLEX_INVALID_PARAM;
    }
    *fd = mgmt->fd;
    *vp = mgmt->vp;
    return GLEX_SUCCESS;
}
