/*
 * Registered memory: the owner's side.
 */
#ifndef GLEX_MEM_H
#define GLEX_MEM_H

#include "layout.h"

#include <pthread.h>

struct glex_endpoint;
struct glex_region;

/* The owner's private copy of a table entry: what the owner does is decided by it alone. */
struct glex_mem_entry {
    uint64_t state; /* as in the table */
    char    *addr;
    uint64_t len;
    uint32_t next_free;
};

struct glex_mem {
    struct glex_mem_entry *table; /* GLEX_MMT_CAPACITY; pages come as they are used */
    struct glex_mmt_entry *mmt;   /* the shared table */
    pthread_mutex_t        lock;  /* registering and allocating, from any thread */
    uint32_t               first_free;
    uint32_t               used; /* entries ever used */
    struct glex_region    *regions;
    uint64_t               file_end; /* of the segment's file; offsets are never used again */
};

glex_ret_t glex_mem_init(struct glex_endpoint *ep);

/** Free the table and all NIC memory. */
void glex_mem_cleanup(struct glex_endpoint *ep);

/** Name of an entry in requests. */
static inline uint64_t glex_mem_handle_v(uint32_t index, uint64_t state)
{
    return index | (uint64_t)GLEX_MMT_GEN(state) << 16;
}

/**
 * Address of a range of own registered memory, or NULL.
 * @param mh    Handle as a number.
 * @param need  Flags that it must have been registered with.
 * acquire: pairs with the registering thread's release.
 */
static inline char *glex_mem_range(const struct glex_mem *mem, uint64_t mh, uint64_t offset,
                                   uint64_t len, uint32_t need)
{
    const struct glex_mem_entry *entry = &mem->table[mh & 0xffff];
    uint64_t state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);

    need |= GLEX_MMT_VALID;
    if (glex_unlikely((state & need) != need || GLEX_MMT_GEN(state) != mh >> 16 ||
                      offset + len > entry->len)) {
        return NULL;
    }
    return entry->addr + offset;
}

/** Offset in the segment's file of a range of NIC memory; 0: it is not NIC memory. */
uint64_t glex_region_file_off(const struct glex_mem *mem, const char *addr, uint64_t len);

/** Unmap all NIC memory. */
void glex_region_cleanup(struct glex_mem *mem);

#endif
