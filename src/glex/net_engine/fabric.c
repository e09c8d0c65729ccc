/*
 * Frames over libfabric: connected endpoints (FI_EP_MSG) with one shared receive context, one
 * completion queue and one event queue for all of them. libfabric connects after
 * control.c has checked the proof of the key. The request to connect has a token that only the two
 * processes know.
 */
#include "net_engine/engine.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#define FABRIC_VERSION FI_VERSION(1, 14)
#define FABRIC_BATCH   16
/* Limit for the frames of one turn, because a polling program also has other work. */
#define FABRIC_TURN 64u

/* ---- what libfabric has ---------------------------------------------------------------------- */

static struct fi_info *fabric_info(const char *provider, uint32_t ip, int *err)
{
    struct in_addr addr = {.s_addr = htonl(ip)};
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    char node[INET_ADDRSTRLEN];

    *err = FI_ENOMEM;
    if (hints == NULL) {
        return NULL;
    }
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_MSG;
    hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->mode = FI_CONTEXT;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->fabric_attr->prov_name = strdup(provider);
    if (hints->fabric_attr->prov_name != NULL) {
        inet_ntop(AF_INET, &addr, node, sizeof(node));
        *err = -fi_getinfo(FABRIC_VERSION, node, NULL, FI_SOURCE, hints, &info);
    }
    fi_freeinfo(hints);
    return *err == 0 ? info : NULL;
}

bool engine_fabric_probe(const char *provider, uint32_t ip, char *why, size_t why_size)
{
    int err;
    struct fi_info *info = fabric_info(provider, ip, &err);
    bool verbs = strcmp(provider, "verbs") == 0;

    if (info == NULL) {
        snprintf(why, why_size,
                 "libfabric's provider %s does not serve the interface: %s; "
                 "%s`fi_info -p %s -t FI_EP_MSG` shows what it serves",
                 provider, fi_strerror(err),
                 verbs ? "is it one of an RDMA device (`rdma link` lists them)? " : "", provider);
        return false;
    }
    fi_freeinfo(info);
    return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool fabric_failed(const struct glex_net_engine *engine, const char *what, int ret)
{
    engine_log(engine, true, "libfabric's provider %s cannot %s: %s", engine->params.provider, what,
               fi_strerror(-ret));
    return false;
}

static bool fabric_open_queues(struct glex_net_engine *engine)
{
    struct fi_cq_attr cq_attr = {.size = 4096, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    struct fi_eq_attr eq_attr = {.size = 1024, .wait_obj = FI_WAIT_FD};
    int ret = fi_fabric(engine->info->fabric_attr, &engine->fabric, NULL);

    if (ret != 0) {
        return fabric_failed(engine, "be opened", ret);
    }
    ret = fi_eq_open(engine->fabric, &eq_attr, &engine->eq, NULL);
    if (ret != 0) {
        return fabric_failed(engine, "make an event queue", ret);
    }
    ret = fi_domain(engine->fabric, engine->info, &engine->domain, NULL);
    if (ret != 0) {
        return fabric_failed(engine, "open the interface", ret);
    }
    ret = fi_cq_open(engine->domain, &cq_attr, &engine->cq, NULL);
    if (ret != 0) {
        return fabric_failed(engine, "make a completion queue", ret);
    }
    ret = fi_srx_context(engine->domain, engine->info->rx_attr, &engine->srx, NULL);
    return ret == 0 || fabric_failed(engine, "share receive buffers", ret);
}

/* Makes libfabric listen at a port of its choice. Only peers with proof of the key get this
 * address. */
static bool fabric_listen(struct glex_net_engine *engine)
{
    int ret = fi_passive_ep(engine->fabric, engine->info, &engine->pep, NULL);

    if (ret == 0) {
        ret = fi_pep_bind(engine->pep, &engine->eq->fid, 0);
    }
    if (ret == 0) {
        ret = fi_listen(engine->pep);
    }
    if (ret == 0) {
        engine->address_len = sizeof(engine->address);
        ret = fi_getname(&engine->pep->fid, engine->address, &engine->address_len);
    }
    return ret == 0 || fabric_failed(engine, "listen", ret);
}

/* Whether the provider takes buffers only from memory that was registered with it. */
static bool fabric_registers(const struct glex_net_engine *engine)
{
    return (engine->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
}

/* Reports a failed registration. Registered memory is locked, and by default users may lock little
 * memory. */
static bool fabric_register_failed(const struct glex_net_engine *engine, size_t len, int ret)
{
    struct rlimit limit;

    if (ret != -FI_ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY) {
        return fabric_failed(engine, "register buffers", ret);
    }
    engine_log(engine, true,
               "libfabric's provider %s cannot register %zu KiB of buffers: %s; the "
               "limit of locked memory is %llu KiB for the process (ulimit -l), raise it in "
               "/etc/security/limits.conf",
               engine->params.provider, len >> 10, fi_strerror(-ret),
               (unsigned long long)limit.rlim_cur >> 10);
    return false;
}

static bool fabric_register(struct glex_net_engine *engine, void *memory, size_t len, uint64_t key,
                            struct fid_mr **mr)
{
    int ret;

    *mr = NULL;
    if (!fabric_registers(engine)) {
        return true;
    }
    ret = fi_mr_reg(engine->domain, memory, len, FI_SEND | FI_RECV, 0, key, 0, mr, NULL);
    return ret == 0 || fabric_register_failed(engine, len, ret);
}

static void fabric_init_buffer(struct engine_buffer *buffer, char *data, struct fid_mr *mr)
{
    buffer->base.data = data;
    buffer->desc = mr != NULL ? fi_mr_desc(mr) : NULL;
}

/* Allocates another slab of send buffers. */
static bool fabric_grow_tx(struct glex_net_engine *engine)
{
    size_t len = (size_t)GLEX_NET_FRAME_MAX * ENGINE_TX_SLAB;
    struct fid_mr **mr = &engine->tx_mrs[engine->num_slabs];
    struct engine_buffer *slab;
    char *memory;
    unsigned i;

    if (engine->num_slabs == engine->max_slabs) {
        return false; /* buffers in flight come back */
    }
    slab = malloc(sizeof(*slab) * ENGINE_TX_SLAB + len);
    if (slab == NULL) {
        return false;
    }
    memset(slab, 0, sizeof(*slab) * ENGINE_TX_SLAB);
    memory = (char *)(slab + ENGINE_TX_SLAB);
    if (!fabric_register(engine, memory, len, 2 + engine->num_slabs, mr)) {
        free(slab);
        engine->max_slabs = engine->num_slabs; /* the failure was logged; no further slab is
                                                * tried */
        return false;
    }
    for (i = 0; i < ENGINE_TX_SLAB; i++, memory += GLEX_NET_FRAME_MAX) {
        fabric_init_buffer(&slab[i], memory, *mr);
        LIST_INSERT_HEAD(&engine->tx_free, &slab[i], entry);
    }
    engine->tx_slabs[engine->num_slabs++] = slab;
    return true;
}

/* Posts a receive buffer. fabric_post_lost() later repeats a failed post. */
static bool fabric_post(struct glex_net_engine *engine, struct engine_buffer *rx)
{
    ssize_t ret = fi_recv(engine->srx, rx->base.data, GLEX_NET_FRAME_MAX, rx->desc, FI_ADDR_UNSPEC,
                          &rx->context);

    if (ret != 0) {
        LIST_INSERT_HEAD(&engine->rx_lost, rx, entry);
    }
    return ret == 0 || ret == -FI_EAGAIN ||
           fabric_failed(engine, "take a receive buffer", (int)ret);
}

static void fabric_post_lost(struct glex_net_engine *engine)
{
    struct engine_buffer *rx;

    while ((rx = LIST_FIRST(&engine->rx_lost)) != NULL) {
        LIST_REMOVE(rx, entry);
        (void)fabric_post(engine, rx);
        if (LIST_FIRST(&engine->rx_lost) == rx) {
            return; /* libfabric takes no buffer now */
        }
    }
}

static bool fabric_post_all(struct glex_net_engine *engine)
{
    size_t len = (size_t)ENGINE_RX_BUFFERS * GLEX_NET_FRAME_MAX;
    uint32_t i;

    engine->rx_memory = aligned_alloc(4096, len);
    if (engine->rx_memory == NULL) {
        engine_log(engine, true, "no memory for receive buffers");
        return false;
    }
    if (!fabric_register(engine, engine->rx_memory, len, 1, &engine->rx_mr)) {
        return false;
    }
    for (i = 0; i < ENGINE_RX_BUFFERS; i++) {
        engine->rx[i].is_rx = true;
        fabric_init_buffer(&engine->rx[i], engine->rx_memory + (size_t)i * GLEX_NET_FRAME_MAX,
                           engine->rx_mr);
        if (!fabric_post(engine, &engine->rx[i])) {
            return false;
        }
    }
    return true;
}

/* Adds the descriptor of a queue of libfabric to wait_fd (EPOLL_CTL_ADD), or removes it (DEL). */
static bool fabric_watch(struct glex_net_engine *engine, struct fid *fid, int op)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd, ret = fi_control(fid, FI_GETWAIT, &fd);

    if (ret == 0 && epoll_ctl(engine->wait_fd, op, fd, &event) != 0) {
        ret = -FI_ENOMEM;
    }
    return ret == 0 || fabric_failed(engine, "be slept on", ret);
}

bool engine_fabric_open(struct glex_net_engine *engine)
{
    int err;

    engine->info = fabric_info(engine->params.provider, engine->params.ip, &err);
    if (engine->info == NULL) {
        return fabric_failed(engine, "serve the interface", -err);
    }
    engine->max_slabs = ENGINE_TX_SLABS;
    /* If the user may not lock the memory, the first slab fails here, at the start. One slab is
     * enough to work. */
    return fabric_open_queues(engine) && fabric_post_all(engine) &&
           (!fabric_registers(engine) || fabric_grow_tx(engine)) && fabric_listen(engine) &&
           fabric_watch(engine, &engine->eq->fid, EPOLL_CTL_ADD);
}

/* Closes an object of libfabric, if it is open. A failure leaves nothing to be done. */
#define FABRIC_CLOSE(object)                                                                       \
    do {                                                                                           \
        if ((object) != NULL) {                                                                    \
            (void)fi_close(&(object)->fid);                                                        \
        }                                                                                          \
    } while (0)

void engine_fabric_close(struct glex_net_engine *engine)
{
    unsigned i;

    FABRIC_CLOSE(engine->pep);
    FABRIC_CLOSE(engine->srx);
    FABRIC_CLOSE(engine->rx_mr);
    for (i = 0; i < engine->num_slabs; i++) {
        FABRIC_CLOSE(engine->tx_mrs[i]);
        free(engine->tx_slabs[i]);
    }
    free(engine->rx_memory);
    FABRIC_CLOSE(engine->cq);
    FABRIC_CLOSE(engine->domain);
    FABRIC_CLOSE(engine->eq);
    FABRIC_CLOSE(engine->fabric);
    fi_freeinfo(engine->info);
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* An endpoint of libfabric for a connection, ready to connect or to accept. */
static int fabric_endpoint(struct engine_conn *conn, struct fi_info *info)
{
    struct glex_net_engine *engine = conn->engine;
    int ret = fi_endpoint(engine->domain, info, &conn->ep, conn);

    if (ret != 0) {
        conn->ep = NULL;
        return ret;
    }
    ret = fi_ep_bind(conn->ep, &engine->eq->fid, 0);
    if (ret == 0) {
        ret = fi_ep_bind(conn->ep, &engine->cq->fid, FI_TRANSMIT | FI_RECV);
    }
    if (ret == 0) {
        ret = fi_ep_bind(conn->ep, &engine->srx->fid, 0);
    }
    return ret == 0 ? fi_enable(conn->ep) : ret;
}

bool engine_fabric_connect(struct engine_conn *conn, const uint8_t *address, size_t len)
{
    struct fi_info *info = fi_dupinfo(conn->engine->info);
    struct control_token token;
    int ret = -FI_ENOMEM;

    if (info != NULL) {
        info->dest_addr = malloc(len);
        info->dest_addrlen = len;
        if (info->dest_addr != NULL) {
            memcpy(info->dest_addr, address, len);
            ret = fabric_endpoint(conn, info);
        }
        fi_freeinfo(info);
    }
    if (ret == 0) {
        ret = engine_token_make(conn, &token) ?
                  fi_connect(conn->ep, address, &token, sizeof(token)) :
                  -FI_EKEYREJECTED;
    }
    return ret == 0 || fabric_failed(conn->engine, "connect", ret);
}

/* Returns the connection for which a request to connect has the token; NULL: no connection has this
 * token. */
static struct engine_conn *fabric_requested(const struct glex_net_engine *engine,
                                            const uint8_t *data, size_t len)
{
    struct control_token token;
    struct engine_conn *conn;

    if (len < sizeof(token)) {
        return NULL;
    }
    memcpy(&token, data, sizeof(token));
    conn = engine_conn_find(engine, token.id);
    return conn != NULL && conn->state == CONN_WAIT_FABRIC && !conn->ours && conn->ep == NULL &&
                   engine_token_check(conn, &token) ?
               conn :
               NULL;
}

static void fabric_on_request(struct glex_net_engine *engine, struct fi_eq_cm_entry *entry,
                              size_t len)
{
    struct engine_conn *conn = fabric_requested(engine, entry->data, len);
    int ret;

    if (conn == NULL) {
        (void)engine_deny(engine);
        (void)fi_reject(engine->pep, entry->info->handle, NULL, 0);
        fi_freeinfo(entry->info);
        return;
    }
    ret = fabric_endpoint(conn, entry->info);
    if (conn->ep == NULL) {
        (void)fi_reject(engine->pep, entry->info->handle, NULL, 0);
    }
    fi_freeinfo(entry->info);
    if (ret == 0) {
        conn->base.user = engine->params.calls->accept(engine->params.arg, &conn->base);
        ret = conn->base.user != NULL ? fi_accept(conn->ep, NULL, 0) : -FI_ENOMEM;
    }
    if (ret != 0) {
        fabric_failed(engine, "accept a connection", ret);
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
}

static void fabric_on_connected(struct engine_conn *conn)
{
    struct glex_net_engine *engine = conn->engine;

    if (conn->state != CONN_WAIT_FABRIC) {
        return;
    }
    conn->state = CONN_UP;
    conn->deadline = 0;
    conn->base.up = true;
    if (conn->ours) {
        engine->params.calls->up(conn->base.user);
    }
}

/* Returns the connection of an event, or NULL. libfabric drops the events of an endpoint when the
 * endpoint is closed. */
static struct engine_conn *fabric_conn(const struct fid *fid)
{
    return fid != NULL && fid->fclass == FI_CLASS_EP ? fid->context : NULL;
}

static void fabric_on_event(struct glex_net_engine *engine, uint32_t event,
                            struct fi_eq_cm_entry *entry, size_t len)
{
    struct engine_conn *conn;

    if (event == FI_CONNREQ) {
        fabric_on_request(engine, entry, len - offsetof(struct fi_eq_cm_entry, data));
        return;
    }
    conn = fabric_conn(entry->fid);
    if (conn == NULL) {
        return;
    }
    if (event == FI_CONNECTED) {
        fabric_on_connected(conn);
    } else if (event == FI_SHUTDOWN) {
        engine_fabric_drain(engine); /* frames that arrived before the shutdown */
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
    }
}

static void fabric_on_event_error(struct glex_net_engine *engine)
{
    struct fi_eq_err_entry entry = {0};
    struct engine_conn *conn;

    if (fi_eq_readerr(engine->eq, &entry, 0) < 0) {
        return;
    }
    conn = fabric_conn(entry.fid);
    if (conn != NULL && conn->ours && conn->state == CONN_WAIT_FABRIC) {
        conn->state = CONN_DROPPED;
    } else if (conn != NULL) {
        engine_conn_end(conn, entry.err == FI_ECONNREFUSED ? GLEX_NET_END_CLOSED :
                                                             GLEX_NET_END_UNREACHABLE);
    }
}

static void fabric_events(struct glex_net_engine *engine)
{
    union {
        struct fi_eq_cm_entry entry;
        uint8_t room[sizeof(struct fi_eq_cm_entry) + 256];
    } read;
    uint32_t event;
    ssize_t ret;

    for (;;) {
        ret = fi_eq_read(engine->eq, &event, &read, sizeof(read), 0);
        if (ret == -FI_EAVAIL) {
            fabric_on_event_error(engine);
        } else if (ret < (ssize_t)offsetof(struct fi_eq_cm_entry, data)) {
            return;
        } else {
            fabric_on_event(engine, event, &read.entry, (size_t)ret);
        }
    }
}

/* ---- completions ----------------------------------------------------------------------------- */

void engine_fabric_tx_done(struct engine_buffer *tx)
{
    struct glex_net_engine *engine = tx->conn->engine;

    tx->conn->base.in_flight--;
    tx->conn = NULL;
    LIST_REMOVE(tx, entry);
    LIST_INSERT_HEAD(&engine->tx_free, tx, entry);
}

/* Returns the connection for requests that come back over our connection. The first request of the
 * peer makes it. At the peer it exists before its first request. */
static struct engine_conn *fabric_back(struct engine_conn *conn)
{
    struct glex_net_engine *engine = conn->engine;

    if (conn->back != NULL || !conn->ours || engine_back_new(conn) == NULL) {
        return conn->back;
    }
    conn->back->base.user = engine->params.calls->accept(engine->params.arg, &conn->back->base);
    if (conn->back->base.user == NULL) {
        engine_conn_end(conn, GLEX_NET_END_CLOSED);
        return NULL;
    }
    conn->back->state = CONN_UP;
    conn->back->base.up = conn->base.up;
    return conn->back;
}

/* Returns the connection that receives a frame. NULL: no connection has this id, or the connection
 * has ended. */
static struct engine_conn *fabric_receiver(struct glex_net_engine *engine,
                                           const struct glex_net_frame *frame, size_t len)
{
    struct engine_conn *conn;

    if (len < sizeof(*frame)) {
        return NULL;
    }
    conn = engine_conn_find(engine, frame->to & ~ENGINE_TO_BACK);
    if (conn == NULL || conn->ep == NULL || conn->state == CONN_CLOSED) {
        return NULL;
    }
    fabric_on_connected(conn); /* libfabric may report the frame before it reports the connection */
    return (frame->to & ENGINE_TO_BACK) ? fabric_back(conn) : conn;
}

static void fabric_rx_done(struct glex_net_engine *engine, struct engine_buffer *rx, size_t len)
{
    const struct glex_net_frame *frame = (const struct glex_net_frame *)rx->base.data;
    struct engine_conn *conn = fabric_receiver(engine, frame, len);

    if (conn != NULL) {
        engine->params.calls->receive(conn->base.user, frame, len);
    }
    (void)fabric_post(engine, rx); /* a failure was logged */
}

/* A frame could not be sent, or a receive buffer came back. */
static void fabric_on_error(struct glex_net_engine *engine)
{
    struct fi_cq_err_entry entry = {0};
    struct engine_buffer *buffer;
    struct engine_conn *conn;

    if (fi_cq_readerr(engine->cq, &entry, 0) != 1 || entry.op_context == NULL) {
        return;
    }
    buffer = entry.op_context;
    if (buffer->is_rx) {
        (void)fabric_post(engine, buffer); /* a failure was logged */
    } else if (buffer->conn != NULL) {
        conn = buffer->conn;
        engine_fabric_tx_done(buffer);
        /* For these errors the control connection finds whether the peer has closed or is
         * silent. */
        if (conn->state == CONN_UP && entry.err != FI_ECONNRESET && entry.err != FI_ENOTCONN &&
            entry.err != FI_ECANCELED) {
            engine_conn_end(conn, GLEX_NET_END_SILENT);
        }
    }
}

/* Returns the number of received and sent frames. A sent frame makes room, so the caller polls
 * again soon. *more: the queue may have further completions. */
static unsigned fabric_completions(struct glex_net_engine *engine, bool *more)
{
    struct fi_cq_msg_entry entries[FABRIC_BATCH];
    ssize_t i, num = fi_cq_read(engine->cq, entries, FABRIC_BATCH);
    unsigned done = 0;

    *more = num == FABRIC_BATCH;
    if (num == -FI_EAVAIL) {
        fabric_on_error(engine);
        *more = true;
    }
    for (i = 0; i < num; i++) {
        struct engine_buffer *buffer = entries[i].op_context;

        if (buffer->is_rx) {
            fabric_rx_done(engine, buffer, entries[i].len);
            done++;
        } else if (buffer->conn != NULL) {
            engine_fabric_tx_done(buffer);
            done++;
        }
    }
    return done;
}

unsigned engine_fabric_progress(struct glex_net_engine *engine, bool events)
{
    unsigned done = 0, turn = 0;
    bool more;

    do {
        done += fabric_completions(engine, &more);
        turn += FABRIC_BATCH;
    } while (more && turn < FABRIC_TURN);
    if (events) {
        fabric_events(engine);
        fabric_post_lost(engine);
    }
    return done;
}

void engine_fabric_drain(struct glex_net_engine *engine)
{
    bool more = engine->cq != NULL;

    while (more) {
        (void)fabric_completions(engine, &more);
    }
}

/*
 * While the completion queue's epoll is in our epoll, the kernel updates both for each packet, which
 * costs 0.3 us. So the epoll is added before a thread sleeps, and removed afterwards. A program that
 * only polls does not pay these 0.3 us.
 */
bool engine_fabric_arm(struct glex_net_engine *engine)
{
    struct fid *fids[] = {&engine->cq->fid, &engine->eq->fid};

    if (!engine->watched) {
        engine->watched = fabric_watch(engine, &engine->cq->fid, EPOLL_CTL_ADD);
    }
    return engine->watched && fi_trywait(engine->fabric, fids, 2) == FI_SUCCESS;
}

void engine_fabric_disarm(struct glex_net_engine *engine)
{
    if (engine->watched) {
        engine->watched = !fabric_watch(engine, &engine->cq->fid, EPOLL_CTL_DEL);
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

static struct engine_buffer *fabric_tx(struct glex_net_buffer *base)
{
    return (struct engine_buffer *)((char *)base - offsetof(struct engine_buffer, base));
}

struct glex_net_buffer *engine_fabric_buffer(struct glex_net_engine *engine)
{
    struct engine_buffer *tx;

    if (LIST_EMPTY(&engine->tx_free) && !fabric_grow_tx(engine)) {
        return NULL;
    }
    tx = LIST_FIRST(&engine->tx_free);
    LIST_REMOVE(tx, entry);
    tx->base.len = 0;
    return &tx->base;
}

void engine_fabric_drop(struct glex_net_engine *engine, struct glex_net_buffer *buffer)
{
    LIST_INSERT_HEAD(&engine->tx_free, fabric_tx(buffer), entry);
}

bool engine_fabric_send(struct glex_net_conn *base, struct glex_net_buffer *buffer)
{
    struct engine_conn *conn = (struct engine_conn *)base;
    const struct engine_conn *carrier = conn->carrier != NULL ? conn->carrier : conn;
    struct engine_buffer *tx = fabric_tx(buffer);
    ssize_t ret;

    if (carrier->state == CONN_CLOSED || carrier->state == CONN_CLOSING) {
        engine_fabric_drop(conn->engine, buffer); /* the report of the end to the link is due */
        return true;
    }
    ((struct glex_net_frame *)buffer->data)->to = conn->peer_id;
    ret = fi_send(conn->ep, buffer->data, buffer->len, tx->desc, FI_ADDR_UNSPEC, &tx->context);
    if (ret == -FI_EAGAIN) {
        return false;
    }
    if (ret != 0) {
        engine_fabric_drop(conn->engine, buffer);
        engine_conn_end(conn, GLEX_NET_END_SILENT);
        return true;
    }
    tx->conn = conn;
    LIST_INSERT_HEAD(&conn->in_flight, tx, entry);
    base->in_flight++;
    return true;
}
