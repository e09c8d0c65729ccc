/*
 * Registered memory: the owner's side.
 */
#ifndef GLEX_MEM_H
#define GLEX_MEM_H

#include "shm/layout.h"

#include <pthread.h>

struct glex_endpoint;
struct glex_nicmem;

/* The owner's private copy of a table entry. Only the copy decides the owner's actions. */
struct glex_mem_entry {
    uint64_t state; /* state word of the table entry */
    char *addr;
    uint64_t len;
    uint32_t next_free;
};

struct glex_mem {
    struct glex_mem_entry *table;   /* GLEX_MMT_CAPACITY; pages come as they are used */
    struct glex_mmt_entry *mmt;     /* the shared table */
    pthread_mutex_t lock;           /* held while any thread registers or allocates */
    uint32_t first_free, last_free; /* list of free entries: the entry freed last is used again
                                     * last */
    uint32_t num_free;
    uint32_t first_gen;          /* generation of entries that were never used */
    uint32_t used;               /* entries ever used */
    struct glex_nicmem *regions; /* allocated regions of NIC memory */
    struct glex_nicmem *places;  /* free ranges of the file, which freed regions have left */
    uint64_t file_end;           /* length of the segment's file */
};

glex_ret_t glex_mem_init(struct glex_endpoint *ep);

/** Free the table and all NIC memory. */
void glex_mem_cleanup(struct glex_endpoint *ep);

/**
 * Name of an entry in requests: its index, and above it the 32 bits of its generation. An event's
 * slot has room for 16 of these (GLEX_PLACE_MASK).
 */
static inline uint64_t glex_mem_handle_v(uint32_t index, uint64_t state)
{
    return index | (state >> 32) << 16;
}

/**
 * Copies an entry consistently, although another thread may deregister and register it again at any
 * moment. The state is read first and last. A state value never recurs, because generations only
 * grow. So an entry with equal states was not changed in between. Acquire: the fields are read
 * after the first state and before the second. The writer invalidates the state before it stores
 * the fields, each with release. So a reader that sees a new field also sees the changed state.
 * @return false: the entry is invalid or has changed, so the request's registration is gone.
 */
static GLEX_ALWAYS_INLINE bool glex_mem_read(const struct glex_mem *mem, uint32_t index,
                                             struct glex_mem_entry *copy)
{
    const struct glex_mem_entry *entry = &mem->table[index];

    copy->state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
    copy->addr = __atomic_load_n(&entry->addr, __ATOMIC_ACQUIRE);
    copy->len = __atomic_load_n(&entry->len, __ATOMIC_ACQUIRE);
    return glex_likely((copy->state & GLEX_MMT_VALID) &&
                       __atomic_load_n(&entry->state, __ATOMIC_RELAXED) == copy->state);
}

/**
 * Returns the address of a range of own registered memory, or NULL.
 * @param mh    Handle as a number.
 * @param mask  The known bits of the handle: all, or GLEX_PLACE_MASK.
 * @param need  Required flags of the registration.
 */
static inline char *glex_mem_range(const struct glex_mem *mem, uint64_t mh, uint64_t mask,
                                   uint64_t offset, uint64_t len, uint32_t need)
{
    struct glex_mem_entry entry;

    if (glex_unlikely(!glex_mem_read(mem, mh & 0xffff, &entry) || (entry.state & need) != need ||
                      (glex_mem_handle_v(mh & 0xffff, entry.state) & mask) != mh ||
                      offset + len > entry.len)) {
        return NULL;
    }
    return entry.addr + offset;
}

/** Offset in the segment's file of a range of NIC memory; 0: it is not NIC memory. */
uint64_t glex_nicmem_file_off(const struct glex_mem *mem, const char *addr, uint64_t len);

/** Unmap all NIC memory. */
void glex_nicmem_cleanup(struct glex_mem *mem);

#endif
