#include "producer.h"
#include "endpoint.h"
#include "log.h"
#include "segment.h"

#include <errno.h>
#include <fcntl.h>

/* An entry is ours if it still belongs to `owner`. */
static bool producer_take(struct glex_endpoint *ep, struct glex_producer *producer, uint64_t owner)
{
    if (!__atomic_compare_exchange_n(&producer->owner, &owner, ep->segment.incarnation, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return false;
    }
    /*
     * release: a consumer that sees these sees the entry as ours. Until then the intents may hold a
     * dead one's position; the consumer waits for us for a moment, which is harmless.
     */
    __atomic_store_n(&producer->intent[GLEX_RING_MPQ], GLEX_INTENT_NONE, __ATOMIC_RELEASE);
    __atomic_store_n(&producer->intent[GLEX_RING_EQ], GLEX_INTENT_NONE, __ATOMIC_RELEASE);
    __atomic_store_n(&producer->intent[GLEX_RING_CPQ], GLEX_INTENT_NONE, __ATOMIC_RELEASE);
    __atomic_store_n(&producer->addr, ep->addr, __ATOMIC_RELAXED);
    return true;
}

/* From the end: where the table grew, that is where the free ones are. */
static struct glex_producer *producer_take_free(struct glex_endpoint *ep,
                                                struct glex_producer *producers, uint32_t ready)
{
    while (ready-- > 0) {
        /* relaxed: the compare-and-swap decides */
        if (__atomic_load_n(&producers[ready].owner, __ATOMIC_RELAXED) == 0 &&
            producer_take(ep, &producers[ready], 0)) {
            return &producers[ready];
        }
    }
    return NULL;
}

/*
 * That of a dead owner. An incarnation is never used twice, so a compare-and-swap from that of a
 * dead one cannot hit a living one. Looks at the file system for each entry.
 */
static struct glex_producer *producer_take_dead(struct glex_endpoint *ep,
                                                struct glex_producer *producers, uint32_t ready)
{
    int dirfd = ep->dev->dirfd;
    uint64_t owner;

    while (ready-- > 0) {
        owner = __atomic_load_n(&producers[ready].owner, __ATOMIC_RELAXED);
        if (owner != ep->segment.incarnation &&
            !glex_segment_is_living(dirfd, producers[ready].addr, owner) &&
            !glex_segment_is_living_anywhere(dirfd, owner) &&
            producer_take(ep, &producers[ready], owner)) {
            return &producers[ready];
        }
    }
    return NULL;
}

/* Add the entries behind the first `ready` ones, unless somebody else did. */
static bool producer_grow(struct glex_segment_header *base, const struct glex_segment_header *hdr,
                          int fd, uint32_t ready)
{
    uint64_t off = glex_producers_off(hdr->mpq_capacity, hdr->eq_capacity) +
                   ready * sizeof(struct glex_producer);
    int err;

    if (ready >= GLEX_MAX_PRODUCERS) {
        return false;
    }
    err = glex_segment_reserve(fd, 0, off, GLEX_PRODUCER_STEP_SIZE);
    if (err != 0) {
        glex_warn("endpoint %llx has room for no more than %u peers: %s",
                  (unsigned long long)hdr->addr, ready, strerror(err));
        return false;
    }
    /* release: who sees the new limit finds storage behind it. relaxed: else nothing is read */
    (void)__atomic_compare_exchange_n(&base->producers_ready, &ready, ready + GLEX_PRODUCER_STEP,
                                      false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return true;
}

struct glex_producer *glex_producer_claim(struct glex_endpoint *ep,
                                          struct glex_segment_header *base,
                                          const struct glex_segment_header *hdr, int fd)
{
    struct glex_producer *producers = glex_producers(base, hdr->mpq_capacity, hdr->eq_capacity);
    struct glex_producer *producer;
    uint32_t ready, step;

    /* A table that grows under us grows so many times at most, whatever others write there. */
    for (step = 0; step <= GLEX_MAX_PRODUCERS / GLEX_PRODUCER_STEP; step++) {
        ready = glex_producers_ready(base);
        producer = producer_take_free(ep, producers, ready);
        if (producer != NULL) {
            return producer;
        }
        if (!producer_grow(base, hdr, fd, ready)) {
            break;
        }
    }
    producer = producer_take_dead(ep, producers, glex_producers_ready(base));
    if (producer == NULL) {
        glex_warn("endpoint %llx has %u peers and takes no more", (unsigned long long)hdr->addr,
                  glex_producers_ready(base));
    }
    return producer;
}
