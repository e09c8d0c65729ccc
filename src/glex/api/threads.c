#include "api/threads.h"
#include "base/log.h"
#include "core/endpoint.h"
#include "core/wait.h"

#include <stdlib.h>

/* A copy of a ring's entry. */
struct glex_copy {
    struct glex_copy *next;
    uint32_t          len;
    char              slot[1 << GLEX_SLOT_SHIFT] __attribute__((aligned(1 << GLEX_SLOT_SHIFT)));
};

/* Copies from one queue, in the order of their coming. Ends and cursor are where the next one is
 * linked. */
struct glex_copies {
    struct glex_copy *first, **end;
    struct glex_copy **cursor; /* next to probe */
    uint32_t num;
};

struct glex_prober {
    struct glex_prober *next;
    uint64_t            thread;
    struct glex_copies  copies[2];
};

/* A number that no other thread of this process ever has. */
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

static void copies_init(struct glex_copies *copies)
{
    copies->first = NULL;
    copies->end = copies->cursor = &copies->first;
    copies->num = 0;
}

/* The calling thread's copies of a queue; NULL: it never had any. */
static struct glex_copies *copies_of_self(const struct glex_endpoint *ep, int which)
{
    struct glex_prober *prober;

    for (prober = ep->threads.probers; prober != NULL; prober = prober->next) {
        if (prober->thread == threads_self()) {
            return &prober->copies[which];
        }
    }
    return NULL;
}

/* The same, which are made if need be. NULL: no memory. */
static struct glex_copies *copies_make(struct glex_endpoint *ep, int which)
{
    struct glex_copies *copies = copies_of_self(ep, which);
    struct glex_prober *prober;

    if (copies != NULL) {
        return copies;
    }
    prober = malloc(sizeof(*prober));
    if (prober == NULL) {
        return NULL;
    }
    prober->thread = threads_self();
    copies_init(&prober->copies[GLEX_RING_MPQ]);
    copies_init(&prober->copies[GLEX_RING_EQ]);
    prober->next = ep->threads.probers;
    ep->threads.probers = prober;
    return &prober->copies[which];
}

static struct glex_copy *copies_probe(struct glex_copies *copies, bool first)
{
    struct glex_copy *copy = first ? copies->first : *copies->cursor;

    if (copy != NULL) {
        copies->cursor = &copy->next;
    }
    return copy;
}

static void copies_drop_first(struct glex_copies *copies)
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
    free(copy);
}

static void copies_discard(struct glex_copies *copies)
{
    while (copies->cursor != &copies->first) {
        copies_drop_first(copies);
    }
}

/* ---- a ring ---------------------------------------------------------------------------------- */

/* Nobody holds a queue of which everything that was probed is discarded. */
static bool threads_may_hold(struct glex_endpoint *ep, int which)
{
    const struct glex_ring_rx *rx = glex_queue(ep, which);

    return rx->seen <= rx->head || ep->threads.holder[which] == threads_self();
}

/* What no thread has probed begins here. */
static uint64_t threads_unseen(const struct glex_ring_rx *rx)
{
    return rx->cursor > rx->seen ? rx->cursor : rx->seen;
}

/* Probe as the holder. */
static glex_ret_t threads_probe_ring(struct glex_endpoint *ep, int which, bool first,
                                     struct glex_entry *entry)
{
    const struct glex_ring_rx *rx = glex_queue(ep, which);
    uint64_t pos = first ? rx->head : rx->cursor;

    entry->slot = glex_queue_find(ep, which, &pos, &entry->len);
    if (entry->slot == NULL) {
        return glex_queue_none(which);
    }
    ep->threads.holder[which] = threads_self();
    glex_queue_take(ep, which, entry->slot, pos, entry->len);
    return GLEX_SUCCESS;
}

/* Take an entry out of the ring, whoever holds what is before it: the copy is the last one probed.
 * NULL: no memory. */
static struct glex_copy *threads_copy(struct glex_endpoint *ep, int which, void *slot, uint64_t pos,
                                      uint32_t len)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);
    struct glex_copies *copies = copies_make(ep, which);
    struct glex_copy *copy;
    bool held = rx->seen > rx->head;

    if (copies == NULL || copies->num > rx->mask) {
        return NULL;
    }
    copy = aligned_alloc(_Alignof(struct glex_copy), sizeof(*copy));
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy->slot, slot, sizeof(copy->slot));
    copy->len = len;
    copy->next = NULL;
    *copies->end = copy;
    copies->end = copies->cursor = &copy->next; /* all before it were probed */
    copies->num++;
    if (which == GLEX_RING_EQ && len != 0) {
        glex_event_place(ep, slot, len);
    }
    /* No producer writes there before the head has passed; a thread that waits may look. */
    __atomic_store_n((uint64_t *)slot, GLEX_CTRL(pos, GLEX_CTRL_LEN_SKIP), __ATOMIC_RELAXED);
    rx->seen = pos + 1;
    if (rx->armed) {
        glex_ring_disarm(rx);
    }
    if (!held) {
        rx->cursor = pos + 1;
        glex_queue_discard(ep, which);
    }
    return copy;
}

/* Probe beside the holder. */
static glex_ret_t threads_probe_copy(struct glex_endpoint *ep, int which, struct glex_entry *entry)
{
    uint64_t pos = threads_unseen(glex_queue(ep, which));
    struct glex_copy *copy;
    uint32_t len;
    void *slot;

    slot = glex_queue_find(ep, which, &pos, &len);
    if (slot == NULL) {
        return glex_queue_none(which);
    }
    copy = threads_copy(ep, which, slot, pos, len);
    if (copy == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    entry->slot = copy->slot;
    entry->len = copy->len;
    return GLEX_SUCCESS;
}

/* ---- probing --------------------------------------------------------------------------------- */

static glex_ret_t threads_try(struct glex_endpoint *ep, int which, bool first,
                              struct glex_entry *entry)
{
    struct glex_copies *copies = copies_of_self(ep, which);
    struct glex_copy *copy;

    if ((copies == NULL || copies->num == 0) && threads_may_hold(ep, which)) {
        return threads_probe_ring(ep, which, first, entry);
    }
    copy = copies != NULL ? copies_probe(copies, first) : NULL;
    if (copy == NULL) {
        return threads_probe_copy(ep, which, entry);
    }
    entry->slot = copy->slot;
    entry->len = copy->len;
    return GLEX_SUCCESS;
}

/* Nothing is there: wait, without the lock, or at least look after a stalled queue. SUCCESS: look
 * again. */
static glex_ret_t threads_wait(struct glex_endpoint *ep, int which, int32_t timeout,
                               uint64_t *deadline)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);
    uint64_t pos;
    uint32_t len;

    if (timeout < -1) {
        return GLEX_INVALID_PARAM;
    }
    if (timeout == 0 && --rx->polls_left != 0) {
        return glex_queue_none(which);
    }
    if (*deadline == 0) {
        *deadline = glex_wait_deadline(timeout);
    }
    pos = threads_unseen(rx);
    if (glex_queue_find(ep, which, &pos, &len) != NULL) {
        return GLEX_SUCCESS;
    }
    return glex_wait_for(ep, which, pos, *deadline);
}

static glex_ret_t threads_probe(struct glex_endpoint *ep, int which, bool first, int32_t timeout,
                                struct glex_entry *entry)
{
    const glex_ret_t none = glex_queue_none(which);
    uint64_t deadline = 0;
    glex_ret_t ret, waited = GLEX_SUCCESS;

    for (;;) {
        ret = threads_try(ep, which, first, entry);
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

    if (!ep->forked) {
        GLEX_LOCKED(ep);
        entry.ret = threads_probe(ep, which, first, timeout, &entry);
        if (entry.ret != GLEX_SUCCESS) {
            entry.slot = NULL;
        }
    }
    return entry;
}

glex_ret_t glex_threads_discard(struct glex_endpoint *ep, int which)
{
    struct glex_ring_rx *rx = glex_queue(ep, which);
    struct glex_copies *copies;
    uint64_t pos;
    uint32_t len;

    if (ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    copies = copies_of_self(ep, which);
    if (copies != NULL && copies->num != 0) {
        copies_discard(copies);
    } else if (threads_may_hold(ep, which) && rx->cursor != rx->head) {
        /* With it what others have taken from behind it. */
        pos = rx->cursor;
        (void)glex_queue_find(ep, which, &pos, &len);
        rx->cursor = pos;
        glex_queue_discard(ep, which);
    }
    return GLEX_SUCCESS;
}

/* Copy out and remove what glex_threads_probe() would find first. */
static void threads_receive(struct glex_endpoint *ep, const struct glex_entry *entry,
                            uint64_t cursor, glex_ep_addr_t *src, void *data, uint32_t *len)
{
    struct glex_copies *copies = copies_of_self(ep, GLEX_RING_MPQ);
    const struct glex_mp_slot *slot = entry->slot;

    src->v = slot->src;
    *len = entry->len;
    glex_copy_small(data, slot->data, entry->len);
    if (copies != NULL && copies->num != 0) {
        copies_drop_first(copies);
        return;
    }
    glex_queue_discard(ep, GLEX_RING_MPQ);
    /* Others that were probed before stay so. */
    if (cursor > ep->mpq.cursor) {
        ep->mpq.cursor = cursor;
    }
}

glex_ret_t glex_threads_receive(struct glex_endpoint *ep, int32_t timeout, glex_ep_addr_t *src,
                                void *data, uint32_t *len)
{
    const uint64_t self = threads_self();
    struct glex_entry entry;
    uint64_t cursor = 0;
    glex_ret_t ret;

    if (ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    GLEX_LOCKED(ep);
    /* While this thread holds the queue nobody else moves its cursor. */
    if (ep->mpq.seen > ep->mpq.head && ep->threads.holder[GLEX_RING_MPQ] == self) {
        cursor = ep->mpq.cursor;
    }
    ret = threads_probe(ep, GLEX_RING_MPQ, true, timeout, &entry);
    if (ret == GLEX_SUCCESS) {
        threads_receive(ep, &entry, cursor, src, data, len);
    }
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

void glex_threads_cleanup(struct glex_endpoint *ep)
{
    struct glex_prober *prober;
    int which;

    if (!ep->threads.on) {
        return;
    }
    ep->threads.on = false;
    pthread_mutex_destroy(&ep->threads.lock);
    while ((prober = ep->threads.probers) != NULL) {
        for (which = GLEX_RING_MPQ; which <= GLEX_RING_EQ; which++) {
            while (prober->copies[which].first != NULL) {
                copies_drop_first(&prober->copies[which]);
            }
        }
        ep->threads.probers = prober->next;
        free(prober);
    }
}
