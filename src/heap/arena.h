/*
 * The arena of long buffers: jemalloc manages a range of addresses that is mapped from a file in
 * memory. Peers may map the file, too, so the memory does not survive fork() by itself: a child gets
 * a private copy. docs/nic.md, "The shared heap", has the reasons.
 *
 * The functions keep errno, and any thread may call them.
 */
#ifndef HEAP_ARENA_H
#define HEAP_ARENA_H

#include "common/shared_heap.h"

#include <stdbool.h>

/* The range of addresses. Empty until the arena is created. */
extern char *heap_arena_base;
extern uint64_t heap_arena_size;

/** Whether heap_arena_alloc() returned a pointer. */
static inline bool heap_arena_has(const void *ptr)
{
    /* acquire: the size is stored before the base, so it is visible too */
    const char *base = __atomic_load_n(&heap_arena_base, __ATOMIC_ACQUIRE);

    return base != NULL && (uint64_t)((const char *)ptr - base) < heap_arena_size;
}

/** Create the arena, once, for at most `size` bytes; 0: as much as the machine has. */
void heap_arena_create(uint64_t size);

/**
 * Allocate.
 * @param align  A power of two; 0: any alignment of malloc().
 * @return NULL: there is no arena, or it is full, which is logged once.
 */
void *heap_arena_alloc(size_t size, size_t align, bool zero);

/** Change the size, and move the buffer if necessary. @return NULL: as heap_arena_alloc(). */
void *heap_arena_resize(void *ptr, size_t size);

void heap_arena_free(void *ptr);

/** The usable size of a buffer. */
size_t heap_arena_usable(const void *ptr);

/** Fill in what is known of the file. */
void heap_arena_query(struct shared_heap *heap);

/** Around fork(). To be called before all other handlers in the child. */
void heap_arena_prefork(void);
void heap_arena_parent(void);
void heap_arena_child(void);

/** Print `glex: shared heap: <message>`. Allocates nothing. */
void heap_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
