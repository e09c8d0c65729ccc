/*
 * The shared heap of a process, as libglex sees it. The library libglex_heap.so, which
 * `glexrun --shared-heap` preloads, keeps long buffers of malloc() in a file in memory. libglex lets
 * peers map this file. Without the library, the weak function below is NULL.
 */
#ifndef SHARED_HEAP_H
#define SHARED_HEAP_H

#include "common/memfd.h"

#include <stddef.h>

/* Changes with struct shared_heap: both libraries must be of one version. */
#define SHARED_HEAP_VERSION 1

#define SHARED_HEAP_NAME_LEN 40

/** The name of the file, for its random number. */
static inline void shared_heap_name(char name[SHARED_HEAP_NAME_LEN], uint64_t id)
{
    snprintf(name, SHARED_HEAP_NAME_LEN, "glex-heap.%016llx", (unsigned long long)id);
}

struct shared_heap {
    uint32_t version;
    int fd;              /* of the file; the program may have closed it */
    char *base;          /* NULL: nothing is in the heap */
    uint64_t size;       /* of the file, which never changes */
    uint64_t id;         /* the random number */
    const char *refused; /* why the heap does not serve this process; NULL: it does */
};

/**
 * Copy what is known of this process's heap. Any thread may call this function. In a child of fork()
 * the heap is private, so nothing is in the shared heap of the child.
 */
void shared_heap_query(struct shared_heap *heap) __attribute__((weak, visibility("default")));

#endif
