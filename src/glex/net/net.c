/*
 * The network of an endpoint: frames, and whose turn it is.
 */
#include "base/env.h"
#include "base/log.h"
#include "net/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

/* After each so many turns that brought nothing, some milliseconds, sources hear what was carried
 * out, asked or not. */
#define NET_IDLE_TURNS 512u
/* So many turns of each length that the time between two turns may have. */
#define NET_LEVEL_TURNS 8u
#define NET_MAX_LEVEL   12u /* 4096 polls */
/* How long a flush waits for acknowledgements once all is with the network. */
#define NET_FLUSH_ACK_NS 1000000000ull

/* ---- what others see of peers ----------------------------------------------------------------- */

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
        LIST_INSERT_HEAD(&side->ep->net->work, side, work);
    }
}

static void net_side_unlist(struct net_side *side)
{
    if (side->listed) {
        side->listed = false;
        LIST_REMOVE(side, work);
    }
}

static bool net_side_begin(struct net_side *side)
{
    struct glex_net *net = side->ep->net;

    if (side->conn->in_flight < NET_IN_FLIGHT) {
        side->frame = net->module->buffer(net->engine, &side->frame_size);
    }
    if (side->frame == NULL) {
        net_side_list(side);
        return false;
    }
    side->frame_len = sizeof(struct glex_net_frame);
    side->more = NULL;
    side->more_len = 0;
    return true;
}

void *net_side_room(struct net_side *side, size_t len)
{
    if (side->frame != NULL &&
        (side->more != NULL || side->frame_len + len > side->frame_size) && !net_side_send(side)) {
        return NULL;
    }
    if (side->frame == NULL && !net_side_begin(side)) {
        return NULL;
    }
    side->frame_len += len;
    return side->frame + side->frame_len - len;
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

static void net_fill_header(struct net_side *side, struct glex_net_frame *header)
{
    struct net_source *source = (struct net_source *)side;

    memset(header, 0, sizeof(*header));
    if (side->is_source) {
        header->requests = source->told_requests = net_told_requests(source);
        header->bytes = source->told_bytes = source->bytes;
        side->tell = false;
    } else if (side->ask) {
        header->flags = NET_FRAME_ASK;
        side->ask = false;
        side->asked = true;
    }
}

bool net_side_send(struct net_side *side)
{
    struct glex_net *net = side->ep->net;
    struct net_peer *peer = glex_container_of(side, struct net_peer, side);

    if (side->frame == NULL) {
        return true;
    }
    net_fill_header(side, (struct glex_net_frame *)side->frame);
    if (!net->module->send(side->conn, side->frame, side->frame_len, side->more, side->more_len)) {
        /* The header is filled once more. */
        side->ask |= !side->is_source && (((struct glex_net_frame *)side->frame)->flags != 0);
        side->tell |= side->is_source;
        net_side_list(side);
        return false;
    }
    if (!side->is_source) {
        peer->bytes_sent += side->frame_len + side->more_len;
    }
    side->frame = NULL;
    side->more = NULL;
    return true;
}

ssize_t net_side_append_data(struct net_side *side, struct net_record *record, const char *data,
                             size_t len, uint8_t last)
{
    size_t gather = side->ep->net->module->gather(side->ep->net->engine), space = gather;
    bool gathered = gather != 0 && len >= NET_GATHER_MIN;
    size_t least = gathered ? 0 : len < 256 ? len : 256;
    char *at = net_side_room(side, sizeof(*record) + net_padded(least));

    if (at == NULL) {
        return -1;
    }
    if (!gathered) {
        space = net_padded(least) + side->frame_size - side->frame_len;
    }
    if (len <= space) {
        record->flags |= last;
    } else {
        len = space;
    }
    record->len = (uint32_t)len;
    memcpy(at, record, sizeof(*record));
    if (gathered) { /* it is sent from where it is, and ends its frame */
        side->more = data;
        side->more_len = len;
        (void)net_side_send(side); /* else later: it is listed */
    } else {
        side->frame_len += net_padded(len) - net_padded(least);
        memcpy(at + sizeof(*record), data, len);
    }
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

static struct net_peer *net_peer_of(struct net_side *side)
{
    return glex_container_of(side, struct net_peer, side);
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
        side->conn = NULL;
        net_source_free((struct net_source *)side, why);
    } else {
        net_peer_end(net_peer_of(side), why);
    }
}

static void net_on_log(bool error, const char *line)
{
    glex_log(error ? GLEX_LOG_ERROR : GLEX_LOG_WARN, "%s", line);
}

/* ---- what is not over ------------------------------------------------------------------------ */

/* Whether a peer still has to take something from us; `acks`: or to acknowledge it. Then it is asked,
 * one question at a time. A program that waits comes here without a pause: more of them would be all
 * that a peer reads which looks into its network now and then. */
static bool net_peer_is_busy(struct net_peer *peer, bool acks)
{
    struct net_side *side = &peer->side;

    if (side->ended || (peer->wire == peer->tail && side->frame == NULL &&
                        !(side->conn->up && side->conn->in_flight != 0) &&
                        !(acks && peer->acked != peer->tail))) {
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

static void net_work(struct glex_net *net)
{
    struct net_side *side, *next;

    /* Who has still something to do afterwards enters the list anew, in front. None but `side` itself
     * may be freed meanwhile. */
    for (side = LIST_FIRST(&net->work); side != NULL; side = next) {
        next = LIST_NEXT(side, work);
        net_side_unlist(side);
        if (side->is_source) {
            net_source_go_on((struct net_source *)side);
        } else {
            net_peer_go_on(net_peer_of(side));
        }
    }
}

static bool net_arm(struct glex_net *net)
{
    net->armed = true;
    return net->module->arm(net->engine);
}

/*
 * Who sleeps in a call of ours says so. Who sleeps on the program's descriptor has armed both queues;
 * whatever is taken from one of them since has made that descriptor readable first, so nobody sleeps
 * on it any more.
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

    /* busy: a request that progress carries out has posted another one, which calls progress */
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
    if (net->misses % NET_IDLE_TURNS == 0) {
        __atomic_store_n(&ep->counters->net_denied, net->module->denied(net->engine),
                         __ATOMIC_RELAXED);
    }
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
    static const struct glex_net_calls calls = {.accept = net_on_accept,
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
                                     .calls = &calls,
                                     .arg = ep};
    pthread_mutexattr_t recursive; /* a request carried out for a peer may post others */

    ep->net = calloc(1, sizeof(*ep->net));
    if (ep->net == NULL) {
        close(listen_fd);
        return GLEX_NO_MEM_RESOURCE;
    }
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

static void net_end_sources(struct glex_net *net)
{
    struct net_source *source;
    uint32_t i;

    for (i = 0; i < NET_SOURCE_BUCKETS; i++) {
        while ((source = LIST_FIRST(&net->sources[i])) != NULL) {
            net->module->disconnect(source->side.conn);
            net_source_free(source, GLEX_NET_END_CLOSED);
        }
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
    (void)net->module->listen(net->engine, false); /* logged; connections then end where they begin */
    net_end_sources(net);
    net_drop_peers(ep);
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
    net_end_sources(ep->net);
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
