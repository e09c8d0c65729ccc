/*
 * Records waiting to be sent: a ring of bytes of fixed size, oldest first. Full, it makes room by
 * dropping the oldest. A record lies in one piece.
 */
#ifndef UDMON_QUEUE_H
#define UDMON_QUEUE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct udmon_queue {
    uint8_t *bytes;
    size_t size;
    size_t head; /* where the oldest record begins */
    size_t tail; /* where the next one will */
    size_t end;  /* where the records before the wrap end, while there is a wrap */
    size_t count;
    size_t payload;   /* bytes of all records */
    const void *lent; /* the newest one's bytes, which are not in the ring yet; or NULL */
    size_t lent_at;   /* where in the ring they will be */
};

int udmon_queue_open(struct udmon_queue *queue, size_t size);
void udmon_queue_close(struct udmon_queue *queue);

/**
 * Appends a record. Returns how many of the oldest records were dropped, or -EMSGSIZE if the record
 * is longer than the whole queue. `data` must stay valid until udmon_queue_keep, which copies the
 * rest of the record from byte `from` on. Do not append another record before udmon_queue_keep.
 */
long udmon_queue_lend(struct udmon_queue *queue, const void *data, size_t length);
void udmon_queue_keep(struct udmon_queue *queue, size_t from);

/* The following functions run for every record, some of them several times. */

/** A record in the ring: its length (32 bits), then the bytes, padded to align the next length. */
static inline size_t udmon_queue_space(size_t length)
{
    size_t align = sizeof(uint32_t);

    return sizeof(uint32_t) + ((length + align - 1) & ~(align - 1));
}

static inline size_t udmon_queue_length_at(const struct udmon_queue *queue, size_t position)
{
    uint32_t length;

    memcpy(&length, queue->bytes + position, sizeof(length));
    return length;
}

static inline const void *udmon_queue_at(const struct udmon_queue *queue, size_t position)
{
    if ((queue->lent != NULL) && (position == queue->lent_at)) {
        return queue->lent;
    }
    return queue->bytes + position + sizeof(uint32_t);
}

/** The oldest record, or NULL. */
static inline const void *udmon_queue_front(const struct udmon_queue *queue, size_t *length_p)
{
    if (queue->count == 0) {
        return NULL;
    }
    *length_p = udmon_queue_length_at(queue, queue->head);
    return udmon_queue_at(queue, queue->head);
}

/** Behind a record: the next one, or the start of the ring where those before the wrap end. */
static inline size_t udmon_queue_behind(const struct udmon_queue *queue, size_t position)
{
    position += udmon_queue_space(udmon_queue_length_at(queue, position));
    return ((queue->tail <= queue->head) && (position == queue->end)) ? 0 : position;
}

/** The record behind that at `*position` (start with head), or NULL: to look without taking. */
static inline const void *udmon_queue_next(const struct udmon_queue *queue, size_t *position,
                                           size_t *length_p)
{
    size_t next = udmon_queue_behind(queue, *position);

    if (next == queue->tail) {
        return NULL;
    }
    *position = next;
    *length_p = udmon_queue_length_at(queue, next);
    return udmon_queue_at(queue, next);
}

static inline void udmon_queue_pop(struct udmon_queue *queue)
{
    if (queue->count > 0) {
        if (queue->head == queue->lent_at) {
            queue->lent = NULL; /* the newest is the oldest too */
        }
        queue->payload -= udmon_queue_length_at(queue, queue->head);
        queue->head = udmon_queue_behind(queue, queue->head);
        --queue->count;
    }
}

#endif
