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

/* Claims and reports count granules. A helper takes part in copies of two granules or more. */
#define HELP_GRANULE 32768u
#define HELP_MIN     (2 * HELP_GRANULE)
/* A short copy has two pieces, one for each process. The pieces of a longer copy shrink towards the
 * end, so the last wait is short. A system call costs as much as 20 to 30 KB of its copy. */
#define HELP_HALVES    4u  /* granules of a short copy */
#define HELP_PIECE_MIN 2u  /* granules of a piece of a longer copy */
#define HELP_PIECE_MAX 32u /* granules of a piece of the helper: the initiator may wait for it */

/* A waiting initiator first only reads the report. After HELP_SPIN_NS it also yields the processor,
 * after HELP_YIELD_NS it also sleeps. */
#define HELP_SPIN_NS  100000ull
#define HELP_YIELD_NS 1000000ull
#define HELP_SLEEP_NS 200000l
/* The initiator checks whether the helper lives after the first millisecond, then at this
 * interval. */
#define HELP_LOOK_NS 5000000ull
/* After a longer wait the helper was probably preempted: the next copies are done alone, at first one,
 * and each time twice as many. A copy with help makes a part of the next pause end. */
#define HELP_LONG_NS   100000ull
#define HELP_SKIP_MAX  16384u
#define HELP_SKIP_STEP 32u
/* Waits cost time, and help saves time: about this much for each byte. If the waits have cost more, the
 * difference passes without help. Earlier savings count up to a limit. */
#define HELP_BYTES_PER_NS 8
#define HELP_CREDIT_NS    8000000
/* No helper came: it computes. Each piece costs a system call, so up to so many of the next copies are
 * done alone. */
#define HELP_ABSENT_MAX 16u

static uint32_t help_granules(uint64_t len)
{
    return (uint32_t)((len + HELP_GRANULE - 1) / HELP_GRANULE);
}

static uint64_t help_bytes(uint64_t len, uint32_t first, uint32_t num)
{
    uint64_t rest = len - (uint64_t)first * HELP_GRANULE, bytes = (uint64_t)num * HELP_GRANULE;

    return rest < bytes ? rest : bytes;
}

/* The piece that begins at a granule: a part of the rest, half of a short copy. @return its granules */
static uint32_t help_piece(uint32_t granules, uint32_t first, uint32_t part)
{
    uint32_t rest = granules - first, num;

    if (granules <= HELP_HALVES) {
        num = (granules + 1) / 2;
    } else {
        num = rest / part < HELP_PIECE_MIN ? HELP_PIECE_MIN : rest / part;
    }
    return num < rest ? num : rest;
}

uint32_t glex_help_piece(uint64_t len, uint32_t first)
{
    uint32_t num = help_piece(help_granules(len), first, 3);

    return num < HELP_PIECE_MAX ? num : HELP_PIECE_MAX;
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
    uint32_t granules;
    uint32_t next;       /* granules before it are claimed, as far as this process has seen */
    uint32_t others;     /* granules that the helper has claimed */
    uint32_t others_end; /* behind the last one of these */
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
 * Describes the copy. No granule is left while the fields change, so a helper claims nothing.
 * Release of each field: a helper that reads a new field also sees the closed copy, so the helper's
 * claim fails. Release of the last store: a helper that sees the open copy sees all fields. Relaxed:
 * only the initiator stores the claim while no granule is left.
 */
static void help_open(struct help_copy *copy, const glex_rdma_req_t *req)
{
    struct glex_job *job = copy->job;

    copy->number = GLEX_CLAIM_NUMBER(__atomic_load_n(&job->claim, __ATOMIC_RELAXED)) + 1;
    __atomic_store_n(&job->claim, GLEX_CLAIM(copy->number, GLEX_CLAIM_PLACE_MASK),
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

/* The granules from `next` to `first` were claimed by the helper. */
static void help_note_others(struct help_copy *copy, uint32_t first)
{
    if (first > copy->next) {
        copy->others += first - copy->next;
        copy->others_end = first;
        copy->next = first;
    }
}

/*
 * Claims a piece: half of the rest, or all if no helper may come. @return The number of granules. 0:
 * no granule is left. relaxed: the word decides who copies a granule, and tells nothing about memory.
 */
static uint32_t help_claim(struct help_copy *copy, uint32_t *first_p)
{
    uint64_t claim = __atomic_load_n(&copy->job->claim, __ATOMIC_RELAXED);
    uint32_t first, num;

    do {
        first = (uint32_t)(claim & GLEX_CLAIM_PLACE_MASK);
        if (GLEX_CLAIM_NUMBER(claim) != copy->number || first >= copy->granules ||
            first < copy->next) {
            return 0;
        }
        num = copy->asked ? help_piece(copy->granules, first, 2) : copy->granules - first;
    } while (!__atomic_compare_exchange_n(&copy->job->claim, &claim, claim + num, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    help_note_others(copy, first);
    copy->next = first + num;
    *first_p = first;
    return num;
}

/* No granule is left from now on. relaxed: as help_claim() */
static void help_close(struct help_copy *copy)
{
    uint64_t claim = __atomic_exchange_n(
        &copy->job->claim, GLEX_CLAIM(copy->number, copy->granules), __ATOMIC_RELAXED);
    uint32_t first = (uint32_t)(claim & GLEX_CLAIM_PLACE_MASK);

    help_note_others(copy, first < copy->granules ? first : copy->granules);
}

static int help_move(const struct help_copy *copy, uint32_t first, uint32_t num)
{
    uint64_t off = (uint64_t)first * HELP_GRANULE;

    return glex_cma_copy(copy->ep, copy->peer, copy->addr + off, copy->local + off,
                         help_bytes(copy->len, first, num), copy->type);
}

static int help_move_own(struct help_copy *copy)
{
    int status = GLEX_REQ_DONE;
    uint32_t first = 0, num;

    while (status == GLEX_REQ_DONE && (num = help_claim(copy, &first)) != 0) {
        status = help_move(copy, first, num);
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
    /* acquire: a process that sees the closed endpoint of the helper sees the helper's last
     * report */
    return (__atomic_load_n(&peer->eq.ctl->tail, __ATOMIC_ACQUIRE) & GLEX_TAIL_CLOSED) ||
           glex_segment_is_dead(copy->ep->dev->dirfd, peer->addr, peer->incarnation) ||
           (kill((pid_t)peer->pid, 0) != 0 && errno == ESRCH);
}

/* Reads the helper's report. @param [out] missing_p  Granules of the helper that are not reported.
 * Acquire: the helper's stores before the report are visible. */
static bool help_is_reported(const struct help_copy *copy, uint32_t *missing_p)
{
    uint64_t report = __atomic_load_n(&copy->job->report, __ATOMIC_ACQUIRE);
    uint64_t count = report & GLEX_REPORT_COUNT_MASK;

    if (GLEX_CLAIM_NUMBER(report) != copy->number) {
        *missing_p = copy->others;
        return false;
    }
    *missing_p = count < copy->others ? copy->others - (uint32_t)count : 0;
    return *missing_p == 0 || (report & GLEX_REPORT_FAILED);
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

/* Waits until the helper has finished or is dead. @return How many of the last granules of the helper
 * are to be copied again. */
static uint32_t help_wait(const struct help_copy *copy, uint64_t *waited_ns)
{
    uint64_t begin = glex_now_ns(), look = HELP_YIELD_NS;
    uint32_t missing;

    while (!help_is_reported(copy, &missing)) {
        *waited_ns = glex_now_ns() - begin;
        if (*waited_ns >= look) {
            if (help_is_over(copy)) {
                (void)help_is_reported(copy, &missing); /* perhaps its last act */
                break;
            }
            look = *waited_ns + HELP_LOOK_NS;
        }
        help_pause(*waited_ns);
    }
    return missing;
}

static uint64_t help_helped(const struct help_copy *copy, uint32_t missing)
{
    uint64_t bytes = (uint64_t)(copy->others - missing) * HELP_GRANULE;

    if (copy->others_end == copy->granules && missing == 0) {
        bytes -= (uint64_t)copy->granules * HELP_GRANULE - copy->len;
    }
    return bytes;
}

/* How many copies like this one are done alone after a long wait. */
static uint32_t help_pause_after(const struct help_copy *copy)
{
    struct glex_peer *peer = copy->peer;
    uint64_t pause = peer->help_pause == 0 ? 1 : 2 * peer->help_pause, alone;

    if (peer->help_debt_ns > 0) {
        alone = (uint64_t)peer->help_debt_ns * HELP_BYTES_PER_NS / copy->len;
        pause = pause > alone ? pause : alone;
        peer->help_debt_ns = 0;
    }
    return pause < HELP_SKIP_MAX ? (uint32_t)pause : HELP_SKIP_MAX;
}

/* Decides how many of the next copies are done alone. */
static void help_learn(const struct help_copy *copy, uint64_t waited_ns, uint64_t helped,
                       bool failed)
{
    struct glex_peer *peer = copy->peer;
    uint32_t absent = peer->help_absent;

    peer->help_debt_ns += (int64_t)waited_ns - (int64_t)(helped / HELP_BYTES_PER_NS);
    if (peer->help_debt_ns < -HELP_CREDIT_NS) {
        peer->help_debt_ns = -HELP_CREDIT_NS;
    }
    if (failed || waited_ns >= HELP_LONG_NS) {
        peer->help_skip = peer->help_pause = help_pause_after(copy);
        GLEX_COUNT(copy->ep, help_waits, 1);
    } else if (copy->others != 0) {
        peer->help_pause -= (peer->help_pause + HELP_SKIP_STEP - 1) / HELP_SKIP_STEP;
        peer->help_absent = 0;
    } else if (copy->asked) {
        absent = absent == 0 ? 1 : 2 * absent;
        peer->help_absent = absent < HELP_ABSENT_MAX ? absent : HELP_ABSENT_MAX;
        peer->help_skip = peer->help_absent;
    }
}

/* The end of the helper's pieces: @return Their status. `status` is that of the own pieces. The
 * helper reports a piece before the helper claims another piece. So the granules that are not
 * reported are the helper's last granules. */
static int help_end(struct help_copy *copy, int status)
{
    uint64_t waited_ns = 0, helped = 0;
    uint32_t missing = 0;

    help_close(copy);
    if (copy->others != 0) {
        missing = help_wait(copy, &waited_ns);
        helped = help_helped(copy, missing);
        GLEX_COUNT(copy->ep, helped_bytes, helped);
    }
    help_learn(copy, waited_ns, helped, missing != 0);
    return missing == 0 || status != GLEX_REQ_DONE ?
               status :
               help_move(copy, copy->others_end - missing, missing);
}

static int help_copy_both(struct help_copy *copy, const glex_rdma_req_t *req)
{
    uint64_t *asker = &copy->peer->base->asker, none = 0, me = copy->ep->addr | GLEX_ASKER;
    int status;

    glex_caps_allow_private(); /* lets the helper access this process, which may have registered no
                                * memory yet */
    help_open(copy, req);
    /* release: the owner that reads the asker's address sees the open copy */
    copy->asked =
        __atomic_compare_exchange_n(asker, &none, me, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    status = help_move_own(copy);
    /* relaxed: an owner that still sees the address finds no granule */
    if (copy->asked && !copy->ep->forked) {
        (void)__atomic_compare_exchange_n(asker, &me, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    status = help_end(copy, status);
    /* A child of fork() has neither the job nor the peer's segment, and cannot know what is copied */
    return copy->ep->forked ? (int)GLEX_ERR_STATUS_PCIE_READ : status;
}

int glex_help_copy(struct glex_endpoint *ep, struct glex_peer *peer, const struct glex_rmem *rmem,
                   const glex_rdma_req_t *req, char *local)
{
    struct help_copy copy = {
        .ep = ep,
        .peer = peer,
        .job = &ep->segment.hdr->job,
        .addr = rmem->addr + req->rmt_offset,
        .local = local,
        .len = req->len,
        .type = req->type,
        .granules = help_granules(req->len),
    };

    return help_is_worth(ep, peer, req->len) ?
               help_copy_both(&copy, req) :
               glex_cma_copy(ep, peer, copy.addr, local, req->len, req->type);
}

/* ---- helper ---------------------------------------------------------------------------------- */

/* The thread of this process that copies a piece has it. No thread waits for it, but exit(). */
static struct glex_lock help_lock = GLEX_LOCK_INITIAL;

/* A piece of another endpoint's copy, in the order of the fields of the job. */
struct help_part {
    uint64_t claim, report; /* values at the claim */
    uint32_t num;           /* granules */
    char *own;              /* memory of this process */
    uint64_t addr;          /* the asker's memory */
    uint64_t len;
    enum glex_rdma_type type; /* of the helper's transfer: the opposite of the request's */
};

/*
 * Finds the next piece of a job. Nothing in the job is trusted: our own table decides whether the
 * range is registered, for this direction. If the claim then succeeds, the fields belong to the copy
 * that the claim names.
 *
 * The acquire of the claim pairs with the release of the open copy. The acquire of a field pairs with
 * the release of the field for a later copy. This process then sees the closed copy, too, and the
 * claim fails. The report is loaded relaxed. Either this process has stored the report under the same
 * lock, or the initiator has stored the report before the initiator opened the copy.
 */
static bool help_find(struct glex_endpoint *ep, const struct glex_job *job, struct help_part *part)
{
    uint64_t owner, type, mh, offset, addr, len, off;
    uint32_t need, first;

    part->claim = __atomic_load_n(&job->claim, __ATOMIC_ACQUIRE);
    part->report = __atomic_load_n(&job->report, __ATOMIC_RELAXED);
    owner = __atomic_load_n(&job->owner, __ATOMIC_ACQUIRE);
    type = __atomic_load_n(&job->type, __ATOMIC_ACQUIRE);
    mh = __atomic_load_n(&job->mh, __ATOMIC_ACQUIRE);
    offset = __atomic_load_n(&job->offset, __ATOMIC_ACQUIRE);
    addr = __atomic_load_n(&job->addr, __ATOMIC_ACQUIRE);
    len = __atomic_load_n(&job->len, __ATOMIC_ACQUIRE);

    first = (uint32_t)(part->claim & GLEX_CLAIM_PLACE_MASK);
    off = (uint64_t)first * HELP_GRANULE;
    if (owner != ep->segment.incarnation || len > GLEX_MAX_RDMA_LEN || off >= len ||
        offset > UINT32_MAX || (part->report & GLEX_REPORT_FAILED) ||
        GLEX_CLAIM_NUMBER(part->report) != GLEX_CLAIM_NUMBER(part->claim)) {
        return false;
    }
    need = type == GLEX_RDMA_TYPE_PUT ? GLEX_MEM_WRITE : GLEX_MEM_READ;
    part->type = type == GLEX_RDMA_TYPE_PUT ? GLEX_RDMA_TYPE_GET : GLEX_RDMA_TYPE_PUT;
    part->num = glex_help_piece(len, first);
    part->len = help_bytes(len, first, part->num);
    part->addr = addr + off;
    part->own = glex_mem_range(&ep->mem, mh, UINT64_MAX, offset + off, part->len, need);
    return part->own != NULL;
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

/* Copies the piece. If this fails, the asker's own copy decides the request, so nothing is logged. */
static bool help_copy_part(struct glex_endpoint *ep, struct glex_peer *peer,
                           const struct help_part *part)
{
    bool logged = peer->private_failed;
    int status;

    peer->private_failed = true;
    status = glex_cma_copy(ep, peer, part->addr, part->own, part->len, part->type);
    peer->private_failed = logged;
    return status == GLEX_REQ_DONE;
}

/* Returns false if the asker has no piece for us any more. */
static bool help_one(struct glex_endpoint *ep, uint64_t addr)
{
    struct glex_peer *peer = help_asker(ep, addr);
    struct help_part part;
    struct glex_job *job;
    bool done;

    if (peer == NULL) {
        return false;
    }
    job = &peer->base->job;
    if (!help_find(ep, job, &part)) {
        return false;
    }
    /* relaxed: the acquire of the same value in help_find() has ordered what follows */
    if (!__atomic_compare_exchange_n(&job->claim, &part.claim, part.claim + part.num, false,
                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        return true; /* the initiator was faster: the next poll checks again */
    }
    done = help_copy_part(ep, peer, &part);
    if (ep->forked) { /* within the copy: the peer's segment is the parent's */
        return false;
    }
    /* release: the initiator that sees the report sees the copied bytes */
    __atomic_store_n(&job->report, done ? part.report + part.num : part.report | GLEX_REPORT_FAILED,
                     __ATOMIC_RELEASE);
    if (done) {
        GLEX_COUNT(ep, help_bytes, part.len);
    }
    return done;
}

void GLEX_NOINLINE glex_help_poll(struct glex_endpoint *ep)
{
    uint64_t *word = &ep->segment.hdr->asker, asker;

    if (ep->forked || !glex_env()->copy_help || !glex_lock_try(&help_lock)) {
        return;
    }
    asker = __atomic_load_n(word, __ATOMIC_ACQUIRE); /* pairs with help_copy_both() */
    if (asker != 0 && !help_one(ep, asker & ~GLEX_ASKER)) {
        /* relaxed: the next poll reads the store of the next asker */
        (void)__atomic_compare_exchange_n(word, &asker, 0, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    }
    if (!ep->forked) { /* in a child of fork() the lock is new, and no thread holds it */
        glex_lock_give(&help_lock);
    }
}

void GLEX_NOINLINE glex_help_poll_unlocked(struct glex_endpoint *ep)
{
    if (!ep->threads.on) {
        glex_help_poll(ep);
    } else if (pthread_mutex_trylock(&ep->threads.lock) == 0) {
        glex_help_poll(ep);
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
