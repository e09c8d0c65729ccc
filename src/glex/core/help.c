#include "core/help.h"
#include "base/caps.h"
#include "base/env.h"
#include "base/lock.h"
#include "core/shm.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

/* All chunks of a copy have the same length: 128 KB if there are 8 of them, else 64 KB. A system call
 * costs as much as 20 to 30 KB of its copy. With chunks of 256 and 512 KB, two processes were slower
 * than one at 4 MB. */
#define HELP_CHUNK      65536u
#define HELP_CHUNK_LONG (2 * HELP_CHUNK)
#define HELP_LONG       (8 * HELP_CHUNK_LONG)
#define HELP_MIN        (2 * HELP_CHUNK)
/* An initiator without a helper claims this many chunks at once. Each call costs a system call. */
#define HELP_ALONE_MAX 16u

/* A waiting initiator only reads the report, then also gives up the processor, then also sleeps. */
#define HELP_SPIN_NS  20000ull
#define HELP_YIELD_NS 1000000ull
#define HELP_SLEEP_NS 200000l
/* It asks whether the helper lives after the first millisecond, and then so often. */
#define HELP_LOOK_NS 5000000ull
/* After a longer wait the helper was probably preempted: the next copies are done alone. */
#define HELP_LONG_NS   100000ull
#define HELP_SKIP_MAX  1024u
#define HELP_SKIP_STEP 8u /* a copy with help makes this part of the next pause end */
/* No helper came: it computes. Single chunks cost a system call each, so up to so many of the next
 * copies are done alone. */
#define HELP_ABSENT_MAX 16u

/* Of both processes, so only the length decides. */
static uint64_t help_chunk_size(uint64_t len)
{
    return len < HELP_LONG ? HELP_CHUNK : HELP_CHUNK_LONG;
}

/* ---- initiator ------------------------------------------------------------------------------- */

/* A copy that another process may help with. */
struct help_copy {
    struct glex_endpoint *ep;
    struct glex_peer *peer;
    struct glex_job *job;
    uint64_t number;
    uint64_t addr; /* of the peer's memory, there */
    char *local;
    uint64_t len;
    enum glex_rdma_type type;
    bool asked; /* the peer knows of the copy */
    uint64_t chunk_size;
    uint32_t chunks;
    uint32_t next;   /* chunks before it are claimed, as far as this process has seen */
    uint32_t others; /* chunks that the helper has claimed */
    uint32_t last;   /* the last one of these */
};

static bool help_is_worth(const struct glex_endpoint *ep, struct glex_peer *peer, uint64_t len)
{
    if (len < HELP_MIN || peer->is_self || !glex_env()->copy_help ||
        !ep->segment.hdr->private_rdma) {
        return false;
    }
    if (peer->help_skip != 0) {
        peer->help_skip--;
        return false;
    }
    return true;
}

/*
 * Describes the copy. No chunk is left while the fields change, so a helper cannot claim a chunk.
 * Release of each field: a helper that reads a new field also sees the closed copy, so the helper's
 * claim fails. Release of the last store: a helper that sees the open copy sees all fields. Relaxed:
 * only the initiator stores the claim while no chunk is left.
 */
static void help_open(struct help_copy *copy, const glex_rdma_req_t *req)
{
    struct glex_job *job = copy->job;

    copy->number = GLEX_CLAIM_NUMBER(__atomic_load_n(&job->claim, __ATOMIC_RELAXED)) + 1;
    __atomic_store_n(&job->claim, GLEX_CLAIM(copy->number, GLEX_CLAIM_CHUNK_MASK),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&job->owner, copy->peer->incarnation, __ATOMIC_RELEASE);
    __atomic_store_n(&job->type, (uint64_t)req->type, __ATOMIC_RELEASE);
    __atomic_store_n(&job->mh, req->rmt_mh.v, __ATOMIC_RELEASE);
    __atomic_store_n(&job->offset, req->rmt_offset, __ATOMIC_RELEASE);
    __atomic_store_n(&job->addr, (uint64_t)(uintptr_t)copy->local, __ATOMIC_RELEASE);
    __atomic_store_n(&job->len, copy->len, __ATOMIC_RELEASE);
    __atomic_store_n(&job->report, GLEX_CLAIM(copy->number, 0), __ATOMIC_RELEASE);
    __atomic_store_n(&job->claim, GLEX_CLAIM(copy->number, 0), __ATOMIC_RELEASE);
}

/* Chunks from `next` to `first` were claimed by the helper. */
static void help_note_others(struct help_copy *copy, uint32_t first)
{
    if (first > copy->next) {
        copy->others += first - copy->next;
        copy->last = first - 1;
        copy->next = first;
    }
}

/*
 * Claims up to `want` chunks, and not more than half of the rest if the helper may come. @return How
 * many; 0: none is left. relaxed: the counter decides who copies a chunk, and tells nothing about
 * memory.
 */
static uint32_t help_claim(struct help_copy *copy, uint32_t want, uint32_t *first_p)
{
    uint64_t claim = __atomic_load_n(&copy->job->claim, __ATOMIC_RELAXED);
    uint32_t first, rest;

    do {
        first = (uint32_t)(claim & GLEX_CLAIM_CHUNK_MASK);
        if (GLEX_CLAIM_NUMBER(claim) != copy->number || first >= copy->chunks ||
            first < copy->next) {
            return 0;
        }
        rest = copy->asked ? (copy->chunks - first + 1) / 2 : copy->chunks - first;
        want = want < rest ? want : rest;
    } while (!__atomic_compare_exchange_n(&copy->job->claim, &claim, claim + want, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    help_note_others(copy, first);
    copy->next = first + want;
    *first_p = first;
    return want;
}

/* No chunk is left from now on. relaxed: as help_claim() */
static void help_close(struct help_copy *copy)
{
    uint64_t claim = __atomic_exchange_n(&copy->job->claim, GLEX_CLAIM(copy->number, copy->chunks),
                                         __ATOMIC_RELAXED);
    uint32_t first = (uint32_t)(claim & GLEX_CLAIM_CHUNK_MASK);

    help_note_others(copy, first < copy->chunks ? first : copy->chunks);
}

static int help_move(const struct help_copy *copy, uint32_t first, uint32_t num)
{
    uint64_t off = first * copy->chunk_size, len = num * copy->chunk_size;

    len = copy->len - off < len ? copy->len - off : len;
    return glex_cma_copy(copy->ep, copy->peer, copy->addr + off, copy->local + off, len,
                         copy->type);
}

static int help_move_own(struct help_copy *copy)
{
    uint32_t want = copy->asked ? 1 : copy->chunks, first = 0, num;
    int status = GLEX_REQ_DONE;

    while (status == GLEX_REQ_DONE && (num = help_claim(copy, want, &first)) != 0) {
        status = help_move(copy, first, num);
        if (copy->others != 0) {
            want = 1;
        } else if (want < HELP_ALONE_MAX) {
            want *= 2;
        }
    }
    return status;
}

/*
 * Whether the helper will store nothing any more. A living helper closes an endpoint only after all
 * calls on the endpoint have returned. Another process closes the endpoint only if the helper's lock
 * on the segment is free. The kernel releases the lock after the last thread has left the helper's
 * address space, and a thread within process_vm_writev() has not left. kill() finds the death if a
 * user has removed the segment's name.
 */
static bool help_is_over(const struct help_copy *copy)
{
    const struct glex_peer *peer = copy->peer;

    if (copy->ep->forked) {
        return true;
    }
    /* acquire: whoever sees that the helper has closed the endpoint sees the helper's last report */
    return (__atomic_load_n(&peer->eq.ctl->tail, __ATOMIC_ACQUIRE) & GLEX_TAIL_CLOSED) ||
           glex_segment_is_dead(copy->ep->dev->dirfd, peer->addr, peer->incarnation) ||
           (kill((pid_t)peer->pid, 0) != 0 && errno == ESRCH);
}

/* Reads the helper's report. Acquire: the helper's stores before the report are visible. */
static bool help_is_reported(const struct help_copy *copy, bool *all_p)
{
    uint64_t report = __atomic_load_n(&copy->job->report, __ATOMIC_ACQUIRE);

    bool current = GLEX_CLAIM_NUMBER(report) == copy->number;

    *all_p = current && (report & GLEX_REPORT_COUNT_MASK) >= copy->others;
    return *all_p || (current && (report & GLEX_REPORT_FAILED));
}

/* Gives the processor up: the helper may need it. A thread that is cancelled here would leave the
 * program's memory to the helper. */
static void help_pause(uint64_t waited_ns)
{
    const struct timespec time = {.tv_nsec = HELP_SLEEP_NS};
    int state;

    if (waited_ns < HELP_SPIN_NS) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    } else if (waited_ns < HELP_YIELD_NS) {
        sched_yield();
    } else {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        (void)nanosleep(&time, NULL);
        pthread_setcancelstate(state, NULL);
    }
}

/* Waits until the helper has finished or is dead. @return Whether the helper has copied all its
 * chunks. If not, the last chunk is to be copied again. */
static bool help_wait(const struct help_copy *copy, uint64_t *waited_ns)
{
    uint64_t begin = glex_now_ns(), look = HELP_YIELD_NS;
    bool all;

    while (!help_is_reported(copy, &all)) {
        *waited_ns = glex_now_ns() - begin;
        if (*waited_ns >= look) {
            if (help_is_over(copy)) {
                (void)help_is_reported(copy, &all); /* perhaps its last act */
                break;
            }
            look = *waited_ns + HELP_LOOK_NS;
        }
        help_pause(*waited_ns);
    }
    return all;
}

/* How many of the next copies are done alone. */
static void help_learn(const struct help_copy *copy, uint64_t waited_ns, bool all)
{
    struct glex_peer *peer = copy->peer;
    uint32_t pause = peer->help_pause, absent = peer->help_absent;

    if (!all || waited_ns >= HELP_LONG_NS) {
        pause = pause == 0 ? 1 : 2 * pause;
        peer->help_pause = pause < HELP_SKIP_MAX ? pause : HELP_SKIP_MAX;
        peer->help_skip = peer->help_pause;
        GLEX_COUNT(copy->ep, help_waits, 1);
    } else if (copy->others != 0) {
        peer->help_pause = pause - (pause + HELP_SKIP_STEP - 1) / HELP_SKIP_STEP;
        peer->help_absent = 0;
    } else if (copy->asked) {
        absent = absent == 0 ? 1 : 2 * absent;
        peer->help_absent = absent < HELP_ABSENT_MAX ? absent : HELP_ABSENT_MAX;
        peer->help_skip = peer->help_absent;
    }
}

/* The end of the helper's chunks: @return Their status. `status` is that of the own chunks. */
static int help_end(struct help_copy *copy, int status)
{
    uint64_t waited_ns = 0;
    bool all = true;

    help_close(copy);
    if (copy->others != 0) {
        all = help_wait(copy, &waited_ns);
        GLEX_COUNT(copy->ep, helped_chunks, copy->others - !all);
    }
    help_learn(copy, waited_ns, all);
    return all || status != GLEX_REQ_DONE ? status : help_move(copy, copy->last, 1);
}

static int help_copy_both(struct help_copy *copy, const glex_rdma_req_t *req)
{
    uint64_t *asker = &copy->peer->base->asker, none = 0, me = copy->ep->addr | GLEX_ASKER;
    int status;

    glex_caps_allow_private(); /* this process may have registered no memory yet */
    help_open(copy, req);
    /* release: the owner that reads the asker's address sees the open copy */
    copy->asked =
        __atomic_compare_exchange_n(asker, &none, me, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    status = help_move_own(copy);
    if (copy->asked &&
        !copy->ep->forked) { /* relaxed: an owner that still sees the address finds no chunk */
        (void)__atomic_compare_exchange_n(asker, &me, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    status = help_end(copy, status);
    /* A child of fork() has neither the job nor the peer's segment, and cannot know what is copied */
    return copy->ep->forked ? (int)GLEX_ERR_STATUS_PCIE_READ : status;
}

int glex_help_copy(struct glex_endpoint *ep, struct glex_peer *peer, const struct glex_rmem *rmem,
                   const glex_rdma_req_t *req, char *local)
{
    uint64_t size = help_chunk_size(req->len);
    struct help_copy copy = {
        .ep = ep,
        .peer = peer,
        .job = &ep->segment.hdr->job,
        .addr = rmem->addr + req->rmt_offset,
        .local = local,
        .len = req->len,
        .type = req->type,
        .chunk_size = size,
        .chunks = (uint32_t)((req->len + size - 1) / size),
    };

    return help_is_worth(ep, peer, req->len) ?
               help_copy_both(&copy, req) :
               glex_cma_copy(ep, peer, copy.addr, local, req->len, req->type);
}

/* ---- helper ---------------------------------------------------------------------------------- */

/* The thread of this process that copies a chunk has it. No thread waits for it, but exit(). */
static struct glex_lock help_lock = GLEX_LOCK_INITIAL;

/* A chunk of another endpoint's copy, in the order of the fields of the job. */
struct help_chunk {
    uint64_t claim, report; /* as they were seen */
    char *own;              /* memory of this process */
    uint64_t addr;          /* the asker's memory */
    uint64_t len;
    enum glex_rdma_type type; /* of the helper's transfer: the opposite of the request's */
};

/*
 * Finds the next chunk of a job. Nothing in the job is trusted: our own table decides whether the
 * range is registered, for this direction. The fields belong to the copy of `claim` if the claim
 * then succeeds. acquire: of the claim, it pairs with the release of the open copy; of a field, with
 * the release of a store for a later copy, so that the claim fails. relaxed: this process has stored
 * the report, under the same lock, or the initiator before the open copy.
 */
static bool help_find(struct glex_endpoint *ep, const struct glex_job *job,
                      struct help_chunk *chunk)
{
    uint64_t owner, type, mh, offset, addr, len, off, size;
    uint32_t need;

    chunk->claim = __atomic_load_n(&job->claim, __ATOMIC_ACQUIRE);
    chunk->report = __atomic_load_n(&job->report, __ATOMIC_RELAXED);
    owner = __atomic_load_n(&job->owner, __ATOMIC_ACQUIRE);
    type = __atomic_load_n(&job->type, __ATOMIC_ACQUIRE);
    mh = __atomic_load_n(&job->mh, __ATOMIC_ACQUIRE);
    offset = __atomic_load_n(&job->offset, __ATOMIC_ACQUIRE);
    addr = __atomic_load_n(&job->addr, __ATOMIC_ACQUIRE);
    len = __atomic_load_n(&job->len, __ATOMIC_ACQUIRE);

    size = help_chunk_size(len);
    off = (chunk->claim & GLEX_CLAIM_CHUNK_MASK) * size;
    if (owner != ep->segment.incarnation || len > GLEX_MAX_RDMA_LEN || off >= len ||
        offset > UINT32_MAX || (chunk->report & GLEX_REPORT_FAILED) ||
        GLEX_CLAIM_NUMBER(chunk->report) != GLEX_CLAIM_NUMBER(chunk->claim)) {
        return false;
    }
    need = type == GLEX_RDMA_TYPE_PUT ? GLEX_MEM_WRITE : GLEX_MEM_READ;
    chunk->type = type == GLEX_RDMA_TYPE_PUT ? GLEX_RDMA_TYPE_GET : GLEX_RDMA_TYPE_PUT;
    chunk->len = len - off < size ? len - off : size;
    chunk->addr = addr + off;
    chunk->own = glex_mem_range(&ep->mem, mh, UINT64_MAX, offset + off, chunk->len, need);
    return chunk->own != NULL;
}

/* The asker, if its segment is mapped here and it still exists. */
static struct glex_peer *help_asker(struct glex_endpoint *ep, uint64_t addr)
{
    int status;
    struct glex_peer *peer = glex_endpoint_peer(ep, addr, &status);

    if (peer == NULL || peer->link->is_remote || peer->is_self) {
        return NULL;
    }
    if (glex_ring_is_closed(&peer->eq)) {
        glex_peer_drop(ep, peer); /* the address may have a new owner */
        return NULL;
    }
    return peer;
}

/* Copies the chunk. If this fails, the asker's own copy decides the request, so nothing is logged. */
static bool help_copy_chunk(struct glex_endpoint *ep, struct glex_peer *peer,
                            const struct help_chunk *chunk)
{
    bool logged = peer->private_failed;
    int status;

    peer->private_failed = true;
    status = glex_cma_copy(ep, peer, chunk->addr, chunk->own, chunk->len, chunk->type);
    peer->private_failed = logged;
    return status == GLEX_REQ_DONE;
}

/* Returns false if the asker has no chunk for us any more. */
static bool help_one(struct glex_endpoint *ep, uint64_t addr)
{
    struct glex_peer *peer = help_asker(ep, addr);
    struct help_chunk chunk;
    struct glex_job *job;
    bool done;

    if (peer == NULL) {
        return false;
    }
    job = &peer->base->job;
    if (!help_find(ep, job, &chunk)) {
        return false;
    }
    /* relaxed: the acquire of the same value in help_find() has ordered what follows */
    if (!__atomic_compare_exchange_n(&job->claim, &chunk.claim, chunk.claim + 1, false,
                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        return true; /* the initiator was faster: the next poll looks again */
    }
    done = help_copy_chunk(ep, peer, &chunk);
    if (ep->forked) { /* within the copy: the peer's segment is the parent's */
        return false;
    }
    /* release: the initiator that sees the report sees the copied bytes */
    __atomic_store_n(&job->report, done ? chunk.report + 1 : chunk.report | GLEX_REPORT_FAILED,
                     __ATOMIC_RELEASE);
    if (done) {
        GLEX_COUNT(ep, help_chunks, 1);
    }
    return done;
}

void GLEX_NOINLINE glex_help_chunk(struct glex_endpoint *ep)
{
    uint64_t *word = &ep->segment.hdr->asker, asker;

    if (ep->forked || !glex_env()->copy_help || !glex_lock_try(&help_lock)) {
        return;
    }
    asker = __atomic_load_n(word, __ATOMIC_ACQUIRE); /* pairs with help_copy_both() */
    if (asker != 0 && !help_one(ep, asker & ~GLEX_ASKER)) {
        /* relaxed: the next asker's store is what the next look reads */
        (void)__atomic_compare_exchange_n(word, &asker, 0, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    }
    if (!ep->forked) { /* else the lock is new, and nobody has it */
        glex_lock_give(&help_lock);
    }
}

void GLEX_NOINLINE glex_help_chunk_unlocked(struct glex_endpoint *ep)
{
    if (!ep->threads.on) {
        glex_help_chunk(ep);
    } else if (pthread_mutex_trylock(&ep->threads.lock) == 0) {
        glex_help_chunk(ep);
        glex_endpoint_unlock(ep);
    }
}

bool glex_help_stop(void)
{
    return glex_lock_take_in_handler(&help_lock);
}

void glex_help_fork(void)
{
    glex_lock_reset(&help_lock);
}
