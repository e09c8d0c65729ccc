#include "base/caps.h"
#include "base/log.h"
#include "core/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEM_NO_ENTRY UINT32_MAX

/*
 * A freed entry is used again only after so many others, or when all are in use. The 16 bits of its
 * generation that an event's slot has room for come round after 65,536 times as many registrations.
 */
#define MEM_MIN_FREE 64u

static size_t mem_table_size(void)
{
    return GLEX_MMT_CAPACITY * sizeof(struct glex_mem_entry);
}

glex_ret_t glex_mem_init(struct glex_endpoint *ep)
{
    const struct glex_segment *seg = &ep->segment;
    struct glex_mem *mem = &ep->mem;

    /* Reserved as a whole, so that it never moves under a thread that reads it. */
    mem->table = mmap(NULL, mem_table_size(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mem->table == MAP_FAILED) {
        mem->table = NULL;
        glex_error("no memory for a registration table: %s", strerror(errno));
        return GLEX_NO_MEM_RESOURCE;
    }
    mem->mmt = glex_segment_mmt(seg->hdr, seg->mpq_capacity, seg->eq_capacity);
    /* Handles of an endpoint that had this number before are stale here as well. */
    mem->first_gen = (uint32_t)seg->incarnation;
    mem->file_end = glex_round_up(seg->base_size, glex_page_size());
    pthread_mutex_init(&mem->lock, NULL);
    return GLEX_SUCCESS;
}

void glex_mem_cleanup(struct glex_endpoint *ep)
{
    if (ep->mem.table != NULL) {
        glex_nicmem_cleanup(&ep->mem);
        munmap(ep->mem.table, mem_table_size());
        pthread_mutex_destroy(&ep->mem.lock);
    }
}

/* Reserve storage for the next entries of the shared table. */
static glex_ret_t mem_grow(struct glex_endpoint *ep)
{
    struct glex_segment *seg = &ep->segment;
    uint64_t off = glex_mmt_off(seg->mpq_capacity, seg->eq_capacity) +
                   seg->mmt_ready * sizeof(struct glex_mmt_entry);
    int fd, err;

    fd = glex_segment_reopen(ep->dev->dirfd, seg);
    err = fd < 0 ? errno : glex_segment_reserve(fd, 0, off, GLEX_MMT_STEP_SIZE);
    if (fd >= 0) {
        close(fd);
    }
    if (err != 0) {
        glex_error("cannot reserve room for more than %llu registrations: %s",
                   (unsigned long long)seg->mmt_ready, strerror(err));
        errno = err;
        return GLEX_NO_MEM_RESOURCE;
    }
    /* release: who sees the new limit finds storage behind it */
    seg->mmt_ready += GLEX_MMT_STEP;
    __atomic_store_n(&seg->hdr->mmt_ready, seg->mmt_ready, __ATOMIC_RELEASE);
    return GLEX_SUCCESS;
}

static void mem_free_entry(struct glex_mem *mem, uint32_t index)
{
    mem->table[index].next_free = MEM_NO_ENTRY;
    if (mem->num_free++ == 0) {
        mem->first_free = index;
    } else {
        mem->table[mem->last_free].next_free = index;
    }
    mem->last_free = index;
}

static uint32_t mem_reuse_entry(struct glex_mem *mem)
{
    uint32_t index = mem->first_free;

    mem->first_free = mem->table[index].next_free;
    mem->num_free--;
    return index;
}

static glex_ret_t mem_take_entry(struct glex_endpoint *ep, uint32_t *index_p)
{
    struct glex_mem *mem = &ep->mem;
    bool full = mem->used == GLEX_MMT_CAPACITY;

    /* Where the table cannot grow now, what is free is used again sooner. */
    if (mem->num_free >= MEM_MIN_FREE || (full && mem->num_free > 0) ||
        (!full && mem->used == ep->segment.mmt_ready && mem_grow(ep) != GLEX_SUCCESS &&
         mem->num_free > 0)) {
        *index_p = mem_reuse_entry(mem);
        return GLEX_SUCCESS;
    }
    if (mem->used == ep->segment.mmt_ready || full) {
        return GLEX_NO_MEM_RESOURCE;
    }
    *index_p = mem->used++;
    return GLEX_SUCCESS;
}

/*
 * Whether the whole range is mapped in this process. An asynchronous msync() does nothing but
 * that check.
 */
static bool mem_is_mapped(const char *addr, uint64_t len)
{
    uintptr_t start = (uintptr_t)addr & ~(glex_page_size() - 1);

    return msync((void *)start, (uintptr_t)addr + len - start, MS_ASYNC) == 0;
}

/*
 * The fields first; the state word, stored last, makes them valid. release for all: whoever reads a
 * new field also sees that the state was invalidated before, and whoever reads the new state sees
 * the new fields.
 */
static void mem_publish(struct glex_mem *mem, uint32_t index, char *addr, uint64_t len,
                        uint32_t flag)
{
    struct glex_mem_entry *entry = &mem->table[index];
    struct glex_mmt_entry *shared = &mem->mmt[index];
    uint32_t gen = entry->state == 0 ? mem->first_gen : (uint32_t)(entry->state >> 32) + 1;
    uint64_t state = (uint64_t)gen << 32 | flag | GLEX_MMT_VALID;

    __atomic_store_n(&entry->addr, addr, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->len, len, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->state, state, __ATOMIC_RELEASE);

    __atomic_store_n(&shared->addr, (uint64_t)(uintptr_t)addr, __ATOMIC_RELEASE);
    __atomic_store_n(&shared->len, len, __ATOMIC_RELEASE);
    __atomic_store_n(&shared->file_off, glex_nicmem_file_off(mem, addr, len), __ATOMIC_RELEASE);
    __atomic_store_n(&shared->state, state, __ATOMIC_RELEASE);
}

glex_ret_t glex_register_mem(glex_ep_handle_t handle, void *addr, uint64_t len, int32_t flag,
                             glex_mem_handle_t *mh)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_mem *mem;
    glex_ret_t ret;
    uint32_t index;

    if (handle == NULL || mh == NULL || addr == NULL || len == 0 || (flag & ~GLEX_MMT_FLAGS) ||
        (uintptr_t)addr + len < (uintptr_t)addr || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    mem = &ep->mem;
    if (!mem_is_mapped(addr, len)) {
        return GLEX_ACCESS_ERR;
    }

    pthread_mutex_lock(&mem->lock);
    /* Who may trace a process is for its user to decide: asked for only where peers need it. */
    if ((ep->dev->caps.caps & GLEX_EXT_CAP_PRIVATE_RDMA) &&
        glex_nicmem_file_off(mem, addr, len) == 0) {
        glex_caps_allow_private();
    }
    ret = mem_take_entry(ep, &index);
    if (ret == GLEX_SUCCESS) {
        mem_publish(mem, index, addr, len, (uint32_t)flag);
        mh->v = glex_mem_handle_v(index, mem->table[index].state);
    }
    pthread_mutex_unlock(&mem->lock);
    return ret;
}

glex_ret_t glex_deregister_mem(glex_ep_handle_t handle, glex_mem_handle_t mh)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_mem *mem;
    uint32_t index = mh.mmt_index;
    glex_ret_t ret = GLEX_INVALID_PARAM;
    uint64_t state;

    if (handle == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    mem = &ep->mem;

    pthread_mutex_lock(&mem->lock);
    if (glex_mem_range(mem, mh.v, UINT64_MAX, 0, 0, 0) != NULL) {
        state = mem->table[index].state & ~(uint64_t)GLEX_MMT_VALID;
        __atomic_store_n(&mem->mmt[index].state, state, __ATOMIC_RELEASE);
        __atomic_store_n(&mem->table[index].state, state, __ATOMIC_RELEASE);
        mem_free_entry(mem, index);
        ret = GLEX_SUCCESS;
    }
    pthread_mutex_unlock(&mem->lock);
    return ret;
}
