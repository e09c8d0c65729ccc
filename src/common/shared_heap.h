/*
 * The shared heap of a process, as libglex sees it. The library libglex_heap.so, which
 * `glexrun --shared-heap` preloads, keeps long buffers of malloc() in a file in memory. libglex lets
 * peers map this file. Without the library, the weak function below is NULL.
 */
#ifndef SHARED_HEAP_H
#define SHARED_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Changes with struct shared_heap: both libraries must be of one version. */
#define SHARED_HEAP_VERSION 1

/* The name of the file as /proc/PID/fd shows it, for its random number */
#define SHARED_HEAP_NAME_FORMAT "glex-heap.%016llx"
#define SHARED_HEAP_LINK_FORMAT "/memfd:" SHARED_HEAP_NAME_FORMAT " (deleted)"

struct shared_heap {
    uint32_t version;
    int fd;              /* of the file; the program may have closed it */
    char *base;          /* NULL: nothing is in the heap */
    uint64_t size;       /* of the file, which never changes */
    uint64_t id;         /* the random number */
    const char *refused; /* why the heap does not serve this process; NULL: it does */
};

/** Whether a descriptor is of the heap with this random number. Only the owner of the heap, and
 *  processes that got the file from the owner, have such a descriptor. */
static inline bool shared_heap_is_file(int fd, uint64_t id)
{
    char path[32], name[64], right[64];
    ssize_t len;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    snprintf(right, sizeof(right), SHARED_HEAP_LINK_FORMAT, (unsigned long long)id);
    len = fd < 0 ? -1 : readlink(path, name, sizeof(name) - 1);
    if (len < 0) {
        return false;
    }
    name[len] = '\0';
    return strcmp(name, right) == 0;
}

/**
 * Copy what is known of this process's heap. Any thread may call this function. In a child of fork()
 * the heap is private, so nothing is in the shared heap of the child.
 */
void shared_heap_query(struct shared_heap *heap) __attribute__((weak, visibility("default")));

#endif
