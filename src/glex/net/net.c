/*
 * The network of an endpoint: open and close, the functions that the engine calls, and flush.
 */
#include "base/env.h"
#include "base/log.h"
#include "net/internal.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

/* How long a flush waits for acknowledgements after libfabric has sent all frames. */
#define NET_FLUSH_ACK_NS 1000000000ull

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
             "the hosts, or has the host another address or netmask?",
             (unsigned long long)addr, net_ip_text(wanted, text[0]), net_ip_text(ip, text[1]));
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

    side->kind->receive(side, frame, len);
}

static void net_on_end(void *user, enum glex_net_end why)
{
    struct net_side *side = user;

    side->kind->end(side, why);
}

static void net_on_log(bool error, const char *line)
{
    glex_log(error ? GLEX_LOG_ERROR : GLEX_LOG_WARN, "%s", line);
}

/* ---- what is not over ------------------------------------------------------------------------ */

/* Returns whether the endpoint still has to wait for a peer; `acks`: also for acknowledgements.
 * Removes sides that are not busy from net->open, so the next call does not visit them. */
static bool net_is_busy(struct glex_endpoint *ep, bool acks)
{
    struct net_side *side, *next;
    bool busy = false;

    for (side = LIST_FIRST(&ep->net->open); side != NULL; side = next) {
        next = LIST_NEXT(side, open);
        if (side->kind->is_busy(side, acks)) {
            busy = true;
        } else if (acks && !side->listed) {
            net_side_close(side);
        }
    }
    return busy;
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
    pthread_mutexattr_t recursive; /* a post, which holds the lock, calls progress, which takes the
                                    * lock */

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

/* Makes one turn if the endpoint still has to wait for a peer. Returns whether it has. */
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
                net_epoch_lost_from(epoch, false);
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
    (void)net->module->listen(net->engine, false); /* a failure was logged; then peers that connect
                                                    * get no answer until the resume */
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
