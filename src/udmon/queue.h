/*
 * Records waiting to be sent: a ring of bytes of fixed size, oldest first. Full, it makes room by
 * dropping the oldest. A record lies in one piece.
 */
#ifndef UDMON_QUEUE_H
#define UDMON_QUEUE_H

#include <stddef.h>
#include <stdint.h>

typedef struct udmon_queue {
    uint8_t *bytes;
    size_t size;
    size_t head; /* where the oldest record begins */
    size_t tail; /* where the next one will */
    size_t end;  /* where the records before the wrap end, while there is a wrap */
    size_t count;
    size_t payload; /* bytes of all records */
    const void *lent; /* the newest one's bytes, which are not in the ring yet; or NULL */
    size_t lent_at;   /* where in the ring they will be */
} udmon_queue_t;

int udmon_queue_open(udmon_queue_t *queue, size_t size);
void udmon_queue_close(udmon_queue_t *queue);

/*
 * Append a copy. Returns how many of the oldest records had to go, or -EMSGSIZE if the record is
 * longer than the whole queue.
 */
long udmon_queue_push(udmon_queue_t *queue, const void *data, size_t length);

/*
 * The same without the copy: `data` has to stay until udmon_queue_keep, which copies what is still
 * in the queue then, but for its first `from` bytes. Nothing is pushed in between.
 */
long udmon_queue_lend(udmon_queue_t *queue, const void *data, size_t length);
void udmon_queue_keep(udmon_queue_t *queue, size_t from);

/* The oldest record, or NULL. */
const void *udmon_queue_front(const udmon_queue_t *queue, size_t *length_p);

/* The record behind that at `*position` (start with head), or NULL: to look without taking. */
const void *udmon_queue_next(const udmon_queue_t *queue, size_t *position, size_t *length_p);

void udmon_queue_pop(udmon_queue_t *queue);

#endif
