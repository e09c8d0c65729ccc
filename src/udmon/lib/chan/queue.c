#include "queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int udmon_queue_open(struct udmon_queue *queue, size_t size)
{
    memset(queue, 0, sizeof(*queue));
    queue->size = size & ~(sizeof(uint32_t) - 1);
    queue->bytes = malloc(queue->size);
    return (queue->bytes != NULL) ? 0 : -ENOMEM;
}

void udmon_queue_close(struct udmon_queue *queue)
{
    free(queue->bytes);
    queue->bytes = NULL;
}

/*
 * Room for `space` bytes in one piece: behind the tail, or at the start of the ring. While the
 * records lie in one stretch, tail > head; after a wrap, tail <= head.
 */
static bool queue_place(struct udmon_queue *queue, size_t space)
{
    if (queue->count == 0) {
        queue->head = queue->tail = 0;
        return space <= queue->size;
    }
    if (queue->tail > queue->head) {
        if (space <= (queue->size - queue->tail)) {
            return true;
        }
        if (space <= queue->head) {
            queue->end = queue->tail;
            queue->tail = 0;
            return true;
        }
        return false;
    }
    return space <= (queue->head - queue->tail);
}

long udmon_queue_lend(struct udmon_queue *queue, const void *data, size_t length)
{
    uint32_t stored = length;
    size_t space = udmon_queue_space(length);
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

void udmon_queue_keep(struct udmon_queue *queue, size_t from)
{
    size_t length;

    if (queue->lent != NULL) {
        length = udmon_queue_length_at(queue, queue->lent_at);
        memcpy(queue->bytes + queue->lent_at + sizeof(uint32_t) + from,
               (const uint8_t *)queue->lent + from, length - from);
        queue->lent = NULL;
    }
}
