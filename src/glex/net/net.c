/*
 * The network of an endpoint: frames, and whose turn it is.
 */
#include "base/env.h"
#include "base/log.h"
#include "net/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* After each so many turns that brought nothing, some milliseconds, sources hear what was carried
 * out, asked or not. */
#define NET_IDLE_TURNS 512u
/* So many turns of each length that the time between two turns may have. */
#define NET_LEVEL_TURNS 8u
#define NET_MAX_LEVEL   12u /* 4096 polls */
/* How long a flush waits for acknowledgements once all is with the network. */
#define NET_FLUSH_ACK_NS 1000000000ull

/* ---- what others see of peers ---------------------------------------------------------------- */

static bool net_grow_entries(struct glex_endpoint *ep)
{
    struct glex_segment *seg = &ep->segment;
    struct glex_net *net = ep->net;
    uint64_t off = glex_net_off(seg->mpq_capacity, seg->eq_capacity);
    int fd, err;

    if (net->num_entries == GLEX_NET_ENTRIES) {
        return false;
    }
    fd = glex_segment_reopen(ep->dev->dirfd, seg);
    err = fd < 0 ? errno : glex_segment_reserve(fd, 0, off + net->entries_ready *
                                                sizeof(struct glex_net_entry), GLEX_NET_STEP_SIZE);
    if (fd >= 0) {
        close(fd);
    }
    if (err != 0) {
        glex_warn("no room to show more than %u peers of other hosts: %s", net->num_entries,
                  strerror(err));
        return false;
    }
    net->entries = (struct glex_net_entry *)((char *)seg->hdr + off);
    net->entries_ready += GLEX_NET_ENTRY_STEP;
    return true;
}

/* Where the index of an address's entry stands, or is to stand: 0 is there. */
static uint16_t *net_place(struct glex_net *net, uint64_t addr)
{
    uint32_t i = glex_peer_hash(addr) % NET_PLACES;

    while (net->places[i] != 0 && net->entries[net->places[i] - 1].addr != addr) {
        i = (i + 1) % NET_PLACES;
    }
    return &net->places[i];
}

struct glex_net_entry *net_entry(struct glex_endpoint *ep, uint64_t addr)
{
    const glex_ep_addr_t ep_addr = {.v = addr};
    struct glex_net *net = ep->net;
    uint16_t *place = net_place(net, addr);
    struct glex_net_entry *entry;

    if (*place != 0) {
        return &net->entries[*place - 1];
    }
    if (net->num_entries == net->entries_ready && !net_grow_entries(ep)) {
        return &net->nowhere;
    }
    entry = &net->entries[net->num_entries++];
    *place = (uint16_t)net->num_entries;
    entry->addr = addr;
    entry->ip = glex_net_ip(&ep->dev->net, ep_addr.nic_id);
    /* release: who sees the number sees the entry's address */
    __atomic_store_n(&ep->segment.hdr->num_net, net->num_entries, __ATOMIC_RELEASE);
    return entry;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static struct net_peer *net_peer_of(struct net_side *side)
{
    return glex_container_of(side, struct net_peer, side);
}

void net_side_open(struct net_side *side)
{
    if (!side->opened) {
        side->opened = true;
        LIST_INSERT_HEAD(&side->ep->net->open, side, open);
    }
}

static void net_side_close(struct net_side *side)
{
    if (side->opened) {
        side->opened = false;
        LIST_REMOVE(side, open);
    }
}

void net_side_list(struct net_side *side)
{
    net_side_open(side);
    if (!side->listed) {
        side->listed = true;
        TAILQ_INSERT_TAIL(&side->ep->net->work, side, work);
    }
}

static void net_side_unlist(struct net_side *side)
{
    if (side->listed) {
        side->listed = false;
        TAILQ_REMOVE(&side->ep->net->work, side, work);
    }
}

static bool net_side_begin(struct net_side *side)
{
    struct glex_net *net = side->ep->net;

    if (side->conn->in_flight < NET_IN_FLIGHT) {
        side->frame = net->module->buffer(net->engine);
    }
    if (side->frame == NULL) {
        net_side_list(side);
        return false;
    }
    side->frame->len = sizeof(struct glex_net_frame);
    return true;
}

void *net_side_room(struct net_side *side, size_t len)
{
    const struct glex_net_buffer *frame = side->frame;

    if (frame != NULL && frame->len + len > GLEX_NET_FRAME_MAX && !net_side_send(side)) {
        return NULL;
    }
    if (side->frame == NULL && !net_side_begin(side)) {
        return NULL;
    }
    side->frame->len += (uint32_t)len;
    return side->frame->data + side->frame->len - len;
}

/* What is told of requests stops before one whose refusal is not in a frame yet. */
static uint32_t net_told_requests(const struct net_source *source)
{
    uint32_t i;

    for (i = source->reply_head; i != source->reply_tail; i++) {
        if (source->replies[i % NET_REPLIES].op == NET_OP_REFUSED) {
            return source->replies[i % NET_REPLIES].request;
        }
    }
    return source->requests;
}

static struct glex_net_frame net_header(const struct net_side *side)
{
    const struct net_source *source = (const struct net_source *)side;

    return side->is_source ? (struct glex_net_frame){.requests = net_told_requests(source),
                                                     .bytes = source->bytes}
                           : (struct glex_net_frame){.flags = side->ask ? NET_FRAME_ASK : 0};
}

/* A frame of `len` bytes has gone. */
static void net_side_sent(struct net_side *side, const struct glex_net_frame *header, size_t len)
{
    struct net_source *source = (struct net_source *)side;

    if (side->is_source) {
        source->told_requests = header->requests;
        source->told_bytes = header->bytes;
        side->tell = false;
    } else {
        net_peer_of(side)->bytes_sent += len;
        side->asked |= side->ask;
        side->ask = false;
    }
}

bool net_side_send(struct net_side *side)
{
    struct glex_net_buffer *frame = side->frame;
    struct glex_net_frame header;
    size_t len;

    if (frame == NULL) {
        return true;
    }
    header = net_header(side);
    memcpy(frame->data, &header, sizeof(header));
    len = frame->len;
    if (!side->ep->net->module->send(side->conn, frame)) {
        net_side_list(side);
        return false;
    }
    side->frame = NULL;
    net_side_sent(side, &header, len);
    return true;
}

/*
 * The kernel copies from this process to this process. It reports memory that is not there, where an
 * instruction of ours would end the process. Where a filter of system calls forbids that, and for
 * few bytes, the process copies itself.
 */
bool net_copy(void *dst, const void *src, size_t len)
{
    static bool refused; /* relaxed: a thread that sees it late tries once more */
    struct iovec to = {dst, len}, from = {(void *)(uintptr_t)src, len};

    if (len >= NET_COPY_MIN && !__atomic_load_n(&refused, __ATOMIC_RELAXED)) {
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)len) {
            return true;
        }
        if (errno != EPERM && errno != ENOSYS) {
            return false;
        }
        __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
    }
    memcpy(dst, src, len);
    return true;
}

ssize_t net_side_append_data(struct net_side *side, struct net_record *record, const char *data,
                             size_t len, uint8_t last)
{
    size_t least = net_padded(len < NET_PIECE_MIN ? len : NET_PIECE_MIN), space;
    char *at = net_side_room(side, sizeof(*record) + least);
    struct glex_net_buffer *frame = side->frame;

    if (at == NULL) {
        return NET_NOT_NOW;
    }
    frame->len -= (uint32_t)least; /* counted below: how much it is depends on the frame */
    space = GLEX_NET_FRAME_MAX - frame->len;
    if (len <= space) {
        record->flags |= last;
    } else {
        len = space;
    }
    if (!net_copy(at + sizeof(*record), data, len)) {
        frame->len -= (uint32_t)sizeof(*record);
        return NET_FAULT;
    }
    record->len = (uint32_t)len;
    memcpy(at, record, sizeof(*record));
    frame->len += (uint32_t)net_padded(len);
    return (ssize_t)len;
}

void net_side_cleanup(struct net_side *side)
{
    struct glex_net *net = side->ep->net;

    net_side_unlist(side);
    net_side_close(side);
    if (side->frame != NULL) {
        net->module->drop(net->engine, side->frame);
        side->frame = NULL;
    }
}

/* ---- the engine's calls ---------------------------------------------------------------------- */

static const char *net_ip_text(uint32_t ip, char text[INET_ADDRSTRLEN])
{
    const struct in_addr addr = {.s_addr = htonl(ip)};

    return inet_ntop(AF_INET, &addr, text, INET_ADDRSTRLEN);
}

/* Requests to a peer go to the address that the peer's NIC id names. A peer that comes from another
 * address cannot be reached there, and behind NAT two peers may have the same NIC id. */
static bool net_comes_from(struct glex_endpoint *ep, uint64_t addr, uint32_t ip)
{
    const glex_ep_addr_t ep_addr = {.v = addr};
    uint32_t wanted = glex_net_ip(&ep->dev->net, ep_addr.nic_id);
    char text[2][INET_ADDRSTRLEN];

    if (ip == wanted) {
        return true;
    }
    glex_log(ep->net->warned_of_address ? GLEX_LOG_INFO : GLEX_LOG_ERROR,
             "endpoint %llx of host %s connects from the address %s: refused; is there NAT between "
             "the hosts, or has the host another address or netmask?", (unsigned long long)addr,
             net_ip_text(wanted, text[0]), net_ip_text(ip, text[1]));
    ep->net->warned_of_address = true;
    return false;
}

static uint64_t net_on_meet(void *arg, uint64_t addr, uint32_t ip, uint64_t theirs, uint64_t ours)
{
    return ip == 0 || net_comes_from(arg, addr, ip) ? net_epoch_meet(arg, addr, theirs, ours) : 0;
}

static void *net_on_accept(void *arg, struct glex_net_conn *conn)
{
    return net_source_new(arg, conn);
}

static void net_on_up(void *user)
{
    struct net_side *side = user;

    side->was_up = true;
    NET_ENTRY_SET(side->entry, to, GLEX_NET_UP);
    GLEX_COUNT(side->ep, net_peers, 1);
    net_side_list(side);
}

static void net_on_receive(void *user, const struct glex_net_frame *frame, size_t len)
{
    struct net_side *side = user;

    if (side->is_source) {
        net_source_receive((struct net_source *)side, frame, len);
    } else {
        net_peer_receive(net_peer_of(side), frame, len);
    }
}

static void net_on_end(void *user, enum glex_net_end why)
{
    struct net_side *side = user;

    if (side->is_source) {
        net_source_end((struct net_source *)side, why);
    } else {
        net_peer_end(net_peer_of(side), why);
    }
}

static void net_on_log(bool error, const char *line)
{
    glex_log(error ? GLEX_LOG_ERROR : GLEX_LOG_WARN, "%s", line);
}

/* ---- what is not over ------------------------------------------------------------------------ */

/* Whether a peer still has to take something from us; `acks`: or to acknowledge it. Then it is
 * asked, one question at a time: a program that waits comes here without a pause, and a peer that
 * seldom looks into its network would find questions only. */
static bool net_peer_is_busy(struct net_peer *peer, bool acks)
{
    struct net_side *side = &peer->side;

    if (side->conn == NULL ||
        (peer->wire == peer->tail && side->frame == NULL &&
         !(side->conn->up && side->conn->in_flight != 0) && !(acks && peer->acked != peer->tail))) {
        return false;
    }
    side->ask |= peer->acked != peer->tail && !side->asked;
    net_side_list(side);
    return true;
}

/* Sources are told what was carried out. */
static void net_source_tell(struct net_source *source)
{
    if (source->bytes != source->told_bytes) {
        source->side.tell = true;
        net_side_list(&source->side);
    }
}

static bool net_source_is_busy(struct net_source *source)
{
    if (source->side.conn == NULL) {
        return false; /* what it has left is for our program to take */
    }
    net_source_tell(source); /* so that it does not take it for lost with us */
    return source->side.tell || source->side.frame != NULL || source->side.conn->in_flight != 0;
}

/* Whether something has to be waited for. A side that is not busy leaves the list of those that may
 * be: the next call does not visit it. */
static bool net_is_busy(struct glex_endpoint *ep, bool acks)
{
    struct net_side *side, *next;
    bool busy = false;

    for (side = LIST_FIRST(&ep->net->open); side != NULL; side = next) {
        next = LIST_NEXT(side, open);
        if (side->is_source ? net_source_is_busy((struct net_source *)side) :
                              net_peer_is_busy(net_peer_of(side), acks)) {
            busy = true;
        } else if (acks && !side->listed) {
            net_side_close(side);
        }
    }
    return busy;
}

/* Nothing came for a while. */
static void net_tell_sources(struct glex_net *net)
{
    struct net_side *side;

    LIST_FOREACH(side, &net->open, open) {
        if (side->is_source) {
            net_source_tell((struct net_source *)side);
        }
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

static uint32_t net_num_work(const struct glex_net *net)
{
    const struct net_side *side;
    uint32_t num = 0;

    TAILQ_FOREACH(side, &net->work, work) {
        num++;
    }
    return num;
}

/*
 * Visits each listed side once. A side that still has something to do lists itself again. The first
 * side of a turn is the last side of the next turn: the first side may take all room of a queue, or
 * all free buffers.
 */
static void net_work(struct glex_net *net)
{
    uint32_t left = net_num_work(net);
    struct net_side *side;

    net->wants_room = false;
    for (; left != 0 && (side = TAILQ_FIRST(&net->work)) != NULL; left--) {
        net_side_unlist(side);
        if (side->is_source) {
            net_source_go_on((struct net_source *)side);
        } else {
            net_peer_go_on(net_peer_of(side));
        }
    }
    side = TAILQ_FIRST(&net->work);
    if (side != NULL) {
        net_side_unlist(side);
        net_side_list(side);
    }
}

static bool net_arm(struct glex_net *net)
{
    net->armed = true;
    return net->module->arm(net->engine);
}

/*
 * Who sleeps in a call of ours says so. Who sleeps on the program's descriptor has armed both
 * queues; whatever is taken from one of them since has made that descriptor readable first, so
 * nobody sleeps on it any more.
 */
static void net_disarm(struct glex_endpoint *ep)
{
    if (!ep->threads.sleeping && !(ep->eq.armed && ep->mpq.armed)) {
        ep->net->module->disarm(ep->net->engine);
        ep->net->armed = false;
    }
}

void glex_net_progress(struct glex_endpoint *ep)
{
    struct glex_net *net = ep->net;

    if (net == NULL || net->busy) {
        return;
    }
    NET_LOCKED(ep);
    net->busy = true;
    if (net->armed) {
        net_disarm(ep);
    }
    if (net->module->progress(net->engine) != 0) {
        net->misses = 0;
    } else {
        net->misses++;
    }
    if (net->misses != 0 && net->misses % NET_IDLE_TURNS == 0) {
        net_tell_sources(net);
    }
    net_work(net);
    if (net_leaves_frames(net)) {
        net_flusher_wake(net);
    }
    net->busy = false;
}

uint32_t glex_net_patience(const struct glex_endpoint *ep)
{
    uint32_t level = ep->net->misses / NET_LEVEL_TURNS;

    return 1u << (level < NET_MAX_LEVEL ? level : NET_MAX_LEVEL);
}

bool glex_net_wants_room(const struct glex_endpoint *ep)
{
    return ep->net->wants_room;
}

int glex_net_fd(const struct glex_endpoint *ep)
{
    return ep->net == NULL ? -1 : ep->net->module->fd(ep->net->engine);
}

bool glex_net_arm(struct glex_endpoint *ep)
{
    if (ep->net == NULL) {
        return true;
    }
    NET_LOCKED(ep);
    return net_arm(ep->net);
}

/* ---- with the endpoint ----------------------------------------------------------------------- */

glex_ret_t glex_net_init(struct glex_endpoint *ep, int listen_fd)
{
    static const struct glex_net_calls calls = {.meet = net_on_meet,
                                                .accept = net_on_accept,
                                                .up = net_on_up,
                                                .receive = net_on_receive,
                                                .end = net_on_end,
                                                .log = net_on_log};
    const struct glex_net_place *place = &ep->dev->net;
    struct glex_net_params params = {.provider = glex_env()->net_provider,
                                     .ip = place->ip,
                                     .addr = ep->addr,
                                     .listen_fd = listen_fd,
                                     .key_len = place->key_len,
                                     .timeout_ms = glex_env()->net_timeout * 1000,
                                     .denied = &ep->counters->net_denied,
                                     .calls = &calls,
                                     .arg = ep};
    pthread_mutexattr_t recursive; /* who posts lets the network go on */

    ep->net = calloc(1, sizeof(*ep->net));
    if (ep->net == NULL) {
        close(listen_fd);
        return GLEX_NO_MEM_RESOURCE;
    }
    TAILQ_INIT(&ep->net->work);
    memcpy(params.key, place->key, place->key_len);
    ep->net->module = place->module;
    ep->net->engine = place->module->open(&params);
    if (ep->net->engine == NULL) {
        free(ep->net);
        ep->net = NULL;
        return GLEX_SYS_ERR;
    }
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&ep->net->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    net_flusher_add(ep->net);
    return GLEX_SUCCESS;
}

bool glex_net_holds(struct glex_endpoint *ep)
{
    if (ep->net == NULL || ep->net->pending == 0) {
        return false;
    }
    NET_LOCKED(ep);
    (void)net_is_busy(ep, true); /* asks for acknowledgements */
    glex_net_progress(ep);
    return ep->net->pending != 0;
}

/* Whether something has to be waited for; then the network has gone on. */
static bool net_flush_turn(struct glex_endpoint *ep, bool acks)
{
    NET_LOCKED(ep);
    if (!net_is_busy(ep, acks)) {
        return false;
    }
    glex_net_progress(ep);
    return true;
}

static bool net_arm_busy(struct glex_endpoint *ep)
{
    NET_LOCKED(ep);
    return net_is_busy(ep, true) && net_arm(ep->net);
}

bool glex_net_flush(struct glex_endpoint *ep, uint64_t begin_ns, uint32_t ms)
{
    struct pollfd pfd = {.fd = glex_net_fd(ep), .events = POLLIN};
    uint64_t passed = glex_now_ns() - begin_ns;

    if (ep->net == NULL || ep->net->busy || passed >= ms * 1000000ull ||
        !net_flush_turn(ep, passed < NET_FLUSH_ACK_NS)) {
        return false;
    }
    if (net_arm_busy(ep)) {
        (void)poll(&pfd, 1, 1);
    }
    return true;
}

static void net_drop_peers(struct glex_endpoint *ep)
{
    struct glex_peer **link;
    uint32_t i;

    for (i = 0; i < ep->peers.num_buckets; i++) {
        link = &ep->peers.buckets[i];
        while (*link != NULL) {
            if ((*link)->link == &glex_net_link) {
                glex_peer_drop(ep, *link);
            } else {
                link = &(*link)->next;
            }
        }
    }
}

static void net_drop_sources(struct glex_net *net)
{
    struct net_epoch *epoch;
    uint32_t i;

    for (i = 0; i < NET_EPOCH_BUCKETS; i++) {
        LIST_FOREACH(epoch, &net->epochs[i], entry) {
            if (epoch->from != NULL) {
                net_epoch_lost_from(epoch);
            }
        }
    }
    while (!LIST_EMPTY(&net->left)) {
        net_source_drop(LIST_FIRST(&net->left));
    }
}

void glex_net_pause(struct glex_endpoint *ep)
{
    struct glex_net *net = ep->net;

    if (net == NULL || net->paused) {
        return;
    }
    NET_LOCKED(ep);
    net->paused = true;
    (void)net->module->listen(net->engine, false); /* failed: logged, and who connects waits */
    net_drop_peers(ep);
    net_drop_sources(net);
    glex_net_progress(ep); /* frees what is closed */
}

glex_ret_t glex_net_resume(struct glex_endpoint *ep)
{
    struct glex_net *net = ep->net;

    if (net == NULL || !net->paused) {
        return GLEX_SUCCESS;
    }
    NET_LOCKED(ep);
    net->paused = !net->module->listen(net->engine, true);
    return net->paused ? GLEX_SYS_ERR : GLEX_SUCCESS;
}

void glex_net_cleanup(struct glex_endpoint *ep)
{
    if (ep->net == NULL) {
        return;
    }
    net_flusher_remove(ep->net);
    net_drop_sources(ep->net);
    net_epochs_cleanup(ep->net);
    ep->net->module->close(ep->net->engine);
    pthread_mutex_destroy(&ep->net->lock);
    free(ep->net);
    ep->net = NULL;
}

void glex_net_fork(struct glex_endpoint *ep)
{
    if (ep->net != NULL) {
        net_flusher_fork();
        ep->net->module->forked(ep->net->engine);
        ep->net = NULL;
    }
}
