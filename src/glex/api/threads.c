#include "api/threads.h"
#include "base/log.h"
#include "core/help.h"
#include "core/endpoint.h"
#include "core/wait.h"

#include <stdlib.h>

/* A copy of a ring's entry. */
struct glex_copy {
    char slot[1 << GLEX_SLOT_SHIFT] __attribute__((aligned(1 << GLEX_SLOT_SHIFT)));
    struct glex_copy *next;
    uint32_t len;
};

/* A thread's copies from one queue, oldest first. `end` and `cursor` point to the link of the next
 * copy. */
struct glex_copies {
    struct glex_copy *first, **end;
    struct glex_copy **cursor; /* next to probe */
    uint32_t num;
};

/* A thread that has copies. */
struct glex_prober {
    struct glex_prober *next;
    uint64_t thread;
    struct glex_copies copies[2]; /* of MPQ and EQ */
};

/* Returns a number that no other thread of this process ever has. */
static uint64_t threads_self(void)
{
    static __thread uint64_t self;
    static uint64_t last;

    if (self == 0) {
        self = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    }
    return self;
}

/* ---- posting --------------------------------------------------------------------------------- */

static glex_ret_t locked_send_imm_mp(glex_ep_handle_t ep, glex_imm_mp_req_t *req,
                                     glex_imm_mp_req_t **bad_req)
{
    GLEX_LOCKED(glex_endpoint(ep));
    return glex_mp_post(ep, req, bad_req);
}

static glex_ret_t locked_imm_rdma(glex_ep_handle_t ep, glex_imm_rdma_req_t *req,
                                  glex_imm_rdma_req_t **bad_req)
{
    GLEX_LOCKED(glex_endpoint(ep));
    return glex_imm_rdma_post(ep, req, bad_req);
}

static glex_ret_t locked_rdma(glex_ep_handle_t ep, glex_rdma_req_t *req, glex_rdma_req_t **bad_req)
{
    GLEX_LOCKED(glex_endpoint(ep));
    return glex_rdma_post(ep, req, bad_req);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static struct glex_prober **prober_find(struct glex_endpoint *ep)
{
    struct glex_prober **link = &ep->threads.probers;

    while (*link != NULL && (*link)->thread != threads_self()) {
        link = &(*link)->next;
    }
    return link;
}

/* Returns the calling thread's copies of a queue, or NULL if the thread has no copies. */
static struct glex_copies *copies_find(struct glex_endpoint *ep, int which)
{
    struct glex_prober *prober = *prober_find(ep);

    return prober != NULL && prober->copies[which].num != 0 ? &prober->copies[which] : NULL;
}

static void copies_init(struct glex_copies *copies)
{
    copies->first = NULL;
    copies->end = copies->cursor = &copies->first;
    copies->num = 0;
}

/* Returns the same, made if need be, or NULL without memory. */
static struct glex_copies *copies_make(struct glex_endpoint *ep, int which)
{
    struct glex_prober *prober = *prober_find(ep);

    if (prober == NULL) {
        prober = malloc(sizeof(*prober));
        if (prober == NULL) {
            return NULL;
        }
        prober->thread = threads_self();
        copies_init(&prober->copies[GLEX_RING_MPQ]);
        copies_init(&prober->copies[GLEX_RING_EQ]);
        prober->next = ep->threads.probers;
        ep->threads.probers = prober;
    }
    return &prober->copies[which];
}

/* Returns memory for a copy, the memory of a discarded copy if there is some. NULL: no memory. */
static struct glex_copy *copy_alloc(struct glex_endpoint *ep)
{
    struct glex_copy *copy = ep->threads.unused;

    if (copy == NULL) {
        return aligned_alloc(_Alignof(struct glex_copy), sizeof(*copy));
    }
    ep->threads.unused = copy->next;
    return copy;
}

static void copies_append(struct glex_copies *copies, struct glex_copy *copy)
{
    copy->next = NULL;
    *copies->end = copy;
    copies->end = &copy->next;
    copies->num++;
}

static void copies_drop_first(struct glex_endpoint *ep, struct glex_copies *copies)
{
    struct glex_copy *copy = copies->first;

    if (copies->cursor == &copy->next) {
        copies->cursor = &copies->first;
    }
    if (copies->end == &copy->next) {
        copies->end = &copies->first;
    }
    copies->first = copy->next;
    copies->num--;
    copy->next = ep->threads.unused;
    ep->threads.unused = copy;
}

/* Frees the calling thread's record if the thread has no copies any more, so threads that have ended
 * leave none. */
static void prober_release(struct glex_endpoint *ep)
{
    struct glex_prober **link = prober_find(ep), *prober = *link;

    if (prober != NULL && prober->copies[GLEX_RING_MPQ].num == 0 &&
        prober->copies[GLEX_RING_EQ].num == 0) {
        *link = prober->next;
        free(prober);
    }
}

/* ---- probing --------------------------------------------------------------------------------- */

/* Takes the oldest entry out of the ring, into `copy`. Returns false if there is no entry. */
static bool threads_take(struct glex_endpoint *ep, int which, struct glex_copy *copy)
{
    uint64_t pos = glex_queue(ep, which)->head;
    void *slot = glex_queue_find(ep, which, &pos, &copy->len);

    if (slot == NULL) {
        return false;
    }
    glex_queue_take(ep, which, slot, pos, copy->len);
    memcpy(copy->slot, slot, sizeof(copy->slot));
    glex_queue_discard_in_turn(ep, which);
    return true;
}

/* Takes the oldest entry out of the ring for the calling thread, behind its other copies. */
static glex_ret_t threads_take_copy(struct glex_endpoint *ep, int which, struct glex_copy **copy_p)
{
    struct glex_copies *copies = copies_make(ep, which);
    struct glex_copy *copy;

    if (copies == NULL || copies->num > glex_queue(ep, which)->mask ||
        (copy = copy_alloc(ep)) == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    if (!threads_take(ep, which, copy)) {
        copy->next = ep->threads.unused;
        ep->threads.unused = copy;
        return glex_queue_none(which);
    }
    copies_append(copies, copy);
    copies->cursor = &copy->next; /* all earlier copies were probed before */
    *copy_p = copy;
    return GLEX_SUCCESS;
}

/* Probes the calling thread's copies, then the ring. */
static glex_ret_t threads_try(struct glex_endpoint *ep, int which, bool first,
                              struct glex_copy **copy_p)
{
    struct glex_copies *copies = copies_find(ep, which);
    struct glex_copy *copy = copies == NULL ? NULL : first ? copies->first : *copies->cursor;

    if (copy == NULL) {
        return threads_take_copy(ep, which, copy_p);
    }
    copies->cursor = &copy->next;
    *copy_p = copy;
    return GLEX_SUCCESS;
}

/* Waits without the lock for an entry in the ring. With timeout 0, checks a stalled queue from time
 * to time. SUCCESS: read the queue again. */
static glex_ret_t threads_wait(struct glex_endpoint *ep, int which, int32_t timeout,
                               uint64_t *deadline)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);
    uint64_t pos = rx->head;
    uint32_t len;

    if (timeout < -1) {
        return GLEX_INVALID_PARAM;
    }
    if (timeout == 0 && --rx->polls_left != 0) {
        if (glex_help_is_asked(ep)) {
            glex_help_poll(ep);
        }
        return glex_queue_none(which);
    }
    if (*deadline == 0) {
        *deadline = glex_wait_deadline(timeout);
    }
    if (glex_queue_find(ep, which, &pos, &len) != NULL) {
        return GLEX_SUCCESS;
    }
    return glex_wait_for(ep, which, pos, *deadline);
}

static glex_ret_t threads_probe(struct glex_endpoint *ep, int which, bool first, int32_t timeout,
                                struct glex_copy **copy_p)
{
    const glex_ret_t none = glex_queue_none(which);
    uint64_t deadline = 0;
    glex_ret_t ret, waited = GLEX_SUCCESS;

    for (;;) {
        ret = threads_try(ep, which, first, copy_p);
        if (ret != none || waited != GLEX_SUCCESS) {
            return ret != none ? ret : waited;
        }
        waited = threads_wait(ep, which, timeout, &deadline);
    }
}

struct glex_entry glex_threads_probe(struct glex_endpoint *ep, int which, bool first,
                                     int32_t timeout)
{
    struct glex_entry entry = {.ret = GLEX_INVALID_PARAM};
    struct glex_copy *copy;

    if (!ep->forked) {
        GLEX_LOCKED(ep);
        entry.ret = threads_probe(ep, which, first, timeout, &copy);
        if (entry.ret == GLEX_SUCCESS) {
            entry.slot = copy->slot;
            entry.len = copy->len;
        } else {
            prober_release(ep);
        }
    }
    return entry;
}

glex_ret_t glex_threads_discard(struct glex_endpoint *ep, int which)
{
    struct glex_copies *copies;

    if (ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    copies = copies_find(ep, which);
    if (copies != NULL) {
        while (copies->cursor != &copies->first) {
            copies_drop_first(ep, copies);
        }
        prober_release(ep);
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_threads_receive(struct glex_endpoint *ep, int32_t timeout, glex_ep_addr_t *src,
                                void *data, uint32_t *len)
{
    const struct glex_mp_slot *slot;
    struct glex_copies *copies;
    struct glex_copy **cursor;
    struct glex_copy *copy;
    glex_ret_t ret;

    if (ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    copies = copies_find(ep, GLEX_RING_MPQ);
    cursor = copies != NULL ? copies->cursor : NULL;
    ret = threads_probe(ep, GLEX_RING_MPQ, true, timeout, &copy);
    if (ret == GLEX_SUCCESS) {
        slot = (const struct glex_mp_slot *)(const void *)copy->slot;
        src->v = slot->src;
        *len = copy->len;
        glex_copy_small(data, slot->data, copy->len);
        if (cursor != NULL && cursor != &copies->first) {
            copies->cursor = cursor; /* later messages that were probed stay probed */
        }
        copies_drop_first(ep, copies_find(ep, GLEX_RING_MPQ));
    }
    prober_release(ep);
    return ret;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static void threads_set_on(struct glex_endpoint *ep)
{
    ep->threads.on = true;
    ep->base = (struct glex_ep){locked_send_imm_mp, locked_imm_rdma, locked_rdma};
}

glex_ret_t glex_threads_init(struct glex_endpoint *ep)
{
    if (pthread_mutex_init(&ep->threads.lock, NULL) != 0) {
        glex_error("no lock for an endpoint");
        return GLEX_NO_MEM_RESOURCE;
    }
    threads_set_on(ep);
    return GLEX_SUCCESS;
}

void glex_threads_fork(struct glex_endpoint *ep)
{
    ep->forked = true;
    pthread_mutex_init(&ep->threads.lock, NULL); /* may have been held by another thread */
    threads_set_on(ep);
}

static void copies_free(struct glex_copy *copy)
{
    struct glex_copy *next;

    for (; copy != NULL; copy = next) {
        next = copy->next;
        free(copy);
    }
}

void glex_threads_cleanup(struct glex_endpoint *ep)
{
    struct glex_prober *prober;

    if (!ep->threads.on) {
        return;
    }
    ep->threads.on = false;
    pthread_mutex_destroy(&ep->threads.lock);
    while ((prober = ep->threads.probers) != NULL) {
        copies_free(prober->copies[GLEX_RING_MPQ].first);
        copies_free(prober->copies[GLEX_RING_EQ].first);
        ep->threads.probers = prober->next;
        free(prober);
    }
    copies_free(ep->threads.unused);
    ep->threads.unused = NULL;
}
