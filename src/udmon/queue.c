#include "queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A record in the ring: its length, then its bytes, padded so that lengths are aligned. */
typedef uint32_t record_length_t;

static size_t record_space(size_t length)
{
    size_t align = sizeof(record_length_t);

    return sizeof(record_length_t) + ((length + align - 1) & ~(align - 1));
}

static size_t record_length_at(const udmon_queue_t *queue, size_t position)
{
    record_length_t length;

    memcpy(&length, queue->bytes + position, sizeof(length));
    return length;
}

int udmon_queue_open(udmon_queue_t *queue, size_t size)
{
    memset(queue, 0, sizeof(*queue));
    queue->size = size & ~(sizeof(record_length_t) - 1);
    queue->bytes = malloc(queue->size);
    return (queue->bytes != NULL) ? 0 : -ENOMEM;
}

void udmon_queue_close(udmon_queue_t *queue)
{
    free(queue->bytes);
    queue->bytes = NULL;
}

/*
 * Room for `space` bytes in one piece: behind the tail, or at the start of the ring. While the
 * records lie in one stretch, tail > head; after a wrap, tail <= head.
 */
static int queue_place(udmon_queue_t *queue, size_t space)
{
    if (queue->count == 0) {
        queue->head = queue->tail = 0;
        return space <= queue->size;
    }
    if (queue->tail > queue->head) {
        if (space <= (queue->size - queue->tail)) {
            return 1;
        }
        if (space <= queue->head) {
            queue->end = queue->tail;
            queue->tail = 0;
            return 1;
        }
        return 0;
    }
    return space <= (queue->head - queue->tail);
}

long udmon_queue_lend(udmon_queue_t *queue, const void *data, size_t length)
{
    record_length_t stored = length;
    size_t space = record_space(length);
    long dropped = 0;

    if ((space > queue->size) || (length > UINT32_MAX)) {
        return -EMSGSIZE;
    }
    while (!queue_place(queue, space)) {
        udmon_queue_pop(queue);
        ++dropped;
    }
    memcpy(queue->bytes + queue->tail, &stored, sizeof(stored));
    queue->lent = data;
    queue->lent_at = queue->tail;
    queue->tail += space;
    ++queue->count;
    queue->payload += length;
    return dropped;
}

void udmon_queue_keep(udmon_queue_t *queue, size_t from)
{
    size_t length;

    if (queue->lent != NULL) {
        length = record_length_at(queue, queue->lent_at);
        memcpy(queue->bytes + queue->lent_at + sizeof(record_length_t) + from,
               (const uint8_t *)queue->lent + from, length - from);
        queue->lent = NULL;
    }
}

long udmon_queue_push(udmon_queue_t *queue, const void *data, size_t length)
{
    long dropped = udmon_queue_lend(queue, data, length);

    if (dropped >= 0) {
        udmon_queue_keep(queue, 0);
    }
    return dropped;
}

static const void *record_at(const udmon_queue_t *queue, size_t position)
{
    if ((queue->lent != NULL) && (position == queue->lent_at)) {
        return queue->lent;
    }
    return queue->bytes + position + sizeof(record_length_t);
}

const void *udmon_queue_front(const udmon_queue_t *queue, size_t *length_p)
{
    if (queue->count == 0) {
        return NULL;
    }
    *length_p = record_length_at(queue, queue->head);
    return record_at(queue, queue->head);
}

/* Behind a record: the next one, or the start of the ring where those before the wrap end. */
static size_t queue_behind(const udmon_queue_t *queue, size_t position)
{
    position += record_space(record_length_at(queue, position));
    return ((queue->tail <= queue->head) && (position == queue->end)) ? 0 : position;
}

const void *udmon_queue_next(const udmon_queue_t *queue, size_t *position, size_t *length_p)
{
    size_t next = queue_behind(queue, *position);

    if (next == queue->tail) {
        return NULL;
    }
    *position = next;
    *length_p = record_length_at(queue, next);
    return record_at(queue, next);
}

void udmon_queue_pop(udmon_queue_t *queue)
{
    if (queue->count > 0) {
        if (queue->head == queue->lent_at) {
            queue->lent = NULL; /* the newest is the oldest too */
        }
        queue->payload -= record_length_at(queue, queue->head);
        queue->head = queue_behind(queue, queue->head);
        --queue->count;
    }
}
