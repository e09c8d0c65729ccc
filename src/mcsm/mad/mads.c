#include "mads.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

enum {
    GRACE = 100 /* milliseconds that our own clock waits longer than the kernel's */
};

struct request {
    uint32_t tid;
    UT_hash_handle hh;           /* among the requests in flight */
    struct request *prev, *next; /* in the queue, or in the order of their deadlines */
    struct mcsm_addr to;
    uint64_t deadline;
    unsigned tries;
    mcsm_answer_fn answer;
    void *arg, *arg2;
    uint8_t mad[MCSM_MAD_SIZE];
};

struct mcsm_mads {
    unsigned window, timeout, retries;
    mcsm_send_fn send;
    void *send_arg;
    uint64_t m_key, m_key_before;
    uint32_t last_tid;
    struct request *queue;
    struct request *flying;    /* hash by tid */
    struct request *deadlines; /* the same requests, oldest first */
    size_t queued;
    struct request *spare; /* freed requests, for the next ones */
    struct mcsm_mad_stats stats;
};

uint64_t mcsm_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

struct mcsm_mads *mcsm_mads_new(unsigned window, unsigned timeout, unsigned retries,
                                mcsm_send_fn send, void *send_arg)
{
    struct mcsm_mads *mads = calloc(1, sizeof(*mads));

    if (mads == NULL) {
        return NULL;
    }
    mcsm_mads_limits(mads, window, timeout, retries);
    mads->send = send;
    mads->send_arg = send_arg;
    return mads;
}

void mcsm_mads_limits(struct mcsm_mads *mads, unsigned window, unsigned timeout, unsigned retries)
{
    mads->window = window;
    mads->timeout = timeout;
    mads->retries = retries;
}

void mcsm_mads_set_keys(struct mcsm_mads *mads, uint64_t m_key, uint64_t before)
{
    mads->m_key = m_key;
    mads->m_key_before = before;
}

static void release(struct mcsm_mads *mads, struct request *request)
{
    LL_PREPEND(mads->spare, request);
}

void mcsm_mads_reset(struct mcsm_mads *mads)
{
    struct request *request, *next;

    DL_FOREACH_SAFE(mads->queue, request, next) {
        DL_DELETE(mads->queue, request);
        release(mads, request);
    }
    DL_FOREACH_SAFE(mads->deadlines, request, next) {
        DL_DELETE(mads->deadlines, request);
        HASH_DEL(mads->flying, request);
        release(mads, request);
    }
    mads->queued = 0;
}

void mcsm_mads_free(struct mcsm_mads *mads)
{
    struct request *request, *next;

    if (mads == NULL) {
        return;
    }
    mcsm_mads_reset(mads);
    LL_FOREACH_SAFE(mads->spare, request, next) {
        free(request);
    }
    free(mads);
}

static void finish(struct mcsm_mads *mads, struct request *request, const uint8_t *mad,
                   unsigned status)
{
    mcsm_answer_fn answer = request->answer;
    void *arg = request->arg, *arg2 = request->arg2;

    HASH_DEL(mads->flying, request);
    DL_DELETE(mads->deadlines, request);
    release(mads, request);
    answer(arg, arg2, mad, status);
}

/* The kernel reports the timeout of a request, and refuses to send the request again before. The
 * additional deadline covers requests that the kernel does not report or could not send. */
static void transmit(struct mcsm_mads *mads, struct request *request)
{
    request->deadline = mcsm_now() + mads->timeout + GRACE;
    if (mads->m_key_before != 0 && request->mad[MCSM_MAD_CLASS] == MCSM_CLASS_SMP_DIRECT) {
        mcsm_put64(request->mad, MCSM_SMP_MKEY,
                   request->tries % 2 != 0 ? mads->m_key_before : mads->m_key);
    }
    request->tries++;
    DL_APPEND(mads->deadlines, request);
    mads->stats.sent++;
    mads->send(mads->send_arg, &request->to, request->mad, MCSM_MAD_SIZE, mads->timeout);
}

/* Not from within a callback of `send`: a model may answer at once. */
static void pump(struct mcsm_mads *mads)
{
    while (mads->queue != NULL && HASH_COUNT(mads->flying) < mads->window) {
        struct request *request = mads->queue;

        DL_DELETE(mads->queue, request);
        mads->queued--;
        HASH_ADD(hh, mads->flying, tid, sizeof(request->tid), request);
        transmit(mads, request);
    }
}

int mcsm_mad_request(struct mcsm_mads *mads, const struct mcsm_addr *to, const uint8_t *mad,
                     mcsm_answer_fn answer, void *arg, void *arg2)
{
    struct request *request = mads->spare;

    if (request != NULL) {
        LL_DELETE(mads->spare, request);
    } else {
        request = malloc(sizeof(*request));
    }
    if (request == NULL) {
        mcsm_error("out of memory: a MAD is not sent");
        return -ENOMEM;
    }
    request->tid = ++mads->last_tid;
    request->to = *to;
    request->tries = 0;
    request->answer = answer;
    request->arg = arg;
    request->arg2 = arg2;
    memcpy(request->mad, mad, MCSM_MAD_SIZE);
    mcsm_put64(request->mad, MCSM_MAD_TID, request->tid);
    DL_APPEND(mads->queue, request);
    mads->queued++;
    pump(mads);
    return 0;
}

int mcsm_smp(struct mcsm_mads *mads, const struct mcsm_path *path, uint8_t method, uint16_t attr,
             uint32_t mod, const uint8_t *body, mcsm_answer_fn answer, void *arg, void *arg2)
{
    struct mcsm_addr to = {.lid = 0xffff, .agent = MCSM_CLASS_SMP_DIRECT};
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SMP_DIRECT, 1, method};

    mad[MCSM_SMP_HOP_COUNT] = path->hops;
    mcsm_put16(mad, MCSM_MAD_ATTR, attr);
    mcsm_put32(mad, MCSM_MAD_MOD, mod);
    mcsm_put64(mad, MCSM_SMP_MKEY, mads->m_key);
    mcsm_put16(mad, MCSM_SMP_DR_SLID, 0xffff);
    mcsm_put16(mad, MCSM_SMP_DR_DLID, 0xffff);
    memcpy(mad + MCSM_SMP_PATH, path->port, sizeof(path->port));
    if (body != NULL) {
        memcpy(mad + MCSM_SMP_BODY, body, MCSM_SMP_DATA);
    }
    return mcsm_mad_request(mads, &to, mad, answer, arg, arg2);
}

int mcsm_mad_send(struct mcsm_mads *mads, const struct mcsm_addr *to, const uint8_t *mad,
                  size_t length)
{
    mads->stats.sent++;
    return mads->send(mads->send_arg, to, mad, length, 0);
}

static void retry(struct mcsm_mads *mads, struct request *request)
{
    unsigned tries = mads->retries + (mads->m_key_before != 0);

    if (request->tries <= tries) {
        DL_DELETE(mads->deadlines, request);
        mads->stats.retried++;
        transmit(mads, request);
    } else {
        mads->stats.timed_out++;
        finish(mads, request, NULL, 0);
    }
}

bool mcsm_mads_receive(struct mcsm_mads *mads, const uint8_t *mad, bool error)
{
    uint32_t tid = mcsm_get32(mad, MCSM_MAD_TID + 4);
    unsigned status = mcsm_get16(mad, MCSM_MAD_STATUS) & 0x7fff;
    struct request *request;

    HASH_FIND(hh, mads->flying, &tid, sizeof(tid), request);
    if (request != NULL &&
        (mad[MCSM_MAD_CLASS] != request->mad[MCSM_MAD_CLASS] ||
         mcsm_get16(mad, MCSM_MAD_ATTR) != mcsm_get16(request->mad, MCSM_MAD_ATTR))) {
        request = NULL;
    }
    if (error) {
        if (request != NULL) {
            retry(mads, request);
        }
        pump(mads);
        return true;
    }
    if (!(mad[MCSM_MAD_METHOD] & MCSM_RESPONSE) && mad[MCSM_MAD_METHOD] != MCSM_TRAP_REPRESS) {
        return false;
    }
    if (request == NULL) {
        mads->stats.stray++;
        return true;
    }
    if (mcsm_get32(mad, MCSM_MAD_MOD) != mcsm_get32(request->mad, MCSM_MAD_MOD)) {
        mads->stats.stray++;
        return true;
    }
    mads->stats.answered++;
    if (status != 0) {
        mads->stats.refused++;
    }
    finish(mads, request, status == 0 ? mad : NULL, status);
    pump(mads);
    return true;
}

void mcsm_mads_tick(struct mcsm_mads *mads, uint64_t now)
{
    while (mads->deadlines != NULL && mads->deadlines->deadline <= now) {
        retry(mads, mads->deadlines);
    }
    pump(mads);
}

size_t mcsm_mads_pending(const struct mcsm_mads *mads)
{
    return mads->queued + HASH_COUNT(mads->flying);
}

const struct mcsm_mad_stats *mcsm_mads_stats(const struct mcsm_mads *mads)
{
    return &mads->stats;
}
