/* Requests to chips; see net.h. */
#include "net.h"
#include "base.h"
#include "common/nmp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <glex_ext.h>

#define REPORT_ROOM (1u << 20)
#define CHUNK       16384 /* requests after which other threads get their turn */

struct net {
    pthread_mutex_t lock;
    struct net_options options;
    glex_device_handle_t dev;
    glex_ep_handle_t ep;
    int fd;
    uint8_t vp;
    bool modelled;    /* answers bear a time */
    bool alive;       /* connected, and no call has failed */
    bool said;        /* the log has the reason why there is no connection */
    uint64_t time_ns; /* modelled: when the server's software is free */
    uint16_t transaction;
    uint32_t *pending; /* by transaction: number of the request + 1 */
    struct net_stats stats;
    struct net_report *reports; /* a ring */
    uint32_t report_head, report_tail;
};

static uint64_t mono_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct net *net_open(const struct net_options *options)
{
    struct net *net = calloc(1, sizeof(*net));

    if (net == NULL) {
        return NULL;
    }
    net->options = *options;
    net->fd = -1;
    net->pending = calloc(65536, sizeof(*net->pending));
    net->reports = malloc(REPORT_ROOM * sizeof(*net->reports));
    if (net->pending == NULL || net->reports == NULL) {
        free(net->pending);
        free(net->reports);
        free(net);
        return NULL;
    }
    pthread_mutex_init(&net->lock, NULL);
    return net;
}

static void disconnect(struct net *net)
{
    if (net->ep != NULL) {
        glex_destroy_ep(net->ep);
    }
    if (net->dev != NULL) {
        glex_close_device(net->dev);
    }
    net->ep = NULL;
    net->dev = NULL;
    net->fd = -1;
}

static glex_ret_t create_endpoint(struct net *net)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_MANAGEMENT, .num = GLEX_ANY_EP_NUM};
    glex_ret_t ret = glex_open_device(0, &net->dev);

    if (ret != GLEX_SUCCESS) {
        net->dev = NULL;
        return ret;
    }
    ret = glex_create_ep(net->dev, &attr, &net->ep);
    if (ret != GLEX_SUCCESS) {
        net->ep = NULL;
    }
    return ret;
}

bool net_connect(struct net *net)
{
    glex_ret_t ret;
    bool alive;

    pthread_mutex_lock(&net->lock);
    if (!net->alive) {
        disconnect(net);
        ret = create_endpoint(net);
        net->alive = ret == GLEX_SUCCESS;
        if (net->alive) {
            glex_ext_mgmt_fd(net->ep, &net->fd, &net->vp);
        } else if (!net->said) {
            inm_log(LOG_ERR, "no management endpoint: %s; %s", glex_error_str(ret),
                    ret == GLEX_NOT_IMPLEMENTED ?
                        "name a network by the option fabric or by GLEX_INM" :
                        "the server goes on and tries again");
        }
        net->said = !net->alive;
    }
    alive = net->alive;
    pthread_mutex_unlock(&net->lock);
    return alive;
}

void net_close(struct net *net)
{
    disconnect(net);
    pthread_mutex_destroy(&net->lock);
    free(net->pending);
    free(net->reports);
    free(net);
}

/* ---- one batch ------------------------------------------------------------------------------- */

struct batch {
    struct net_req *reqs;
    uint32_t num, next, done, flying, failed;
};

static void keep_report(struct net *net, const struct glex_mgmt_info *ack)
{
    net->stats.reports++;
    if (net->report_head - net->report_tail == REPORT_ROOM) {
        net->stats.reports_dropped++;
        return;
    }
    net->reports[net->report_head++ % REPORT_ROOM] =
        (struct net_report){.event = ack->report.event,
                            .port = ack->report.port,
                            .chip = ack->report.chip,
                            .id = ack->report.chip_id,
                            .seq = ack->report.seq,
                            .value = ack->report.value};
}

static bool post(struct net *net, struct batch *b, uint32_t i, bool more)
{
    const struct net_req *req = &b->reqs[i];
    struct glex_mgmt_info info = {.type = req->type,
                                  .chip = req->chip,
                                  .chip_id = req->id,
                                  .forward = *req->forward,
                                  .backward = *req->backward,
                                  .count = req->count};
    glex_ret_t ret;

    while (net->pending[net->transaction] != 0) {
        net->transaction++;
    }
    net->time_ns += NET_SOFTWARE_NS / 2;
    info.time_ns = net->time_ns;
    info.transaction_id = net->transaction;
    memcpy(info.addr, req->addr, sizeof(info.addr));
    memcpy(info.reg, req->reg, sizeof(info.reg));
    memcpy(info.byte, req->byte, sizeof(info.byte));
    ret = glex_send_mgmt_req(net->ep, &info, more ? GLEX_MGMT_FLAG_MORE : 0);
    if (ret != GLEX_SUCCESS) {
        net->alive = net->alive && ret != GLEX_SYS_ERR;
        return false; /* BUSY: after some answers */
    }
    net->pending[net->transaction++] = i + 1;
    net->stats.requests++;
    b->flying++;
    return true;
}

static bool answers(const struct net_req *req, const struct glex_mgmt_info *ack)
{
    uint8_t error =
        req->type <= GLEX_MGMT_REG_WRITE_REQ ? GLEX_MGMT_REG_ERR_RSP : GLEX_MGMT_EEP_ERR_RSP;

    return (ack->type == req->type + 1 || ack->type == error) && ack->chip == req->chip &&
           ack->chip_id == req->id && ack->addr[0] == req->addr[0] && ack->count == req->count;
}

static void take(struct net *net, struct batch *b, const struct glex_mgmt_info *ack)
{
    uint32_t i = net->pending[ack->transaction_id];
    struct net_req *req;

    if (ack->type == GLEX_MGMT_REPORT) {
        keep_report(net, ack);
        return;
    }
    if (b == NULL || i == 0 || i > b->num || !answers(&b->reqs[i - 1], ack)) {
        net->stats.stray++; /* late: it was repeated */
        return;
    }
    req = &b->reqs[i - 1];
    net->pending[ack->transaction_id] = 0;
    b->flying--;
    b->done++;
    net->stats.responses++;
    net->modelled = ack->time_ns != 0;
    if (ack->time_ns > net->time_ns) {
        net->time_ns = ack->time_ns;
    }
    net->time_ns += NET_SOFTWARE_NS - NET_SOFTWARE_NS / 2;
    if (ack->type == GLEX_MGMT_REG_ERR_RSP || ack->type == GLEX_MGMT_EEP_ERR_RSP) {
        req->outcome = (int8_t)(ack->status != 0 ? ack->status : 15);
        net->stats.refused++;
        b->failed++;
        return;
    }
    req->outcome = NET_OK;
    if (ack->type == GLEX_MGMT_REG_READ_RSP) {
        memcpy(req->reg, ack->reg, sizeof(req->reg));
    } else if (ack->type == GLEX_MGMT_EEP_READ_RSP) {
        memcpy(req->byte, ack->byte, sizeof(req->byte));
    }
}

/* Receive until at most `flying` requests are without an answer. @return false: time is over. */
static bool receive(struct net *net, struct batch *b, uint32_t flying)
{
    uint64_t deadline = mono_ms() + net->options.timeout_ms;
    struct glex_mgmt_info ack;
    glex_ret_t ret;

    while (b->flying > flying) {
        ret = glex_receive_mgmt_ack(net->ep, (int32_t)net->options.timeout_ms, &ack);
        if (ret == GLEX_SUCCESS) {
            if (ack.type != GLEX_MGMT_REPORT) {
                take(net, b, &ack);
                deadline = 0;
                continue;
            }
            take(net, b, &ack);
        } else if (ret != GLEX_NO_MP && ret != GLEX_INTR) {
            net->alive = false;
            return false;
        }
        if (deadline == 0) {
            deadline = mono_ms() + net->options.timeout_ms;
        }
        if (mono_ms() >= deadline) { /* reports alone do not count as progress */
            return false;
        }
    }
    return true;
}

/* What is not answered is forgotten, to be sent again. */
static void forget(struct net *net, struct batch *b)
{
    uint32_t i;

    for (i = 0; i < 65536 && b->flying > 0; i++) {
        if (net->pending[i] != 0) {
            net->pending[i] = 0;
            b->flying--;
        }
    }
    b->flying = 0;
    net->time_ns += net->options.timeout_ms * 1000000ull;
}

/* Send all that are pending once. The pattern does not depend on how fast answers come. */
static void one_round(struct net *net, struct batch *b)
{
    uint32_t window = net->options.window;

    for (b->next = 0; b->next < b->num && net->alive; b->next++) {
        if (b->reqs[b->next].outcome != NET_PENDING) {
            continue;
        }
        if (b->flying >= window && !receive(net, b, window / 2)) {
            forget(net, b);
        }
        while (net->alive &&
               !post(net, b, b->next, b->flying + 1 < window && b->next + 1 < b->num)) {
            if (!receive(net, b, b->flying > 0 ? b->flying - 1 : 0)) {
                forget(net, b);
            }
        }
    }
    if (net->alive && !receive(net, b, 0)) {
        forget(net, b);
    }
}

static uint32_t run_chunk(struct net *net, struct net_req *reqs, uint32_t num)
{
    struct batch b = {.reqs = reqs, .num = num};
    uint32_t round, i;

    for (i = 0; i < num; i++) {
        reqs[i].outcome = NET_PENDING;
    }
    for (round = 0; round <= net->options.retries && b.done < num && net->alive; round++) {
        if (round > 0) {
            net->stats.retries += num - b.done;
        }
        one_round(net, &b);
    }
    for (i = 0; i < num && b.done < num; i++) {
        if (reqs[i].outcome == NET_PENDING) {
            reqs[i].outcome = NET_NO_ANSWER;
            net->stats.lost++;
            b.failed++;
        }
    }
    if (!net->alive) {
        memset(net->pending, 0, 65536 * sizeof(*net->pending));
    }
    return b.failed;
}

uint32_t net_run(struct net *net, struct net_req *reqs, uint32_t num)
{
    uint32_t failed = 0, i, chunk;

    for (i = 0; i < num; i += chunk) {
        chunk = num - i < CHUNK ? num - i : CHUNK;
        pthread_mutex_lock(&net->lock);
        failed += run_chunk(net, reqs + i, chunk);
        pthread_mutex_unlock(&net->lock);
    }
    return failed;
}

/* ---- the rest -------------------------------------------------------------------------------- */

void net_set_window(struct net *net, uint32_t window)
{
    pthread_mutex_lock(&net->lock);
    net->options.window = window < 1 ? 1 : window > NET_MAX_WINDOW ? NET_MAX_WINDOW : window;
    pthread_mutex_unlock(&net->lock);
}

uint64_t net_time(struct net *net)
{
    uint64_t time;

    pthread_mutex_lock(&net->lock);
    time = net->modelled ? net->time_ns : 0;
    pthread_mutex_unlock(&net->lock);
    return time;
}

void net_wait(struct net *net, uint32_t us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000L};

    nanosleep(&time, NULL);
    pthread_mutex_lock(&net->lock);
    net->time_ns += us * 1000ull;
    pthread_mutex_unlock(&net->lock);
}

uint8_t net_vp(struct net *net)
{
    return net->vp;
}

bool net_alive(struct net *net)
{
    bool alive;

    pthread_mutex_lock(&net->lock);
    alive = net->alive;
    pthread_mutex_unlock(&net->lock);
    return alive;
}

void net_get_stats(struct net *net, struct net_stats *stats)
{
    pthread_mutex_lock(&net->lock);
    *stats = net->stats;
    pthread_mutex_unlock(&net->lock);
}

uint32_t net_reports(struct net *net, struct net_report *reports, uint32_t max, int timeout_ms)
{
    struct pollfd pfd = {.fd = net->fd, .events = POLLIN};
    struct glex_mgmt_info ack;
    uint32_t num = 0, i;
    glex_ret_t ret = GLEX_SUCCESS;

    pthread_mutex_lock(&net->lock);
    if (net->report_head == net->report_tail) {
        pthread_mutex_unlock(&net->lock);
        poll(&pfd, 1, timeout_ms);
        pthread_mutex_lock(&net->lock);
    }
    for (i = 0; i < max && net->alive; i++) {
        ret = glex_receive_mgmt_ack(net->ep, 0, &ack);
        if (ret != GLEX_SUCCESS) {
            break;
        }
        take(net, NULL, &ack);
    }
    if (ret != GLEX_SUCCESS && ret != GLEX_NO_MP && ret != GLEX_INTR) {
        net->alive = false;
    }
    while (num < max && net->report_tail != net->report_head) {
        reports[num++] = net->reports[net->report_tail++ % REPORT_ROOM];
    }
    pthread_mutex_unlock(&net->lock);
    return num;
}

const char *outcome_text(int outcome)
{
    return outcome == NET_NO_ANSWER || outcome == NET_PENDING ? "no answer" :
                                                                nmp_status_name((unsigned)outcome);
}
